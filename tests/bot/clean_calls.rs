//! Models that ask other model rows: the prompts, rights and costs of these calls.

use std::time::Duration;

use serde_json::{Value, json};

use crate::approvals::gate_of;
use crate::ledger::counted;
use crate::model::{Act, Ask, End, Streamed};
use crate::reading_along::{read, submit};
use crate::support::{Setup, World, story};

/// Two rows that may be asked by other models, and one that may not.
const MODELS: &str = r#"{"models": {
    "scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true},
    "cheap": {"model_id": "cheap", "enabled": true, "price_per_million": {"input": 1000.0, "output": 2000.0, "cached": 500.0}},
    "private": {"model_id": "private", "enabled": true}}}"#;

async fn world(changes: &[(&str, &str)]) -> World {
    let mut setup = Setup::new()
        .set("STAFFAI_AGENTS__MODELS", "scripted,cheap")
        .set("STAFFAI_TURN__DEADLINE", "30s")
        // No status is posted while an answer is awaited.
        .set("STAFFAI_STREAMING__HOLD", "30s")
        .set("STAFFAI_STREAMING__HOLD_CHARACTERS", "10000")
        .set("STAFFAI_TOOLS__LIMITS", "llm 100/1s");
    for (name, value) in changes {
        setup = setup.set(name, value);
    }
    let world = World::without_bot(setup).await;
    std::fs::write(world.dir.path().join("scripted-models.json"), MODELS).unwrap();
    world.start().await;
    world
}

/// A model that makes these calls in turn and reports the results; other rows act as given here.
fn calls(
    first: &'static str,
    calls: Vec<(&'static str, Value)>,
    others: impl Fn(&Ask) -> Act + Send + Sync + 'static,
) -> impl Fn(&Ask) -> Act + Send + Sync + 'static {
    move |ask| {
        if ask.model() != first {
            return others(ask);
        }
        let results = ask.results();
        match calls.get(results.len()) {
            Some((name, arguments)) => Act::calls(&[(&format!("call-{}", results.len()), name, arguments.clone())]),
            None => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        }
    }
}

async fn answer(world: &World, text: &str) -> String {
    world.words_to(world.says("Ada", "general", &format!("@staffai {text}"))).await
}

/// Returns the requests to a row, in order.
fn asks_of(world: &World, row: &str) -> Vec<Ask> {
    world.model.asks().into_iter().filter(|ask| ask.model() == row).collect()
}

#[test]
fn another_row_is_asked_with_nothing_but_the_question_and_its_asker_pays() {
    story(async {
        let world = world(&[]).await;
        let asked = vec![
            ("llm_list", json!({})),
            ("llm_clean_text", json!({"model": "cheap", "prompt": "Sum up: the tide comes in."})),
            ("llm_clean_text", json!({"model": "private", "prompt": "Sum up: the tide comes in."})),
        ];
        world.model.does(calls("scripted", asked, |_| Act::content("It rises.")));
        let told = answer(&world, "my boat is called Tern").await;
        assert!(told.contains("- scripted: takes tools"), "{told}");
        assert!(told.contains("- cheap: takes tools, $1000 in and $2000 out per million tokens"), "{told}");
        assert!(told.contains("/ It rises. /"), "{told}");
        assert!(told.contains("there is no model \"private\" to ask; there are: scripted, cheap"), "{told}");

        let cheap = asks_of(&world, "cheap");
        assert_eq!(cheap.len(), 1);
        assert_eq!(cheap[0].messages, [("user".to_owned(), "Sum up: the tide comes in.".to_owned())]);
        assert!(cheap[0].tools().is_empty() && !cheap[0].has_form());
        assert!(asks_of(&world, "private").is_empty());

        // Calls to other rows are not part of the history, and the next turn works without them.
        world.model.does(|_| Act::says("hello"));
        answer(&world, "and now?").await;
        assert!(!world.model.last().shows("Sum up"), "{}", world.model.last().talk());

        assert!(world.drain().await);
        let (kept, guild, ada) = (counted(&world).await, world.service.guilds()[0].id, world.member("Ada"));
        let count = |kind: &str| kept.get(&format!("all:discord:{guild}:{ada}:{kind}")).copied();
        // Four calls of the first turn, one to another row, one of the second turn: 10 prompt and 5 completion tokens
        // each.
        assert_eq!([count("messages"), count("in"), count("out")], [Some(2), Some(60), Some(30)], "{kept:?}");
        assert_eq!((count("micros"), count("unpriced")), (Some(20_000), Some(75)), "{kept:?}");
    });
}

