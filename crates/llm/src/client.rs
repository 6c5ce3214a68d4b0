//! Requests one completion, streamed or whole, from one configured model over the wire of its provider. One attempt;
//! tools are offered but not run.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use crate::account::Account;
use crate::embeddings;
use crate::hosting::{self, HostedTools, Hosting};
use crate::http::{Clients, Transport};
use crate::registry::{Endpoint, Registry};
use crate::row_wire::RowWire;
use crate::wire::{Model, Temperature, TokenLimit};
use domain::completion::{Accepts, Completion, Request};
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::model::Row;
use ports::tools::ServerEntry;
use ports::{Delta, DeltaSink, ModelError, ModelErrorKind, Models};
use telemetry::events::LLM_PLAIN;

#[cfg(test)]
mod tests;

/// All configured models behind one port. Many tasks can use it concurrently at low cost.
pub struct Client {
    rows: Vec<Row>,
    clients_by_row: HashMap<String, ModelClient>,
    /// The provider of each row.
    providers: HashMap<String, String>,
    exact: bool,
}

/// The time for which a part of requests is omitted after the provider refused it.
const LEFT_OUT_FOR: Duration = Duration::from_secs(600);

/// An optional part of a request. The format of the reply is optional because the prompt also describes it and the
/// reply is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionalFeature {
    Stream,
    Format,
    Temperature,
    /// The usual name of the token limit; without it, the limit is sent under its other name.
    MaxTokens,
    /// Reasoning in a form that can be sent back.
    Reasoning,
    /// Files that the model reads itself; without them, it gets their text.
    Files,
    /// Tools. Their refusal is returned, because the caller must write another request without them.
    Tools,
}

impl OptionalFeature {
    const ALL: [Self; 7] =
        [Self::Stream, Self::Format, Self::Temperature, Self::MaxTokens, Self::Reasoning, Self::Files, Self::Tools];

    /// Words by which providers name it, in lower case; the first is its name in requests.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Stream => &["stream"],
            Self::Format => &[
                "response_format",
                "response format",
                "text.format",
                "json_schema",
                "structured output",
                "json_validate",
            ],
            Self::Temperature => &["temperature"],
            Self::MaxTokens => &["max_tokens"],
            Self::Reasoning => &["reasoning.encrypted_content", "encrypted content", "encrypted_content", "'include'"],
            // A refusal of one file, such as a damaged one, is none of all files.
            Self::Files => &[
                "'file'",
                "\"file\"",
                "`file`",
                "input_file",
                "file_data",
                "type file",
                "file input",
                "file content",
                "support file",
                "support pdf",
                "application/pdf",
            ],
            Self::Tools => &["tools", "tool_choice", "tool choice", "tool use", "tool call", "function call"],
        }
    }

    /// True if the provider refused the request because of this part.
    fn is_refused_by(self, error: &ModelError) -> bool {
        let about_us = match error.kind {
            ModelErrorKind::BadRequest | ModelErrorKind::Unsupported => true,
            // Some routers answer that no model (404) supports tools.
            ModelErrorKind::Refused => self == Self::Tools,
            _ => false,
        };
        let words = error.message.to_lowercase().replace("upstream", "");
        // It speaks of the arguments that the model wrote, not of the feature.
        let about_us = about_us && !words.contains("tool call validation failed");
        about_us && self.names().iter().any(|name| words.contains(name))
    }
}

/// One value for each optional part.
type PerFeature<T> = [T; OptionalFeature::ALL.len()];

/// The client of one row.
struct ModelClient {
    wire: RowWire,
    transport: Transport,
    account: Account,
    /// The provider's name of the model.
    model: String,
    row: Row,
    hosted: HostedTools,
    /// The time until which each refused part is omitted.
    left_out_until: Mutex<PerFeature<Option<Instant>>>,
}

/// The arrival time of the last piece of an answer. Keep-alive bytes are not pieces.
struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    /// Starts the clock now; each delta to the returned sink resets it.
    fn of(heard: DeltaSink) -> (Self, DeltaSink) {
        let last = Arc::new(Mutex::new(Instant::now()));
        let noted = Arc::clone(&last);
        let heard: DeltaSink = Arc::new(move |delta: Delta<'_>| {
            *noted.lock() = Instant::now();
            heard(delta);
        });
        (Self(last), heard)
    }

    fn last(&self) -> Instant {
        *self.0.lock()
    }
}

impl Client {
    /// Creates a client for the rows of a registry. Sends nothing yet.
    ///
    /// # Errors
    /// TLS cannot be set up: no provider is installed, or the system has no root certificates.
    pub fn new(registry: Registry) -> Result<Self, String> {
        let providers = registry.providers();
        let (rows, mut endpoints) = registry.into_parts();
        let (mut clients_by_row, mut clients) = (HashMap::new(), Clients::default());
        for row in &rows {
            let Some(endpoint) = endpoints.remove(&row.key) else { continue };
            clients_by_row.insert(row.key.clone(), ModelClient::new(row, endpoint, &mut clients)?);
        }
        Ok(Self { rows, clients_by_row, providers, exact: false })
    }

