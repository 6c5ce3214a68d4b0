//! Slack's streaming calls: a message grows by Markdown until its stream is stopped, or closed by Slack.
//!
//! Source: `docs.slack.dev/reference/methods/chat.startStream`.

use std::time::Duration;

use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::methods::{error, fine};
use super::state::State;
use super::{Arguments, Message, Workspace};

/// The most characters of a call.
const TEXT_MAX: usize = 12_000;

impl Workspace {
    pub(super) fn start_stream(&self, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned();
        let mut state = self.state.lock();
        if state.options.streams.is_none() {
            return error("unknown_method");
        }
        let (Some(channel), Some(thread)) = (of("channel"), of("thread_ts")) else { return error("invalid_arguments") };
        let named = of("recipient_user_id").is_some() && of("recipient_team_id").is_some();
        if !channel.starts_with('D') && !named {
            return error("missing_recipient_user_id");
        }
        let text = text_of(arguments);
        if text.chars().count() > TEXT_MAX {
            return error("msg_too_long");
        }
        let message = Message {
            streamed: true,
            streams: Some(Instant::now()),
            ..Message::of_bot(channel, state.next_ts(), Some(thread), text)
        };
        state.add(message.clone());
        fine(json!({"channel": message.channel, "ts": message.ts}))
    }

    pub(super) fn append_stream(&self, arguments: &Arguments) -> Response {
        let mut state = self.state.lock();
        match state.streaming(arguments) {
            Err(name) => error(name),
            Ok(message) => {
                let text = text_of(arguments);
                if text.is_empty() || text.chars().count() > TEXT_MAX {
                    return error("no_text");
                }
                message.text.push_str(&text);
                fine(json!({"channel": message.channel, "ts": message.ts}))
            }
        }
    }

    pub(super) fn stop_stream(&self, arguments: &Arguments) -> Response {
        let mut state = self.state.lock();
        match state.streaming(arguments) {
            Err(name) => error(name),
            Ok(message) => {
                message.text.push_str(&text_of(arguments));
                if let Some(metadata) = arguments.get("metadata") {
                    message.metadata = serde_json::from_str(metadata).unwrap_or_default();
                }
                message.streams = None;
                fine(json!({"channel": message.channel, "ts": message.ts}))
            }
        }
    }
}

/// Returns the text of a call: its own, and that of its chunks.
fn text_of(arguments: &Arguments) -> String {
    let chunks = arguments.get("chunks").and_then(|chunks| serde_json::from_str::<Vec<Value>>(chunks).ok());
    let chunks: String = chunks.iter().flatten().filter_map(|chunk| chunk["text"].as_str()).collect();
    arguments.get("markdown_text").cloned().unwrap_or_default() + &chunks
}

impl State {
    /// Returns the open stream of a call, or the name of the error.
    fn streaming(&mut self, arguments: &Arguments) -> Result<&mut Message, &'static str> {
        let lasts = self.options.streams.unwrap_or(Duration::ZERO);
        let found = self.messages.iter_mut().find(|message| Some(&message.ts) == arguments.get("ts"));
        let message = found.ok_or("message_not_found")?;
        if message.streams.is_some_and(|begun| begun.elapsed() > lasts) {
            message.streams = None;
        }
        if message.streams.is_none() { Err("message_not_in_streaming_state") } else { Ok(message) }
    }
}
