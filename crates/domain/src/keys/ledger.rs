//! Keys of the usage ledger: the two counters of the Python bot, and our own.
//!
//! Our keys are `staffai:ledger:{period}:{door}:{community}:{account}`. The period is a day in UTC or `all`. Values
//! that are not ids (no community, the bot's own account) begin with `%`, which no escaped id does.

use std::time::Duration;

use crate::ids::{Door, Person};
use crate::key_part::{UNNAMED_DOOR, legacy, whole};

/// The prefix of our counters.
pub const PREFIX: &str = "staffai:ledger:";

/// The prefix of all-time counters shared with the Python bot.
pub const TOTAL_PREFIX: &str = "token_stats:total:";

/// The prefix of daily counters shared with the Python bot.
pub const DAILY_PREFIX: &str = "token_stats:daily:";

/// The prefix of the index of the communities in which a member was counted.
pub const COUNTED_PREFIX: &str = "staffai:counted:";

/// The mark that this index has the counters of versions without it. TTL: [`INDEXED_TTL`].
pub const INDEXED: &str = "staffai:counted";

/// The TTL of the mark, so that counters written by such a version meanwhile are added too.
pub const INDEXED_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The TTL of daily counters, from their last change: enough for the report of a month.
pub const DAY_TTL: Duration = Duration::from_secs(36 * 24 * 60 * 60);

/// The TTL of all-time counters, from their last change, so that counters of members who left expire.
pub const ALL_TTL: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// The TTL of the Python bot's daily counter, from its last change, as that bot sets it.
pub const DAILY_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The all-time period.
pub const ALL: &str = "all";

/// The placeholder for "no community".
const NOWHERE: &str = "%none";

/// The parts of one of our keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerKey {
    /// A day, or [`ALL`].
    pub period: String,
    /// The door.
    pub door: String,
    /// The platform's id of the community; none outside communities.
    pub guild: Option<String>,
    /// The platform's id of the member, or the name of one of the bot's own accounts.
    pub account: Account,
    /// The kind of the count, if the key has one: earlier versions used a key for each kind.
    pub kind: Option<String>,
}

/// The account whose usage is counted, as written in a key.
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

/// Returns the key of an account's usage in one period. TTL: [`DAY_TTL`] or [`ALL_TTL`].
#[must_use]
pub fn counter(period: &str, door: &Door, guild: Option<&str>, account: &Account) -> String {
    let guild = guild.map_or_else(|| NOWHERE.to_owned(), escape);
    format!("{PREFIX}{period}:{door}:{guild}:{}", account.written())
}

/// Returns the key of one kind of usage, as earlier versions counted it separately.
#[must_use]
pub fn counter_of_kind(counter: &str, kind: &str) -> String {
    format!("{counter}:{kind}")
}

/// Returns the prefix of our counters of one period.
#[must_use]
pub fn of_period(period: &str) -> String {
    format!("{PREFIX}{period}:")
}

/// Parses one of our counter keys; none if the key is not one.
#[must_use]
pub fn parse(key: &str) -> Option<LedgerKey> {
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
    Some(LedgerKey { period: period.to_owned(), door: door.to_owned(), guild, account, kind: kind.map(str::to_owned) })
}

