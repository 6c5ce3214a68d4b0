//! Lookup of sessions by name or number, and their visibility. A session belongs to the holder of a key, or to no
//! holder while there are no keys; operators see all.

use std::fmt;
use std::future::ready;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde::Serialize;

use super::memory::MESSAGES_MAX;
use super::record::{Line, Record};
use super::room::OWN_MAX;
use super::{DOOR, NotTaken, Sessions};
use domain::api_key::{Caller, HOLDERS, Right, is_name};
use domain::ids::{Person, Place};
use domain::keys::sessions as keys;
use domain::session_index::{Indexed, SessionIndex};
use ports::{Scanned, Stored, Write};

pub(super) const FIRST_NUMBER: u64 = 101;
/// Maximum length of a session's name.
const NAME_MAX: usize = 64;
/// The default preview length of tool calls, in characters.
const PREVIEW: usize = 500;
/// Maximum number of records read concurrently.
const READ_AT_ONCE: usize = 64;
/// The separator between the names of holder and session; not allowed in session names.
const OF: char = '.';
/// The suffix of a session's place if a renamed session still has the place of that name.
const AGAIN: char = '~';

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    /// Its place.
    pub place: Place,
    /// Its name for its owner.
    pub name: String,
    /// Its short number.
    pub number: u64,
}

/// A session in the list for clients.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    session: String,
    number: u64,
    messages: usize,
    /// Seconds since its last event.
    quiet_s: u64,
    /// The name of the owning key, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, number, messages, quiet_s, owner } = self;
        let owner = owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
        write!(f, "{number} {session}{owner}: {messages} messages, quiet for {quiet_s} s")
    }
}

/// A message of a session, for clients.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SessionMessage {
    message: String,
    /// True for messages of the bot.
    ours: bool,
    text: String,
    /// Its time, in milliseconds since the Unix epoch.
    at: u64,
    /// The id of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    apology: bool,
}

impl fmt::Display for SessionMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.ours { "bot" } else { "you" }, self.text)
    }
}

impl SessionMessage {
    /// Returns the answered message, the answer, and true for an apology.
    pub fn answer(&self) -> Option<(&str, &str, bool)> {
        let answers = self.answers.as_deref().filter(|_| self.ours)?;
        Some((answers, &self.text, self.apology))
    }
}

/// Returns the owner of a session, by its place.
pub fn owner_of(place: &Place) -> Person {
    match holder(place) {
        Some(name) => Person::new(HOLDERS, name),
        None => Person::new(DOOR, place.id.clone()),
    }
}

pub(super) fn holder(place: &Place) -> Option<&str> {
    place.id.rsplit_once(OF).map(|(holder, _)| holder)
}

fn place_of(caller: &Caller, name: &str) -> Place {
    match caller.person() {
        Some(person) => Place::new(DOOR, format!("{}{OF}{name}", person.id)),
        None => Place::new(DOOR, name),
    }
}

/// True if this may be the id of a place of this door: a session's name, prefixed by that of its key.
#[must_use]
pub fn is_place(id: &str) -> bool {
    let (holder, session) = id.rsplit_once(OF).map_or((None, id), |(holder, session)| (Some(holder), session));
    holder.is_none_or(is_name) && check_name(session).is_ok()
}

pub(super) fn check_name(session: &str) -> Result<(), NotTaken> {
    let usable = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let fits = !session.is_empty() && session.len() <= NAME_MAX && session.chars().all(usable);
    if fits { Ok(()) } else { Err(NotTaken::BadName) }
}

impl Sessions {
    /// Finds a session by name or number: one of the caller's own or, for operators, any.
    pub async fn find(&self, caller: &Caller, given: &str) -> Option<FoundSession> {
        let _share = self.share(caller).await;
        self.look_up(caller, given).await.ok().flatten()
    }

    /// Finds one of the caller's own sessions by name or number, for a caller who writes in it.
    ///
    /// # Errors
    /// It belongs to another holder, or cannot be read.
    pub async fn find_own(&self, caller: &Caller, given: &str) -> Result<Option<FoundSession>, NotTaken> {
        let _share = self.share(caller).await;
        self.own(caller, given).await
    }

    /// Like [`find`](Self::find), for a request that holds a share.
    ///
    /// # Errors
    /// The index has such a session, and its record cannot be read.
    async fn look_up(&self, caller: &Caller, given: &str) -> Result<Option<FoundSession>, NotTaken> {
        // The index decides about a place that cannot be read.
        if let Ok(Some(found)) = self.by_name(caller, given).await {
            return Ok(Some(found));
        }
        let mut end = Ok(None);
        let number: Option<u64> = given.parse().ok();
        let meant = |(place, session): &(Place, Indexed)| {
            let own = owner_of(place) == owner_of(&place_of(caller, given)) || caller.person().is_none();
            (own && session.name == given)
                || Some(session.number) == number
                || (given.contains(OF) && place.id == given)
        };
        for (place, _) in self.visible(caller).await.into_iter().filter(meant) {
            // The index may still contain an expired one.
            match self.record(&place).await {
                Ok(Some(record)) => return Ok(Some(found(&place, &record))),
                Ok(None) => {}
                Err(why) => end = Err(why),
            }
        }
        end
    }

