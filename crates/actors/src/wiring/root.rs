//! The root of the tree, which only supervises.

use std::convert::Infallible;

use crate::runtime::supervisor::{Actor, ActorContext, Crash};

/// The root.
pub(super) struct Root;

impl Actor for Root {
    type Msg = Infallible;
    type Event = Infallible;
    type State = ();

    fn start(&self, _ctx: &mut ActorContext<Self>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, _ctx: &mut ActorContext<Self>, message: Infallible, (): &mut ()) -> Result<(), Crash> {
        match message {}
    }

    async fn event(&self, _ctx: &mut ActorContext<Self>, event: Infallible, (): &mut ()) -> Result<(), Crash> {
        match event {}
    }
}
