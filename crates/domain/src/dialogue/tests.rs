use serde_json::{Value, json};

use super::*;
use crate::completion::{Request, Usage};
use crate::model::Row;
use crate::reply::ReplyKind;

mod tools;

const GOOD: &str = r#"{"type":"url","response":"Here","data":"https://example.com"}"#;

fn schema() -> Arc<Schema> {
    let document = serde_json::from_str(include_str!("../../../../response_schema.json")).unwrap();
    Arc::new(Schema::compile(&document).unwrap())
}

fn opening() -> Vec<Item> {
    vec![Item::new(Role::System, "be kind"), Item::new(Role::User, "hi")]
}

fn dialogue(contract: ReplyContract) -> Dialogue {
    Dialogue::new(opening().into(), contract, schema(), None)
}

fn completion(content: &str) -> Completion {
    let usage = Usage { prompt: 100, completion: 10, cached: 50, estimated: false };
    Completion {
        content: content.into(),
        refusal: None,
        calls: Vec::new(),
        finish: Finish::Stop,
        hosted: crate::hosted::HostedUse::default(),
        usage,
        raw: Value::Null.into(),
    }
}

fn row() -> Row {
    Row::new("main", std::time::Duration::from_secs(1))
}

fn completed(completion: Completion) -> Event {
    let (row, offered) = ("main".to_owned(), ToolOffer::Nothing);
    Event::Completed(completion, RequestFacts { row, offered, tool_bytes: 0, lane_tools: None })
}

/// Plays one dialogue with these answers. Returns the last step and the request of each call.
fn play(contract: ReplyContract, events: Vec<Event>) -> (Step, Vec<Request>) {
    let mut dialogue = dialogue(contract);
    let mut requests = Vec::new();
    let mut step = dialogue.next(Event::Begin);
    let mut events = events.into_iter();
    while step == Step::AskModel {
        let (request, asked) = dialogue.request(&row(), true, None);
        assert_eq!(asked.offered, ToolOffer::Nothing);
        requests.push(request);
        step = dialogue.next(events.next().expect("the dialogue asks more often than it was answered"));
    }
    assert_eq!(events.next(), None, "the dialogue asks less often than it was answered");
    assert_eq!(dialogue.next(Event::Begin), Step::GiveUp(Ending::AlreadyOver));
    (step, requests)
}

fn answers(contents: &[&str]) -> Vec<Event> {
    contents.iter().map(|content| completed(completion(content))).collect()
}

fn finished(reply: Reply, calls: u64) -> Step {
    Step::Finish(Finished { reply, calls: Vec::new(), repairs: u32::try_from(calls).unwrap() - 1 })
}

#[test]
fn a_valid_answer_takes_one_structured_call() {
    let (step, requests) = play(ReplyContract::Typed, answers(&[GOOD]));
    let reply = Reply { kind: ReplyKind::Url, response: "Here".into(), data: "https://example.com".into() };
    assert_eq!(step, finished(reply, 1));
    assert_eq!(requests, [Request { messages: opening(), form: Some(schema().form()), ..Request::default() }]);
}

#[test]
fn what_can_be_recovered_here_costs_no_second_call() {
    for disguised in [format!("```json\n{GOOD}\n```"), format!("<think>hm</think>{GOOD}"), format!("Sure! {GOOD}")] {
        let (step, _) = play(ReplyContract::Typed, answers(&[&disguised]));
        assert!(matches!(step, Step::Finish(Finished { repairs: 0, .. })), "{disguised}");
    }
    let cut = Completion { finish: Finish::Length, ..completion(GOOD) };
    let (step, _) = play(ReplyContract::Typed, vec![completed(cut)]);
    assert!(matches!(step, Step::Finish(Finished { repairs: 0, .. })), "whole in spite of the limit");
}

#[test]
fn a_bad_answer_gets_one_repair_call_that_names_the_fault() {
    let bad = r#"{"type":"song","response":"la","data":""}"#;
    let (step, requests) = play(ReplyContract::Typed, answers(&[bad, GOOD]));
    assert!(matches!(step, Step::Finish(Finished { repairs: 1, .. })));
    assert_eq!(requests[1].form, requests[0].form);
    assert_eq!(requests[1].messages[..3], [opening(), vec![Item::new(Role::Assistant, bad)]].concat());
    insta::assert_snapshot!(
        requests[1].messages[3].content,
        @r#"Your answer could not be used: /type: must be one of ["text","url","gif","latex","code","output"]. Answer the last question again, with exactly one JSON object of the required form and nothing around it."#
    );
    assert_eq!(requests[1].messages.len(), 4);
}

#[test]
fn a_repair_shows_the_words_of_the_bad_answer_and_nothing_else_of_it() {
    let raw = json!({"role": "assistant", "content": "Wait.", "reasoning": "hm", "tool_calls": [{"id": "1"}]});
    let (_, requests) = play(
        ReplyContract::Typed,
        vec![completed(Completion { raw: raw.into(), ..completion("Wait.") }), completed(completion(GOOD))],
    );
    assert_eq!(requests[1].messages[2], Item::new(Role::Assistant, "Wait."));
}

