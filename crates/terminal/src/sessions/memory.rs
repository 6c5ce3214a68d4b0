//! The sessions that are worked with: bounded, and rebuilt from the store where they are missing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::names::FIRST_NUMBER;
use super::record::{Line, Record};
use domain::ids::{MessageId, Place, Timestamp};
use domain::incoming::{AuthorKind, Posted, Seen};

/// The most sessions in memory; the one that was quiet for longest makes room.
pub(super) const SESSIONS_MAX: usize = 256;
/// The most messages kept of a session.
pub(super) const MESSAGES_MAX: usize = 200;
/// The most bytes of messages kept of a session: the oldest go first.
pub(super) const SESSION_BYTES: usize = 256 * 1024;
/// The most bytes of all sessions together in memory; the one that was quiet for longest makes room.
pub(super) const ALL_BYTES: usize = 16 * 1024 * 1024;
/// How long a quiet session stays in memory.
const QUIET_FOR: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Memory {
    pub(super) sessions: HashMap<Place, Session>,
    last_id: u64,
}

/// A session with its messages.
pub(super) struct Session {
    name: String,
    number: u64,
    pub(super) messages: VecDeque<Kept>,
    /// Bytes of the texts in `messages`, quoted ones included.
    pub(super) bytes: usize,
    touched: Instant,
    touched_at: Timestamp,
    /// How many characters of calls of tools are shown; none where nobody said.
    pub(super) preview: Option<usize>,
}

/// A message of a session.
pub(super) struct Kept {
    /// Its number in the session: rises.
    pub(super) number: u64,
    pub(super) posted: Posted,
    /// What it was posted under, where it is ours.
    pub(super) nonce: Option<String>,
    /// It says that there is no answer, or no better one.
    pub(super) apology: bool,
}

impl Memory {
    /// Whether a session is here with all lines that its record names: another process may have added some.
    pub(super) fn is_current(&self, place: &Place, record: &Record) -> bool {
        let Some(session) = self.sessions.get(place).filter(|_| record.is_numbered()) else { return false };
        let has = |number: &u64| session.messages.binary_search_by_key(number, |kept| kept.number).is_ok();
        record.numbers.iter().all(has)
    }

    /// A session that is here.
    pub(super) fn known(&mut self, place: &Place) -> Option<&mut Session> {
        self.sessions.get_mut(place)
    }

    /// A session in which something happens now; one that is not here begins without messages.
    pub(super) fn session(&mut self, place: &Place, now: Timestamp) -> &mut Session {
        let session =
            self.sessions.entry(place.clone()).or_insert_with(|| Session::new(place.id.to_string(), FIRST_NUMBER));
        (session.touched, session.touched_at) = (Instant::now(), now);
        session
    }

    /// Takes in a session as it is stored.
    pub(super) fn fill(&mut self, place: &Place, record: &Record, messages: Vec<Kept>) {
        let mut session = Session::new(record.name.clone(), record.number);
        session.touched_at = Timestamp(record.touched_at);
        session.preview = record.preview;
        // What was said here meanwhile, or before another process wrote its own lines down, stands among them.
        let read: BTreeSet<u64> = messages.iter().map(|kept| kept.number).collect();
        let first = read.first().copied().unwrap_or(0);
        let here = self.sessions.remove(place).map(|here| here.messages).unwrap_or_default();
        let here = here.into_iter().filter(|kept| kept.number > first && !read.contains(&kept.number));
        let mut all: Vec<Kept> = messages.into_iter().chain(here).collect();
        all.sort_by_key(|kept| kept.number);
        for kept in all {
            // A clock that was set back, or that of another process, gives no number twice.
            self.last_id = self.last_id.max(kept.number);
            session.keep(kept);
        }
        self.sessions.insert(place.clone(), session);
        self.make_room();
    }

    /// A session has another name from now on; gives it as it is stored.
    pub(super) fn rename(&mut self, place: &Place, name: &str) -> Option<Record> {
        let session = self.sessions.get_mut(place)?;
        name.clone_into(&mut session.name);
        Some(session.record(session.touched_at))
    }

