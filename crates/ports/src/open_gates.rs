//! The open gates, for the pages of operators.

use async_trait::async_trait;

use domain::gate::overview::GatesOverview;

/// The decisions of people that turns wait for.
#[async_trait]
pub trait OpenGates: Send + Sync {
    /// Returns an overview; `None` if it cannot be read before the port's own deadline.
    async fn open(&self) -> Option<GatesOverview>;
}