    /// Returns the caller's own session of this name or number.
    ///
    /// # Errors
    /// It belongs to another holder, or cannot be read.
    async fn own(&self, caller: &Caller, given: &str) -> Result<Option<FoundSession>, NotTaken> {
        let is_own = |found: &FoundSession| match caller.person() {
            Some(person) => owner_of(&found.place) == person,
            None => holder(&found.place).is_none(),
        };
        let found = self.look_up(caller, given).await?;
        if found.as_ref().is_some_and(|found| !is_own(found)) { Err(NotTaken::NotTheirs) } else { Ok(found) }
    }

    /// Returns the caller's session of this name or number, creating it if necessary.
    ///
    /// # Errors
    /// The name is invalid, or the session belongs to another holder, or cannot be read.
    pub async fn open(&self, caller: &Caller, given: &str) -> Result<FoundSession, NotTaken> {
        check_name(given)?;
        let _share = self.share(caller).await;
        match self.own(caller, given).await? {
            Some(found) => Ok(found),
            None => self.begin(caller, given).await,
        }
    }

    /// Returns the member and place of a session of this name or number, existing or not.
    ///
    /// # Errors
    /// The name is invalid.
    pub async fn speaker(&self, caller: &Caller, given: &str) -> Result<(Person, Place), NotTaken> {
        let place = match self.find(caller, given).await {
            Some(found) => found.place,
            None => check_name(given).map(|()| place_of(caller, given))?,
        };
        Ok((owner_of(&place), place))
    }

    /// True if a message is in one of the caller's cached sessions or, for operators, in any.
    pub fn knows(&self, caller: &Caller, message: &str) -> bool {
        let person = owner_seen(caller);
        let inner = self.inner.lock();
        let mut own =
            inner.sessions.iter().filter(|(place, _)| person.as_ref().is_none_or(|person| owner_of(place) == *person));
        own.any(|(_, session)| session.find(message).is_some())
    }

    /// Returns the places of all sessions that a caller may see, as this process last read the index: it reads nothing
    /// once the index was read. Sessions that another process began since may be missing.
    pub async fn places(&self, caller: &Caller) -> Vec<Place> {
        let _share = self.share(caller).await;
        let index = self.last_index().await;
        seen(&index, caller).map(|(place, _)| place).collect()
    }

    async fn visible_places(&self, caller: &Caller) -> Vec<Place> {
        self.visible(caller).await.into_iter().map(|(place, _)| place).collect()
    }

    /// Returns all sessions that a caller may see, most recently used first.
    pub async fn list(&self, caller: &Caller) -> Vec<Listed> {
        let _share = self.share(caller).await;
        let mut all = self.records(self.visible_places(caller).await).await;
        all.sort_by_key(|(_, record)| (std::cmp::Reverse(record.touched_at), record.number));
        let now = self.now().0;
        let own = caller.person();
        let listed = |(place, record): (Place, Record)| Listed {
            session: record.name,
            number: record.number,
            messages: record.lines,
            quiet_s: now.saturating_sub(record.touched_at) / 1_000,
            owner: holder(&place).filter(|_| own.as_ref() != Some(&owner_of(&place))).map(str::to_owned),
        };
        all.into_iter().map(listed).collect()
    }

    /// Returns the number of sessions that a caller may see.
    pub async fn count(&self, caller: &Caller) -> usize {
        let _share = self.share(caller).await;
        let all = self.visible_places(caller).await;
        let doubtful = self.index().await.doubtful(self.now(), (self.kept_for)());
        let asked: Vec<Place> = all.iter().filter(|place| doubtful.contains(place.id.as_str())).cloned().collect();
        let over = asked.len() - self.records(asked).await.len();
        all.len() - over
    }

    /// Returns the messages of a session.
    pub async fn transcript(&self, place: &Place) -> Vec<SessionMessage> {
        let said = |(_, line): (u64, Line)| SessionMessage {
            message: line.id,
            ours: line.ours,
            text: line.text,
            at: line.at,
            answers: line.answers,
            apology: line.apology,
        };
        self.lines(place).await.into_iter().map(said).collect()
    }

