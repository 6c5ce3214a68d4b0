//! Tool servers that ask members and work on tasks (MCP 2026-07-28), at real addresses.

#[path = "asking_servers/resources.rs"]
mod resources;
#[path = "asking_servers/server.rs"]
mod server;
#[path = "asking_servers/storm.rs"]
mod storm;

use std::time::Duration;

use playground::guild::Message;
use playground::guild::ids::MessageId;
use playground::interactions::Interact;
use serde_json::{Value, json};

use self::server::State;
pub use self::server::{Asker, PIXEL};
use crate::model::Act;
use crate::process::Process;
use crate::reading_along::{connect, read, submit};
use crate::support::{Said, Setup, World, story};

/// A bot with the tools of this server, not begun. The model calls the tool that a question names, and reports the
/// results.
pub async fn not_begun(asker: &Asker, variables: &[(&str, &str)]) -> World {
    let mut setup = Setup::new().set("STAFFAI_TOOLS__MAX_CALLS", "10");
    for (name, value) in variables {
        setup = setup.set(name, value);
    }
    let world = World::without_bot(setup).await;
    let models = r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
    std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
    let servers = json!({"mcpServers": {"ask": {"url": asker.url()}}});
    std::fs::write(world.dir.path().join("mcp.json"), servers.to_string()).unwrap();
    world.model.does(|ask| {
        let results = ask.results();
        let call = ask.question().split_once("call ").and_then(|(_, call)| call.split_once(' '));
        match call.filter(|_| results.is_empty()) {
            Some((tool, word)) => {
                let name: &'static str = String::leak(format!("ask__{tool}"));
                Act::calls(&[("call-1", name, json!({ "word": word }))])
            }
            None if results.is_empty() => Act::says(format!("You said: {}", ask.question())),
            None => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        }
    });
    world
}

/// The same with the bot as a process of its own.
async fn begun(asker: &Asker, variables: &[(&str, &str)]) -> (World, Process) {
    let world = not_begun(asker, variables).await;
    let process = world.process("bot").await;
    asker.listed(&world.http()).await;
    (world, process)
}

/// Returns the labels of a message's buttons with their ids or addresses.
fn buttons(message: &Message) -> Vec<(String, String)> {
    let parts = message.components.iter().flat_map(|row| row["components"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    parts.map(|part| (text(&part["label"]), text(&part["custom_id"]) + &text(&part["url"]))).collect()
}

impl World {
    /// Presses "Answer" and returns the data of the form that opens.
    async fn opens(&self, who: &str, asked: &Message) -> Value {
        let press = self.presses(who, asked, "Answer");
        let form = self.until("a form", || self.service.interaction(press)?.form).await;
        serde_json::from_str(&form).unwrap()
    }

    /// Submits a form with these values.
    fn fills_in(&self, who: &str, asked: &Message, form: &Value, values: &[(&str, &str)]) -> MessageId {
        let row = |(name, value): &(&str, &str)| json!({"type": 18, "component": {"type": 4, "custom_id": name, "value": value}});
        let name = form["custom_id"].as_str().unwrap().to_owned();
        let filled_in = Interact::Form(name, values.iter().map(row).collect());
        self.service.interacts(self.member(who), asked.channel, filled_in).expect("a known member and channel")
    }

    async fn asks_for(&self, tool: &str) -> (Said, Message) {
        let said = self.says("Ada", "general", &format!("@staffai call {tool} x"));
        (said, self.asks("general").await)
    }
}

#[test]
fn operators_see_open_questions_without_their_texts_and_cannot_answer_them() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        let (said, asked) = world.asks_for("book").await;
        let (status, told) = world.json("/api/v1/questions").await;
        let first = &told["first"][0];
        assert_eq!((status, &told["count"], &first["kind"]), (200, &json!(1), &json!("form")), "{told}");
        assert_eq!(
            (&first["tool"], &first["server"], &first["roles"]),
            (&json!("ask__book"), &json!("ask"), &json!([]))
        );
        assert_eq!(first["member"], format!("discord:{}", world.member("Ada")));
        assert!(first["expires_at"].as_str() > first["asked_at"].as_str(), "{told}");
        assert!(!told.to_string().contains("Where to?") && !told.to_string().contains("city"), "{told}");
        // The gate's id, which a decision names, is not shown either.
        let id = buttons(&asked).into_iter().find_map(|(_, name)| Some(name.split(':').nth(1)?.to_owned())).unwrap();
        assert!(!told.to_string().contains(&id), "{told}");
        let declined = world.presses("Ada", &asked, "Decline");
        world.hears_back(declined).await;
        assert_eq!(world.words_to(said).await, "not booked: decline");
        assert_eq!(world.json("/api/v1/questions").await.1, json!({"count": 0, "first": []}));
    });
}

