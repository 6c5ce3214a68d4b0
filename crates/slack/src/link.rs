//! One connection of Socket Mode: reads envelopes, passes them on, and acknowledges each on this connection once its
//! event is durable.

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::bounded::IN_PLACE_MAX;
use super::events::{self, Content, Frame};
use super::taking::{EventOutcome, Work, count};
use super::unreadable::Unreadable;
use super::{Account, Slack};
use http_client::Duplex;
use ports::SourceError;
use telemetry::events::{GATEWAY_DROPPED, SLACK_REFRESH};

/// The bounds of the life that Slack announces for a connection, in seconds.
const LIFE_LEAST: u64 = 1;
const LIFE_MOST: u64 = 24 * 60 * 60;
/// The timeout from dialling to `hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of pings; each is answered, so a live connection is never silent for longer.
const PING_EVERY: Duration = Duration::from_secs(5);
/// The longest silence of a live connection: no ping, no frame, no answer to a ping.
const SILENT: Duration = Duration::from_secs(15);
/// The timeout of writing one frame.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The most envelopes in progress; then nothing more is read.
const TAKEN_AT_ONCE: usize = 256;
/// The largest frame, in bytes.
const FRAME_BYTES: usize = 4 * 1024 * 1024;
/// The time for which a replaced connection still delivers what is on its way.
const LINGERS: Duration = Duration::from_secs(2);
/// The longest time for which a replaced connection waits for its last acknowledgements.
const LINGERS_MAX: Duration = Duration::from_secs(10);
/// The longest reason of a failed connection, in characters.
const MAX_REASON: usize = 200;
/// The reasons to disconnect for which another connection would not help.
const FINAL: [&str; 2] = ["link_disabled", "too_many_websockets"];

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// An open connection that said `hello`.
pub(super) struct Link {
    socket: Socket,
    /// The time after which Slack closes it, if Slack named it.
    pub(super) lasts: Option<Duration>,
}

impl Link {
    /// Opens a connection and waits for its `hello`.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) async fn open(slack: &Slack, us: &Account) -> Result<Self, SourceError> {
        let address = slack.api.open_socket().await?;
        let unreachable = |reason: String| SourceError::Unreachable(reason.chars().take(MAX_REASON).collect());
        let open = async {
            let stream = slack.api.dial(&address).await.map_err(|failure| unreachable(failure.cause))?;
            let mut limits = WebSocketConfig::default();
            limits.max_message_size = Some(FRAME_BYTES);
            limits.max_frame_size = Some(FRAME_BYTES);
            let opened = client_async_with_config(address.clone(), stream, Some(limits)).await;
            let (mut socket, _) = opened.map_err(|error| unreachable(error.to_string()))?;
            loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => match read(text, us).await {
                        Frame::Hello(seconds) => {
                            return Ok(Self {
                                socket,
                                lasts: seconds.map(|seconds| Duration::from_secs(seconds.clamp(LIFE_LEAST, LIFE_MOST))),
                            });
                        }
                        Frame::Disconnect(reason) => return Err(unreachable(format!("slack disconnects: {reason}"))),
                        Frame::Envelope { .. } | Frame::Other => {}
                    },
                    Some(Ok(Message::Close(_))) | None => return Err(unreachable("slack hung up".to_owned())),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(unreachable(error.to_string())),
                }
            }
        };
        timeout(HELLO_TIMEOUT, open)
            .await
            .unwrap_or_else(|_| Err(unreachable("slack sent no hello in time".to_owned())))
    }

    /// Serves the connection until it ends; returns the reason.
    pub(super) async fn run(self, work: Work) -> String {
        let now = Instant::now();
        let mut pings = interval_at(now + PING_EVERY, PING_EVERY);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running = Running { socket: self.socket, heard: now, taken: FuturesUnordered::new(), work };
        let mut replaced_at: Option<Instant> = None;
        let mut read = true;
        loop {
            if let Some(at) = replaced_at {
                let lingered = at.elapsed() >= LINGERS && running.taken.is_empty();
                if lingered || at.elapsed() >= LINGERS_MAX {
                    running.close().await;
                    return "another connection replaced it".to_owned();
                }
            }
            let reads = running.taken.len() < TAKEN_AT_ONCE;
            // While reading is paused, silence does not mean that the connection is dead.
            if reads && !read {
                running.heard = Instant::now();
            }
            read = reads;
            let silent_at = running.heard + SILENT;
            let linger_at =
                replaced_at.map_or(now, |at| (at + LINGERS).max(Instant::now() + Duration::from_millis(50)));
            let step = tokio::select! {
                message = running.socket.next(), if reads => running.message(message).await,
                Some(done) = running.taken.next(), if !running.taken.is_empty() => running.acknowledge(done).await,
                _ = pings.tick() => running.send(Message::Ping(Vec::new().into())).await,
                () = sleep_until(silent_at), if reads => running.silent().await,
                () = running.work.replaced.cancelled(), if replaced_at.is_none() => {
                    replaced_at = Some(Instant::now());
                    ControlFlow::Continue(())
                }
                () = sleep_until(linger_at), if replaced_at.is_some() => ControlFlow::Continue(()),
            };
            if let ControlFlow::Break(reason) = step {
                return reason.chars().take(MAX_REASON).collect();
            }
        }
    }
}

