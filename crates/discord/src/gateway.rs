//! Discord's gateway: one stream is one connection. The gateway library sends heartbeats and performs the handshake. It
//! must never reconnect by itself, because it does so without backoff. When a stream ends, the caller decides what
//! happens next.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::events::{Deleted, GuildPlaces, GuildThreads, Ready};
use super::frame::{self, Dropped, Event, Reading};
use super::interactions::Interaction;
use super::prefilter::Filter;
use super::rest::Rest;
use super::voice::Voice;
use super::{Access, DOOR, close};
use domain::ids::Person;
use domain::incoming::{Deletion, Incoming, Posted};
use ports::{
    AccessScope, Advice, AfterClose, Closed, EventStream, GatewaySession, IdentifyPermit, Lottery, Missing,
    PresenceUpdates, Shard, ShardedSource, SourceError, StreamEvent,
};

mod connection;
mod display;
mod shared;

use connection::{Connection, Frame};
use display::Display;
use shared::Shared;
use telemetry::events::GATEWAY_DROPPED;
use telemetry::metrics::GATEWAY_EVENTS_TOTAL;

/// The longest frame parsed on the task of its connection, in bytes. Longer ones, such as a large guild's first frame,
/// are parsed on a blocking thread, so that no task occupies a core for long.
pub(super) const IN_PLACE_MAX: usize = 64 * 1024;
/// The most skipped frames before the sequence number of the last is reported.
const MAX_PASSED: u32 = 64;

/// Settings of the gateway besides access to Discord.
#[derive(Debug, Clone, Default)]
pub struct Interests {
    /// Names of the bot, compared case-insensitively.
    pub names: Vec<String>,
    /// True if direct messages are subscribed to and passed on.
    pub direct_messages: bool,
    /// True if reactions to the bot's messages are subscribed to and passed on.
    pub reactions: bool,
    /// True if the bot may join voice channels.
    pub voice: bool,
    /// The draws for messages not addressed to the bot; `None` never draws.
    pub lottery: Option<Lottery>,
}

/// Discord's gateway as a source of events.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
}

impl Gateway {
    /// Creates a source of events for this bot. Sends nothing yet.
    #[must_use]
    pub fn new(access: Access, interests: Interests, rest: Arc<Rest>) -> Self {
        let (displays, voice) = (Arc::default(), Arc::new(Voice::new(Arc::clone(&rest))));
        Self { shared: Arc::new(Shared { rest, access, interests, address: Mutex::new(None), displays, voice }) }
    }

    /// Returns the part that concerns voice channels.
    #[must_use]
    pub fn voice(&self) -> Arc<Voice> {
        Arc::clone(&self.shared.voice)
    }
}

#[async_trait]
impl ShardedSource for Gateway {
    async fn advice(&self) -> Result<Advice, SourceError> {
        let advice = self.shared.ask().await?;
        self.shared.me().await?;
        Ok(advice)
    }

    fn us(&self) -> Option<Person> {
        self.shared.rest.known_me().map(|me| Person::new(DOOR, me.to_string()))
    }

    fn complete(&self, posted: &mut Posted) -> Option<Missing> {
        let rest = &self.shared.rest;
        posted.parent = rest.threads.parent(&posted.place);
        posted.locale = posted.guild.as_deref().and_then(|guild| rest.threads.locale(guild));
        let (guild, parent) = (posted.guild.as_deref(), posted.parent.as_ref());
        posted.may_answer = rest.rights.may_answer(guild, &posted.place, parent, posted.at);
        let guild = guild?;
        if !rest.rights.knows(guild) {
            return Some(Missing::Community);
        }
        (parent.is_none() && !rest.rights.knows_channel(guild, &posted.place)).then_some(Missing::Place)
    }

