use super::*;
use crate::testing::{BEGINNING, DOOR, message, place, settle};
use domain::ids::MessageId;
use ports::testing::ManualClock;
use ports::{Reading, TurnEventReader};

const FIRST: u64 = BEGINNING.0 * NUMBERS_A_MS + 1;

fn log() -> TurnEvents {
    TurnEvents::new(vec![DOOR], Arc::new(ManualClock::new()))
}

fn turn(id: &str) -> TurnId {
    TurnId::of(&message(id))
}

fn draft(text: &str, anew: bool) -> TurnUpdate {
    TurnUpdate::Draft { text: text.to_owned(), anew }
}

/// The result of a read from this number.
fn read(log: &TurnEvents, after: u64) -> (Vec<(u64, TurnUpdate)>, Option<u64>) {
    let batch = log.read(&place("42"), after).unwrap();
    let told = batch.events.iter().map(|event| (event.number, event.update.clone())).collect();
    (told, batch.missed)
}

#[test]
fn a_reader_goes_on_behind_any_number() {
    let log = log();
    assert!(log.read(&place("42"), 0).is_none());
    for update in [TurnUpdate::Accepted, TurnUpdate::Queued { ahead: 1 }, TurnUpdate::DONE] {
        log.publish(&place("42"), &turn("1"), || update);
    }
    let all: Vec<_> = [TurnUpdate::Accepted, TurnUpdate::Queued { ahead: 1 }, TurnUpdate::DONE]
        .into_iter()
        .zip(FIRST..)
        .map(|(update, number)| (number, update))
        .collect();
    assert_eq!(read(&log, 0), (all.clone(), None));
    assert_eq!(read(&log, FIRST), (all[1..].to_vec(), None));
    assert_eq!(read(&log, FIRST + 2), (Vec::new(), None));
    // Numbers of another process: one before this process, and one that was never assigned.
    assert_eq!(read(&log, 7), (all.clone(), Some(FIRST - 1)));
    assert_eq!(read(&log, FIRST + 99), (all, Some(FIRST - 1)));
}

#[test]
fn at_other_doors_a_stream_begins_with_its_first_reader() {
    let log = log();
    let elsewhere = Place::new(Door::new("elsewhere"), "1");
    log.publish(&elsewhere, &turn("1"), || panic!("made for nobody"));
    assert!(log.read(&elsewhere, 0).is_none() && !log.has(&elsewhere));
    log.open(&elsewhere);
    log.publish(&elsewhere, &turn("1"), || TurnUpdate::Accepted);
    assert_eq!(log.read(&elsewhere, 0).unwrap().events.len(), 1);
}

#[test]
fn drafts_that_nobody_read_are_one_event() {
    let log = log();
    let grow = |turn: &TurnId, text: &str, anew| log.publish(&place("42"), turn, || draft(text, anew));
    let (one, other) = (turn("1"), turn("2"));
    grow(&one, "a", true);
    grow(&one, "b", false);
    assert_eq!(read(&log, 0).0, [(FIRST, draft("ab", true))]);
    // Events that a reader already has never change.
    grow(&one, "c", false);
    grow(&one, "d", false);
    grow(&other, "x", true);
    grow(&one, "e", false);
    grow(&one, "f", true);
    let rest: Vec<_> = read(&log, FIRST).0.into_iter().map(|(_, update)| update).collect();
    assert_eq!(rest, [draft("cd", false), draft("x", true), draft("e", false), draft("f", true)]);
}

