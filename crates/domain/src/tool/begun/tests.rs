use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp(1_000);
const DAY: Duration = Duration::from_secs(86_400);

fn question(key: &str) -> Question {
    let schema = json!({"properties": {"x": {"type": "string"}}});
    Question::read(key, &json!({"message": "m", "requestedSchema": schema})).unwrap()
}

fn input(keys: &[&str]) -> InputRequired {
    let questions = keys.iter().map(|key| question(key)).collect();
    InputRequired { questions, answers: Map::new(), state: Some("s".to_owned()) }
}

fn report(input: Option<InputRequired>) -> CallReply {
    let (poll_after, life) = (Some(Duration::from_secs(3)), Some(Duration::from_secs(60)));
    CallReply::Task(TaskReport { id: "t".to_owned(), status: None, poll_after, life, input })
}

fn after(before: Option<Begun>, reply: CallReply) -> Begun {
    match Begun::after(before, reply, NOW, DAY).unwrap() {
        Progress::Waits(begun) => *begun,
        Progress::Done(_) => panic!("it waits"),
    }
}

fn answered(text: &str) -> ApprovalDecision {
    let content = json!({"x": text}).as_object().unwrap().clone();
    ApprovalDecision::Answered { by: None, content }
}

#[test]
fn a_call_is_repeated_with_all_answers_and_the_state_of_its_server() {
    let mut begun = after(None, CallReply::Asks(input(&["a", "b"])));
    assert!(matches!(begun.need(), Need::Answer(question) if question.key == "a"));
    begun.decide(Some(&answered("one")));
    // A stored call continues as it was.
    let mut begun: Begun = serde_json::from_str(&serde_json::to_string(&begun).unwrap()).unwrap();
    assert!(matches!(begun.need(), Need::Answer(question) if question.key == "b"));
    begun.decide(Some(&ApprovalDecision::Expired));
    assert_eq!(begun.need(), Need::Nothing);
    let answers = json!({"a": {"action": "accept", "content": {"x": "one"}}, "b": {"action": "cancel"}});
    let answers = answers.as_object().unwrap().clone();
    assert_eq!(begun.step(), Step::Again { answers, state: Some("s".to_owned()) });
    assert!(begun.cancel().is_none() && !begun.step().repeatable());
    let done = Begun::after(Some(begun), CallReply::Result(ToolResult::text("x")), NOW, DAY).unwrap();
    assert_eq!(done, Progress::Done(ToolResult::text("x")));
}

#[test]
fn a_task_is_polled_answered_once_and_polled_again() {
    let begun = after(None, report(None));
    assert!(matches!(begun.need(), Need::Time(task) if task.poll_ms == 3_000 && task.until == Timestamp(61_000)));
    assert_eq!(begun.step(), Step::Poll("t".to_owned()));
    let mut begun = after(Some(begun), report(Some(input(&["a"]))));
    begun.decide(Some(&answered("one")));
    assert!(matches!(begun.step(), Step::Answer { task, .. } if task == "t") && begun.step().repeatable());
    let begun = after(Some(begun), report(None));
    assert!(matches!(begun.need(), Need::Time(_)), "the server has the answer");
    let begun = after(Some(begun), report(Some(input(&["a"]))));
    assert!(matches!(begun.need(), Need::Time(_)), "a question is asked once");
    let later = Timestamp(50_000);
    let Progress::Waits(begun) = Begun::after(Some(begun), report(None), later, DAY).unwrap() else { panic!("waits") };
    assert!(matches!(begun.need(), Need::Time(task) if task.until == Timestamp(61_000)), "its end does not move");
    assert_eq!(begun.cancel(), Some(Step::Cancel("t".to_owned())));
}

#[test]
fn a_task_may_ask_under_the_key_of_a_question_of_its_call() {
    let mut begun = after(None, CallReply::Asks(input(&["a"])));
    begun.decide(Some(&answered("one")));
    let begun = after(Some(begun), report(None));
    let mut begun = after(Some(begun), report(Some(input(&["a"]))));
    assert!(matches!(begun.need(), Need::Answer(question) if question.key == "a"));
    begun.decide(Some(&answered("two")));
    let begun = after(Some(begun), report(Some(input(&["a"]))));
    let Some(Subject::Task(task)) = begun.subject("s") else { panic!("it waits for the task") };
    assert_eq!(task.answered, ["a"], "a poll that lists it again is no news");
}

#[test]
fn no_decision_but_an_acceptance_gives_the_server_content() {
    for (decision, action) in [
        (Some(ApprovalDecision::Denied { by: None }), "decline"),
        (Some(ApprovalDecision::NotAsked), "decline"),
        (Some(ApprovalDecision::Withdrawn), "decline"),
        (Some(ApprovalDecision::Expired), "cancel"),
        (None, "decline"),
    ] {
        let mut begun = after(None, CallReply::Asks(input(&["a"])));
        begun.decide(decision.as_ref());
        let Step::Again { answers, .. } = begun.step() else { panic!("again") };
        assert_eq!(answers["a"], json!({ "action": action }));
    }
    let mut begun = after(None, CallReply::Asks(input(&["a", "b"])));
    begun.decline();
    assert_eq!(begun.need(), Need::Nothing);
}

#[test]
fn a_server_cannot_ask_without_end() {
    let mut begun = None;
    for _ in 0..ROUNDS_MAX {
        let mut next = after(begun, CallReply::Asks(input(&["a"])));
        next.decline();
        begun = Some(next);
    }
    let error = Begun::after(begun, CallReply::Asks(input(&["a"])), NOW, DAY).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Failed);
}

#[test]
fn pauses_and_lives_of_tasks_are_bounded() {
    let of = |poll_after: u64, life| {
        let poll_after = Some(Duration::from_millis(poll_after));
        let task = TaskReport { id: "t".to_owned(), status: None, poll_after, life, input: None };
        match after(None, CallReply::Task(task)).need() {
            Need::Time(task) => (task.poll_ms, task.until.0 - NOW.0),
            _ => panic!("a task"),
        }
    };
    assert_eq!(of(0, None), (500, 86_400_000));
    assert_eq!(of(u64::MAX, Some(DAY * 100)), (60_000, 86_400_000));
}

#[test]
fn a_task_that_is_read_without_news_too_often_is_given_up() {
    let mut begun = Begun::default();
    for _ in 0..ROUNDS_MAX {
        begun = begun.without_news().expect("within the bound");
    }
    let error = begun.without_news().expect_err("one too many");
    assert!(error.message.contains("without a result or a new question"), "{}", error.message);
}
