//! Who is restricted by a record, since when. It is written by the sweeper and read by the gateway: a member who leaves and comes back
//! has lost the role, but not the record.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::domain::ids::Timestamp;
use crate::domain::incoming::Posted;
use crate::domain::restriction::Member;

/// The members with a record, each with the moment since which they are restricted.
#[derive(Default)]
pub(crate) struct Restricted(RwLock<HashMap<Member, Timestamp>>);

impl Restricted {
    /// Replaces all that is known.
    pub(crate) fn replace(&self, since: HashMap<Member, Timestamp>) {
        *self.0.write() = since;
    }

    /// A restriction began.
    pub(crate) fn begin(&self, member: Member, since: Timestamp) {
        self.0.write().insert(member, since);
    }

    /// A restriction ended.
    pub(crate) fn end(&self, member: &Member) {
        self.0.write().remove(member);
    }

    /// The member who wrote this, if they are restricted and joined again since then.
    pub(crate) fn came_back(&self, posted: &Posted) -> Option<Member> {
        let known = self.0.read();
        let joined = posted.author.joined.filter(|_| !known.is_empty())?;
        let member = Member { guild: posted.guild.clone()?, person: posted.author.person.clone() };
        known.get(&member).is_some_and(|since| *since < joined).then_some(member)
    }
}
