//! The faults in force. [`crate::faults::Faults`] sets them; the rest of the service reads them.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::guild::ids::ChannelId;

/// Maximum number of planned answers and delays; more are ignored.
const PLANS: usize = 1_024;
const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// The faults in force.
#[derive(Debug, Default)]
pub struct Script {
    /// Heartbeats are not acknowledged.
    pub stop_acks: bool,
    /// Additional copies of every event.
    pub copies: u32,
    /// RESUMEs left to answer with `INVALID_SESSION`.
    pub refuse_resumes: u32,
    /// RESUMEs left to close with a code.
    pub close_resumes: (u32, u16),
    /// WebSocket upgrades left to answer with 503.
    pub refuse_connects: u32,
    /// Intents that are closed with 4014, in addition to those of the options.
    pub disallowed_intents: u64,
    /// IDENTIFYs with fewer shards are closed with 4011.
    pub required_shards: u32,
    /// The right token is treated as a wrong one.
    pub reject_token: bool,
    /// Creates left whose response is lost.
    pub drop_answers: u32,
    /// Posts and edits with this text are answered with this status.
    pub refused_text: Option<(String, u16)>,
    /// Facts about channels that sessions do not get.
    pub withheld: Withheld,
    /// Channels that answer 403.
    pub forbidden: HashSet<ChannelId>,
    /// The replacement for the delivery of files.
    pub files: Option<FileFault>,
    planned: VecDeque<Planned>,
    delays: Vec<(Target, Duration)>,
    dice: Option<(StdRng, u32)>,
}

/// Facts about channels that sessions do not get.
#[derive(Debug, Default)]
pub struct Withheld {
    /// New sessions get the oldest message of each channel as its newest, and none in threads.
    pub newest_messages: bool,
    /// New threads are not announced.
    pub new_threads: bool,
}

#[derive(Debug)]
struct Planned {
    route: String,
    left: u32,
    answer: PlannedAnswer,
}

/// An answer in place of the real one.
#[derive(Clone, Debug)]
pub struct PlannedAnswer {
    /// The HTTP status.
    pub status: u16,
    /// Discord's error code, 0 for none.
    pub code: u32,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
}

/// The replacement for the delivery of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// A redirect.
    Redirect(String),
    /// One byte per second, without a length.
    Drip,
    /// An endless body, despite its declared length.
    Endless,
}

/// The requests that a delay concerns.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// Those of a route, or `*` for all.
    Route(String),
    /// Those about a channel.
    Channel(ChannelId),
}

impl Script {
    /// Takes the planned answer for a request of this route.
    pub fn planned(&mut self, route: &str) -> Option<PlannedAnswer> {
        let at = self.planned.iter().position(|plan| plan.route == route || plan.route == "*")?;
        let plan = self.planned.get_mut(at)?;
        plan.left -= 1;
        let answer = plan.answer.clone();
        if plan.left == 0 {
            self.planned.remove(at);
        }
        Some(answer)
    }

    /// Returns the answer to a post or edit whose text is refused.
    #[must_use]
    pub fn refused(&self, body: &[u8]) -> Option<PlannedAnswer> {
        let (text, status) = self.refused_text.as_ref()?;
        let body = String::from_utf8_lossy(body);
        body.contains(text.as_str()).then_some(PlannedAnswer { status: *status, code: 0, retry_after: None })
    }

    /// Returns the delay of a request.
    #[must_use]
    pub fn delay(&self, route: &str, channel: Option<ChannelId>) -> Duration {
        let concerns = |place: &Target| match place {
            Target::Route(name) => name == route || name == "*",
            Target::Channel(id) => Some(*id) == channel,
        };
        self.delays.iter().filter(|(place, _)| concerns(place)).map(|(_, by)| *by).max().unwrap_or_default()
    }

    /// Plans this answer for the next `times` requests of a route.
    pub fn plan(&mut self, route: &str, times: u32, answer: PlannedAnswer) {
        if times > 0 && self.planned.len() < PLANS {
            self.planned.push_back(Planned { route: route.to_owned(), left: times, answer });
        }
    }

    /// Delays requests, at most ten minutes; zero stops it.
    pub fn delay_by(&mut self, target: Target, by: Duration) {
        self.delays.retain(|(known, _)| *known != target);
        if !by.is_zero() && self.delays.len() < PLANS {
            self.delays.push((target, by.min(LONGEST_DELAY)));
        }
    }

    /// Forbids a channel, or allows it again.
    pub fn forbid(&mut self, channel: ChannelId, forbidden: bool) {
        if !forbidden {
            self.forbidden.remove(&channel);
        } else if self.forbidden.len() < PLANS {
            self.forbidden.insert(channel);
        }
    }

    /// Cuts connections with a chance of one in `one_in` at each event; zero stops it.
    pub fn cut_randomly(&mut self, seed: u64, one_in: u32) {
        self.dice = (one_in > 0).then(|| (StdRng::seed_from_u64(seed), one_in));
    }

    /// Decides whether the connection breaks at this frame: true for before it, false for just after it.
    pub fn cut_here(&mut self) -> Option<bool> {
        let (dice, one_in) = self.dice.as_mut()?;
        (dice.random_range(0..*one_in) == 0).then(|| dice.random_bool(0.5))
    }
}
