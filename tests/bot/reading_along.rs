//! Event streams of the terminal's door: one numbered stream per session.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::model::{Act, End};
use crate::support::{SOON, Setup, World, story};

/// Submits a message to a session; returns its id.
pub async fn submit(world: &World, session: &str, text: &str) -> String {
    let body = json!({"session": session, "text": text});
    let answer = reqwest::Client::new().post(format!("{}/api/v1/submit", world.http())).json(&body).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 202);
    answer.json::<Value>().await.unwrap()["message"].as_str().unwrap().to_owned()
}

/// Opens the stream after this number, once the bot and the session are there.
pub async fn connect(world: &World, session: &str, after: u64) -> reqwest::Response {
    let (client, url) = (reqwest::Client::new(), format!("{}/api/v1/stream/{session}", world.http()));
    loop {
        match client.get(&url).header("Last-Event-ID", after.to_string()).send().await {
            Ok(answer) if answer.status() == 200 => return answer,
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Returns the events after `after` until the turn of this message is over.
pub async fn read(world: &World, session: &str, after: u64, message: &str) -> Vec<Value> {
    let (mut buffer, mut told) = (String::new(), Vec::new());
    let reading = async {
        let mut stream = connect(world, session, after).await.bytes_stream();
        while let Some(bytes) = stream.next().await {
            buffer.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
            while let Some((line, rest)) = buffer.split_once('\n') {
                let event = line.strip_prefix("data:").map(|data| serde_json::from_str::<Value>(data).unwrap());
                let rest = rest.to_owned();
                buffer = rest;
                let Some(event) = event else { continue };
                let over = event["event"] == "done" && event["turn"] == message;
                told.push(event);
                if over {
                    return told;
                }
            }
        }
        panic!("the stream ended: {told:?}")
    };
    tokio::time::timeout(SOON, reading).await.expect("the turn did not end")
}

pub fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn every_reader_of_a_session_gets_each_step_and_comes_back_where_it_was() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "30s").set("STAFFAI_LLM__TIMEOUT", "30s");
        let world = World::with(setup).await;
        let words = "The tide comes in twice a day.";
        world.model.always(Act::streams(words, 4, Duration::from_millis(150), End::Well));
        let question = submit(&world, "one", "when does the tide come in?").await;
        let (told, same) = tokio::join!(read(&world, "one", 0, &question), read(&world, "one", 0, &question));
        assert_eq!(told.last(), same.last());
        let steps = names(&told);
        assert_eq!((steps[0], &steps[steps.len() - 2..]), ("accepted", &["final", "done"][..]));
        let drafts: Vec<&Value> = told.iter().filter(|event| event["event"] == "draft").collect();
        let anew: Vec<bool> = drafts.iter().map(|event| event["anew"] == true).collect();
        assert!(anew.first() == Some(&true) && !anew[1..].contains(&true), "{told:?}");
        let drafted: String = drafts.iter().map(|event| event["text"].as_str().unwrap()).collect();
        let whole = told[told.len() - 2]["text"].as_str().unwrap();
        assert_eq!((drafted.as_str(), whole), (words, words));
        let numbers: Vec<u64> = told.iter().map(|event| event["number"].as_u64().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        // A client that lost its connection after the third event.
        assert_eq!(read(&world, "one", numbers[2], &question).await, told[3..]);
        let help = submit(&world, "one", "/no_such_thing").await;
        let told = read(&world, "one", *numbers.last().unwrap(), &help).await;
        assert_eq!(names(&told), ["final", "done"]);
        let (status, _) = world.get("/api/v1/stream/unknown").await;
        assert_eq!(status, 404);
    });
}

#[test]
fn text_that_was_read_stays_when_the_model_breaks_off_and_an_apology_ends_it() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::streams("Half of an answer", 4, Duration::from_millis(20), End::CutAfter(8)));
        let question = submit(&world, "one", "what then?").await;
        let told = read(&world, "one", 0, &question).await;
        let steps = names(&told);
        assert_eq!(&steps[steps.len() - 2..], ["apology", "done"]);
        assert!(told[told.len() - 2]["text"].as_str().unwrap().starts_with("Half of"), "{told:?}");
        assert_eq!(world.model.calls(), 1, "no model is asked again behind text that was read");
    });
}

#[test]
fn an_answer_that_a_killed_process_owed_is_read_from_the_next_one() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "20s").set("STAFFAI_LLM__TIMEOUT", "20s");
        let world = World::without_bot(setup).await;
        let process = world.process("first").await;
        world.model.always(Act::streams("The whole answer.", 4, Duration::from_secs(3), End::Well));
        let question = submit(&world, "one", "what then?").await;
        world.until("the model is asked", || (world.model.calls() > 0).then_some(())).await;
        process.kill();
        world.model.always(Act::says("The whole answer."));
        let _process = world.process("second").await;
        // Numbers of the previous process are lower than those of this one.
        let told = read(&world, "one", 1, &question).await;
        assert_eq!(names(&told), ["missed", "accepted", "final", "done"]);
        assert_eq!(told[2]["text"], "The whole answer.");
    });
}

