//! providers: listens for processes that provide tools.
//!
//! Supervised by: tools (permanent). It is there where an address to listen at is configured.
//! Receives: the end of its connection, its timer, who was announced.
//! Sends: who provides tools to `tools`.
//! A restart loses: the connection; providers are asked anew and keep their tools meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::handle::Handle;
use super::messages::tools::ToolsMsg;
use super::supervisor::{Actor, ActorContext, Crash};
use crate::domain::ids;
use crate::domain::restart::Backoff;
use crate::ports::tools::ServerEntry;
use crate::ports::{AnnouncedSink, Dice, ToolProviders};

/// Waits before a connection is begun again.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) };
/// How long a connection must last for the wait to start over.
const LASTED: Duration = Duration::from_secs(10);

/// What its connection and its timer tell it.
pub enum ProvidersEvent {
    /// Time to connect.
    Listen,
    /// These provide tools, and no others.
    Announced(Vec<ServerEntry>),
    /// The connection ended, or there was none.
    Ended(String),
}

/// The behaviour and its arguments.
pub struct Providers {
    /// Where they are heard.
    pub providers: Arc<dyn ToolProviders>,
    /// Who starts an actor for each.
    pub tools: Handle<ToolsMsg>,
    /// Jitter.
    pub dice: Arc<dyn Dice>,
}

/// What the listener holds.
pub struct ProvidersState {
    since: Instant,
    /// Connections in a row that did not last.
    failures: u32,
}

impl Actor for Providers {
    type Msg = Infallible;
    type Event = ProvidersEvent;
    type State = ProvidersState;

    fn start(&self, ctx: &mut ActorContext<Providers>) -> Result<ProvidersState, Crash> {
        self.listen(ctx);
        Ok(ProvidersState { since: Instant::now(), failures: 0 })
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
                state.since = Instant::now();
                self.listen(ctx);
            }
            ProvidersEvent::Announced(entries) => {
                // Its supervisor is there: it would end with it.
                let _ = self.tools.cast(ToolsMsg::Provided(entries));
            }
            ProvidersEvent::Ended(reason) => {
                state.failures = if state.since.elapsed() >= LASTED { 1 } else { state.failures.saturating_add(1) };
                let wait = RECONNECT.delay(state.failures, self.dice.roll());
                let again_in_ms = ids::millis(wait);
                tracing::warn!(
                    event = "providers.lost",
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
        let (providers, events) = (Arc::clone(&self.providers), ctx.events());
        let announced: AnnouncedSink = Arc::new(move |entries| {
            // An actor that ended has no use for it.
            let _ = events.send(ProvidersEvent::Announced(entries));
        });
        ctx.task(async move { ProvidersEvent::Ended(providers.listen(announced).await) }, |panic| {
            ProvidersEvent::Ended(format!("its task panicked: {panic}"))
        });
    }
}
