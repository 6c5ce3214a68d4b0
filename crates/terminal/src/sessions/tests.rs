use super::memory::{ALL_BYTES, MESSAGES_MAX, SESSION_BYTES, SESSIONS_MAX, bytes_of};
use super::room::{KEPT_MAX, OWN_MAX};
use super::*;
use domain::api_key::{ApiKey, Caller, KeyRing, Right};
use domain::outgoing::Piece;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::testing::{ManualClock, MemoryStore};
use ports::{Replaced, Row, Scanned, StoreStatus, Stored};

fn sessions_in(store: &Arc<MemoryStore>) -> Sessions {
    Sessions::new(Arc::new(ManualClock::new()), Arc::clone(store) as _, Arc::new(|| Duration::from_secs(60)))
}

fn sessions() -> Sessions {
    sessions_in(&Arc::new(MemoryStore::new()))
}

fn holder(name: &str, rights: &[Right]) -> Caller {
    let key = KeyRing::of_secrets(["k"]).find("k", Timestamp(0)).unwrap();
    Caller::Key(Arc::new(ApiKey { name: name.to_owned(), rights: rights.to_vec(), ..(*key).clone() }))
}

impl Sessions {
    async fn hears(&self, session: &str, text: &str) -> Posted {
        self.hears_of(&Caller::Local, session, text).await
    }

    async fn hears_of(&self, caller: &Caller, session: &str, text: &str) -> Posted {
        let place = self.open(caller, session).await.unwrap().place;
        self.says(caller, &place, text, Wants::default(), None).await.unwrap()
    }

