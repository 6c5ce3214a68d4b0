//! The pages of a process that stands by.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use parking_lot::Mutex;

use super::forwarding::Forwarding;
use actors::services::in_force::InForce;
use actors::services::running::Live;
use ports::vitals::{Configuration, Readiness, Status, TreeNode, Turns};
use ports::{Clock, Listener, Vitals};
use web::api::form::Refuse;
use web::api::{Api, ApiOptions, Exposure, Limits};

/// The time that the last responses have to finish, because the program itself waits for the address.
const GRACE: Duration = Duration::from_millis(250);

/// The time by which a passed request may last longer here than at the active process.
const AGE_MARGIN: Duration = Duration::from_secs(60);

/// The inputs of these pages.
#[derive(Clone)]
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
    /// Passes requests on to the active process, if that is configured.
    pub forwarding: Option<Arc<Forwarding>>,
    /// The additional addresses of the pages.
    pub listeners: Vec<SocketAddr>,
}

/// Returns the listeners of the pages: health, readiness and metrics. All other requests are passed on, also those at
/// the additional addresses; without forwarding, every other path is unavailable.
pub(super) fn pages(parts: StandbyParts, vitals: Arc<StandbyVitals>) -> Vec<Arc<dyn Listener>> {
    let StandbyParts { live, clock, metrics, exposure, refuse, limits, forwarding, listeners } = parts;
    let forwarder = forwarding.map(|forwarding| forwarding.forwarder(limits, refuse));
    // A stream that reaches its maximum age is ended by the active process, which then cancels no turn.
    let answer = if forwarder.is_some() { limits.life + limits.answer + AGE_MARGIN } else { limits.answer };
    let limits = Limits { grace: GRACE, answer, ..limits };
    let listeners = if forwarder.is_some() { listeners } else { Vec::new() };
    let options = ApiOptions {
        exposure,
        keys: Arc::new(InForce { live, clock }),
        vitals,
        metrics,
        page: None,
        routes: Router::new(),
        signed: Router::new(),
        programs: Router::new(),
        refuse,
        limits,
        elsewhere: None,
    };
    let pages = Api::health_alone(&options, "this process stands by; another one is active", forwarder);
    let mut all: Vec<_> = listeners.iter().map(|address| pages.at(address)).collect();
    all.push(Arc::new(pages));
    all
}

/// The state of a process that stands by.
pub(super) struct StandbyVitals {
    /// The reason why this process stands by, as a sentence.
    reason: Mutex<String>,
    live: Live,
}

impl StandbyVitals {
    /// Creates the state with the reason why this process stands by.
    pub(super) fn new(reason: String, live: Live) -> Self {
        Self { reason: Mutex::new(reason), live }
    }

    /// Replaces the reason.
    pub(super) fn note(&self, reason: String) {
        *self.reason.lock() = reason;
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
            range: None,
            configuration: Configuration { version: self.live.now().version.clone(), rejected: self.live.rejected() },
            parts: Vec::new(),
            actors: Vec::new(),
            notes: vec![self.reason.lock().clone()],
        }
    }

    fn tree(&self, _of_a_kind: usize) -> TreeNode {
        TreeNode::default()
    }

    fn turns(&self) -> Turns {
        Turns::default()
    }
}
