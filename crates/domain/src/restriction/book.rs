//! The book of restrictions: what is in force, and what has to be done next, as one process knows it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::Member;
use crate::ids::{self, Timestamp};

/// How long after a breach further ones of the same member change nothing: their messages may have been written before the
/// role was seen.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// What is in force and what is next. A community has one action at a time: its roles have one budget, and what is refused once
/// is refused to all.
#[derive(Debug, Default)]
pub struct Restrictions {
    entries: HashMap<Member, Entry>,
    /// When something has to be done about whom; those with a action under way are not in it.
    next: BTreeSet<(Timestamp, Member)>,
    /// Communities with a action under way.
    busy: HashSet<String>,
    /// Who was crossed out since records were last taken over.
    ended: HashSet<Member>,
}

/// One restriction.
#[derive(Debug, Clone)]
struct Entry {
    /// When it ends; none when it has no record because only moderators end it.
    until: Option<Timestamp>,
    /// The role was given.
    given: bool,
    /// When it was begun; the beginning of time for what was read.
    made: Timestamp,
    /// Not tried before this.
    not_before: Timestamp,
    /// The name of the member, where it is known.
    name: Option<String>,
    /// Which limit was broken, where it is known.
    tier: &'static str,
    /// The role was given before, and lost when the member left.
    again: bool,
}

/// What has to be done about a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleChange {
    /// The role is given.
    Give,
    /// The role is taken.
    Take,
}

/// A restriction as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestrictionNotice {
    /// When it ends.
    pub until: Option<Timestamp>,
    /// The name of the member, where it is known.
    pub name: Option<String>,
    /// Which limit was broken, where it is known.
    pub tier: &'static str,
    /// The role is given once more to a member who left and came back.
    pub again: bool,
}

impl Entry {
    /// When something has to be done.
    fn due(&self) -> Option<Timestamp> {
        let after = |at: Timestamp| at.max(self.not_before);
        if self.given { self.until.map(after) } else { Some(self.not_before) }
    }
}

