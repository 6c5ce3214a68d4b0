//! The transport of one request to a model. Each failure is classified here, with the provider's message and retry
//! delay. A kept success is a JSON object without an error, or an assembled stream. Bodies are parsed only here: the
//! library above receives an empty body, so it cannot parse or log unknown content.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::timeout;

use crate::body::{Blanks, too_large, whole};
use crate::bounds::{ANSWER_BYTES, VALUES_MAX};
use crate::budget::{Budget, Reservation};
use crate::wire::{Answer, AnswerForm, Wire};
use crate::{provider_error, sse};
use http_client::{Failure, FailureKind, HttpClient, Outgoing, Response, Settings};
use ports::{DeltaSink, ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The timeout of opening a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The idle timeout of a connection, below that of common load balancers, so that requests rarely meet a closed
/// connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes read of an error body.
const ERROR_BYTES: usize = 64 * 1024;

/// The timeout of reading an error body; status and headers matter more than the message.
const ERROR_BODY_TIME: Duration = Duration::from_secs(2);

/// The longest error message, in characters.
const MESSAGE_CHARS: usize = 500;

/// The longest accepted retry delay.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The body given to the library.
const NOTHING: &str = "null";

/// The kind of connection to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TlsMode {
    /// Unencrypted, on this machine.
    HerePlain,
    /// Encrypted, on this machine.
    HereEncrypted,
    /// On another machine.
    Out,
}

/// Clients shared by rows with the same kind of connection, because each new client reads the system's certificates.
#[derive(Default)]
pub struct Clients {
    by_mode: HashMap<TlsMode, HttpClient>,
    /// Builds the library's requests; sends none.
    request_builder: Option<reqwest::Client>,
    /// The memory of all answers.
    budget: Budget,
}

impl TlsMode {
    fn client(self) -> Result<HttpClient, String> {
        HttpClient::new(Settings {
            user_agent: concat!("staffai/", env!("CARGO_PKG_VERSION")),
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            // Proxies of the environment apply only to other machines.
            proxied: self == Self::Out,
            encrypted: self != Self::HerePlain,
        })
        .map_err(|error| format!("cannot set up TLS: {error}"))
    }
}

impl Clients {
    fn request_builder(&mut self) -> Result<reqwest::Client, String> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err("no TLS provider is installed in this process".to_owned());
        }
        if let Some(request_builder) = &self.request_builder {
            return Ok(request_builder.clone());
        }
        let request_builder = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        let request_builder =
            request_builder.map_err(|error| format!("cannot set up the library: {}", error.without_url()))?;
        Ok(self.request_builder.insert(request_builder).clone())
    }

    fn client(&mut self, way: TlsMode) -> Result<HttpClient, String> {
        if let Some(client) = self.by_mode.get(&way) {
            return Ok(client.clone());
        }
        let client = way.client()?;
        self.by_mode.insert(way, client.clone());
        Ok(client)
    }
}

#[derive(Clone)]
pub struct Transport {
    client: HttpClient,
    request_builder: reqwest::Client,
    key: Option<Arc<SecretString>>,
    /// The memory of this endpoint's answers.
    budget: Budget,
}

impl Transport {
    /// Creates a transport for the endpoint at `base`. The key is only used to redact messages.
    ///
    /// # Errors
    /// The TLS library has no provider or no root certificates.
    pub fn new(base: &str, key: Option<SecretString>, clients: &mut Clients) -> Result<Self, String> {
        let way = if !is_here(base) {
            TlsMode::Out
        } else if base.starts_with("http://") {
            TlsMode::HerePlain
        } else {
            TlsMode::HereEncrypted
        };
        let (client, request_builder) = (clients.client(way)?, clients.request_builder()?);
        Ok(Self { client, request_builder, key: key.map(Arc::new), budget: clients.budget.of(base) })
    }

    /// Returns the builder of the library's requests.
    #[must_use]
    pub fn request_builder(&self) -> reqwest::Client {
        self.request_builder.clone()
    }

