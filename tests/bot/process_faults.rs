//! The process is killed, stopped, started twice or misconfigured; each question is still answered once.

use std::fs;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::memory::the_boat_is_known;
use crate::model::Act;
use crate::support::{SOON, Said, Setup, World, story};

/// A crowd, a model with varying delays, and a Discord that accepts posts slowly and loses some responses.
async fn slow_world() -> World {
    let world = World::without_bot(Setup::new()).await;
    world.crowd(30);
    world.service.faults().drop_answers(5);
    world.service.faults().delay_route("POST /channels/{channel}/messages", Duration::from_millis(40));
    world.model.does(|ask| {
        let pause = Duration::from_millis((ask.number as u64 * 37) % 300);
        Act::SaysAfter(pause, format!("You said: {}", ask.question()))
    });
    world
}

/// Stops the bot in this process repeatedly, without draining.
async fn stopped_again_and_again(seed: u64) {
    println!("seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let world = slow_world().await;
    let mut said: Vec<Said> = Vec::new();
    for life in 0..5 {
        world.start().await;
        for number in 0..6 {
            let channel = ["general", "help", "random"][number % 3];
            said.push(world.says(&format!("member-{}", life * 6 + number), channel, "@staffai hello"));
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..30))).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..250))).await;
        world.stop().await;
        world.service.disconnected(0).await;
        if life % 2 == 1 {
            // The next process cannot resume the session and must read back the gap.
            world.service.faults().forget_sessions();
        }
        said.push(world.says("Ada", "general", "@staffai anybody?"));
    }
    world.start().await;
    world.all_answered(&said, Duration::from_secs(20)).await;
}

#[test]
fn a_stopped_bot_answers_everything_once_when_it_is_back() {
    story(async {
        futures_util::future::join_all([1, 2, 3].map(stopped_again_and_again)).await;
    });
}

/// A burst of mentions with kills at random times; the last process answers the rest.
async fn killed_again_and_again(seed: u64) {
    println!("seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let world = slow_world().await;
    let mut said: Vec<Said> = Vec::new();
    for life in 0..3 {
        let process = world.process(&format!("life-{life}")).await;
        for number in 0..10 {
            let channel = ["general", "help", "random"][number % 3];
            said.push(world.says(&format!("member-{}", life * 10 + number), channel, "@staffai hello"));
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..30))).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..250))).await;
        process.kill();
        world.service.disconnected(0).await;
        // Some questions are asked during the downtime.
        said.push(world.says("Ada", "general", "@staffai anybody?"));
    }
    let mut process = world.process("last-life").await;
    world.all_answered(&said, Duration::from_secs(20)).await;
    process.terminate();
    assert_eq!(process.exit(SOON).await, 0);
}

#[test]
fn a_killed_process_answers_everything_once_when_it_is_back() {
    story(killed_again_and_again(1));
}

#[test]
fn a_process_killed_at_other_moments_does_too() {
    story(killed_again_and_again(2));
}

#[test]
fn a_stopping_process_finishes_what_it_has_begun() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        world.crowd(10);
        world.model.always(Act::SaysAfter(Duration::from_millis(900), "done".into()));
        let mut process = world.process("run").await;
        let said: Vec<Said> =
            (0..10).map(|n| world.says(&format!("member-{n}"), "general", "@staffai hello")).collect();
        world.until("all are asked", || (world.model.calls() == 10).then_some(())).await;
        let begun = Instant::now();
        process.terminate();
        assert_eq!(process.exit(Duration::from_secs(6)).await, 0);
        assert!(begun.elapsed() < Duration::from_secs(4), "it ended when it was done: {:?}", begun.elapsed());
        world.all_answered(&said, Duration::from_millis(100)).await;
    });
}

