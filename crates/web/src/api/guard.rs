//! Authorization of requests. It also protects against pages of other sites in an operator's browser (DNS rebinding,
//! CSRF), and against a local proxy that makes remote clients look local.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api::connection_slots::Reach;
use crate::api::cors::Origins;
use crate::api::site::{follows_a_link, is_foreign, only};
use domain::api_key::{Caller, Right};
use ports::Keys;

/// Headers that proxies, load balancers and CDNs add to forwarded requests.
const FORWARDED: [&str; 18] = [
    "cdn-loop",
    "cf-connecting-ip",
    "cf-ray",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "true-client-ip",
    "via",
    "x-appengine-user-ip",
    "x-azure-clientip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-original-forwarded-for",
    "x-original-host",
    "x-real-ip",
];

/// The prefix of further such headers (`X-Forwarded-For`, `-Host`, `-Proto`, ...).
const FORWARDED_PREFIX: &str = "x-forwarded";

/// The two ends of a connection, and its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The client's address.
    pub peer: IpAddr,
    /// The address that the client connected to.
    pub own: IpAddr,
    /// The paths this connection may request.
    pub share: Reach,
}

/// The parts of a request that authorization depends on.
#[derive(Debug, Clone, Copy)]
pub struct GuardedRequest<'a> {
    pub link: Link,
    pub method: &'a Method,
    pub path: &'a str,
    pub headers: &'a HeaderMap,
}

/// The access that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None: health and metrics.
    Open,
    /// A right.
    Needs(Right),
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The `Host` header does not name this machine.
    Host,
    /// The request comes from a page of another origin.
    Origin,
    /// A key is required.
    Key,
    /// The key is not in force.
    WrongKey,
    /// A key would be required, and none is configured.
    NoKeys,
    /// The key lacks the right.
    NoRight,
    /// All places but those for health and metrics are busy.
    Busy,
    /// The key keeps its share of the places busy.
    KeyBusy,
}

impl Rejection {
    /// Returns the status, and the action to take.
    pub const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "the host header does not name this machine; use 127.0.0.1 or send a key",
            ),
            Self::Origin => (StatusCode::FORBIDDEN, "requests from pages of other sites are refused"),
            Self::Key => {
                (StatusCode::UNAUTHORIZED, "send a key as a bearer token or as the password; staffai key add makes one")
            }
            Self::WrongKey => (
                StatusCode::UNAUTHORIZED,
                "this key is wrong, was revoked, or has expired; staffai key list shows those in force",
            ),
            Self::NoKeys => {
                (StatusCode::FORBIDDEN, "only this machine has access; staffai key add makes a key for others")
            }
            Self::NoRight => {
                (StatusCode::FORBIDDEN, "this key has not the right to ask for this; staffai key add gives rights")
            }
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "all connections are busy; try again in a moment"),
            Self::KeyBusy => {
                (StatusCode::TOO_MANY_REQUESTS, "this key has too many requests in progress; wait for one")
            }
        }
    }
}

/// Authorizes one request.
///
/// - Health and metrics are open.
/// - With keys configured, everything else requires a key, from this machine too: a local proxy need not send a header
///   that reveals it.
/// - Without keys, only direct (not forwarded) requests from this machine are authorized.
/// - Pages of `origins` need a bearer key. Pages of other origins, including other local ports, are refused, except
///   that a link on them may lead to a page of this service.
pub fn admit(
    asked: GuardedRequest<'_>,
    keys: &dyn Keys,
    access: Access,
    origins: &Origins,
) -> Result<Caller, Rejection> {
    let GuardedRequest { link, method, path, headers } = asked;
    if access != Access::Open && link.share == Reach::HealthOnly {
        return Err(Rejection::Busy);
    }
    // A browser adds a bearer key only for a page that has it, so this needs no further checks.
    if let Some(key) = bearer(headers).and_then(|key| keys.holder(key)) {
        return entitled(Caller::Key(key), access);
    }
    if link.own.is_loopback() && !names_this_machine(headers, link.own) {
        return Err(Rejection::Host);
    }
    if is_foreign(headers) && !follows_a_link(method, path, headers, access == Access::Open) {
        // Credentials that the browser adds by itself are no proof of the page's intent.
        return Err(if origins.list(headers) { Rejection::Key } else { Rejection::Origin });
    }
    if let Some(key) = basic(headers).and_then(|key| keys.holder(&key)) {
        return entitled(Caller::Key(key), access);
    }
    let alone = keys.are_unused();
    let local = alone && link.peer.is_loopback() && link.own.is_loopback() && !forwarded(headers);
    if access == Access::Open || local {
        return Ok(Caller::Local);
    }
    let sent = bearer(headers).is_some_and(|key| !key.is_empty()) || basic(headers).is_some();
    Err(match (alone, sent) {
        (true, _) => Rejection::NoKeys,
        (false, true) => Rejection::WrongKey,
        (false, false) => Rejection::Key,
    })
}

