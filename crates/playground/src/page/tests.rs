//! The page's API as a browser sees it, over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::bot_process::{BotOrder, BotProcess, Counted, OrderRefusal};
use crate::chaos::{Spells, Strikes};
use crate::service::Options;
use crate::setup::{Outcome, Typed};

/// Timeout of each step.
const SOON: Duration = Duration::from_secs(10);

/// A bot in this process, which cannot be killed.
struct Here(Arc<Strikes>);

#[async_trait::async_trait]
impl BotProcess for Here {
    async fn order(&self, order: BotOrder) -> Result<(), OrderRefusal> {
        self.0.order(&order)
    }

    fn kill(&self) -> Result<(), OrderRefusal> {
        Err(OrderRefusal::Away)
    }

    fn counted(&self) -> Counted {
        Counted::default()
    }
}

/// A setup that records how many values it received.
#[derive(Default)]
struct NoSetup(parking_lot::Mutex<Vec<usize>>);

#[async_trait::async_trait]
impl Setup for NoSetup {
    async fn set(&self) -> Result<Vec<String>, String> {
        Ok(vec!["DISCORD_BOT_TOKEN".to_owned()])
    }

    async fn set_up(&self, typed: Typed) -> Result<Outcome, String> {
        self.0.lock().push(typed.values.len());
        Ok(Outcome { findings: Vec::new(), written: true })
    }
}

struct Place {
    service: Service,
    chaos: Arc<Chaos>,
    strikes: Arc<Strikes>,
    setup: Arc<NoSetup>,
    closing: CancellationToken,
    addr: SocketAddr,
    client: Client,
    serving: JoinHandle<()>,
}

impl Place {
    async fn open() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let service = Service::start(Options::new(Arc::new(|| 1_760_000_000_000))).await.expect("a loopback port");
        let clock = Arc::new(|| 1_760_000_000_000);
        let options = crate::workspace::Options::of_playground("bot".to_owned(), "app".to_owned(), clock);
        let workspace = Workspace::start(options).await.expect("a loopback port");
        let closing = CancellationToken::new();
        let spells = Spells::new(Arc::new(|| 1_760_000_000_000));
        let strikes = Strikes::new(Arc::new(|| 1_760_000_000_000));
        let bot = Arc::new(Here(Arc::clone(&strikes)));
        let chaos = Chaos::new(service.faults().clone(), spells, true, bot);
        let models = Neighbours::at(Vec::new(), None, Arc::new(Here(Arc::clone(&strikes))));
        let setup = Arc::new(NoSetup::default());
        let given = Arc::clone(&setup) as _;
        let breaking = Breaking { chaos: Arc::clone(&chaos), models, setup: given, token: "token-of-the-page".into() };
        let app = router(service.clone(), workspace, breaking).layer(axum::Extension(closing.clone()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let addr = listener.local_addr().expect("an address");
        let closed = closing.clone();
        let serving = tokio::spawn(async move {
            let served = axum::serve(listener, app).with_graceful_shutdown(closed.cancelled_owned());
            served.await.expect("serving");
        });
        Self { service, chaos, strikes, setup, closing, addr, client: Client::new(), serving }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path)).header("origin", self.url(""))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let response = self.request(method, path).json(body).send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    async fn say(&self, body: &Value) -> (u16, Value) {
        self.send(Method::POST, "/playground/messages", body).await
    }

    async fn state(&self) -> Value {
        let response = self.client.get(self.url("/playground/state")).send().await.expect("an answer");
        response.json().await.expect("JSON")
    }

    fn member(&self, name: &str) -> String {
        let members = self.service.members();
        members.iter().find(|member| member.name == name).expect("a member").id.to_string()
    }

    fn channel(&self, name: &str) -> String {
        let channels = self.service.channels();
        channels.iter().find(|channel| channel.name == name).expect("a channel").id.to_string()
    }
}

