//! The files of submitted messages, in memory until their turns have read them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::Sessions;
use domain::attachment::Attachment;
use domain::hex::hex;
use domain::ids::Person;
use domain::incoming::Posted;
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

/// The files.
pub(super) struct Uploads {
    room: Shares,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    /// The files by address: the hash of the message, and the position in it. A stored address of an earlier process names
    /// no file of another message.
    files: BTreeMap<String, HeldFile>,
    /// True while a task drops what expires.
    is_swept: bool,
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
        Self { room: Shares::new(Arc::new(Semaphore::new(KIB_MAX))), held: Arc::default() }
    }
}

impl Held {
    fn drop_expired(&mut self) {
        let now = Instant::now();
        self.files.retain(|_, file| file.until > now);
    }
}

/// Drops what expires, until nothing is held.
async fn sweep(held: Arc<Mutex<Held>>) {
    loop {
        sleep(READ_FOR).await;
        let mut held = held.lock();
        held.drop_expired();
        held.is_swept = !held.files.is_empty();
        if !held.is_swept {
            return;
        }
    }
}

impl Sessions {
    /// Waits for the memory permit of a message of this many bytes. `None` if it is not free for this person in time.
    pub(crate) async fn room_of_files(&self, person: &Person, bytes: usize) -> Option<Share> {
        self.uploads.held.lock().drop_expired();
        let kib = bytes.div_ceil(1024);
        timeout(ROOM_TIMEOUT, self.uploads.room.wait_many(Some(person), kib)).await.ok()
    }

    /// Holds the files of a message for its turn, and returns their descriptions.
    pub(crate) fn hold_files(&self, posted: &Posted, files: Vec<SentFile>, room: Share) -> Vec<Attachment> {
        let (room, until) = (Arc::new(room), Instant::now() + UNREAD_FOR);
        let named = serde_json::to_vec(&(&posted.place, &posted.id, posted.at)).unwrap_or_default();
        let message = hex(&Sha256::digest(named));
        let mut held = self.uploads.held.lock();
        if !std::mem::replace(&mut held.is_swept, true) {
            tokio::spawn(sweep(Arc::clone(&self.uploads.held)));
        }
        let hold = |(position, SentFile { file, bytes })| {
            let url = format!("{SCHEME}{message}-{position}");
            held.files.insert(url.clone(), HeldFile { bytes, until, _room: Arc::clone(&room) });
            Attachment { url, ..file }
        };
        files.into_iter().enumerate().map(hold).collect()
    }
}

#[async_trait]
impl Attachments for Sessions {
    async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        if !url.starts_with(SCHEME) {
            return Err(FetchError::Foreign);
        }
        let mut held = self.uploads.held.lock();
        held.drop_expired();
        let gone = || FetchError::Lost("the process was restarted, or the file waited too long".to_owned());
        let file = held.files.get_mut(url).ok_or_else(gone)?;
        file.until = file.until.min(Instant::now() + READ_FOR);
        if file.bytes.len() > most { Err(FetchError::TooLong) } else { Ok(file.bytes.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::{Door, MessageId, Place};
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
        let door = Door::new("api");
        let posted = sessions.posted(MessageId::new(door.clone(), "1"), &Place::new(door, who), false, "");
        sessions.hold_files(&posted, vec![SentFile { file, bytes }], room).pop()
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_held_within_bounds_until_they_are_read() {
        let sessions = sessions();
        let file = hold(&sessions, "ada", KIB_MAX / 2).await.unwrap();
        assert!(hold(&sessions, "ada", 1).await.is_none(), "one person has at most half");
        assert!(hold(&sessions, "ben", KIB_MAX / 4).await.is_some());
        let most = KIB_MAX << 9;
        for (url, most, wrong) in [
            (
                "upload:99-a",
                most,
                FetchError::Lost("the process was restarted, or the file waited too long".to_owned()),
            ),
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

    #[tokio::test(start_paused = true)]
    async fn an_address_of_an_earlier_process_names_no_file_of_another_message() {
        let earlier = hold(&sessions(), "ada", 1).await.unwrap();
        let sessions = sessions();
        let file = hold(&sessions, "ben", 1).await.unwrap();
        assert!(earlier.url.ends_with("-0") && file.url.ends_with("-0"), "each is the first file of its message");
        assert!(matches!(sessions.fetch(&earlier.url, 1024).await, Err(FetchError::Lost(_))));
        assert!(sessions.fetch(&file.url, 1024).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_dropped_in_time_also_if_no_other_one_comes() {
        let sessions = sessions();
        for _ in 0..2 {
            let read = hold(&sessions, "ada", 1).await.unwrap();
            hold(&sessions, "ben", 1).await.unwrap();
            sessions.fetch(&read.url, 1024).await.unwrap();
            let held = || sessions.uploads.held.lock().files.len();
            tokio::time::sleep(2 * READ_FOR).await;
            assert_eq!(held(), 1, "what was read is dropped soon");
            tokio::time::sleep(UNREAD_FOR).await;
            assert_eq!(held(), 0);
        }
    }
}
