//! The marks of the bot's posts. Slack has no nonce: each post carries the nonce of the outbox in its metadata, and a
//! post whose fate is unknown is looked for before it is sent again.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events::Metadata;
use super::ids;
use domain::ids::{MessageId, Timestamp};

/// The type of the metadata of the bot's posts.
const EVENT_TYPE: &str = "staffai_post";
/// The most posts remembered. An answer is retried for ten minutes.
const MOST: usize = 10_000;
/// The most commands and presses remembered; a repetition comes within minutes.
const CALLBACKS: usize = 256;
/// The longest nonce that is read back, in bytes.
const NONCE_BYTES: usize = 128;

/// The mark of one post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) nonce: String,
    /// The message that it answers.
    pub(super) answers: Option<MessageId>,
}

/// The fate of a post of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It exists, as this message.
    Stands(MessageId),
    /// A request had no conclusive answer, at this time.
    Unknown(Instant),
}

/// The files of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// This process posted it, and has shared none of its files.
    New,
    /// Some may be shared.
    Unknown,
    /// All are shared.
    Shared,
}

/// The posts of this process.
#[derive(Default)]
pub(super) struct Marks(Mutex<Known>);

#[derive(Default)]
struct Known {
    fates: HashMap<String, Fate>,
    marks: HashMap<MessageId, Mark>,
    /// The nonces, oldest first.
    order: VecDeque<String>,
    /// The last commands and presses.
    callbacks: VecDeque<MessageId>,
    /// The last posts with files.
    files: VecDeque<(MessageId, Files)>,
}

impl Mark {
    /// Returns the metadata of a post.
    pub(super) fn metadata(&self) -> Value {
        let mut payload = json!({"nonce": self.nonce});
        if let Some(answers) = &self.answers {
            payload["answers"] = Value::String(answers.id.to_string());
        }
        json!({"event_type": EVENT_TYPE, "event_payload": payload})
    }

    /// Returns the message that it answers, or whose answer it is a part of.
    pub(super) fn trigger(&self) -> Option<MessageId> {
        self.answers.clone().or_else(|| trigger(&self.nonce))
    }

    /// Reads the mark of a message of the bot; `None` if it has none.
    pub(super) fn read(metadata: &Metadata) -> Option<Self> {
        let text = |name| metadata.event_payload.get(name).and_then(Value::as_str);
        let nonce = text("nonce").filter(|nonce| nonce.len() <= NONCE_BYTES && metadata.event_type == EVENT_TYPE)?;
        let answers = text("answers").map(|id| MessageId::new(super::DOOR, id));
        Some(Self { nonce: nonce.to_owned(), answers: answers.filter(|id| ids::posted(id).is_ok()) })
    }
}

impl Marks {
    /// Returns the fate of an earlier request with this nonce.
    pub(super) fn fate(&self, nonce: &str) -> Option<Fate> {
        self.0.lock().fates.get(nonce).cloned()
    }

    /// Stores the fate of a request.
    pub(super) fn note(&self, mark: &Mark, fate: Fate) {
        let mut known = self.0.lock();
        if let Fate::Stands(message) = &fate {
            known.marks.insert(message.clone(), mark.clone());
        }
        if known.fates.insert(mark.nonce.clone(), fate).is_none() {
            known.order.push_back(mark.nonce.clone());
        }
        while known.order.len() > MOST {
            let Some(oldest) = known.order.pop_front() else { break };
            if let Some(Fate::Stands(message)) = known.fates.remove(&oldest) {
                known.marks.remove(&message);
            }
        }
    }

    /// Begins a request with this mark. Until its fate is told, it is unknown: also if the request is cancelled.
    pub(super) fn begin<'a>(&'a self, mark: &'a Mark) -> Attempt<'a> {
        Attempt { marks: self, mark, ended: Ended::Unknown }
    }

