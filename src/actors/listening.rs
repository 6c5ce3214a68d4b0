//! listener: keeps one further address at which the same is served as at the first one.
//!
//! Supervised by: staffai (permanent).
//! Receives: the end of its listener, its timer.
//! Sends: nothing.
//! A restart loses: the connections at its address; it binds again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::supervisor::{Actor, ActorContext, Crash};
use crate::ports::Listener;

/// How long to wait before a listener that ended is started again.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// What its timer and its listener tell it.
pub enum ListeningEvent {
    /// Time to listen.
    Listen,
    /// The listener ended.
    Ended(Result<(), String>),
}

/// The behaviour and its arguments.
pub struct Listening {
    /// Serves at the address.
    pub listener: Arc<dyn Listener>,
}

/// Ends the listener with the life of its actor.
pub struct ListeningState {
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Actor for Listening {
    type Msg = Infallible;
    type Event = ListeningEvent;
    type State = ListeningState;

    fn start(&self, ctx: &mut ActorContext<Listening>) -> Result<ListeningState, Crash> {
        let stop = CancellationToken::new();
        let state = ListeningState { _stop_on_drop: stop.clone().drop_guard(), stop };
        self.listen(ctx, &state);
        Ok(state)
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut ListeningState,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ListeningEvent,
        state: &mut ListeningState,
    ) -> Result<(), Crash> {
        match event {
            ListeningEvent::Listen => self.listen(ctx, state),
            ListeningEvent::Ended(Ok(())) => {}
            ListeningEvent::Ended(Err(reason)) => {
                tracing::error!(
                    event = "listener.unreachable",
                    reason,
                    "a further address is not served; trying again"
                );
                ctx.after(LISTEN_AGAIN, ListeningEvent::Listen);
            }
        }
        Ok(())
    }
}

impl Listening {
    fn listen(&self, ctx: &mut ActorContext<Listening>, state: &ListeningState) {
        let (listener, stop) = (Arc::clone(&self.listener), state.stop.clone());
        ctx.task(async move { ListeningEvent::Ended(listener.serve(stop).await) }, |panic| {
            ListeningEvent::Ended(Err(panic))
        });
    }
}
