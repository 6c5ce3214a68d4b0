//! Requests to the Drive API.

use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::credentials::{Credentials, Token};
use super::file::{FIELDS, File};
use crate::client::{ServiceClient, parsed, reason};
use domain::clean::clean;
use domain::json_values::Unparsed;
use ports::Clock;

/// Maximum size of a description, in bytes.
const ANSWER_BYTES: usize = 1024 * 1024;
/// The number of characters shown of a refusal.
const REFUSAL_CHARS: usize = 300;

/// A request without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The reason, for the model.
    pub message: String,
    /// True if a change may have taken effect.
    pub lost: bool,
}

impl Failure {
    pub(super) fn told(message: impl Into<String>) -> Self {
        Self { message: message.into(), lost: false }
    }
}

/// A response's body.
pub(super) struct Body {
    pub bytes: Vec<u8>,
    /// False if its end is cut.
    pub is_whole: bool,
}

pub(super) struct Api {
    url: Url,
    token: Token,
    client: ServiceClient,
}

impl Api {
    pub(super) fn new(mut url: Url, here: bool, credentials: Credentials, clock: Arc<dyn Clock>) -> Self {
        // Paths are joined below the address.
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Self { client: ServiceClient::of(&url, here), url, token: Token::new(credentials, clock) }
    }

    pub(super) async fn list(&self, query: &str, count: u32) -> Result<Vec<File>, Failure> {
        #[derive(Deserialize)]
        struct Listed {
            #[serde(default)]
            files: Vec<File>,
        }
        let (count, fields) = (count.to_string(), format!("files({FIELDS})"));
        let parameters = [
            ("q", query),
            ("pageSize", &count),
            ("fields", &fields),
            ("supportsAllDrives", "true"),
            ("includeItemsFromAllDrives", "true"),
        ];
        let listed: Listed = self.json(Method::GET, "drive/v3/files", &parameters, |request| request).await?;
        Ok(listed.files)
    }

    pub(super) async fn file(&self, id: &str) -> Result<File, Failure> {
        self.json(Method::GET, &format!("drive/v3/files/{id}"), &described(), |request| request).await
    }

    /// Returns up to `bytes` bytes of a file's content.
    pub(super) async fn content(&self, id: &str, bytes: usize) -> Result<Body, Failure> {
        let parameters = [("alt", "media"), ("supportsAllDrives", "true")];
        let response = self.send(Method::GET, &format!("drive/v3/files/{id}"), &parameters, |request| request).await?;
        body(response, bytes).await
    }

    /// Returns up to `bytes` bytes of a document of Drive's own, converted to a media type.
    pub(super) async fn export(&self, id: &str, kind: &str, bytes: usize) -> Result<Body, Failure> {
        let path = format!("drive/v3/files/{id}/export");
        let response = self.send(Method::GET, &path, &[("mimeType", kind)], |request| request).await?;
        body(response, bytes).await
    }

    pub(super) async fn create(&self, name: &str, folder: Option<&str>, text: &str) -> Result<File, Failure> {
        let described = json!({"name": name, "mimeType": "text/plain", "parents": folder.map(|folder| [folder])});
        let boundary = boundary(text);
        let content = format!(
            "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{described}\r\n\
             --{boundary}\r\nContent-Type: text/plain; charset=UTF-8\r\n\r\n{text}\r\n--{boundary}--\r\n"
        );
        let kind = format!("multipart/related; boundary={boundary}");
        let parameters = uploaded("multipart");
        let with = |request: RequestBuilder| request.header(CONTENT_TYPE, &kind).body(content.clone());
        self.json(Method::POST, "upload/drive/v3/files", &parameters, with).await
    }

    /// Replaces the content of a file.
    pub(super) async fn replace(&self, id: &str, kind: &str, content: Vec<u8>) -> Result<File, Failure> {
        let path = format!("upload/drive/v3/files/{id}");
        let with = |request: RequestBuilder| request.header(CONTENT_TYPE, kind).body(content.clone());
        self.json(Method::PATCH, &path, &uploaded("media"), with).await
    }