#[test]
fn a_member_fills_in_the_form_of_a_server_and_no_other_member_can() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        let (said, asked) = world.asks_for("book").await;
        assert!(asked.content.contains("`ask__book`") && asked.content.contains("server `ask`"), "{}", asked.content);
        assert!(asked.content.contains("Where to?") && asked.content.contains("city (required"), "{}", asked.content);
        let labels: Vec<String> = buttons(&asked).into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["Answer", "Decline"]);
        let foreign = world.presses("Ben", &asked, "Answer");
        assert!(world.hears_back(foreign).await.contains("can decide this"));
        let form = world.opens("Ada", &asked).await;
        let fields: Vec<&str> =
            form["components"].as_array().unwrap().iter().map(|part| part["label"].as_str().unwrap()).collect();
        assert_eq!(fields, ["city", "nights"]);
        let forged = world.fills_in("Ben", &asked, &form, &[("city", "Oslo"), ("nights", "1")]);
        assert!(world.hears_back(forged).await.contains("can decide this"));
        let misfit = world.fills_in("Ada", &asked, &form, &[("city", "Rome"), ("nights", "many")]);
        assert!(world.hears_back(misfit).await.contains("`nights`: a number is required"));
        assert_eq!(asker.state().answers, Vec::<Value>::new());
        let sent = world.fills_in("Ada", &asked, &form, &[("city", "Rome"), ("nights", "2")]);
        assert!(world.hears_back(sent).await.starts_with("Sent"));
        assert_eq!(world.words_to(said).await, "booked x");
        world.settles(&asked, "Answered by").await;
        let content = json!({"city": "Rome", "nights": 2});
        let state = asker.state();
        assert_eq!(state.answers, [json!({"q": {"action": "accept", "content": content}})]);
        assert_eq!((state.first, state.done, world.model.calls()), (1, 1, 2), "the call was made once");
        let capabilities = &state.capabilities["elicitation"];
        assert!(capabilities["form"].is_object() && capabilities["url"].is_object(), "{}", state.capabilities);
    });
}

#[test]
fn a_declined_an_expired_and_a_secret_question_are_told_to_the_server() {
    story(async {
        let asker = Asker::start().await;
        let (world, bot) = begun(&asker, &[]).await;
        let (said, asked) = world.asks_for("book").await;
        world.presses("Ada", &asked, "Decline");
        assert_eq!(world.words_to(said).await, "not booked: decline");
        world.settles(&asked, "Declined by").await;
        let said = world.says("Ada", "general", "@staffai call secret x");
        assert_eq!(world.words_to(said).await, "not booked: decline", "no member is asked for a password");
        drop((world, bot));
        let (world, _bot) = begun(&asker, &[("STAFFAI_GATES__EXPIRY", "1s")]).await;
        let (said, asked) = world.asks_for("book").await;
        assert_eq!(world.words_to(said).await, "not booked: cancel");
        world.settles(&asked, "expired without an answer").await;
    });
}

