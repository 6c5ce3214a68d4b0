//! discord: supervises the identify queue and starts the configured or recommended number of shards, or those of its
//! ranges.
//!
//! Supervised by: staffai (permanent).
//! Receives: the number of shards from the identify queue, changes of the ranges of this process from the app.
//! Sends: nothing.
//! A restart loses: its children; the new identify queue asks the platform again and the shards resume their stored sessions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use crate::messages::discord::DiscordMsg;
use crate::observation::board::PartKind;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::services::own_ranges::OwnRanges;
use crate::shard::{ShardActor, ShardParts};
use crate::tree::{Scope, TreeRow};
use ports::Shard;

/// The behaviour and its arguments.
pub struct Discord {
    /// The supervision row of shards.
    pub template: &'static TreeRow,
    /// The dependencies of a shard.
    pub parts: ShardParts,
    /// The portions of the shards that this process connects.
    pub ranges: OwnRanges,
}

/// The state of the supervisor.
#[derive(Default)]
pub struct DiscordState {
    /// The number of shards of all processes; zero before it is known.
    total: u32,
    /// The paths of the shards of this process.
    running: BTreeMap<u32, Arc<str>>,
}

impl Actor for Discord {
    type Msg = DiscordMsg;
    type Event = Infallible;
    type State = DiscordState;

    fn start(&self, _me: &mut ActorContext<Discord>) -> Result<DiscordState, Crash> {
        Ok(DiscordState::default())
    }

    async fn handle(
        &self,
        ctx: &mut ActorContext<Self>,
        message: DiscordMsg,
        state: &mut DiscordState,
    ) -> Result<(), Crash> {
        match message {
            DiscordMsg::StartShards(total) => {
                state.total = total;
                self.follow(ctx, state).await
            }
            DiscordMsg::Follow(reply) => {
                self.follow(ctx, state).await?;
                // The caller may have stopped waiting.
                let _ = reply.send(());
                Ok(())
            }
        }
    }

    async fn event(
        &self,
        _ctx: &mut ActorContext<Self>,
        event: Infallible,
        _state: &mut DiscordState,
    ) -> Result<(), Crash> {
        match event {}
    }
}

impl Discord {
    /// Starts the shards of this process, and stops those of other processes.
    async fn follow(&self, ctx: &mut ActorContext<Discord>, state: &mut DiscordState) -> Result<(), Crash> {
        let portions = self.ranges.now();
        let gone: Vec<u32> = state.running.keys().copied().filter(|number| !portions.has_shard(*number)).collect();
        for number in gone {
            if let Some(path) = state.running.remove(&number) {
                ctx.stop_child(&path).await;
                self.parts.board.forget(PartKind::Shard, &format!("{}:{number}", self.parts.door));
            }
        }
        let total = state.total;
        for number in (0..total).filter(|number| portions.has_shard(*number)) {
            let handle = Handle::new(self.template, ctx.path(), Scope::Number(number));
            state.running.insert(number, Arc::clone(&handle.stats().path));
            let actor = ShardActor { shard: Shard { number, total }, parts: self.parts.clone() };
            ctx.start_child(ChildSpec::new(self.template, &handle, actor, Vec::new())).await?;
        }
        Ok(())
    }
}
