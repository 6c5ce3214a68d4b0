//! The files of a question, of the resources it names, and of the message it replies to: fetched concurrently, within bounds. Documents are read in
//! child processes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::parts::TurnParts;
use crate::services::running::Running;
use domain::attachment::{self, AttachmentAllowance, Enclosed, FileText, FileView, Plan, SLICE_BYTES, Unread, rooms};
use domain::completion::{Accepts, Picture};
use domain::document::{Container, DocumentText};
use domain::ids::Person;
use domain::incoming::{Attachment, Quoted};
use domain::turn::Turn;
use ports::shares::Share;
use ports::{FetchError, NotRead, blocking};
use telemetry::events::ATTACHMENT_UNREAD;

/// The maximum size in KiB of the files of all turns in flight. A request briefly takes about four times the size of
/// its files.
pub const KIB_MAX: usize = 32 << 10;
/// The maximum number of documents that are read at once. Each reader is a process of up to 256 MiB.
pub const READERS: usize = 2;
/// The timeout for the memory permits of a turn's files; after that the files are only named.
const ROOM_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout for fetching the files of one question, regardless of the port's own timeout.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout for a reader of a document that others use.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// The files as presented to a model.
pub(super) struct Files {
    /// The files of the question itself.
    pub own: Enclosed,
    /// The files of the message that it replies to.
    pub quoted: Enclosed,
    /// The memory permits of the pictures and PDF files, held as long as these.
    pub room: Vec<Share>,
}

/// The bytes of a file, with their memory permit.
pub(super) struct HeldBytes {
    pub bytes: Vec<u8>,
    pub room: Share,
}

/// One file from a resource, with its bytes or the reason why it was not read.
pub(super) struct ResourceFile {
    /// The file as its server describes it.
    pub file: Attachment,
    /// The content.
    pub bytes: Result<HeldBytes, Unread>,
}

/// One file, and the decision about it.
struct PlannedFile<'a> {
    file: &'a Attachment,
    plan: Plan,
    /// The bytes, if they need not be fetched.
    held: Option<HeldBytes>,
}

impl<'a> PlannedFile<'a> {
    fn new(file: &'a Attachment, held: Option<Result<HeldBytes, Unread>>, allowance: &mut AttachmentAllowance) -> Self {
        match held {
            Some(Err(why)) => Self { file, plan: Plan::Name(why), held: None },
            Some(Ok(held)) => Self { file, plan: allowance.plan(file), held: Some(held) },
            None => Self { file, plan: allowance.plan(file), held: None },
        }
    }
}

/// Fetches the files that are permitted, and names the others. Resources are read already.
pub(super) async fn read(
    parts: &TurnParts,
    running: &Running,
    turn: &Turn,
    resources: Vec<ResourceFile>,
    quoted: Option<&Quoted>,
) -> Files {
    let seen = quoted.and_then(|quoted| quoted.seen.as_ref()).filter(|seen| !seen.ours);
    let of_quoted = seen.map(|seen| seen.attachments.as_slice()).unwrap_or_default();
    if turn.attachments.is_empty() && resources.is_empty() && of_quoted.is_empty() {
        return Files { own: Enclosed::default(), quoted: Enclosed::default(), room: Vec::new() };
    }
    let most = running.settings.attachments.characters;
    let accepts = running.accepts(turn.policy.model.as_deref());
    let mut allowance = AttachmentAllowance::new(accepts, most);
    let (resources, mut held): (Vec<Attachment>, Vec<_>) =
        resources.into_iter().map(|ResourceFile { file, bytes }| (file, Some(bytes))).unzip();
    let uploaded = turn.attachments.len();
    let own = uploaded + resources.len();
    // The bytes of the resources stand beside their files.
    held.splice(0..0, std::iter::repeat_with(|| None).take(uploaded));
    held.resize_with(own + of_quoted.len(), || None);
    let files = turn.attachments.iter().chain(&resources).chain(of_quoted);
    let mut plans: Vec<PlannedFile<'_>> =
        files.zip(held).map(|(file, held)| PlannedFile::new(file, held, &mut allowance)).collect();
    let mut room: Vec<Share> = self::room(parts, &turn.person, &mut plans, is_kept).await.into_iter().collect();
    // Texts are short once they are read, so that their permits end here.
    let briefly = self::room(parts, &turn.person, &mut plans, is_read).await;
    let shown = join_all(plans.into_iter().map(|planned| one(parts, turn, planned, most))).await;
    drop(briefly);
    let (shown, held): (Vec<FileView>, Vec<Option<Share>>) = shown.into_iter().unzip();
    room.extend(held.into_iter().flatten());
    let rooms = rooms(&shown, most);
    let mut shown = shown.into_iter().zip(rooms);
    let own = Enclosed::of(shown.by_ref().take(own));
    Files { own, quoted: Enclosed::of(shown), room }
}

