//! conversation: one channel, with a lane for each user in it.
//!
//! Supervised by: conversations (temporary: it is not restarted; the next turn starts a new one).
//! Receives: turns and cancellations from the router, results from the tasks that it started.
//! Sends: answers and requests for decisions to the journal; turns that never began to the limiter.
//! A crash loses: the running tasks; the journal offers their turns again.
//!
//! A lane runs one turn at a time; lanes run concurrently. The work of a turn runs in a monitored task, never in this
//! actor.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::messages::conversation::ConversationMsg;
use crate::messages::conversations::{ConversationsMsg, OfferedTurn};
use crate::messages::draft::Slot;
use crate::messages::journal::JournalMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::in_flight::Flight;
use crate::turn::parts::TurnParts;
use crate::turn::{self, Started, Tally, TurnResult};
use domain::ending::{Dropped, Ending};
use domain::happening::{Happening, WorkShed};
use domain::ids::{Place, TurnId};
use domain::notice;
use domain::planted::Defect;
use domain::shed::Shed;
use domain::turn::{Answer, Effort, Lane, LaneRule, Turn};

/// The idle timeout of a conversation. Creating it again takes about 0.1 ms; keeping it takes some ten kilobytes.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// The events from its timer and its tasks.
pub enum ConversationEvent {
    /// A task ended: with an answer, with a request for a decision, or with neither because it was cancelled. The turn
    /// counts as in flight until the journal has the result.
    Ended(Lane, TurnId, TurnResult, Flight),
    /// A task panicked.
    Panicked(Lane, Box<Started>, String),
    /// Time to check if this conversation is idle.
    CheckIdle,
}

/// The behaviour and its arguments.
pub struct Conversation {
    /// The channel.
    pub place: Place,
    /// Receives the request to stop this conversation.
    pub router: Handle<ConversationsMsg>,
    /// The services that a turn uses.
    pub parts: Arc<TurnParts>,
}

/// The state of a conversation.
pub struct ConversationState {
    lanes: HashMap<Lane, LaneState>,
    /// The number of messages received from the router.
    seen: u64,
    busy_at: Instant,
    draining: bool,
}

#[derive(Default)]
struct LaneState {
    waiting: VecDeque<(Box<OfferedTurn>, Instant)>,
    running: Option<(TurnId, CancellationToken)>,
}

impl Actor for Conversation {
    type Msg = ConversationMsg;
    type Event = ConversationEvent;
    type State = ConversationState;

    fn start(&self, ctx: &mut ActorContext<Conversation>) -> Result<ConversationState, Crash> {
        ctx.after(IDLE_AFTER, ConversationEvent::CheckIdle);
        Ok(ConversationState { lanes: HashMap::new(), seen: 0, busy_at: Instant::now(), draining: false })
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: ConversationMsg,
        state: &mut ConversationState,
    ) -> Result<(), Crash> {
        match message {
            ConversationMsg::Offer(offered) => {
                state.seen += 1;
                self.offer(ctx, state, offered);
            }
            ConversationMsg::Cancel(id) => {
                state.seen += 1;
                if let Some(never_begun) = state.cancel(&id) {
                    // If the limiter refuses this, the estimate stays until it ages out.
                    self.parts.neighbors.rate_limiter.tell(RateLimiterMsg::Cancel(never_begun));
                }
            }
            ConversationMsg::Drain => state.draining = true,
        }
        Ok(())
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ConversationEvent,
        state: &mut ConversationState,
    ) -> Result<(), Crash> {
        match event {
            ConversationEvent::Ended(lane, id, driven, flight) => {
                match driven {
                    TurnResult::Answered(answer) => self.answer(id, *answer),
                    // If the journal refuses this, it has the turn in its records and offers it again.
                    TurnResult::Parked(parking) => self.parts.neighbors.journal.tell(JournalMsg::Park(id, parking)),
                    TurnResult::Over => {}
                }
                drop(flight);
                self.next(ctx, state, &lane);
            }
            ConversationEvent::Panicked(lane, started, panic) => {
                let Started { turn, slot, tally, .. } = *started;
                self.parts.readers.observers.tell(&Happening::TurnPanicked(&turn.id, &panic));
                let apology = Answer { effort: tally.effort(), ..tally.apology(&turn, Ending::Panicked) };
                let answer = turn::with_draft(&turn, &slot, apology, self.parts.basics.clock.now());
                // The settings of the member ended with the task, and may forbid to store the exchange.
                self.answer(turn.id.clone(), Answer { exchange: None, ..answer });
                self.next(ctx, state, &lane);
            }
            ConversationEvent::CheckIdle => {
                let idle_for = state.busy_at.elapsed();
                let mut again = IDLE_AFTER;
                if state.lanes.is_empty() && idle_for >= IDLE_AFTER {
                    // A router that is down has lost all conversations, including this one; a full router is asked
                    // again at the next check.
                    self.router.tell(ConversationsMsg::Idle(self.place.clone(), state.seen));
                } else if state.lanes.is_empty() {
                    again -= idle_for;
                }
                ctx.after(again, ConversationEvent::CheckIdle);
            }
        }
        Ok(())
    }
}