#[test]
fn a_stream_keeps_so_many_events_and_bytes_and_the_last_answer_whatever_its_size() {
    let log = log();
    for _ in 0..EVENTS_MAX + 5 {
        log.publish(&place("42"), &turn("1"), || TurnUpdate::Queued { ahead: 1 });
    }
    let (events, missed) = read(&log, FIRST);
    assert_eq!((events.len(), events[0].0, missed), (READ_MAX, FIRST + 5, Some(FIRST + 4)));
    let text = "x".repeat(BYTES_MAX + 1);
    log.publish(&place("42"), &turn("1"), || TurnUpdate::Final {
        parts: [domain::outgoing::Part::Text { text }].as_slice().into(),
        effort: domain::turn::Effort::default(),
    });
    log.publish(&place("42"), &turn("1"), || TurnUpdate::DONE);
    let kept: Vec<u64> = read(&log, 0).0.iter().map(|(number, _)| *number).collect();
    let last = FIRST + EVENTS_MAX as u64 + 6;
    assert_eq!(kept, [last - 1, last]);
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded_and_the_quietest_makes_room() {
    let log = log();
    for number in 0..STREAMS_MAX {
        log.open(&place(&number.to_string()));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    log.publish(&place("0"), &turn("1"), || TurnUpdate::Accepted);
    log.open(&place("one more"));
    assert!(log.read(&place("0"), 0).is_some() && log.read(&place("1"), 0).is_none());
    tokio::time::advance(QUIET_FOR).await;
    log.open(&place("the only one"));
    assert!(log.read(&place("one more"), 0).is_none() && log.read(&place("the only one"), 0).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_reader_outlives_any_number_of_others() {
    let log = log();
    log.open(&place("read"));
    let waits = log.read(&place("read"), 0).unwrap();
    for number in 0..2 * STREAMS_MAX {
        tokio::time::advance(Duration::from_millis(1)).await;
        log.open(&place(&number.to_string()));
    }
    assert!(log.has(&place("read")) && log.has(&place(&(2 * STREAMS_MAX - 1).to_string())));
    drop(waits);
    for number in 0..STREAMS_MAX {
        tokio::time::advance(Duration::from_millis(1)).await;
        log.open(&place(&format!("more {number}")));
    }
    assert!(!log.has(&place("read")));
}

#[tokio::test(start_paused = true)]
async fn each_reader_gets_everything_and_waits_for_more() {
    let log = log();
    log.open(&place("42"));
    let reader = || TurnEventReader::new(Arc::new(log.clone()), place("42"), 0).unwrap();
    let reading = |mut reader: TurnEventReader| {
        tokio::spawn(async move {
            let mut told = Vec::new();
            while let Some(Reading::Event(event)) = reader.next().await {
                told.push(event.update.clone());
                if event.update == TurnUpdate::DONE {
                    break;
                }
            }
            told
        })
    };
    let readers = [reading(reader()), reading(reader())];
    for update in [TurnUpdate::Accepted, draft("a", true), TurnUpdate::DONE] {
        settle().await;
        log.publish(&place("42"), &turn("1"), || update);
    }
    for reader in readers {
        assert_eq!(reader.await.unwrap(), [TurnUpdate::Accepted, draft("a", true), TurnUpdate::DONE]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_begins_again_is_accepted_again_only_behind_what_was_told_of_it() {
    let log = log();
    log.open(&place("42"));
    for update in [TurnUpdate::Accepted, TurnUpdate::Accepted, draft("a", true), TurnUpdate::Accepted] {
        log.publish(&place("42"), &turn("1"), || update);
    }
    let told: Vec<_> = log.read(&place("42"), 0).unwrap().events.iter().map(|event| event.update.clone()).collect();
    assert_eq!(told, [TurnUpdate::Accepted, draft("a", true), TurnUpdate::Accepted]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_told_what_it_missed_and_cut() {
    let log = log();
    let publish = |many: usize| {
        for _ in 0..many {
            log.publish(&place("42"), &TurnId::of(&MessageId::new(DOOR, "1")), || TurnUpdate::Queued { ahead: 1 });
        }
    };
    publish(1);
    let at = |after| TurnEventReader::new(Arc::new(log.clone()), place("42"), after).unwrap();
    let mut slow = at(0);
    assert!(matches!(slow.next().await, Some(Reading::Event(_))));
    assert!(tokio::time::timeout(Duration::from_secs(1), slow.next()).await.is_err());
    publish(EVENTS_MAX + 1);
    assert_eq!(slow.next().await, Some(Reading::Missed(FIRST + 1)));
    assert_eq!(slow.next().await, None);
    // The stream restarts after the missed events; a late reader gets the same notice and reads on.
    let Some(Reading::Event(next)) = at(FIRST + 1).next().await else { panic!("an event") };
    assert_eq!(next.number, FIRST + 2);
    let mut late = at(FIRST);
    assert_eq!(late.next().await, Some(Reading::Missed(FIRST + 1)));
    assert!(matches!(late.next().await, Some(Reading::Event(_))));
}

#[tokio::test(start_paused = true)]
async fn a_reader_ends_with_its_stream() {
    let log = log();
    log.open(&place("42"));
    let mut reader = TurnEventReader::new(Arc::new(log.clone()), place("42"), 0).unwrap();
    let reading = tokio::spawn(async move { reader.next().await });
    settle().await;
    tokio::time::advance(QUIET_FOR).await;
    log.open(&place("43"));
    assert_eq!(reading.await.unwrap(), None);
}

#[test]
fn large_answers_of_one_client_cost_it_its_oldest_events_and_others_nothing() {
    let log = log();
    log.publish(&place("1"), &turn("1"), || draft("mine", false));
    let answer = || TurnUpdate::Final {
        parts: [domain::outgoing::Part::Text { text: "x".repeat(4 * 1024 * 1024) }].into(),
        effort: domain::effort::Effort::default(),
    };
    for number in 0..64 {
        log.publish(&place(&format!("large-{number}")), &turn("2"), answer);
        log.publish(&place(&format!("large-{number}")), &turn("2"), || TurnUpdate::DONE);
    }
    let kept =
        (0..64).filter(|number| log.read(&place(&format!("large-{number}")), 0).unwrap().events.len() == 2).count();
    assert!((14..=16).contains(&kept), "{kept}");
    assert_eq!(log.read(&place("1"), 0).unwrap().events.len(), 1);
    let streams = log.0.as_ref().unwrap().streams.lock();
    assert!(streams.bytes <= ALL_BYTES_MAX && streams.bytes == streams.all.values().map(Stream::weight).sum::<usize>());
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_turn_is_open_outlives_any_number_of_others() {
    let log = log();
    log.publish(&place("open"), &turn("1"), || TurnUpdate::Accepted);
    for number in 0..2 * STREAMS_MAX {
        tokio::time::advance(Duration::from_millis(1)).await;
        for update in [TurnUpdate::Accepted, TurnUpdate::DONE] {
            log.publish(&place(&number.to_string()), &turn("2"), || update);
        }
    }
    assert!(log.has(&place("open")));
}

#[test]
fn many_sessions_of_some_clients_cost_another_client_no_event() {
    let log = log();
    let answer = |bytes: usize| TurnUpdate::Final {
        parts: [domain::outgoing::Part::Text { text: "x".repeat(bytes) }].into(),
        effort: domain::effort::Effort::default(),
    };
    let said = |person: &str, session: &str, bytes: usize| {
        let person = Person::new(DOOR, person);
        for update in [TurnUpdate::Accepted, answer(bytes), TurnUpdate::DONE] {
            log.publish_of(Some(&person), &place(session), &turn("1"), || update);
        }
    };
    said("honest", "long", 4 * 1024 * 1024);
    for session in 0..200 {
        for key in ["a", "b", "c"] {
            said(key, &format!("{key}-{session}"), 200 * 1024);
        }
    }
    assert_eq!(log.read(&place("long"), 0).unwrap().events.len(), 2, "the long answer and the end of its turn");
    let streams = log.0.as_ref().unwrap().streams.lock();
    assert!(streams.bytes <= ALL_BYTES_MAX && streams.bytes == streams.all.values().map(Stream::weight).sum::<usize>());
    let of = |key: &str| {
        let holder = Some(Person::new(DOOR, key));
        streams.all.values().filter(|stream| stream.holder == holder).map(Stream::weight).sum::<usize>()
    };
    assert!(["a", "b", "c"].iter().all(|key| of(key) > ALL_BYTES_MAX / 4), "the others share the rest");
}

#[test]
fn open_turns_are_known_without_their_events() {
    let log = log();
    let said = |id: &str, update| log.publish(&place("42"), &turn(id), || update);
    for id in ["1", "2", "1", "3"] {
        said(id, TurnUpdate::Accepted);
    }
    said("2", TurnUpdate::DONE);
    for _ in 0..EVENTS_MAX {
        said("3", TurnUpdate::Queued { ahead: 1 });
    }
    assert_eq!(log.open_turns(&place("42")), ["1", "3"], "also if the log has dropped their acceptance");
    said("1", TurnUpdate::DONE);
    said("3", TurnUpdate::DONE);
    assert!(log.open_turns(&place("42")).is_empty() && log.open_turns(&place("other")).is_empty());
}
