//! A login of a person, and its renewal.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::Logins;
use super::callback::{self, Brought};
use super::discovery::{self, Authority};
use super::request::{self, Answer, safe};
use super::tokens::{self, Tokens};
use crate::domain::ids::{self, Timestamp};
use crate::domain::tool::ServerName;
use crate::mcp::http::address;
use crate::ports::tools::Endpoint;

/// The name that people read where they log in.
const CLIENT_NAME: &str = "staffai";

/// Bits that nobody can guess, one use each.
pub struct Chance {
    /// For the proof that whoever began a login ends it (PKCE).
    pub verifier: [u8; 32],
    /// For the proof that an answer belongs to our question.
    pub state: [u8; 16],
}

/// How we are known to an authorization server that knows us already.
#[derive(Debug, Clone)]
pub struct Client {
    /// Our id there.
    pub id: String,
    /// The port of this machine that the browser comes back to, as it is registered there.
    pub port: u16,
}

/// A login that waits for its person.
pub struct Begun {
    url: Url,
    listener: TcpListener,
    authority: Authority,
    client_id: String,
    client_secret: Option<SecretString>,
    redirect: String,
    verifier: SecretString,
    state: SecretString,
    resource: String,
}

/// The server as tokens are asked for it (RFC 8707): its address without what can differ for the same server.
pub(super) fn resource(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.set_query(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// Finds the authorization server of this server, makes us known to it, and gives the login that a person has to do.
///
/// # Errors
/// In words, what is missing.
pub async fn begin(endpoint: &Endpoint, chance: &Chance, known: Option<Client>) -> Result<Begun, String> {
    let server = address(endpoint).map_err(|failure| failure.to_string())?;
    let authority = discovery::discover(&server, endpoint.allow_http).await?;
    let port = known.as_ref().map_or(0, |client| client.port);
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.map_err(|error| format!("port {port} of this machine cannot be used: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let redirect = format!("http://127.0.0.1:{port}{}", callback::PATH);
    let (client_id, client_secret) = match known {
        Some(client) => (client.id, None),
        None => register(&authority, &redirect).await?,
    };
    let verifier = URL_SAFE_NO_PAD.encode(chance.verifier);
    let state = URL_SAFE_NO_PAD.encode(chance.state);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let resource = resource(&server);
    let mut url = authority.authorize.clone();
    {
        let mut query = url.query_pairs_mut();
        query.append_pair("response_type", "code").append_pair("client_id", &client_id);
        query.append_pair("redirect_uri", &redirect).append_pair("state", &state);
        query.append_pair("code_challenge", &challenge).append_pair("code_challenge_method", "S256");
        query.append_pair("resource", &resource);
        if !authority.scopes.is_empty() {
            query.append_pair("scope", &authority.scopes.join(" "));
        }
    }
    let (verifier, state) = (SecretString::from(verifier), SecretString::from(state));
    Ok(Begun { url, listener, authority, client_id, client_secret, redirect, verifier, state, resource })
}

/// Makes us known (RFC 7591): our id, and a secret if it gives one.
async fn register(authority: &Authority, redirect: &str) -> Result<(String, Option<SecretString>), String> {
    let Some(endpoint) = &authority.register else {
        return Err(format!(
            "{} registers no clients: register one there with the redirect address http://127.0.0.1:PORT{}, and run this again with \
             --client-id and --port",
            authority.issuer,
            callback::PATH
        ));
    };
    let document = json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": (!authority.scopes.is_empty()).then(|| authority.scopes.join(" ")),
    });
    let answer = request::json(endpoint, &document).await?;
    match (answer.status, answer.text("client_id")) {
        (200 | 201, Some(id)) => Ok((id.to_owned(), answer.text("client_secret").map(SecretString::from))),
        _ => Err(format!("{} does not register us: {}", authority.issuer, answer.refusal())),
    }
}

impl Begun {
    /// Where the person logs in.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Waits at most `within` for the person, and keeps what the login gives.
    ///
    /// # Errors
    /// In words, why there is no login.
    pub async fn finish(self, logins: &Logins, server: &ServerName, within: Duration) -> Result<(), String> {
        let heard = timeout(within, callback::hear(&self.listener, self.state.expose_secret())).await;
        let heard = heard.map_err(|_| format!("nobody logged in within {} minutes", within.as_secs() / 60))?;
        let Brought { code, issuer, error } = heard.map_err(|error| error.to_string())?;
        let Authority { issuer: own, token, names_itself, .. } = &self.authority;
        if let Some(error) = error {
            return Err(format!("{own} refused the login: {}", crate::mcp::failure::one_line(&error, 100)));
        }
        // Another authorization server may have sent the browser here (RFC 9207).
        if issuer.as_ref().is_some_and(|issuer| issuer != own) || (issuer.is_none() && *names_itself) {
            return Err("the answer to the login is not from the authorization server that was asked".to_owned());
        }
        let code = code.ok_or("the answer to the login brings no code")?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect),
            ("client_id", &self.client_id),
            ("code_verifier", self.verifier.expose_secret()),
            ("resource", &self.resource),
        ];
        if let Some(secret) = &self.client_secret {
            fields.push(("client_secret", secret.expose_secret()));
        }
        let answer = request::form(token, &fields).await?;
        let given = given(&answer, logins.clock.now()).ok_or_else(|| format!("{own}: {}", answer.refusal()))?;
        let tokens = Tokens {
            resource: self.resource,
            issuer: own.clone(),
            token_endpoint: token.to_string(),
            client_id: self.client_id,
            client_secret: self.client_secret,
            access: given.access,
            refresh: given.refresh,
            ends: given.ends,
        };
        tokens::write(&logins.file(server), &tokens)
    }
}

