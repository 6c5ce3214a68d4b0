//! `identify_queue`: requests the platform's advice, and lets shards identify within `max_concurrency` and the daily
//! budget.
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
use crate::services::running::{Exit, ExitSender};
use domain::ids::{self, Door};
use domain::restart::Backoff;
use ports::{Advice, Dice, Shard, ShardedSource, SourceError};
use telemetry::events::{GATEWAY_CLOSED, GATEWAY_IDENTIFY};

/// The interval at which each of the `max_concurrency` groups may identify (Discord: five seconds; slightly more for
/// jitter).
const IDENTIFY_EVERY: Duration = Duration::from_millis(5_250);
/// The backoff between requests for the platform's advice.
const ADVICE_AGAIN: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30) };
/// The number of remaining identifies below which each identify logs a warning.
const FEW_LEFT: u32 = 100;

/// Events from its timers and its task.
pub enum IdentifyQueueEvent {
    /// The result of the request to the platform.
    Advised(Result<Advice, SourceError>),
    /// The time to request the advice.
    Ask,
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
                state.grant(ctx);
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
            IdentifyQueueEvent::Grant => state.grant(ctx),
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
        let total = self.shards.unwrap_or(advice.shards);
        // If the discord actor is down, this queue stops with it; its mailbox has room for one message of each life.
        self.discord.tell(DiscordMsg::StartShards(total));
        state.grant(ctx);
    }
}

impl IdentifyQueueState {
    /// Grants all permitted identifies, and schedules the next one.
    fn grant(&mut self, ctx: &mut ActorContext<IdentifyQueue>) {
        let Some(advice) = self.advice else { return };
        let now = Instant::now();
        if self.refilled_at.is_some_and(|at| at <= now) {
            self.refilled_at = None;
            self.left = 1000.max(advice.remaining);
        }
        let mut soonest: Option<Instant> = None;
        for (shard, reply) in std::mem::take(&mut self.waiting) {
            if reply.is_closed() {
                continue;
            }
            let group = shard.number % advice.max_concurrency.max(1);
            let free = self.next_free.get(&group).copied().unwrap_or(now);
            let free = if self.left == 0 { self.refilled_at.unwrap_or(free).max(free) } else { free };
            if free > now {
                soonest = Some(soonest.map_or(free, |at| at.min(free)));
                self.waiting.push_back((shard, reply));
                continue;
            }
            self.next_free.insert(group, now + IDENTIFY_EVERY);
            self.left = self.left.saturating_sub(1);
            if self.left < FEW_LEFT {
                tracing::warn!(event = GATEWAY_IDENTIFY, left = self.left, "few identifies are left for today");
            }
            // A shard that stopped waiting sends a new request.
            let _ = reply.send(true);
        }
        if let Some(at) = soonest {
            ctx.after(at - now, IdentifyQueueEvent::Grant);
        }
    }
}

#[cfg(test)]
mod tests;
