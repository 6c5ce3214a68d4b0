//! `create_image` and `edit_image`: pictures from an image model at the images endpoint of OpenAI, the LiteLLM proxy
//! and compatible servers. Rows of the settings are tried in order. Only the addresses of these rows are dialled.
//!
//! A call costs money, so it counts as a change: an interrupted turn does not make it again. If a row has a price, the
//! highest one is reserved in the limits of the caller before the first request, and what was paid is settled.
//!
//! Source: the reference of OpenAI's Images API (`/images/generations`, `/images/edits`, `usage` of their responses).

mod answer;
mod prices;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use reqwest::multipart::{Form, Part as FormPart};
use reqwest::{RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use self::answer::read;
pub use self::prices::Prices;
use self::prices::Usage;
use super::{BuiltInTool, arguments, reads};
use crate::client::{ServiceClient, below, body, masked, reason};
use domain::completion::Picture;
use domain::tool::pictures::EDIT_TOOL;
use domain::tool::{Annotations, CallError, Image, Part, Tool, ToolKind, ToolRequest, ToolResult};
use ports::{Bill, Meter, PaidWork, WorkPayer, WorkRefused};
use telemetry::events::IMAGE_FAILED;

/// Maximum size of a response, in bytes: a picture of 4 MiB as text, with the fields beside it.
const ANSWER_BYTES: usize = 6 * 1024 * 1024;
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
    /// The prices; `None` costs nothing.
    pub prices: Option<Prices>,
}

impl Row {
    /// Returns the cost of one picture in millionths of a dollar.
    fn micros(&self, usage: Option<Usage>) -> u64 {
        self.prices.map_or(0, |prices| prices.micros(usage))
    }
}

/// Creates the tools: one that creates pictures if there is a row, and one that edits them if a row can. Nothing is
/// opened before the first call. The meter counts the cost for the caller.
#[must_use]
pub fn tools(rows: Vec<Row>, meter: &Meter) -> Vec<Box<dyn BuiltInTool>> {
    let edits = rows.iter().any(|row| row.edits);
    let models: Arc<[ImageModel]> = rows.into_iter().map(ImageModel::new).collect();
    let of =
        |work| Box::new(ImageTool { models: Arc::clone(&models), work, meter: meter.clone() }) as Box<dyn BuiltInTool>;
    let works = [(Work::Create, !models.is_empty()), (Work::Edit, edits)];
    works.into_iter().filter(|(_, exists)| *exists).map(|(work, _)| of(work)).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Create,
    Edit,
}

struct ImageTool {
    models: Arc<[ImageModel]>,
    work: Work,
    meter: Meter,
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

    /// Reserves the cost of the most expensive row for the caller. A call by hand has no caller.
    async fn bill(&self, request: &ToolRequest) -> Result<Bill, WorkRefused> {
        let most = self.fitting().map(|model| model.row.micros(None)).max().unwrap_or_default();
        match request.on_behalf.as_ref().filter(|_| most > 0) {
            Some(asked) => Bill::reserve(&self.meter, &WorkPayer::from(asked), PaidWork::Picture, most).await,
            None => Ok(Bill::default()),
        }
    }

    /// Returns a picture, or the failure of each row.
    async fn make(
        &self,
        prompt: &str,
        source: Option<&Picture>,
        within: Duration,
        mut bill: Bill,
    ) -> Result<Image, String> {
        let (mut failures, end) = (Vec::new(), Instant::now() + within);
        for (index, model) in self.fitting().enumerate() {
            // The remaining rows share the remaining time in proportion to their timeouts.
            let wanted = self.fitting().skip(index).fold(Duration::ZERO, |all, other| all + other.row.timeout);
            let part = model.row.timeout.div_duration_f64(wanted).clamp(0.0, 1.0);
            let share = end.saturating_duration_since(Instant::now()).mul_f64(part);
            bill.begin(model.row.micros(None));
            let made = timeout(share.min(model.row.timeout), model.make(prompt, source));
            // A source that is given up may demand the cost.
            let made = made.await.unwrap_or_else(|_| Err(NotMade::paid("no answer in time")));
            let reason = match made {
                Ok((image, usage)) => {
                    bill.begin(model.row.micros(usage));
                    bill.end(true);
                    return Ok(image);
                }
                Err(NotMade { reason, is_paid }) => {
                    bill.end(is_paid);
                    reason
                }
            };
            let name = &model.row.model;
            tracing::warn!(event = IMAGE_FAILED, model = name, reason, "an image model failed");
            failures.push(format!("{name}: {reason}"));
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
                EDIT_TOOL,
                "Change a picture that is attached to the question. If none is attached, it changes your own picture: the one of the message that the member replies to, or your newest one here. The result is posted with your answer.",
                json!({"prompt": prompt, "picture": {"type": "integer", "minimum": 1, "default": 1, "description": "The number of the picture, if there are several"}}),
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
                        "there is no such picture: {most} can be changed here; the member attaches it to the message, or replies to yours"
                    )));
                }
            },
        };
        let bill = match self.bill(request).await {
            Ok(bill) => bill.of_call(request.paid.clone()),
            Err(refused) => return Ok(ToolResult::failure(over_limit(refused))),
        };
        Ok(match self.make(prompt, source, request.deadline, bill).await {
            Ok(image) => {
                let told = Part::Text("The picture is ready and is posted with your answer.".to_owned());
                ToolResult { parts: vec![told, Part::Image(image)], ..ToolResult::default() }
            }
            Err(failures) => ToolResult::failure(format!("no picture was made ({failures})")),
        })
    }
}

