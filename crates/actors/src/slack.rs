//! slack: supervises the connections to Slack, and has the messages read back that were sent while none was open.
//!
//! Supervised by: staffai (permanent).
//! Receives: its timer, the end of a catch-up.
//! Sends: messages that were read back to the gateway, through the intake.
//! A restart loses: its children, which connect again; Slack redelivers events that were not acknowledged. The time up
//! to which everything was received is in the store.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::observation::board::{Board, PartKind};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::basics::Basics;
use domain::ids::{Door, Timestamp, millis};
use domain::keys;
use ports::{EventSource, Intake, Write};
use telemetry::events::GATEWAY_CAUGHT_UP;

/// The interval of looks at the connections.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The interval of writes of the watermark.
const MARK_EVERY: Duration = Duration::from_secs(20);
/// The time that an accepted event may have been on its way; the watermark stays this far behind.
const ON_ITS_WAY: Duration = Duration::from_secs(30);
/// The delay before a failed catch-up is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Events from its timer and its task.
pub enum SlackEvent {
    /// The connections are due for a look.
    Look,
    /// A catch-up ended: the number of messages, or the reason why some were not read.
    CaughtUp(Result<u64, String>),
}

/// The behaviour and its arguments.
#[derive(Clone)]
pub struct Slack {
    /// The door.
    pub door: Door,
    /// Reads messages back.
    pub source: Arc<dyn EventSource>,
    /// The destination of messages.
    pub intake: Arc<dyn Intake>,
    /// The board, which has the state of the connections.
    pub board: Arc<Board>,
    /// Store, clock and settings.
    pub basics: Basics,
}

/// The progress of the door.
pub enum Progress {
    /// No connection is open, or some messages since then are not read back.
    Gap,
    /// Messages are being read back; the next watermark is this time.
    CatchingUp(Timestamp),
    /// A catch-up failed; the next one begins at this time.
    Waiting(Timestamp),
    /// Everything is received; the watermark was written at this time.
    Whole(Timestamp),
}

impl Actor for Slack {
    type Msg = Infallible;
    type Event = SlackEvent;
    type State = Progress;

    fn start(&self, ctx: &mut ActorContext<Slack>) -> Result<Progress, Crash> {
        ctx.after(LOOK_EVERY, SlackEvent::Look);
        Ok(Progress::Gap)
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _progress: &mut Progress,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: SlackEvent,
        progress: &mut Progress,
    ) -> Result<(), Crash> {
        let now = self.basics.clock.now();
        match event {
            SlackEvent::Look => {
                ctx.after(LOOK_EVERY, SlackEvent::Look);
                self.look(ctx, progress, now);
            }
            SlackEvent::CaughtUp(result) => {
                let Progress::CatchingUp(until) = *progress else { return Ok(()) };
                match result {
                    Ok(messages) => {
                        tracing::info!(event = GATEWAY_CAUGHT_UP, door = %self.door, messages, "missed messages were read");
                        self.mark(until);
                        *progress = Progress::Whole(now);
                    }
                    Err(reason) => {
                        tracing::warn!(event = GATEWAY_CAUGHT_UP, door = %self.door, reason, "some missed messages could not be read; trying again");
                        *progress = Progress::Waiting(Timestamp(now.0.saturating_add(millis(AGAIN_AFTER))));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Slack {
    fn look(&self, ctx: &mut ActorContext<Self>, progress: &mut Progress, now: Timestamp) {
        let parts = self.board.parts();
        let open =
            parts.iter().any(|(kind, name, state)| *kind == PartKind::Door && name == self.door.as_str() && state.up);
        match *progress {
            // A catch-up that runs while the connections end continues; what comes later is in the next one.
            Progress::CatchingUp(_) => {}
            _ if !open => *progress = Progress::Gap,
            Progress::Waiting(until) if now < until => {}
            Progress::Gap | Progress::Waiting(_) => {
                *progress = Progress::CatchingUp(now);
                self.catch_up(ctx, now);
            }
            Progress::Whole(marked) if now.since(marked) >= MARK_EVERY => {
                self.mark(now);
                *progress = Progress::Whole(now);
            }
            Progress::Whole(_) => {}
        }
    }

    fn catch_up(&self, ctx: &mut ActorContext<Self>, now: Timestamp) {
        let (source, intake, basics) = (Arc::clone(&self.source), Arc::clone(&self.intake), self.basics.clone());
        let key = self.key();
        let age = basics.live.now().settings.catch_up.age.min(keys::CATCH_UP_AGE_MAX);
        let read = async move {
            let stored = basics.store.get(&key).await.and_then(|text| text.parse().ok()).map(Timestamp);
            // A workspace without a watermark is new to the bot: earlier messages were not for it.
            let Some(stored) = stored else { return SlackEvent::CaughtUp(Ok(0)) };
            let since = stored.max(Timestamp(now.0.saturating_sub(millis(age))));
            SlackEvent::CaughtUp(source.catch_up(since, intake).await)
        };
        ctx.task(read, |panic| SlackEvent::CaughtUp(Err(format!("its task panicked: {panic}"))));
    }

    /// Stores the time up to which everything was received.
    fn mark(&self, until: Timestamp) {
        let value = until.0.saturating_sub(millis(ON_ITS_WAY)).to_string();
        let write = Write::Put { key: self.key(), value, ttl: Some(keys::WATERMARK_TTL) };
        // A lost watermark only makes the next catch-up longer.
        drop(self.basics.store.write(vec![write]));
    }

    fn key(&self) -> String {
        keys::watermark(&self.door, "sockets")
    }
}

#[cfg(test)]
mod tests;
