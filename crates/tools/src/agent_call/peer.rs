//! Client of one other server: submits a message to a session and reads the answer from the session's event stream.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use crate::client::ServiceClient;
use domain::api_key::KeyHash;
use domain::clean::{clean, tail};
use http_client::Events;
use ports::ProgressSink;
use ports::tools::Progress;

/// Maximum size of all streams of one call, in bytes.
const STREAM_MAX: usize = 8 * 1024 * 1024;
/// Maximum size of the response to a submitted message, in bytes.
const SUBMITTED_MAX: usize = 16 * 1024;
/// The number of times a stream is opened; it is resumed if it ends before the answer.
const STREAMS_MAX: u32 = 4;
/// The number of characters shown of a refusal, and of the draft.
const REFUSAL_CHARS: usize = 300;
const SHOWN_CHARS: usize = 160;

/// The configuration of one server.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name for models.
    pub name: String,
    /// Its address.
    pub url: Url,
    /// True if it is on this machine: no proxy is used.
    pub here: bool,
    /// The API key for it.
    pub key: SecretString,
    /// The description for models; may be empty.
    pub description: String,
    /// Timeout of one call.
    pub timeout: Duration,
}

/// One message to a server.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub session: &'a str,
    pub text: &'a str,
    /// The lineage and its signature.
    pub signed: &'a (String, String),
}

pub(super) struct Peer {
    row: Row,
    client: ServiceClient,
}

/// The response to a submitted message.
#[derive(Deserialize)]
struct Submitted {
    message: String,
}

/// The response to a health check.
#[derive(Deserialize)]
struct Health {
    #[serde(rename = "status")]
    _status: String,
}

/// The body of an error response.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

/// One event of a session; fields that its kind does not have are empty.
#[derive(Deserialize)]
struct Event {
    number: u64,
    #[serde(default)]
    turn: String,
    #[serde(rename = "event")]
    kind: Kind,
    #[serde(default)]
    text: String,
    #[serde(default)]
    anew: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Draft,
    Gate,
    Final,
    Apology,
    Done,
    #[serde(other)]
    Other,
}

/// The progress of reading an answer.
#[derive(Default)]
struct Read {
    /// The number of the last event.
    after: u64,
    bytes: usize,
    draft: String,
    answer: Option<Result<String, String>>,
}

impl Peer {
    pub fn new(row: Row) -> Self {
        Self { client: ServiceClient::of(&row.url, row.here), row }
    }

    pub fn name(&self) -> &str {
        &self.row.name
    }

    /// Returns the line about this server for the tool's description.
    pub fn about(&self) -> String {
        let Row { name, description, .. } = &self.row;
        if description.is_empty() { format!("- {name}") } else { format!("- {name}: {description}") }
    }

    pub fn timeout(&self) -> Duration {
        self.row.timeout
    }

    /// Returns the hash of the API key, by which the server identifies it.
    pub fn key(&self) -> KeyHash {
        KeyHash::of(self.row.key.expose_secret())
    }

    /// Sends the question and returns the answer, or the reason for its absence. Dropping the future cancels the turn
    /// at the server as soon as its stream is being read.
    pub async fn ask(&self, question: Question<'_>, progress: Option<ProgressSink>) -> Result<String, String> {
        let message = self.submit(question).await?;
        let mut read = Read::default();
        for _ in 0..STREAMS_MAX {
            if let Some(answer) = self.read_on(question.session, &message, &mut read, progress.as_ref()).await? {
                return answer;
            }
        }
        Err(format!("{} ended the conversation before it answered", self.row.name))
    }

    /// Checks that the server accepts the key.
    pub async fn health(&self) -> Result<(), String> {
        let response = self.send(self.client.get().await?.get(self.below("api/v1/health"))).await?;
        let body = self.bounded(response).await?;
        serde_json::from_slice::<Health>(&body).map(drop).map_err(|_| self.strange())
    }

