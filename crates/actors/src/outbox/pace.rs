//! How fast a place may go. All couriers of a place share what is known of it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use ports::{Bucket, PostRequest};

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
    /// The bucket that a request counts in; none for reads and removals, which have their own.
    pub(super) const fn of(request: &PostRequest) -> Option<Self> {
        match request {
            PostRequest::Create { .. } => Some(Self::Posts),
            PostRequest::Edit { .. } => Some(Self::Edits),
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
#[derive(Debug, Default)]
pub(super) struct Pace {
    posts: Side,
    edits: Side,
    /// When anything was last edited, or a draft shown.
    changed_at: Option<Instant>,
}

/// What is known of the bucket of one kind of request.
#[derive(Debug, Default)]
struct Side {
    /// The platform's name for the bucket.
    id: Option<String>,
    /// Requests left, and until when that holds; none when it is not known.
    left: Option<(u32, Instant)>,
    /// Requests on their way, which an answer may not have counted yet.
    flying: u32,
}

/// What the couriers of one place share.
pub(super) type SharedPace = Arc<Mutex<Pace>>;

/// A request on its way. It counts until it is dropped.
pub(super) struct Flight {
    pace: SharedPace,
    track: Track,
}

impl Flight {
    /// A request of this kind leaves as soon as its bucket has room.
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

    /// A request of this kind leaves.
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
    /// Nothing of it matters any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let over = |side: &Side| side.left.is_none_or(|(_, until)| until <= now);
        over(&self.posts) && over(&self.edits) && self.may_redraw(now)
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

    /// Takes note of what an answer said of its bucket. As long as the other kind has not told its own, it counts as the same.
    pub(super) fn learn(&mut self, track: Track, bucket: Option<&Bucket>, now: Instant) {
        let left = bucket.map(|bucket| (bucket.remaining, now + bucket.reset_after.min(WAIT_MAX)));
        let id = bucket.and_then(|bucket| bucket.id.clone());
        let other = self.side_mut(track.other());
        if id.is_some() && (other.id.is_none() || other.id == id) {
            other.left = left;
        }
        let side = self.side_mut(track);
        (side.left, side.id) = (left, id);
    }

    /// A request without a word about its bucket counts in it all the same.
    pub(super) fn spend(&mut self, track: Track) {
        let tracks = if self.is_shared() { vec![track, track.other()] } else { vec![track] };
        for track in tracks {
            if let Some((left, _)) = &mut self.side_mut(track).left {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// The bucket is empty for so long.
    pub(super) fn empty(&mut self, track: Track, wait: Duration, now: Instant) {
        self.side_mut(track).left = Some((0, now + wait.min(WAIT_MAX)));
    }

    /// Requests left, less those on their way.
    fn left(&self, track: Track) -> Option<(u32, Instant)> {
        let other = if self.is_shared() { self.side(track.other()).flying } else { 0 };
        let side = self.side(track);
        side.left.map(|(left, until)| (left.saturating_sub(side.flying + other), until))
    }

    /// Posts and edits are counted in one bucket, or the platform named one bucket so far.
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
