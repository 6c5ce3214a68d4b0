//! The points of load shedding. Logs and metrics show the labels.

/// A point of load shedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shed {
    /// The limit of concurrent commands was reached.
    Commands,
    /// The limit of open turns was reached.
    Gateway,
    /// Too many messages arrived before the journal had read its records.
    Journal,
    /// The limit of one person's queued turns in one place was reached.
    Lane,
    /// Log lines arrived faster than they could be written.
    Log,
    /// The limit of queued notices was reached.
    Outbox,
    /// The limit of events without an owner was reached, or one event was returned too often.
    Shard,
    /// The limit of concurrent calls of a tool server was reached.
    Tools,
    /// Spans could not be exported.
    Traces,
}

impl Shed {
    /// All points.
    pub const ALL: [Self; 9] = [
        Self::Commands,
        Self::Gateway,
        Self::Journal,
        Self::Lane,
        Self::Log,
        Self::Outbox,
        Self::Shard,
        Self::Tools,
        Self::Traces,
    ];

    /// The labels of all points, in the same order.
    pub const LABELS: [&'static str; Self::ALL.len()] = {
        let mut labels = [""; Self::ALL.len()];
        let mut index = 0;
        while index < labels.len() {
            labels[index] = Self::ALL[index].as_str();
            index += 1;
        }
        labels
    };

    /// Returns the label for logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Gateway => "gateway",
            Self::Journal => "journal",
            Self::Lane => "lane",
            Self::Log => "log",
            Self::Outbox => "outbox",
            Self::Shard => "shard",
            Self::Tools => "tools",
            Self::Traces => "traces",
        }
    }
}
