//! Community data that the start of a session includes, and that a session resumed from another process lacks. It is
//! read once, at the first message of the community; messages of that community are held until then, in order and for a
//! limited time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future;

use super::{ShardActor, ShardEvent, ShardParts};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use ports::{GuildField, PostRequest};

/// The timeout of the read. After it messages continue without the data: unknown permissions count as granted, and an
/// unknown language as the bot's own.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// The communities whose read is in progress or finished.
#[derive(Default)]
pub(super) struct Surroundings {
    asked: HashSet<String>,
    /// The tickets held for each community whose read is in progress.
    waiting: HashMap<String, Vec<u64>>,
}

/// The treatment of a message from a community without data.
pub(super) enum Then {
    /// The message is held, and the community must be read.
    Read,
    /// The message is held with the others.
    Wait,
    /// The message continues: a read was tried before.
    GoOn,
}

impl Surroundings {
    /// Handles the arrival of a message from a community; `known` is true if the community has data.
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

    /// Records the end of a read. Returns the held tickets, in order.
    pub(super) fn ended(&mut self, community: &str) -> Vec<u64> {
        self.waiting.remove(community).unwrap_or_default()
    }
}

impl ShardActor {
    /// Starts the read of a community, and reports its end.
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

/// Reads all data of a community, at most for [`WITHIN`]. Unreadable data stays unknown.
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
    // Data that arrives after the timeout serves later messages.
    let _ = tokio::time::timeout(WITHIN, all).await;
}
