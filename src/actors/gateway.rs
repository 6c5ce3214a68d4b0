//! gateway: the one way in for every door.
//!
//! Supervised by: staffai (permanent).
//! Receives: what happened at a door, each with a receipt.
//! Sends: accepted turns and cancellations to the journal, commands to commands, busy notices to the outbox.
//! A restart loses: nothing; receipts that die with it bring their events back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::commands::CommandsMsg;
use super::handle::{Down, Handle};
use super::journal::{Accepted, JournalMsg};
use super::outbox::{OutboxMsg, Outboxes};
use super::receipt::Receipt;
use super::running::Live;
use super::supervisor::{Actor, Crash, Me};
use crate::domain::ids::{Person, TurnId};
use crate::domain::incoming::{Incoming, Posted};
use crate::domain::notice;
use crate::domain::triage::{self, Verdict};
use crate::domain::turn::{Answer, Effort, Outcome, Turn};

/// At most one busy notice for each person in this time.
const BUSY_NOTICE_EVERY: Duration = Duration::from_secs(60);
/// The most people remembered as having had a busy notice.
const BUSY_NOTICES_MAX: usize = 10_000;

/// What the gateway is told.
pub enum GatewayMsg {
    /// A door saw something; the person is our own account there. The receipt is settled when nobody needs the event any more.
    Received(Box<Incoming>, Person, Receipt),
}

/// The behaviour and its arguments.
pub struct Gateway {
    /// What this process runs with.
    pub live: Live,
    /// One permit for each open turn; they outlive this actor.
    pub permits: Arc<Semaphore>,
    /// Who takes custody.
    pub journal: Handle<JournalMsg>,
    /// Who says that we are busy.
    pub outboxes: Outboxes,
    /// Who runs commands.
    pub commands: Handle<CommandsMsg>,
}

/// What the gateway holds.
#[derive(Default)]
pub struct GatewayState {
    told_busy: HashMap<Person, Instant>,
}

impl Actor for Gateway {
    type Msg = GatewayMsg;
    type State = GatewayState;

    fn start(&self, _me: &mut Me<GatewayMsg>) -> Result<GatewayState, Crash> {
        Ok(GatewayState::default())
    }

    async fn handle(
        &self,
        _me: &mut Me<GatewayMsg>,
        message: GatewayMsg,
        state: &mut GatewayState,
    ) -> Result<(), Crash> {
        match message {
            GatewayMsg::Received(incoming, us, receipt) => match *incoming {
                Incoming::Posted(posted) => self.triage(state, &posted, &us, receipt),
                Incoming::Deleted(message) => {
                    if self.journal.cast(JournalMsg::Cancel(TurnId::of(&message))).is_ok() {
                        receipt.settle();
                    }
                }
                // Who runs a command sees that it was not answered, so it is handed on but never kept.
                Incoming::Command(command) => settle(self.commands.cast(CommandsMsg::Run(command)), receipt),
                Incoming::Typing(typing) => settle(self.commands.cast(CommandsMsg::Suggest(typing)), receipt),
            },
        }
        Ok(())
    }
}

impl Gateway {
    fn triage(&self, state: &mut GatewayState, posted: &Posted, us: &Person, receipt: Receipt) {
        match triage::triage(posted, &self.live.now().rules, us) {
            Verdict::Ignore(reason) => {
                tracing::debug!(event = "gateway.dropped", reason = reason.as_str(), "message dropped");
                receipt.settle();
            }
            Verdict::Turn(turn) => self.admit(state, turn, None, receipt),
            Verdict::Hint(turn) => {
                let answer = Answer {
                    outgoing: turn.reply_with(notice::hint()),
                    exchange: None,
                    outcome: Outcome::Hinted,
                    effort: Effort::default(),
                };
                self.admit(state, turn, Some(answer), receipt);
            }
        }
    }

    fn admit(&self, state: &mut GatewayState, turn: Turn, answer: Option<Answer>, receipt: Receipt) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            tracing::warn!(event = "turn.shed", r#where = "gateway", turn = %turn.id, "too many open turns");
            metrics::counter!("staffai_shed_total", "where" => "gateway").increment(1);
            if state.may_tell_busy(&turn.person) {
                let notify =
                    OutboxMsg::Notify { about: turn.id.trigger(), place: turn.place, text: notice::busy().to_owned() };
                // Nobody waits for this notice.
                let _ = self.outboxes.of(&turn.id.door).cast(notify);
            }
            receipt.settle();
            return;
        };
        // A journal that is down drops the receipt, and the event comes back.
        let _ = self.journal.cast(JournalMsg::Accept(Box::new(Accepted { turn, answer, permit, receipt })));
    }
}

/// An event is taken when its receiver lives; otherwise it comes back in a moment.
fn settle(cast: Result<(), Down>, receipt: Receipt) {
    if cast.is_ok() {
        receipt.settle();
    }
}

impl GatewayState {
    fn may_tell_busy(&mut self, person: &Person) -> bool {
        let now = Instant::now();
        if self.told_busy.len() >= BUSY_NOTICES_MAX {
            self.told_busy.retain(|_, at| now.duration_since(*at) < BUSY_NOTICE_EVERY);
        }
        let told = self.told_busy.get(person).is_some_and(|at| now.duration_since(*at) < BUSY_NOTICE_EVERY);
        if told || self.told_busy.len() >= BUSY_NOTICES_MAX {
            return false;
        }
        self.told_busy.insert(person.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests;
