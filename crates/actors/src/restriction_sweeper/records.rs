//! The records of restrictions: reads, and the writes around each change of a role.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use domain::ids::Timestamp;
use domain::keys;
use domain::restriction::{Member, format_until, parse_until};
use ports::{Store, Write};
use telemetry::events::STORE_CORRUPT;

/// The maximum number of records of each kind in one read.
const LOAD_MAX: usize = 200_000;
/// The timeout of a read of the records; it is retried at the next check.
pub const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of members on record as told where they are answered. If it is full, no further notices are sent.
pub const TOLD_MAX: usize = 10_000;

/// The records that were read.
pub struct Records {
    /// The start of the read.
    pub begun: Timestamp,
    /// True if the store responded and these are all records.
    pub complete: bool,
    pub restricted: HashMap<Member, Timestamp>,
    pub restricting: HashSet<Member>,
    pub told: HashMap<Member, Timestamp>,
    pub endless: HashMap<Member, Timestamp>,
}

/// The writes before the role is assigned.
pub fn begun(member: &Member, until: Option<Timestamp>) -> Vec<Write> {
    let key = keys::restrictions::restricting(&member.guild, &member.person);
    let mut writes = vec![Write::Put { key, value: "1".to_owned(), ttl: Some(keys::restrictions::RESTRICTING_TTL) }];
    if let Some(until) = until {
        let key = keys::restrictions::restricted_until(&member.guild, &member.person);
        writes.push(Write::Put { key, value: format_until(until), ttl: None });
    }
    writes
}

/// The writes after the role was removed.
pub fn over(member: &Member) -> Vec<Write> {
    let Member { guild, person } = member;
    let keys = [
        keys::restrictions::restricted_until(guild, person),
        keys::restrictions::restricting(guild, person),
        keys::restrictions::told(guild, person),
    ];
    keys.into_iter().map(|key| Write::Delete { key }).collect()
}

/// Reads the records of all members.
pub async fn read(store: &dyn Store, begun: Timestamp) -> Records {
    let prefixes = [
        keys::restrictions::RESTRICTED_PREFIX,
        keys::restrictions::RESTRICTING_PREFIX,
        keys::restrictions::TOLD_PREFIX,
        keys::restrictions::ENDLESS_PREFIX,
    ];
    let (found, mut complete) = store.scan_many(&prefixes, LOAD_MAX, None).await.into_parts();
    let [restricted, restricting, told, endless] = found.try_into().unwrap_or_default();
    complete &= restricted.len() < LOAD_MAX;
    let member = |(guild, person)| Member { guild, person };
    let restricted = restricted.into_iter().filter_map(|(key, value)| {
        let read = keys::restrictions::parse_restricted(&key).map(member).zip(parse_until(&value));
        if read.is_none() {
            tracing::error!(event = STORE_CORRUPT, key, "the end of a restriction cannot be read; it is skipped");
        }
        read
    });
    let timed = |(key, value): (String, String)| {
        keys::restrictions::parse_member(&key).map(member).zip(value.parse().ok().map(Timestamp))
    };
    Records {
        begun,
        complete,
        restricted: restricted.collect(),
        restricting: restricting
            .into_iter()
            .filter_map(|(key, _)| keys::restrictions::parse_member(&key).map(member))
            .collect(),
        told: told.into_iter().take(TOLD_MAX).filter_map(timed).collect(),
        endless: endless.into_iter().filter_map(timed).collect(),
    }
}
