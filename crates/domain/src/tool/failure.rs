//! The category of a failed call, for people: clients show it, and speech has a phrase for each.

use serde::{Deserialize, Serialize};

use super::CallErrorKind;
use super::called::{CallEnd, NotApproved};

/// The category of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFailure {
    /// The source cannot be reached, or does not admit the caller.
    Access,
    /// The source did not respond in time.
    Timeout,
    /// The tool, or the requested object, does not exist.
    NotFound,
    /// Any other failure.
    Other,
}

impl CallEnd {
    /// Returns the category of a failure. `None` for a call that succeeded or continues, and for one that a person denied,
    /// stopped or left undecided: the person has that answer already.
    #[must_use]
    pub const fn failure(&self) -> Option<ToolFailure> {
        Some(match self {
            Self::Begun(_) | Self::NotApproved(NotApproved::Denied | NotApproved::Expired | NotApproved::Stopped) => {
                return None;
            }
            Self::Result(_) if self.succeeded() => return None,
            Self::Denied
            | Self::NotApproved(
                NotApproved::NoWay
                | NotApproved::NotAsked
                | NotApproved::TooLong
                | NotApproved::Changed
                | NotApproved::RolesUnknown,
            ) => ToolFailure::Access,
            Self::NotApproved(NotApproved::Gone) => ToolFailure::NotFound,
            Self::Failed(error) => ToolFailure::of(error.kind),
            Self::Result(_) | Self::Limited(_) | Self::NotRecorded => ToolFailure::Other,
        })
    }
}

impl ToolFailure {
    const fn of(kind: CallErrorKind) -> Self {
        match kind {
            CallErrorKind::Unavailable | CallErrorKind::Unauthorized | CallErrorKind::Forbidden => Self::Access,
            CallErrorKind::Timeout => Self::Timeout,
            CallErrorKind::NotFound => Self::NotFound,
            CallErrorKind::Lost
            | CallErrorKind::RateLimited
            | CallErrorKind::InvalidArguments
            | CallErrorKind::Failed
            | CallErrorKind::Malformed
            | CallErrorKind::TooLarge => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::called::Finding;
    use super::super::{CallError, Part, ResultLimits, ToolResult};
    use super::*;

    #[test]
    fn the_type_of_a_failure_decides_its_category_and_its_text_does_not() {
        for (kind, category) in [
            (CallErrorKind::Unavailable, ToolFailure::Access),
            (CallErrorKind::Unauthorized, ToolFailure::Access),
            (CallErrorKind::Forbidden, ToolFailure::Access),
            (CallErrorKind::Timeout, ToolFailure::Timeout),
            (CallErrorKind::NotFound, ToolFailure::NotFound),
            (CallErrorKind::Lost, ToolFailure::Other),
            (CallErrorKind::TooLarge, ToolFailure::Other),
        ] {
            let end = CallEnd::Failed(CallError::new(kind, "not found: permission denied after a timeout"));
            assert_eq!(end.failure(), Some(category), "{kind:?}");
        }
        assert_eq!(CallEnd::Denied.failure(), Some(ToolFailure::Access));
        assert_eq!(CallEnd::NotApproved(NotApproved::Gone).failure(), Some(ToolFailure::NotFound));
        assert_eq!(CallEnd::NotApproved(NotApproved::Denied).failure(), None);
        let result = |is_error| {
            let parts = vec![Part::Text("timeout".to_owned())];
            CallEnd::Result(Finding::of(
                ToolResult { parts, is_error, ..ToolResult::default() },
                ResultLimits::default(),
            ))
        };
        assert_eq!((result(false).failure(), result(true).failure()), (None, Some(ToolFailure::Other)));
    }
}
