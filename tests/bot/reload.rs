//! Configuration files that change while the bot runs, and the terminal as a second door.

use std::time::Duration;

use serde_json::{Value, json};
use terminal::client::{Client, Manner};

use crate::model::{Act, End, Streamed};
use crate::support::{Setup, World, story};

async fn configuration(world: &World, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let configuration = world.json("/readyz").await.1["configuration"].clone();
        if fits(&configuration) {
            return configuration;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn a_changed_prompt_is_in_force_and_a_wrong_one_leaves_the_old_one() {
    story(async {
        let prompts = tempfile::tempdir().unwrap();
        let file = prompts.path().join("personality_prompt.txt");
        std::fs::write(&file, "You are a lighthouse keeper.").unwrap();
        let world = World::with(Setup::new().set("STAFFAI_PROMPTS_DIR", prompts.path().display())).await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        assert!(world.model.last().shows("You are a lighthouse keeper."));
        let before = configuration(&world, |_| true).await;

        std::fs::write(&file, "  ").unwrap();
        let rejected = configuration(&world, |now| now["rejected"].is_string()).await;
        assert_eq!(rejected["version"], before["version"], "what ran goes on");
        assert!(rejected["rejected"].as_str().unwrap().contains("personality_prompt.txt"), "{rejected}");
        world.answer_to(world.says("Ada", "general", "@staffai still there?")).await;
        assert!(world.model.last().shows("You are a lighthouse keeper."));

        std::fs::write(&file, "You are a harbour master.").unwrap();
        let after = configuration(&world, |now| now["rejected"].is_null() && now["version"] != before["version"]).await;
        assert_ne!(after["version"], before["version"]);
        world.answer_to(world.says("Ada", "general", "@staffai who are you?")).await;
        assert!(world.model.last().shows("You are a harbour master."));
    });
}

#[test]
fn a_turn_keeps_the_prompt_that_it_began_with() {
    story(async {
        let prompts = tempfile::tempdir().unwrap();
        let file = prompts.path().join("personality_prompt.txt");
        std::fs::write(&file, "You are a lighthouse keeper.").unwrap();
        let world = World::with(
            Setup::new()
                .set("STAFFAI_PROMPTS_DIR", prompts.path().display())
                .set("STAFFAI_TURN__DEADLINE", "40s")
                .set("STAFFAI_LLM__TIMEOUT", "40s"),
        )
        .await;
        let before = configuration(&world, |_| true).await;
        // The first answer takes long and is unusable.
        let musing = format!("<think>{}", "hmm ".repeat(40));
        let slow = Streamed { content: musing, piece: 4, pause: Duration::from_millis(250), end: End::Well };
        world.model.does(move |ask| if ask.number > 0 { Act::says("mended") } else { Act::Streams(slow.clone()) });
        let said = world.says("Ada", "general", "@staffai hello");
        world.until("the model is asked", || (world.model.calls() > 0).then_some(())).await;
        std::fs::write(&file, "You are a harbour master.").unwrap();
        configuration(&world, |now| now["version"] != before["version"]).await;
        assert_eq!(world.model.calls(), 1, "the first answer is still on its way");
        while world.model.calls() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(world.words_to(said).await, "mended");
        assert!(world.model.last().shows("You are a lighthouse keeper."), "the repair belongs to the same turn");
    });
}

#[test]
fn rows_that_a_reload_brings_are_shown_and_those_that_it_takes_away_are_not() {
    story(async {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("models.json");
        let write = |names: &[&str]| {
            let rows_of = names.iter().map(|name| ((*name).to_owned(), json!({"host": "http://127.0.0.1:9"})));
            let models: serde_json::Map<String, Value> = rows_of.collect();
            std::fs::write(&rows, json!({"models": models}).to_string()).unwrap();
        };
        write(&["one"]);
        let world = World::with(Setup::new().set("STAFFAI_MODELS", rows.display())).await;
        let before = configuration(&world, |_| true).await;
        assert_eq!(models(&world).await, ["one", "scripted"]);
        write(&["two", "three-more"]);
        configuration(&world, |now| now["version"] != before["version"]).await;
        assert_eq!(models(&world).await, ["scripted", "three-more", "two"]);
        assert_eq!(world.json("/readyz").await.1["status"], "ready");
    });
}

/// Returns the model rows in `/readyz`.
async fn models(world: &World) -> Vec<String> {
    let ready = world.json("/readyz").await.1;
    let parts = ready["parts"].as_array().cloned().unwrap_or_default();
    let rows = parts.iter().filter(|part| part["kind"] == "model");
    let mut names: Vec<String> = rows.map(|part| part["name"].as_str().unwrap_or_default().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_changed_limit_holds_at_once() {
    story(async {
        let world =
            World::without_bot(Setup::new().set("RATE_LIMIT_COUNT", "").set("RATE_LIMIT_WINDOW_SECONDS", 600)).await;
        let file = world.dir.path().join("staffai.toml");
        std::fs::write(&file, "[rate_limiter]\nmessages = 1\n").unwrap();
        let mut process = world.process("limited").await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        assert_eq!(world.model.calls(), 1, "the second got a notice");
        let before = configuration(&world, |_| true).await;

        std::fs::write(&file, "[rate_limiter]\nmessages = 3\n").unwrap();
        configuration(&world, |now| now["rejected"].is_null() && now["version"] != before["version"]).await;
        for _ in 0..2 {
            world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        }
        assert_eq!(world.model.calls(), 3, "what was counted before counts, and no more than that");
        world.ignores(world.says("Ada", "general", "@staffai hello")).await;
        process.terminate();
        assert_eq!(process.exit(crate::support::SOON).await, 0);
    });
}

#[test]
fn the_terminal_talks_to_the_same_bot() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| Act::says(format!("heard: {}", ask.question())));
        let mut client = Client::new(world.http(), None, "s1".to_owned(), Manner::default()).unwrap();
        let mut out = Vec::new();
        client.ask("good morning", &mut out).await.unwrap();
        client.ask("and again", &mut out).await.unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @"
        heard: good morning
        heard: and again
        ");
        assert!(world.model.last().shows("heard: good morning"), "it remembers its session");
        let mut stranger = Client::new(world.http(), None, "s2".to_owned(), Manner::default()).unwrap();
        stranger.ask("hello", &mut Vec::new()).await.unwrap();
        assert!(!world.model.last().shows("good morning"), "and no other member's");
        let mut told = Vec::new();
        for line in ["/new", "/no_such_thing", "what did I say?"] {
            client.ask(line, &mut told).await.unwrap();
        }
        insta::assert_snapshot!(String::from_utf8(told).unwrap(), @"
        We start over here: I no longer know what we said in this channel. If you reply to one of my older messages, I see that message again.
        I do not know this command. Your list of commands may be outdated; `/help` lists all of them.
        heard: what did I say?
        ");
        let mut status = Vec::new();
        client.ask("/status", &mut status).await.unwrap();
        assert!(status.starts_with(b"**staffai"), "without keys, a program on this machine operates");
        assert!(!world.model.last().shows("good morning"), "a line with a slash is a command, and no model saw one");
        let bad = reqwest::Client::new().post(format!("{}/api/v1/submit", world.http())).json(&json!({"session": 1}));
        let answer = bad.send().await.unwrap();
        assert_eq!(answer.status(), 422);
        assert!(answer.json::<Value>().await.unwrap()["error"].is_string());
    });
}

#[test]
fn a_model_row_that_is_added_or_disabled_is_in_force_within_seconds_and_after_a_kill() {
    story(async {
        let setup = Setup::new().set("STAFFAI_LLM__TIMEOUT", "10s");
        let world = World::without_bot(setup).await;
        let process = world.process("first").await;
        world.becomes("ready").await;
        let staffai = |args: &[&str]| {
            let mut command = crate::process::program(world.dir.path(), &world.variables(&[]));
            let done = command.args(args).stdin(std::process::Stdio::null()).output().unwrap();
            let told = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
            (done.status.code(), told)
        };
        let rows = async || {
            let told = world.json("/api/v1/models").await.1;
            let keys = told["models"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned());
            keys.collect::<Vec<_>>()
        };
        let becomes = async |wanted: &[&str]| {
            while rows().await != wanted {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let host = world.model.url().to_owned();
        let (code, told) = staffai(&["model", "add", "deep", "--model", "deep-model", "--host", &host]);
        assert_eq!(code, Some(0), "{told}");
        becomes(&["scripted", "deep"]).await;
        let body = json!({"model": "deep", "messages": [{"role": "user", "content": "hello"}]});
        let asked =
            reqwest::Client::new().post(format!("{}/v1/chat/completions", world.http())).json(&body).send().await;
        assert_eq!(asked.unwrap().status(), 200);
        assert_eq!(world.model.last().body["model"], "deep-model");
        for args in [&["model", "list"][..], &["config"]] {
            let (_, told) = staffai(args);
            let line = told.lines().find(|line| line.contains("deep-model")).unwrap_or_default();
            assert!(line.contains("in force") && line.contains("model_rows.json: "), "{args:?}: {told}");
        }
        let (_, told) = staffai(&["model", "test", "deep"]);
        assert!(
            told.contains("model deep") && told.contains("answered in") && told.contains("model deep tools"),
            "{told}"
        );
        // A row that existed only by its name becomes an entry of its own, and keeps what was known of its model.
        let (code, told) = staffai(&["model", "add", "scripted", "--set", "llm_call_timeout=9"]);
        assert!(code == Some(0) && told.contains("scripted was derived from LITELLM_MODEL"), "{told}");
        let kept = std::fs::read_to_string(world.dir.path().join("data/model_rows.json")).unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(
            kept["rows"]["scripted"],
            json!({"enabled": true, "llm_call_timeout": 9, "schema_with_tools": false, "temperature": 0.7, "vision": false})
        );
        let (_, told) = staffai(&["model", "add", "scripted", "--set", "vision=true"]);
        assert!(!told.contains("was made"), "it is described now: {told}");
        // An invalid entry is not written.
        for args in [&["model", "add", "deep", "--set", "temperature=9"][..], &["model", "enable", "no-such-row"]] {
            let (code, told) = staffai(args);
            assert!(code == Some(64) && told.contains("row"), "{args:?}: {told}");
        }
        process.kill();
        let _process = world.process("second").await;
        world.becomes("ready").await;
        assert_eq!(rows().await, ["scripted", "deep"]);
        assert_eq!(staffai(&["model", "disable", "deep"]).0, Some(0));
        becomes(&["scripted"]).await;
        assert_eq!(staffai(&["model", "reset", "deep"]).0, Some(0));
        assert!(!staffai(&["model", "list"]).1.contains("deep"));
    });
}
