//! The journal takes up records of the previous version. `records.jsonl` contains one of each kind in the format of
//! that version: one key and value per line.

use std::collections::BTreeMap;

use super::*;

fn written() -> Vec<(String, String)> {
    let line = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        (text("key"), text("value"))
    };
    include_str!("records.jsonl").lines().map(line).collect()
}

#[test]
fn nothing_of_a_stored_record_is_lost() {
    for (key, value) in written() {
        let custody: Custody = serde_json::from_str(&value).unwrap_or_else(|error| panic!("{key}: {error}"));
        let (before, after): (serde_json::Value, _) =
            (serde_json::from_str(&value).unwrap(), serde_json::to_value(&custody).unwrap());
        assert_eq!(before, after, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_stored_record_is_taken_up() {
    let log = Log::capture();
    let store = MemoryStore::new();
    for (key, value) in written() {
        store.put(key, value);
    }
    let mut world = world(store).await;
    let (mut offered, mut delivered) = (Vec::new(), BTreeMap::new());
    while let Some(message) = world.rate_limiter.now().await {
        if let RateLimiterMsg::Admit(turn) = message {
            assert!(turn.again, "some of it may have been shown");
            offered.push(turn.turn.id.id.to_string());
        }
    }
    while let Some((id, text, check)) = world.delivery().await {
        assert!(check, "it may have been posted");
        delivered.insert(id, text.lines().next().unwrap_or_default().to_owned());
    }
    assert!(log.of("store.corrupt").is_empty());
    let (mut unanswered, mut answered, mut closed) = (Vec::new(), BTreeMap::new(), Vec::new());
    for (key, value) in written() {
        let id = keys::parse_turn(&key).unwrap().id.to_string();
        match serde_json::from_str(&value).unwrap() {
            Custody::Open(OpenTurn { turn, .. }) if !turn.trigger.is_asked() => closed.push(id),
            Custody::Open(OpenTurn { answer: None, .. }) => unanswered.push(id),
            Custody::Open(OpenTurn { answer: Some(_), .. }) => drop(answered.insert(id, "two".to_owned())),
            Custody::Closed(_) => closed.push(id),
        }
    }
    assert_eq!((unanswered.len(), answered.len(), closed.len()), (6, 29, 3));
    assert_eq!((offered, delivered), (unanswered, answered));
    for id in closed {
        assert_eq!(world.record(&id), "closed");
        world.accept(&turn(&id, "7", "42"));
        assert_eq!(world.offered().await, None, "{id} was there before");
    }
}