    fn connect(
        &self,
        shard: Shard,
        session: Option<GatewaySession>,
        permit: IdentifyPermit,
        shown: PresenceUpdates,
    ) -> Box<dyn EventStream> {
        Box::new(Stream {
            shared: Arc::clone(&self.shared),
            shard,
            session: session.and_then(|session| self.shared.resumable(session, shard)),
            permit: Some(permit),
            display: Display::new(Arc::clone(&self.shared.displays), shard.number, shown),
            live: None,
            has_session: false,
            reading: None,
            told: VecDeque::new(),
            passed: None,
            end: None,
        })
    }
}

/// One connection as seen by the caller.
struct Stream {
    shared: Arc<Shared>,
    shard: Shard,
    session: Option<GatewaySession>,
    /// Handed to the connection when it is opened.
    permit: Option<IdentifyPermit>,
    display: Display,
    live: Option<Live>,
    /// True once the session of this connection began or was resumed.
    has_session: bool,
    /// A long frame being parsed on another thread; the flag is true if the gateway library understood it.
    reading: Option<(JoinHandle<Result<Reading, Dropped>>, bool)>,
    /// Events to return, in order; at most those of one frame.
    told: VecDeque<StreamEvent>,
    /// The sequence number of the last skipped and unreported frame, and the number of skipped frames.
    passed: Option<(u64, u32)>,
    end: Option<Closed>,
}

/// An open connection and the filter for its frames.
struct Live {
    connection: Connection,
    filter: Arc<Filter>,
}

#[async_trait]
impl EventStream for Stream {
    async fn next(&mut self) -> StreamEvent {
        loop {
            if let Some(event) = self.told.pop_front() {
                return event;
            }
            if let Some(end) = &self.end {
                return StreamEvent::Closed(end.clone());
            }
            if let Err(end) = self.step().await {
                // The socket is closed here without a close code, so that the session can be resumed.
                (self.live, self.reading) = (None, None);
                self.tell_passed();
                self.end = Some(end);
            }
        }
    }
}

impl Stream {
    /// Processes one frame. Cancel-safe.
    async fn step(&mut self) -> Result<(), Closed> {
        if let Some((reading, understood)) = &mut self.reading {
            let understood = *understood;
            let read = reading.await.unwrap_or_else(|_| Err(panicked()));
            self.reading = None;
            return self.act(read, understood);
        }
        if self.live.is_none() {
            self.open().await?;
        }
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        let frame = match self.passed {
            None => tokio::select! {
                frame = live.connection.frame() => Some(frame),
                presence = self.display.due() => {
                    live.connection.send(display::operation(&presence));
                    return Ok(());
                }
                request = self.shared.voice.due(self.shard), if self.has_session => {
                    live.connection.send(request);
                    return Ok(());
                }
            },
            Some((_, many)) if many >= MAX_PASSED => None,
            // Frames that are already available are taken first; the sequence number is reported before a real wait.
            Some(_) => live.connection.frame().now_or_never(),
        };
        let Some(frame) = frame else {
            self.tell_passed();
            return Ok(());
        };
        self.take(frame?)
    }

    async fn open(&mut self) -> Result<(), Closed> {
        let me = self.shared.me().await.map_err(unopened)?;
        let address = self.shared.address().await.map_err(unopened)?;
        let Some(permit) = self.permit.take() else {
            return Err(close::closed(AfterClose::Resume, "the stream has already ended"));
        };
        let interests = &self.shared.interests;
        let resume_address =
            self.session.as_ref().and_then(|session| self.shared.resume_address(session.resume_url.as_deref()));
        let connection = connection::Plan {
            shard: self.shard,
            address,
            resume_address,
            session: self.session.clone(),
            intents: connection::intents(interests.direct_messages, interests.reactions, interests.voice),
            presence: self.display.first(),
        }
        .open(&self.shared.access, permit)?;
        let filter = Filter::new(me, &interests.names, interests.direct_messages);
        let filter = filter.with_lottery(interests.lottery.clone());
        self.live = Some(Live { connection, filter: Arc::new(filter) });
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<(), Closed> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        let Frame { text, understood } = frame;
        if text.len() > IN_PLACE_MAX {
            let filter = Arc::clone(&live.filter);
            self.reading = Some((tokio::task::spawn_blocking(move || read(&text, &filter)), understood));
            return Ok(());
        }
        let read = read(&text, &live.filter);
        self.act(read, understood)
    }

