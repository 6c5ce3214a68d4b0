//! The files of submitted messages, in memory until their turns have read them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::Sessions;
use domain::attachment::Attachment;
use domain::ids::Person;
use ports::shares::{Share, Shares};
use ports::{Attachments, FetchError, SentFile};

/// The maximum size in KiB of all files in memory; one person has at most half of it.
const KIB_MAX: usize = 32 << 10;
/// The timeout for the memory permit of a message.
const ROOM_TIMEOUT: Duration = Duration::from_secs(3);
/// The time after which a file that no turn has read is dropped.
const UNREAD_FOR: Duration = Duration::from_secs(600);
/// The time after which a file that was read is dropped: a failed turn is restarted within it.
const READ_FOR: Duration = Duration::from_secs(60);
/// The scheme of the addresses of these files.
const SCHEME: &str = "upload:";

/// The files, by number.
pub(super) struct Uploads {
    room: Shares,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    last: u64,
    files: BTreeMap<u64, HeldFile>,
}

struct HeldFile {
    bytes: Vec<u8>,
    until: Instant,
    /// The permit of all files of the message.
    _room: Arc<Share>,
}

impl Uploads {
    /// Creates an empty memory.
    pub fn new() -> Self {
        Self { room: Shares::new(Arc::new(Semaphore::new(KIB_MAX))), held: Mutex::default() }
    }

    fn drop_expired(&self) {
        let now = Instant::now();
        self.held.lock().files.retain(|_, file| file.until > now);
    }
}

impl Sessions {
    /// Waits for the memory permit of a message of this many bytes. `None` if it is not free for this person in time.
    pub(crate) async fn room_of_files(&self, person: &Person, bytes: usize) -> Option<Share> {
        self.uploads.drop_expired();
        let kib = bytes.div_ceil(1024);
        timeout(ROOM_TIMEOUT, self.uploads.room.wait_many(Some(person), kib)).await.ok()
    }

    /// Holds the files of a message for its turn, and returns their descriptions.
    pub(crate) fn hold_files(&self, files: Vec<SentFile>, room: Share) -> Vec<Attachment> {
        let (room, until) = (Arc::new(room), Instant::now() + UNREAD_FOR);
        let mut held = self.uploads.held.lock();
        let hold = |SentFile { file, bytes }| {
            held.last += 1;
            let number = held.last;
            held.files.insert(number, HeldFile { bytes, until, _room: Arc::clone(&room) });
            Attachment { url: format!("{SCHEME}{number}"), ..file }
        };
        files.into_iter().map(hold).collect()
    }
}

#[async_trait]
impl Attachments for Sessions {
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        let number = url.strip_prefix(SCHEME).and_then(|number| number.parse::<u64>().ok()).ok_or(FetchError::Foreign)?;
        let mut held = self.uploads.held.lock();
        let gone = || FetchError::Lost("the process was restarted, or the file waited too long".to_owned());
        let file = held.files.get_mut(&number).ok_or_else(gone)?;
        file.until = file.until.min(Instant::now() + READ_FOR);
        if file.bytes.len() > most { Err(FetchError::TooLong) } else { Ok(file.bytes.clone()) }
    }
}
