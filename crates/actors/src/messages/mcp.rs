//! Messages of the actor of a tool server.

use crate::runtime::handle::Reply;
use crate::runtime::named::named;
use domain::tool::begun::CallReply;
use domain::tool::catalogue::Pin;
use domain::tool::{CallError, ToolRequest};
use ports::ProgressSink;
use ports::shares::Share;

/// The messages that the actor of a tool server handles.
pub enum McpMsg {
    /// One call of a tool. During the first connection attempt the call is queued. If the caller drops the reply, the
    /// call is cancelled at the server.
    Call(Box<ServerCall>),
    /// From `tools`: connect at once if there is no connection, and read the list of tools again.
    Refresh,
    /// From `tools`: the server is reachable, so connect at once if there is no connection.
    Reachable,
}

named!(McpMsg: Call, Refresh, Reachable);

/// One call to a tool server.
pub struct ServerCall {
    /// The request.
    pub request: ToolRequest,
    /// The pin of the tool at the time it was offered; `None` if changes do not matter.
    pub pin: Option<Pin>,
    /// The receiver of progress reports.
    pub progress: Option<ProgressSink>,
    /// The permit among the concurrent calls of this server.
    pub(crate) permit: Share,
    /// The reply of the server.
    pub reply: Reply<Result<CallReply, CallError>>,
}
