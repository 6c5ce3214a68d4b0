//! `identify_queue`: requests the platform's advice, and lets shards identify within `max_concurrency` and the daily
//! budget. The processes of a divided bot agree on the number of shards, and reserve each identify.
//!
//! Supervised by: discord (permanent).
//! Receives: identify requests from shards.
//! Sends: the number of shards to discord.
//! A restart loses: the queue; waiting shards send their requests again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::messages::discord::DiscordMsg;
use crate::messages::identify_queue::IdentifyQueueMsg;
use crate::observation::board::Board;
use crate::runtime::handle::{Handle, Reply};
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use crate::services::own_ranges::OwnRanges;
use crate::services::running::{Exit, ExitSender};
use domain::ids::{self, Door};
use domain::restart::Backoff;
use ports::{Advice, Dice, Peers, Shard, ShardedSource, SourceError};
use telemetry::events::{GATEWAY_CLOSED, GATEWAY_IDENTIFY};

/// The interval at which each of the `max_concurrency` groups may identify (Discord: five seconds; slightly more for
/// jitter).
const IDENTIFY_EVERY: Duration = Duration::from_millis(5_250);
/// The backoff between requests for the platform's advice.
const ADVICE_AGAIN: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30) };
/// The pause before another reservation, after one without an answer.
const RESERVE_AGAIN: Duration = Duration::from_secs(1);
/// The number of remaining identifies below which each identify logs a warning.
const FEW_LEFT: u32 = 100;

/// Events from its timers and its task.
pub enum IdentifyQueueEvent {
    /// The result of the request to the platform.
    Advised(Result<Advice, SourceError>),
    /// The time to request the advice.
    Ask,
    /// The time to agree on a number of shards.
    Agree,
    /// The number of shards on which all processes agree.
    Agreed(Result<u32, String>),
    /// The rest of the pause of a bucket of identifies; zero if this shard may identify.
    Reserved(Shard, Reply<bool>, Result<Duration, String>),
    /// The time to grant identifies.
    Grant,
}

/// The behaviour and its arguments.
pub struct IdentifyQueue {
    /// The platform's door.
    pub door: Door,
    /// The platform.
    pub source: Arc<dyn ShardedSource>,
    /// The number of shards; `None` follows the advice.
    pub shards: Option<u32>,
    /// The ranges of this process, for the number into which the work is divided.
    pub ranges: OwnRanges,
    /// The other processes, if the work is divided.
    pub peers: Option<Arc<dyn Peers>>,
    /// The supervisor that starts the shards.
    pub discord: Handle<DiscordMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
    /// The board, which shows that the platform is unreachable.
    pub board: Arc<Board>,
    /// Notified if the platform rejects the bot permanently.
    pub exit: ExitSender,
}

/// The state of the queue.
#[derive(Default)]
pub struct IdentifyQueueState {
    advice: Option<Advice>,
    asked: u32,
    waiting: VecDeque<(Shard, Reply<bool>)>,
    next_free: HashMap<u32, Instant>,
    left: u32,
    refilled_at: Option<Instant>,
}

impl Actor for IdentifyQueue {
    type Msg = IdentifyQueueMsg;
    type Event = IdentifyQueueEvent;
    type State = IdentifyQueueState;

    fn start(&self, ctx: &mut ActorContext<IdentifyQueue>) -> Result<IdentifyQueueState, Crash> {
        self.ask(ctx);
        Ok(IdentifyQueueState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: IdentifyQueueMsg,
        state: &mut IdentifyQueueState,
    ) -> Result<(), Crash> {
        match message {
            IdentifyQueueMsg::Identify(shard, reply) => {
                state.waiting.push_back((shard, reply));
                self.grant(ctx, state);
            }
        }
        Ok(())
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: IdentifyQueueEvent,
        state: &mut IdentifyQueueState,
    ) -> Result<(), Crash> {
        match event {
            IdentifyQueueEvent::Ask => self.ask(ctx),
            IdentifyQueueEvent::Advised(Ok(advice)) => self.advised(ctx, state, advice),
            IdentifyQueueEvent::Advised(Err(SourceError::Refused(reason))) => {
                tracing::error!(
                    event = GATEWAY_CLOSED,
                    reason,
                    "the platform rejects the bot permanently; correct its token or its permissions"
                );
                self.exit.send_replace(Some(Exit::Refused(reason)));
            }
            IdentifyQueueEvent::Advised(Err(SourceError::Unreachable(reason))) => {
                let delay = ADVICE_AGAIN.base + ADVICE_AGAIN.delay(state.asked, self.dice.roll());
                state.asked += 1;
                self.board.unreached(self.door.as_str(), &reason);
                let ms = ids::millis(delay);
                tracing::warn!(event = GATEWAY_CLOSED, reason, again_in_ms = ms, "the platform cannot be reached");
                ctx.after(delay, IdentifyQueueEvent::Ask);
            }
            IdentifyQueueEvent::Grant => self.grant(ctx, state),
            IdentifyQueueEvent::Agree => self.agree(ctx, state),
            IdentifyQueueEvent::Agreed(Ok(total)) => self.start_shards(ctx, state, total),
            IdentifyQueueEvent::Agreed(Err(reason)) => {
                tracing::warn!(event = GATEWAY_IDENTIFY, reason, "the number of shards is not agreed on yet");
                ctx.after(RESERVE_AGAIN, IdentifyQueueEvent::Agree);
            }
            IdentifyQueueEvent::Reserved(shard, reply, rest) => self.reserved(ctx, state, (shard, reply), rest),
        }
        Ok(())
    }
}

impl IdentifyQueue {
    fn ask(&self, ctx: &mut ActorContext<IdentifyQueue>) {
        let source = Arc::clone(&self.source);
        ctx.task(async move { IdentifyQueueEvent::Advised(source.advice().await) }, |panic| {
            IdentifyQueueEvent::Advised(Err(SourceError::Unreachable(panic)))
        });
    }

