//! The recent history of the program, as samples at a fixed interval, as plain data for JSON.

use serde::ser::{Serialize, Serializer};

use domain::ids::Timestamp;

/// The stored samples, or the newest of them.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Samples {
    /// The interval, in milliseconds.
    pub every_ms: u64,
    /// Maximum number of stored samples.
    pub kept: usize,
    /// True if there are newer samples, to be requested after the last of these.
    pub more: bool,
    /// The paths of the actors that the rows refer to by index. A path that ends with `:*` stands for all actors of
    /// one kind without rows of their own.
    pub actors: Vec<String>,
    /// The samples, oldest first. Those of earlier processes have no rows.
    pub samples: Vec<Sample>,
    /// The interruptions between processes, oldest first.
    pub breaks: Vec<Break>,
}

/// The end of one process and the start of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Break {
    /// The last known time of the process, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub from: Timestamp,
    /// The start of the next one.
    #[serde(with = "millis")]
    pub to: Timestamp,
    /// The kind of end.
    pub kind: BreakKind,
}

/// The kind of a process's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakKind {
    /// An orderly stop.
    Stopped,
    /// A kill or a crash.
    Killed,
}

/// The state of the program at one time.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Sample {
    /// The time, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// The counts of the whole program.
    pub figures: Figures,
    /// The actors, in the order of their paths.
    pub rows: Vec<SampleRow>,
}

/// Counts of the whole program, since the start of the process unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// Accepted turns.
    pub turns: u64,
    /// Currently open turns.
    pub open: u64,
    /// The median time to the first visible words, over turns that ended in the last minute, in milliseconds.
    pub first_words_p50_ms: Option<u64>,
    /// The 99th percentile of the same.
    pub first_words_p99_ms: Option<u64>,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Cost in dollars. `None` if no row has prices.
    pub dollars: Option<f64>,
    /// The metric counters.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The metric counters shown on the page, summed over their labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Messages over members' limits.
    pub refused: u64,
    /// Work rejected by load shedding.
    pub shed: u64,
    /// Turns closed without an answer or an apology.
    pub lost: u64,
    /// Messages that were answered twice.
    pub doubled: u64,
}

/// One actor, or all of one kind without rows of their own. In JSON, an array of these fields in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    /// The index in [`Samples::actors`].
    pub actor: usize,
    /// `starting`, `running`, `hung`, `restarting` or `stopped`; for several actors, that of one which is not
    /// running.
    pub state: &'static str,
    /// The number of actors.
    pub count: u64,
    /// Messages in the mailbox.
    pub mailbox: u64,
    /// Restarts so far.
    pub restarts: u64,
    /// Messages and events from outside handled so far.
    pub handled: u64,
    /// The median handler time since the previous sample, in microseconds. `None` if no handler ended.
    pub p50_us: Option<u64>,
    /// The 99th percentile of the same.
    pub p99_us: Option<u64>,
}

impl Serialize for SampleRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { actor, state, count, mailbox, restarts, handled, p50_us, p99_us } = self;
        (actor, state, count, mailbox, restarts, handled, p50_us, p99_us).serialize(serializer)
    }
}

/// Times as milliseconds since 1970.
mod millis {
    use serde::{Deserialize, Deserializer, Serializer};

    use domain::ids::Timestamp;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(at.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        u64::deserialize(deserializer).map(Timestamp)
    }
}
