//! The use of tools as members and models see it, with built-in tools.

use std::sync::Arc;
use std::time::Duration;

use ports::Dice;
use serde_json::{Value, json};

use crate::limits::role;
use crate::model::{Act, Ask, End, Streamed};
use crate::support::{Setup, World, story};

/// Each die shows the middle of its sides.
struct Middle;

impl Dice for Middle {
    fn roll(&self) -> f64 {
        0.5
    }
}

/// A bot with this model row.
async fn world_of(row: &str, variables: &[(&str, &str)]) -> World {
    let mut setup = Setup::new().dice(Arc::new(Middle)).set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true");
    for (name, value) in variables {
        setup = setup.set(name, value);
    }
    World::of_row(setup, row).await
}

const TOGETHER: &str = r#""schema_with_tools": true"#;
const BEFORE: &str = r#""reply_by": "schema""#;
const FUNCTION: &str = r#""reply_by": "tool""#;
const PROMPT: &str = r#""tools": "prompt""#;

fn roll(id: &'static str, notation: &str) -> (&'static str, &'static str, Value) {
    (id, "roll_dice", json!({"notation": notation}))
}

fn calculate(id: &'static str, expression: &str) -> (&'static str, &'static str, Value) {
    (id, "calculator", json!({"expression": expression}))
}

/// A model that makes these calls at once, and then reports the results.
fn calls_then_tells(world: &World, calls: Vec<(&'static str, &'static str, Value)>) {
    world.model.does(move |ask| match ask.results() {
        results if results.is_empty() && !ask.tools().is_empty() => Act::calls(&calls),
        results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
    });
}

const BUILT_IN: [&str; 6] = ["calculator", "forget_fact", "get_time", "remember", "roll_dice", "search_memory"];
const ALL: usize = BUILT_IN.len();

