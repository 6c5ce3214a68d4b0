//! `create_image` and `edit_image`: pictures from an image model at the images endpoint of OpenAI, the LiteLLM proxy
//! and compatible servers. Rows of the settings are tried in order. Only the addresses of these rows are dialled.
//!
//! A call costs money, so it counts as a change: an interrupted turn does not make it again.
//!
//! Source: the reference of OpenAI's Images API (`/images/generations`, `/images/edits`).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderValue};
use reqwest::multipart::{Form, Part as FormPart};
use reqwest::{RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::{BuiltInTool, arguments, reads};
use crate::client::{ServiceClient, below, body, masked, parsed, reason};
use domain::completion::Picture;
use domain::tool::{Annotations, CallError, Image, Part, Tool, ToolKind, ToolRequest, ToolResult};
use telemetry::events::IMAGE_FAILED;

/// Maximum size of a response, in bytes: a picture of 4 MiB as text, with the fields beside it.
const ANSWER_BYTES: usize = 6 * 1024 * 1024;
/// Maximum size of a picture, in bytes.
const IMAGE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of responses of one row that are read at the same time: further ones wait in their connections.
const ANSWERS_MAX: usize = 4;
/// Maximum length of a description, in characters.
const PROMPT_CHARS: usize = 4_000;
/// Maximum length of an error message that is passed on, in characters.
const ERROR_CHARS: usize = 300;

/// The configuration of one image model.
#[derive(Debug, Clone)]
pub struct Row {
    /// The address of its API, such as `https://api.openai.com/v1`.
    pub url: Url,
    /// True if it is on this machine: no proxy is used.
    pub here: bool,
    /// The API key for it.
    pub key: Option<SecretString>,
    /// The model.
    pub model: String,
    /// True if it edits pictures, too.
    pub edits: bool,
    /// Timeout of one picture.
    pub timeout: Duration,
}

/// Creates the tools: one that creates pictures, and one that edits them if a row can. Nothing is opened before the
/// first call.
#[must_use]
pub fn tools(rows: Vec<Row>) -> Vec<Box<dyn BuiltInTool>> {
    let edits = rows.iter().any(|row| row.edits);
    let models: Arc<[ImageModel]> = rows.into_iter().map(ImageModel::new).collect();
    let of = |work| Box::new(ImageTool { models: Arc::clone(&models), work }) as Box<dyn BuiltInTool>;
    let mut tools = vec![of(Work::Create)];
    if edits {
        tools.push(of(Work::Edit));
    }
    tools
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Create,
    Edit,
}

struct ImageTool {
    models: Arc<[ImageModel]>,
    work: Work,
}

#[derive(Deserialize)]
struct Arguments {
    prompt: String,
    picture: Option<usize>,
}

impl ImageTool {
    /// Returns the models that can do this work, in order.
    fn fitting(&self) -> impl Iterator<Item = &ImageModel> {
        self.models.iter().filter(|model| self.work == Work::Create || model.row.edits)
    }

    /// Returns a picture, or the failure of each row.
    async fn make(&self, prompt: &str, source: Option<&Picture>, within: Duration) -> Result<Image, String> {
        let (mut failures, end) = (Vec::new(), Instant::now() + within);
        for (index, model) in self.fitting().enumerate() {
            // Each remaining row gets an equal share of the remaining time.
            let share = u32::try_from(self.fitting().count() - index).unwrap_or(u32::MAX);
            let share = end.saturating_duration_since(Instant::now()) / share;
            let made = timeout(share.min(model.row.timeout), model.make(prompt, source));
            match made.await.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                Ok(image) => return Ok(image),
                Err(reason) => {
                    let name = &model.row.model;
                    tracing::warn!(event = IMAGE_FAILED, model = name, reason, "an image model failed");
                    failures.push(format!("{name}: {reason}"));
                }
            }
        }
        Err(failures.join("; "))
    }
}

