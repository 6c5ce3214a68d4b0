//! The record of a life: each event that members, models, tool servers and the store saw, in order, and a hash of all.
//! Two runs of one seed have the same hash; the checker reads the events and nothing else.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The number of a question, unique in a life. Its text contains [`token`], and so do all texts derived from it.
pub type Number = u64;

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answered in a short message.
    Plain,
    /// Answered in several messages.
    Long,
    /// Answered after a tool call that needs no approval.
    Look,
    /// Answered after a tool call with a side effect that needs an approval.
    Pay,
}

/// An event of a life.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as in the sentence of their event")]
pub enum Seen {
    /// A process started.
    Started,
    /// A process ended: in order, or at any other moment. It loses records if its store was degraded, and records since
    /// a commit that was still under way.
    Ended { in_order: bool, loses: bool, under_way: Option<u64> },
    /// The platform began a session: messages that an earlier one did not deliver must be read back.
    NewSession,
    /// The store's backend went away, or came back.
    Outage { away: bool },
    /// A member posted a question.
    Asked { number: Number, kind: Kind, member: u64, place: u64, message: u64 },
    /// A connection of the process delivered a question.
    Delivered { number: Number },
    /// A member deleted a question.
    Deleted { number: Number },
    /// A member pressed a button of a request for approval.
    Clicked { number: Number, member: u64, approves: bool },
    /// The platform told the member that pressed a button or ran a command how it ended.
    Responded { callback: u64, text: String },
    /// A member ran a command.
    Ran { callback: u64, name: &'static str, member: u64, place: u64 },
    /// A model received a request about a question; the numbers of all questions in the request.
    Prompted { number: Number, all: Vec<Number> },
    /// A tool server ran a call for a question.
    Called { number: Number, kind: Kind },
    /// A message of the bot appeared or changed.
    Shown { message: u64, place: u64, reply_to: Option<u64>, text: String, apology: bool },
    /// A post, an edit or a search in a place failed, or its outcome stayed unknown.
    Unposted { place: u64 },
    /// A message of the bot disappeared.
    Hidden { message: u64 },
    /// The bot added a reaction to a message.
    Reacted { message: u64 },
    /// The faults stopped; from here on everything works.
    Calm,
    /// The life ended; the numbers of the questions whose text the store still contains.
    Over { stored: Vec<Number> },
}

/// The text that identifies a question.
#[must_use]
pub fn token(number: Number) -> String {
    format!("tok-{number}.")
}

/// Returns the numbers of all tokens in a text.
#[must_use]
pub fn tokens(text: &str) -> Vec<Number> {
    let parts = text.split("tok-").skip(1);
    parts.filter_map(|part| part.split_once('.')?.0.parse().ok()).collect()
}

/// One entry: the time in milliseconds since the beginning of the life, and the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds since the beginning of the life.
    pub at: u64,
    /// The event.
    pub seen: Seen,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9} ms  {:?}", self.at, self.seen)
    }
}

/// All events so far.
#[derive(Debug, Default)]
pub struct History {
    /// True if each event of the hash is printed.
    pub traces: AtomicBool,
    entries: Mutex<Vec<Entry>>,
    hash: Mutex<Hash>,
}

#[derive(Debug)]
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl fmt::Write for Hash {
    /// FNV-1a, which needs no state but the sum.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

impl History {
    /// Records an event.
    pub fn record(&self, at: u64, seen: Seen) {
        let entry = Entry { at, seen };
        self.count(format_args!("{entry}"));
        self.entries.lock().push(entry);
    }

    /// Adds an event to the hash alone: the checker does not need it.
    pub fn count(&self, event: fmt::Arguments<'_>) {
        if self.traces.load(Ordering::Relaxed) {
            println!("{event}");
        }
        let _ = fmt::Write::write_fmt(&mut *self.hash.lock(), event);
    }

    /// Returns all events in order.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// Returns the hash of all events.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.lock().0
    }
}