    pub(super) async fn trash(&self, id: &str) -> Result<File, Failure> {
        let with = |request: RequestBuilder| request.json(&json!({"trashed": true}));
        self.json(Method::PATCH, &format!("drive/v3/files/{id}"), &described(), with).await
    }

    async fn json<T: DeserializeOwned + Send + 'static>(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<T, Failure> {
        let changes = method != Method::GET;
        let response = self.send(method, path, parameters, with).await?;
        let failed = |message: &str| Failure { message: message.to_owned(), lost: changes };
        let Body { bytes, is_whole } =
            body(response, ANSWER_BYTES).await.map_err(|failure| failed(&failure.message))?;
        if !is_whole {
            return Err(failed(&Unparsed::TooLong(ANSWER_BYTES).to_string()));
        }
        let parsed = spawn_blocking(move || parsed(&bytes)).await.map_err(|_| failed("its answer cannot be read"))?;
        parsed.map_err(|why| failed(&why.to_string()))
    }

    /// Sends a request, and once more with a new token if Drive rejected the token.
    async fn send(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Failure> {
        let client = self.client.get().await.map_err(Failure::told)?;
        let mut url = self.url.join(path).map_err(|_| Failure::told("its address cannot be used"))?;
        url.query_pairs_mut().extend_pairs(parameters);
        let mut retried = false;
        loop {
            let token = self.token.get(client).await?;
            let request = client.request(method.clone(), url.clone());
            let sent = with(request.bearer_auth(token.expose_secret())).send().await;
            // A change whose response was lost may have taken effect.
            let lost = |error: &reqwest::Error| method != Method::GET && !error.is_connect();
            let response = sent.map_err(|error| Failure { message: reason(&error), lost: lost(&error) })?;
            match response.status() {
                status if status.is_success() => return Ok(response),
                StatusCode::UNAUTHORIZED if !std::mem::replace(&mut retried, true) => self.token.forget().await,
                status => return Err(refused(status, response, method != Method::GET).await),
            }
        }
    }
}

fn described() -> [(&'static str, &'static str); 2] {
    [("fields", FIELDS), ("supportsAllDrives", "true")]
}

fn uploaded(kind: &'static str) -> [(&'static str, &'static str); 3] {
    [("uploadType", kind), ("fields", FIELDS), ("supportsAllDrives", "true")]
}

/// Returns a boundary that the text does not contain: its hash.
fn boundary(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

async fn refused(status: StatusCode, response: Response, changes: bool) -> Failure {
    let rest = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u32>().ok());
    let rest = rest.map(|seconds| format!("; try again in {seconds} s")).unwrap_or_default();
    let words = body(response, ANSWER_BYTES).await.map(|body| complaint(&body.bytes)).unwrap_or_default();
    let message = format!("status {}{words}{rest}", status.as_u16());
    Failure { message, lost: changes && status.is_server_error() }
}

/// Returns the message of an error response, after a colon; empty if it has none.
pub(super) fn complaint(body: &[u8]) -> String {
    let Ok(body) = parsed::<Value>(body) else { return String::new() };
    let words =
        ["/error/message", "/error_description", "/error"].into_iter().find_map(|path| body.pointer(path)?.as_str());
    words.map(|words| format!(": {}", clean(words, REFUSAL_CHARS))).unwrap_or_default()
}

/// Reads a body, up to `bytes` bytes.
pub(super) async fn body(mut response: Response, bytes: usize) -> Result<Body, Failure> {
    let mut read = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| Failure::told(reason(&error)))? {
        let room = bytes - read.len();
        if piece.len() > room {
            read.extend_from_slice(&piece[..room]);
            return Ok(Body { bytes: read, is_whole: false });
        }
        read.extend_from_slice(&piece);
    }
    Ok(Body { bytes: read, is_whole: true })
}
