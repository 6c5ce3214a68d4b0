//! Stories of the whole bot: the playground's Discord service and a scripted model over real sockets, with the real
//! tree between them. `support` has the world in which they happen.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts allocations for `counts`.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[path = "bot/clock.rs"]
mod clock;

#[path = "bot/model.rs"]
mod model;

#[path = "bot/model_responses.rs"]
mod model_responses;

#[path = "bot/process.rs"]
mod process;

#[path = "bot/support.rs"]
mod support;

#[path = "bot/talk.rs"]
mod talk;

#[path = "bot/responses_wire.rs"]
mod responses_wire;

#[path = "bot/hosted_tools.rs"]
mod hosted_tools;

#[path = "bot/sessions.rs"]
mod sessions;
#[path = "bot/settings.rs"]
mod settings;

#[path = "bot/linking.rs"]
mod linking;

#[path = "bot/api_keys.rs"]
mod api_keys;

#[path = "bot/agents.rs"]
mod agents;

#[path = "bot/clean_calls.rs"]
mod clean_calls;

#[path = "bot/load.rs"]
mod load;

#[path = "bot/asking_servers.rs"]
mod asking_servers;

#[path = "bot/terminal.rs"]
mod terminal;

#[path = "bot/interjections.rs"]
mod interjections;

#[path = "bot/triggers.rs"]
mod triggers;

#[path = "bot/long_answers.rs"]
mod long_answers;

#[path = "bot/programs.rs"]
mod programs;

#[path = "bot/response_sockets.rs"]
mod response_sockets;

#[path = "bot/presence.rs"]
mod presence;

#[path = "bot/memory.rs"]
mod memory;

#[path = "bot/summaries.rs"]
mod summaries;

#[path = "bot/attachments.rs"]
mod attachments;

#[path = "bot/read_documents.rs"]
mod read_documents;

#[path = "bot/prompts.rs"]
mod prompts;

#[path = "bot/commands.rs"]
mod commands;

#[path = "bot/ledger.rs"]
mod ledger;

#[path = "bot/posting.rs"]
mod posting;

#[path = "bot/typed.rs"]
mod typed;

#[path = "bot/voice.rs"]
mod voice;

#[cfg(feature = "voice-server")]
#[path = "bot/voice_channels.rs"]
mod voice_channels;
#[path = "bot/voice_costs.rs"]
mod voice_costs;

#[path = "bot/voice_figures.rs"]
mod voice_figures;

#[path = "bot/voice_tools.rs"]
mod voice_tools;

#[path = "bot/voice_vtuber.rs"]
mod voice_vtuber;

#[path = "bot/approvals.rs"]
mod approvals;

#[path = "bot/tools.rs"]
mod tools;

#[path = "bot/data_tools.rs"]
mod data_tools;

#[path = "bot/facts.rs"]
mod facts;

#[path = "bot/streaming.rs"]
mod streaming;

#[path = "bot/reading_along.rs"]
mod reading_along;

#[path = "bot/model_faults.rs"]
mod model_faults;

#[path = "bot/hostile_models.rs"]
mod hostile_models;

#[path = "bot/discord_faults.rs"]
mod discord_faults;

#[path = "bot/refused_posts.rs"]
mod refused_posts;

#[path = "bot/away.rs"]
mod away;

#[path = "bot/process_faults.rs"]
mod process_faults;

#[path = "bot/confined.rs"]
mod confined;

#[path = "bot/actor_faults.rs"]
mod actor_faults;

#[path = "bot/restrictions.rs"]
mod restrictions;

#[path = "bot/limits.rs"]
mod limits;

#[path = "bot/floods.rs"]
mod floods;

#[path = "bot/fairness.rs"]
mod fairness;

#[path = "bot/operations.rs"]
mod operations;

#[path = "bot/reload.rs"]
mod reload;

#[path = "bot/python_bot.rs"]
mod python_bot;

#[path = "bot/traces.rs"]
mod traces;

#[path = "bot/providers.rs"]
mod providers;

#[path = "bot/tool_servers.rs"]
mod tool_servers;

#[path = "bot/model_api.rs"]
mod model_api;

#[path = "bot/model_wire.rs"]
mod model_wire;

#[path = "bot/counts.rs"]
mod counts;

#[path = "bot/prompt_caches.rs"]
mod prompt_caches;

#[path = "bot/experiments.rs"]
mod experiments;

#[path = "bot/replay.rs"]
mod replay;

#[path = "bot/hostile_tools.rs"]
mod hostile_tools;

#[path = "bot/large_lists.rs"]
mod large_lists;

#[path = "bot/two_doors.rs"]
mod two_doors;
