//! The local Discord service as a client sees it, over real sockets.

mod faults;
mod gateway;
mod independent;
mod interactions;
mod rest;
mod support;
mod twilight;
mod types;