/// Returns the key of the all-time tokens of a member in a community, as the Python bot counts them. It has no expiry.
#[must_use]
pub fn total(person: &Person, guild: &str) -> String {
    format!("{TOTAL_PREFIX}{}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// Returns the key that names a community in which a member was counted. TTL: [`ALL_TTL`] from the last count.
#[must_use]
pub fn counted(person: &Person, guild: &str) -> String {
    format!("{}{}", counted_of(person), escape(guild))
}

/// Returns the prefix of these keys of one member.
#[must_use]
pub fn counted_of(person: &Person) -> String {
    format!("{COUNTED_PREFIX}{}:{}:", person.door, escape(&person.id))
}

/// Parses the community from such a key of this member.
#[must_use]
pub fn community_of(key: &str, person: &Person) -> Option<String> {
    unescape(key.strip_prefix(&counted_of(person))?)
}

/// Returns the prefixes of all-time counters, which name every community of every member.
#[must_use]
pub fn of_all_time() -> [String; 2] {
    [of_period(ALL), TOTAL_PREFIX.to_owned()]
}

/// Returns the member and the community of an all-time counter; `None` for other keys and for accounts of the bot. Of
/// the counters of the Python bot, only its own platform's are read: this program has its own for the others.
#[must_use]
pub fn counted_by(key: &str) -> Option<(Person, String)> {
    if let Some(LedgerKey { door, guild: Some(guild), account: Account::Member(id), .. }) = parse(key) {
        return Some((Person::new(Door::named(&door)?, id), guild));
    }
    let (guild, member) = key.strip_prefix(TOTAL_PREFIX)?.split_once(':')?;
    (!member.contains(':')).then(|| (Person::new(UNNAMED_DOOR, whole(member)), whole(guild)))
}

/// Returns the key of the tokens of a member in a community on one day, as the Python bot counts them. TTL:
/// [`DAILY_TTL`].
#[must_use]
pub fn daily(person: &Person, guild: &str, day: &str) -> String {
    format!("{DAILY_PREFIX}{}:{day}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// Parses a daily counter key of the Python bot, which supported one platform: `(guild, day, member)`.
#[must_use]
pub fn parse_daily(key: &str) -> Option<(&str, &str, &str)> {
    let parts: Vec<&str> = key.strip_prefix(DAILY_PREFIX)?.split(':').collect();
    let [guild, day, member] = parts[..] else { return None };
    Some((guild, day, member))
}

/// Returns the key of a member's recent usage in a community, as the Python bot kept it. This bot never writes it.
#[must_use]
pub fn log(person: &Person, guild: &str) -> String {
    format!("token_stats:log:{}:{}", legacy(&person.door, guild), legacy(&person.door, &person.id))
}

/// Escapes an id as a part of our keys. Braces would form a hash tag, which selects the node of a cluster.
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

/// Returns the unescaped id; none if [`escape`] did not write it.
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
                let before = LedgerKey { kind: Some("in".to_owned()), ..entry };
                assert_eq!(parse(&counter_of_kind(&key, "in")), Some(before), "as earlier versions wrote it");
            }
        }
        let own = counter(ALL, &DISCORD, None, &Account::Own("presence".to_owned()));
        assert_eq!(own, "staffai:ledger:all:discord:%none:%presence");
        assert_eq!(parse(&own).unwrap().account, Account::Own("presence".to_owned()));
        assert_eq!(parse("staffai:ledger:all"), None);
    }

    #[test]
    fn the_communities_of_a_member_are_found_by_the_member() {
        let (ada, other) = (Person::new(DISCORD, "7"), Person::new(Door::new("api"), "a:{b}%3A"));
        for (person, guild) in [(&ada, "5"), (&ada, "a:b"), (&other, "5"), (&other, "%{x}")] {
            let key = counted(person, guild);
            assert_eq!(community_of(&key, person).as_deref(), Some(guild), "{key}");
            let account = Account::Member(person.id.to_string());
            let all_time = counter(ALL, &person.door, Some(guild), &account);
            assert_eq!(counted_by(&all_time), Some((person.clone(), guild.to_owned())));
        }
        assert_eq!(community_of(&counted(&Person::new(DISCORD, "77"), "5"), &ada), None);
        assert_eq!(counted_by(&total(&ada, "5")), Some((ada, "5".to_owned())));
        assert_eq!(counted_by(&total(&other, "5")), None, "its own counter names it");
        assert_eq!(counted_by(&counter(ALL, &DISCORD, Some("5"), &Account::Own("presence".to_owned()))), None);
        assert_eq!(counted_by(&counter(ALL, &DISCORD, None, &Account::Member("7".to_owned()))), None);
    }
}
