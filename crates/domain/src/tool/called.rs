//! The end of one call, and its description for the model.

use std::sync::Arc;

use super::begun::{Begun, Need};
use super::limits::Limited;
use super::turn_tools::ShownResult;
use super::{Blob, CallError, CallErrorKind, Effect, Image, Part, ResultLimits, ToolResult};
use crate::attachment::Unread;
use crate::gate::ApprovalDecision;

/// The end of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEnd {
    /// The tool returned a result, possibly its own error.
    Result(Finding),
    /// A rule denies the call.
    Denied,
    /// The call requires an approval that it did not get.
    NotApproved(NotApproved),
    /// The call exceeds a rate limit.
    Limited(Limited),
    /// The record that the turn changes something could not be written.
    NotRecorded,
    /// The source returned no result.
    Failed(CallError),
    /// The source has begun the call, and needs an answer of a person or time.
    Begun(Box<Begun>),
}

/// The reason why a call lacks its required approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotApproved {
    /// The door has no means of approval.
    NoWay,
    /// The approval request could not be posted.
    NotAsked,
    /// The call, or the dialogue so far, is too long for an approval request.
    TooLong,
    /// The approver denied the call.
    Denied,
    /// The approval request timed out.
    Expired,
    /// The tool or its approvers have changed since the request.
    Changed,
    /// The tool no longer exists.
    Gone,
    /// The member's current roles could not be determined.
    RolesUnknown,
    /// A person stopped the task of the server.
    Stopped,
}

impl NotApproved {
    /// Returns the label of the outcome in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoWay => "not_approved",
            Self::NotAsked => "not_asked",
            Self::TooLong => "too_long_to_ask",
            Self::Denied => "refused",
            Self::Expired => "expired",
            Self::Changed => "changed",
            Self::Gone => "gone",
            Self::RolesUnknown => "roles_unknown",
            Self::Stopped => "stopped",
        }
    }

    const fn told(self) -> &'static str {
        match self {
            Self::NoWay => {
                "A person has to approve this call first, and there is no way to ask one now. It did not run."
            }
            Self::NotAsked => {
                "A person has to approve this call first, and nobody could be asked now. It did not run. Do not call it \
                 again; say that it was not done."
            }
            Self::TooLong => {
                "A person has to approve this call first, and it is too long to be shown to one. It did not run."
            }
            Self::Denied => {
                "A person was asked to approve this call and said no. It did not run. Do not call it again, with these or \
                 other arguments; say that it was not done, and ask what to do instead."
            }
            Self::Expired => {
                "A person was asked to approve this call, and nobody answered in time, which counts as a no. It did not \
                 run. Do not call it again; say that it was not done."
            }
            Self::Changed => {
                "This tool, or who may approve it, changed after a person was asked. It did not run. Do not call it again; \
                 say that it was not done."
            }
            Self::Gone => {
                "This call was approved, but its tool is not there any more. It did not run. Do not call it again; say that it \
                 was not done, and that the tool is away."
            }
            Self::RolesUnknown => {
                "This call was approved, but it could not be found out whether this member may still use the tool. It did not \
                 run. Do not call it again; say that it was not done."
            }
            Self::Stopped => {
                "A person stopped this call while its tool was working. Parts of it may have happened. Do not call it \
                 again; say that it was stopped."
            }
        }
    }
}

impl From<&ApprovalDecision> for NotApproved {
    /// Maps a decision other than an approval to the reason.
    fn from(decision: &ApprovalDecision) -> Self {
        match decision {
            ApprovalDecision::Denied { .. } => Self::Denied,
            ApprovalDecision::Expired => Self::Expired,
            ApprovalDecision::NotAsked | ApprovalDecision::Withdrawn => Self::NotAsked,
            ApprovalDecision::Approved { .. } | ApprovalDecision::Answered { .. } | ApprovalDecision::Finished => {
                Self::Changed
            }
        }
    }
}

/// The result of a tool, within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    text: String,
    whole: Option<Arc<str>>,
    images: Vec<Image>,
    blobs: Vec<Blob>,
    is_error: bool,
    /// True if it has parts other than pictures and descriptions of what cannot be shown.
    has_words: bool,
}

impl Finding {
    /// Truncates a result to its bounds.
    #[must_use]
    pub fn of(result: ToolResult, limits: ResultLimits) -> Self {
        let has_words =
            result.parts.iter().any(|part| !matches!(part, Part::Image(_) | Part::Blob(_) | Part::Omitted(_)));
        let result = result.within(limits);
        let whole = result.cut.as_ref().and_then(|cut| cut.whole.clone());
        let images = result.images().cloned().collect();
        let blobs = result.blobs().cloned().collect();
        Self { text: result.to_text(), whole, images, blobs, is_error: result.is_error, has_words }
    }

    /// Takes the binary resources out.
    #[must_use]
    pub fn without_blobs(mut self) -> (Self, Vec<Blob>) {
        let blobs = std::mem::take(&mut self.blobs);
        (self, blobs)
    }

    /// Adds texts at the end, and truncates the whole to its bounds.
    #[must_use]
    pub fn with_texts(self, texts: &[String], limits: ResultLimits) -> Self {
        let own = self.whole.as_deref().unwrap_or(&self.text);
        let whole = ToolResult::text(
            std::iter::once(own).chain(texts.iter().map(String::as_str)).collect::<Vec<_>>().join("\n"),
        );
        let Self { text, whole, .. } = Self::of(whole, limits);
        Self { text, whole, has_words: true, ..self }
    }
}

