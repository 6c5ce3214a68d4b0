//! The intake for request-response doors: the same gateway, with a receipt that answers the caller.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::messages::gateway::GatewayMsg;
use crate::messages::receipt::{Outcome, Receipt};
use crate::runtime::handle::Handle;
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::Person;
use domain::incoming::Incoming;
use ports::{Intake, NotAccepted};

/// The maximum time a caller waits for durable acceptance of its event.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

/// The maximum time a caller waits for the record of a decision.
const DECIDED_WITHIN: Duration = Duration::from_secs(15);

/// Passes events to the gateway.
pub struct GatewayIntake {
    /// The gateway, which accepts events.
    pub gateway: Handle<GatewayMsg>,
}

#[async_trait]
impl Intake for GatewayIntake {
    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted> {
        let (told, outcome) = oneshot::channel();
        let receipt = Receipt::awaited(move |outcome| {
            // The caller may have stopped waiting.
            let _ = told.send(outcome);
        });
        self.gateway.cast(GatewayMsg::Received(Box::new(incoming), us, receipt)).map_err(|_| NotAccepted)?;
        match tokio::time::timeout(ACCEPT_WITHIN, outcome).await {
            Ok(Ok(Outcome::Settled)) => Ok(()),
            Ok(Ok(Outcome::Returned) | Err(_)) | Err(_) => Err(NotAccepted),
        }
    }

    async fn decide(&self, click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        let ask = |reply| GatewayMsg::Decide(Box::new(click), reply);
        self.gateway.call(ask, DECIDED_WITHIN).await.unwrap_or(Err(ClickRefusal::NotRecorded))
    }
}
