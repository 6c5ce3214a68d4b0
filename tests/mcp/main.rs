//! Tool servers over MCP: real ones of the ecosystem, and hostile ones of our own.

mod authority;
mod built_ins;
mod children;
mod conformance;
mod ecosystem;
mod inquiries;
mod login;
mod nats;
mod served;
mod stdio;
mod support;
mod web;
