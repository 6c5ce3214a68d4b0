//! journal: custody of every accepted turn until its answer is posted.
//!
//! Supervised by: staffai (permanent).
//! Receives: accepted turns from the gateway, answers from conversations and the limiter, wishes to be forgotten from
//! commands, deliveries from the outbox, news of restarts.
//! Sends: open turns to the limiter, and what became of them; known answers to the outbox.
//! A restart loses: nothing that was durable. It reads its records again and offers every open turn; the outbox then looks into
//! the channel before it posts, so that nothing is said twice.

mod ending;
mod memory;
mod records;
mod remembered;
mod report;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use self::records::{oldest_first, record};
use self::remembered::Remembered;
pub use self::report::Left;
use super::conversations::Offered;
use super::forgotten::Forgotten;
use super::handle::{Handle, Reply};
use super::outbox::{Delivery, OutboxMsg, Outboxes};
use super::rate_limiter::{self, RateLimiterMsg};
use super::receipt::Receipt;
use super::running::Live;
use super::supervisor::{Actor, Crash, Me};
use super::timeline::Timeline;
use crate::domain::ids;
use crate::domain::ids::{MessageId, Person, Timestamp, TurnId};
use crate::domain::keys;
use crate::domain::ledger;
use crate::domain::notice::{self, Apology};
use crate::domain::turn::{Answer, Custody, Outcome, Turn};
use crate::domain::unquoted::unquoted;
use crate::ports::{Clock, Store, StoreStatus, Write};

/// The most records read at start.
const LOAD_MAX: usize = 200_000;
/// How long reading them may take; then the journal fails and its supervisor decides.
const LOAD_WITHIN: Duration = Duration::from_secs(60);
/// The most messages that wait until the records are read. What is dropped beyond that comes back or is found out: receipts
/// return their events, answers are asked for again, and posts are seen in their channel.
const EARLY_MAX: usize = 20_000;
/// How often a turn is offered again before it is answered with an apology: a turn that crashes its conversation must not do
/// so for ever.
const OFFERS_MAX: u32 = 4;
/// How long after its own deadline a turn that nobody finished is answered with an apology.
const GRACE: Duration = Duration::from_secs(30);
/// How often deadlines are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What the journal is told and asked.
pub enum JournalMsg {
    /// The gateway accepted a turn. It is recorded and offered; the receipt is settled once the record is durable.
    Accept(Box<Accepted>),
    /// The records of an earlier life were read.
    Loaded(Vec<(String, String)>),
    /// They could not be read. Without them open turns would be forgotten and answered ones answered again.
    Unreadable(String),
    /// A conversation found the answer. It is recorded and handed to the outbox.
    Answered(TurnId, Box<Answer>),
    /// The outbox posted an answer. The turn is closed.
    Delivered(TurnId, Delivery),
    /// The outbox will never be able to post this answer. The turn is closed.
    Undeliverable(TurnId, String),
    /// The trigger was deleted. The turn is closed without an answer.
    Cancel(TurnId),
    /// The turn is closed without an answer, for this reason: the person was told enough already.
    Dropped(TurnId, &'static str),
    /// Nobody was there for an offered turn: it is offered again with the next look at deadlines.
    Unheard(TurnId),
    /// Commands: this person wishes to be forgotten, with all that was asked up to this moment. Their open turns go on, but
    /// nothing is kept of them. Answered by how many those are, once that is visible in the store.
    Forget(Person, Timestamp, Reply<usize>),
    /// The actor at this path runs anew or is gone: what it may have held is offered again.
    ActorRecovered(String),
    /// Time to look at deadlines.
    Sweep,
    /// From now on nothing is offered; what comes is only recorded.
    Drain,
    /// How much is left to do.
    Left(Reply<Left>),
    /// A turn replies to the answer of this one, and wants to know when that one is closed; answered at once if it is not open.
    TellWhenClosed(TurnId, Reply<()>),
}

/// A turn on its way into custody.
pub struct Accepted {
    /// The turn.
    pub turn: Turn,
    /// Its answer, when it needs no model.
    pub answer: Option<Answer>,
    /// Its place among all open turns.
    pub permit: OwnedSemaphorePermit,
    /// Settled when the turn is durably recorded.
    pub receipt: Receipt,
}

/// The behaviour and its arguments.
pub struct Journal {
    /// Where records are kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// What this process runs with.
    pub live: Live,
    /// Who lets turns through to those who find answers.
    pub rate_limiter: Handle<RateLimiterMsg>,
    /// Who posts them.
    pub outboxes: Outboxes,
    /// What may not be remembered any more.
    pub forgotten: Arc<Forgotten>,
    /// Where each step is noted.
    pub timeline: Arc<Timeline>,
}

/// What the journal holds.
pub struct JournalState {
    open: HashMap<TurnId, Entry>,
    closed: Remembered,
    /// What came while the records were still being read; none afterwards.
    early: Option<Vec<JournalMsg>>,
    /// The store was failing when the records were read: there may be more.
    partial: bool,
    draining: bool,
}

struct Entry {
    turn: Turn,
    answer: Option<Answer>,
    taken: Instant,
    /// When its answer was known; until then, when it was taken.
    answered: Instant,
    offers: u32,
    /// Something may be in the channel already, from an earlier life or an outbox that crashed.
    maybe_posted: bool,
    /// The last offer found nobody.
    unheard: bool,
    /// Who waits for its end; they are told by being dropped with this entry, after everything about its end was written.
    waiting: Vec<Reply<()>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Entry {
    fn of_earlier_life(turn: Turn, answer: Option<Answer>) -> Self {
        let taken = Instant::now();
        Self {
            turn,
            answer,
            taken,
            answered: taken,
            offers: 0,
            maybe_posted: true,
            unheard: false,
            waiting: Vec::new(),
            _permit: None,
        }
    }
}

impl Actor for Journal {
    type Msg = JournalMsg;
    type State = JournalState;

