//! Finds out where to log in: the server says who its authorization server is (RFC 9728), and that one says where its endpoints are
//! (RFC 8414, or `OpenID` Connect Discovery 1.0).

use reqwest::Url;
use serde_json::Value;

use super::request::{self, safe};

/// The most places that are asked for one document.
const SOURCES_MAX: usize = 4;

/// Where to log in, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    /// Its own name, which its answers have to bear.
    pub issuer: String,
    /// Where a person logs in.
    pub authorize: Url,
    /// Where codes and refresh tokens are exchanged.
    pub token: Url,
    /// Where clients make themselves known; none when they cannot.
    pub register: Option<Url>,
    /// It names itself in the answer to a login (RFC 9207).
    pub names_itself: bool,
    /// What is to be asked for; empty leaves it to the authority.
    pub scopes: Vec<String>,
}

/// Finds the authority of a server. `clear` lets addresses be unencrypted, as its entry has it.
///
/// # Errors
/// In words, what is missing.
pub(super) async fn discover(server: &Url, clear: bool) -> Result<Authority, String> {
    let challenge = request::challenge(server).await?;
    let named = challenge.as_deref().and_then(|header| parameter(header, "resource_metadata"));
    let resource = match resource_document(server, named.as_deref(), clear).await? {
        Some(document) => document,
        // Servers of the first revision are their own authority.
        None => serde_json::json!({"authorization_servers": [server.origin().ascii_serialization()]}),
    };
    let issuer = resource["authorization_servers"][0]
        .as_str()
        .ok_or("the server names no authorization server (RFC 9728)")?
        .to_owned();
    let document = authority_document(&issuer, clear).await?;
    let asked = challenge.as_deref().and_then(|header| parameter(header, "scope"));
    let scopes = match asked {
        Some(scopes) => scopes.split_whitespace().map(str::to_owned).collect(),
        None => texts(&resource["scopes_supported"]),
    };
    let endpoint = |key: &str| document[key].as_str().map(|address| safe(address, clear)).transpose();
    let needed = |key: &str| endpoint(key)?.ok_or_else(|| format!("the authorization server {issuer} has no {key}"));
    if !texts(&document["code_challenge_methods_supported"]).iter().any(|method| method == "S256") {
        return Err(format!(
            "the authorization server {issuer} does not offer PKCE with S256, without which no login is safe"
        ));
    }
    Ok(Authority {
        authorize: needed("authorization_endpoint")?,
        token: needed("token_endpoint")?,
        register: endpoint("registration_endpoint")?,
        names_itself: document["authorization_response_iss_parameter_supported"].as_bool() == Some(true),
        issuer,
        scopes,
    })
}

/// What the server says of itself.
async fn resource_document(server: &Url, named: Option<&str>, clear: bool) -> Result<Option<Value>, String> {
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
        let answer = request::get(place).await?;
        if let (200, Some(document)) = (answer.status, answer.body) {
            let own = document["resource"].as_str().and_then(|own| Url::parse(own).ok());
            let is_own = |own: &Url| {
                own.origin() == server.origin() && server.path().starts_with(own.path().trim_end_matches('/'))
            };
            if !own.as_ref().is_some_and(is_own) {
                return Err("the server's document is about another server (RFC 9728, 3.3)".to_owned());
            }
            return Ok(Some(document));
        }
    }
    Ok(None)
}

/// What the authorization server says of itself, under its own name.
async fn authority_document(issuer: &str, clear: bool) -> Result<Value, String> {
    let url = safe(issuer, clear)?;
    let path = url.path().trim_end_matches('/');
    let places = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ];
    for place in places.iter().filter_map(|place| url.join(place).ok()) {
        let answer = request::get(&place).await?;
        if let (200, Some(document)) = (answer.status, answer.body) {
            let plain = |text: &str| text.trim_end_matches('/').to_owned();
            if document["issuer"].as_str().map(plain) != Some(plain(issuer)) {
                return Err(format!("what is found at {issuer} is another authorization server's (RFC 8414, 3.3)"));
            }
            return Ok(document);
        }
    }
    Err(format!("the authorization server {issuer} says nothing of itself (RFC 8414)"))
}

/// A parameter of a challenge (RFC 9110, 11.2), quoted or not.
fn parameter(challenge: &str, name: &str) -> Option<String> {
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
    fn parameters_of_a_challenge_are_read() {
        let challenge = r#"Bearer error="invalid_token", resource_metadata="https://a.example/meta", scope=read"#;
        assert_eq!(parameter(challenge, "resource_metadata").as_deref(), Some("https://a.example/meta"));
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("read"));
        assert_eq!(parameter(challenge, "metadata"), None);
        assert_eq!(parameter("Bearer scope", "scope"), None);
    }
}
