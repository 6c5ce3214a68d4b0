//! Slack's Web API: one attempt for each call. The client never retries, follows redirects, contacts a host other than
//! the configured one, or reveals a token.
//!
//! Arguments are sent as a form, which every method accepts; structured ones are JSON in a field. Source:
//! `docs.slack.dev/apis/web-api`.

mod refusal;

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{Instant, timeout_at};

pub(super) use self::refusal::CallError;
use super::bounded::IN_PLACE_MAX;
use super::{Access, Account, BadAccess, address, ids};
use domain::outgoing::File;
use http_client::{Duplex, Failure, FailureKind, HttpClient, Outgoing, Response, Settings};
use ports::FetchError;

/// The timeout of a whole call.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The idle timeout of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest response that is read, in bytes. Thirty of the longest messages with all their blocks stay below it.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// The delay after a rate limit without a stated delay.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);
/// The longest accepted retry delay.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);
/// The addresses of files.
const FILES: &str = "https://files.slack.com/";
/// The addresses of private answers.
const RESPONSES: &str = "https://hooks.slack.com/";
const USER_AGENT: &str = concat!("staffai/", env!("CARGO_PKG_VERSION"));

/// The arguments of a call: name and value.
pub(super) type Arguments<'a> = Vec<(&'static str, std::borrow::Cow<'a, str>)>;

/// A method of the Web API.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// Its name, such as `chat.postMessage`.
    pub(super) name: &'static str,
    /// True if the app's token authorises it, not the bot's.
    pub(super) of_app: bool,
    /// True if a call without an answer may have changed something.
    pub(super) changes: bool,
}

impl Call {
    /// A method that only reads.
    pub(super) const fn reads(name: &'static str) -> Self {
        Self { name, of_app: false, changes: false }
    }

    /// A method that changes something.
    pub(super) const fn changes(name: &'static str) -> Self {
        Self { name, of_app: false, changes: true }
    }
}

pub(super) struct WebApi {
    client: HttpClient,
    /// The prefix of all addresses.
    base: String,
    bot: HeaderValue,
    app: HeaderValue,
}

impl WebApi {
    pub(super) fn new(access: &Access) -> Result<Self, BadAccess> {
        let base = address::api(&access.api_url)?;
        let encrypted = !(base.starts_with("http://") && address::is_local(&base));
        let client = HttpClient::new(Settings {
            user_agent: USER_AGENT,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            proxied: false,
            encrypted,
        })
        .map_err(BadAccess::Client)?;
        Ok(Self {
            client,
            base: format!("{base}/api"),
            bot: bearer(&access.bot_token, "SLACK_BOT_TOKEN")?,
            app: bearer(&access.app_token, "SLACK_APP_TOKEN")?,
        })
    }

