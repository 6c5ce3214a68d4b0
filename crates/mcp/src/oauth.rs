//! OAuth 2.1 logins at tool servers, according to the authorization part of the Model Context Protocol (revision
//! 2025-11-25).
//!
//! The operator logs in once with `staffai mcp login`; the tokens are stored in one file for each server, readable only
//! by its owner. Each request then carries the access token. It is renewed shortly before it expires, and once more if
//! the server rejects it. Tokens are sent only to the server that they were issued for.
//!
//! | file | does |
//! |---|---|
//! | `discovery.rs` | finds the authorization server: RFC 9728, RFC 8414, `OpenID` Connect Discovery |
//! | `flow.rs` | a login: registration (RFC 7591), PKCE (RFC 7636), resource (RFC 8707), issuer (RFC 9207) |
//! | `callback.rs` | receives the browser's redirect, on this machine only |
//! | `request.rs`, `reach.rs` | requests to authorization servers, bounded and never to internal addresses |
//! | `tokens.rs` | the file of a login |

mod callback;
mod discovery;
pub mod flow;
mod reach;
mod request;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue};
use parking_lot::RwLock;
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use self::tokens::Tokens;
use super::failure::Failure;
use domain::ids::Timestamp;
use domain::tool::ServerName;
use ports::Clock;
use telemetry::events::MCP_LOGIN;

/// The time before expiry at which an access token is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(60);

/// The longest list of scopes read from a refusal, in bytes.
const SCOPE_BYTES: usize = 500;

/// The store of logins.
#[derive(Clone)]
pub struct Logins {
    /// The folder of their files.
    pub dir: PathBuf,
    /// Wall-clock time, for the expiry of tokens.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Logins {
    /// Creates the store in a folder below the data directory.
    #[must_use]
    pub fn below(data: &Path, clock: Arc<dyn Clock>) -> Self {
        Self { dir: data.join("mcp-logins"), clock }
    }

    fn file(&self, server: &ServerName) -> PathBuf {
        // A name may contain characters that are invalid in a path.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name: String = server.as_str().chars().map(|c| if plain(c) { c } else { '_' }).collect();
        self.dir.join(format!("{name}.json"))
    }

    /// Returns the login at a server, if there is one for this address.
    ///
    /// # Errors
    /// Its file is unreadable, or other users may read it.
    pub(super) fn of(&self, server: &ServerName, url: &Url) -> Result<Option<Arc<Login>>, Failure> {
        let file = self.file(server);
        let Some(tokens) = tokens::read(&file).map_err(Failure::Address)? else { return Ok(None) };
        if tokens.resource != flow::resource(url) {
            return Ok(None);
        }
        let login = Login {
            file,
            clock: Arc::clone(&self.clock),
            tokens: RwLock::new(tokens),
            renewing: tokio::sync::Mutex::default(),
        };
        Ok(Some(Arc::new(login)))
    }
}

pub(super) struct Login {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    tokens: RwLock<Tokens>,
    renewing: tokio::sync::Mutex<()>,
}

impl Login {
    /// Returns the authorization header. Renews a token that is about to expire; if that fails, the old one is used.
    pub(super) async fn header(&self) -> Option<HeaderValue> {
        let ends = self.tokens.read().ends;
        let soon = Timestamp(self.clock.now().0 + domain::ids::millis(RENEWED_BEFORE));
        if ends.is_some_and(|ends| ends <= soon) {
            let known = self.access();
            self.renew(&known).await;
        }
        bearer(&self.access())
    }

    /// Returns another header after the server rejected this one, if there is any.
    pub(super) async fn after_refusal(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let known = self.access();
        if bearer(&known).as_ref() == refused {
            self.renew(&known).await;
        }
        bearer(&self.access()).filter(|header| Some(header) != refused)
    }

    /// Returns all values to be redacted.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let tokens = self.tokens.read();
        [Some(&tokens.access), tokens.refresh.as_ref(), tokens.client_secret.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    fn access(&self) -> SecretString {
        self.tokens.read().access.clone()
    }

    /// Renews the tokens, unless another caller did so since `known` was read.
    async fn renew(&self, known: &SecretString) {
        let _renewing = self.renewing.lock().await;
        // A refresh token is valid once: only one process may use it.
        let _alone = tokens::alone(&self.file).await;
        // Another process or a new login may have renewed it.
        let mut tokens = self.tokens.read().clone();
        if let Ok(Some(stored)) = tokens::read(&self.file)
            && stored.resource == tokens.resource
        {
            tokens = stored;
            *self.tokens.write() = tokens.clone();
        }
        if tokens.access.expose_secret() != known.expose_secret() {
            return;
        }
        match flow::renewed(&tokens, self.clock.now()).await {
            Ok(renewed) => {
                if let Err(mistake) = tokens::write(&self.file, &renewed) {
                    tracing::warn!(event = MCP_LOGIN, mistake, "a renewed login cannot be stored");
                }
                *self.tokens.write() = renewed;
            }
            Err(mistake) => tracing::warn!(event = MCP_LOGIN, mistake, "a login cannot be renewed"),
        }
    }
}

/// Returns the missing scopes named by a refusal (RFC 6750, 3.1), without invalid characters.
pub(super) fn missing_scope(headers: &HeaderMap) -> Option<String> {
    let challenge = headers.get(WWW_AUTHENTICATE)?.to_str().ok()?;
    let insufficient = discovery::parameter(challenge, "error").as_deref() == Some("insufficient_scope");
    let scope = discovery::parameter(challenge, "scope").filter(|_| insufficient)?;
    let allowed = |c: char| matches!(c, ' ' | '!' | '#'..='&' | '('..='[' | ']'..='~');
    Some(scope.chars().filter(|c| allowed(*c)).take(SCOPE_BYTES).collect())
}

fn bearer(token: &SecretString) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).ok()?;
    header.set_sensitive(true);
    Some(header)
}
