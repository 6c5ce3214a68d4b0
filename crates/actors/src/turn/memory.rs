//! The history that a turn loads, and the exchange that it adds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;

use super::parts::TurnParts;
use super::tally::Tally;
use super::{TurnTask, earlier};
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::OutboxMsg;
use crate::services::experiments;
use crate::services::forgotten::{Forgotten, HistoryRead, Moment, Question, StoredWishes};
use crate::services::histories;
use crate::services::preferences;
use crate::services::recorded;
use crate::services::running::Running;
use domain::fact::prompt::{RECALL_TOOL, block};
use domain::forgetting::Forgetting;
use domain::history::{History, HistoryEntry};
use domain::ids::{MessageId, Person, Place, Timestamp, TurnId};
use domain::incoming::{Quoted, Seen};
use domain::keys;
use domain::preferences::{Preferences, Record, ToolUse};
use domain::tool::OnBehalf;
use domain::tool::rights::Verdict;
use domain::turn::{Exchange, HistoryScope, Policy, Turn};
use ports::{PostRequest, PostResult, Store, Stored, Write};
use telemetry::events::STORE_CORRUPT;

/// The timeout for fetching a quoted message; after that the message counts as unavailable.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for the end of the turn whose answer this turn replies to.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The context loaded before the model is called.
pub(super) struct Recalled {
    /// The conversation so far, with the exchange that the trigger replies to if it fits.
    pub history: History,
    /// That exchange.
    pub referred: Vec<HistoryEntry>,
    /// The message that the trigger replies to, unless its exchange is now part of the history.
    pub quoted: Option<Quoted>,
    /// The time of the read: deletions requested later are not applied to it yet.
    pub read: Moment,
}

/// Puts the member's settings into force, and sets the row of a turn if it is not the first one. If they cannot be read
/// in time, features that the member may have disabled are off.
pub(super) async fn prefer(parts: &TurnParts, running: &Running, turn: &mut Arc<Turn>, tally: &Tally) {
    if running.has_preferences(turn) && turn.policy.preferences.is_empty() {
        let record = if running.reads_preferences(turn) { record(parts, turn).await } else { Record::default() };
        if !running.settings.llm.experiments.is_empty() {
            let is_chosen = running.has_chosen_model(&record, turn);
            tally.joins(experiments::choose(running, Arc::make_mut(turn), is_chosen));
        }
        let (parent, guild) = (turn.parent.as_ref(), turn.guild.as_deref());
        let chosen = running.preferences(&record, &turn.place, parent, guild, &turn.roles);
        if !chosen.is_empty() {
            apply(chosen, Arc::make_mut(turn));
        }
    }
    if let Some(allowed) = allowed_row(running, &turn.policy) {
        Arc::make_mut(turn).policy.model = Some(allowed);
    }
}

async fn record(parts: &TurnParts, turn: &Turn) -> Record {
    let key = keys::preferences(turn.linked.lead(&turn.person));
    let read = tokio::time::timeout(FETCH_TIMEOUT, preferences::stored(&*parts.basics.store, &key));
    read.await.ok().flatten().unwrap_or_else(|| {
        let member = &turn.person;
        tracing::warn!(%member, "the member's settings cannot be read; features that the member may have disabled are off for this turn");
        Record::unread()
    })
}

/// Applies settings to a turn.
fn apply(chosen: Preferences, turn: &mut Turn) {
    let policy = &mut turn.policy;
    if policy.model.is_none() {
        policy.model.clone_from(&chosen.model);
    }
    if chosen.tools == Some(ToolUse::Off) {
        policy.tools = false;
    }
    if !chosen.remembers() && policy.history == HistoryScope::PersonInPlace {
        policy.history = HistoryScope::Nothing;
    }
    if chosen.language.is_some() {
        turn.locale.clone_from(&chosen.language);
    }
    *policy.preferences = chosen;
}

/// Returns the first permitted row if the requested row is not permitted.
fn allowed_row(running: &Running, policy: &Policy) -> Option<String> {
    let rows = running.models.rows();
    let asked = policy.model.as_ref().or_else(|| rows.first().map(|row| &row.key));
    if policy.among.is_empty() || asked.is_some_and(|key| policy.among.contains(key)) {
        return None;
    }
    rows.iter().find(|row| policy.among.contains(&row.key)).map(|row| row.key.clone())
}

/// Records the requests to forget this question that are in the store: an earlier process may have handled them.
/// If they cannot be read in time, the check after the save removes the exchange.
pub(super) async fn take_up_requests(parts: &TurnParts, turn: &Turn) {
    let Turn { person, place, at, .. } = turn;
    let question = Question { person, place, at: *at };
    let reading = parts.facts.forgotten().take_up(&*parts.basics.store, parts.basics.clock.now(), question);
    let _ = tokio::time::timeout(FETCH_TIMEOUT, reading).await;
}

