//! The stored form of entries: the two lists of the Python bot, whose items begin with `timestamp` and
//! `timestamp:tokens`. The turn follows, and the end of its lease while the turn is open; the smallest possible time
//! marks a turn that ended with its estimate. Times are seconds with three decimals.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::window_log::{EntryState, WindowEntry, WindowLog};
use super::{ENTRIES_MAX, TOKENS_MAX};
use crate::ids::Timestamp;

/// Numbers from here on are milliseconds, smaller ones seconds: the year 5138 in seconds, a day of 1973 in
/// milliseconds.
const MILLISECONDS_FROM: f64 = 1e11;

/// The latest valid time: the end of the year 9999.
const LATEST_MILLIS: f64 = 253_402_300_799_999.0;

/// Marks a turn that ended with its estimate, in place of a lease. Earlier versions read it as an expired lease, which
/// counts the same.
const ESTIMATED: Timestamp = Timestamp(0);

/// An entry as an item of the token list.
struct Tokens<'a>(&'a WindowEntry);

impl fmt::Display for Tokens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WindowEntry { at, tokens, turn, state, .. } = self.0;
        write!(f, "{}:{tokens}", Moment(*at))?;
        let Some(turn) = turn else { return Ok(()) };
        write!(f, ":{turn}")?;
        match state {
            EntryState::Open(lease) => write!(f, ":{}", Moment(*lease)),
            EntryState::Estimated => write!(f, ":{}", Moment(ESTIMATED)),
            EntryState::Settled => Ok(()),
        }
    }
}

impl Serialize for Tokens<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the entries that appear in both lists, the newest [`ENTRIES_MAX`] of each list. Unreadable items are
/// skipped.
#[must_use]
pub fn read<T: AsRef<str>, U: AsRef<str>>(messages: &[T], tokens: &[U]) -> WindowLog {
    let newest = tokens.len().saturating_sub(ENTRIES_MAX);
    let mut entries: Vec<WindowEntry> =
        tokens[newest..].iter().filter_map(|member| read_tokens(member.as_ref())).collect();
    let spent = entries.len();
    let newest = messages.len().saturating_sub(ENTRIES_MAX);
    for (index, member) in messages[newest..].iter().enumerate() {
        let mut fields = member.as_ref().splitn(3, ':');
        let Some(at) = fields.next().and_then(read_moment) else { continue };
        let turn = fields.next().filter(|turn| !turn.is_empty());
        // Both lists are written together, so matching items are usually at the same index.
        let same = |entry: &WindowEntry| turn.is_some() && entry.turn.as_deref() == turn;
        let known = entries[..spent].get(index).is_some_and(same).then_some(index);
        match known.or_else(|| entries[..spent].iter().position(same)) {
            Some(index) => entries[index].message = true,
            None => entries.push(WindowEntry {
                at,
                tokens: 0,
                turn: turn.map(Arc::from),
                message: true,
                state: EntryState::Settled,
            }),
        }
    }
    WindowLog::of(entries)
}

/// Returns the entries as one text, for a store that keeps text: the token list, which contains all data of our
/// entries.
#[must_use]
pub fn to_json(log: &WindowLog) -> String {
    let members: Vec<Tokens> = log.entries().iter().map(Tokens).collect();
    serde_json::to_string(&members).unwrap_or_default()
}

/// Parses the entries of a member from such a text, each a message; `None` if the text is malformed.
#[must_use]
pub fn from_json(text: &str) -> Option<WindowLog> {
    let log = account_from_json(text)?;
    Some(WindowLog::of(log.entries().iter().map(|entry| WindowEntry { message: true, ..entry.clone() }).collect()))
}

/// Parses the entries of an account from such a text; `None` if the text is malformed.
#[must_use]
pub fn account_from_json(text: &str) -> Option<WindowLog> {
    let members: Vec<String> = serde_json::from_str(text).ok()?;
    let newest = members.len().saturating_sub(ENTRIES_MAX);
    Some(WindowLog::of(members[newest..].iter().filter_map(|member| read_tokens(member)).collect()))
}

