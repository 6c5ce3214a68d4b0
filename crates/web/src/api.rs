//! The HTTP service: health, readiness, metrics, the supervision tree and a dashboard. All of them are read-only.
//!
//! Health and metrics are open. Everything else requires a key, except from this machine while no keys are configured.

pub mod ops;

pub mod audit;

pub mod backup;
pub mod processes;
pub mod questions;
pub mod recorded;
pub mod usage;

mod cors;

mod dashboard;

#[cfg(feature = "playground")]
pub mod front;

mod bodies;

pub mod form;

mod grants;
pub mod links;

mod guard;

mod body_slots;

mod site;

pub mod sockets;

mod connections;

pub mod forwarding;

mod hop;

pub mod membership;

mod cuttable;

mod read_to_the_end;

mod connection_slots;

mod metrics_page;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::connection_slots::Capacity;
use self::connections::Senders;
use self::form::Refuse;
use self::forwarding::Forwarder;
use self::membership::Membership;
use self::sockets::Sockets;
use domain::proxies::{Network, Proxies};
use ports::{Keys, Listener, Vitals};
use telemetry::events::API_LISTENING;

/// The `Server` header of every response, by which this service is recognized at an address.
pub const SERVER_NAME: &str = "staffai";

/// Timeout of resolving and binding an address.
const BIND_DEADLINE: Duration = Duration::from_secs(5);

/// Socket send buffer, in bytes; the system uses twice as much memory for it.
const SEND_BUFFER: u32 = 128 * 1024;

/// The listen backlog: connections that are not accepted yet.
const WAITING_MAX: u32 = 1_024;

/// The contents of the service and their protection.
pub struct ApiOptions {
    /// The addresses, and who may use them.
    pub exposure: Exposure,
    /// The keys and their rights. With none configured, only this machine has access beyond health and metrics.
    pub keys: Arc<dyn Keys>,
    /// The state of the program.
    pub vitals: Arc<dyn Vitals>,
    /// Renders the page of metrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// The pages at `/` and at all paths that are not this service's; `None` for the dashboard.
    pub page: Option<Router>,
    /// Further routes for operators.
    pub routes: Router,
    /// Routes that authenticate their requests themselves: no key is required.
    pub signed: Router,
    /// Routes for programs. Each request has the extension [`Caller`](domain::api_key::Caller).
    pub programs: Router,
    /// Formats refusals for the client of a path.
    pub refuse: Refuse,
    /// Bounds on clients.
    pub limits: Limits,
    /// The process that serves `programs` and `signed` while this one does not, if there are several.
    pub elsewhere: Option<Elsewhere>,
}

/// The process that serves programs while this one does not.
#[derive(Clone)]
pub struct Elsewhere {
    /// Passes requests on to it.
    pub forwarder: Forwarder,
    /// True while this process serves programs itself.
    pub is_here: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The addresses, and who may use them.
#[derive(Debug, Clone, Default)]
pub struct Exposure {
    /// The address to listen at, such as `127.0.0.1:8420`; port 0 takes any free one.
    pub address: String,
    /// An additional address that serves only health and metrics, if any.
    pub health_address: Option<String>,
    /// The origins whose pages may send requests as programs do, such as `https://chat.example`.
    pub origins: Vec<String>,
    /// Reverse proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Network>,
    /// The secret of the processes that may pass requests of their clients on to this one, if any may.
    pub membership: Option<Arc<Membership>>,
    /// The sockets of the pages that served before in this process, and those that these pages leave to the next ones.
    pub sockets: Sockets,
    /// True if another process is in front of this one. Users open its address, so this one is logged at debug level
    /// only.
    pub behind: bool,
}

/// Bounds on clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections.
    pub capacity: Capacity,
    /// Timeout of the head of a request, and of an idle connection.
    pub header: Duration,
    /// Maximum age of a connection; clients then reconnect. Upgraded connections are exempt.
    pub life: Duration,
    /// The extra time for a request that is in progress when its connection reaches that age.
    pub answer: Duration,
    /// The time that responses in progress have to finish at shutdown.
    pub grace: Duration,
    /// Maximum size of a request's body, in bytes. A page may raise this for its own routes.
    pub body: usize,
    /// Timeout of receiving a request's body.
    pub body_within: Duration,
}

impl Limits {
    /// Returns the default limits with this number of connections and this maximum time of a response.
    #[must_use]
    pub fn of(connections: usize, answer: Duration) -> Self {
        let capacity = Capacity { connections, per_peer: connections / 2, reserved: 32 };
        Self { capacity, answer, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            capacity: Capacity { connections: 256, per_peer: 128, reserved: 32 },
            header: Duration::from_secs(15),
            life: Duration::from_secs(600),
            answer: Duration::from_secs(600),
            grace: Duration::from_secs(3),
            body: 64 * 1024,
            body_within: Duration::from_secs(20),
        }
    }
}

/// The HTTP listener.
pub struct Api {
    limits: Limits,
    whole: Site,
    health: Option<Site>,
}

/// Serves the same as [`Api`] at an additional address.
struct Beside {
    limits: Limits,
    site: Site,
}

#[async_trait]
impl Listener for Beside {
    async fn serve(&self, stop: CancellationToken) -> Result<(), String> {
        let listener = self.site.bind().await?;
        self.site.serve(listener, self.limits, &stop).await;
        Ok(())
    }
}

/// One address and its routes.
struct Site {
    address: String,
    /// The name of its setting.
    setting: &'static str,
    router: Router,
    bound: watch::Sender<Option<SocketAddr>>,
    /// The address of the first bind. A restart uses the same one, also if it was a free port, so that clients find it
    /// again.
    first: OnceLock<SocketAddr>,
    /// See [`Exposure::behind`].
    behind: bool,
    senders: Senders,
    /// See [`Exposure::sockets`].
    sockets: Sockets,
    /// True if the socket is left to the next pages.
    is_left: bool,
}

