//! outbox: the only sender of messages through one door.
//!
//! Supervised by: staffai (permanent).
//! Receives: answers from the journal; notices from the gateway; typing, drafts and reads from turn tasks; reads and
//! changes of permissions from shards; answers to commands from commands; posts, statuses and answers to clicks from
//! approvals; posts from the reporter; posts, notices and changes of roles from the sweeper; reactions from the limiter.
//! Sends: deliveries, or the reason for a failed delivery, to the journal.
//! A restart loses: the queues and the state of drafts. The journal offers every answer again, and running turns
//! announce their drafts again; the outbox looks for both in the channel before it posts. Budgets live outside of the
//! actor and survive.
//!
//! Each place has two queues, one for posts and one for edits, and at most one courier for each queue: a monitored
//! task that delivers one answer. So posts keep their order within a place, except that a short answer may pass a new
//! long one of another person (`job::take_next`); posts and edits do not delay each other, a slow place delays no other place, and the outbox itself never waits for the network.
//!
//! A streaming turn has a draft slot ("Drafts" in `actors.md`). The outbox samples the slots while the budget leaves
//! room for answers: each place at most once a second, and only while no answer is queued there. An answer edits the
//! messages of its draft; it waits for a draft in flight, but not for the pace. If the post of a draft got no response,
//! or an earlier process posted it, the outbox looks for that draft before it posts anything else. If the trigger is
//! deleted or the answer is stopped, the posted part of the answer is removed.
//!
//! A place that the platform reports as gone or forbidden is closed for some seconds: its answers stay queued, and the
//! next answer probes it. A rejection without a known reason closes nothing and is retried. See [`ClosedPlaces`].

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
use tokio::sync::Semaphore;
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
use self::pacer::Payer;
use self::queue::PlaceQueue;
use self::typing::TypingTurns;
use crate::messages::clearance::Clearance;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::{Delivery, OutboxMsg};
use crate::observation::board::{Board, PartKind};
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::runtime::bounded_set::BoundedSet;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::shrink;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::alone::Alone;
use crate::services::running::Live;
use domain::ending::Unposted;
use domain::happening::{Bound, Happening, WorkShed};
use domain::ids::{Door, MessageId, Place, TurnId};
use domain::outgoing::{Outgoing, Part, Piece};
use domain::shed::Shed;
use domain::turn_event::{NoAnswer, TurnUpdate};
use ports::shares::Shares;
use ports::{Dice, Origin, PostError, PostRequest, PostResult, Poster, Renderer, Subject};

/// The most queued notices, shared by the payers of requests; further ones are dropped and counted. The permits of
/// turns bound the answers.
const NOTICES_MAX: usize = 1000;
/// The most queued posts that answer no message, shared in the same way; further ones are refused.
const POSTS_MAX: usize = 100;
/// The interval of typing indicators; the platform shows one for ten seconds.
const TYPING_EVERY: Duration = Duration::from_secs(8);
/// The shortest pause between two checks for turns that have been running long enough for a typing indicator.
const TYPING_LOOK_EVERY: Duration = Duration::from_millis(50);
/// The sampling interval of drafts; each place changes less often.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// The most answered turns remembered, to ignore late drafts. By default, fewer turns than this can be open at once.
const ANSWERED_MAX: usize = 4_000;

/// The reply to a request that another actor makes through the outbox.
type RequestReply = Reply<Result<PostResult, PostError>>;

/// The way in which a request of another actor is made.
#[derive(Clone, Copy)]
enum RequestKind {
    /// With a few tries, within the budgets.
    Read,
    /// In one attempt, without the budgets.
    Interact,
}

/// Events from the outbox's own timers and couriers.
pub enum OutboxEvent {
    /// A courier finished its job.
    CourierReturned(Place, Box<job::Returned>),
    /// The answers beside the queues of a place are due for a sweep.
    Sweep(Place),
    /// A closed place is due for a probe.
    Probe(Place),
    /// A courier finished a draft.
    DraftReturned(drawing::DraftReturn),
    /// Drafts are due for sampling.
    Sample,
    /// A turn may have been running long enough for a typing indicator.
    TypingDue,
    /// Typing indicators are due for a refresh.
    ShowTyping,
    /// A courtesy is muted in this place until this time.
    Muted(Place, Courtesy, Instant),
}

