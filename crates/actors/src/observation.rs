//! The account that operators read: parts and their states, turns with their path, samples, the audit of tools.

pub mod audit;
pub mod board;
pub mod daily;
pub mod past;
pub mod samples;
pub mod timeline;
pub mod turn_events;
pub mod vitals;
