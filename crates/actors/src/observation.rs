//! Readers of the account of what happens: time lines of turns, the audit of tools, the events of clients. Beside them: parts and
//! their states, samples.

pub mod audit;
pub mod board;
pub mod daily;
pub mod past;
pub mod samples;
pub mod timeline;
pub mod turn_events;
pub mod vitals;
