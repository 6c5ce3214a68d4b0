//! Responds to a command or a click: first defers the response, then sends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::messages::outbox::OutboxMsg;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::handle::{CallError, Handle};
use domain::command::Callback;
use domain::happening::{CommandChange, Happening};
use domain::ids::{Place, TurnId};
use domain::outgoing::Piece;
use domain::restart::Backoff;
use domain::turn::Effort;
use domain::turn_event::TurnUpdate;
use ports::{Dice, PostError, PostRequest, PostResult};

/// The maximum time for deferring. The platform gives up after three seconds.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(2_500);
/// The pause between two attempts to defer.
const CLAIM_AGAIN: Duration = Duration::from_millis(50);
/// The maximum time for a response.
const RESPOND_TIMEOUT: Duration = Duration::from_secs(60);
/// The backoff between attempts to respond.
const RESPOND_AGAIN: Backoff = Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(5) };

/// The routes of responses. Clones share the same routes.
#[derive(Clone)]
pub struct Ways {
    /// The outbox of each door.
    pub outboxes: Outboxes,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// The event log for reading clients.
    pub events: TurnEvents,
    /// The observers of events.
    pub observers: Observers,
}

/// The target of the response to one command or one click.
pub(crate) struct Desk<'a> {
    outbox: &'a Handle<OutboxMsg>,
    dice: &'a dyn Dice,
    events: &'a TurnEvents,
    observers: &'a Observers,
    callback: &'a Callback,
    place: &'a Place,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(ways: &'a Ways, callback: &'a Callback, place: &'a Place) -> Self {
        let Ways { outboxes, dice, events, observers } = ways;
        Self { outbox: outboxes.of(&callback.id.door), dice: &**dice, events, observers, callback, place }
    }

    /// Defers the response. Returns false if another process has claimed it or the platform refuses; the caller must
    /// then do nothing.
    pub(crate) async fn claim(&self) -> bool {
        let until = Instant::now() + CLAIM_TIMEOUT;
        // An attempt without a reply may have reached the platform: the next attempt then finds the response deferred.
        let mut doubtful = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let request = PostRequest::Defer(self.callback.clone());
            let pause = match self.outbox.call(|reply| OutboxMsg::Interact(request, reply), left).await {
                Ok(Ok(PostResult::Already)) => return doubtful,
                Ok(Ok(_)) => return true,
                Ok(Err(error @ PostError::Rejected { .. })) => {
                    self.tell(CommandChange::Unclaimed(&error.to_string()));
                    return false;
                }
                Ok(Err(error @ PostError::Limited { .. })) => error.pause(RESPOND_AGAIN.base),
                Ok(Err(PostError::Unsure(_))) => {
                    doubtful = true;
                    CLAIM_AGAIN
                }
                Ok(Err(PostError::Transient(_))) | Err(CallError::Down | CallError::Full) => CLAIM_AGAIN,
                Err(CallError::Timeout) => left,
            };
            if Instant::now() + pause >= until {
                self.tell(CommandChange::Unclaimed("no answer in time"));
                return false;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends the response. Returns false on failure.
    pub(crate) async fn respond(&self, piece: Piece) -> bool {
        self.correct(piece, Vec::new()).await
    }

    /// Sends the response to a form, with the fields to correct and reasons. Returns false on failure.
    pub(crate) async fn correct(&self, piece: Piece, problems: Vec<(String, String)>) -> bool {
        let until = Instant::now() + RESPOND_TIMEOUT;
        for attempt in 1.. {
            let left = until.saturating_duration_since(Instant::now());
            let request =
                PostRequest::Respond { to: self.callback.clone(), piece: piece.clone(), problems: problems.clone() };
            let reason = match self.outbox.call(|reply| OutboxMsg::Interact(request, reply), left).await {
                Ok(Ok(_)) => {
                    self.publish(piece);
                    return true;
                }
                Ok(Err(error)) => error,
                Err(error) => PostError::Transient(error.to_string()),
            };
            let pause = match &reason {
                PostError::Rejected { .. } => left,
                PostError::Limited { .. } | PostError::Transient(_) | PostError::Unsure(_) => {
                    reason.pause(RESPOND_AGAIN.base + RESPOND_AGAIN.delay(attempt, self.dice.roll()))
                }
            };
            if Instant::now() + pause >= until {
                self.tell(CommandChange::Unanswered(&reason.to_string()));
                return false;
            }
            tokio::time::sleep(pause).await;
        }
        false
    }

    fn tell(&self, change: CommandChange<'_>) {
        self.observers.tell(&Happening::Command(change));
    }

    fn publish(&self, piece: Piece) {
        let id = TurnId::of(&self.callback.id);
        self.events.publish(self.place, &id, || TurnUpdate::Final {
            parts: piece.into_parts().into(),
            effort: Effort::default(),
        });
        self.events.publish(self.place, &id, || TurnUpdate::DONE);
    }
}