fn read_tokens(member: &str) -> Option<WindowEntry> {
    let mut fields = member.splitn(4, ':');
    let at = fields.next().and_then(read_moment)?;
    // The Python bot may have written a fraction.
    let tokens = fields.next()?.parse::<f64>().ok().filter(|tokens| tokens.is_finite() && *tokens >= 0.0)?;
    let turn = fields.next().filter(|turn| !turn.is_empty()).map(Arc::from);
    let state = match fields.next().and_then(read_moment).filter(|_| turn.is_some()) {
        None => EntryState::Settled,
        Some(ESTIMATED) => EntryState::Estimated,
        Some(lease) => EntryState::Open(lease),
    };
    Some(WindowEntry { at, tokens: whole(tokens).min(TOKENS_MAX), turn, message: false, state })
}

/// A time in seconds.
struct Moment(Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.0 / 1_000, self.0.0 % 1_000)
    }
}

fn read_moment(field: &str) -> Option<Timestamp> {
    let number: f64 = field.parse().ok()?;
    let millis = if number < MILLISECONDS_FROM { number * 1_000.0 } else { number };
    (millis.is_finite() && (0.0..=LATEST_MILLIS).contains(&millis)).then(|| Timestamp(whole(millis)))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is finite and not negative")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entry as an item of the message list.
    fn message(entry: &WindowEntry) -> String {
        match &entry.turn {
            Some(turn) => format!("{}:{turn}", Moment(entry.at)),
            None => Moment(entry.at).to_string(),
        }
    }

    fn tokens(entry: &WindowEntry) -> String {
        Tokens(entry).to_string()
    }

    fn entry(at: u64, tokens: u64, turn: Option<&str>, lease: Option<u64>) -> WindowEntry {
        let state = lease.map_or(EntryState::Settled, |lease| EntryState::Open(Timestamp(lease)));
        WindowEntry { at: Timestamp(at), tokens, turn: turn.map(Arc::from), message: true, state }
    }

    #[test]
    fn ours_are_written_and_read() {
        let reserved = entry(1_700_000_000_025, 70, Some("discord%3A9"), Some(1_700_000_120_000));
        let settled = entry(1_700_000_000_900, 12, Some("discord%3A10"), None);
        assert_eq!(message(&reserved), "1700000000.025:discord%3A9");
        assert_eq!(tokens(&reserved), "1700000000.025:70:discord%3A9:1700000120.000");
        assert_eq!(tokens(&settled), "1700000000.900:12:discord%3A10");
        let estimated = WindowEntry { state: EntryState::Estimated, ..reserved.clone() };
        assert_eq!(tokens(&estimated), "1700000000.025:70:discord%3A9:0.000");
        assert_eq!(read::<&str, _>(&[], &[tokens(&estimated)]).entries()[0].state, EntryState::Estimated);
        let log = WindowLog::of(vec![reserved.clone(), settled.clone()]);
        let lists = ([message(&reserved), message(&settled)], [tokens(&reserved), tokens(&settled)]);
        assert_eq!(read(&lists.0, &lists.1), log);
        let swapped = ([message(&settled), message(&reserved)], lists.1);
        assert_eq!(read(&swapped.0, &swapped.1), log);
        assert_eq!(from_json(&to_json(&log)), Some(log));
    }

    #[test]
    fn plain_members_of_the_python_bot_are_read() {
        let log = read(&["1700000000.25", "1700000001"], &["1700000001.5:70", "1700000002123:8.0"]);
        let spent = |at, tokens| WindowEntry { message: false, ..entry(at, tokens, None, None) };
        let wanted = vec![
            entry(1_700_000_000_250, 0, None, None),
            entry(1_700_000_001_000, 0, None, None),
            spent(1_700_000_001_500, 70),
            spent(1_700_000_002_123, 8),
        ];
        assert_eq!(log, WindowLog::of(wanted));
    }

    #[test]
    fn nonsense_is_left_out() {
        let bad = ["", "x", "-1", "nan", "inf", "1e300", ":", "1700000000.0::"];
        assert_eq!(read(&bad, &bad).entries().len(), 1);
        let bad = ["1700000000", "1700000000:x", "1700000000:-3", "1700000000:nan", "x:1", "1700000000:1e30:t:x"];
        let log = read::<&str, _>(&[], &bad);
        assert_eq!(
            log.entries(),
            [WindowEntry { message: false, ..entry(1_700_000_000_000, TOKENS_MAX, Some("t"), None) }]
        );
        assert_eq!(from_json("{}"), None);
        assert_eq!(from_json("[\"x\"]"), Some(WindowLog::default()));
    }
}
