//! outbox: the only way out for messages of one door.
//!
//! Supervised by: staffai (permanent).
//! Receives: answers from the journal, notices from the gateway, typing from turns, reads from turns and shards.
//! Sends: deliveries (or the reason why there will be none) to the journal.
//! A restart loses: the queues; the journal offers every answer again. Budgets live outside and survive.
//!
//! Each place has a queue and at most one courier, a monitored task that posts the answer at the head. So order holds within a
//! place, a slow place delays nobody else, and nothing here ever waits for the network.

mod courier;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use self::courier::{Courier, Job, Task};
pub use self::courier::{Delivery, Pacer};
use super::handle::{Handle, Reply};
use super::journal::JournalMsg;
use super::supervisor::{Actor, Crash, Me};
use crate::domain::ids::{MessageId, Place, TurnId};
use crate::domain::outgoing::{Outgoing, Part};
use crate::ports::{Dice, PostError, PostRequest, PostResult, Poster};

/// The most notices that wait at once; further ones are dropped and counted. Answers are bounded by the permits of turns.
const NOTICES_MAX: usize = 1000;
/// How often typing is shown again; the platform shows it for ten seconds.
const TYPING_EVERY: Duration = Duration::from_secs(8);
/// How many of a second's requests typing leaves free for answers.
const TYPING_SPARES: u32 = 20;
/// How long a place that refused us (gone, forbidden) is left alone.
const CLOSED_FOR: Duration = Duration::from_secs(60);

/// What the outbox is told and asked.
pub enum OutboxMsg {
    /// The journal has an answer; its delivery must be reported back.
    Deliver {
        /// The turn, also the nonce.
        turn: TurnId,
        /// What to post.
        outgoing: Outgoing,
        /// Look into the channel first: an earlier life may have posted some of it.
        check: bool,
    },
    /// The gateway has a word for somebody that belongs to no turn. Nobody waits for it.
    Notify {
        /// The message that it is about, also the nonce.
        about: MessageId,
        /// Where.
        place: Place,
        /// The sentence.
        text: String,
    },
    /// A turn began to think: typing is shown until it is answered, quiet, or late.
    Typing {
        /// Where.
        place: Place,
        /// Which turn.
        turn: TurnId,
        /// When it ends in any case.
        until: Instant,
    },
    /// A turn stopped thinking.
    Quiet(Place, TurnId),
    /// The trigger was deleted: an answer that nobody has begun to post is dropped.
    Forget(Place, TurnId),
    /// Somebody wants to read from the platform, within its budgets.
    Read(PostRequest, Reply<Result<PostResult, PostError>>),
    /// A courier is done with the job at the head of its place's queue.
    CourierReturned(Place, courier::Returned),
    /// Time to show typing again.
    ShowTyping,
    /// The typing indicator of this place cannot be shown.
    TypingRefused(Place),
}

/// The behaviour and its arguments.
pub struct Outbox {
    /// The door's platform.
    pub poster: Arc<dyn Poster>,
    /// The door's budgets; they outlive this actor.
    pub pacer: Arc<Mutex<Pacer>>,
    /// Jitter of retries.
    pub dice: Arc<dyn Dice>,
    /// Who wants to know.
    pub journal: Handle<JournalMsg>,
}

/// What the outbox holds.
pub struct OutboxState {
    lanes: HashMap<Place, PlaceQueue>,
    notices: usize,
    typing: HashMap<Place, HashMap<TurnId, Instant>>,
}

#[derive(Default)]
struct PlaceQueue {
    jobs: VecDeque<Job>,
    /// The turn that a courier is posting now, if one is out.
    out: Option<Task>,
    /// The platform's bucket for this place is empty until then.
    not_before: Option<Instant>,
    /// The platform refused us here; jobs fail at once until then.
    closed: Option<(Instant, String)>,
}

impl Actor for Outbox {
    type Msg = OutboxMsg;
    type State = OutboxState;

