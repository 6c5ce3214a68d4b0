//! The sessions: what was said and answered in each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{DOOR, commands};
use crate::domain::command::{Callback, CallbackToken, Caller, Command};
use crate::domain::ids::{MessageId, Person, Place, Timestamp};
use crate::domain::incoming::{Author, AuthorKind, Posted, Quoted, Seen};
use crate::domain::notice::template;
use crate::domain::outgoing::Capabilities;
use crate::domain::rejection::Rejection;
use crate::ports::{Clock, HistoryRange, PostError, PostReply, PostRequest, PostResult, Poster};

/// The most sessions at once; the one that was quiet for longest makes room.
const SESSIONS_MAX: usize = 256;
/// The most messages kept of a session.
const MESSAGES_MAX: usize = 200;
/// The most bytes of messages kept of a session: the oldest go first.
const SESSION_BYTES: usize = 1024 * 1024;
/// The most bytes of all sessions together; the one that was quiet for longest makes room.
const ALL_BYTES: usize = 64 * 1024 * 1024;
/// How long a quiet session is kept.
const QUIET_FOR: Duration = Duration::from_secs(3600);
/// The longest message that a terminal shows, in Unicode scalar values.
pub(super) const TEXT_LIMIT: usize = 16_000;
/// The number of the first session.
const FIRST_NUMBER: u64 = 101;
/// The longest name of a session.
const NAME_MAX: usize = 64;
/// The bot's own id at this door.
const US: &str = "staffai";

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The name of the session is not usable.
    #[error("a session's name has 1 to 64 letters, digits, - or _")]
    BadName,
    /// There is nothing in it.
    #[error("the text is empty")]
    Empty,
}

/// All sessions of this process.
pub struct Sessions {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<String, Session>,
    last_id: u64,
    last_number: u64,
}

struct Session {
    /// Short for its name.
    number: u64,
    messages: VecDeque<Kept>,
    /// Bytes of the texts in `messages`, quoted ones included.
    bytes: usize,
    touched: Instant,
}

/// A session, as clients are told of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Listed {
    session: String,
    /// Short for its name.
    number: u64,
    messages: usize,
    /// Seconds since something happened in it.
    quiet_s: u64,
}

/// A message of a session, as clients are told of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    message: String,
    /// It is one of ours.
    ours: bool,
    text: String,
    /// When it was said, in milliseconds since the Unix epoch.
    at: u64,
}

struct Kept {
    posted: Posted,
    nonce: Option<String>,
}