#[test]
fn an_empty_answer_is_repaired_without_echo_and_a_long_one_is_capped() {
    let (_, requests) = play(ReplyContract::Typed, answers(&["  ", GOOD]));
    assert_eq!(
        requests[1].messages.iter().map(|item| item.role).collect::<Vec<_>>(),
        [Role::System, Role::User, Role::User]
    );
    let cut = Completion { finish: Finish::Length, ..completion(&"{".repeat(50_000)) };
    let (_, requests) = play(ReplyContract::Typed, vec![completed(cut), completed(completion(GOOD))]);
    assert_eq!(requests[1].messages[2].content.len(), MAX_REPAIR_CHARS);
    assert!(requests[1].messages[3].content.contains("be shorter"));
}

#[test]
fn after_a_failed_repair_only_words_are_shown() {
    let (step, _) = play(ReplyContract::Typed, answers(&["Hello!", "Hello again!"]));
    assert_eq!(step, finished(Reply::text("Hello again!"), 2));
    let (step, _) = play(ReplyContract::Typed, answers(&[r#"{"type":"text","response":"Hel"#, r#"{"x":1}"#]));
    assert_eq!(step, finished(Reply::text("Hel"), 2), "the first answer had words, the second has none");
    let (step, _) = play(ReplyContract::Typed, answers(&["<think>hm", "<tool_call>{}</tool_call>"]));
    assert_eq!(step, Step::GiveUp(Ending::Unusable));
}

#[test]
fn failures_give_up_unless_there_are_words_already() {
    let failed = || Event::Failed(Ending::Model(ModelErrorKind::Timeout));
    assert_eq!(play(ReplyContract::Typed, vec![failed()]).0, Step::GiveUp(Ending::Model(ModelErrorKind::Timeout)));
    let [first] = <[Event; 1]>::try_from(answers(&["Hello!"])).unwrap();
    let (step, _) = play(ReplyContract::Typed, vec![first, failed()]);
    assert!(matches!(step, Step::Finish(Finished { reply, .. }) if reply == Reply::text("Hello!")));
    let [first] = <[Event; 1]>::try_from(answers(&[""])).unwrap();
    assert_eq!(
        play(ReplyContract::Typed, vec![first, failed()]).0,
        Step::GiveUp(Ending::Model(ModelErrorKind::Timeout))
    );
}

#[test]
fn a_prompt_that_does_not_fit_loses_its_oldest_messages() {
    let talk: Vec<Item> = (0..5).map(|number| Item::new(Role::User, number.to_string())).collect();
    let mut dialogue = Dialogue::new([&opening()[..1], &talk].concat().into(), ReplyContract::Typed, schema(), None);
    let mut step = dialogue.next(Event::Begin);
    let mut asked = Vec::new();
    while step == Step::AskModel {
        let (request, _) = dialogue.request(&row(), true, None);
        asked.push(request.messages.iter().map(|item| item.content.as_str()).collect::<Vec<_>>().join(" "));
        step = dialogue.next(Event::Failed(Ending::Model(ModelErrorKind::ContextOverflow)));
    }
    assert_eq!(asked, ["be kind 0 1 2 3 4", "be kind 2 3 4", "be kind 3 4", "be kind 4"]);
    assert_eq!(step, Step::GiveUp(Ending::Model(ModelErrorKind::ContextOverflow)));
}

#[test]
fn refusals_are_shown_and_filtered_answers_are_not_asked_for_again() {
    let refused = Completion { refusal: Some("I cannot help with that.".into()), ..completion("") };
    let (step, _) = play(ReplyContract::Typed, vec![completed(refused)]);
    assert_eq!(step, finished(Reply::text("I cannot help with that."), 1));
    let filtered = Completion { finish: Finish::Filtered, ..completion("") };
    assert_eq!(play(ReplyContract::Typed, vec![completed(filtered)]).0, Step::GiveUp(Ending::Filtered));
}

#[test]
fn plain_text_is_taken_as_it_comes_without_thoughts() {
    let json = json!({"a": 1}).to_string();
    let (step, requests) = play(ReplyContract::Plain, answers(&[&format!("<think>hm</think>\n{json}")]));
    assert_eq!(step, finished(Reply::text(json), 1));
    assert_eq!(requests, [Request { messages: opening(), ..Request::default() }]);
    let (step, requests) = play(ReplyContract::Plain, answers(&["", "Hello"]));
    assert_eq!(step, finished(Reply::text("Hello"), 2));
    assert!(!requests[1].messages[2].content.contains("JSON"));
    assert_eq!(play(ReplyContract::Plain, answers(&["", " "])).0, Step::GiveUp(Ending::Unusable));
}

#[test]
fn the_pending_request_can_be_asked_again() {
    let mut dialogue = dialogue(ReplyContract::Typed);
    assert_eq!(dialogue.next(Event::Begin), Step::AskModel);
    let first = dialogue.request(&row(), true, None);
    assert_eq!(dialogue.next(Event::Begin), Step::AskModel);
    assert_eq!(dialogue.request(&row(), true, None), first);
    assert_eq!(dialogue.next(completed(completion("oops"))), Step::AskModel);
    let repair = dialogue.request(&row(), true, None);
    assert_eq!((dialogue.next(Event::Begin), dialogue.request(&row(), true, None)), (Step::AskModel, repair));
}
