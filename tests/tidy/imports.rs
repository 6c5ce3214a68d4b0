//! Who may know whom.

use crate::source::{File, Finding, Token, behind_group, tokens};

/// Rooms that speak with the outside. None knows another, and none knows the actors.
const EDGES: [&str; 13] = [
    "discord",
    "slack",
    "chat_service",
    "hooks",
    "model_api",
    "terminal",
    "api",
    "llm",
    "mcp",
    "tools",
    "render",
    "store",
    "playground",
];

/// The other rooms, and the rooms that each may use besides itself.
const ROOMS: [(&str, &[&str]); 10] = [
    ("nats", &[]),
    ("http_client", &[]),
    ("problem", &[]),
    ("domain", &[]),
    ("ports", &["domain"]),
    ("telemetry", &["domain", "ports"]),
    ("config", &["domain", "ports", "telemetry"]),
    ("actors", &["domain", "ports", "config", "telemetry"]),
    ("lib", &[]),
    ("cost", &[]),
];

/// What an edge may use besides itself.
const EDGE_USES: [&str; 5] = ["domain", "ports", "nats", "http_client", "problem"];

/// Rooms that may use everything.
const TOP: [&str; 2] = ["app", "main"];

/// All that pure code may use.
const PURE_CRATES: [&str; 18] = [
    "std",
    "core",
    "alloc",
    "base64",
    "serde",
    "serde_json",
    "jsonschema",
    // The one kind of lock, for caches.
    "parking_lot",
    "unicode_normalization",
    "unicode_segmentation",
    "sha2",
    "hmac",
    "compact_str",
    "jiff",
    "croner",
    "thiserror",
    "memchr",
    "imagesize",
];

/// Crates that stay in these rooms, besides those at the top.
const OWNED_CRATES: [(&str, &[&str]); 36] = [
    ("ractor", &["actors"]),
    ("serenity", &["discord", "playground"]),
    ("twilight_gateway", &["discord"]),
    ("twilight_model", &["discord"]),
    ("async_openai", &["llm"]),
    ("redb", &["store"]),
    ("redis", &["store"]),
    ("deadpool_redis", &["store"]),
    ("rmcp", &["mcp"]),
    ("slack_morphism", &["slack"]),
    ("async_nats", &["nats", "mcp", "chat_service"]),
    ("encoding_rs", &["tools"]),
    ("html5gum", &["tools"]),
    ("mysql_async", &["tools"]),
    ("rusqlite", &["tools"]),
    ("sqlparser", &["tools"]),
    ("tokio_postgres", &["tools"]),
    ("ratex_font", &["render"]),
    ("ratex_layout", &["render"]),
    ("ratex_parser", &["render"]),
    ("ratex_render", &["render"]),
    ("ratex_types", &["render"]),
    ("tiny_skia", &["render"]),
    ("reqwest", &EDGES),
    ("axum", &EDGES),
    ("hyper", &["api", "llm", "http_client"]),
    ("hyper_rustls", &["http_client"]),
    ("hyper_util", &["api", "http_client"]),
    ("rustls_platform_verifier", &["http_client"]),
    ("tower", &["api", "llm", "terminal", "http_client"]),
    ("tokio_tungstenite", &EDGES),
    ("rustls", &["api", "discord", "llm", "mcp", "playground", "terminal", "tools", "http_client"]),
    ("metrics_exporter_prometheus", &["telemetry"]),
    ("tracing_subscriber", &["telemetry"]),
    ("clap", &["config"]),
    ("anyhow", &[]),
];

/// Every use of another room is on the map.
pub fn directions(file: &File) -> Vec<Finding> {
    let Some(room) = file.room() else { return Vec::new() };
    if TOP.contains(&room) {
        return Vec::new();
    }
    let uses: &[&str] = if EDGES.contains(&room) {
        &EDGE_USES
    } else if let Some((_, uses)) = ROOMS.iter().find(|(name, _)| *name == room) {
        uses
    } else {
        return vec![file.finding(
            0,
            "import direction",
            format!("'{room}' is not on the map in tests/tidy/imports.rs"),
        )];
    };
    rooms_used(&file.shipped, file.depth())
        .into_iter()
        .filter(|used| used.text != room && !uses.contains(&used.text))
        .map(|used| file.finding(used.at, "import direction", format!("{room} may not use {}", used.text)))
        .collect()
}

