//! Scans: one pass over the names of a server's keys, for any number of prefixes.

use std::collections::BTreeSet;

use ::redis::{RedisResult, cmd};

use super::pool::{Link, Node};
use super::text;
use crate::{FoundRows, Steps};
use ports::{Row, Scanned};

/// The keys that the server visits for one page of a scan.
pub(super) const PAGE: usize = 1_000;

/// The most pages of one scan, over all servers. With [`PAGE`] this covers ten million keys.
const PAGES_MOST: usize = 10_000;

/// The most matching keys kept by a scan: the first ones in order.
const KEYS_MOST: usize = 200_000;

/// The number of values fetched at once.
pub(super) const FETCH: usize = 250;

/// Returns the first rows of each prefix, in order. Keys of other types are skipped. Incomplete if there are more keys
/// than a pass visits.
pub(super) async fn rows(link: &mut Link, prefixes: &[&str], limit: usize, steps: &Steps) -> RedisResult<FoundRows> {
    let Keys { of: all, visited: mut complete } = keys(link, prefixes, steps).await?;
    let mut found = Vec::with_capacity(prefixes.len());
    for keys in all {
        let (many, keys) = (keys.len(), keys.into_iter().collect::<Vec<String>>());
        let mut rows: Vec<Row> = Vec::new();
        for keys in keys.chunks(FETCH.min(limit)) {
            let values: Vec<Option<Vec<u8>>> = cmd("MGET").arg(keys).query_async(link).await?;
            steps.done();
            let read = keys.iter().zip(values).filter_map(|(key, value)| Some((key.clone(), text(value?))));
            rows.extend(read);
            if rows.len() >= limit {
                rows.truncate(limit);
                break;
            }
        }
        // More keys than these may have been left out.
        complete &= rows.len() >= limit || many < KEYS_MOST;
        found.push(rows);
    }
    Ok(Scanned::new(found, complete))
}

/// The keys found by a pass.
pub(super) struct Keys {
    /// Those of each prefix: the first [`KEYS_MOST`].
    pub(super) of: Vec<BTreeSet<String>>,
    /// True if every key of the servers was visited.
    visited: bool,
}

/// Returns the keys with each of these prefixes, of any type.
pub(super) async fn keys(link: &mut Link, prefixes: &[&str], steps: &Steps) -> RedisResult<Keys> {
    let mut names = Names::new(link, pattern(prefixes)).await?;
    let mut found = Keys { of: vec![BTreeSet::new(); prefixes.len()], visited: true };
    let mut pages = 0;
    while let Some(page) = names.next(link).await? {
        steps.done();
        for name in page {
            for (prefix, keys) in prefixes.iter().zip(&mut found.of) {
                if name.starts_with(prefix) {
                    keys.insert(name.clone());
                }
                if keys.len() > KEYS_MOST {
                    keys.pop_last();
                }
            }
        }
        pages += 1;
        if pages >= PAGES_MOST && !names.ended() {
            tracing::warn!(pattern = names.pattern, pages, "the store has too many keys to scan all of them");
            return Ok(Keys { visited: false, ..found });
        }
    }
    Ok(found)
}

/// One pass over the names of the keys of all servers, a page at a time. A key that exists during the whole pass is
/// returned at least once, possibly more often (documentation of Redis, `SCAN`).
pub(super) struct Names {
    pattern: String,
    /// The server that is read, and those to come in reverse order.
    nodes: Vec<Node>,
    /// The place in the server that is read.
    cursor: u64,
}

impl Names {
    /// Begins a pass over the keys that match a pattern.
    pub(super) async fn new(link: &mut Link, pattern: String) -> RedisResult<Self> {
        let mut nodes = link.nodes().await?;
        nodes.reverse();
        Ok(Self { pattern, nodes, cursor: 0 })
    }

    /// Returns the next page, which may be empty; `None` after the last. Names that are not UTF-8 are left out: those of
    /// this program always are.
    pub(super) async fn next(&mut self, link: &mut Link) -> RedisResult<Option<Vec<String>>> {
        let Some(node) = self.nodes.last() else { return Ok(None) };
        let (cursor, names) = page(link, node, self.cursor, &self.pattern).await?;
        self.cursor = cursor;
        if cursor == 0 {
            self.nodes.pop();
        }
        Ok(Some(names.into_iter().filter_map(|name| String::from_utf8(name).ok()).collect()))
    }

    fn ended(&self) -> bool {
        self.nodes.is_empty()
    }
}

async fn page(link: &mut Link, node: &Node, cursor: u64, pattern: &str) -> RedisResult<(u64, Vec<Vec<u8>>)> {
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
    ::redis::from_redis_value(link.ask(node, scan).await?).map_err(Into::into)
}

/// Returns a pattern that matches every key with one of these prefixes, and few others: the start that they share, then
/// the end that they share, such as the id of a person. That of one prefix matches exactly its keys.
fn pattern(prefixes: &[&str]) -> String {
    let [first, others @ ..] = prefixes else { return String::new() };
    let common = |left: &str, right: &str| left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
    let start = others.iter().map(|other| common(first, other)).min().unwrap_or(usize::MAX);
    let start: String = first.chars().take(start).collect();
    let rest = |prefix: &str| prefix.chars().skip(start.chars().count()).collect::<Vec<_>>();
    let first = rest(first);
    let same = |other: &&str| first.iter().rev().zip(rest(other).iter().rev()).take_while(|(a, b)| a == b).count();
    let end = others.iter().map(same).min().unwrap_or_default();
    let end: String = first[first.len() - end..].iter().collect();
    let joint = if end.is_empty() { "" } else { "*" };
    format!("{}{joint}{}*", escaped(&start), escaped(&end))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_shared_start_and_the_shared_end_of_its_prefixes() {
        for (prefixes, wanted) in [
            (&["a:"][..], "a:*"),
            (&["a*:"], "a\\*:*"),
            (&["staffai:answers_of:d:7:", "staffai:quotes_of:d:7:"], "staffai:*s_of:d:7:*"),
            (&["discord_context:7:", "staffai:facts:d:7:"], "*:7:*"),
            (&["ab", "a"], "a*"),
            (&["aba", "a"], "a*"),
            (&["a", "b"], "*"),
            (&["", "a"], "*"),
        ] {
            assert_eq!(pattern(prefixes), wanted, "{prefixes:?}");
        }
    }
}
