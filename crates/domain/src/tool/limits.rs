//! Rate limits of tool calls: for each person, sliding windows by category and by tool, and a cooldown between two
//! calls of one tool. Each is an account of the limiter, so quotas survive restarts and are exact across processes. A
//! refused call counts nowhere.

use std::collections::HashMap;
use std::time::Duration;

use super::ToolKind;
use super::catalogue::CatalogueEntry;
use super::pattern::NamePattern;
use crate::ids::{Person, TurnId};
use crate::limits::account::{Account, Scope, Share};
use crate::limits::{self, Cost, LimitRefusal, LimitStep, Limits, Request, Reservation};

/// The time for which an auto-disabled category stays closed to a person who exceeded its limit.
pub const DISABLED_FOR: Duration = Duration::from_secs(3_600);

/// A maximum number of calls per window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls; at least 1.
    pub calls: u32,
    /// The length of the window.
    pub window: Duration,
}

/// The limits in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolLimits {
    /// Limits by category; a category without an entry has no limit.
    pub kinds: HashMap<ToolKind, Rate>,
    /// Limits by tool: name patterns; the first match applies.
    pub tools: Vec<(NamePattern, Rate)>,
    /// Categories that close for [`DISABLED_FOR`] to a person who exceeds their limit.
    pub auto_disable: Vec<ToolKind>,
    /// The minimum time between two calls of one tool by one person: name patterns; the first match applies.
    pub cooldown: Vec<(NamePattern, Duration)>,
}

/// The reason why a call is refused for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// The window is full.
    Window(Duration),
    /// The tool was called too recently.
    Cooldown(Duration),
    /// The category is closed to this person.
    Disabled(Duration),
}

impl Limited {
    /// Returns the time after which the same call is accepted, if nothing else happens.
    #[must_use]
    pub const fn retry_after(self) -> Duration {
        match self {
            Self::Window(wait) | Self::Cooldown(wait) | Self::Disabled(wait) => wait,
        }
    }
}

/// The purpose of an account of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quota {
    /// The closure of a category for a person.
    Closed,
    /// The cooldown after the last call.
    Pause,
    /// The window of a category; if true, exceeding it closes the category.
    Kind(bool),
    /// The window of a tool.
    Tool,
}

/// One call with its step on all of its accounts.
#[derive(Debug, Clone)]
pub struct CallStep {
    /// The step for the limiter; `None` if no limit applies to the call.
    pub request: Option<Request>,
    /// The purposes of the first accounts of the step, in order.
    quotas: Vec<Quota>,
    person: Person,
    kind: ToolKind,
}

impl ToolLimits {
    /// Builds the step that counts a call. Its id must be unique; `budgets` are further accounts in which it counts.
    #[must_use]
    pub fn step(&self, person: &Person, entry: &CatalogueEntry, budgets: Vec<Share>, call: TurnId) -> CallStep {
        let (kind, name) = (entry.tool.kind, &*entry.name);
        let fits = |pattern: &NamePattern| pattern.matches(name);
        let of_tool = self.tools.iter().find(|(pattern, _)| fits(pattern)).map(|(_, rate)| *rate);
        let pause = self.cooldown.iter().find(|(pattern, _)| fits(pattern)).map(|(_, pause)| *pause);
        let of_kind = self.kinds.get(&kind).copied();
        let closes = of_kind.is_some() && self.auto_disable.contains(&kind);
        let closed = closes.then(|| (Quota::Closed, share(person, "closed", kind.as_str(), CLOSED, 0)));
        let pause = pause.map(|window| (Quota::Pause, share(person, "pause", name, Rate { calls: 1, window }, 1)));
        let of_kind = of_kind.map(|rate| (Quota::Kind(closes), share(person, "kind", kind.as_str(), rate, 1)));
        let of_tool = of_tool.map(|rate| (Quota::Tool, share(person, "tool", name, rate, 1)));
        let quotas = [closed, pause, of_kind, of_tool].into_iter().flatten();
        let (quotas, mut shares): (Vec<Quota>, Vec<Share>) = quotas.unzip();
        shares.extend(budgets);
        let request = (!shares.is_empty()).then(|| reserve(shares, call, false));
        CallStep { request, quotas, person: person.clone(), kind }
    }
}

impl CallStep {
    /// Returns the reason for the refusal, and the step that closes the category if one is required.
    #[must_use]
    pub fn refused(&self, refusal: &LimitRefusal) -> (Limited, Option<Request>) {
        let quota = refusal.account.and_then(|account| self.quotas.get(account.place));
        let wait = refusal.retry_after.unwrap_or(DISABLED_FOR);
        match (quota, &self.request) {
            (Some(Quota::Closed), _) => (Limited::Disabled(wait), None),
            (Some(Quota::Pause), _) => (Limited::Cooldown(wait), None),
            (Some(Quota::Kind(true)), Some(Request { step: LimitStep::Reserve(ask), .. })) => {
                // Twice the limit fills the account, so that it refuses even a call with an amount of zero.
                let closing = share(&self.person, "closed", self.kind.as_str(), CLOSED, 2);
                (Limited::Disabled(DISABLED_FOR), Some(reserve(vec![closing], ask.turn.clone(), true)))
            }
            (Some(Quota::Kind(_) | Quota::Tool) | None, _) => (Limited::Window(wait), None),
        }
    }
}

const CLOSED: Rate = Rate { calls: 1, window: DISABLED_FOR };

