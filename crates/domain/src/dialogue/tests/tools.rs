//! The paths of a dialogue with tools.

use super::*;
use crate::completion::{ANSWER_FUNCTION, Accepts, WrittenJson};
use crate::model::{ReplyBy, ToolMode};
use crate::tool::access::Access;
use crate::tool::catalogue::{Catalogue, Offer};
use crate::tool::choice::LaneTools;
use crate::tool::round::CallAllowance;
use crate::tool::selection::Index;
use crate::tool::testing::tool;
use crate::tool::turn_tools::Available;
use crate::tool::view::View;
use crate::tool::{Source, Tool};

/// The tool support of a row.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// Together with the answer form, in one call.
    Together,
    /// Together with a function that gives the answer.
    Function,
    /// Before the answer form.
    Before,
    /// Described in the prompt.
    Prompt,
    /// None.
    Nothing,
}

fn row_that(takes: Takes) -> Row {
    let tools = match takes {
        Takes::Together | Takes::Function | Takes::Before => ToolMode::Native,
        Takes::Prompt => ToolMode::Prompt,
        Takes::Nothing => ToolMode::Off,
    };
    let reply_by = if matches!(takes, Takes::Before) { ReplyBy::Schema } else { ReplyBy::Auto };
    Row { tools, schema_with_tools: matches!(takes, Takes::Together), reply_by, ..row() }
}

fn tools(rounds: u32, calls: u32) -> Option<TurnTools> {
    tools_that(true, rounds, calls)
}

/// Returns built-in tools, which justify a further model call or not.
fn tools_that(built_in_always: bool, rounds: u32, calls: u32) -> Option<TurnTools> {
    TurnTools::new(available(built_in_always), CallAllowance::new(rounds, calls), "hi")
}

fn available(built_in_always: bool) -> Available {
    let made = |name: &str| Tool {
        source: Source::BuiltIn,
        input_schema: WrittenJson::new(&json!({"type": "object", "properties": {"n": {"type": "integer"}}})),
        ..tool("", name, &format!("does {name}"))
    };
    let offer = Offer::built_in(vec![made("roll_dice"), made("get_time")]);
    let catalogue = Arc::new(Catalogue::new(&[offer], &Catalogue::default(), |tool| tool.input_schema.to_value()));
    let index = Arc::new(Index::new(&catalogue));
    let access = Arc::new(Access::of_a_member(Vec::new()));
    let view = Arc::new(View::of(&catalogue, access.hides()));
    Available {
        catalogue,
        index,
        access,
        view,
        outlined: Arc::from([]),
        lane: LaneTools::default(),
        built_in_always,
        prompt_bytes: 64 * 1024,
    }
}

/// Returns a transcript: instructions, two stored messages, context of the question, and the question.
fn long() -> Transcript {
    let said = |role, text: &str| Item::new(role, text);
    let items = vec![
        said(Role::System, "be kind"),
        said(Role::User, "old"),
        said(Role::Assistant, "older"),
        said(Role::User, "quoted"),
        said(Role::User, "hi"),
    ];
    Transcript { items, remembered: vec![1, 2] }
}

fn short() -> Transcript {
    opening().into()
}