    fn start(&self, me: &mut Me<OutboxMsg>) -> Result<OutboxState, Crash> {
        me.after(TYPING_EVERY, OutboxMsg::ShowTyping);
        Ok(OutboxState { lanes: HashMap::new(), notices: 0, typing: HashMap::new() })
    }

    async fn handle(&self, me: &mut Me<OutboxMsg>, message: OutboxMsg, state: &mut OutboxState) -> Result<(), Crash> {
        match message {
            OutboxMsg::Deliver { turn, outgoing, check } => {
                state.quiet(&outgoing.place, &turn);
                let place = outgoing.place.clone();
                self.enqueue(me, state, place, Job { task: Task::Turn(turn), outgoing, check });
            }
            OutboxMsg::Notify { about, place, text } => self.notify(me, state, about, place, text),
            OutboxMsg::Typing { place, turn, until } => {
                let turns = state.typing.entry(place.clone()).or_default();
                turns.insert(turn, until);
                if turns.len() == 1 {
                    self.show_typing(me, place);
                }
            }
            OutboxMsg::Quiet(place, turn) => state.quiet(&place, &turn),
            OutboxMsg::Forget(place, turn) => state.forget(&place, &turn),
            OutboxMsg::Read(request, reply) => self.read(me, request, reply),
            OutboxMsg::CourierReturned(place, returned) => self.courier_returned(me, state, place, returned),
            OutboxMsg::ShowTyping => {
                let now = Instant::now();
                state.tidy(now);
                for place in state.still_typing(now) {
                    self.show_typing(me, place);
                }
                me.after(TYPING_EVERY, OutboxMsg::ShowTyping);
            }
            OutboxMsg::TypingRefused(place) => {
                state.typing.remove(&place);
            }
        }
        Ok(())
    }
}