/// Pure code uses pure crates, and each library stays in its room.
pub fn libraries(file: &File) -> Vec<Finding> {
    let Some(room) = file.room().filter(|room| !TOP.contains(room)) else { return Vec::new() };
    let refused = |name: &str| {
        let owned = OWNED_CRATES.iter().find(|(owned, _)| *owned == name);
        let impure = room == "domain" && is_crate(name) && !PURE_CRATES.contains(&name);
        impure || owned.is_some_and(|(_, rooms)| !rooms.contains(&room))
    };
    crates_used(&file.shipped)
        .into_iter()
        .filter(|used| refused(used.text))
        .map(|used| file.finding(used.at, "library", format!("{room} may not use {}", used.text)))
        .collect()
}

/// The crates that the manifest names.
fn is_crate(name: &str) -> bool {
    let sections = include_str!("../../Cargo.toml").split("\n[");
    let dependencies = sections.filter(|section| section.contains("dependencies]"));
    dependencies.flat_map(str::lines).any(|line| {
        line.split_once(" = ").is_some_and(|(dependency, _)| dependency.trim_matches('"').replace('-', "_") == name)
    })
}

/// The names at the root of this crate that the code mentions.
fn rooms_used(code: &str, depth: usize) -> Vec<Token<'_>> {
    let tokens = tokens(code);
    let word = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let mut next = index + 1;
        let at_root = match word(index) {
            "crate" | "staffai" => word(index + 1) == "::",
            "super" => {
                let mut steps = 1;
                while word(next) == "::" && word(next + 1) == "super" {
                    (steps, next) = (steps + 1, next + 2);
                }
                steps == depth && word(next) == "::"
            }
            _ => false,
        };
        if at_root {
            found.extend(heads(&tokens, next + 1));
        }
        index = next;
    }
    found
}

/// The crates that paths in the code begin with.
fn crates_used(code: &str) -> Vec<Token<'_>> {
    let tokens = tokens(code);
    let word = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let inner = index > 0 && matches!(word(index - 1), "::" | ".");
        if inner && word(index) == "{" {
            // Names in here go on with the path in front of the group.
            index = behind_group(&tokens, index);
            continue;
        }
        let absolute = index > 0 && word(index - 1) == "::" && (index < 2 || !is_path(word(index - 2)));
        let imported = index > 0 && word(index - 1) == "use";
        if (!inner || absolute) && (word(index + 1) == "::" || imported) {
            found.push(tokens[index]);
        }
        index += 1;
    }
    found
}

fn is_path(text: &str) -> bool {
    text == ">" || text.ends_with(|last: char| last.is_alphanumeric() || last == '_')
}