/// Reads frames of an event stream.
struct Frames {
    response: reqwest::Response,
    text: String,
}

impl Frames {
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field =
                    |name| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
                let (event, data) = (field("event: "), field("data: "));
                self.text = rest.to_owned();
                if event.is_empty() {
                    continue;
                }
                return Some((event, serde_json::from_str(&data).expect("JSON")));
            }
            let bytes =
                timeout(SOON, self.response.chunk()).await.expect("a frame in time").expect("a readable stream")?;
            self.text.push_str(std::str::from_utf8(&bytes).expect("text"));
        }
    }
}

#[tokio::test]
async fn the_page_and_all_it_loads_are_served_and_nothing_else_may_load() {
    let place = Place::open().await;
    for (path, kind, text) in FILES {
        let response = place.client.get(place.url(path)).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], kind);
        assert!(response.headers()["content-security-policy"].to_str().expect("text").contains("default-src 'self'"));
        assert_eq!(response.text().await.expect("text"), text);
    }
    let served: Vec<&str> = FILES.iter().map(|(path, ..)| *path).collect();
    let mut wanted = 0;
    for (path, _, text) in FILES.iter().filter(|(_, kind, _)| !kind.starts_with("image/")) {
        for outside in ["http://", "https://", "@import", "innerHTML", "insertAdjacentHTML", "eval("] {
            assert!(!text.contains(outside), "{path} has {outside}");
        }
        for part in text.split('"').skip(1).step_by(2) {
            let file = part.strip_prefix("./").map(|name| format!("/playground/{name}"));
            let file = file.or_else(|| {
                part.rsplit_once('.').filter(|_| part.starts_with("/playground/")).map(|_| part.to_owned())
            });
            if let Some(shared) = part.strip_prefix("/dashboard/") {
                // The dashboard's own test covers its files.
                let file =
                    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/src/api/dashboard").join(shared);
                assert!(file.is_file(), "{path} wants {part}");
                wanted += 1;
            } else if let Some(file) = file {
                assert!(served.contains(&file.as_str()), "{path} wants {part}");
                wanted += 1;
            }
        }
    }
    assert!(wanted > FILES.len(), "the search for imports finds them");
}

#[tokio::test]
async fn the_state_shows_guild_members_channels_and_the_newest_messages() {
    let place = Place::open().await;
    let (ada, general) = (place.service.members()[0].id, place.service.channels()[0].id);
    for n in 0..505 {
        let _ = place.service.says(ada, general, &format!("message {n}"), None);
    }
    let state = place.state().await;
    assert_eq!(state["guild"]["name"], "Harbour");
    let names = |list: &str| -> Vec<String> {
        let list = state[list].as_array().expect("a list").iter();
        list.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("channels"), ["general", "help", "random"]);
    assert_eq!(names("members"), ["Ada", "Ben", "Chloe", "staffai"]);
    assert_eq!(state["bot"], place.member("staffai"));
    let messages = state["messages"][general.to_string()].as_array().expect("messages");
    assert_eq!(messages.len(), 500);
    assert_eq!(messages[0]["content"], "message 5");
    assert_eq!(messages[499]["content"], "message 504");
}

