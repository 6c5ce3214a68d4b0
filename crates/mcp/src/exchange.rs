//! Pending requests of one connection. Every message passes through here in both directions, before rmcp sees incoming
//! ones. Results of calls are read here and stored for the caller; messages that belong to no pending request are
//! dropped.

mod outline;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetExtensions, GetMeta,
    ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use self::outline::Outline;
use super::content;
use super::failure::Failure;
use super::frame::{Frame, Message, Oversized};
use super::inquiry::Inquiries;
use super::lenient::{self, bounded};
use super::listing::{self, Page};
use super::pending;
use super::room::Room;
use super::unasked::Unasked;
use domain::tool::begun::CallReply;
use domain::tool::{ResultLimits, ServerName, ToolResult};
use ports::ProgressSink;
use ports::tools::Progress;

/// The largest message read by rmcp itself, in bytes: introductions and notifications, which are short.
const OWN_BYTES: usize = 256 * 1024;
/// The most messages of one batch.
const BATCH_MAX: usize = 1_000;
/// The schema key that names headers.
const HEADER: &[u8] = b"x-mcp-header";
/// The most bytes of the tools of one page that name headers.
const HEADER_TOOLS_BYTES: usize = 512 * 1024;
/// The longest message of a progress notification, in bytes.
const PROGRESS_BYTES: usize = 200;

/// The expected answer of a request. It travels in the request's extensions, which never leave this process.
#[derive(Clone)]
pub(super) struct Awaited {
    pub want: Want,
    pub progress: Option<ProgressSink>,
    slot: Arc<Mutex<Option<Result<Payload, Failure>>>>,
}

/// The expected kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Tools,
    Call(ResultLimits),
    /// The state of a task.
    Task(ResultLimits),
    /// An acknowledgement without content.
    Ack,
    Resource(ResultLimits),
    Prompt(ResultLimits),
    /// True if the list of this name is empty.
    Empty(&'static str),
    Data(ResultLimits),
}

#[derive(Debug)]
pub(super) enum Payload {
    Tools(Page),
    Empty(bool),
    Result(ToolResult),
    Reply(CallReply),
    Ack,
}

impl Awaited {
    /// Creates the expectation of such an answer.
    pub(super) fn new(want: Want, progress: Option<ProgressSink>) -> Self {
        Self { want, progress, slot: Arc::default() }
    }

    /// Takes the answer, once.
    pub(super) fn take(&self) -> Option<Result<Payload, Failure>> {
        self.slot.lock().take()
    }

    fn fill(&self, outcome: Result<Payload, Failure>) {
        *self.slot.lock() = Some(outcome);
    }
}

/// The pending requests of one connection.
pub(super) struct Exchanges {
    server: ServerName,
    pending: Mutex<Pending>,
    changes: watch::Sender<u64>,
    last_failure: Mutex<Option<Failure>>,
    /// The memory budget of its replies.
    pub room: Room,
    pub inquiries: Inquiries,
    /// Unsolicited messages of the server.
    unasked: Unasked,
}

#[derive(Default)]
struct Pending {
    requests: HashMap<RequestId, Request>,
    progress: HashMap<ProgressToken, (RequestId, ProgressSink)>,
}

struct Request {
    awaited: Option<Awaited>,
    token: Option<ProgressToken>,
    /// True if the answer is the server's introduction.
    introduces: bool,
    /// True for a subscription. It stays pending for the whole session, and awaits no single answer.
    subscribes: bool,
}

/// The relevant fields of a message.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    /// Also present if `null`, which some servers send as an empty result.
    #[serde(borrow, default, deserialize_with = "whatever_it_is")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

fn whatever_it_is<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(reader).map(Some)
}

impl AsRef<Inquiries> for Exchanges {
    fn as_ref(&self) -> &Inquiries {
        &self.inquiries
    }
}

impl Exchanges {
    pub(super) fn new(server: ServerName, changes: watch::Sender<u64>, room: Room) -> Self {
        let (pending, last_failure, inquiries, unasked) = Default::default();
        Self { server, pending, changes, last_failure, room, inquiries, unasked }
    }

