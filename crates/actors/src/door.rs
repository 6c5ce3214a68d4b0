//! A door as data: one record describes an inbound and outbound channel to the actors. No actor branches on the
//! identity of a door.
//!
//! The operator's decisions about a door (its audience, the policy of a turn, the scope of limits) are reloaded with
//! the settings, so they are in [`crate::services::running::DoorRules`]. The poster reports the capabilities of a
//! door.

use std::collections::HashSet;
use std::sync::Arc;

use crate::services::running::Running;
use domain::ids::Door;
use ports::{Attachments, EventSource, FetchError, Poster, ShardedSource};

/// One door: an inbound and outbound channel.
#[derive(Clone)]
pub struct DoorRecord {
    /// Its name in ids, keys, labels and logs.
    pub door: Door,
    /// The source of its events.
    pub source: Source,
    /// Performs its requests.
    pub poster: Arc<dyn Poster>,
    /// Reads the files attached to its messages.
    pub attachments: Arc<dyn Attachments>,
    /// The rate limit of its requests.
    pub pacing: Pacing,
    /// True if commands are registered with its platform.
    pub registers_commands: bool,
}

/// The source of a door's events. Each source delivers to the gateway, with a receipt.
#[derive(Clone)]
pub enum Source {
    /// Edges hand events to the [`Intake`](ports::Intake): the door has no connection of its own.
    Requests,
    /// One connection, kept by the actor `source:<door>`.
    Connection(Arc<dyn EventSource>),
    /// Several connections to each of which the platform may give any event, kept by the branch `slack`. At most one
    /// door of a process has them.
    Sockets(Vec<Arc<dyn EventSource>>),
    /// Connections by shards, kept by the branch `discord`. At most one door of a process has shards.
    Shards(Arc<dyn ShardedSource>),
}

/// The rate limit of a door's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pacing {
    /// Requests per second; 0 applies only the platform's own limits.
    pub requests_per_second: u32,
    /// The number of refused requests in ten minutes that pauses all requests for a while; 0 for no limit.
    pub refusals: u32,
}

/// All doors of a process.
#[derive(Clone)]
pub struct Doors(Arc<[DoorRecord]>);

/// The reason why a set of doors cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDoors {
    /// Two records have the same name.
    #[error("the door '{0}' is there twice")]
    Twice(Door),
    /// A name contains characters that break keys and paths.
    #[error("the door '{0}' needs a name of lower case letters, digits, - and _")]
    Name(Door),
    /// The settings have no rules for a door.
    #[error("there are no rules for the door '{0}'")]
    NoRules(Door),
    /// A reference names a door that does not exist.
    #[error("there is no door '{0}'")]
    Unknown(Door),
    /// Two doors have sockets.
    #[error("the doors '{0}' and '{1}' both have sockets, and there is one branch for them")]
    Sockets(Door, Door),
    /// Two doors have shards.
    #[error("the doors '{0}' and '{1}' both have shards, and there is one branch for them")]
    Shards(Door, Door),
}

impl Doors {
    /// Builds the doors from these records.
    ///
    /// # Errors
    /// Returns [`BadDoors`] if names collide or are invalid, or if two doors have shards or sockets.
    pub fn new(records: Vec<DoorRecord>) -> Result<Self, BadDoors> {
        let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let mut seen = HashSet::new();
        let (mut sharded, mut with_sockets): (Option<&Door>, Option<&Door>) = (None, None);
        for DoorRecord { door, source, .. } in &records {
            if door.as_str().is_empty() || !door.as_str().chars().all(usable) {
                return Err(BadDoors::Name(door.clone()));
            }
            if !seen.insert(door) {
                return Err(BadDoors::Twice(door.clone()));
            }
            match source {
                Source::Shards(_) => {
                    if let Some(other) = sharded.replace(door) {
                        return Err(BadDoors::Shards(other.clone(), door.clone()));
                    }
                }
                Source::Sockets(_) => {
                    if let Some(other) = with_sockets.replace(door) {
                        return Err(BadDoors::Sockets(other.clone(), door.clone()));
                    }
                }
                Source::Requests | Source::Connection(_) => {}
            }
        }
        Ok(Self(records.into()))
    }

    /// Checks that the settings have rules for each door, and that `home` is one of the doors.
    ///
    /// # Errors
    /// See [`BadDoors`].
    pub(super) fn check(&self, running: &Running, home: &Door) -> Result<(), BadDoors> {
        if self.get(home).is_none() {
            return Err(BadDoors::Unknown(home.clone()));
        }
        match self.iter().find(|record| running.rules(&record.door).is_none()) {
            Some(record) => Err(BadDoors::NoRules(record.door.clone())),
            None => Ok(()),
        }
    }

    /// Returns the record of a door.
    #[must_use]
    pub fn get(&self, door: &Door) -> Option<&DoorRecord> {
        self.iter().find(|record| record.door == *door)
    }

    /// Iterates over all records.
    pub fn iter(&self) -> impl Iterator<Item = &DoorRecord> {
        self.0.iter()
    }

    /// The names of the doors for which the predicate is true.
    #[must_use]
    pub fn names(&self, which: impl Fn(&DoorRecord) -> bool) -> Vec<Door> {
        self.iter().filter(|record| which(record)).map(|record| record.door.clone()).collect()
    }

    /// Reads a file attached to a message of a door.
    ///
    /// # Errors
    /// See [`FetchError`]; an unknown door has no files.
    pub async fn fetch(&self, door: &Door, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        match self.get(door) {
            Some(record) => record.attachments.fetch(url, most).await,
            None => Err(FetchError::Foreign),
        }
    }
}

impl DoorRecord {
    /// Returns the source of the sharded door, if there is one.
    pub(super) fn shards(&self) -> Option<&Arc<dyn ShardedSource>> {
        match &self.source {
            Source::Shards(source) => Some(source),
            Source::Requests | Source::Connection(_) | Source::Sockets(_) => None,
        }
    }

    /// Returns the sources of the door with sockets, if it is this one.
    pub(super) fn sockets(&self) -> Option<&[Arc<dyn EventSource>]> {
        match &self.source {
            Source::Sockets(sources) => Some(sources),
            Source::Requests | Source::Connection(_) | Source::Shards(_) => None,
        }
    }
}
