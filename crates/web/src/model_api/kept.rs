//! Stored responses, which their holders may continue from until they expire.
//!
//! Each response is a record with only the messages of its own request and a link to the previous response, so a
//! conversation is read link by link. One index record per holder lists the responses, oldest first; the oldest are
//! evicted when the holder's quota is used up.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use super::failure::Failure;
use super::openai::reading::MESSAGES_MAX;
use domain::completion::WrittenJson;
use domain::given::Message;
use domain::ids::{Person, Timestamp};
use domain::keys::programs as keys;
use ports::{Store, StoreStatus, Stored, Write, is_forgotten};

/// Maximum number of responses of one holder.
const RESPONSES_MAX: usize = 500;
/// Maximum size of one holder's responses, in bytes.
const BYTES_MAX: usize = 4 << 20;
/// The number of locks: changes of one holder are serialized, those of different holders mostly run concurrently.
const SIDE_BY_SIDE: usize = 64;
/// Maximum length of an id, in bytes.
const ID_MAX: usize = 64;

pub(super) struct Responses {
    store: Arc<dyn Store>,
    changing: Vec<Mutex<()>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredResponse {
    /// The response that it continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The messages since then, including the answer.
    pub said: Vec<Message>,
    /// The time of its request.
    #[serde(default)]
    pub at: Timestamp,
    /// The response as sent, without the fields copied from its request.
    pub response: WrittenJson,
}

/// A response in the index record.
#[derive(Debug, Serialize, Deserialize)]
struct Named {
    id: String,
    bytes: usize,
}

impl Responses {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, changing: (0..SIDE_BY_SIDE).map(|_| Mutex::default()).collect() }
    }

    /// Stores a response of this person and evicts the holder's oldest ones if necessary. A response larger than the
    /// quota is not stored, nor is one that the person asked to forget, nor is any while the store is offline.
    pub async fn keep(&self, person: &Person, holder: &str, id: &str, kept: &StoredResponse) {
        let Ok(value) = serde_json::to_string(kept) else { return };
        let bytes = value.len();
        if bytes > BYTES_MAX {
            return;
        }
        let changing = self.change(holder).await;
        if is_forgotten(&*self.store, person, kept.at).await {
            return;
        }
        // Without the index, its responses would be lost.
        let Some(mut named) = self.named(holder).await else { return };
        named.push(Named { id: id.to_owned(), bytes });
        let mut held: usize = named.iter().map(|named| named.bytes).sum();
        let mut over = 0;
        while named.len() - over > RESPONSES_MAX || held > BYTES_MAX {
            held = held.saturating_sub(named[over].bytes);
            over += 1;
        }
        let removed = named.drain(..over).map(|named| Write::Delete { key: keys::response(holder, &named.id) });
        let mut writes: Vec<Write> = removed.collect();
        writes.push(Write::Put { key: keys::response(holder, id), value, ttl: Some(keys::RESPONSE_TTL) });
        writes.extend(index(holder, &named));
        let durable = self.store.commit(writes);
        drop(changing);
        // If the store is degraded, memory holds it.
        durable.await;
    }

    /// True if the store is offline: a missing record may exist.
    fn is_away(&self) -> bool {
        matches!(self.store.status(), StoreStatus::Degraded(_))
    }

    /// Returns the failure for a response that was not found.
    pub fn missing(&self, id: String) -> Failure {
        if self.is_away() { away() } else { Failure::NoResponse(id) }
    }

    /// Returns a response of a holder.
    pub async fn get(&self, holder: &str, id: &str) -> Option<StoredResponse> {
        if !is_id(id) {
            return None;
        }
        let stored = self.store.get(&keys::response(holder, id)).await?;
        serde_json::from_str(&stored).ok()
    }

    /// Removes a response of a holder. Returns false if it does not exist.
    pub async fn remove(&self, holder: &str, id: &str) -> bool {
        let changing = self.change(holder).await;
        if self.get(holder, id).await.is_none() {
            return false;
        }
        let mut writes = vec![Write::Delete { key: keys::response(holder, id) }];
        // An index that cannot be read lists it until it is the oldest one.
        if let Some(mut named) = self.named(holder).await {
            named.retain(|named| named.id != id);
            writes.extend(index(holder, &named));
        }
        let durable = self.store.commit(writes);
        drop(changing);
        durable.await;
        true
    }

    /// Returns all messages up to a response of a holder, and their approximate size in bytes.
    ///
    /// # Errors
    /// A response of the chain is missing, or the conversation is too long.
    pub async fn said(&self, holder: &str, id: &str) -> Result<(Vec<Message>, usize), Failure> {
        let (mut links, mut next, mut messages, mut bytes) = (Vec::new(), Some(id.to_owned()), 0, 0);
        while let Some(id) = next {
            let Some(StoredResponse { previous, said, .. }) = self.get(holder, &id).await else {
                return Err(if self.is_away() { away() } else { Failure::NoPrevious(id) });
            };
            messages += said.len();
            bytes += said.iter().map(Message::bytes).sum::<usize>();
            gone_on(messages)?;
            links.push(said);
            next = previous;
        }
        Ok((links.into_iter().rev().flatten().collect(), bytes))
    }

    /// Returns the index of a holder; `None` if it cannot be read. A damaged one counts as empty.
    async fn named(&self, holder: &str) -> Option<Vec<Named>> {
        match self.store.read(&keys::responses(holder)).await {
            Stored::Unreadable(_) => None,
            stored => Some(stored.value().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()),
        }
    }

    async fn change(&self, holder: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        holder.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % SIDE_BY_SIDE as u64).unwrap_or_default();
        self.changing[at].lock().await
    }
}

