//! The terminal's door: sessions that live in this process, the routes that reach them, and the client that speaks to those.
//!
//! A session is a place with one person in it. Clients read the events of its turns, which are numbered, so one that lost its
//! connection goes on where it was.

pub mod client;

pub(crate) mod commands;

pub(crate) mod routes;

pub(crate) mod sessions;

pub(crate) mod wire;

use async_trait::async_trait;

use crate::domain::ids::Door;
use crate::ports::{Attachments, FetchError};

/// The name of this door in ids and keys.
pub const DOOR: Door = Door::new("terminal");

/// This door takes no files.
pub struct NoFiles;

#[async_trait]
impl Attachments for NoFiles {
    async fn fetch(&self, _url: &str, _most: usize) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::Foreign)
    }
}
