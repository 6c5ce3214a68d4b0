//! A scripted client: raw gateway payloads and raw REST requests.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flate2::{Decompress, FlushDecompress};
use futures_util::{SinkExt, StreamExt};
use playground::{
    guild::ids::{ChannelId, UserId},
    service::{Options, Service},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

/// Timeout of each step.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// All intents except presences: guilds, members, messages, typing, direct messages, content.
pub const INTENTS: u64 = 1 | 1 << 1 | 1 << 9 | 1 << 11 | 1 << 12 | 1 << 14 | 1 << 15;

#[expect(clippy::disallowed_methods, reason = "the service under test runs on real time")]
pub fn clock() -> Arc<dyn Fn() -> u64 + Send + Sync> {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    })
}

/// Options with short times for tests.
pub fn options() -> Options {
    Options { identify_period: Duration::ZERO, ..Options::new(clock()) }
}

pub async fn start() -> Service {
    Service::start(options()).await.unwrap()
}

pub fn channel(service: &Service, name: &str) -> ChannelId {
    service.channels().into_iter().find(|channel| channel.name == name).unwrap().id
}

pub fn member(service: &Service, name: &str) -> UserId {
    service.members().into_iter().find(|member| member.name == name).unwrap().id
}

pub struct Gateway {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    inflate: Option<Decompress>,
    pub seq: u64,
}

impl Gateway {
    pub async fn connect(service: &Service) -> Self {
        let url = service.api_url().replace("http", "ws") + "/gateway";
        Self::connect_to(&url, "").await
    }

    pub async fn connect_to(url: &str, more: &str) -> Self {
        let url = format!("{url}/?v=10&encoding=json{more}");
        let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let inflate = more.contains("zlib-stream").then(|| Decompress::new(true));
        Self { socket, inflate, seq: 0 }
    }

    /// Connects, identifies, and reads up to `GUILD_CREATE`. Also returns READY's data.
    pub async fn login(service: &Service) -> (Self, Value) {
        let mut gateway = Self::connect(service).await;
        gateway.identify(service.token(), INTENTS).await;
        let ready = gateway.event("READY").await;
        gateway.event("GUILD_CREATE").await;
        (gateway, ready)
    }

    pub async fn identify(&mut self, token: &str, intents: u64) {
        self.send(json!({"op": 2, "d": {"token": token, "intents": intents, "properties": {}}})).await;
    }

    pub async fn resume(&mut self, service: &Service, session: &Value, seq: u64) {
        self.send(json!({"op": 6, "d": {"token": service.token(), "session_id": session, "seq": seq}})).await;
    }

    pub async fn send(&mut self, payload: Value) {
        self.send_text(payload.to_string()).await;
    }

    pub async fn send_text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub async fn close(mut self, code: u16) {
        let frame = tokio_tungstenite::tungstenite::protocol::CloseFrame { code: code.into(), reason: "".into() };
        self.socket.close(Some(frame)).await.unwrap();
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    /// Returns the next payload; an error if the connection broke, with its code if it was closed.
    pub async fn next(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let frame = timeout(DEADLINE, self.socket.next()).await.expect("a frame in time");
            let text = match frame {
                Some(Ok(Message::Text(text))) => text.to_string(),
                Some(Ok(Message::Binary(bytes))) => self.inflated(&bytes),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return Err(None),
            };
            let payload: Value = serde_json::from_str(&text).unwrap();
            self.seq = payload["s"].as_u64().unwrap_or(self.seq);
            return Ok(payload);
        }
    }

    fn inflated(&mut self, bytes: &[u8]) -> String {
        let mut out = Vec::with_capacity(1 << 20);
        let inflate = self.inflate.as_mut().expect("a compressed connection");
        inflate.decompress_vec(bytes, &mut out, FlushDecompress::Sync).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns the data of the next event of this name; other payloads are skipped.
    pub async fn event(&mut self, name: &str) -> Value {
        loop {
            let payload = self.next().await.unwrap_or_else(|code| panic!("closed with {code:?} before {name}"));
            if payload["t"] == name {
                return payload["d"].clone();
            }
        }
    }

    /// Returns the next payload with this opcode; others are skipped.
    pub async fn op(&mut self, op: u64) -> Value {
        loop {
            let payload = self.next().await.unwrap_or_else(|code| panic!("closed with {code:?} before op {op}"));
            if payload["op"] == op {
                return payload;
            }
        }
    }

    /// Skips payloads until the connection ends; returns its close code, if any.
    pub async fn end(&mut self) -> Option<u16> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }
}

#[derive(Clone)]
pub struct Rest {
    client: reqwest::Client,
    base: String,
    token: String,
}

/// A response: status, headers, body.
pub type Answer = (u16, reqwest::header::HeaderMap, Value);

impl Rest {
    pub fn of(service: &Service) -> Self {
        // Another test of this binary may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            client: reqwest::Client::new(),
            base: service.api_url() + "/api/v10",
            token: format!("Bot {}", service.token()),
        }
    }

    pub fn with_token(self, token: &str) -> Self {
        Self { token: format!("Bot {token}"), ..self }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).header("authorization", &self.token)
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<Value>) -> reqwest::Result<Answer> {
        let request = self.request(method, path);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let response = timeout(DEADLINE, request.send()).await.expect("an answer in time")?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        Ok((status, headers, body))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await.unwrap()
    }

    pub async fn write(&self, channel: ChannelId, body: Value) -> Answer {
        self.post(&format!("/channels/{channel}/messages"), body).await
    }
}