/// An action on a dialogue.
#[derive(Clone)]
enum Do {
    /// The model answers with this content.
    Says(&'static str),
    /// The model requests these calls.
    Calls(Vec<(&'static str, &'static str)>),
    /// The next request goes to another row.
    Row(Takes),
    /// The model fails.
    Fails,
}

fn wants(calls: &[(&str, &str)]) -> Completion {
    let call = |(index, (name, arguments)): (usize, &(&str, &str))| ToolCall {
        id: format!("c{index}"),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    };
    let raw = json!({"role": "assistant", "content": null, "tool_calls": calls.len(), "kept": true}).into();
    Completion { calls: calls.iter().enumerate().map(call).collect(), finish: Finish::ToolCalls, raw, ..completion("") }
}

/// Plays the actions. Returns the last step and all requests, and the number of calls planned each time. Each
/// permitted call returns `8`.
fn tell(transcript: Transcript, tools: Option<TurnTools>, takes: Takes, what: Vec<Do>) -> (Step, Vec<Request>) {
    let mut dialogue = Dialogue::new(transcript, ReplyContract::Typed, schema(), tools);
    let (mut row, mut requests) = (row_that(takes), Vec::new());
    let mut what = what.into_iter();
    let mut step = dialogue.next(Event::Begin);
    loop {
        let event = match &step {
            Step::AskModel => {
                let mut next = what.next().expect("the dialogue asks more often than it was answered");
                while let Do::Row(takes) = next {
                    row = Row { key: "other".to_owned(), ..row_that(takes) };
                    next = what.next().expect("the script has an answer");
                }
                let (request, asked) = dialogue.request(&row, true, None);
                requests.push(request);
                match next {
                    Do::Says(content) => Event::Completed(completion(content), asked),
                    Do::Calls(calls) => Event::Completed(wants(&calls), asked),
                    Do::Fails => Event::Failed(Ending::Model(ModelErrorKind::Timeout)),
                    Do::Row(_) => unreachable!(),
                }
            }
            Step::RunTools(planned) => {
                let told = |planned: &Planned| match planned {
                    Planned::Run(_) => "8".to_owned(),
                    Planned::Answer(_, problem) => problem.to_string(),
                    Planned::Told(_, text) => text.clone(),
                    Planned::Ran(_, told) => told.text.clone(),
                };
                Event::Ran(planned.iter().map(|planned| ShownResult::text(told(planned))).collect())
            }
            Step::Finish(_) | Step::GiveUp(_) => break,
        };
        step = dialogue.next(event);
    }
    assert!(what.next().is_none(), "the dialogue asks less often than it was answered");
    (step, requests)
}

#[test]
fn a_result_behind_a_waiting_call_keeps_its_full_text() {
    let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools(3, 6));
    dialogue.next(Event::Begin);
    let (_, asked) = dialogue.request(&row_that(Takes::Together), true, None);
    let calls = Event::Completed(wants(&[("roll_dice", "{}"), ("get_time", "{}")]), asked);
    let Step::RunTools(planned) = dialogue.next(calls) else { panic!("calls") };
    let ran = ShownResult { whole: Some(Arc::from("all of it")), ..ShownResult::text("cut") };
    let left = [planned[0].clone(), Planned::Ran(planned[1].call().clone(), ran.clone())];
    let saved = serde_json::to_string(&dialogue.save(&[], &left, 2).unwrap()).unwrap();
    let saved = serde_json::from_str(&saved).unwrap();
    let resumed = Dialogue::resume(saved, ReplyContract::Typed, schema(), available(true));
    let [Planned::Run(_), Planned::Ran(call, told)] = &resumed.left[..] else { panic!("{:?}", resumed.left) };
    assert_eq!((call.name.as_str(), told), ("get_time", &ran));
}

#[test]
fn a_turn_keeps_a_bounded_number_of_bytes_of_its_rounds() {
    let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools(9, 9));
    let mut step = dialogue.next(Event::Begin);
    let raw: WrittenJson = json!({"role": "assistant", "thoughts": "x".repeat(ROUNDS_BYTES / 3)}).into();
    let mut rounds = 0;
    while let Step::AskModel = step {
        let (request, asked) = dialogue.request(&row_that(Takes::Together), true, None);
        let echoed: Vec<&str> = request.messages.iter().filter_map(|item| Some(item.raw.as_ref()?.as_str())).collect();
        assert_eq!(echoed.len(), rounds);
        assert!(
            echoed.iter().all(|text| std::ptr::eq(*text, raw.as_str())),
            "all requests share the text of the answer"
        );
        step = dialogue.next(Event::Completed(Completion { raw: raw.clone(), ..wants(&[ROLL]) }, asked));
        if let Step::RunTools(planned) = &step {
            rounds += 1;
            step = dialogue.next(Event::Ran(vec![ShownResult::text("8"); planned.len()]));
        }
    }
    assert_eq!((rounds, step), (2, Step::GiveUp(Ending::Model(ModelErrorKind::TooLarge))));
}