/// A connection that serves.
struct Running {
    socket: Socket,
    /// The time of the last frame.
    heard: Instant,
    /// The envelopes in progress; each yields its acknowledgement if it may be acknowledged.
    taken: FuturesUnordered<BoxFuture<'static, Option<String>>>,
    work: Work,
}

type Step = ControlFlow<String>;

impl Running {
    async fn message(&mut self, message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>) -> Step {
        match message {
            Some(Ok(message)) => {
                self.heard = Instant::now();
                match message {
                    Message::Text(text) => self.frame(text).await,
                    Message::Close(frame) => {
                        let words = frame.map_or_else(String::new, |frame| format!(": {}", frame.code));
                        Step::Break(format!("slack hung up{words}"))
                    }
                    // The library answers pings.
                    _ => Step::Continue(()),
                }
            }
            Some(Err(error)) => Step::Break(error.to_string()),
            None => Step::Break("slack hung up".to_owned()),
        }
    }

    /// Ends the connection, unless a frame waits to be read.
    async fn silent(&mut self) -> Step {
        match self.socket.next().now_or_never() {
            Some(message) => self.message(message).await,
            None => Step::Break("the peer is silent".to_owned()),
        }
    }

    async fn frame(&mut self, text: Utf8Bytes) -> Step {
        match read(text, &self.work.us).await {
            Frame::Hello(_) => Step::Continue(()),
            Frame::Disconnect(reason) if FINAL.contains(&reason.as_str()) => {
                Step::Break(format!("slack disconnects: {reason}"))
            }
            Frame::Disconnect(reason) => {
                tracing::debug!(event = SLACK_REFRESH, reason, "slack asks for another connection");
                // A full channel means that the request is known already.
                let _ = self.work.refresh.try_send(());
                Step::Continue(())
            }
            Frame::Envelope { id, retry, content } => self.envelope(id, retry, content).await,
            Frame::Other => {
                count("slack_odd");
                Step::Continue(())
            }
        }
    }

    async fn envelope(&mut self, id: String, retry: u32, content: Result<Content, Unreadable>) -> Step {
        self.work.intake.noted();
        let content = match content {
            Ok(content) => content,
            Err(Unreadable(reason)) => {
                count("slack_unreadable");
                tracing::warn!(event = GATEWAY_DROPPED, reason, retry, "an event of slack cannot be read");
                return self.acknowledge(Some(acknowledgement(&id, None))).await;
            }
        };
        count(content.kind());
        if retry > 0 {
            count("slack_retry");
        }
        match self.work.taking(content) {
            Some(taking) => {
                let acknowledged = move |taken| match taken {
                    EventOutcome::Settled => Some(acknowledgement(&id, None)),
                    EventOutcome::Answered(payload) => Some(acknowledgement(&id, Some(payload))),
                    EventOutcome::Returned => None,
                };
                self.taken.push(taking.map(acknowledged).boxed());
                Step::Continue(())
            }
            None => self.acknowledge(Some(acknowledgement(&id, None))).await,
        }
    }

    /// Acknowledges an envelope. Without an acknowledgement its event was not accepted, and Slack delivers it again.
    async fn acknowledge(&mut self, acknowledgement: Option<String>) -> Step {
        match acknowledgement {
            Some(acknowledgement) => self.send(Message::text(acknowledgement)).await,
            None => Step::Continue(()),
        }
    }

    async fn send(&mut self, message: Message) -> Step {
        match timeout(SEND_TIMEOUT, self.socket.send(message)).await {
            Ok(Ok(())) => Step::Continue(()),
            Ok(Err(error)) => Step::Break(error.to_string()),
            Err(_) => Step::Break("the peer takes no frame".to_owned()),
        }
    }

    async fn close(&mut self) {
        // A peer that is gone needs no goodbye.
        let _ = timeout(SEND_TIMEOUT, self.socket.close(None)).await;
    }
}

/// Reads a frame. A long one is parsed on another thread.
async fn read(text: Utf8Bytes, us: &Account) -> Frame {
    if text.len() <= IN_PLACE_MAX {
        return events::read(&text, us);
    }
    let us = us.clone();
    tokio::task::spawn_blocking(move || events::read(&text, &us)).await.unwrap_or(Frame::Other)
}

/// Returns the frame that acknowledges an envelope, with the answer to an interaction.
fn acknowledgement(id: &str, payload: Option<Value>) -> String {
    let mut frame = json!({"envelope_id": id});
    if let Some(payload) = payload {
        frame["payload"] = payload;
    }
    frame.to_string()
}

#[cfg(test)]
mod tests;
