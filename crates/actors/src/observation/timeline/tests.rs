use std::time::Duration;

use super::*;
use domain::completion::{Item, Request, Role, Usage};
use domain::ending::Ending;
use domain::happening::{CallPurpose, Completed, ModelCalled, ModelFailed};
use domain::ids::{Door, Person, Place};
use domain::limits::charge::Charge;
use domain::limits::{Limits, Reservation};
use domain::people::Linked;
use domain::turn::{Effort, Outcome, Policy, Times, Trigger};
use ports::turn_detail::TextAccess;

const DOOR: Door = Door::new("discord");

fn turn(number: usize) -> Turn {
    Turn {
        id: format!("discord:{number}").parse().unwrap(),
        place: Place::new(DOOR, "424242"),
        parent: None,
        guild: Some("535353".to_owned()),
        person: Person::new(DOOR, "646464"),
        linked: Linked::default(),
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

fn showing() -> Timeline {
    Timeline::showing_texts(Box::new(|text, most| text.replace("hunter2", "***").chars().take(most).collect()))
}

async fn pass(ms: u64) {
    tokio::time::advance(Duration::from_millis(ms)).await;
}

fn called<'a>(
    turn: &'a TurnId,
    took: Duration,
    result: Result<Usage, &'static str>,
    cost: Option<f64>,
) -> ModelCalled<'a> {
    let result = result.map(|usage| Completed { finish: "stop", calls: 0, usage }).map_err(|kind| ModelFailed {
        kind,
        reason: kind,
        quoted: None,
        streamed: None,
    });
    ModelCalled { turn: Some(turn), purpose: CallPurpose::Turn, row: "fast", tries: 1, took, result, cost }
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_turn_has_its_moment() {
    let timeline = showing();
    let turn = turn(7);
    timeline.accepted(&turn, None);
    pass(10).await;
    timeline.started(&turn.id);
    pass(5).await;
    timeline.asked(&turn.id, "model", "fast");
    pass(100).await;
    timeline.called(&called(&turn.id, Duration::from_millis(100), Err("timeout"), None));
    timeline.asked(&turn.id, "model", "fast");
    pass(200).await;
    let usage = Usage { prompt: 30, completion: 4, cached: 10, estimated: false };
    timeline.called(&called(&turn.id, Duration::from_millis(200), Ok(usage), Some(0.25)));
    let times = Times { lane_ms: 10, permit_ms: 5, model_ms: 300, tools_ms: 0 };
    timeline.answered(&turn.id, &Effort { times, model: Some("fast".to_owned()), ..Effort::default() });
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
    let named = [&line.message, &line.place, &line.member].map(|id| id.as_deref().unwrap());
    assert_eq!(named, ["7", "discord:424242", "discord:646464"]);
    assert_eq!((line.lane_ms, line.permit_ms, line.model_ms), (Some(10), Some(5), Some(300)));
    assert_eq!((line.tools_ms, line.post_ms, line.model.as_deref()), (Some(0), Some(50), Some("fast")));
    let cost = StepCost { prompt_tokens: 30, cached_tokens: 10, completion_tokens: 4, dollars: Some(0.25) };
    assert_eq!((line.steps[0].cost.as_ref(), line.steps[1].cost.as_ref()), (None, Some(&cost)));
    let spent = &shown.spent[0];
    assert_eq!((spent.calls, spent.failed, spent.prompt_tokens, spent.completion_tokens), (2, 1, 30, 4));
    assert_eq!((spent.cached_tokens, spent.dollars), (10, Some(0.25)));
}

#[tokio::test(start_paused = true)]
async fn each_hop_has_its_time_in_microseconds() {
    let timeline = showing();
    let turn = turn(7);
    let wait = |us| tokio::time::advance(Duration::from_micros(us));
    timeline.accepted(&turn, Some(Duration::from_micros(140)));
    wait(30).await;
    let limits = Limits { messages: 20, tokens: 5_000 };
    let reservation = Reservation { turn: turn.id.clone(), tokens: 3, lease: Duration::ZERO, limits, exempt: false };
    timeline.reserved(&turn.id, &reservation);
    wait(50).await;
    timeline.started(&turn.id);
    wait(20).await;
    timeline.asked(&turn.id, "model", "fast");
    wait(900).await;
    wait(3).await;
    timeline.called(&called(&turn.id, Duration::from_micros(900), Ok(Usage::default()), None));
    wait(2).await;
    timeline.charged(&turn.id, Charge::Settle, Some(3));
    wait(7).await;
    timeline.answered(&turn.id, &Effort::default());
    wait(400).await;
    timeline.posted(&turn.id, &Outcome::Replied, Instant::now());
    let told = timeline.turns(Timestamp(10_000)).newest.remove(0);
    let moments = Moments {
        decided: Some(140),
        reserved: Some(30),
        started: Some(80),
        charged: Some(1_005),
        answered: Some(1_012),
        ended: Some(1_412),
    };
    assert_eq!(told.us, moments);
    assert_eq!((told.steps[0].from_us, told.steps[0].to_us), (Some(100), Some(1_000)));
}

#[tokio::test(start_paused = true)]
async fn a_report_after_the_end_of_its_turn_ends_its_step_with_the_turn() {
    let timeline = showing();
    let turn = turn(7);
    timeline.accepted(&turn, None);
    timeline.asked(&turn.id, "model", "fast");
    pass(100).await;
    timeline.posted(&turn.id, &Outcome::Replied, Instant::now());
    pass(50).await;
    timeline.called(&called(&turn.id, Duration::from_millis(100), Ok(Usage::default()), None));
    let step = timeline.turns(Timestamp(10_000)).newest.remove(0).steps.remove(0);
    assert_eq!((step.to_ms, step.failed, step.cost.is_some()), (Some(100), None, true));
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_turns_are_remembered_and_each_keeps_its_number() {
    let timeline = Timeline::default();
    for number in 0..TURNS + 50 {
        timeline.accepted(&turn(number), None);
    }
    timeline.accepted(&turn(TURNS), None);
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
async fn ids_are_told_until_a_member_wishes_to_be_forgotten_and_names_and_texts_never() {
    let timeline = Timeline::default();
    let turn = turn(757_575);
    timeline.accepted(&turn, None);
    let shown = serde_json::to_string(&timeline.turns(Timestamp(0))).unwrap();
    for (private, told) in
        [("424242", true), ("646464", true), ("757575", true), ("secret", false), ("Adalbert", false)]
    {
        assert_eq!(shown.contains(private), told, "{private}: {shown}");
    }
    timeline.forget(&turn.person);
    timeline.posted(&turn.id, &Outcome::Apologised(Ending::Deadline), Instant::now());
    let permits = timeline.limit("model calls", 4);
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
    timeline.accepted(&turn, None);
    pass(40).await;
    timeline.seen(&turn.id);
    pass(40).await;
    timeline.seen(&turn.id);
    let told = timeline.turns(Timestamp(10_000)).newest.remove(0);
    assert_eq!((told.outcome.as_str(), told.visible_ms), ("open", Some(40)));
}

#[tokio::test(start_paused = true)]
async fn texts_are_kept_only_where_they_are_shown_and_for_a_while() {
    let request = Request { messages: vec![Item::new(Role::User, "hello, hunter2")], ..Request::default() };
    for timeline in [showing(), Timeline::default()] {
        let shown = timeline.transcripts.is_some();
        let turn = turn(1);
        timeline.accepted(&turn, None);
        timeline.prompted(&turn.id, "fast", &request);
        let texts = timeline.texts(1).unwrap();
        assert_eq!((texts.turn, texts.calls.len()), (turn.id, usize::from(shown)));
        assert_eq!(texts.access, if shown { TextAccess::Visible } else { TextAccess::Withheld });
        assert!(texts.calls.iter().all(|call| call.prompt[0].text == "hello, ***"));
        assert!(timeline.texts(0).is_none() && timeline.texts(2).is_none());
        pass(601_000).await;
        timeline.age_texts();
        assert!(timeline.texts(1).unwrap().calls.is_empty());
    }
}

#[tokio::test]
async fn a_wish_to_be_forgotten_takes_all_texts_up_to_then() {
    let (timeline, before, after) = (showing(), turn(1), turn(2));
    let request = Request { messages: vec![Item::new(Role::User, "hello")], ..Request::default() };
    timeline.accepted(&before, None);
    timeline.prompted(&before.id, "fast", &request);
    timeline.forget(&before.person);
    // The turn is still in progress, with a prompt from before the forget request.
    timeline.prompted(&before.id, "fast", &request);
    timeline.accepted(&after, None);
    timeline.prompted(&after.id, "fast", &request);
    let of = |number| timeline.texts(number).map(|texts| (texts.access, texts.calls.len()));
    assert_eq!((of(1), of(2)), (Some((TextAccess::Forgotten, 0)), Some((TextAccess::Visible, 1))));
}

#[tokio::test(start_paused = true)]
async fn a_member_who_is_forgotten_hides_no_turn_of_others() {
    let timeline = Timeline::default();
    let theirs = Turn { person: Person::new(DOOR, "757575"), ..turn(2) };
    for turn in [&turn(1), &theirs] {
        timeline.accepted(turn, None);
    }
    timeline.forget(&theirs.person);
    timeline.accepted(&Turn { id: turn(3).id, ..theirs.clone() }, None);
    for turn in [turn(1), turn(2), turn(3)] {
        timeline.posted(&turn.id, &Outcome::Replied, Instant::now());
    }
    let members = |turns: Vec<TurnTimes>| turns.into_iter().map(|turn| turn.member).collect::<Vec<_>>();
    let (other, own) = (Some("discord:646464".to_owned()), Some("discord:757575".to_owned()));
    assert_eq!(members(timeline.turns(Timestamp(0)).newest), [own.clone(), None, other.clone()]);
    assert_eq!(members(timeline.ended_anew(Timestamp(0))), [other, own], "what is stored for the next process");
}

#[tokio::test]
async fn it_is_told_what_a_turn_takes_of_the_limits() {
    let timeline = Timeline::default();
    let limits = Limits { messages: 20, tokens: 5_000 };
    let reservation =
        |turn: &Turn| Reservation { turn: turn.id.clone(), tokens: 300, lease: Duration::ZERO, limits, exempt: false };
    let ends = [(Charge::Settle, Some(70)), (Charge::Settle, None), (Charge::Cancel, Some(70))];
    for (number, (charge, spent)) in ends.into_iter().enumerate() {
        let turn = turn(number);
        timeline.accepted(&turn, None);
        timeline.reserved(&turn.id, &reservation(&turn));
        timeline.charged(&turn.id, charge, spent);
    }
    let told: Vec<_> = timeline.turns(Timestamp(0)).newest.iter().rev().filter_map(|turn| turn.counted).collect();
    let counts: Vec<_> = told.iter().map(|counted| (counted.messages, counted.tokens)).collect();
    assert_eq!(counts, [(1, Some(70)), (1, Some(300)), (0, Some(0))]);
    assert_eq!((told[0].expected, told[0].of_messages, told[0].of_tokens), (300, 20, 5_000));
}
