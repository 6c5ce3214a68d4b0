//! slack: supervises the connections to Slack, and has the messages read back that were sent while none was open.
//!
//! Supervised by: staffai (permanent).
//! Receives: its timer, the end of a catch-up.
//! Sends: messages that were read back to the gateway, through the intake.
//! A restart loses: its children, which connect again; Slack redelivers events that were not acknowledged. The time up
//! to which everything was received is in the store, and so are the channels that could not be read back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::observation::board::{Board, PartKind};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::basics::Basics;
use crate::unread::{Unread, oldest, pause};
use domain::ids::{Door, Place, Timestamp, millis};
use domain::keys;
use ports::{CaughtUp, EventSource, Intake, Missed, Stored, Unreadable, Write};
use telemetry::events::{GATEWAY_CAUGHT_UP, GATEWAY_DROPPED};

/// The interval of looks at the connections.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The interval of writes of the watermark.
const MARK_EVERY: Duration = Duration::from_secs(20);
/// The time that an accepted event may have been on its way; the watermark stays this far behind.
const ON_ITS_WAY: Duration = Duration::from_secs(30);

/// Events from its timer and its tasks.
pub enum SlackEvent {
    /// The connections are due for a look.
    Look,
    /// The stored progress was read; `None` if the store does not answer.
    Loaded(Option<(Option<Timestamp>, Unread)>),
    /// A catch-up ended: its result, or the reason why no place was read.
    CaughtUp(Reading, Result<CaughtUp, String>),
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
pub struct Progress {
    phase: Phase,
    /// The time up to which everything was received, except for the unread places. `None` for a workspace that is new
    /// to the bot.
    watermark: Option<Timestamp>,
    unread: Unread,
    /// True while a task reads the store or messages.
    busy: bool,
    /// The number of catch-ups in a row that read no place.
    failures: u32,
}

/// The state of what the connections deliver.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The stored progress is not known yet.
    Unknown,
    /// No connection is open, or the messages since then are not read back.
    Gap,
    /// A catch-up failed; the next one begins at this time.
    Waiting(Timestamp),
    /// Everything was received since the door opened at this instant; the watermark was written at this time.
    Whole(Instant, Timestamp),
}

/// The messages that a task reads.
#[derive(Debug, Clone)]
pub enum Reading {
    /// Those of all channels from the first to before the second time. The door opened at this instant.
    Everywhere(Timestamp, Timestamp, Instant),
    /// Those of places that could not be read before.
    Again(Vec<(Place, Timestamp)>),
}

impl Actor for Slack {
    type Msg = Infallible;
    type Event = SlackEvent;
    type State = Progress;

    fn start(&self, ctx: &mut ActorContext<Slack>) -> Result<Progress, Crash> {
        ctx.after(LOOK_EVERY, SlackEvent::Look);
        let (phase, unread) = (Phase::Unknown, Unread::default());
        Ok(Progress { phase, watermark: None, unread, busy: false, failures: 0 })
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
            SlackEvent::Loaded(stored) => {
                progress.busy = false;
                if let Some((watermark, unread)) = stored {
                    (progress.watermark, progress.unread, progress.phase) = (watermark, unread, Phase::Gap);
                    self.look(ctx, progress, now);
                }
            }
            SlackEvent::CaughtUp(reading, result) => {
                progress.busy = false;
                match reading {
                    Reading::Everywhere(since, until, opened) => {
                        self.caught_up(progress, (since, until, opened), result, now);
                    }
                    Reading::Again(places) => self.read_again(progress, &places, result, now),
                }
            }
        }
        Ok(())
    }
}

impl Slack {
    fn look(&self, ctx: &mut ActorContext<Self>, progress: &mut Progress, now: Timestamp) {
        let opened = self.opened();
        // A gap between two looks has another beginning of the open door.
        if let Phase::Whole(since, _) = progress.phase
            && opened != Some(since)
        {
            progress.phase = Phase::Gap;
        }
        // Also while a channel is read again: its gap is stored by itself.
        if let Phase::Whole(since, marked) = progress.phase
            && now.since(marked) >= MARK_EVERY
        {
            progress.phase = Phase::Whole(since, now);
            self.mark(progress, now);
        }
        let Some(opened) = opened.filter(|_| !progress.busy) else { return };
        match progress.phase {
            Phase::Unknown => self.load(ctx, progress),
            Phase::Waiting(until) if now < until => {}
            Phase::Gap | Phase::Waiting(_) => {
                let Some(watermark) = progress.watermark else {
                    // A workspace without a watermark is new to the bot: earlier messages were not for it.
                    progress.phase = Phase::Whole(opened, now);
                    return self.mark(progress, now);
                };
                let since = watermark.max(oldest(&self.basics));
                self.read(ctx, progress, Reading::Everywhere(since, now, opened), Missed::Everywhere(since));
            }
            Phase::Whole(..) => {
                self.expire(progress);
                let due = progress.unread.due(now, oldest(&self.basics));
                if !due.is_empty() {
                    self.read(ctx, progress, Reading::Again(due.clone()), Missed::In(due));
                }
            }
        }
    }

    /// Returns the instant at which the door opened; `None` while it has no connection.
    fn opened(&self) -> Option<Instant> {
        let parts = self.board.parts();
        let door = parts.iter().find(|(kind, name, _)| *kind == PartKind::Door && name == self.door.as_str());
        door.filter(|(.., state)| state.up).map(|(.., state)| state.since)
    }

