//! Which session is meant, and who may see it. A session belongs to the holder of a key or, while there are no keys, to nobody in
//! particular; whoever operates the bot sees all.

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
use domain::session_index::Indexed;
use ports::{StoreStatus, Write};

/// The number of the first session.
pub(super) const FIRST_NUMBER: u64 = 101;
/// The longest name of a session.
const NAME_MAX: usize = 64;
/// How many characters of calls of tools are shown where nobody said anything else.
const PREVIEW: usize = 500;
/// How many records are read side by side.
const READ_AT_ONCE: usize = 64;
/// What stands between the name of a holder and that of a session, in no name of a session.
const OF: char = '.';
/// What stands behind the name of a session whose place another one has that was renamed.
const AGAIN: char = '~';

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it takes place.
    pub place: Place,
    /// By which its owner calls it.
    pub name: String,
    /// Short for its name.
    pub number: u64,
}

/// A session, as clients are told of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    session: String,
    /// Short for its name.
    number: u64,
    messages: usize,
    /// Seconds since something happened in it.
    quiet_s: u64,
    /// The name of the key that it belongs to, where that is another one.
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

/// A message of a session, as clients are told of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Said {
    message: String,
    /// It is one of ours.
    ours: bool,
    text: String,
    /// When it was said, in milliseconds since the Unix epoch.
    at: u64,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<String>,
    /// It says that there is no answer, or no better one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    apology: bool,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.ours { "bot" } else { "you" }, self.text)
    }
}

impl Said {
    /// The message that it answers, the answer, and whether it is an apology.
    pub fn answer(&self) -> Option<(&str, &str, bool)> {
        let answers = self.answers.as_deref().filter(|_| self.ours)?;
        Some((answers, &self.text, self.apology))
    }
}

/// Who speaks in a session: its place says it.
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

