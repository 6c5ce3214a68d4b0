//! The questions recorded for `staffai replay`: written with the history of a turn, in the channels that the operator
//! names, and nowhere else.

use std::sync::Arc;

use async_trait::async_trait;

use crate::services::running::Running;
use domain::ids::{MessageId, Person};
use domain::keys;
use domain::recorded::{RECORDED_MAX, RecordedQuestion, slot};
use domain::turn::Turn;
use ports::{RecordedQuestions, Row, Store, Write};

/// Returns the write of a turn's question; `None` if it is not recorded. Threads, direct conversations and sessions are
/// places of their own, so the operator's list does not include them.
pub(crate) fn write(running: &Running, turn: &Turn) -> Option<Write> {
    let replay = &running.settings.replay;
    let is_listed = turn.guild.is_some()
        && running.knows_ids(&turn.place.door)
        && replay.channels.contains(&turn.place.id.to_string());
    let question = RecordedQuestion::of(turn).filter(|_| replay.is_on() && is_listed)?;
    let key = keys::recorded(slot(&question.message, replay.questions));
    let value = serde_json::to_string(&question).ok()?;
    Some(Write::Put { key, value, ttl: Some(keys::RECORDED_TTL) })
}

/// Returns the number of slots of recorded questions; `None` if none are recorded.
pub(crate) fn slots(running: &Running) -> Option<usize> {
    let replay = &running.settings.replay;
    replay.is_on().then_some(replay.questions)
}

/// Deletes the recorded question of a message, which is in one of so many slots.
pub(crate) async fn withdraw(store: &dyn Store, slots: Option<usize>, message: &MessageId) {
    let Some(slots) = slots else { return };
    let key = keys::recorded(slot(message, slots));
    let stored = store.get(&key).await.and_then(|stored| serde_json::from_str::<RecordedQuestion>(&stored).ok());
    if stored.is_some_and(|stored| stored.message == *message) {
        drop(store.write(vec![Write::Delete { key }]));
    }
}

/// Returns the rows of this person. An unreadable row counts as theirs.
pub(crate) fn of_person(person: &Person, rows: Vec<Row>) -> Vec<Row> {
    let theirs = |(_, stored): &Row| {
        serde_json::from_str::<RecordedQuestion>(stored).map_or(true, |stored| stored.person == *person)
    };
    rows.into_iter().filter(theirs).collect()
}

/// Returns the recorded questions, without persons and messages. The store bounds the read.
pub async fn questions(store: &dyn Store) -> Vec<String> {
    let rows = store.scan(keys::RECORDED_PREFIX, RECORDED_MAX).await.part();
    let text = |(_, stored): Row| Some(serde_json::from_str::<RecordedQuestion>(&stored).ok()?.question);
    rows.into_iter().filter_map(text).collect()
}

/// Reads recorded questions for operators.
pub struct Recorded(pub Arc<dyn Store>);

#[async_trait]
impl RecordedQuestions for Recorded {
    async fn questions(&self) -> Vec<String> {
        questions(&*self.0).await
    }
}