    fn act(&mut self, read: Result<Reading, Dropped>, understood: bool) -> Result<(), Closed> {
        let reading = match read {
            Ok(reading) => reading,
            Err(dropped) => return self.drop_frame(&dropped),
        };
        match reading {
            Reading::Hello(interval) => {
                count("hello");
                if let Some(live) = &mut self.live {
                    live.connection.hello(interval);
                }
                Ok(())
            }
            Reading::InvalidSession(resumable) => {
                count("invalid_session");
                Err(close::invalid_session(resumable))
            }
            Reading::Reconnect => {
                count("reconnect");
                Err(close::reconnect())
            }
            Reading::Control => {
                count("control");
                Ok(())
            }
            Reading::Dispatch { sequence, kind, event } => {
                count(kind);
                if let Some(live) = &mut self.live {
                    live.connection.event(matches!(event, Event::Ready(_) | Event::Resumed));
                }
                self.tell(sequence, event, understood)
            }
        }
    }

    fn interacted(&self, interaction: Interaction) -> Incoming {
        match interaction {
            Interaction::Command(mut command) => {
                command.parent = command.parent.or_else(|| self.shared.rest.threads.parent(&command.place));
                Incoming::Command(command)
            }
            Interaction::Dialogue(mut step) => {
                step.parent = step.parent.or_else(|| self.shared.rest.threads.parent(&step.place));
                Incoming::Dialogue(step)
            }
            Interaction::Typing(typing) => Incoming::Typing(typing),
            Interaction::Decision(click) => Incoming::Decision(click),
        }
    }

    fn tell(&mut self, sequence: u64, event: Event, understood: bool) -> Result<(), Closed> {
        match event {
            // The gateway library needs the session for its heartbeats. If it could not read this frame, it has none.
            Event::Ready(_) if !understood => return Err(unreadable_ready("its resume address is missing")),
            Event::Ready(ready) => {
                self.display.began();
                self.has_session = true;
                self.tell_now(StreamEvent::Ready(self.begun(sequence, *ready)));
            }
            Event::Resumed => {
                self.display.resumed();
                self.has_session = true;
                self.tell_now(StreamEvent::Resumed);
                self.pass(sequence);
            }
            Event::Posted(posted) => {
                self.tell_now(StreamEvent::Incoming { sequence, incoming: Box::new(Incoming::Posted(*posted)) });
            }
            Event::Deleted(deleted) => self.tell_deleted(sequence, deleted),
            Event::Interaction(interaction) => {
                let incoming = Box::new(self.interacted(interaction));
                self.tell_now(StreamEvent::Incoming { sequence, incoming });
            }
            Event::Places(GuildPlaces { guild, locale, newest, threads }, rights) => {
                let access = rights.is_some();
                if let Some(rights) = rights {
                    self.shared.rest.rights.learn(*rights);
                }
                self.shared.rest.threads.prefers(&guild, locale);
                self.shared.rest.threads.learn_all(&guild, threads);
                let newest = self.shared.rest.rights.answerable(&guild, newest, &self.shared.rest.threads);
                let changed = access.then(|| AccessScope::Community(guild.clone()));
                self.tell_now(StreamEvent::Places { sequence, guild, newest });
                if let Some(changed) = changed {
                    self.tell_now(StreamEvent::AccessChanged(changed));
                }
            }
            Event::Threads(GuildThreads { guild, threads }) => {
                self.shared.rest.threads.learn_all(&guild, threads);
                self.pass(sequence);
            }
            Event::ThreadGone(thread) => {
                self.shared.rest.threads.forget(&thread);
                self.pass(sequence);
            }
            Event::GuildChanged(GuildPlaces { guild, locale, .. }, change) => {
                self.shared.rest.threads.prefers(&guild, locale);
                self.shared.rest.rights.learn(*change);
                self.pass(sequence);
            }
            Event::Reacted(reaction) => {
                self.tell_now(StreamEvent::Incoming { sequence, incoming: Box::new(Incoming::Reacted(reaction)) });
            }
            Event::Rights(change) => {
                if let Some(access) = change.may_open() {
                    self.tell_now(StreamEvent::AccessChanged(access));
                }
                self.shared.rest.learn_change(*change);
                self.pass(sequence);
            }
            Event::Voice(change) => {
                self.shared.voice.learn(change);
                self.pass(sequence);
            }
            Event::Other => self.pass(sequence),
        }
        Ok(())
    }