impl Conversation {
    fn offer(&self, ctx: &mut ActorContext<Conversation>, state: &mut ConversationState, offered: Box<OfferedTurn>) {
        state.busy_at = Instant::now();
        let turn = &offered.turn;
        let whose = turn.lane();
        let lane = state.lanes.entry(whose.clone()).or_default();
        if lane.holds(&turn.id) {
            return;
        }
        let busy = lane.running.is_some() && !Defect::NoLane.is_planted();
        // The turn had its place in the lane before it was parked.
        let goes_on = offered.resumed.is_some();
        let full = !goes_on && lane.waiting.len() >= self.parts.basics.live.now().settings.turn.lane;
        if full || (busy && !goes_on && turn.policy.lane == LaneRule::Refuse) {
            self.parts.readers.observers.tell(&Happening::WorkShed(WorkShed::of(Shed::Lane, turn)));
            // A requester that may not queue gets an answer each time; a member that may queue gets one at intervals.
            if turn.policy.lane == LaneRule::Queue
                && !turn.policy.answers_each
                && !self.parts.shared.busy.may_tell(&turn.person)
            {
                // If the journal refuses this, it offers the turn again. The message counts; otherwise their number
                // would be unbounded.
                let settle = RateLimiterMsg::Settle { turn: Arc::clone(turn), effort: Effort::default() };
                self.parts.neighbors.rate_limiter.tell(settle);
                self.parts
                    .neighbors
                    .journal
                    .tell(JournalMsg::Dropped(turn.id.clone(), Dropped::Silent(Ending::LaneFull)));
                return;
            }
            let sentence = if full { notice::lane_full(turn.locale()) } else { notice::lane_busy(turn.locale()) };
            // An interjection is not charged.
            let why = if turn.trigger.is_asked() { Ending::LaneFull } else { Ending::LaneBusy };
            return self.answer(turn.id.clone(), turn.apology(sentence, why));
        }
        if busy {
            let ahead = lane.waiting.len() + 1;
            self.parts.readers.observers.tell(&Happening::TurnQueued { turn, ahead });
        }
        if goes_on {
            lane.waiting.push_front((offered, Instant::now()));
        } else {
            lane.waiting.push_back((offered, Instant::now()));
        }
        if !busy {
            self.next(ctx, state, &whose);
        }
    }

    /// Starts the next turn of a lane, or removes the empty lane.
    fn next(&self, ctx: &mut ActorContext<Conversation>, state: &mut ConversationState, whose: &Lane) {
        state.busy_at = Instant::now();
        let Some(lane) = state.lanes.get_mut(whose) else { return };
        lane.running = None;
        let waits = if state.draining { None } else { lane.waiting.pop_front() };
        let Some((offered, since)) = waits else {
            state.lanes.remove(whose);
            return;
        };
        let OfferedTurn { turn, again, resumed } = *offered;
        let tally =
            resumed.as_ref().map_or_else(Tally::default, |parked| Tally::going_on(parked.effort.clone(), parked.acted));
        self.parts.readers.observers.tell(&Happening::TurnStarted(&turn.id));
        let token = CancellationToken::new();
        lane.running = Some((turn.id.clone(), token.clone()));
        let flight = self.parts.shared.in_flight.enter(&turn.id);
        let parts = Arc::clone(&self.parts);
        let started = Box::new(Started { turn, again, waited_since: since, slot: Slot::default(), tally, resumed });
        let kept = started.clone();
        let (there, back) = (whose.clone(), whose.clone());
        ctx.task(
            async move {
                let id = started.turn.id.clone();
                let driven = turn::drive(&parts, *started, &token).await;
                ConversationEvent::Ended(there, id, driven, flight)
            },
            move |panic| ConversationEvent::Panicked(back, kept, panic),
        );
    }

    fn answer(&self, id: TurnId, answer: Answer) {
        // If the journal refuses this, it has the turn in its records and offers it again.
        self.parts.neighbors.journal.tell(JournalMsg::Answered(id, Box::new(answer)));
    }
}

impl ConversationState {
    /// Ends a turn, and returns it if it had not begun.
    fn cancel(&mut self, id: &TurnId) -> Option<Arc<Turn>> {
        let mut never_begun = None;
        for lane in self.lanes.values_mut() {
            if let Some(at) = lane.waiting.iter().position(|(offered, _)| offered.turn.id == *id) {
                never_begun = lane.waiting.remove(at).map(|(offered, _)| offered.turn);
            }
            if let Some((running, token)) = &lane.running
                && running == id
            {
                token.cancel();
            }
        }
        never_begun
    }
}

impl LaneState {
    fn holds(&self, id: &TurnId) -> bool {
        let running = self.running.as_ref().is_some_and(|(running, _)| running == id);
        running || self.waiting.iter().any(|(offered, _)| offered.turn.id == *id)
    }
}