/// Returns the reason why no picture may be made now.
fn over_limit(WorkRefused(wait): WorkRefused) -> String {
    let again = wait.map(|wait| format!("; it has room again in {} minutes", wait.as_secs().div_ceil(60).max(1)));
    format!("no picture was made: the caller's limit of costs is reached{}", again.unwrap_or_default())
}

/// The reason why a model made no picture.
struct NotMade {
    reason: String,
    /// True if the request may cost its price all the same.
    is_paid: bool,
}

impl NotMade {
    const fn free(reason: String) -> Self {
        Self { reason, is_paid: false }
    }

    fn paid(reason: &str) -> Self {
        Self { reason: reason.to_owned(), is_paid: true }
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

    /// Returns a picture, with the tokens that the endpoint reports.
    async fn make(&self, prompt: &str, source: Option<&Picture>) -> Result<(Image, Option<Usage>), NotMade> {
        let response = self.send(prompt, source).await.map_err(NotMade::free)?;
        let status = response.status();
        // An answer of success costs its price, also without a picture.
        let not_made = |reason: String| NotMade { reason, is_paid: status.is_success() };
        // The semaphore is never closed.
        let _reading = self.reading.acquire().await.map_err(|error| not_made(error.to_string()))?;
        let body = body(response, ANSWER_BYTES).await.map_err(not_made)?;
        let read = spawn_blocking(move || read(&body)).await;
        let read = read.map_err(|_| not_made("its answer cannot be read".to_owned()))?;
        match read {
            Ok(made) if status.is_success() => Ok(made),
            Ok(_) => Err(not_made(format!("status {}", status.as_u16()))),
            Err(words) if status.is_success() => Err(not_made(self.clean(&words))),
            Err(words) => Err(not_made(self.clean(&format!("status {}: {words}", status.as_u16())))),
        }
    }

    /// Sends the request.
    async fn send(&self, prompt: &str, source: Option<&Picture>) -> Result<Response, String> {
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
                // The picture is not copied: its memory is counted where the question has it.
                let shared = Bytes::from_owner(Arc::clone(&source.bytes));
                let file = FormPart::stream(shared).file_name(format!("picture.{ending}"));
                let file = file.mime_str(source.mime).map_err(|_| "the picture has no known type".to_owned())?;
                let mut form = Form::new().text("model", self.row.model.clone()).text("prompt", prompt.to_owned());
                if self.returns_addresses() {
                    form = form.text("response_format", "b64_json");
                }
                client.post(below(&self.row.url, "/images/edits")).multipart(form.part("image", file))
            }
        };
        self.with_key(request)?.send().await.map_err(|error| reason(&error))
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

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use domain::ids::{Door, Person, Place, TurnId};
    use domain::tool::Effect;
    use domain::tool::testing::on_behalf;
    use ports::{WorkMetering, WorkReservation};

    #[test]
    fn a_call_may_take_the_time_of_all_rows_that_can_do_it() {
        let row = |edits, seconds| Row {
            url: "https://images.example/v1/".parse().unwrap(),
            here: false,
            key: None,
            model: "m".to_owned(),
            edits,
            timeout: Duration::from_secs(seconds),
            prices: None,
        };
        // Each sum has one bit for each row.
        let rows = vec![row(true, 1), row(false, 2), row(true, 4), row(false, 8)];
        let tools = super::super::BuiltIns::new(tools(rows, &None));
        assert_eq!(ports::ToolServer::timeout(&tools, "create_image"), Some(Duration::from_secs(0b1111)));
        assert_eq!(ports::ToolServer::timeout(&tools, "edit_image"), Some(Duration::from_secs(0b0101)));
        assert_eq!(ports::ToolServer::timeout(&tools, "other"), None);
    }

    /// Records what is settled, in millionths of a dollar.
    struct Account(mpsc::UnboundedSender<u64>);

