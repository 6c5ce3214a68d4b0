//! Asks one configured model for one completion, streamed or in one piece, over the wire of its provider. One attempt; tools
//! are offered, never run.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use crate::account::Account;
use crate::chat::ChatCompletions;
use crate::embeddings;
use crate::http::{Clients, Transport};
use crate::registry::{Endpoint, Registry};
use crate::wire::{Model, Temperature, TokenLimit, Wire};
use domain::completion::{Completion, Request};
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::model::Row;
use ports::{Delta, DeltaSink, ModelError, ModelErrorKind, Models};

#[cfg(test)]
mod tests;

/// All configured models behind one port. Cheap to ask from many tasks at once.
pub struct Client {
    rows: Vec<Row>,
    clients_by_row: HashMap<String, ModelClient>,
    exact: bool,
}

/// How long a part of requests is left out after the provider refused it.
const LEFT_OUT_FOR: Duration = Duration::from_secs(600);

/// A part of a request that we can do without: the form of a reply is also in the prompt, and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionalFeature {
    Stream,
    Format,
    Temperature,
    /// The usual name of the limit of tokens; without it the limit has its other name.
    MaxTokens,
    /// Tools. Whoever asks has to write another request without them, so the refusal is told.
    Tools,
}

impl OptionalFeature {
    const ALL: [Self; 5] = [Self::Stream, Self::Format, Self::Temperature, Self::MaxTokens, Self::Tools];

    /// Words by which providers name it, in lower case; the first is its name in requests.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Stream => &["stream"],
            Self::Format => {
                &["response_format", "response format", "json_schema", "structured output", "json_validate"]
            }
            Self::Temperature => &["temperature"],
            Self::MaxTokens => &["max_tokens"],
            Self::Tools => &["tools", "tool_choice", "tool choice", "tool use", "tool call", "function call"],
        }
    }

    /// The provider refused the request because of this part.
    fn is_refused_by(self, error: &ModelError) -> bool {
        let about_us = match error.kind {
            ModelErrorKind::BadRequest | ModelErrorKind::Unsupported => true,
            // Some routers answer that there is no model (404) which takes them.
            ModelErrorKind::Refused => self == Self::Tools,
            _ => false,
        };
        let words = error.message.to_lowercase().replace("upstream", "");
        about_us && self.names().iter().any(|name| words.contains(name))
    }
}

/// Extras, each by its place.
type PerFeature<T> = [T; OptionalFeature::ALL.len()];

/// What it takes to ask the model of one row.
struct ModelClient {
    wire: &'static dyn Wire,
    transport: Transport,
    account: Account,
    /// The name that the provider knows the model by.
    model: String,
    row: Row,
    /// The provider refused these; until then they are left out.
    left_out_until: Mutex<PerFeature<Option<Instant>>>,
}

