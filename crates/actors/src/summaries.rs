//! summaries: summarises older exchanges of conversations, within a daily budget.
//!
//! Supervised by: staffai (permanent).
//! Receives: `Saved` from the tasks of turns, when a long conversation got an exchange.
//! Sends: permit requests and call reports to the dispatcher.
//! A restart loses: calls in progress and waiting conversations. The next turn of a conversation requests its summary
//! again, and until then the history holds the exchanges.
//!
//! A conversation has at most one task, the only writer of its summary in this process; deletions remove parts and never
//! add any (`services/forgotten.rs`). The task never changes the history.

mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::messages::llm_dispatcher::LlmDispatcherMsg;
use crate::messages::summaries::{Conversation, SummariesMsg};
use crate::observers::Observers;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::basics::Basics;
use crate::services::forgotten::Forgotten;
use domain::ids::Door;
use ports::Origin;

/// The maximum number of concurrent tasks.
const RUNNING_MAX: usize = 2;
/// The maximum number of waiting conversations; the oldest is dropped first.
const WAITING_MAX: usize = 1_000;

/// The dependencies of the tasks.
pub struct SummaryParts {
    /// Configuration, store, time and randomness.
    pub basics: Basics,
    /// The record of forget requests and deletions.
    pub forgotten: Arc<Forgotten>,
    /// The dispatcher of model permits.
    pub dispatcher: Handle<LlmDispatcherMsg>,
    /// Receives the outcomes.
    pub observers: Observers,
    /// The door at which the tokens are counted.
    pub home: Door,
    /// The expected tokens of calls in progress.
    pub reserved: Arc<Reserved>,
}

/// The tokens reserved by calls in progress. It outlives the actor.
#[derive(Default)]
pub struct Reserved {
    /// Held while a call is admitted, so that two calls do not use the same tokens.
    admitting: Mutex<()>,
    tokens: AtomicU64,
}

/// Events from its tasks.
pub enum SummariesEvent {
    /// The task of a conversation ended.
    Ended(Conversation),
}

/// The behaviour and its arguments.
pub struct Summaries {
    /// The dependencies of the tasks.
    pub parts: Arc<SummaryParts>,
}

/// The state of the actor.
#[derive(Default)]
pub struct SummariesState {
    running: Vec<Conversation>,
    /// The conversations without a task, with the time of their last exchange.
    waiting: VecDeque<(Conversation, Instant)>,
}

impl Actor for Summaries {
    type Msg = SummariesMsg;
    type Event = SummariesEvent;
    type State = SummariesState;

    fn start(&self, _ctx: &mut ActorContext<Summaries>) -> Result<SummariesState, Crash> {
        Ok(SummariesState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: SummariesMsg,
        state: &mut SummariesState,
    ) -> Result<(), Crash> {
        match message {
            SummariesMsg::Saved(conversation, saved) => {
                state.waiting.retain(|(waiting, _)| *waiting != conversation);
                if state.waiting.len() >= WAITING_MAX {
                    state.waiting.pop_front();
                }
                state.waiting.push_back((conversation, saved));
                self.begin(ctx, state);
            }
        }
        Ok(())
    }

    fn origin(event: &SummariesEvent) -> Origin {
        match event {
            SummariesEvent::Ended(_) => Origin::Outside(None),
        }
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: SummariesEvent,
        state: &mut SummariesState,
    ) -> Result<(), Crash> {
        match event {
            SummariesEvent::Ended(conversation) => {
                state.running.retain(|running| *running != conversation);
                self.begin(ctx, state);
            }
        }
        Ok(())
    }
}

impl Summaries {
    /// Starts tasks for waiting conversations, as many as may run.
    fn begin(&self, ctx: &mut ActorContext<Summaries>, state: &mut SummariesState) {
        while state.running.len() < RUNNING_MAX
            && let Some(next) = state.waiting.iter().position(|(waiting, _)| !state.running.contains(waiting))
            && let Some((conversation, saved)) = state.waiting.remove(next)
        {
            state.running.push(conversation.clone());
            let (parts, panicked) = (Arc::clone(&self.parts), conversation.clone());
            ctx.task(
                async move {
                    writing::keep(&parts, &conversation, saved).await;
                    SummariesEvent::Ended(conversation)
                },
                |_| SummariesEvent::Ended(panicked),
            );
        }
    }
}

#[cfg(test)]
mod tests;
