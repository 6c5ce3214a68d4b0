//! What a turn remembers and adds to memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;

use super::{Thinking, TurnParts};
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::OutboxMsg;
use crate::services::forgotten::{Forgotten, Moment, StoredWishes};
use crate::services::running::Running;
use domain::command::preferences::Preferences;
use domain::fact::prompt::{RECALL_TOOL, block};
use domain::history::{Entry, History};
use domain::ids::{MessageId, Person, Place, Timestamp, TurnId};
use domain::incoming::{Quoted, Seen};
use domain::keys;
use domain::tool::OnBehalf;
use domain::tool::rights::Verdict;
use domain::turn::{Exchange, HistoryScope, Policy, Turn};
use ports::{PostRequest, PostResult, Store, Write};

/// How long a quoted message may take to be fetched; after that it is called unavailable.
const FETCH_WITHIN: Duration = Duration::from_secs(5);
/// How long a turn waits for the end of the turn whose answer it replies to.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

/// What is known before the model is asked.
pub(super) struct Recalled {
    /// The conversation so far, with the exchange that the trigger replies to if there is room for it.
    pub history: History,
    /// That exchange.
    pub referred: Vec<Entry>,
    /// The message that the trigger replies to, unless its exchange is now part of the history.
    pub quoted: Option<Quoted>,
    /// Before what else was forgotten this was read.
    pub read: Moment,
}

/// The row that this person chose, unless there is nothing to choose or it is gone.
async fn chosen_row(parts: &TurnParts, running: &Running, turn: &Turn) -> Option<String> {
    let allowed = running.choices();
    if allowed.is_empty() {
        return None;
    }
    let key = keys::preferences(&turn.person);
    // Without an answer in time the default row is as good as any.
    let stored = tokio::time::timeout(FETCH_WITHIN, parts.store.get(&key)).await.ok().flatten()?;
    Preferences::parse(&stored).row(&allowed).map(|row| row.key.clone())
}

/// Notes with a turn which row answers it, where that is not the first one.
pub(super) async fn choose_row(parts: &TurnParts, running: &Running, turn: &mut Arc<Turn>) {
    if turn.trigger.is_asked() && turn.policy.model.is_none() {
        let chosen = chosen_row(parts, running, turn).await;
        if chosen.is_some() {
            Arc::make_mut(turn).policy.model = chosen;
        }
    }
    if let Some(allowed) = allowed_row(running, &turn.policy) {
        Arc::make_mut(turn).policy.model = Some(allowed);
    }
}

/// Where only some rows may answer and another one was asked for, the first of them.
fn allowed_row(running: &Running, policy: &Policy) -> Option<String> {
    let rows = running.models.rows();
    let asked = policy.model.as_ref().or_else(|| rows.first().map(|row| &row.key));
    if policy.among.is_empty() || asked.is_some_and(|key| policy.among.contains(key)) {
        return None;
    }
    rows.iter().find(|row| policy.among.contains(&row.key)).map(|row| row.key.clone())
}

/// Loads the conversation, and resolves what the trigger replies to: our own answer is merged with its question, somebody
/// else's message is quoted.
pub(super) async fn recall(parts: &TurnParts, running: &Running, turn: &Turn) -> Recalled {
    let read = parts.forgotten.now();
    let mut history = match turn.policy.history {
        HistoryScope::PersonInPlace => load(parts, turn).await,
        HistoryScope::Nothing | HistoryScope::Given | HistoryScope::Forgotten => History::default(),
    };
    // A turn that is resumed may have got as far as its memory in an earlier life.
    history.forget(&turn.asked(), turn.at);
    let referred = Vec::new();
    let Some(quoted) = &turn.quoted else { return Recalled { history, referred, quoted: None, read } };
    let seen = match &quoted.seen {
        Some(seen) => Some(seen.clone()),
        None => fetch(parts, turn, &quoted.id).await,
    };
    if let Some(seen) = &seen
        && seen.ours
        && let Some(known) = answered(parts, &turn.place, &quoted.id, seen).await
        && let Ok(exchange) = serde_json::from_str(&known)
    {
        let referred = history.merge(&exchange, &turn.person, running.settings.history.max_messages);
        return Recalled { history, referred, quoted: None, read };
    }
    Recalled { history, referred, quoted: Some(Quoted { id: quoted.id.clone(), seen }), read }
}

/// The record of the exchange that a message of ours answered. Whoever replies very quickly sees our message before we have
/// noted that it is posted; a draft can be replied to while it is still written.
async fn answered(parts: &TurnParts, place: &Place, message: &MessageId, seen: &Seen) -> Option<String> {
    let key = keys::answered(message);
    if let Some(known) = parts.store.get(&key).await {
        return Some(known);
    }
    // A message of ours that replies to nothing is one that nobody asked for.
    let turn = seen.answers.as_ref().map(TurnId::of).or_else(|| parts.interjections.last(place))?;
    let ask = |reply| JournalMsg::TellWhenClosed(turn, reply);
    // Whatever comes of the question, the store has the last word.
    let _ = parts.journal.call(ask, CLOSED_WITHIN).await;
    parts.store.get(&key).await
}