    fn load(&self, ctx: &mut ActorContext<Self>, progress: &mut Progress) {
        progress.busy = true;
        let (store, door) = (Arc::clone(&self.basics.store), self.door.clone());
        let (watermark, unread) = (self.key(WATERMARK), self.key(UNREAD));
        let load = async move {
            let read = [store.read(&watermark).await, store.read(&unread).await];
            if read.contains(&Stored::Unreadable(Unreadable::NoAnswer)) {
                return SlackEvent::Loaded(None);
            }
            let [watermark, unread] = read.map(Stored::value);
            let watermark = watermark.and_then(|text| text.parse().ok()).map(Timestamp);
            let unread = unread.map(|text| Unread::parse(&door, &text)).unwrap_or_default();
            SlackEvent::Loaded(Some((watermark, unread)))
        };
        ctx.task(load, |_| SlackEvent::Loaded(None));
    }

    fn read(&self, ctx: &mut ActorContext<Self>, progress: &mut Progress, reading: Reading, missed: Missed) {
        progress.busy = true;
        let (source, intake, failed) = (Arc::clone(&self.source), Arc::clone(&self.intake), reading.clone());
        let read = async move { SlackEvent::CaughtUp(reading, source.catch_up(&missed, intake).await) };
        ctx.task(read, |panic| SlackEvent::CaughtUp(failed, Err(format!("its task panicked: {panic}"))));
    }

    fn caught_up(
        &self,
        progress: &mut Progress,
        (since, until, opened): (Timestamp, Timestamp, Instant),
        result: Result<CaughtUp, String>,
        now: Timestamp,
    ) {
        match result {
            Ok(CaughtUp { messages, unread }) => {
                tracing::info!(event = GATEWAY_CAUGHT_UP, door = %self.door, messages, "missed messages were read");
                for (place, reason) in unread {
                    self.tell_unread(&place, &reason);
                    progress.unread.failed(place, since, until, now, self.basics.dice.roll());
                }
                progress.failures = 0;
                // The next look finds out if the connections ended meanwhile: what came then is in no catch-up yet.
                progress.phase = Phase::Whole(opened, now);
                self.mark(progress, until);
            }
            Err(reason) => {
                let wait = pause(progress.failures, self.basics.dice.roll());
                progress.failures = progress.failures.saturating_add(1);
                let again_in_ms = millis(wait);
                tracing::warn!(event = GATEWAY_CAUGHT_UP, door = %self.door, reason, again_in_ms, "missed messages could not be read; trying again");
                progress.phase = Phase::Waiting(Timestamp(now.0.saturating_add(again_in_ms)));
            }
        }
    }

    fn read_again(
        &self,
        progress: &mut Progress,
        places: &[(Place, Timestamp)],
        result: Result<CaughtUp, String>,
        now: Timestamp,
    ) {
        let (messages, failed) = match result {
            Ok(CaughtUp { messages, unread }) => (messages, unread),
            Err(reason) => (0, places.iter().map(|(place, _)| (place.clone(), reason.clone())).collect()),
        };
        for (place, _) in places.iter().filter(|(place, _)| failed.iter().all(|(unread, _)| unread != place)) {
            progress.unread.read(place);
        }
        for (place, reason) in &failed {
            self.tell_unread(place, reason);
            progress.unread.failed_again(place, now, self.basics.dice.roll());
        }
        if failed.len() < places.len() {
            tracing::info!(event = GATEWAY_CAUGHT_UP, door = %self.door, messages, "missed messages were read");
            self.keep(progress);
        }
    }

    fn tell_unread(&self, place: &Place, reason: &str) {
        tracing::warn!(event = GATEWAY_CAUGHT_UP, door = %self.door, %place, reason, "the missed messages of a channel could not be read; trying again");
    }

    fn expire(&self, progress: &mut Progress) {
        let channels = progress.unread.expire(oldest(&self.basics));
        if channels > 0 {
            tracing::warn!(event = GATEWAY_DROPPED, door = %self.door, reason = "too old", channels, "missed messages of channels were not read in time");
            self.keep(progress);
        }
    }

    /// Stores the time up to which everything was received, with the places that are excepted.
    fn mark(&self, progress: &mut Progress, until: Timestamp) {
        let until = Timestamp(until.0.saturating_sub(millis(ON_ITS_WAY)));
        progress.watermark = Some(until);
        self.keep(progress);
    }

    fn keep(&self, progress: &Progress) {
        let unread = match progress.unread.text() {
            Some(value) => Write::Put { key: self.key(UNREAD), value, ttl: Some(keys::WATERMARK_TTL) },
            None => Write::Delete { key: self.key(UNREAD) },
        };
        let put = |Timestamp(until): Timestamp| Write::Put {
            key: self.key(WATERMARK),
            value: until.to_string(),
            ttl: Some(keys::WATERMARK_TTL),
        };
        let writes = [unread].into_iter().chain(progress.watermark.map(put)).collect();
        // Lost writes only make the next catch-up longer: both are in one batch.
        drop(self.basics.store.write(writes));
    }

    fn key(&self, of: &str) -> String {
        keys::watermark(&self.door, of)
    }
}

/// The name of the watermark of all connections.
const WATERMARK: &str = "sockets";
/// The name of the record of unread places.
const UNREAD: &str = "unread";

#[cfg(test)]
mod tests;