/// Returns the texts of files that are not pictures, or the reasons why they are not read.
pub(super) async fn texts(parts: &TurnParts, turn: &Turn, files: Vec<ResourceFile>, most: usize) -> Vec<String> {
    let mut allowance = AttachmentAllowance::new(Accepts::default(), most);
    let mut shown = Vec::new();
    for ResourceFile { file, bytes } in files {
        shown.push(one(parts, turn, PlannedFile::new(&file, Some(bytes), &mut allowance), most).await.0);
    }
    let rooms = rooms(&shown, most);
    Enclosed::of(shown.into_iter().zip(rooms)).words
}

/// Returns the files that are pictures, regardless of the models that see them, with their memory permit.
pub(super) async fn pictures(parts: &TurnParts, turn: &Turn, files: &[Attachment]) -> (Vec<Picture>, Option<Share>) {
    let mut allowance = AttachmentAllowance::new(Accepts { pictures: true, pdf: false }, 0);
    let mut plans: Vec<_> = files.iter().map(|file| PlannedFile::new(file, None, &mut allowance)).collect();
    plans.retain(|planned| planned.plan == Plan::Picture);
    let room = room(parts, &turn.person, &mut plans, is_kept).await;
    let read = join_all(plans.into_iter().map(|planned| one(parts, turn, planned, 0))).await;
    let picture = |(view, _)| if let FileView::Picture(picture) = view { Some(picture) } else { None };
    (read.into_iter().filter_map(picture).collect(), room)
}

/// Waits for the memory permit of so many bytes. `None` if it is not free for this person before the timeout.
pub(super) async fn room_of(parts: &TurnParts, person: &Person, bytes: u64) -> Option<Share> {
    let kib = usize::try_from(bytes.div_ceil(1024)).unwrap_or(usize::MAX);
    timeout(ROOM_TIMEOUT, parts.files.kib.wait_many(Some(person), kib)).await.ok()
}

const fn is_kept(plan: Plan) -> bool {
    matches!(plan, Plan::Picture | Plan::Pdf)
}

const fn is_read(plan: Plan) -> bool {
    matches!(plan, Plan::Text | Plan::Document)
}

