//! outbox: the only way out for messages of one door.
//!
//! Supervised by: staffai (permanent).
//! Receives: answers from the journal, notices from the gateway, typing and drafts from turns, reads from turns and shards,
//! answers to commands from commands, reactions from the limiter.
//! Sends: deliveries (or the reason why there will be none) to the journal.
//! A restart loses: the queues and what is known of drafts; the journal offers every answer again, turns that go on writing
//! announce their drafts again, and both are looked for in the channel first. Budgets live outside and survive.
//!
//! Each place has two queues, one for posts and one for edits, and at most one courier for each: a monitored task that carries the
//! answer at the head. So posts keep their order within a place, an answer that finishes a draft by edit waits for no post and no
//! post waits for it, a slow place delays no other one, and nothing here ever waits for the network.
//!
//! A turn whose answer is being written has a draft slot. The outbox samples the slots, a place at most once a second and only
//! while no answer waits there, place after place as long as the budget leaves room for answers. First words are held until they
//! are worth a message, so that a short answer is one post. The first draft is a message with the nonce of the answer's first
//! piece, later ones edit it or begin a further message with the nonce of its piece, and the answer itself edits them all: it
//! waits for the draft that is still on its way, and for no pace. A draft whose post got no answer, or that an earlier life
//! posted, is looked for before anything else is posted. When a trigger is deleted, or its answer stopped, what stands of the answer is
//! removed.
//!
//! A place that the platform reports as gone or forbidden is closed for some seconds: what waits there waits, and the next answer
//! probes it. A rejection without a known reason closes nothing and is tried again. See [`ClosedPlaces`].

mod attempt;
mod beside;
mod closed;
mod courier;
mod courtesy;
mod doors;
mod drafts;
mod drawing;
mod found;
mod job;
mod pace;
mod pacer;
mod queue;
mod typing;
mod withdrawn;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

pub use self::closed::ClosedPlaces;
pub use self::closed::PlaceAccess;
use self::courier::Courier;
use self::courtesy::Courtesy;
pub use self::doors::Outboxes;
use self::drafts::{Drafts, Drawn};
use self::job::{Job, Task, Tries};
use self::pace::SharedPace;
pub use self::pacer::Pacer;
use self::queue::PlaceQueue;
use self::typing::Thinking;
use crate::messages::clearance::Clearance;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::{Delivery, OutboxMsg};
use crate::observation::board::{Board, PartKind};
use crate::observation::timeline::Timeline;
use crate::observation::turn_events::TurnEvents;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::shrink;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::alone::Alone;
use crate::services::running::Live;
use domain::ending::Unposted;
use domain::ids::{Door, MessageId, Place, TurnId};
use domain::outgoing::{Outgoing, Part};
use domain::shed::Shed;
use domain::turn_event::{NoAnswer, TurnUpdate};
use ports::{Dice, Origin, PostError, PostRequest, PostResult, Poster, Renderer, Subject};

/// The most notices that wait at once; further ones are dropped and counted. Answers are bounded by the permits of turns.
const NOTICES_MAX: usize = 1000;
/// The most posts that answer nobody which wait at once; further ones are refused.
const POSTS_MAX: usize = 100;
/// How often typing is shown again; the platform shows it for ten seconds.
const TYPING_EVERY: Duration = Duration::from_secs(8);
/// The shortest pause between two looks for turns that think long enough for typing to be shown.
const TYPING_LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often drafts are looked at; each place is changed less often.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// The most answered turns remembered, to pass over drafts that come late: more than can be open at once by default.
const ANSWERED_MAX: usize = 4_000;

/// What its timers and its couriers tell it.
pub enum OutboxEvent {
    /// A courier is done with the job at the head of its place's queue.
    CourierReturned(Place, Box<job::Returned>),
    /// Time to try what goes on beside the queues of a place.
    Sweep(Place),
    /// Time for a closed place to be probed.
    Probe(Place),
    /// A courier is done with a draft.
    Drew(drawing::Drew),
    /// Time to look at drafts.
    Sample,
    /// A turn may think long enough now for typing to be shown.
    TypingDue,
    /// Time to show typing again.
    ShowTyping,
    /// A courtesy may not be shown in this place before then.
    Muted(Place, Courtesy, Instant),
}