#[test]
fn a_kept_answer_is_stored_as_the_value_that_other_versions_read_and_write() {
    let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools(3, 6));
    dialogue.next(Event::Begin);
    let (_, asked) = dialogue.request(&row_that(Takes::Together), true, None);
    let wanted = wants(&[ROLL]);
    let raw = wanted.raw.clone();
    let Step::RunTools(planned) = dialogue.next(Event::Completed(wanted, asked)) else { panic!("calls") };
    let stored = serde_json::to_string(&dialogue.save(&[], &planned, 1).unwrap()).unwrap();
    let record: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(record["running"]["echo"]["raw"], raw.to_value(), "an object, not text");
    // As a record of the version that kept values: with other spacing.
    let stored = serde_json::to_string_pretty(&record).unwrap();
    let resumed =
        Dialogue::resume(serde_json::from_str(&stored).unwrap(), ReplyContract::Typed, schema(), available(true));
    let mut dialogue = resumed.dialogue;
    dialogue.next(Event::Ran(vec![ShownResult::text("8")]));
    let (request, _) = dialogue.request(&row_that(Takes::Together), true, None);
    assert_eq!(request.messages.iter().find_map(|item| item.raw.clone()), Some(raw));
}

fn reply(step: &Step) -> &str {
    match step {
        Step::Finish(finished) => &finished.reply.response,
        other => panic!("{other:?}"),
    }
}

/// Summarizes a request: number of tools, answer form or not, role and first words of each message.
fn sent(request: &Request) -> String {
    let words = |item: &Item| {
        let text = match &item.raw {
            Some(raw) => format!("<{}>", raw.to_value()["kept"]),
            None => item.content.replace('\n', " ").chars().take(24).collect(),
        };
        format!("{}:{text}", item.role.as_str())
    };
    let messages: Vec<String> = request.messages.iter().skip(1).map(words).collect();
    format!("{} {} {}", request.tools.len(), request.form.is_some(), messages.join("|"))
}

const ROLL: (&str, &str) = ("roll_dice", "{\"n\":1}");
const RESULT: &str = "<tool_result tool=\"roll_";

#[test]
fn a_row_that_takes_both_is_asked_once_with_everything() {
    let (step, requests) = tell(long(), tools(5, 10), Takes::Together, vec![Do::Says(GOOD)]);
    assert_eq!(reply(&step), "Here");
    assert_eq!(sent(&requests[0]), "2 true user:old|assistant:older|user:quoted|user:hi");
    assert_eq!(requests.len(), 1);
    assert!(requests[0].messages[0].content.starts_with("be kind\n\nYou have tools"));
}

#[test]
fn a_row_that_takes_both_answers_after_its_rounds_without_another_call() {
    let what = vec![Do::Calls(vec![ROLL]), Do::Calls(vec![("get_time", "{}"), ROLL]), Do::Says(GOOD)];
    let (step, requests) = tell(short(), tools(5, 10), Takes::Together, what);
    assert_eq!(reply(&step), "Here");
    assert_eq!(sent(&requests[1]), format!("2 true user:hi|assistant:<true>|tool:{RESULT}"));
    let all = format!(
        "2 true user:hi|assistant:<true>|tool:{RESULT}|assistant:<true>|tool:<tool_result tool=\"get_t|tool:{RESULT}"
    );
    assert_eq!(sent(&requests[2]), all);
    let ids: Vec<_> = requests[2].messages.iter().filter_map(|item| item.result_of.clone()).collect();
    assert_eq!(ids, ["c0", "c0", "c1"], "each result names its call");
}

fn answer(arguments: &'static str) -> (&'static str, &'static str) {
    (ANSWER_FUNCTION, arguments)
}

