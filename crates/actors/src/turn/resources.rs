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
        let text = text.map(|text| (Some("text/plain".to_owned()), Arc::from(text)));
        let images = images.into_iter().map(|image| (Some(image.mime), image.bytes));
        let blobs = blobs.into_iter().map(|Blob { mime, bytes, .. }| (mime, bytes));
        let mut files = Vec::new();
        for (mime, bytes) in text.into_iter().chain(images).chain(blobs).take(RESOURCES_READ_MAX) {
            files.push(self.held(resource.file(mime, bytes.len()), &bytes).await);
        }
        files
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
        let mut read = Vec::new();
        for Blob { uri, mime, bytes } in blobs.into_iter().take(RESOURCES_READ_MAX) {
            let file = Attachment { name: uri, ..Attachment::of_bytes(mime, bytes.len()) };
            read.push(self.held(file, &bytes).await);
        }
        if read.is_empty() {
            return CallEnd::Result(finding);
        }
        let texts = files::texts(self.parts, self.turn, read, self.running.settings.attachments.characters).await;
        CallEnd::Result(finding.with_texts(&texts, limits))
    }
}