    #[async_trait]
    impl WorkMetering for Account {
        async fn reserve(
            &self,
            payer: &WorkPayer,
            work: PaidWork,
            micros: u64,
        ) -> Result<WorkReservation, WorkRefused> {
            if micros > 40_000 {
                return Err(WorkRefused(Some(Duration::from_secs(90))));
            }
            let (payer, id) = (payer.clone(), TurnId::new(payer.person.door.clone(), "1"));
            Ok(WorkReservation { id, payer, work, priced: true })
        }

        fn settle(&self, _reservation: WorkReservation, micros: u64) {
            self.0.send(micros).unwrap();
        }
    }

    /// An endpoint that answers each model in its way.
    async fn endpoint() -> Url {
        use axum::http::StatusCode;
        let answer = |body: String| async move {
            match body {
                body if body.contains("silent") => std::future::pending().await,
                body if body.contains("slow") => {
                    let ms = body.split("slow-").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok()).unwrap();
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    (StatusCode::OK, r#"{"data": [{"b64_json": "R0lGODlhAQABAAAAADs="}]}"#)
                }
                body if body.contains("refusing") => (StatusCode::TOO_MANY_REQUESTS, r#"{"error": "busy"}"#),
                _ => (StatusCode::OK, r#"{"data": [{"b64_json": "PGh0bWw+"}]}"#),
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
        url
    }

    #[tokio::test]
    async fn each_row_has_its_own_time_if_the_call_has_the_time_of_all() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = endpoint().await;
        let rows = |answers: usize| {
            let row = |(index, timeout): (usize, u64)| Row {
                url: url.clone(),
                here: true,
                key: None,
                model: if index == answers { format!("slow-{}", timeout * 2 / 3) } else { "silent".to_owned() },
                edits: false,
                timeout: Duration::from_millis(timeout),
                prices: None,
            };
            [300, 1_800, 300].into_iter().enumerate().map(row).collect()
        };
        let arguments = json!({"prompt": "a harbour"}).as_object().unwrap().clone();
        let made = async |answers: usize| {
            let tool = &tools(rows(answers), &None)[0];
            let within = tool.timeout().unwrap();
            let request = ToolRequest::new("create_image", arguments.clone(), Effect::Changes, within);
            tool.call(&request).await.unwrap()
        };
        for (answers, result) in [made(0), made(1), made(2)].into_iter().enumerate() {
            let result = result.await;
            assert_eq!((result.is_error, result.images().count()), (false, 1), "{answers}: {}", result.to_text());
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_may_demand_the_price_is_paid_and_a_refusal_is_free() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (settled, mut told) = mpsc::unbounded_channel();
        let (url, meter) = (endpoint().await, Some(Arc::new(Account(settled)) as Arc<dyn WorkMetering>));
        let row = |model: &str, picture| Row {
            url: url.clone(),
            here: true,
            key: None,
            model: model.to_owned(),
            edits: false,
            timeout: Duration::from_millis(500),
            prices: Some(Prices { picture, input: None, input_picture: None, output: None }),
        };
        let person = Person::new(Door::new("terminal"), "7");
        let place = Place::new(Door::new("terminal"), "7");
        let arguments = json!({"prompt": "a harbour"}).as_object().unwrap().clone();
        let request = ToolRequest {
            on_behalf: Some(on_behalf(person, place)),
            ..ToolRequest::new("create_image", arguments, Effect::Changes, Duration::from_secs(60))
        };
        for (rows, cost) in [
            (vec![row("silent", 0.04)], 40_000),
            (vec![row("refusing", 0.04)], 0),
            (vec![row("without a picture", 0.04)], 40_000),
            (vec![row("silent", 0.01), row("refusing", 0.04), row("without a picture", 0.02)], 30_000),
        ] {
            let result = tools(rows.clone(), &meter)[0].call(&request).await.unwrap();
            assert!(result.is_error && result.images().next().is_none());
            assert_eq!(told.recv().await, Some(cost), "{rows:?}");
        }
        let refused = tools(vec![row("silent", 0.05)], &meter)[0].call(&request).await.unwrap();
        let words = "no picture was made: the caller's limit of costs is reached; it has room again in 2 minutes";
        assert_eq!((refused.to_text().as_str(), told.try_recv().is_err()), (words, true));
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
            prices: None,
        };
        let model = ImageModel::new(row);
        assert_eq!(model.clean("the key very-secret is wrong"), "the key *** is wrong");
        let long = format!("{}very-secret{}", "x".repeat(ERROR_CHARS - 4), "x".repeat(10_000));
        assert_eq!(model.clean(&long), format!("{}***x", "x".repeat(ERROR_CHARS - 4)));
        assert_eq!(below(&model.row.url, "/images/edits").as_str(), "https://images.example/v1/images/edits");
    }
}