    /// Performs one call and reads its result. A long one is parsed on another thread.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        call: Call,
        arguments: Arguments<'_>,
    ) -> Result<T, CallError> {
        let (_, body) = self.exchange(call, arguments).await?;
        if body.len() <= IN_PLACE_MAX {
            return read(call, &body);
        }
        let read = tokio::task::spawn_blocking(move || read(call, &body)).await;
        read.unwrap_or_else(|_| Err(unreadable(call)))
    }

    /// Returns the scopes of the bot's token; none if the service does not name them.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn scopes(&self) -> Result<Vec<String>, CallError> {
        let (headers, _) = self.exchange(Call::reads("auth.test"), Vec::new()).await?;
        let told = headers.get("x-oauth-scopes").and_then(|scopes| scopes.to_str().ok()).unwrap_or_default();
        Ok(told.split(',').map(|scope| scope.trim().to_owned()).filter(|scope| !scope.is_empty()).collect())
    }

    /// Performs one call; returns the headers and the body of an answer that Slack itself gave.
    async fn exchange(&self, call: Call, arguments: Arguments<'_>) -> Result<(HeaderMap, Vec<u8>), CallError> {
        let mut form = String::new();
        for (name, value) in &arguments {
            if !form.is_empty() {
                form.push('&');
            }
            form.push_str(name);
            form.push('=');
            form.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}/{}", self.base, call.name))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(AUTHORIZATION, if call.of_app { self.app.clone() } else { self.bot.clone() })
            .body(Outgoing::Whole(form.into()))
            .map_err(|error| CallError::unsent(error.to_string()))?;
        let until = Instant::now() + TIMEOUT;
        let lost = |failure: &Failure| lost(call, failure);
        let late = |_| CallError::lost(call, "slack did not answer in time: operation timed out".to_owned());
        let response = timeout_at(until, self.client.send(request)).await.map_err(late)?.map_err(|e| lost(&e))?;
        if response.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(CallError::Limited(retry_after(&response)));
        }
        let (status, headers) = (response.status, response.headers.clone());
        let body = timeout_at(until, whole(call, response)).await.map_err(late)??;
        if status.is_server_error() {
            return Err(CallError::lost(call, format!("slack answered {}", status.as_u16())));
        }
        // A proxy, not Slack, answers with another status and something that is not JSON.
        let is_json = || body.len() <= IN_PLACE_MAX && serde_json::from_slice::<IgnoredAny>(&body).is_ok();
        if !status.is_success() && !is_json() {
            return Err(CallError::Unexplained(format!("slack answered {}", status.as_u16())));
        }
        Ok((headers, body))
    }

    /// Returns the account of the bot's token.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn account(&self) -> Result<Account, CallError> {
        #[derive(Deserialize)]
        struct Told {
            user_id: String,
            team_id: String,
            #[serde(default)]
            bot_id: Option<String>,
            #[serde(default)]
            user: String,
            #[serde(default)]
            team: String,
        }
        let call = Call::reads("auth.test");
        let told: Told = self.call(call, Vec::new()).await?;
        if !ids::is_id(&told.user_id) || !ids::is_id(&told.team_id) {
            return Err(CallError::lost(call, "the answer of slack names no account".to_owned()));
        }
        Ok(Account { user: told.user_id, bot: told.bot_id, team: told.team_id, name: told.user, workspace: told.team })
    }

    /// Returns the address of a new socket. It can be used once, soon.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn open_socket(&self) -> Result<Uri, CallError> {
        #[derive(Deserialize)]
        struct Told {
            url: String,
        }
        let call = Call { name: "apps.connections.open", of_app: true, changes: false };
        let told: Told = self.call(call, Vec::new()).await?;
        address::socket(&told.url).map_err(|error| CallError::lost(call, error.to_string()))
    }

    /// Sends a private answer to the address that came with a pressed button.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn respond(&self, to: &str, body: &serde_json::Value) -> Result<(), CallError> {
        let call = Call::changes("response_url");
        if !self.permits(to, RESPONSES) {
            return Err(CallError::unsent("the address of the answer is none of slack".to_owned()));
        }
        let request = Request::post(to)
            .header(CONTENT_TYPE, "application/json")
            .body(Outgoing::Whole(body.to_string().into()))
            .map_err(|error| CallError::unsent(error.to_string()))?;
        self.sent(call, request).await
    }

    /// Sends a request to which the status is the whole answer.
    async fn sent(&self, call: Call, request: Request<Outgoing>) -> Result<(), CallError> {
        let late = |_| CallError::lost(call, "slack did not answer in time: operation timed out".to_owned());
        let response = timeout_at(Instant::now() + TIMEOUT, self.client.send(request)).await.map_err(late)?;
        let response = response.map_err(|failure| lost(call, &failure))?;
        match response.status {
            StatusCode::TOO_MANY_REQUESTS => Err(CallError::Limited(retry_after(&response))),
            status if status.is_success() => Ok(()),
            status if status.is_server_error() => {
                Err(CallError::lost(call, format!("slack answered {}", status.as_u16())))
            }
            status => Err(CallError::Unexplained(format!("slack answered {}", status.as_u16()))),
        }
    }

    /// Downloads a file of at most `most` bytes.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub(super) async fn download(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        if !self.permits(url, FILES) {
            return Err(FetchError::Foreign);
        }
        let request = Request::get(url).header(AUTHORIZATION, self.bot.clone()).body(Outgoing::EMPTY);
        let request = request.map_err(|_| FetchError::Foreign)?;
        let lost = |failure: Failure| FetchError::Lost(failure.cause);
        let read = async {
            let mut answer = self.client.send(request).await.map_err(lost)?;
            // Without the scope files:read, Slack redirects to a page for people.
            if answer.status != StatusCode::OK {
                return Err(FetchError::Gone(answer.status.as_u16()));
            }
            let mut bytes = Vec::new();
            while let Some(piece) = answer.chunk().await.map_err(lost)? {
                if bytes.len() + piece.len() > most {
                    return Err(FetchError::TooLong);
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        let late = |_| FetchError::Lost("operation timed out".to_owned());
        timeout_at(Instant::now() + TIMEOUT, read).await.map_err(late)?
    }

    /// Uploads the content of a file to the address that Slack named for it.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(super) async fn upload(&self, to: &str, file: &File) -> Result<(), CallError> {
        let call = Call::reads("upload");
        if !self.permits(to, FILES) {
            return Err(CallError::unsent("the address of the upload is none of slack".to_owned()));
        }
        let body = Bytes::copy_from_slice(&file.bytes);
        let request = Request::post(to).header(CONTENT_TYPE, "application/octet-stream");
        let request = request.body(Outgoing::Whole(body)).map_err(|error| CallError::unsent(error.to_string()))?;
        self.sent(call, request).await
    }

    /// True if an address is below the configured one or below this other one.
    fn permits(&self, url: &str, other: &str) -> bool {
        let origin = self.base.strip_suffix("/api").unwrap_or(&self.base);
        let is_own = url.strip_prefix(origin).is_some_and(|path| path.starts_with('/'));
        is_own || url.starts_with(other)
    }

    /// Opens the transport of a socket.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) async fn dial(&self, socket: &Uri) -> Result<Box<dyn Duplex>, Failure> {
        self.client.dial(socket).await
    }
}

