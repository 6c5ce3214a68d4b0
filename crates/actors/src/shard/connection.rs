//! The connection of a shard: start, events, end and reconnect.

use std::time::Duration;

use tokio::time::Instant;

use super::unsettled::Arrival;
use super::{ShardActor, ShardEvent, ShardState};
use crate::messages::identify_queue::IdentifyQueueMsg;
use crate::messages::outbox::OutboxMsg;
use crate::observation::board::PartKind;
use crate::runtime::supervisor::ActorContext;
use crate::services::running::Exit;
use domain::happening::{Happening, ShardChange};
use domain::restart::Backoff;
use ports::{AfterClose, Closed, GatewaySession, IdentifyPermit, StreamEvent, Write};

/// The backoff before a reconnect, after one immediate attempt. Only a session that lasted resets it.
const RECONNECT: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30) };
/// The minimum duration of a good session: if the platform ends sessions earlier, the shard does not reconnect at once.
pub(super) const LASTED: Duration = Duration::from_secs(10);
/// The minimum delay before a new session replaces an invalid one; the platform requires 1 to 5 seconds
/// (<https://discord.com/developers/docs/events/gateway#resuming>).
const NEW_SESSION_AFTER: Duration = Duration::from_secs(1);
/// The rest of that delay, of which a random part is added.
const NEW_SESSION_SPREAD: Duration = Duration::from_secs(4);
/// The timeout for permission to identify, after which the shard starts a new connection.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(15 * 60);

impl ShardActor {
    /// Starts a connection, with the stored session if there is one.
    pub(super) fn connect(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState) {
        let session =
            state.session.as_ref().map(|session| GatewaySession { sequence: state.safe_sequence(), ..session.clone() });
        let mut stream = self.parts.source.connect(self.shard, session, self.permit(), self.parts.presence.clone());
        let events = ctx.events();
        ctx.task(
            async move {
                loop {
                    match stream.next().await {
                        StreamEvent::Closed(closed) => {
                            return ShardEvent::Happened(StreamEvent::Closed(closed));
                        }
                        event => {
                            if events.send_when_there_is_room(ShardEvent::Happened(event)).await.is_err() {
                                let closed =
                                    Closed { reason: "the shard stopped".to_owned(), next: AfterClose::Resume };
                                return ShardEvent::Happened(StreamEvent::Closed(closed));
                            }
                        }
                    }
                }
            },
            |panic| {
                let closed = Closed { reason: format!("the reader panicked: {panic}"), next: AfterClose::Resume };
                ShardEvent::Happened(StreamEvent::Closed(closed))
            },
        );
    }

    /// Reports an event of this shard.
    pub(super) fn tell(&self, change: ShardChange<'_>) {
        self.parts.observers.tell(&Happening::Shard(self.shard.number, change));
    }

    fn permit(&self) -> IdentifyPermit {
        let queue = self.parts.identify_queue.clone();
        let shard = self.shard;
        Box::new(move || {
            let queue = queue.clone();
            Box::pin(async move {
                let ask = |reply| IdentifyQueueMsg::Identify(shard, reply);
                queue.call(ask, IDENTIFY_TIMEOUT).await.unwrap_or(false)
            })
        })
    }

    /// Handles an event of the connection.
    pub(super) fn happened(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState, event: StreamEvent) {
        if matches!(event, StreamEvent::Ready(_) | StreamEvent::Resumed) {
            state.inherited = false;
        }
        match event {
            StreamEvent::Ready(session) => {
                self.tell(ShardChange::Ready { total: self.shard.total });
                state.up_since = Some(Instant::now());
                state.latest = session.sequence;
                state.session = Some(session);
                for pending in state.unsettled.values_mut() {
                    pending.sequence = None;
                }
                state.catching_up.values_mut().for_each(|told_at| *told_at = None);
                state.session_began();
                self.read_direct_back(ctx, state);
                self.parts.board.up(PartKind::Shard, &self.name());
                drop(self.save(state));
                // After the save: the watermarks up to here are those of the last session.
                state.watermarks.session_began();
            }
            StreamEvent::Resumed => {
                self.tell(ShardChange::Resumed);
                state.up_since = Some(Instant::now());
                self.parts.board.up(PartKind::Shard, &self.name());
                if !state.direct_begun {
                    // If a previous life was killed during the catch-up of direct messages, the platform does not
                    // announce them again.
                    self.read_direct_back(ctx, state);
                }
            }
            StreamEvent::Incoming { sequence, incoming } => {
                state.latest = state.latest.max(sequence);
                self.take(ctx, state, *incoming, Arrival::Live(sequence));
            }
            StreamEvent::Passed { sequence } => state.latest = state.latest.max(sequence),
            StreamEvent::Places { sequence, guild, newest } => {
                state.latest = state.latest.max(sequence);
                state.watermarks.announced(&guild, &newest);
                let under_way = state.catching_up.contains_key(&guild);
                state.catching_up.entry(guild.clone()).or_default().get_or_insert(sequence);
                if under_way {
                    state.further.insert(guild, newest);
                } else {
                    let gap = state.gap(newest);
                    state.gaps.push_back((guild, gap));
                    self.catch_up(ctx, state);
                }
            }
            StreamEvent::AccessChanged(place) => {
                // An outbox that is down has no closed places after its restart; a full one probes its closed places
                // after a while.
                self.parts.outbox.tell(OutboxMsg::AccessChanged(place));
            }
            StreamEvent::Closed(closed) => self.closed(ctx, state, &closed),
        }
    }

    fn closed(&self, ctx: &mut ActorContext<ShardActor>, state: &mut ShardState, closed: &Closed) {
        let Closed { reason, next } = closed;
        // Sessions expire after minutes: a new session after a longer break is normal.
        let outlived = *next == AfterClose::Identify && std::mem::take(&mut state.inherited);
        if !outlived {
            self.parts.board.down(PartKind::Shard, &self.name(), reason);
        }
        if *next == AfterClose::Fatal {
            self.tell(ShardChange::Refused(reason));
            self.parts.exit.send_replace(Some(Exit::Refused(reason.clone())));
            return;
        }
        let delay = self.pause(state, *next, outlived);
        if *next == AfterClose::Identify && state.session.take().is_some() {
            drop(self.parts.basics.store.write(vec![Write::Delete { key: self.session_key() }]));
            state.saved = None;
        }
        // Without a session there is nothing to resume.
        let resumes = state.session.is_some();
        self.tell(ShardChange::Closed { reason, outlived, resumes, again_in: delay });
        ctx.after(delay, ShardEvent::Connect);
    }

    /// Returns the delay before the next connection. Failures are reset after a connection that lasted, and at the end
    /// of a session that lasted: its failures are no evidence about the next one.
    fn pause(&self, state: &mut ShardState, next: AfterClose, outlived: bool) -> Duration {
        let lasted = state.up_since.take().is_some_and(|since| since.elapsed() >= LASTED);
        state.lasted |= lasted;
        let gone = next == AfterClose::Identify;
        let forgiven = lasted || (gone && state.session.is_some() && (outlived || state.lasted));
        if forgiven {
            state.failures = 0;
        }
        if gone {
            state.lasted = false;
        }
        let roll = self.parts.basics.dice.roll();
        let backoff = match state.failures {
            0 => Duration::ZERO,
            failures => RECONNECT.delay(failures, roll),
        };
        state.failures = state.failures.saturating_add(1);
        if gone { backoff.max(NEW_SESSION_AFTER + NEW_SESSION_SPREAD.mul_f64(roll)) } else { backoff }
    }
}
