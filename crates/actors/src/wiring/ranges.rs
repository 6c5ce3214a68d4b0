//! Changes of the ranges of a running tree.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Handles, Tree};
use crate::messages::discord::DiscordMsg;
use crate::messages::journal::JournalMsg;
use crate::messages::root::RootMsg;
use crate::messages::voices::VoicesMsg;
use crate::services::own_ranges::OwnRanges;
use domain::ownership::{Portion, Portions};
use ports::Turns;

/// The timeout of a call of the journal about the turns of a range: it may read the records of all turns.
const TURNS_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout for actors that start or stop: a supervisor waits for the stop of its children.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(15);
/// The pause between two calls.
const AGAIN: Duration = Duration::from_millis(20);

/// Changes the ranges of a running tree.
pub struct RangeMover {
    handles: Handles,
    ranges: OwnRanges,
    turns: Arc<dyn Turns>,
}

impl Tree {
    /// Returns the way to change the ranges of this tree.
    #[must_use]
    pub fn mover(&self) -> RangeMover {
        let (handles, ranges, turns) = (self.handles.clone(), self.ranges.clone(), Arc::clone(&self.turns));
        RangeMover { handles, ranges, turns }
    }
}

impl RangeMover {
    /// Takes further ranges, whose leases this process holds. The order keeps each turn with one owner: the token fences
    /// the previous owner, its turns are taken up, and only then events arrive.
    pub async fn take(&self, portions: &[Portion]) {
        for portion in portions {
            self.turns.take(*portion);
        }
        while self.handles.journal.call(JournalMsg::Adopt, TURNS_TIMEOUT).await.is_err() {
            sleep(AGAIN).await;
        }
        let all = portions.iter().fold(self.ranges.now(), |all, portion| all.with(portion.number));
        self.follow(all).await;
    }

    /// Gives a range away, in the reverse order: its connections are saved, its turns are finished, at most `within`,
    /// and its last write is durable. The caller then releases the lease.
    pub async fn give(&self, portion: Portion, within: Duration) {
        self.follow(self.ranges.now().without(portion.number)).await;
        let end = Instant::now() + within;
        let left = |reply| JournalMsg::LeftOf(portion, reply);
        while Instant::now() < end && self.handles.journal.call(left, TURNS_TIMEOUT).await != Ok(0) {
            sleep(AGAIN).await;
        }
        self.turns.refuse(portion);
        let leave = |reply| JournalMsg::Leave(portion, reply);
        while self.handles.journal.call(leave, TURNS_TIMEOUT).await.is_err() {
            sleep(AGAIN).await;
        }
        self.turns.leave(portion).await;
    }

    /// Tells the actors whose work depends on the ranges. Those that are down read them at their next start.
    async fn follow(&self, portions: Portions) {
        self.ranges.set(portions);
        self.handles.voices.tell(VoicesMsg::Follow);
        // An error means that the actor is down, and its children with it.
        let _ = self.handles.discord.call(DiscordMsg::Follow, FOLLOW_TIMEOUT).await;
        let _ = self.handles.root.call(RootMsg::Follow, FOLLOW_TIMEOUT).await;
    }
}
