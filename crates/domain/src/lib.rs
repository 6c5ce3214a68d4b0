//! Pure decisions and plain data: no async code, logging, wire types or I/O. The clock and random numbers are
//! arguments.
//!
//! | subject | modules |
//! |---|---|
//! | events of a door | [`incoming`], [`ids`], [`attachment`], [`document`], [`quoted`], [`caller`], [`host`], [`locale`] |
//! | which events get an answer | [`triage`], [`pairs`], [`manners`], [`restriction`], [`schedule`] |
//! | commands | [`command`], [`menu`], [`kept`], [`overview`], [`voice_channel`] |
//! | members | [`people`], [`preferences`], [`forgetting`], [`open_to`] |
//! | turns | [`turn`], [`policy`], [`given`], [`lineage`] |
//! | turns without a message | [`fire`], [`timer`], [`webhook`], [`signature`] |
//! | custody of turns | [`custody`], [`ownership`], [`session_index`] |
//! | stored data | [`keys`], [`mod@format`] |
//! | models | [`model`], [`completion`], [`embedding`], [`answer_end`], [`hosted`] |
//! | the reply of a turn | [`dialogue`], [`prompt`], [`history`], [`summary`], [`reply`], [`partial`] |
//! | tools and approvals | [`tool`], [`arguments_hash`], [`server_name`], [`gate`], [`question`], [`audit`] |
//! | facts | [`fact`], [`fact_id`] |
//! | posts | [`outgoing`], [`layout`], [`split`], [`code`], [`draft`], [`delivery`], [`rejection`] |
//! | sentences and status of the bot | [`notice`], [`presence`] |
//! | limits | [`limits`], [`budget`], [`fair_share`], [`fair_queue`], [`shared_map`], [`json_values`], [`shed`] |
//! | use and cost | [`effort`], [`ledger`], [`counter`], [`daily`], [`experiment`], [`arm_figures`], [`recorded`] |
//! | failures | [`ending`], [`restart`], [`breaker`], [`patience`], [`refusals`], [`mod@panic`] |
//! | reports to observers and clients | [`happening`], [`turn_event`], [`latencies`] |
//! | access over HTTP | [`api_key`], [`proxies`], [`network`] |
//! | text | [`clean`], [`unquoted`], [`near`], [`wildcard`], [`hex`] |
//! | tests | [`planted`] |

pub mod arguments_hash;
pub mod arm_figures;
pub mod caller;
pub mod clean;
pub mod effort;
pub mod experiment;
pub mod fact_id;
pub mod fair_share;
pub mod hex;
pub mod ids;
pub mod json_values;
pub mod kept;
mod key_part;
pub mod menu;
pub mod open_to;
pub mod overview;
pub mod planted;
pub mod policy;
pub mod quoted;
pub mod recorded;
pub mod server_name;

pub mod incoming;

pub mod attachment;

pub mod document;

pub mod triage;

pub mod pairs;

pub mod people;

pub mod manners;
pub mod restriction;

pub mod ending;

pub mod answer_end;

pub mod given;

pub mod fire;

pub mod session_index;

pub mod shared_map;

pub mod signature;

pub mod lineage;

pub mod timer;

pub mod voice_channel;
pub mod webhook;

pub mod wildcard;

pub mod api_key;

pub mod turn;

pub mod ownership;

pub mod custody;

pub mod turn_event;

pub mod happening;

pub mod forgetting;
pub mod format;
pub mod history;
pub mod host;
pub mod summary;

pub mod fact;

pub mod audit;

pub mod completion;
pub mod embedding;
pub mod hosted;

pub mod question;

pub mod tool;

pub mod gate;

pub mod prompt;
pub mod proxies;

pub mod dialogue;

pub mod reply;

pub mod partial;

pub mod draft;

pub mod command;

pub mod delivery;
pub mod outgoing;
pub mod rejection;

pub mod code;

pub mod split;

pub mod layout;
pub mod locale;

pub mod notice;

pub mod preferences;

pub mod presence;

pub mod schedule;

pub mod shed;

pub mod model;

pub mod counter;
pub mod daily;
pub mod keys;

pub mod ledger;

pub mod breaker;

pub mod patience;

pub mod near;
pub mod network;

pub mod refusals;

pub mod budget;

pub mod fair_queue;
pub mod limits;

pub mod latencies;
pub mod restart;

pub mod panic;
pub mod unquoted;

#[cfg(test)]
mod fuzz;
