//! The cache of active sessions: bounded, and loaded from the store on a miss.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::names::FIRST_NUMBER;
use super::record::{Line, Record};
use domain::ids::{MessageId, Place, Timestamp};
use domain::incoming::{AuthorKind, Posted, Seen};

/// Maximum number of cached sessions; the least recently used is evicted.
pub(super) const SESSIONS_MAX: usize = 256;
/// Maximum number of messages of a session.
pub(super) const MESSAGES_MAX: usize = 200;
/// Maximum bytes of messages of a session: the oldest are evicted first.
pub(super) const SESSION_BYTES: usize = 256 * 1024;
/// Maximum bytes of all cached sessions; the least recently used is evicted.
pub(super) const ALL_BYTES: usize = 16 * 1024 * 1024;
/// Idle time after which a session is evicted.
const QUIET_FOR: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Memory {
    pub(super) sessions: HashMap<Place, Session>,
    last_id: u64,
    /// The number of sessions that were cached.
    cached: u64,
}

/// The state of a cached session: other if it was changed, or cached again. `None` if it is not cached.
pub(super) type Version = Option<(u64, u64)>;

pub(super) struct Session {
    name: String,
    number: u64,
    pub(super) messages: VecDeque<StoredMessage>,
    /// Bytes of the texts in `messages`, including quoted ones.
    pub(super) bytes: usize,
    touched: Instant,
    touched_at: Timestamp,
    version: (u64, u64),
    /// The preview length of tool calls, if one was set.
    pub(super) preview: Option<usize>,
}

pub(super) struct StoredMessage {
    /// Its number in the session; increasing.
    pub(super) number: u64,
    pub(super) posted: Posted,
    /// The nonce of the post, for the bot's messages.
    pub(super) nonce: Option<String>,
    pub(super) apology: bool,
}

impl Memory {
    /// True if a session is cached with all lines of its record: another process may have added some.
    pub(super) fn is_current(&self, place: &Place, record: &Record) -> bool {
        let Some(session) = self.sessions.get(place).filter(|_| record.is_numbered()) else { return false };
        let has = |number: &u64| session.messages.binary_search_by_key(number, |kept| kept.number).is_ok();
        record.numbers.iter().all(has)
    }

    pub(super) fn known(&mut self, place: &Place) -> Option<&mut Session> {
        self.sessions.get_mut(place)
    }

    /// Returns the version of a session, for [`fill`](Self::fill).
    pub(super) fn version(&self, place: &Place) -> Version {
        self.sessions.get(place).map(|session| session.version)
    }

    /// Returns a session and marks it as used now; one that is not cached begins empty.
    pub(super) fn session(&mut self, place: &Place, now: Timestamp) -> &mut Session {
        let session =
            self.sessions.entry(place.clone()).or_insert_with(|| Session::new(place.id.to_string(), FIRST_NUMBER));
        (session.touched, session.touched_at) = (Instant::now(), now);
        session
    }

    /// Fills a session from the store, unless the cached one is no longer of this version: what was read may then be
    /// older. Returns true if it is filled.
    pub(super) fn fill(
        &mut self,
        place: &Place,
        record: &Record,
        messages: Vec<StoredMessage>,
        version: Version,
    ) -> bool {
        if self.version(place) != version {
            return false;
        }
        let mut session = Session::new(record.name.clone(), record.number);
        self.cached += 1;
        session.version = (self.cached, 0);
        session.touched_at = Timestamp(record.touched_at);
        session.preview = record.preview;
        // Messages that were added here before another process wrote its lines are merged.
        let read: BTreeSet<u64> = messages.iter().map(|kept| kept.number).collect();
        let first = read.first().copied().unwrap_or(0);
        let here = self.sessions.remove(place).map(|here| here.messages).unwrap_or_default();
        let here = here.into_iter().filter(|kept| kept.number > first && !read.contains(&kept.number));
        let mut all: Vec<StoredMessage> = messages.into_iter().chain(here).collect();
        all.sort_by_key(|kept| kept.number);
        for kept in all {
            // Numbers stay unique if the clock was set back or another process' clock is ahead.
            self.last_id = self.last_id.max(kept.number);
            session.keep(kept);
        }
        self.sessions.insert(place.clone(), session);
        self.make_room();
        true
    }

    pub(super) fn rename(&mut self, place: &Place, name: &str) -> Option<Record> {
        let session = self.sessions.get_mut(place)?;
        name.clone_into(&mut session.name);
        session.changed();
        Some(session.record(session.touched_at))
    }

    /// Sets the preview length of a session; returns its record.
    pub(super) fn show(&mut self, place: &Place, preview: usize) -> Option<Record> {
        let session = self.sessions.get_mut(place)?;
        session.preview = Some(preview);
        session.changed();
        Some(session.record(session.touched_at))
    }

    /// Returns the record of a cached session.
    pub(super) fn record(&self, place: &Place) -> Option<Record> {
        self.sessions.get(place).map(|session| session.record(session.touched_at))
    }

