//! The message names of Open-LLM-VTuber's front end, mapped onto the events and requests of a socket.
//!
//! That front end plays one message per sentence, with its text and its whole audio. It has no approvals and no mute, and
//! keeps lists of conversations and characters, which are empty here.

mod sound;

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::wire::{Content, Event, Request};
use domain::turn_event::ToolState;

/// Maximum size of a message of the client, in bytes: 4,096 samples as decimal numbers.
pub(super) const MESSAGE_MAX: usize = 256 * 1024;
/// Maximum bytes of text that waits for the audio of an earlier sentence.
const WAITING_MAX: usize = 256 * 1024;
/// The name that the front end shows.
const NAME: &str = "staffai";

/// The mapping of one socket.
pub(super) struct Vtuber {
    /// The name of the session, which is the id of its only conversation.
    session: String,
    /// The turn that began last.
    turn: String,
    /// The visible characters of that turn up to the end of each sentence, without white space.
    shown: Vec<usize>,
    /// The sentences whose text was not sent yet, in order.
    waiting: VecDeque<Waiting>,
    /// True while the client sends samples.
    is_listening: bool,
    had_audio: bool,
}

/// A sentence that waits for its audio, or for an earlier one.
struct Waiting {
    turn: String,
    number: usize,
    text: String,
    emotions: Vec<&'static str>,
    format: &'static str,
    audio: Vec<u8>,
    is_complete: bool,
}

/// A step that a message of the client requests.
#[derive(Debug)]
pub(super) enum Step {
    Request(Request),
    /// Samples of the speaker, as in binary messages.
    Samples(Vec<u8>),
    Reply(Value),
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    audio: Vec<f32>,
    #[serde(default)]
    history_uid: Option<String>,
}

impl Vtuber {
    pub fn new(session: String) -> Self {
        Self {
            session,
            turn: String::new(),
            shown: Vec::new(),
            waiting: VecDeque::new(),
            is_listening: false,
            had_audio: false,
        }
    }

    /// Returns the messages of an event.
    pub fn messages(&mut self, event: &Event) -> Vec<Value> {
        let Event { turn, content, .. } = event;
        match content {
            Content::Ready { hears, .. } => self.greeting(hears.is_some()),
            Content::Speech { on: true } => vec![json!({"type": "control", "text": "interrupt"})],
            Content::Heard { text, last: true } => vec![json!({"type": "user-input-transcription", "text": text})],
            Content::Accepted => {
                self.turn.clone_from(turn);
                (self.shown, self.had_audio) = (Vec::new(), false);
                let begins = json!({"type": "control", "text": "conversation-chain-start"});
                vec![begins, full_text("Thinking...")]
            }
            Content::Sentence(sentence) => {
                if *turn == self.turn {
                    let before = self.shown.last().copied().unwrap_or_default();
                    self.shown.push(before + visible(&sentence.text));
                }
                self.waiting.push_back(Waiting {
                    turn: turn.clone(),
                    number: sentence.number,
                    text: sentence.text.clone(),
                    emotions: sentence.emotions.clone(),
                    format: "",
                    audio: Vec::new(),
                    is_complete: !sentence.has_audio,
                });
                if self.waiting.iter().map(|waiting| waiting.text.len()).sum::<usize>() > WAITING_MAX {
                    self.complete(|_| true);
                }
                self.ready()
            }
            Content::Audio { sentence, format, data, end } => {
                self.audio((turn, *sentence), (format, data), *end);
                self.ready()
            }
            Content::Error { sentence: Some(sentence), .. } => {
                self.complete(|waiting| waiting.turn == *turn && waiting.number == *sentence);
                self.ready()
            }
            Content::TextOnly { why } => {
                self.complete(|waiting| waiting.turn == *turn);
                let mut messages = self.ready();
                messages.push(error(why));
                messages
            }
            Content::Error { sentence: None, why } => vec![error(why)],
            Content::ToolStatus { call, name, state, .. } => vec![json!({
                "type": "tool_call_status", "tool_id": call, "tool_name": name, "name": NAME, "content": "",
                "status": match state {
                    ToolState::Running => "running",
                    ToolState::Succeeded => "completed",
                    ToolState::Failed | ToolState::Denied => "error",
                },
            })],
            Content::Approval { question, decision: None, .. } => vec![full_text(question)],
            Content::Interrupted { .. } => {
                self.waiting.retain(|waiting| waiting.turn != *turn);
                Vec::new()
            }
            Content::Done { .. } => self.done(turn),
            Content::Submitted(submitted) => submitted.said.as_deref().map(full_text).into_iter().collect(),
            Content::Pong => vec![json!({"type": "heartbeat-ack"})],
            Content::Speech { on: false }
            | Content::Heard { last: false, .. }
            | Content::Approval { decision: Some(_), .. }
            | Content::Picture { .. }
            | Content::Missed => Vec::new(),
        }
    }

