//! The way to one tool server: its actor, and how many calls of it there may be at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::mcp::{McpMsg, ServerCall};
use crate::account::Account;
use crate::runtime::handle::Handle;
use domain::happening::{Bound, Happening, WorkShed};
use domain::shed::Shed;
use domain::tool::catalogue::Pin;
use domain::tool::{CallError, CallErrorKind, ServerName, ToolRequest, ToolResult};
use ports::ProgressSink;
use ports::tools::ServerEntry;

/// Calls of one server that are under way at once; more are refused. A quarter of all calls: a server that hangs leaves room for others.
pub const CALLS_MAX: usize = 16;
/// How much longer than its deadline an answer is waited for: the server's own side ends it before.
const GRACE: Duration = Duration::from_secs(1);

/// The way to one tool server. Cheap to clone.
#[derive(Clone)]
pub struct ServerLine {
    /// Its name.
    pub name: ServerName,
    /// Its actor.
    pub handle: Handle<McpMsg>,
    /// Time one call may take; none leaves it to the settings.
    pub timeout: Option<Duration>,
    permits: Arc<Semaphore>,
    account: Account,
}

impl ServerLine {
    /// The way to the server of this actor.
    #[must_use]
    pub fn new(entry: &ServerEntry, handle: Handle<McpMsg>, account: Account) -> Self {
        let (name, timeout) = (entry.name.clone(), entry.timeout);
        Self { name, handle, timeout, permits: Arc::new(Semaphore::new(CALLS_MAX)), account }
    }

    /// One call, ended by its deadline whatever happens. A server that is away or has too much to do refuses at once; one that is
    /// connected for the first time is waited for, and then takes the call if the tool is what its pin says. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &self,
        request: &ToolRequest,
        pin: Option<&Pin>,
        progress: Option<ProgressSink>,
    ) -> Result<ToolResult, CallError> {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.account.tell(&Happening::WorkShed(WorkShed::beside(Shed::Tools, Bound::Number, None)));
            let message = format!("{} has {CALLS_MAX} calls under way already; try again later", self.name);
            return Err(CallError::new(CallErrorKind::RateLimited, message));
        };
        let (reply, answer) = oneshot::channel();
        let within = request.deadline.saturating_add(GRACE);
        let call = ServerCall { request: request.clone(), pin: pin.cloned(), progress, permit, reply };
        if self.handle.cast(McpMsg::Call(Box::new(call))).is_err() {
            return Err(unavailable(&self.name, "it is being started again"));
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

/// The server is not there; nothing was sent.
pub(crate) fn unavailable(name: &ServerName, why: &str) -> CallError {
    CallError::new(CallErrorKind::Unavailable, format!("the tool server {name} is not available: {why}"))
}