    pub(super) fn call(&self, wire: &Arc<dyn Wire>, heard: Option<DeltaSink>) -> Call {
        Call { transport: self.clone(), wire: Arc::clone(wire), heard, answer: Arc::default() }
    }

    /// Redacts the key in a message, in case a provider echoed it, and shortens the message to one line.
    fn clean(&self, mut error: ModelError) -> ModelError {
        let key = self.key.as_ref().map(|key| key.expose_secret()).filter(|key| !key.is_empty());
        for text in [&mut error.message, &mut error.safe_message] {
            if let Some(key) = key {
                *text = text.replace(key, "***");
            }
            *text = one_line(text);
        }
        error
    }
}

/// One call: sends the request, reads the answer and stores it. Clones are the same call.
#[derive(Clone)]
pub(super) struct Call {
    transport: Transport,
    wire: Arc<dyn Wire>,
    /// The sink of a streamed answer; `None` for a whole one.
    heard: Option<DeltaSink>,
    answer: Arc<Mutex<Option<Answer>>>,
}

impl Call {
    /// Takes the answer, if one arrived.
    pub fn answer(&self) -> Option<Answer> {
        self.answer.lock().take()
    }

    /// Posts a body and returns the answer of at most `most` values, with its memory.
    ///
    /// # Errors
    /// The classified failure.
    pub async fn post(
        &self,
        url: String,
        headers: HeaderMap,
        body: &Value,
        most: usize,
    ) -> Result<(Value, Reservation), ModelError> {
        let answer = async {
            let request =
                self.transport.request_builder.post(url).headers(headers).json(body).build().and_then(as_written);
            let request =
                request.map_err(|_| ModelError::new(ModelErrorKind::BadRequest, "the request cannot be built"))?;
            let mut held = self.transport.budget.begin();
            let body = body_of(self.executed(request).await?, &mut held).await?;
            Ok((whole(body, most, &mut held).await?, held))
        };
        answer.await.map_err(|error| self.transport.clean(error))
    }

    async fn exchange(&self, request: http::Request<Outgoing>) -> Result<Answer, ModelError> {
        let response = self.executed(request).await?;
        match &self.heard {
            None => {
                let mut held = self.transport.budget.begin();
                let body = body_of(response, &mut held).await?;
                Ok(Answer { form: AnswerForm::Json(whole(body, VALUES_MAX, &mut held).await?), held })
            }
            Some(heard) => {
                let source = response.map(|piece| piece.map_err(|failure| broken(&failure)));
                sse::read(source, &*self.wire, heard, &self.transport.budget).await
            }
        }
    }

    /// Returns a response with a success status.
    async fn executed(&self, request: http::Request<Outgoing>) -> Result<Response, ModelError> {
        let response = self.transport.client.send(request).await.map_err(|failure| broken(&failure))?;
        let status = response.status;
        if !status.is_success() {
            let retry_after = retry_after(&response.headers);
            return Err(refused(status, retry_after, &start_of(response).await));
        }
        Ok(response)
    }
}

impl tower::Service<HttpRequestFactory> for Call {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<reqwest::Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let call = self.clone();
        Box::pin(async move {
            let request = as_written(factory.build().await?)?;
            let answer = call.exchange(request).await;
            let answer = answer.map_err(|error| OpenAIError::Boxed(Box::new(call.transport.clean(error))))?;
            *call.answer.lock() = Some(answer);
            Ok(http::Response::new(reqwest::Body::from(NOTHING)).into())
        })
    }
}

/// Converts a request of the library without changing its body.
fn as_written(request: reqwest::Request) -> reqwest::Result<http::Request<Outgoing>> {
    let request = http::Request::<reqwest::Body>::try_from(request)?;
    Ok(request.map(|body| Outgoing::Foreign(Box::pin(LibraryBody(body)))))
}

/// A body of the library, with boxed errors.
struct LibraryBody(reqwest::Body);

impl hyper::body::Body for LibraryBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.0).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.0.size_hint()
    }
}

/// True if an address is always on this machine.
fn is_here(base: &str) -> bool {
    reqwest::Url::parse(base).is_ok_and(|url| url.host_str().is_some_and(domain::host::is_loopback))
}

