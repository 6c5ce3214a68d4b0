//! The meaning of Slack's errors.
//!
//! Source: the error tables of each method at `docs.slack.dev/reference/methods`.

use std::time::Duration;

use super::Call;
use domain::rejection::Rejection;
use ports::{LimitScope, PostError, SourceError};

/// The longest error name that is shown, in characters.
const NAME_MAX: usize = 80;

/// The reason why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// Rate limited; nothing was done.
    #[error("rate limited for {0:?}")]
    Limited(Duration),
    /// Slack refused the call; nothing was done.
    #[error("{0}")]
    Refused(Refusal),
    /// Something between here and Slack refused the call.
    #[error("{0}")]
    Unexplained(String),
    /// There is no conclusive answer.
    #[error("{why}")]
    Lost {
        /// The reason.
        why: String,
        /// True if the call may have taken effect.
        may_have_worked: bool,
    },
    /// The answer to a call that only reads is too large.
    #[error("the answer of slack is too large")]
    TooLarge,
}

/// A refusal by Slack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Slack's name of the error.
    pub(crate) name: String,
    /// The name with the method and the missing scope.
    words: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)
    }
}

/// Errors of Slack's own, after which the call may have taken effect.
const BROKEN: [&str; 5] =
    ["internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"];
const LIMITED: [&str; 3] = ["ratelimited", "rate_limited", "message_limit_exceeded"];
/// Errors that mean that the tokens are of no use any more.
const CREDENTIALS: [&str; 9] = [
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
    "org_login_required",
    "two_factor_setup_required",
    "user_removed_from_team",
];
const PLACE_GONE: [&str; 2] = ["channel_not_found", "channel_is_deleted"];
const FORBIDDEN: [&str; 14] = [
    "not_in_channel",
    "is_archived",
    "restricted_action",
    "restricted_action_read_only_channel",
    "restricted_action_thread_only_channel",
    "restricted_action_non_threadable_channel",
    "restricted_action_thread_locked",
    "no_permission",
    "missing_scope",
    "access_denied",
    "team_access_not_granted",
    "ekm_access_denied",
    "cannot_reply_to_message",
    "messages_tab_disabled",
];
/// Those of them that concern the app in every place.
const OF_THE_APP: [&str; 4] = ["missing_scope", "access_denied", "team_access_not_granted", "ekm_access_denied"];
const MESSAGE_GONE: [&str; 2] = ["message_not_found", "thread_not_found"];
const CONTENT: [&str; 17] = [
    "msg_too_long",
    "no_text",
    "invalid_blocks",
    "invalid_blocks_format",
    "msg_blocks_too_long",
    "markdown_text_conflict",
    "metadata_too_large",
    "metadata_must_be_sent_from_app",
    "invalid_metadata_format",
    "invalid_metadata_schema",
    "too_many_attachments",
    "invalid_arguments",
    "invalid_name",
    "cant_update_message",
    "cant_delete_message",
    "edit_window_closed",
    "invalid_post_type",
];

impl CallError {
    /// Returns the error of a call that was not sent.
    pub(crate) fn unsent(why: String) -> Self {
        Self::Lost { why, may_have_worked: false }
    }

    /// Returns the error of a call without a conclusive answer.
    pub(crate) fn lost(call: Call, why: String) -> Self {
        Self::Lost { why, may_have_worked: call.changes }
    }

    /// Returns the error that Slack named.
    pub(super) fn refused(call: Call, name: &str, needed: Option<&str>) -> Self {
        if BROKEN.contains(&name) {
            return Self::lost(call, format!("slack answered {name}"));
        }
        if LIMITED.contains(&name) {
            return Self::Limited(super::DEFAULT_RETRY_AFTER);
        }
        let name: String = name.chars().take(NAME_MAX).collect();
        let needed: String = needed.unwrap_or_default().chars().take(NAME_MAX).collect();
        let scope = if needed.is_empty() { String::new() } else { format!(" (scope {needed})") };
        let words = format!("{}: {name}{scope}", call.name);
        Self::Refused(Refusal { name, words })
    }