#[test]
fn a_row_that_takes_tools_alone_is_asked_once_with_a_function_for_the_answer() {
    let printed = r#"<tool_call>{"name": "give_answer", "arguments": {"type": "text", "response": "Here", "data": ""}}</tool_call>"#;
    for (said, words) in [
        (Do::Calls(vec![answer(GOOD)]), "Here"),
        (Do::Says(GOOD), "Here"),
        (Do::Says(printed), "Here"),
        (Do::Says("Hello!"), "Hello!"),
        (Do::Says("```text\nHello\n```"), "```text\nHello\n```"),
    ] {
        let (step, requests) = tell(long(), tools_that(false, 5, 10), Takes::Function, vec![said]);
        assert_eq!(reply(&step), words);
        assert_eq!(sent(&requests[0]), "3 false user:old|assistant:older|user:quoted|user:hi");
        assert!(requests.len() == 1 && requests[0].answer_function);
        assert_eq!(requests[0].tools[0].name, ANSWER_FUNCTION);
        let instructions = &requests[0].messages[0].content;
        assert!(instructions.contains("You have tools") && instructions.ends_with(by_function::INSTRUCTION));
        assert!(by_function::INSTRUCTION.contains(ANSWER_FUNCTION));
    }
    let what = vec![Do::Calls(vec![ROLL]), Do::Calls(vec![answer(GOOD)])];
    let (step, requests) = tell(long(), tools(5, 10), Takes::Function, what);
    assert_eq!((reply(&step), requests.len()), ("Here", 2));
    let all = format!("3 false user:old|assistant:older|user:quoted|user:hi|assistant:<true>|tool:{RESULT}");
    assert_eq!(sent(&requests[1]), all);
}

#[test]
fn an_answer_beside_calls_of_tools_is_asked_for_again_after_their_results() {
    let what = vec![Do::Calls(vec![answer(GOOD), ROLL]), Do::Calls(vec![answer(GOOD)])];
    // Of the two calls allowed, the function takes none.
    let (step, requests) = tell(short(), tools(5, 2), Takes::Function, what);
    assert_eq!((reply(&step), requests.len()), ("Here", 2));
    let results: Vec<_> = requests[1].messages[3..].iter().map(|item| item.content.lines().nth(1).unwrap()).collect();
    assert!(results[0].starts_with("The answer was not sent") && results[1] == "8", "{results:?}");
}

#[test]
fn arguments_that_do_not_fit_and_prose_that_was_cut_off_are_repaired() {
    let misfits = [
        Do::Calls(vec![answer("{\"type\": \"text\"}")]),
        Do::Calls(vec![answer("{\"response\": ")]),
        Do::Calls(vec![answer("{}")]),
        Do::Says(""),
    ];
    for misfit in misfits {
        let (step, requests) = tell(short(), tools(5, 10), Takes::Function, vec![misfit, Do::Says(GOOD)]);
        assert!(matches!(step, Step::Finish(Finished { repairs: 1, .. })), "{step:?}");
        assert_eq!(
            (requests[1].tools.len(), requests[1].form.is_some(), requests[1].answer_function),
            (0, true, false)
        );
    }
    let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let (_, asked) = dialogue.request(&row_that(Takes::Function), true, None);
    let cut = Completion { finish: Finish::Length, ..completion("Half a sent") };
    assert_eq!(dialogue.next(Event::Completed(cut, asked)), Step::AskModel);
}

#[test]
fn a_fallback_row_of_another_kind_goes_on_with_the_rounds() {
    for (first, then) in
        [(Takes::Function, Takes::Before), (Takes::Before, Takes::Function), (Takes::Function, Takes::Together)]
    {
        let last = if matches!(then, Takes::Function) { Do::Calls(vec![answer(GOOD)]) } else { Do::Says(GOOD) };
        let mut what = vec![Do::Calls(vec![ROLL]), Do::Row(then), last];
        if matches!(then, Takes::Before) {
            what.push(Do::Says(GOOD));
        }
        let (step, requests) = tell(short(), tools(5, 10), first, what);
        assert_eq!(reply(&step), "Here");
        assert!(requests[1].messages.iter().any(|item| item.content.contains("\n8\n")), "{first:?}");
    }
}

#[test]
fn without_real_tools_no_function_is_offered() {
    let one = Row { max_tools: 1, ..row_that(Takes::Function) };
    for (tools, row, takes_tools) in [
        (None, row_that(Takes::Function), true),
        (tools(5, 10), row_that(Takes::Function), false),
        (tools(5, 10), one, true),
    ] {
        let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools);
        dialogue.next(Event::Begin);
        let (request, _) = dialogue.request(&row, takes_tools, None);
        assert_eq!((request.tools.len(), request.form.is_some(), request.answer_function), (0, true, false));
    }
}

#[test]
fn tools_that_are_ignored_without_anything_to_miss_cost_no_second_call() {
    let (step, requests) = tell(short(), tools(5, 10), Takes::Before, vec![Do::Says(GOOD)]);
    assert_eq!((reply(&step), sent(&requests[0]).as_str()), ("Here", "2 false user:hi"));
}

