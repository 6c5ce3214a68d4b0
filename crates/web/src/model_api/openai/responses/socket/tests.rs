//! The timeouts of a socket, over a connection in memory, so that time passes only while both sides wait.

use async_trait::async_trait;
use axum::Router;
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tower::Service;

use super::*;
use crate::model_api::{Bounds, Parts};
use domain::embedding::Embeddings;
use domain::gate::{ApprovalDecision, Click, ClickRefusal as GateRefusal};
use domain::ids::{Person, Place};
use domain::incoming::Incoming;
use ports::testing::{FixedDice, ManualClock, MemoryStore, ScriptedModels};
use ports::{
    Batch, EmbeddingAsk, Intake, Metering, Models, ModelsInForce, NoFiles, NotAccepted, NotEmbedded, TurnEventLog,
};

/// A program that serves only the names of its models.
struct Unasked(Arc<ScriptedModels>);

impl ModelsInForce for Unasked {
    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.0) as _
    }
}

#[async_trait]
impl Intake for Unasked {
    async fn accept(&self, _incoming: Incoming, _us: Person) -> Result<(), NotAccepted> {
        Err(NotAccepted)
    }

    async fn decide(&self, _click: Click) -> Result<ApprovalDecision, GateRefusal> {
        Err(GateRefusal::Unknown)
    }
}

impl TurnEventLog for Unasked {
    fn open(&self, _place: &Place) {}

    fn close(&self, _place: &Place) {}

    fn read(&self, _place: &Place, _after: u64) -> Option<Batch> {
        None
    }
}

#[async_trait]
impl Metering for Unasked {
    async fn embed(&self, _ask: EmbeddingAsk) -> Result<Embeddings, NotEmbedded> {
        Err(NotEmbedded::NotCounted)
    }

    fn most_tokens(&self, _person: &Person) -> Option<u64> {
        None
    }

    async fn refused_for(&self, _person: &Person) -> Option<Duration> {
        None
    }
}

/// A client's end of a socket, and the time at which the server's end is over.
struct Client {
    socket: WebSocketStream<DuplexStream>,
    over: oneshot::Receiver<Instant>,
    opened: Instant,
    stop: CancellationToken,
}

impl Client {
    async fn open() -> Self {
        let unasked = Arc::new(Unasked(Arc::new(ScriptedModels::new(&["main"]))));
        let api = Arc::new(ModelApi::new(Parts {
            intake: Arc::clone(&unasked) as _,
            events: Arc::clone(&unasked) as _,
            models: Arc::clone(&unasked) as _,
            meter: unasked,
            files: Arc::new(NoFiles),
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(ManualClock::new()),
            dice: Arc::new(FixedDice::new(0.5)),
            bounds: Bounds { answer: Duration::from_secs(60), at_once: 1 },
        }));
        let (stop, (ends, over)) = (CancellationToken::new(), oneshot::channel());
        let (ended, ends) = (stop.clone(), Arc::new(parking_lot::Mutex::new(Some(ends))));
        let upgraded = async move |upgrade: Option<Upgrade>| {
            let place = api.sockets.open("ci").unwrap();
            upgrade.unwrap().open(MESSAGE_MAX, async move |socket| {
                Session::new(socket, api, Caller::Local, place).serve(ended).await;
                let _ = ends.lock().take().unwrap().send(Instant::now());
            })
        };
        let (near, far) = tokio::io::duplex(64 * 1024);
        let router = Router::new().route("/v1/responses", get(upgraded));
        let service = service_fn(move |request| router.clone().call(request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades());
        let (socket, _) = tokio_tungstenite::client_async("ws://localhost/v1/responses", near).await.unwrap();
        Self { socket, over, opened: Instant::now(), stop }
    }

    /// Requests a response by an unknown model.
    async fn asks(&mut self) {
        let event = json!({"type": CREATE, "model": "unknown", "input": "hello"});
        self.socket.send(Message::text(event.to_string())).await.unwrap();
    }

    /// Reads to the end, and returns the messages and the reason of the close. Reading answers pings and the close.
    async fn reads(&mut self) -> (Vec<Value>, Option<(u16, String)>) {
        let (mut events, mut closed) = (Vec::new(), None);
        while let Some(Ok(message)) = self.socket.next().await {
            match message {
                Message::Text(text) => events.push(serde_json::from_str(&text).unwrap()),
                Message::Close(frame) => closed = frame.map(|frame| (frame.code.into(), frame.reason.to_string())),
                _ => {}
            }
        }
        (events, closed)
    }

    /// Returns the time that the socket was open, in seconds.
    async fn lasted(self) -> u64 {
        (self.over.await.unwrap() - self.opened).as_secs()
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_a_request_is_closed_after_ten_minutes_although_its_client_is_there() {
    let mut client = Client::open().await;
    let closed = (vec![], Some((1000, "there was no request for a while".to_owned())));
    assert_eq!(client.reads().await, closed);
    assert_eq!(client.lasted().await, 10 * 60);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_sign_of_life_is_gone_after_ninety_seconds() {
    let client = Client::open().await;
    assert_eq!(client.lasted().await, 90);
    // The last frame counts, not the last ping.
    let mut client = Client::open().await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    client.socket.send(Message::Pong(axum::body::Bytes::new())).await.unwrap();
    assert_eq!(client.lasted().await, 50 + 90);
}

#[tokio::test(start_paused = true)]
async fn a_socket_in_use_is_closed_after_an_hour_with_the_error_that_clients_know() {
    let mut client = Client::open().await;
    for _ in 0..6 {
        client.asks().await;
        let open = tokio::time::timeout(Duration::from_secs(9 * 60), client.reads()).await;
        assert!(open.is_err(), "it is open after {:?}", client.opened.elapsed());
    }
    client.asks().await;
    let (events, closed) = client.reads().await;
    let codes: Vec<_> =
        events.iter().map(|event| (event["status"].as_u64(), event["error"]["code"].as_str())).collect();
    let expected = [(404, "model_not_found"), (400, "websocket_connection_limit_reached")];
    assert_eq!(codes, expected.map(|(status, code)| (Some(status), Some(code))));
    assert_eq!(closed, Some((1000, "the socket was open for long enough".to_owned())));
    assert_eq!(client.lasted().await, 60 * 60);
}

#[tokio::test(start_paused = true)]
async fn a_socket_is_closed_when_the_program_stops() {
    let mut client = Client::open().await;
    client.stop.cancel();
    assert_eq!(client.reads().await, (vec![], Some((1001, "the program stops".to_owned()))));
    assert_eq!(client.lasted().await, 0);
}

#[tokio::test]
async fn a_client_that_sends_too_many_frames_is_disconnected() {
    // Continuations of a message that never ends, pings, messages without content.
    for (first, frame) in [(0x01, 0x00), (0x81, 0x89), (0x81, 0x82)] {
        let mut client = Client::open().await;
        let mut bytes = vec![first, 0x81, 0, 0, 0, 0, b'x'];
        bytes.extend([frame, 0x80, 0, 0, 0, 0].repeat(10_000));
        client.socket.get_mut().write_all(&bytes).await.unwrap();
        let (_, closed) = client.reads().await;
        assert_eq!(closed, Some((1008, "a client may send 1000 frames a second".to_owned())));
    }
}