/// Returns the result in a body.
fn read<T: DeserializeOwned>(call: Call, body: &[u8]) -> Result<T, CallError> {
    #[derive(Deserialize)]
    struct Head {
        ok: bool,
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        needed: Option<String>,
    }
    let head: Head = serde_json::from_slice(body).map_err(|_| unreadable(call))?;
    if !head.ok {
        return Err(CallError::refused(call, &head.error.unwrap_or_default(), head.needed.as_deref()));
    }
    serde_json::from_slice(body).map_err(|_| unreadable(call))
}

fn unreadable(call: Call) -> CallError {
    CallError::lost(call, "the answer of slack could not be read".to_owned())
}

async fn whole(call: Call, mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|failure| lost(call, &failure))? {
        if body.len() + chunk.len() > MAX_BODY {
            let lost = || CallError::lost(call, CallError::TooLarge.to_string());
            return Err(if call.changes { lost() } else { CallError::TooLarge });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn lost(call: Call, failure: &Failure) -> CallError {
    let cause: String = failure.cause.chars().take(200).collect();
    match failure.kind {
        FailureKind::Connect => CallError::unsent(format!("slack could not be reached: {cause}")),
        FailureKind::TimedOut | FailureKind::Broken => {
            CallError::lost(call, format!("the answer of slack was lost: {cause}"))
        }
    }
}

fn retry_after(response: &Response) -> Duration {
    let told = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    told.map_or(DEFAULT_RETRY_AFTER, Duration::from_secs).min(MAX_RETRY_AFTER)
}

fn bearer(token: &SecretString, name: &'static str) -> Result<HeaderValue, BadAccess> {
    let token = token.expose_secret().trim();
    let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| fits);
    let mut value = value.ok_or(BadAccess::Token(name))?;
    value.set_sensitive(true);
    Ok(value)
}
