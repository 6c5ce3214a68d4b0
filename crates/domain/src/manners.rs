//! Manners of joining in without being asked: where, how often, and how much of it nobody cared for. Times are durations since an
//! origin that the caller keeps.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ids::Place;

/// The most places that are remembered; the one that was longest without a word of ours is forgotten first.
pub const PLACES_MAX: usize = 10_000;
/// How long after a word of ours a reaction to it, or anybody speaking to us, shows that it was welcome.
pub const WELCOME_WITHIN: Duration = Duration::from_secs(15 * 60);
/// After so long without a word of ours it is forgotten how the last ones were taken.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The budget of tokens is counted over this time.
pub const BUDGET_PERIOD: Duration = Duration::from_secs(60 * 60);
/// The most sums that the budget remembers; beyond that the newest is added to.
pub const SUMS_MAX: usize = 4_096;
/// The chance is never halved more often than this.
pub const HALVINGS_MAX: u32 = 10;

/// What the operator decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules<'a> {
    /// Chance that a message nobody addressed to us is considered, 0 to 1.
    pub consider: f64,
    /// Chance that a considered message is answered, 0 to 1.
    pub deliver: f64,
    /// Ids of the only places to join in; empty means all.
    pub only: &'a [String],
    /// Ids of places never to join in.
    pub muted: &'a [String],
    /// Time between two in one place.
    pub cooldown: Duration,
    /// How many in a row may stay without a reaction before the chance is halved each time; 0 never halves it.
    pub backoff_after: u32,
    /// Tokens that may be used in an hour; 0 for no own budget.
    pub tokens_per_hour: u64,
}

/// Two draws for one message, each in `[0, 1)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// Whether it is considered.
    pub consider: f64,
    /// Whether it is answered.
    pub deliver: f64,
}

impl Draw {
    /// Whether both draws are below these chances.
    #[must_use]
    pub fn wins(self, consider: f64, deliver: f64) -> bool {
        self.consider < consider && self.deliver < deliver
    }
}

/// Why we do not join in. The name is a log label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SuppressionReason {
    /// The operator wants none there.
    Place,
    /// The draws were against it.
    Chance,
    /// The last one there was not long ago.
    Cooldown,
    /// The tokens of this hour are used up.
    Budget,
}

impl SuppressionReason {
    /// The label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Place => "interjection_place",
            Self::Chance => "interjection_chance",
            Self::Cooldown => "interjection_cooldown",
            Self::Budget => "interjection_budget",
        }
    }
}

/// What is remembered of our own words.
#[derive(Debug, Default)]
pub struct Manners {
    places: HashMap<Place, Memory>,
    /// Tokens used, each with the moment.
    spent: VecDeque<(Duration, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    /// When we last began to join in.
    begun: Duration,
    /// When we last said something.
    said: Option<Duration>,
    /// How many of our words in a row nobody cared for.
    unnoticed: u32,
}

impl Manners {
    /// Whether to join in now. If so, the place's rest begins.
    ///
    /// # Errors
    /// Why not.
    pub fn join(
        &mut self,
        rules: &Rules<'_>,
        (place, parent): (&Place, Option<&Place>),
        draw: Draw,
        now: Duration,
    ) -> Result<(), SuppressionReason> {
        let listed = |ids: &[String]| [Some(place), parent].into_iter().flatten().any(|place| is_listed(ids, place));
        if listed(rules.muted) || (!rules.only.is_empty() && !listed(rules.only)) {
            return Err(SuppressionReason::Place);
        }
        let memory = self.places.get(place).copied();
        let memory = memory.filter(|memory| now.saturating_sub(memory.begun) < FORGOTTEN_AFTER.max(rules.cooldown));
        let chance = rules.consider * patience(rules.backoff_after, memory.map_or(0, |memory| memory.unnoticed));
        if !draw.wins(chance, rules.deliver) {
            return Err(SuppressionReason::Chance);
        }
        if memory.is_some_and(|memory| now.saturating_sub(memory.begun) < rules.cooldown) {
            return Err(SuppressionReason::Cooldown);
        }
        if rules.tokens_per_hour > 0 && self.spent_lately(now) >= rules.tokens_per_hour {
            return Err(SuppressionReason::Budget);
        }
        self.make_room(place);
        let memory = memory.unwrap_or(Memory { begun: now, said: None, unnoticed: 0 });
        self.places.insert(place.clone(), Memory { begun: now, ..memory });
        Ok(())
    }

    /// We said something there: until somebody shows that it was welcome, it counts as unnoticed.
    pub fn said(&mut self, place: &Place, now: Duration) {
        if let Some(memory) = self.places.get_mut(place) {
            memory.said = Some(now);
            memory.unnoticed = memory.unnoticed.saturating_add(1);
        }
    }

    /// Somebody there reacted to us or spoke to us.
    pub fn record_engagement(&mut self, place: &Place, now: Duration) {
        if let Some(memory) = self.places.get_mut(place)
            && memory.said.is_some_and(|said| now.saturating_sub(said) <= WELCOME_WITHIN)
        {
            memory.unnoticed = 0;
        }
    }

    /// Joining in took so many tokens.
    pub fn spent(&mut self, tokens: u64, now: Duration) {
        let full = self.spent.len() >= SUMS_MAX;
        match self.spent.back_mut().filter(|_| full) {
            Some(newest) => newest.1 = newest.1.saturating_add(tokens),
            None => self.spent.push_back((now, tokens)),
        }
    }

    fn spent_lately(&mut self, now: Duration) -> u64 {
        while self.spent.front().is_some_and(|(at, _)| *at + BUDGET_PERIOD <= now) {
            self.spent.pop_front();
        }
        self.spent.iter().fold(0, |sum, (_, tokens)| sum.saturating_add(*tokens))
    }

    fn make_room(&mut self, place: &Place) {
        if self.places.len() < PLACES_MAX || self.places.contains_key(place) {
            return;
        }
        let oldest = self.places.iter().min_by_key(|(_, memory)| memory.begun).map(|(place, _)| place.clone());
        if let Some(oldest) = oldest {
            self.places.remove(&oldest);
        }
    }
}

fn is_listed(ids: &[String], place: &Place) -> bool {
    ids.iter().any(|id| *id == place.id)
}

/// What is left of the chance after so many words that nobody cared for.
fn patience(after: u32, unnoticed: u32) -> f64 {
    if after == 0 || unnoticed < after {
        return 1.0;
    }
    0.5_f64.powi(i32::try_from((unnoticed - after + 1).min(HALVINGS_MAX)).unwrap_or(0))
}

#[cfg(test)]
mod tests;
