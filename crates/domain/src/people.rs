//! People and their accounts. A [`Person`] is an account at a door; one human may hold several, which can be linked.
//!
//! Links are an equivalence: an account belongs to at most one person, and all accounts of a person are linked with each
//! other. The data of an account stays under its own id: a link only lets the accounts be read and counted together. So
//! no sequence of links and unlinks resets the counter of an account, and an account that is unlinked has what it had before.

pub mod codes;

use std::collections::HashMap;
use std::iter::once;

use serde::{Deserialize, Serialize};

use crate::ids::Person;
use crate::limits::account::{Account, Scope, Share};
use crate::limits::rules::LimitRules;
use crate::limits::{Cost, Limits};

/// The maximum number of accounts of one person.
pub const ACCOUNTS_MAX: usize = 8;
/// The maximum number of linked accounts of all persons: the record of the links stays below half a megabyte.
pub const LINKED_MAX: usize = 10_000;
/// The version of the record of the links.
const VERSION: u32 = 1;
/// The community of the accounts of the limiter that count a person at all doors. No id of a community has this form.
const EVERYWHERE: &str = "%people";

/// The accounts of one person, the leading account first; empty for an account without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Linked(Vec<Person>);

impl Linked {
    /// True if the account has no links.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all accounts, the leading account first; empty without links.
    #[must_use]
    pub fn accounts(&self) -> &[Person] {
        &self.0
    }

    /// Returns the account whose settings apply, and under which the person is counted at all doors.
    #[must_use]
    pub fn lead<'a>(&'a self, account: &'a Person) -> &'a Person {
        self.0.first().unwrap_or(account)
    }

    /// Returns the other accounts of the person.
    pub fn others<'a>(&'a self, account: &'a Person) -> impl Iterator<Item = &'a Person> {
        self.0.iter().filter(move |other| *other != account)
    }

    /// Returns all accounts of the person, this one first.
    pub fn from<'a>(&'a self, account: &'a Person) -> impl Iterator<Item = &'a Person> {
        once(account).chain(self.others(account))
    }

    /// Returns the accounts of the limiter that count the person at all doors, beside those of the asking account: the
    /// limits of its window, and a copy of each of its shares that counts a single member. Without links, none. So a
    /// link only adds limits.
    #[must_use]
    pub fn shares(&self, account: &Person, limits: Limits, rules: &LimitRules, own: &[Share]) -> Vec<Share> {
        let Some(lead) = self.0.first() else { return Vec::new() };
        let window = |(cost, limit)| {
            let (community, id) = (EVERYWHERE.into(), lead.to_string().into());
            Share {
                account: Account { scope: Scope::Member, cost, window: rules.window, community, id },
                limit,
                amount: None,
            }
        };
        let windows = [(Cost::Messages, limits.messages.into()), (Cost::Tokens, limits.tokens)].map(window);
        windows.into_iter().chain(self.copies(account, own)).collect()
    }

    /// Returns a copy of each share that counts this account alone, which counts the person at all doors.
    pub fn copies<'a>(&'a self, account: &'a Person, own: &'a [Share]) -> impl Iterator<Item = Share> + 'a {
        let lead = self.0.first();
        let of_member = own.iter().filter(|share| share.account.scope == Scope::Member);
        of_member.filter_map(move |share| {
            // The filters of its row follow the id.
            let filters = share.account.id.strip_prefix(account.id.as_str())?;
            // The budget of a row is another account than the window of the same length.
            let id = format!("{}#{filters}", lead?);
            let counted = Account { community: EVERYWHERE.into(), id: id.into(), ..share.account.clone() };
            Some(Share { account: counted, ..share.clone() })
        })
    }
}

