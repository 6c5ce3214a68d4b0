//! One provider as a tool server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::{Client, Request, RequestErrorKind};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::timeout;

use super::read;
use super::roster::Roster;
use super::wire::{self, Call, Cancel};
use crate::content;
use crate::failure::{MESSAGE_MAX, one_line, root_cause};
use crate::frame::MESSAGE_BYTES;
use domain::ids;
use domain::tool::{CallError, CallErrorKind, ServerName, ToolRequest, ToolResult};
use nats::{LOST, NatsSession};
use ports::tools::{Listing, ServerInfo};
use ports::{ProgressSink, ToolServer};

/// The calls of one provider over one connection.
pub(super) struct Provider {
    name: ServerName,
    session: NatsSession,
    roster: Arc<Mutex<Roster>>,
    changes: watch::Receiver<u64>,
    info: ServerInfo,
    calls: AtomicU64,
}

/// Sends the provider a cancellation if the call is dropped before its end.
struct Cancelled {
    client: Client,
    subject: String,
    call: Option<String>,
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let Ok(payload) = serde_json::to_vec(&Cancel { id: &call }) else { return };
        let (client, subject) = (self.client.clone(), std::mem::take(&mut self.subject));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A provider that does not receive it works until its own deadline.
            runtime.spawn(async move { drop(client.publish(subject, payload.into()).await) });
        }
    }
}

impl Provider {
    pub(super) fn new(
        name: ServerName,
        session: NatsSession,
        roster: Arc<Mutex<Roster>>,
        changes: watch::Receiver<u64>,
    ) -> Self {
        let info = ServerInfo {
            name: name.to_string(),
            version: String::new(),
            protocol: "nats".to_owned(),
            announces_changes: true,
        };
        Self { name, session, roster, changes, info, calls: AtomicU64::new(0) }
    }

    fn failed(&self, kind: CallErrorKind, why: &str) -> CallError {
        CallError::new(kind, one_line(&format!("{}: {why}", self.name), MESSAGE_MAX))
    }

    async fn ask(&self, call: &str, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let client = &self.session.client;
        let asked = Call {
            id: call,
            tool: &request.name,
            arguments: &request.arguments,
            deadline_ms: ids::millis(request.deadline),
            traceparent: request.trace.as_ref().map(|trace| trace.0.as_str()),
        };
        let payload = serde_json::to_vec(&asked)
            .map_err(|error| self.failed(CallErrorKind::InvalidArguments, &error.to_string()))?;
        // A separate inbox is closed with the call, whether an answer arrived or not.
        let sent = Request::new().payload(payload.into()).inbox(client.new_inbox()).timeout(None);
        let answer = client.send_request(wire::calls(&self.name), sent).await;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => {
                self.failed(CallErrorKind::Unavailable, "no process accepts its calls; nothing was sent")
            }
            RequestErrorKind::MaxPayloadExceeded => {
                self.failed(CallErrorKind::InvalidArguments, "the arguments exceed the payload limit of NATS")
            }
            RequestErrorKind::TimedOut => self.failed(CallErrorKind::Timeout, "no answer in time"),
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => {
                self.failed(CallErrorKind::Lost, &root_cause(&error))
            }
        })?;
        let (limits, bytes) = (request.limits, answer.payload.len());
        if bytes > MESSAGE_BYTES {
            return Err(self.failed(CallErrorKind::TooLarge, &format!("the answer of {bytes} bytes is too large")));
        }
        let result = move || {
            let raw: &RawValue = serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())?;
            content::result(raw, limits)
        };
        read(bytes, result).await.map_err(|why| self.failed(CallErrorKind::Malformed, &why))
    }
}

#[async_trait]
impl ToolServer for Provider {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        let tools = self.roster.lock().tools(&self.name);
        tools.ok_or_else(|| self.failed(CallErrorKind::Unavailable, "the process that provides it is gone"))
    }

    async fn call(&self, request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = format!("{}-{number}", self.session.client.new_inbox().rsplit('.').next().unwrap_or_default());
        let (client, subject) = (self.session.client.clone(), wire::cancels(&self.name));
        let mut cancelled = Cancelled { client, subject, call: Some(call.clone()) };
        let result = tokio::select! {
            result = timeout(request.deadline, self.ask(&call, request)) => match result {
                Ok(result) => result,
                Err(_) => return Err(self.failed(CallErrorKind::Timeout, "no answer in time")),
            },
            () = self.session.lost.cancelled() => {
                Err(self.failed(CallErrorKind::Lost, &format!("{LOST}; the call may have run")))
            }
        };
        cancelled.call = None;
        result
    }

    async fn ping(&self) -> Result<(), CallError> {
        // The roster tracks heartbeats, and the connection has its own pings.
        Ok(())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn closed(&self) -> String {
        let mut changes = self.changes.clone();
        let gone = async move { while changes.changed().await.is_ok() {} };
        tokio::select! {
            () = self.session.lost.cancelled() => LOST.to_owned(),
            () = gone => "the process that provides it is gone".to_owned(),
        }
    }

    async fn close(&self) {}
}
