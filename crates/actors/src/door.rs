//! A door as data: one record says all that the actors must know of a way in and out. No actor asks which door it is.
//!
//! What the operator decided about a door (who is answered, the policy of a turn, the scope of limits) is read again with the
//! settings, so it stands in [`crate::services::running::DoorRules`]; what a door can show is told by its poster.

use std::collections::HashSet;
use std::sync::Arc;

use crate::services::running::Running;
use domain::ids::Door;
use ports::{Attachments, EventSource, FetchError, Poster, ShardedSource};

/// One way in and out.
#[derive(Clone)]
pub struct DoorRecord {
    /// Its name in ids, keys, labels and logs.
    pub door: Door,
    /// Where its events come from.
    pub source: Source,
    /// Performs its requests.
    pub poster: Arc<dyn Poster>,
    /// Reads the files that came with its messages.
    pub attachments: Arc<dyn Attachments>,
    /// How often its requests may go out.
    pub pacing: Pacing,
    /// Its platform is told which commands there are.
    pub registers_commands: bool,
}

/// Where the events of a door come from. Each ends at the gateway, with a receipt.
#[derive(Clone)]
pub enum Source {
    /// Edges hand them to the [`Intake`](ports::Intake): the door has no connection of its own.
    Requests,
    /// One connection, kept by the actor `source:<door>`.
    Connection(Arc<dyn EventSource>),
    /// Connections by shards, kept by the branch `discord`. At most one door of a process has them.
    Shards(Arc<dyn ShardedSource>),
}

/// How often the requests of a door may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pacing {
    /// Requests a second; 0 keeps no budget but what the platform says.
    pub requests_per_second: u32,
    /// Refused requests in ten minutes after which nothing goes out for a while; 0 for any number.
    pub refusals: u32,
}

/// All doors of a process.
#[derive(Clone)]
pub struct Doors(Arc<[DoorRecord]>);

/// Why a set of doors cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDoors {
    /// Two records have the same name.
    #[error("the door '{0}' is there twice")]
    Twice(Door),
    /// A name would break keys and paths.
    #[error("the door '{0}' needs a name of lower case letters, digits, - and _")]
    Name(Door),
    /// The settings decide nothing about it.
    #[error("there are no rules for the door '{0}'")]
    NoRules(Door),
    /// Something names a door that is not there.
    #[error("there is no door '{0}'")]
    Unknown(Door),
    /// Two doors have shards.
    #[error("the doors '{0}' and '{1}' both have shards, and there is one branch for them")]
    Shards(Door, Door),
}

impl Doors {
    /// The doors of these records.
    ///
    /// # Errors
    /// See [`BadDoors`].
    pub fn new(records: Vec<DoorRecord>) -> Result<Self, BadDoors> {
        let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let mut seen = HashSet::new();
        let mut sharded: Option<&Door> = None;
        for DoorRecord { door, source, .. } in &records {
            if door.as_str().is_empty() || !door.as_str().chars().all(usable) {
                return Err(BadDoors::Name(door.clone()));
            }
            if !seen.insert(door) {
                return Err(BadDoors::Twice(door.clone()));
            }
            if let Source::Shards(_) = source
                && let Some(other) = sharded.replace(door)
            {
                return Err(BadDoors::Shards(other.clone(), door.clone()));
            }
        }
        Ok(Self(records.into()))
    }

    /// The settings decide about each of them, and `home` is one of them.
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

    /// The record of a door.
    #[must_use]
    pub fn get(&self, door: &Door) -> Option<&DoorRecord> {
        self.iter().find(|record| record.door == *door)
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = &DoorRecord> {
        self.0.iter()
    }

    /// The names of the doors that this holds of.
    #[must_use]
    pub fn names(&self, which: impl Fn(&DoorRecord) -> bool) -> Vec<Door> {
        self.iter().filter(|record| which(record)).map(|record| record.door.clone()).collect()
    }

    /// Reads a file that came with a message of a door.
    ///
    /// # Errors
    /// See [`FetchError`]; a door that is not there has no files.
    pub async fn fetch(&self, door: &Door, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        match self.get(door) {
            Some(record) => record.attachments.fetch(url, most).await,
            None => Err(FetchError::Foreign),
        }
    }
}

impl DoorRecord {
    /// The source of its shards; none when it has none.
    pub(super) fn shards(&self) -> Option<&Arc<dyn ShardedSource>> {
        match &self.source {
            Source::Shards(source) => Some(source),
            Source::Requests | Source::Connection(_) => None,
        }
    }
}
