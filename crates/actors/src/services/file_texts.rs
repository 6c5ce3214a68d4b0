//! The files that programs send with their own conversations, as text. Their readers are separate from those of turns:
//! programs and members do not wait for each other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::running::Live;
use domain::attachment::{
    self, Attachment, AttachmentAllowance, Enclosed, FileText, FileView, Plan, SLICE_BYTES, Unread, rooms,
};
use domain::completion::Accepts;
use domain::document::Container;
use domain::ids::Person;
use ports::shares::Shares;
use ports::{Documents, FileTexts, NotRead, SentFile, blocking};
use telemetry::events::ATTACHMENT_UNREAD;

/// The maximum number of documents that are read at once. Each reader is a process of up to 256 MiB.
const READERS: usize = 1;
/// The timeout for a reader that others use.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the files of programs.
pub struct FileReader {
    live: Live,
    documents: Arc<dyn Documents>,
    /// One permit for each document that is being read.
    readers: Shares,
}

impl FileReader {
    /// Reads documents with this reader.
    #[must_use]
    pub fn new(live: Live, documents: Arc<dyn Documents>) -> Self {
        Self { live, documents, readers: Shares::new(Arc::new(Semaphore::new(READERS))) }
    }

    /// Reads one file. Its first bytes decide if it is a document.
    async fn view(&self, person: &Person, plan: Plan, sent: SentFile, most: usize) -> Result<FileView, NotRead> {
        let SentFile { file, bytes } = sent;
        let container = match plan {
            Plan::Name(why) => return Err(why.into()),
            Plan::Text => Container::of_text(&bytes),
            Plan::Document | Plan::Pdf | Plan::Picture => Container::of(&bytes),
        };
        if container.is_none() {
            return Ok(text(file, bytes, most).await?);
        }
        let _reader = timeout(READER_TIMEOUT, self.readers.wait(Some(person))).await.map_err(|_| Unread::Busy)?;
        let document = self.documents.read(bytes, most).await?;
        Ok(FileView::Text(FileText::new(&file, document.about(), &document.text, document.cut)))
    }
}

/// Reads a text, a long one on a thread for blocking work.
async fn text(file: Attachment, bytes: Vec<u8>, most: usize) -> Result<FileView, Unread> {
    if bytes.len() <= SLICE_BYTES {
        return attachment::text(&file, &bytes, most);
    }
    blocking(move || attachment::text(&file, &bytes, most)).await.unwrap_or(Err(Unread::Mismatch))
}

#[async_trait]
impl FileTexts for FileReader {
    async fn texts(&self, person: &Person, files: Vec<SentFile>) -> Result<Vec<String>, (usize, Unread)> {
        let most = self.live.now().settings.attachments.characters;
        let mut allowance = AttachmentAllowance::new(Accepts::default(), most);
        let mut shown = Vec::with_capacity(files.len());
        for (at, sent) in files.into_iter().enumerate() {
            let plan = allowance.plan(&sent.file);
            let size = sent.file.size;
            let view = self.view(person, plan, sent, most).await.map_err(|NotRead { why, reason }| {
                tracing::info!(
                    event = ATTACHMENT_UNREAD, %person, why = why.as_str(), reason, bytes = size, "a file of a program is refused"
                );
                (at, why)
            });
            shown.push(view?);
        }
        let rooms = rooms(&shown, most);
        Ok(Enclosed::of(shown.into_iter().zip(rooms)).words)
    }
}
