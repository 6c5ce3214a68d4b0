//! The response to a refusal: a log line, one notice in each window, and for a confirmed breach a report to the
//! sweeper.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::OutboxMsg;
use crate::messages::restriction_sweeper::SweeperMsg;
use domain::ending::{Dropped, OverLimit};
use domain::happening::Happening;
use domain::ids::{self, Timestamp, TurnId};
use domain::limits::{Basis, Cost, LimitRefusal, Member};
use domain::notice::limit as notice;
use domain::notice::template::Filling;
use domain::turn::{self, Effort, Outcome, Turn};

/// The maximum number of remembered notices. Beyond it no notice is sent, and everything is counted.
const NOTICES_MAX: usize = 20_000;

/// The recent notices by member, with the turns that caused them.
#[derive(Default)]
pub(super) struct Notices(HashMap<(Member, bool), (Instant, TurnId)>);

impl Notices {
    /// True if a member may get a notice now, to slow down or about an exceeded limit; the notice then counts for the
    /// window. A redelivered turn whose notice was lost may send it again.
    fn may_tell(&mut self, member: &Member, wait: bool, turn: &TurnId, window: Duration) -> bool {
        let now = Instant::now();
        if self.0.len() >= NOTICES_MAX {
            self.0.retain(|_, (until, _)| *until > now);
        }
        let key = (member.clone(), wait);
        let told = self.0.get(&key).is_some_and(|(until, by)| *until > now && by != turn);
        if told || self.0.len() >= NOTICES_MAX {
            return false;
        }
        self.0.insert(key, (now + window, turn.clone()));
        true
    }
}

impl RateLimiter {
    /// Refuses a turn.
    pub(super) fn refuse(&self, notices: &mut Notices, member: &Member, turn: &Arc<Turn>, refusal: LimitRefusal) {
        let tier = refusal.cost.as_str();
        let breach = refusal.is_breach();
        self.observers.tell(&Happening::LimitRefused(&turn.id, &refusal));
        let limit = match (refusal.account, breach, refusal.cost) {
            (Some(_), ..) => OverLimit::Account,
            (None, false, _) => OverLimit::Estimate,
            (None, true, Cost::Messages) => OverLimit::Messages,
            (None, true, Cost::Tokens | Cost::Dollars | Cost::Calls) => OverLimit::Tokens,
        };
        if !turn.trigger.is_asked() {
            return self.drop_turn(turn.id.clone(), limit);
        }
        if breach {
            // If the sweeper refuses this, it assigns no role for this breach; the next breach is reported again.
            self.sweeper.tell(SweeperMsg::Breached { turn: Arc::clone(turn), tier });
        }
        let window = self.live.now().limits.window;
        // A program expects an answer to each request.
        let each = turn.policy.answers_each || turn.given.is_some();
        if !each && !notices.may_tell(member, !breach, &turn.id, window) {
            self.react(turn);
            return self.drop_turn(turn.id.clone(), limit);
        }
        let text = match (refusal.account, refusal.basis) {
            (Some(account), _) => notice::account_full(account.scope, turn.locale(), self.retry_at(&refusal)),
            (None, Basis::Use) => self.over(turn, &refusal),
            (None, Basis::Remainder) => notice::little_left(turn.locale(), self.retry_at(&refusal)),
            (None, Basis::OpenTurns) => notice::wait(turn.locale()).to_owned(),
        };
        let answer = turn::Answer {
            outgoing: turn.reply_with(&text),
            exchange: None,
            outcome: Outcome::Refused(limit),
            effort: Effort::default(),
        };
        // If the journal refuses this, it offers the turn again.
        self.journal.tell(JournalMsg::Answered(turn.id.clone(), Box::new(answer)));
    }

    /// Adds a reaction for a member who already had a notice: this message was read too, and is not answered.
    fn react(&self, turn: &Turn) {
        if let Some(emoji) = self.live.now().settings.rate_limiter.reaction.clone() {
            let react = OutboxMsg::React { about: turn.id.trigger(), place: turn.place.clone(), emoji };
            // A reaction is best effort: if the outbox refuses it, none is shown.
            self.outboxes.of(&turn.id.door).tell(react);
        }
    }

    /// Returns the time at which the turn would be accepted; `None` if it would never be.
    fn retry_at(&self, refusal: &LimitRefusal) -> Option<Timestamp> {
        refusal.retry_after.map(|wait| self.after(wait))
    }

    fn after(&self, wait: Duration) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_add(ids::millis(wait)))
    }

    fn over(&self, turn: &Turn, refusal: &LimitRefusal) -> String {
        let running = self.live.now();
        let restriction = &running.settings.restriction;
        let retry_at = self.retry_at(refusal);
        let restricts = running.rules(&turn.id.door).is_some_and(|rules| rules.restricts(turn));
        let filling = Filling {
            locale: turn.locale(),
            channel_id: restriction.channel.as_deref().filter(|_| restricts),
            user: &turn.name,
            until: match restriction.duration {
                _ if !restricts => retry_at,
                Duration::ZERO => None,
                duration => Some(self.after(duration)),
            },
            retry_at,
        };
        notice::over(&running.settings.rate_limiter.notice, &filling, restricts)
    }

    fn drop_turn(&self, turn: TurnId, limit: OverLimit) {
        // If the journal refuses this, it offers the turn again.
        self.journal.tell(JournalMsg::Dropped(turn, Dropped::OverLimit(limit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::turn_id;

    const WINDOW: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn each_notice_is_given_once_in_a_window() {
        let mut notices = Notices::default();
        let (ada, bob) = (Member::new("5:7"), Member::new("5:8"));
        assert!(notices.may_tell(&ada, false, &turn_id("1"), WINDOW));
        assert!(!notices.may_tell(&ada, false, &turn_id("2"), WINDOW));
        assert!(notices.may_tell(&ada, false, &turn_id("1"), WINDOW), "its own notice was lost");
        assert!(notices.may_tell(&ada, true, &turn_id("2"), WINDOW), "to wait is another thing");
        assert!(notices.may_tell(&bob, false, &turn_id("3"), WINDOW));
        tokio::time::sleep(WINDOW).await;
        assert!(notices.may_tell(&ada, false, &turn_id("4"), WINDOW));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_notices_is_bounded() {
        let mut notices = Notices::default();
        for number in 0..NOTICES_MAX {
            assert!(notices.may_tell(&Member::new(number.to_string()), false, &turn_id("1"), WINDOW));
        }
        assert!(!notices.may_tell(&Member::new("more"), false, &turn_id("1"), WINDOW));
        tokio::time::sleep(WINDOW).await;
        assert!(notices.may_tell(&Member::new("more"), false, &turn_id("1"), WINDOW));
        assert_eq!(notices.0.len(), 1);
    }
}
