//! The rows of the write-ahead log that are not in the tables yet: the last row of each key. Plain data without
//! waiting.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::alive;
use super::wal::Record;
use crate::Ticket;
use domain::ids::Timestamp;

/// The number of rows that triggers an immediate checkpoint.
const ROWS_ENOUGH: usize = 8_192;

/// The bytes of keys and texts that trigger an immediate checkpoint.
const BYTES_ENOUGH: usize = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The expiry in milliseconds since the epoch; 0 for never.
    pub end: u64,
    /// The text; `None` if the key was deleted.
    pub text: Option<String>,
}

impl Row {
    /// Returns the expiry and the text if the row is live.
    pub fn living(&self, now: Timestamp) -> Option<(u64, &str)> {
        let text = self.text.as_deref()?;
        alive(self.end, now).then_some((self.end, text))
    }
}

/// Rows that are not in the tables yet.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    rows: BTreeMap<String, Row>,
    bytes: usize,
    /// The last batch of increments among them.
    ticket: Option<Ticket>,
    /// The number of the last log record among them.
    through: u64,
}

impl Memtable {
    /// Adds the rows of a log record.
    pub fn take(&mut self, record: Record) {
        let Record { sequence, ticket, rows } = record;
        for (key, row) in rows {
            self.bytes += key.len() + row.text.as_ref().map_or(0, String::len);
            self.rows.insert(key, row);
        }
        self.ticket = ticket.or(self.ticket.take());
        self.through = sequence;
    }

    pub fn get(&self, key: &str) -> Option<&Row> {
        self.rows.get(key)
    }

    /// Returns the rows whose keys have this prefix, by key.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Row)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.rows.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
    }

    pub fn rows(&self) -> &BTreeMap<String, Row> {
        &self.rows
    }

    pub fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    pub fn through(&self) -> u64 {
        self.through
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// True if it must be moved into the tables at once. Replaced rows count too, because they are in the log.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_ENOUGH || self.bytes >= BYTES_ENOUGH
    }

    /// Removes all rows after a checkpoint.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
