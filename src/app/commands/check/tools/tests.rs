use std::time::Duration;

use async_trait::async_trait;

use super::*;
use domain::completion::{ANSWER_FUNCTION, Finish, Usage};

/// The kinds of models, as the trait presents them.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Supports tools and structured output in one call.
    Able,
    /// Refuses both in one call.
    Either,
    /// The same, and answers in prose instead of by the function.
    Prose,
    /// Accepts both, but then never calls the tool.
    Distracted,
    /// Supports no tools.
    Without,
    /// Supports no native tools, and writes the calls of tools that its prompt describes.
    Writing,
    /// The same, and answers in prose.
    WritingProse,
    /// Calls the tool in every round.
    Stubborn,
}

struct Scripted(Kind);

#[async_trait]
impl Models for Scripted {
    fn rows(&self) -> &[Row] {
        &[]
    }

    async fn complete(&self, _row: &str, request: &Request) -> Result<Completion, ModelError> {
        let offered = !request.tools.is_empty();
        let typed = request.form.is_some();
        let by_function = request.answer_function;
        let has_number = |item: &Item| item.role != Role::Assistant && item.content.contains(NUMBER);
        let told = request.messages.iter().any(has_number);
        let described = request.messages[0].content.contains("- lucky_number: ");
        let writes = matches!(self.0, Kind::Writing | Kind::WritingProse);
        let refuse = |message: &str| Err(ModelError::new(ModelErrorKind::BadRequest, message));
        match self.0 {
            Kind::Without | Kind::Writing | Kind::WritingProse if offered => return refuse("tools are not supported"),
            Kind::Either | Kind::Prose if offered && typed => {
                return refuse("response_format with tools is unsupported");
            }
            _ => {}
        }
        let calls_now = match self.0 {
            Kind::Distracted => offered && !typed && !by_function,
            Kind::Stubborn => offered,
            _ => offered && !told,
        };
        let call = ToolCall { id: "c".into(), name: TOOL.into(), arguments: "{}".into() };
        let number = if told { NUMBER } else { "no idea" };
        let content = json!({"type": "text", "response": format!("It is {number}"), "data": ""}).to_string();
        let prose = (self.0 == Kind::Prose && by_function) || (self.0 == Kind::WritingProse && described);
        let content = if prose { format!("It is {number}") } else { content };
        let call_in_words = r#"{"tool": "lucky_number", "arguments": {}}"#.to_owned();
        let content = if writes && described && !told { call_in_words } else { content };
        let answer = ToolCall { id: "a".into(), name: ANSWER_FUNCTION.into(), arguments: content.clone() };
        let answers = by_function && !prose && !calls_now;
        Ok(Completion {
            content: if calls_now { String::new() } else { content },
            refusal: None,
            calls: if calls_now {
                vec![call]
            } else if answers {
                vec![answer]
            } else {
                Vec::new()
            },
            finish: if calls_now { Finish::ToolCalls } else { Finish::Stop },
            hosted: domain::hosted::HostedUse::default(),
            usage: Usage::default(),
            raw: json!({"role": "assistant"}).into(),
        })
    }
}

async fn tried(kind: Kind, row: Row) -> (CheckStatus, String) {
    let document = serde_json::from_str(include_str!("../../../../../response_schema.json")).unwrap();
    let schema = Schema::compile(&document).unwrap();
    let instructions = Item::new(Role::System, "be brief");
    round(&Scripted(kind), &row, &instructions, &schema).await
}

fn row() -> Row {
    Row::new("m", Duration::from_secs(1))
}

#[tokio::test]
async fn a_model_that_can_do_both_gets_its_line() {
    let (verdict, why) = tried(Kind::Able, row()).await;
    assert_eq!(verdict, CheckStatus::Note);
    assert!(
        why.contains(
            r#"write into the models file: "m": {"tools": "native", "schema_with_tools": true, "reply_by": "auto"}"#
        ),
        "{why}"
    );
    let (verdict, why) = tried(Kind::Able, Row { schema_with_tools: true, ..row() }).await;
    assert_eq!(verdict, CheckStatus::Ok);
    assert!(why.starts_with("calls tools: yes; with structured output in one call: yes"), "{why}");
}

#[tokio::test]
async fn a_model_that_takes_one_at_a_time_is_found_out() {
    for (kind, sign, function) in [
        (Kind::Either, "the model rejects tools with response_format", "yes"),
        (Kind::Prose, "it answers in prose, which is accepted", "yes"),
        (Kind::Distracted, "tool_calls: none with response_format", "no"),
        (Kind::Stubborn, "it calls the tool again instead of answering", "no"),
    ] {
        let reply_by = if function == "yes" { ReplyBy::Auto } else { ReplyBy::Schema };
        let (verdict, why) = tried(kind, Row { reply_by, ..row() }).await;
        assert_eq!(verdict, CheckStatus::Ok, "{why}");
        if function == "no" {
            let why = tried(kind, row()).await.1;
            assert!(why.contains(r#""reply_by": "schema""#), "{why}");
        }
        let ways = "calls tools: yes; with structured output in one call: no; with a function for the answer: ";
        assert!(why.starts_with(&format!("{ways}{function}")) && why.contains(sign), "{why}");
        let (verdict, why) = tried(kind, Row { schema_with_tools: true, ..row() }).await;
        assert_eq!(verdict, CheckStatus::Wrong, "a row that promises too much: {why}");
        assert!(why.contains(r#""schema_with_tools": false"#), "{why}");
    }
}

#[tokio::test]
async fn a_model_without_tools_is_named() {
    let (verdict, why) = tried(Kind::Without, row()).await;
    assert_eq!(verdict, CheckStatus::Note);
    assert!(why.contains("the model rejects tools without response_format (tools are not supported)"), "{why}");
    assert!(why.contains(r#""m": {"tools": "off", "schema_with_tools": false, "reply_by": "auto"}"#), "{why}");
    assert_eq!(tried(Kind::Without, Row { tools: ToolMode::Off, ..row() }).await.0, CheckStatus::Ok);
    let (verdict, why) = tried(Kind::Without, Row { tools: ToolMode::Prompt, ..row() }).await;
    assert!(verdict == CheckStatus::Note && why.contains(r#"{"tools": "off""#), "{why}");
    assert!(why.contains("the text has no call of the tool that the prompt describes"), "{why}");
}

#[tokio::test]
async fn a_model_that_writes_calls_gets_its_tools_in_the_prompt() {
    for kind in [Kind::Writing, Kind::WritingProse] {
        let (verdict, why) = tried(kind, row()).await;
        assert_eq!(verdict, CheckStatus::Note);
        assert!(why.contains("described in the prompt: yes"), "{why}");
        assert!(why.contains(r#""m": {"tools": "prompt", "schema_with_tools": false, "reply_by": "auto"}"#), "{why}");
        let (verdict, why) = tried(kind, Row { tools: ToolMode::Prompt, ..row() }).await;
        assert!(verdict == CheckStatus::Ok && why.contains("the row says so"), "{why}");
    }
}