#[test]
fn built_in_tools_alone_are_offered_where_they_cost_no_further_call() {
    let (_, requests) = tell(long(), tools_that(false, 5, 10), Takes::Before, vec![Do::Says(GOOD)]);
    assert_eq!(sent(&requests[0]), "0 true user:old|assistant:older|user:quoted|user:hi");
    let (_, requests) = tell(long(), tools_that(false, 5, 10), Takes::Together, vec![Do::Says(GOOD)]);
    assert_eq!((requests.len(), requests[0].tools.len()), (1, 2));
}

#[test]
fn what_does_not_fit_or_missed_something_is_asked_for_with_everything() {
    for (transcript, content, first) in
        [(short(), "Hello!", "2 false user:hi"), (long(), GOOD, "2 false user:quoted|user:hi")]
    {
        let whole =
            sent(&Request { messages: transcript.items.clone(), form: Some(schema().form()), ..Request::default() });
        let (step, requests) = tell(transcript, tools(5, 10), Takes::Before, vec![Do::Says(content), Do::Says(GOOD)]);
        assert_eq!(reply(&step), "Here");
        assert_eq!((sent(&requests[0]).as_str(), sent(&requests[1])), (first, whole));
        assert_eq!(requests[1].messages[0].content, "be kind", "of tools no word is needed any more");
    }
}

