use super::*;
use ports::testing::MemoryStore;
use ports::vitals::Moments;

fn turn(number: u64) -> TurnTimes {
    TurnTimes {
        number,
        door: "discord".to_owned(),
        message: Some(number.to_string()),
        place: Some("discord:42".to_owned()),
        member: Some("discord:7".to_owned()),
        trigger: "mention".to_owned(),
        at: Timestamp(1_000 * number),
        age_ms: 5,
        outcome: "replied".to_owned(),
        reason: None,
        counted: None,
        started_ms: Some(1),
        answered_ms: Some(2),
        visible_ms: Some(3),
        ended_ms: Some(4),
        lane_ms: Some(1),
        permit_ms: Some(0),
        model_ms: Some(1),
        tools_ms: Some(0),
        post_ms: Some(2),
        model: Some("fast".to_owned()),
        trial: None,
        dollars: None,
        steps: Vec::new(),
        us: Moments::default(),
        earlier: false,
    }
}

async fn begun(store: &Arc<MemoryStore>, now: u64) -> (Past, Vec<u64>) {
    let past = Past::new(Arc::clone(store) as _, "here".to_owned());
    let samples = past.recall(Timestamp(now)).await;
    (past, samples.into_iter().map(|(at, _)| at).collect())
}

fn numbers(past: &Past) -> Vec<u64> {
    past.turns(Timestamp(0)).iter().map(|turn| turn.number).collect()
}

#[tokio::test(start_paused = true)]
async fn turns_and_samples_outlive_a_kill_and_the_next_life_knows_when_it_was() {
    let store = Arc::new(MemoryStore::new());
    let (past, samples) = begun(&store, 0).await;
    assert!(samples.is_empty() && past.breaks().is_empty(), "it is the first life");
    for at in 1..=13 {
        let ended = if at % 2 == 0 { vec![turn(at)] } else { Vec::new() };
        past.keep(ended, (at * 2_000, Figures { turns: at, ..Figures::default() }));
    }
    drop(past);
    let (past, samples) = begun(&store, 60_000).await;
    assert_eq!(samples, (1..=12).map(|at| at * 2_000).collect::<Vec<_>>(), "what came after the last flush is lost");
    assert_eq!(numbers(&past), [12, 10, 8, 6, 4, 2]);
    let told = past.turns(Timestamp(20_000)).remove(0);
    assert_eq!((told.age_ms, told.at, told.earlier, told.model_ms), (8_000, Timestamp(12_000), true, Some(1)));
    let broken = Break { from: Timestamp(24_000), to: Timestamp(60_000), kind: BreakKind::Killed };
    assert_eq!(past.breaks(), [broken]);

    past.keep(vec![turn(1)], (62_000, Figures::default()));
    past.stops(vec![turn(2)], Timestamp(63_000));
    drop(past);
    let (past, samples) = begun(&store, 70_000).await;
    assert_eq!((samples.len(), past.turns(Timestamp(0)).len()), (13, 8), "both lives are there");
    let stopped = Break { from: Timestamp(63_000), to: Timestamp(70_000), kind: BreakKind::Stopped };
    assert_eq!(past.breaks(), [broken, stopped]);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_bounded_and_forgotten_on_demand() {
    let store = Arc::new(MemoryStore::new());
    let (past, _) = begun(&store, 0).await;
    for at in 1..=2_000 {
        past.keep(vec![turn(2 * at), turn(2 * at + 1)], (at * 2_000, Figures::default()));
    }
    let keys = store.entries.lock().keys().filter(|key| key.starts_with(keys::past::PAST_PREFIX)).count();
    assert_eq!(keys as u64, TURN_CHUNKS + SAMPLE_CHUNKS + 1);
    let (past, samples) = begun(&store, 5_000_000).await;
    assert!(samples.len() <= SAMPLES_OF_A_CHUNK * usize::try_from(SAMPLE_CHUNKS).unwrap() && samples.len() > 100);
    let numbers = numbers(&past);
    assert!(numbers.len() <= TURNS && numbers.len() >= TURNS - TURNS_OF_A_CHUNK && numbers[0] == 4_001, "{numbers:?}");
    for _ in 0..BREAKS + 5 {
        let (past, _) = begun(&store, 6_000_000).await;
        past.keep(Vec::new(), (1, Figures::default()));
        past.stops(Vec::new(), Timestamp(6_000_000));
    }
    let (past, _) = begun(&store, 7_000_000).await;
    assert_eq!(past.breaks().len(), BREAKS);
    past.forget("discord:7").await;
    assert!(past.turns(Timestamp(0)).is_empty());
    let (past, _) = begun(&store, 8_000_000).await;
    assert!(past.turns(Timestamp(0)).is_empty(), "nothing is left in the store");
}

#[tokio::test(start_paused = true)]
async fn a_member_who_is_forgotten_takes_no_turns_of_others_along() {
    let store = Arc::new(MemoryStore::new());
    let of = |number: u64| {
        let member = if number.is_multiple_of(3) { "discord:8" } else { "discord:7" };
        TurnTimes { member: Some(member.to_owned()), ..turn(number) }
    };
    let (past, _) = begun(&store, 0).await;
    past.keep((1..=15).map(of).collect(), (2_000, Figures::default()));
    let (past, _) = begun(&store, 60_000).await;
    past.keep((16..=27).map(of).collect(), (62_000, Figures::default()));
    past.forget("discord:8").await;
    let left =
        |numbers: std::ops::RangeInclusive<u64>| numbers.rev().filter(|n| !n.is_multiple_of(3)).collect::<Vec<_>>();
    assert_eq!(numbers(&past), left(1..=15));
    past.keep((28..=29).map(of).collect(), (64_000, Figures::default()));
    let (past, _) = begun(&store, 90_000).await;
    assert_eq!(numbers(&past), left(1..=29), "whole chunks and the one in progress");
}

#[tokio::test(start_paused = true)]
async fn what_another_version_wrote_in_another_form_is_no_loss() {
    let store = Arc::new(MemoryStore::new());
    let put = |key: String, value: &str| Write::Put { key, value: value.to_owned(), ttl: None };
    let writes = vec![
        put(keys::past::past_life("here"), "{\"seen\": 5, \"unknown\": 1}"),
        put(keys::past::past_turns("here", 0), "[{\"number\": 1}]"),
        put(keys::past::past_samples("here", 0), "nonsense"),
    ];
    store.write(writes).await;
    let (past, samples) = begun(&store, 10).await;
    assert!(samples.is_empty() && past.turns(Timestamp(0)).is_empty());
    assert_eq!(past.breaks(), [Break { from: Timestamp(5), to: Timestamp(10), kind: BreakKind::Killed }]);
}
