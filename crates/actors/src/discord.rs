//! discord: supervises the identify queue and starts the configured or recommended number of shards, or those of its
//! range.
//!
//! Supervised by: staffai (permanent).
//! Receives: the number of shards from the identify queue.
//! Sends: nothing.
//! A restart loses: its children; the new identify queue asks the platform again and the shards resume their stored sessions.

use crate::messages::discord::DiscordMsg;
use crate::runtime::handle::Handle;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::shard::{ShardActor, ShardParts};
use crate::tree::{Scope, TreeRow};
use domain::ownership::Portion;
use ports::Shard;
use std::convert::Infallible;

/// The behaviour and its arguments.
pub struct Discord {
    /// The supervision row of shards.
    pub template: &'static TreeRow,
    /// The dependencies of a shard.
    pub parts: ShardParts,
    /// The portion of the shards that this process connects.
    pub portion: Portion,
}

impl Actor for Discord {
    type Msg = DiscordMsg;
    type Event = Infallible;
    type State = ();

    fn start(&self, _me: &mut ActorContext<Discord>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, ctx: &mut ActorContext<Self>, message: DiscordMsg, (): &mut ()) -> Result<(), Crash> {
        match message {
            DiscordMsg::StartShards(total) => {
                for number in (0..total).filter(|number| self.portion.has_shard(*number)) {
                    let handle = Handle::new(self.template, ctx.path(), Scope::Number(number));
                    let actor = ShardActor { shard: Shard { number, total }, parts: self.parts.clone() };
                    ctx.start_child(ChildSpec::new(self.template, &handle, actor, Vec::new())).await?;
                }
            }
        }
        Ok(())
    }

    async fn event(&self, _ctx: &mut ActorContext<Self>, event: Infallible, (): &mut ()) -> Result<(), Crash> {
        match event {}
    }
}
