//! Streams of each provider, split at any position, and streams that end badly. Time is paused; sockets are tested with
//! the client.

use std::sync::Arc;

use futures_util::stream;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::chat::Chat;
use domain::completion::{Completion, Finish};

const OPENAI: &str = concat!(
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null,\"obfuscation\":\"aB\"}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo 😀\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12}}\n\n",
    "data: [DONE]\n\n",
);

/// Reasoning in a separate field, CRLF line ends, a comment, and no blank lines.
const VLLM: &str = concat!(
    ": ping\r\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\"}}]}\r\n",
    ": ping\r\n",
    "data:{\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"so\",\"content\":\"Hello 😀\"},\"finish_reason\":null,\"token_ids\":null}]}\r\n",
    "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\",\"stop_reason\":null}]}\r\n",
    "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\r\ndata:[DONE]\r\n",
);

/// The role in every chunk, usage beside the last text.
const OLLAMA: &str = concat!(
    "data: {\"model\":\"q\",\"system_fingerprint\":\"fp_ollama\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_reason\":null}]}\n\n",
    "data: {\"model\":\"q\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\" 😀\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n",
    "data: [DONE]\n\n",
);

/// A finish reason in every chunk, growing usage, no closing mark.
const GEMINI: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"lo 😀\",\"extra_content\":{\"google\":{\"thought_signature\":\"x\"}}},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n",
);

/// Claude behind a proxy: thinking blocks, event names, parts instead of text, a provider-specific stop reason.
const CLAUDE: &str = concat!(
    "event: message\nid: 1\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"thinking_blocks\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"Hello \"}],\"provider_specific_fields\":null}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":\ndata: {\"content\":\"😀\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"end_turn\"}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{}}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"cache_read_input_tokens\":0}}\n\n",
    "data: [DONE]",
);

struct Read {
    heard: String,
    /// Characters of hidden content.
    hidden: usize,
    result: Result<Completion, ModelError>,
}

async fn run<S>(source: S) -> Read
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin + 'static,
{
    let heard = Arc::new(Mutex::new((String::new(), 0)));
    let told = Arc::clone(&heard);
    let sink: DeltaSink = Arc::new(move |delta: Delta<'_>| match delta {
        Delta::Text(text) => told.lock().0.push_str(text),
        Delta::Hidden(chars) => told.lock().1 += chars,
    });
    let result = read(source, &Chat::default(), &sink, &Budget::default()).await;
    let result = result.and_then(|answer| answer.read(&Chat::default(), &|| 40));
    let (heard, hidden) = heard.lock().clone();
    Read { heard, hidden, result }
}

fn pieces(
    all: impl IntoIterator<Item = impl Into<Vec<u8>>>,
) -> stream::Iter<std::vec::IntoIter<Result<Bytes, ModelError>>> {
    let all: Vec<_> = all.into_iter().map(|piece| Ok(Bytes::from(piece.into()))).collect();
    stream::iter(all)
}

