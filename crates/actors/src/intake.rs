//! The way in for doors that are asked: the same gateway, with a receipt that answers the asker.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::messages::gateway::GatewayMsg;
use crate::messages::receipt::{Outcome, Receipt};
use crate::runtime::handle::Handle;
use domain::gate::{Click, Decision, Refusal};
use domain::ids::Person;
use domain::incoming::Incoming;
use ports::{Intake, NotAccepted};

/// How long an asker waits until the event is durably taken.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

/// How long an asker waits until a decision is on record.
const DECIDED_WITHIN: Duration = Duration::from_secs(15);

/// Hands events to the gateway.
pub struct GatewayIntake {
    /// Who takes events.
    pub gateway: Handle<GatewayMsg>,
}

#[async_trait]
impl Intake for GatewayIntake {
    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted> {
        let (told, outcome) = oneshot::channel();
        let receipt = Receipt::awaited(move |outcome| {
            // An asker that stopped waiting is told nothing.
            let _ = told.send(outcome);
        });
        self.gateway.cast(GatewayMsg::Received(Box::new(incoming), us, receipt)).map_err(|_| NotAccepted)?;
        match tokio::time::timeout(ACCEPT_WITHIN, outcome).await {
            Ok(Ok(Outcome::Settled)) => Ok(()),
            Ok(Ok(Outcome::Returned) | Err(_)) | Err(_) => Err(NotAccepted),
        }
    }

    async fn decide(&self, click: Click) -> Result<Decision, Refusal> {
        let ask = |reply| GatewayMsg::Decide(Box::new(click), reply);
        self.gateway.call(ask, DECIDED_WITHIN).await.unwrap_or(Err(Refusal::NotRecorded))
    }
}
