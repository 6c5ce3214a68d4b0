//! The resources of tool servers that a question names: read as tool calls of the member, and attached like files.

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::TurnTask;
use super::approval::Leave;
use domain::attachment::{Attachment, Unread};
use domain::tool::called::CallEnd;
use domain::tool::named_resource::{NamedResource, RESOURCES_READ_MAX, named};

/// One file from a resource, with its bytes or the reason why it was not read.
pub(super) struct ResourceFile {
    /// The file as its server describes it.
    pub file: Attachment,
    /// The content.
    pub bytes: Result<Vec<u8>, Unread>,
}

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
        match CallEnd::resource(end) {
            Err(why) => unread(why),
            Ok((text, images)) => {
                let text = text.map(|text| (Some("text/plain".to_owned()), text.as_bytes().to_vec()));
                let images = images.into_iter().map(|image| (Some(image.mime), image.bytes.to_vec()));
                let files = text.into_iter().chain(images);
                let file = |(mime, bytes): (Option<String>, Vec<u8>)| ResourceFile {
                    file: resource.file(mime, bytes.len()),
                    bytes: Ok(bytes),
                };
                files.map(file).collect()
            }
        }
    }
}
