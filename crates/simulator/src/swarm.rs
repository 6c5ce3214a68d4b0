//! The parameters of a life, drawn from its seed: a thousand seeds are a thousand environments.

use super::chance::{Chance, Stream};

/// The ports at which requests leave the program or events enter it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// Posts, edits and deletions of the bot's messages.
    Post,
    /// Reads of messages, members and communities.
    Read,
    /// Reactions, typing indicators, roles and answers to commands.
    Courtesy,
    /// Requests to models.
    Model,
    /// Connections to tool servers, their lists and pings.
    Server,
    /// Calls of tools.
    Call,
    /// Reads of the store's backend.
    Load,
    /// Commits of the store's backend.
    Commit,
}

impl Port {
    /// All ports.
    pub const ALL: [Self; 8] =
        [Self::Post, Self::Read, Self::Courtesy, Self::Model, Self::Server, Self::Call, Self::Load, Self::Commit];

    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Read => "read",
            Self::Courtesy => "courtesy",
            Self::Model => "model",
            Self::Server => "tool server",
            Self::Call => "tool call",
            Self::Load => "store read",
            Self::Commit => "store commit",
        }
    }
}

/// The faults of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It has no effect, and the caller learns that.
    Refused,
    /// It has its effect, and the caller learns only that the answer was lost.
    LostAnswer,
    /// No answer arrives before the caller's timeout; it has no effect.
    Hang,
    /// No answer arrives before the caller's timeout; it has its effect.
    LateEffect,
    /// The edge panics before the request.
    Panic,
    /// The edge panics after the request had its effect.
    LatePanic,
    /// The process dies before the request has its effect.
    DeathBefore,
    /// The process dies when the request had its effect.
    DeathAfter,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 8] = [
        Self::Refused,
        Self::LostAnswer,
        Self::Hang,
        Self::LateEffect,
        Self::Panic,
        Self::LatePanic,
        Self::DeathBefore,
        Self::DeathAfter,
    ];

    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::LostAnswer => "answer lost",
            Self::Hang => "hangs",
            Self::LateEffect => "hangs, done",
            Self::Panic => "panic",
            Self::LatePanic => "panic, done",
            Self::DeathBefore => "death before",
            Self::DeathAfter => "death after",
        }
    }
}

/// The most actions of members in a life.
pub const ACTIONS_MAX: u64 = 49;

/// The environment of one life.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// The number of members.
    pub members: u64,
    /// The number of channels.
    pub places: u64,
    /// The number of actions of members, at most [`ACTIONS_MAX`].
    pub actions: u64,
    /// The longest pause between two actions in milliseconds.
    pub pause: u64,
    /// For each port, one request in so many fails; 0 for none.
    pub fails: [u64; Port::ALL.len()],
    /// For each fault, its weight among all faults.
    pub weights: [u64; Fault::ALL.len()],
    /// The longest delay of a request in milliseconds.
    pub delay: u64,
    /// The longest answer time of a model in milliseconds.
    pub thinking: u64,
    /// One message of an actor in so many breaks it; 0 for none.
    pub breaks: u64,
    /// One action in so many breaks the connection of the platform.
    pub cuts: u64,
    /// One event in so many arrives twice.
    pub repeats: u64,
    /// One action in so many takes the store's backend away, or gives it back.
    pub outages: u64,
    /// One action in so many ends the process in order.
    pub restarts: u64,
    /// One action in so many kills the process between two requests.
    pub kills: u64,
    /// The longest time without a process in milliseconds.
    pub down: u64,
    /// The messages of a member in a window of a minute.
    pub messages: u64,
    /// True if answers are shown while they are written.
    pub streams: bool,
}

impl Swarm {
    /// Draws the environment of a seed. Every tenth life has no faults at the ports.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let chance = Chance::new(seed, Stream::Swarm);
        let calm = chance.one_in(10);
        let rate = |most_often: u64| match chance.below(3) {
            _ if calm => 0,
            0 => 0,
            1 => most_often,
            _ => most_often * 8,
        };
        let seldom = |most_often: u64| most_often * (1 + chance.below(6));
        let deaths = chance.below(3);
        Self {
            members: 1 + chance.below(6),
            places: 1 + chance.below(4),
            actions: 10 + chance.below(ACTIONS_MAX - 9),
            pause: 1 << (6 + chance.below(8)),
            fails: [rate(4), rate(4), rate(4), rate(4), rate(4), rate(4), rate(12), rate(6)],
            weights: [8, 6, 3, 3, 2, 2, deaths, deaths],
            delay: 1 << chance.below(10),
            thinking: 1 << (5 + chance.below(9)),
            breaks: if calm { 0 } else { [0, 60, 250][pick(&chance, 3)] },
            cuts: seldom(12),
            repeats: [0, 4, 30][pick(&chance, 3)],
            outages: if calm { 0 } else { seldom(15) },
            restarts: seldom(20),
            kills: if calm { 0 } else { seldom(12) },
            down: [100, 3_000, 60_000][pick(&chance, 3)],
            messages: [3, 6, 1_000][pick(&chance, 3)],
            streams: chance.one_in(2),
        }
    }
}

fn pick(chance: &Chance, many: usize) -> usize {
    usize::try_from(chance.below(many as u64)).unwrap_or(0)
}
