//! What is in the tables of the file.

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable};

use super::memtable::Memtable;
use super::{APPLIED, LOGGED, VALUES, alive};
use crate::Ticket;
use domain::ids::Timestamp;

/// How many rows one sweep removes at most, so that it does not hold up the commits behind it.
pub(super) const SWEEP_REMOVES: usize = 1_000;

/// How many rows it looks at, and how many bytes of texts. Where a tenth of the rows was over, the next sweep follows at once.
const SWEEP_LOOKS: usize = 10_000;
const SWEEP_BYTES: usize = 8 * 1024 * 1024;

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

/// The cursor that goes round the values and removes what is over, a bounded number of rows at a time.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The first key that was not looked at; empty at the beginning of a round.
    next: String,
}

impl Sweep {
    /// Looks at the next rows; true when the ones behind them should not wait.
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
                    // It may have been written again meanwhile.
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
