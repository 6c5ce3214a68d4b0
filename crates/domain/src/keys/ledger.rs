//! Keys of the usage ledger: the two counters of the Python bot, and ours beside them.
//!
//! Ours are `staffai:ledger:{period}:{door}:{community}:{account}`. The period is a day in UTC or `all`. What is no id
//! (no community, the bot's own account) begins with `%`, which no written id does.

use std::time::Duration;

use super::legacy;
use crate::ids::{Door, Person};

/// How all our counters begin.
pub const PREFIX: &str = "staffai:ledger:";

/// How all counters of all time begin that the Python bot has too.
pub const TOTAL_PREFIX: &str = "token_stats:total:";

/// How all counters of days begin that the Python bot has too.
pub const DAILY_PREFIX: &str = "token_stats:daily:";

/// The life of a day's counters from their last change: enough for the report of a month.
pub const DAY_TTL: Duration = Duration::from_secs(36 * 24 * 60 * 60);

/// The life of the counters of all time from their last change, so that those of members who left vanish.
pub const ALL_TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// The life of a day's counter of the Python bot from its last change, as that bot sets it.
pub const DAILY_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The period of everything that was ever counted.
pub const ALL: &str = "all";

/// Instead of a community where there is none.
const NOWHERE: &str = "%none";

/// What a key of ours is about, as far as it is written in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// A day, or [`ALL`].
    pub period: String,
    /// The door.
    pub door: String,
    /// The platform's id of the community; none outside of communities.
    pub guild: Option<String>,
    /// The platform's id of the member, or the name of one of the bot's own accounts.
    pub account: Account,
    /// What is counted, where that stands in a key of its own: earlier versions wrote so.
    pub kind: Option<String>,
}

/// Whose usage is counted, as it is written in a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Account {
    /// A member, by the platform's id.
    Member(String),
    /// The bot itself, for this purpose.
    Own(String),
}

impl Account {
    fn written(&self) -> String {
        match self {
            Self::Member(id) => escape(id),
            Self::Own(purpose) => format!("%{}", escape(purpose)),
        }
    }
}

/// What an account used in one period. It lives for [`DAY_TTL`] or [`ALL_TTL`].
#[must_use]
pub fn counter(period: &str, door: &Door, guild: Option<&str>, account: &Account) -> String {
    let guild = guild.map_or_else(|| NOWHERE.to_owned(), escape);
    format!("{PREFIX}{period}:{door}:{guild}:{}", account.written())
}

/// One kind of it, as earlier versions counted in a key of its own.
#[must_use]
pub fn counter_of_kind(counter: &str, kind: &str) -> String {
    format!("{counter}:{kind}")
}

/// How all our counters of one period begin.
#[must_use]
pub fn of_period(period: &str) -> String {
    format!("{PREFIX}{period}:")
}

/// What a counter of ours counts; none when the key is none.
#[must_use]
pub fn parse(key: &str) -> Option<Entry> {
    let parts: Vec<&str> = key.strip_prefix(PREFIX)?.split(':').collect();
    let (period, door, guild, account, kind) = match parts[..] {
        [period, door, guild, account] => (period, door, guild, account, None),
        [period, door, guild, account, kind] => (period, door, guild, account, Some(kind)),
        _ => return None,
    };
    let guild = if guild == NOWHERE { None } else { Some(unescape(guild)?) };
    let account = match unescape(account) {
        Some(id) => Account::Member(id),
        None => Account::Own(unescape(account.strip_prefix('%')?)?),
    };
    Some(Entry { period: period.to_owned(), door: door.to_owned(), guild, account, kind: kind.map(str::to_owned) })
}