    pub(super) fn outgoing(&self, message: &ClientJsonRpcMessage) {
        let request = match message {
            ClientJsonRpcMessage::Request(request) => request,
            ClientJsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.forget(id);
                }
                return;
            }
            _ => return,
        };
        let awaited = request.request.extensions().get::<Awaited>().cloned();
        let token = request.request.get_meta().get_progress_token();
        let mut pending = self.pending.lock();
        if let (Some(token), Some(sink)) = (&token, awaited.as_ref().and_then(|awaited| awaited.progress.clone())) {
            pending.progress.insert(token.clone(), (request.id.clone(), sink));
        }
        let introduces = matches!(request.request, ClientRequest::InitializeRequest(_));
        let subscribes = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
        pending.requests.insert(request.id.clone(), Request { awaited, token, introduces, subscribes });
    }

    /// Removes a finished request, answered or not.
    pub(super) fn forget(&self, id: &RequestId) {
        self.pending.lock().remove(id);
    }

    pub(super) fn waits(&self, id: &RequestId) -> bool {
        self.pending.lock().requests.contains_key(id)
    }

    pub(super) fn fail(&self, id: Option<&RequestId>, failure: &Failure) {
        let request = id.and_then(|id| self.pending.lock().remove(id));
        if let Some(awaited) = request.and_then(|request| request.awaited) {
            awaited.fill(Err(failure.clone()));
        }
        *self.last_failure.lock() = Some(failure.clone());
    }

    /// Returns the last failure, for a handshake without a waiting caller.
    pub(super) fn last_failure(&self) -> Option<Failure> {
        self.last_failure.lock().clone()
    }

    /// Reports that the list of tools may have changed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Counts received bytes, and lines that are not messages. A server that sends too much unsolicited data is
    /// disconnected.
    pub(super) fn received(&self, bytes: usize, lines: usize) {
        let unasked = if self.is_asking() { 0 } else { bytes };
        self.bound(self.unasked.bytes(unasked, lines));
    }

    /// True if a request with a deadline is pending.
    pub(super) fn is_asking(&self) -> bool {
        self.pending.lock().awaiting().next().is_some()
    }

    fn bound(&self, counted: Result<(), String>) {
        if let Err(reason) = counted
            && !self.inquiries.is_shut()
        {
            self.inquiries.shut(reason);
        }
    }

    /// Processes a received frame and returns the messages for rmcp. `hint` is the request that it answers, if the
    /// transport knows it.
    pub(super) fn incoming(&self, frame: Frame, hint: Option<&RequestId>) -> Vec<ServerJsonRpcMessage> {
        self.bound(self.unasked.message());
        match frame {
            _ if self.inquiries.is_shut() => Vec::new(),
            Frame::Whole(message) => self.whole(message),
            Frame::Oversized(frame) => self.oversized(&frame, hint).into_iter().collect(),
        }
    }

    fn whole(&self, mut message: Message) -> Vec<ServerJsonRpcMessage> {
        if let Some(mended) = lenient::mended(&message) {
            message.bytes = mended;
        }
        let bytes = message.trim_ascii();
        if bytes.first() == Some(&b'[') {
            let batch = bounded::<BATCH_MAX>(bytes);
            return batch.into_iter().filter_map(|message| self.one(message)).collect();
        }
        if let Some(message) = self.read(bytes) {
            return message.into_iter().collect();
        }
        lenient::objects(bytes).into_iter().filter_map(|message| self.one(message)).collect()
    }

    fn one(&self, message: &RawValue) -> Option<ServerJsonRpcMessage> {
        self.bound(self.unasked.message());
        if self.inquiries.is_shut() {
            return None;
        }
        self.read(message.get().as_bytes()).flatten()
    }

    /// Returns `None` if it is not a message; the inner `None` if rmcp does not need it.
    #[expect(clippy::option_option, reason = "no message, and one that stays here, are two answers")]
    fn read(&self, bytes: &[u8]) -> Option<Option<ServerJsonRpcMessage>> {
        let envelope: Envelope<'_> = serde_json::from_slice(bytes).ok()?;
        let Envelope { id, method, result, error, params } = &envelope;
        match (method, id, result, error) {
            (Some(method), None, ..) => Some(self.notification(method, *params, bytes)),
            (Some(method), Some(id), ..) => {
                self.inquiries.ask(method, id);
                Some(None)
            }
            (None, Some(id), Some(result), None) => Some(self.answer(id, result, bytes)),
            (None, id, _, Some(error)) => Some(self.error(*id, error)),
            _ => None,
        }
    }

    fn notification(&self, method: &str, params: Option<&RawValue>, bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
        match method {
            // Utility tools depend on resources and prompts.
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => {
                self.changed();
                None
            }
            "notifications/progress" => {
                self.progress(params?);
                None
            }
            "notifications/cancelled" | "notifications/subscriptions/acknowledged" if bytes.len() <= OWN_BYTES => {
                serde_json::from_slice(bytes).ok()
            }
            // Logs and other notifications are ignored.
            _ => None,
        }
    }

    fn progress(&self, params: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            progress_token: ProgressToken,
            progress: f64,
            #[serde(default)]
            total: Option<f64>,
            #[serde(borrow, default)]
            message: Option<Cow<'a, str>>,
        }
        let Ok(wire) = serde_json::from_str::<Wire<'_>>(params.get()) else { return };
        let sink = self.pending.lock().progress.get(&wire.progress_token).map(|(_, sink)| Arc::clone(sink));
        let Some(sink) = sink else { return };
        let message = wire.message.map(|message| super::failure::one_line(&message, PROGRESS_BYTES));
        sink(Progress { done: wire.progress, total: wire.total, message });
    }

    fn answer(&self, id: &RawValue, result: &RawValue, bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
        let id = request_id(id)?;
        let request = self.pending.lock().remove(&id)?;
        self.unasked.was_asked();
        let Some(awaited) = request.awaited else {
            if bytes.len() > OWN_BYTES {
                return Some(too_large(id, bytes.len() as u64));
            }
            let introduction = request.introduces.then(|| lenient::introduction(result)).flatten();
            let message = match introduction {
                Some(result) => serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": result})),
                None => serde_json::from_slice(bytes),
            };
            return Some(message.unwrap_or_else(|error| {
                let message = format!("the answer is unreadable: {error}");
                ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, message, None), Some(id))
            }));
        };
        awaited.fill(self.payload(awaited.want, result));
        acknowledgement(&id, (awaited.want == Want::Tools).then_some(result))
    }

    fn payload(&self, want: Want, result: &RawValue) -> Result<Payload, Failure> {
        let read = match want {
            Want::Tools => listing::page(&self.server, result).map(Payload::Tools),
            Want::Empty(name) => Ok(Payload::Empty(listing::is_empty(result, name))),
            Want::Call(limits) => pending::reply(result, limits).map(Payload::Reply),
            Want::Task(limits) => pending::task(result, limits).map(Payload::Reply),
            Want::Ack => Ok(Payload::Ack),
            Want::Resource(limits) => content::resource(result, limits).map(Payload::Result),
            Want::Prompt(limits) => content::prompt(result, limits).map(Payload::Result),
            Want::Data(limits) => Ok(Payload::Result(ToolResult::text(result.get()).within(limits))),
        };
        read.map_err(Failure::Malformed)
    }

    fn error(&self, id: Option<&RawValue>, error: &RawValue) -> Option<ServerJsonRpcMessage> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(default)]
            code: i32,
            #[serde(borrow, default)]
            message: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
        }
        let mut pending = self.pending.lock();
        let id = match id.filter(|id| id.get() != "null") {
            Some(id) => request_id(id)?,
            // An error without an id can only belong to the single pending request.
            None => pending.single()?,
        };
        let request = pending.remove(&id)?;
        drop(pending);
        self.unasked.was_asked();
        let wire: Wire<'_> = serde_json::from_str(error.get()).unwrap_or(Wire { code: 0, message: None, data: None });
        let message = wire.message.as_deref().unwrap_or_else(|| error.get());
        let message = super::failure::one_line(message, super::failure::MESSAGE_MAX);
        let data = wire.data.filter(|data| data.get().len() <= OWN_BYTES);
        let data = data.and_then(|data| serde_json::from_str(data.get()).ok());
        if let Some(awaited) = request.awaited {
            awaited.fill(Err(Failure::Rpc { code: wire.code, message: message.clone() }));
        }
        Some(ServerJsonRpcMessage::error(ErrorData::new(ErrorCode(wire.code), message, data), Some(id)))
    }

    fn oversized(&self, frame: &Oversized, hint: Option<&RequestId>) -> Option<ServerJsonRpcMessage> {
        let outline = Outline::of(&frame.head, &frame.tail);
        if outline.has_method {
            // A request or a notification of the server answers no call.
            return None;
        }
        let mut pending = self.pending.lock();
        let id = match hint.cloned().or(outline.id) {
            // The answer to a request that is no longer pending belongs to no other.
            Some(id) => id,
            None => pending.single()?,
        };
        let request = pending.remove(&id)?;
        drop(pending);
        let Some(awaited) = request.awaited else {
            return Some(too_large(id, frame.bytes));
        };
        awaited.fill(match awaited.want {
            _ if frame.crowded => Err(Failure::Crowded(frame.bytes)),
            Want::Call(limits) => Ok(Payload::Reply(CallReply::Result(content::oversized(frame, limits)))),
            _ => Err(Failure::TooLarge(frame.bytes)),
        });
        acknowledgement(&id, None)
    }
}

