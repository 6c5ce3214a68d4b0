//! Access to one tool server: its actor, and its limit of concurrent calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::mcp::{McpMsg, ServerCall};
use super::reusable_server::ReusableServer;
use crate::observers::Observers;
use crate::runtime::handle::{Handle, Refused};
use domain::happening::{Bound, Happening, WorkShed};
use domain::shed::Shed;
use domain::tool::begun::CallReply;
use domain::tool::catalogue::Pin;
use domain::tool::{CallError, CallErrorKind, ServerName, ToolRequest};
use ports::ProgressSink;
use ports::shares::Shares;
use ports::tools::ServerEntry;

/// The maximum number of concurrent calls of one server; further calls are refused. It is a quarter of all calls, a
/// bulkhead: a hanging server leaves capacity for others. One member holds at most half of them (`runtime::shares`).
pub const CALLS_MAX: usize = 16;
/// The extra time beyond the call's deadline before the caller stops: the server's side normally ends the call earlier.
const GRACE: Duration = Duration::from_secs(1);

/// Access to one tool server. Cheap to clone.
#[derive(Clone)]
pub struct ServerLine {
    /// The name of the server.
    pub name: ServerName,
    /// The actor of the server.
    pub handle: Handle<McpMsg>,
    /// The timeout of one call; `None` means the default of the settings.
    pub timeout: Option<Duration>,
    /// The server, for results that may be reused.
    pub reuse: Arc<ReusableServer>,
    permits: Shares,
    observers: Observers,
}

impl ServerLine {
    /// Returns the line to the server of this actor.
    #[must_use]
    pub fn new(entry: &ServerEntry, handle: Handle<McpMsg>, observers: Observers) -> Self {
        let (name, timeout) = (entry.name.clone(), entry.timeout);
        let reuse = Arc::new(ReusableServer::new(entry.reuse.clone()));
        Self { name, handle, timeout, reuse, permits: Shares::new(Arc::new(Semaphore::new(CALLS_MAX))), observers }
    }

    /// Makes one step of a call, always ended by its deadline. An unavailable or overloaded server refuses at once. During the
    /// first connection attempt the call is queued, and then runs if the tool matches its pin. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        request: &ToolRequest,
        pin: Option<&Pin>,
        progress: Option<ProgressSink>,
    ) -> Result<CallReply, CallError> {
        let caller = request.on_behalf.as_ref().map(|caller| &caller.person);
        let Some(permit) = self.permits.take(caller) else {
            self.observers.tell(&Happening::WorkShed(WorkShed::beside(Shed::Tools, Bound::Number, None)));
            let message = format!("{} has {CALLS_MAX} calls under way already; try again later", self.name);
            return Err(CallError::new(CallErrorKind::RateLimited, message));
        };
        let (reply, answer) = oneshot::channel();
        let within = request.deadline.saturating_add(GRACE);
        let call = ServerCall { request: request.clone(), pin: pin.cloned(), progress, permit, reply };
        match self.handle.cast(McpMsg::Call(Box::new(call))) {
            Ok(()) => {}
            Err(Refused::Down(_)) => return Err(unavailable(&self.name, "it is being started again")),
            Err(Refused::Full(_)) => return Err(unavailable(&self.name, "it has too much to do; try again later")),
        }
        match timeout(within, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                let message = format!("the connection to {} broke; whether the call ran is unknown", self.name);
                Err(CallError::new(CallErrorKind::Lost, message))
            }
            Err(_) => {
                let message = format!("{} did not answer within {within:?}", self.name);
                Err(CallError::new(CallErrorKind::Timeout, message))
            }
        }
    }
}

/// Returns the error for an unavailable server; nothing was sent.
pub(crate) fn unavailable(name: &ServerName, why: &str) -> CallError {
    CallError::new(CallErrorKind::Unavailable, format!("the tool server {name} is not available: {why}"))
}