    /// True if this command or press is new. Slack delivers one again if its acknowledgement is lost.
    pub(super) fn is_first(&self, callback: &MessageId) -> bool {
        let mut known = self.0.lock();
        if known.callbacks.contains(callback) {
            return false;
        }
        if known.callbacks.len() >= CALLBACKS {
            known.callbacks.pop_front();
        }
        known.callbacks.push_back(callback.clone());
        true
    }

    /// Returns the state of the files of a post. Those of a post of an earlier process are not known.
    pub(super) fn files(&self, message: &MessageId) -> Files {
        let known = self.0.lock();
        known.files.iter().find(|(of, _)| of == message).map_or(Files::Unknown, |(_, files)| *files)
    }

    /// Stores the state of the files of a post.
    pub(super) fn note_files(&self, message: &MessageId, files: Files) {
        let mut known = self.0.lock();
        known.files.retain(|(of, _)| of != message);
        if known.files.len() >= CALLBACKS {
            known.files.pop_front();
        }
        known.files.push_back((message.clone(), files));
    }

    /// Returns the mark of a message, if this process posted or read it.
    pub(super) fn of(&self, message: &MessageId) -> Option<Mark> {
        self.0.lock().marks.get(message).cloned()
    }
}

/// A request to post, which stores its fate when it ends.
pub(super) struct Attempt<'a> {
    marks: &'a Marks,
    mark: &'a Mark,
    ended: Ended,
}

/// The end of a request to post.
enum Ended {
    /// It has no conclusive answer, or was cancelled.
    Unknown,
    /// It posted this message.
    Stands(MessageId),
    /// It certainly had no effect.
    Failed,
}

impl Attempt<'_> {
    /// The request posted this message.
    pub(super) fn stands(mut self, message: MessageId) {
        self.ended = Ended::Stands(message);
    }

    /// The request had no effect.
    pub(super) fn failed(mut self) {
        self.ended = Ended::Failed;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.ended, Ended::Unknown) {
            Ended::Stands(message) => self.marks.note(self.mark, Fate::Stands(message)),
            Ended::Failed => {}
            Ended::Unknown => self.marks.note(self.mark, Fate::Unknown(Instant::now())),
        }
    }
}

/// Returns the time of the message that a nonce of the outbox names; `None` if it names none.
pub(super) fn asked_at(nonce: &str) -> Option<Timestamp> {
    trigger(nonce).and_then(|trigger| ids::posted(&trigger).ok().and_then(|(_, ts)| ids::moment(ts)))
}

fn trigger(nonce: &str) -> Option<MessageId> {
    let trigger = MessageId::new(super::DOOR, nonce.rsplit_once('-')?.0);
    ids::posted(&trigger).is_ok().then_some(trigger)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(nonce: &str) -> Mark {
        Mark { nonce: nonce.to_owned(), answers: Some(ids::message("C1", "1.5")) }
    }

    #[test]
    fn a_mark_is_read_back_from_its_metadata() {
        let written = mark("C1:1.5-0");
        let read: Metadata = serde_json::from_value(written.metadata()).unwrap();
        assert_eq!(Mark::read(&read), Some(written));
        let foreign = Metadata { event_type: "other".to_owned(), ..read };
        assert_eq!(Mark::read(&foreign), None);
    }

    #[test]
    fn a_nonce_names_the_time_of_its_question() {
        assert_eq!(asked_at("C1:1700000000.000100-0"), Some(Timestamp(1_700_000_000_000)));
        assert_eq!(asked_at("C1:1700000000.000100-n0r"), Some(Timestamp(1_700_000_000_000)));
        assert_eq!(asked_at("report-7-0"), None);
    }

    #[tokio::test]
    async fn the_oldest_posts_are_forgotten() {
        let marks = Marks::default();
        for number in 0..=MOST {
            let ts = format!("{number}.0");
            marks.note(&mark(&format!("n-{number}")), Fate::Stands(ids::message("C1", &ts)));
        }
        assert_eq!(marks.fate("n-0"), None);
        assert!(marks.fate("n-1").is_some() && marks.of(&ids::message("C1", "0.0")).is_none());
        assert_eq!(marks.0.lock().marks.len(), MOST);
    }
}
