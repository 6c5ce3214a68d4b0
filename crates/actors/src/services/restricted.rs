//! Who is restricted by a record, since when. It is written by the sweeper and read by the gateway: a member who leaves and comes back
//! has lost the role, but not the record.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::RwLock;

use domain::ids::Timestamp;
use domain::incoming::Posted;
use domain::restriction::Member;

/// How long after a role was given messages may still come that were written without it.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// The members with a record, each with the moment since which they are restricted.
#[derive(Default)]
pub struct Restricted(RwLock<HashMap<Member, Timestamp>>);

impl Restricted {
    /// Replaces all that is known.
    pub fn replace(&self, since: HashMap<Member, Timestamp>) {
        *self.0.write() = since;
    }

    /// A restriction began.
    pub fn begin(&self, member: Member, since: Timestamp) {
        self.0.write().insert(member, since);
    }

    /// A restriction ended.
    pub fn end(&self, member: &Member) {
        self.0.write().remove(member);
    }

    /// The member who wrote this, if they have a record, never left since it was made, and it is long enough ago for their role to
    /// be seen.
    pub fn stayed(&self, posted: &Posted) -> Option<Member> {
        let known = self.0.read();
        let joined = posted.author.joined.filter(|_| !known.is_empty())?;
        let member = Member { guild: posted.guild.clone()?, person: posted.author.person.clone() };
        let stayed = |since: &Timestamp| joined <= *since && posted.at.since(*since) > SEEN_WITHIN;
        known.get(&member).is_some_and(stayed).then_some(member)
    }

    /// The member who wrote this, if they are restricted and joined again since then.
    pub fn came_back(&self, posted: &Posted) -> Option<Member> {
        let known = self.0.read();
        let joined = posted.author.joined.filter(|_| !known.is_empty())?;
        let member = Member { guild: posted.guild.clone()?, person: posted.author.person.clone() };
        known.get(&member).is_some_and(|since| *since < joined).then_some(member)
    }
}
