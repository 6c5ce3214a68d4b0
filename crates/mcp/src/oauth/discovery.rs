//! Discovers the endpoints of a login: the server names its authorization server (RFC 9728), which names its endpoints
//! (RFC 8414, or `OpenID` Connect Discovery 1.0).

use reqwest::Url;
use serde_json::{Value, json};

use super::reach::Reach;
use super::request::{self, Answer, safe};
use domain::json_values::Unparsed;

/// The scope that some authorization servers require for a refresh token.
pub(super) const OFFLINE: &str = "offline_access";
/// The most addresses tried for one document.
const SOURCES_MAX: usize = 4;

/// The endpoints and scopes of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    /// The issuer, which its responses must contain.
    pub issuer: String,
    /// The authorization endpoint for the browser.
    pub authorize: Url,
    /// The token endpoint.
    pub token: Url,
    /// The registration endpoint, if supported.
    pub register: Option<Url>,
    /// True if it names itself in the response to a login (RFC 9207).
    pub names_itself: bool,
    /// The scopes to request; if empty, the authorization server decides.
    pub scopes: Vec<String>,
    /// The client authentication methods at `token`; empty if not published.
    pub methods: Vec<String>,
    /// The server's own resource identifier (RFC 9728), for RFC 8707.
    pub resource: Option<String>,
}

/// Decides about origins of endpoints besides the authorization server's own.
pub struct Trust<'a> {
    /// Origins that the operator confirmed in advance.
    pub origins: &'a [String],
    /// Asks the operator, with the authorization server, the key of the endpoint, and its origin.
    pub ask: &'a (dyn Fn(&str, &str, &str) -> bool + Send + Sync),
}

impl Trust<'_> {
    /// Accepts only the authorization server's own origin.
    pub const NONE: Trust<'static> = Trust { origins: &[], ask: &|_, _, _| false };
}

/// Discovers the authorization server of a server, and the addresses that its login may contact. `clear` allows
/// unencrypted addresses, as configured in its entry.
///
/// # Errors
/// A sentence about what is missing.
pub(super) async fn discover(server: &Url, clear: bool, trust: &Trust<'_>) -> Result<(Authority, Reach), String> {
    let (challenge, zone) = request::challenge(server).await?;
    let mut reach = Reach { zone, confirmed: trust.origins.to_vec() };
    let named = challenge.as_deref().and_then(|header| parameter(header, "resource_metadata"));
    let found = resource_document(server, named.as_deref(), (clear, &reach)).await?;
    // A server of the first revision is its own authorization server and may not publish a document.
    let own = server.origin().ascii_serialization();
    let first = found.is_none();
    let resource = found.unwrap_or_else(|| json!({"authorization_servers": [own]}));
    let issuer = resource["authorization_servers"][0]
        .as_str()
        .ok_or("the server names no authorization server (RFC 9728)")?
        .to_owned();
    let document = match authority_document(&issuer, (clear, &reach)).await? {
        Some(document) => document,
        None if first => first_revision(&issuer),
        None => return Err(format!("the authorization server {issuer} publishes no metadata (RFC 8414)")),
    };
    if !texts(&document["code_challenge_methods_supported"]).iter().any(|method| method == "S256") {
        return Err(format!(
            "the authorization server {issuer} does not offer PKCE with S256, without which no login is safe"
        ));
    }
    let mut endpoint = |key: &str| -> Result<Option<Url>, String> {
        let Some(address) = document[key].as_str() else { return Ok(None) };
        let url = safe(address, clear)?;
        confirm((&issuer, key), &url, trust, &mut reach.confirmed)?;
        Ok(Some(url))
    };
    let missing = |key: &str| format!("the authorization server {issuer} has no {key}");
    let authorize = endpoint("authorization_endpoint")?.ok_or_else(|| missing("authorization_endpoint"))?;
    let token = endpoint("token_endpoint")?.ok_or_else(|| missing("token_endpoint"))?;
    let register = endpoint("registration_endpoint")?;
    let asked = challenge.as_deref().and_then(|header| parameter(header, "scope"));
    let authority = Authority {
        authorize,
        token,
        register,
        names_itself: document["authorization_response_iss_parameter_supported"].as_bool() == Some(true),
        scopes: scopes(asked.as_deref(), &resource, &document),
        methods: texts(&document["token_endpoint_auth_methods_supported"]),
        resource: resource["resource"].as_str().map(str::to_owned),
        issuer,
    };
    Ok((authority, reach))
}

