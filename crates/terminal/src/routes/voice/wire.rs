//! The JSON of the socket.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::routes::{Submitted, Verdict};
use crate::wire::Unanswered;
use domain::outgoing::File;
use domain::question::{Form, Link};
use domain::tool::failure::ToolFailure;
use domain::turn_event::{GateDecision, ToolState};
use speech::answer::Sentence;

#[derive(Debug, Serialize)]
pub(super) struct Event {
    /// The number of the session's event that it comes from, or the last one. A client resumes with it.
    pub number: u64,
    /// The message that began the turn; empty if it concerns none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub turn: String,
    /// The content.
    #[serde(flatten)]
    pub content: Content,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Content {
    /// The socket is open.
    Ready {
        /// The first voice; absent if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        voice: Option<String>,
        /// The first row that hears; absent if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        hears: Option<String>,
    },
    /// The client's speech begins or ends.
    Speech { on: bool },
    /// Words of the client's speech.
    Heard {
        text: String,
        /// True if these are all words of the utterance: they are submitted.
        #[serde(rename = "final")]
        last: bool,
    },
    /// A turn began.
    Accepted,
    /// A part of the answer.
    Sentence(Sentence),
    /// Audio of a sentence, to be appended to the earlier audio of it.
    Audio {
        sentence: usize,
        /// The media type.
        format: &'static str,
        /// The bytes in base64; empty at the end.
        data: String,
        /// True if the sentence has no more audio.
        end: bool,
    },
    /// A picture of the answer.
    Picture {
        /// Its file name.
        name: String,
        /// The media type.
        format: String,
        /// The bytes in base64.
        data: String,
        /// Words for people who cannot see it; may be empty.
        description: String,
    },
    /// A tool call changed its state.
    ToolStatus {
        call: String,
        name: String,
        state: ToolState,
        /// The category of a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<ToolFailure>,
    },
    /// A call requires approval, or was decided.
    Approval {
        id: String,
        question: String,
        expires_at: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        form: Option<Form>,
        #[serde(skip_serializing_if = "Option::is_none")]
        link: Option<Link>,
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<GateDecision>,
    },
    /// The answer was interrupted.
    Interrupted { spoken_to: Option<usize> },
    /// The turn ended, and its audio was sent.
    Done {
        #[serde(skip_serializing_if = "Option::is_none")]
        unanswered: Option<Unanswered>,
    },
    /// A sentence has no more audio, or a request failed.
    Error {
        #[serde(skip_serializing_if = "Option::is_none")]
        sentence: Option<usize>,
        why: String,
    },
    /// A limit ended the speech of the answer: the rest is text.
    TextOnly { why: String },
    /// Events up to this number are lost.
    Missed,
    /// A text was accepted.
    Submitted(Submitted),
    /// The reply to `ping`.
    Pong,
}

impl Content {
    /// Returns the event of a picture.
    pub fn picture(file: &File) -> Self {
        let File { name, mime, bytes, description } = file.clone();
        Self::Picture { name, format: mime, data: STANDARD.encode(bytes), description }
    }
}

/// A message of the client.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Request {
    /// A text for the session. It is idempotent by `id`.
    Text {
        text: String,
        #[serde(default)]
        id: Option<String>,
    },
    /// The speaker interrupts: the answer was heard up to this sentence, or nothing of it.
    Interrupt {
        #[serde(default)]
        spoken_to: Option<usize>,
        /// The turn; the one that is being spoken if absent.
        #[serde(default)]
        turn: Option<String>,
    },
    /// Binary messages with samples follow: 16,000 per second, one channel, 16 bits, little-endian.
    Listen {
        /// True if a silence ends each utterance; otherwise `listen_end` does.
        #[serde(default)]
        hands_free: bool,
    },
    /// No more samples follow.
    ListenEnd,
    /// Disables audio, or enables it again.
    Mute { on: bool },
    /// A decision about a pending call.
    Answer {
        id: String,
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// A sign of life.
    Ping,
}
