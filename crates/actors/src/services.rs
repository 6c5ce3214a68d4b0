//! Shared state and functions of several actors. This state outlives a crash of any of them.

pub(crate) mod allowances;
pub(crate) mod alone;
pub mod basics;
pub mod busy;
pub mod call_by;
pub mod clean_calls;
pub(crate) mod conversation_records;
pub mod embeddings;
pub(crate) mod experiments;
pub mod facts;
pub mod forgotten;
pub mod histories;
pub mod in_flight;

pub mod in_force;
pub mod interjections;
pub(crate) mod later;
pub mod ledger;
pub mod links;
pub(crate) mod locks;
pub mod long_results;
pub mod own_ranges;
pub mod preferences;
pub mod prompt_sections;
pub mod recorded;
pub(crate) mod restricted;
pub mod reused_results;
pub mod running;
pub(crate) mod settlement;
pub mod standings;
pub(crate) mod tool_use;
pub mod toolbox;
pub mod usable_tools;
pub mod work_costs;