impl Api {
    /// Creates the listener; nothing is bound yet.
    #[must_use]
    pub fn new(options: ApiOptions) -> Self {
        let (exposure, limits) = (options.exposure.clone(), options.limits);
        let health = Site::health(&exposure, || ops::health_router(&options, None));
        Self { limits, whole: Site::whole(&exposure, ops::router(options)), health }
    }

    /// Creates a listener that serves health and metrics alone, at the same addresses. All other requests are passed on
    /// by the forwarder; without one, their paths are unavailable for this reason.
    #[must_use]
    pub fn health_alone(options: &ApiOptions, why: &'static str, forwarder: Option<Forwarder>) -> Self {
        let router = ops::health_router(options, Some(why));
        let health = Site::health(&options.exposure, || router.clone());
        // The layers of this process do not apply to responses of the other one.
        let whole = forwarder
            .map_or(router, |forwarder| ops::health_router(options, None).fallback_service(forwarder.router()));
        let leaving = |site| Site { is_left: true, ..site };
        let whole = leaving(Site::whole(&options.exposure, whole));
        Self { limits: options.limits, whole, health: health.map(leaving) }
    }

    /// Returns a listener with the same routes at an additional address.
    #[must_use]
    pub fn at(&self, address: &SocketAddr) -> Arc<dyn Listener> {
        let Site { senders, sockets, is_left, router, .. } = &self.whole;
        let site = Site::new(address.to_string(), "http.listeners", router.clone());
        let site = Site { senders: senders.clone(), sockets: sockets.clone(), is_left: *is_left, ..site };
        Arc::new(Beside { limits: self.limits, site })
    }

    /// Returns the bound address, once it is bound.
    #[must_use]
    pub fn bound(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.whole.bound.subscribe()
    }

    /// Returns the bound address for health and metrics alone; `None` if that is not configured.
    #[cfg(test)]
    pub fn health_bound(&self) -> Option<watch::Receiver<Option<SocketAddr>>> {
        self.health.as_ref().map(|site| site.bound.subscribe())
    }
}

#[async_trait]
impl Listener for Api {
    async fn serve(&self, stop: CancellationToken) -> Result<(), String> {
        let whole = self.whole.bind().await?;
        let health = match &self.health {
            Some(site) => Some((site, site.bind().await?)),
            None => None,
        };
        let health = async {
            if let Some((site, listener)) = health {
                site.serve(listener, self.limits, &stop).await;
            }
        };
        tokio::join!(self.whole.serve(whole, self.limits, &stop), health);
        Ok(())
    }
}

impl Site {
    /// Returns the main address of the service.
    fn whole(exposure: &Exposure, router: Router) -> Self {
        let proxies = Arc::new(Proxies::new(exposure.trusted_proxies.clone()));
        let senders = Senders { proxies, membership: exposure.membership.clone() };
        let site = Self::new(exposure.address.clone(), "STAFFAI_HTTP_ADDR", router);
        Self { behind: exposure.behind, senders, sockets: exposure.sockets.clone(), ..site }
    }

    /// Returns the additional address for health and metrics, if one is configured.
    fn health(exposure: &Exposure, router: impl FnOnce() -> Router) -> Option<Self> {
        let address = exposure.health_address.clone();
        let site = address.map(|address| Self::new(address, "STAFFAI_HEALTH_ADDR", router()))?;
        Some(Self { sockets: exposure.sockets.clone(), ..site })
    }

    fn new(address: String, setting: &'static str, router: Router) -> Self {
        let (bound, first, senders) = (watch::Sender::new(None), OnceLock::new(), Senders::default());
        let (sockets, behind, is_left) = (Sockets::default(), false, false);
        Self { address, setting, router, bound, first, behind, senders, sockets, is_left }
    }

    async fn bind(&self) -> Result<TcpListener, String> {
        if let Some(left) = self.sockets.take(&self.address) {
            return Ok(left);
        }
        let Self { setting, .. } = self;
        let address = self.first.get().map_or_else(|| self.address.clone(), ToString::to_string);
        match tokio::time::timeout(BIND_DEADLINE, listen(&address)).await {
            Ok(Ok(listener)) => Ok(listener),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::AddrInUse => Err(format!(
                "cannot listen on {address}: the port is in use; stop the other program, or set {setting} to a free address"
            )),
            Ok(Err(error)) => Err(format!("cannot listen on {address}: {error}; check {setting}")),
            Err(_) => Err(format!("cannot listen on {address}: it took too long; check {setting}")),
        }
    }

    async fn serve(&self, listener: TcpListener, limits: Limits, stop: &CancellationToken) {
        if let Ok(bound) = listener.local_addr() {
            if self.behind {
                // Operators open the address of the process in front.
                tracing::debug!(event = API_LISTENING, address = %bound, "listening for the process in front");
            } else {
                tracing::info!(event = API_LISTENING, address = %bound, "listening on http://{bound}/");
            }
            self.bound.send_replace(Some(*self.first.get_or_init(|| bound)));
        }
        let closed = |socket| {
            if self.is_left {
                self.sockets.leave(&self.address, socket);
            }
        };
        connections::serve(listener, &self.router, limits, &self.senders, stop, closed).await;
        self.bound.send_replace(None);
    }
}

/// Binds a listener with a bounded send buffer: by default the system buffers several megabytes for each client that
/// does not read.
async fn listen(address: &str) -> std::io::Result<TcpListener> {
    let found = tokio::net::lookup_host(address).await?.next();
    let address = found.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The port can be bound again as soon as its listener is gone.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

#[cfg(test)]
mod tests;