    /// So many characters of calls are shown in a session from now on; gives it as it is stored.
    pub(super) fn show(&mut self, place: &Place, preview: usize) -> Option<Record> {
        let session = self.sessions.get_mut(place)?;
        session.preview = Some(preview);
        Some(session.record(session.touched_at))
    }

    /// A session that is here, as it is stored.
    pub(super) fn record(&self, place: &Place) -> Option<Record> {
        self.sessions.get(place).map(|session| session.record(session.touched_at))
    }

    /// A number for a session above this one and all that are known here.
    pub(super) fn number_above(&self, stored: u64) -> u64 {
        let known = self.sessions.values().map(|session| session.number).max().unwrap_or_default();
        stored.max(known).max(FIRST_NUMBER - 1) + 1
    }

    /// A session is not worked with any more.
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

    /// Rises over restarts too: the journal remembers ids of an earlier life.
    pub(super) fn next_id(&mut self, now: Timestamp) -> u64 {
        self.last_id = (now.0 << 12).max(self.last_id + 1);
        self.last_id
    }
}

impl Session {
    fn new(name: String, number: u64) -> Self {
        let (messages, touched) = (VecDeque::new(), Instant::now());
        Self { name, number, messages, bytes: 0, touched, touched_at: Timestamp(0), preview: None }
    }

    /// The session as it is stored.
    pub(super) fn record(&self, now: Timestamp) -> Record {
        let numbers: Vec<u64> = self.messages.iter().map(|kept| kept.number).collect();
        let Self { name, number, preview, .. } = self;
        let (name, lines) = (name.clone(), numbers.len());
        Record { name, number: *number, touched_at: now.0, lines, numbers, preview: *preview }
    }

    /// The messages, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Posted> {
        self.messages.iter().map(|kept| &kept.posted)
    }

    /// The message of this id.
    pub(super) fn find(&self, id: &str) -> Option<&Posted> {
        self.all().find(|posted| posted.id.id == id)
    }

    /// What was posted under this nonce.
    pub(super) fn posted_as(&self, nonce: &str) -> Option<&Posted> {
        self.messages.iter().find(|kept| kept.nonce.as_deref() == Some(nonce)).map(|kept| &kept.posted)
    }

    /// What others see of a message.
    pub(super) fn seen(&self, id: &MessageId) -> Option<Seen> {
        self.all().find(|posted| posted.id == *id).map(|posted| Seen::from(posted.clone()))
    }

    /// A message as it is stored.
    pub(super) fn line(&self, number: u64) -> Option<String> {
        let Kept { posted, nonce, apology, .. } = self.messages.iter().find(|kept| kept.number == number)?;
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

    /// Keeps a message; gives the numbers of those that had to make room.
    pub(super) fn keep(&mut self, kept: Kept) -> Vec<u64> {
        self.bytes += bytes_of(&kept.posted);
        self.messages.push_back(kept);
        self.shrink()
    }

    /// Changes a message of ours; gives its number and those that had to make room.
    pub(super) fn edit(&mut self, message: &MessageId, text: &str) -> Option<(u64, Vec<u64>)> {
        let kept = self.messages.iter_mut().find(|kept| kept.posted.id == *message)?;
        self.bytes -= bytes_of(&kept.posted);
        text.clone_into(&mut kept.posted.text);
        self.bytes += bytes_of(&kept.posted);
        let number = kept.number;
        Some((number, self.shrink()))
    }

    /// Takes a message back; gives its number.
    pub(super) fn delete(&mut self, message: &MessageId) -> Option<u64> {
        let at = self.messages.iter().position(|kept| kept.posted.id == *message)?;
        let kept = self.messages.remove(at)?;
        self.bytes -= bytes_of(&kept.posted);
        Some(kept.number)
    }

    /// Forgets the oldest of what is too much; the newest stays in any case.
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

/// Bytes of a message: its text, and that of the message it replies to, which is kept with it.
pub(super) fn bytes_of(posted: &Posted) -> usize {
    let quoted = posted.reply_to.as_ref().and_then(|quoted| quoted.seen.as_ref());
    posted.text.len() + quoted.map_or(0, |seen| seen.text.len())
}