    fn start(&self, me: &mut Me<JournalMsg>) -> Result<JournalState, Crash> {
        self.read_records(me);
        me.after(SWEEP_EVERY, JournalMsg::Sweep);
        Ok(JournalState {
            open: HashMap::new(),
            closed: Remembered::default(),
            early: Some(Vec::new()),
            partial: false,
            draining: false,
        })
    }

    async fn handle(
        &self,
        me: &mut Me<JournalMsg>,
        message: JournalMsg,
        state: &mut JournalState,
    ) -> Result<(), Crash> {
        match &mut state.early {
            Some(early) if message.needs_records() => {
                if early.len() < EARLY_MAX {
                    early.push(message);
                } else {
                    tracing::warn!(
                        event = "turn.shed",
                        r#where = "journal",
                        "too much came before the records were read"
                    );
                    metrics::counter!("staffai_shed_total", "where" => "journal").increment(1);
                }
                Ok(())
            }
            Some(_) | None => self.apply(me, state, message),
        }
    }
}

impl JournalMsg {
    /// Whether it is about turns that may stand in records of an earlier life.
    const fn needs_records(&self) -> bool {
        match self {
            Self::Accept(_)
            | Self::Answered(..)
            | Self::Delivered(..)
            | Self::Undeliverable(..)
            | Self::Cancel(_)
            | Self::Dropped(..)
            | Self::Unheard(_)
            | Self::Forget(..)
            | Self::Left(_)
            | Self::TellWhenClosed(..) => true,
            Self::Loaded(_) | Self::Unreadable(_) | Self::ActorRecovered(_) | Self::Sweep | Self::Drain => false,
        }
    }
}

impl Journal {
    fn read_records(&self, me: &mut Me<JournalMsg>) {
        let store = Arc::clone(&self.store);
        me.task(
            async move {
                match tokio::time::timeout(LOAD_WITHIN, store.scan(keys::TURN_PREFIX, LOAD_MAX)).await {
                    Ok(records) => JournalMsg::Loaded(records),
                    Err(_) => JournalMsg::Unreadable("the store did not answer in time".to_owned()),
                }
            },
            JournalMsg::Unreadable,
        );
    }