    /// Sets the tool servers that providers may connect to.
    #[must_use]
    pub fn with_servers(mut self, entries: &[ServerEntry]) -> Self {
        let servers = Arc::new(hosting::hostable(entries));
        for client in self.clients_by_row.values_mut() {
            client.hosted = HostedTools::new(Arc::clone(&servers));
        }
        self
    }

    /// Sends all parts of requests even if a provider refused one, so that a check reports the refusal.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { exact: true, ..self }
    }
}

#[async_trait]
impl Models for Client {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn provider<'a>(&'a self, row: &'a str) -> &'a str {
        self.providers.get(row).map_or(row, String::as_str)
    }

    fn takes_tools(&self, row: &str) -> bool {
        let refused = |client: &ModelClient| client.left_out()[OptionalFeature::Tools as usize];
        !self.clients_by_row.get(row).is_some_and(refused)
    }

    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError> {
        let client = self.client(row)?;
        if self.exact {
            let hosting = client.hosted.of(request);
            return client.within_timeout(client.ask(request, None, PerFeature::default(), &hosting)).await;
        }
        client.within_timeout(client.ask_for_what_it_takes(request, None)).await
    }

    async fn stream(&self, row: &str, request: &Request, heard: DeltaSink) -> Result<Completion, ModelError> {
        let client = self.client(row)?;
        let (progress, heard) = Progress::of(heard);
        client.while_it_writes(&progress, client.ask_for_what_it_takes(request, Some(heard))).await
    }

    async fn embed(&self, row: &str, request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
        let client = self.client(row)?;
        client.within_timeout(client.embed(request)).await
    }
}

