//! Posts become replies over a real NATS server.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use domain::gate::{ApprovalDecision, Click, ClickRefusal};
use domain::ids::Timestamp;
use domain::outgoing::{AnswerCost, Piece};
use ports::NotAccepted;

/// A server that is stopped with the test.
struct Nats(Child);

impl Drop for Nats {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn nats() -> (Nats, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut server = Command::new("nats-server");
    server.args(["-a", "127.0.0.1", "-p", &port]).stdout(Stdio::null()).stderr(Stdio::null());
    let child = server.spawn().expect("nats-server is missing; ./test installs it");
    (Nats(child), format!("nats://127.0.0.1:{port}"))
}

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp(43_200_000)
    }
}

async fn ask(client: &async_nats::Client, question: Value) -> Value {
    let request =
        async_nats::Request::new().payload(question.to_string().into()).timeout(Some(Duration::from_secs(20)));
    let reply = client.send_request("staffai.chat", request).await.unwrap();
    serde_json::from_slice(&reply.payload).unwrap()
}

/// A service that answers requests. Dropping it ends its task, and then its server.
struct Served {
    client: async_nats::Client,
    service: Arc<ChatService>,
    intake: Arc<Silent>,
    _run: AbortOnDropHandle<()>,
    _server: Nats,
}

async fn serve() -> Served {
    let (server, url) = nats();
    let client = async_nats::ConnectOptions::new().retry_on_initial_connect().connect(&url).await.unwrap();
    client.flush().await.unwrap();
    let service = Arc::new(ChatService::new(url.into(), Arc::new(Noon)));
    let intake = Arc::new(Silent::default());
    let (running, taken) = (Arc::clone(&service), Arc::clone(&intake));
    let serving = Arc::new(Notify::new());
    let served = Arc::clone(&serving);
    let run = tokio::spawn(async move {
        running.run(taken, Box::new(move || served.notify_one())).await;
    });
    serving.notified().await;
    is_subscribed(&client).await;
    Served { client, service, intake, _run: AbortOnDropHandle::new(run), _server: server }
}

/// Waits until the server passes questions on.
async fn is_subscribed(client: &async_nats::Client) {
    while let Err(error) = client.request("staffai.chat", "{".into()).await {
        assert_eq!(error.kind(), async_nats::RequestErrorKind::NoResponders, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Accepts each question and answers none.
#[derive(Default)]
struct Silent(Mutex<Vec<Posted>>);

#[async_trait]
impl Intake for Silent {
    async fn accept(&self, incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
        if let Incoming::Posted(posted) = incoming {
            self.0.lock().push(posted);
        }
        Ok(())
    }

    async fn decide(&self, _click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        panic!("no decision is pending")
    }
}

#[tokio::test]
async fn a_question_that_is_too_long_is_refused_at_its_arrival() {
    let Served { client, .. } = &serve().await;
    let long = "x".repeat(Ask::BYTES_MAX);
    let reply = ask(client, json!({"channel": "lobby", "user": "Ada", "message": long})).await;
    assert_eq!(reply["success"], false);
    assert!(reply["error"].as_str().unwrap().contains("longer than"), "{reply}");
}

#[tokio::test]
async fn a_refusal_is_never_sent_as_a_success_however_many_turns_ended_before_it() {
    let Served { client, service, intake, .. } = &serve().await;
    let spent = AnswerCost { model: Some("row".to_owned()), tokens: 15 };
    for (apology, success) in [(true, false), (false, true)] {
        let piece = Piece { apology, spent: Some(Arc::new(spent.clone())), ..Piece::text("words") };
        let asked = ask(client, json!({"channel": "lobby", "user": "Ada", "message": "hello"}));
        // No event of the turn remains: the post is the only information.
        let posts = async {
            let posted = loop {
                if let Some(posted) = intake.0.lock().pop() {
                    break posted;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            let (place, reply_to) = (posted.place, Some(posted.id));
            let request = PostRequest::Create { place, piece, reply_to, nonce: "n".to_owned() };
            service.perform(&request).await.unwrap();
        };
        let (reply, ()) = tokio::join!(asked, posts);
        assert_eq!(reply["success"], success, "{reply}");
        let (content, provider) = if apology { ("", Value::Null) } else { ("words", json!("row")) };
        assert!(reply["content"] == content && reply["provider"] == provider, "{reply}");
    }
}

#[tokio::test]
async fn a_reply_goes_to_no_subject_that_is_no_inbox() {
    let Served { client, service, intake, .. } = &serve().await;
    let mut all = client.subscribe("staffai.>").await.unwrap();
    let (whole, broken) = (r#"{"channel":"lobby","user":"Ada","message":"hello"}"#, "{");
    for subject in ["staffai.chat", "staffai.tools.announce", "orders.new"] {
        for question in [whole, broken] {
            client.publish_with_reply("staffai.chat", subject, question.into()).await.unwrap();
        }
    }
    // A record of an earlier version holds the reply subject in the id of its message.
    let id = MessageId::new(DOOR, "7.staffai.tools.announce");
    let (place, piece) = (Place::new(DOOR, "lobby"), Piece::text("words"));
    let request = PostRequest::Create { place, piece, reply_to: Some(id), nonce: "n".to_owned() };
    service.perform(&request).await.unwrap();
    // The reply to a later question shows that all earlier ones were processed.
    let refused = ask(client, json!({"channel": "lobby"})).await;
    assert_eq!(refused["success"], false);
    let mut heard = Vec::new();
    while let Some(Some(message)) = all.next().now_or_never() {
        heard.push(message.subject.to_string());
    }
    assert_eq!(heard, ["staffai.chat"; 7], "only the questions themselves");
    assert!(intake.0.lock().is_empty());
}
