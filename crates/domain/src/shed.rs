//! Where work is turned away because too much is going on. Logs and metrics show the labels.

/// Where work was shed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// More commands ran than may at once.
    Commands,
    /// More turns were open than may be at once.
    Gateway,
    /// Too much came before the journal had read its records.
    Journal,
    /// More turns of one person waited in one place than may.
    Lane,
    /// Lines came faster than the log could be written.
    Log,
    /// More notices waited to be posted than may.
    Outbox,
    /// More events were without an owner than may be, or one came back too often.
    Shard,
    /// More calls of a tool server were under way than may.
    Tools,
    /// Spans could not be exported.
    Traces,
}

impl Shed {
    /// Every place.
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

    /// The labels of all of them, in the same order.
    pub const LABELS: [&'static str; Self::ALL.len()] = {
        let mut labels = [""; Self::ALL.len()];
        let mut index = 0;
        while index < labels.len() {
            labels[index] = Self::ALL[index].as_str();
            index += 1;
        }
        labels
    };

    /// The label in logs and metrics.
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