impl Client {
    fn client(&self, row: &str) -> Result<&ModelClient, ModelError> {
        let unknown = || ModelError::new(ModelErrorKind::BadRequest, format!("no model row is named {row}"));
        self.clients_by_row.get(row).ok_or_else(unknown)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl ModelClient {
    fn new(row: &Row, endpoint: Endpoint, clients: &mut Clients) -> Result<Self, String> {
        let transport = Transport::new(&endpoint.base, endpoint.key.clone(), clients)?;
        let account = Account::new(endpoint.base, endpoint.key)?;
        let left_out_until = Mutex::default();
        let wire = endpoint.wire;
        let hosted = HostedTools::default();
        Ok(Self { wire, transport, account, model: endpoint.model, row: row.clone(), hosted, left_out_until })
    }

    async fn within_timeout<T>(&self, asking: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
        let late = || format!("no complete answer within {} s", self.row.timeout.as_secs_f64());
        timeout(self.row.timeout, asking).await.map_err(|_| ModelError::new(ModelErrorKind::Timeout, late()))?
    }

    /// Applies the row's timeout to the wait for the first piece and to each pause between pieces.
    async fn while_it_writes<T>(
        &self,
        progress: &Progress,
        asking: impl Future<Output = Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        let mut asking = pin!(asking);
        loop {
            let due = progress.last() + self.row.timeout;
            if let Ok(done) = timeout_at(due, &mut asking).await {
                return done;
            }
            if progress.last() + self.row.timeout <= due {
                let late = format!("no data for {} s", self.row.timeout.as_secs_f64());
                return Err(ModelError::new(ModelErrorKind::Timeout, late));
            }
        }
    }

    /// Returns the parts that are omitted now.
    fn left_out(&self) -> PerFeature<bool> {
        let now = Instant::now();
        self.left_out_until.lock().map(|until| until.is_some_and(|until| now < until))
    }

    /// Requests an answer, streamed if there is a sink and the model supports it. A refusal of an optional part costs
    /// nothing and is not a failure of the model: the same attempt continues without it. If that succeeds, later
    /// attempts omit it too.
    async fn ask_for_what_it_takes(
        &self,
        request: &Request,
        heard: Option<DeltaSink>,
    ) -> Result<Completion, ModelError> {
        let mut without = self.left_out();
        without[OptionalFeature::Stream as usize] |= heard.is_none() || !self.row.stream;
        let mut refusals: Vec<(OptionalFeature, ModelError)> = Vec::new();
        let was_read = Arc::new(AtomicBool::new(false));
        let heard = heard.map(|heard| noting(heard, Arc::clone(&was_read)));
        loop {
            let heard = heard.clone().filter(|_| !without[OptionalFeature::Stream as usize]);
            let hosting = self.hosted.of(request);
            let error = match self.ask(request, heard, without, &hosting).await {
                Ok(completion) => {
                    for (extra, refusal) in refusals {
                        self.leave_out(extra, &refusal);
                    }
                    return Ok(completion);
                }
                Err(error) => error,
            };
            let failed = hosting.failed(&error);
            if !failed.is_empty() {
                // The functions in its place are offered next, unless members have read a part of this answer.
                self.hosted.leave_out(&self.model, failed, &error);
                if was_read.load(Ordering::Relaxed) {
                    return Err(error);
                }
                continue;
            }
            let refused = |extra: &OptionalFeature| {
                let sent = match extra {
                    OptionalFeature::MaxTokens => self.max_tokens(request).is_some(),
                    OptionalFeature::Tools => !request.tools.is_empty(),
                    OptionalFeature::Format => request.form.is_some(),
                    OptionalFeature::Reasoning => self.wire == RowWire::Responses && !request.tools.is_empty(),
                    OptionalFeature::Files => {
                        self.row.pdf && request.messages.iter().any(|item| !item.files.is_empty())
                    }
                    OptionalFeature::Stream | OptionalFeature::Temperature => true,
                };
                sent && !without[*extra as usize] && extra.is_refused_by(&error)
            };
            let Some(extra) = OptionalFeature::ALL.into_iter().find(refused) else { return Err(error) };
            if extra == OptionalFeature::Tools {
                self.leave_out(extra, &error);
                return Err(ModelError { kind: ModelErrorKind::ToolsRefused, ..error });
            }
            without[extra as usize] = true;
            refusals.push((extra, error));
        }
    }

    fn leave_out(&self, extra: OptionalFeature, refusal: &ModelError) {
        let (without, reason, text) = (extra.names()[0], &refusal.safe_message, refusal.quoted());
        tracing::warn!(
            event = LLM_PLAIN,
            model = self.model,
            without,
            reason,
            text,
            "the provider refused a part of requests; it is omitted temporarily"
        );
        self.left_out_until.lock()[extra as usize] = Some(Instant::now() + LEFT_OUT_FOR);
    }

    async fn ask(
        &self,
        request: &Request,
        heard: Option<DeltaSink>,
        without: PerFeature<bool>,
        hosting: &Hosting<'_>,
    ) -> Result<Completion, ModelError> {
        let stream = heard.is_some();
        let wire = self.wire.implementation(request.answer_function);
        let call = self.transport.call(&wire, heard);
        let openai = async_openai::Client::build(self.transport.request_builder(), self.account.clone())
            .with_http_service(call.clone());
        let model = Model { hosting: Some(hosting), ..self.model(request, without) };
        wire.post(&openai, &model, request, stream).await.map_err(named)?;
        let unread = || ModelError::new(ModelErrorKind::Malformed, "the answer was not read");
        let answer = call.answer().ok_or_else(unread)?;
        let mut completion = answer.read(&*wire, &|| request.chars(self.row.accepts()))?;
        completion.hosted.name_only(&request.hosted);
        Ok(completion)
    }

    async fn embed(&self, request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
        let none = || ModelError::new(ModelErrorKind::Unsupported, "this row has no embedding model");
        let model = self.row.embeddings.as_deref().ok_or_else(none)?;
        let call = self.transport.call(&self.wire.implementation(false), None);
        let (url, headers) = (self.account.url("/embeddings"), self.account.headers());
        let most = embeddings::values_max(request);
        let (answer, _held) = call.post(url, headers, &embeddings::body(model, request), most).await?;
        embeddings::read(&answer, request)
    }

    /// Returns the lower of the row's and the request's token limit.
    fn max_tokens(&self, request: &Request) -> Option<u32> {
        self.row.max_tokens.into_iter().chain(request.sampling.max_tokens).min()
    }

    /// Returns the model's properties for this request.
    fn model(&self, request: &Request, without: PerFeature<bool>) -> Model<'_> {
        let has = |feature: OptionalFeature| !without[feature as usize];
        let limit =
            if has(OptionalFeature::MaxTokens) { TokenLimit::MaxTokens } else { TokenLimit::MaxCompletionTokens };
        Model {
            name: &self.model,
            temperature: if self.row.fixed_temperature || !has(OptionalFeature::Temperature) {
                Temperature::Fixed
            } else {
                Temperature::Usual(self.row.temperature)
            },
            effort: request.sampling.reasoning_effort.filter(|_| self.row.reasoning_effort),
            takes_form: has(OptionalFeature::Format),
            accepts: Accepts { pdf: self.row.pdf && has(OptionalFeature::Files), ..self.row.accepts() },
            keeps_reasoning: has(OptionalFeature::Reasoning),
            hosting: None,
            max_tokens: self.max_tokens(request).map(limit),
        }
    }
}

/// Notes whether text of an answer was passed on.
fn noting(heard: DeltaSink, was_read: Arc<AtomicBool>) -> DeltaSink {
    Arc::new(move |delta: Delta<'_>| {
        if matches!(delta, Delta::Text(_)) {
            was_read.store(true, Ordering::Relaxed);
        }
        heard(delta);
    })
}

// === Errors ===

/// Returns the error of the transport, or of the few cases that the library detects itself. The library's messages are
/// not used, because they may contain a whole body.
fn named(error: OpenAIError) -> ModelError {
    match error {
        OpenAIError::Boxed(inside) => match inside.downcast::<ModelError>() {
            Ok(error) => *error,
            Err(_) => ModelError::new(ModelErrorKind::Connection, "the request failed"),
        },
        OpenAIError::JSONDeserialize(..) => ModelError::new(ModelErrorKind::Malformed, "the answer is not usable JSON"),
        _ => ModelError::new(ModelErrorKind::BadRequest, "the request cannot be built"),
    }
}
