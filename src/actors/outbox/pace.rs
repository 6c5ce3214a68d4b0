//! How fast a place may go. All couriers of a place share what is known of it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ports::{Bucket, PostRequest};

/// The longest wait that a platform may impose on one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);
/// The shortest time between two edits of drafts in one place. The edit that finishes an answer waits for none of them.
const DRAFT_EVERY: Duration = Duration::from_secs(1);
/// How many requests of a place's bucket drafts leave for answers.
const DRAFTS_LEAVE: u32 = 1;

/// A kind of request that a platform counts in a bucket of its own for each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Track {
    /// New messages. Their order matters.
    Posts,
    /// Changes of messages whose place in the channel is settled.
    Edits,
}

impl Track {
    /// The bucket that a request counts in; none for reads, which have their own.
    pub(super) const fn of(request: &PostRequest) -> Option<Self> {
        match request {
            PostRequest::Create { .. } => Some(Self::Posts),
            PostRequest::Edit { .. } | PostRequest::Delete { .. } => Some(Self::Edits),
            _ => None,
        }
    }

    /// The other one.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Posts => Self::Edits,
            Self::Edits => Self::Posts,
        }
    }
}

/// What a place allows, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    posts: Left,
    edits: Left,
    /// When anything was last edited, or a draft shown.
    changed_at: Option<Instant>,
}

/// What the couriers of one place share.
pub(super) type SharedPace = Arc<Mutex<Pace>>;

/// Requests left in a bucket, and until when that holds; none when it is not known.
type Left = Option<(u32, Instant)>;

impl Pace {
    /// Nothing of it matters any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        [self.posts, self.edits].iter().all(|left| left.is_none_or(|(_, until)| until <= now)) && self.may_redraw(now)
    }

    /// A draft may take a request of this bucket.
    pub(super) fn may_draft(&self, track: Track, now: Instant) -> bool {
        self.left(track).is_none_or(|(left, until)| left > DRAFTS_LEAVE || until <= now)
    }

    /// Nothing of this kind may go before then: the bucket is empty.
    pub(super) fn empty_until(&self, track: Track) -> Option<Instant> {
        self.left(track).filter(|(left, _)| *left == 0).map(|(_, until)| until)
    }

    /// Enough time has gone by since the last change for a draft to be changed.
    pub(super) fn may_redraw(&self, now: Instant) -> bool {
        self.changed_at.is_none_or(|at| at + DRAFT_EVERY <= now)
    }

    /// Something was edited, or a draft shown.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed_at = Some(now);
    }

    /// Takes note of what an answer said of its bucket.
    pub(super) fn learn(&mut self, track: Track, bucket: Option<&Bucket>, now: Instant) {
        *self.left_mut(track) = bucket.map(|bucket| (bucket.remaining, now + bucket.reset_after.min(WAIT_MAX)));
    }

    /// A request without a word about its bucket counts in it all the same.
    pub(super) fn spend(&mut self, track: Track) {
        if let Some((left, _)) = self.left_mut(track) {
            *left = left.saturating_sub(1);
        }
    }

    /// The bucket is empty for so long.
    pub(super) fn empty(&mut self, track: Track, for_: Duration, now: Instant) {
        *self.left_mut(track) = Some((0, now + for_.min(WAIT_MAX)));
    }

    const fn left(&self, track: Track) -> Left {
        match track {
            Track::Posts => self.posts,
            Track::Edits => self.edits,
        }
    }

    fn left_mut(&mut self, track: Track) -> &mut Left {
        match track {
            Track::Posts => &mut self.posts,
            Track::Edits => &mut self.edits,
        }
    }
}
