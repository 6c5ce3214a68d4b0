//! A snapshot of all rows while writes continue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable};
use tokio::sync::mpsc;

use super::memtable::Row;
use super::{Inner, VALUES, alive};
use domain::ids::Timestamp;
use ports::StoredRow;

/// All rows at one moment.
struct Moment {
    waiting: BTreeMap<String, Row>,
    values: ReadOnlyTable<&'static str, (u64, &'static str)>,
}

impl Inner {
    /// Sends each live row, by key. Stops when the receiver is dropped. Blocks.
    pub(super) fn copy(self: &Arc<Self>, to: &mpsc::Sender<StoredRow>) -> Result<(), redb::Error> {
        let now = self.clock.now();
        let Moment { mut waiting, values } = {
            let guard = self.database.read();
            self.moment(guard.as_ref().ok_or(redb::Error::DatabaseClosed)?)?
        };
        for row in values.iter()? {
            let (key, value) = row?;
            let (end, text) = value.value();
            let kept = Row { end, text: Some(text.to_owned()) };
            let row = waiting.remove(key.value()).unwrap_or(kept);
            if !send(to, key.value().to_owned(), row, now) {
                return Ok(());
            }
        }
        for (key, row) in waiting {
            if !send(to, key, row, now) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the snapshot. Writers wait while a part of the log's memory is copied.
    fn moment(&self, database: &Database) -> Result<Moment, redb::Error> {
        let _no_writes = self.wal.lock();
        let values = database.begin_read()?.open_table(VALUES)?;
        Ok(Moment { waiting: self.memtable.read().rows().clone(), values })
    }
}

/// Returns false if the receiver was dropped.
fn send(to: &mpsc::Sender<StoredRow>, key: String, row: Row, now: Timestamp) -> bool {
    let Row { end, text: Some(value) } = row else { return true };
    if !alive(end, now) {
        return true;
    }
    let ttl = (end > 0).then(|| Duration::from_millis(end.saturating_sub(now.0)));
    to.blocking_send(StoredRow { key, value, ttl }).is_ok()
}
