//! The open gates, for the pages of operators.

use std::time::Duration;

use async_trait::async_trait;

use crate::messages::approvals::ApprovalsMsg;
use crate::runtime::handle::Handle;
use domain::gate::overview::GatesOverview;
use ports::OpenGates;

/// The timeout of a request to approvals.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the actor that holds the open gates.
pub struct PendingGates {
    /// The actor.
    pub approvals: Handle<ApprovalsMsg>,
}

#[async_trait]
impl OpenGates for PendingGates {
    async fn open(&self) -> Option<GatesOverview> {
        self.approvals.call(ApprovalsMsg::Overview, ANSWER_TIMEOUT).await.ok()
    }
}