/// Reads the whole body of a success. Stops as soon as it cannot be a completion.
async fn body_of(mut response: Response, held: &mut Reservation) -> Result<Vec<u8>, ModelError> {
    if response.length().is_some_and(|length| length > ANSWER_BYTES as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    let mut blanks = Blanks::default();
    while let Some(chunk) = response.chunk().await.map_err(|failure| broken(&failure))? {
        if body.len() + chunk.len() > ANSWER_BYTES {
            return Err(too_large());
        }
        blanks.check(&chunk)?;
        held.hold(body.len() + chunk.len()).await?;
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the beginning of an error body, as far as it arrived in time.
async fn start_of(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ERROR_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BYTES {
                break;
            }
        }
    };
    // On a timeout, the bytes read so far are kept.
    let _ = timeout(ERROR_BODY_TIME, read).await;
    body
}

/// Classifies a response with an error status.
fn refused(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> ModelError {
    let text = String::from_utf8_lossy(body);
    let kind = match status.as_u16() {
        403 if provider_error::kind_of_words(&text) == Some(ModelErrorKind::Filtered) => ModelErrorKind::Filtered,
        401 | 403 | 404 => ModelErrorKind::Refused,
        402 => ModelErrorKind::OutOfQuota,
        408 => ModelErrorKind::Timeout,
        429 if provider_error::kind_of_words(&text) == Some(ModelErrorKind::OutOfQuota) => ModelErrorKind::OutOfQuota,
        429 => ModelErrorKind::RateLimited,
        501 => ModelErrorKind::Unsupported,
        500.. => ModelErrorKind::Provider,
        400 | 413 | 422 => provider_error::kind_of_words(&text).unwrap_or(ModelErrorKind::BadRequest),
        _ => ModelErrorKind::BadRequest,
    };
    let what = format!("status {}", status.as_u16());
    let provider_error = serde_json::from_slice(body).ok().and_then(|value| provider_error::of_body(&value));
    let error = match provider_error {
        Some(provider_error) => provider_error::model_error(kind, &what, &provider_error),
        None if status.is_redirection() => ModelError::new(kind, format!("{what}: redirects are not followed")),
        None => ModelError { message: format!("{what}: {text}"), ..ModelError::new(kind, what) },
    };
    ModelError { retry_after, ..error }
}

/// Classifies a request without a complete response.
fn broken(failure: &Failure) -> ModelError {
    let (kind, what) = match failure.kind {
        FailureKind::Connect => (ModelErrorKind::Connection, "no connection"),
        FailureKind::TimedOut => (ModelErrorKind::Timeout, "no answer in time"),
        FailureKind::Broken => (ModelErrorKind::Connection, "the connection broke"),
    };
    let unreached = failure.kind == FailureKind::Connect;
    ModelError { unreached, ..ModelError::new(kind, format!("{what}: {}", failure.cause)) }
}

fn one_line(text: &str) -> String {
    let mut line = String::new();
    let words =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).filter(|word| !word.is_empty());
    for (count, letter) in words.flat_map(|word| std::iter::once(' ').chain(word.chars())).skip(1).enumerate() {
        if count == MESSAGE_CHARS {
            line.push('…');
            break;
        }
        line.push(letter);
    }
    line
}

/// Returns the provider's retry delay: seconds or a date, also under a proxy's name for an upstream header.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return bounded(millis / 1000.0);
    }
    ["retry-after", "llm_provider-retry-after"].into_iter().find_map(|name| {
        let value = text(name)?;
        if let Ok(seconds) = value.parse::<f64>() {
            return bounded(seconds);
        }
        // The server's date is relative to its own clock, so the local clock is not needed.
        let wait = http_date(value)? - http_date(text("date")?)?;
        u64::try_from(wait).ok().map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
    })
}

fn bounded(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(RETRY_AFTER_MAX.as_secs_f64())))
}

/// Returns seconds since the epoch.
fn http_date(text: &str) -> Option<i64> {
    Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_second())
}