#[test]
fn a_link_is_opened_by_the_member_who_sees_its_host() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        let (said, asked) = world.asks_for("pay").await;
        assert!(asked.content.contains("`pay.example`"), "{}", asked.content);
        let shown = buttons(&asked);
        assert_eq!(shown[0], ("Open pay.example".to_owned(), "https://pay.example/now?x=1".to_owned()));
        world.presses("Ada", &asked, "Continue");
        assert_eq!(world.words_to(said).await, "booked x");
        assert_eq!(asker.state().answers, [json!({"q": {"action": "accept"}})]);
    });
}

#[test]
fn a_form_of_a_session_is_answered_over_the_api() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        let message = submit(&world, "one", "call book x").await;
        let gate = gate_of(&world, "one").await;
        assert_eq!(gate["form"]["fields"][1]["name"], "nights", "{gate}");
        let url = format!("{}/api/v1/gate/{}", world.http(), gate["id"].as_str().unwrap());
        let decide = |body: Value| {
            let url = url.clone();
            async move { reqwest::Client::new().post(url).json(&body).send().await.unwrap() }
        };
        let misfit = decide(json!({"approve": true, "answers": {"city": "Rome", "nights": 99}})).await;
        assert_eq!(misfit.status(), 422);
        assert!(misfit.text().await.unwrap().contains("field 2"));
        assert_eq!(decide(json!({"approve": true, "answers": {"city": "Rome", "nights": 2}})).await.status(), 200);
        let events = read(&world, "one", 0, &message).await;
        let last = events.iter().find(|event| event["event"] == "final").unwrap();
        assert_eq!(last["text"], "booked x");
    });
}

/// Reads a session until a gate opens.
async fn gate_of(world: &World, session: &str) -> Value {
    let mut answer = connect(world, session, 0).await;
    let mut text = String::new();
    loop {
        let piece = answer.chunk().await.unwrap().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&piece).unwrap());
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
        if let Some(gate) = events.into_iter().find(|event| event["event"] == "gate") {
            return gate;
        }
    }
}

#[test]
fn a_task_is_awaited_with_its_status_and_answered_once() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        let said = world.says("Ada", "general", "@staffai call job x");
        let shown = world.asks("general").await;
        assert!(shown.content.contains("is working on `ask__job`"), "{}", shown.content);
        world.until("the status", || world.again(&shown).content.contains("half done").then_some(())).await;
        let next = world.says("Ada", "general", "@staffai hello meanwhile");
        assert_eq!(world.words_to(next).await, "You said: hello meanwhile");
        asker.finish("x");
        assert_eq!(world.words_to(said).await, "job x is done");
        world.settles(&shown, "has finished").await;
        let state = asker.state();
        assert_eq!((state.created("x"), state.cancelled.len()), (1, 0));
        assert!(state.capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    });
}

#[test]
fn the_result_of_a_task_is_read_from_a_server_that_limits_its_polls() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        asker.state().polls_every = Duration::from_secs(1);
        let said = world.says("Ada", "general", "@staffai call job x");
        let shown = world.asks("general").await;
        asker.finish("x");
        world.settles(&shown, "has finished").await;
        let answer = world.answer_to(said).await;
        world.until("the result", || (world.again(&answer).content == "job x is done").then_some(())).await;
        assert_eq!(asker.state().created("x"), 1);
    });
}

#[test]
fn a_stopped_a_forgotten_and_a_late_task_are_cancelled_at_the_server() {
    story(async {
        let asker = Asker::start().await;
        let (world, bot) = begun(&asker, &[]).await;
        let (said, shown) = world.asks_for("job").await;
        let foreign = world.presses("Ben", &shown, "Stop");
        assert!(world.hears_back(foreign).await.contains("can decide this"));
        world.presses("Ada", &shown, "Stop");
        assert!(world.words_to(said).await.contains("A person stopped this call"));
        world.settles(&shown, "Stopped by").await;
        assert_eq!(asker.state().cancelled, ["task-x-1"]);
        let (said, _) = world.asks_for("job").await;
        world.tells("Ada", "forget", &[]).await;
        assert!(world.words_to(said).await.contains("withdrawn"));
        world.until("the cancellation", || (asker.state().cancelled.len() == 2).then_some(())).await;
        drop((world, bot));
        let (world, _bot) = begun(&asker, &[("STAFFAI_TOOLS__TASK_LONGEST", "1s")]).await;
        let said = world.says("Ada", "general", "@staffai call job late");
        assert!(world.words_to(said).await.contains("took too long"));
        world.until("the cancellation", || (asker.state().cancelled.len() == 3).then_some(())).await;
    });
}

