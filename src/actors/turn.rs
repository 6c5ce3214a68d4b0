//! A turn in flight: the task that finds one answer. It loads, asks, validates and saves; every wait has a deadline.
//!
//! The task borrows: the journal has custody of the turn, and the conversation that started the task reports its answer.

mod ask;
mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::ask::Asked;
use super::handle::Handle;
use super::journal::JournalMsg;
use super::llm_dispatcher::LlmDispatcherMsg;
use super::outbox::OutboxMsg;
use super::running::{Live, Running};
use crate::domain::dialogue::{Dialogue, Event, Finished, Step};
use crate::domain::history::History;
use crate::domain::notice::{self, Apology};
use crate::domain::prompt::{self, Question};
use crate::domain::reply::{self, Reply};
use crate::domain::turn::{Answer, Effort, Exchange, HistoryScope, Outcome, Turn};
use crate::ports::{Clock, Dice, Store};

/// What a turn needs of its surroundings.
pub struct TurnParts {
    /// What this process runs with.
    pub live: Live,
    /// Where memory is kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// Who lets it ask.
    pub dispatcher: Handle<LlmDispatcherMsg>,
    /// Who shows typing, and reads from the platform.
    pub outbox: Handle<OutboxMsg>,
    /// Who has custody.
    pub journal: Handle<JournalMsg>,
    /// How many turns are in flight.
    pub in_flight: Arc<InFlight>,
}

/// How many turns are in flight in this process.
#[derive(Default)]
pub struct InFlight(AtomicUsize);

impl InFlight {
    /// The number now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// One more, for as long as the guard lives.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Flight {
        self.0.fetch_add(1, Ordering::SeqCst);
        Flight(Arc::clone(self))
    }
}

/// One turn in flight.
pub struct Flight(Arc<InFlight>);

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Finds the answer to one turn, within its deadline. None when it was cancelled.
pub async fn drive(parts: &TurnParts, turn: Turn, waited_since: Instant, cancel: &CancellationToken) -> Option<Answer> {
    let running = parts.live.now();
    let settings = &running.settings.turn;
    if waited_since.elapsed() > settings.queue {
        return Some(turn.apology(notice::apology(Apology::TimedOut), "waited too long"));
    }
    let deadline = Instant::now() + settings.deadline;
    let typing = OutboxMsg::Typing { place: turn.place.clone(), turn: turn.id.clone(), until: deadline };
    // Typing is a courtesy: an outbox that is down shows none.
    let _ = parts.outbox.cast(typing);
    let answer = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        thought = tokio::time::timeout_at(deadline, think(parts, &running, &turn, deadline)) => Some(match thought {
            Ok(answer) => answer,
            Err(_) => turn.apology(notice::apology(Apology::TimedOut), "deadline"),
        }),
    };
    let _ = parts.outbox.cast(OutboxMsg::Quiet(turn.place.clone(), turn.id.clone()));
    answer
}

async fn think(parts: &TurnParts, running: &Running, turn: &Turn, deadline: Instant) -> Answer {
    let recalled = memory::recall(parts, running, turn).await;
    let live = recalled.history.live(parts.clock.now(), running.settings.history.message_max_age);
    let question =
        Question { contract: turn.policy.reply, history: &live, quoted: recalled.quoted.as_ref(), text: &turn.text };
    let transcript = prompt::transcript(&running.prompts, &question);
    let mut dialogue = Dialogue::new(transcript, turn.policy.reply, Arc::clone(&running.schema));
    let mut effort = Effort::default();
    let mut event = Event::Begin;
    loop {
        match dialogue.next(event) {
            Step::AskModel(request) => {
                event = match ask::ask(parts, running, turn, &request, deadline).await {
                    Ok(Asked { completion, row, took }) => {
                        effort.model = Some(row);
                        effort.waited_ms += millis(took);
                        Event::Completed(completion)
                    }
                    Err(kind) => Event::Failed { kind },
                };
            }
            Step::Finish(Finished { reply, usage, repairs }) => {
                if repairs > 0 {
                    tracing::info!(event = "llm.repaired", turn = %turn.id, repairs, "the reply needed a repair");
                }
                effort.usage = usage;
                return finish(parts, running, turn, Found { reply, effort, history: recalled.history });
            }
            Step::GiveUp(reason) => {
                effort.usage = dialogue.usage();
                let why = Apology::of_failure(reason.as_str());
                return Answer { effort, ..turn.apology(notice::apology(why), reason.as_str()) };
            }
        }
    }
}

/// A reply, what it took, and the history that it continues.
struct Found {
    reply: Reply,
    effort: Effort,
    history: History,
}

fn finish(parts: &TurnParts, running: &Running, turn: &Turn, found: Found) -> Answer {
    let Found { reply, effort, history } = found;
    let exchange = Exchange {
        person: turn.person.clone(),
        asked: turn.text.clone(),
        asked_at: turn.at,
        answered: reply.response.clone(),
        answered_at: parts.clock.now(),
    };
    if turn.policy.history == HistoryScope::PersonInPlace {
        memory::remember(parts, running, turn, &exchange, history);
    }
    let mut outgoing = turn.reply_with("");
    outgoing.parts = reply::to_parts(&reply);
    Answer { outgoing, exchange: Some(exchange), outcome: Outcome::Replied, effort }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