/// Accepts an endpoint on its authorization server's origin, or on an origin that the operator confirms, which may then
/// be in any network.
fn confirm(
    (issuer, key): (&str, &str),
    endpoint: &Url,
    trust: &Trust<'_>,
    confirmed: &mut Vec<String>,
) -> Result<(), String> {
    let origin = endpoint.origin().ascii_serialization();
    let own = Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == endpoint.origin());
    if own || confirmed.contains(&origin) {
        return Ok(());
    }
    if (trust.ask)(issuer, key, &origin) {
        confirmed.push(origin);
        return Ok(());
    }
    Err(format!(
        "the authorization server {issuer} has its {key} on another origin, {origin}; if it is right, add --allow-origin {origin}"
    ))
}

/// Returns the scopes of a login: those that the server requires, else all supported ones, and `offline_access` if
/// needed for a refresh token.
fn scopes(asked: Option<&str>, resource: &Value, authority: &Value) -> Vec<String> {
    let mut scopes: Vec<String> = match asked {
        Some(scopes) => scopes.split_whitespace().map(str::to_owned).collect(),
        None => texts(&resource["scopes_supported"]),
    };
    let needed = texts(&authority["scopes_supported"]).iter().any(|scope| scope == OFFLINE);
    if needed && !scopes.iter().any(|scope| scope == OFFLINE) {
        scopes.push(OFFLINE.to_owned());
    }
    scopes
}

/// Returns the endpoints defined by the first revision, for an authorization server without metadata.
fn first_revision(issuer: &str) -> Value {
    let at = |path: &str| format!("{}{path}", issuer.trim_end_matches('/'));
    json!({
        "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"), "code_challenge_methods_supported": ["S256"],
    })
}

async fn resource_document(
    server: &Url,
    named: Option<&str>,
    (clear, reach): (bool, &Reach),
) -> Result<Option<Value>, String> {
    let mut places: Vec<Url> = Vec::new();
    if let Some(named) = named {
        let named = safe(named, clear)?;
        if named.origin() != server.origin() {
            return Err(format!(
                "the server names a document of another origin, {}",
                named.origin().ascii_serialization()
            ));
        }
        places.push(named);
    }
    for path in [server.path().trim_end_matches('/'), ""] {
        places.extend(server.join(&format!("/.well-known/oauth-protected-resource{path}")).ok());
    }
    for place in places.iter().take(SOURCES_MAX) {
        let answer = request::get(place, reach).await?;
        if let Some(document) = document(place, answer)? {
            let own = document["resource"].as_str().and_then(|own| Url::parse(own).ok());
            if !own.is_some_and(|own| is_within(server, &own)) {
                return Err("the server's document is about another server (RFC 9728, 3.3)".to_owned());
            }
            return Ok(Some(document));
        }
    }
    Ok(None)
}

/// Returns the document at an address; `None` if there is none.
///
/// # Errors
/// It exceeds a bound.
fn document(place: &Url, answer: Answer) -> Result<Option<Value>, String> {
    match (answer.status, answer.body) {
        (200, Ok(document)) => Ok(Some(document)),
        (200, Err(why @ (Unparsed::TooLong(_) | Unparsed::TooMany))) => Err(format!("{place}: {why}")),
        _ => Ok(None),
    }
}