    /// Renames a session.
    ///
    /// # Errors
    /// The name is invalid, or in use by another session of the owner; or a session cannot be read.
    pub async fn rename(&self, caller: &Caller, found: &FoundSession, name: &str) -> Result<(), NotTaken> {
        check_name(name)?;
        let _share = self.share(caller).await;
        let _alone = self.beginning.lock(holder(&found.place)).await;
        let others = self.index().await;
        let others = others.all().filter(|(_, session)| session.name == name).map(|(id, _)| Place::new(DOOR, id));
        let others = others.filter(|place| *place != found.place && holder(place) == holder(&found.place));
        if !self.all_records(others.collect()).await.ok_or(NotTaken::Away)?.is_empty() {
            return Err(NotTaken::NameTaken);
        }
        self.load(&found.place).await?;
        // A concurrent message is written after it, with the new name.
        let written = self.inner.lock().rename(&found.place, name).map(|record| self.put(&found.place, &record));
        if let Some(written) = written {
            written.await;
        }
        self.change_index(|index| index.rename(&found.place.id, name)).await;
        Ok(())
    }

    /// Returns the preview length of tool calls in a session, in characters.
    pub async fn preview(&self, place: &Place) -> usize {
        let here = self.inner.lock().known(place).map(|session| session.preview);
        let said = match here {
            Some(said) => said,
            None => self.record(place).await.ok().flatten().and_then(|record| record.preview),
        };
        said.unwrap_or(PREVIEW)
    }

    /// Sets the preview length.
    pub async fn show_of_calls(&self, place: &Place, preview: usize) {
        // Of a session that cannot be read, only a cached one is changed.
        let _ = self.load(place).await;
        let written = self.inner.lock().show(place, preview).map(|record| self.put(place, &record));
        if let Some(written) = written {
            written.await;
        }
    }

    /// Returns the record of a session; the cached one while the store does not return it.
    ///
    /// # Errors
    /// The record cannot be read and is not cached, so the session may exist.
    pub(super) async fn record(&self, place: &Place) -> Result<Option<Record>, NotTaken> {
        match self.stored_record(place).await {
            Err(why) => self.inner.lock().record(place).map(Some).ok_or(why),
            stored => stored,
        }
    }

    /// Returns the record of a session in the store.
    ///
    /// # Errors
    /// The record cannot be read.
    async fn stored_record(&self, place: &Place) -> Result<Option<Record>, NotTaken> {
        match self.store.read(&keys::session(&owner_of(place), place)).await {
            Stored::Absent => Ok(None),
            // A damaged record counts as missing.
            Stored::Value(text) | Stored::Part(text) => {
                Ok(serde_json::from_str(&text).ok().or_else(|| self.inner.lock().record(place)))
            }
            Stored::Unreadable(_) => Err(NotTaken::Away),
        }
    }

    /// Returns the stored messages of a session, by number; none if the session cannot be read.
    pub(super) async fn lines(&self, place: &Place) -> Vec<(u64, Line)> {
        match self.record(place).await {
            Ok(Some(record)) => self.read_lines(place, &record).await.0,
            Ok(None) | Err(_) => Vec::new(),
        }
    }

