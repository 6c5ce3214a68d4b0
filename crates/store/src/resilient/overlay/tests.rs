use super::*;
use domain::ids::Door;

const NOW: Timestamp = Timestamp(1_000);

fn put(key: &str, value: &str) -> Write {
    Write::Put { key: key.into(), value: value.into(), ttl: None }
}

fn put_for(key: &str, value: &str, millis: u64) -> Write {
    Write::Put { key: key.into(), value: value.into(), ttl: Some(Duration::from_millis(millis)) }
}

fn delete(key: &str) -> Write {
    Write::Delete { key: key.into() }
}

#[test]
fn the_last_write_of_a_key_wins_and_weighs_once() {
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(vec![put("a", "1"), delete("a"), put("a", "22")], None, NOW);
    assert_eq!(overlay.get("a", NOW), Seen::Live("22"));
    assert_eq!((overlay.len(), overlay.bytes()), (1, ENTRY_OVERHEAD + 3));
    overlay.settle(overlay.last(), 0);
    assert_eq!((overlay.len(), overlay.bytes()), (0, 0));
}

#[test]
fn settling_keeps_what_came_after_the_snapshot() {
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(vec![put("a", "old"), put("b", "1")], None, NOW);
    let snapshot = overlay.snapshot(NOW);
    overlay.take(vec![put("a", "new")], None, NOW);
    overlay.settle(snapshot.through, snapshot.counts);
    assert_eq!(overlay.get("a", NOW), Seen::Live("new"));
    assert_eq!(overlay.get("b", NOW), Seen::Unknown);
}

#[test]
fn a_snapshot_tells_the_life_that_remains() {
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(vec![put_for("a", "1", 500), put_for("b", "1", 100)], None, NOW);
    let later = Timestamp(1_100);
    assert_eq!(overlay.snapshot(later).writes.plain, vec![put_for("a", "1", 400), delete("b")]);
    assert_eq!(overlay.get("b", later), Seen::Gone);
}

#[test]
fn histories_go_first_then_the_oldest_of_the_rest() {
    let mut overlay = Overlay::new(2, 10_000);
    overlay.take(vec![put("staffai:turn:d:1", ""), put("discord_context:1:1", "")], None, NOW);
    assert_eq!(overlay.take(vec![put("staffai:turn:d:2", "")], None, NOW), 1);
    assert_eq!(overlay.get("discord_context:1:1", NOW), Seen::Unknown);
    assert_eq!(overlay.take(vec![put("staffai:turn:d:3", "")], None, NOW), 1);
    assert_eq!(overlay.get("staffai:turn:d:1", NOW), Seen::Unknown);
    assert_eq!(overlay.len(), 2);
}

#[test]
fn text_of_sessions_and_programs_evicts_no_deletion_and_no_turn() {
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(vec![delete("discord_context:1:1"), put("staffai:turn:d:1", "")], None, NOW);
    for n in 0..100 {
        overlay.take(vec![put(&format!("staffai:said:api:k:s:{n:020}"), "text")], None, NOW);
        overlay.take(vec![put(&format!("staffai:response:k:{n}"), "text")], None, NOW);
    }
    assert_eq!(overlay.get("discord_context:1:1", NOW), Seen::Gone);
    assert_eq!(overlay.get("staffai:turn:d:1", NOW), Seen::Live(""));
    assert_eq!(overlay.len(), 10);
}

#[test]
fn deletions_of_one_holder_evict_only_older_ones_of_its_own() {
    let mut overlay = Overlay::new(100, 1_000_000);
    overlay.take(vec![put("staffai:turn:d:1", ""), delete("discord_context:7:1")], None, NOW);
    let dropped: usize =
        (0..1_000).map(|n| overlay.take(vec![delete(&format!("staffai:response:k:{n}"))], None, NOW)).sum();
    assert_eq!(overlay.get("staffai:turn:d:1", NOW), Seen::Live(""));
    assert_eq!(overlay.get("discord_context:7:1", NOW), Seen::Gone);
    assert_eq!(overlay.get("staffai:response:k:999", NOW), Seen::Gone);
    assert_eq!(overlay.get("staffai:response:k:0", NOW), Seen::Unknown);
    assert!(overlay.len() <= 52 && dropped == 1_002 - overlay.len(), "{} {dropped}", overlay.len());
    overlay.settle(overlay.last(), 0);
    assert_eq!((overlay.len(), overlay.bytes(), overlay.deletions.len()), (0, 0, 0));
}

#[test]
fn bytes_are_bounded_also_against_one_huge_value() {
    let mut overlay = Overlay::new(1_000, 1_000);
    for n in 0..100 {
        overlay.take(vec![put(&format!("discord_context:{n}:1"), "0123456789")], None, NOW);
        assert!(overlay.bytes() <= 1_000);
    }
    let before = overlay.len();
    assert_eq!(overlay.take(vec![put("staffai:turn:d:1", &"x".repeat(2_000))], None, NOW), 1);
    assert_eq!(overlay.len(), before);
}

