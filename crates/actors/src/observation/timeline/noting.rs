//! Records events of the program as moments of turns.

use std::time::Duration;

use tokio::time::Instant;

use super::{Mark, ROWS, STEPS, Spent, Timeline};
use domain::effort;
use domain::ending::Dropped;
use domain::gate::GateDecision;
use domain::happening::{Happening, ModelCalled};
use domain::ids::TurnId;
use domain::limits::Reservation;
use domain::limits::charge::Charge;
use domain::turn::{Effort, Outcome};
use ports::Observer;
use ports::vitals::{Counted, Spend, StepCost};

impl Observer for Timeline {
    fn observe(&self, happening: &Happening<'_>) {
        match *happening {
            Happening::TurnTaken { turn, decided } => self.accepted(turn, decided),
            Happening::TurnReserved(turn, reservation) => self.reserved(turn, reservation),
            Happening::TurnStarted(turn) => self.started(turn),
            Happening::TurnParked(gate) => self.asked(&gate.turn, "gate", &gate.tool),
            Happening::TurnDecided(gate, decision) => {
                let refused = (decision.told() != GateDecision::Approved).then(|| decision.as_str());
                self.returned(&gate.turn, &gate.tool, refused);
            }
            Happening::TurnCharged(turn, charge, tokens) => self.charged(turn, charge, tokens),
            Happening::TurnAnswered(turn, answer) => self.answered(&turn.id, &answer.effort),
            Happening::AnswerSeen(turn) => self.seen(turn),
            Happening::TurnPosted(ref posted) => {
                let visible = Instant::now().checked_sub(posted.visible_for);
                let outcome = posted.answer.map_or(&Outcome::Replied, |answer| &answer.outcome);
                self.posted(&posted.turn.id, outcome, visible.unwrap_or_else(Instant::now));
            }
            Happening::TurnDropped { turn, why, .. } => self.closed(&turn.id, why.outcome(), why.as_str()),
            Happening::TurnUndeliverable { turn, reason, .. } => self.closed(&turn.id, "failed", &reason.to_string()),
            Happening::TurnFenced(turn) => self.closed(&turn.id, "fenced", Dropped::Fenced.as_str()),
            Happening::TurnGivenUp(turn) => self.closed(turn, "failed", "its end failed the journal"),
            Happening::ModelAsked(turn, row) => self.asked(turn, "model", row),
            Happening::ModelCalled(ref call) => self.called(call),
            Happening::ToolBegan { turn, tool, .. } => self.asked(&turn.id, "tool", tool),
            Happening::ToolCalled(ref call) if call.end.is_some() => {
                let dollars = (call.paid_micros > 0).then(|| effort::dollars(call.paid_micros));
                let cost = dollars.map(|dollars| StepCost { dollars: Some(dollars), ..StepCost::default() });
                self.ended(call.origin.id, &call.call.entry.name, None, (call.error(), cost));
            }
            _ => {}
        }
    }
}

impl Timeline {
    /// Records that the turn requested a reservation from the limits of its member.
    pub(super) fn reserved(&self, turn: &TurnId, asked: &Reservation) {
        let Reservation { tokens: expected, limits, exempt, .. } = *asked;
        let of = (limits.messages, limits.tokens);
        self.with(turn, |line, now| {
            line.reserved.get_or_insert(now);
            line.counted =
                Some(Counted { expected, tokens: None, messages: 1, of_messages: of.0, of_tokens: of.1, exempt });
        });
    }

    /// Records the charge of the turn: its tokens if they are known, or nothing.
    pub(super) fn charged(&self, turn: &TurnId, charge: Charge, tokens: Option<u64>) {
        self.with(turn, |line, now| {
            line.charged.get_or_insert(now);
            let Some(counted) = &mut line.counted else { return };
            match charge {
                Charge::Settle => counted.tokens = Some(tokens.unwrap_or(counted.expected)),
                Charge::Cancel | Charge::Nothing => (counted.messages, counted.tokens) = (0, Some(0)),
            }
        });
    }

    /// Records that the lane of the turn let it start.
    pub(super) fn started(&self, turn: &TurnId) {
        self.with(turn, |line, now| {
            line.started.get_or_insert(now);
        });
    }

