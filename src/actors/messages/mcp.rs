//! What the actor of a tool server is told.

use tokio::sync::OwnedSemaphorePermit;

use crate::actors::handle::Reply;
use crate::domain::tool::{CallError, ToolRequest, ToolResult};
use crate::ports::ProgressSink;

/// What the actor of a tool server is told.
pub enum McpMsg {
    /// One call of a tool. It is cancelled at the server when nobody waits for its answer any more.
    Call(Box<ServerCall>),
    /// `tools`: connect at once if there is no connection, and read the list of tools again.
    Refresh,
}

/// One call on its way to a tool server.
pub struct ServerCall {
    /// What is asked.
    pub request: ToolRequest,
    /// Told how far it is.
    pub progress: Option<ProgressSink>,
    /// Its place among the calls of this server.
    pub(in crate::actors) permit: OwnedSemaphorePermit,
    /// What came of it.
    pub reply: Reply<Result<ToolResult, CallError>>,
}
