//! What the log and the metrics hear of a turn's end.

use std::time::Duration;

use super::Journal;
use super::entry::Entry;
use crate::messages::outbox::Delivery;
use crate::observation::turn_events::TurnEvents;
use domain::ids;
use domain::turn::{Answer, Outcome, Times, Turn};
use domain::turn_event::TurnUpdate;

/// Tells those who read along what the answer is.
pub(super) fn publish_answer(events: &TurnEvents, turn: &Turn, answer: &Answer) {
    events.publish(&turn.place, &turn.id, || {
        let parts = answer.outgoing.parts.as_slice().into();
        TurnUpdate::answer(parts, &answer.outcome, &answer.effort)
    });
}

impl Journal {
    /// A turn is in custody from here on, perhaps with its answer.
    pub(super) fn taken(&self, turn: &Turn, answer: Option<&Answer>) {
        self.timeline.accepted(turn);
        self.events.publish(&turn.place, &turn.id, || TurnUpdate::Accepted);
        if let Some(answer) = answer {
            publish_answer(&self.events, turn, answer);
        }
    }
}

/// Says in the log and the metrics that a turn was answered.
pub(super) fn replied(entry: &Entry, answer: &Answer, delivery: &Delivery) {
    let turn = &entry.turn;
    let took = entry.taken.elapsed();
    let first_visible = delivery.first_visible.saturating_duration_since(entry.taken);
    let waited = Duration::from_millis(answer.effort.waited_ms);
    let Times { lane_ms, permit_ms, model_ms, tools_ms } = answer.effort.times;
    let outcome = match &answer.outcome {
        Outcome::Refused(limit) => return refused(entry, "refused", limit.as_str()),
        Outcome::Replied => "replied",
        Outcome::Hinted => "hinted",
        Outcome::Apologised(why) => {
            let reason = why.as_str();
            tracing::warn!(
                event = "turn.failed", turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
                trigger = turn.trigger.as_str(), reason, lane_ms, permit_ms, model_ms, tools_ms,
                model = answer.effort.model.as_deref(), "the member got an apology"
            );
            "apologised"
        }
    };
    let reason = match &answer.outcome {
        Outcome::Apologised(why) => Some(why.as_str()),
        _ => None,
    };
    let exchange = answer.exchange.as_ref();
    let words = exchange.map(|exchange| exchange.answered.split_whitespace().count());
    // Content: it reaches the log and collectors only where the operator allows it.
    let (prompt, content) = (exchange.map(|said| said.asked.as_str()), exchange.map(|said| said.answered.as_str()));
    tracing::info!(
        event = "turn.replied", turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        trigger = turn.trigger.as_str(), outcome, reason, ms = ids::millis(took),
        first_visible_ms = ids::millis(first_visible), lane_ms, permit_ms, model_ms, tools_ms,
        post_ms = ids::millis(entry.posting_for()), model = answer.effort.model.as_deref(),
        prompt_tokens = answer.effort.usage.prompt, completion_tokens = answer.effort.usage.completion, parts = delivery.posted.len(), words,
        prompt, content, "turn replied"
    );
    count(entry, outcome);
    metrics::histogram!("staffai_turn_seconds").record(took);
    metrics::histogram!("staffai_turn_overhead_seconds").record(took.saturating_sub(waited));
    metrics::histogram!("staffai_first_visible_seconds").record(first_visible);
}

/// Says in the log and the metrics that a turn gets no answer.
pub(super) fn refused(entry: &Entry, outcome: &'static str, reason: &str) {
    let turn = &entry.turn;
    tracing::info!(
        event = "turn.refused", turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        trigger = turn.trigger.as_str(), outcome, ms = ids::millis(entry.taken.elapsed()), reason, "the turn ends without an answer"
    );
    count(entry, outcome);
}

/// Counts how a turn ended.
pub(super) fn count(entry: &Entry, outcome: &'static str) {
    let door = entry.turn.id.door.as_str().to_owned();
    let trigger = entry.turn.trigger.as_str();
    metrics::counter!("staffai_turns_total", "door" => door, "trigger" => trigger, "outcome" => outcome).increment(1);
}