/// The contents of a resource that was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceContents {
    /// The text; none if there is none.
    pub text: Option<Arc<str>>,
    /// The pictures.
    pub images: Vec<Image>,
    /// All other contents.
    pub blobs: Vec<Blob>,
}

impl CallEnd {
    /// The label of a successful call.
    pub const OK: &'static str = "ok";
    /// The label of a call that was cancelled with its turn.
    pub const CANCELLED: &'static str = "cancelled";

    /// True if the tool succeeded.
    #[must_use]
    pub const fn succeeded(&self) -> bool {
        matches!(self, Self::Result(Finding { is_error: false, .. }))
    }

    /// Returns the label of the outcome in logs and metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Result(Finding { is_error: false, .. }) => Self::OK,
            Self::Result(Finding { is_error: true, .. }) => "tool_error",
            Self::Denied => "denied",
            Self::NotApproved(why) => why.as_str(),
            Self::Limited(Limited::Window(_)) => "limited",
            Self::Limited(Limited::Cooldown(_)) => "cooldown",
            Self::Limited(Limited::Disabled(_)) => "disabled",
            Self::NotRecorded => "not_recorded",
            Self::Failed(error) => error.kind.as_str(),
            Self::Begun(begun) => match begun.need() {
                Need::Answer(_) | Need::Nothing => "input_required",
                Need::Time(_) => "task",
            },
        }
    }

    /// Returns further details for an operator; none if the label is sufficient.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed(error) => Some(&error.message),
            _ => None,
        }
    }

    /// Returns the images that the tool returned.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        match self {
            Self::Result(finding) => &finding.images,
            _ => &[],
        }
    }

    /// Returns the contents of a resource that was read.
    ///
    /// # Errors
    /// The reason why there are none.
    pub fn resource(self) -> Result<ResourceContents, Unread> {
        match self {
            Self::Result(Finding { is_error: true, .. }) | Self::NotRecorded | Self::Begun(_) => {
                Err(Unread::Unreachable)
            }
            Self::Result(Finding { text, whole, images, blobs, has_words, .. }) => {
                let text = has_words.then(|| whole.unwrap_or_else(|| text.into()));
                let contents = ResourceContents { text, images, blobs };
                if contents == ResourceContents::default() { Err(Unread::Kind) } else { Ok(contents) }
            }
            Self::Denied => Err(Unread::Denied),
            Self::NotApproved(_) => Err(Unread::NeedsApproval),
            Self::Limited(_) => Err(Unread::Limited),
            Self::Failed(error) => Err(match error.kind {
                CallErrorKind::NotFound | CallErrorKind::InvalidArguments => Unread::Unknown,
                CallErrorKind::TooLarge => Unread::TooLarge,
                CallErrorKind::RateLimited => Unread::Busy,
                _ => Unread::Unreachable,
            }),
        }
    }

    /// Returns the text for the model, which explains it to the member in its own words.
    #[must_use]
    pub fn told(self, effect: Effect) -> ShownResult {
        let text = match self {
            Self::Result(Finding { text, whole, is_error: false, .. }) => {
                return ShownResult { text, whole, pictures: 0 };
            }
            Self::Result(Finding { text, whole, is_error: true, .. }) => {
                return ShownResult { text: format!("The tool failed: {text}"), whole, pictures: 0 };
            }
            Self::Denied => "This member may not use this tool here. It did not run.".to_owned(),
            Self::NotApproved(why) => why.told().to_owned(),
            Self::Limited(limited) => {
                let seconds = limited.retry_after().as_secs().max(1);
                format!("This member called it too often: it can be called again in {seconds} seconds. It did not run.")
            }
            Self::NotRecorded => "It cannot run now, because nothing can be recorded. It did not run.".to_owned(),
            Self::Failed(error) => failure(&error, effect),
            Self::Begun(_) => "The tool has not finished.".to_owned(),
        };
        ShownResult::text(text)
    }
}

/// Describes a failure, without details that only an operator needs.
fn failure(error: &CallError, effect: Effect) -> String {
    let what = match error.kind {
        CallErrorKind::Unavailable => "The tool is not available now.".to_owned(),
        CallErrorKind::Lost => "The connection to the tool broke.".to_owned(),
        CallErrorKind::Timeout => "The tool took too long.".to_owned(),
        CallErrorKind::Unauthorized | CallErrorKind::Forbidden => "The tool does not let this bot in.".to_owned(),
        CallErrorKind::NotFound => "The tool, or what it was asked for, was not found.".to_owned(),
        CallErrorKind::RateLimited => "The tool takes no more calls for now.".to_owned(),
        CallErrorKind::InvalidArguments => format!("The tool did not take the arguments: {}", error.message),
        CallErrorKind::Failed | CallErrorKind::Malformed => "The tool failed.".to_owned(),
        CallErrorKind::TooLarge => "The call or its result is too large.".to_owned(),
    };
    let acted = error.kind.may_have_run() && effect != Effect::Reads;
    let doubt = " What was asked for may have happened all the same: do not call it again, and say so.";
    format!("{what}{}", if acted { doubt } else { "" })
}