    async fn submit(
        &self,
        Question { session, text, signed: (lineage, signature) }: Question<'_>,
    ) -> Result<String, String> {
        let body = json!({"session": session, "text": text});
        let request = self.client.get().await?.post(self.below("api/v1/submit")).json(&body);
        let request = request.header("x-staffai-lineage", lineage).header("x-staffai-signature", signature);
        let response = self.send(request).await?;
        let body = self.bounded(response).await?;
        let submitted = serde_json::from_slice(&body).map_err(|_| self.strange())?;
        let Submitted { message } = submitted;
        if message.is_empty() { Err(self.strange()) } else { Ok(message) }
    }

    /// Reads one stream. Returns `None` if it ended before the turn did.
    async fn read_on(
        &self,
        session: &str,
        message: &str,
        read: &mut Read,
        progress: Option<&ProgressSink>,
    ) -> Result<Option<Result<String, String>>, String> {
        let mut url = self.below(&format!("api/v1/stream/{session}"));
        url.query_pairs_mut().append_pair("after", &read.after.to_string()).append_pair("cancel_when_gone", "true");
        let mut stream = self.send(self.client.get().await?.get(url)).await?.bytes_stream();
        let mut events = Events::default();
        while let Some(piece) = stream.next().await {
            let Ok(piece) = piece else { return Ok(None) };
            read.bytes += piece.len();
            let data = events.feed(&piece).ok().filter(|_| read.bytes <= STREAM_MAX);
            for data in data.ok_or_else(|| format!("the answer of {} is too long", self.row.name))? {
                if let Ok(event) = serde_json::from_slice(&data)
                    && self.take(event, message, read, progress)
                {
                    let none = || Err(format!("{} cancelled it", self.row.name));
                    return Ok(Some(read.answer.take().unwrap_or_else(none)));
                }
            }
        }
        Ok(None)
    }

    /// Applies one event. Returns true if the turn is over.
    fn take(&self, event: Event, message: &str, read: &mut Read, progress: Option<&ProgressSink>) -> bool {
        read.after = event.number;
        if event.turn != message {
            return false;
        }
        let name = &self.row.name;
        match event.kind {
            Kind::Draft => {
                if event.anew {
                    read.draft.clear();
                }
                read.draft.push_str(&event.text);
                show(progress, format!("{name}: {}", tail(&read.draft, SHOWN_CHARS)));
            }
            Kind::Gate => show(progress, format!("{name}: …")),
            Kind::Final => read.answer = Some(Ok(event.text)),
            Kind::Apology => {
                let words = clean(&event.text, REFUSAL_CHARS);
                read.answer = Some(Err(format!("{name} has no answer: {words}")));
            }
            Kind::Done => return true,
            Kind::Other => {}
        }
        false
    }

    /// Sends a request with the API key. A refusal is returned in the server's words.
    async fn send(&self, request: RequestBuilder) -> Result<Response, String> {
        let name = &self.row.name;
        let sent = request.bearer_auth(self.row.key.expose_secret()).send().await;
        // The client's error contains the address, which the model must not see.
        let response = sent.map_err(|error| {
            let why = if error.is_connect() { "cannot be reached" } else { "did not answer" };
            format!("{name} {why} at present; answer without it, or say so")
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = self.bounded(response).await?;
        let detail = serde_json::from_slice(&body).map(|Problem { detail }| detail).unwrap_or_default();
        let detail = clean(&detail.replace(self.row.key.expose_secret(), "***"), REFUSAL_CHARS);
        Err(format!("{name} refused it with status {status}: {detail}"))
    }

    async fn bounded(&self, response: Response) -> Result<Vec<u8>, String> {
        let (mut body, mut stream) = (Vec::new(), response.bytes_stream());
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|_| self.strange())?;
            if body.len() + piece.len() > SUBMITTED_MAX {
                return Err(self.strange());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    fn strange(&self) -> String {
        format!("{} did not answer like a staffai server", self.row.name)
    }

    fn below(&self, path: &str) -> Url {
        let mut url = self.row.url.clone();
        let path = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }
}

fn show(progress: Option<&ProgressSink>, message: String) {
    if let Some(progress) = progress {
        progress(Progress { done: 0.0, total: None, message: Some(message) });
    }
}