/// The first name behind a path's `::`, or each first name of the group there.
fn heads<'a>(tokens: &[Token<'a>], index: usize) -> Vec<Token<'a>> {
    let Some(first) = tokens.get(index) else { return Vec::new() };
    if first.text != "{" {
        return vec![*first];
    }
    let end = behind_group(tokens, index);
    let mut found = Vec::new();
    let mut at = index + 1;
    let mut fresh = true;
    while at + 1 < end {
        match tokens[at].text {
            "," => fresh = true,
            "{" => {
                at = behind_group(tokens, at);
                continue;
            }
            _ if fresh => {
                found.push(tokens[at]);
                fresh = false;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&File) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        rule(&File::new(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn wrong_directions_are_found() {
        for (path, text, line, wanted) in [
            ("src/domain/turn.rs", "use crate::ports::Clock;", 1, "domain may not use ports"),
            ("src/domain/turn.rs", "use super::super::actors;", 1, "domain may not use actors"),
            ("src/domain.rs", "use super::ports::Clock;", 1, "domain may not use ports"),
            ("src/ports.rs", "\nfn f() { crate::config::load() }", 2, "ports may not use config"),
            ("src/actors/outbox.rs", "use crate::discord::rest;", 1, "actors may not use discord"),
            ("src/actors/outbox.rs", "use crate::{domain::ids, app};", 1, "actors may not use app"),
            ("src/actors/outbox.rs", "use crate::{domain::{ids, a}, store::{b, c}};", 1, "actors may not use store"),
            ("src/discord/rest.rs", "use crate::llm::client;", 1, "discord may not use llm"),
            ("src/discord/rest.rs", "// x\n/* y */\nuse crate::actors::tree;", 3, "discord may not use actors"),
            ("src/store/keys.rs", "pub(in crate::api) fn f() {}", 1, "store may not use api"),
            ("src/config/env.rs", "use crate::app;", 1, "config may not use app"),
            ("src/telemetry.rs", "use staffai::actors;", 1, "telemetry may not use actors"),
            ("src/helpers.rs", "", 1, "'helpers' is not on the map in tests/tidy/imports.rs"),
        ] {
            assert_eq!(found(directions, path, text), [format!("{path}:{line}: import direction: {wanted}")], "{text}");
        }
    }

    #[test]
    fn right_directions_are_not() {
        for (path, text) in [
            ("src/domain/turn.rs", "use super::ids; use crate::domain::{ids, incoming}; pub(crate) fn f() {}"),
            ("src/domain/turn.rs", "#[cfg(test)] mod tests { use crate::store::x; }"),
            ("src/domain/turn.rs", "// crate::store::x\nconst A: &str = \"crate::store::x\";"),
            ("src/actors/outbox.rs", "use crate::{config, domain::ids, ports::{store, Poster}, telemetry};"),
            ("src/discord/rest.rs", "use super::events; use crate::discord::wire; use crate::ports::Poster;"),
            ("src/app.rs", "use crate::{actors, discord, llm};"),
            ("src/main.rs", "use staffai::app;"),
            ("tests/chat.rs", "use staffai::store;"),
        ] {
            assert!(found(directions, path, text).is_empty(), "{text}");
        }
    }

    #[test]
    fn libraries_in_wrong_rooms_are_found() {
        for (path, text, wanted) in [
            ("src/domain/turn.rs", "use tokio::time::sleep;", "domain may not use tokio"),
            ("src/domain/turn.rs", "fn f(a: ::ractor::ActorRef<u8>) {}", "domain may not use ractor"),
            ("src/domain/turn.rs", "fn f() { tracing::info!(\"x\") }", "domain may not use tracing"),
            ("src/actors/shard.rs", "use serenity::model::Message;", "actors may not use serenity"),
            ("src/actors/shard.rs", "use redb;", "actors may not use redb"),
            ("src/llm/client.rs", "use ractor::ActorRef;", "llm may not use ractor"),
            ("src/ports.rs", "pub type A = reqwest::Client;", "ports may not use reqwest"),
            ("src/store/keys.rs", "fn f() -> anyhow::Result<()> {}", "store may not use anyhow"),
        ] {
            assert_eq!(found(libraries, path, text), [format!("{path}:1: library: {wanted}")], "{text}");
        }
    }

    #[test]
    fn libraries_in_their_rooms_are_not() {
        for (path, text) in [
            (
                "src/domain/turn.rs",
                "use serde::Serialize; use std::fmt; use super::model::config::A; use jiff::tz::{http, tokio};",
            ),
            ("src/domain/turn.rs", "fn f() { self.tokio::<u8>(); Tokio::new() }"),
            ("src/actors/shard.rs", "use ractor::ActorRef; use tokio::time::Instant; use crate::ports::http::X;"),
            ("src/discord/rest.rs", "use serenity::all::{Message, redb::X}; use reqwest::Client;"),
            ("src/app.rs", "use anyhow::Context;"),
        ] {
            assert_eq!(found(libraries, path, text), Vec::<String>::new(), "{text}");
        }
    }
}
