//! Logins at servers that want OAuth 2.1, as the authorization part of the Model Context Protocol has it (revision 2025-11-25).
//!
//! A person logs in once with `staffai mcp login`; what that gives is kept in a file of its own for each server, which its owner alone may
//! read. From then on each request carries the access token, which is exchanged for a new one shortly before it runs out, and once more
//! when the server refuses it all the same. Tokens go to the server that they were asked for and to no other.
//!
//! | file | does |
//! |---|---|
//! | `discovery.rs` | finds the authorization server: RFC 9728, RFC 8414, `OpenID` Connect Discovery |
//! | `flow.rs` | a login: registration (RFC 7591), PKCE (RFC 7636), resource (RFC 8707), issuer (RFC 9207) |
//! | `callback.rs` | hears the browser come back, on this machine alone |
//! | `request.rs`, `reach.rs` | requests to authorization servers, within bounds and to no address inside |
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

/// How long before its end an access token is exchanged for a new one.
const RENEWED_BEFORE: Duration = Duration::from_secs(60);

/// The longest list of scopes that a refusal may name, in bytes.
const SCOPE_BYTES: usize = 500;

/// Where logins are kept.
#[derive(Clone)]
pub struct Logins {
    /// The folder of their files.
    pub dir: PathBuf,
    /// Wall-clock time, for the end of tokens.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Logins {
    /// Logins in a folder below the data directory.
    #[must_use]
    pub fn below(data: &Path, clock: Arc<dyn Clock>) -> Self {
        Self { dir: data.join("mcp-logins"), clock }
    }

    /// The file of a server.
    fn file(&self, server: &ServerName) -> PathBuf {
        // A name may hold what a path must not.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name: String = server.as_str().chars().map(|c| if plain(c) { c } else { '_' }).collect();
        self.dir.join(format!("{name}.json"))
    }

    /// The login at a server, if there is one for this address.
    ///
    /// # Errors
    /// Its file cannot be read, or others may read it.
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

/// A login at one server.
pub(super) struct Login {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    tokens: RwLock<Tokens>,
    renewing: tokio::sync::Mutex<()>,
}

impl Login {
    /// The header that lets a request in. A token that is about to run out is exchanged first; when that fails the old one is as good
    /// as any.
    pub(super) async fn header(&self) -> Option<HeaderValue> {
        let ends = self.tokens.read().ends;
        let soon = Timestamp(self.clock.now().0 + domain::ids::millis(RENEWED_BEFORE));
        if ends.is_some_and(|ends| ends <= soon) {
            let known = self.access();
            self.renew(&known).await;
        }
        bearer(&self.access())
    }

    /// The server refused this header: another one, if there is any.
    pub(super) async fn after_refusal(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let known = self.access();
        if bearer(&known).as_ref() == refused {
            self.renew(&known).await;
        }
        bearer(&self.access()).filter(|header| Some(header) != refused)
    }

    /// All that must not be echoed.
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

    /// Exchanges the refresh token, unless somebody else did so since `known` was read.
    async fn renew(&self, known: &SecretString) {
        let _renewing = self.renewing.lock().await;
        // A refresh token counts once: of several processes, only one may use it.
        let _alone = tokens::alone(&self.file).await;
        // Another process, or a new login, may have been first.
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
                    tracing::warn!(event = "mcp.login", mistake, "a renewed login cannot be kept");
                }
                *self.tokens.write() = renewed;
            }
            Err(mistake) => tracing::warn!(event = "mcp.login", mistake, "a login cannot be renewed"),
        }
    }
}

/// The scopes that a refusal names as missing (RFC 6750, 3.1), without what may not stand in one.
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