/// What a token endpoint gave.
struct Given {
    access: SecretString,
    refresh: Option<SecretString>,
    ends: Option<Timestamp>,
}

/// Reads the answer of a token endpoint (RFC 6749, 5.1); none when it is a refusal.
fn given(answer: &Answer, now: Timestamp) -> Option<Given> {
    let bearer = answer.text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let access = answer.text("access_token").filter(|_| answer.status == 200 && bearer)?;
    let lasts = answer
        .body
        .as_ref()?
        .get("expires_in")
        .and_then(|lasts| lasts.as_u64().or_else(|| lasts.as_str()?.parse().ok()));
    let ends = lasts.map(|seconds| Timestamp(now.0.saturating_add(ids::millis(Duration::from_secs(seconds)))));
    Some(Given { access: access.into(), refresh: answer.text("refresh_token").map(SecretString::from), ends })
}

/// Exchanges the refresh token for other tokens.
///
/// # Errors
/// In words, why that is not possible.
pub(super) async fn renewed(tokens: &Tokens, now: Timestamp) -> Result<Tokens, String> {
    let refresh = tokens.refresh.as_ref().ok_or("it cannot be renewed; run `staffai mcp login` again")?;
    // The address was found safe when the login was made; it may be unencrypted where the server's entry allowed that.
    let endpoint = safe(&tokens.token_endpoint, true)?;
    let mut fields = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.expose_secret()),
        ("client_id", &tokens.client_id),
        ("resource", &tokens.resource),
    ];
    if let Some(secret) = &tokens.client_secret {
        fields.push(("client_secret", secret.expose_secret()));
    }
    let answer = request::form(&endpoint, &fields).await?;
    let given = given(&answer, now)
        .ok_or_else(|| format!("{}: {}; run `staffai mcp login` again", tokens.issuer, answer.refusal()))?;
    let refresh = given.refresh.or_else(|| tokens.refresh.clone());
    Ok(Tokens { access: given.access, refresh, ends: given.ends, ..tokens.clone() })
}
