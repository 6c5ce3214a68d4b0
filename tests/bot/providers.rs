//! Tools of other processes: providers and NATS come and go.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use ports::Dice;
use serde_json::json;

use crate::model::Act;
use crate::support::{Setup, World, story};

/// A server that ends with the story.
pub(crate) struct Nats(Child);

/// Returns a free local port.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Nats {
    pub(crate) fn start(port: u16) -> Self {
        let mut server = Command::new("nats-server");
        server.args(["-a", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        Self(server.spawn().expect("nats-server is missing; ./test installs it"))
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A provider that counts letters, until dropped.
async fn counts_letters(url: &str) -> tokio::task::JoinHandle<()> {
    let client = async_nats::ConnectOptions::new().retry_on_initial_connect().connect(url).await.unwrap();
    let mut calls = client.subscribe("staffai.tools.call.desk").await.unwrap();
    let mut asked = client.subscribe("staffai.tools.discover").await.unwrap();
    let input = json!({"type": "object", "properties": {"word": {"type": "string"}}});
    let who =
        json!({"provider": "desk", "instance": "1", "tools": [{"name": "letters", "inputSchema": input}]}).to_string();
    client.publish("staffai.tools.announce", who.clone().into()).await.unwrap();
    let mut heartbeat = tokio::time::interval(Duration::from_secs(5));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(call) = calls.next() => {
                    let asked: serde_json::Value = serde_json::from_slice(&call.payload).unwrap();
                    let letters = asked["arguments"]["word"].as_str().unwrap().len().to_string();
                    let result = json!({"content": [{"type": "text", "text": letters}]}).to_string();
                    client.publish(call.reply.unwrap(), result.into()).await.unwrap();
                }
                Some(_) = asked.next() => client.publish("staffai.tools.announce", who.clone().into()).await.unwrap(),
                _ = heartbeat.tick() => client.publish("staffai.tools.heartbeat", who.clone().into()).await.unwrap(),
            }
        }
    })
}

