//! The pages: health, readiness, metrics, the tree, and a dashboard. They show what is known and change nothing.
//!
//! Health and metrics are open. All else needs a key, unless it is asked for on this machine itself.

pub mod ops;

pub mod audit;

pub mod backup;
pub mod usage;

mod cors;

mod dashboard;

#[cfg(feature = "playground")]
pub mod front;

mod bodies;

pub mod form;

mod grants;

mod guard;

mod rooms;

mod site;

mod connections;

mod cuttable;

mod places;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::form::Refuse;
pub use self::places::Capacity;
use domain::proxies::{Network, Proxies};
use ports::{Keys, Listener, Vitals};

/// The `Server` header of every answer: it tells this service from another one at the same address.
pub const SERVER_NAME: &str = "staffai";

/// How long the address may take to be looked up and bound.
const BIND_DEADLINE: Duration = Duration::from_secs(5);

/// Bytes that the system keeps of what a client has not taken yet; it takes twice as much memory for them.
const SEND_BUFFER: u32 = 128 * 1024;

/// Connections that wait until they are taken.
const WAITING_MAX: u32 = 1_024;

/// What the pages show, and to whom.
pub struct ApiOptions {
    /// Where the pages are, and for whom.
    pub exposure: Exposure,
    /// Keys that open what they have rights for from anywhere; without any, only this machine sees more than health and metrics.
    pub keys: Arc<dyn Keys>,
    /// What is known of the program.
    pub vitals: Arc<dyn Vitals>,
    /// The page of metrics, made anew each time.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Pages for `/` and everything below that is not ours; none shows the dashboard.
    pub page: Option<Router>,
    /// Further routes for those who operate the program.
    pub routes: Router,
    /// Routes whose requests prove themselves: no key is asked for.
    pub signed: Router,
    /// Routes for programs that ask. Who asks is the extension [`Caller`](domain::api_key::Caller) of each request.
    pub programs: Router,
    /// How whoever asks is told that a request was refused.
    pub refuse: Refuse,
    /// Bounds on what clients may send.
    pub limits: Limits,
}

/// Where the pages are, and for whom.
#[derive(Debug, Clone, Default)]
pub struct Exposure {
    /// Where to listen, such as `127.0.0.1:8420`; port 0 takes any free one.
    pub address: String,
    /// Where to listen for health and metrics alone, beside `address`, which answers them too; none for no such listener.
    pub health_address: Option<String>,
    /// The sites whose pages may ask as programs do, such as `https://chat.example`.
    pub origins: Vec<String>,
    /// Reverse proxies that are trusted to say for whom they ask.
    pub trusted_proxies: Vec<Network>,
    /// Another process is in front of this one: its address is the one to open, so this one is logged for debugging only.
    pub behind: bool,
}

/// Bounds on what clients may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many connections there may be.
    pub capacity: Capacity,
    /// How long a client may take to send the head of a request, and how long it may idle between two.
    pub header: Duration,
    /// How long one connection may live; a client then connects again. Upgraded ones are not bound by it.
    pub life: Duration,
    /// How long a request that is under way when its connection has lived so long may go on.
    pub answer: Duration,
    /// How long answers that have begun may go on after the stop.
    pub grace: Duration,
    /// Bytes of a request's body. A page of its own may raise this for its own routes.
    pub body: usize,
    /// How long the body of a request may take to arrive.
    pub body_within: Duration,
}

impl Limits {
    /// The usual ones, with so many connections, and answers that take at most so long.
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

/// Listens for HTTP.
pub struct Api {
    limits: Limits,
    whole: Site,
    health: Option<Site>,
}

/// Serves the same as [`Api`] at a further address.
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

/// One address and what is served there.
struct Site {
    address: String,
    /// The setting of the address.
    setting: &'static str,
    router: Router,
    bound: watch::Sender<Option<SocketAddr>>,
    /// Where it listened first: whoever found it there, also at a free port, finds it there again.
    first: OnceLock<SocketAddr>,
    /// See [`Exposure::behind`].
    behind: bool,
    /// See [`Exposure::trusted_proxies`].
    proxies: Arc<Proxies>,
}

impl Api {
    /// Ready to listen; nothing is bound yet.
    #[must_use]
    pub fn new(options: ApiOptions) -> Self {
        let health = options.exposure.health_address.clone();
        let health = health.map(|address| Site::new(address, "STAFFAI_HEALTH_ADDR", ops::health_router(&options)));
        let (address, limits, behind) = (options.exposure.address.clone(), options.limits, options.exposure.behind);
        let proxies = Arc::new(Proxies::new(options.exposure.trusted_proxies.clone()));
        let whole = Site { behind, proxies, ..Site::new(address, "STAFFAI_HTTP_ADDR", ops::router(options)) };
        Self { limits, whole, health }
    }

    /// The same at a further address.
    #[must_use]
    pub fn at(&self, address: &SocketAddr) -> Arc<dyn Listener> {
        let proxies = Arc::clone(&self.whole.proxies);
        let site = Site { proxies, ..Site::new(address.to_string(), "http.listeners", self.whole.router.clone()) };
        Arc::new(Beside { limits: self.limits, site })
    }

    /// Where it listens, once it does.
    #[must_use]
    pub fn bound(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.whole.bound.subscribe()
    }

    /// Where it listens for health and metrics alone, once it does; none when it never will.
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
    fn new(address: String, setting: &'static str, router: Router) -> Self {
        let (bound, first, proxies) = (watch::Sender::new(None), OnceLock::new(), Arc::default());
        Self { address, setting, router, bound, first, behind: false, proxies }
    }

    async fn bind(&self) -> Result<TcpListener, String> {
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
                // A reader of the log opens the address in front.
                tracing::debug!(event = "api.listening", address = %bound, "listening for the process in front");
            } else {
                tracing::info!(event = "api.listening", address = %bound, "listening on http://{bound}/");
            }
            self.bound.send_replace(Some(*self.first.get_or_init(|| bound)));
        }
        connections::serve(listener, &self.router, limits, Arc::clone(&self.proxies), stop).await;
        self.bound.send_replace(None);
    }
}

/// Listens for connections whose clients may leave so much unread and no more: without a bound the system keeps some megabytes for
/// each that does not read.
async fn listen(address: &str) -> std::io::Result<TcpListener> {
    let found = tokio::net::lookup_host(address).await?.next();
    let address = found.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port is free again as soon as its listener is gone.
    socket.set_reuseaddr(true)?;
    // Accepted connections have what the listener has.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

#[cfg(test)]
mod tests;
