//! providers: listens for processes that provide tools.
//!
//! Supervised by: tools (permanent). It exists only if a listen address is configured.
//! Receives: the end of its connection, its timer, announcements.
//! Sends: the providers of tools to `tools`.
//! A restart loses: the connection; providers are queried again and keep their tools meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::messages::tools::ToolsMsg;
use crate::runtime::handle::Handle;
use crate::runtime::reconnect::Reconnect;
use crate::runtime::supervisor::{Actor, ActorContext, Crash};
use domain::ids;
use domain::restart::Backoff;
use ports::tools::ServerEntry;
use ports::{AnnouncedSink, Dice, ToolProviders};
use telemetry::events::PROVIDERS_LOST;

/// The backoff of reconnection attempts. A single address on the operator's own network may be tried often.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(3) };

/// Events from its connection and its timer.
pub enum ProvidersEvent {
    /// The time to connect.
    Listen,
    /// The complete list of processes that provide tools.
    Announced(Vec<ServerEntry>),
    /// The connection ended or failed.
    Ended(String),
}

/// The behaviour and its arguments.
pub struct Providers {
    /// The source of announcements.
    pub source: Arc<dyn ToolProviders>,
    /// The supervisor that starts an actor for each provider.
    pub tools: Handle<ToolsMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
}

/// The state of the listener.
pub struct ProvidersState(Reconnect);

impl Actor for Providers {
    type Msg = Infallible;
    type Event = ProvidersEvent;
    type State = ProvidersState;

    fn start(&self, ctx: &mut ActorContext<Providers>) -> Result<ProvidersState, Crash> {
        self.listen(ctx);
        Ok(ProvidersState(Reconnect::begun()))
    }

    async fn handle(
        &self,
        _ctx: &mut ActorContext<Self>,
        message: Infallible,
        _state: &mut ProvidersState,
    ) -> Result<(), Crash> {
        match message {}
    }

    async fn event(
        &self,
        ctx: &mut ActorContext<Self>,
        event: ProvidersEvent,
        state: &mut ProvidersState,
    ) -> Result<(), Crash> {
        match event {
            ProvidersEvent::Listen => {
                state.0.again();
                self.listen(ctx);
            }
            ProvidersEvent::Announced(entries) => {
                // Its supervisor is running, since this actor would end with it. If it refuses this, the next
                // announcement repeats it.
                self.tools.tell(ToolsMsg::Provided(entries));
            }
            ProvidersEvent::Ended(reason) => {
                let wait = state.0.pause(&RECONNECT, self.dice.roll());
                let again_in_ms = ids::millis(wait);
                tracing::warn!(
                    event = PROVIDERS_LOST,
                    reason,
                    again_in_ms,
                    "no processes that provide tools can be heard; check STAFFAI_NATS_URL"
                );
                ctx.after(wait, ProvidersEvent::Listen);
            }
        }
        Ok(())
    }
}

impl Providers {
    fn listen(&self, ctx: &mut ActorContext<Providers>) {
        let (providers, events) = (Arc::clone(&self.source), ctx.events());
        let announced: AnnouncedSink = Arc::new(move |entries| {
            // An actor that ended ignores this event.
            events.tell(ProvidersEvent::Announced(entries));
        });
        ctx.task(async move { ProvidersEvent::Ended(providers.listen(announced).await) }, |panic| {
            ProvidersEvent::Ended(format!("its task panicked: {panic}"))
        });
    }
}
