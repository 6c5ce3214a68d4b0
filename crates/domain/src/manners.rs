//! Rules for interjections: where, how often, and how ignored ones lower their chance. Times are durations since a
//! fixed origin that the caller chooses.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ids::Place;

/// Maximum number of places remembered. The place with the oldest interjection is evicted.
pub const PLACES_MAX: usize = 10_000;
/// The time in which a reaction or a message to the bot counts as a response to its interjection.
pub const WELCOME_WITHIN: Duration = Duration::from_secs(15 * 60);
/// The TTL of a place's record, from its last interjection.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The window of the token budget.
pub const BUDGET_PERIOD: Duration = Duration::from_secs(60 * 60);
/// Maximum number of entries in the token window. Beyond that, amounts are added to the newest entry.
pub const SUMS_MAX: usize = 4_096;
/// Maximum number of halvings of the chance.
pub const HALVINGS_MAX: u32 = 10;

/// The operator's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterjectionRules<'a> {
    /// The chance that a message not addressed to the bot is considered, 0 to 1.
    pub consider: f64,
    /// The chance that a considered message is answered, 0 to 1.
    pub deliver: f64,
    /// Ids of the only places with interjections. Empty: all.
    pub only: &'a [String],
    /// Ids of places without interjections.
    pub muted: &'a [String],
    /// The minimum time between two interjections in one place.
    pub cooldown: Duration,
    /// The number of ignored interjections in a row after which each further one halves the chance; 0 disables this.
    pub backoff_after: u32,
    /// The token budget per hour; 0 disables it.
    pub tokens_per_hour: u64,
}

/// Two random numbers for one message, each in `[0, 1)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// Decides whether the message is considered.
    pub consider: f64,
    /// Decides whether it is answered.
    pub deliver: f64,
}

impl Draw {
    /// True if both numbers are below these chances.
    #[must_use]
    pub fn wins(self, consider: f64, deliver: f64) -> bool {
        self.consider < consider && self.deliver < deliver
    }
}

/// The reason against an interjection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SuppressionReason {
    /// Disabled in that place.
    Place,
    /// The random numbers decided against it.
    Chance,
    /// The last interjection there is too recent.
    Cooldown,
    /// The hourly token budget is used up.
    Budget,
}

impl SuppressionReason {
    /// Returns the log label.
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

/// The record of recent interjections.
#[derive(Debug, Default)]
pub struct Manners {
    places: HashMap<Place, Memory>,
    /// Tokens used, each with its time.
    spent: VecDeque<(Duration, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    /// The start of the last interjection.
    begun: Duration,
    /// The time when the last interjection was posted.
    said: Option<Duration>,
    /// The number of ignored interjections in a row.
    unnoticed: u32,
}

impl Manners {
    /// Decides about an interjection now. If allowed, the place's cooldown begins.
    ///
    /// # Errors
    /// The reason against it.
    pub fn join(
        &mut self,
        rules: &InterjectionRules<'_>,
        place: &Place,
        parent: Option<&Place>,
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

    /// Records a posted interjection. It counts as ignored until a member responds.
    pub fn said(&mut self, place: &Place, now: Duration) {
        if let Some(memory) = self.places.get_mut(place) {
            memory.said = Some(now);
            memory.unnoticed = memory.unnoticed.saturating_add(1);
        }
    }

    /// Records that a member reacted to the bot or addressed it.
    pub fn record_engagement(&mut self, place: &Place, now: Duration) {
        if let Some(memory) = self.places.get_mut(place)
            && memory.said.is_some_and(|said| now.saturating_sub(said) <= WELCOME_WITHIN)
        {
            memory.unnoticed = 0;
        }
    }

    /// Records the tokens used by an interjection.
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

/// Returns the factor for the chance after this many ignored interjections.
fn patience(after: u32, unnoticed: u32) -> f64 {
    if after == 0 || unnoticed < after {
        return 1.0;
    }
    0.5_f64.powi(i32::try_from((unnoticed - after + 1).min(HALVINGS_MAX)).unwrap_or(0))
}

#[cfg(test)]
mod tests;
