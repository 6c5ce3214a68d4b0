//! The terminal's door: sessions that live in this process, the routes that reach them, and the client that speaks to those.
//!
//! A session is a place with one person in it. Clients read the events of its turns, which are numbered, so one that lost its
//! connection goes on where it was.

pub mod client;

pub mod commands;

pub mod routes;

pub mod sessions;

pub mod wire;

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::ids::{Door, Person};
use crate::domain::incoming::Posted;
use crate::ports::{
    Advice, AfterClose, Attachments, Closed, EventSource, EventStream, FetchError, IdentifyPermit, PresenceUpdates,
    Session, Shard, SourceError, StreamEvent,
};

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("terminal");

/// A platform that has nothing to tell: for a service whose only door is the terminal.
pub struct Nowhere;

#[async_trait]
impl EventSource for Nowhere {
    async fn advice(&self) -> Result<Advice, SourceError> {
        Ok(Advice { shards: 0, max_concurrency: 1, remaining: 0, reset_after: Duration::ZERO })
    }

    fn us(&self) -> Option<Person> {
        None
    }

    fn complete(&self, _posted: &mut Posted) -> bool {
        true
    }

    fn connect(
        &self,
        _shard: Shard,
        _session: Option<Session>,
        _permit: IdentifyPermit,
        _shown: PresenceUpdates,
    ) -> Box<dyn EventStream> {
        Box::new(Self)
    }
}

#[async_trait]
impl Attachments for Nowhere {
    async fn fetch(&self, _url: &str, _most: usize) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::Foreign)
    }
}

#[async_trait]
impl EventStream for Nowhere {
    async fn next(&mut self) -> StreamEvent {
        StreamEvent::Closed(Closed { reason: "there is no platform".to_owned(), next: AfterClose::Fatal })
    }
}