    fn apply(&self, me: &mut Me<JournalMsg>, state: &mut JournalState, message: JournalMsg) -> Result<(), Crash> {
        match message {
            JournalMsg::Accept(accepted) => self.accept(me, state, *accepted),
            JournalMsg::Loaded(records) => {
                state.partial = self.store.status() != StoreStatus::Ready;
                self.load(state, records);
                for early in state.early.take().unwrap_or_default() {
                    self.apply(me, state, early)?;
                }
            }
            JournalMsg::Unreadable(reason) => return Err(format!("the records cannot be read: {reason}").into()),
            JournalMsg::Answered(id, answer) => self.answered(state, &id, *answer),
            JournalMsg::Delivered(id, delivery) => self.delivered(state, &id, &delivery),
            JournalMsg::Undeliverable(id, reason) => self.undeliverable(state, &id, &reason),
            JournalMsg::Cancel(id) => self.withdraw(state, &id, "cancelled", "trigger deleted"),
            JournalMsg::Dropped(id, reason) => drop(self.drop_turn(state, &id, "dropped", reason)),
            JournalMsg::Forget(person, cut, reply) => {
                let writes = memory::forget(state, &person, cut);
                let many = writes.len();
                drop(self.store.write(writes));
                let _ = reply.send(many);
            }
            JournalMsg::Unheard(id) => {
                if let Some(entry) = state.open.get_mut(&id).filter(|entry| entry.answer.is_none()) {
                    entry.unheard = true;
                    entry.offers = entry.offers.saturating_sub(1);
                }
            }
            JournalMsg::ActorRecovered(path) => self.offer_again(state, &path),
            JournalMsg::Sweep => {
                self.sweep(state);
                if state.partial && self.store.status() == StoreStatus::Ready {
                    state.partial = false;
                    self.read_records(me);
                }
                me.after(SWEEP_EVERY, JournalMsg::Sweep);
            }
            JournalMsg::Drain => state.draining = true,
            JournalMsg::Left(reply) => {
                let undelivered = state.open.values().filter(|entry| entry.answer.is_some()).count();
                // Whoever asked may have stopped waiting.
                let _ = reply.send(Left { open: state.open.len(), undelivered });
            }
            // Of a turn that is not open the question is dropped here, which answers it.
            JournalMsg::TellWhenClosed(id, reply) => {
                if let Some(entry) = state.open.get_mut(&id) {
                    entry.waiting.push(reply);
                }
            }
        }
        Ok(())
    }

    fn accept(&self, me: &mut Me<JournalMsg>, state: &mut JournalState, accepted: Accepted) {
        let Accepted { turn, answer, permit, receipt } = accepted;
        if state.open.contains_key(&turn.id) || state.closed.contains(&turn.id) {
            tracing::debug!(event = "gateway.dropped", reason = "seen before", turn = %turn.id, "message dropped");
            receipt.settle();
            return;
        }
        let trigger = turn.trigger.as_str();
        tracing::info!(event = "turn.accepted", turn = %turn.id, door = %turn.id.door, trigger, "turn accepted");
        self.timeline.accepted(&turn);
        let id = turn.id.clone();
        let entry = Entry {
            turn,
            answer,
            taken: Instant::now(),
            answered: Instant::now(),
            offers: 0,
            maybe_posted: false,
            unheard: false,
            waiting: Vec::new(),
            _permit: Some(permit),
        };
        let durable = self.store.write(vec![record(&entry)]);
        me.background(async move {
            durable.await;
            receipt.settle();
        });
        state.open.insert(id.clone(), entry);
        self.offer(state, &id);
    }