#[test]
fn a_member_asks_for_dice_and_the_dice_are_rolled() {
    story(async {
        let world = world_of(TOGETHER, &[]).await;
        calls_then_tells(&world, vec![roll("call-1", "2d6")]);
        let said = world.says("Ada", "general", "@staffai roll two dice");
        assert_eq!(world.words_to(said).await, "Rolled 2d6: [4, 4] = **8**");
        let asks = world.model.asks();
        assert_eq!(
            (asks.len(), asks[0].tools(), asks[0].body["tool_choice"].as_str()),
            (2, BUILT_IN.to_vec(), Some("auto"))
        );
        let messages = asks[1].body["messages"].as_array().unwrap();
        assert_eq!(messages[2]["kept"], "as it came", "the model's own message is echoed");
        assert_eq!(asks[1].results(), [("call-1".to_owned(), "Rolled 2d6: [4, 4] = **8**".to_owned())]);
        assert!(asks.iter().all(|ask| ask.has_form() && ask.shows("You have tools")));
        let turns = world.json("/api/v1/turns").await.1;
        let steps = turns["turns"][0]["steps"].as_array().unwrap().clone();
        let steps: Vec<String> = steps.iter().map(|step| format!("{} {}", step["kind"], step["name"])).collect();
        assert_eq!(steps, [r#""model" "scripted""#, r#""tool" "roll_dice""#, r#""model" "scripted""#]);
        let metrics = world.get("/metrics").await.1;
        assert!(
            metrics.contains(r#"gen_ai_execute_tool_duration_seconds_count{gen_ai_tool_name="roll_dice"}"#),
            "{metrics}"
        );
    });
}

#[test]
fn a_plain_message_is_one_call_where_the_row_takes_both_or_nothing_was_said_before() {
    story(async {
        let world = world_of(TOGETHER, &[]).await;
        for _ in 0..3 {
            world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        }
        assert_eq!(world.model.calls(), 3);
        assert!(world.model.asks().iter().all(|ask| ask.has_form() && ask.tools() == BUILT_IN));
        let world = world_of(BEFORE, &[]).await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        assert_eq!(world.model.calls(), 1);
        assert!(!world.model.last().has_form());
        // There is an answer to miss now.
        world.answer_to(world.says("Ada", "general", "@staffai and again")).await;
        let asks = world.model.asks();
        assert_eq!(asks.len(), 3);
        assert_eq!(
            (asks[1].talk().as_str(), asks[1].tools().len(), asks[1].has_form()),
            ("user: and again", ALL, false)
        );
        let whole = "user: hello\nassistant: You said: hello\nuser: and again";
        assert_eq!((asks[2].talk().as_str(), asks[2].tools().len(), asks[2].has_form()), (whole, 0, true));
    });
}

/// The table of calls in the guide.
#[test]
fn a_row_that_takes_tools_needs_one_call_for_a_plain_message_and_two_with_a_round() {
    let roll_once = |ask: &Ask| match (ask.results().len(), &*ask.tools()) {
        (0, tools) if ask.question().contains("roll") && !tools.is_empty() => Act::calls(&[roll("a", "2d6")]),
        // A row that gets its tools in the prompt calls in words.
        (0, []) if ask.question().contains("roll") && ask.shows("roll_dice") && !ask.shows("</tool_result>") => {
            Act::content(r#"{"tool": "roll_dice", "arguments": {"notation": "2d6"}}"#)
        }
        (_, tools) if tools.contains(&"give_answer") => {
            let reply = json!({"type": "text", "response": "Done.", "data": ""});
            Act::calls(&[("answer", "give_answer", reply)])
        }
        _ => Act::says("Done."),
    };
    story(async {
        for (row, plain, rolled) in [
            (TOGETHER, 1, 2),
            (FUNCTION, 1, 2),
            (BEFORE, 2, 3),
            (r#""tools": "off""#, 1, 1),
            (r#""stream": false"#, 1, 2),
            (PROMPT, 1, 2),
            (r#""wire": "responses", "schema_with_tools": true"#, 1, 2),
            (r#""wire": "responses", "reply_by": "tool""#, 1, 2),
        ] {
            // Built-in tools alone justify no further call, and need none.
            let always = if row == BEFORE { "true" } else { "false" };
            let world = world_of(row, &[("STAFFAI_TOOLS__BUILT_IN_ALWAYS", always)]).await;
            world.model.does(move |ask| roll_once(ask));
            world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
            let mut calls = vec![world.model.calls()];
            for words in ["@staffai hello again", "@staffai roll"] {
                let said = world.says("Ada", "general", words);
                assert_eq!(world.words_to(said).await, "Done.", "{row}");
                calls.push(world.model.calls());
            }
            println!("{row:<60} {} {}", calls[1] - calls[0], calls[2] - calls[1]);
            assert_eq!((calls[1] - calls[0], calls[2] - calls[1]), (plain, rolled), "{row}");
        }
    });
}

#[test]
fn prose_instead_of_the_function_is_the_answer_without_a_second_call() {
    story(async {
        let world = world_of(FUNCTION, &[]).await;
        world.model.does(|_| Act::content("Just words."));
        for calls in 1..=2 {
            let said = world.says("Ada", "general", "@staffai hello");
            assert_eq!((world.words_to(said).await.as_str(), world.model.calls()), ("Just words.", calls));
        }
        let ask = world.model.last();
        assert!(ask.shows("hello") && ask.talk().contains("Just words."), "the whole conversation is there");
        let reply = json!({"type": "text", "response": "By the function.", "data": ""});
        world.model.does(move |_| Act::StreamsACall("Sure.".into(), "give_answer", reply.clone()));
        let said = world.says("Ada", "general", "@staffai hello");
        assert_eq!((world.words_to(said).await.as_str(), world.model.calls()), ("By the function.", 3));
    });
}

#[test]
fn built_in_tools_alone_never_cost_a_model_that_cannot_take_both_a_second_call() {
    story(async {
        let world = world_of(BEFORE, &[("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "false")]).await;
        for _ in 0..3 {
            world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        }
        let asks = world.model.asks();
        assert_eq!(asks.len(), 3);
        assert!(asks.iter().all(|ask| ask.has_form() && ask.tools().is_empty()));
    });
}

#[test]
fn several_rounds_end_with_one_call_for_the_answer() {
    story(async {
        let world = world_of(BEFORE, &[]).await;
        world.answer_to(world.says("Ada", "general", "@staffai my lucky number is 7")).await;
        world.model.does(|ask| match ask.results().len() {
            _ if ask.has_form() => Act::says("They are 8 and 15."),
            0 => Act::calls(&[roll("a", "2d6")]),
            1 => Act::calls(&[calculate("b", "8 + 7")]),
            _ => Act::content("Eight, and fifteen."),
        });
        let said = world.says("Ada", "general", "@staffai roll two dice and add my number");
        assert_eq!(world.words_to(said).await, "They are 8 and 15.");
        let asks: Vec<Ask> = world.model.asks().split_off(1);
        let asked: Vec<_> = asks.iter().map(|ask| (ask.tools().len(), ask.has_form(), ask.results().len())).collect();
        assert_eq!(asked, [(ALL, false, 0), (ALL, false, 1), (ALL, false, 2), (0, true, 2)]);
        assert!(!asks[2].shows("lucky") && asks[3].shows("lucky"), "the last call knows all that was said");
        let results = asks[3].results();
        assert_eq!((results[1].0.as_str(), results[1].1.as_str()), ("b", "15"));
    });
}

#[test]
fn results_come_in_the_order_of_their_calls() {
    story(async {
        let world = world_of(TOGETHER, &[]).await;
        let calls: Vec<_> = ["a", "b", "c", "d", "e", "f"].into_iter().zip(1..).collect();
        calls_then_tells(&world, calls.iter().map(|(id, number)| calculate(id, &format!("{number} * 10"))).collect());
        let said = world.says("Ada", "general", "@staffai count");
        assert_eq!(world.words_to(said).await, "10 / 20 / 30 / 40 / 50 / 60");
        let ids: Vec<String> = world.model.last().results().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["a", "b", "c", "d", "e", "f"]);
    });
}

#[test]
fn what_a_rule_denies_never_runs_even_if_the_model_calls_it() {
    story(async {
        let rules =
            r#"[{tools = "roll_*", verdict = "deny"}, {tools = "calculator", operation = "read", verdict = "deny"}]"#;
        let world = world_of(TOGETHER, &[("STAFFAI_TOOLS__RULES", rules)]).await;
        calls_then_tells(&world, vec![roll("a", "2d6"), calculate("b", "6 * 7")]);
        let words = world.words_to(world.says("Ada", "general", "@staffai roll")).await;
        let hidden = ["calculator", "roll_dice"];
        let rest: Vec<&str> = BUILT_IN.into_iter().filter(|name| !hidden.contains(name)).collect();
        assert_eq!(world.model.asks()[0].tools(), rest, "what is always denied is not offered");
        let [one, other] = <[(String, String); 2]>::try_from(world.model.last().results()).unwrap();
        for (result, tool) in [(one, "roll_dice"), (other, "calculator")] {
            assert_eq!(result.1, format!("there is no tool {tool:?}: use only the tools that you were given"));
        }
        assert!(!words.contains("Rolled") && !words.contains("42"), "{words}");
    });
}

#[test]
fn a_rule_holds_in_its_channel_alone() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let rules = format!(r#"[{{tools = "*", channels = [{}], verdict = "deny"}}]"#, world.channel("general"));
        drop(world);
        let world = world_of(TOGETHER, &[("STAFFAI_TOOLS__RULES", &rules)]).await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        assert!(world.model.last().tools().is_empty() && !world.model.last().shows("You have tools"));
        world.answer_to(world.says("Ada", "random", "@staffai hello")).await;
        assert_eq!(world.model.last().tools(), BUILT_IN);
    });
}

#[test]
fn calls_that_are_none_become_results_that_say_what_is_wrong() {
    story(async {
        let world = world_of(TOGETHER, &[]).await;
        let call = |id, name, arguments| (id, name, arguments);
        calls_then_tells(
            &world,
            vec![
                call("a", "roll_dice", json!("{\"notation\": ")),
                call("b", "format_disk", json!({})),
                call("c", "roll_dice", json!({"notation": 6})),
                call("d", "calculator", json!({"expression": "1/0"})),
                calculate("e", "1 + 1"),
                calculate("f", "1 + 1"),
                calculate("g", "1 + 1"),
            ],
        );
        world.answer_to(world.says("Ada", "general", "@staffai go")).await;
        let results: Vec<String> = world.model.last().results().into_iter().map(|(_, text)| text).collect();
        assert!(results[0].starts_with("the arguments are not JSON"), "{results:?}");
        assert!(results[1].starts_with("there is no tool \"format_disk\""), "{results:?}");
        assert!(results[2].starts_with("the arguments do not fit: /notation"), "{results:?}");
        assert_eq!(results[3], "The tool failed: division by zero");
        assert_eq!(results[4..6], ["2", "2"]);
        assert!(results[6].starts_with("this call was made with the same arguments before"), "{results:?}");
    });
}

#[test]
fn calls_without_a_name_of_their_own_get_one() {
    story(async {
        let world = world_of(TOGETHER, &[]).await;
        calls_then_tells(&world, vec![calculate("", "1 + 1"), calculate("", "2 + 2")]);
        assert_eq!(world.words_to(world.says("Ada", "general", "@staffai go")).await, "2 / 4");
        let ids: Vec<String> = world.model.last().results().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["call_0_calculator", "call_1_calculator"]);
        let echoed = &world.model.last().body["messages"][2]["tool_calls"];
        assert_eq!((&echoed[0]["id"], &echoed[1]["id"]), (&json!(ids[0]), &json!(ids[1])));
    });
}

#[test]
fn a_model_that_never_stops_calling_is_asked_once_more_without_tools() {
    story(async {
        let world = world_of(TOGETHER, &[("STAFFAI_TOOLS__MAX_ROUNDS", "3")]).await;
        world.model.does(|ask| match ask.tools().len() {
            0 => Act::says("Enough."),
            _ => Act::calls(&[calculate("a", &format!("{} + 1", ask.number))]),
        });
        assert_eq!(world.words_to(world.says("Ada", "general", "@staffai go")).await, "Enough.");
        assert_eq!(world.model.calls(), 4);
        // The same for calls, many of them in one round.
        let world = world_of(TOGETHER, &[("STAFFAI_TOOLS__MAX_CALLS", "2")]).await;
        calls_then_tells(&world, vec![calculate("a", "1"), calculate("b", "2"), calculate("c", "3")]);
        let words = world.words_to(world.says("Ada", "general", "@staffai go")).await;
        assert_eq!(words, "1 / 2 / no more tool calls are allowed in this answer: answer with what you have");
        assert!(world.model.last().tools().is_empty());
    });
}

#[test]
fn where_the_provider_refuses_tools_the_turn_goes_on_without_and_so_do_the_next() {
    story(async {
        let world = world_of(BEFORE, &[]).await;
        world.model.does(|ask| {
            let refusal = json!({"error": {"message": "library/scripted does not support tools"}}).to_string();
            if ask.tools().is_empty() { Act::says("Hello.") } else { Act::Error(400, refusal) }
        });
        assert_eq!(world.words_to(world.says("Ada", "general", "@staffai hello")).await, "Hello.");
        assert_eq!(world.model.calls(), 2);
        assert_eq!(world.words_to(world.says("Ben", "general", "@staffai hello")).await, "Hello.");
        assert_eq!(world.model.calls(), 3, "one call each from now on");
        assert_eq!(world.json("/readyz").await.1["status"], "ready", "it is no failure of the model");
    });
}

#[test]
fn tools_in_the_prompt_are_called_in_words_that_no_member_sees() {
    story(async {
        let world = world_of(PROMPT, &[]).await;
        world.model.does(|ask| {
            let call = r#"```json
{"tool": "roll_dice", "arguments": "{\"notation\": \"2d6\"}"}
```"#;
            let pause = Duration::from_millis(5);
            if ask.shows("</tool_result>") {
                return Act::streams("You rolled 8.", 3, pause, End::Well);
            }
            Act::Streams(Streamed { content: call.to_owned(), piece: 3, pause, end: End::Well })
        });
        let said = world.says("Ada", "general", "@staffai roll two dice");
        assert_eq!(world.words_to(said).await.split(' ').next(), Some("You"));
        let asks = world.model.asks();
        assert!(asks.iter().all(|ask| ask.tools().is_empty()));
        assert!(asks[0].shows("- roll_dice: Roll dice in standard notation"));
        assert!(asks[1].question().contains("Rolled 2d6: [4, 4] = **8**"), "{}", asks[1].question());
        for message in world.spoken(said.channel) {
            assert!(!message.content.contains(['{', '`']), "{}", message.content);
        }
    });
}

#[test]
fn a_call_that_stands_in_the_text_is_run_as_one() {
    story(async {
        let world = world_of(TOGETHER, &[]).await;
        world.model.does(|ask| {
            if ask.shows("</tool_result>") {
                return Act::says("You rolled 8.");
            }
            Act::content(
                "<tool_call>\n<function=roll_dice>\n<parameter=notation>\n2d6\n</parameter>\n</function>\n</tool_call>",
            )
        });
        assert_eq!(world.words_to(world.says("Ada", "general", "@staffai roll")).await, "You rolled 8.");
        assert!(world.model.last().question().contains("Rolled 2d6: [4, 4] = **8**"));
    });
}

#[test]
fn limits_and_pauses_hold_for_each_member() {
    story(async {
        let limits = [("STAFFAI_TOOLS__LIMITS", "roll_* 2/10m"), ("STAFFAI_TOOLS__COOLDOWN", "get_time 10m")];
        let world = world_of(TOGETHER, &limits).await;
        let time = |id, zone: &str| (id, "get_time", json!({"timezone": zone, "format": "date"}));
        calls_then_tells(
            &world,
            vec![roll("a", "d6"), roll("b", "d8"), roll("c", "d4"), time("d", "UTC"), time("e", "Europe/Berlin")],
        );
        for who in ["Ada", "Ben"] {
            world.answer_to(world.says(who, "general", "@staffai go")).await;
            let results: Vec<String> = world.model.last().results().into_iter().map(|(_, text)| text).collect();
            assert_eq!(results[..2], ["Rolled d6: **4**", "Rolled d8: **5**"], "{who}");
            for refused in [&results[2], &results[4]] {
                assert!(
                    refused.starts_with("This member called it too often: it can be called again in "),
                    "{refused}"
                );
            }
            assert!(!results[3].contains("too often"), "{}", results[3]);
        }
    });
}

#[test]
fn quotas_of_tools_outlive_a_restart_and_holders_of_a_role_have_one_of_their_own() {
    story(async {
        let moderator = role(&World::without_bot(Setup::new()).await, "moderator");
        let rows =
            format!(r#"[{{scope = "member", per = "24h", calls = 1, tools = ["roll_*"], roles = [{}]}}]"#, moderator.0);
        let limits = [("STAFFAI_TOOLS__LIMITS", "calculator 1/10m"), ("STAFFAI_RATE_LIMITER__LIMITS", rows.as_str())];
        let world = world_of(TOGETHER, &limits).await;
        calls_then_tells(&world, vec![roll("a", "d6"), roll("b", "d8"), calculate("c", "1+1"), calculate("d", "2+2")]);
        let refusals = async |who: &str| {
            world.answer_to(world.says(who, "general", "@staffai go")).await;
            let results = world.model.last().results();
            results.iter().map(|(_, text)| text.contains("too often")).collect::<Vec<bool>>()
        };
        assert_eq!(refusals("Ada").await, [false, false, false, true], "the quota of rolls is for moderators");
        assert_eq!(refusals("Chloe").await, [false, true, false, true]);
        assert!(world.drain().await);
        world.start().await;
        assert_eq!(refusals("Ada").await, [false, false, true, true]);
        assert_eq!(refusals("Chloe").await, [true, true, true, true], "a day is not over with a restart");
    });
}

#[test]
fn a_long_result_is_cut_and_read_page_by_page() {
    story(async {
        let world = world_of(TOGETHER, &[("STAFFAI_TOOLS__RESULT_BYTES", "200")]).await;
        world.model.does(|ask| match ask.results().len() {
            0 => Act::calls(&[roll("a", "100d1000")]),
            1 => Act::calls(&[("b", "read_result", json!({"result": 1, "offset": 0}))]),
            _ => Act::says("Many."),
        });
        assert_eq!(world.words_to(world.says("Ada", "general", "@staffai roll")).await, "Many.");
        let results = world.model.last().results();
        let (cut, whole) = (&results[0].1, &results[1].1);
        assert!(cut.len() <= 200 && cut.contains("bytes left out"), "{cut}");
        assert!(whole.starts_with("Bytes 0 to ") && whole.matches("501,").count() == 99, "{whole}");
        let asks = world.model.asks();
        assert_eq!((asks[0].tools().len(), asks[1].tools().last()), (ALL, Some(&"read_result")));
    });
}

#[test]
fn of_more_tools_than_a_row_takes_some_are_shown_and_the_rest_are_found() {
    story(async {
        let world = world_of(r#""schema_with_tools": true, "max_tools": 3"#, &[]).await;
        world.model.does(|ask| match ask.results().len() {
            0 => Act::calls(&[("a", "find_tools", json!({"query": "roll dice"}))]),
            1 => Act::calls(&[roll("b", "2d6")]),
            _ => Act::says(ask.results()[1].1.clone()),
        });
        let words = world.words_to(world.says("Ada", "general", "@staffai what is the current date?")).await;
        assert_eq!(words, "Rolled 2d6: [4, 4] = **8**");
        let asks = world.model.asks();
        assert_eq!(asks[0].tools(), ["calculator", "find_tools"], "a place is left for what is found");
        assert_eq!(asks[1].tools(), ["calculator", "find_tools", "roll_dice"]);
        assert!(asks[1].results()[0].1.contains("- roll_dice: Roll dice in standard notation"));
        // The next question begins with the same tools, and needs no search.
        world.model.does(|_| Act::says("Yes."));
        world.answer_to(world.says("Ada", "general", "@staffai and again?")).await;
        assert_eq!(world.model.asks()[3].tools(), asks[1].tools());
        // A lane of its own begins anew.
        world.answer_to(world.says("Ben", "general", "@staffai hello")).await;
        assert_eq!(world.model.last().tools(), ["calculator", "find_tools"]);
    });
}

#[test]
fn members_see_that_tools_are_at_work_until_the_answer_takes_its_place() {
    story(async {
        let world = world_of(TOGETHER, &[("STAFFAI_STREAMING__HOLD", "0")]).await;
        world.model.does(|ask| match ask.results().len() {
            0 => Act::calls(&[roll("a", "2d6")]),
            _ => Act::SaysAfter(Duration::from_secs(1), "Eight.".to_owned()),
        });
        let said = world.says("Ada", "general", "@staffai roll");
        assert_eq!(world.words_to(said).await, "One moment, I am using my tools for this.");
        world.until("the answer", || (world.answers(said)[0].content == "Eight.").then_some(())).await;
        assert_eq!(world.spoken(said.channel).len(), 1, "in the very same message");
        // Showing only a status permits a retry: it does not count as shown text.
        world.model.does(|ask| match (ask.results().len(), ask.number % 2) {
            (0, _) => Act::calls(&[roll("a", "2d6")]),
            (_, 0) => Act::says("Eight again."),
            _ => Act::Status(503),
        });
        let again = world.says("Ben", "general", "@staffai roll");
        world
            .until("the answer", || world.answers(again).iter().any(|m| m.content == "Eight again.").then_some(()))
            .await;
        assert_eq!(world.answers(again).len(), 1);
    });
}

#[test]
fn interjections_are_offered_no_tools() {
    story(async {
        let chance = [("RESPONSE_CHANCE", "0.6"), ("RANDOM_RESPONSE_DELIVERY_CHANCE", "0.6")];
        let world = world_of(TOGETHER, &chance).await;
        world.says("Ada", "general", "the ferry is late again");
        world.hears("general").await;
        assert!(world.model.last().tools().is_empty() && !world.model.last().shows("You have tools"));
    });
}