impl Sessions {
    /// No sessions yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, inner: Mutex::default() }
    }

    /// The present moment.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Our own account at this door.
    #[must_use]
    pub fn us() -> Person {
        Person::new(DOOR, US)
    }

    /// A message in a session, which begins with its first one. Returns the event for triage. With the same `key` it is the same
    /// message, also in a later life of the process.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub fn says(&self, session: &str, text: &str, key: Option<&str>) -> Result<Posted, NotTaken> {
        check_name(session)?;
        if text.trim().is_empty() {
            return Err(NotTaken::Empty);
        }
        let mut inner = self.inner.lock();
        let id = key.map_or_else(|| inner.next_id(self.clock.now()), |key| keyed(session, key));
        let known = inner.session(session).messages.iter().find(|kept| kept.posted.id.id == id);
        if let Some(known) = known {
            return Ok(known.posted.clone());
        }
        let person = Person::new(DOOR, session);
        let author =
            Author { person, name: "you".to_owned(), roles: Vec::new(), joined: None, kind: AuthorKind::Member };
        let id = MessageId::new(DOOR, id);
        let posted = Posted { mentions_us: true, ..self.posted(id, Place::new(DOOR, session), author, text) };
        inner.session(session).keep(Kept { posted: posted.clone(), nonce: None });
        inner.make_room();
        Ok(posted)
    }

    /// A command in a session, which begins with it.
    ///
    /// # Errors
    /// The name of the session is not usable.
    pub fn runs(&self, session: &str, name: String, options: commands::Options) -> Result<Command, NotTaken> {
        check_name(session)?;
        let mut inner = self.inner.lock();
        let id = MessageId::new(DOOR, inner.next_id(self.clock.now()));
        inner.session(session);
        inner.make_room();
        let caller =
            Caller { person: Person::new(DOOR, session), name: "you".to_owned(), roles: Vec::new(), locale: None };
        // The answer finds its session by the token.
        let token = CallbackToken::new(session.to_owned());
        Ok(Command {
            callback: Callback { id, application: US.to_owned(), token },
            name,
            options,
            named: Vec::new(),
            caller,
            place: Place::new(DOOR, session),
            parent: None,
            guild: Some(DOOR.as_str().to_owned()),
            at: self.clock.now(),
        })
    }

    fn posted(&self, id: MessageId, place: Place, author: Author, text: &str) -> Posted {
        Posted {
            id,
            place,
            parent: None,
            // A session is no direct message: all who may reach this door are answered.
            guild: Some(DOOR.as_str().to_owned()),
            author,
            text: text.to_owned(),
            mentions_us: false,
            reply_to: None,
            attachments: Vec::new(),
            locale: None,
            may_answer: true,
            at: self.clock.now(),
            draw: None,
            tools: true,
            given: None,
        }
    }

    /// All sessions, the one that something happened in last first.
    pub(super) fn list(&self) -> Vec<Listed> {
        let inner = self.inner.lock();
        let listed = |(name, session): (&String, &Session)| Listed {
            session: name.clone(),
            number: session.number,
            messages: session.messages.len(),
            quiet_s: session.touched.elapsed().as_secs(),
        };
        let mut all: Vec<Listed> = inner.sessions.iter().map(listed).collect();
        all.sort_by_key(|listed| (listed.quiet_s, listed.number));
        all
    }

    /// The name of a session for its name or its number.
    pub(super) fn named(&self, given: &str) -> String {
        let inner = self.inner.lock();
        let numbered = || {
            let number: u64 = given.parse().ok()?;
            inner.sessions.iter().find(|(_, session)| session.number == number).map(|(name, _)| name.clone())
        };
        if inner.sessions.contains_key(given) { given.to_owned() } else { numbered().unwrap_or(given.to_owned()) }
    }

    /// What was said in a session; none when there is none of this name.
    pub(super) fn transcript(&self, session: &str) -> Option<Vec<Line>> {
        let inner = self.inner.lock();
        let line = |kept: &Kept| Line {
            message: kept.posted.id.id.clone(),
            ours: kept.posted.author.kind == AuthorKind::Ourselves,
            text: kept.posted.text.clone(),
            at: kept.posted.at.0,
        };
        Some(inner.sessions.get(session)?.messages.iter().map(line).collect())
    }

    /// Ends a session.
    pub(super) fn remove(&self, session: &str) {
        self.inner.lock().sessions.remove(session);
    }

    fn create(&self, place: &Place, text: &str, reply_to: Option<&MessageId>, nonce: &str) -> MessageId {
        let mut inner = self.inner.lock();
        let known = |kept: &&Kept| kept.nonce.as_deref() == Some(nonce);
        if let Some(kept) = inner.sessions.get(&place.id).and_then(|session| session.messages.iter().find(known)) {
            return kept.posted.id.clone();
        }
        let id = MessageId::new(DOOR, inner.next_id(self.clock.now()));
        let session = inner.session(&place.id);
        let reply_to = reply_to.map(|id| Quoted { id: id.clone(), seen: session.seen(id) });
        let (person, name) = (Self::us(), US.to_owned());
        let author = Author { person, name, roles: Vec::new(), joined: None, kind: AuthorKind::Ourselves };
        let posted = Posted { reply_to, ..self.posted(id.clone(), place.clone(), author, text) };
        session.keep(Kept { posted, nonce: Some(nonce.to_owned()) });
        inner.make_room();
        id
    }

    fn edit(&self, place: &Place, message: &MessageId, text: &str) -> Result<MessageId, PostError> {
        let mut inner = self.inner.lock();
        let session = inner.sessions.get_mut(&place.id).ok_or_else(gone)?;
        let kept = session.messages.iter_mut().find(|kept| kept.posted.id == *message).ok_or_else(message_gone)?;
        session.bytes -= bytes_of(&kept.posted);
        text.clone_into(&mut kept.posted.text);
        session.bytes += bytes_of(&kept.posted);
        session.shrink();
        inner.make_room();
        Ok(message.clone())
    }

    fn history(&self, place: &Place, range: &HistoryRange, limit: usize) -> Vec<Posted> {
        let inner = self.inner.lock();
        let Some(session) = inner.sessions.get(&place.id) else { return Vec::new() };
        let all: Vec<&Posted> = session.messages.iter().map(|kept| &kept.posted).collect();
        let index = |message: &MessageId| all.iter().position(|posted| posted.id == *message);
        let from = match range {
            HistoryRange::Newest => all.len().saturating_sub(limit),
            HistoryRange::After(message) => index(message).map_or(0, |index| index + 1),
            HistoryRange::Before(message) => {
                let end = index(message).unwrap_or(0);
                return all[end.saturating_sub(limit)..end].iter().map(|posted| (*posted).clone()).collect();
            }
        };
        all[from..].iter().take(limit).map(|posted| (*posted).clone()).collect()
    }
}

