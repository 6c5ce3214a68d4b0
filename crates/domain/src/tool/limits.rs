//! How often tools may be called: sliding windows by kind and by tool, and a pause between two calls of one tool, for each
//! person. A call that is refused counts nowhere.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ToolKind;
use super::catalogue::Entry;
use super::rights::matches;
use crate::ids::{Person, Timestamp, millis};

/// The most windows that are kept; beyond that the older half is forgotten.
const WINDOWS_MAX: usize = 10_000;
/// How long a kind that disables itself stays closed to a person who went over its limit.
pub const DISABLED_FOR: Duration = Duration::from_secs(3_600);

/// How many calls there may be in how long.
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
    /// By kind; a kind that is missing has no limit.
    pub kinds: HashMap<ToolKind, Rate>,
    /// By tool: patterns of names; the first that matches counts.
    pub tools: Vec<(String, Rate)>,
    /// Kinds that stay closed for [`DISABLED_FOR`] to a person who goes over their limit.
    pub auto_disable: Vec<ToolKind>,
    /// The least time between two calls of one tool by one person; patterns of names, the first that matches counts.
    pub cooldown: Vec<(String, Duration)>,
}

/// Why a call has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// The window is full.
    Window(Duration),
    /// The tool was called a moment ago.
    Cooldown(Duration),
    /// The kind is closed to this person.
    Disabled(Duration),
}

impl Limited {
    /// Time after which the same call is accepted, if nothing else happens.
    #[must_use]
    pub const fn retry_after(self) -> Duration {
        match self {
            Self::Window(wait) | Self::Cooldown(wait) | Self::Disabled(wait) => wait,
        }
    }
}

/// What a window is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Kind(ToolKind),
    Tool(std::sync::Arc<str>),
}

/// The calls of late.
#[derive(Debug, Default)]
pub struct Calls {
    windows: HashMap<(Person, Key), VecDeque<Timestamp>>,
    disabled: HashMap<(Person, ToolKind), Timestamp>,
}

impl Calls {
    /// Counts a call, or says why it has to wait.
    ///
    /// # Errors
    /// See [`Limited`].
    pub fn admit(
        &mut self,
        limits: &ToolLimits,
        person: &Person,
        entry: &Entry,
        now: Timestamp,
    ) -> Result<(), Limited> {
        let kind = entry.tool.kind;
        if let Some(until) = self.disabled.get(&(person.clone(), kind)) {
            let left = until.since(now);
            if !left.is_zero() {
                return Err(Limited::Disabled(left));
            }
            self.disabled.remove(&(person.clone(), kind));
        }
        let fits = |pattern: &str| matches(pattern, &entry.name);
        let of_tool = limits.tools.iter().find(|(pattern, _)| fits(pattern)).map(|(_, rate)| *rate);
        let pause = limits.cooldown.iter().find(|(pattern, _)| fits(pattern)).map(|(_, pause)| *pause);
        let by_kind = (person.clone(), Key::Kind(kind));
        let by_tool = (person.clone(), Key::Tool(entry.name.clone()));
        if let Some(pause) = pause {
            let last = self.windows.get(&by_tool).and_then(VecDeque::back);
            let left = last.map_or(Duration::ZERO, |last| pause.saturating_sub(now.since(*last)));
            if !left.is_zero() {
                return Err(Limited::Cooldown(left));
            }
        }
        let of_kind = limits.kinds.get(&kind).copied();
        for (key, rate) in [(&by_kind, of_kind), (&by_tool, of_tool)] {
            let Some(wait) = rate.and_then(|rate| self.wait(key, rate, now)) else { continue };
            if matches!(key.1, Key::Kind(_)) && limits.auto_disable.contains(&kind) {
                self.disabled.insert((person.clone(), kind), Timestamp(now.0.saturating_add(millis(DISABLED_FOR))));
                return Err(Limited::Disabled(DISABLED_FOR));
            }
            return Err(Limited::Window(wait));
        }
        self.make_room(now);
        if of_kind.is_some() {
            self.windows.entry(by_kind).or_default().push_back(now);
        }
        if of_tool.is_some() || pause.is_some() {
            let window = self.windows.entry(by_tool).or_default();
            if of_tool.is_none() {
                window.clear();
            }
            window.push_back(now);
        }
        Ok(())
    }

    /// Time until the window has room; none when it has.
    fn wait(&mut self, key: &(Person, Key), rate: Rate, now: Timestamp) -> Option<Duration> {
        let window = self.windows.get_mut(key)?;
        while window.front().is_some_and(|at| now.since(*at) >= rate.window) {
            window.pop_front();
        }
        let over = window.len().checked_sub(usize::try_from(rate.calls).unwrap_or(usize::MAX))?;
        window.get(over).map(|at| rate.window.saturating_sub(now.since(*at)))
    }

    fn make_room(&mut self, now: Timestamp) {
        self.disabled.retain(|_, until| !until.since(now).is_zero());
        if self.windows.len() < WINDOWS_MAX {
            return;
        }
        // The older half goes at once, so that making room costs next to nothing for each call.
        let last = |window: &VecDeque<Timestamp>| window.back().copied().unwrap_or_default();
        let mut moments: Vec<Timestamp> = self.windows.values().map(last).collect();
        let (_, middle, _) = moments.select_nth_unstable(WINDOWS_MAX / 2);
        let middle = *middle;
        self.windows.retain(|_, window| last(window) > middle);
        self.windows.shrink_to(WINDOWS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::Tool;
    use super::super::catalogue::{Catalogue, Offer};
    use super::super::testing::tool;
    use super::*;
    use crate::ids::Door;

    fn entry(kind: ToolKind) -> Arc<Entry> {
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
            tools: vec![("a__*".to_owned(), Rate { calls: 2, window: secs(60) })],
            cooldown: vec![("a__x".to_owned(), secs(5))],
            ..ToolLimits::default()
        };
        let (mut calls, entry) = (Calls::default(), entry(ToolKind::Other));
        let mut admit = |seconds| calls.admit(&limits, &ada(), &entry, at(seconds));
        assert_eq!(admit(0), Ok(()));
        assert_eq!(admit(2), Err(Limited::Cooldown(secs(3))));
        assert_eq!(admit(5), Ok(()));
        assert_eq!(admit(20), Err(Limited::Window(secs(40))));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut calls, limits, entry) = (Calls::default(), limits(), entry(ToolKind::Search));
        for person in 0..2 * WINDOWS_MAX {
            let person = Person::new(Door::new("discord"), person.to_string());
            assert_eq!(calls.admit(&limits, &person, &entry, at(0)), Ok(()));
        }
        assert!(calls.windows.len() <= WINDOWS_MAX, "{}", calls.windows.len());
    }
}
