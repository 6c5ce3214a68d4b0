//! The rate limits of a place, shared by all of its couriers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use domain::restart::Backoff;
use ports::{Bucket, PostRequest};

/// The longest wait that a platform may impose on one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);
/// The shortest time between two draft edits in one place. The edit that finishes an answer ignores it.
const DRAFT_EVERY: Duration = Duration::from_secs(1);
/// The shortest pauses after rate limits in a row of one kind of request.
const LIMITED: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(60) };
/// The requests of a place's bucket that drafts leave for answers.
const DRAFTS_LEAVE: u32 = 1;

/// A kind of request that a platform counts in a separate bucket per place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Track {
    /// New messages. Their order matters.
    Posts,
    /// Edits of messages, whose order in the channel is fixed.
    Edits,
}

impl Track {
    /// Returns the bucket of a request; none for reads and removals, which have their own buckets.
    pub(super) const fn of(request: &PostRequest) -> Option<Self> {
        match request {
            PostRequest::Create { .. } => Some(Self::Posts),
            PostRequest::Edit { .. } => Some(Self::Edits),
            _ => None,
        }
    }

    /// Returns the other kind.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Posts => Self::Edits,
            Self::Edits => Self::Posts,
        }
    }
}

/// The known limits of a place.
#[derive(Debug, Default)]
pub(super) struct Pace {
    posts: Side,
    edits: Side,
    /// The time of the last edit or draft.
    changed_at: Option<Instant>,
}

/// The known state of the bucket of one kind of request.
#[derive(Debug, Default)]
struct Side {
    /// The platform's name for the bucket.
    id: Option<String>,
    /// The remaining requests, and the time until which the number is valid; none if unknown.
    left: Option<(u32, Instant)>,
    /// The rate limits since the last accepted request.
    limited: u32,
    /// The requests in flight, which the last response may not have counted.
    flying: u32,
}

/// The limits shared by the couriers of one place.
pub(super) type SharedPace = Arc<Mutex<Pace>>;

/// A request in flight. It counts until it is dropped.
pub(super) struct Flight {
    pace: SharedPace,
    track: Track,
}

impl Flight {
    /// Registers a request of this kind as soon as its bucket has room.
    pub(super) async fn reserve(pace: &SharedPace, track: Track) -> Self {
        loop {
            let now = Instant::now();
            let until = {
                let mut pace = pace.lock();
                let until = pace.empty_until(track).filter(|until| *until > now);
                if until.is_none() {
                    pace.side_mut(track).flying += 1;
                }
                until
            };
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return Self { pace: Arc::clone(pace), track },
            }
        }
    }

    /// Registers a request of this kind immediately.
    pub(super) fn begin(pace: &SharedPace, track: Track) -> Self {
        pace.lock().side_mut(track).flying += 1;
        Self { pace: Arc::clone(pace), track }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut pace = self.pace.lock();
        let side = pace.side_mut(self.track);
        side.flying = side.flying.saturating_sub(1);
    }
}