/// When the last piece of an answer arrived. What keeps a connection alive and says nothing is no piece.
struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    /// It begins now, and is noted of all that goes to this sink.
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
    /// A client for the rows of a registry. Sends nothing yet.
    ///
    /// # Errors
    /// TLS cannot be set up: no provider was installed, or the system has no root certificates.
    pub fn new(registry: Registry) -> Result<Self, String> {
        let (rows, mut endpoints) = registry.into_parts();
        let (mut clients_by_row, mut clients) = (HashMap::new(), Clients::default());
        for row in &rows {
            let Some(endpoint) = endpoints.remove(&row.key) else { continue };
            clients_by_row.insert(row.key.clone(), ModelClient::new(row, endpoint, &mut clients)?);
        }
        Ok(Self { rows, clients_by_row, exact: false })
    }

    /// The same, asking for all that requests say also where a provider refuses a part of it, so that a check learns of it.
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

    fn takes_tools(&self, row: &str) -> bool {
        let refused = |client: &ModelClient| client.left_out()[OptionalFeature::Tools as usize];
        !self.clients_by_row.get(row).is_some_and(refused)
    }

    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError> {
        let client = self.client(row)?;
        if self.exact {
            return client.within_timeout(client.ask(request, None, PerFeature::default())).await;
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
        // Every provider of `models.json` speaks this wire.
        let wire = &ChatCompletions;
        Ok(Self { wire, transport, account, model: endpoint.model, row: row.clone(), left_out_until })
    }

    async fn within_timeout<T>(&self, asking: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
        let late = || format!("no whole answer within {} s", self.row.timeout.as_secs_f64());
        timeout(self.row.timeout, asking).await.map_err(|_| ModelError::new(ModelErrorKind::Timeout, late()))?
    }

    /// The same for what arrives in pieces: the row's timeout bounds the wait for the first piece, and each silence behind it.
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
                let late = format!("nothing came for {} s", self.row.timeout.as_secs_f64());
                return Err(ModelError::new(ModelErrorKind::Timeout, late));
            }
        }
    }

    /// What is left out for now.
    fn left_out(&self) -> PerFeature<bool> {
        let now = Instant::now();
        self.left_out_until.lock().map(|until| until.is_some_and(|until| now < until))
    }

    /// Asks, for a stream where there is a sink for it and the model can. A refusal of what we can do without costs nothing and is no
    /// failure of the model, so the same attempt goes on without it, and so do the next ones if that helped.
    async fn ask_for_what_it_takes(
        &self,
        request: &Request,
        heard: Option<DeltaSink>,
    ) -> Result<Completion, ModelError> {
        let mut without = self.left_out();
        without[OptionalFeature::Stream as usize] |= heard.is_none() || !self.row.stream;
        let mut refusals: Vec<(OptionalFeature, ModelError)> = Vec::new();
        loop {
            let heard = heard.clone().filter(|_| !without[OptionalFeature::Stream as usize]);
            let error = match self.ask(request, heard, without).await {
                Ok(completion) => {
                    for (extra, refusal) in refusals {
                        self.leave_out(extra, &refusal);
                    }
                    return Ok(completion);
                }
                Err(error) => error,
            };
            let refused = |extra: &OptionalFeature| {
                let sent = match extra {
                    OptionalFeature::MaxTokens => self.max_tokens(request).is_some(),
                    OptionalFeature::Tools => !request.tools.is_empty(),
                    OptionalFeature::Stream | OptionalFeature::Format | OptionalFeature::Temperature => true,
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
            event = "llm.plain",
            model = self.model,
            without,
            reason,
            text,
            "a part of requests is left out for a while"
        );
        self.left_out_until.lock()[extra as usize] = Some(Instant::now() + LEFT_OUT_FOR);
    }

    async fn ask(
        &self,
        request: &Request,
        heard: Option<DeltaSink>,
        without: PerFeature<bool>,
    ) -> Result<Completion, ModelError> {
        let stream = heard.is_some();
        let call = self.transport.call(self.wire, heard);
        let openai = async_openai::Client::build(self.transport.request_builder(), self.account.clone())
            .with_http_service(call.clone());
        self.wire.post(&openai, &self.model(request, without), request, stream).await.map_err(named)?;
        let unread = || ModelError::new(ModelErrorKind::Malformed, "the answer was not read");
        let answer = call.answer().ok_or_else(unread)?;
        answer.read(self.wire, &|| request.chars(self.row.vision))
    }

    async fn embed(&self, request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
        let none = || ModelError::new(ModelErrorKind::Unsupported, "this row has no embedding model");
        let model = self.row.embeddings.as_deref().ok_or_else(none)?;
        let call = self.transport.call(self.wire, None);
        let (url, headers) = (self.account.url("/embeddings"), self.account.headers());
        let answer = call.post(url, headers, &embeddings::body(model, request)).await?;
        embeddings::read(&answer, request)
    }

    /// The lower one of the row's limit of tokens and the request's own.
    fn max_tokens(&self, request: &Request) -> Option<u32> {
        self.row.max_tokens.into_iter().chain(request.sampling.max_tokens).min()
    }

    /// The model as a request sees it.
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
            takes_form: has(OptionalFeature::Format),
            sees: self.row.vision,
            max_tokens: self.max_tokens(request).map(limit),
            cache_marks: self.row.cache_control,
        }
    }
}

// === What went wrong ===

/// The failure that the transport named, or one of the few that the library finds by itself. Its own texts are not used:
/// they may hold a whole body.
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