#[test]
fn a_process_with_a_thread_for_each_processor_answers_and_finishes_like_any_other() {
    story(async {
        let world = World::without_bot(Setup::new().set("STAFFAI_RUNTIME__THREADS", "auto")).await;
        world.crowd(10);
        let mut process = world.process("one").await;
        let said: Vec<Said> =
            (0..10).map(|n| world.says(&format!("member-{n}"), "general", "@staffai hello")).collect();
        world.all_answered(&said, SOON).await;
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}

#[test]
fn a_hung_model_does_not_keep_the_process_and_the_answer_comes_later() {
    story(async {
        let world = World::without_bot(Setup::new().set("STAFFAI_DRAIN_SECONDS", 1)).await;
        world.model.always(Act::Hangs);
        let mut process = world.process("first").await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.until("it is asked", || (world.model.calls() == 1).then_some(())).await;
        process.terminate();
        assert_eq!(process.exit(Duration::from_secs(5)).await, 0);
        assert!(world.answers(said).is_empty());

        world.model.always(Act::says("sorry for the wait"));
        let _process = world.process("second").await;
        world.all_answered(&[said], SOON).await;
        assert_eq!(world.words_to(said).await, "sorry for the wait");
    });
}

#[test]
fn a_question_that_was_deleted_while_the_bot_was_away_is_not_answered() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        world.model.always(Act::Hangs);
        let process = world.process("first").await;
        let gone = world.says("Ada", "general", "@staffai forget that I asked");
        let kept = world.says("Ben", "general", "@staffai hello");
        world.until("both are asked", || (world.model.calls() == 2).then_some(())).await;
        process.kill();
        world.service.deletes(gone.channel, gone.id);
        world.model.always(Act::says("hello again"));
        let _process = world.process("second").await;
        world.all_answered(&[kept], SOON).await;
        let looked =
            || world.service.stats().by_route.contains_key("GET /channels/{channel}/messages/{message}").then_some(());
        world.until("it looks for the question", looked).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.spoken(gone.channel).len(), 1, "one answer, to the question that is still there");
        assert!(world.answers(gone).is_empty());
    });
}

#[test]
fn an_answer_that_was_not_posted_before_a_kill_is_remembered_once() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let process = world.process("first").await;
        let create = "POST /channels/{channel}/messages";
        world.service.faults().delay_route(create, Duration::from_secs(600));
        let said = world.says("Ada", "general", "@staffai my boat is the Heron");
        let posting = || world.service.stats().by_route.contains_key(create).then_some(());
        world.until("the answer is on its way", posting).await;
        process.kill();
        world.service.faults().delay_route(create, Duration::ZERO);
        let _process = world.process("second").await;
        world.all_answered(&[said], SOON).await;
        the_boat_is_known(&world).await;
    });
}

#[test]
fn a_drained_bot_leaves_nothing_and_doubles_nothing() {
    story(async {
        let world = World::begin().await;
        world.crowd(20);
        world.model.does(|ask| Act::SaysAfter(Duration::from_millis(ask.number as u64 * 20), "done".into()));
        let said: Vec<Said> = (0..20).map(|n| world.says(&format!("member-{n}"), "help", "@staffai hello")).collect();
        world.until("all are asked", || (world.model.calls() == 20).then_some(())).await;
        assert!(world.drain().await, "nothing was left");
        world.all_answered(&said, Duration::from_millis(100)).await;
        world.start().await;
        let later = world.says("Ada", "help", "@staffai later");
        world.all_answered(&[later], SOON).await;
        assert_eq!(world.model.calls(), 21, "nothing was asked again");
    });
}

#[test]
fn a_second_process_on_the_same_data_is_refused() {
    story(async {
        let world = World::begin().await;
        let mut second = world.spawn("second");
        assert_eq!(second.exit(SOON).await, 75);
        assert!(second.output().contains("data"), "{}", second.output());
        let said = world.says("Ada", "general", "@staffai did you notice?");
        world.all_answered(&[said], SOON).await;
    });
}

#[test]
fn missing_settings_are_told_all_at_once() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let mut process = world.spawn_with("run", &[("DISCORD_BOT_TOKEN", ""), ("LITELLM_MODEL", "")]);
        assert_eq!(process.exit(SOON).await, 64);
        let output = process.output();
        for word in ["DISCORD_BOT_TOKEN", "LITELLM_MODEL", "staffai playground"] {
            assert!(output.contains(word), "{word} is missing:\n{output}");
        }
        let wrong = [("STAFFAI_HTTP_ADDR", "nowhere"), ("STAFFAI_DRAIN_SECONDS", "soon")];
        let mut process = world.spawn_with("wrong", &wrong);
        assert_eq!(process.exit(SOON).await, 64);
        let output = process.output();
        assert!(output.contains("nowhere") && output.contains("soon"), "{output}");
    });
}