    fn advised(&self, ctx: &mut ActorContext<IdentifyQueue>, state: &mut IdentifyQueueState, advice: Advice) {
        state.asked = 0;
        state.left = advice.remaining;
        state.refilled_at = Some(Instant::now() + advice.reset_after);
        state.advice = Some(advice);
        self.agree(ctx, state);
    }

    /// Starts the shards once their number is certain.
    fn agree(&self, ctx: &mut ActorContext<IdentifyQueue>, state: &mut IdentifyQueueState) {
        let Some(advice) = state.advice else { return };
        let total = self.ranges.now().whole_shards(self.shards.unwrap_or(advice.shards));
        let Some(peers) = self.peers.clone() else { return self.start_shards(ctx, state, total) };
        ctx.task(async move { IdentifyQueueEvent::Agreed(peers.agree_on_shards(total).await) }, |panic| {
            IdentifyQueueEvent::Agreed(Err(panic))
        });
    }

    fn start_shards(&self, ctx: &mut ActorContext<IdentifyQueue>, state: &mut IdentifyQueueState, total: u32) {
        // If the discord actor is down, this queue stops with it; its mailbox has room for one message of each life.
        self.discord.tell(DiscordMsg::StartShards(total));
        self.grant(ctx, state);
    }

    /// Grants all permitted identifies, and schedules the next one.
    fn grant(&self, ctx: &mut ActorContext<IdentifyQueue>, state: &mut IdentifyQueueState) {
        let Some(advice) = state.advice else { return };
        let now = Instant::now();
        if state.refilled_at.is_some_and(|at| at <= now) {
            state.refilled_at = None;
            state.left = 1000.max(advice.remaining);
        }
        let mut soonest: Option<Instant> = None;
        for (shard, reply) in std::mem::take(&mut state.waiting) {
            if reply.is_closed() {
                continue;
            }
            let group = state.group(shard);
            let free = state.next_free.get(&group).copied().unwrap_or(now);
            let free = if state.left == 0 { state.refilled_at.unwrap_or(free).max(free) } else { free };
            if free > now {
                soonest = Some(soonest.map_or(free, |at| at.min(free)));
                state.waiting.push_back((shard, reply));
                continue;
            }
            state.next_free.insert(group, now + IDENTIFY_EVERY);
            match self.peers.clone() {
                None => state.begin(reply),
                Some(peers) => {
                    let reserve = async move { peers.reserve_identify(group, IDENTIFY_EVERY).await };
                    // A shard whose request is lost by a panic sends a new one.
                    ctx.task(async move { IdentifyQueueEvent::Reserved(shard, reply, reserve.await) }, |_| {
                        IdentifyQueueEvent::Grant
                    });
                }
            }
        }
        if let Some(at) = soonest {
            ctx.after(at - now, IdentifyQueueEvent::Grant);
        }
    }

    /// Lets a shard identify, or lets it wait until no other process may have identified in its bucket.
    fn reserved(
        &self,
        ctx: &mut ActorContext<IdentifyQueue>,
        state: &mut IdentifyQueueState,
        (shard, reply): (Shard, Reply<bool>),
        rest: Result<Duration, String>,
    ) {
        let pause = match rest {
            Ok(Duration::ZERO) => return state.begin(reply),
            Ok(rest) => rest,
            Err(reason) => {
                tracing::warn!(event = GATEWAY_IDENTIFY, reason, "the identify is not reserved; it is tried again");
                RESERVE_AGAIN
            }
        };
        state.next_free.insert(state.group(shard), Instant::now() + pause);
        state.waiting.push_front((shard, reply));
        self.grant(ctx, state);
    }
}

impl IdentifyQueueState {
    /// Returns the group of a shard, of which each may identify at its own pace.
    fn group(&self, shard: Shard) -> u32 {
        shard.number % self.advice.map_or(1, |advice| advice.max_concurrency.max(1))
    }

    fn begin(&mut self, reply: Reply<bool>) {
        self.left = self.left.saturating_sub(1);
        if self.left < FEW_LEFT {
            tracing::warn!(event = GATEWAY_IDENTIFY, left = self.left, "few identifies are left for today");
        }
        // A shard that stopped waiting sends a new request.
        let _ = reply.send(true);
    }
}

#[cfg(test)]
mod tests;