#[test]
fn what_was_deleted_never_comes_back_by_dropping() {
    let mut overlay = Overlay::new(2, 10_000);
    overlay.take(vec![delete("discord_context:1:1"), put("discord_context:1:1", "new")], None, NOW);
    overlay.take(vec![put("discord_context:2:1", "x"), put("discord_context:3:1", "x")], None, NOW);
    assert_eq!(overlay.get("discord_context:1:1", NOW), Seen::Gone);
}

#[test]
fn a_new_history_behind_a_deletion_evicts_no_turn() {
    let mut overlay = Overlay::new(100, 2_000);
    overlay.take(vec![put("staffai:turn:d:1", "")], None, NOW);
    for n in 0..5 {
        let key = format!("discord_context:{n}:1");
        overlay.take(vec![delete(&key), put(&key, &"x".repeat(1_000))], None, NOW);
    }
    assert_eq!(overlay.get("staffai:turn:d:1", NOW), Seen::Live(""));
    assert_eq!(overlay.get("discord_context:0:1", NOW), Seen::Gone, "its text is evicted, its deletion is not");
    assert!(overlay.bytes() <= 2_000);
}

#[test]
fn expired_values_give_their_room_back_and_are_no_loss() {
    let mut overlay = Overlay::new(2, 10_000);
    overlay.take(vec![put_for("staffai:turn:d:1", "long text", 10), put("discord_context:1:1", "")], None, NOW);
    let before = overlay.bytes();
    let later = Timestamp(1_010);
    overlay.expire(later);
    assert_eq!(before - overlay.bytes(), "long text".len());
    assert_eq!(overlay.take(vec![put("staffai:turn:d:2", "")], None, later), 0);
    assert_eq!(overlay.get("discord_context:1:1", later), Seen::Live(""));
}

#[test]
fn increments_are_folded_into_what_is_known_and_else_kept_apart() {
    let add = |key: &str, by: i64| Write::Add { key: key.into(), by: by.into(), ttl: None };
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(
        vec![put("a", "5"), add("a", 2), put("b", "no number"), add("b", 2), delete("c"), add("c", 2)],
        None,
        NOW,
    );
    for (key, sum) in [("a", "7"), ("b", "2"), ("c", "2")] {
        assert_eq!(overlay.get(key, NOW), Seen::Live(sum), "{key}");
    }
    overlay.take(vec![add("d", 1), add("e", 1), put("e", "9"), add("d", 1)], None, NOW);
    assert_eq!((overlay.get("d", NOW), overlay.counts.of("d")), (Seen::Unknown, Some(2.into())));
    assert_eq!((overlay.get("e", NOW), overlay.counts.of("e")), (Seen::Live("9"), None));
    let snapshot = overlay.snapshot(NOW);
    assert_eq!(snapshot.writes.plain[0], add("d", 2));
    overlay.take(vec![add("d", 1)], None, NOW);
    overlay.settle(snapshot.through, snapshot.counts);
    assert_eq!((overlay.len(), overlay.counts.of("d")), (1, Some(1.into())));
}

#[test]
fn a_scan_stops_at_its_limit_of_live_keys() {
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(vec![delete("a1"), put("a2", "2"), put("a3", "3"), put("b", "4")], None, NOW);
    let value = |v: &str| Some(v.to_owned());
    assert_eq!(overlay.scan("a", 1, NOW), [("a1".into(), None), ("a2".into(), value("2"))]);
    assert_eq!(overlay.scan("a", 9, NOW).len(), 3);
    assert_eq!(overlay.scan("a", 0, NOW), []);
}

#[test]
fn writes_of_an_owner_that_is_fenced_are_forgotten_and_all_else_stays() {
    let add = |key: &str, by: i64| Write::Add { key: key.into(), by: by.into(), ttl: None };
    let (mine, other) = (Range::Door(Door::new("d")), Range::Door(Door::new("e")));
    let mut overlay = Overlay::new(10, 10_000);
    overlay.take(vec![delete("a"), put("b", "1"), add("n", 1)], None, NOW);
    overlay.take(vec![put("a", "2"), put("b", "2"), put("c", "2"), add("n", 2)], Some(&mine), NOW);
    overlay.take(vec![put("d", "3"), add("n", 4)], Some(&other), NOW);
    let snapshot = overlay.snapshot(NOW);
    assert_eq!(snapshot.writes.plain, [add("n", 1)]);
    assert_eq!(snapshot.writes.owned[&mine], [add("n", 2), put("a", "2"), put("b", "2"), put("c", "2")]);
    assert_eq!(snapshot.writes.owned[&other], [add("n", 4), put("d", "3")]);
    overlay.take(vec![add("n", 8)], Some(&mine), NOW);
    overlay.drop_owned(&mine);
    overlay.settle(snapshot.through, snapshot.counts);
    assert_eq!((overlay.get("a", NOW), overlay.get("c", NOW)), (Seen::Gone, Seen::Unknown));
    assert_eq!((overlay.len(), overlay.counts.of("n")), (1, None));
}
