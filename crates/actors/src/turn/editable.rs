//! The pictures that a call may edit: those of the question, or else the bot's own.

use std::sync::Arc;
use std::time::Duration;

use super::{TurnTask, files, memory};
use crate::messages::outbox::OutboxMsg;
use domain::attachment::Attachment;
use domain::completion::Picture;
use domain::tool::Source;
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::pictures::{EDIT_TOOL, newest};
use ports::shares::Share;
use ports::{HistoryRange, PostRequest, PostResult};

/// The timeout for reading the place; after that there is no own picture.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of the newest messages of a place among which a picture is looked for.
const READ: u8 = 50;

/// Pictures with their memory permit.
pub(super) struct HeldPictures {
    pictures: Arc<[Picture]>,
    _room: Option<Share>,
}

impl TurnTask<'_> {
    /// Returns the pictures for a call: those of the question. If there are none, a call that edits a picture gets the
    /// bot's own, which are read at the first such call.
    pub(super) async fn pictures_for(&self, entry: &CatalogueEntry) -> Arc<[Picture]> {
        let asked = self.tools.asked.get().cloned().unwrap_or_default();
        let edits = entry.tool.source == Source::BuiltIn && &*entry.tool.name == EDIT_TOOL;
        if !edits || !asked.is_empty() {
            return asked;
        }
        let read = async {
            let (pictures, room) = files::pictures(self.parts, self.turn, &self.own_files().await).await;
            HeldPictures { pictures: pictures.into(), _room: room }
        };
        Arc::clone(&self.tools.own.get_or_init(|| read).await.pictures)
    }

    /// Returns the bot's own pictures: those of the message that the question replies to, or else of the newest message
    /// of the place that has some. A question that brings pictures is about those, also if they cannot be read.
    async fn own_files(&self) -> Vec<Attachment> {
        let Self { parts, turn, .. } = *self;
        let has_picture = |files: &[Attachment]| files.iter().any(Attachment::claims_picture);
        if turn.given.is_some() || has_picture(&turn.attachments) {
            return Vec::new();
        }
        if let Some(quoted) = memory::quoted(parts, turn).await {
            match quoted.seen {
                Some(seen) if !has_picture(&seen.attachments) => {}
                Some(seen) if seen.ours => return seen.attachments,
                Some(_) | None => return Vec::new(),
            }
        }
        let request = PostRequest::History { place: turn.place.clone(), range: HistoryRange::Newest, limit: READ };
        let ask = |reply| OutboxMsg::Read(request, reply);
        match parts.neighbors.outboxes.of(&turn.place.door).call(ask, READ_TIMEOUT).await {
            Ok(Ok(PostResult::Messages(messages))) => newest(&messages, &turn.person, turn.at),
            Ok(_) | Err(_) => Vec::new(),
        }
    }
}
