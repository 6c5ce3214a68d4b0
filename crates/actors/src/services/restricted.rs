//! The members with a restriction record, and its start. The sweeper writes it, the gateway reads it. A member who
//! leaves and rejoins loses the role, but not the record.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::RwLock;

use domain::ids::Timestamp;
use domain::incoming::Posted;
use domain::restriction::Member;

/// The time after the role was assigned in which messages from before the assignment can still arrive.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// The members with a record, each with the start of the restriction.
#[derive(Default)]
pub struct Restricted(RwLock<HashMap<Member, Timestamp>>);

impl Restricted {
    /// Replaces all records.
    pub fn replace(&self, since: HashMap<Member, Timestamp>) {
        *self.0.write() = since;
    }

    /// Records the start of a restriction.
    pub fn begin(&self, member: Member, since: Timestamp) {
        self.0.write().insert(member, since);
    }

    /// Records the end of a restriction.
    pub fn end(&self, member: &Member) {
        self.0.write().remove(member);
    }

    /// Returns the author if they have a record, have not left since its start, and the role is old enough to be
    /// visible on the message.
    pub fn stayed(&self, posted: &Posted) -> Option<Member> {
        let known = self.0.read();
        let joined = posted.author.joined.filter(|_| !known.is_empty())?;
        let member = Member { guild: posted.guild.clone()?, person: posted.author.person.clone() };
        let stayed = |since: &Timestamp| joined <= *since && posted.at.since(*since) > SEEN_WITHIN;
        known.get(&member).is_some_and(stayed).then_some(member)
    }

    /// True if the author has a record.
    pub fn holds(&self, posted: &Posted) -> bool {
        let known = self.0.read();
        let of = |guild: &String| Member { guild: guild.clone(), person: posted.author.person.clone() };
        !known.is_empty() && posted.guild.as_ref().is_some_and(|guild| known.contains_key(&of(guild)))
    }

    /// Returns the author if they are restricted and rejoined since then.
    pub fn came_back(&self, posted: &Posted) -> Option<Member> {
        let known = self.0.read();
        let joined = posted.author.joined.filter(|_| !known.is_empty())?;
        let member = Member { guild: posted.guild.clone()?, person: posted.author.person.clone() };
        known.get(&member).is_some_and(|since| *since < joined).then_some(member)
    }
}
