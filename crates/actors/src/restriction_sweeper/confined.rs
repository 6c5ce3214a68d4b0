//! Members who are confined outside of their community: in direct messages, or through a linked account. Messages there
//! do not show if a moderator has removed the role, so the platform is asked.

use std::time::Duration;

use tokio::time::Instant;

use super::{RestrictionSweeper, SweeperEvent, SweeperState};
use crate::messages::outbox::OutboxMsg;
use crate::runtime::supervisor::ActorContext;
use domain::ids::{Person, Timestamp};
use domain::restriction::Member;
use ports::{PostRequest, PostResult};

/// The timeout of a request for roles.
const ROLES_TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum time between two requests for the roles of one member.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// The maximum number of members on record as asked about. If it is full, no further members are asked about.
const ASKED_MAX: usize = 1_000;
/// The maximum number of concurrent requests.
const ASKED_AT_ONCE: usize = 4;

/// The result of a request: the start of the restriction, and the roles; `None` if they are unknown.
pub type RolesRead = (Member, Timestamp, Option<Vec<String>>);

impl RestrictionSweeper {
    /// Reads the roles of an account that confines its person, in each community where it has a record.
    pub(super) fn confines(&self, ctx: &mut ActorContext<Self>, state: &mut SweeperState, account: &Person) {
        if self.live.now().settings.restriction.role.is_none() {
            return;
        }
        state.asked.retain(|_, at| at.elapsed() < ASK_EVERY);
        for (member, since) in self.restricted.settled(account, self.clock.now()) {
            if state.asked.len() >= ASKED_MAX || state.asking >= ASKED_AT_ONCE || state.asked.contains_key(&member) {
                continue;
            }
            state.asked.insert(member.clone(), Instant::now());
            state.asking += 1;
            let (outbox, failed) = (self.outboxes.of(&account.door).clone(), member.clone());
            ctx.task(
                async move {
                    let request = PostRequest::Roles(member.clone());
                    let read = outbox.call(|reply| OutboxMsg::Read(request, reply), ROLES_TIMEOUT).await;
                    let roles = if let Ok(Ok(PostResult::Roles(roles))) = read { Some(roles) } else { None };
                    SweeperEvent::Roles((member, since, roles))
                },
                move |_| SweeperEvent::Roles((failed, since, None)),
            );
        }
    }

    /// Ends the confinement of a member who is present without the role.
    pub(super) fn roles_read(&self, state: &mut SweeperState, (member, since, roles): RolesRead) {
        state.asking = state.asking.saturating_sub(1);
        let role = self.live.now().settings.restriction.role.clone();
        let (Some(role), Some(roles)) = (role, roles) else { return };
        let settled = self.restricted.settled(&member.person, self.clock.now());
        if !roles.contains(&role) && settled.contains(&(member.clone(), since)) {
            self.restricted.lift(&member);
            self.lifted(state, &member);
        }
    }
}
