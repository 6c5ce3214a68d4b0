//! Typing indicators: the running turns of each place, and the visible indicators.

use std::collections::HashMap;

use tokio::time::Instant;

use super::courtesy::Courtesy;
use super::{Outbox, OutboxEvent, OutboxState, TYPING_LOOK_EVERY};
use crate::messages::deadline::Deadline;
use crate::runtime::supervisor::ActorContext;
use domain::ids::{Place, TurnId};
use ports::PostRequest;

/// The running turns of a place, and the visibility of its typing indicator.
#[derive(Default)]
pub(super) struct TypingTurns {
    turns: HashMap<TurnId, RunningTurn>,
    shown: bool,
}

/// One running turn.
struct RunningTurn {
    /// The time from which a typing indicator is due.
    due: Instant,
    /// The time after which the turn no longer counts as running.
    until: Deadline,
}

impl TypingTurns {
    /// True if a turn has been running long enough.
    fn is_due(&self, now: Instant) -> bool {
        self.turns.values().any(|turn| turn.due <= now)
    }

    /// Marks the typing indicator as visible; true if a turn needs it and it was not visible.
    fn begins(&mut self, now: Instant) -> bool {
        !self.shown && self.is_due(now) && !std::mem::replace(&mut self.shown, true)
    }
}

impl Outbox {
    /// Registers a running turn. The typing indicator appears after `turn.typing_after`, so a quick answer costs no
    /// request.
    pub(super) fn thinks(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        place: Place,
        turn: TurnId,
        until: Deadline,
    ) {
        let (now, after) = (Instant::now(), self.live.now().settings.turn.typing_after);
        let place_turns = state.typing.entry(place.clone()).or_default();
        place_turns.turns.insert(turn, RunningTurn { due: now + after, until });
        if place_turns.begins(now) {
            self.show_typing(ctx, state, place);
        } else if !place_turns.shown && !std::mem::replace(&mut state.typing_due, true) {
            ctx.after(after, OutboxEvent::TypingDue);
        }
    }

    /// Shows typing in the places where a turn has been running long enough.
    pub(super) fn typing_due(&self, ctx: &mut ActorContext<Outbox>, state: &mut OutboxState) {
        let now = Instant::now();
        let begin = |(place, place_turns): (&Place, &mut TypingTurns)| place_turns.begins(now).then(|| place.clone());
        let places: Vec<Place> = state.typing.iter_mut().filter_map(begin).collect();
        for place in places {
            self.show_typing(ctx, state, place);
        }
        let waiting = state
            .typing
            .values()
            .filter(|place_turns| !place_turns.shown)
            .flat_map(|place_turns| place_turns.turns.values());
        let next = waiting.map(|turn| turn.due).min();
        state.typing_due = next.is_some();
        if let Some(next) = next {
            ctx.after(next.saturating_duration_since(now).max(TYPING_LOOK_EVERY), OutboxEvent::TypingDue);
        }
    }

    /// Shows typing once, if it is not muted in the place and the budget has room.
    pub(super) fn show_typing(&self, ctx: &mut ActorContext<Outbox>, state: &OutboxState, place: Place) {
        let request = PostRequest::Typing { place: place.clone() };
        self.show(ctx, state, Courtesy::Typing, place, request);
    }
}

impl OutboxState {
    /// Removes a turn that no longer needs the typing indicator.
    pub(super) fn quiet(&mut self, place: &Place, turn: &TurnId) {
        if let Some(place_turns) = self.typing.get_mut(place) {
            place_turns.turns.remove(turn);
            if place_turns.turns.is_empty() {
                self.typing.remove(place);
            }
        }
    }

    /// Returns the places where a turn is still running, and has been for long enough.
    pub(super) fn still_typing(&mut self, now: Instant) -> Vec<Place> {
        for place_turns in self.typing.values_mut() {
            place_turns.turns.retain(|_, turn| turn.until.at() > now);
        }
        self.typing.retain(|_, place_turns| !place_turns.turns.is_empty());
        let due = self.typing.iter_mut().filter(|(_, place_turns)| place_turns.is_due(now));
        due.map(|(place, place_turns)| {
            place_turns.shown = true;
            place.clone()
        })
        .collect()
    }
}
