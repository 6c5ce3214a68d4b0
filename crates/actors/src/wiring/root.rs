//! The root of the tree: it supervises, and runs the actors of the first range while this process has that range.

use std::convert::Infallible;

use crate::messages::root::RootMsg;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash};
use crate::services::own_ranges::OwnRanges;

/// The root.
pub(super) struct Root {
    /// The ranges of this process.
    pub ranges: OwnRanges,
    /// The children that run only in the process with the first range.
    pub first: Vec<ChildSpec>,
}

impl Actor for Root {
    type Msg = RootMsg;
    type Event = Infallible;
    type State = ();

    fn start(&self, _ctx: &mut ActorContext<Self>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, ctx: &mut ActorContext<Self>, message: RootMsg, (): &mut ()) -> Result<(), Crash> {
        let RootMsg::Follow(reply) = message;
        if self.ranges.now().is_first() {
            for spec in &self.first {
                ctx.start_child(spec.clone()).await?;
            }
        } else {
            for spec in self.first.iter().rev() {
                ctx.stop_child(spec.path()).await;
            }
        }
        // The caller may have stopped waiting.
        let _ = reply.send(());
        Ok(())
    }

    async fn event(&self, _ctx: &mut ActorContext<Self>, event: Infallible, (): &mut ()) -> Result<(), Crash> {
        match event {}
    }
}
