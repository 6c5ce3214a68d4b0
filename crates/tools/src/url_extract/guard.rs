//! Decides which addresses may be fetched (SSRF protection).
//!
//! - Only public addresses, in any notation; names that resolve to internal addresses are refused.
//! - The address that is checked is the one that is dialled: there is no second lookup in between (no DNS rebinding).
//! - Slow names of one person leave lookups for others.

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
use domain::ids::Person;
pub(super) use domain::network::is_public;
use ports::shares::Shares;

/// Maximum length of an address, in bytes.
pub(super) const ADDRESS_BYTES: usize = 2_048;
/// Timeout of a DNS lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent lookups, shared by members. Each occupies a thread until the resolver answers.
pub(super) const LOOKUPS_MAX: usize = 8;
/// Maximum number of addresses tried per name.
const ADDRESSES_MAX: usize = 8;
/// Top-level names of local networks.
const INNER: [&str; 10] = ["localhost", "local", "internal", "lan", "intranet", "corp", "home", "arpa", "svc", "onion"];

/// Resolves a name to its addresses.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The hosts and ports that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The ports that may be connected to.
    pub ports: Vec<u16>,
    /// Allowed hosts, each with its subdomains; if empty, all public hosts are allowed.
    pub allow: Vec<String>,
    /// Denied hosts, each with its subdomains. They take precedence.
    pub deny: Vec<String>,
}

impl Reach {
    /// Returns the allowed hosts that are also denied, each with the entry that denies it.
    pub fn contradictions(&self) -> impl Iterator<Item = (&str, &str)> {
        let denied = |host: &&String| self.deny.iter().find(|denied| is_within(host, denied));
        self.allow.iter().filter_map(move |host| Some((host.as_str(), denied(&host)?.as_str())))
    }
}

tokio::task_local! {
    /// The person for whom the page is read; none for the bot itself. The HTTP client names only a host to its resolver.
    static READER: Option<Person>;
}

/// Runs the requests for a page, whose lookups are those of this person.
pub(super) async fn for_reader<T>(whose: Option<&Person>, requests: impl Future<Output = T>) -> T {
    READER.scope(whose.cloned(), requests).await
}

/// Checks addresses, and resolves names to allowed addresses only.
pub(super) struct Guard {
    pub reach: Reach,
    pub permitted: fn(IpAddr) -> bool,
    pub lookup: Lookup,
}

impl Guard {
    /// Creates a guard that uses the system's resolver.
    pub(super) fn new(reach: Reach) -> Self {
        let lookup: Lookup = Arc::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        });
        Self { reach, permitted: is_public, lookup }
    }

    pub(super) fn read(&self, text: &str) -> Result<Url, Refusal> {
        let text = text.trim();
        if text.len() > ADDRESS_BYTES {
            return Err(Refusal::Address("it is longer than 2048 bytes"));
        }
        let url = Url::parse(text).map_err(|_| Refusal::Address("write it as https://host/path"))?;
        self.check(&url)?;
        Ok(url)
    }

    /// Checks an address, as far as possible without a lookup.
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

    /// Checks that an IP address may be dialled.
    pub(super) fn dialable(&self, address: IpAddr) -> Result<(), Refusal> {
        if (self.permitted)(address) { Ok(()) } else { Err(Refusal::Internal) }
    }

    /// Refuses names without a dot or with a local suffix before any lookup.
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

    /// Returns the resolver of the HTTP client. It returns no address that may not be dialled. If one address of a name
    /// is refused, all are: no honest name is public and internal at once.
    pub(super) fn resolver(&self) -> Arc<impl Resolve + use<>> {
        let permits = Shares::new(Arc::new(Semaphore::new(LOOKUPS_MAX)));
        Arc::new(Resolver { lookup: Arc::clone(&self.lookup), permitted: self.permitted, permits })
    }
}

struct Resolver {
    lookup: Lookup,
    permitted: fn(IpAddr) -> bool,
    permits: Shares,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, permitted, permits) = (Arc::clone(&self.lookup), self.permitted, self.permits.clone());
        Box::pin(async move {
            // A request outside of the reader's task has no share.
            let whose = READER.try_with(Clone::clone).map_err(|_| Refusal::Unresolved)?;
            let looked = async {
                let share = permits.wait(whose.as_ref()).await;
                // The lookup keeps its permit until the resolver answers, even if its caller was cancelled.
                let looked = tokio::spawn(async move {
                    let _share = share;
                    lookup(name.as_str().to_owned()).await
                });
                looked.await.map_err(io::Error::other)?
            };
            let found = timeout(LOOKUP_TIMEOUT, looked).await.map_err(|_| Refusal::Unresolved)?;
            let found = found.map_err(|_| Refusal::Unresolved)?;
            if found.is_empty() {
                return Err(Refusal::Unresolved.into());
            }
            if !found.iter().all(|address| permitted(*address)) {
                return Err(Refusal::Internal.into());
            }
            // The port comes from the requested address.
            let found = found.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// True if a host equals `known` or is below it. A pattern may begin with `*.`, which means the same.
fn is_within(host: &str, known: &str) -> bool {
    let tidy = |name: &str| name.trim().trim_start_matches("*.").trim_matches(['.', '[', ']']).to_ascii_lowercase();
    let (host, known) = (tidy(host), tidy(known));
    let above = host.strip_suffix(&known);
    !known.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}
