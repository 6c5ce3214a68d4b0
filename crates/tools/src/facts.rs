//! Common code of the tools for facts.

use std::sync::Arc;

use serde_json::Value;

use super::reads;
use domain::fact::NotKept;
use domain::tool::{Annotations, CallError, CallErrorKind, OnBehalf, Tool, ToolRequest, ToolResult};

/// Describes an idempotent tool that changes stored facts. A removal needs no approval by default: members remove only
/// their own facts.
pub(super) fn changes(name: &str, description: &str, input_schema: Value) -> Tool {
    let annotations = Annotations {
        read_only: Some(false),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
    };
    Tool { annotations, ..reads(name, description, input_schema) }
}

/// Returns the member for whom a call is made.
pub(super) fn asked(request: &ToolRequest) -> Result<&OnBehalf, CallError> {
    request.on_behalf.as_ref().ok_or_else(|| {
        let message = format!("{} can be called only on behalf of a member", request.name);
        CallError::new(CallErrorKind::InvalidArguments, message)
    })
}

/// Converts the reason for a failed call.
pub(super) fn refused(why: NotKept) -> Result<ToolResult, CallError> {
    match why {
        NotKept::Away => Err(CallError::new(CallErrorKind::Unavailable, why.to_string())),
        NotKept::Off
        | NotKept::Empty
        | NotKept::TooLong(_)
        | NotKept::Full(_)
        | NotKept::NoRoom
        | NotKept::Forgotten
        | NotKept::Deleted => Ok(ToolResult::failure(why.to_string())),
    }
}

/// The store of facts that the tools share.
pub(super) type Shared = Arc<dyn ports::Facts>;
