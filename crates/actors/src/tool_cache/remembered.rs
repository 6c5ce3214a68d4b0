//! The last lists of servers and the accepted forms of their tools, in memory that outlives a restart of the actor. So
//! known tools stay offered if the store does not answer then.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Known;
use domain::ids::Timestamp;
use domain::tool::catalogue::Pin;
use domain::tool::{ServerName, Tool};

/// The remembered servers. Clones share them.
#[derive(Clone, Default)]
pub struct Remembered(Arc<Mutex<BTreeMap<ServerName, Last>>>);

/// The last state of one server.
#[derive(Clone)]
pub(super) struct Last {
    fingerprint: String,
    pub tools: Arc<Vec<Arc<Tool>>>,
    pub whole: bool,
    pub pins: Arc<BTreeMap<String, Pin>>,
    pub first_seen: Arc<BTreeMap<String, Timestamp>>,
    pub verified: Option<Timestamp>,
}

impl Remembered {
    /// Returns the last state of a server with this entry.
    pub(super) fn of(&self, name: &ServerName, fingerprint: &str) -> Option<Last> {
        self.0.lock().get(name).filter(|last| last.fingerprint == fingerprint).cloned()
    }

    /// Records the state of a server whose stored record is read.
    pub(super) fn put(&self, name: &ServerName, known: &Known) {
        let Known { fingerprint, tools, whole, pins: Some(pins), first_seen, verified, .. } = known else { return };
        let (fingerprint, tools, pins) = (fingerprint.clone(), Arc::clone(tools), Arc::clone(pins));
        let (first_seen, verified) = (Arc::clone(first_seen), *verified);
        self.0.lock().insert(name.clone(), Last { fingerprint, tools, whole: *whole, pins, first_seen, verified });
    }

    /// Forgets all other servers.
    pub(super) fn retain(&self, servers: &BTreeMap<ServerName, Known>) {
        self.0.lock().retain(|name, _| servers.contains_key(name));
    }
}
