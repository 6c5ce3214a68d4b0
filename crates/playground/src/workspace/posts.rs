//! Calls that show something: messages, files, private messages and dialogues.

use std::time::Duration;

use axum::response::Response;
use serde_json::{Value, json};

use super::methods::{error, fine};
use super::state::{Whisper, bot_of};
use super::{Arguments, Message, Workspace};

/// The life of a trigger.
const TRIGGER: Duration = Duration::from_secs(3);
/// The maximum length of the text of an edit, in characters.
const EDIT_MAX: usize = 4_000;
/// The maximum length of a dialogue's private data, in characters.
const DATA_MAX: usize = 3_000;
/// The maximum length of a dialogue's title, in characters, and its maximum number of blocks.
const TITLE_MAX: usize = 24;
const BLOCKS_MAX: usize = 100;
/// The maximum number of pages in the app home.
const HOMES: usize = 256;

impl Workspace {
    pub(super) fn post(&self, app: usize, arguments: &Arguments) -> Response {
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
            user: self.apps[app].user.to_owned(),
            ..Message::of_bot(channel, state.next_ts(), thread, text)
        };
        state.add(message.clone());
        drop(state);
        if self.apps.len() > 1 {
            self.deliver_message(&message);
        }
        fine(json!({"channel": message.channel, "ts": message.ts, "message": message.wire()}))
    }

    /// Shares uploaded files: a message with files and without text.
    pub(super) fn share(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let Ok(Some(files)) = parsed(arguments, "files") else { return error("invalid_arguments") };
        let named = files[0]["id"].as_str().unwrap_or_default();
        let mut state = self.state.lock();
        let (channel, thread) = (of("channel_id").unwrap_or_default(), of("thread_ts"));
        let size = state.file(&format!("/upload/{named}")).unwrap_or_default().len();
        let is_png = named.rsplit_once('.').is_some_and(|(_, ending)| ending == "png");
        let kind = if is_png { "image/png" } else { "application/octet-stream" };
        let message = Message {
            file: json!({
                "id": named, "name": files[0]["title"], "mimetype": kind, "size": size,
                "url_private": format!("{}/files/{named}", self.url),
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
        let Ok(Some(view)) = parsed(arguments, "view") else { return error("invalid_arguments") };
        let mut state = self.state.lock();
        let known = arguments.get("trigger_id").and_then(|trigger| state.uses_trigger(trigger));
        match known {
            None => error("invalid_trigger_id"),
            Some((at, _)) if at.elapsed() > TRIGGER => error("expired_trigger_id"),
            Some((_, user)) => {
                if is_too_long(&view) {
                    return error("invalid_arguments");
                }
                fine(json!({"view": state.shows(user, view)}))
            }
        }
    }

    /// Replaces the content of an open dialogue.
    pub(super) fn update_view(&self, arguments: &Arguments) -> Response {
        let Ok(Some(view)) = parsed(arguments, "view") else { return error("invalid_arguments") };
        let id = arguments.get("view_id").map(String::as_str).unwrap_or_default();
        if is_too_long(&view) {
            return error("invalid_arguments");
        }
        if self.state.lock().replaces(id, view) { fine(json!({})) } else { error("not_found") }
    }

    /// Shows the bot's page in the app home of a member.
    pub(super) fn publish_view(&self, arguments: &Arguments) -> Response {
        let Ok(Some(view)) = parsed(arguments, "view") else { return error("invalid_arguments") };
        let mut state = self.state.lock();
        let user = arguments.get("user_id").cloned().unwrap_or_default();
        if !state.homes.contains_key(&user) && state.homes.len() >= HOMES {
            state.homes.pop_first();
        }
        state.homes.insert(user, view);
        fine(json!({}))
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
        if bot_of(&message.user).is_none() {
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

/// True if a dialogue exceeds the limits of Slack: its blocks, and its private data.
fn is_too_long(view: &Value) -> bool {
    let data = view["private_metadata"].as_str().unwrap_or_default();
    let title = view["title"]["text"].as_str().unwrap_or_default();
    let blocks = view["blocks"].as_array().map(Vec::len).unwrap_or_default();
    data.chars().count() > DATA_MAX || title.chars().count() > TITLE_MAX || blocks > BLOCKS_MAX
}

/// Returns an argument that is JSON, if there is one.
fn parsed(arguments: &Arguments, name: &str) -> Result<Option<Value>, serde_json::Error> {
    arguments.get(name).map(|text| serde_json::from_str(text)).transpose()
}
