//! Clients of the terminal's door read along: one numbered stream of events for each session.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::model::{Act, End};
use crate::support::{SOON, Setup, World, story};

/// Says something in a session; gives the id of the message.
pub async fn submit(world: &World, session: &str, text: &str) -> String {
    let body = json!({"session": session, "text": text});
    let answer = reqwest::Client::new().post(format!("{}/api/v1/submit", world.http())).json(&body).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 202);
    answer.json::<Value>().await.unwrap()["message"].as_str().unwrap().to_owned()
}

/// The stream behind this number, as soon as the bot and the session are there.
pub async fn connect(world: &World, session: &str, after: u64) -> reqwest::Response {
    let (client, url) = (reqwest::Client::new(), format!("{}/api/v1/stream/{session}", world.http()));
    loop {
        match client.get(&url).header("Last-Event-ID", after.to_string()).send().await {
            Ok(answer) if answer.status() == 200 => return answer,
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// What a client that has `after` reads until the turn of this message is over.
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

fn names(events: &[Value]) -> Vec<&str> {
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
        // A client that lost its connection behind the third event.
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
        // Numbers of the life before lie below those of this one.
        let told = read(&world, "one", 1, &question).await;
        assert_eq!(names(&told), ["missed", "accepted", "final", "done"]);
        assert_eq!(told[2]["text"], "The whole answer.");
    });
}
