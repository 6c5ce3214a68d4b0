//! Data loss and broken promises caused by a server's settings.
//!
//! Source: <https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/> and
//! <https://redis.io/docs/latest/develop/reference/eviction/>.

use std::collections::BTreeMap;

use ::redis::{RedisResult, cmd};

use super::pool::Link;
use ports::Keeping;

/// The relevant settings, as patterns of `CONFIG GET`.
const ASKED: [&str; 3] = ["append*", "maxmemory*", "save"];

/// Reads the settings of the server.
///
/// # Errors
/// The server refuses `CONFIG`, as many hosted ones do, or does not answer.
pub async fn settings(link: &mut Link) -> RedisResult<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for pattern in ASKED {
        let some: BTreeMap<String, String> = cmd("CONFIG").arg("GET").arg(pattern).query_async(link).await?;
        settings.extend(some);
    }
    Ok(settings)
}

/// Returns the data that these settings can lose and the promises that they break.
pub fn judged(settings: &BTreeMap<String, String>) -> Keeping {
    let value = |name: &str| settings.get(name).map_or("", String::as_str);
    let loses = match (value("appendonly"), value("appendfsync"), value("save")) {
        ("yes", "always", _) => None,
        ("yes", "no", _) => Some(
            "appendfsync is no: if the machine of Redis fails, about the last 30 seconds of conversations, open turns and limits are lost; \
             appendfsync everysec loses 1 second at most, always nothing"
                .to_owned(),
        ),
        ("yes", ..) => Some(
            "appendfsync is everysec: if the machine of Redis fails, up to 1 second of conversations, open turns and limits is lost; \
             appendfsync always loses nothing"
                .to_owned(),
        ),
        (_, _, "") => Some(
            "appendonly is no and save is empty: when Redis stops, everything is lost; set appendonly yes".to_owned(),
        ),
        (_, _, save) => Some(format!(
            "appendonly is no: when Redis fails, everything since its last snapshot is lost (save is {save:?}); set appendonly yes"
        )),
    };
    let (policy, most) = (value("maxmemory-policy"), value("maxmemory"));
    let evicts = !matches!(policy, "" | "noeviction") && !matches!(most, "" | "0");
    let breaks = evicts.then(|| {
        format!(
            "maxmemory-policy is {policy} and maxmemory is {most}: when memory is full, Redis removes limits, open turns and restrictions \
             that still count; set maxmemory-policy noeviction, or give the bot a Redis of its own"
        )
    });
    Keeping { loses: loses.filter(|_| !settings.is_empty()), breaks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &[(&str, &str)]) -> Keeping {
        judged(&settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn each_way_to_write_says_what_it_can_lose() {
        for (settings, words) in [
            (&[("appendonly", "yes"), ("appendfsync", "everysec")][..], "up to 1 second"),
            (&[("appendonly", "yes"), ("appendfsync", "no")], "30 seconds"),
            (&[("appendonly", "no"), ("save", "3600 1")], "since its last snapshot"),
            (&[("appendonly", "no"), ("save", "")], "everything is lost"),
        ] {
            let Keeping { loses, breaks } = of(settings);
            assert!(loses.as_ref().is_some_and(|loses| loses.contains(words)) && breaks.is_none(), "{loses:?}");
        }
        assert_eq!(of(&[("appendonly", "yes"), ("appendfsync", "always")]), Keeping::default());
        assert_eq!(of(&[]), Keeping::default(), "unknown settings are not judged");
    }

    #[test]
    fn a_policy_that_evicts_breaks_promises_only_where_memory_has_a_bound() {
        for policy in
            ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl", "volatile-random"]
        {
            let breaks = of(&[("maxmemory-policy", policy), ("maxmemory", "1048576")]).breaks;
            assert!(breaks.is_some_and(|breaks| breaks.contains(policy) && breaks.contains("noeviction")), "{policy}");
            assert_eq!(of(&[("maxmemory-policy", policy), ("maxmemory", "0")]).breaks, None);
        }
        assert_eq!(of(&[("maxmemory-policy", "noeviction"), ("maxmemory", "1048576")]).breaks, None);
    }
}
