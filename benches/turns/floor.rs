//! The floor: a bare relay with the same input and output, as a lower bound of the cost. Gateway in, one model call,
//! one post; no order, history, limits, retries, journal, log or typing.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::Message;

use crate::{http, wire};

/// Maximum concurrent model calls, as in the program under test.
const CONCURRENT: usize = 64;
/// The length of the prompt, about that of the program under test, in bytes.
const PROMPT: usize = 4_000;

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    d: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    id: &'a str,
    channel_id: &'a str,
    #[serde(borrow)]
    content: std::borrow::Cow<'a, str>,
}

/// A pool of connections to one server.
struct Pool {
    server: SocketAddr,
    free: Mutex<Vec<(TcpStream, Vec<u8>)>>,
}

impl Pool {
    /// Sends a request; returns the connection for its response.
    async fn send(&self, method: &str, path: &str, body: &str) -> std::io::Result<(TcpStream, Vec<u8>)> {
        let free = self.free.lock().pop();
        let (mut stream, buffer) = match free {
            Some(free) => free,
            None => {
                let stream = TcpStream::connect(self.server).await?;
                stream.set_nodelay(true)?;
                (stream, Vec::with_capacity(4096))
            }
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bot floor\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.server,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        Ok((stream, buffer))
    }

    async fn exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<Vec<u8>> {
        let (stream, buffer) = self.send(method, path, body).await?;
        self.receive(stream, buffer).await
    }

    async fn receive(&self, mut stream: TcpStream, mut buffer: Vec<u8>) -> std::io::Result<Vec<u8>> {
        let (head, length) = http::read(&mut stream, &mut buffer).await?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let answer = buffer[head..head + length].to_vec();
        buffer.clear();
        self.free.lock().push((stream, buffer));
        Ok(answer)
    }
}

/// Runs until the gateway is gone.
pub async fn run(api: SocketAddr, gateway: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let pool = Arc::new(Pool { server: api, free: Mutex::default() });
    let permits = Arc::new(Semaphore::new(CONCURRENT));
    let prompt: Arc<str> = "p".repeat(PROMPT).into();
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{gateway}/")).await?;
    socket.send(Message::text(r#"{"op":2,"d":{}}"#)).await?;
    let us = memchr::memmem::Finder::new(b"\"id\":\"900000000000000001\"");
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else { continue };
        if !text.starts_with(r#"{"t":"MESSAGE_CREATE""#) || us.find(text.as_bytes()).is_none() {
            continue;
        }
        let Ok(Frame { d }) = serde_json::from_str::<Frame<'_>>(&text) else { continue };
        let turn = Turn { id: d.id.to_owned(), channel: d.channel_id.to_owned(), text: d.content.into_owned() };
        let (pool, permits, prompt) = (Arc::clone(&pool), Arc::clone(&permits), Arc::clone(&prompt));
        tokio::spawn(async move {
            // The rig counts a failed turn as lost.
            let _ = relay(&pool, &permits, &prompt, &turn).await;
        });
    }
    Ok(())
}

struct Turn {
    id: String,
    channel: String,
    text: String,
}

async fn relay(pool: &Pool, permits: &Semaphore, prompt: &str, turn: &Turn) -> std::io::Result<()> {
    let permit = permits.acquire().await.map_err(std::io::Error::other)?;
    let body = format!(
        r#"{{"model":"rig","messages":[{{"role":"system","content":"{prompt}"}},{{"role":"user","content":"{}"}}]}}"#,
        turn.text
    );
    let (mut stream, mut buffer) = pool.send("POST", "/v1/chat/completions", &body).await?;
    while stream.read_buf(&mut buffer).await? > 0 && memchr::memmem::find(&buffer, b"\r\n\r\n").is_none() {}
    if memchr::memmem::find(&buffer, b"transfer-encoding: chunked").is_some() {
        return relay_stream(pool, stream, buffer, turn).await;
    }
    let answer = pool.receive(stream, buffer).await?;
    drop(permit);
    let marker = br#"\"response\":\""#;
    let at = memchr::memmem::find(&answer, marker).map_or(0, |at| at + marker.len());
    let end = memchr::memmem::find(&answer[at..], br#"\""#).unwrap_or(0);
    let text = std::str::from_utf8(&answer[at..at + end]).unwrap_or_default();
    post(pool, turn, text).await
}

/// Posts the first word of a streamed answer, and edits in the whole text at the end.
async fn relay_stream(pool: &Pool, mut stream: TcpStream, mut buffer: Vec<u8>, turn: &Turn) -> std::io::Result<()> {
    let marker = br#"\"response\":\""#;
    while memchr::memmem::find(&buffer, marker).is_none() && stream.read_buf(&mut buffer).await? > 0 {}
    let at = memchr::memmem::find(&buffer, marker).map_or(0, |at| at + marker.len());
    let first = std::str::from_utf8(&buffer[at..]).unwrap_or_default().split('"').next().unwrap_or_default().to_owned();
    post(pool, turn, &first).await?;
    while !buffer.ends_with(b"0\r\n\r\n") && stream.read_buf(&mut buffer).await? > 0 {}
    buffer.clear();
    pool.free.lock().push((stream, buffer));
    // The floor does not read the rig's response, so the post has the trigger's id.
    let (id, channel) = (&turn.id, &turn.channel);
    let body = format!(r#"{{"content":"{}"}}"#, wire::streamed_text());
    pool.exchange("PATCH", &format!("/api/v10/channels/{channel}/messages/{id}"), &body).await?;
    Ok(())
}

async fn post(pool: &Pool, turn: &Turn, text: &str) -> std::io::Result<()> {
    let Turn { id, channel, .. } = turn;
    let body = format!(
        r#"{{"content":"{text}","nonce":"{id}","enforce_nonce":true,"message_reference":{{"message_id":"{id}","channel_id":"{channel}"}},"allowed_mentions":{{"parse":[]}}}}"#
    );
    pool.exchange("POST", &format!("/api/v10/channels/{channel}/messages"), &body).await?;
    Ok(())
}