    /// Returns Slack's name of the error, if Slack refused the call.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.name),
            Self::Limited(_) | Self::Unexplained(_) | Self::Lost { .. } | Self::TooLarge => None,
        }
    }

    /// True if the refusal is about one place, message or text; other refusals hold for the whole workspace.
    pub(crate) fn concerns_place(&self) -> bool {
        self.name().is_some_and(|name| match rejection(name) {
            Rejection::PlaceGone | Rejection::MessageGone | Rejection::Content => true,
            Rejection::Forbidden => !OF_THE_APP.contains(&name),
            _ => false,
        })
    }

    /// True if the tokens are of no use any more.
    pub(crate) fn is_lasting(&self) -> bool {
        self.name().is_some_and(|name| CREDENTIALS.contains(&name))
    }
}

/// Returns the meaning of a refusal for a post.
fn rejection(name: &str) -> Rejection {
    let table: [(&[&str], Rejection); 5] = [
        (&CREDENTIALS, Rejection::Credentials),
        (&PLACE_GONE, Rejection::PlaceGone),
        (&FORBIDDEN, Rejection::Forbidden),
        (&MESSAGE_GONE, Rejection::MessageGone),
        (&CONTENT, Rejection::Content),
    ];
    table.iter().find(|(names, _)| names.contains(&name)).map_or(Rejection::Unexplained, |(_, reason)| *reason)
}

impl From<CallError> for PostError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Limited(retry_after) => Self::Limited { retry_after, scope: LimitScope::Route },
            CallError::Refused(refusal) => {
                Self::Rejected { reason: rejection(&refusal.name), message: refusal.words, counted: false }
            }
            CallError::Unexplained(message) => {
                Self::Rejected { reason: Rejection::Unexplained, message, counted: false }
            }
            CallError::Lost { why, may_have_worked: true } => Self::Unsure(why),
            CallError::Lost { why, may_have_worked: false } => Self::Transient(why),
            CallError::TooLarge => Self::Transient(error.to_string()),
        }
    }
}

impl From<CallError> for SourceError {
    fn from(error: CallError) -> Self {
        let words = error.to_string();
        if error.is_lasting() {
            Self::Refused(format!(
                "Slack rejects a token ({words}); set SLACK_BOT_TOKEN and SLACK_APP_TOKEN to those shown at https://api.slack.com/apps"
            ))
        } else if error.name() == Some("missing_scope") {
            Self::Refused(format!(
                "{words}; the app-level token needs the scope connections:write, and the app the scopes of `staffai init slack`"
            ))
        } else {
            Self::Unreachable(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: Call = Call::changes("chat.postMessage");
    const READ: Call = Call::reads("conversations.replies");

    #[test]
    fn errors_keep_their_meaning() {
        let of = |call, name| PostError::from(CallError::refused(call, name, None));
        let reason = |name| match of(POST, name) {
            PostError::Rejected { reason, .. } => Some(reason),
            _ => None,
        };
        assert_eq!(reason("channel_not_found"), Some(Rejection::PlaceGone));
        assert_eq!(reason("not_in_channel"), Some(Rejection::Forbidden));
        assert_eq!(reason("message_not_found"), Some(Rejection::MessageGone));
        assert_eq!(reason("msg_too_long"), Some(Rejection::Content));
        assert_eq!(reason("token_revoked"), Some(Rejection::Credentials));
        assert_eq!(reason("something_new"), Some(Rejection::Unexplained));
        assert!(matches!(of(POST, "fatal_error"), PostError::Unsure(_)));
        assert!(matches!(of(READ, "fatal_error"), PostError::Transient(_)));
        assert!(matches!(of(POST, "ratelimited"), PostError::Limited { .. }));
    }

    #[test]
    fn only_useless_tokens_end_the_process() {
        let of = |name| SourceError::from(CallError::refused(READ, name, None));
        assert!(matches!(of("invalid_auth"), SourceError::Refused(_)));
        assert!(matches!(of("internal_error"), SourceError::Unreachable(_)));
        assert!(matches!(of("something_new"), SourceError::Unreachable(_)));
    }

    #[test]
    fn a_missing_scope_is_named() {
        let error = CallError::refused(POST, "missing_scope", Some("chat:write"));
        assert_eq!(error.to_string(), "chat.postMessage: missing_scope (scope chat:write)");
    }
}
