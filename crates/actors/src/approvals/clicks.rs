//! Somebody presses a button: they are told that an answer comes, it is decided, and they are answered.

use super::{Approvals, ApprovalsEvent, ApprovalsState, CLICKS_MAX};
use crate::desk::Desk;
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::ActorContext;
use domain::command::Callback;
use domain::gate::{Click, Clicker, Decision, Gate, Refusal};
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::Place;
use domain::locale::Locale;
use domain::notice::gate as words;
use domain::outgoing::Piece;
use domain::shed::Shed;

/// A click, and who waits for its outcome besides whoever clicked.
pub struct Clicked {
    pub(super) click: Click,
    pub(super) reply: Option<Reply<Result<Decision, Refusal>>>,
}

/// A click that could not be told apart from silence: nothing came of it.
pub(super) type Outcome = Result<Decision, Refusal>;

impl Clicked {
    /// Who clicked, for the log.
    fn by(&self) -> String {
        match &self.click.by {
            Clicker::Member(caller) => caller.person.to_string(),
            Clicker::Client(door, None) => format!("a program at {door}"),
            Clicker::Client(_, Some(person)) => person.to_string(),
        }
    }

    /// The language of whoever clicked.
    fn locale(&self) -> Locale {
        match &self.click.by {
            Clicker::Member(caller) => caller.locale(),
            Clicker::Client(..) => Locale::English,
        }
    }
}

impl Approvals {
    /// Says that an answer comes. The platform takes that once, so it is also the claim: without it nothing is decided.
    pub(super) fn claim(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, clicked: Clicked) {
        let Some((callback, place)) = answered_at(&clicked.click) else { return self.decide(ctx, state, clicked) };
        if !state.seen.insert(&callback.id) {
            tracing::debug!(event = "gateway.dropped", reason = "seen before", "click dropped");
            return;
        }
        if state.clicks >= CLICKS_MAX {
            let shed = WorkShed::beside(Shed::Commands, Bound::Clicks, None);
            return self.ways.account.tell(&Happening::WorkShed(shed));
        }
        state.clicks += 1;
        let ways = self.ways.clone();
        ctx.task(
            async move {
                let claimed = Desk::new(&ways, &callback, &place).claim().await;
                ApprovalsEvent::Claimed(claimed.then(|| Box::new(clicked)))
            },
            |_| ApprovalsEvent::Claimed(None),
        );
    }

    /// Whoever clicked knows that an answer comes: it is decided.
    pub(super) fn decide(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, clicked: Clicked) {
        let now = self.clock.now();
        let Some(open) = state.open.get_mut(&clicked.click.gate) else {
            // What an earlier life left may not be known yet.
            let why = if state.loaded { Refusal::Unknown } else { Refusal::NotRecorded };
            return self.refuse(ctx, clicked, why, None);
        };
        match open.case.click(&clicked.click, now) {
            Ok(decision) => self.record(ctx, open, decision, Some(clicked)),
            Err(why) => {
                let gate = open.case.gate.clone();
                self.refuse(ctx, clicked, why, Some(&gate));
            }
        }
    }

    /// A click decides nothing.
    pub(super) fn refuse(
        &self,
        ctx: &mut ActorContext<Approvals>,
        clicked: Clicked,
        why: Refusal,
        gate: Option<&Gate>,
    ) {
        let (id, by, place) = (&clicked.click.gate, clicked.by(), clicked.click.place.as_ref());
        self.ways.account.tell(&Happening::GateRefused { gate: id, why, by: &by, place });
        let text = words::refused(why, gate, clicked.locale());
        self.answer(ctx, clicked, Err(why), text);
    }

    /// A click decided.
    pub(super) fn confirm(&self, ctx: &mut ActorContext<Approvals>, clicked: Clicked, decision: Decision) {
        let text = words::taken(clicked.click.choice, clicked.locale()).to_owned();
        self.answer(ctx, clicked, Ok(decision), text);
    }

    /// Tells whoever clicked, and nobody else.
    fn answer(&self, ctx: &mut ActorContext<Approvals>, clicked: Clicked, outcome: Outcome, text: String) {
        let Clicked { click, reply } = clicked;
        // Whoever asked may have stopped waiting.
        let _ = reply.map(|reply| reply.send(outcome));
        let Some((callback, place)) = answered_at(&click) else { return };
        let ways = self.ways.clone();
        ctx.task(
            async move {
                Desk::new(&ways, &callback, &place).respond(Piece::text(text)).await;
                ApprovalsEvent::Answered
            },
            |_| ApprovalsEvent::Answered,
        );
    }
}

/// Where a click is answered.
fn answered_at(click: &Click) -> Option<(Callback, Place)> {
    click.callback.clone().zip(click.place.clone())
}
