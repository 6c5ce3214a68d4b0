//! The identity of a tool call with its arguments.

use serde::{Deserialize, Serialize};

/// The SHA-256 of server, server address, tool, and arguments with sorted keys. Approvals and the detection of
/// repeated calls use it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArgumentsHash(pub String);