impl Outbox {
    fn notify(&self, me: &mut Me<OutboxMsg>, state: &mut OutboxState, about: MessageId, place: Place, text: String) {
        if state.notices >= NOTICES_MAX {
            tracing::warn!(event = "turn.shed", r#where = "outbox", "too many notices wait; one was dropped");
            metrics::counter!("staffai_shed_total", "where" => "outbox").increment(1);
            return;
        }
        state.notices += 1;
        let parts = vec![Part::Text { text }];
        let outgoing = Outgoing { place: place.clone(), reply_to: Some(about.clone()), parts };
        self.enqueue(me, state, place, Job { task: Task::Notice(about), outgoing, check: false });
    }

    fn enqueue(&self, me: &mut Me<OutboxMsg>, state: &mut OutboxState, place: Place, job: Job) {
        let queue = state.lanes.entry(place.clone()).or_default();
        let known = queue.out.as_ref() == Some(&job.task) || queue.jobs.iter().any(|waiting| waiting.task == job.task);
        if !known {
            queue.jobs.push_back(job);
        }
        self.send_courier(me, state, place);
    }

    /// Sends a courier with the head of a place's queue, unless one is out.
    fn send_courier(&self, me: &mut Me<OutboxMsg>, state: &mut OutboxState, place: Place) {
        let Some(queue) = state.lanes.get_mut(&place) else { return };
        if queue.out.is_some() {
            return;
        }
        let now = Instant::now();
        if let Some((until, reason)) = &queue.closed {
            if now < *until {
                let reason = reason.clone();
                for job in std::mem::take(&mut queue.jobs) {
                    self.report(state, job.task, Err(reason.clone()));
                }
                return;
            }
            queue.closed = None;
        }
        let Some(job) = queue.jobs.pop_front() else {
            if queue.not_before.is_none_or(|at| at <= now) {
                state.lanes.remove(&place);
            }
            return;
        };
        queue.out = Some(job.task.clone());
        let courier = Courier {
            poster: Arc::clone(&self.poster),
            pacer: Arc::clone(&self.pacer),
            dice: Arc::clone(&self.dice),
            not_before: queue.not_before,
        };
        let task = job.task.clone();
        let (there, back) = (place.clone(), place);
        me.task(async move { OutboxMsg::CourierReturned(there, courier.deliver(job).await) }, move |panic| {
            OutboxMsg::CourierReturned(back, courier::Returned::panicked(task, &panic))
        });
    }

    fn courier_returned(
        &self,
        me: &mut Me<OutboxMsg>,
        state: &mut OutboxState,
        place: Place,
        returned: courier::Returned,
    ) {
        let courier::Returned { task, result, not_before, closed } = returned;
        if let Some(queue) = state.lanes.get_mut(&place) {
            queue.out = None;
            queue.not_before = not_before;
            if closed && let Err(reason) = &result {
                queue.closed = Some((Instant::now() + CLOSED_FOR, reason.clone()));
            }
        }
        self.report(state, task, result);
        self.send_courier(me, state, place);
    }

    fn report(&self, state: &mut OutboxState, task: Task, result: Result<Delivery, String>) {
        // A journal that is down offers the answer again, and the channel is looked at before anything is posted.
        match (task, result) {
            (Task::Turn(turn), Ok(delivery)) => drop(self.journal.cast(JournalMsg::Delivered(turn, delivery))),
            (Task::Turn(turn), Err(reason)) => drop(self.journal.cast(JournalMsg::Undeliverable(turn, reason))),
            (Task::Notice(_), Ok(_)) => state.notices = state.notices.saturating_sub(1),
            (Task::Notice(about), Err(reason)) => {
                state.notices = state.notices.saturating_sub(1);
                tracing::warn!(event = "outbox.refused", about = %about, reason, "a notice could not be posted");
            }
        }
    }

    /// Shows typing once, if that takes nothing from answers.
    fn show_typing(&self, me: &mut Me<OutboxMsg>, place: Place) {
        if !self.pacer.lock().try_reserve(Instant::now(), TYPING_SPARES) {
            return;
        }
        let poster = Arc::clone(&self.poster);
        let pacer = Arc::clone(&self.pacer);
        let handle = me.handle().clone();
        me.background(async move {
            match poster.perform(&PostRequest::Typing { place: place.clone() }).await {
                Err(PostError::Refused { status, .. }) => {
                    pacer.lock().refused(Instant::now(), status);
                    let _ = handle.cast(OutboxMsg::TypingRefused(place));
                }
                Err(PostError::RateLimited { retry_after, global }) => {
                    pacer.lock().limited(Instant::now(), retry_after, global);
                }
                // Typing is worth no second try.
                Ok(_) | Err(PostError::Transient(_)) => {}
            }
        });
    }

    fn read(&self, me: &mut Me<OutboxMsg>, request: PostRequest, reply: Reply<Result<PostResult, PostError>>) {
        let mut courier = Courier {
            poster: Arc::clone(&self.poster),
            pacer: Arc::clone(&self.pacer),
            dice: Arc::clone(&self.dice),
            not_before: None,
        };
        me.background(async move {
            // The reader may have stopped waiting.
            let _ = reply.send(courier.read(&request).await);
        });
    }
}

impl OutboxState {
    fn quiet(&mut self, place: &Place, turn: &TurnId) {
        if let Some(turns) = self.typing.get_mut(place) {
            turns.remove(turn);
            if turns.is_empty() {
                self.typing.remove(place);
            }
        }
    }

    fn forget(&mut self, place: &Place, turn: &TurnId) {
        self.quiet(place, turn);
        if let Some(queue) = self.lanes.get_mut(place) {
            queue.jobs.retain(|job| !matches!(&job.task, Task::Turn(waiting) if waiting == turn));
        }
    }

    /// Forgets places where nothing waits and nothing has to be remembered.
    fn tidy(&mut self, now: Instant) {
        self.lanes.retain(|_, queue| {
            let paused = queue.not_before.is_some_and(|at| at > now);
            let closed = queue.closed.as_ref().is_some_and(|(until, _)| *until > now);
            queue.out.is_some() || !queue.jobs.is_empty() || paused || closed
        });
    }

    fn still_typing(&mut self, now: Instant) -> Vec<Place> {
        for turns in self.typing.values_mut() {
            turns.retain(|_, until| *until > now);
        }
        self.typing.retain(|_, turns| !turns.is_empty());
        self.typing.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
