//! The subject of a gate.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ClickRefusal;
use crate::arguments_hash::ArgumentsHash;
use crate::hex::hex;
use crate::question::{Field, Form, Link};

/// The most bytes of the questions of servers for which turns wait, in all.
pub const QUESTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most tasks of servers for which turns wait.
pub const TASKS_MAX: usize = 1_024;
/// The most such tasks of one server.
pub const SERVER_TASKS_MAX: usize = 256;
/// The most such tasks of one person.
pub const OWN_TASKS_MAX: usize = 5;

/// The longest time that a task of a server may take.
pub const TASK_LONGEST_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The subject of the decision for which a turn waits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// The approval of a call.
    #[default]
    Approval,
    /// A form of the server that runs the call.
    Form {
        /// The name of the server.
        server: String,
        /// The reason in the server's words.
        message: String,
        /// The form.
        form: Form,
        /// The id of the task that asks; `None` if no task is under way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    /// A page that the server asks the member to open.
    Link {
        /// The name of the server.
        server: String,
        /// The reason in the server's words.
        message: String,
        /// The page.
        link: Link,
        /// As in [`Self::Form`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    /// A task of the server. A person can only stop it.
    Task(TaskWait),
}

/// A task at a server, for which a turn waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWait {
    /// The name of the server.
    pub server: String,
    /// The server's id of the task.
    pub id: String,
    /// The pause between two polls, in milliseconds.
    pub poll_ms: u64,
    /// The keys of its questions that are answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
}

impl TaskWait {
    /// Returns the pause between two polls.
    #[must_use]
    pub const fn pause(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }
}

impl Subject {
    /// Returns the field of the form whose value does not fit; `None` for other refusals.
    #[must_use]
    pub fn misfitting(&self, why: ClickRefusal) -> Option<&Field> {
        match (self, why) {
            (Self::Form { form, .. }, ClickRefusal::Misfit(misfit)) => form.fields.get(misfit.field),
            _ => None,
        }
    }

    /// True for the approval of a call.
    #[must_use]
    pub const fn is_approval(&self) -> bool {
        matches!(self, Self::Approval)
    }

    /// Returns the label in logs and metrics.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Form { .. } => "form",
            Self::Link { .. } => "link",
            Self::Task(_) => "task",
        }
    }

    /// Returns the approximate size of its content in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Approval => 0,
            Self::Form { server, message, form, .. } => server.len() + message.len() + form.size(),
            Self::Link { server, message, link, .. } => server.len() + message.len() + link.url.len(),
            Self::Task(task) => {
                task.server.len() + task.id.len() + task.answered.iter().map(String::len).sum::<usize>()
            }
        }
    }

    /// Returns the server that asks or works; `None` for an approval.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Approval => None,
            Self::Form { server, .. } | Self::Link { server, .. } => Some(server),
            Self::Task(task) => Some(&task.server),
        }
    }

    /// Returns the task.
    #[must_use]
    pub const fn task(&self) -> Option<&TaskWait> {
        match self {
            Self::Task(task) => Some(task),
            Self::Approval | Self::Form { .. } | Self::Link { .. } => None,
        }
    }

    /// Returns the id of the task that is under way at the server: one that works, or one that asks.
    #[must_use]
    pub fn task_under_way(&self) -> Option<&str> {
        match self {
            Self::Approval => None,
            Self::Form { task, .. } | Self::Link { task, .. } => task.as_deref(),
            Self::Task(task) => Some(&task.id),
        }
    }

    /// Returns the identity of a call with this hash in a gate of this subject. A call that its server has begun
    /// differs from the call itself, so that no version of this program takes the one for the other and runs it again.
    #[must_use]
    pub fn identity(&self, hash: &ArgumentsHash) -> ArgumentsHash {
        if self.is_approval() {
            return hash.clone();
        }
        let digest = Sha256::new().chain_update(b"begun:").chain_update(hash.0.as_bytes());
        ArgumentsHash(hex(&digest.finalize()))
    }
}