impl Pending {
    fn remove(&mut self, id: &RequestId) -> Option<Request> {
        let request = self.requests.remove(id)?;
        if let Some(token) = &request.token {
            self.progress.remove(token);
        }
        Some(request)
    }

    /// Returns the requests that await an answer: all but subscriptions.
    fn awaiting(&self) -> impl Iterator<Item = &RequestId> {
        self.requests.iter().filter(|(_, request)| !request.subscribes).map(|(id, _)| id)
    }

    /// Returns the request that awaits an answer, if there is exactly one.
    fn single(&self) -> Option<RequestId> {
        let mut awaiting = self.awaiting();
        awaiting.next().filter(|_| awaiting.next().is_none()).cloned()
    }
}

/// Returns the message that tells rmcp of an answer read here. It contains the tools whose schemas name headers,
/// because rmcp's HTTP transport needs them.
fn acknowledgement(id: &RequestId, tools: Option<&RawValue>) -> Option<ServerJsonRpcMessage> {
    #[derive(Deserialize)]
    struct Tools<'a> {
        #[serde(borrow)]
        tools: &'a RawValue,
    }
    let tools = tools.filter(|tools| memchr::memmem::find(tools.get().as_bytes(), HEADER).is_some());
    let result = tools.map_or(json!({}), |tools| {
        let tools = serde_json::from_str::<Tools<'_>>(tools.get()).map(|tools| tools.tools.get()).unwrap_or_default();
        let mut room = HEADER_TOOLS_BYTES;
        let named = bounded::<{ listing::TOOLS_MAX }>(tools.as_bytes()).into_iter().filter(|tool| {
            let names = memchr::memmem::find(tool.get().as_bytes(), HEADER).is_some();
            let fits = names && tool.get().len() <= room;
            room -= if fits { tool.get().len() } else { 0 };
            fits && serde_json::from_str::<rmcp::model::Tool>(tool.get()).is_ok()
        });
        json!({"tools": named.filter_map(|tool| serde_json::from_str(tool.get()).ok()).collect::<Vec<serde_json::Value>>()})
    });
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": result})).ok()
}

/// Returns an error in place of an answer that is too large for rmcp.
fn too_large(id: RequestId, bytes: u64) -> ServerJsonRpcMessage {
    let message = format!("the answer of {bytes} bytes is too large");
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, message, None), Some(id))
}

/// Reads an id of this client: a number, which some servers return as text.
fn request_id(raw: &RawValue) -> Option<RequestId> {
    raw.get().trim_matches('"').parse().ok().map(RequestId::Number)
}

pub(super) fn id_of(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// True if a request asks for the supported protocol revisions.
pub(super) fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

/// Returns the error of an older server for a request for revisions.
pub(super) fn not_discoverable(id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "server/discover is not supported", None);
    ServerJsonRpcMessage::error(error, Some(id))
}

/// Converts the answer to `server/discover` for rmcp. A result without revisions becomes the error of an older server,
/// so that rmcp falls back to `initialize`.
pub(super) fn of_discovery(message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    match message {
        ServerJsonRpcMessage::Response(response) if !matches!(response.result, ServerResult::DiscoverResult(_)) => {
            not_discoverable(response.id)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