    /// Records that the turn calls a model, runs a tool, or waits for a decision: `kind` is `model`, `tool` or `gate`.
    pub(super) fn asked(&self, turn: &TurnId, kind: &'static str, name: &str) {
        self.with(turn, |line, now| {
            if line.steps.len() < STEPS {
                line.steps.push(Mark { kind, name: name.to_owned(), from: now, to: None, failed: None, cost: None });
            }
        });
    }

    /// Records that the turn's last step of this name returned or failed.
    pub(super) fn returned(&self, turn: &TurnId, name: &str, failed: Option<&str>) {
        self.ended(turn, name, None, (failed, None));
    }

    /// Ends a step, after this duration if it is known. The report of a model call comes from another actor than the
    /// end of the turn, and may be later.
    fn ended(
        &self,
        turn: &TurnId,
        name: &str,
        took: Option<Duration>,
        (failed, cost): (Option<&str>, Option<StepCost>),
    ) {
        self.with_any(turn, |line, now| {
            let until = line.ended.unwrap_or(now);
            let open = line.steps.iter_mut().rev().find(|step| step.to.is_none() && step.name == name);
            if let Some(step) = open {
                step.to = Some(took.map_or(until, |took| until.min(step.from + took)));
                step.failed = failed.map(str::to_owned);
                step.cost = cost;
            }
        });
    }

    /// Records the end of a model call; its tokens are added to the totals.
    pub(super) fn called(&self, call: &ModelCalled<'_>) {
        if let Some(turn) = call.turn {
            let cost = call.result.ok().map(|completed| StepCost {
                prompt_tokens: completed.usage.prompt,
                cached_tokens: completed.usage.cached,
                completion_tokens: completed.usage.completion,
                dollars: call.cost,
            });
            self.ended(turn, call.row, Some(call.took), (call.error(), cost));
        }
        let mut book = self.book.lock();
        let known = book.spent.iter().position(|spent| spent.model == call.row);
        let Some(at) = known.or_else(|| {
            (book.spent.len() < ROWS).then(|| {
                book.spent.push(Spend { model: call.row.to_owned(), ..Spend::default() });
                book.spent.len() - 1
            })
        }) else {
            return;
        };
        let spent = &mut book.spent[at];
        spent.calls += 1;
        spent.failed += u64::from(call.result.is_err());
        if let Ok(completed) = call.result {
            let usage = completed.usage;
            spent.prompt_tokens += usage.prompt;
            spent.cached_tokens += usage.cached;
            spent.completion_tokens += usage.completion;
        }
        if let Some(cost) = call.cost {
            spent.dollars = Some(spent.dollars.unwrap_or(0.0) + cost);
        }
    }

    /// Records that the answer is complete, and its cost.
    pub(super) fn answered(&self, turn: &TurnId, effort: &Effort) {
        self.with(turn, |line, now| {
            line.answered.get_or_insert(now);
            let dollars = effort.dollars();
            let Effort { times, model, trial, .. } = effort.clone();
            line.effort = Some(Spent { times, model, trial, dollars });
        });
    }

    /// Records that the answer is in the channel; its first part is visible since `visible`.
    pub(super) fn posted(&self, turn: &TurnId, outcome: &Outcome, visible: Instant) {
        self.with(turn, |line, now| {
            line.visible = Some(visible);
            match outcome {
                Outcome::Replied => line.end(now, "replied", None),
                Outcome::Hinted => line.end(now, "hinted", None),
                Outcome::Apologised(why) => line.end(now, "apologised", Some(why.as_str())),
                Outcome::Refused(limit) => line.end(now, "refused", Some(limit.as_str())),
            }
        });
    }

    /// Records an end without an answer: `outcome` is `failed`, `cancelled` or `dropped`.
    pub(super) fn closed(&self, turn: &TurnId, outcome: &'static str, reason: &str) {
        self.with(turn, |line, now| line.end(now, outcome, Some(reason)));
    }

    /// Records that the first words of the answer are visible while the rest is being written.
    pub(super) fn seen(&self, turn: &TurnId) {
        self.with(turn, |line, now| {
            line.visible.get_or_insert(now);
        });
    }
}