async fn posted(world: &World, key: Option<&str>, body: &Value) -> (u16, Value) {
    let mut request = reqwest::Client::new().post(format!("{}/api/v1/submit", world.http())).json(body);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[test]
fn a_client_waits_for_its_answer_and_looks_after_its_sessions() {
    story(async {
        let world =
            World::with(Setup::new().set("STAFFAI_LLM__TIMEOUT", "20s").set("STAFFAI_TURN__DEADLINE", "20s")).await;
        world.becomes("ready").await;
        let wait = |text: &str| json!({"session": "one", "text": text, "wait": true});
        let (status, told) = posted(&world, None, &wait("my cat is called Tom")).await;
        assert_eq!((status, &told["status"]), (200, &json!("complete")));
        assert_eq!(told["text"], "You said: my cat is called Tom");
        let sessions = world.json("/api/v1/sessions").await.1;
        assert_eq!(
            (&sessions["sessions"][0]["session"], &sessions["sessions"][0]["number"]),
            (&json!("one"), &json!(101))
        );
        let said = world.json("/api/v1/sessions/101").await.1;
        let texts: Vec<&str> =
            said["messages"].as_array().unwrap().iter().filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(texts, ["my cat is called Tom", "You said: my cat is called Tom"]);

        // While one is being answered, others are refused or replace it.
        world.model.does(|ask| match ask.question() {
            "slow" => Act::SaysAfter(Duration::from_secs(15), "late".to_owned()),
            question => Act::says(format!("You said: {question}")),
        });
        let slow = submit(&world, "one", "slow").await;
        let busy = |how: &str| json!({"session": "one", "text": "quick", "wait": true, "busy": how});
        assert_eq!(posted(&world, None, &busy("refuse")).await.0, 409);
        let (_, told) = posted(&world, None, &busy("replace")).await;
        assert_eq!(told["text"], "You said: quick", "{told}");
        assert_eq!(names(&read(&world, "one", 0, &slow).await).last(), Some(&"done"));

        // A deleted session is forgotten.
        let client = reqwest::Client::new();
        let ended = client.delete(format!("{}/api/v1/sessions/one", world.http())).send().await.unwrap();
        assert_eq!(ended.status(), 204);
        assert_eq!(world.get("/api/v1/sessions/one").await.0, 404);
        posted(&world, None, &wait("what is she called?")).await;
        assert!(!world.model.last().talk().contains("Tom"), "{}", world.model.last().talk());
    });
}

#[test]
fn a_message_that_is_submitted_again_is_answered_once_also_after_a_kill() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "20s").set("STAFFAI_LLM__TIMEOUT", "20s");
        let world = World::without_bot(setup).await;
        let process = world.process("first").await;
        world.becomes("ready").await;
        let body = json!({"session": "one", "text": "what then?"});
        let (status, first) = posted(&world, Some("order-7"), &body).await;
        assert_eq!((status, posted(&world, Some("order-7"), &body).await.1), (202, first.clone()));
        let message = first["message"].as_str().unwrap().to_owned();
        read(&world, "one", 0, &message).await;
        process.kill();
        let _process = world.process("second").await;
        world.becomes("ready").await;
        assert_eq!(posted(&world, Some("order-7"), &body).await.1, first);
        let waits = json!({"session": "one", "text": "what then?", "wait": true});
        let (_, again) = posted(&world, Some("order-7"), &waits).await;
        assert_eq!((&again["message"], &again["status"]), (&first["message"], &json!("complete")));
        assert_eq!(again["text"], "You said: what then?");
        let (_, other) =
            posted(&world, Some("order-8"), &json!({"session": "one", "text": "and then?", "wait": true})).await;
        assert_eq!(other["text"], "You said: and then?");
        assert_eq!(world.model.calls(), 2, "each is answered once");
    });
}

#[test]
fn calls_of_tools_are_told_with_as_much_as_their_session_shows() {
    story(async {
        let setup = Setup::new().set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true").set("STAFFAI_TURN__DEADLINE", "20s");
        let world = World::without_bot(setup).await;
        let rows = r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(world.dir.path().join("scripted-models.json"), rows).unwrap();
        world.model.does(|ask| match ask.results().last() {
            Some((_, result)) => Act::says(result.clone()),
            None => Act::calls(&[("call-1", "calculator", json!({"expression": "6*7"}))]),
        });
        world.start().await;
        let shown = async |text: &str| {
            let message = submit(&world, "one", text).await;
            let told = read(&world, "one", 0, &message).await;
            let calls = told.iter().filter(|event| event["event"] == "tool" && event["turn"] == message.as_str());
            calls.map(|event| (event["state"].clone(), event["text"].clone())).collect::<Vec<_>>()
        };
        let whole = [(json!("running"), json!("{\"expression\":\"6*7\"}")), (json!("succeeded"), json!("42"))];
        assert_eq!(shown("multiply").await, whole);
        let cut = [(json!("running"), json!("{\"ex…")), (json!("succeeded"), json!("42"))];
        assert_eq!(shown("!tool_preview_length 4\nagain").await, cut);
        let nothing = [(json!("running"), Value::Null), (json!("succeeded"), Value::Null)];
        assert_eq!(shown("!tool_preview_length off\nagain").await, nothing);
        world.stop().await;
        world.start().await;
        assert_eq!(shown("and now?").await, nothing, "it is kept with the session");
        let body = json!({"session": "one", "text": "!tool_preview_length 2001"});
        let refused = reqwest::Client::new().post(format!("{}/api/v1/submit", world.http())).json(&body).send().await;
        assert_eq!(refused.unwrap().status(), 400);
    });
}
