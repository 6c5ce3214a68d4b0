//! HTTP with SSE, the transport of the first protocol revision: one event stream from the server, and an address in the
//! first event for messages to it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::exchange::Exchanges;
use super::failure::{Failure, place_of};
use super::frame::Frame;
use super::http::{Events, HttpClient};
use super::inquiry::ReplyPath;
use super::stdio::decoded;

/// The most queued incoming messages.
const WAITING: usize = 256;
/// The timeout of acknowledging one message; answers arrive over the stream.
const POST_TIMEOUT: Duration = Duration::from_secs(60);

/// The connection to one server.
pub(super) struct Legacy {
    client: HttpClient,
    /// The address of messages to the server.
    target: Url,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    _reading: DropGuard,
}

impl Legacy {
    /// Opens the stream and waits for the address.
    ///
    /// # Errors
    /// There is no such stream, or the address has another origin.
    pub(super) async fn open(client: HttpClient, exchanges: Arc<Exchanges>) -> Result<Self, Failure> {
        let response = client.open(client.url().clone(), HeaderMap::new()).await?;
        let mut events = Events::new(response, Arc::clone(&exchanges));
        let target = loop {
            let Some(event) = events.next().await else {
                if let Some(reason) = exchanges.inquiries.reason() {
                    return Err(Failure::Lost(reason));
                }
                return Err(Failure::Malformed("its stream of events ended before it named an address".to_owned()));
            };
            if event.name.as_deref() != Some("endpoint") {
                continue;
            }
            let Some(Frame::Whole(address)) = event.data else { continue };
            let address = String::from_utf8_lossy(&address).trim().to_owned();
            break client.url().join(&address).map_err(|error| Failure::Malformed(error.to_string()))?;
        };
        if target.origin() != client.url().origin() {
            return Err(Failure::Redirected(place_of(&target)));
        }
        let (messages, incoming) = mpsc::channel(WAITING);
        let replies = Replies { client: client.clone(), target: target.clone() };
        let over = CancellationToken::new();
        let reading = over.clone().drop_guard();
        tokio::spawn(async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = read(events, exchanges, messages, replies) => {}
            }
        });
        Ok(Self { client, target, incoming, _reading: reading })
    }
}

/// The path of replies to the server.
#[derive(Clone)]
struct Replies {
    client: HttpClient,
    target: Url,
}

impl ReplyPath for Replies {
    async fn reply(&self, message: Vec<u8>) {
        self.client.reply_to(self.target.clone(), HeaderMap::new(), message).await;
    }
}

async fn read(
    mut events: Events,
    exchanges: Arc<Exchanges>,
    messages: mpsc::Sender<ServerJsonRpcMessage>,
    replies: Replies,
) {
    while let Some(event) = events.next().await {
        let Some(frame) = event.data.filter(|_| event.name.is_none()) else { continue };
        for message in decoded(&exchanges, frame, None, &replies).await {
            if messages.send(message).await.is_err() {
                return;
            }
        }
        if exchanges.inquiries.is_shut() {
            return;
        }
    }
}

impl Transport<RoleClient> for Legacy {
    type Error = Failure;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let (client, target) = (self.client.clone(), self.target.clone());
        async move {
            let posted = tokio::time::timeout(POST_TIMEOUT, client.deliver(target, &message)).await;
            posted.unwrap_or(Err(Failure::Timeout(POST_TIMEOUT)))
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Failure> {
        self.incoming.close();
        Ok(())
    }
}
