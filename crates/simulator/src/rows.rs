//! The durable rows of the store's backend: plain data that survives the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use domain::counter::Counter;
use domain::ids::{Timestamp, millis};
use domain::keys;
use domain::ownership::{FencingToken, Range};
use ports::Write;
use store::{Batch, OwnedWrites};

/// The durable rows.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Mutex<BTreeMap<String, Row>>,
    /// The last batch of increments of each writer.
    counted: Mutex<BTreeMap<Arc<str>, u64>>,
}

#[derive(Debug)]
struct Row {
    text: String,
    /// The expiry in milliseconds since the epoch; `None` for never.
    end: Option<u64>,
}

impl Rows {
    /// Returns the live rows whose keys have this prefix.
    #[must_use]
    pub fn living(&self, now: Timestamp, prefix: &str) -> Vec<(String, String)> {
        let rows = self.rows.lock();
        let from = rows.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        from.filter(|(_, row)| row.lives(now)).map(|(key, row)| (key.clone(), row.text.clone())).collect()
    }

    pub fn get(&self, now: Timestamp, key: &str) -> Option<String> {
        self.rows.lock().get(key).filter(|row| row.lives(now)).map(|row| row.text.clone())
    }

    /// Applies a batch. Returns the ranges whose writes were refused.
    pub fn apply(&self, now: Timestamp, batch: Batch) -> Vec<Range> {
        let Batch { mut writes, owned, ticket } = batch;
        let mut refused = Vec::new();
        for OwnedWrites { term, writes: more } in owned {
            let key = keys::term(&term.range);
            if FencingToken::stored(self.get(now, &key).as_deref()) > term.token {
                refused.push(term.range);
                continue;
            }
            writes.push(Write::Put { key, value: term.token.to_string(), ttl: None });
            writes.extend(more);
        }
        let mut counted = self.counted.lock();
        let repeated = ticket.as_ref().is_some_and(|ticket| counted.get(&ticket.writer) >= Some(&ticket.number));
        if let Some(ticket) = ticket.filter(|_| !repeated) {
            counted.insert(ticket.writer, ticket.number);
        }
        let mut rows = self.rows.lock();
        let end = |ttl: std::time::Duration| now.0 + millis(ttl);
        for write in writes {
            match write {
                Write::Put { key, value, ttl } | Write::Join { key, value, ttl } => {
                    rows.insert(key, Row { text: value, end: ttl.map(end) });
                }
                Write::Delete { key } => drop(rows.remove(&key)),
                Write::Add { .. } if repeated => {}
                Write::Add { key, by, ttl } => {
                    let before = rows.remove(&key).filter(|row| row.lives(now));
                    let sum = before.as_ref().and_then(|row| Counter::read(&row.text)).unwrap_or_default().plus(by);
                    let end = ttl.map_or_else(|| before.and_then(|row| row.end), |ttl| Some(end(ttl)));
                    rows.insert(key, Row { text: sum.to_string(), end });
                }
            }
        }
        refused
    }
}

impl Row {
    fn lives(&self, now: Timestamp) -> bool {
        self.end.is_none_or(|end| end > now.0)
    }
}
