//! The members with a restriction record, and its start. The sweeper writes it, the gateway reads it. A member who
//! leaves and rejoins loses the role, but not the record.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::RwLock;

use crate::services::running::Running;
use domain::ids::{Person, Timestamp};
use domain::incoming::Posted;
use domain::restriction::Member;

/// The time after the role was assigned in which messages from before the assignment can still arrive.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// The members with a record, by account and community.
#[derive(Default)]
pub struct Restricted(RwLock<Records>);

type Records = HashMap<Person, HashMap<String, Record>>;

/// One restriction.
#[derive(Clone, Copy)]
struct Record {
    since: Timestamp,
    /// True if a moderator removed the role from a member who is present: the record then confines no other account.
    lifted: bool,
}

impl Restricted {
    /// Replaces all records.
    pub fn replace(&self, since: HashMap<Member, Timestamp>) {
        let mut known = self.0.write();
        let mut all = Records::new();
        for (Member { guild, person }, since) in since {
            let before = known.get(&person).and_then(|guilds| guilds.get(&guild));
            let lifted = before.is_some_and(|before| before.lifted && before.since == since);
            all.entry(person).or_default().insert(guild, Record { since, lifted });
        }
        *known = all;
    }

    /// Records the start of a restriction.
    pub fn begin(&self, member: Member, since: Timestamp) {
        self.0.write().entry(member.person).or_default().insert(member.guild, Record { since, lifted: false });
    }

    /// Records the end of a restriction.
    pub fn end(&self, member: &Member) {
        let mut known = self.0.write();
        let Some(guilds) = known.get_mut(&member.person) else { return };
        guilds.remove(&member.guild);
        if guilds.is_empty() {
            known.remove(&member.person);
        }
    }

    /// Records that a moderator removed the role.
    pub fn lift(&self, member: &Member) {
        let mut known = self.0.write();
        if let Some(record) = known.get_mut(&member.person).and_then(|guilds| guilds.get_mut(&member.guild)) {
            record.lifted = true;
        }
    }

    /// Returns the author if they have a record, have not left since its start, and the role is old enough to be
    /// visible on the message.
    pub fn stayed(&self, posted: &Posted) -> Option<Member> {
        let (member, since, joined) = self.with_join(posted)?;
        (joined <= since && posted.at.since(since) > SEEN_WITHIN).then_some(member)
    }

    /// True if the author has a record.
    pub fn holds(&self, posted: &Posted) -> bool {
        self.of_author(posted).is_some()
    }

    /// True if the author's restriction began after this message was written.
    pub fn began_after(&self, posted: &Posted) -> bool {
        self.of_author(posted).is_some_and(|(_, since)| posted.at < since)
    }

    /// True if the account is restricted in any community, and its door has restrictions.
    pub fn holds_anywhere(&self, running: &Running, account: &Person) -> bool {
        let applies = running.rules(&account.door).is_some_and(|rules| rules.restriction.is_some());
        applies && self.0.read().get(account).is_some_and(|guilds| guilds.values().any(|record| !record.lifted))
    }

    /// Returns the communities in which the account is restricted, each with the start, if the role is old enough to be
    /// visible.
    pub fn settled(&self, account: &Person, now: Timestamp) -> Vec<(Member, Timestamp)> {
        let known = self.0.read();
        let settled = |record: &Record| !record.lifted && now.since(record.since) > SEEN_WITHIN;
        let records = known.get(account).into_iter().flatten().filter(|(_, record)| settled(record));
        records
            .map(|(guild, record)| (Member { guild: guild.clone(), person: account.clone() }, record.since))
            .collect()
    }

    /// Returns the author if they are restricted and rejoined since then.
    pub fn came_back(&self, posted: &Posted) -> Option<Member> {
        let (member, since, joined) = self.with_join(posted)?;
        (since < joined).then_some(member)
    }

    /// Returns the author with the start of their restriction, and the time when they joined.
    fn with_join(&self, posted: &Posted) -> Option<(Member, Timestamp, Timestamp)> {
        let (member, since) = self.of_author(posted)?;
        Some((member, since, posted.author.joined?))
    }

    /// Returns the author with the start of their restriction.
    fn of_author(&self, posted: &Posted) -> Option<(Member, Timestamp)> {
        let (guild, person) = (posted.guild.as_ref()?, &posted.author.person);
        let Record { since, .. } = *self.0.read().get(person)?.get(guild)?;
        Some((Member { guild: guild.clone(), person: person.clone() }, since))
    }
}