    /// Returns a session number above this one and all that are cached.
    pub(super) fn number_above(&self, stored: u64) -> u64 {
        let known = self.sessions.values().map(|session| session.number).max().unwrap_or_default();
        stored.max(known).max(FIRST_NUMBER - 1) + 1
    }

    pub(super) fn remove(&mut self, place: &Place) {
        self.sessions.remove(place);
    }

    pub(super) fn make_room(&mut self) {
        self.sessions.retain(|_, session| session.touched.elapsed() < QUIET_FOR);
        let mut all: usize = self.sessions.values().map(|session| session.bytes).sum();
        while self.sessions.len() > 1 && (self.sessions.len() > SESSIONS_MAX || all > ALL_BYTES) {
            let quietest = self.sessions.iter().min_by_key(|(_, session)| session.touched).map(|(place, _)| place);
            let Some(quietest) = quietest.cloned() else { return };
            all -= self.sessions.remove(&quietest).map_or(0, |session| session.bytes);
        }
    }

    /// Increases over restarts too: the journal remembers ids of earlier processes.
    pub(super) fn next_id(&mut self, now: Timestamp) -> u64 {
        self.last_id = (now.0 << 12).max(self.last_id + 1);
        self.last_id
    }
}

impl Session {
    fn new(name: String, number: u64) -> Self {
        let (messages, touched) = (VecDeque::new(), Instant::now());
        let (touched_at, version) = (Timestamp(0), (0, 0));
        Self { name, number, messages, bytes: 0, touched, touched_at, version, preview: None }
    }

    fn changed(&mut self) {
        self.version.1 += 1;
    }

    pub(super) fn record(&self, now: Timestamp) -> Record {
        let numbers: Vec<u64> = self.messages.iter().map(|kept| kept.number).collect();
        let Self { name, number, preview, .. } = self;
        let (name, lines) = (name.clone(), numbers.len());
        Record { name, number: *number, touched_at: now.0, lines, numbers, preview: *preview }
    }

    /// Returns the messages, oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Posted> {
        self.messages.iter().map(|kept| &kept.posted)
    }

    pub(super) fn find(&self, id: &str) -> Option<&Posted> {
        self.all().find(|posted| posted.id.id == id)
    }

    pub(super) fn posted_as(&self, nonce: &str) -> Option<&Posted> {
        self.messages.iter().find(|kept| kept.nonce.as_deref() == Some(nonce)).map(|kept| &kept.posted)
    }

    /// Returns a message as others see it.
    pub(super) fn seen(&self, id: &MessageId) -> Option<Seen> {
        self.all().find(|posted| posted.id == *id).map(|posted| Seen::from(posted.clone()))
    }

    /// Returns the stored form of a message.
    pub(super) fn line(&self, number: u64) -> Option<String> {
        let StoredMessage { posted, nonce, apology, .. } = self.messages.iter().find(|kept| kept.number == number)?;
        let line = Line {
            id: posted.id.id.to_string(),
            ours: posted.author.kind == AuthorKind::Ourselves,
            text: posted.text.clone(),
            at: posted.at.0,
            answers: posted.reply_to.as_ref().map(|quoted| quoted.id.id.to_string()),
            nonce: nonce.clone(),
            apology: *apology,
        };
        serde_json::to_string(&line).ok()
    }

    /// Adds a message; returns the numbers of the evicted ones.
    pub(super) fn keep(&mut self, kept: StoredMessage) -> Vec<u64> {
        self.bytes += bytes_of(&kept.posted);
        self.messages.push_back(kept);
        self.changed();
        self.shrink()
    }

    /// Edits a message of the bot; returns its number and the evicted ones.
    pub(super) fn edit(&mut self, message: &MessageId, text: &str) -> Option<(u64, Vec<u64>)> {
        let kept = self.messages.iter_mut().find(|kept| kept.posted.id == *message)?;
        self.bytes -= bytes_of(&kept.posted);
        text.clone_into(&mut kept.posted.text);
        self.bytes += bytes_of(&kept.posted);
        let number = kept.number;
        self.changed();
        Some((number, self.shrink()))
    }

    pub(super) fn delete(&mut self, message: &MessageId) -> Option<u64> {
        let at = self.messages.iter().position(|kept| kept.posted.id == *message)?;
        let kept = self.messages.remove(at)?;
        self.bytes -= bytes_of(&kept.posted);
        self.changed();
        Some(kept.number)
    }

    /// Evicts the oldest messages beyond the bounds; the newest always stays.
    fn shrink(&mut self) -> Vec<u64> {
        let mut dropped = Vec::new();
        while self.messages.len() > 1 && (self.messages.len() > MESSAGES_MAX || self.bytes > SESSION_BYTES) {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= bytes_of(&oldest.posted);
            dropped.push(oldest.number);
        }
        dropped
    }
}

/// Returns the bytes of a message: its text, and that of the quoted message.
pub(super) fn bytes_of(posted: &Posted) -> usize {
    let quoted = posted.reply_to.as_ref().and_then(|quoted| quoted.seen.as_ref());
    posted.text.len() + quoted.map_or(0, |seen| seen.text.len())
}
