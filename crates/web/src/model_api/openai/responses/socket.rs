//! The Responses API over a WebSocket, after `developers.openai.com/api/docs/guides/websocket-mode`: each
//! `response.create` is answered with the events of a stream, one response at a time. A request that names the last
//! response of its socket continues from memory.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::near::Near;
use super::reading::{CreateRequest, EventHead};
use super::{Begun, Prepared, prepare};
use crate::client_socket::{ClientSocket, CloseCode, Disconnected, Error, LIFE, Message as Frame, Upgrade};
use crate::model_api::ModelApi;
use crate::model_api::asking::Progress;
use crate::model_api::body::{BODY_MAX, kib, parsed};
use crate::model_api::failure::Failure;
use crate::model_api::openai::OpenAiFailure;
use crate::model_api::openai::writing::error;
use crate::model_api::room::RoomReservation;
use crate::model_api::sockets::Open;
use domain::api_key::Caller;

/// Maximum size of a message, in bytes. Longer ones, such as conversations with pictures, are sent by POST.
const MESSAGE_MAX: usize = BODY_MAX;
/// Maximum number of queued requests of one socket.
const WAITING_MAX: usize = 8;
/// Idle timeout: the longest time without a request.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// The longest time to await a failure before the response is reported as begun.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The only supported type of event.
const CREATE: &str = "response.create";

/// Opens a socket for the holder of a key.
pub(super) async fn open(
    State(api): State<Arc<ModelApi>>,
    Extension(caller): Extension<Caller>,
    ended: Option<Extension<CancellationToken>>,
    uri: Uri,
    upgrade: Option<Upgrade>,
) -> Response {
    let Some(upgrade) = upgrade else {
        let mut response = OpenAiFailure(Failure::NoMethod(uri.path().to_owned())).into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    };
    let place = match ModelApi::opens(&caller).and_then(|()| api.sockets.open(caller.name())) {
        Ok(place) => place,
        Err(failure) => return OpenAiFailure(failure).into_response(),
    };
    // Cancelled at shutdown.
    let ended = ended.map(|Extension(ended)| ended).unwrap_or_default();
    upgrade.open(MESSAGE_MAX, move |socket| Session::new(socket, api, caller, place).serve(ended))
}

struct Session {
    socket: ClientSocket,
    api: Arc<ModelApi>,
    caller: Caller,
    near: Near,
    waiting: VecDeque<Waiting>,
    /// The end of the last response, or the opening of the socket.
    rested: Instant,
    _place: Open,
}

/// A queued request.
struct Waiting {
    request: CreateRequest,
    stream_id: Option<String>,
    room: RoomReservation,
}

impl Session {
    fn new(socket: ClientSocket, api: Arc<ModelApi>, caller: Caller, place: Open) -> Self {
        let (near, waiting) = (Near::default(), VecDeque::new());
        Self { socket, api, caller, near, waiting, rested: Instant::now(), _place: place }
    }

    /// Answers requests until either side closes the socket.
    async fn serve(mut self, ended: CancellationToken) {
        while let Ok(Some(next)) = self.next(&ended).await {
            if self.answer(next).await.is_err() {
                return;
            }
            self.rested = Instant::now();
        }
    }

