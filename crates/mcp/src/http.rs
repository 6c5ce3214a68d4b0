//! Requests to an HTTP server: with its own credentials, only to its own origin, bounded, and with classified failures.
//! rmcp's streamable HTTP transport sends its requests through this module.

mod events;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use reqwest::Url;
use reqwest::redirect::Policy;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::Sse;
use tokio::time::timeout;

pub(super) use self::events::Events;
use super::address::{address, is_here};
use super::exchange::{Exchanges, id_of, is_discovery, not_discoverable, of_discovery};
use super::failure::{Failure, one_line, place_of, root_cause};
use super::frame::{Frame, Framer};
use super::inquiry::ReplyPath;
use super::oauth::{Login, missing_scope};
use super::session::supported;
use super::stdio::decoded;
use ports::tools::Endpoint;

/// The timeout of opening a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of the request for protocol revisions; afterwards the server counts as one of the older generation.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(4);
/// The most redirects followed within the server's own origin.
const REDIRECTS_MAX: usize = 3;
/// The bounds of reading an error body, in bytes and time.
const ERROR_BYTES: usize = 8 * 1024;
const ERROR_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest accepted retry delay.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);
/// The least pause before a stream is reopened, regardless of the server's value.
const RETRY_LEAST_MS: u64 = 250;
/// The shortest redacted secret; a shorter one would match ordinary words.
const SECRET_LEAST: usize = 6;
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The connection to one server.
#[derive(Clone)]
pub(super) struct HttpClient(Arc<Inner>);

struct Inner {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    secrets: Vec<SecretString>,
    login: Option<Arc<Login>>,
    exchanges: Arc<Exchanges>,
    /// The session headers of the last message.
    session: Mutex<HeaderMap>,
}

/// The response to a message.
pub(super) enum Answer {
    /// No body, as expected.
    Accepted,
    Body(Vec<ServerJsonRpcMessage>),
    Stream(reqwest::Response),
}

