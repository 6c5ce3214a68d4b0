//! The intake for request-response doors: the same gateway, with a receipt that answers the caller.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::messages::gateway::GatewayMsg;
use crate::messages::receipt::{Claim, Outcome, Receipt};
use crate::runtime::handle::Handle;
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::Person;
use domain::incoming::Incoming;
use ports::{Intake, NotAccepted};

/// The maximum time a caller waits for durable acceptance of its event.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum further time for the record of an event that was taken before.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time a caller waits for the record of a decision.
const DECISION_TIMEOUT: Duration = Duration::from_secs(15);

/// Passes events to the gateway.
pub struct GatewayIntake {
    /// The gateway, which accepts events.
    pub gateway: Handle<GatewayMsg>,
}

#[async_trait]
impl Intake for GatewayIntake {
    async fn accept(&self, incoming: Incoming, us: Person) -> Result<(), NotAccepted> {
        let (told, mut outcome) = oneshot::channel();
        let claim = Claim::default();
        let receipt = Receipt::awaited(claim.clone(), move |outcome| {
            // The caller may have stopped waiting.
            let _ = told.send(outcome);
        });
        self.gateway.cast(GatewayMsg::Received(Box::new(incoming), us, receipt)).map_err(|_| NotAccepted)?;
        let mut waited = timeout(ACCEPT_TIMEOUT, &mut outcome).await;
        if waited.is_err() {
            if claim.take() {
                return Err(NotAccepted);
            }
            waited = timeout(RECORD_TIMEOUT, outcome).await;
        }
        match waited {
            // Without an outcome, the event was taken and only its record is late: it takes effect.
            Ok(Ok(Outcome::Settled)) | Err(_) => Ok(()),
            Ok(Ok(Outcome::Returned) | Err(_)) => Err(NotAccepted),
        }
    }

    async fn decide(&self, click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        let ask = |reply| GatewayMsg::Decide(Box::new(click), reply);
        self.gateway.call(ask, DECISION_TIMEOUT).await.unwrap_or(Err(ClickRefusal::NotRecorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Inbox, Stage, Tree, at, message, settle};
    use domain::incoming::Deletion;
    use ports::testing::us;

    async fn world() -> (GatewayIntake, Inbox<GatewayMsg>, Tree) {
        let gateway = at("gateway");
        let mut stage = Stage::new();
        let inbox = stage.probe(&gateway);
        (GatewayIntake { gateway }, inbox, stage.go().await)
    }

    async fn receipt(gateway: &mut Inbox<GatewayMsg>) -> Receipt {
        let GatewayMsg::Received(_, _, receipt) = gateway.next().await else { panic!("an event arrives") };
        receipt
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_its_caller_gave_up_has_no_effect_later() {
        let (intake, mut gateway, _tree) = world().await;
        let accepted = intake.accept(Incoming::Deleted(Deletion::of(message("10"))), us()).await;
        assert!(accepted.is_err());
        assert!(!receipt(&mut gateway).await.claim());
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_was_taken_in_time_is_accepted_also_if_its_record_is_late() {
        let (intake, mut gateway, _tree) = world().await;
        for settles in [true, false] {
            let accept = tokio::spawn({
                let intake = GatewayIntake { gateway: intake.gateway.clone() };
                async move { intake.accept(Incoming::Deleted(Deletion::of(message("10"))), us()).await }
            });
            let receipt = receipt(&mut gateway).await;
            assert!(receipt.claim());
            tokio::time::sleep(ACCEPT_TIMEOUT + Duration::from_secs(1)).await;
            settle().await;
            assert!(!accept.is_finished());
            if settles {
                receipt.settle();
                assert!(accept.await.unwrap().is_ok());
            } else {
                drop(receipt);
                assert!(accept.await.unwrap().is_err(), "it is returned");
            }
        }
    }
}