fn content(text: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

#[tokio::test]
async fn every_provider_is_understood() {
    for stream in [OPENAI, VLLM, OLLAMA, GEMINI, CLAUDE] {
        let Read { heard, result, .. } = run(pieces([stream])).await;
        let completion = result.unwrap_or_else(|error| panic!("{error} in {stream}"));
        assert_eq!((heard.as_str(), completion.content.as_str()), ("Hello 😀", "Hello 😀"), "{stream}");
        assert_eq!(completion.finish, Finish::Stop);
        assert_eq!((completion.usage.prompt, completion.usage.completion, completion.usage.estimated), (9, 3, false));
        assert_eq!(completion.raw.to_value()["role"], "assistant");
    }
}

proptest! {
    #[test]
    fn it_does_not_matter_where_the_network_cuts(
        which in 0..5_usize, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)
    ) {
        let bytes = [OPENAI, VLLM, OLLAMA, GEMINI, CLAUDE][which].as_bytes();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let cut = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let Read { heard, result, .. } = runtime.block_on(run(pieces(cut)));
        prop_assert_eq!(heard, "Hello 😀");
        prop_assert_eq!(result.map(|completion| completion.content), Ok("Hello 😀".to_owned()));
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_is_no_answer_before_its_finish(which in 0..3_usize, at in any::<prop::sample::Index>()) {
        let text = [OPENAI, VLLM, OLLAMA][which];
        let bytes = text.as_bytes();
        let at = at.index(bytes.len());
        let finish = text.find("\"finish_reason\":\"stop\"").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let Read { heard, result, .. } = runtime.block_on(run(pieces([&bytes[..at]])));
        prop_assert!("Hello 😀".starts_with(&heard));
        if at < finish {
            prop_assert!(result.is_err());
        }
        if let Ok(completion) = result {
            prop_assert_eq!(completion.content, "Hello 😀");
        }
    }
}

#[tokio::test]
async fn usage_that_nobody_told_is_estimated() {
    let Read { result, .. } = run(pieces([content("Hello"), STOP.to_owned()])).await;
    let usage = result.unwrap().usage;
    assert!(usage.estimated && usage.prompt == 10 && usage.completion == 2);
}

#[tokio::test]
async fn errors_inside_a_stream_are_errors() {
    use ModelErrorKind::{Connection, ContextOverflow, Malformed, Provider, RateLimited};
    let half = content("Hel");
    for (rest, kind) in [
        (
            "data: {\"error\": {\"message\": \"litellm.APIConnectionError: cut\", \"type\": null, \"code\": \"500\"}}\n\n",
            Provider,
        ),
        ("data: {\"error\": {\"message\": \"slow down\", \"code\": 429}}\n\n", RateLimited),
        (
            "event: error\ndata: {\"error\": {\"message\": \"ContextWindowExceededError: too long\"}}\n\n",
            ContextOverflow,
        ),
        ("data: {\"error\": \"model runner has unexpectedly stopped\"}\n\n", Provider),
        ("{\"error\":{\"message\":\"out of memory\"}}\n", Provider),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\",\"error\":{\"message\":\"gone\"}}]}\n\n",
            Provider,
        ),
        ("data: not json\n\n", Malformed),
        ("", Connection),
    ] {
        let Read { heard, result, .. } = run(pieces([half.as_str(), rest])).await;
        assert_eq!((heard.as_str(), result.unwrap_err().kind), ("Hel", kind), "{rest}");
    }
    let first = run(pieces(["data: {\"error\": {\"message\": \"no\"}}\n\n"])).await;
    assert_eq!((first.heard.as_str(), first.result.unwrap_err().kind), ("", Provider));
}

#[tokio::test]
async fn a_closing_mark_ends_an_answer_without_a_finish_reason() {
    for mark in ["data: [DONE]\n\n", "data: [DONE]"] {
        let Read { heard, result, .. } = run(pieces([content("Hello").as_str(), mark])).await;
        let completion = result.unwrap();
        assert_eq!((heard.as_str(), completion.content.as_str()), ("Hello", "Hello"));
        assert_eq!(completion.finish, Finish::Other("none".to_owned()));
    }
    for nothing in
        ["data: [DONE]\n\n", "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: [DONE]\n\n"]
    {
        assert_eq!(run(pieces([nothing])).await.result.unwrap_err().kind, ModelErrorKind::Connection);
    }
}

#[tokio::test]
async fn what_goes_wrong_behind_the_finish_harms_nothing() {
    let broken = || Err(ModelError::new(ModelErrorKind::Connection, "cut"));
    for end in
        [Ok(Bytes::from("data: {\"error\": {\"message\": \"late\"}}\n\n")), Ok(Bytes::from("data: {\"cho")), broken()]
    {
        let source = stream::iter([Ok(Bytes::from(content("Hello"))), Ok(Bytes::from(STOP)), end]);
        assert_eq!(run(source).await.result.unwrap().content, "Hello");
    }
}

#[tokio::test]
async fn plain_json_is_an_answer_too() {
    let body = r#" {"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
    let Read { heard, result, .. } = run(pieces([&body[..1], &body[1..9], &body[9..]])).await;
    assert_eq!((heard.as_str(), result.unwrap().content.as_str()), ("", "hello"));
    let empty = run(pieces(["", "  "])).await.result.unwrap_err();
    assert_eq!(empty.kind, ModelErrorKind::Malformed);
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_think_long_and_nothing_waits_long_for_what_follows_its_end() {
    let waits = |before: u64, then: Vec<(u64, String)>| {
        let begin = stream::once(async move {
            tokio::time::sleep(Duration::from_secs(before)).await;
            Ok(Bytes::from(content("Hel")))
        });
        let rest = stream::iter(then).then(|(wait, text)| async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            Ok(Bytes::from(text))
        });
        Box::pin(begin.chain(rest).chain(stream::pending()))
    };
    let alive =
        vec![(15, ": ping\n".to_owned()), (55, ": ping\n".to_owned()), (15, content("lo")), (1, STOP.to_owned())];
    let begun = Instant::now();
    assert_eq!(run(waits(55, alive)).await.result.unwrap().content, "Hello");
    assert_eq!(begun.elapsed(), Duration::from_secs(141) + TAIL);
}