impl HttpClient {
    /// Creates the client of this address.
    ///
    /// # Errors
    /// The address is invalid or not allowed, or TLS cannot be set up.
    pub(super) fn new(
        endpoint: &Endpoint,
        login: Option<Arc<Login>>,
        exchanges: Arc<Exchanges>,
    ) -> Result<Self, Failure> {
        let url = address(endpoint)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &endpoint.headers {
            let bad = |what: &str| Failure::Address(format!("the {what} of the header {name} cannot be sent"));
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| bad("value"))?;
            value.set_sensitive(true);
            headers.insert(parsed, value);
        }
        let here = is_here(&url);
        let own = url.clone();
        let redirects = Policy::custom(move |attempt| {
            let keeps_method =
                matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            let stays = attempt.url().origin() == own.origin() && attempt.previous().len() <= REDIRECTS_MAX;
            if keeps_method && stays { attempt.follow() } else { attempt.stop() }
        });
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(Failure::Unreachable("no TLS provider is installed in this process".to_owned()));
        }
        let builder = reqwest::Client::builder()
            .user_agent(concat!("staffai/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .redirect(redirects)
            .referer(false)
            .retry(reqwest::retry::never());
        // Proxies of the environment apply only to other machines; plain text needs no certificates.
        let builder = if here { builder.no_proxy() } else { builder };
        let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
        let client = builder.build().map_err(|error| Failure::Unreachable(root_cause(&error)))?;
        // A server may echo a key without its scheme.
        let whole = endpoint.headers.values().map(ExposeSecret::expose_secret);
        let secrets = whole.flat_map(|value| value.split(' ').chain([value])).map(SecretString::from).collect();
        Ok(Self(Arc::new(Inner { client, url, headers, secrets, login, exchanges, session: Mutex::default() })))
    }

    /// Sends a request with the credentials. If the server rejects the login, the request is sent once more with
    /// another token: it was not processed.
    async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<reqwest::Response> {
        let request = request.headers(self.0.headers.clone());
        let Some(login) = &self.0.login else { return request.send().await };
        let with = |request: reqwest::RequestBuilder, header: Option<HeaderValue>| match header {
            Some(header) => request.header(AUTHORIZATION, header),
            None => request,
        };
        let (header, again) = (login.header().await, request.try_clone());
        let response = with(request, header.clone()).send().await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match (again, login.after_refusal(header.as_ref()).await) {
            (Some(again), Some(other)) => with(again, Some(other)).send().await,
            _ => Ok(response),
        }
    }

    pub(super) fn url(&self) -> &Url {
        &self.0.url
    }

    /// Sends one message and reports a failure to the caller of its request.
    pub(super) async fn post(
        &self,
        url: Url,
        message: &ClientJsonRpcMessage,
        headers: HeaderMap,
    ) -> Result<(Answer, Option<String>), Failure> {
        self.0.exchanges.outgoing(message);
        let outcome = self.exchange(url, message, headers).await;
        if let Err(failure) = &outcome {
            self.0.exchanges.fail(id_of(message), failure);
        }
        outcome
    }

    /// Sends one message whose answer arrives over another path.
    pub(super) async fn deliver(&self, url: Url, message: &ClientJsonRpcMessage) -> Result<(), Failure> {
        self.0.exchanges.outgoing(message);
        let request = self.0.client.post(url).header(ACCEPT, BOTH).json(message);
        let failure = match self.send(request).await {
            Ok(response) if response.status().is_success() => return Ok(()),
            // The session is part of the address.
            Ok(response) => self.refused(response, true).await,
            Err(error) => unreachable(&error),
        };
        self.0.exchanges.fail(id_of(message), &failure);
        Err(failure)
    }

    async fn exchange(
        &self,
        url: Url,
        message: &ClientJsonRpcMessage,
        headers: HeaderMap,
    ) -> Result<(Answer, Option<String>), Failure> {
        let in_session = headers.contains_key(SESSION_ID);
        self.0.session.lock().clone_from(&headers);
        let request = self.0.client.post(url).headers(headers).header(ACCEPT, BOTH).json(message);
        let response = self.send(request).await.map_err(|error| unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response, in_session).await);
        }
        let session = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if let Some(own) = response.headers().get(SESSION_ID) {
            self.0.session.lock().insert(SESSION_ID, own.clone());
        }
        let Some(id) = id_of(message) else { return Ok((Answer::Accepted, session)) };
        match media_type(&response).as_str() {
            "text/event-stream" => Ok((Answer::Stream(response), session)),
            "application/json" => {
                let messages = self.body(response, id).await?;
                Ok((Answer::Body(messages), session))
            }
            _ if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                Ok((Answer::Accepted, session))
            }
            other => {
                Err(Failure::Malformed(format!("it answers with {}", if other.is_empty() { "nothing" } else { other })))
            }
        }
    }

    /// Sends a reply to a request of the server; its response is ignored.
    pub(super) async fn reply_to(&self, url: Url, headers: HeaderMap, message: Vec<u8>) {
        let request = self.0.client.post(url).headers(headers).header(ACCEPT, BOTH);
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(message);
        let _ = self.send(request).await;
    }

    pub(super) async fn open(&self, url: Url, headers: HeaderMap) -> Result<reqwest::Response, Failure> {
        let in_session = headers.contains_key(SESSION_ID);
        let request = self.0.client.get(url).headers(headers).header(ACCEPT, EVENT_STREAM);
        let response = self.send(request).await.map_err(|error| unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response, in_session).await);
        }
        match media_type(&response).as_str() {
            "text/event-stream" => Ok(response),
            other => Err(Failure::Malformed(format!("it answers with {other} instead of a stream of events"))),
        }
    }

    /// Reads the whole body of a response.
    async fn body(
        &self,
        mut response: reqwest::Response,
        id: &RequestId,
    ) -> Result<Vec<ServerJsonRpcMessage>, Failure> {
        let mut framer = Framer::default();
        while let Some(piece) =
            framer.next(response.chunk()).await.map_err(|error| Failure::Lost(root_cause(&error)))?
        {
            framer.prepare(piece.len(), &self.0.exchanges.room).await;
            framer.push(&piece);
        }
        let messages = decoded(&self.0.exchanges, framer.finish(), Some(id.clone()), self).await;
        if self.0.exchanges.waits(id) {
            return Err(Failure::Malformed("its answer violates the protocol".to_owned()));
        }
        Ok(messages)
    }

    /// Classifies a refused request.
    async fn refused(&self, mut response: reqwest::Response, in_session: bool) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let target = location.and_then(|location| response.url().join(location).ok());
            let target = target.as_ref().map(place_of);
            return Failure::Redirected(target.unwrap_or_else(|| "an invalid address".to_owned()));
        }
        if let Some(scope) = missing_scope(response.headers()).filter(|_| status == StatusCode::FORBIDDEN) {
            return Failure::Scope(scope);
        }
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let retry_after = retry_after.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(piece)) = response.chunk().await {
                body.extend_from_slice(&piece[..piece.len().min(ERROR_BYTES - body.len())]);
                if body.len() == ERROR_BYTES {
                    break;
                }
            }
        };
        // On a timeout, the status is more important than the body.
        let _ = timeout(ERROR_TIMEOUT, read).await;
        let words = String::from_utf8_lossy(&body);
        // Most servers send 404, as the protocol requires; some send 400, which only the text identifies.
        let lost = status == StatusCode::NOT_FOUND
            || (status == StatusCode::BAD_REQUEST && words.to_ascii_lowercase().contains("session"));
        if in_session && lost {
            return Failure::SessionLost;
        }
        if let Some(versions) = versions_in(&words) {
            return Failure::Versions(versions);
        }
        Failure::Status { status: status.as_u16(), retry_after, detail: self.clean(&words) }
    }

    /// Returns the beginning of foreign text, with echoed credentials redacted.
    fn clean(&self, words: &str) -> String {
        let mut words = words.to_owned();
        let login = self.0.login.as_ref().map(|login| login.secrets()).unwrap_or_default();
        for secret in self
            .0
            .secrets
            .iter()
            .chain(&login)
            .map(ExposeSecret::expose_secret)
            .filter(|secret| secret.len() >= SECRET_LEAST)
        {
            words = words.replace(secret, "***");
        }
        one_line(&words, super::failure::MESSAGE_MAX / 2)
    }

    /// Reads the events of a stream before rmcp sees them. `id` is the answered request; `discovers` marks the request
    /// for revisions.
    fn events(
        &self,
        response: reqwest::Response,
        id: Option<RequestId>,
        discovers: bool,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let state = (Events::new(response, Arc::clone(&self.0.exchanges)), self.clone(), id, Vec::<Sse>::new(), false);
        futures_util::stream::unfold(state, move |(mut events, client, id, mut ready, mut resumable)| async move {
            let exchanges = Arc::clone(&client.0.exchanges);
            loop {
                if exchanges.inquiries.is_shut() {
                    return None;
                }
                if let Some(event) = ready.pop() {
                    return Some((Ok(event), (events, client, id, ready, resumable)));
                }
                let Some(event) = events.next().await else {
                    if exchanges.inquiries.is_shut() {
                        return None;
                    }
                    // Without an event id, the rest of the answer cannot be resumed.
                    if let Some(id) = id.as_ref().filter(|id| !resumable && exchanges.waits(id)) {
                        exchanges.fail(Some(id), &Failure::Lost("its answer broke off".to_owned()));
                        let error = serde_json::json!({"code": -32_000, "message": "the answer broke off"});
                        let data = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                        let last = Sse { data: Some(data), ..Sse::default() };
                        return Some((Ok(last), (events, client, None, ready, resumable)));
                    }
                    return None;
                };
                resumable |= event.id.is_some();
                let (retry, mark) = (event.retry.map(|retry| retry.max(RETRY_LEAST_MS)), event.id);
                let messages = match event.data {
                    Some(frame) if event.name.is_none() => decoded(&exchanges, frame, id.clone(), &client).await,
                    _ => Vec::new(),
                };
                let of = |message| if discovers { of_discovery(message) } else { message };
                let messages: Vec<_> = messages.into_iter().map(of).collect();
                let datas = messages.iter().rev().filter_map(|message| serde_json::to_string(message).ok());
                ready.extend(datas.map(|data| Sse { data: Some(data), ..Sse::default() }));
                if retry.is_some() || mark.is_some() {
                    ready.push(Sse { id: mark, retry, ..Sse::default() });
                }
            }
        })
        .boxed()
    }
}

