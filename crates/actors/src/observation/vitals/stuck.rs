//! Evidence that the tree makes no progress, although its root runs.
//!
//! A supervisor kills and restarts an actor that hangs. It cannot kill a handler that blocks its thread, and nothing
//! restarts the children of a supervisor that blocks its own. If an essential actor is concerned, the bot is silent until
//! another process takes over.

use std::time::Duration;

use crate::runtime::handle::{LifeState, Stats};
use crate::runtime::roster::Roster;
use crate::tree::ActorKind;

/// The actors without which the bot is silent.
const ESSENTIAL: &[ActorKind] = &[
    ActorKind::Root,
    ActorKind::Journal,
    ActorKind::Outbox,
    ActorKind::RateLimiter,
    ActorKind::LlmDispatcher,
    ActorKind::Conversations,
    ActorKind::Gateway,
    ActorKind::Slack,
    ActorKind::SlackSocket,
    ActorKind::Discord,
    ActorKind::Shard,
];

/// The multiple of a handler's time limit after which the handler counts as blocked: it was killed long before.
const BLOCKED_AFTER: u32 = 3;

/// The longest wait of an essential actor for its restart: several times the longest backoff.
const RESTARTED_WITHIN: Duration = Duration::from_secs(30);

/// Returns the reason why the bot is silent: the first essential actor that is blocked, or that is not restarted.
pub(super) fn stuck(roster: &Roster) -> Option<String> {
    let mut reason = None;
    roster.each(|stats| {
        if reason.is_none() && ESSENTIAL.contains(&stats.kind) {
            reason = of(stats);
        }
    });
    reason
}

fn of(stats: &Stats) -> Option<String> {
    let life = stats.life();
    let waits = life.since.elapsed();
    if life.state == LifeState::Restarting && waits > RESTARTED_WITHIN {
        return Some(format!("{} waits for its restart for {} s", stats.label, waits.as_secs()));
    }
    let ran = stats.handling()?.since.elapsed();
    let blocked = ran > stats.handler_timeout * BLOCKED_AFTER;
    blocked.then(|| format!("{} is blocked for {} s", stats.label, ran.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::handle::Handle;
    use crate::testing::real;
    use crate::tree::{ROOT, Scope};
    use ports::Input;
    use std::sync::Arc;

    fn actor(kind: ActorKind) -> Arc<Stats> {
        let stats = Arc::clone(Handle::<()>::new(real(kind), ROOT, Scope::One).stats());
        stats.enter(LifeState::Running);
        stats
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_essential_actor_that_no_restart_helps_is_stuck() {
        let roster = Roster::default();
        let (journal, tools) = (actor(ActorKind::Journal), actor(ActorKind::Tools));
        for stats in [&journal, &tools] {
            roster.enter(Arc::clone(stats));
            stats.begin(Input::Message(None), "Work");
        }
        tokio::time::sleep(journal.handler_timeout * BLOCKED_AFTER).await;
        assert_eq!(stuck(&roster), None, "it may still be killed");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stuck(&roster).as_deref(), Some("staffai/journal is blocked for 16 s"));
        journal.end();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(stuck(&roster), None, "the bot answers without tools");
        journal.restarts_after(Duration::from_secs(5));
        tokio::time::sleep(RESTARTED_WITHIN).await;
        assert_eq!(stuck(&roster), None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stuck(&roster).as_deref(), Some("staffai/journal waits for its restart for 31 s"));
    }
}
