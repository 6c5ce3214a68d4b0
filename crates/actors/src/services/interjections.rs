//! What is remembered of joining in without being asked: where, how often, how it was taken, what it cost. It outlives the actors
//! that ask it: a crash must not make us talk more. Bounded by `domain/manners.rs`.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::ids::{Place, TurnId};
use domain::manners::{Draw, Manners, PLACES_MAX, Rules, SuppressionReason};
use settings::community::Interjection;

/// The memory of it.
pub struct Interjections {
    origin: Instant,
    manners: Mutex<Manners>,
    /// The last turn in each place that nobody asked for; at most [`PLACES_MAX`].
    last: Mutex<HashMap<Place, TurnId>>,
}

impl Default for Interjections {
    fn default() -> Self {
        Self { origin: Instant::now(), manners: Mutex::default(), last: Mutex::default() }
    }
}

impl Interjections {
    /// Whether to join in at this place now. If so, its rest begins.
    ///
    /// # Errors
    /// Why not.
    pub fn join(
        &self,
        settings: &Interjection,
        place: &Place,
        parent: Option<&Place>,
        draw: Draw,
    ) -> Result<(), SuppressionReason> {
        let rules = Rules {
            consider: settings.response_chance,
            deliver: settings.delivery_chance,
            only: &settings.channels,
            muted: &settings.muted_channels,
            cooldown: settings.cooldown,
            backoff_after: settings.backoff_after,
            tokens_per_hour: settings.tokens_per_hour,
        };
        self.manners.lock().join(&rules, (place, parent), draw, self.origin.elapsed())
    }

    /// Something is about to be said there.
    pub fn said(&self, place: &Place, turn: &TurnId) {
        self.manners.lock().said(place, self.origin.elapsed());
        let mut last = self.last.lock();
        if last.len() >= PLACES_MAX && !last.contains_key(place) {
            // Only whoever replies within the same moment misses what is forgotten here.
            last.clear();
        }
        last.insert(place.clone(), turn.clone());
    }

    /// The turn that was last said there. Its message replies to nothing, so nothing else leads from the one to the other
    /// before its post is reported.
    #[must_use]
    pub fn last(&self, place: &Place) -> Option<TurnId> {
        self.last.lock().get(place).cloned()
    }

    /// Somebody there reacted to us or spoke to us.
    pub fn record_engagement(&self, place: &Place) {
        self.manners.lock().record_engagement(place, self.origin.elapsed());
    }

    /// Joining in took so many tokens.
    pub fn spent(&self, tokens: u64) {
        self.manners.lock().spent(tokens, self.origin.elapsed());
    }
}