impl ReplyPath for HttpClient {
    async fn reply(&self, message: Vec<u8>) {
        let headers = self.0.session.lock().clone();
        self.reply_to(self.0.url.clone(), headers, message).await;
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = Failure;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Failure>> {
        let headers = headers(session_id.as_deref(), None, custom);
        let post = self.post(self.0.url.clone(), &message, headers);
        let outcome = match id_of(&message).filter(|_| is_discovery(&message)) {
            None => post.await,
            // Servers of the older generation reject this in many ways, including silence.
            Some(id) => match timeout(DISCOVER_TIMEOUT, post).await {
                Ok(Err(Failure::Status { status, .. })) if !matches!(status, 401 | 403 | 429) => {
                    return Ok(StreamableHttpPostResponse::Json(not_discoverable(id.clone()), None));
                }
                Ok(Err(Failure::Malformed(_))) | Err(_) => {
                    self.0.exchanges.forget(id);
                    return Ok(StreamableHttpPostResponse::Json(not_discoverable(id.clone()), None));
                }
                Ok(outcome) => outcome,
            },
        };
        match outcome {
            Ok((Answer::Accepted, _)) => Ok(StreamableHttpPostResponse::Accepted),
            Ok((Answer::Body(messages), session)) => {
                let answer = messages.into_iter().find(|message| {
                    matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
                });
                let answer = if is_discovery(&message) { answer.map(of_discovery) } else { answer };
                let nothing = || Failure::Malformed("its answer holds no result".to_owned());
                Ok(StreamableHttpPostResponse::Json(
                    answer.ok_or_else(nothing).map_err(StreamableHttpError::Client)?,
                    session,
                ))
            }
            Ok((Answer::Stream(response), session)) => {
                let events = self.events(response, id_of(&message).cloned(), is_discovery(&message));
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Err(Failure::SessionLost) => Err(StreamableHttpError::SessionExpired),
            Err(failure) => Err(StreamableHttpError::Client(failure)),
        }
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<Failure>> {
        let headers = headers(Some(&session_id), None, custom);
        let request = self.0.client.delete(self.0.url.clone()).headers(headers);
        // Many servers have no sessions, or none that can be ended; the failure is ignored.
        let _ = self.send(request).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Failure>> {
        let headers = headers(session_id.as_deref(), last_event_id.as_deref(), custom);
        match self.open(self.0.url.clone(), headers).await {
            Ok(response) => Ok(self.events(response, None, false)),
            // A retry would not help.
            Err(Failure::Status { status: 400..=499, .. } | Failure::SessionLost | Failure::Malformed(_)) => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            Err(failure) => Err(StreamableHttpError::Client(failure)),
        }
    }
}

fn headers(session: Option<&str>, last_event: Option<&str>, custom: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let mut headers: HeaderMap = custom.into_iter().collect();
    let own = [(SESSION_ID, session), (LAST_EVENT_ID, last_event)];
    for (name, value) in own {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

fn media_type(response: &reqwest::Response) -> String {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn unreachable(error: &reqwest::Error) -> Failure {
    if error.is_connect() || error.is_timeout() {
        return Failure::Unreachable(root_cause(error));
    }
    Failure::Lost(root_cause(error))
}

/// Returns the revisions named by a refusal, if it is about revisions.
fn versions_in(body: &str) -> Option<Vec<String>> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let error = body.get("error")?;
    let about = error.get("code")?.as_i64()? == i64::from(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION.0);
    about.then(|| supported(error.get("data")))
}