/// True if the request has a bearer key. No browser adds one by itself, so the sending page or program has the key.
pub fn shows_bearer(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

fn entitled(caller: Caller, access: Access) -> Result<Caller, Rejection> {
    match access {
        Access::Needs(right) if !caller.may(right) => Err(Rejection::NoRight),
        Access::Needs(_) | Access::Open => Ok(caller),
    }
}

/// True if a proxy forwarded the request.
fn forwarded(headers: &HeaderMap) -> bool {
    let tells = |name: &str| FORWARDED.contains(&name) || name.starts_with(FORWARDED_PREFIX);
    headers.keys().any(|name| tells(name.as_str()))
}

fn names_this_machine(headers: &HeaderMap, own: IpAddr) -> bool {
    let Some(authority) = only(headers, &header::HOST).and_then(|host| host.parse::<Authority>().ok()) else {
        return false;
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address == own,
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = only(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

/// Returns the password of basic authentication, with any user name: the way for browsers to send a key.
fn basic(headers: &HeaderMap) -> Option<String> {
    let (scheme, coded) = only(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(coded.trim()).ok())??;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use domain::api_key::{ApiKey, KeyRing};
    use domain::ids::Timestamp;

    pub(in crate::api) struct Ring(pub KeyRing);

    impl Keys for Ring {
        fn are_unused(&self) -> bool {
            self.0.is_unused()
        }

        fn holder(&self, presented: &str) -> Option<Arc<ApiKey>> {
            self.0.find(presented, Timestamp(1_000))
        }

        fn still_opens(&self, key: &ApiKey) -> bool {
            self.0.still_opens(key, Timestamp(1_000))
        }
    }

    fn admit_to(
        link: Link,
        headers: &HeaderMap,
        keys: &dyn Keys,
        access: Access,
        origins: &Origins,
    ) -> Result<Caller, Rejection> {
        admit(GuardedRequest { link, method: &Method::GET, path: "/api/v1/tree", headers }, keys, access, origins)
    }

    const PRIVATE: Access = Access::Needs(Right::Operate);

    const LOCAL: &str = "127.0.0.1 127.0.0.1";
    const LOCAL6: &str = "::1 ::1";
    const REMOTE: &str = "10.0.0.9 10.0.0.2";

    fn ask(link: &str, lines: &[(&'static str, &str)], keys: &[&str], access: Access) -> Result<(), Rejection> {
        let (peer, own) = link.split_once(' ').unwrap();
        let link = Link { peer: peer.parse().unwrap(), own: own.parse().unwrap(), share: Reach::Whole };
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        admit_to(link, &headers, &Ring(KeyRing::of_secrets(keys.iter().copied())), access, &Origins::default())
            .map(drop)
    }

    #[test]
    fn pages_of_listed_sites_need_a_bearer_key() {
        let link = Link { peer: [127, 0, 0, 1].into(), own: [127, 0, 0, 1].into(), share: Reach::Whole };
        let ask = |keys: &[&'static str], authorization: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:8420".parse().unwrap());
            headers.insert(header::ORIGIN, "https://chat.example".parse().unwrap());
            if let Some(value) = authorization {
                headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            }
            let (ring, origins) = (Ring(KeyRing::of_secrets(keys.iter().copied())), Origins::new(["*".to_owned()]));
            admit_to(link, &headers, &ring, Access::Needs(Right::Chat), &origins).map(drop)
        };
        let basic = format!("Basic {}", STANDARD.encode("me:long-enough-key"));
        assert_eq!(ask(&[], None), Err(Rejection::Key), "this machine's browser is not this machine's user");
        assert_eq!(ask(&["long-enough-key"], None), Err(Rejection::Key));
        assert_eq!(ask(&["long-enough-key"], Some(&basic)), Err(Rejection::Key), "a browser sends it by itself");
        assert_eq!(ask(&["long-enough-key"], Some("Bearer long-enough-key")), Ok(()));
    }

    #[test]
    fn hosts() {
        for (link, host, wanted) in [
            (LOCAL, "127.0.0.1:8420", Ok(())),
            (LOCAL, "localhost", Ok(())),
            (LOCAL, "LocalHost.:8420", Ok(())),
            (LOCAL, "[::1]:8420", Ok(())),
            (LOCAL6, "[::1]:8420", Ok(())),
            (LOCAL, "[::ffff:127.0.0.1]:8420", Ok(())),
            (LOCAL, "evil.example", Err(Rejection::Host)),
            (LOCAL, "localhost.evil.example", Err(Rejection::Host)),
            (LOCAL, "127.0.0.1.evil.example:8420", Err(Rejection::Host)),
            (LOCAL, "10.0.0.2:8420", Err(Rejection::Host)),
            (LOCAL, "", Err(Rejection::Host)),
            (REMOTE, "staffai.example", Ok(())),
        ] {
            assert_eq!(ask(link, &[("host", host)], &[], Access::Open), wanted, "{link} {host}");
        }
        assert_eq!(ask(LOCAL, &[], &[], Access::Open), Err(Rejection::Host));
        assert_eq!(ask(LOCAL, &[("host", "localhost"), ("host", "evil")], &[], Access::Open), Err(Rejection::Host));
    }

    #[test]
    fn origins() {
        for (origin, wanted) in [
            ("http://localhost:8420", Ok(())),
            ("http://localhost:9999", Err(Rejection::Origin)),
            ("https://evil.example", Err(Rejection::Origin)),
            ("null", Err(Rejection::Origin)),
        ] {
            let lines = [("host", "localhost:8420"), ("origin", origin)];
            assert_eq!(ask(LOCAL, &lines, &[], PRIVATE), wanted, "{origin}");
        }
    }

    #[test]
    fn keys() {
        let basic = format!("Basic {}", STANDARD.encode("anybody:first-key"));
        for (authorization, wanted) in [
            ("Bearer second-key", Ok(())),
            ("bearer first-key", Ok(())),
            (basic.as_str(), Ok(())),
            ("Bearer", Err(Rejection::Key)),
            ("Bearer first-ke", Err(Rejection::WrongKey)),
            ("Bearer first-key2", Err(Rejection::WrongKey)),
            ("Basic Zmlyc3Qta2V5", Err(Rejection::Key)),
            ("first-key", Err(Rejection::Key)),
        ] {
            let lines = [("host", "staffai.example"), ("authorization", authorization)];
            assert_eq!(ask(REMOTE, &lines, &["first-key", "second-key"], PRIVATE), wanted, "{authorization}");
        }
    }

    #[test]
    fn an_empty_key_opens_nothing() {
        let lines = [("host", "staffai.example"), ("authorization", "Bearer ")];
        assert_eq!(ask(REMOTE, &lines, &[""], PRIVATE), Err(Rejection::Key));
    }

    #[test]
    fn without_keys_only_this_machine_sees_more_than_health() {
        let host = [("host", "staffai.example")];
        assert_eq!(ask(REMOTE, &host, &[], PRIVATE), Err(Rejection::NoKeys));
        assert_eq!(ask(REMOTE, &host, &[], Access::Open), Ok(()));
        assert_eq!(ask(LOCAL, &[("host", "localhost")], &[], PRIVATE), Ok(()));
    }

    #[test]
    fn a_request_that_a_proxy_on_this_machine_passed_on_is_not_local() {
        let more = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-server", "x-forwarded"];
        for name in FORWARDED.into_iter().chain(more) {
            let lines = [("host", "localhost"), (name, "203.0.113.7")];
            assert_eq!(ask(LOCAL, &lines, &[], PRIVATE), Err(Rejection::NoKeys), "{name}");
            assert_eq!(ask(LOCAL, &lines, &["first-key"], PRIVATE), Err(Rejection::Key), "{name}");
            assert_eq!(ask(LOCAL, &lines, &[], Access::Open), Ok(()), "{name}");
        }
        let proxied = [("host", "staffai.example"), ("via", "1.1 proxy"), ("authorization", "Bearer first-key")];
        assert_eq!(ask(LOCAL, &proxied, &["first-key"], PRIVATE), Ok(()));
    }

    #[test]
    fn with_keys_this_machine_needs_one_too() {
        let host = ("host", "localhost");
        assert_eq!(ask(LOCAL, &[host], &["first-key"], PRIVATE), Err(Rejection::Key));
        assert_eq!(ask(LOCAL, &[host], &["first-key"], Access::Open), Ok(()));
        let keyed = [host, ("authorization", "Bearer first-key")];
        assert_eq!(ask(LOCAL, &keyed, &["first-key"], PRIVATE), Ok(()));
    }

    #[test]
    fn a_reserved_place_is_for_health_alone() {
        let link = Link { peer: [10, 0, 0, 9].into(), own: [10, 0, 0, 2].into(), share: Reach::HealthOnly };
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, "Bearer first-key".parse().unwrap());
        let keys = Ring(KeyRing::of_secrets(["first-key"]));
        assert_eq!(admit_to(link, &headers, &keys, PRIVATE, &Origins::default()), Err(Rejection::Busy));
        assert!(admit_to(link, &headers, &keys, Access::Open, &Origins::default()).is_ok());
    }

    #[test]
    fn a_password_that_a_browser_remembers_does_not_help_other_sites() {
        let basic = format!("Basic {}", STANDARD.encode("a:first-key"));
        let lines =
            [("host", "staffai.example"), ("origin", "https://evil.example"), ("authorization", basic.as_str())];
        assert_eq!(ask(REMOTE, &lines, &["first-key"], PRIVATE), Err(Rejection::Origin));
    }

    #[test]
    fn pages_of_other_sites_are_refused_unless_a_link_on_them_leads_to_one_of_our_pages() {
        let link = Link { peer: [127, 0, 0, 1].into(), own: [127, 0, 0, 1].into(), share: Reach::Whole };
        let ask = |(method, path): (Method, &str), lines: &[(&'static str, &'static str)], access: Access| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:8420".parse().unwrap());
            for (name, value) in lines {
                headers.append(*name, value.parse().unwrap());
            }
            let asked = GuardedRequest { link, method: &method, path, headers: &headers };
            admit(asked, &Ring(KeyRing::default()), access, &Origins::default()).map(drop)
        };
        let (navigates, document) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        let stream = || (Method::GET, "/api/v1/stream/main");
        for site in ["cross-site", "same-site", "other"] {
            let site = ("sec-fetch-site", site);
            let image = [site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
            for access in [PRIVATE, Access::Needs(Right::Chat), Access::Open] {
                assert_eq!(ask(stream(), &image, access), Err(Rejection::Origin), "{site:?}");
            }
            let link = [site, navigates, document];
            assert_eq!(ask((Method::GET, "/"), &link, PRIVATE), Ok(()));
            assert_eq!(ask((Method::GET, "/dashboard"), &link, PRIVATE), Ok(()));
            assert_eq!(ask((Method::GET, "/metrics"), &link, Access::Open), Ok(()));
            assert_eq!(ask(stream(), &link, PRIVATE), Err(Rejection::Origin), "a window is opened on it");
            assert_eq!(ask((Method::POST, "/"), &link, PRIVATE), Err(Rejection::Origin), "a form is sent");
            let frame = [site, navigates, ("sec-fetch-dest", "iframe")];
            assert_eq!(ask((Method::GET, "/"), &frame, PRIVATE), Err(Rejection::Origin));
            let null = [site, navigates, document, ("origin", "null")];
            assert_eq!(ask((Method::GET, "/"), &null, PRIVATE), Err(Rejection::Origin));
        }
        for site in ["same-origin", "none"] {
            assert_eq!(ask(stream(), &[("sec-fetch-site", site)], PRIVATE), Ok(()), "{site}");
            let two = [("sec-fetch-site", site), ("sec-fetch-site", "cross-site")];
            assert_eq!(ask(stream(), &two, PRIVATE), Err(Rejection::Origin), "{site}");
        }
    }
}