#[test]
fn a_token_that_discord_rejects_ends_the_process_with_words() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        world.service.faults().reject_token(true);
        let mut process = world.spawn("rejected");
        assert_eq!(process.exit(SOON).await, 69);
        assert!(process.output().contains("DISCORD_BOT_TOKEN"), "{}", process.output());
        assert!(!process.output().contains(&format!("\"{}\"", world.service.token())));
    });
}

#[test]
fn fatal_close_codes_end_the_process_with_words() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let mut process = world.process("4004").await;
        world.service.faults().close_gateways(4004);
        assert_eq!(process.exit(SOON).await, 69);
        assert!(process.output().contains("DISCORD_BOT_TOKEN"), "{}", process.output());

        world.service.faults().disallow_intents(1 << 15);
        let mut process = world.spawn("4014");
        assert_eq!(process.exit(SOON).await, 69);
        assert!(process.output().contains("Privileged Gateway Intents"), "{}", process.output());
    });
}

#[test]
fn without_a_place_for_data_it_answers_anyway_and_says_so() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        // A file in place of the folder.
        let blocked = world.dir.path().join("data");
        fs::write(&blocked, "in the way").unwrap();
        world.start().await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.all_answered(&[said], SOON).await;
        let body = world.becomes("degraded").await;
        let parts = body["parts"].as_array().unwrap();
        assert!(parts.iter().any(|part| part["kind"] == "store" && part["status"] == "down"), "{body}");

        fs::remove_file(&blocked).unwrap();
        world.becomes("ready").await;
        world.drain().await;
        world.start().await;
        let said = world.says("Ada", "general", "@staffai and now?");
        world.all_answered(&[said], SOON).await;
        // The store did not say whether Ada allows memory, so the first exchange was not kept.
        insta::assert_snapshot!(world.model.last().talk(), @"user: and now?");
    });
}

#[test]
fn the_last_turns_and_samples_are_there_after_a_kill_with_the_kill_between_them() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        world.model.always(Act::says("The tide comes in."));
        let first = world.process("first").await;
        world.becomes("ready").await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        let ada = world.member("Ada").to_string();
        let told = world.until_told("/api/v1/turns", |told| told["turns"][0]["post_ms"].is_u64().then(|| told.clone()));
        let before = told.await["turns"][0].clone();
        // After two samples, one of them is written.
        let samples = |told: &serde_json::Value| told["samples"].as_array().map_or(0, Vec::len);
        let had = samples(&world.json("/api/v1/samples").await.1);
        world.until_told("/api/v1/samples", |told| (samples(told) >= had + 2).then_some(())).await;
        first.kill();
        let _second = world.process("second").await;
        world.becomes("ready").await;
        let member = format!("/api/v1/turns?member={ada}");
        let told =
            world.until_told(&member, |told| told["turns"][0]["earlier"].is_boolean().then(|| told.clone())).await;
        let after = &told["turns"][0];
        for field in ["number", "at", "place", "member", "message", "outcome", "model_ms", "post_ms", "model"] {
            assert_eq!(after[field], before[field], "{field}");
        }
        assert_eq!((&told["accepted"], &after["earlier"]), (&0.into(), &true.into()), "this process accepted none");
        let told = world.json("/api/v1/samples").await.1;
        let [broken] = told["breaks"].as_array().unwrap().as_slice() else { panic!("{told}") };
        assert_eq!(broken["kind"], "killed");
        let at = |sample: &serde_json::Value| sample["at"].as_u64().unwrap();
        let all = told["samples"].as_array().unwrap();
        assert!(at(&all[0]) <= broken["from"].as_u64().unwrap() && broken["from"].as_u64() < broken["to"].as_u64());
    });
}