impl Restrictions {
    /// A member broke a limit. True when a restriction begins with it; its record has to be written before anything else.
    /// `duration` zero restricts without an end.
    pub fn breached(
        &mut self,
        member: &Member,
        (name, tier): (&str, &'static str),
        now: Timestamp,
        duration: Duration,
    ) -> bool {
        let settles = |entry: &Entry| !entry.given || now.since(entry.made) < SETTLES_WITHIN;
        if self.entries.get(member).is_some_and(settles) {
            return false;
        }
        let until = (!duration.is_zero()).then(|| Timestamp(now.0.saturating_add(ids::millis(duration))));
        let name = Some(name.to_owned());
        self.put(member.clone(), Entry { until, given: false, made: now, not_before: now, name, tier, again: false });
        true
    }

    /// Takes over the records that were read, `begun` being the moment when that began. `unsure` are members whose role may not
    /// have been given yet. When the records are `complete`, what is missing was ended by somebody else.
    pub fn take_over(
        &mut self,
        records: &HashMap<Member, Timestamp>,
        unsure: &HashSet<Member>,
        begun: Timestamp,
        complete: bool,
    ) {
        let ended = std::mem::take(&mut self.ended);
        if complete {
            let missing = |(member, entry): (&Member, &Entry)| {
                let known = records.contains_key(member) || unsure.contains(member);
                let settled = entry.made < begun && !self.busy.contains(&member.guild);
                (!known && settled).then(|| member.clone())
            };
            let missing: Vec<Member> = self.entries.iter().filter_map(missing).collect();
            for member in missing {
                self.remove(&member);
            }
        }
        let unended = unsure.iter().filter(|member| !records.contains_key(*member)).map(|member| (member, None));
        let timed = records.iter().map(|(member, until)| (member, Some(*until)));
        for (member, until) in timed.chain(unended) {
            match self.entries.get(member) {
                Some(entry) if entry.until == until || entry.made >= begun => {}
                _ if ended.contains(member) || self.busy.contains(&member.guild) => {}
                Some(entry) => {
                    let entry = Entry { until, ..entry.clone() };
                    self.put(member.clone(), entry);
                }
                None => {
                    let (given, never) = (!unsure.contains(member), Timestamp(0));
                    let entry = Entry {
                        until,
                        given,
                        made: never,
                        not_before: never,
                        name: None,
                        tier: "unknown",
                        again: false,
                    };
                    self.put(member.clone(), entry);
                }
            }
        }
    }

    /// A restricted member came back without the role. True when it has to be given once more.
    pub fn came_back(&mut self, member: &Member, now: Timestamp) -> bool {
        let Some(entry) = self.entries.get(member).filter(|entry| entry.given).cloned() else { return false };
        self.put(member.clone(), Entry { given: false, again: true, not_before: now, ..entry });
        true
    }

    /// The same for a restriction without an end, which is not in the book any more once its role was given.
    pub fn begins_again(&mut self, member: &Member, now: Timestamp) -> bool {
        if self.entries.contains_key(member) {
            return false;
        }
        let entry =
            Entry { until: None, given: false, made: now, not_before: now, name: None, tier: "unknown", again: true };
        self.put(member.clone(), entry);
        true
    }

    /// The member is not there to be given the role. The restriction stays for the case that they come back.
    pub fn away(&mut self, member: &Member) {
        self.busy.remove(&member.guild);
        match self.entries.get(member).cloned() {
            Some(entry) if entry.until.is_some() => self.put(member.clone(), Entry { given: true, ..entry }),
            Some(_) | None => self.remove(member),
        }
    }

    /// Who is restricted, and since when; of what an earlier life made that is reckoned from `duration`.
    pub fn since(&self, duration: Duration) -> impl Iterator<Item = (&Member, Timestamp)> {
        let since = move |entry: &Entry| match entry.until {
            Some(until) if entry.made == Timestamp(0) => Timestamp(until.0.saturating_sub(ids::millis(duration))),
            Some(_) | None => entry.made,
        };
        self.entries.iter().map(move |(member, entry)| (member, since(entry)))
    }

    /// The next thing to be done now, which is under way from then on.
    pub fn begin(&mut self, now: Timestamp) -> Option<(Member, RoleChange)> {
        let due = self.next.iter().take_while(|(at, _)| *at <= now);
        let found = due.map(|(_, member)| member).find(|member| !self.busy.contains(&member.guild))?.clone();
        let entry = self.entries.get(&found)?;
        let over = entry.until.is_some_and(|until| until <= now);
        let change = if over { RoleChange::Take } else { RoleChange::Give };
        if let Some(due) = entry.due() {
            self.next.remove(&(due, found.clone()));
        }
        self.busy.insert(found.guild.clone());
        Some((found, change))
    }

    /// It was done. The restriction as it is now, or as it was.
    pub fn done(&mut self, member: &Member, change: RoleChange) -> Option<RestrictionNotice> {
        self.busy.remove(&member.guild);
        let told = self.told(member)?;
        match (change, told.until) {
            (RoleChange::Give, Some(_)) => {
                if let Some(entry) = self.entries.get(member).cloned() {
                    self.put(member.clone(), Entry { given: true, ..entry });
                }
            }
            (RoleChange::Give, None) | (RoleChange::Take, _) => {
                self.remove(member);
                self.ended.insert(member.clone());
            }
        }
        Some(told)
    }

    /// It could not be done; it is tried again after a while. When the whole community refused it, so are all its others.
    pub fn failed(&mut self, member: &Member, now: Timestamp, again_after: Duration, whole: bool) {
        self.busy.remove(&member.guild);
        let not_before = Timestamp(now.0.saturating_add(ids::millis(again_after)));
        let concerned = |known: &Member| known == member || (whole && known.guild == member.guild);
        let members: Vec<Member> = self.entries.keys().filter(|known| concerned(known)).cloned().collect();
        for member in members {
            if let Some(entry) = self.entries.get(&member).cloned() {
                self.put(member, Entry { not_before, ..entry });
            }
        }
    }

    /// What is known of a member's restriction.
    #[must_use]
    pub fn told(&self, member: &Member) -> Option<RestrictionNotice> {
        let Entry { until, name, tier, again, .. } = self.entries.get(member)?;
        Some(RestrictionNotice { until: *until, name: name.clone(), tier, again: *again })
    }

    /// How many are in force.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// None are in force.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many actions are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.busy.len()
    }

    fn put(&mut self, member: Member, entry: Entry) {
        self.unlist(&member);
        if let Some(due) = entry.due() {
            self.next.insert((due, member.clone()));
        }
        self.entries.insert(member, entry);
    }

    fn remove(&mut self, member: &Member) {
        self.unlist(member);
        self.entries.remove(member);
    }

    fn unlist(&mut self, member: &Member) {
        if let Some(due) = self.entries.get(member).and_then(Entry::due) {
            self.next.remove(&(due, member.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