async fn tools_tell(world: &World, what: &str, holds: bool) {
    let until = tokio::time::Instant::now() + Duration::from_secs(25);
    loop {
        let told = world.tells("Ada", "tools", &[]).await;
        if told.contains(what) == holds {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{what} {holds}: {told}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn a_process_offers_a_tool_and_the_bot_outlives_it_and_nats() {
    story(async {
        let port = free_port();
        let url = format!("nats://127.0.0.1:{port}");
        // The bot starts before NATS.
        let world = World::with(Setup::new().set("STAFFAI_NATS_URL", url.clone())).await;
        world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
        let nats = Nats::start(port);
        let provider = counts_letters(&url).await;
        tools_tell(&world, "desk__letters", true).await;

        world.model.does(|ask| match ask.results() {
            results if results.is_empty() => Act::calls(&[("call-1", "desk__letters", json!({"word": "tomato"}))]),
            results => Act::says(format!("{} letters", results[0].1)),
        });
        let said = world.says("Ada", "general", "@staffai how many letters has tomato?");
        assert!(world.words_to(said).await.contains('6'));

        // Without NATS the model gets an error at once, and there is an answer.
        drop(nats);
        tools_tell(&world, "(degraded", true).await;
        let said = world.says("Ada", "general", "@staffai how many letters has potato?");
        let told = world.words_to(said).await;
        assert!(told.contains("not available"), "{told}");
        let nats = Nats::start(port);
        tools_tell(&world, "**desk** (ready", true).await;

        // A silent provider is removed with its tools.
        provider.abort();
        tools_tell(&world, "desk__letters", false).await;
        drop(nats);
    });
}

async fn ask(client: &async_nats::Client, question: serde_json::Value) -> serde_json::Value {
    ask_on(client, "staffai.chat", question).await
}

async fn ask_on(client: &async_nats::Client, subject: &'static str, question: serde_json::Value) -> serde_json::Value {
    let request =
        async_nats::Request::new().payload(question.to_string().into()).timeout(Some(Duration::from_secs(20)));
    let reply = client.send_request(subject, request).await.unwrap();
    serde_json::from_slice(&reply.payload).unwrap()
}

#[test]
fn a_program_asks_over_nats_and_is_remembered_and_limited_like_a_member() {
    story(async {
        let port = free_port();
        let url = format!("nats://127.0.0.1:{port}");
        let _nats = Nats::start(port);
        let client = async_nats::ConnectOptions::new().retry_on_initial_connect().connect(&url).await.unwrap();
        client.flush().await.unwrap();
        let world = World::without_bot(Setup::new().set("STAFFAI_NATS_URL", url)).await;
        world.start().await;
        world.becomes("ready").await;
        let question = |user: &str, text: &str| json!({"channel": "lobby", "user": user, "message": text});
        let first = ask(&client, question("Ada", "my cat is called Tom")).await;
        assert_eq!((&first["success"], &first["content"]), (&json!(true), &json!("You said: my cat is called Tom")));
        let earlier = ask_on(&client, "rosey.llm.chat", question("Bob", "good morning")).await;
        assert_eq!(earlier["content"], "You said: good morning", "programs of the earlier bot are answered too");
        assert!(first["tokens_used"].as_u64().is_some_and(|tokens| tokens > 0), "{first}");
        assert_eq!(first["provider"], "scripted");
        ask(&client, question("Ada", "what is she called?")).await;
        assert!(world.model.last().talk().contains("my cat is called Tom"), "{}", world.model.last().talk());
        ask(&client, question("Ben", "and mine?")).await;
        assert!(!world.model.last().talk().contains("Tom"), "another user remembers nothing of it");

        let with_tools = |tools: bool| json!({"channel": "x", "user": "Cleo", "message": "hi", "enable_tools": tools});
        ask(&client, with_tools(false)).await;
        assert!(world.model.last().tools().is_empty());

        for wrong in [json!(7), question("a:b", "hello"), question("Ada", " ")] {
            let told = ask(&client, wrong).await;
            assert!(told["success"] == false && !told["error"].as_str().unwrap().is_empty(), "{told}");
            assert!(told["tokens_used"] == 0 && told["provider"].is_null(), "{told}");
        }
        world.model.does(|_| Act::Status(400));
        let told = ask(&client, question("Dora", "hello")).await;
        assert!(told["success"] == false && told["content"] == "" && told["error"].is_string(), "{told}");
    });
}

#[test]
fn three_hundred_requests_at_once_are_each_answered_or_refused() {
    story(async {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("nats://127.0.0.1:{port}");
        let _nats = Nats::start(port);
        let client = async_nats::ConnectOptions::new().retry_on_initial_connect().connect(&url).await.unwrap();
        client.flush().await.unwrap();
        let world = World::without_bot(Setup::new().set("STAFFAI_NATS_URL", url)).await;
        world.start().await;
        world.becomes("ready").await;
        for users in [300, 1] {
            let asked = (0..300).map(|number| {
                let (client, user) = (client.clone(), format!("u{users}-{}", number % users));
                async move {
                    let question = json!({"channel": "lobby", "user": user, "message": "hello"}).to_string();
                    let request =
                        async_nats::Request::new().payload(question.into()).timeout(Some(Duration::from_secs(25)));
                    let reply = client.send_request("staffai.chat", request).await.ok()?;
                    serde_json::from_slice::<serde_json::Value>(&reply.payload).ok()
                }
            });
            let replies: Vec<_> = futures_util::future::join_all(asked).await.into_iter().flatten().collect();
            let answered = replies.iter().filter(|reply| reply["success"] == true).count();
            println!("of 300 requests of {users} users {answered} were answered, {} had a reply", replies.len());
            assert_eq!(replies.len(), 300, "{users} users");
            assert!(answered > 0);
            let refused = |reply: &&serde_json::Value| reply["success"] == false;
            assert!(replies.iter().filter(refused).all(|reply| !reply["error"].as_str().unwrap().is_empty()));
        }
        // Without a working model each of them gets an error, however many there are in one place.
        world.model.does(|_| Act::Status(400));
        let asked = (0..300).map(|number| {
            let question = json!({"channel": "lobby", "user": format!("v{number}"), "message": "hello"});
            let client = client.clone();
            async move { ask(&client, question).await }
        });
        let replies = futures_util::future::join_all(asked).await;
        let told: Vec<_> = replies.iter().filter(|reply| reply["success"] != false).collect();
        assert!(told.is_empty(), "{told:?}");
    });
}

/// Always draws the longest pause.
struct Unlucky;

impl Dice for Unlucky {
    fn roll(&self) -> f64 {
        0.999
    }
}

#[test]
fn requests_are_answered_within_seconds_after_a_long_outage_of_nats() {
    story(async {
        let port = free_port();
        let url = format!("nats://127.0.0.1:{port}");
        let nats = Nats::start(port);
        let world = World::with(Setup::new().set("STAFFAI_NATS_URL", url.clone()).dice(Arc::new(Unlucky))).await;
        let connect = || async_nats::ConnectOptions::new().retry_on_initial_connect().connect(url.clone());
        let question = json!({"channel": "lobby", "user": "Ada", "message": "hello"});
        assert!(answered_within(&connect().await.unwrap(), &question, Duration::from_secs(20)).await.is_some());
        drop(nats);
        // Pauses of 1, 2, 4, 8 and 16 s would follow each other.
        tokio::time::sleep(Duration::from_secs(17)).await;
        let _nats = Nats::start(port);
        let client = connect().await.unwrap();
        let took = answered_within(&client, &question, Duration::from_secs(5)).await;
        println!("a request is answered {took:?} after NATS is back");
        assert!(took.is_some());
        drop(world);
    });
}

/// Returns the time until a request is answered.
async fn answered_within(
    client: &async_nats::Client,
    question: &serde_json::Value,
    within: Duration,
) -> Option<Duration> {
    let begun = tokio::time::Instant::now();
    let answered = async {
        loop {
            let request =
                async_nats::Request::new().payload(question.to_string().into()).timeout(Some(Duration::from_secs(5)));
            if let Ok(reply) = client.send_request("staffai.chat", request).await {
                let told: serde_json::Value = serde_json::from_slice(&reply.payload).unwrap();
                assert_eq!(told["success"], true, "{told}");
                return begun.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(within, answered).await.ok()
}

#[test]
fn tools_of_a_provider_are_usable_within_seconds_after_a_long_outage_of_nats() {
    story(async {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("nats://127.0.0.1:{port}");
        let nats = Nats::start(port);
        let world = World::with(Setup::new().set("STAFFAI_NATS_URL", url.clone())).await;
        let _provider = counts_letters(&url).await;
        tools_tell(&world, "**desk** (ready", true).await;
        drop(nats);
        tools_tell(&world, "(degraded", true).await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        let _nats = Nats::start(port);
        let back = tokio::time::Instant::now();
        tools_tell(&world, "**desk** (ready", true).await;
        println!("tools of a provider are back {:?} after NATS is", back.elapsed());
        assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    });
}