#[test]
fn a_task_is_cancelled_when_its_turn_ends_at_its_question_or_its_poll_fails() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        let (said, asked) = world.asks_for("survey").await;
        assert!(asked.content.contains("Where to?"), "{}", asked.content);
        world.tells("Ada", "forget", &[]).await;
        assert!(world.words_to(said).await.contains("withdrawn"));
        world.until("the cancellation", || (asker.state().cancelled == ["task-x-1"]).then_some(())).await;
        let said = world.says("Ben", "general", "@staffai call job y");
        world.until("a task", || (asker.state().created("y") == 1).then_some(())).await;
        asker.state().tasks.clear();
        world.answer_to(said).await;
        world.until("the cancellation", || (asker.state().cancelled.len() == 2).then_some(())).await;
    });
}

#[test]
fn the_steps_of_a_task_are_one_call() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[("STAFFAI_TOOLS__MAX_CALLS", "2")]).await;
        world.model.does(|ask| {
            let results = ask.results();
            let job = |id, word| Act::calls(&[(id, "ask__job", json!({ "word": word }))]);
            match results.len() {
                0 => job("call-1", "x"),
                1 => job("call-2", "y"),
                _ => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
            }
        });
        let said = world.says("Ada", "general", "@staffai both");
        for word in ["x", "y"] {
            world.until("a task", || (asker.state().created(word) == 1).then_some(())).await;
            asker.finish(word);
        }
        assert_eq!(world.words_to(said).await, "job x is done / job y is done");
    });
}

#[test]
fn a_bot_that_is_killed_while_a_server_asks_or_works_goes_on_once() {
    story(async {
        let asker = Asker::start().await;
        let world = not_begun(&asker, &[]).await;
        let first = world.process("first").await;
        asker.listed(&world.http()).await;
        let (said, asked) = world.asks_for("book").await;
        let job = world.says("Ben", "random", "@staffai call job y");
        world.until("a task", || (asker.state().created("y") == 1).then_some(())).await;
        // Its record is durable once the task is polled.
        world.until("a poll", || (asker.state().polls > 0).then_some(())).await;
        first.kill();
        world.service.disconnected(0).await;
        asker.finish("y");
        let _second = world.process("second").await;
        assert_eq!(world.words_to(job).await, "job y is done");
        let form = world.opens("Ada", &asked).await;
        world.fills_in("Ada", &asked, &form, &[("city", "Rome"), ("nights", "2")]);
        assert_eq!(world.words_to(said).await, "booked x");
        let calls = |state: &State| (state.first, state.done, state.created("y"));
        assert_eq!(calls(&asker.state()), (1, 1, 1), "no call is made again");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(world.answers(job).len(), 1, "the result is delivered once");
    });
}

#[test]
fn where_no_person_can_answer_a_question_is_declined_and_a_task_is_awaited() {
    story(async {
        let asker = Asker::start().await;
        let (world, _bot) = begun(&asker, &[]).await;
        // A program that sends its own conversation has no place for questions.
        let asks = |text: &str| {
            let body = json!({"model": "scripted", "messages": [{"role": "user", "content": text}]});
            let url = format!("{}/v1/chat/completions", world.http());
            async move {
                let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
                let answer: Value = answer.json().await.unwrap();
                answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
            }
        };
        assert!(asks("call book x").await.contains("not booked: decline"));
        let finishes = async {
            world.until("a task", || (asker.state().created("y") == 1).then_some(())).await;
            asker.finish("y");
        };
        let (told, ()) = tokio::join!(asks("call job y"), finishes);
        assert!(told.contains("job y is done"), "{told}");
    });
}