/// Builds an account of one person, shared by all communities of their door.
fn share(person: &Person, word: &str, what: &str, rate: Rate, amount: u64) -> Share {
    let account = Account {
        scope: Scope::Member,
        cost: Cost::Calls,
        window: rate.window,
        community: limits::community(person, None).into(),
        id: format!("{}#{word}:{what}", person.id).into(),
    };
    Share { account, limit: rate.calls.into(), amount: Some(amount) }
}

/// Builds a reservation without a lease: a call is complete for the limiter at once and is never settled.
fn reserve(shares: Vec<Share>, turn: TurnId, exempt: bool) -> Request {
    let limits = Limits { messages: 0, tokens: 0 };
    let reservation = Reservation { turn, tokens: 0, lease: Duration::ZERO, limits, exempt };
    Request::of_shares(shares, LimitStep::Reserve(reservation))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::Tool;
    use super::super::catalogue::{Catalogue, Offer};
    use super::super::testing::tool;
    use super::*;
    use crate::ids::{Door, Timestamp};
    use crate::limits::Decision;
    use crate::limits::member_windows::MemberWindows;

    /// Tool calls as a turn makes them.
    #[derive(Default)]
    struct Calls {
        book: MemberWindows,
        number: u32,
    }

    impl Calls {
        fn admit(
            &mut self,
            limits: &ToolLimits,
            person: &Person,
            entry: &CatalogueEntry,
            now: Timestamp,
        ) -> Result<(), Limited> {
            self.number += 1;
            let call = TurnId::new(Door::new("discord"), self.number.to_string());
            let step = limits.step(person, entry, Vec::new(), call);
            let Some(request) = &step.request else { return Ok(()) };
            let Decision::Refused(refusal) = self.book.decide(now, request) else { return Ok(()) };
            let (limited, closing) = step.refused(&refusal);
            if let Some(closing) = closing {
                self.book.decide(now, &closing);
            }
            Err(limited)
        }
    }

    fn entry(kind: ToolKind) -> Arc<CatalogueEntry> {
        let offer = Offer { tools: vec![Arc::new(Tool { kind, ..tool("a", "x", "") })], ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        Arc::clone(all.get("a__x").unwrap())
    }

    fn ada() -> Person {
        Person::new(Door::new("discord"), "1")
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp(1_000_000_000_000 + seconds * 1_000)
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn limits() -> ToolLimits {
        ToolLimits {
            kinds: HashMap::from([(ToolKind::Search, Rate { calls: 2, window: secs(10) })]),
            ..ToolLimits::default()
        }
    }

    #[test]
    fn a_window_slides_and_the_wait_is_exact() {
        let (mut calls, limits, entry) = (Calls::default(), limits(), entry(ToolKind::Search));
        let mut admit = |seconds| calls.admit(&limits, &ada(), &entry, at(seconds));
        assert_eq!((admit(0), admit(4)), (Ok(()), Ok(())));
        assert_eq!(admit(5), Err(Limited::Window(secs(5))));
        assert_eq!(admit(9), Err(Limited::Window(secs(1))), "what was refused counts nowhere");
        assert_eq!(admit(10), Ok(()));
        assert_eq!(admit(11), Err(Limited::Window(secs(3))));
    }

    #[test]
    fn another_person_and_another_kind_have_room_of_their_own() {
        let (mut calls, limits) = (Calls::default(), limits());
        let (search, other) = (entry(ToolKind::Search), entry(ToolKind::Other));
        let ben = Person::new(Door::new("discord"), "2");
        for _ in 0..2 {
            assert_eq!(calls.admit(&limits, &ada(), &search, at(0)), Ok(()));
        }
        assert!(calls.admit(&limits, &ada(), &search, at(0)).is_err());
        assert_eq!(calls.admit(&limits, &ben, &search, at(0)), Ok(()));
        for _ in 0..50 {
            assert_eq!(calls.admit(&limits, &ada(), &other, at(0)), Ok(()));
        }
    }

    #[test]
    fn a_kind_that_disables_itself_stays_closed_for_that_person() {
        let limits = ToolLimits { auto_disable: vec![ToolKind::Search], ..limits() };
        let (mut calls, entry) = (Calls::default(), entry(ToolKind::Search));
        let mut admit = |seconds| calls.admit(&limits, &ada(), &entry, at(seconds));
        assert_eq!((admit(0), admit(0)), (Ok(()), Ok(())));
        assert_eq!(admit(1), Err(Limited::Disabled(DISABLED_FOR)));
        assert_eq!(admit(1_801), Err(Limited::Disabled(secs(1_800))));
        assert_eq!(admit(3_601), Ok(()));
    }

    #[test]
    fn a_tool_has_a_limit_and_a_pause_of_its_own() {
        let limits = ToolLimits {
            tools: vec![(NamePattern::wildcard("a__*"), Rate { calls: 2, window: secs(60) })],
            cooldown: vec![("/a__(x|y)/".parse().unwrap(), secs(5))],
            ..ToolLimits::default()
        };
        let (mut calls, entry) = (Calls::default(), entry(ToolKind::Other));
        let mut admit = |seconds| calls.admit(&limits, &ada(), &entry, at(seconds));
        assert_eq!(admit(0), Ok(()));
        assert_eq!(admit(2), Err(Limited::Cooldown(secs(3))));
        assert_eq!(admit(5), Ok(()));
        assert_eq!(admit(20), Err(Limited::Window(secs(40))));
    }
}
