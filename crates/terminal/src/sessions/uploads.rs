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
        let number =
            url.strip_prefix(SCHEME).and_then(|number| number.parse::<u64>().ok()).ok_or(FetchError::Foreign)?;
        let mut held = self.uploads.held.lock();
        let gone = || FetchError::Lost("the process was restarted, or the file waited too long".to_owned());
        let file = held.files.get_mut(&number).ok_or_else(gone)?;
        file.until = file.until.min(Instant::now() + READ_FOR);
        if file.bytes.len() > most { Err(FetchError::TooLong) } else { Ok(file.bytes.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::Door;
    use ports::testing::{ManualClock, MemoryStore};

    use super::*;

    fn sessions() -> Sessions {
        let kept_for = Arc::new(|| Duration::from_secs(60));
        Sessions::new(Arc::new(ManualClock::new()), Arc::new(MemoryStore::new()), kept_for)
    }

    fn person(name: &str) -> Person {
        Person::new(Door::new("api"), name)
    }

    /// Holds a file of this many KiB; `None` if it has no room.
    async fn hold(sessions: &Sessions, who: &str, kib: usize) -> Option<Attachment> {
        let bytes = vec![7; kib << 10];
        let room = sessions.room_of_files(&person(who), bytes.len()).await?;
        let file = Attachment { name: "a.txt".to_owned(), ..Attachment::of_bytes(None, bytes.len()) };
        sessions.hold_files(vec![SentFile { file, bytes }], room).pop()
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_held_within_bounds_until_they_are_read() {
        let sessions = sessions();
        let file = hold(&sessions, "ada", KIB_MAX / 2).await.unwrap();
        assert!(hold(&sessions, "ada", 1).await.is_none(), "one person has at most half");
        assert!(hold(&sessions, "ben", KIB_MAX / 4).await.is_some());
        let most = KIB_MAX << 9;
        for (url, most, wrong) in [
            ("upload:99", most, FetchError::Lost("the process was restarted, or the file waited too long".to_owned())),
            ("https://files.example/a", most, FetchError::Foreign),
            (&file.url, most - 1, FetchError::TooLong),
        ] {
            assert_eq!(sessions.fetch(url, most).await, Err(wrong), "{url}");
        }
        // A turn that is restarted reads it again.
        for _ in 0..2 {
            assert_eq!(sessions.fetch(&file.url, most).await.map(|bytes| bytes.len()), Ok(most));
        }
        tokio::time::sleep(READ_FOR).await;
        assert!(hold(&sessions, "ada", 1).await.is_some(), "what was read is dropped");
        assert!(sessions.fetch(&file.url, most).await.is_err());
        tokio::time::sleep(UNREAD_FOR).await;
        assert!(hold(&sessions, "ada", KIB_MAX / 2).await.is_some(), "what no turn read is dropped as well");
    }
}