    /// Returns the stored messages of this record, by number.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(super) async fn lines_of(&self, place: &Place, record: &Record) -> Result<Vec<(u64, Line)>, NotTaken> {
        let (lines, are_all) = self.read_lines(place, record).await;
        if are_all { Ok(lines) } else { Err(NotTaken::Away) }
    }

    /// Returns the readable messages of this record, and true if there are no others.
    async fn read_lines(&self, place: &Place, record: &Record) -> (Vec<(u64, Line)>, bool) {
        let person = owner_of(place);
        if !record.is_numbered() {
            return self.stored_lines(place).await.into_parts();
        }
        let read = async |number: u64| (number, self.store.read(&keys::line(&person, place, number)).await);
        let mut read = stream::iter(record.numbers.iter().copied()).map(read).buffered(READ_AT_ONCE);
        let (mut lines, mut are_all) = (Vec::with_capacity(record.numbers.len()), true);
        while let Some((number, stored)) = read.next().await {
            are_all &= !matches!(stored, Stored::Unreadable(_));
            // A line may expire before its session.
            lines.extend(stored.value().and_then(|text| Some((number, serde_json::from_str(&text).ok()?))));
        }
        (lines, are_all)
    }

    /// Returns the stored messages of a session, also those missing in its record.
    pub(super) async fn stored_lines(&self, place: &Place) -> Scanned<Vec<(u64, Line)>> {
        let prefix = keys::lines_in(&owner_of(place), place);
        let scanned = self.store.scan(&prefix, 2 * MESSAGES_MAX).await;
        let line = |(key, value): &(String, String)| {
            Some((key.strip_prefix(&prefix)?.parse().ok()?, serde_json::from_str(value).ok()?))
        };
        scanned.map(|stored| stored.iter().filter_map(line).collect())
    }

    /// Returns the records of these sessions; expired and unreadable ones are left out.
    pub(super) async fn records(&self, places: Vec<Place>) -> Vec<(Place, Record)> {
        let read = async |place: Place| Some((self.record(&place).await.ok()??, place));
        let records = stream::iter(places).map(read).buffered(READ_AT_ONCE).filter_map(ready);
        records.map(|(record, place)| (place, record)).collect().await
    }

    /// Like [`records`](Self::records), as they are stored; `None` if one cannot be read, so that it may exist.
    pub(super) async fn all_records(&self, places: Vec<Place>) -> Option<Vec<(Place, Record)>> {
        let read = async |place: Place| {
            let stored = self.stored_record(&place).await.ok()?;
            Some(stored.map(|record| (place, record)))
        };
        let read: Vec<Option<Option<(Place, Record)>>> =
            stream::iter(places).map(read).buffered(READ_AT_ONCE).collect().await;
        let known: Option<Vec<Option<(Place, Record)>>> = read.into_iter().collect();
        Some(known?.into_iter().flatten().collect())
    }

    /// Creates a session again that had ended.
    ///
    /// # Errors
    /// Too many sessions are being created at the same time, or the session cannot be read.
    pub(super) async fn begin_again(&self, place: &Place) -> Result<(), NotTaken> {
        let name = place.id.rsplit(OF).next().unwrap_or_default();
        let name = name.split(AGAIN).next().unwrap_or_default().to_owned();
        let _alone = self.beginning.lock(holder(place)).await;
        if self.record(place).await?.is_some() {
            return Ok(());
        }
        self.enter(place, name).await.map(drop)
    }

    async fn by_name(&self, caller: &Caller, given: &str) -> Result<Option<FoundSession>, NotTaken> {
        if check_name(given).is_err() {
            return Ok(None);
        }
        let place = place_of(caller, given);
        let Some(record) = self.record(&place).await?.filter(|record| record.name == given) else { return Ok(None) };
        self.is_there(&place, &record).await;
        Ok(Some(found(&place, &record)))
    }

    async fn begin(&self, caller: &Caller, name: &str) -> Result<FoundSession, NotTaken> {
        let mut place = place_of(caller, name);
        let _alone = self.beginning.lock(holder(&place)).await;
        // Another request may have created it meanwhile.
        let begun = match self.by_name(caller, name).await {
            Ok(found) => found,
            // Its place is another one then.
            Err(_) => self.own(caller, name).await?,
        };
        if let Some(found) = begun {
            return Ok(found);
        }
        // A renamed session keeps its place.
        for again in 2..=OWN_MAX {
            match self.record(&place).await {
                Ok(None) => break,
                Ok(Some(_)) => place = place_of(caller, &format!("{name}{AGAIN}{again}")),
                // The place may have a session that another process began. One that was never used has none.
                Err(_) => {
                    let unused = self.inner.lock().next_id(self.now());
                    place = place_of(caller, &format!("{name}{AGAIN}{unused}"));
                    break;
                }
            }
        }
        let record = self.enter(&place, name.to_owned()).await?;
        Ok(found(&place, &record))
    }

    async fn enter(&self, place: &Place, name: String) -> Result<Record, NotTaken> {
        self.sweep().await;
        let now = self.now().0;
        let number = self.number(place, &name, now).await?;
        let record = Record { name, number, touched_at: now, lines: 0, numbers: Vec::new(), preview: None };
        self.put(place, &record).await;
        // It goes on here also if the store does not return it.
        let version = self.inner.lock().version(place);
        self.inner.lock().fill(place, &record, Vec::new(), version);
        self.make_room(place).await;
        Ok(record)
    }

    /// Stores a session; it is visible to other processes when this returns.
    fn put(&self, place: &Place, record: &Record) -> BoxFuture<'static, bool> {
        let key = keys::session(&owner_of(place), place);
        let ttl = Some((self.kept_for)());
        self.store.commit(vec![Write::Put { key, value: record.to_json(), ttl }])
    }

    async fn visible(&self, caller: &Caller) -> Vec<(Place, Indexed)> {
        let index = self.index().await;
        seen(&index, caller).map(|(place, session)| (place, session.clone())).collect()
    }
}

/// Returns the owner of the sessions that a caller may see; `None` for all.
fn owner_seen(caller: &Caller) -> Option<Person> {
    caller.person().filter(|_| !caller.may(Right::Operate))
}

/// Returns the indexed sessions that a caller may see.
fn seen<'a>(index: &'a SessionIndex, caller: &Caller) -> impl Iterator<Item = (Place, &'a Indexed)> {
    let person = owner_seen(caller);
    let all = index.all().map(|(id, session)| (Place::new(DOOR, id), session));
    all.filter(move |(place, _)| person.as_ref().is_none_or(|person| owner_of(place) == *person))
}

fn found(place: &Place, record: &Record) -> FoundSession {
    FoundSession { place: place.clone(), name: record.name.clone(), number: record.number }
}
