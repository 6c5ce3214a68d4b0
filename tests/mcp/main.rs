//! Tool servers over MCP: real ones, and hostile ones of the tests.

mod asking;
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
