//! The resources of tool servers that a question names: read as tool calls of the member, and attached like files.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::TurnTask;
use super::approval::Leave;
use super::files::{self, HeldBytes, ResourceFile};
use domain::attachment::{Attachment, Unread};
use domain::tool::called::{CallEnd, ResourceContents};
use domain::tool::named_resource::{NamedResource, RESOURCES_READ_MAX, named};
use domain::tool::{Blob, ResultLimits};
use ports::shares::Share;

impl TurnTask<'_> {
    /// Reads the resources that the question names. A resource that cannot be read has the reason.
    pub(super) async fn resources(&self) -> Vec<ResourceFile> {
        if !self.turn.trigger.has_message() {
            return Vec::new();
        }
        let mut reads = Vec::new();
        for (number, resource) in named(&self.turn.text).into_iter().enumerate() {
            reads.push(self.resource(number, resource).boxed());
        }
        join_all(reads).await.into_iter().flatten().collect()
    }

    async fn resource(&self, number: usize, resource: NamedResource<'_>) -> Vec<ResourceFile> {
        let settings = &self.running.settings.tools;
        let unread = |why| vec![ResourceFile { file: resource.file(None, 0), bytes: Err(why) }];
        let ready = match resource.call(&self.tools.set.catalogue, &self.tools.access) {
            None => return Vec::new(),
            Some(Err(why)) => return unread(why),
            Some(Ok(_)) if !self.turn.wants_tools() || settings.max_rounds == 0 => return unread(Unread::Denied),
            Some(Ok(_)) if number >= RESOURCES_READ_MAX || self.tools.called() >= settings.max_calls => {
                return unread(Unread::TooMany);
            }
            Some(Ok(ready)) => ready,
        };
        let end = self.make(&ready, Instant::now(), Leave::Rules).await;
        let ResourceContents { text, images, blobs } = match end.resource() {
            Ok(contents) => contents,
            Err(why) => return unread(why),
        };
        let bytes = [text.as_ref().map_or(0, |text| text.len()), bytes_of(&blobs)];
        let images_bytes = images.iter().map(|image| image.bytes.len());
        let Some(_waiting) = self.may_wait(images_bytes.chain(bytes).sum()) else { return unread(Unread::Busy) };
        let text = text.map(|text| (Some("text/plain".to_owned()), Arc::from(text)));
        let images = images.into_iter().map(|image| (Some(image.mime), image.bytes));
        let blobs = blobs.into_iter().map(|Blob { mime, bytes, .. }| (mime, bytes));
        let mut files = Vec::new();
        for (mime, bytes) in text.into_iter().chain(images).chain(blobs).take(RESOURCES_READ_MAX) {
            files.push(self.held(resource.file(mime, bytes.len()), &bytes).await);
        }
        files
    }

    /// Takes permits for contents of so many bytes, which are in memory while their files wait for permits; `None` if they
    /// are not free for this person.
    fn may_wait(&self, bytes: usize) -> Option<Share> {
        self.parts.files.waiting.take_many(Some(&self.turn.person), bytes.div_ceil(1024))
    }

    /// Copies the bytes of a file once it has a memory permit, which it keeps; without a permit, the file is only named.
    async fn held(&self, file: Attachment, bytes: &[u8]) -> ResourceFile {
        let room = files::room_of(self.parts, &self.turn.person, file.size).await;
        let bytes = room.map(|room| HeldBytes { bytes: bytes.to_vec(), room }).ok_or(Unread::Busy);
        ResourceFile { file, bytes }
    }

    /// Adds the texts of binary contents to the result of a call that the model made.
    pub(super) async fn with_blobs_read(&self, end: CallEnd, limits: ResultLimits) -> CallEnd {
        let CallEnd::Result(finding) = end else { return end };
        let (finding, blobs) = finding.without_blobs();
        let (waiting, mut read) = (self.may_wait(bytes_of(&blobs)), Vec::new());
        for Blob { uri, mime, bytes } in blobs.into_iter().take(RESOURCES_READ_MAX) {
            let file = Attachment { name: uri, ..Attachment::of_bytes(mime, bytes.len()) };
            read.push(match waiting {
                Some(_) => self.held(file, &bytes).await,
                None => ResourceFile { file, bytes: Err(Unread::Busy) },
            });
        }
        if read.is_empty() {
            return CallEnd::Result(finding);
        }
        let texts = files::texts(self.parts, self.turn, read, self.running.settings.attachments.characters).await;
        CallEnd::Result(finding.with_texts(&texts, limits))
    }
}

fn bytes_of(blobs: &[Blob]) -> usize {
    blobs.iter().map(|blob| blob.bytes.len()).sum()
}