    /// Takes up what an earlier life left open; what is known already stays as it is.
    fn load(&self, state: &mut JournalState, records: Vec<(String, String)>) {
        let mut resumed: Vec<TurnId> = Vec::new();
        for (key, value) in records {
            if keys::parse_turn(&key).is_some_and(|id| state.open.contains_key(&id) || state.closed.contains(&id)) {
                continue;
            }
            match serde_json::from_str(&value) {
                Ok(Custody::Open { turn, answer }) if !turn.trigger.is_asked() => self.let_go(state, turn, answer),
                Ok(Custody::Open { turn, answer }) => {
                    tracing::info!(event = "turn.resumed", turn = %turn.id, answered = answer.is_some(), "turn taken up again");
                    self.timeline.accepted(&turn);
                    let id = turn.id.clone();
                    let late = self.clock.now().since(turn.at) > self.live.now().settings.catch_up.age;
                    let answer = match answer {
                        None if late => Some(turn.apology(notice::interrupted(turn.locale()), "interrupted")),
                        known => known,
                    };
                    if let Some(answer) = &answer {
                        rate_limiter::close(&self.rate_limiter, &turn, answer);
                    }
                    resumed.push(id.clone());
                    state.open.insert(id, Entry::of_earlier_life(turn, answer));
                }
                Ok(Custody::Closed { .. }) => {
                    if let Some(id) = keys::parse_turn(&key) {
                        state.closed.insert(id);
                    }
                }
                Err(error) => {
                    let error = unquoted(&error.to_string());
                    tracing::error!(
                        event = "store.corrupt",
                        key,
                        error,
                        "a journal record cannot be read; it is skipped"
                    );
                }
            }
        }
        for id in resumed {
            self.offer(state, &id);
        }
    }

    /// Hands an open turn to whoever has to do the next step.
    fn offer(&self, state: &mut JournalState, id: &TurnId) {
        let Some(entry) = state.open.get_mut(id) else { return };
        if state.draining && entry.answer.is_none() {
            return;
        }
        let once_more = entry.maybe_posted || (entry.offers > 0 && entry.answer.is_none());
        if !entry.turn.trigger.is_asked() && once_more && !entry.unheard {
            return self.withdraw(state, id, "dropped", "not said a second time");
        }
        if entry.offers >= OFFERS_MAX && entry.answer.is_none() {
            let turn = &entry.turn;
            let apology = notice::apology(Apology::Internal, turn.locale());
            let answer = turn.apology(apology, "crashed again and again");
            return self.answered(state, id, answer);
        }
        // A neighbour that is down gets the turn when its supervisor reports it back, or, if it has yet to start for the first
        // time, with the next look at deadlines.
        match &entry.answer {
            Some(answer) => {
                let check = std::mem::replace(&mut entry.maybe_posted, true);
                let (outgoing, drafted) = (answer.outgoing.clone(), answer.effort.drafted);
                let deliver = OutboxMsg::Deliver { turn: id.clone(), outgoing, check, drafted };
                entry.unheard = self.outboxes.of(&id.door).cast(deliver).is_err();
            }
            None => {
                let again = entry.maybe_posted || entry.offers > 0;
                let offered = Offered { turn: entry.turn.clone(), again };
                entry.unheard = self.rate_limiter.cast(RateLimiterMsg::Admit(Box::new(offered))).is_err();
                entry.offers += u32::from(!entry.unheard);
            }
        }
    }

    /// What the failed actor may have held is offered again. Whoever still holds a turn ignores a second offer.
    fn offer_again(&self, state: &mut JournalState, path: &str) {
        let outbox = path.contains("/outbox");
        let conversation = path.split_once("/conversation:").map(|(_, place)| place);
        let router = path.ends_with("/conversations") || path.ends_with("/rate_limiter");
        if outbox {
            // Drafts of turns without an answer may stand in their channels, and nobody remembers them.
            state.open.values_mut().for_each(|entry| entry.maybe_posted = true);
        }
        let concerned = |entry: &Entry| match conversation {
            Some(place) => entry.answer.is_none() && entry.turn.place.to_string() == place,
            None => (router && entry.answer.is_none()) || (outbox && entry.answer.is_some()),
        };
        for id in oldest_first(state.open.values().filter(|entry| concerned(entry))) {
            tracing::info!(event = "turn.resumed", turn = %id, "turn offered again");
            self.offer(state, &id);
        }
    }