/// Acquires permits for all files of a sort that are to be fetched; if they are not free for this person before the
/// timeout, the files are only named.
async fn room(
    parts: &TurnParts,
    person: &Person,
    plans: &mut [PlannedFile<'_>],
    sort: impl Fn(Plan) -> bool,
) -> Option<Share> {
    let is_fetched = |planned: &PlannedFile<'_>| sort(planned.plan) && planned.held.is_none();
    // A PDF file is kept while a reader has a copy of it.
    let copies = |plan| if plan == Plan::Pdf { 2 } else { 1 };
    let fetched = plans.iter().filter(|planned| is_fetched(planned));
    let bytes: u64 = fetched.map(|planned| planned.file.size.saturating_mul(copies(planned.plan))).sum();
    let room = room_of(parts, person, bytes).await;
    if room.is_none() {
        for planned in plans.iter_mut().filter(|planned| is_fetched(planned)) {
            planned.plan = Plan::Name(Unread::Busy);
        }
    }
    room
}

/// Reads one file, from its address or from the bytes that are held already. A picture or PDF file from held bytes keeps
/// their permit.
async fn one(
    parts: &TurnParts,
    turn: &Turn,
    PlannedFile { file, plan, held }: PlannedFile<'_>,
    most: usize,
) -> (FileView, Option<Share>) {
    let (held, room) = match held {
        Some(HeldBytes { bytes, room }) => (Some(bytes), Some(room)),
        None => (None, None),
    };
    let fetch = async {
        match held {
            Some(bytes) => Ok(bytes),
            None => fetch(parts, turn, file).await,
        }
    };
    let read = match plan {
        Plan::Name(why) => Err(why.into()),
        Plan::Picture => {
            let fetched = fetch.await;
            fetched.and_then(|bytes| attachment::picture(file, bytes).map_err(NotRead::from))
        }
        Plan::Pdf => match fetch.await {
            Ok(bytes) if Container::of(&bytes) == Some(Container::Pdf) => pdf(parts, turn, file, bytes, most).await,
            Ok(bytes) if Container::of(&bytes).is_some() => document(parts, turn, file, bytes, most).await,
            Ok(bytes) => text(file, bytes, most).await,
            Err(error) => Err(error),
        },
        Plan::Text | Plan::Document => match fetch.await {
            Ok(bytes) if container(plan, &bytes).is_some() => document(parts, turn, file, bytes, most).await,
            Ok(bytes) => text(file, bytes, most).await,
            Err(error) => Err(error),
        },
    };
    let view = read.unwrap_or_else(|NotRead { why, reason }| {
        tracing::info!(
            event = ATTACHMENT_UNREAD, turn = %turn.id, why = why.as_str(), reason, bytes = file.size, "a file is only named"
        );
        attachment::named(file, why)
    });
    let room = room.filter(|_| matches!(view, FileView::Picture(_) | FileView::Pdf(_)));
    (view, room)
}

fn container(plan: Plan, bytes: &[u8]) -> Option<Container> {
    if plan == Plan::Text { Container::of_text(bytes) } else { Container::of(bytes) }
}

async fn fetch(parts: &TurnParts, turn: &Turn, file: &Attachment) -> Result<Vec<u8>, NotRead> {
    let most = usize::try_from(file.size).unwrap_or(0);
    let fetched = timeout(FETCH_TIMEOUT, parts.files.doors.fetch(&turn.id.door, &file.url, most)).await;
    let fetched = fetched.unwrap_or_else(|_| Err(FetchError::Lost("it took too long".to_owned())));
    fetched.map_err(|error| {
        let why = if error == FetchError::TooLong { Unread::TooLarge } else { Unread::Unreachable };
        NotRead::new(why, error.to_string())
    })
}

/// Reads a text, a long one on a thread for blocking work.
async fn text(file: &Attachment, bytes: Vec<u8>, most: usize) -> Result<FileView, NotRead> {
    let read = if bytes.len() <= SLICE_BYTES {
        attachment::text(file, &bytes, most)
    } else {
        let file = file.clone();
        let panicked = |_| Err(Unread::Mismatch);
        blocking(move || attachment::text(&file, &bytes, most)).await.unwrap_or_else(panicked)
    };
    Ok(read?)
}

/// Reads a document as text.
async fn document(
    parts: &TurnParts,
    turn: &Turn,
    file: &Attachment,
    bytes: Vec<u8>,
    most: usize,
) -> Result<FileView, NotRead> {
    let document = document_text(parts, turn, bytes, most).await?;
    Ok(FileView::Text(FileText::new(file, document.about(), &document.text, document.cut)))
}

/// Reads a PDF file for models that accept it, and its text for others. A scan has none, and a busy reader does not keep
/// the file from a model that reads it itself.
async fn pdf(
    parts: &TurnParts,
    turn: &Turn,
    file: &Attachment,
    bytes: Vec<u8>,
    most: usize,
) -> Result<FileView, NotRead> {
    let kept = Arc::from(bytes.as_slice());
    match document_text(parts, turn, bytes, most).await {
        Ok(document) => Ok(attachment::pdf(file, kept, Ok(&document))),
        Err(NotRead { why: why @ (Unread::NoText | Unread::Busy), .. }) => Ok(attachment::pdf(file, kept, Err(why))),
        Err(error) => Err(error),
    }
}

/// Reads the text of a document with one of the readers, of which one person uses at most half.
async fn document_text(parts: &TurnParts, turn: &Turn, bytes: Vec<u8>, most: usize) -> Result<DocumentText, NotRead> {
    let files = &parts.files;
    let _reader = timeout(READER_TIMEOUT, files.readers.wait(Some(&turn.person))).await.map_err(|_| Unread::Busy)?;
    files.documents.read(bytes, most).await
}