#[test]
fn a_row_that_is_given_tools_has_only_those_and_the_rights_of_the_asking_member() {
    story(async {
        let rules = r#"[{tools = "roll_dice", verdict = "deny"}, {tools = "get_time", verdict = "ask"}]"#;
        let world = world(&[("STAFFAI_TOOLS__RULES", rules)]).await;
        let task = |tools: &[&str]| json!({"model": "cheap", "prompt": "What is six times seven?", "tools": tools});
        let asked = vec![
            ("llm_clean_tool", task(&["calculator"])),
            ("llm_clean_tool", task(&["get_time"])),
            ("llm_clean_tool", task(&["roll_dice"])),
        ];
        world.model.does(calls("scripted", asked, |ask| match (ask.results().as_slice(), ask.tools().as_slice()) {
            ([], ["calculator"]) => {
                Act::calls(&[("one", "calculator", json!({"expression": "6*7"})), ("two", "get_time", json!({}))])
            }
            ([], ["get_time"]) => Act::calls(&[("one", "get_time", json!({}))]),
            ([], other) => panic!("it was offered {other:?}"),
            (results, _) => Act::content(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")),
        }));
        let told = answer(&world, "please").await;
        assert!(told.contains("42, there is no tool \"get_time\""), "what it was not given is not there: {told}");
        assert!(told.contains("there is no way to ask one now"), "what a person would have to approve: {told}");
        assert!(told.contains("there is no tool \"roll_dice\" to give"), "what its asker may not do: {told}");
        let cheap = asks_of(&world, "cheap");
        assert!(cheap.iter().all(|ask| !ask.shows("please")), "nothing of the conversation");
    });
}

#[test]
fn clean_calls_end_in_each_other_and_take_no_more_calls_than_the_turn_has() {
    story(async {
        let world = world(&[("STAFFAI_TOOLS__MAX_CALLS", "6"), ("STAFFAI_TOOLS__MAX_ROUNDS", "20")]).await;
        let deeper = |tools: &[&str]| json!({"model": "cheap", "prompt": "deeper", "tools": tools});
        let nested = deeper(&["llm_clean_tool", "llm_clean_text", "calculator"]);
        // Each asks the next one as often as it may.
        world.model.does(move |ask| {
            if ask.tools().is_empty() {
                return if ask.has_form() { Act::says("done") } else { Act::content("done") };
            }
            let number = ask.number;
            if ask.tools().contains(&"llm_clean_tool") && ask.results().len() < 2 {
                return Act::calls(&[(&format!("call-{number}"), "llm_clean_tool", nested.clone())]);
            }
            Act::calls(&[(&format!("call-{number}"), "calculator", json!({"expression": format!("1+{number}")}))])
        });
        answer(&world, "go").await;
        let asks = asks_of(&world, "cheap");
        assert!(
            asks.iter().any(|ask| ask.shows("to give: name tools that you have yourself")),
            "the innermost gives none on"
        );
        let ran: usize = world.model.asks().iter().map(|ask| ask.results().len()).max().unwrap_or_default();
        assert!(ran <= 8 && world.model.calls() < 30, "{ran} results, {} questions", world.model.calls());
    });
}

#[test]
fn what_clean_calls_took_counts_behind_an_approval_that_comes_after_a_kill() {
    story(async {
        let setup = Setup::new()
            .set("STAFFAI_AGENTS__MODELS", "cheap")
            .set("STAFFAI_TURN__DEADLINE", "30s")
            .set("STAFFAI_TOOLS__LIMITS", "llm 100/1s")
            .set("STAFFAI_TOOLS__MAX_CALLS", "4")
            .set("STAFFAI_TOOLS__RULES", r#"[{tools = "roll_dice", verdict = "ask"}]"#);
        let world = World::without_bot(setup).await;
        std::fs::write(world.dir.path().join("scripted-models.json"), MODELS).unwrap();
        let first = world.process("first").await;
        world.becomes("ready").await;
        let sums = |text: &str| json!({"expression": text});
        let asked = vec![
            ("llm_clean_tool", json!({"model": "cheap", "prompt": "add up", "tools": ["calculator"]})),
            ("roll_dice", json!({"notation": "2d6"})),
            ("calculator", sums("6*7")),
        ];
        world.model.does(calls("scripted", asked, move |ask| match ask.results().len() {
            0 => Act::calls(&[("a", "calculator", sums("1+1")), ("b", "calculator", sums("2+2"))]),
            _ => Act::content("added"),
        }));
        let message = submit(&world, "one", "add, look, and add").await;
        let gate = gate_of(&world, "one").await;
        first.kill();
        let _second = world.process("second").await;
        world.becomes("ready").await;
        let decided = async || {
            let url = format!("{}/api/v1/gate/{gate}", world.http());
            let body = json!({"approve": true});
            reqwest::Client::new().post(url).json(&body).send().await.unwrap().status().as_u16()
        };
        while decided().await == 404 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let told = read(&world, "one", 0, &message).await;
        let last = told.iter().find(|event| event["event"] == "final").unwrap()["text"].as_str().unwrap().to_owned();
        assert!(last.starts_with("added / ") && last.contains(" / no more tool calls are allowed"), "{last}");
    });
}

#[test]
fn models_that_a_reload_takes_away_are_told_to_be_gone() {
    story(async {
        let world = World::without_bot(Setup::new().set("STAFFAI_STREAMING__HOLD", "30s")).await;
        std::fs::write(world.dir.path().join("scripted-models.json"), MODELS).unwrap();
        let file = world.dir.path().join("staffai.toml");
        std::fs::write(&file, "[agents]\nmodels = [\"cheap\"]\n").unwrap();
        let mut process = world.process("delegating").await;
        let asked = vec![
            ("llm_list", json!({})),
            ("llm_clean_text", json!({"model": "cheap", "prompt": "Sum up: the tide comes in."})),
        ];
        world.model.does(calls("scripted", asked, |_| Act::content("It rises.")));
        assert!(answer(&world, "ask").await.ends_with("/ It rises."));
        let before = world.json("/readyz").await.1["configuration"]["version"].clone();
        std::fs::write(&file, "[agents]\nmodels = []\n").unwrap();
        let changed = |ready: &Value| (ready["configuration"]["version"] != before).then_some(());
        world.until_told("/readyz", changed).await;
        let told = answer(&world, "ask again").await;
        assert_eq!(told, "There is no other model to ask. / The tool failed: there is no other model to ask");
        process.terminate();
        assert_eq!(process.exit(crate::support::SOON).await, 0);
    });
}

#[test]
fn what_a_row_writes_aside_is_shown_to_those_who_read_along() {
    story(async {
        let world = world(&[]).await;
        let asked = vec![("llm_clean_text", json!({"model": "cheap", "prompt": "Tell of the tide."}))];
        let slowly = Streamed {
            content: "It rises, and it falls.".to_owned(),
            piece: 4,
            pause: Duration::from_millis(100),
            end: End::Well,
        };
        world.model.does(calls("scripted", asked, move |_| Act::Streams(slowly.clone())));
        let message = submit(&world, "one", "what does it do?").await;
        let told = read(&world, "one", 0, &message).await;
        let calls: Vec<&Value> = told.iter().filter(|event| event["event"] == "tool").collect();
        let words: Vec<&str> = calls.iter().filter_map(|event| event["text"].as_str()).collect();
        let [arguments, progress @ .., result] = &words[..] else { panic!("{told:?}") };
        assert!(arguments.contains("Tell of the tide.") && *result == "It rises, and it falls.", "{words:?}");
        assert!(progress.iter().any(|words| words.starts_with("cheap: It ")), "{words:?}");
        assert!(calls.iter().all(|event| event["call"] == "1"), "{told:?}");
    });
}