#[tokio::test]
async fn members_write_reply_edit_and_delete() {
    let place = Place::open().await;
    let (ada, chloe, general) = (place.member("Ada"), place.member("Chloe"), place.channel("general"));
    let text = format!("  <@{}> ahoy ", place.member("staffai"));
    let (status, answer) = place.say(&json!({"member": ada, "channel": general, "text": text})).await;
    assert_eq!(status, 201, "{answer}");
    let first = answer["id"].as_str().expect("an id").to_owned();
    let reply = json!({"member": chloe, "channel": general, "text": "ahoy", "reply_to": first});
    let (status, answer) = place.say(&reply).await;
    assert_eq!(status, 201, "{answer}");
    let second = answer["id"].as_str().expect("an id").to_owned();

    let messages = &place.state().await["messages"][&general];
    assert_eq!(messages[0]["content"], text.trim());
    assert_eq!(messages[0]["mentions"], json!([place.member("staffai")]));
    assert_eq!(messages[1]["reply_to"], *first);

    let own = format!("/playground/messages/{general}/{first}");
    let (status, answer) = place.send(Method::PATCH, &own, &json!({"member": chloe, "text": "no"})).await;
    assert_eq!((status, &answer["error"]), (403, &json!("only the author can edit a message")));
    let (status, _) = place.send(Method::PATCH, &own, &json!({"member": ada, "text": "hello"})).await;
    assert_eq!(status, 200);
    let messages = &place.state().await["messages"][&general];
    assert_eq!(messages[0]["content"], "hello");
    assert!(messages[0]["edited_at"].is_u64());

    let others = format!("/playground/messages/{general}/{second}?member={ada}");
    let (status, _) = place.send(Method::DELETE, &others, &Value::Null).await;
    assert_eq!(status, 403, "Ada is no moderator");
    let (status, _) = place.send(Method::DELETE, &format!("{own}?member={chloe}"), &Value::Null).await;
    assert_eq!(status, 204, "Chloe is one");
    assert_eq!(place.state().await["messages"][&general].as_array().expect("messages").len(), 1);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_sentence() {
    let place = Place::open().await;
    let (ada, bot, general) = (place.member("Ada"), place.member("staffai"), place.channel("general"));
    let refused = [
        (json!({"member": ada, "channel": general, "text": "  "}), 400),
        (json!({"member": ada, "channel": general, "text": "x".repeat(2_001)}), 400),
        (json!({"member": ada, "channel": general, "text": "x".repeat(UPLOAD_BYTES)}), 413),
        (json!({"member": ada, "channel": general}), 400),
        (json!({"member": ada, "channel": general, "text": "x", "colour": "red"}), 400),
        (json!({"member": "nobody", "channel": general, "text": "x"}), 400),
        (json!({"member": "5", "channel": general, "text": "x"}), 404),
        (json!({"member": bot, "channel": general, "text": "x"}), 403),
        (json!({"member": ada, "channel": "5", "text": "x"}), 404),
        (json!({"member": ada, "channel": general, "text": "x", "reply_to": "5"}), 404),
    ];
    for (body, expected) in refused {
        let (status, answer) = place.say(&body).await;
        assert_eq!(status, expected, "{answer}");
        assert!(!answer["error"].as_str().expect("a sentence").is_empty());
    }
    let missing = format!("/playground/messages/{general}/5");
    let (status, _) = place.send(Method::PATCH, &missing, &json!({"member": ada, "text": "x"})).await;
    assert_eq!(status, 404);
    let (status, _) = place.send(Method::DELETE, &missing, &Value::Null).await;
    assert_eq!(status, 400, "it must be said who deletes");
    assert_eq!(place.state().await["messages"][&general], json!([]));
}

#[tokio::test]
async fn other_origins_and_other_hosts_are_turned_away() {
    let place = Place::open().await;
    let url = place.url("/playground/messages");
    let body = json!({"member": place.member("Ada"), "channel": place.channel("general"), "text": "x"});
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1"] {
        let response = place.client.post(&url).header("origin", origin).json(&body).send().await.expect("an answer");
        assert_eq!(response.status(), 403, "{origin}");
    }
    let form =
        place.request(Method::POST, "/playground/messages").header("content-type", "text/plain").body(body.to_string());
    assert_eq!(form.send().await.expect("an answer").status(), 415);
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        for path in ["/playground/state", "/playground/events"] {
            let response = place.client.get(place.url(path)).header(name, value).send().await.expect("an answer");
            assert_eq!(response.status(), 403, "{path}, {name}: {value}");
        }
    }
    let link = place.client.get(place.url("/")).header("sec-fetch-site", "cross-site").send().await.expect("an answer");
    assert_eq!(link.status(), 200, "a link from elsewhere opens the page");
    for host in
        ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost@evil.example", "10.0.0.7", ""]
    {
        for path in ["/", "/playground/state", "/playground/events"] {
            let response = place.client.get(place.url(path)).header("host", host).send().await.expect("an answer");
            assert!(response.status().is_client_error(), "{host} {path}");
        }
    }
    for host in ["localhost", "localhost:8420", "127.0.0.1:1", "127.1.2.3", "[::1]:8420", "LOCALHOST"] {
        let response =
            place.client.get(place.url("/playground/state")).header("host", host).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{host}");
    }
    let plain = place.client.post(&url).json(&body).send().await.expect("an answer");
    assert_eq!(plain.status(), 201, "programs that are no browsers send no origin");
    assert_eq!(place.service.messages(place.service.channels()[0].id).len(), 1);
}