/// True if a server is a resource or lies below its path.
fn is_within(server: &Url, resource: &Url) -> bool {
    let below = server.path().strip_prefix(resource.path().trim_end_matches('/'));
    server.origin() == resource.origin() && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Fetches the metadata of the authorization server and checks its issuer.
async fn authority_document(issuer: &str, (clear, reach): (bool, &Reach)) -> Result<Option<Value>, String> {
    let url = safe(issuer, clear)?;
    let path = url.path().trim_end_matches('/');
    let places = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ];
    for place in places.iter().filter_map(|place| url.join(place).ok()) {
        let answer = request::get(&place, reach).await?;
        if let Some(document) = document(&place, answer)? {
            let plain = |text: &str| text.trim_end_matches('/').to_owned();
            if document["issuer"].as_str().map(plain) != Some(plain(issuer)) {
                return Err(format!(
                    "the metadata at {issuer} belongs to another authorization server (RFC 8414, 3.3)"
                ));
            }
            return Ok(Some(document));
        }
    }
    Ok(None)
}

/// Returns a parameter of a challenge (RFC 9110, 11.2), quoted or not.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at].chars().next_back();
        let after = rest[at + name.len()..].trim_start();
        rest = &rest[at + name.len()..];
        let is_whole = before.is_none_or(|c| c.is_whitespace() || c == ',');
        let Some(value) = after.strip_prefix('=').filter(|_| is_whole).map(str::trim_start) else { continue };
        return Some(match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default().to_owned(),
            None => value.split([',', ' ']).next().unwrap_or_default().to_owned(),
        });
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_elsewhere_have_to_be_confirmed() {
        let endpoint = |text: &str| Url::parse(text).unwrap();
        let issuer = "https://login.example/tenant";
        let mut confirmed = Vec::new();
        let own = endpoint("https://login.example/token");
        confirm((issuer, "token_endpoint"), &own, &Trust::NONE, &mut confirmed).unwrap();
        for other in ["https://login.example:8443/token", "http://login.example/token", "https://tokens.example/"] {
            let refused = confirm((issuer, "token_endpoint"), &endpoint(other), &Trust::NONE, &mut confirmed);
            assert!(refused.unwrap_err().contains("--allow-origin http"), "{other}");
        }
        assert!(confirmed.is_empty());
        let elsewhere = endpoint("https://tokens.example/token");
        let asking = Trust {
            origins: &[],
            ask: &|_, key, origin| key == "token_endpoint" && origin == "https://tokens.example",
        };
        confirm((issuer, "token_endpoint"), &elsewhere, &asking, &mut confirmed).unwrap();
        confirm((issuer, "registration_endpoint"), &elsewhere, &Trust::NONE, &mut confirmed).unwrap();
        assert_eq!(confirmed, ["https://tokens.example"]);
    }

    #[test]
    fn a_resource_covers_whole_segments_of_a_path() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (server, resource, covers) in [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp/one", "https://a.example/mcp/", true),
            ("https://a.example/mcp", "https://a.example", true),
            ("https://a.example/mcp-evil", "https://a.example/mcp", false),
            ("https://a.example/mcp", "https://a.example/mcp/one", false),
            ("https://a.example/mcp", "https://b.example/mcp", false),
        ] {
            assert_eq!(is_within(&url(server), &url(resource)), covers, "{server} {resource}");
        }
    }

    #[test]
    fn a_refresh_token_is_asked_for_where_it_has_to_be() {
        let (resource, offered) =
            (json!({"scopes_supported": ["a", "b"]}), json!({"scopes_supported": ["a", OFFLINE]}));
        assert_eq!(scopes(None, &resource, &offered), ["a", "b", OFFLINE]);
        assert_eq!(scopes(Some("c offline_access"), &resource, &offered), ["c", OFFLINE]);
        assert_eq!(scopes(None, &json!({}), &json!({})), [""; 0]);
    }

    #[test]
    fn parameters_of_a_challenge_are_read() {
        let challenge = r#"Bearer error="invalid_token", resource_metadata="https://a.example/meta", scope=read"#;
        assert_eq!(parameter(challenge, "resource_metadata").as_deref(), Some("https://a.example/meta"));
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("read"));
        assert_eq!(parameter(challenge, "metadata"), None);
        assert_eq!(parameter("Bearer scope", "scope"), None);
    }
}