/// The reason why accounts are not linked or unlinked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkRefusal {
    /// The operator does not let this caller link accounts.
    #[error("linking accounts is disabled; set members.linking to operators or members")]
    Closed,
    /// The code is unknown, used or expired.
    #[error("the code is unknown, used or expired")]
    Code,
    /// The account, or all accounts together, entered too many wrong codes.
    #[error("too many wrong codes; try again in five minutes")]
    TooMany,
    /// The code was shown at the same door: a link leads to another door.
    #[error("the code was shown at this door; enter it at another one")]
    SameDoor,
    /// The accounts are the same, or linked already.
    #[error("these accounts are linked already")]
    Already,
    /// There is no room for the accounts.
    #[error("a person has at most {ACCOUNTS_MAX} accounts, and there is room for {LINKED_MAX} linked accounts")]
    Full,
    /// An account of the person is restricted.
    #[error("an account of this person is restricted")]
    Restricted,
    /// The account has no links.
    #[error("this account has no links")]
    NoLink,
    /// The store does not answer, or its record is damaged.
    #[error("the links cannot be read or written at this moment; try again in a minute")]
    Away,
}

/// The links of all persons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    people: Vec<Linked>,
    /// The position of the person of each account.
    of: HashMap<Person, usize>,
}

#[derive(Serialize, Deserialize)]
struct StoredLinks {
    version: u32,
    people: Vec<Linked>,
}

impl Links {
    /// Parses the stored form; `None` if it is damaged or of another version.
    #[must_use]
    pub fn parse(stored: Option<&str>) -> Option<Self> {
        let Some(stored) = stored else { return Some(Self::default()) };
        let StoredLinks { version, people } = serde_json::from_str(stored).ok()?;
        let accounts = people.iter().map(|person| person.0.len());
        let sizes_fit = accounts.clone().all(|count| (2..=ACCOUNTS_MAX).contains(&count));
        let links = Self::of_people(people.clone());
        let each_once = links.of.len() == accounts.sum::<usize>();
        (version == VERSION && sizes_fit && each_once).then_some(links)
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data always serializes.
        serde_json::to_string(&StoredLinks { version: VERSION, people: self.people.clone() }).unwrap_or_default()
    }

    fn of_people(people: Vec<Linked>) -> Self {
        let at = |(at, person): (usize, &Linked)| {
            person.0.iter().map(move |account| (account.clone(), at)).collect::<Vec<_>>()
        };
        let of = people.iter().enumerate().flat_map(at).collect();
        Self { people, of }
    }

    /// True if there are no links.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.people.is_empty()
    }

    /// Returns all persons with linked accounts.
    #[must_use]
    pub fn people(&self) -> &[Linked] {
        &self.people
    }

    /// Returns the accounts of the person who holds this account; empty without links.
    #[must_use]
    pub fn linked(&self, account: &Person) -> Linked {
        self.of.get(account).map(|at| self.people[*at].clone()).unwrap_or_default()
    }

    /// Links two accounts, with all accounts that are linked with each. The first person's accounts come first, so its
    /// leading account leads.
    ///
    /// # Errors
    /// The accounts are linked already, or there is no room; nothing changes.
    pub fn link(&mut self, first: &Person, second: &Person) -> Result<Linked, LinkRefusal> {
        let (before, after) = (self.linked(first), self.linked(second));
        if first == second || before.0.contains(second) {
            return Err(LinkRefusal::Already);
        }
        let whole = |linked: Linked, account: &Person| if linked.is_empty() { vec![account.clone()] } else { linked.0 };
        let joined: Vec<Person> = whole(before, first).into_iter().chain(whole(after, second)).collect();
        let added = joined.iter().filter(|account| !self.of.contains_key(account)).count();
        if joined.len() > ACCOUNTS_MAX || self.of.len() + added > LINKED_MAX {
            return Err(LinkRefusal::Full);
        }
        let mut people = std::mem::take(&mut self.people);
        people.retain(|person| !person.0.iter().any(|account| joined.contains(account)));
        people.push(Linked(joined.clone()));
        *self = Self::of_people(people);
        Ok(Linked(joined))
    }

    /// Removes the links of one account; the others stay linked with each other.
    ///
    /// # Errors
    /// The account has no links.
    pub fn unlink(&mut self, account: &Person) -> Result<(), LinkRefusal> {
        let at = *self.of.get(account).ok_or(LinkRefusal::NoLink)?;
        let mut people = std::mem::take(&mut self.people);
        people[at].0.retain(|other| other != account);
        people.retain(|person| person.0.len() > 1);
        *self = Self::of_people(people);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
