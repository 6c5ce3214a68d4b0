//! A provider whose answers are made to fill the memory of the bot: the effects on the turn, on the memory of the process
//! and on later questions.

use futures_util::future::join_all;
use serde_json::json;

use crate::load::memory;
use crate::model::Act;
use crate::model_api::{WORDS, body, post};
use crate::support::{Setup, World, story};

/// The number of questions at once.
const AT_ONCE: usize = 8;
/// The most memory that their answers may take, in KiB: half of the budget of all answers, and the connections.
const MOST_KIB: u64 = 128 * 1024;
/// The longest prompt of a turn whose answers are not echoed, in bytes.
const SHORT_PROMPT: usize = 256 * 1024;
/// The bound on what a turn echoes, in bytes.
const ECHOED: usize = 4 * 1024 * 1024;

/// A whole answer with a tool call and a further field.
fn whole(field: &str) -> Act {
    let function = json!({"name": "roll_dice", "arguments": "{\"notation\":\"1d6\"}"});
    let call = json!({"id": "c", "type": "function", "function": function});
    Act::Body(format!(
        r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","tool_calls":[{call}],"extra":{field}}},"finish_reason":"tool_calls"}}]}}"#
    ))
}

/// The same as a stream whose further fields have long names.
fn named() -> Act {
    let chunk = |delta: String, finish: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
    };
    let names = (0..24).map(|n| chunk(format!("{{\"{n:06}{}\":1}}", "x".repeat(400_000)), "null"));
    let function = json!({"name": "roll_dice", "arguments": "{\"notation\":\"1d6\"}"});
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]});
    let end = chunk(call.to_string(), "\"tool_calls\"") + "data: [DONE]\n\n";
    Act::Body(names.collect::<String>() + &end)
}

#[test]
fn hostile_answers_take_bounded_memory_and_end_only_their_turns() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true");
        let setup = setup.set("STAFFAI_LLM__TIMEOUT", "30s").set("STAFFAI_TURN__DEADLINE", "30s");
        let world = World::without_bot(setup).await;
        let process = world.process("bot").await;
        world.becomes("ready").await;
        world.model.always(Act::content(WORDS));
        let question = body("roll a die", false);
        assert_eq!(post(&world, "/v1/chat/completions", &question).await.status(), 200);

        let small_values = whole(&format!("[{}0]", "[0],".repeat(ECHOED / 4 - 200)));
        let long_text = whole(&format!("\"{}\"", "thinking, ".repeat(ECHOED / 25)));
        // The number of requests of each turn, and its longest one.
        for (act, requests, longest) in
            [(small_values, 1, SHORT_PROMPT), (named(), 1, SHORT_PROMPT), (long_text, 3, ECHOED + SHORT_PROMPT)]
        {
            let (before, asked) = (memory(&process, "VmHWM:"), world.model.calls());
            world.model.always(act);
            let told = join_all((0..AT_ONCE).map(|_| post(&world, "/v1/chat/completions", &question))).await;
            assert!(told.iter().all(|answer| answer.status().is_server_error()), "{told:?}");
            let asks = world.model.asks().split_off(asked);
            assert_eq!(asks.len(), AT_ONCE * requests);
            let lengths = asks.iter().map(|ask| ask.body.to_string().len());
            assert!(lengths.max().is_some_and(|length| length < longest));
            let grown = memory(&process, "VmHWM:").saturating_sub(before);
            println!("{AT_ONCE} turns took {grown} KiB at most, above {before} KiB");
            assert!(grown < MOST_KIB, "{grown} KiB");
        }

        world.model.always(Act::content(WORDS));
        assert_eq!(post(&world, "/v1/chat/completions", &question).await.status(), 200);
    });
}
