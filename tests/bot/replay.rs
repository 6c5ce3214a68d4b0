//! Questions recorded in the operator's channels, and their replay at another row.

use std::process::Stdio;

use serde_json::Value;

use crate::model::Act;
use crate::process::program;
use crate::support::{Setup, World, story};

const ROWS: &str = r#"{"version": 1, "models": {
    "scripted": {"model_id": "scripted", "enabled": true, "price_per_million": {"input": 1000.0, "output": 2000.0}},
    "mini": {"model_id": "mini", "enabled": true}}}"#;

/// Runs a replay in the world's folder. Returns its exit code and its output.
async fn replay(world: &World, args: &[&str]) -> (i32, String) {
    let mut command = program(world.dir.path(), &world.variables(&[]));
    command.arg("replay").args(args).stdin(Stdio::null());
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (done.status.code().unwrap(), text)
}

/// Returns the recorded questions in order, once there are this many.
async fn recorded(world: &World, many: usize) -> Vec<String> {
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["question"].as_str().unwrap().to_owned();
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let (_, page) = world.get("/api/v1/recorded").await;
        let mut questions: Vec<String> = page.lines().map(line).collect();
        if questions.len() == many {
            questions.sort();
            return questions;
        }
        assert!(tokio::time::Instant::now() < until, "{questions:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[test]
fn questions_of_listed_channels_are_recorded_without_names_and_forgotten_with_their_member() {
    story(async {
        let setup = Setup::new();
        let general =
            setup.service.seed.guilds[0].channels.iter().find(|channel| channel.name == "general").unwrap().id;
        let world = World::with(setup.set("STAFFAI_REPLAY__CHANNELS", general)).await;
        for (who, channel, text) in [
            ("Ada", "general", "this is Ada, call 5551234567 or ada@example.org"),
            ("Ada", "random", "a question elsewhere"),
            ("Ben", "general", "where is the key?"),
        ] {
            world.answer_to(world.says(who, channel, &format!("@staffai {text}"))).await;
        }
        let deleted = world.says("Ben", "general", "@staffai delete this");
        world.answer_to(deleted).await;
        assert_eq!(
            recorded(&world, 3).await,
            ["delete this", "this is [name] call [number] or [name]", "where is the key?"]
        );
        world.service.deletes(deleted.channel, deleted.id);
        recorded(&world, 2).await;
        let exported = world.tells("Ada", "export", &[]).await;
        assert!(exported.contains("1 question recorded"), "{exported}");
        let forgotten = world.tells("Ada", "forget", &[]).await;
        assert!(forgotten.contains("1 question recorded"), "{forgotten}");
        assert_eq!(recorded(&world, 1).await, ["where is the key?"]);
    });
}

#[test]
fn a_replay_shows_both_answers_with_time_tokens_and_cost() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        std::fs::write(world.dir.path().join("scripted-models.json"), ROWS).unwrap();
        world.model.does(|ask| match (ask.model(), ask.question()) {
            (_, "same?") => Act::says("yes"),
            ("mini", "fail?") => Act::Status(400),
            (row, _) => Act::says(format!("I am {row}")),
        });
        let file = world.dir.path().join("questions.jsonl");
        std::fs::write(&file, "{\"question\": \"same?\"}\n{\"question\": \"who?\"}\n").unwrap();
        let path = file.to_str().unwrap();
        let (code, text) = replay(&world, &[path, "--model", "mini"]).await;
        assert_eq!(code, 0, "{text}");
        for expected in [
            "1. same?\n",
            "2. who?\n",
            "s, 10 + 5 tokens, $0.0200) I am scripted\n",
            "s, 10 + 5 tokens) I am mini\n",
            "of 2 questions, 1 have the same answer",
            "mini: 0 without an answer, 0 repaired, half within ",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        std::fs::write(&file, "{\"question\": \"fail?\"}\n").unwrap();
        let (code, text) = replay(&world, &[path, "--model", "mini"]).await;
        assert!(code == 1 && text.contains("no answer: ") && text.contains("mini: 1 without an answer"), "{text}");
        // The same row with other prompts.
        let profile = world.dir.path().join("prompts/profiles/terse");
        std::fs::create_dir_all(&profile).unwrap();
        std::fs::write(profile.join("personality_prompt.txt"), "You are terse.").unwrap();
        std::fs::write(&file, "{\"question\": \"who?\"}\n{\"question\": \"same?\"}\n").unwrap();
        world.model.does(|ask| match ask.question() {
            "same?" => Act::says("yes"),
            _ if ask.shows("You are terse.") => Act::says("Me."),
            _ => Act::says("I am an assistant."),
        });
        let (code, text) = replay(&world, &[path, "--profile", "terse"]).await;
        assert_eq!(code, 0, "{text}");
        for expected in [") I am an assistant.\n", ") Me.\n", "of 2 questions, 1 have the same answer", "terse"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        for (args, expected) in [
            (vec![path, "--model", "large"], "there are scripted, mini"),
            (vec![path], "both sides are the same"),
            (vec![path, "--profile", "verbose"], "there is no profile"),
        ] {
            let (code, text) = replay(&world, &args).await;
            assert!(code == 64 && text.contains(expected), "{code} {text}");
        }
        // The recorded questions of the running service are the default.
        world.start().await;
        let (code, text) = replay(&world, &["--model", "mini"]).await;
        assert!(code == 1 && text.contains("there are no questions"), "{text}");
    });
}

#[test]
fn the_recorded_questions_of_a_running_service_are_asked_again() {
    story(async {
        let setup = Setup::new();
        let general =
            setup.service.seed.guilds[0].channels.iter().find(|channel| channel.name == "general").unwrap().id;
        let world = World::without_bot(setup.set("STAFFAI_REPLAY__CHANNELS", general)).await;
        std::fs::write(world.dir.path().join("scripted-models.json"), ROWS).unwrap();
        world.start().await;
        world.model.does(|ask| Act::says(format!("{} of {}", ask.question(), ask.model())));
        for text in ["where is the key?", "call 5551234567"] {
            world.answer_to(world.says("Ada", "general", &format!("@staffai {text}"))).await;
        }
        assert_eq!(recorded(&world, 2).await, ["call [number]", "where is the key?"]);
        let asked = world.model.calls();
        let (code, text) = replay(&world, &["--model", "mini"]).await;
        assert_eq!(code, 0, "{text}");
        for expected in [
            ") where is the key? of scripted\n",
            ") where is the key? of mini\n",
            ") call [number] of mini\n",
            "of 2 questions, 0 have the same answer",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(world.model.calls() - asked, 4, "each question once at each row");
        assert_eq!(recorded(&world, 2).await.len(), 2, "a replay records nothing");
    });
}