    fn tell_deleted(&mut self, sequence: u64, Deleted { guild, messages }: Deleted) {
        let last = messages.len().saturating_sub(1);
        if messages.is_empty() {
            self.pass(sequence);
        }
        for (index, message) in messages.into_iter().enumerate() {
            self.tell_now(StreamEvent::Incoming {
                // Only the last message completes the event.
                sequence: if index == last { sequence } else { sequence.saturating_sub(1) },
                incoming: Box::new(Incoming::Deleted(Deletion { message, guild: guild.clone() })),
            });
        }
    }

    /// The sequence number of a returned event also covers the frames skipped before it.
    fn tell_now(&mut self, event: StreamEvent) {
        self.passed = None;
        self.told.push_back(event);
    }

    fn pass(&mut self, sequence: u64) {
        let many = self.passed.map_or(0, |(_, many)| many);
        self.passed = Some((sequence, many.saturating_add(1)));
    }

    fn tell_passed(&mut self) {
        if let Some((sequence, _)) = self.passed.take() {
            self.told.push_back(StreamEvent::Passed { sequence });
        }
    }

    fn begun(&self, sequence: u64, ready: Ready) -> GatewaySession {
        self.shared.rest.know_me(ready.user.id);
        GatewaySession {
            id: ready.session_id,
            sequence,
            resume_url: self.shared.resume_address(ready.resume_gateway_url.as_deref()),
            service: Some(self.shared.access.api_url.clone()),
            total: self.shard.total,
        }
    }

    fn drop_frame(&mut self, dropped: &Dropped) -> Result<(), Closed> {
        count(dropped.kind);
        tracing::debug!(
            event = GATEWAY_DROPPED,
            kind = dropped.kind,
            sequence = dropped.sequence,
            reason = dropped.reason,
            "a frame was dropped"
        );
        if dropped.begins {
            return Err(unreadable_ready(&dropped.reason));
        }
        if let Some(sequence) = dropped.sequence {
            self.pass(sequence);
        }
        Ok(())
    }
}

/// The parsers have no known panic. A panic costs only this frame.
fn read(text: &str, filter: &Filter) -> Result<Reading, Dropped> {
    catch_unwind(AssertUnwindSafe(|| frame::read(text, filter))).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Dropped {
    Dropped { sequence: None, kind: "panicked", reason: "the parser panicked".to_owned(), begins: false }
}

fn unreadable_ready(why: &str) -> Closed {
    close::closed(AfterClose::Identify, format!("the start of the session could not be read: {why}"))
}

fn unopened(error: SourceError) -> Closed {
    match error {
        SourceError::Refused(reason) => close::closed(AfterClose::Fatal, reason),
        SourceError::Unreachable(reason) => close::closed(AfterClose::Resume, reason),
    }
}

fn count(kind: &'static str) {
    metrics::counter!(GATEWAY_EVENTS_TOTAL, "kind" => kind).increment(1);
}

#[cfg(test)]
mod tests;
