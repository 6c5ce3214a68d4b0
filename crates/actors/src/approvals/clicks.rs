//! Handles a click on a button: defers the response, decides, and responds.

use std::time::Duration;

use super::{Approvals, ApprovalsEvent, ApprovalsState};
use crate::desk::Desk;
use crate::messages::outbox::OutboxMsg;
use crate::runtime::handle::Reply;
use crate::runtime::supervisor::ActorContext;
use domain::command::Callback;
use domain::gate::{ApprovalDecision, Choice, Click, ClickRefusal, Clicker, Gate};
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::Place;
use domain::locale::Locale;
use domain::notice::gate as words;
use domain::outgoing::Piece;
use domain::shed::Shed;
use ports::PostRequest;
use ports::shares::Share;
use telemetry::events::GATEWAY_DROPPED;

/// The maximum time for showing a form. The platform gives up after three seconds.
const FORM_TIMEOUT: Duration = Duration::from_millis(2_500);

/// A click, and the caller that receives its outcome in addition to the member who clicked.
pub struct Clicked {
    pub(super) click: Click,
    reply: Option<Reply<Result<ApprovalDecision, ClickRefusal>>>,
    /// The share of the click responses in progress, until the response is sent.
    share: Option<Share>,
    /// True if other processes need not be asked for its gate.
    pub(super) was_passed: bool,
}

/// The outcome of a click: the decision, or the reason why there is none.
pub(super) type Outcome = Result<ApprovalDecision, ClickRefusal>;

impl Clicked {
    pub(super) const fn new(click: Click, reply: Option<Reply<Outcome>>) -> Self {
        Self { click, reply, share: None, was_passed: false }
    }

    /// A click that arrived at another process.
    pub(super) const fn passed(click: Click) -> Self {
        Self { click, reply: None, share: None, was_passed: true }
    }

    /// The member who clicked, for the log.
    fn by(&self) -> String {
        match &self.click.by {
            Clicker::Member(caller) => caller.person.to_string(),
            Clicker::Client(door, None) => format!("a program at {door}"),
            Clicker::Client(_, Some(person)) => person.to_string(),
        }
    }

    /// The language of the member who clicked.
    fn locale(&self) -> Locale {
        match &self.click.by {
            Clicker::Member(caller) => caller.locale(),
            Clicker::Client(..) => Locale::English,
        }
    }
}

impl Approvals {
    /// Defers the response. The platform accepts one deferral, so it is also the claim: without it, the click decides
    /// nothing.
    pub(super) fn claim(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, mut clicked: Clicked) {
        let Some((callback, place)) = answered_at(&clicked.click) else { return self.decide(ctx, state, clicked) };
        if self.is_fenced(&place.door) {
            // The platform passes the click to the owner as well.
            return;
        }
        if self.is_elsewhere(state, &clicked) {
            return self.pass_on(ctx, clicked);
        }
        if !state.seen.insert(&callback.id) {
            tracing::debug!(event = GATEWAY_DROPPED, reason = "seen before", "click dropped");
            return;
        }
        let Some(share) = state.clicks.take(clicked.click.by.person()) else {
            let shed = WorkShed::beside(Shed::Commands, Bound::Clicks, None);
            return self.ways.observers.tell(&Happening::WorkShed(shed));
        };
        clicked.share = Some(share);
        if self.open_form(ctx, state, &mut clicked) {
            return;
        }
        let (ways, events) = (self.ways.clone(), ctx.events());
        ctx.background(async move {
            if Desk::new(&ways, &callback, &place).claim().await {
                // An actor that restarted leaves the click undecided: the member repeats it.
                events.tell(ApprovalsEvent::Claimed(Box::new(clicked)));
            }
        });
    }

    /// Shows the form of a question to the member who may answer it; the form is the response. Returns false if there
    /// is none to show.
    fn open_form(&self, ctx: &mut ActorContext<Approvals>, state: &ApprovalsState, clicked: &mut Clicked) -> bool {
        let (click, now) = (&clicked.click, self.clock.now());
        let open = state.open.get(&click.gate).filter(|open| !open.recording);
        let (Some(form), Some(callback)) = (open.and_then(|open| open.case.form_for(click, now)), &click.callback)
        else {
            return false;
        };
        let outbox = self.ways.outboxes.of(&callback.id.door).clone();
        let title = open.map_or("", |open| open.case.gate.tool.as_str()).to_owned();
        let (to, name) = (callback.clone(), Choice::Once.button(&click.gate));
        let request = PostRequest::OpenForm { to, name, title, form: form.clone(), locale: clicked.locale() };
        let share = clicked.share.take();
        ctx.background(async move {
            // The member presses the button again.
            let _ = outbox.call(|reply| OutboxMsg::Interact(request, reply), FORM_TIMEOUT).await;
            drop(share);
        });
        true
    }

    /// Decides, once the response is deferred.
    pub(super) fn decide(&self, ctx: &mut ActorContext<Approvals>, state: &mut ApprovalsState, clicked: Clicked) {
        let now = self.clock.now();
        let Some(open) = state.open.get_mut(&clicked.click.gate) else {
            // The state of an earlier process may not be loaded yet.
            let why = if state.loaded { ClickRefusal::Unknown } else { ClickRefusal::NotRecorded };
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

    /// Responds that the click decides nothing.
    pub(super) fn refuse(
        &self,
        ctx: &mut ActorContext<Approvals>,
        clicked: Clicked,
        why: ClickRefusal,
        gate: Option<&Gate>,
    ) {
        let (id, by, place) = (&clicked.click.gate, clicked.by(), clicked.click.place.as_ref());
        self.ways.observers.tell(&Happening::GateRefused { gate: id, why, by: &by, place });
        let text = words::refused(why, gate, clicked.locale());
        let field = gate.and_then(|gate| gate.subject.misfitting(why)).map(|field| (field.name.clone(), text.clone()));
        self.answer(ctx, clicked, Err(why), text, field.into_iter().collect());
    }

    /// Responds that the click decided.
    pub(super) fn confirm(
        &self,
        ctx: &mut ActorContext<Approvals>,
        clicked: Clicked,
        gate: &Gate,
        decision: ApprovalDecision,
    ) {
        let text = words::taken(gate, clicked.click.choice, clicked.locale()).to_owned();
        self.answer(ctx, clicked, Ok(decision), text, Vec::new());
    }

    /// Responds, visibly only to the member who clicked, with the fields to correct.
    fn answer(
        &self,
        ctx: &mut ActorContext<Approvals>,
        clicked: Clicked,
        outcome: Outcome,
        text: String,
        problems: Vec<(String, String)>,
    ) {
        let Clicked { click, reply, share, .. } = clicked;
        // The caller may have stopped waiting.
        let _ = reply.map(|reply| reply.send(outcome));
        let Some((callback, place)) = answered_at(&click) else { return };
        let (ways, fenced) = (self.ways.clone(), self.is_fenced(&place.door));
        ctx.background(async move {
            if !fenced {
                Desk::new(&ways, &callback, &place).correct(Piece::text(text), problems).await;
            }
            drop(share);
        });
    }
}

/// Returns the callback and the place for the response to a click.
fn answered_at(click: &Click) -> Option<(Callback, Place)> {
    click.callback.clone().zip(click.place.clone())
}
