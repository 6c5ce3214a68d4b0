//! What the actor of a tool server is told.

use tokio::sync::OwnedSemaphorePermit;

use crate::runtime::handle::Reply;
use domain::tool::catalogue::Pin;
use domain::tool::{CallError, ToolRequest, ToolResult};
use ports::ProgressSink;

/// What the actor of a tool server is told.
pub enum McpMsg {
    /// One call of a tool. While the server is connected for the first time it waits for that. It is cancelled at the server when nobody
    /// waits for its answer any more.
    Call(Box<ServerCall>),
    /// `tools`: connect at once if there is no connection, and read the list of tools again.
    Refresh,
    /// `tools`: the server can be reached, so connect at once if there is no connection.
    Reachable,
}

/// One call on its way to a tool server.
pub struct ServerCall {
    /// What is asked.
    pub request: ToolRequest,
    /// What the tool was when it was offered; none when that does not matter.
    pub pin: Option<Pin>,
    /// Told how far it is.
    pub progress: Option<ProgressSink>,
    /// Its place among the calls of this server.
    pub(crate) permit: OwnedSemaphorePermit,
    /// What came of it.
    pub reply: Reply<Result<ToolResult, CallError>>,
}