/// All tokens of a member in a community, as the Python bot counts them. It has no end.
#[must_use]
pub fn total(person: &Person, guild: &str) -> String {
    format!("{TOTAL_PREFIX}{}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// How all counters begin that say in which communities somebody was ever counted.
#[must_use]
pub fn of_all_time() -> [String; 2] {
    [of_period(ALL), TOTAL_PREFIX.to_owned()]
}

/// The community in which a counter of all time counts this person; none when it counts somebody else, or is none.
#[must_use]
pub fn community_of(key: &str, person: &Person) -> Option<String> {
    if let Some(entry) = parse(key) {
        let theirs = entry.account == Account::Member(person.id.to_string()) && entry.door == person.door.as_str();
        return entry.guild.filter(|_| theirs);
    }
    let (guild, member) = key.strip_prefix(TOTAL_PREFIX)?.rsplit_once(':')?;
    (member == legacy(&person.door, &person.id)).then(|| guild.to_owned())
}

/// The tokens of a member in a community on one day, as the Python bot counts them. It lives for [`DAILY_TTL`].
#[must_use]
pub fn daily(person: &Person, guild: &str, day: &str) -> String {
    format!("{DAILY_PREFIX}{}:{day}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// The member and the community of a day's counter of the Python bot, which knew one platform: `(guild, day, member)`.
#[must_use]
pub fn parse_daily(key: &str) -> Option<(&str, &str, &str)> {
    let parts: Vec<&str> = key.strip_prefix(DAILY_PREFIX)?.split(':').collect();
    let [guild, day, member] = parts[..] else { return None };
    Some((guild, day, member))
}

/// The last uses of a member in a community, as the Python bot kept them. This bot never writes it.
#[must_use]
pub fn log(person: &Person, guild: &str) -> String {
    format!("token_stats:log:{}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// An id as a part of a key of ours. Braces would choose a server in a cluster.
fn escape(id: &str) -> String {
    let mut out = String::with_capacity(id.len());
    for c in id.chars() {
        match c {
            ':' => out.push_str("%3A"),
            '%' => out.push_str("%25"),
            '{' => out.push_str("%7B"),
            '}' => out.push_str("%7D"),
            _ => out.push(c),
        }
    }
    out
}

/// The id that was escaped; none when this was not written by [`escape`].
fn unescape(written: &str) -> Option<String> {
    let mut pieces = written.split('%');
    let mut out = pieces.next()?.to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        out.push(match code {
            "3A" => ':',
            "25" => '%',
            "7B" => '{',
            "7D" => '}',
            _ => return None,
        });
        out.push_str(rest);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCORD: Door = Door::new("discord");
    const DAY: &str = "2026-11-20";

    #[test]
    fn the_counters_of_the_python_bot_keep_their_keys() {
        let ada = Person::new(DISCORD, "7");
        assert_eq!(total(&ada, "5"), "token_stats:total:5:7");
        assert_eq!(daily(&ada, "5", DAY), "token_stats:daily:5:2026-11-20:7");
        assert_eq!(log(&ada, "5"), "token_stats:log:5:7");
        assert_eq!(parse_daily(&daily(&ada, "5", DAY)), Some(("5", DAY, "7")));
        assert_eq!(parse_daily("token_stats:daily:5:7"), None);
    }

    #[test]
    fn our_counters_give_back_what_they_count() {
        for guild in [Some("5"), Some("a:b"), None] {
            for account in ["7", "%", "%none", "a:{b}%3A"].map(|id| Account::Member(id.to_owned())) {
                let key = counter(DAY, &DISCORD, guild, &account);
                assert!(key.starts_with(&of_period(DAY)) && !key.contains(['{', '}']), "{key}");
                let entry = parse(&key).unwrap();
                assert_eq!((entry.guild.as_deref(), &entry.account), (guild, &account), "{key}");
                assert_eq!((entry.period.as_str(), entry.door.as_str(), &entry.kind), (DAY, "discord", &None));
                let before = Entry { kind: Some("in".to_owned()), ..entry };
                assert_eq!(parse(&counter_of_kind(&key, "in")), Some(before), "as earlier versions wrote it");
            }
        }
        let own = counter(ALL, &DISCORD, None, &Account::Own("presence".to_owned()));
        assert_eq!(own, "staffai:ledger:all:discord:%none:%presence");
        assert_eq!(parse(&own).unwrap().account, Account::Own("presence".to_owned()));
        assert_eq!(parse("staffai:ledger:all"), None);
    }
}