/// Loads the conversation, and resolves the message that the trigger replies to: an answer of the bot is merged with
/// its question, a message of another author is quoted.
pub(super) async fn recall(parts: &TurnParts, running: &Running, turn: &Turn) -> Recalled {
    let read = parts.facts.forgotten().now();
    let mut history = match turn.policy.history {
        HistoryScope::PersonInPlace => load(parts, turn).await,
        HistoryScope::Nothing | HistoryScope::Given | HistoryScope::Forgotten => History::default(),
    };
    // A resumed turn may have saved its exchange in a previous life.
    history.forget(&turn.asked(), turn.at);
    let referred = Vec::new();
    let Some(quoted) = quoted(parts, turn).await else { return Recalled { history, referred, quoted: None, read } };
    if let Some(seen) = &quoted.seen
        && seen.ours
        && turn.policy.preferences.remembers()
        && let Some(known) = answered(parts, &turn.place, &quoted.id, seen).await
        && let Ok(exchange) = serde_json::from_str(&known)
    {
        let referred = history.merge(&exchange, &turn.person, running.settings.history.max_messages);
        return Recalled { history, referred, quoted: None, read };
    }
    Recalled { history, referred, quoted: Some(quoted), read }
}

/// Returns the message that the trigger replies to, as far as it can be read. It is fetched if the platform sent only
/// its id.
pub(super) async fn quoted(parts: &TurnParts, turn: &Turn) -> Option<Quoted> {
    let Quoted { id, seen } = turn.quoted.as_ref()?;
    let seen = match seen {
        Some(seen) => Some(seen.clone()),
        None => fetch(parts, turn, id).await,
    };
    Some(Quoted { id: id.clone(), seen })
}

/// Returns the record of the exchange that a message of the bot answered. A quick reply can arrive before the journal
/// records the post; a draft can be replied to while it is still being written.
async fn answered(parts: &TurnParts, place: &Place, message: &MessageId, seen: &Seen) -> Option<String> {
    let key = keys::answered(message);
    if let Some(known) = parts.basics.store.get(&key).await {
        return Some(known);
    }
    // A message of the bot that replies to nothing is an interjection.
    let turn = seen.answers.as_ref().map(TurnId::of).or_else(|| parts.shared.interjections.last(place))?;
    let ask = |reply| JournalMsg::TellWhenClosed(turn, reply);
    // The store is read regardless of the reply.
    let _ = parts.neighbors.journal.call(ask, CLOSE_TIMEOUT).await;
    parts.basics.store.get(&key).await
}

/// Adds a completed exchange to the history as it was read. The write is visible at once, so that the lane's next turn
/// reads it. Content whose deletion was requested in the meantime is left out.
pub(super) fn remember(
    parts: &TurnParts,
    running: &Running,
    turn: &Turn,
    exchange: &Exchange,
    mut history: History,
    read: Moment,
) {
    let settings = &running.settings.history;
    let ttl = (!settings.ttl.is_zero()).then_some(settings.ttl);
    let key = keys::history(&turn.person, &turn.place);
    let sent = {
        let saving = parts.facts.forgotten().saving();
        if saving.covers(turn) {
            return;
        }
        saving.clean(&turn.person, &turn.place, read, &mut history);
        history.add(exchange, settings.max_messages);
        // A deletion by the author of quoted text must find this history.
        let quote = |person: &Person| keys::quote_of(person, &key);
        let quotes = others(turn, &history).map(|person| Write::Put { key: quote(&person), value: String::new(), ttl });
        let mut writes: Vec<Write> = quotes.collect();
        writes.push(histories::write(key.clone(), &history, ttl));
        writes.extend(earlier::writes(running, turn, &history, &key));
        writes.extend(recorded::write(running, turn));
        parts.basics.store.send(writes)
    };
    earlier::saved(parts, running, turn, &history);
    let check = Check {
        store: Arc::clone(&parts.basics.store),
        forgotten: Arc::clone(parts.facts.forgotten()),
        now: parts.basics.clock.now(),
        person: turn.person.clone(),
        place: turn.place.clone(),
        asked: (exchange.asked.clone(), turn.at),
        others: others(turn, &history).collect(),
        recorded: recorded::slots(running).map(|slots| (slots, turn.id.trigger())),
        read,
        key,
        ttl,
    };
    // Runs in the background; the store bounds each of its reads. A deletion requested after this check finds the saved
    // history and removes the content itself.
    tokio::spawn(async move {
        sent.await;
        check.run().await;
    });
}

