//! What the beginning of a session tells of a community, and a session that another process resumes does not. It is read
//! once, when the first message from there comes; messages of that community wait for it, in order and not for long.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future;

use super::{ShardActor, ShardEvent, ShardParts};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use ports::{GuildField, PostRequest};

/// How long messages wait for it. Then they go on without: what is not known counts as allowed, and as the bot's own language.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// Which communities are being read, and which were.
#[derive(Default)]
pub(super) struct Surroundings {
    asked: HashSet<String>,
    /// The tickets that wait for each community that is being read.
    waiting: HashMap<String, Vec<u64>>,
}

/// What becomes of a message from a community of which nothing is known.
pub(super) enum Then {
    /// It waits, and the community shall be read.
    Read,
    /// It waits with the others.
    Wait,
    /// It goes on: reading was tried before.
    GoOn,
}

impl Surroundings {
    /// A message comes from a community; `known` is whether anything is known of that.
    pub(super) fn arrive(&mut self, community: &str, known: bool, ticket: u64) -> Then {
        if let Some(waiting) = self.waiting.get_mut(community) {
            waiting.push(ticket);
            return Then::Wait;
        }
        if known || !self.asked.insert(community.to_owned()) {
            return Then::GoOn;
        }
        self.waiting.insert(community.to_owned(), vec![ticket]);
        Then::Read
    }

    /// The reading of a community ended. Gives the tickets that waited, in order.
    pub(super) fn ended(&mut self, community: &str) -> Vec<u64> {
        self.waiting.remove(community).unwrap_or_default()
    }
}

impl ShardActor {
    /// Has a community read, and says when that ended.
    pub(super) fn learn(&self, ctx: &mut ActorContext<ShardActor>, community: String) {
        let (parts, last) = (self.parts.clone(), community.clone());
        ctx.task(
            async move {
                learn(&parts, &community).await;
                ShardEvent::Learnt(community)
            },
            move |_| ShardEvent::Learnt(last),
        );
    }
}

/// Has everything about a community read, within [`WITHIN`]. What cannot be read stays unknown.
async fn learn(parts: &ShardParts, community: &str) {
    let learn = async |aspect| {
        let request = PostRequest::FetchGuild { community: community.to_owned(), aspect };
        let answer = parts.outbox.call(|reply| OutboxMsg::Read(request, reply), WITHIN).await;
        if !matches!(answer, Ok(Ok(_))) {
            tracing::debug!(community, ?aspect, ?answer, "a community could not be read");
        }
    };
    let all = async {
        learn(GuildField::Itself).await;
        future::join3(learn(GuildField::Places), learn(GuildField::Threads), learn(GuildField::Ourselves)).await;
    };
    // Later than that it is of use to the messages that come then.
    let _ = tokio::time::timeout(WITHIN, all).await;
}