/// Checks that a conversation of this many messages may be continued.
///
/// # Errors
/// There are too many.
pub(super) fn gone_on(messages: usize) -> Result<(), Failure> {
    if messages <= MESSAGES_MAX {
        return Ok(());
    }
    let why = format!("this conversation has more than {MESSAGES_MAX} messages; begin a new one");
    Err(Failure::bad("previous_response_id", why))
}

/// The failure while the store is offline.
fn away() -> Failure {
    Failure::Busy("stored responses are temporarily unavailable; try again in a moment".to_owned())
}

fn index(holder: &str, named: &[Named]) -> Option<Write> {
    let value = serde_json::to_string(named).ok()?;
    Some(Write::Put { key: keys::responses(holder), value, ttl: Some(keys::RESPONSE_TTL) })
}

/// True if this may be the id of a response.
fn is_id(id: &str) -> bool {
    id.len() <= ID_MAX && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::completion::Role;
    use ports::testing::MemoryStore;

    fn kept(previous: Option<&str>, text: &str) -> StoredResponse {
        let said = vec![Message::new(Role::User, text), Message::new(Role::Assistant, "so")];
        StoredResponse {
            previous: previous.map(str::to_owned),
            said,
            at: Timestamp(1_000),
            response: WrittenJson::new(&serde_json::json!({"id": 1})),
        }
    }

    fn person(name: &str) -> Person {
        Person::new(domain::api_key::HOLDERS, name)
    }

    fn responses() -> Responses {
        Responses::new(Arc::new(MemoryStore::new()))
    }

    #[tokio::test]
    async fn what_was_said_is_read_link_by_link_and_only_by_its_holder() {
        let responses = responses();
        responses.keep(&person("ci"), "ci", "r1", &kept(None, "one")).await;
        responses.keep(&person("ci"), "ci", "r2", &kept(Some("r1"), "two")).await;
        let (said, bytes) = responses.said("ci", "r2").await.unwrap();
        let texts: Vec<&str> = said.iter().map(|message| message.text.as_str()).collect();
        let held: usize = said.iter().map(Message::bytes).sum();
        assert_eq!((texts, bytes), (vec!["one", "so", "two", "so"], held));
        assert_eq!(responses.said("laptop", "r2").await, Err(Failure::NoPrevious("r2".to_owned())));
        assert!(!responses.remove("laptop", "r1").await && responses.remove("ci", "r1").await);
        assert!(!responses.remove("ci", "r1").await);
        assert_eq!(responses.said("ci", "r2").await, Err(Failure::NoPrevious("r1".to_owned())), "no link is left out");
        assert_eq!(responses.get("ci", "r2:../other").await, None);
    }

    #[tokio::test]
    async fn no_response_is_kept_that_its_person_asked_to_forget() {
        let store = Arc::new(MemoryStore::new());
        let responses = Responses::new(Arc::clone(&store) as _);
        store.put(domain::keys::forgotten(&person("ci"), None), r#"{"cut":1000}"#);
        responses.keep(&person("ci"), "ci", "r1", &kept(None, "one")).await;
        assert_eq!(responses.get("ci", "r1").await, None);
        let later = StoredResponse { at: Timestamp(1_001), ..kept(None, "two") };
        responses.keep(&person("ci"), "ci", "r2", &later).await;
        responses.keep(&person("laptop"), "laptop", "r3", &kept(None, "three")).await;
        assert!(responses.get("ci", "r2").await.is_some() && responses.get("laptop", "r3").await.is_some());
    }

    #[tokio::test]
    async fn one_holder_has_so_much_room_and_the_oldest_give_way() {
        let responses = responses();
        let long = "x".repeat(BYTES_MAX / 2 - 1_000);
        for id in ["r1", "r2"] {
            responses.keep(&person("ci"), "ci", id, &kept(None, &long)).await;
        }
        assert!(responses.get("ci", "r1").await.is_some(), "two have room");
        responses.keep(&person("ci"), "ci", "r3", &kept(None, &long)).await;
        assert!(responses.get("ci", "r1").await.is_none() && responses.get("ci", "r2").await.is_some());
        responses.keep(&person("ci"), "ci", "r4", &kept(None, &"x".repeat(BYTES_MAX))).await;
        assert!(responses.get("ci", "r4").await.is_none() && responses.get("ci", "r3").await.is_some());
        for number in 0..=RESPONSES_MAX {
            responses.keep(&person("laptop"), "laptop", &format!("r{number}"), &kept(None, "x")).await;
        }
        assert!(responses.get("laptop", "r0").await.is_none() && responses.get("laptop", "r1").await.is_some());
    }

    #[tokio::test]
    async fn while_the_store_is_away_nothing_is_told_as_gone_and_nothing_is_lost() {
        let store = Arc::new(MemoryStore::new());
        let responses = Responses::new(Arc::clone(&store) as _);
        responses.keep(&person("ci"), "ci", "r1", &kept(None, "one")).await;
        store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(matches!(responses.said("ci", "r1").await, Err(Failure::Busy(_))));
        responses.keep(&person("ci"), "ci", "r2", &kept(Some("r1"), "two")).await;
        store.degraded.store(false, std::sync::atomic::Ordering::SeqCst);
        assert!(responses.said("ci", "r1").await.is_ok() && responses.get("ci", "r2").await.is_none());
        assert_eq!(responses.named("ci").await.unwrap().len(), 1, "the list names what there is");
    }

    #[tokio::test]
    async fn a_conversation_has_an_end() {
        let responses = responses();
        let mut previous: Option<String> = None;
        for number in 0..RESPONSES_MAX {
            let mut link = kept(previous.as_deref(), "x");
            link.said.push(Message::new(Role::User, "y"));
            let id = format!("r{number}");
            responses.keep(&person("ci"), "ci", &id, &link).await;
            previous = Some(id);
        }
        let told = responses.said("ci", &previous.unwrap()).await;
        assert!(matches!(told, Err(Failure::Bad { place: Some(place), .. }) if place == "previous_response_id"));
    }
}