#[test]
fn a_row_may_want_some_of_the_history_along_with_tools() {
    let mut dialogue = Dialogue::new(long(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let request = |most| dialogue.request(&Row { tool_history: most, ..row_that(Takes::Before) }, true, None);
    assert_eq!(sent(&request(1).0), "2 false assistant:older|user:quoted|user:hi");
    assert!(!request(1).1.may_answer(ReplyContract::Typed), "an answer that will be requested again is not streamed");
    assert_eq!(sent(&request(2).0), "2 false user:old|assistant:older|user:quoted|user:hi");
    assert!(request(2).1.may_answer(ReplyContract::Typed));
}

#[test]
fn after_rounds_one_call_without_tools_asks_for_the_answer_with_everything() {
    let what = vec![Do::Calls(vec![ROLL]), Do::Says("You rolled 8."), Do::Says(GOOD)];
    let (step, requests) = tell(long(), tools(5, 10), Takes::Before, what);
    assert_eq!(reply(&step), "Here");
    assert_eq!(sent(&requests[1]), format!("2 false user:quoted|user:hi|assistant:<true>|tool:{RESULT}"));
    let last = format!("0 true user:old|assistant:older|user:quoted|user:hi|assistant:<true>|tool:{RESULT}");
    assert_eq!(sent(&requests[2]), last);
}

/// A request after a round repeats question and history only because of tools, so the member's limit must not pay for
/// it.
#[test]
fn a_request_after_a_round_is_the_expense_of_tools_as_a_whole() {
    let mut dialogue = Dialogue::new(long(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let row = row_that(Takes::Together);
    let (request, asked) = dialogue.request(&row, true, None);
    let of_tools = request.share(asked.tool_bytes, 1_000, Accepts::default());
    assert!(of_tools > 0 && of_tools < 1_000, "{of_tools}");
    let Step::RunTools(planned) = dialogue.next(Event::Completed(wants(&[ROLL]), asked)) else { panic!("no round") };
    dialogue.next(Event::Ran(planned.iter().map(|_| ShownResult::text("8".to_owned())).collect()));
    let (request, asked) = dialogue.request(&row, true, None);
    assert_eq!(request.share(asked.tool_bytes, 1_000, Accepts::default()), 1_000);
}

#[test]
fn when_the_last_call_fails_the_words_of_the_one_before_are_the_answer() {
    let what = vec![Do::Calls(vec![ROLL]), Do::Says("You rolled 8."), Do::Fails];
    assert_eq!(reply(&tell(short(), tools(5, 10), Takes::Before, what).0), "You rolled 8.");
    let what = vec![Do::Calls(vec![ROLL]), Do::Fails];
    let (step, _) = tell(short(), tools(5, 10), Takes::Before, what);
    assert_eq!(step, Step::GiveUp(Ending::Model(ModelErrorKind::Timeout)));
}

#[test]
fn rounds_and_calls_end_with_one_call_without_tools() {
    for tools in [tools(1, 10), tools(5, 1)] {
        let what = vec![Do::Calls(vec![ROLL]), Do::Says(GOOD)];
        let (step, requests) = tell(short(), tools, Takes::Together, what);
        assert_eq!(reply(&step), "Here");
        assert_eq!(sent(&requests[1]), format!("0 true user:hi|assistant:<true>|tool:{RESULT}"));
    }
    // A model that continues to call tools after the limit has not answered.
    let what = vec![Do::Calls(vec![ROLL]), Do::Calls(vec![ROLL]), Do::Says(GOOD)];
    let (step, requests) = tell(short(), tools(1, 10), Takes::Together, what);
    assert!(matches!(step, Step::Finish(Finished { repairs: 1, .. })));
    assert!(requests[2].messages.last().unwrap().content.contains("could not be used"));
}

#[test]
fn what_cannot_run_is_a_result_in_its_place() {
    let calls = vec![("roll_dice", "{"), ("rm", "{}"), ROLL, ("roll_dice", "{\"n\":\"x\"}")];
    let what = vec![Do::Calls(calls), Do::Says(GOOD)];
    let (_, requests) = tell(short(), tools(5, 10), Takes::Together, what);
    let results: Vec<&str> =
        requests[1].messages[3..].iter().map(|item| item.content.lines().nth(1).unwrap()).collect();
    assert!(results[0].starts_with("the arguments are not JSON"), "{results:?}");
    assert!(results[1].starts_with("there is no tool \"rm\""), "{results:?}");
    assert_eq!(results[2], "8");
    assert!(results[3].starts_with("the arguments do not fit: /n"), "{results:?}");
}

#[test]
fn calls_in_the_text_count_when_they_fit() {
    let call = r#"<tool_call>{"name": "roll_dice", "arguments": {"n": 1}}</tool_call>"#;
    for takes in [Takes::Before, Takes::Together] {
        let mut what = vec![Do::Says(call), Do::Says(GOOD)];
        if matches!(takes, Takes::Before) {
            what.push(Do::Says(GOOD));
        }
        let (step, requests) = tell(short(), tools(5, 10), takes, what);
        assert_eq!(reply(&step), "Here");
        let told = &requests[1].messages;
        assert_eq!((told[2].content.as_str(), told[3].role), (call, Role::User), "{takes:?}");
        assert!(told[3].content.contains("\n8\n"), "{}", told[3].content);
    }
    let misfit = r#"{"name": "roll_dice", "arguments": {"n": "x"}}"#;
    let (step, requests) = tell(short(), tools(5, 10), Takes::Before, vec![Do::Says(misfit), Do::Says(GOOD)]);
    assert_eq!((reply(&step), requests[1].tools.len(), requests[1].messages.len()), ("Here", 0, 2));
}

#[test]
fn tools_are_told_in_the_prompt_of_a_row_that_wants_it_so() {
    let call = r#"{"tool": "roll_dice", "arguments": "{\"n\": 1}"}"#;
    let (step, requests) = tell(long(), tools_that(false, 5, 10), Takes::Prompt, vec![Do::Says(call), Do::Says(GOOD)]);
    assert_eq!((reply(&step), requests.len()), ("Here", 2));
    assert_eq!(sent(&requests[0]), "0 false user:old|assistant:older|user:quoted|user:hi");
    let instructions = &requests[0].messages[0].content;
    assert!(instructions.contains("- roll_dice: does roll_dice Arguments as JSON schema: {"));
    assert!(!instructions.contains(ANSWER_FUNCTION) && !requests[0].answer_function, "the answer is text");
    assert_eq!(requests[1].messages[5].content, call);
    assert!(requests[1].messages[6].content.starts_with("<tool_result tool=\"roll_dice\">\n8\n</tool_result>"));
    // A plain message takes one call in each form of its answer.
    let called = r#"{"tool": "give_answer", "arguments": {"type": "text", "response": "Here", "data": ""}}"#;
    for (said, words) in [(GOOD, "Here"), (called, "Here"), ("Just words.", "Just words.")] {
        let (step, requests) = tell(long(), tools_that(false, 5, 10), Takes::Prompt, vec![Do::Says(said)]);
        assert_eq!((reply(&step), requests.len()), (words, 1));
    }
    // The model corrects a call with invalid arguments.
    let misfit = r#"{"tool": "roll_dice", "arguments": {"n": "x"}}"#;
    let (_, requests) = tell(short(), tools(5, 10), Takes::Prompt, vec![Do::Says(misfit), Do::Says(GOOD)]);
    assert!(requests[1].messages[3].content.contains("the arguments do not fit"));
    // A refusal of native tools is not about the prompt.
    let mut dialogue = Dialogue::new(long(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let (_, asked) = dialogue.request(&row_that(Takes::Prompt), false, None);
    assert_eq!(asked.offered, ToolOffer::WithAnswer { native: false });
    // A row that must answer by structured output is asked again for that.
    let schema_only = Row { reply_by: ReplyBy::Schema, ..row_that(Takes::Prompt) };
    let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let (_, asked) = dialogue.request(&schema_only, true, None);
    assert_eq!(asked.offered, ToolOffer::Before { native: false, missed: false });
}

#[test]
fn a_row_without_tools_is_asked_as_ever() {
    let (_, requests) = tell(long(), tools(5, 10), Takes::Nothing, vec![Do::Says(GOOD)]);
    assert_eq!(requests, [Request { messages: long().items, form: Some(schema().form()), ..Request::default() }]);
    let mut dialogue = Dialogue::new(long(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let (request, asked) = dialogue.request(&row_that(Takes::Before), false, None);
    assert_eq!(
        (request, asked.offered),
        (requests[0].clone(), ToolOffer::Nothing),
        "nor is one whose provider refused them"
    );
}

#[test]
fn another_row_is_told_of_rounds_in_words() {
    for takes in [Takes::Nothing, Takes::Together, Takes::Prompt] {
        let what = vec![Do::Calls(vec![ROLL]), Do::Row(takes), Do::Says(GOOD)];
        let (step, requests) = tell(short(), tools(5, 10), Takes::Before, what);
        assert_eq!(reply(&step), "Here");
        let told = &requests[1].messages;
        assert!(told.iter().all(|item| item.raw.is_none() && item.role != Role::Tool), "{takes:?}: {told:?}");
        assert_eq!(told[2].content, r#"{"arguments":{"n":1},"tool":"roll_dice"}"#);
        assert!(told[3].content.contains("\n8\n"));
    }
}

#[test]
fn plain_text_needs_no_second_call_for_its_form() {
    let mut dialogue = Dialogue::new(long(), ReplyContract::Plain, schema(), tools(5, 10));
    assert_eq!(dialogue.next(Event::Begin), Step::AskModel);
    let (request, asked) = dialogue.request(&row_that(Takes::Before), true, None);
    assert_eq!(sent(&request), "2 false user:old|assistant:older|user:quoted|user:hi");
    let step = dialogue.next(Event::Completed(completion("Hello"), asked));
    assert_eq!(reply(&step), "Hello");
}

#[test]
fn long_results_give_way_when_there_is_no_room_for_them() {
    let mut dialogue = Dialogue::new(short(), ReplyContract::Typed, schema(), tools(5, 10));
    dialogue.next(Event::Begin);
    let (_, asked) = dialogue.request(&row_that(Takes::Together), true, None);
    assert!(matches!(dialogue.next(Event::Completed(wants(&[ROLL]), asked)), Step::RunTools(_)));
    let mut step = dialogue.next(Event::Ran(vec![ShownResult::text("x".repeat(50_000))]));
    let mut sizes = Vec::new();
    while step == Step::AskModel {
        let (request, _) = dialogue.request(&row_that(Takes::Together), true, None);
        sizes.push(request.messages[3].content.len());
        step = dialogue.next(Event::Failed(Ending::Model(ModelErrorKind::ContextOverflow)));
    }
    assert_eq!(step, Step::GiveUp(Ending::Model(ModelErrorKind::ContextOverflow)));
    assert!(
        sizes.len() < 8 && sizes.last().unwrap() < &2_100 && sizes.is_sorted_by(|one, next| one > next),
        "{sizes:?}"
    );
}
