//! Calls that show something: messages, files, private messages and dialogues.

use std::time::Duration;

use axum::response::Response;
use serde_json::{Value, json};

use super::methods::{error, fine};
use super::state::Whisper;
use super::{Arguments, BOT, Message, Workspace};

/// The life of a trigger.
const TRIGGER: Duration = Duration::from_secs(3);
/// The maximum length of the text of an edit, in characters.
const EDIT_MAX: usize = 4_000;
/// The maximum length of a dialogue's private data, in characters.
const DATA_MAX: usize = 3_000;

impl Workspace {
    pub(super) fn post(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let text = of("text").unwrap_or_default();
        if text.is_empty() {
            return error("no_text");
        }
        let (Ok(blocks), Ok(metadata)) = (parsed(arguments, "blocks"), parsed(arguments, "metadata")) else {
            return error("invalid_arguments");
        };
        let mut state = self.state.lock();
        let (channel, thread) = (of("channel").unwrap_or_default(), of("thread_ts"));
        let message = Message {
            blocks: blocks.unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
            ..Message::of_bot(channel, state.next_ts(), thread, text)
        };
        state.add(message.clone());
        fine(json!({"channel": message.channel, "ts": message.ts, "message": message.wire()}))
    }

    /// Shares uploaded files: a message with files and without text.
    pub(super) fn share(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let Ok(Some(files)) = parsed(arguments, "files") else { return error("invalid_arguments") };
        let named = files[0]["id"].as_str().unwrap_or_default();
        let mut state = self.state.lock();
        let (channel, thread) = (of("channel_id").unwrap_or_default(), of("thread_ts"));
        let message = Message {
            file: json!({
                "id": named, "name": files[0]["title"], "url_private": format!("{}/files/{named}", self.url),
            }),
            ..Message::of_bot(channel, state.next_ts(), thread, String::new())
        };
        state.add(message);
        fine(json!({"files": files}))
    }

    /// Shows a message to one member.
    pub(super) fn shows_to_one(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned().unwrap_or_default();
        let mut state = self.state.lock();
        let ts = state.next_ts();
        let (user, channel, body) = (of("user"), of("channel"), json!(arguments));
        state.whisper(Whisper { user, channel, ts: ts.clone(), body, response: false });
        fine(json!({"message_ts": ts}))
    }

    /// Takes the response to an interaction or a command: one member sees it.
    pub(super) fn responds(&self, to: &Arguments, body: Value) {
        let of = |name: &str| to.get(name).cloned().unwrap_or_default();
        let mut state = self.state.lock();
        let ts = state.next_ts();
        state.whisper(Whisper { user: of("user"), channel: of("channel"), ts, body, response: true });
        drop(state);
        self.change();
    }

    /// Opens a dialogue for a trigger that is three seconds old at most.
    pub(super) fn open_view(&self, arguments: &Arguments) -> Response {
        let Ok(Some(mut view)) = parsed(arguments, "view") else { return error("invalid_arguments") };
        let mut state = self.state.lock();
        let known = arguments.get("trigger_id").and_then(|trigger| state.uses_trigger(trigger));
        match known {
            None => error("invalid_trigger_id"),
            Some((at, _)) if at.elapsed() > TRIGGER => error("expired_trigger_id"),
            Some((_, user)) => {
                if view["private_metadata"].as_str().unwrap_or_default().chars().count() > DATA_MAX {
                    return error("invalid_arguments");
                }
                view["id"] = format!("V{}", state.views.len() + 1).into();
                state.shows(user, view.clone());
                fine(json!({"view": view}))
            }
        }
    }

    pub(super) fn update(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let text = of("text").unwrap_or_default();
        if text.chars().count() > EDIT_MAX {
            return error("msg_too_long");
        }
        let (Ok(blocks), Ok(metadata)) = (parsed(arguments, "blocks"), parsed(arguments, "metadata")) else {
            return error("invalid_arguments");
        };
        let mut state = self.state.lock();
        let found = state.messages.iter_mut().find(|message| Some(&message.ts) == of("ts").as_ref());
        let Some(message) = found else { return error("message_not_found") };
        if message.user != BOT {
            return error("cant_update_message");
        }
        if message.streams.is_some() {
            return error("streaming_state_conflict");
        }
        (message.text, message.streamed) = (text, false);
        // Slack keeps the blocks and the metadata of an edit that names none.
        if let Some(blocks) = blocks {
            message.blocks = if blocks.as_array().is_some_and(Vec::is_empty) { Value::Null } else { blocks };
        }
        if let Some(metadata) = metadata {
            message.metadata = metadata;
        }
        message.edits += 1;
        fine(json!({"channel": message.channel, "ts": message.ts, "text": message.text}))
    }
}

/// Returns an argument that is JSON, if there is one.
fn parsed(arguments: &Arguments, name: &str) -> Result<Option<Value>, serde_json::Error> {
    arguments.get(name).map(|text| serde_json::from_str(text)).transpose()
}