#[async_trait]
impl BuiltInTool for ImageTool {
    fn tool(&self) -> Tool {
        let prompt =
            json!({"type": "string", "minLength": 1, "maxLength": PROMPT_CHARS, "description": "The picture in words"});
        let (name, description, properties) = match self.work {
            Work::Create => (
                "create_image",
                "Create a picture from a description. It is posted with your answer. Use it only if a picture is wanted.",
                json!({"prompt": prompt}),
            ),
            Work::Edit => (
                "edit_image",
                "Change a picture that is attached to the question. The result is posted with your answer.",
                json!({"prompt": prompt, "picture": {"type": "integer", "minimum": 1, "default": 1, "description": "The number of the attached picture"}}),
            ),
        };
        let schema =
            json!({"type": "object", "required": ["prompt"], "additionalProperties": false, "properties": properties});
        let tool = reads(name, description, schema);
        let annotations = Annotations {
            read_only: Some(false),
            destructive: Some(false),
            open_world: Some(true),
            ..Annotations::default()
        };
        Tool { kind: ToolKind::Image, annotations, ..tool }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.fitting().map(|model| model.row.timeout).fold(Duration::ZERO, Duration::saturating_add))
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Arguments { prompt, picture } = arguments(request)?;
        let prompt = prompt.trim();
        if prompt.is_empty() {
            return Ok(ToolResult::failure("the description is empty: say what the picture shows"));
        }
        let source = match self.work {
            Work::Create => None,
            Work::Edit => match request.pictures.get(picture.unwrap_or(1).saturating_sub(1)) {
                Some(source) => Some(source),
                None => {
                    let most = request.pictures.len();
                    return Ok(ToolResult::failure(format!(
                        "there is no such picture: the question has {most} that you can see; the member attaches it to the message"
                    )));
                }
            },
        };
        Ok(match self.make(prompt, source, request.deadline).await {
            Ok(image) => {
                let told = Part::Text("The picture is ready and is posted with your answer.".to_owned());
                ToolResult { parts: vec![told, Part::Image(image)], ..ToolResult::default() }
            }
            Err(failures) => ToolResult::failure(format!("no picture was made ({failures})")),
        })
    }
}

struct ImageModel {
    row: Row,
    client: ServiceClient,
    /// The permits for reading a response. Each row has its own, so that a slow one delays no other.
    reading: Semaphore,
}

impl ImageModel {
    fn new(row: Row) -> Self {
        let reading = Semaphore::new(ANSWERS_MAX);
        Self { client: ServiceClient::of(&row.url, row.here), row, reading }
    }

    async fn make(&self, prompt: &str, source: Option<&Picture>) -> Result<Image, String> {
        let client = self.client.get().await?;
        let request = match source {
            None => {
                let mut body = json!({"model": self.row.model, "prompt": prompt, "n": 1});
                if self.returns_addresses() {
                    body["response_format"] = "b64_json".into();
                }
                client.post(below(&self.row.url, "/images/generations")).json(&body)
            }
            Some(source) => {
                let ending = source.mime.rsplit('/').next().unwrap_or("png");
                let file = FormPart::bytes(source.bytes.to_vec()).file_name(format!("picture.{ending}"));
                let file = file.mime_str(source.mime).map_err(|_| "the picture has no known type".to_owned())?;
                let mut form = Form::new().text("model", self.row.model.clone()).text("prompt", prompt.to_owned());
                if self.returns_addresses() {
                    form = form.text("response_format", "b64_json");
                }
                client.post(below(&self.row.url, "/images/edits")).multipart(form.part("image", file))
            }
        };
        let response = self.with_key(request)?.send().await.map_err(|error| reason(&error))?;
        let status = response.status();
        // The semaphore is never closed.
        let _reading = self.reading.acquire().await.map_err(|error| error.to_string())?;
        let body = body(response, ANSWER_BYTES).await?;
        let read = spawn_blocking(move || read(&body)).await.map_err(|_| "its answer cannot be read".to_owned())?;
        match read {
            Ok(image) if status.is_success() => Ok(image),
            Ok(_) => Err(format!("status {}", status.as_u16())),
            Err(words) if status.is_success() => Err(self.clean(&words)),
            Err(words) => Err(self.clean(&format!("status {}: {words}", status.as_u16()))),
        }
    }

    /// True for models that return an address unless they are asked for the picture; newer ones accept no such field.
    fn returns_addresses(&self) -> bool {
        self.row.model.contains("dall-e")
    }

