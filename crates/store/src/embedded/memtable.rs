//! What the write-ahead log holds and the tables do not yet: the last row of each key. Plain data, no waiting.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::alive;
use super::wal::Record;
use crate::Ticket;
use domain::ids::Timestamp;

/// So many rows are moved into the tables without waiting any longer.
const ROWS_ENOUGH: usize = 8_192;

/// So many bytes of keys and texts are moved into the tables without waiting any longer.
const BYTES_ENOUGH: usize = 4 * 1024 * 1024;

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The moment its life ends, in milliseconds since the epoch; 0 for never.
    pub end: u64,
    /// Its text; none when it was removed.
    pub text: Option<String>,
}

impl Row {
    /// Its end and its text, while it lives.
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
    /// The number of the last record of the log among them.
    through: u64,
}

impl Memtable {
    /// Takes over what a record of the log holds.
    pub fn take(&mut self, record: Record) {
        let Record { sequence, ticket, rows } = record;
        for (key, row) in rows {
            self.bytes += key.len() + row.text.as_ref().map_or(0, String::len);
            self.rows.insert(key, row);
        }
        self.ticket = ticket.or(self.ticket.take());
        self.through = sequence;
    }

    /// What is known of a key.
    pub fn get(&self, key: &str) -> Option<&Row> {
        self.rows.get(key)
    }

    /// All rows whose keys begin with this, by key.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Row)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.rows.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// All rows.
    pub fn rows(&self) -> &BTreeMap<String, Row> {
        &self.rows
    }

    /// The last batch of increments in it.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// The number of the last record of the log in it.
    pub fn through(&self) -> u64 {
        self.through
    }

    /// There is nothing to move into the tables.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// It is large enough to be moved into the tables at once. Bytes of rows that were replaced count too: they are in the log.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_ENOUGH || self.bytes >= BYTES_ENOUGH
    }

    /// Everything is in the tables.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
