//! Observers of events: time lines of turns, the tool audit, the event streams of clients. Also the states
//! of parts, and samples.

pub mod audit;
pub mod board;
pub mod daily;
pub mod instruments;
pub mod past;
pub mod samples;
pub mod timeline;
pub mod tool_health;
pub mod turn_events;
pub mod vitals;
