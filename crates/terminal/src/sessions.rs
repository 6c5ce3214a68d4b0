//! The sessions: their messages and answers. The store has all of them; the active ones are cached in memory.

mod fair;
mod index;
mod memory;
mod names;
mod record;
mod room;
mod uploads;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use self::fair::HolderLocks;
use self::index::Known;
use self::memory::{MESSAGES_MAX, Memory, StoredMessage};
pub(super) use self::names::FoundSession;
pub(super) use self::names::SessionMessage;
pub use self::names::is_place;
pub use self::names::owner_of;
use self::uploads::Uploads;
use super::{DOOR, commands};
use domain::api_key::{self, Right};
use domain::command::{Callback, CallbackToken, Caller, Command};
use domain::custody::Record;
use domain::ids::{MessageId, Person, Place, Timestamp, TurnId};
use domain::incoming::{Author, AuthorKind, Posted, Quoted, WantedModels};
use domain::keys;
use domain::notice::template;
use domain::outgoing::{Capabilities, Piece};
use domain::rejection::Rejection;
use domain::turn::Custody;
use ports::shares::Shares;
use ports::{Clock, HistoryRange, PostError, PostReply, PostRequest, PostResult, Poster, Store, Stored, Write};

/// Maximum length of a message, in Unicode scalar values.
pub(super) const TEXT_LIMIT: usize = 16_000;
/// Maximum number of reads of a session that changes meanwhile.
const LOADS_MAX: u32 = 3;
/// The bot's id at this door.
const US: &str = "staffai";

/// The reason why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The name of the session is invalid.
    #[error("a session's name must have 1 to 64 letters, digits, - or _")]
    BadName,
    /// The message is empty.
    #[error("the text is empty")]
    Empty,
    /// The holder has another session of this name.
    #[error("there is a session of this name already")]
    NameTaken,
    /// No number could be assigned: too many sessions are being created.
    #[error("too many sessions begin at this moment; try again in a second")]
    Crowded,
    /// A session of this name may exist, and the store does not return it.
    #[error("the session cannot be read at this moment; try again in a minute")]
    Away,
    /// The session belongs to another holder, and only its owner may write in it.
    #[error("only its owner speaks in that session; choose a name of your own")]
    NotTheirs,
}

/// Returns the retention time of sessions, which may change.
pub type KeptFor = Arc<dyn Fn() -> Duration + Send + Sync>;

/// All sessions, cached and stored.
pub struct Sessions {
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    kept_for: KeptFor,
    inner: Mutex<Memory>,
    index: Mutex<Known>,
    /// The shares of requests about sessions.
    work: Shares,
    /// Serializes the creation of sessions of one holder, so that names are unique.
    beginning: HolderLocks,
    /// Serializes the changes of the index by this process, so that they do not conflict. Held for one change only.
    indexing: tokio::sync::Mutex<()>,
    /// Serializes the comparison of the index with the sessions.
    mending: tokio::sync::Mutex<()>,
    /// The sessions that were evicted for others, and whose streams are still open.
    evicted: Mutex<Vec<Place>>,
    /// The files of messages whose turns read them.
    uploads: Uploads,
}

#[derive(Debug, Default)]
pub(super) struct Wants {
    /// The row that answers it.
    pub row: Option<String>,
    /// The prompt profile.
    pub profile: Option<String>,
}

