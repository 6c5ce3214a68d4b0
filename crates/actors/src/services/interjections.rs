//! The record of interjections: their places, frequency, reactions and cost. It outlives the actors, so a crash does
//! not increase the number of interjections. Bounded by `domain/manners.rs`.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::ids::{Place, TurnId};
use domain::manners::{Draw, InterjectionRules, Manners, PLACES_MAX, SuppressionReason};
use settings::community::Interjection;

/// The record of interjections.
pub struct Interjections {
    origin: Instant,
    manners: Mutex<Manners>,
    /// The last interjection turn in each place; at most [`PLACES_MAX`].
    last: Mutex<HashMap<Place, TurnId>>,
}

impl Default for Interjections {
    fn default() -> Self {
        Self { origin: Instant::now(), manners: Mutex::default(), last: Mutex::default() }
    }
}

impl Interjections {
    /// Permits an interjection in this place now, and starts the place's rest period.
    ///
    /// # Errors
    /// Returns the reason if it is not permitted.
    pub fn join(
        &self,
        settings: &Interjection,
        place: &Place,
        parent: Option<&Place>,
        draw: Draw,
    ) -> Result<(), SuppressionReason> {
        let rules = InterjectionRules {
            consider: settings.response_chance,
            deliver: settings.delivery_chance,
            only: &settings.channels,
            muted: &settings.muted_channels,
            cooldown: settings.cooldown,
            backoff_after: settings.backoff_after,
            tokens_per_hour: settings.tokens_per_hour,
        };
        self.manners.lock().join(&rules, place, parent, draw, self.origin.elapsed())
    }

    /// Records that an interjection is about to be posted.
    pub fn said(&self, place: &Place, turn: &TurnId) {
        self.manners.lock().said(place, self.origin.elapsed());
        let mut last = self.last.lock();
        if last.len() >= PLACES_MAX && !last.contains_key(place) {
            // The only loss is a reply to an interjection within the same moment.
            last.clear();
        }
        last.insert(place.clone(), turn.clone());
    }

    /// Returns the last interjection turn in the place. Its message is not a reply, so there is no other link from
    /// message to turn until its post is reported.
    #[must_use]
    pub fn last(&self, place: &Place) -> Option<TurnId> {
        self.last.lock().get(place).cloned()
    }

    /// Records that a member there reacted to the bot or addressed it.
    pub fn record_engagement(&self, place: &Place) {
        self.manners.lock().record_engagement(place, self.origin.elapsed());
    }

    /// Records the tokens that an interjection used.
    pub fn spent(&self, tokens: u64) {
        self.manners.lock().spent(tokens, self.origin.elapsed());
    }
}
