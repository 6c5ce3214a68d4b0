//! The name of one call with its arguments.

use serde::{Deserialize, Serialize};

/// The SHA-256 of a server and its address, a tool and its arguments with sorted keys: an approval and a repetition are about this.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArgumentsHash(pub String);