    /// Returns the steps of a message of the client.
    ///
    /// # Errors
    /// It is no such message, or not supported.
    pub fn read(&mut self, text: &str) -> Result<Vec<Step>, String> {
        let message: Message = serde_json::from_str(text).map_err(|error| format!("not understood: {error}"))?;
        let text = message.text.unwrap_or_default();
        let request = |request| Ok(vec![Step::Request(request)]);
        let reply = |value| Ok(vec![Step::Reply(value)]);
        match message.kind.as_str() {
            "text-input" => request(Request::Text { text, id: None }),
            "mic-audio-data" => Ok(self.samples(&message.audio, false)),
            "raw-audio-data" => Ok(self.samples(&message.audio, true)),
            "mic-audio-end" => {
                self.is_listening = false;
                request(Request::ListenEnd)
            }
            "interrupt-signal" if self.turn.is_empty() => Ok(Vec::new()),
            "interrupt-signal" => {
                request(Request::Interrupt { spoken_to: self.heard(&text), turn: Some(self.turn.clone()) })
            }
            "heartbeat" => request(Request::Ping),
            "fetch-backgrounds" => reply(json!({"type": "background-files", "files": []})),
            "fetch-configs" => reply(json!({"type": "config-files", "configs": []})),
            "fetch-history-list" => reply(json!({"type": "history-list", "histories": []})),
            "create-new-history" => reply(json!({"type": "new-history-created", "history_uid": self.session})),
            "fetch-and-set-history" => reply(json!({"type": "history-data", "messages": []})),
            "delete-history" => reply(
                json!({"type": "history-deleted", "success": false, "history_uid": message.history_uid.unwrap_or_default()}),
            ),
            "request-init-config" => reply(self.character()),
            "request-group-info" => reply(group()),
            // Playback is not waited for.
            "frontend-playback-complete" | "audio-play-start" => Ok(Vec::new()),
            kind => Err(format!("not supported: {}", kind.chars().take(40).collect::<String>())),
        }
    }

    /// Records that the socket ended the stream of samples: the next samples begin another one.
    pub const fn stream_ended(&mut self) {
        self.is_listening = false;
    }

    /// Returns the messages that begin a connection.
    fn greeting(&self, hears: bool) -> Vec<Value> {
        let mut messages = vec![full_text("Connection established"), self.character(), group()];
        messages.extend(hears.then(|| json!({"type": "control", "text": "start-mic"})));
        messages
    }

    fn character(&self) -> Value {
        let session = &self.session;
        json!({
            "type": "set-model-and-conf", "model_info": null, "conf_name": NAME, "conf_uid": NAME, "client_uid": session,
        })
    }

    fn samples(&mut self, audio: &[f32], hands_free: bool) -> Vec<Step> {
        let begins = !std::mem::replace(&mut self.is_listening, true);
        let listen = begins.then_some(Step::Request(Request::Listen { hands_free }));
        listen.into_iter().chain([Step::Samples(sound::samples(audio))]).collect()
    }

    /// Returns the last sentence whose text is in the text that the client heard.
    fn heard(&self, text: &str) -> Option<usize> {
        let heard = visible(text);
        self.shown.iter().take_while(|end| **end <= heard).count().checked_sub(1).filter(|_| heard > 0)
    }

    fn audio(&mut self, (turn, sentence): (&str, usize), (format, data): (&'static str, &str), end: bool) {
        let of = |waiting: &&mut Waiting| waiting.turn == turn && waiting.number == sentence;
        let Some(waiting) = self.waiting.iter_mut().find(of) else { return };
        if !data.is_empty() {
            waiting.format = format;
            // The socket encoded it.
            waiting.audio.extend(STANDARD.decode(data).unwrap_or_default());
        }
        waiting.is_complete |= end;
    }

    /// Completes these sentences as text.
    fn complete(&mut self, of: impl Fn(&Waiting) -> bool) {
        for waiting in self.waiting.iter_mut().filter(|waiting| !waiting.is_complete && of(waiting)) {
            (waiting.audio, waiting.is_complete) = (Vec::new(), true);
        }
    }

    /// Returns the messages of the complete sentences before the first incomplete one.
    fn ready(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        let complete = self.waiting.iter().take_while(|waiting| waiting.is_complete).count();
        for sentence in self.waiting.drain(..complete) {
            self.had_audio |= !sentence.audio.is_empty();
            if !(sentence.text.is_empty() && sentence.audio.is_empty()) {
                messages.push(sentence.into_message());
            }
        }
        messages
    }

    fn done(&mut self, turn: &str) -> Vec<Value> {
        self.complete(|waiting| waiting.turn == turn);
        let mut messages = self.ready();
        if self.had_audio {
            messages.push(json!({"type": "backend-synth-complete"}));
        }
        messages.push(json!({"type": "force-new-message"}));
        messages.push(json!({"type": "control", "text": "conversation-chain-end"}));
        messages
    }
}

impl Waiting {
    fn into_message(self) -> Value {
        let volumes = if self.format == "audio/wav" { sound::volumes(&self.audio) } else { Vec::new() };
        let audio = (!self.audio.is_empty()).then(|| STANDARD.encode(&self.audio));
        drop(self.audio);
        let actions = (!self.emotions.is_empty()).then(|| json!({"expressions": self.emotions}));
        json!({
            "type": "audio", "audio": audio, "volumes": volumes, "slice_length": sound::SLICE_MS, "actions": actions,
            "display_text": {"text": self.text, "name": NAME, "avatar": ""}, "forwarded": false,
        })
    }
}

fn full_text(text: &str) -> Value {
    json!({"type": "full-text", "text": text})
}

fn error(why: &str) -> Value {
    json!({"type": "error", "message": why})
}

fn group() -> Value {
    json!({"type": "group-update", "members": [], "is_owner": false})
}

fn visible(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

#[cfg(test)]
mod tests;
