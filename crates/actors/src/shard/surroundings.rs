//! Facts that messages lack. A session that is resumed from another process does not repeat the data of its communities,
//! and no session announces archived threads. The data is read at the first message that lacks it; that message and
//! later ones of the community, or of the place, are held until then, in order and for a limited time.
//!
//! A thread has the rules of its channel. While the channel is unknown, no rule of it can match, so messages that may be
//! in a thread are answered without tools, and there are no interjections.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future;
use tokio::time::Instant;

use super::{ShardActor, ShardEvent, ShardParts};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use domain::ids::Place;
use domain::incoming::Posted;
use domain::shared_map::SharedMap;
use ports::{GuildField, Missing, PostRequest};

/// The timeout of a read. After it messages continue without the data: unknown permissions count as granted, an unknown
/// language as the bot's own, and an unknown place as a thread of an unknown channel.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between two reads of the same data, if it stays unknown.
pub(super) const AGAIN: Duration = Duration::from_secs(60);
/// The maximum number of recent reads, shared by communities. Beyond the share of a community, no further ones begin
/// until some are older than [`AGAIN`].
const RECENT_MAX: usize = 10_000;
/// The minimum interval between two removals of old reads.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The data that is read at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// A community.
    Community(String),
    /// One place of a community.
    Place(String, Place),
}

/// The reads that are in progress or recent.
pub(super) struct Surroundings {
    /// The time of the last read, grouped by community.
    recent: SharedMap<Unknown, Instant>,
    /// The time of the last removal of old reads.
    swept: Option<Instant>,
    /// The tickets held for each read in progress.
    waiting: HashMap<Unknown, Vec<u64>>,
}

/// The treatment of a message.
pub(super) enum Then {
    /// The message is held, and this must be read.
    Read(Unknown),
    /// The message is held with the others.
    Wait,
    /// The message continues.
    GoOn,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self { recent: SharedMap::new(RECENT_MAX), swept: None, waiting: HashMap::new() }
    }
}

impl Surroundings {
    /// Handles the arrival of a message that lacks these facts.
    pub(super) fn arrive(&mut self, posted: &Posted, missing: Option<Missing>, ticket: u64) -> Then {
        let Some(guild) = &posted.guild else { return Then::GoOn };
        let community = Unknown::Community(guild.clone());
        let place = Unknown::Place(guild.clone(), posted.place.clone());
        for unknown in [&community, &place] {
            if let Some(waiting) = self.waiting.get_mut(unknown) {
                waiting.push(ticket);
                return Then::Wait;
            }
        }
        let unknown = match missing {
            None => return Then::GoOn,
            Some(Missing::Community) => community,
            Some(Missing::Place) => place,
        };
        if !self.begin(&unknown) {
            return Then::GoOn;
        }
        self.waiting.insert(unknown.clone(), vec![ticket]);
        Then::Read(unknown)
    }

    /// Notes a read that begins now. Returns false if the last one is too recent.
    fn begin(&mut self, unknown: &Unknown) -> bool {
        let (Unknown::Community(community) | Unknown::Place(community, _)) = unknown;
        let is_recent = |at: &Instant| at.elapsed() < AGAIN;
        if self.recent.get(unknown).is_some_and(is_recent) {
            return false;
        }
        self.recent.remove(unknown);
        if !self.recent.has_room(community) && self.swept.is_none_or(|at| at.elapsed() >= SWEEP_EVERY) {
            self.swept = Some(Instant::now());
            self.recent.retain(|_, at| is_recent(at));
        }
        self.recent.has_room(community) && self.recent.insert(community, unknown.clone(), Instant::now()).is_ok()
    }

    /// Records the end of a read. Returns the held tickets, in order.
    pub(super) fn ended(&mut self, unknown: &Unknown) -> Vec<u64> {
        self.waiting.remove(unknown).unwrap_or_default()
    }
}

/// Removes the permissions that a rule of an unknown channel may deny.
pub(super) fn restrict(posted: &mut Posted) {
    posted.tools = false;
    posted.draw = None;
}

impl ShardActor {
    /// Starts a read, and reports its end.
    pub(super) fn learn(&self, ctx: &mut ActorContext<ShardActor>, unknown: Unknown) {
        let (parts, last) = (self.parts.clone(), unknown.clone());
        ctx.task(
            async move {
                // Data that arrives after the timeout serves later messages.
                let _ = tokio::time::timeout(TIMEOUT, learn(&parts, &unknown)).await;
                ShardEvent::Learnt(unknown)
            },
            move |_| ShardEvent::Learnt(last),
        );
    }
}

/// Reads the data. Unreadable data stays unknown.
async fn learn(parts: &ShardParts, unknown: &Unknown) {
    let (Unknown::Community(community) | Unknown::Place(community, _)) = unknown;
    let learn = async |aspect: GuildField| {
        let request = PostRequest::FetchGuild { community: community.clone(), aspect };
        let answer = parts.outbox.call(|reply| OutboxMsg::Read(request, reply), TIMEOUT).await;
        if !matches!(answer, Ok(Ok(_))) {
            tracing::debug!(?unknown, ?answer, "the data of a community or a place could not be read");
        }
    };
    if let Unknown::Place(_, place) = unknown {
        return learn(GuildField::Place(place.clone())).await;
    }
    learn(GuildField::Itself).await;
    future::join3(learn(GuildField::Places), learn(GuildField::Threads), learn(GuildField::Ourselves)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::Door;

    #[tokio::test(start_paused = true)]
    async fn a_community_of_unknown_places_leaves_reads_for_others() {
        let mut surroundings = Surroundings::default();
        let place = |id: usize| Unknown::Place("5".into(), Place::new(Door::new("d"), id.to_string()));
        let begun = (0..RECENT_MAX).filter(|id| surroundings.begin(&place(*id))).count();
        assert_eq!(begun, RECENT_MAX / 2);
        let other = Unknown::Community("6".into());
        assert!(surroundings.begin(&other) && !surroundings.begin(&other), "it is read once");
        tokio::time::advance(AGAIN).await;
        assert!(surroundings.begin(&other) && surroundings.begin(&place(0)), "later they are read again");
    }
}
