//! The tables of the file.

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable};

use super::memtable::Memtable;
use super::{APPLIED, LOGGED, VALUES, alive};
use crate::Ticket;
use domain::ids::Timestamp;

/// The most rows removed by one sweep, so that it does not delay later commits.
pub(super) const SWEEP_REMOVES: usize = 1_000;

/// The most rows and bytes of text checked by one sweep. If a tenth of the rows had expired, the next sweep follows at
/// once.
const SWEEP_LOOKS: usize = 10_000;
const SWEEP_BYTES: usize = 8 * 1024 * 1024;

/// The tables, opened on first use.
pub(super) struct Known<'a> {
    database: &'a Database,
    values: Option<ReadOnlyTable<&'static str, (u64, &'static str)>>,
}

impl<'a> Known<'a> {
    pub fn new(database: &'a Database) -> Self {
        Self { database, values: None }
    }

    /// True if the increments of this ticket were counted; `last` is the last ticket in memory. Only the last ticket is
    /// stored, because only one store at a time has the file.
    pub fn has_counted(&self, last: Option<&Ticket>, ticket: &Ticket) -> Result<bool, redb::Error> {
        if let Some(last) = last.filter(|last| last.writer == ticket.writer) {
            return Ok(last.number >= ticket.number);
        }
        let applied = self.database.begin_read()?.open_table(APPLIED)?;
        Ok(applied.get(&*ticket.writer)?.is_some_and(|last| last.value() >= ticket.number))
    }

    /// Reads the expiry and the text of a key.
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

/// Returns the number of the last log record in the tables; `None` if they never had a log.
pub(super) fn logged(database: &Database) -> Result<Option<u64>, redb::Error> {
    let applied = database.begin_read()?.open_table(APPLIED)?;
    Ok(applied.get(LOGGED)?.map(|number| number.value()))
}

/// Adds the rows of the log durably.
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
        for (key, row) in memtable.with_prefix("") {
            match &row.text {
                Some(text) => drop(values.insert(key.as_str(), (row.end, text.as_str()))?),
                None => drop(values.remove(key.as_str())?),
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The cursor that cycles through the values and removes expired rows, a bounded number at a time.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The first unchecked key; empty at the start of a cycle.
    next: String,
}

impl Sweep {
    /// Checks the next rows. Returns true if the next sweep should follow at once.
    pub fn go_on(&mut self, database: &Database, now: Timestamp) -> Result<bool, redb::Error> {
        let (mut rows, mut bytes, mut over, mut next) = (0, 0, Vec::new(), String::new());
        {
            let values = database.begin_read()?.open_table(VALUES)?;
            for row in values.range(self.next.as_str()..)? {
                let (key, value) = row?;
                if over.len() == SWEEP_REMOVES || rows == SWEEP_LOOKS || bytes >= SWEEP_BYTES {
                    key.value().clone_into(&mut next);
                    break;
                }
                let (end, text) = value.value();
                rows += 1;
                bytes += text.len();
                if !alive(end, now) {
                    over.push(key.value().to_owned());
                }
            }
        }
        if !over.is_empty() {
            let transaction = database.begin_write()?;
            {
                let mut values = transaction.open_table(VALUES)?;
                for key in &over {
                    // It may have been rewritten in the meantime.
                    let end = values.get(key.as_str())?.map(|row| row.value().0);
                    if end.is_some_and(|end| !alive(end, now)) {
                        values.remove(key.as_str())?;
                    }
                }
            }
            transaction.commit()?;
        }
        self.next = next;
        Ok(!self.next.is_empty() && over.len() * 10 >= rows)
    }
}