#[tokio::test]
async fn nothing_grows_without_bound() {
    let endless = stream::repeat_with(|| Ok(Bytes::from(content("word ").repeat(1000))));
    assert_eq!(run(endless).await.result.unwrap_err().kind, ModelErrorKind::TooLarge);
    let giant =
        stream::iter([Ok(Bytes::from("data: "))]).chain(stream::repeat_with(|| Ok(Bytes::from(vec![b'x'; 64 * 1024]))));
    assert_eq!(run(Box::pin(giant)).await.result.unwrap_err().kind, ModelErrorKind::TooLarge);
    let comments = stream::repeat_with(|| Ok(Bytes::from(": ping\n".repeat(10_000))));
    assert_eq!(run(comments).await.result.unwrap_err().kind, ModelErrorKind::TooLarge);
    let blank = stream::repeat_with(|| Ok(Bytes::from(content(&"\n".repeat(500)))));
    let error = run(blank).await.result.unwrap_err();
    assert!(error.message.contains("blanks"), "{error}");
    let blank_start = stream::repeat_with(|| Ok(Bytes::from("\n".repeat(5000))));
    assert!(run(blank_start).await.result.is_err());
}

#[tokio::test]
async fn thoughts_and_calls_are_counted_and_not_told() {
    let thought = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"let me see\"}}]}\n\n";
    let Read { heard, hidden, result } = run(pieces([thought])).await;
    assert_eq!((heard.as_str(), hidden), ("", 10));
    assert!(result.is_err(), "it broke off");
}

#[tokio::test]
async fn half_a_call_without_a_finish_reason_is_no_answer() {
    let call = |arguments: &str, finish: Option<&str>| {
        let call = serde_json::json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": arguments}});
        let choice = serde_json::json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish});
        format!("data: {}\n\ndata: [DONE]\n\n", serde_json::json!({"choices": [choice]}))
    };
    let half = r#"{"at": "se"#;
    assert_eq!(run(pieces([call(half, None)])).await.result.unwrap_err().kind, ModelErrorKind::Connection);
    let cut = run(pieces([call(half, Some("length"))])).await.result.unwrap();
    assert_eq!((cut.finish, cut.calls[0].arguments.as_str()), (Finish::Length, half));
    for arguments in ["", "{}", r#"{"at": "sea"}"#] {
        let whole = run(pieces([call(arguments, None)])).await.result.unwrap();
        assert_eq!((whole.finish, whole.calls.len()), (Finish::ToolCalls, 1), "{arguments}");
    }
}

#[tokio::test]
async fn an_empty_list_of_choices_with_usage_is_a_blocked_prompt() {
    let blocked = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":0}}\n\ndata: [DONE]\n\n";
    let completion = run(pieces([blocked])).await.result.unwrap();
    assert_eq!((completion.finish, completion.usage.prompt), (Finish::Filtered, 9));
}

#[tokio::test]
async fn values_without_brackets_and_empty_lines_of_data_are_passed_over() {
    let stream = format!("data:\ndata: \ndata: null\n{}data:\n\n{STOP}", content("Hello").trim_end());
    assert!(run(pieces([stream])).await.result.is_err(), "two values in one frame");
    let stream = format!("data:\ndata: \ndata: null\n{}data:\n\n{STOP}", content("Hello"));
    assert_eq!(run(pieces([stream])).await.result.unwrap().content, "Hello");
}

#[tokio::test]
async fn of_a_flood_of_calls_the_first_are_the_answer() {
    let call = |index: usize| format!("{{\"index\":{index},\"id\":\"c{index}\",\"function\":{{\"name\":\"f\"}}}}");
    let calls: Vec<String> = (0..40_000).map(call).collect();
    let frame = |calls: &[String]| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{}]}}}}]}}\n\n", calls.join(","))
    };
    let many_frames: String = calls.chunks(10).map(frame).collect();
    for flood in [frame(&calls[..8_000]), many_frames] {
        let completion = run(pieces([flood])).await.result.unwrap();
        assert_eq!((completion.calls.len(), completion.finish), (64, Finish::ToolCalls));
    }
}

