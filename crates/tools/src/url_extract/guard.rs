//! Which addresses may be asked for a page: public ones alone, whatever way they are written, and none that a name server gives out
//! to lead us inside. What is checked is what is dialled: there is no second look-up between the two.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Refusal;
pub(super) use domain::network::is_public;

/// The longest address that is taken, in bytes.
pub(super) const ADDRESS_BYTES: usize = 2_048;
/// How long the name servers may take.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
/// The most names that are looked up at once.
const LOOKUPS_MAX: usize = 8;
/// The most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// The last parts of names that lead into networks and not to the public.
const INNER: [&str; 10] = ["localhost", "local", "internal", "lan", "intranet", "corp", "home", "arpa", "svc", "onion"];

/// Asks the name servers for the addresses of a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// What may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Ports.
    pub ports: Vec<u16>,
    /// Hosts, each with all below it; empty allows all that are public.
    pub allow: Vec<String>,
    /// Hosts that are never read, each with all below it.
    pub deny: Vec<String>,
}

impl Reach {
    /// Hosts that are allowed and never read all the same, each with the one that is denied.
    pub fn contradictions(&self) -> impl Iterator<Item = (&str, &str)> {
        let denied = |host: &&String| self.deny.iter().find(|denied| is_within(host, denied));
        self.allow.iter().filter_map(move |host| Some((host.as_str(), denied(&host)?.as_str())))
    }
}

/// Decides about addresses, and resolves names to such that were decided about.
pub(super) struct Guard {
    pub reach: Reach,
    pub permitted: fn(IpAddr) -> bool,
    pub lookup: Lookup,
}

impl Guard {
    /// With the name servers of the system.
    pub(super) fn new(reach: Reach) -> Self {
        let permits = Arc::new(Semaphore::new(LOOKUPS_MAX));
        let lookup: Lookup = Arc::new(move |name| {
            let permits = Arc::clone(&permits);
            Box::pin(async move {
                let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
                // It holds a thread until the name servers answer, whether its caller still waits or not.
                let looked = tokio::spawn(async move {
                    let _permit = permit;
                    tokio::net::lookup_host((name, 0)).await.map(Iterator::collect::<Vec<_>>)
                });
                let found = looked.await.map_err(io::Error::other)??;
                Ok(found.into_iter().map(|address| address.ip()).collect())
            })
        });
        Self { reach, permitted: is_public, lookup }
    }

    /// The address that a text is, when it may be asked.
    pub(super) fn read(&self, text: &str) -> Result<Url, Refusal> {
        let text = text.trim();
        if text.len() > ADDRESS_BYTES {
            return Err(Refusal::Address("it is longer than 2048 bytes"));
        }
        let url = Url::parse(text).map_err(|_| Refusal::Address("write it as https://host/path"))?;
        self.check(&url)?;
        Ok(url)
    }

    /// Whether an address may be asked, as far as it can be known without a name server.
    pub(super) fn check(&self, url: &Url) -> Result<(), Refusal> {
        if url.as_str().len() > ADDRESS_BYTES {
            return Err(Refusal::Address("it is longer than 2048 bytes"));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Address("only http and https are read"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Address("it holds a login"));
        }
        let port = url.port_or_known_default().unwrap_or_default();
        if !self.reach.ports.contains(&port) {
            return Err(Refusal::Port(port));
        }
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            self.dialable(address)?;
        } else {
            Self::named(bare)?;
        }
        self.listed(bare)
    }

    /// Whether an address of the network may be dialled.
    pub(super) fn dialable(&self, address: IpAddr) -> Result<(), Refusal> {
        if (self.permitted)(address) { Ok(()) } else { Err(Refusal::Internal) }
    }

    /// A name without a dot, or under one of these ends, is one of a local network: its name server is not even asked.
    fn named(host: &str) -> Result<(), Refusal> {
        let host = host.trim_end_matches('.');
        let last = host.rsplit_once('.').map(|(_, last)| last);
        match last {
            Some(last) if !INNER.iter().any(|inner| last.eq_ignore_ascii_case(inner)) => Ok(()),
            Some(_) | None => Err(Refusal::Internal),
        }
    }

    fn listed(&self, host: &str) -> Result<(), Refusal> {
        let Reach { allow, deny, .. } = &self.reach;
        let within = |hosts: &[String]| hosts.iter().any(|known| is_within(host, known));
        if within(deny) || !(allow.is_empty() || within(allow)) { Err(Refusal::Host) } else { Ok(()) }
    }

    /// Finds addresses for the connections of a client, and gives out none that may not be dialled. One that may not be among
    /// others refuses them all: no honest name is public and internal at once.
    pub(super) fn resolver(&self) -> Arc<impl Resolve + use<>> {
        Arc::new(Resolver { lookup: Arc::clone(&self.lookup), permitted: self.permitted })
    }
}

struct Resolver {
    lookup: Lookup,
    permitted: fn(IpAddr) -> bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (looked, permitted) = ((self.lookup)(name.as_str().to_owned()), self.permitted);
        Box::pin(async move {
            let found = timeout(LOOKUP_WITHIN, looked).await.map_err(|_| Refusal::Unresolved)?;
            let found = found.map_err(|_| Refusal::Unresolved)?;
            if found.is_empty() {
                return Err(Refusal::Unresolved.into());
            }
            if !found.iter().all(|address| permitted(*address)) {
                return Err(Refusal::Internal.into());
            }
            // The port is that of the address that is asked.
            let found = found.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// Whether a host is this one or below it. A pattern may begin with `*.`, which says the same.
fn is_within(host: &str, known: &str) -> bool {
    let tidy = |name: &str| name.trim().trim_start_matches("*.").trim_matches(['.', '[', ']']).to_ascii_lowercase();
    let (host, known) = (tidy(host), tidy(known));
    let above = host.strip_suffix(&known);
    !known.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}
