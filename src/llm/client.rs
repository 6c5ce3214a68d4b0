//! Asks one configured model for one completion. One attempt, no streaming, no tools.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_trait::async_trait;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::domain::completion::{Completion, Item, Request};
use crate::domain::model::Row;
use crate::llm::http::Transport;
use crate::llm::registry::{Endpoint, Registry};
use crate::llm::wire;
use crate::ports::{ModelError, ModelErrorKind, Models};

#[cfg(test)]
mod tests;

/// All configured models behind one port. Cheap to ask from many tasks at once.
pub struct Client {
    rows: Vec<Row>,
    lines: HashMap<String, Line>,
}

/// What it takes to ask the model of one row.
struct Line {
    openai: async_openai::Client<Account>,
    model: String,
    temperature: Option<f64>,
    timeout: Duration,
}

impl Client {
    /// A client for the rows of a registry. Contacts nobody.
    ///
    /// # Errors
    /// TLS cannot be set up: no provider was installed, or the system has no root certificates.
    pub fn new(registry: Registry) -> Result<Self, String> {
        let (rows, mut endpoints) = registry.into_parts();
        let mut lines = HashMap::new();
        for row in &rows {
            let Some(endpoint) = endpoints.remove(&row.key) else { continue };
            lines.insert(row.key.clone(), Line::new(row, endpoint)?);
        }
        Ok(Self { rows, lines })
    }
}

#[async_trait]
impl Models for Client {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    async fn complete(&self, row: &str, request: &Request) -> Result<Completion, ModelError> {
        let line = self
            .lines
            .get(row)
            .ok_or_else(|| failure(ModelErrorKind::BadRequest, format!("no model row is named {row}")))?;
        let chat = line.openai.chat();
        let answer = timeout(line.timeout, chat.create_byot::<_, Value>(line.body(request)))
            .await
            .map_err(|_| {
                failure(ModelErrorKind::Timeout, format!("no whole answer within {} s", line.timeout.as_secs_f64()))
            })?
            .map_err(named)?;
        wire::read(answer, prompt_chars(request))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Line {
    fn new(row: &Row, endpoint: Endpoint) -> Result<Self, String> {
        let transport = Transport::new(&endpoint.base, endpoint.key.clone())?;
        let account = Account::new(endpoint.base, endpoint.key)?;
        let openai = async_openai::Client::build(transport.client(), account).with_http_service(transport);
        Ok(Self { openai, model: endpoint.model, temperature: row.temperature, timeout: row.timeout })
    }

    fn body<'a>(&'a self, request: &'a Request) -> Body<'a> {
        Body {
            model: &self.model,
            messages: request.messages.iter().map(Message::of).collect(),
            temperature: self.temperature,
            response_format: request.response_format.as_deref(),
        }
    }
}

// === What is sent ===

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    AsItCame(&'a Value),
    Ours { role: &'static str, content: &'a str },
}

impl<'a> Message<'a> {
    fn of(item: &'a Item) -> Self {
        match &item.raw {
            Some(raw) => Self::AsItCame(raw),
            None => Self::Ours { role: item.role.as_str(), content: &item.content },
        }
    }
}

/// Roughly how much text is sent, for an estimate of its tokens.
fn prompt_chars(request: &Request) -> usize {
    let items = request.messages.iter().map(|item| match &item.raw {
        Some(raw) => raw.to_string().chars().count(),
        None => item.content.chars().count(),
    });
    let format = request.response_format.as_ref().map_or(0, |format| format.to_string().chars().count());
    items.sum::<usize>() + format
}

// === Where it is sent ===

/// An endpoint as the library wants it. Its own configuration types would read the environment.
struct Account {
    base: String,
    key: SecretString,
    headers: HeaderMap,
}

impl Account {
    fn new(base: String, key: Option<SecretString>) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
                .map_err(|_| "the key has characters that no header can carry".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self { base, key: key.unwrap_or_default(), headers })
    }
}

impl Config for Account {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

// === What went wrong ===

/// The failure that the transport named, or one of the few that the library finds by itself. Its own texts are not used:
/// they may hold a whole body.
fn named(error: OpenAIError) -> ModelError {
    match error {
        OpenAIError::Boxed(inside) => match inside.downcast::<ModelError>() {
            Ok(error) => *error,
            Err(_) => failure(ModelErrorKind::Connection, "the request failed".to_owned()),
        },
        OpenAIError::JSONDeserialize(..) => {
            failure(ModelErrorKind::Malformed, "the answer is not usable JSON".to_owned())
        }
        _ => failure(ModelErrorKind::BadRequest, "the request cannot be built".to_owned()),
    }
}

fn failure(kind: ModelErrorKind, message: String) -> ModelError {
    ModelError { kind, message, retry_after: None }
}
