//! The pages of a process that stands by.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use parking_lot::Mutex;

use actors::services::in_force::InForce;
use actors::services::running::Live;
use actors::tree::ROOT;
use ports::vitals::{Configuration, Readiness, Status, TreeNode, Turns};
use ports::{Clock, Vitals};
use web::api::form::Refuse;
use web::api::{Api, ApiOptions, Exposure, Limits};

/// The inputs of these pages.
pub(in crate::app) struct StandbyParts {
    /// The configuration in force.
    pub live: Live,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Returns the page of metrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// The addresses of the pages.
    pub exposure: Exposure,
    /// Formats refusals.
    pub refuse: Refuse,
    /// Bounds on clients.
    pub limits: Limits,
}

/// Returns the pages of a process that stands by: health, readiness and metrics. Every other path is unavailable.
pub(super) fn pages(parts: StandbyParts, vitals: Arc<StandbyVitals>) -> Api {
    let StandbyParts { live, clock, metrics, exposure, refuse, limits } = parts;
    let unavailable = move || async move { refuse("/", StatusCode::SERVICE_UNAVAILABLE, "this process stands by") };
    Api::new(ApiOptions {
        exposure,
        keys: Arc::new(InForce { live, clock }),
        vitals,
        metrics,
        page: Some(Router::new().fallback(unavailable)),
        routes: Router::new(),
        signed: Router::new(),
        programs: Router::new(),
        refuse,
        limits,
    })
}

/// The state of a process that stands by.
pub(super) struct StandbyVitals {
    /// The process that holds the lease.
    holder: Mutex<String>,
    live: Live,
}

impl StandbyVitals {
    /// Creates the state. `holder` is the process that holds the lease.
    pub(super) fn new(holder: String, live: Live) -> Self {
        Self { holder: Mutex::new(holder), live }
    }

    /// Records the process that holds the lease now.
    pub(super) fn held_by(&self, holder: String) {
        *self.holder.lock() = holder;
    }
}

impl Vitals for StandbyVitals {
    fn alive(&self) -> bool {
        true
    }

    fn readiness(&self) -> Readiness {
        Readiness {
            status: Status::Standby,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: Configuration { version: self.live.now().version.clone(), rejected: self.live.rejected() },
            parts: Vec::new(),
            actors: Vec::new(),
            notes: vec![format!("{} holds the lease; this process takes over when it is free", self.holder.lock())],
        }
    }

    fn tree(&self, _of_a_kind: usize) -> TreeNode {
        let name = ROOT.to_owned();
        TreeNode { path: name.clone(), name, state: "standby".to_owned(), ..TreeNode::default() }
    }

    fn turns(&self) -> Turns {
        Turns::default()
    }
}