/// Adds the calls that changed something to the history of an interrupted answer, if it is remembered.
pub(super) async fn remember_acts(parts: &TurnParts, running: &Running, turn: &Turn) {
    let acts = parts.shared.acts.of(&turn.id);
    if acts.is_empty() {
        return;
    }
    let ttl = running.settings.history.ttl;
    let (key, ttl) = (keys::history(&turn.person, &turn.place), (!ttl.is_zero()).then_some(ttl));
    histories::change(&*parts.basics.store, &key, ttl, |history| history.tell_acts(turn.at, &acts)).await;
}

/// Returns the members at this door whose text the history quotes.
fn others<'a>(turn: &'a Turn, history: &'a History) -> impl Iterator<Item = Person> + 'a {
    history.others().into_iter().map(|id| Person::new(turn.person.door.clone(), id))
}

/// A check for deletions that another process requested for the saved content.
struct Check {
    store: Arc<dyn Store>,
    forgotten: Arc<Forgotten>,
    now: Timestamp,
    person: Person,
    place: Place,
    /// The saved question, and the time at which it was asked.
    asked: (String, Timestamp),
    others: Vec<Person>,
    /// The slots of recorded questions, and the message, if questions are recorded.
    recorded: Option<(usize, MessageId)>,
    read: Moment,
    key: String,
    ttl: Option<Duration>,
}

impl Check {
    async fn run(self) {
        let Self { store, forgotten, key, asked: (question, at), .. } = &self;
        let asked = Question { person: &self.person, place: &self.place, at: *at };
        let history = HistoryRead { others: &self.others, read: self.read };
        let wished = StoredWishes::of(&**store, self.now, asked, history).await;
        if !wished.covers && wished.later().next().is_none() {
            return;
        }
        if let Some((slots, message)) = self.recorded.as_ref().filter(|_| wished.covers) {
            recorded::withdraw(&**store, Some(*slots), message).await;
        }
        // Turns in flight leave the content out as well.
        wished.later().for_each(|wish| forgotten.wish(&wish.person, wish.place.as_ref(), wish.cut));
        let clean = |history: &mut History| {
            if wished.covers {
                history.forget(question, *at);
            }
            wished.clean(history);
        };
        histories::change(&**store, key, self.ttl, clean).await;
    }
}

impl TurnTask<'_> {
    /// Returns the member's facts as a block of a prompt, read once for a turn. `None` if there are none, if nothing of
    /// the turn is remembered, or if the rules deny the member the tool that searches facts.
    pub(super) async fn facts(&self) -> Option<&str> {
        let Self { parts, turn, tools, .. } = self;
        let read = async {
            let finder = tools.set.catalogue.get(RECALL_TOOL);
            let may =
                |entry| tools.access.sees(entry) && tools.access.decide(entry, &Map::new()).verdict == Verdict::Auto;
            let kept = turn.policy.preferences.remembers();
            if !turn.trigger.is_asked() || !kept || finder.is_some_and(|entry| !may(entry)) {
                return None;
            }
            // If the read times out, the question is answered without facts.
            let asked = OnBehalf::of(turn, None);
            let facts = parts.facts.recall(&asked, &turn.text);
            block(&tokio::time::timeout(FETCH_TIMEOUT, facts).await.unwrap_or_default())
        };
        self.facts.get_or_init(|| read).await.as_deref()
    }
}

/// Loads the conversation so far.
pub(super) async fn load(parts: &TurnParts, turn: &Turn) -> History {
    let key = keys::history(&turn.person, &turn.place);
    let (stored, is_part) = match parts.basics.store.read(&key).await {
        Stored::Absent => return History::default(),
        Stored::Value(text) => (text, false),
        Stored::Part(text) => (text, true),
        Stored::Unreadable(why) => {
            tracing::warn!(key, reason = %why, "the history cannot be read: a turn is answered without it, and it is kept");
            return History::unread();
        }
    };
    match History::parse(&stored) {
        Ok(parsed) => {
            if parsed.dropped > 0 {
                tracing::warn!(
                    event = STORE_CORRUPT,
                    key,
                    dropped = parsed.dropped,
                    "history entries could not be read"
                );
            }
            if is_part { parsed.history.as_part() } else { parsed.history }
        }
        Err(error) => {
            let aside = keys::quarantine(&key);
            tracing::error!(event = STORE_CORRUPT, key, aside, %error, "the history cannot be read; it is set aside");
            drop(parts.basics.store.write(vec![Write::quarantine(&key, stored)]));
            History::default()
        }
    }
}

async fn fetch(parts: &TurnParts, turn: &Turn, message: &MessageId) -> Option<Seen> {
    let request = PostRequest::Fetch { place: turn.place.clone(), message: message.clone() };
    let ask = |reply| OutboxMsg::Read(request, reply);
    let Ok(Ok(PostResult::Messages(messages))) =
        parts.neighbors.outboxes.of(&turn.place.door).call(ask, FETCH_TIMEOUT).await
    else {
        return None;
    };
    messages.into_iter().next().map(Seen::from)
}
