//! The book of restrictions: the restrictions in force and the due role changes, as known to one process.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::Member;
use crate::ids::{self, Timestamp};

/// The time after a breach during which further breaches of the same member have no effect: their messages may have
/// been written before the role was visible.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// The restrictions in force and the due role changes. Each community has at most one action under way: its roles share
/// one rate limit, and a refusal of one applies to all.
#[derive(Debug, Default)]
pub struct Restrictions {
    entries: HashMap<Member, Entry>,
    /// The due role changes in order of time, except those of members with an action under way.
    next: BTreeSet<(Timestamp, Member)>,
    /// Communities with an action under way.
    busy: HashSet<String>,
    /// Members whose restriction ended since records were last taken over.
    ended: HashSet<Member>,
}

/// One restriction.
#[derive(Debug, Clone)]
struct Entry {
    /// The end; `None` without a record, because only moderators end such a restriction.
    until: Option<Timestamp>,
    /// True if the role was given.
    given: bool,
    /// The start; zero for restrictions that were read from records.
    made: Timestamp,
    /// The earliest time of the next attempt.
    not_before: Timestamp,
    /// The member's name, if known.
    name: Option<String>,
    /// The broken limit; `"unknown"` for restrictions that were read from records.
    tier: &'static str,
    /// True if the role was given before and lost when the member left.
    again: bool,
}

/// A role change of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleChange {
    /// The role is given.
    Give,
    /// The role is removed.
    Take,
}

/// A restriction, as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestrictionNotice {
    /// The end; `None` if only moderators end it.
    pub until: Option<Timestamp>,
    /// The member's name, if known.
    pub name: Option<String>,
    /// The broken limit; `"unknown"` for restrictions that were read from records.
    pub tier: &'static str,
    /// True if the role is given again to a member who left and came back.
    pub again: bool,
}

impl Entry {
    /// Returns the time of the next role change; `None` if there is none.
    fn due(&self) -> Option<Timestamp> {
        let after = |at: Timestamp| at.max(self.not_before);
        if self.given { self.until.map(after) } else { Some(self.not_before) }
    }
}

impl Restrictions {
    /// Records that a member broke a limit. Returns true if a restriction begins; the caller must write its record
    /// before any other step. A `duration` of zero means no end.
    pub fn breached(
        &mut self,
        member: &Member,
        name: &str,
        tier: &'static str,
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

    /// Takes over the records that were read, where `begun` is the time at which the read began. `unsure` are members
    /// whose role may not have been given yet. If the records are `complete`, restrictions without a record were ended
    /// by another party and are removed.
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

    /// Records that a restricted member came back without the role. Returns true if the role must be given again.
    pub fn came_back(&mut self, member: &Member, now: Timestamp) -> bool {
        let Some(entry) = self.entries.get(member).filter(|entry| entry.given).cloned() else { return false };
        self.put(member.clone(), Entry { given: false, again: true, not_before: now, ..entry });
        true
    }

    /// Does the same for a restriction without an end, which leaves the book once its role is given.
    pub fn begins_again(&mut self, member: &Member, now: Timestamp) -> bool {
        if self.entries.contains_key(member) {
            return false;
        }
        let entry =
            Entry { until: None, given: false, made: now, not_before: now, name: None, tier: "unknown", again: true };
        self.put(member.clone(), entry);
        true
    }

    /// Records that the role could not be given because the member is absent. A restriction with an end stays, in case
    /// the member comes back.
    pub fn away(&mut self, member: &Member) {
        self.busy.remove(&member.guild);
        match self.entries.get(member).cloned() {
            Some(entry) if entry.until.is_some() => self.put(member.clone(), Entry { given: true, ..entry }),
            Some(_) | None => self.remove(member),
        }
    }

    /// Returns the restricted members and the start of each restriction. For those read from records, the start is the
    /// end minus `duration`.
    pub fn since(&self, duration: Duration) -> impl Iterator<Item = (&Member, Timestamp)> {
        let since = move |entry: &Entry| match entry.until {
            Some(until) if entry.made == Timestamp(0) => Timestamp(until.0.saturating_sub(ids::millis(duration))),
            Some(_) | None => entry.made,
        };
        self.entries.iter().map(move |(member, entry)| (member, since(entry)))
    }

    /// Starts and returns the next due role change; its action is under way from then on.
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

    /// Records that the action succeeded. Returns the restriction as it is, or was before it ended.
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

    /// Records that the action failed; it is retried after `again_after`. If the refusal applies to the `whole`
    /// community, the delay applies to all its restrictions.
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

    /// Returns the known data of a member's restriction.
    #[must_use]
    pub fn told(&self, member: &Member) -> Option<RestrictionNotice> {
        let Entry { until, name, tier, again, .. } = self.entries.get(member)?;
        Some(RestrictionNotice { until: *until, name: name.clone(), tier, again: *again })
    }

    /// Returns the number of restrictions in force.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no restriction is in force.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of actions under way.
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
