//! Changes of stored conversations: a history, the summary beside it, and what is left of a deleted question.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::services::forgotten::{Forgotten, Question};
use crate::services::histories;
use crate::services::recorded;
use crate::services::running::Running;
use domain::forgetting::Forgetting;
use domain::history::{Act, Exchange, History};
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::{Deletion, Interruption};
use domain::keys;
use domain::summary::Summary;
use domain::turn::Turn;
use ports::{Row, Store, Stored, Unreadable, Write};

/// The maximum number of records of one kind that are read.
const LOOK_MAX: usize = 10_000;

/// The mark of a remembered question, by the id of its message: a deletion names nothing but that id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedQuestion {
    /// The member who asked.
    pub person: Person,
    /// The place of the conversation.
    pub place: Place,
    /// The time of the question, which identifies it in histories.
    pub at: Timestamp,
}

impl AskedQuestion {
    /// The writes of the mark of this turn's question and of its index. They live as long as the answer may be
    /// replied to or text from the question be summarised.
    pub(crate) fn mark(turn: &Turn, running: &Running) -> Vec<Write> {
        if !turn.trigger.has_message() {
            return Vec::new();
        }
        let Turn { person, place, at, .. } = turn;
        let asked = Self { person: person.clone(), place: place.clone(), at: *at };
        asked.marks(&turn.id.trigger(), running)
    }

    fn marks(&self, message: &MessageId, running: &Running) -> Vec<Write> {
        // Plain data always serializes.
        let value = serde_json::to_string(self).unwrap_or_default();
        let history = &running.settings.history;
        // Replies to the answer find the question as long as the record of the answer.
        let answered = if history.ttl.is_zero() { keys::ANSWERED_TTL } else { history.ttl };
        let ttl = Some(answered.max(keys::conversations::summary_life(history.message_max_age)));
        vec![
            Write::Put { key: keys::conversations::asked(message), value, ttl },
            Write::Put { key: Self::index(&self.person, message), value: String::new(), ttl },
        ]
    }

    fn index(person: &Person, message: &MessageId) -> String {
        format!("{}{message}", keys::conversations::asked_by(person))
    }
}

/// The stored conversations.
pub(crate) struct ConversationRecords<'a> {
    store: &'a dyn Store,
    /// The number of slots of recorded questions; `None` if none are recorded.
    slots: Option<usize>,
    ttl: Option<Duration>,
}

impl<'a> ConversationRecords<'a> {
    /// The conversations in this store, with the TTL of these settings.
    pub(crate) fn new(store: &'a dyn Store, running: &Running) -> Self {
        let ttl = running.settings.history.ttl;
        Self { store, slots: recorded::slots(running), ttl: (!ttl.is_zero()).then_some(ttl) }
    }

    /// Changes a stored history if the change makes a difference. Returns false if the history cannot be read now, or
    /// if the change is not durable.
    pub(crate) async fn rewrite(&self, key: &str, change: impl FnOnce(&mut History)) -> bool {
        histories::change(self.store, key, self.ttl, change).await
    }

    /// Replaces the answer of a question with what was heard of it, and with what its tools changed; one that is not
    /// remembered is added. Returns false
    /// if the history cannot be read now, or if the change is not durable.
    pub(crate) async fn interrupt(
        &self,
        forgotten: &Forgotten,
        interruption: &Interruption,
        running: &Running,
        acts: impl FnOnce() -> Vec<Act>,
    ) -> bool {
        let Interruption { message, place, heard } = interruption;
        let key = keys::history(&heard.person, place);
        let _changing = histories::changing(&key).await;
        let mut history = match self.store.read(&key).await {
            Stored::Absent => History::default(),
            Stored::Value(stored) => match History::parse(&stored) {
                Ok(parsed) => parsed.history,
                Err(_) => return false,
            },
            Stored::Part(_) | Stored::Unreadable(_) => return false,
        };
        history.add(heard, running.settings.history.max_messages);
        // Read under the lock: a call that ends later adds itself.
        history.tell_acts(heard.asked_at, &acts());
        let asked = AskedQuestion { person: heard.person.clone(), place: place.clone(), at: heard.asked_at };
        let mut writes = asked.marks(message, running);
        writes.push(histories::write(key, &history, self.ttl));
        let question = Question { person: &heard.person, place, at: heard.asked_at };
        let written = {
            let saving = forgotten.saving();
            let is_forgotten = saving.covers_question(message, question);
            // Visible at once.
            (!is_forgotten).then(|| self.store.write(writes))
        };
        match written {
            Some(written) => written.await,
            None => true,
        }
    }