/// The behaviour and its arguments.
pub struct Outbox {
    /// The door.
    pub door: Door,
    /// The board that readiness reads.
    pub board: Arc<Board>,
    /// The door's platform.
    pub poster: Arc<dyn Poster>,
    /// The door's budgets; they survive a restart of this actor.
    pub pacer: Arc<Mutex<Pacer>>,
    /// The closed places; they survive a restart of this actor.
    pub closed: Arc<ClosedPlaces>,
    /// The settings in use.
    pub live: Live,
    /// Jitter of retries.
    pub dice: Arc<dyn Dice>,
    /// Draws formulas for doors that accept pictures.
    pub renderer: Arc<dyn Renderer>,
    /// Receives the deliveries.
    pub journal: Handle<JournalMsg>,
    /// Carries notices to the clients of event streams.
    pub events: TurnEvents,
    /// Receives the events of posts.
    pub observers: Observers,
}

/// The state of the outbox.
#[derive(Default)]
pub struct OutboxState {
    lanes: HashMap<Place, PlaceQueue>,
    room: Room,
    /// The callers that wait for posts that answer no message.
    posts: HashMap<String, Reply<Result<Delivery, Unposted>>>,
    drafts: Drafts,
    /// True if the sampling timer is running.
    sampling: bool,
    typing: HashMap<Place, TypingTurns>,
    /// True if the timer of [`OutboxEvent::TypingDue`] is running.
    typing_due: bool,
    /// The time until which a courtesy is muted in a place, because the place refused it or reached its limit.
    mute: HashMap<(Place, Courtesy), Instant>,
    /// Turns whose answer arrived: they get no more drafts.
    answered: Answered,
    /// Turns closed without an answer: late posts of them are removed.
    withdrawn: Answered,
    /// Turns that another process owns: late posts of them stay.
    released: Answered,
    /// Posts that are not replies.
    alone: Alone,
    /// Places whose answers are refused, up to the number that readiness names.
    refusing: HashSet<Place>,
    /// True if an answer is refused and this door has accepted none since.
    refuses_all: bool,
}

/// The bounds that communities share: a community whose requests wait leaves room for posts in the others. Each job
/// holds its share until it ends.
struct Room {
    notices: Shares<Payer>,
    posts: Shares<Payer>,
}

impl Default for Room {
    fn default() -> Self {
        let [notices, posts] = [NOTICES_MAX, POSTS_MAX].map(|most| Shares::new(Arc::new(Semaphore::new(most))));
        Self { notices, posts }
    }
}

/// The last answered turns.
type Answered = BoundedSet<TurnId, ANSWERED_MAX>;

impl Actor for Outbox {
    type Msg = OutboxMsg;
    type Event = OutboxEvent;
    type State = OutboxState;