#[async_trait]
impl Poster for Sessions {
    fn capabilities(&self) -> Capabilities {
        Capabilities::text_only(TEXT_LIMIT)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let result = match request {
            PostRequest::Create { place, piece, reply_to, nonce } => {
                // A terminal shows no marks.
                let text = template::spelled_out(&piece.text, self.clock.now());
                PostResult::Message(self.create(place, &text, reply_to.as_ref(), nonce))
            }
            PostRequest::Edit { place, message, piece } => {
                let text = template::spelled_out(&piece.text, self.clock.now());
                PostResult::Message(self.edit(place, message, &text)?)
            }
            PostRequest::Delete { place, message } => {
                let mut inner = self.inner.lock();
                let session = inner.sessions.get_mut(&place.id).ok_or_else(gone)?;
                session.messages.retain(|kept| kept.posted.id != *message);
                session.bytes = session.messages.iter().map(|kept| bytes_of(&kept.posted)).sum();
                PostResult::Done
            }
            PostRequest::History { place, range, limit } => {
                PostResult::Messages(self.history(place, range, usize::from(*limit)))
            }
            // There are no roles here.
            PostRequest::Roles(_) | PostRequest::AddRole(_) | PostRequest::RemoveRole(_) => PostResult::Absent,
            PostRequest::Fetch { place, message } => {
                let all = self.history(place, &HistoryRange::Newest, MESSAGES_MAX);
                PostResult::Messages(all.into_iter().filter(|posted| posted.id == *message).collect())
            }
            // The answer itself is in the events of turns.
            PostRequest::Respond { to, .. } => {
                if !self.inner.lock().sessions.contains_key(to.token.expose()) {
                    return Err(gone());
                }
                PostResult::Done
            }
            // Events tell that a turn runs; nothing is offered here to those who type.
            PostRequest::Typing { .. }
            | PostRequest::React { .. }
            | PostRequest::RegisterCommands(_)
            | PostRequest::Defer(_)
            | PostRequest::Suggest { .. }
            | PostRequest::FetchGuild { .. } => PostResult::Done,
        };
        Ok(PostReply { result, bucket: None })
    }
}

/// The id of the message that a client calls by this key.
fn keyed(session: &str, key: &str) -> String {
    let digest = Sha256::digest(format!("{session}\0{key}"));
    digest.iter().take(16).fold("k".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}

fn check_name(session: &str) -> Result<(), NotTaken> {
    let usable = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let fits = !session.is_empty() && session.len() <= NAME_MAX && session.chars().all(usable);
    if fits { Ok(()) } else { Err(NotTaken::BadName) }
}

/// Bytes of a message: its text, and that of the message it replies to, which is kept with it.
fn bytes_of(posted: &Posted) -> usize {
    let quoted = posted.reply_to.as_ref().and_then(|quoted| quoted.seen.as_ref());
    posted.text.len() + quoted.map_or(0, |seen| seen.text.len())
}

fn message_gone() -> PostError {
    PostError::Rejected { reason: Rejection::MessageGone, message: "the message is not kept any more".to_owned() }
}

fn gone() -> PostError {
    PostError::Rejected { reason: Rejection::PlaceGone, message: "the session is gone".to_owned() }
}

impl Inner {
    fn session(&mut self, name: &str) -> &mut Session {
        let number = &mut self.last_number;
        let fresh = || {
            *number = (*number).max(FIRST_NUMBER - 1) + 1;
            Session { number: *number, messages: VecDeque::new(), bytes: 0, touched: Instant::now() }
        };
        let session = self.sessions.entry(name.to_owned()).or_insert_with(fresh);
        session.touched = Instant::now();
        session
    }

    fn make_room(&mut self) {
        self.sessions.retain(|_, session| session.touched.elapsed() < QUIET_FOR);
        let mut all: usize = self.sessions.values().map(|session| session.bytes).sum();
        while self.sessions.len() > 1 && (self.sessions.len() > SESSIONS_MAX || all > ALL_BYTES) {
            let quietest =
                self.sessions.iter().min_by_key(|(_, session)| session.touched).map(|(name, _)| name.clone());
            let gone = self.sessions.remove(&quietest.unwrap_or_default());
            all -= gone.map_or(0, |session| session.bytes);
        }
    }

    /// Rises over restarts too: the journal remembers ids of an earlier life.
    fn next_id(&mut self, now: Timestamp) -> String {
        self.last_id = (now.0 << 12).max(self.last_id + 1);
        self.last_id.to_string()
    }
}

impl Session {
    fn keep(&mut self, kept: Kept) {
        self.bytes += bytes_of(&kept.posted);
        self.messages.push_back(kept);
        self.shrink();
    }

    /// Forgets the oldest of what is too much; the newest stays in any case.
    fn shrink(&mut self) {
        while self.messages.len() > 1 && (self.messages.len() > MESSAGES_MAX || self.bytes > SESSION_BYTES) {
            self.bytes -= self.messages.pop_front().map_or(0, |kept| bytes_of(&kept.posted));
        }
    }

    fn seen(&self, id: &MessageId) -> Option<Seen> {
        self.messages.iter().find(|kept| kept.posted.id == *id).map(|kept| Seen::from(kept.posted.clone()))
    }
}

#[cfg(test)]
mod tests;