    async fn posts(&self, place: &Place, nonce: &str, text: &str) -> MessageId {
        match self.perform(&create(place, nonce, text)).await.unwrap().result {
            PostResult::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    async fn texts(&self, place: &Place) -> Vec<String> {
        let said = serde_json::to_value(self.transcript(place).await).unwrap();
        said.as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    }

    async fn names(&self, caller: &Caller) -> Vec<(String, u64)> {
        let listed = serde_json::to_value(self.list(caller).await).unwrap();
        let name =
            |line: &serde_json::Value| (line["session"].as_str().unwrap().to_owned(), line["number"].as_u64().unwrap());
        let mut names: Vec<_> = listed.as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    }
}

fn create(place: &Place, nonce: &str, text: &str) -> PostRequest {
    PostRequest::Create { place: place.clone(), piece: Piece::text(text), reply_to: None, nonce: nonce.to_owned() }
}

#[tokio::test]
async fn a_post_is_kept_once_and_changed_by_edits() {
    let store = Arc::new(MemoryStore::new());
    let sessions = sessions_in(&store);
    let asked = sessions.hears("s1", "hello").await;
    let place = asked.place.clone();
    let message = sessions.posts(&place, "n", "Hel").await;
    assert_eq!(sessions.posts(&place, "n", "Hel").await, message, "the same nonce gives the first message back");
    assert_eq!(sessions_in(&store).posts(&place, "n", "Hel").await, message, "in a later life too");
    let edit = PostRequest::Edit { place: place.clone(), message, piece: Piece::text("Hello!") };
    sessions.perform(&edit).await.unwrap();
    let kept = sessions.history(&place, &HistoryRange::After(asked.id.clone()), 10).await;
    assert_eq!(kept.into_iter().map(|posted| posted.text).collect::<Vec<_>>(), ["Hello!"]);
    assert_eq!(sessions_in(&store).texts(&place).await, ["hello", "Hello!"]);
}

#[tokio::test]
async fn a_later_life_knows_sessions_their_numbers_and_what_was_said() {
    let store = Arc::new(MemoryStore::new());
    let first = sessions_in(&store);
    let one = first.hears("one", "my cat is called Tom").await;
    first.posts(&one.place, "n", "noted").await;
    first.hears("two", "hello").await;
    let found = first.find(&Caller::Local, "101").await.unwrap();
    first.rename(&Caller::Local, &found, "cats").await.unwrap();
    assert_eq!(first.rename(&Caller::Local, &found, "two").await, Err(NotTaken::NameTaken));
    assert_eq!(first.rename(&Caller::Local, &found, "a b").await, Err(NotTaken::BadName));
    let later = sessions_in(&store);
    let named = |name: &str, number: u64| (name.to_owned(), number);
    assert_eq!(later.names(&Caller::Local).await, [named("cats", 101), named("two", 102)]);
    assert_eq!(later.find(&Caller::Local, "cats").await.unwrap().place, one.place);
    assert_eq!(later.texts(&one.place).await, ["my cat is called Tom", "noted"]);
    assert!(later.hears("cats", "and?").await.id > one.id);
    // The old name is free, but not the place of the renamed session.
    assert_ne!(later.hears("one", "another").await.place, one.place);
    assert_eq!(later.names(&Caller::Local).await.len(), 3);
    later.remove(&one.place).await;
    assert!(later.find(&Caller::Local, "101").await.is_none());
    assert!(!store.entries.lock().values().any(|value| value.contains("Tom")), "nothing of it is kept");
    assert_eq!(first.history(&one.place, &HistoryRange::Newest, 10).await, [], "nor known to another process");
}

#[tokio::test]
async fn a_key_sees_its_own_sessions_and_an_operator_all() {
    let sessions = sessions();
    let (laptop, ci) = (holder("laptop", &[Right::Chat]), holder("ci", &[Right::Chat, Right::Tools]));
    let operator = holder("boss", &[Right::Operate]);
    let own = sessions.hears_of(&laptop, "main", "hello").await;
    let other = sessions.hears_of(&ci, "main", "hi").await;
    assert_ne!(own.place, other.place);
    assert_eq!(own.author.person, Person::new(api_key::HOLDERS, "laptop"), "they count as the key's holder");
    assert!(!own.tools && other.tools, "tools need their right");
    assert_eq!(sessions.names(&laptop).await.len(), 1);
    assert_eq!(sessions.names(&operator).await.len(), 2);
    assert!(sessions.find(&laptop, "102").await.is_none() && sessions.find(&laptop, "ci.main").await.is_none());
    for given in ["102", "ci.main"] {
        assert_eq!(sessions.find(&operator, given).await.unwrap().place, other.place);
    }
    assert!(sessions.find(&operator, "main").await.is_none(), "a name is one's own");
    assert_eq!(sessions.open(&operator, "102").await, Err(NotTaken::NotTheirs));
    for (caller, operates) in [(&laptop, false), (&operator, true), (&Caller::Local, true)] {
        let command = sessions.runs(caller, &own.place, "status".to_owned(), Vec::new()).await;
        assert_eq!(command.caller.operator, operates, "{}: as with !sysprompt", caller.name());
    }
}

#[tokio::test]
async fn a_command_is_answered_also_when_its_session_goes_with_it() {
    let sessions = sessions();
    assert_eq!(sessions.open(&Caller::Local, "a b").await, Err(NotTaken::BadName));
    let place = sessions.open(&Caller::Local, "s1").await.unwrap().place;
    let to = sessions.runs(&Caller::Local, &place, "help".to_owned(), Vec::new()).await.callback;
    let respond = PostRequest::Respond { to: to.clone(), piece: Piece::text("x"), problems: Vec::new() };
    assert_eq!(sessions.perform(&PostRequest::Defer(to)).await.unwrap().result, PostResult::Done);
    assert_eq!(sessions.perform(&respond).await.unwrap().result, PostResult::Done);
    sessions.remove(&place).await;
    assert_eq!(sessions.perform(&respond).await.unwrap().result, PostResult::Done);
}

#[tokio::test]
async fn what_is_no_session_or_says_nothing_is_not_taken() {
    let sessions = sessions();
    for name in ["", "a b", "ä", "x:y", "a.b", &"x".repeat(65)] {
        assert_eq!(sessions.open(&Caller::Local, name).await, Err(NotTaken::BadName), "{name}");
    }
    let place = sessions.open(&Caller::Local, "s").await.unwrap().place;
    assert_eq!(sessions.says(&Caller::Local, &place, " \n", Wants::default(), None).await, Err(NotTaken::Empty));
}

#[tokio::test]
async fn sessions_and_messages_are_bounded_and_ids_rise() {
    let store = Arc::new(MemoryStore::new());
    let sessions = sessions_in(&store);
    let mut last = 0;
    for number in 0..SESSIONS_MAX + 10 {
        let posted = sessions.hears(&format!("s{number}"), "hi").await;
        let id: u64 = posted.id.id.parse().unwrap();
        assert!(id > last);
        last = id;
    }
    assert!(sessions.inner.lock().sessions.len() <= SESSIONS_MAX);
    assert_eq!(sessions.names(&Caller::Local).await.len(), OWN_MAX, "the store is bounded too");
    let laptop = holder("laptop", &[Right::Chat]);
    for number in 0..OWN_MAX {
        let (name, touched_at) = (format!("s{number}"), 1);
        let (person, place) = (laptop.person().unwrap(), Place::new(DOOR, format!("laptop.{name}")));
        let key = domain::keys::sessions::session(&person, &place);
        let record = record::Record { name, number: 1, touched_at, lines: 0, numbers: Vec::new(), preview: None };
        store.put(key, record.to_json());
    }
    // A version without an index wrote these.
    let sessions = sessions_in(&store);
    sessions.hears_of(&laptop, "more", "hi").await;
    assert_eq!(sessions.names(&laptop).await.len(), OWN_MAX, "each makes room among their own");
    assert_eq!(sessions.names(&Caller::Local).await.len(), 2 * OWN_MAX);
    let place = Place::new(DOOR, "s-last");
    for _ in 0..MESSAGES_MAX + 10 {
        sessions.hears("s-last", "hi").await;
    }
    assert_eq!(sessions.history(&place, &HistoryRange::Newest, 1_000).await.len(), MESSAGES_MAX);
    assert_eq!(sessions.texts(&place).await.len(), MESSAGES_MAX);
}

#[tokio::test]
async fn all_sessions_together_are_bounded() {
    let sessions = sessions();
    let text = "x".repeat(32 * 1024);
    // More than a hundred sessions, each with more than its maximum.
    for number in 0..130 {
        let name = format!("s{number}");
        for _ in 0..10 {
            sessions.hears(&name, &text).await;
        }
    }
    let asked = sessions.hears("last", "hello").await;
    for number in 0..80 {
        sessions.perform(&create(&asked.place, &number.to_string(), &text)).await.unwrap();
    }
    assert!(sessions.texts(&asked.place).await.len() < 10, "what is dropped is not stored either");
    let inner = sessions.inner.lock();
    let bytes = |session: &memory::Session| -> usize {
        let texts: usize = session.messages.iter().map(|kept| bytes_of(&kept.posted)).sum();
        assert_eq!(texts, session.bytes, "what is counted is what is there");
        texts
    };
    let all: Vec<usize> = inner.sessions.values().map(bytes).collect();
    assert!(all.iter().all(|bytes| *bytes <= SESSION_BYTES), "{all:?}");
    assert!(all.iter().sum::<usize>() <= ALL_BYTES && inner.sessions.contains_key(&asked.place), "{all:?}");
}

#[tokio::test]
async fn what_is_deleted_or_quoted_is_counted_as_what_it_is() {
    let sessions = sessions();
    let asked = sessions.hears("s1", &"x".repeat(1_000)).await;
    let reply = PostRequest::Create {
        place: asked.place.clone(),
        piece: Piece::text("abc"),
        reply_to: Some(asked.id.clone()),
        nonce: "n".to_owned(),
    };
    let PostResult::Message(message) = sessions.perform(&reply).await.unwrap().result else { panic!("a message") };
    let place = asked.place;
    let bytes = || sessions.inner.lock().sessions[&place].bytes;
    assert_eq!(bytes(), 2_003, "the question is kept beside its answer as well");
    sessions.perform(&PostRequest::Delete { place: place.clone(), message }).await.unwrap();
    sessions.perform(&PostRequest::Delete { place: place.clone(), message: asked.id }).await.unwrap();
    assert_eq!(bytes(), 0);
    assert_eq!(sessions.texts(&place).await, [] as [String; 0]);
}

#[tokio::test]
async fn a_message_of_an_earlier_life_that_comes_again_is_for_us() {
    let store = Arc::new(MemoryStore::new());
    let place = sessions_in(&store).open(&Caller::Local, "s1").await.unwrap().place;
    let said =
        sessions_in(&store).says(&Caller::Local, &place, "hello", Wants::default(), Some("order-7")).await.unwrap();
    let again =
        sessions_in(&store).says(&Caller::Local, &place, "hello", Wants::default(), Some("order-7")).await.unwrap();
    assert!(again.id == said.id && again.mentions_us && again.tools);
    let sessions = sessions_in(&store);
    assert_eq!(sessions.texts(&place).await, ["hello"]);
    sessions.was_not_said(&place, &said.id.id).await;
    assert_eq!(sessions.texts(&place).await, [] as [String; 0]);
}

#[tokio::test]
async fn while_the_store_is_away_what_is_known_stays_and_no_number_is_given_twice() {
    let store = Arc::new(MemoryStore::new());
    let sessions = sessions_in(&store);
    let place = sessions.hears("one", "hello").await.place;
    store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(sessions.hears("one", "still there?").await.place, place);
    assert_eq!(sessions.history(&place, &HistoryRange::Newest, 10).await.len(), 2);
    let other = sessions.open(&Caller::Local, "two").await.unwrap();
    assert_eq!(other.number, 102);
    store.degraded.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(sessions.names(&Caller::Local).await, [("one".to_owned(), 101), ("two".to_owned(), 102)]);
}

#[tokio::test]
async fn lists_names_and_numbers_look_through_no_keys() {
    let store = Arc::new(MemoryStore::new());
    let sessions = sessions_in(&store);
    let one = sessions.hears("one", "hello").await;
    sessions.posts(&one.place, "n", "aye").await;
    // From here on a scan of the keys panics.
    store.broken_scans.store(usize::MAX, std::sync::atomic::Ordering::SeqCst);
    sessions.hears("two", "hello").await;
    let found = sessions.find(&Caller::Local, "101").await.unwrap();
    sessions.rename(&Caller::Local, &found, "cats").await.unwrap();
    assert_eq!(sessions.count(&Caller::Local).await, 2);
    assert_eq!(sessions.names(&Caller::Local).await.len(), 2);
    assert_eq!(sessions.texts(&one.place).await, ["hello", "aye"]);
    // Deleting a session scans for its lines.
    store.broken_scans.store(0, std::sync::atomic::Ordering::SeqCst);
    sessions.remove(&one.place).await;
    assert_eq!(sessions.names(&Caller::Local).await, [("two".to_owned(), 102)]);
    assert!(!store.entries.lock().values().any(|value| value.contains("cats")), "its name is gone too");
}

#[tokio::test]
async fn sessions_of_the_version_before_are_found_and_their_lines_read() {
    let store = Arc::new(MemoryStore::new());
    let (key, line) =
        ("staffai:talk:api:laptop:laptop.main", "staffai:said:api:laptop:laptop.main:00000000000000000007");
    store.put(key.to_owned(), r#"{"name":"main","number":117,"touched_at":1700000000000,"lines":1}"#);
    store.put(line.to_owned(), r#"{"id":"7","text":"hello","at":1700000000000}"#);
    let (sessions, laptop) = (sessions_in(&store), holder("laptop", &[Right::Chat]));
    assert_eq!(sessions.names(&laptop).await, [("main".to_owned(), 117)]);
    let place = sessions.find(&laptop, "117").await.unwrap().place;
    assert_eq!(sessions.texts(&place).await, ["hello"]);
    assert_eq!(sessions.open(&laptop, "other").await.unwrap().number, 118);
    sessions.hears_of(&laptop, "main", "again").await;
    assert_eq!(sessions.texts(&place).await, ["hello", "again"]);
    sessions.remove(&place).await;
    assert!(!store.entries.lock().contains_key(line), "nothing of it is kept");
    // A process of that version creates one concurrently.
    let late = "staffai:talk:api:laptop:laptop.late".to_owned();
    store.put(late, r#"{"name":"late","number":119,"touched_at":1,"lines":0}"#);
    assert_eq!(sessions.open(&laptop, "late").await.unwrap().number, 119);
    assert_eq!(sessions.names(&laptop).await.len(), 2);
}

#[tokio::test]
async fn two_processes_know_of_each_others_sessions_and_of_what_was_said_in_them() {
    let store = Arc::new(MemoryStore::new());
    let (one, two) = (sessions_in(&store), sessions_in(&store));
    let place = one.hears("a", "first").await.place;
    let other = two.open(&Caller::Local, "b").await.unwrap();
    assert_eq!(other.number, 102);
    assert_eq!(one.find(&Caller::Local, "102").await.unwrap(), other);
    two.hears("a", "second").await;
    one.hears("a", "third").await;
    for sessions in [&one, &two] {
        assert_eq!(sessions.texts(&place).await, ["first", "second", "third"]);
    }
    one.remove(&place).await;
    assert_eq!(two.names(&Caller::Local).await.len(), 1);
    let left: Vec<String> =
        store.entries.lock().keys().filter(|key| key.starts_with("staffai:said:")).cloned().collect();
    assert_eq!(left, [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn lines_that_two_processes_wrote_at_one_moment_are_all_kept() {
    let store = Arc::new(MemoryStore::new());
    let (one, two) = (sessions_in(&store), sessions_in(&store));
    let place = one.hears("a", "first").await.place;
    two.history(&place, &HistoryRange::Newest, 10).await;
    let key = domain::keys::sessions::session(&owner_of(&place), &place);
    let before = store.entries.lock()[&key].clone();
    tokio::time::advance(Duration::from_millis(5)).await;
    one.hears("a", "second").await;
    tokio::time::advance(Duration::from_millis(5)).await;
    // The other process has read the record before it was written.
    let written = store.entries.lock().insert(key.clone(), before);
    two.hears("a", "third").await;
    assert_ne!(written.as_ref(), store.entries.lock().get(&key));
    tokio::time::advance(Duration::from_millis(5)).await;
    one.hears("a", "fourth").await;
    tokio::time::advance(Duration::from_millis(5)).await;
    two.hears("a", "fifth").await;
    assert_eq!(two.texts(&place).await.len(), 5);
    // A process of the previous version writes records without numbers.
    let line = domain::keys::sessions::line(&owner_of(&place), &place, u64::MAX >> 10);
    store.put(line, r#"{"id":"x","text":"sixth","at":1700000000000}"#);
    store.put(key, r#"{"name":"a","number":101,"touched_at":1700000000000,"lines":6}"#);
    one.hears("a", "seventh").await;
    assert_eq!(one.texts(&place).await.len(), 7);
    one.remove(&place).await;
    assert!(!store.entries.lock().keys().any(|key| key.starts_with("staffai:said:")), "nothing of it is kept");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_ended_by_themselves_leave_the_index() {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(ManualClock::new());
    let kept_for: KeptFor = Arc::new(|| Duration::from_secs(60));
    let sessions = Sessions::new(Arc::clone(&clock) as _, Arc::clone(&store) as _, kept_for);
    let (gone, stays) = (sessions.hears("gone", "hi").await.place, sessions.hears("stays", "hi").await.place);
    tokio::time::advance(Duration::from_secs(61)).await;
    sessions.says(&Caller::Local, &stays, "more", Wants::default(), None).await.unwrap();
    store.entries.lock().remove(&domain::keys::sessions::session(&owner_of(&gone), &gone));
    assert_eq!(sessions.count(&Caller::Local).await, 1);
    assert_eq!(sessions.names(&Caller::Local).await, [("stays".to_owned(), 102)]);
    sessions.hears("new", "hi").await;
    assert!(!store.entries.lock()[domain::keys::sessions::INDEX].contains("gone"));
}

#[tokio::test]
async fn an_apology_is_kept_as_one_and_lines_of_the_version_before_are_answers() {
    let store = Arc::new(MemoryStore::new());
    let asked = sessions_in(&store).hears("one", "hello").await;
    let place = asked.place.clone();
    let posts = async |nonce: &str, apology: bool| {
        let piece = Piece { apology, ..Piece::text("words") };
        let (place, reply_to) = (place.clone(), Some(asked.id.clone()));
        let request = PostRequest::Create { place, piece, reply_to, nonce: nonce.to_owned() };
        sessions_in(&store).perform(&request).await.unwrap();
    };
    posts("1", true).await;
    posts("2", false).await;
    let said = sessions_in(&store).transcript(&place).await;
    let kinds: Vec<bool> = said.iter().filter_map(|said| said.answer().map(|(_, _, apology)| apology)).collect();
    assert_eq!(kinds, [true, false]);
    let line = r#"{"id":"7","ours":true,"text":"sorry","at":1,"answers":"6","nonce":"6-0"}"#;
    let line: record::Line = serde_json::from_str(line).unwrap();
    assert!(!line.apology);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_given_no_number_of_its_own_does_not_begin() {
    let store = Arc::new(MemoryStore::new());
    let (one, two) = (sessions_in(&store), sessions_in(&store));
    one.hears("a", "hello").await;
    two.count(&Caller::Local).await;
    // Other processes win for longer than all retries.
    store.lost_replaces.store(usize::MAX, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(two.open(&Caller::Local, "b").await, Err(NotTaken::Crowded));
    let failed = two.perform(&create(&Place::new(DOOR, "b"), "n", "x")).await;
    assert!(matches!(failed, Err(PostError::Transient(_))), "{failed:?}");
    // Other processes win repeatedly, then stop.
    store.lost_replaces.store(40, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(one.open(&Caller::Local, "c").await.unwrap().number, 102);
    assert_eq!(two.open(&Caller::Local, "d").await.unwrap().number, 103);
    let named = |name: &str, number: u64| (name.to_owned(), number);
    let all = [named("a", 101), named("c", 102), named("d", 103)];
    assert_eq!((one.names(&Caller::Local).await, two.names(&Caller::Local).await), (all.to_vec(), all.to_vec()));
}

#[tokio::test]
async fn what_an_earlier_version_left_too_much_of_makes_room_at_once() {
    let store = Arc::new(MemoryStore::new());
    for number in 0..KEPT_MAX + 60 {
        let (owner, name) = (number % 8, format!("s{number}"));
        let place = Place::new(DOOR, format!("key-{owner}.{name}"));
        let touched_at = u64::try_from(number).unwrap() + 1;
        let record =
            record::Record { name, number: touched_at + 100, touched_at, lines: 0, numbers: Vec::new(), preview: None };
        store.put(domain::keys::sessions::session(&owner_of(&place), &place), record.to_json());
    }
    let sessions = sessions_in(&store);
    sessions.open(&Caller::Local, "new").await.unwrap();
    let names = sessions.names(&Caller::Local).await;
    assert_eq!(names.len(), KEPT_MAX);
    let is_there = |name: &str| names.iter().any(|(known, _)| known == name);
    assert!(is_there("new") && is_there("s1059") && !is_there("s0") && !is_there("s8"));
}

#[tokio::test(start_paused = true)]
async fn one_read_that_fails_takes_no_session_out_of_the_index() {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(ManualClock::new());
    let kept_for: KeptFor = Arc::new(|| Duration::from_secs(60));
    let sessions = Sessions::new(Arc::clone(&clock) as _, Arc::clone(&store) as _, kept_for);
    for name in ["a", "b"] {
        sessions.hears(name, "hi").await;
    }
    // Old enough to be checked when another one is created.
    tokio::time::advance(Duration::from_secs(61)).await;
    let places = [Place::new(DOOR, "a"), Place::new(DOOR, "b")].to_vec();
    for failing in 1..=2 {
        store.failing_reads.store(failing, std::sync::atomic::Ordering::SeqCst);
        assert!(sessions.all_records(places.clone()).await.is_none(), "{failing}");
        store.failing_reads.store(0, std::sync::atomic::Ordering::SeqCst);
    }
    for failing in 1..8 {
        store.failing_reads.store(failing, std::sync::atomic::Ordering::SeqCst);
        sessions.sweep().await;
        store.failing_reads.store(0, std::sync::atomic::Ordering::SeqCst);
        let index = store.entries.lock()[domain::keys::sessions::INDEX].clone();
        assert!(index.contains("\"a\"") && index.contains("\"b\""), "{failing}: {index}");
    }
    assert_eq!(sessions.all_records(places).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_session_ends_at_the_cost_of_its_lines_and_with_all_that_other_processes_wrote() {
    let store = Arc::new(MemoryStore::new());
    let [here, there] = [sessions_in(&store), sessions_in(&store)];
    let place = here.hears("a", "hello").await.place;
    let key = domain::keys::sessions::session(&owner_of(&place), &place);
    let before = store.entries.lock()[&key].clone();
    for text in ["of the same moment", "unnamed"] {
        here.hears("a", text).await;
    }
    // The other process wrote concurrently, and its record replaced the one that names the last line.
    store.put(key, before);
    there.hears("a", "named").await;
    let lines = || store.entries.lock().keys().filter(|key| key.starts_with("staffai:said:")).count();
    assert_eq!(lines(), 3);
    store.broken_scans.store(1, std::sync::atomic::Ordering::SeqCst);
    there.remove(&place).await;
    assert_eq!(store.broken_scans.load(std::sync::atomic::Ordering::SeqCst), 1, "no keys are looked through");
    assert_eq!(here.texts(&place).await, Vec::<String>::new(), "the rest is invisible");
    assert_eq!(here.history(&place, &HistoryRange::Newest, 10).await, Vec::new());
    assert_eq!(lines(), 0, "nothing of it is kept");
}

/// A store in which each request takes [`TRIP`].
struct Slow(MemoryStore);

const TRIP: Duration = Duration::from_millis(10);

impl Store for Slow {
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored> {
        let read = self.0.read(key);
        async move {
            tokio::time::sleep(TRIP).await;
            read.await
        }
        .boxed()
    }

    fn scan_many<'a>(
        &'a self,
        prefixes: &'a [&'a str],
        limit: usize,
        person: Option<&'a Person>,
    ) -> BoxFuture<'a, Scanned<Vec<Vec<Row>>>> {
        self.0.scan_many(prefixes, limit, person)
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        let written = self.0.write(writes);
        async move {
            tokio::time::sleep(TRIP).await;
            written.await
        }
        .boxed()
    }

    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced> {
        async move {
            tokio::time::sleep(TRIP).await;
            self.0.replace(key, seen, value).await
        }
        .boxed()
    }

    fn status(&self) -> StoreStatus {
        self.0.status()
    }

    fn close(&self, within: Duration) -> BoxFuture<'_, bool> {
        self.0.close(within)
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_loads_at_once_none_takes_back_what_was_changed_meanwhile() {
    let store = Arc::new(Slow(MemoryStore::new()));
    let process = || {
        let (clock, store) = (Arc::new(ManualClock::new()), Arc::clone(&store));
        Sessions::new(clock, store as _, Arc::new(|| Duration::from_secs(60)))
    };
    let first = process();
    let place = first.hears("s1", "hello").await.place;
    let (kept, gone) = (first.posts(&place, "n", "old").await, first.posts(&place, "m", "gone").await);
    let later = process();
    let edit = PostRequest::Edit { place: place.clone(), message: kept.clone(), piece: Piece::text("new") };
    let delete = PostRequest::Delete { place: place.clone(), message: gone.clone() };
    let change = async { tokio::join!(later.perform(&edit), later.perform(&delete)) };
    let load = async {
        tokio::time::sleep(TRIP / 2).await;
        later.history(&place, &HistoryRange::Newest, 10).await
    };
    let ((edited, deleted), _) = tokio::join!(change, load);
    assert!(edited.is_ok() && deleted.is_ok());
    let said = later.history(&place, &HistoryRange::Newest, 10).await;
    assert_eq!(said.into_iter().map(|posted| posted.text).collect::<Vec<_>>(), ["hello", "new"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_lists_and_begins_sessions_without_end_delays_no_other_key() {
    let store = Arc::new(Slow(MemoryStore::new()));
    let sessions =
        Arc::new(Sessions::new(Arc::new(ManualClock::new()), store as _, Arc::new(|| Duration::from_secs(60))));
    let (loud, quiet) = (holder("loud", &[Right::Chat]), holder("quiet", &[Right::Chat]));
    let takes = async |session: &str| {
        let begun = tokio::time::Instant::now();
        sessions.open(&quiet, session).await.unwrap();
        sessions.list(&quiet).await;
        begun.elapsed()
    };
    takes("first").await;
    let alone = takes("second").await;
    let flood = (0..128).map(|number| {
        let (sessions, loud) = (Arc::clone(&sessions), loud.clone());
        tokio::spawn(async move {
            for again in 0..100 {
                sessions.open(&loud, &format!("s{number}-{again}")).await.unwrap();
                sessions.list(&loud).await;
            }
        })
    });
    let flood: Vec<_> = flood.collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let beside = takes("third").await;
    assert!(beside <= alone * 3, "{beside:?} instead of {alone:?}");
    assert_eq!(sessions.work.free(), fair::AT_ONCE / 2, "one key has at most half of the shares");
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}

mod unread;