    /// Changes the summary beside the history of this key if the change makes a difference. Returns false if the
    /// summary cannot be read now, or if the change is not durable.
    pub(crate) async fn rewrite_summary(&self, history: &str, change: impl FnOnce(&mut Summary)) -> bool {
        let key = keys::conversations::summary(history);
        let _changing = histories::changing(&key).await;
        let stored = match self.store.read(&key).await {
            Stored::Absent => return true,
            Stored::Value(stored) | Stored::Part(stored) => stored,
            Stored::Unreadable(_) => return false,
        };
        let mut summary = Summary::parse(Some(&stored));
        let before = summary.clone();
        change(&mut summary);
        if summary == before {
            return true;
        }
        let value = (!summary.parts().is_empty()).then(|| summary.to_json());
        self.put(key, value).await
    }

    /// Removes data from the history of this key and from the summary beside it. Returns false if one of them cannot be
    /// read now, or if a change is not durable.
    pub(crate) async fn forget(&self, history: &str, change: impl Fn(&mut dyn Forgetting)) -> bool {
        let durable = self.rewrite(history, |kept| change(kept)).await;
        self.rewrite_summary(history, |kept| change(kept)).await && durable
    }

    async fn put(&self, key: String, value: Option<String>) -> bool {
        let write = match value {
            Some(value) => Write::Put { key, value, ttl: self.ttl },
            None => Write::Delete { key },
        };
        self.store.write(vec![write]).await
    }

    /// Deletes the records of answers to this person's questions, so that replies to the answers do not find them.
    /// `indexes` has the rows of the index of these answers. Returns false if a record cannot be read now.
    pub(crate) async fn forget_answers(
        &self,
        person: &Person,
        indexes: Vec<Row>,
        which: impl Fn(&Exchange) -> bool,
    ) -> bool {
        let (answers, mut read) = (keys::answers_of(person), true);
        for (index, _) in indexes {
            let message = index.strip_prefix(&answers).and_then(|message| message.parse().ok());
            let Some(key) = message.map(|message| keys::answered(&message)) else { continue };
            let stored = self.store.read(&key).await;
            read &= stored != Stored::Unreadable(Unreadable::NoAnswer);
            let Some(stored) = stored.value() else { continue };
            if serde_json::from_str(&stored).is_ok_and(|exchange: Exchange| which(&exchange)) {
                drop(self.store.write(vec![Write::Delete { key }, Write::Delete { key: index }]));
            }
        }
        read
    }

    /// Removes the question of a deleted message and its answer: from its conversation, from conversations of other
    /// members, and the parts of summaries that were made from it. Does nothing if the message was not remembered. A
    /// removal that the store does not allow now is [repeated](Self::withdraw_again).
    pub(crate) async fn withdraw(&self, forgotten: &Forgotten, deletion: &Deletion) {
        recorded::withdraw(self.store, self.slots, &deletion.message).await;
        if !self.is_withdrawn(forgotten, &deletion.message).await {
            forgotten.withdraw_later(deletion.clone());
        }
    }

    /// Repeats the removals that the store did not allow before.
    pub(crate) async fn withdraw_again(&self, forgotten: &Forgotten) {
        for deletion in forgotten.take_later() {
            self.withdraw(forgotten, &deletion).await;
        }
    }

    /// Removes the question of a deleted message. Returns false if a record cannot be read or changed now.
    async fn is_withdrawn(&self, forgotten: &Forgotten, message: &MessageId) -> bool {
        let mark = keys::conversations::asked(message);
        let stored = match self.store.read(&mark).await {
            Stored::Unreadable(Unreadable::NoAnswer) => return false,
            stored => stored.value(),
        };
        let Some(asked) = stored.and_then(|stored| serde_json::from_str::<AskedQuestion>(&stored).ok()) else {
            return true;
        };
        let AskedQuestion { person, place, at } = &asked;
        let withdrawing = forgotten.withdraw(person, place, *at);
        let own = keys::history(person, place);
        let mut done = self.forget(&own, |kept| kept.forget_asked_at(None, *at)).await;
        let (quotes, answers) = (keys::quotes_of(person), keys::answers_of(person));
        let (found, complete) = self.store.scan_many(&[&quotes, &answers], LOOK_MAX, Some(person)).await.into_parts();
        done &= complete;
        let [quoting, answered] = found.try_into().unwrap_or_default();
        for (index, _) in quoting {
            let history = index.strip_prefix(&quotes).unwrap_or_default();
            done &= self.forget(history, |kept| kept.forget_asked_at(Some(person), *at)).await;
        }
        done &= self.forget_answers(person, answered, |exchange| exchange.asked_at == *at).await;
        drop(withdrawing);
        if done {
            let index = AskedQuestion::index(person, message);
            drop(self.store.write(vec![Write::Delete { key: mark }, Write::Delete { key: index }]));
        }
        done
    }
}