    /// Returns the next request; `None` after a clean close.
    async fn next(&mut self, ended: &CancellationToken) -> Result<Option<Waiting>, Disconnected> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Ok(Some(next));
            }
            let (life, idle, due) = (self.socket.ends(), self.rested + IDLE, self.socket.ping_due());
            tokio::select! {
                frame = self.socket.receive() => self.hear(frame).await?,
                () = sleep_until(due) => self.socket.ping().await?,
                () = sleep_until(life) => {
                    let why = format!(
                        "Responses websocket connection limit reached ({} minutes). Create a new websocket connection to continue.",
                        LIFE.as_secs() / 60
                    );
                    let error = json!({
                        "type": "invalid_request_error", "code": "websocket_connection_limit_reached", "message": why, "param": null,
                    });
                    self.send(&json!({"type": "error", "status": 400, "error": error})).await?;
                    return self.close(CloseCode::Normal, "the socket was open for long enough").await;
                }
                () = sleep_until(idle) => return self.close(CloseCode::Normal, "there was no request for a while").await,
                () = ended.cancelled() => return self.close(CloseCode::Away, "the program stops").await,
            }
        }
    }

    /// Processes a frame of the client.
    async fn hear(&mut self, frame: Option<Result<Frame, Error>>) -> Result<(), Disconnected> {
        let bytes = match frame {
            Some(Ok(Frame::Text(text))) => text.into(),
            Some(Ok(Frame::Binary(bytes))) => bytes,
            Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => return Ok(()),
            Some(Err(Error::Capacity(_))) => {
                let why = format!("a message may have {MESSAGE_MAX} bytes; send longer ones by POST");
                let _ = self.close(CloseCode::Size, &why).await;
                return Err(Disconnected);
            }
            Some(Ok(Frame::Close(_)) | Err(_)) | None => return Err(Disconnected),
        };
        if self.waiting.len() >= WAITING_MAX {
            let why = format!("{WAITING_MAX} requests of this socket are queued already; wait for an answer");
            return self.fail(&Failure::OverLimit(why, None), None).await;
        }
        let room = match self.api.room.take(self.caller.name(), kib(bytes.len())).await {
            Ok(room) => room,
            Err(failure) => return self.fail(&failure, None).await,
        };
        let mut request = match parsed::<CreateRequest>(bytes).await {
            Ok(request) => request,
            Err(failure) => return self.fail(&failure, None).await,
        };
        let EventHead { kind, stream_id } = request.take_head();
        if kind.as_deref() != Some(CREATE) {
            let failure = Failure::bad("type", format!("must be {CREATE}; other types are not supported"));
            return self.fail(&failure, stream_id.as_deref()).await;
        }
        self.waiting.push_back(Waiting { request, stream_id, room });
        Ok(())
    }

    /// Answers one request. A disconnect cancels its turn.
    async fn answer(&mut self, next: Waiting) -> Result<(), Disconnected> {
        let Waiting { request, stream_id, mut room } = next;
        let (previous, warms_up) = (request.previous().map(str::to_owned), request.warms_up);
        let (api, caller) = (Arc::clone(&self.api), self.caller.clone());
        let prepared = prepare(&api, &caller, request, &mut room, Some(&self.near)).await;
        let answered = match prepared {
            Ok(prepared) if warms_up => self.warm_up(prepared, stream_id.as_deref()).await,
            Ok(prepared) => match prepared.begin(&api, &caller, room).await {
                Ok(begun) => self.stream(begun, stream_id.as_deref()).await,
                Err(failure) => ControlFlow::Break(Ok(failure)),
            },
            Err(failure) => ControlFlow::Break(Ok(failure)),
        };
        match answered {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(Ok(failure)) => {
                self.near.forget(previous.as_deref());
                self.fail(&failure, stream_id.as_deref()).await
            }
            ControlFlow::Break(Err(gone)) => Err(gone),
        }
    }

    /// Caches a conversation that the next request continues from.
    async fn warm_up(&mut self, mut prepared: Prepared, stream_id: Option<&str>) -> Answered {
        if let Err(failure) = self.api.check_size(&self.caller, &prepared.conversation) {
            return ControlFlow::Break(Ok(failure));
        }
        let all = prepared.all.take().unwrap_or_default();
        let mut writer = prepared.writer(&self.api, &self.api.next_id());
        let events = writer.warmed_up();
        self.near.keep(&writer.id, all);
        self.give(events, stream_id).await
    }

    /// Sends the events of a response. A failure before the first one is an error event of the socket.
    async fn stream(&mut self, begun: Begun, stream_id: Option<&str>) -> Answered {
        let Begun { mut asking, mut writer, mut shelf, mut all } = begun;
        let (mut told, head) = (false, Instant::now() + HEAD_TIMEOUT);
        loop {
            let due = self.socket.ping_due();
            let progress = tokio::select! {
                progress = asking.next() => progress,
                frame = self.socket.receive() => {
                    flow(self.hear(frame).await)?;
                    continue;
                }
                () = sleep_until(due) => {
                    flow(self.socket.ping().await)?;
                    continue;
                }
                () = sleep_until(head), if !told => {
                    told = true;
                    self.give(writer.created(), stream_id).await?;
                    continue;
                }
            };
            let progress = match progress {
                Progress::Failed(failure) if !told => return ControlFlow::Break(Ok(failure)),
                progress => progress,
            };
            if !told {
                told = true;
                self.give(writer.created(), stream_id).await?;
            }
            let events = writer.events(&progress);
            if let Progress::Answered(answered) = &progress {
                if let (Some(shelf), Some(last)) = (shelf.take(), events.last()) {
                    shelf.keep(&writer, answered, &last["response"]).await;
                }
                let mut said = all.take().unwrap_or_default();
                said.push(writer.said(answered));
                self.near.keep(&writer.id, said);
            }
            self.give(events, stream_id).await?;
            match progress {
                Progress::Text(_) => {}
                Progress::Answered(_) => return ControlFlow::Continue(()),
                Progress::Failed(_) => {
                    self.near = Near::default();
                    return ControlFlow::Continue(());
                }
            }
        }
    }

    async fn give(&mut self, events: Vec<Value>, stream_id: Option<&str>) -> Answered {
        for mut event in events {
            if let Some(stream_id) = stream_id {
                event["stream_id"] = stream_id.into();
            }
            flow(self.send(&event).await)?;
        }
        ControlFlow::Continue(())
    }

    async fn fail(&mut self, failure: &Failure, stream_id: Option<&str>) -> Result<(), Disconnected> {
        let mut event = error(failure);
        (event["type"], event["status"]) = ("error".into(), failure.status().as_u16().into());
        let headers = failure.headers();
        let headers = headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.into())));
        let headers: serde_json::Map<String, Value> = headers.collect();
        if !headers.is_empty() {
            event["error"]["headers"] = headers.into();
        }
        if let Some(stream_id) = stream_id {
            event["stream_id"] = stream_id.into();
        }
        self.send(&event).await
    }

    async fn send(&mut self, event: &Value) -> Result<(), Disconnected> {
        self.socket.send(Frame::text(event.to_string())).await
    }

    async fn close(&mut self, code: CloseCode, reason: &str) -> Result<Option<Waiting>, Disconnected> {
        self.socket.close(code, reason).await.map(|()| None)
    }
}

/// The result of a request: answered, or a failure that is still to be sent, or a lost connection.
type Answered = ControlFlow<Result<Failure, Disconnected>>;

const fn flow(done: Result<(), Disconnected>) -> Answered {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(gone) => ControlFlow::Break(Err(gone)),
    }
}

#[cfg(test)]
mod tests;
