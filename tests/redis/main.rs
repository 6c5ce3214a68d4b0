//! The store and the whole bot on a real Redis or Valkey server, in normal operation and under failures.

mod bot;

mod campaign;

#[cfg(feature = "redis-cluster")]
mod cluster;

mod facts;

mod faults;

mod forwarding;

mod histories;

mod keys;

mod limits;

mod links;

mod logins;

mod migration;

mod moves;

mod owners;

mod patience;

mod proxy;

mod ranges;

mod rows;

mod scale;

#[cfg(feature = "redis-sentinel")]
mod sentinel;

mod server;

mod six;

mod support;
