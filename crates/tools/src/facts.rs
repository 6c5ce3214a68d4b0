//! What the tools about facts have in common.

use std::sync::Arc;

use serde_json::Value;

use super::reads;
use domain::fact::NotKept;
use domain::tool::{Annotations, CallError, CallErrorKind, OnBehalf, Tool, ToolRequest, ToolResult};

/// A tool that changes what is kept, once however often it is called. What it takes away its caller told, and takes back: no gate
/// is needed by itself.
pub(super) fn changes(name: &str, description: &str, input_schema: Value) -> Tool {
    let annotations = Annotations {
        read_only: Some(false),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
    };
    Tool { annotations, ..reads(name, description, input_schema) }
}

/// For whom a call is made.
pub(super) fn asked(request: &ToolRequest) -> Result<&OnBehalf, CallError> {
    request.on_behalf.as_ref().ok_or_else(|| {
        let message = format!("{} works for a member who asks, not for a call by hand", request.name);
        CallError::new(CallErrorKind::InvalidArguments, message)
    })
}

/// Why nothing came of a call.
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

/// The facts of members, for the tools that work with them.
pub(super) type Shared = Arc<dyn ports::Facts>;
