//! Interactive logins and their renewal.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::Logins;
use super::callback::{self, Brought};
pub use super::discovery::Trust;
use super::discovery::{self, Authority, OFFLINE};
use super::reach::Reach;
use super::request::{self, Answer, safe};
use super::tokens::{self, Tokens};
use crate::address::address;
use domain::ids::{self, Timestamp};
use domain::tool::ServerName;
use ports::tools::Endpoint;

const CLIENT_NAME: &str = "staffai";
/// Client authentication methods of a token endpoint (RFC 7591): none, in a header, in the form.
const PUBLIC: &str = "none";
const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";

/// The characters that a form encodes by percent sign. Few servers decode its other escapes.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*').remove(b'~');

/// Random bits, each used once.
pub struct Chance {
    /// Proves that the same client began and finished a login (PKCE).
    pub verifier: [u8; 32],
    /// Proves that a response belongs to this request.
    pub state: [u8; 16],
}

/// A client that is already registered at the authorization server.
#[derive(Debug, Clone)]
pub struct Client {
    /// The client id.
    pub id: String,
    /// The client secret, if any.
    pub secret: Option<SecretString>,
    /// The local port of its registered redirect address.
    pub port: u16,
}

/// The client's identity at a token endpoint.
#[derive(Debug, Clone)]
struct Identity {
    id: String,
    secret: Option<SecretString>,
    /// True if the secret is sent in a header instead of the form.
    basic: bool,
}

/// A login that waits for the operator.
pub struct Begun {
    url: Url,
    listener: TcpListener,
    authority: Authority,
    reach: Reach,
    identity: Identity,
    redirect: String,
    verifier: SecretString,
    state: SecretString,
    resource: String,
}

/// A completed login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// True if it can be renewed without interaction.
    pub renewable: bool,
    /// The seconds until its first token expires, if known.
    pub lasts: Option<u64>,
}

/// Returns the resource identifier of a server (RFC 8707): its address without parts that may vary.
pub(super) fn resource(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.set_query(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// Discovers the authorization server of this server, registers the client, and returns the login to be done. `scopes`
/// are requested in addition to the server's own.
///
/// # Errors
/// A sentence about what is missing.
pub async fn begin(
    endpoint: &Endpoint,
    chance: &Chance,
    known: Option<Client>,
    trust: &Trust<'_>,
    scopes: &[String],
) -> Result<Begun, String> {
    let server = address(endpoint).map_err(|failure| failure.to_string())?;
    let (mut authority, reach) = discovery::discover(&server, endpoint.allow_http, trust).await?;
    let more = scopes.iter().filter(|scope| !authority.scopes.contains(scope)).cloned().collect::<Vec<_>>();
    authority.scopes.extend(more);
    let port = known.as_ref().map_or(0, |client| client.port);
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.map_err(|error| format!("port {port} of this machine cannot be used: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let redirect = format!("http://127.0.0.1:{port}{}", callback::PATH);
    let identity = match known {
        Some(Client { id, secret, .. }) => {
            // Without published methods, every authorization server accepts the header (RFC 8414, 2).
            let basic = authority.methods.is_empty() || authority.methods.iter().any(|method| method == BASIC);
            Identity { id, secret, basic }
        }
        None => register(&authority, &redirect, &reach).await?,
    };
    let verifier = URL_SAFE_NO_PAD.encode(chance.verifier);
    let state = URL_SAFE_NO_PAD.encode(chance.state);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let resource = resource(&server);
    let mut url = authority.authorize.clone();
    {
        let mut query = url.query_pairs_mut();
        query.append_pair("response_type", "code").append_pair("client_id", &identity.id);
        query.append_pair("redirect_uri", &redirect).append_pair("state", &state);
        query.append_pair("code_challenge", &challenge).append_pair("code_challenge_method", "S256");
        query.append_pair("resource", authority.resource.as_deref().unwrap_or(&resource));
        if !authority.scopes.is_empty() {
            query.append_pair("scope", &authority.scopes.join(" "));
        }
        // A refresh token requires the user's consent (OpenID Connect Core, 11).
        if authority.scopes.iter().any(|scope| scope == OFFLINE) {
            query.append_pair("prompt", "consent");
        }
    }
    let (verifier, state) = (SecretString::from(verifier), SecretString::from(state));
    Ok(Begun { url, listener, authority, reach, identity, redirect, verifier, state, resource })
}

/// Registers the client (RFC 7591); returns its id, and its secret, if any.
async fn register(authority: &Authority, redirect: &str, reach: &Reach) -> Result<Identity, String> {
    let Some(endpoint) = &authority.register else {
        return Err(format!(
            "{} does not support client registration: register one there with the redirect address http://127.0.0.1:PORT{}, and run this again with \
             --client-id and --port",
            authority.issuer,
            callback::PATH
        ));
    };
    let takes = |method: &str| authority.methods.iter().any(|known| known == method);
    let wanted = [PUBLIC, BASIC, POST].into_iter().find(|method| takes(method)).unwrap_or(PUBLIC);
    let mut document = json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect],
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
    });
    // Unknown fields are omitted, because strict servers reject null.
    if !authority.scopes.is_empty() {
        document["scope"] = authority.scopes.join(" ").into();
    }
    let answer = request::json(endpoint, &document, reach).await?;
    let (200 | 201, Some(id)) = (answer.status, answer.text("client_id")) else {
        return Err(format!("{} refused the registration: {}", authority.issuer, answer.refusal()));
    };
    let given = answer.text("token_endpoint_auth_method").unwrap_or(wanted);
    let secret = answer.text("client_secret").filter(|_| given != PUBLIC).map(SecretString::from);
    Ok(Identity { id: id.to_owned(), secret, basic: given == BASIC })
}

impl Identity {
    /// Sends a form to a token endpoint as this client.
    async fn send(&self, endpoint: &Url, mut fields: Vec<(&str, &str)>, reach: &Reach) -> Result<Answer, String> {
        let secret = self.secret.as_ref().map(ExposeSecret::expose_secret);
        let header = secret.filter(|_| self.basic).map(|secret| basic(&self.id, secret)).transpose()?;
        // The Python SDK identifies the client by the form, even if the secret is in the header.
        fields.push(("client_id", &self.id));
        if header.is_none() {
            fields.extend(secret.map(|secret| ("client_secret", secret)));
        }
        request::form(endpoint, &fields, header, reach).await
    }
}

/// Returns the header of a client with a secret (RFC 6749, 2.3.1); both parts are form-encoded first.
fn basic(id: &str, secret: &str) -> Result<HeaderValue, String> {
    let plain = |text: &str| utf8_percent_encode(text, FORM).to_string();
    let both = STANDARD.encode(format!("{}:{}", plain(id), plain(secret)));
    let mut header = HeaderValue::from_str(&format!("Basic {both}")).map_err(|error| error.to_string())?;
    header.set_sensitive(true);
    Ok(header)
}

impl Begun {
    /// Returns the address of the login page.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Waits at most `within` for the operator and stores the tokens.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub async fn finish(self, logins: &Logins, server: &ServerName, within: Duration) -> Result<Made, String> {
        let heard = timeout(within, callback::hear(&self.listener, self.state.expose_secret())).await;
        let heard =
            heard.map_err(|_| format!("the login was not completed within {} minutes", within.as_secs() / 60))?;
        let Brought { code, issuer, error } = heard.map_err(|error| error.to_string())?;
        let Authority { issuer: own, token, names_itself, .. } = &self.authority;
        if let Some(error) = error {
            return Err(format!("{own} refused the login: {}", crate::failure::one_line(&error, 100)));
        }
        // Another authorization server may have sent the redirect (RFC 9207).
        if issuer.as_ref().is_some_and(|issuer| issuer != own) || (issuer.is_none() && *names_itself) {
            return Err("the answer to the login is not from the expected authorization server".to_owned());
        }
        let code = code.ok_or("the answer to the login contains no code")?;
        let published = self.authority.resource.clone();
        let fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("redirect_uri", &self.redirect),
            ("code_verifier", self.verifier.expose_secret()),
            ("resource", published.as_deref().unwrap_or(&self.resource)),
        ];
        let answer = self.identity.send(token, fields, &self.reach).await?;
        let given = given(&answer, logins.clock.now()).ok_or_else(|| format!("{own}: {}", answer.refusal()))?;
        let tokens = Tokens {
            resource: self.resource,
            issuer: own.clone(),
            token_endpoint: token.to_string(),
            client_id: self.identity.id,
            client_secret: self.identity.secret,
            access: given.access,
            refresh: given.refresh,
            ends: given.ends,
            basic: self.identity.basic,
            published,
            zone: Some(self.reach.zone),
            confirmed: self.reach.confirmed,
        };
        tokens::write(&logins.file(server), &tokens)?;
        let lasts = tokens.ends.map(|ends| ends.0.saturating_sub(logins.clock.now().0) / 1_000);
        Ok(Made { renewable: tokens.refresh.is_some(), lasts })
    }
}