/// The behaviour and its arguments.
pub struct Outbox {
    /// The door.
    pub door: Door,
    /// Where readiness looks.
    pub board: Arc<Board>,
    /// The door's platform.
    pub poster: Arc<dyn Poster>,
    /// The door's budgets; they outlive this actor.
    pub pacer: Arc<Mutex<Pacer>>,
    /// The places that are closed now; they outlive this actor.
    pub closed: Arc<ClosedPlaces>,
    /// What this process runs with.
    pub live: Live,
    /// Jitter of retries.
    pub dice: Arc<dyn Dice>,
    /// Draws formulas for doors that take pictures.
    pub renderer: Arc<dyn Renderer>,
    /// Who wants to know.
    pub journal: Handle<JournalMsg>,
    /// Where those who read along learn of notices.
    pub events: TurnEvents,
    /// Where it is written down that the first words of an answer can be seen.
    pub timeline: Arc<Timeline>,
}

/// What the outbox holds.
#[derive(Default)]
pub struct OutboxState {
    lanes: HashMap<Place, PlaceQueue>,
    notices: usize,
    /// Who waits for posts that answer nobody.
    posts: HashMap<String, Reply<Result<Delivery, Unposted>>>,
    drafts: Drafts,
    /// The timer of samples runs.
    sampling: bool,
    typing: HashMap<Place, Thinking>,
    /// The timer of [`OutboxEvent::TypingDue`] runs.
    typing_due: bool,
    /// Places that refused a courtesy, or have shown it often enough: it is not shown there until then.
    mute: HashMap<(Place, Courtesy), Instant>,
    /// Turns whose answer came: nothing is drafted for them any more.
    answered: Answered,
    /// Turns that were closed without an answer: what comes of them late is removed.
    withdrawn: Answered,
    /// Turns that another process owns: what comes of them late is left as it is.
    released: Answered,
    /// What was posted that replies to nothing.
    alone: Alone,
    /// Places whose answers are refused, as far as readiness names them.
    refusing: HashSet<Place>,
    /// An answer is refused, and none was taken at this door since.
    refuses_all: bool,
}

/// The last answered turns.
type Answered = BoundedSet<TurnId, ANSWERED_MAX>;

impl Actor for Outbox {
    type Msg = OutboxMsg;
    type Event = OutboxEvent;
    type State = OutboxState;

