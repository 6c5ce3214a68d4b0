//! What follows a refusal: a line in the log, one notice within the window, and for a real breach a word to the sweeper.

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
use domain::limits::{Basis, Member, Refusal, Tier};
use domain::notice::limit as notice;
use domain::notice::template::Filling;
use domain::turn::{self, Effort, Outcome, Turn};

/// The most notices remembered. Beyond that nobody is told, and everything is counted.
const NOTICES_MAX: usize = 20_000;

/// Who was told what lately, and because of which turn.
#[derive(Default)]
pub(super) struct Notices(HashMap<(Member, bool), (Instant, TurnId)>);

impl Notices {
    /// Whether a member may be told now, to wait or that they are over the limit; if so, it counts as told for the window.
    /// A turn that told it already, and comes again because that was lost, may.
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
    /// Turns a turn away.
    pub(super) fn refuse(&self, notices: &mut Notices, member: &Member, turn: &Arc<Turn>, refusal: Refusal) {
        let tier = refusal.tier.as_str();
        let breach = refusal.basis.is_breach();
        self.account.tell(&Happening::LimitRefused(&turn.id, &refusal));
        let limit = match (breach, refusal.tier) {
            (false, _) => OverLimit::Estimate,
            (true, Tier::Tokens) => OverLimit::Tokens,
            (true, Tier::Messages) => OverLimit::Messages,
        };
        if !turn.trigger.is_asked() {
            return self.drop_turn(turn.id.clone(), limit);
        }
        if breach {
            // While the sweeper is down nobody is restricted; the next breach is.
            let _ = self.sweeper.cast(SweeperMsg::Breached { turn: Arc::clone(turn), tier });
        }
        let window = self.live.now().limits.window;
        // A program waits for an answer to each request.
        let each = turn.policy.answers_each || turn.given.is_some();
        if !each && !notices.may_tell(member, !breach, &turn.id, window) {
            self.react(turn);
            return self.drop_turn(turn.id.clone(), limit);
        }
        let text = match refusal.basis {
            Basis::Use => self.over(turn, &refusal),
            Basis::Remainder => notice::little_left(turn.locale(), self.retry_at(&refusal)),
            Basis::OpenTurns => notice::wait(turn.locale()).to_owned(),
        };
        let answer = turn::Answer {
            outgoing: turn.reply_with(&text),
            exchange: None,
            outcome: Outcome::Refused(limit),
            effort: Effort::default(),
        };
        // A journal that is down offers the turn again.
        let _ = self.journal.cast(JournalMsg::Answered(turn.id.clone(), Box::new(answer)));
    }

    /// Shows a member who was told already that this message, too, was read and is not answered.
    fn react(&self, turn: &Turn) {
        if let Some(emoji) = self.live.now().settings.rate_limiter.reaction.clone() {
            let react = OutboxMsg::React { about: turn.id.trigger(), place: turn.place.clone(), emoji };
            // While the outbox is down there is silence.
            let _ = self.outboxes.of(&turn.id.door).cast(react);
        }
    }

    /// When the turn would be accepted; none when it never would.
    fn retry_at(&self, refusal: &Refusal) -> Option<Timestamp> {
        refusal.retry_after.map(|wait| self.after(wait))
    }

    fn after(&self, wait: Duration) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_add(ids::millis(wait)))
    }

    fn over(&self, turn: &Turn, refusal: &Refusal) -> String {
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
        // A journal that is down offers the turn again.
        let _ = self.journal.cast(JournalMsg::Dropped(turn, Dropped::OverLimit(limit)));
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