#[tokio::test]
async fn a_flood_of_lines_is_given_up() {
    let lines = "data: [\n".repeat(100_000);
    assert_eq!(run(pieces([lines])).await.result.unwrap_err().kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn a_frame_of_too_many_values_is_refused_before_it_is_parsed() {
    let frame = |values: &str| format!("data: {{\"choices\":[{{\"delta\":{{}}}}],\"unused\":[{values}0]}}\n\n");
    let error = run(pieces([frame(&"[0],".repeat(100_000))])).await.result.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ModelErrorKind::TooLarge, "the answer has more than 65536 values")
    );
    let long_text = frame(&format!("\"{}\",", ",".repeat(400_000))) + STOP;
    assert!(run(pieces([long_text])).await.result.is_ok(), "separators in texts are no values");
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_provider_share_a_budget_of_memory() {
    // Each stays open with an answer of almost the largest size.
    let budget = Budget::default().of("one");
    let sink: DeltaSink = Arc::new(|_| {});
    let text: Vec<Bytes> = (0..9).map(|_| Bytes::from(content(&"x".repeat(440_000)))).collect();
    let open = (0..9).map(|_| {
        let source = stream::iter(text.clone().into_iter().map(Ok)).chain(stream::pending());
        let (budget, sink) = (budget.clone(), Arc::clone(&sink));
        tokio::spawn(async move { read(Box::pin(source), &Chat::default(), &sink, &budget).await.map(drop) })
    });
    let mut open: Vec<_> = open.collect();
    let (first, _, rest) = futures_util::future::select_all(open.drain(..)).await;
    assert_eq!(first.unwrap().unwrap_err().kind, ModelErrorKind::NoMemory, "half of the budget is eight of them");
    assert!(rest.iter().filter(|reading| !reading.is_finished()).count() >= 7);
    let other = read(pieces([OPENAI]), &Chat::default(), &sink, &budget.of("other")).await;
    assert!(other.is_ok(), "other providers have memory");
    rest.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Counts how often other tasks ran while the stream was read.
async fn turns_of_others(stream: String) -> usize {
    let reading = run(pieces([stream]));
    tokio::pin!(reading);
    let mut turns = 0;
    while futures_util::poll!(reading.as_mut()).is_pending() {
        turns += 1;
        tokio::task::yield_now().await;
    }
    turns
}

#[tokio::test]
async fn others_have_their_turn_while_a_long_piece_is_read() {
    let stream = content("word ").repeat(4_000) + STOP;
    let slices = stream.len() / SLICE_BYTES;
    assert!(slices > 9 && turns_of_others(stream).await >= slices - 1);
}

#[test]
fn a_stream_costs_in_proportion_to_its_length() {
    let stream = |size: usize| content("word ").repeat(size / 64) + STOP;
    cost::grows_linearly(8 * 1024, stream, |stream| drop(driven(run(pieces([stream])))));
}

#[test]
fn lines_of_data_without_an_end_cost_in_proportion_to_their_length() {
    let lines = |size: usize| "data: {\"a\":\n".repeat(size / 12);
    cost::grows_linearly(4 * 1024, lines, |lines| drop(driven(run(pieces([lines])))));
}

#[test]
fn a_frame_of_any_shape_costs_in_proportion_to_its_length() {
    let frames = |size: usize| {
        let whole = |inside: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{inside}}}]}}\n\n{STOP}");
        vec![
            whole(&format!("{{\"content\":[{}]}}", "0,".repeat(size / 2) + "0")),
            whole(&format!("{{\"content\":\"{}\"}}", "\\u00e9".repeat(size / 6))),
            whole(&format!(
                "{{{}\"x\":1}}",
                (0..size / 16).map(|key| format!("\"key{key}\":[1],")).collect::<Vec<_>>().concat()
            )),
            format!("data: {}\n\n", "[".repeat(size)),
            format!("data: {}\n\n", "{\"a\":".repeat(size / 5)),
        ]
    };
    cost::grows_linearly(4 * 1024, frames, |frames| {
        for frame in frames {
            drop(driven(run(pieces([frame]))));
        }
    });
}

#[test]
fn the_longest_frame_that_is_parsed_in_place_fits_a_slice() {
    let frame = |size: usize| {
        let numbers = "0,".repeat(size / 2 - 32) + "0";
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":[{numbers}]}}}}]}}\n\n")
    };
    cost::fits_a_slice(LONG_ANSWER, frame, |frame| drop(driven(run(pieces([frame])))));
}

#[test]
fn blanks_before_an_answer_cost_in_proportion_to_their_number() {
    let blanks = |size: usize| vec![" "; size];
    cost::grows_linearly(1024, blanks, |blanks| drop(driven(run(pieces(blanks)))));
}

fn driven<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_behind_a_finished_answer_are_not_waited_for() {
    let finished = content("Hello") + STOP;
    let begin = stream::iter([Ok(Bytes::from(finished))]);
    let dripping = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok(Bytes::from(": still here\n\n")), ()))
    });
    let start = Instant::now();
    let Read { result, .. } = run(Box::pin(begin.chain(dripping))).await;
    assert_eq!(result.unwrap().content, "Hello");
    assert!(start.elapsed() <= TAIL + Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_flood_behind_a_finished_answer_does_not_undo_it() {
    let flood = vec![b":\n".repeat(64 * 1024); STREAM_BYTES / (128 * 1024) + 1];
    let finished = content("Hello") + STOP;
    let Read { result, .. } = run(pieces(std::iter::once(finished.into_bytes()).chain(flood))).await;
    assert_eq!(result.unwrap().content, "Hello");
}
