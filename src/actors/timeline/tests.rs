use std::time::Duration;

use super::*;
use crate::domain::completion::{Item, Role};
use crate::domain::ending::Ending;
use crate::domain::ids::{Door, Person, Place};
use crate::domain::turn::{Policy, Trigger};

const DOOR: Door = Door::new("discord");

fn turn(number: usize) -> Turn {
    Turn {
        id: format!("discord:{number}").parse().unwrap(),
        place: Place::new(DOOR, "424242"),
        parent: None,
        guild: Some("535353".to_owned()),
        person: Person::new(DOOR, "646464"),
        name: "Adalbert".to_owned(),
        roles: Vec::new(),
        trigger: Trigger::Mention,
        text: "a secret question".to_owned(),
        quoted: None,
        attachments: Vec::new(),
        locale: None,
        at: Timestamp(0),
        policy: Policy::default(),
        given: None,
    }
}

async fn pass(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

fn called<'a>(turn: &'a TurnId, result: Result<Usage, &'a str>, cost: Option<f64>) -> Called<'a> {
    Called { turn: Some(turn), row: "fast", result, cost }
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_turn_has_its_moment() {
    let timeline = Timeline::showing_messages(true);
    let turn = turn(7);
    timeline.accepted(&turn);
    pass(10).await;
    timeline.started(&turn.id);
    pass(5).await;
    timeline.asked(&turn.id, "model", "fast");
    pass(100).await;
    timeline.called(&called(&turn.id, Err("timeout"), None));
    timeline.asked(&turn.id, "model", "fast");
    pass(200).await;
    let usage = Usage { prompt: 30, completion: 4, cached: 10, estimated: false };
    timeline.called(&called(&turn.id, Ok(usage), Some(0.25)));
    timeline.answered(&turn.id);
    pass(20).await;
    let visible = Instant::now();
    pass(30).await;

    let open = timeline.turns(Timestamp(10_000)).newest.remove(0);
    assert_eq!((open.outcome.as_str(), open.ended_ms, open.age_ms, open.at), ("open", None, 365, Timestamp(9_635)));

    timeline.posted(&turn.id, &Outcome::Replied, visible);
    pass(1_000).await;
    timeline.closed(&turn.id, "failed", "what is over stays as it was");

    let shown = timeline.turns(Timestamp(10_000));
    let line = &shown.newest[0];
    assert_eq!((line.number, line.trigger.as_str(), line.outcome.as_str()), (1, "mention", "replied"));
    assert_eq!(
        (line.started_ms, line.answered_ms, line.visible_ms, line.ended_ms),
        (Some(10), Some(315), Some(335), Some(365))
    );
    let steps: Vec<_> = line.steps.iter().map(|step| (step.from_ms, step.to_ms, step.failed.as_deref())).collect();
    assert_eq!(steps, [(15, Some(115), Some("timeout")), (115, Some(315), None)]);
    assert_eq!(line.message.as_deref(), Some("7"));
    let cost = StepCost { prompt_tokens: 30, completion_tokens: 4, dollars: Some(0.25) };
    assert_eq!((line.steps[0].cost.as_ref(), line.steps[1].cost.as_ref()), (None, Some(&cost)));
    let spent = &shown.spent[0];
    assert_eq!((spent.calls, spent.failed, spent.prompt_tokens, spent.completion_tokens), (2, 1, 30, 4));
    assert_eq!((spent.cached_tokens, spent.dollars), (10, Some(0.25)));
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_turns_are_remembered_and_each_keeps_its_number() {
    let timeline = Timeline::default();
    for number in 0..TURNS + 50 {
        timeline.accepted(&turn(number));
    }
    timeline.accepted(&turn(TURNS));
    timeline.started(&turn(3).id);
    timeline.started(&turn(60).id);
    timeline.closed(&turn(TURNS + 49).id, "cancelled", "trigger deleted");
    let shown = timeline.turns(Timestamp(0));
    assert_eq!((shown.accepted, shown.newest.len()), (250, TURNS));
    let numbers: Vec<u64> = shown.newest.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, (51..=250).rev().collect::<Vec<_>>());
    assert_eq!(shown.newest[0].outcome, "cancelled");
    let started: Vec<u64> =
        shown.newest.iter().filter(|turn| turn.started_ms.is_some()).map(|turn| turn.number).collect();
    assert_eq!(started, [61]);
    let many = &turn(100);
    for _ in 0..STEPS + 5 {
        timeline.asked(&many.id, "tool", "clock");
    }
    let longest = timeline.turns(Timestamp(0)).newest.iter().map(|turn| turn.steps.len()).max();
    assert_eq!(longest, Some(STEPS));
}

#[tokio::test(start_paused = true)]
async fn nothing_tells_who_asked_what_and_where() {
    let timeline = Timeline::default();
    let turn = turn(757_575);
    timeline.accepted(&turn);
    timeline.posted(&turn.id, &Outcome::Apologised(Ending::Deadline), Instant::now());
    let permits = Arc::new(Semaphore::new(4));
    timeline.limit("model calls", 4, Arc::clone(&permits));
    let _held = permits.acquire().await.unwrap();
    let shown = serde_json::to_string(&timeline.turns(Timestamp(0))).unwrap();
    for private in ["secret", "Adalbert", "424242", "535353", "646464", "757575"] {
        assert!(!shown.contains(private), "{private} is in {shown}");
    }
    assert!(shown.contains(r#"{"name":"model calls","used":1,"max":4}"#), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn first_words_are_told_while_a_turn_is_open() {
    let timeline = Timeline::default();
    let turn = turn(1);
    timeline.accepted(&turn);
    pass(40).await;
    timeline.seen(&turn.id);
    pass(40).await;
    timeline.seen(&turn.id);
    let told = timeline.turns(Timestamp(10_000)).newest.remove(0);
    assert_eq!((told.outcome.as_str(), told.visible_ms), ("open", Some(40)));
}

#[tokio::test]
async fn prompts_are_kept_only_where_messages_are_shown() {
    let request = Request { messages: vec![Item::new(Role::User, "hello")], ..Request::default() };
    for shown in [true, false] {
        let timeline = Timeline::showing_messages(shown);
        let turn = turn(1);
        timeline.accepted(&turn);
        timeline.prompted(&turn.id, "fast", &request);
        let (id, calls, texts) = timeline.told(1).unwrap();
        assert_eq!((id, calls.len(), texts), (turn.id, usize::from(shown), shown));
        assert!(timeline.told(0).is_none() && timeline.told(2).is_none());
    }
}