    fn start(&self, ctx: &mut ActorContext<Outbox>) -> Result<OutboxState, Crash> {
        ctx.after(TYPING_EVERY, OutboxEvent::ShowTyping);
        // What an earlier life said of its posts is found out again.
        self.board.forget(PartKind::Posts, &self.posts());
        self.board.forget_within(PartKind::Place, self.door.as_str());
        Ok(OutboxState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: OutboxMsg,
        state: &mut OutboxState,
    ) -> Result<(), Crash> {
        match message {
            OutboxMsg::Deliver {
                turn,
                outgoing,
                since,
                check,
                others,
                nonce_until,
                drafted,
                refused,
                rescue,
                clearance,
            } => {
                state.quiet(&outgoing.place, &turn);
                let place = outgoing.place.clone();
                let drawn = drafted.then(Drawn::forgotten);
                state.answered.insert(&turn);
                self.enqueue(
                    ctx,
                    state,
                    &place,
                    Job {
                        check,
                        others,
                        nonce_until,
                        drawn,
                        since: Some(since),
                        tries: refused.map(Tries::before).unwrap_or_default(),
                        rescue,
                        clearance,
                        ..Job::new(Task::Turn(turn), outgoing)
                    },
                );
            }
            OutboxMsg::Notify { about, place, text } => self.notify(ctx, state, &about, &place, text),
            OutboxMsg::Post { name, outgoing, reply } => self.post(ctx, state, name, outgoing, reply),
            OutboxMsg::React { about, place, emoji } => {
                let request = PostRequest::React { place: place.clone(), message: about, emoji };
                self.show(ctx, state, Courtesy::Reaction, place, request);
            }
            OutboxMsg::Typing { place, turn, until } => self.thinks(ctx, state, place, turn, until),
            // Nothing may be drawn over an answer.
            OutboxMsg::Draft(draft)
                if [&state.answered, &state.withdrawn, &state.released]
                    .iter()
                    .any(|ended| ended.contains(&draft.turn)) => {}
            OutboxMsg::Draft(draft) => {
                let place = draft.place.clone();
                state.drafts.note(draft);
                self.sample_changed(ctx, state, &place);
                if !std::mem::replace(&mut state.sampling, true) {
                    ctx.after(SAMPLE_EVERY, OutboxEvent::Sample);
                }
            }
            OutboxMsg::Quiet(place, turn) => state.quiet(&place, &turn),
            OutboxMsg::Forget(place, turn) => {
                state.quiet(&place, &turn);
                state.drafts.remove(&place, &turn);
            }
            OutboxMsg::Withdraw { place, turn, perhaps } => self.withdrawn(ctx, state, &place, &turn, perhaps),
            OutboxMsg::Release { place, turn } => Self::release(state, &place, &turn),
            OutboxMsg::Read(request, reply) => self.read(ctx, request, reply),
            OutboxMsg::Interact(request, reply) => self.interact(ctx, request, reply),
            OutboxMsg::AccessChanged(place) => self.access_changed(ctx, state, place.as_ref()),
        }
        Ok(())
    }

    fn subject(message: &OutboxMsg) -> Option<Subject> {
        match message {
            OutboxMsg::Deliver { turn, outgoing, .. } => Some(job::subject(&Task::Turn(turn.clone()), outgoing)),
            OutboxMsg::Draft(draft) => Some(Subject::of(&("draft", &draft.turn))),
            OutboxMsg::Post { name, outgoing, .. } => Some(job::subject(&Task::Post(name.clone()), outgoing)),
            OutboxMsg::Read(request, _) => Some(Subject::of(&format!("{request:?}"))),
            OutboxMsg::Notify { .. }
            | OutboxMsg::Typing { .. }
            | OutboxMsg::React { .. }
            | OutboxMsg::Quiet(..)
            | OutboxMsg::Forget(..)
            | OutboxMsg::Withdraw { .. }
            | OutboxMsg::Release { .. }
            | OutboxMsg::Interact(..)
            | OutboxMsg::AccessChanged(_) => None,
        }
    }

    fn origin(event: &OutboxEvent) -> Origin {
        match event {
            OutboxEvent::CourierReturned(_, returned) => {
                Origin::Outside(Some(job::subject(&returned.job.task, &returned.job.outgoing)))
            }
            OutboxEvent::Drew(_) => Origin::Outside(None),
            OutboxEvent::Probe(_)
            | OutboxEvent::Sweep(_)
            | OutboxEvent::Sample
            | OutboxEvent::TypingDue
            | OutboxEvent::ShowTyping
            | OutboxEvent::Muted(..) => Origin::Own,
        }
    }

    fn give_up(&self, _ctx: &mut ActorContext<Self>, message: OutboxMsg, _state: &mut OutboxState) {
        if let OutboxMsg::Deliver { turn, .. } = message {
            // A journal that is down offers the answer again.
            let _ = self.journal.cast(JournalMsg::Undeliverable(turn, Unposted::Poison));
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: OutboxEvent,
        state: &mut OutboxState,
    ) -> Result<(), Crash> {
        match event {
            OutboxEvent::CourierReturned(place, returned) => self.courier_returned(ctx, state, &place, *returned),
            OutboxEvent::Sweep(place) => self.sweep(ctx, state, &place),
            OutboxEvent::Probe(place) => self.send_couriers(ctx, state, &place),
            OutboxEvent::Drew(drew) => self.drew(ctx, state, drew),
            OutboxEvent::Sample => {
                self.sample(ctx, state);
                state.sampling = !state.drafts.is_empty();
                if state.sampling {
                    ctx.after(SAMPLE_EVERY, OutboxEvent::Sample);
                }
            }
            OutboxEvent::TypingDue => self.typing_due(ctx, state),
            OutboxEvent::ShowTyping => {
                let now = Instant::now();
                state.tidy(now);
                state.mute.retain(|_, until| *until > now);
                for place in state.still_typing(now) {
                    self.show_typing(ctx, state, place);
                }
                ctx.after(TYPING_EVERY, OutboxEvent::ShowTyping);
            }
            OutboxEvent::Muted(place, courtesy, until) => drop(state.mute.insert((place, courtesy), until)),
        }
        Ok(())
    }
}

impl Outbox {
    fn notify(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        about: &MessageId,
        place: &Place,
        text: String,
    ) {
        if state.notices >= NOTICES_MAX {
            tracing::warn!(
                event = "turn.shed",
                r#where = Shed::Outbox.as_str(),
                turn = %TurnId::of(about),
                %place,
                "too many notices wait; one was dropped"
            );
            metrics::counter!("staffai_shed_total", "where" => Shed::Outbox.as_str()).increment(1);
            return;
        }
        state.notices += 1;
        let parts = vec![Part::Text { text }];
        let id = TurnId::of(about);
        self.events.publish(place, &id, || TurnUpdate::Apology {
            parts: parts.as_slice().into(),
            why: NoAnswer::NotTaken,
            again: None,
        });
        self.events.publish(place, &id, || TurnUpdate::DONE);
        let outgoing =
            Outgoing { place: place.clone(), reply_to: Some(about.clone()), parts, apology: true, spent: None };
        self.enqueue(ctx, state, place, Job::new(Task::Notice(about.clone()), outgoing));
    }

    fn post(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        name: String,
        outgoing: Outgoing,
        reply: Reply<Result<Delivery, Unposted>>,
    ) {
        if state.posts.len() >= POSTS_MAX {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(Err(Unposted::Busy));
            return;
        }
        state.posts.insert(name.clone(), reply);
        let place = outgoing.place.clone();
        self.enqueue(ctx, state, &place, Job::new(Task::Post(name), outgoing));
    }

    fn courier(&self, pace: SharedPace) -> Courier {
        let (poster, pacer, dice) = (Arc::clone(&self.poster), Arc::clone(&self.pacer), Arc::clone(&self.dice));
        let (renderer, live) = (Arc::clone(&self.renderer), self.live.clone());
        let (task, tries, patience, clearance) = (None, Tries::default(), None, Clearance::default());
        Courier { poster, pacer, dice, renderer, pace, live, task, tries, patience, clearance }
    }

    fn interact(
        &self,
        ctx: &mut ActorContext<Outbox>,
        request: PostRequest,
        reply: Reply<Result<PostResult, PostError>>,
    ) {
        let mut courier = self.courier(SharedPace::default());
        ctx.background(async move {
            // Whoever asked may have stopped waiting.
            let _ = reply.send(courier.attempt(&request).await);
        });
    }

    fn read(&self, ctx: &mut ActorContext<Outbox>, request: PostRequest, reply: Reply<Result<PostResult, PostError>>) {
        let mut courier = self.courier(SharedPace::default());
        ctx.background(async move {
            // The reader may have stopped waiting.
            let _ = reply.send(courier.read(&request).await);
        });
    }
}

impl OutboxState {
    /// Forgets places where nothing waits and nothing has to be remembered, and drafts that nobody ended.
    fn tidy(&mut self, now: Instant) {
        self.drafts.expire(now);
        self.lanes.retain(|_, queue| !queue.is_idle(now));
        shrink::shrink(&mut self.lanes);
        shrink::shrink(&mut self.typing);
    }
}

#[cfg(test)]
mod tests;
