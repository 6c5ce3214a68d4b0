//! Stories of the bot at Slack: a local service that speaks Slack's Web API and Socket Mode over real sockets, with
//! Slack's faults, a scripted model, and the real tree between them.

#[expect(dead_code, reason = "other stories use the rest")]
#[path = "../bot/model.rs"]
mod model;

#[path = "../bot/model_responses.rs"]
mod model_responses;

#[expect(dead_code, reason = "other stories use the rest")]
#[path = "../bot/process.rs"]
mod process;

#[expect(dead_code, reason = "other stories use the rest")]
#[path = "../bot/asking_servers/server.rs"]
mod asking_server;

mod answers;

mod commands;

mod counterpart;

mod endurance;

mod extras;

mod faults;

mod forms;

mod setup;

mod sockets;

mod streams;

mod two_apps;

mod world;
