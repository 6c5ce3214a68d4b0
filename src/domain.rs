//! Pure decisions and plain data. Nothing in here awaits, logs, or knows a wire type; the clock and the dice are arguments.
//!
//! Read in this order: what comes in, what it becomes, how it is answered, what goes out; then the laws that actors apply.

pub mod ids;

pub(crate) mod incoming;

pub(crate) mod attachment;

pub(crate) mod triage;

pub(crate) mod pairs;

pub(crate) mod manners;
pub(crate) mod restriction;

pub(crate) mod ending;

pub(crate) mod answer_end;

pub(crate) mod given;

pub(crate) mod fire;

pub(crate) mod session_index;

pub(crate) mod signature;

pub(crate) mod lineage;

pub(crate) mod timer;

pub(crate) mod webhook;

pub(crate) mod api_key;

pub(crate) mod turn;

pub(crate) mod turn_event;

pub(crate) mod history;

pub mod fact;

pub mod audit;

pub(crate) mod completion;
pub(crate) mod embedding;

pub mod tool;

pub(crate) mod gate;

pub(crate) mod prompt;
pub(crate) mod proxies;

pub(crate) mod dialogue;

pub mod reply;

pub(crate) mod partial;

pub(crate) mod draft;

pub(crate) mod command;

pub(crate) mod delivery;
pub mod outgoing;
pub(crate) mod rejection;

pub(crate) mod code;

pub(crate) mod split;

pub mod layout;
pub(crate) mod locale;

pub(crate) mod notice;

pub(crate) mod presence;

pub(crate) mod schedule;

pub(crate) mod shed;

pub(crate) mod model;

pub mod counter;
pub mod daily;
pub mod keys;

pub(crate) mod ledger;

pub mod breaker;

pub(crate) mod patience;

pub mod near;
pub mod network;

pub(crate) mod refusals;

pub(crate) mod budget;

pub(crate) mod fair_queue;
pub mod limits;

pub(crate) mod latencies;
pub(crate) mod restart;

pub(crate) mod panic;
pub(crate) mod unquoted;