/// Adds a completed exchange to the history as it was read. It is visible at once, so that the lane's next turn sees it. What
/// was to be forgotten meanwhile is left out.
pub(super) fn remember(
    parts: &TurnParts,
    running: &Running,
    turn: &Turn,
    exchange: &Exchange,
    (mut history, read): (History, Moment),
) {
    let settings = &running.settings.history;
    let ttl = (!settings.ttl.is_zero()).then_some(settings.ttl);
    let key = keys::history(&turn.person, &turn.place);
    let sent = {
        let saving = parts.forgotten.saving();
        if saving.covers(turn) {
            return;
        }
        saving.clean(turn, read, &mut history);
        history.add(exchange, settings.max_messages);
        // Whoever's words stand in here as well must find them.
        let quote = |person: &Person| keys::quote_of(person, &key);
        let quotes = others(turn, &history).map(|person| Write::Put { key: quote(&person), value: String::new(), ttl });
        let mut writes: Vec<Write> = quotes.collect();
        writes.push(Write::Put { key: key.clone(), value: history.to_json(), ttl });
        parts.store.send(writes)
    };
    let check = Check {
        store: Arc::clone(&parts.store),
        forgotten: Arc::clone(&parts.forgotten),
        now: parts.clock.now(),
        person: turn.person.clone(),
        place: turn.place.clone(),
        asked: (exchange.asked.clone(), turn.at),
        others: others(turn, &history).collect(),
        read,
        key,
        ttl,
    };
    // Nobody waits for it, and each of its reads has the deadline of the store. What is noted after it looked is noted by one who finds
    // the history and deletes it.
    tokio::spawn(async move {
        sent.await;
        check.run().await;
    });
}

/// The members at this door whose words were taken over from elsewhere.
fn others<'a>(turn: &'a Turn, history: &'a History) -> impl Iterator<Item = Person> + 'a {
    history.others().map(|id| Person::new(turn.person.door.clone(), id))
}

/// A look whether another process noted that something of what was saved is to be forgotten.
struct Check {
    store: Arc<dyn Store>,
    forgotten: Arc<Forgotten>,
    now: Timestamp,
    person: Person,
    place: Place,
    /// The question that was saved, and when it was asked.
    asked: (String, Timestamp),
    others: Vec<Person>,
    read: Moment,
    key: String,
    ttl: Option<Duration>,
}

impl Check {
    async fn run(self) {
        let Self { store, forgotten, key, asked: (question, at), .. } = &self;
        let asked = (&self.person, &self.place, *at);
        let wished = StoredWishes::of(&**store, self.now, asked, (&self.others, self.read)).await;
        if !wished.covers && wished.later().next().is_none() {
            return;
        }
        // Turns that are on their way here leave it out as well.
        wished.later().for_each(|wish| forgotten.wish(&wish.person, wish.place.as_ref(), wish.cut));
        let Some(Ok(parsed)) = store.get(key).await.map(|stored| History::parse(&stored)) else { return };
        let mut history = parsed.history;
        let before = history.clone();
        if wished.covers {
            history.forget(question, *at);
        }
        wished.clean(&mut history);
        if history == before {
            return;
        }
        let key = key.clone();
        let write = match history.entries() {
            [] => Write::Delete { key },
            _ => Write::Put { key, value: history.to_json(), ttl: self.ttl },
        };
        // Written at once: its owner may go on talking meanwhile.
        drop(store.write(vec![write]));
    }
}

impl Thinking<'_> {
    /// The facts of the member as a block of a prompt, read once for a turn. `None` if there are none, if nothing of the turn is
    /// remembered, or if the rules keep the tool that finds facts from the member.
    pub(super) async fn facts(&self) -> Option<&str> {
        let Self { parts, turn, tools, .. } = self;
        let read = async {
            let finder = tools.set.catalogue.get(RECALL_TOOL);
            let may =
                |entry| tools.access.sees(entry) && tools.access.decide(entry, &Map::new()).verdict == Verdict::Auto;
            if !turn.trigger.is_asked() || finder.is_some_and(|entry| !may(entry)) {
                return None;
            }
            // Without an answer in time the question is answered without them.
            let asked = OnBehalf::of(turn, None);
            let facts = parts.facts.recall(&asked, &turn.text);
            block(&tokio::time::timeout(FETCH_WITHIN, facts).await.unwrap_or_default())
        };
        self.facts.get_or_init(|| read).await.as_deref()
    }
}

/// The conversation so far.
pub(super) async fn load(parts: &TurnParts, turn: &Turn) -> History {
    let key = keys::history(&turn.person, &turn.place);
    let Some(stored) = parts.store.get(&key).await else { return History::default() };
    match History::parse(&stored) {
        Ok(parsed) => {
            if parsed.dropped > 0 {
                tracing::warn!(
                    event = "store.corrupt",
                    key,
                    dropped = parsed.dropped,
                    "history entries could not be read"
                );
            }
            parsed.history
        }
        Err(error) => {
            let aside = keys::quarantine(&key);
            tracing::error!(event = "store.corrupt", key, aside, %error, "the history cannot be read; it is set aside");
            drop(parts.store.write(vec![Write::Put { key: aside, value: stored, ttl: Some(keys::QUARANTINE_TTL) }]));
            History::default()
        }
    }
}

async fn fetch(parts: &TurnParts, turn: &Turn, message: &MessageId) -> Option<Seen> {
    let request = PostRequest::Fetch { place: turn.place.clone(), message: message.clone() };
    let ask = |reply| OutboxMsg::Read(request, reply);
    let Ok(Ok(PostResult::Messages(messages))) = parts.outboxes.of(&turn.place.door).call(ask, FETCH_WITHIN).await
    else {
        return None;
    };
    messages.into_iter().next().map(Seen::from)
}