    fn answered(&self, state: &mut JournalState, id: &TurnId, answer: Answer) {
        let Some(entry) = state.open.get_mut(id) else { return };
        if entry.answer.is_some() {
            return;
        }
        // What it took is known, and the person may ask again as soon as they see the answer.
        rate_limiter::close(&self.rate_limiter, &entry.turn, &answer);
        entry.answer = Some(memory::keep(&entry.turn, answer));
        entry.answered = Instant::now();
        if let Some(reason) = ending::silent(entry) {
            return self.withdraw(state, id, "dropped", &reason);
        }
        self.timeline.answered(id);
        drop(self.store.write(vec![record(entry)]));
        self.offer(state, id);
    }

    fn delivered(&self, state: &mut JournalState, id: &TurnId, delivery: &Delivery) {
        let Some(entry) = state.open.remove(id) else { return };
        if delivery.doubled {
            metrics::counter!("staffai_turns_doubled_total").increment(1);
        }
        if let Some(answer) = &entry.answer {
            report::replied(&entry, answer, delivery);
            self.timeline.posted(id, &answer.outcome, delivery.first_visible);
        } else {
            self.timeline.posted(id, &Outcome::Replied, delivery.first_visible);
        }
        let saving = self.forgotten.saving();
        let ttl = self.live.now().settings.history.ttl;
        let writes = memory::index(&entry, &saving, &delivery.posted, ttl);
        self.close(state, &entry, delivery.posted.clone(), writes);
    }

    fn undeliverable(&self, state: &mut JournalState, id: &TurnId, reason: &str) {
        let Some(entry) = state.open.remove(id) else { return };
        tracing::error!(
            event = "turn.failed", turn = %id, door = %id.door, trigger = entry.turn.trigger.as_str(), outcome = "failed",
            ms = ids::millis(entry.taken.elapsed()), post_ms = ids::millis(entry.answered.elapsed()), reason,
            "the answer could not be posted"
        );
        if entry.turn.trigger.is_asked() {
            metrics::counter!("staffai_turns_lost_total").increment(1);
        }
        report::count(&entry, "failed");
        self.timeline.closed(id, "failed", reason);
        self.close(state, &entry, Vec::new(), Vec::new());
    }

    /// What the turn used is counted in the same write that closes it, so that neither is ever there without the other.
    fn close(&self, state: &mut JournalState, entry: &Entry, posted: Vec<MessageId>, mut writes: Vec<Write>) {
        let id = &entry.turn.id;
        state.closed.insert(id.clone());
        if let Some(answer) = &entry.answer {
            let used = ledger::writes(&entry.turn, &answer.effort, self.clock.now());
            writes.extend(used.into_iter().map(Write::from));
        }
        if let Ok(value) = serde_json::to_string(&Custody::Closed { posted }) {
            writes.push(Write::Put { key: keys::turn(id), value, ttl: Some(keys::CLOSED_TURN_TTL) });
        }
        drop(self.store.write(writes));
    }

    /// Offers again what nobody was there for. The backstop: a turn that nobody finished within every bound is answered with an apology.
    fn sweep(&self, state: &mut JournalState) {
        for id in oldest_first(state.open.values().filter(|entry| entry.unheard)) {
            self.offer(state, &id);
        }
        let turn = &self.live.now().settings.turn;
        let bound = turn.queue + turn.deadline + GRACE;
        let late = |entry: &&Entry| entry.answer.is_none() && entry.taken.elapsed() > bound;
        for id in oldest_first(state.open.values().filter(late)) {
            let turn = &state.open[&id].turn;
            let answer = turn.apology(notice::apology(Apology::TimedOut, turn.locale()), "no progress");
            self.answered(state, &id, answer);
        }
    }
}

#[cfg(test)]
mod tests;
