//! The last minutes of the program as samples at equal distances, as plain data that is shown as JSON.

use serde::ser::{Serialize, Serializer};

use domain::ids::Timestamp;

/// The samples that are kept, or the newest of them.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Samples {
    /// The distance of two samples, in milliseconds.
    pub every_ms: u64,
    /// The most samples that are kept.
    pub kept: usize,
    /// There are newer ones still, to be asked for after the last of these.
    pub more: bool,
    /// The paths of the actors that the rows name by their index. A path that ends with `:*` stands for all actors of one kind that
    /// have no row of their own.
    pub actors: Vec<String>,
    /// The samples, the oldest first. Those of an earlier life of the program have no rows.
    pub samples: Vec<Sample>,
    /// The ends of earlier lives of the program, the oldest first.
    pub breaks: Vec<Break>,
}

/// The end of one life of the program, and the beginning of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Break {
    /// The last moment of the life that is known, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub from: Timestamp,
    /// The beginning of the next one.
    #[serde(with = "millis")]
    pub to: Timestamp,
    /// How it ended.
    pub kind: BreakKind,
}

/// How a life of the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakKind {
    /// It stopped as it should.
    Stopped,
    /// It was killed, or crashed.
    Killed,
}

/// The program at one moment.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Sample {
    /// When it was taken, in milliseconds since 1970.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// The counts of the whole.
    pub figures: Figures,
    /// Its actors, in the order of their paths.
    pub rows: Vec<Row>,
}

/// What is counted of the whole program, since the start of the process unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// Turns that were accepted.
    pub turns: u64,
    /// Turns that are open now.
    pub open: u64,
    /// The time to the first visible words of turns that ended in the last minute, in milliseconds: the median.
    pub first_words_p50_ms: Option<u64>,
    /// The same: what 99 of 100 took at most.
    pub first_words_p99_ms: Option<u64>,
    /// Tokens that went into models.
    pub prompt_tokens: u64,
    /// Tokens that came out.
    pub completion_tokens: u64,
    /// Dollars; none when no row has prices.
    pub dollars: Option<f64>,
    /// What the counters say.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The counters of metrics that the page shows, summed over their labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Messages over the limits of members.
    pub refused: u64,
    /// Work that was turned away because too much was going on.
    pub shed: u64,
    /// Turns closed without an answer or an apology.
    pub lost: u64,
    /// Messages that were answered twice.
    pub doubled: u64,
}

/// One actor, or all of one kind that have no row of their own. In JSON it is an array of these fields in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which one, among [`Samples::actors`].
    pub actor: usize,
    /// `starting`, `running`, `hung`, `restarting` or `stopped`; of several actors that of one which does not run.
    pub state: &'static str,
    /// How many actors these are.
    pub count: u64,
    /// Messages that wait.
    pub mailbox: u64,
    /// Restarts so far.
    pub restarts: u64,
    /// Messages and events from outside that were handled so far.
    pub handled: u64,
    /// How long handlers ran since the sample before, in microseconds: the median; none when none ended.
    pub p50_us: Option<u64>,
    /// The same: what 99 of 100 took at most.
    pub p99_us: Option<u64>,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { actor, state, count, mailbox, restarts, handled, p50_us, p99_us } = self;
        (actor, state, count, mailbox, restarts, handled, p50_us, p99_us).serialize(serializer)
    }
}

/// Moments as milliseconds since 1970.
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
