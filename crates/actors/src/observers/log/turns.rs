//! Log lines about turns.

use std::time::Duration;

use tracing::field::display;

use domain::ending::{Ending, Unposted};
use domain::gate::Gate;
use domain::happening::{Bound, Resumed, TurnPosted, WorkShed};
use domain::ids::{TurnId, millis};
use domain::limits::account::Scope;
use domain::limits::{Basis, LimitRefusal};
use domain::shed::Shed;
use domain::turn::{Answer, Outcome, Times, Turn};
use telemetry::events as names;

/// The message for a turn that ends without an answer.
pub(super) const UNANSWERED: &str = "the turn ends without an answer";

pub(super) fn accepted(turn: &Turn) {
    let trigger = turn.trigger.as_str();
    tracing::info!(event = names::TURN_ACCEPTED, turn = %turn.id, door = %turn.id.door, trigger, "turn accepted");
}

pub(super) fn parked(gate: &Gate) {
    tracing::info!(
        event = names::TURN_PARKED, turn = %gate.turn, tool = gate.tool, args_sha256 = gate.hash.0,
        "a turn waits for a decision"
    );
}

pub(super) fn resumed(turn: &TurnId, how: Resumed) {
    let (answered, words) = match how {
        Resumed::Earlier { answered } => (Some(answered), "turn taken up again"),
        Resumed::OfferedAgain => (None, "turn offered again"),
        Resumed::Decided => (None, "a turn goes on with a decision"),
    };
    tracing::info!(event = names::TURN_RESUMED, turn = %turn, answered, "{words}");
}

pub(super) fn panicked(turn: &TurnId, panic: &str) {
    tracing::error!(event = names::TURN_PANICKED, turn = %turn, panic, "the task of a turn panicked");
}

/// A turn with a post: answered, failed with an apology, or refused.
pub(super) fn posted(posted: &TurnPosted<'_>) {
    let Some(answer) = posted.answer else { return };
    match &answer.outcome {
        Outcome::Refused(limit) => {
            refused(posted.turn, Some(("refused", posted.took)), limit.as_str(), UNANSWERED);
        }
        Outcome::Replied => replied(posted, answer, "replied", None),
        Outcome::Hinted => replied(posted, answer, "hinted", None),
        Outcome::Apologised(why) => {
            apologised(posted.turn, answer, *why);
            replied(posted, answer, "apologised", Some(why.as_str()));
        }
    }
}

fn apologised(turn: &Turn, answer: &Answer, why: Ending) {
    let Times { lane_ms, permit_ms, model_ms, tools_ms } = answer.effort.times;
    let (experiment, arm) = trial(answer);
    let reason = why.as_str();
    tracing::warn!(
        event = names::TURN_FAILED, turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        trigger = turn.trigger.as_str(), reason, lane_ms, permit_ms, model_ms, tools_ms,
        model = answer.effort.model.as_deref(), experiment, arm, "the member got an apology"
    );
}

fn replied(posted: &TurnPosted<'_>, answer: &Answer, outcome: &str, reason: Option<&str>) {
    let TurnPosted { turn, took, visible_for, posting, parts, .. } = *posted;
    let Times { lane_ms, permit_ms, model_ms, tools_ms } = answer.effort.times;
    let exchange = answer.exchange.as_ref();
    let (experiment, arm) = trial(answer);
    let words = exchange.map(|exchange| exchange.answered.split_whitespace().count());
    // Content reaches the log only if the operator enables it.
    let (prompt, content) = (exchange.map(|said| said.asked.as_str()), exchange.map(|said| said.answered.as_str()));
    tracing::info!(
        event = names::TURN_REPLIED, turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        trigger = turn.trigger.as_str(), outcome, reason, ms = millis(took),
        first_visible_ms = millis(took.saturating_sub(visible_for)), lane_ms, permit_ms, model_ms, tools_ms,
        post_ms = millis(posting), model = answer.effort.model.as_deref(), experiment, arm,
        prompt_tokens = answer.effort.usage.prompt, completion_tokens = answer.effort.usage.completion,
        dollars = answer.effort.dollars(), parts, words, prompt, content, "turn replied"
    );
}

/// Returns the experiment of an answer, and its arm.
fn trial(answer: &Answer) -> (Option<&str>, Option<&str>) {
    answer.effort.trial.as_ref().map(|trial| (trial.experiment.as_str(), trial.arm.as_str())).unzip()
}

/// A turn without an answer. `ended`: the label of its outcome and its duration, if the turn ends with this event.
pub(super) fn refused(turn: &Turn, ended: Option<(&str, Duration)>, reason: &str, words: &str) {
    let (outcome, took) = ended.unzip();
    tracing::info!(
        event = names::TURN_REFUSED, turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        trigger = turn.trigger.as_str(), outcome, ms = took.map(millis), reason, "{words}"
    );
}

pub(super) fn undeliverable(turn: &Turn, reason: &Unposted, took: Duration, posting: Duration) {
    tracing::error!(
        event = names::TURN_FAILED, turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        trigger = turn.trigger.as_str(), outcome = "failed", ms = millis(took), post_ms = millis(posting), %reason,
        "the answer could not be posted"
    );
}

/// `count` is the number of rejections that the line stands for.
pub(super) fn shed(shed: &WorkShed<'_>, count: u64) {
    let words = match (shed.at, shed.bound) {
        (Shed::Commands, Bound::Clicks) => "too many clicks are answered",
        (Shed::Commands, _) => "too many commands run",
        (Shed::Gateway, _) => "too many open turns",
        (Shed::Journal, _) => "too much came before the records were read",
        (Shed::Lane, _) => "the lane is full",
        (Shed::Outbox, _) => "too many notices wait; one was dropped",
        (Shed::Shard, Bound::Tries) => "an event came back too often; it was dropped",
        (Shed::Shard, _) => "too many unsettled events; one was dropped",
        // The model is notified of each shed tool; lost spans and log lines are counted and reported in one summary
        // line.
        (Shed::Tools | Shed::Traces | Shed::Log, _) => return,
    };
    let WorkShed { at, turn, place, member, bound } = *shed;
    let (turn, place, member) = (turn.map(display), place.map(display), member.map(display));
    if bound == Bound::Tries {
        tracing::error!(event = names::TURN_SHED, r#where = at.as_str(), turn, place, member, count, "{words}");
    } else {
        tracing::warn!(event = names::TURN_SHED, r#where = at.as_str(), turn, place, member, count, "{words}");
    }
}

pub(super) fn fenced(turn: &Turn) {
    tracing::warn!(
        event = names::TURN_FENCED, turn = %turn.id, door = %turn.id.door, place = %turn.place, member = %turn.person,
        "another process owns the turn; it is dropped here without an answer"
    );
}

pub(super) fn over_limit(turn: &TurnId, refusal: &LimitRefusal) {
    let scope = refusal.account.map_or(Scope::Member, |account| account.scope).as_str();
    let (tier, retry_after_ms) = (refusal.cost.as_str(), refusal.retry_after.map(millis));
    let unsettled = refusal.basis != Basis::Use;
    tracing::info!(
        event = names::LIMIT_REFUSED, turn = %turn, tier, scope, retry_after_ms, unsettled,
        "the turn is over a limit"
    );
}