impl Sessions {
    /// Creates the sessions of this store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, store: Arc<dyn Store>, kept_for: KeptFor) -> Self {
        let (inner, index) = (Mutex::default(), Mutex::default());
        let (work, beginning) = (fair::shares(), HolderLocks::default());
        let (indexing, mending) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        let (evicted, uploads) = (Mutex::default(), Uploads::new());
        Self { clock, store, kept_for, inner, index, work, beginning, indexing, mending, evicted, uploads }
    }

    /// Takes the sessions that were evicted for others since the last call, so that their streams can be closed.
    pub(super) fn take_evicted(&self) -> Vec<Place> {
        std::mem::take(&mut *self.evicted.lock())
    }

    /// True unless the turn of this message is known to have ended: its record is closed or gone.
    pub(super) async fn may_be_open(&self, message: &str) -> bool {
        match self.store.read(&keys::turn(&TurnId::of(&MessageId::new(DOOR, message)))).await {
            Stored::Absent => false,
            Stored::Value(text) | Stored::Part(text) => {
                let record: Result<Record, _> = serde_json::from_str(&text);
                !record.is_ok_and(|record| matches!(record.custody, Custody::Closed(_)))
            }
            Stored::Unreadable(_) => true,
        }
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the bot's account at this door.
    #[must_use]
    pub fn us() -> Person {
        Person::new(DOOR, US)
    }

    /// Adds a message to a session and returns the event for triage. Idempotent by `key`, also across restarts.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub(super) async fn says(
        &self,
        caller: &api_key::Caller,
        place: &Place,
        text: &str,
        wants: Wants,
        key: Option<&str>,
    ) -> Result<Posted, NotTaken> {
        if text.trim().is_empty() {
            return Err(NotTaken::Empty);
        }
        self.load_or_begin(place).await?;
        let (posted, writes) = {
            let mut inner = self.inner.lock();
            let number = inner.next_id(self.clock.now());
            let id = key.map_or_else(|| number.to_string(), |key| keyed(&place.id, key));
            let session = inner.session(place, self.clock.now());
            if let Some(known) = session.find(&id) {
                let (models, tools) = (wanted(caller, wants), caller.may(Right::Tools));
                return Ok(Posted { mentions_us: true, models, tools, ..known.clone() });
            }
            let posted = Posted {
                mentions_us: true,
                tools: caller.may(Right::Tools),
                models: wanted(caller, wants),
                ..self.posted(MessageId::new(DOOR, id), place, false, text)
            };
            let dropped = session.keep(StoredMessage { number, posted: posted.clone(), nonce: None, apology: false });
            let writes = self.written(place, session, number, dropped);
            inner.make_room();
            (posted, writes)
        };
        // The store keeps the order: the journal's record of the turn follows.
        drop(self.store.write(writes));
        Ok(posted)
    }

    pub(super) async fn has_message(&self, place: &Place, message: &str) -> bool {
        // A session that cannot be read has the messages that are cached here.
        let _ = self.load(place).await;
        self.inner.lock().known(place).is_some_and(|session| session.find(message).is_some())
    }

    pub(super) async fn message(&self, place: &Place, message: &str) -> Option<Posted> {
        // A session that cannot be read has the messages that are cached here.
        let _ = self.load(place).await;
        self.inner.lock().known(place)?.find(message).cloned()
    }

    /// Removes a message that was not accepted after all.
    pub(super) async fn was_not_said(&self, place: &Place, message: &str) {
        // It may be gone already.
        let _ = self.take_back(place, &MessageId::new(DOOR, message)).await;
    }

    /// Returns the event of a command in a session.
    pub(super) async fn runs(
        &self,
        caller: &api_key::Caller,
        place: &Place,
        name: String,
        options: commands::Options,
    ) -> Command {
        // A command also runs in a session that cannot be read.
        let _ = self.load(place).await;
        let id = self.inner.lock().next_id(self.clock.now()).to_string();
        // Operators may run `!sysprompt` and `/status`: both require this right, with or without a key.
        let operator = caller.may(Right::Operate);
        let person = owner_of(place);
        Command {
            // The answer finds its session by this token.
            callback: Callback {
                id: MessageId::new(DOOR, id),
                application: US.to_owned(),
                token: CallbackToken::new(place.id.to_string()),
            },
            name,
            options,
            named: Vec::new(),
            guild: Some(person.door.as_str().to_owned()),
            caller: Caller { person, name: "you".to_owned(), roles: Vec::new(), locale: None, operator },
            place: place.clone(),
            parent: None,
            at: self.clock.now(),
        }
    }

    fn posted(&self, id: MessageId, place: &Place, ours: bool, text: &str) -> Posted {
        let owner = owner_of(place);
        // A session is not a direct message: every caller of this door is answered.
        let guild = Some(owner.door.as_str().to_owned());
        let (person, name, kind) =
            if ours { (Self::us(), US, AuthorKind::Ourselves) } else { (owner, "you", AuthorKind::Member) };
        Posted {
            id,
            place: place.clone(),
            parent: None,
            guild,
            author: Author { person, name: name.to_owned(), roles: Vec::new(), joined: None, kind },
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
            models: WantedModels::default(),
            lineage: None,
        }
    }

    /// Like [`load`](Self::load), and creates a session that no longer exists.
    async fn load_or_begin(&self, place: &Place) -> Result<(), NotTaken> {
        if self.record(place).await?.is_none() {
            self.begin_again(place).await?;
        }
        self.load(place).await
    }

    /// Loads a session into memory unless it is cached. One that is no longer stored is removed. A session that changes
    /// during each of several reads stays as it is cached, which is newer.
    ///
    /// # Errors
    /// The session, or a line of it, cannot be read: a change would replace what was not read.
    async fn load(&self, place: &Place) -> Result<(), NotTaken> {
        for _ in 0..LOADS_MAX {
            let version = self.inner.lock().version(place);
            let Some(record) = self.record(place).await? else {
                self.over(place);
                return Ok(());
            };
            if self.inner.lock().is_current(place, &record) {
                return Ok(());
            }
            let lines = self.lines_of(place, &record).await?;
            let kept = lines.into_iter().map(|(number, line)| {
                let mut posted = self.posted(MessageId::new(DOOR, line.id), place, line.ours, &line.text);
                posted.at = Timestamp(line.at);
                posted.reply_to = line.answers.map(|id| Quoted { id: MessageId::new(DOOR, id), seen: None });
                StoredMessage { number, posted, nonce: line.nonce, apology: line.apology }
            });
            if self.inner.lock().fill(place, &record, kept.collect(), version) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the writes after a line was added or changed: the line, the session, and the evicted lines.
    fn written(&self, place: &Place, session: &memory::Session, number: u64, dropped: Vec<u64>) -> Vec<Write> {
        let person = owner_of(place);
        let ttl = Some((self.kept_for)());
        let line = |number| domain::keys::sessions::line(&person, place, number);
        let kept = session.line(number).map(|value| Write::Put { key: line(number), value, ttl });
        let gone = dropped.into_iter().map(|number| Write::Delete { key: line(number) });
        let key = domain::keys::sessions::session(&person, place);
        let about = Write::Put { key, value: session.record(self.clock.now()).to_json(), ttl };
        kept.into_iter().chain(gone).chain([about]).collect()
    }

    async fn create(
        &self,
        place: &Place,
        piece: &Piece,
        reply_to: Option<&MessageId>,
        nonce: &str,
    ) -> Result<MessageId, PostError> {
        self.load_or_begin(place).await.map_err(transient)?;
        let (id, writes) = {
            let mut inner = self.inner.lock();
            let number = inner.next_id(self.clock.now());
            let session = inner.session(place, self.clock.now());
            if let Some(known) = session.posted_as(nonce) {
                return Ok(known.id.clone());
            }
            let id = MessageId::new(DOOR, number.to_string());
            let reply_to = reply_to.map(|id| Quoted { id: id.clone(), seen: session.seen(id) });
            // Terminals do not render platform marks.
            let text = template::spelled_out(&piece.text, self.clock.now());
            let posted = Posted { reply_to, ..self.posted(id.clone(), place, true, &text) };
            let nonce = Some(nonce.to_owned());
            let dropped = session.keep(StoredMessage { number, posted, nonce, apology: piece.apology });
            let writes = self.written(place, session, number, dropped);
            inner.make_room();
            (id, writes)
        };
        drop(self.store.write(writes));
        Ok(id)
    }

    async fn edit(&self, place: &Place, message: &MessageId, text: &str) -> Result<MessageId, PostError> {
        self.load(place).await.map_err(transient)?;
        let writes = {
            let mut inner = self.inner.lock();
            let session = inner.known(place).ok_or_else(gone)?;
            let (number, dropped) = session.edit(message, text).ok_or_else(message_gone)?;
            let writes = self.written(place, session, number, dropped);
            inner.make_room();
            writes
        };
        drop(self.store.write(writes));
        Ok(message.clone())
    }

    async fn take_back(&self, place: &Place, message: &MessageId) -> Result<(), PostError> {
        self.load(place).await.map_err(transient)?;
        let writes = {
            let mut inner = self.inner.lock();
            let session = inner.known(place).ok_or_else(gone)?;
            match session.delete(message) {
                Some(number) => self.written(place, session, number, vec![number]),
                None => Vec::new(),
            }
        };
        drop(self.store.write(writes));
        Ok(())
    }

    async fn history(&self, place: &Place, range: &HistoryRange, limit: usize) -> Vec<Posted> {
        // A session that cannot be read has the messages that are cached here.
        let _ = self.load(place).await;
        let mut inner = self.inner.lock();
        let Some(session) = inner.known(place) else { return Vec::new() };
        let all: Vec<&Posted> = session.all().collect();
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
        Capabilities::replies(TEXT_LIMIT)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let result = match request {
            PostRequest::Create { place, piece, reply_to, nonce } => {
                PostResult::Message(self.create(place, piece, reply_to.as_ref(), nonce).await?)
            }
            PostRequest::Edit { place, message, piece } => {
                let text = template::spelled_out(&piece.text, self.clock.now());
                PostResult::Message(self.edit(place, message, &text).await?)
            }
            PostRequest::Delete { place, message } => {
                self.take_back(place, message).await?;
                PostResult::Done
            }
            PostRequest::History { place, range, limit } => {
                PostResult::Messages(self.history(place, range, usize::from(*limit)).await)
            }
            // There are no roles at this door.
            PostRequest::Roles(_) | PostRequest::AddRole(_) | PostRequest::RemoveRole(_) => PostResult::Absent,
            PostRequest::Fetch { place, message } => {
                let all = self.history(place, &HistoryRange::Newest, MESSAGES_MAX).await;
                PostResult::Messages(all.into_iter().filter(|posted| posted.id == *message).collect())
            }
            // The answer to a command is in the events, even if its session was deleted. Events show that a turn is in
            // progress; typing members get no suggestions.
            PostRequest::Respond { .. }
            | PostRequest::Typing { .. }
            | PostRequest::React { .. }
            | PostRequest::RegisterCommands(_)
            | PostRequest::Defer(_)
            | PostRequest::OpenForm { .. }
            | PostRequest::Suggest { .. }
            | PostRequest::FetchGuild { .. } => PostResult::Done,
        };
        Ok(PostReply { result, bucket: None })
    }
}

/// Returns the models that may answer this caller, with the requested options.
fn wanted(caller: &api_key::Caller, Wants { row, profile }: Wants) -> WantedModels {
    WantedModels { row, profile, among: caller.rows().to_vec() }
}

/// Returns the message id for a client's idempotency key.
pub(super) fn keyed(session: &str, key: &str) -> String {
    let digest = Sha256::digest(format!("{session}\0{key}"));
    digest.iter().take(16).fold("k".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}

fn transient(why: NotTaken) -> PostError {
    PostError::Transient(why.to_string())
}

fn message_gone() -> PostError {
    PostError::unsent(Rejection::MessageGone, "the message is no longer stored".to_owned())
}

fn gone() -> PostError {
    PostError::unsent(Rejection::PlaceGone, "the session is gone".to_owned())
}

#[cfg(test)]
mod tests;
