//! listener: maintains one further address that serves the same as the first one.
//!
//! Supervised by: staffai (permanent).
//! Receives: the end of its listener, its timer.
//! Sends: nothing.
//! A restart loses: the connections at its address; it binds again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use ports::Listener;
use telemetry::events::LISTENER_UNREACHABLE;

/// The delay before a listener that ended is restarted.
pub(super) const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Events from its timer and its listener.
pub enum ListeningEvent {
    /// The time to listen.
    Listen,
    /// The listener ended.
    Ended(Result<(), String>),
}

/// The behaviour and its arguments.
pub struct Listening {
    /// Serves at the address.
    pub listener: Arc<dyn Listener>,
}

/// A guard that ends the listener together with its actor.
pub struct Serving {
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Serving {
    /// Creates the guard; nothing is served yet.
    pub(super) fn new() -> Self {
        let stop = CancellationToken::new();
        Self { _stop_on_drop: stop.clone().drop_guard(), stop }
    }

    /// Serves in a task; its end is an event of the actor.
    pub(super) fn begin<A: Actor>(
        &self,
        ctx: &mut ActorContext<A>,
        listener: &Arc<dyn Listener>,
        ended: fn(Result<(), String>) -> A::Event,
    ) {
        let (listener, stop) = (Arc::clone(listener), self.stop.clone());
        ctx.task(async move { ended(listener.serve(stop).await) }, move |panic| ended(Err(panic)));
    }
}

impl Actor for Listening {
    type Msg = Infallible;
    type Event = ListeningEvent;
    type State = Serving;

    fn start(&self, ctx: &mut ActorContext<Listening>) -> Result<Serving, Crash> {
        let serving = Serving::new();
        serving.begin(ctx, &self.listener, ListeningEvent::Ended);
        Ok(serving)
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _serving: &mut Serving,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ListeningEvent,
        serving: &mut Serving,
    ) -> Result<(), Crash> {
        match event {
            ListeningEvent::Listen => serving.begin(ctx, &self.listener, ListeningEvent::Ended),
            ListeningEvent::Ended(Ok(())) => {}
            ListeningEvent::Ended(Err(reason)) => {
                tracing::error!(event = LISTENER_UNREACHABLE, reason, "a further address is not served; trying again");
                ctx.after(LISTEN_AGAIN, ListeningEvent::Listen);
            }
        }
        Ok(())
    }
}
