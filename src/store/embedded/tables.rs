//! What is in the tables of the file.

use std::ops::Bound;

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageError, Table};

use super::memtable::{Memtable, Row};
use super::{APPLIED, EXPIRY, LOGGED, SWEEP_ROWS, VALUES, alive};
use crate::domain::ids::Timestamp;
use crate::store::Ticket;

/// The tables, opened when they are first asked.
pub(super) struct Known<'a> {
    database: &'a Database,
    values: Option<ReadOnlyTable<&'static str, (u64, &'static str)>>,
}

impl<'a> Known<'a> {
    pub fn new(database: &'a Database) -> Self {
        Self { database, values: None }
    }

    /// Whether the increments of this ticket are counted already; `last` is what memory knows of that. Only one store at a time
    /// has the file, so only the last ticket is remembered.
    pub fn has_counted(&self, last: Option<&Ticket>, ticket: &Ticket) -> Result<bool, redb::Error> {
        if let Some(last) = last.filter(|last| last.writer == ticket.writer) {
            return Ok(last.number >= ticket.number);
        }
        let applied = self.database.begin_read()?.open_table(APPLIED)?;
        Ok(applied.get(&*ticket.writer)?.is_some_and(|last| last.value() >= ticket.number))
    }

    /// Looks at the row of a key: its end and its text.
    pub fn row<T>(&mut self, key: &str, look: impl FnOnce(Option<(u64, &str)>) -> T) -> Result<T, redb::Error> {
        let values = if let Some(values) = &self.values {
            values
        } else {
            self.values.insert(self.database.begin_read()?.open_table(VALUES)?)
        };
        let row = values.get(key)?;
        Ok(look(row.as_ref().map(redb::AccessGuard::value)))
    }
}

/// The number of the last record of the log that the tables have; none when they never had a log.
pub(super) fn logged(database: &Database) -> Result<Option<u64>, redb::Error> {
    let applied = database.begin_read()?.open_table(APPLIED)?;
    Ok(applied.get(LOGGED)?.map(|number| number.value()))
}

/// Takes over what the log holds, durably.
pub(super) fn take(database: &Database, memtable: &Memtable) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut applied = transaction.open_table(APPLIED)?;
        applied.insert(LOGGED, memtable.through())?;
        if let Some(ticket) = memtable.ticket() {
            applied.retain(|name, _| name == LOGGED || name == &*ticket.writer)?;
            applied.insert(&*ticket.writer, ticket.number)?;
        }
        let mut values = transaction.open_table(VALUES)?;
        let mut expiry = transaction.open_table(EXPIRY)?;
        for (key, row) in memtable.with_prefix("") {
            take_row(key, row, &mut values, &mut expiry)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn take_row(
    key: &str,
    row: &Row,
    values: &mut Table<'_, &'static str, (u64, &'static str)>,
    expiry: &mut Table<'_, (u64, &'static str), ()>,
) -> Result<(), StorageError> {
    let (old, end) = match &row.text {
        Some(text) => (values.insert(key, (row.end, text.as_str()))?.map(|old| old.value().0), row.end),
        None => (values.remove(key)?.map(|old| old.value().0), 0),
    };
    if old.is_some_and(|old| old == end || (old != 0 && old < end)) {
        return Ok(());
    }
    if end != 0 {
        expiry.insert((end, key), ())?;
    }
    if let Some(old) = old.filter(|old| *old != 0) {
        expiry.remove((old, key))?;
    }
    Ok(())
}

/// Removes a bounded number of rows whose life is over; true when more are left.
pub(super) fn sweep(database: &Database, now: Timestamp) -> Result<bool, redb::Error> {
    let over: Vec<(u64, String)> = {
        let expiry = database.begin_read()?.open_table(EXPIRY)?;
        let until = (Bound::Unbounded, Bound::Excluded((now.0.saturating_add(1), "")));
        let rows = expiry.range::<(u64, &str)>(until)?.take(SWEEP_ROWS);
        rows.map(|row| row.map(|(at, _)| (at.value().0, at.value().1.to_owned()))).collect::<Result<_, _>>()?
    };
    if over.is_empty() {
        return Ok(false);
    }
    let transaction = database.begin_write()?;
    {
        let mut values = transaction.open_table(VALUES)?;
        let mut expiry = transaction.open_table(EXPIRY)?;
        for (at, key) in &over {
            expiry.remove((*at, key.as_str()))?;
            let end = values.get(key.as_str())?.map(|row| row.value().0);
            if end.is_some_and(|end| !alive(end, now)) {
                values.remove(key.as_str())?;
            } else if let Some(end) = end.filter(|end| *end != 0) {
                expiry.insert((end, key.as_str()), ())?;
            }
        }
    }
    transaction.commit()?;
    Ok(over.len() == SWEEP_ROWS)
}