impl Pace {
    /// True if the state has expired.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let over = |side: &Side| side.left.is_none_or(|(_, until)| until <= now);
        over(&self.posts) && over(&self.edits) && self.may_redraw(now)
    }

    /// True if a draft may use a request of this bucket.
    pub(super) fn may_draft(&self, track: Track, now: Instant) -> bool {
        self.left(track).is_none_or(|(left, until)| left > DRAFTS_LEAVE || until <= now)
    }

    /// Returns the time until which the bucket of this kind is empty.
    pub(super) fn empty_until(&self, track: Track) -> Option<Instant> {
        self.left(track).filter(|(left, _)| *left == 0).map(|(_, until)| until)
    }

    /// True if enough time has passed since the last change for the next draft edit.
    pub(super) fn may_redraw(&self, now: Instant) -> bool {
        self.changed_at.is_none_or(|at| at + DRAFT_EVERY <= now)
    }

    /// Records an edit or a draft.
    pub(super) fn changed(&mut self, now: Instant) {
        self.changed_at = Some(now);
    }

    /// Stores the bucket state of a response. Until the other kind reports its own bucket, both count as one.
    pub(super) fn learn(&mut self, track: Track, bucket: Option<&Bucket>, now: Instant) {
        let left = bucket.map(|bucket| (bucket.remaining, now + bucket.reset_after.min(WAIT_MAX)));
        let id = bucket.and_then(|bucket| bucket.id.clone());
        let other = self.side_mut(track.other());
        if id.is_some() && (other.id.is_none() || other.id == id) {
            other.left = left;
        }
        let side = self.side_mut(track);
        (side.left, side.id, side.limited) = (left, id, 0);
    }

    /// Counts a request whose response did not report its bucket.
    pub(super) fn spend(&mut self, track: Track) {
        let tracks = if self.is_shared() { vec![track, track.other()] } else { vec![track] };
        for track in tracks {
            if let Some((left, _)) = &mut self.side_mut(track).left {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// Marks the bucket as empty after a rate limit: for the requested delay, and at least for a backoff that grows
    /// with each limit in a row. A platform that requests no delay would otherwise count hundreds of refusals a second.
    pub(super) fn limited(&mut self, track: Track, wait: Duration, now: Instant) {
        let side = self.side_mut(track);
        let backoff = LIMITED.bound(side.limited);
        side.limited = side.limited.saturating_add(1);
        side.left = Some((0, now + wait.max(backoff).min(WAIT_MAX)));
    }

    /// Returns the remaining requests, less those in flight.
    fn left(&self, track: Track) -> Option<(u32, Instant)> {
        let other = if self.is_shared() { self.side(track.other()).flying } else { 0 };
        let side = self.side(track);
        side.left.map(|(left, until)| (left.saturating_sub(side.flying + other), until))
    }

    /// True if posts and edits share one bucket, or if the platform has named only one bucket so far.
    fn is_shared(&self) -> bool {
        match (&self.posts.id, &self.edits.id) {
            (Some(posts), Some(edits)) => posts == edits,
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    const fn side(&self, track: Track) -> &Side {
        match track {
            Track::Posts => &self.posts,
            Track::Edits => &self.edits,
        }
    }

    const fn side_mut(&mut self, track: Track) -> &mut Side {
        match track {
            Track::Posts => &mut self.posts,
            Track::Edits => &mut self.edits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn limits_in_a_row_have_growing_pauses_until_a_request_is_accepted() {
        let (shared, now) = (SharedPace::default(), Instant::now());
        let limited = |wait| {
            let mut pace = shared.lock();
            pace.limited(Track::Posts, Duration::from_millis(wait), now);
            pace.empty_until(Track::Posts).map(|until| until - now).unwrap_or_default().as_millis()
        };
        assert_eq!([0, 0, 1, 9_000, 0].map(limited), [500, 1_000, 2_000, 9_000, 8_000]);
        assert_eq!([0; 4].map(limited), [16_000, 32_000, 60_000, 60_000]);
        shared.lock().learn(Track::Posts, None, now);
        assert_eq!(limited(0), 500);
    }

    fn bucket(id: &str, remaining: u32) -> Bucket {
        Bucket { id: Some(id.to_owned()), remaining, reset_after: Duration::from_secs(5) }
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_share_what_is_left_while_the_platform_names_one_bucket() {
        let (shared, now) = (SharedPace::default(), Instant::now());
        let empty = |track| shared.lock().empty_until(track).is_some();
        shared.lock().learn(Track::Posts, Some(&bucket("a", 0)), now);
        assert!(empty(Track::Posts) && empty(Track::Edits), "not told apart yet");
        shared.lock().learn(Track::Edits, Some(&bucket("b", 3)), now);
        assert!(empty(Track::Posts) && !empty(Track::Edits));
        shared.lock().learn(Track::Edits, Some(&bucket("a", 2)), now);
        assert!(!empty(Track::Posts) && !empty(Track::Edits));
        let flights = [Flight::begin(&shared, Track::Posts), Flight::begin(&shared, Track::Edits)];
        assert!(empty(Track::Posts) && empty(Track::Edits), "both are on their way");
        drop(flights);
        assert!(!empty(Track::Posts));
        shared.lock().spend(Track::Posts);
        shared.lock().spend(Track::Edits);
        assert!(empty(Track::Posts) && empty(Track::Edits));
    }
}