    fn with_key(&self, request: RequestBuilder) -> Result<RequestBuilder, String> {
        let Some(key) = &self.row.key else { return Ok(request) };
        let value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()));
        let mut value = value.map_err(|_| "its key cannot be sent in a header".to_owned())?;
        value.set_sensitive(true);
        Ok(request.header(AUTHORIZATION, value))
    }

    /// Masks the API key, in case the provider echoes it, and shortens the text: a part of a key would not be found.
    fn clean(&self, words: &str) -> String {
        masked(words, self.row.key.as_ref()).chars().take(ERROR_CHARS).collect()
    }
}

/// An answer of the endpoint.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Option<Vec<Made<'a>>>,
    error: Option<Value>,
}

/// A picture in an answer, as text that is not copied.
#[derive(Deserialize)]
struct Made<'a> {
    #[serde(borrow)]
    b64_json: Option<Cow<'a, str>>,
}

/// Returns the picture in an answer.
///
/// # Errors
/// What the answer says about the failure.
fn read(body: &[u8]) -> Result<Image, String> {
    let answer: Answer<'_> = parsed(body)?;
    let Some(encoded) = answer.data.into_iter().flatten().next().and_then(|made| made.b64_json) else {
        let error = answer.error.unwrap_or_default();
        let words = error.get("message").unwrap_or(&error).as_str();
        return Err(words.unwrap_or("its answer contains no picture").to_owned());
    };
    let bytes = STANDARD.decode(encoded.as_bytes()).map_err(|_| "its picture is not encoded in base64".to_owned())?;
    if bytes.len() > IMAGE_BYTES {
        return Err(format!("its picture is longer than {IMAGE_BYTES} bytes"));
    }
    let pixels = domain::attachment::Pixels::of(&bytes).map_err(|_| "its answer is no picture".to_owned())?;
    Ok(Image { mime: pixels.mime.to_owned(), bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_picture_says_why() {
        let long = format!(r#"{{"data": [{{"b64_json": "{}"}}]}}"#, STANDARD.encode(vec![0; IMAGE_BYTES + 1]));
        let many = format!(r#"{{"error": [{}0]}}"#, r#"{"a":0},"#.repeat(700_000));
        for (answer, reason) in [
            ("<html>", "its answer is not JSON"),
            ("{}", "its answer contains no picture"),
            (r#"{"data": [{"url": "http://169.254.169.254/"}]}"#, "its answer contains no picture"),
            (r#"{"error": {"message": "billing limit"}}"#, "billing limit"),
            (r#"{"error": "no such model"}"#, "no such model"),
            (r#"{"data": [{"b64_json": "%%%"}]}"#, "its picture is not encoded in base64"),
            (r#"{"data": [{"b64_json": "PGh0bWw+"}]}"#, "its answer is no picture"),
            (&long, "its picture is longer than 4194304 bytes"),
            (&many, "its answer has too many values"),
        ] {
            assert_eq!(read(answer.as_bytes()).unwrap_err(), reason);
        }
    }

    #[test]
    fn a_call_may_take_the_time_of_all_rows_that_can_do_it() {
        let row = |edits, seconds| Row {
            url: "https://images.example/v1/".parse().unwrap(),
            here: false,
            key: None,
            model: "m".to_owned(),
            edits,
            timeout: Duration::from_secs(seconds),
        };
        let tools = super::super::BuiltIns::new(tools(vec![row(true, 100), row(false, 20)]));
        assert_eq!(ports::ToolServer::timeout(&tools, "create_image"), Some(Duration::from_secs(120)));
        assert_eq!(ports::ToolServer::timeout(&tools, "edit_image"), Some(Duration::from_secs(100)));
        assert_eq!(ports::ToolServer::timeout(&tools, "other"), None);
    }

    #[tokio::test]
    async fn a_key_that_a_provider_echoes_is_masked() {
        let row = Row {
            url: "https://images.example/v1/".parse().unwrap(),
            here: false,
            key: Some("very-secret".into()),
            model: "m".to_owned(),
            edits: true,
            timeout: Duration::from_secs(1),
        };
        let model = ImageModel::new(row);
        assert_eq!(model.clean("the key very-secret is wrong"), "the key *** is wrong");
        let long = format!("{}very-secret{}", "x".repeat(ERROR_CHARS - 4), "x".repeat(10_000));
        assert_eq!(model.clean(&long), format!("{}***x", "x".repeat(ERROR_CHARS - 4)));
        assert_eq!(below(&model.row.url, "/images/edits").as_str(), "https://images.example/v1/images/edits");
    }
}
