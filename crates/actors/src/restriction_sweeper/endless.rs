//! Restrictions without an end: only a moderator ends them, by removing the role from a member who is present. Their
//! records hold the start, so leaving and rejoining does not end them.

use std::collections::HashMap;

use super::{RestrictionSweeper, SweeperState};
use domain::happening::{Lifted, RestrictionChange};
use domain::ids::Timestamp;
use domain::keys;
use domain::restriction::Member;
use ports::Write;

/// The maximum number of these restrictions on record; further ones end when their members leave.
const ENDLESS_MAX: usize = 100_000;

impl RestrictionSweeper {
    /// Records that the role of a restriction without an end was assigned, or that its member was absent.
    pub(super) fn lasts(&self, state: &mut SweeperState, member: &Member) {
        if state.endless.len() >= ENDLESS_MAX && !state.endless.contains_key(member) {
            return self.restricted.end(member);
        }
        let since = self.clock.now();
        let (key, value) = (keys::restrictions::endless(&member.guild, &member.person), since.0.to_string());
        drop(self.store.write(vec![Write::Put { key, value, ttl: Some(keys::restrictions::ENDLESS_TTL) }]));
        state.endless.insert(member.clone(), since);
        self.announce(state, member, Some(since));
        self.restricted.begin(member.clone(), since);
    }

    /// Records that a moderator removed the role.
    pub(super) fn lifted(&self, state: &mut SweeperState, member: &Member) {
        if state.endless.remove(member).is_none() {
            return;
        }
        drop(self.store.write(vec![Write::Delete { key: keys::restrictions::endless(&member.guild, &member.person) }]));
        self.announce(state, member, None);
        self.restricted.end(member);
        self.tell(member, RestrictionChange::Lifted { why: Lifted::Moderator, late: None });
    }
}

/// Applies the records that were read; the read started at `begun`. If they are `complete`, a missing record was ended
/// by another process.
pub(super) fn take_over(
    known: &mut HashMap<Member, Timestamp>,
    read: HashMap<Member, Timestamp>,
    begun: Timestamp,
    complete: bool,
) {
    if complete {
        known.retain(|member, since| *since >= begun || read.contains_key(member));
    }
    for (member, since) in read.into_iter().take(ENDLESS_MAX) {
        known.entry(member).or_insert(since);
    }
}