#[tokio::test]
async fn changes_are_told_as_they_happen_and_the_stream_ends_with_the_page() {
    let place = Place::open().await;
    let response = place.client.get(place.url("/playground/events")).send().await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut frames = Frames { response, text: String::new() };
    assert_eq!(frames.next().await, Some(("ready".to_owned(), json!({}))));

    let (ada, general) = (place.member("Ada"), place.channel("general"));
    let (status, _) = place.send(Method::POST, "/playground/typing", &json!({"member": ada, "channel": general})).await;
    assert_eq!(status, 204);
    let (_, answer) = place.say(&json!({"member": ada, "channel": general, "text": "one"})).await;
    let id = answer["id"].as_str().expect("an id");
    let own = format!("/playground/messages/{general}/{id}");
    place.send(Method::PATCH, &own, &json!({"member": ada, "text": "two"})).await;
    place.send(Method::DELETE, &format!("{own}?member={ada}"), &Value::Null).await;

    let mut told = Vec::new();
    for _ in 0..4 {
        let (event, data) = frames.next().await.expect("a frame");
        assert_eq!(event, "change");
        told.push(format!("{} {}", data["change"].as_str().expect("a name"), data["content"].as_str().unwrap_or("-")));
    }
    assert_eq!(told, ["typing_started -", "message_created one", "message_edited two", "message_deleted -"]);

    place.closing.cancel();
    assert_eq!(frames.next().await, None, "the stream ends");
    drop(frames);
    timeout(SOON, place.serving).await.expect("the listener drains").expect("no panic");
}

#[tokio::test]
async fn a_bot_that_is_not_connected_is_shown_offline() {
    let place = Place::open().await;
    let state: Value = place.client.get(place.url("/playground/state")).send().await.unwrap().json().await.unwrap();
    assert_eq!(state["presence"], json!({"status": "offline"}));
}

#[tokio::test]
async fn a_reader_who_is_too_slow_is_told_to_read_the_state_again() {
    let place = Place::open().await;
    let (ada, general) = (place.service.members()[0].id, place.service.channels()[0].id);
    let response = place.client.get(place.url("/playground/events")).send().await.expect("an answer");
    let mut frames = Frames { response, text: String::new() };
    assert_eq!(frames.next().await.expect("a frame").0, "ready");
    // Without an await in between, the reader cannot run on this single thread.
    for _ in 0..6_000 {
        let _ = place.service.says(ada, general, "flood", None);
    }
    let next = frames.next().await.expect("a frame");
    assert_eq!(next.0, "resync");
}

#[tokio::test]
async fn streams_are_bounded() {
    let place = Place::open().await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let response = place.client.get(place.url("/playground/events")).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        open.push(response.bytes_stream());
    }
    let response = place.client.get(place.url("/playground/events")).send().await.expect("an answer");
    assert_eq!(response.status(), 503);
    assert!(open[0].next().await.is_some(), "those that are open go on");
}

mod actions;
mod chaos;
mod workspace;