    fn start(&self, ctx: &mut ActorContext<Outbox>) -> Result<OutboxState, Crash> {
        ctx.after(TYPING_EVERY, OutboxEvent::ShowTyping);
        // The state of posts reported by an earlier run is stale, and is determined again.
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
                person,
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
                state.answered.insert(&turn);
                let (place, drawn) = (outgoing.place.clone(), drafted.then(Drawn::forgotten));
                let job = Job {
                    person: Some(person),
                    check,
                    others,
                    nonce_until,
                    drawn,
                    since: Some(since),
                    tries: refused.map(Tries::before).unwrap_or_default(),
                    rescue,
                    clearance,
                    ..Job::new(Task::Turn(turn), outgoing)
                };
                self.enqueue(ctx, state, &place, job);
            }
            OutboxMsg::Notify { about, place, text } => self.notify(ctx, state, &about, &place, text),
            OutboxMsg::Post { name, outgoing, reply } => self.post(ctx, state, name, outgoing, reply),
            OutboxMsg::React { about, place, emoji } => {
                let request = PostRequest::React { place: place.clone(), message: about, emoji };
                self.show(ctx, state, Courtesy::Reaction, place, request);
            }
            OutboxMsg::Typing { place, turn, until } => self.thinks(ctx, state, place, turn, until),
            // A draft must not overwrite an answer.
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
            OutboxMsg::Read(request, reply) => self.request(ctx, RequestKind::Read, request, reply),
            OutboxMsg::Status { place, message, piece } => self.show_status(ctx, place, message, piece),
            // The caller may have stopped waiting.
            OutboxMsg::Kind(place, reply) => drop(reply.send(self.poster.kind(&place))),
            OutboxMsg::Interact(request, reply) => self.request(ctx, RequestKind::Interact, request, reply),
            OutboxMsg::AccessChanged(scope) => self.access_changed(ctx, state, &scope),
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
            | OutboxMsg::Status { .. }
            | OutboxMsg::Kind(..)
            | OutboxMsg::Interact(..)
            | OutboxMsg::AccessChanged(_) => None,
        }
    }

    fn origin(event: &OutboxEvent) -> Origin {
        match event {
            OutboxEvent::CourierReturned(_, returned) => {
                Origin::Outside(Some(job::subject(&returned.job.task, &returned.job.outgoing)))
            }
            OutboxEvent::DraftReturned(_) => Origin::Outside(None),
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
            // If the journal refuses this, it offers the answer again.
            self.journal.tell(JournalMsg::Undeliverable(turn, Unposted::Poison));
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
            OutboxEvent::DraftReturned(returned) => self.draft_returned(ctx, state, returned),
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
        let id = TurnId::of(about);
        let Some(share) = state.room.notices.take(Some(&Payer::at(&*self.poster, place))) else {
            let (turn, place) = (Some(&id), Some(place));
            let shed = WorkShed { at: Shed::Outbox, turn, place, member: None, bound: Bound::Number };
            return self.observers.tell(&Happening::WorkShed(shed));
        };
        let parts = vec![Part::Text { text }];
        self.events.publish(place, &id, || TurnUpdate::Apology {
            parts: parts.as_slice().into(),
            why: NoAnswer::NotTaken,
            again: None,
        });
        self.events.publish(place, &id, || TurnUpdate::DONE);
        let outgoing = Outgoing {
            place: place.clone(),
            reply_to: Some(about.clone()),
            parts,
            apology: true,
            spent: None,
            private: true,
        };
        let job = Job { share: Some(Arc::new(share)), ..Job::new(Task::Notice(about.clone()), outgoing) };
        self.enqueue(ctx, state, place, job);
    }

    fn post(
        &self,
        ctx: &mut ActorContext<Outbox>,
        state: &mut OutboxState,
        name: String,
        outgoing: Outgoing,
        reply: Reply<Result<Delivery, Unposted>>,
    ) {
        let share = state.room.posts.take(Some(&Payer::at(&*self.poster, &outgoing.place)));
        // A repeated post waits for the job of the first.
        if share.is_none() && !state.posts.contains_key(&name) {
            // The caller may have stopped waiting.
            let _ = reply.send(Err(Unposted::Busy));
            return;
        }
        state.posts.insert(name.clone(), reply);
        let place = outgoing.place.clone();
        let job = Job { share: share.map(Arc::new), ..Job::new(Task::Post(name), outgoing) };
        self.enqueue(ctx, state, &place, job);
    }

    fn courier(&self, pace: SharedPace) -> Courier {
        let (poster, pacer, dice) = (Arc::clone(&self.poster), Arc::clone(&self.pacer), Arc::clone(&self.dice));
        let (renderer, live) = (Arc::clone(&self.renderer), self.live.clone());
        let (task, tries, patience, clearance) = (None, Tries::default(), None, Clearance::default());
        Courier { poster, pacer, dice, renderer, pace, live, task, tries, patience, clearance }
    }

    /// Performs one request in a task.
    fn request(&self, ctx: &mut ActorContext<Outbox>, kind: RequestKind, request: PostRequest, reply: RequestReply) {
        let mut courier = self.courier(SharedPace::default());
        ctx.background(async move {
            let result = match kind {
                RequestKind::Read => courier.read(&request).await,
                RequestKind::Interact => courier.attempt(&request).await,
            };
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        });
    }

    fn show_status(&self, ctx: &mut ActorContext<Outbox>, place: Place, message: MessageId, piece: Piece) {
        if !self.poster.admits_draft(&place) {
            return;
        }
        let mut courier = self.courier(SharedPace::default());
        ctx.background(async move {
            // The next status replaces one that cannot be shown.
            let _ = courier.perform(&PostRequest::Edit { place, message, piece }).await;
        });
    }
}

impl OutboxState {
    /// Removes the state of idle places, and drafts that never ended.
    fn tidy(&mut self, now: Instant) {
        self.drafts.expire(now);
        self.lanes.retain(|_, queue| !queue.is_idle(now));
        shrink::shrink(&mut self.lanes);
        shrink::shrink(&mut self.typing);
    }
}

#[cfg(test)]
mod tests;