/// Whether a place of this id can be one of this door: the name of a session, behind that of the key whose own it is.
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
    /// The session that a caller means by its name or its number: one of their own or, for whoever operates the bot, any.
    pub async fn find(&self, caller: &Caller, given: &str) -> Option<Found> {
        if let Some(found) = self.by_name(caller, given).await {
            return Some(found);
        }
        let number: Option<u64> = given.parse().ok();
        let meant = |(place, session): &(Place, Indexed)| {
            let own = owner_of(place) == owner_of(&place_of(caller, given)) || caller.person().is_none();
            (own && session.name == given)
                || Some(session.number) == number
                || (given.contains(OF) && place.id == given)
        };
        for (place, _) in self.visible(caller).await.into_iter().filter(meant) {
            // One that is over may be in the index still.
            if let Some(record) = self.record(&place).await {
                return Some(found(&place, &record));
            }
        }
        None
    }

    /// The caller's own session of this name or number; one that is not there begins.
    ///
    /// # Errors
    /// The name is not usable, or the session is another one's.
    pub async fn open(&self, caller: &Caller, given: &str) -> Result<Found, NotTaken> {
        check_name(given)?;
        let own = |found: &Found| match caller.person() {
            Some(person) => owner_of(&found.place) == person,
            None => holder(&found.place).is_none(),
        };
        match self.find(caller, given).await {
            Some(found) if own(&found) => Ok(found),
            Some(_) => Err(NotTaken::NotTheirs),
            None => self.begin(caller, given).await,
        }
    }

    /// Who speaks in a session of this name or number, and where: in one that there is or, for a name that is free, would begin.
    ///
    /// # Errors
    /// The name is not usable.
    pub async fn speaker(&self, caller: &Caller, given: &str) -> Result<(Person, Place), NotTaken> {
        let place = match self.find(caller, given).await {
            Some(found) => found.place,
            None => check_name(given).map(|()| place_of(caller, given))?,
        };
        Ok((owner_of(&place), place))
    }

    /// Whether a caller knows a message: it is one of their own sessions or, for whoever operates the bot, any.
    pub fn knows(&self, caller: &Caller, message: &str) -> bool {
        let Some(person) = caller.person().filter(|_| !caller.may(Right::Operate)) else { return true };
        let inner = self.inner.lock();
        let mut own = inner.sessions.iter().filter(|(place, _)| owner_of(place) == person);
        own.any(|(_, session)| session.find(message).is_some())
    }

    /// The places of all sessions that a caller may see.
    pub async fn places(&self, caller: &Caller) -> Vec<Place> {
        self.visible(caller).await.into_iter().map(|(place, _)| place).collect()
    }

    /// All sessions that a caller may see, the one that something happened in last first.
    pub async fn list(&self, caller: &Caller) -> Vec<Listed> {
        let mut all = self.records(self.places(caller).await).await;
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

    /// How many sessions a caller may see.
    pub async fn count(&self, caller: &Caller) -> usize {
        let all = self.places(caller).await;
        let doubtful = self.index().await.doubtful(self.now(), (self.kept_for)());
        let asked: Vec<Place> = all.iter().filter(|place| doubtful.contains(place.id.as_str())).cloned().collect();
        let over = asked.len() - self.records(asked).await.len();
        all.len() - over
    }

    /// What was said in a session.
    pub async fn transcript(&self, place: &Place) -> Vec<Said> {
        let said = |(_, line): (u64, Line)| Said {
            message: line.id,
            ours: line.ours,
            text: line.text,
            at: line.at,
            answers: line.answers,
            apology: line.apology,
        };
        self.lines(place).await.into_iter().map(said).collect()
    }

    /// Gives a session another name.
    ///
    /// # Errors
    /// The name is not usable, or that of another session of the same owner.
    pub async fn rename(&self, found: &Found, name: &str) -> Result<(), NotTaken> {
        check_name(name)?;
        let _alone = self.beginning.lock().await;
        let others = self.index().await;
        let others = others.all().filter(|(_, session)| session.name == name).map(|(id, _)| Place::new(DOOR, id));
        let others = others.filter(|place| *place != found.place && holder(place) == holder(&found.place));
        if !self.records(others.collect()).await.is_empty() {
            return Err(NotTaken::NameTaken);
        }
        self.load(&found.place).await;
        // What is said at the same time is written behind it, with the new name.
        let written = self.inner.lock().rename(&found.place, name).map(|record| self.put(&found.place, &record));
        if let Some(written) = written {
            written.await;
        }
        self.change_index(|index| index.rename(&found.place.id, name)).await;
        Ok(())
    }

    /// How many characters of calls of tools those who read along in a session are shown.
    pub async fn preview(&self, place: &Place) -> usize {
        let here = self.inner.lock().known(place).map(|session| session.preview);
        let said = match here {
            Some(said) => said,
            None => self.record(place).await.and_then(|record| record.preview),
        };
        said.unwrap_or(PREVIEW)
    }

    /// Shows so many of them from now on.
    pub async fn show_of_calls(&self, place: &Place, preview: usize) {
        self.load(place).await;
        let written = self.inner.lock().show(place, preview).map(|record| self.put(place, &record));
        if let Some(written) = written {
            written.await;
        }
    }

    /// A session as it is stored.
    pub(super) async fn record(&self, place: &Place) -> Option<Record> {
        match self.store.get(&keys::session(&owner_of(place), place)).await {
            // Nor does one that tells what cannot be read.
            Some(stored) => serde_json::from_str(&stored).ok().or_else(|| self.inner.lock().record(place)),
            // A store that is away forgets nothing of what is in memory.
            None if self.store.status() != StoreStatus::Ready => self.inner.lock().record(place),
            None => None,
        }
    }

    /// The messages of a session as they are stored, by their numbers.
    pub(super) async fn lines(&self, place: &Place) -> Vec<(u64, Line)> {
        match self.record(place).await {
            Some(record) => self.lines_of(place, &record).await,
            None => Vec::new(),
        }
    }

    /// The same of one with this record.
    pub(super) async fn lines_of(&self, place: &Place, record: &Record) -> Vec<(u64, Line)> {
        let person = owner_of(place);
        if record.is_numbered() {
            let read = async |number: u64| {
                let stored = self.store.get(&keys::line(&person, place, number)).await?;
                Some((number, serde_json::from_str(&stored).ok()?))
            };
            // A line may be over before its session is.
            let lines = stream::iter(record.numbers.iter().copied()).map(read).buffered(READ_AT_ONCE);
            return lines.filter_map(ready).collect().await;
        }
        self.stored_lines(place).await
    }

    /// The messages of a session that are stored, whether its record names them or not.
    pub(super) async fn stored_lines(&self, place: &Place) -> Vec<(u64, Line)> {
        let prefix = keys::lines_in(&owner_of(place), place);
        let stored = self.store.scan(&prefix, 2 * MESSAGES_MAX).await;
        let line = |(key, value): &(String, String)| {
            Some((key.strip_prefix(&prefix)?.parse().ok()?, serde_json::from_str(value).ok()?))
        };
        stored.iter().filter_map(line).collect()
    }

    /// The records of these sessions; those that are over have none.
    pub(super) async fn records(&self, places: Vec<Place>) -> Vec<(Place, Record)> {
        let read = async |place: Place| Some((self.record(&place).await?, place));
        let records = stream::iter(places).map(read).buffered(READ_AT_ONCE).filter_map(ready);
        records.map(|(record, place)| (place, record)).collect().await
    }

    /// The same; none when the store was away meanwhile, and it is not known which of them are over.
    pub(super) async fn all_records(&self, places: Vec<Place>) -> Option<Vec<(Place, Record)>> {
        if !self.is_ready() {
            return None;
        }
        let read = async |place: Place| match self.record(&place).await {
            Some(record) => Some(Some((place, record))),
            None => self.is_ready().then_some(None),
        };
        let read: Vec<Option<Option<(Place, Record)>>> =
            stream::iter(places).map(read).buffered(READ_AT_ONCE).collect().await;
        let known: Option<Vec<Option<(Place, Record)>>> = read.into_iter().collect();
        Some(known.filter(|_| self.is_ready())?.into_iter().flatten().collect())
    }

    /// Begins a session anew that something is said in after it was over.
    ///
    /// # Errors
    /// Too many others begin at the same moment.
    pub(super) async fn begin_again(&self, place: &Place) -> Result<(), NotTaken> {
        let name = place.id.rsplit(OF).next().unwrap_or_default();
        let name = name.split(AGAIN).next().unwrap_or_default().to_owned();
        let _alone = self.beginning.lock().await;
        if self.record(place).await.is_some() {
            return Ok(());
        }
        self.enter(place, name).await.map(drop)
    }

    async fn by_name(&self, caller: &Caller, given: &str) -> Option<Found> {
        check_name(given).ok()?;
        let place = place_of(caller, given);
        let record = self.record(&place).await.filter(|record| record.name == given)?;
        self.is_there(&place, &record).await;
        Some(found(&place, &record))
    }

    async fn begin(&self, caller: &Caller, name: &str) -> Result<Found, NotTaken> {
        let _alone = self.beginning.lock().await;
        // Another request may have begun it meanwhile.
        if let Some(found) = self.by_name(caller, name).await {
            return Ok(found);
        }
        let mut place = place_of(caller, name);
        // A session that was renamed keeps its place.
        for again in 2..=OWN_MAX {
            if self.record(&place).await.is_none() {
                break;
            }
            place = place_of(caller, &format!("{name}{AGAIN}{again}"));
        }
        let record = self.enter(&place, name.to_owned()).await?;
        Ok(found(&place, &record))
    }

    /// Writes down that a session begins.
    async fn enter(&self, place: &Place, name: String) -> Result<Record, NotTaken> {
        self.sweep().await;
        let now = self.now().0;
        let number = self.number(place, &name, now).await?;
        let record = Record { name, number, touched_at: now, lines: 0, numbers: Vec::new(), preview: None };
        self.put(place, &record).await;
        self.make_room(place).await;
        Ok(record)
    }

    /// Writes down a session; it is visible to others when this returns.
    fn put(&self, place: &Place, record: &Record) -> BoxFuture<'static, bool> {
        let key = keys::session(&owner_of(place), place);
        let ttl = Some((self.kept_for)());
        self.store.commit(vec![Write::Put { key, value: record.to_json(), ttl }])
    }

    async fn visible(&self, caller: &Caller) -> Vec<(Place, Indexed)> {
        let person = caller.person().filter(|_| !caller.may(Right::Operate));
        let index = self.index().await;
        let all = index.all().map(|(id, session)| (Place::new(DOOR, id), session.clone()));
        all.filter(|(place, _)| person.as_ref().is_none_or(|person| owner_of(place) == *person)).collect()
    }
}

fn found(place: &Place, record: &Record) -> Found {
    Found { place: place.clone(), name: record.name.clone(), number: record.number }
}