struct Given {
    access: SecretString,
    refresh: Option<SecretString>,
    ends: Option<Timestamp>,
}

/// Reads the response of a token endpoint (RFC 6749, 5.1); `None` if it is a refusal.
fn given(answer: &Answer, now: Timestamp) -> Option<Given> {
    let bearer = answer.text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let access = answer.text("access_token").filter(|_| answer.status == 200 && bearer)?;
    let lasts = answer
        .body
        .as_ref()
        .ok()?
        .get("expires_in")
        .and_then(|lasts| lasts.as_u64().or_else(|| lasts.as_str()?.parse().ok()));
    let ends = lasts.map(|seconds| Timestamp(now.0.saturating_add(ids::millis(Duration::from_secs(seconds)))));
    Some(Given { access: access.into(), refresh: answer.text("refresh_token").map(SecretString::from), ends })
}

/// Exchanges the refresh token for new tokens.
///
/// # Errors
/// A sentence with the reason.
pub(super) async fn renewed(tokens: &Tokens, now: Timestamp) -> Result<Tokens, String> {
    let refresh = tokens.refresh.as_ref().ok_or("it cannot be renewed; run `staffai mcp login` again")?;
    // The address was checked at the login; it may be unencrypted if the server's entry allowed that.
    let endpoint = safe(&tokens.token_endpoint, true)?;
    let fields = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.expose_secret()),
        ("resource", tokens.published.as_deref().unwrap_or(&tokens.resource)),
    ];
    let identity = Identity { id: tokens.client_id.clone(), secret: tokens.client_secret.clone(), basic: tokens.basic };
    let answer = identity.send(&endpoint, fields, &tokens.reach().await).await?;
    let given = given(&answer, now)
        .ok_or_else(|| format!("{}: {}; run `staffai mcp login` again", tokens.issuer, answer.refusal()))?;
    let refresh = given.refresh.or_else(|| tokens.refresh.clone());
    Ok(Tokens { access: given.access, refresh, ends: given.ends, ..tokens.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_hyphens_is_sent_as_it_is_and_a_colon_as_a_code() {
        let header = basic("pre-registered_client.1", "a:b c-d").unwrap();
        let encoded = header.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(STANDARD.decode(encoded).unwrap(), b"pre-registered_client.1:a%3Ab%20c-d");
    }
}
