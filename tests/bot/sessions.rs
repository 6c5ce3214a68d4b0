//! Sessions over the bot's API: their ownership and retention.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Act, End};
use crate::process::{Process, program};
use crate::support::{Setup, World, story};

/// The operator's key.
const OPERATOR: &str = "sk-of-the-house";

/// Runs a command of the program in the world's folder; returns its output.
fn staffai(world: &World, args: &[&str]) -> String {
    let mut command = program(world.dir.path(), &world.variables(&[]));
    let done = command.args(args).stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A client with a key.
struct Client<'a> {
    world: &'a World,
    key: String,
}

impl Client<'_> {
    async fn asks(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("{}/api/v1/{path}", self.world.http());
        let request = reqwest::Client::new().request(method, url).bearer_auth(&self.key);
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    async fn gets(&self, path: &str) -> Value {
        let (status, body) = self.asks(reqwest::Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn says(&self, session: &str, text: &str) -> Value {
        let body = json!({"session": session, "text": text, "wait": true});
        let (status, told) = self.asks(reqwest::Method::POST, "submit", Some(body)).await;
        assert_eq!(status, 200, "{told}");
        told
    }

    async fn sessions(&self) -> Vec<(String, u64)> {
        let all = self.gets("sessions").await;
        let named = |line: &Value| (line["session"].as_str().unwrap().to_owned(), line["number"].as_u64().unwrap());
        all["sessions"].as_array().unwrap().iter().map(named).collect()
    }

    async fn texts(&self, session: &str) -> Vec<String> {
        let said = self.gets(&format!("sessions/{session}")).await;
        let text = |line: &Value| line["text"].as_str().unwrap().to_owned();
        said["messages"].as_array().unwrap().iter().map(text).collect()
    }
}

#[test]
fn a_message_is_answered_by_the_profile_that_it_asks_for() {
    story(async {
        let prompts = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = prompts.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("doors/terminal/personality_prompt.txt", "You are a clerk.");
        write("profiles/pirate/personality_prompt.txt", "You are a pirate.\n{{include voice}}");
        write("profiles/judge/personality_prompt.txt", "You are a judge.");
        write("sections/voice.txt", "Speak loudly.");
        let setup = patient().set("STAFFAI_API_KEYS", OPERATOR).set("STAFFAI_PROMPTS_DIR", prompts.path().display());
        let world = World::without_bot(setup).await;
        let client = |key: String| Client { world: &world, key };
        let kiosk = client(staffai(&world, &["key", "add", "kiosk", "--profile", "judge"]));
        let operator = client(OPERATOR.to_owned());
        assert!(staffai(&world, &["key", "list"]).contains("profiles: judge"));
        world.start().await;
        let says = async |client: &Client<'_>, profile: &str| {
            let body = json!({"session": "main", "text": "hello", "wait": true, "profile": profile});
            let (status, told) = client.asks(reqwest::Method::POST, "submit", Some(body)).await;
            let instructed = world.model.asks().last().map(|ask| ask.messages[0].1.clone()).unwrap_or_default();
            (status, told["detail"].as_str().unwrap_or_default().to_owned(), instructed)
        };
        let (status, _, instructed) = says(&operator, "pirate").await;
        assert!(status == 200 && instructed.contains("You are a pirate.\nSpeak loudly."), "{status} {instructed}");
        operator.says("main", "and now?").await;
        assert!(world.model.last().shows("You are a clerk."), "it holds for its message alone");
        let (status, _, instructed) = says(&kiosk, "judge").await;
        assert!(status == 200 && instructed.contains("You are a judge."), "{status} {instructed}");

        let asked = world.model.calls();
        let (status, why, _) = says(&kiosk, "pirate").await;
        assert_eq!((status, why.as_str()), (400, "there is no profile \"pirate\" for this key; there are judge"));
        let (status, why, _) = says(&operator, "poet").await;
        assert_eq!((status, why.as_str()), (400, "there is no profile \"poet\" for this key; there are judge, pirate"));
        assert_eq!(world.model.calls(), asked, "nothing of it reaches a model");
        assert_eq!(operator.gets("health").await["profiles"], json!(["judge", "pirate"]));
        assert_eq!(kiosk.gets("health").await["profiles"], json!(["judge"]));

        std::fs::remove_file(prompts.path().join("profiles/judge/personality_prompt.txt")).unwrap();
        let rejected =
            world.until_told("/readyz", |ready| ready["configuration"]["rejected"].as_str().map(str::to_owned));
        let rejected = rejected.await;
        assert!(rejected.contains("profiles/judge: has no personality_prompt.txt"), "{rejected}");
    });
}

fn patient() -> Setup {
    Setup::new().set("STAFFAI_TURN__DEADLINE", "20s").set("STAFFAI_LLM__TIMEOUT", "20s")
}

#[test]
fn sessions_belong_to_a_key_and_outlive_a_kill_with_all_that_was_said() {
    story(async {
        let world = World::without_bot(patient().set("STAFFAI_API_KEYS", OPERATOR)).await;
        let client = |key: String| Client { world: &world, key };
        let laptop = client(staffai(&world, &["key", "add", "laptop"]));
        let ci = client(staffai(&world, &["key", "add", "ci", "--messages", "1", "--tokens", "0"]));
        let operator = client(OPERATOR.to_owned());
        let process = world.process("first").await;
        world.becomes("ready").await;

        assert_eq!(laptop.says("main", "my cat is called Tom").await["text"], "You said: my cat is called Tom");
        let told = laptop.says("other", "hello").await;
        assert_eq!(told["status"], "complete", "{told}");
        let told = ci.says("main", "hi").await;
        assert_eq!(told["status"], "complete", "{told}");
        // Each sees their own sessions, and limits are per key over all sessions.
        assert_eq!(laptop.sessions().await.len(), 2);
        assert_eq!(ci.sessions().await, [("main".to_owned(), 103)]);
        assert_eq!(operator.sessions().await.len(), 3);
        // The first refusal has a notice, later ones of the same window have none.
        for _ in 0..2 {
            let body = json!({"session": "another", "text": "more", "wait": true});
            let (status, refused) = ci.asks(reqwest::Method::POST, "submit", Some(body)).await;
            assert_eq!((status, refused["detail"].is_string()), (429, true), "{refused}");
        }
        let usage = ci.gets("usage").await;
        assert_eq!((&usage["name"], &usage["limits"]["messages"]), (&json!("ci"), &json!({"used": 1, "most": 1})));
        assert_eq!(usage["used"]["today"]["messages"], 1);
        assert_eq!(ci.asks(reqwest::Method::GET, "sessions/101", None).await.0, 404);
        assert_eq!(ci.asks(reqwest::Method::GET, "tree", None).await.0, 403);
        assert_eq!(laptop.gets("models").await["models"][0]["key"], "scripted");
        assert_eq!(laptop.gets("health").await["sessions"], 2);
        let stranger = client("sk-nobody".to_owned());
        let (status, refused) = stranger.asks(reqwest::Method::GET, "sessions", None).await;
        assert_eq!((status, refused["status"].as_u64()), (401, Some(401)));

        process.kill();
        let process = world.process("second").await;
        world.becomes("ready").await;
        assert_eq!(laptop.texts("101").await, ["my cat is called Tom", "You said: my cat is called Tom"]);
        let named = json!({"name": "cats"});
        assert_eq!(laptop.asks(reqwest::Method::PATCH, "sessions/101", Some(named)).await.0, 200);
        laptop.says("cats", "what is she called?").await;
        assert!(world.model.last().talk().contains("Tom"), "{}", world.model.last().talk());
        assert_eq!(laptop.asks(reqwest::Method::DELETE, "sessions/102", None).await.0, 204);
        assert_eq!(ci.asks(reqwest::Method::DELETE, "sessions/cats", None).await.0, 404);

        process.kill();
        let _process = world.process("third").await;
        world.becomes("ready").await;
        assert_eq!(laptop.sessions().await, [("cats".to_owned(), 101)]);
        assert_eq!(laptop.texts("cats").await.len(), 4);
        // Messages are deleted on their owner's request.
        let told = laptop.says("cats", "/forget").await;
        assert_eq!(told["status"], "complete", "{told}");
        assert!(told["text"].as_str().is_some_and(|text| !text.is_empty()), "{told}");
        assert_eq!(laptop.sessions().await, []);
        assert_eq!(ci.sessions().await.len(), 2);
    });
}

#[test]
fn a_client_that_goes_away_cancels_its_message_if_it_said_so() {
    story(async {
        let world = World::with(patient()).await;
        world.becomes("ready").await;
        world.model.always(Act::streams("The tide comes in.", 2, Duration::from_secs(2), End::Well));
        let client = Client { world: &world, key: String::new() };
        for (session, cancels) in [("stays", false), ("leaves", true)] {
            let body = json!({"session": session, "text": "when?", "wait": true, "cancel_when_gone": cancels});
            let asked = client.asks(reqwest::Method::POST, "submit", Some(body));
            let asked_before = world.model.calls();
            let gone = async {
                world.until("the model is asked", || (world.model.calls() > asked_before).then_some(())).await;
            };
            tokio::select! {
                told = asked => panic!("{told:?}"),
                () = gone => {}
            }
        }
        let after = |path: &'static str| format!("{path}?after=0");
        let url = format!("{}/api/v1/stream/{}", world.http(), after("leaves"));
        let stream = async {
            let mut told = String::new();
            let mut answer = reqwest::get(&url).await.unwrap();
            while let Some(chunk) = answer.chunk().await.unwrap() {
                told.push_str(std::str::from_utf8(&chunk).unwrap());
                if told.contains("\"done\"") {
                    return told;
                }
            }
            told
        };
        let told = tokio::time::timeout(Duration::from_secs(5), stream).await.expect("it is over at once");
        assert!(!told.contains("\"final\""), "{told}");
        assert!(told.contains(r#""event":"done","unanswered":"stopped""#), "what is half written is marked: {told}");
        let open = world.json("/api/v1/sessions/stays").await.1;
        assert_eq!(open["messages"].as_array().map(Vec::len), Some(1), "the other one goes on: {open}");
    });
}

#[test]
fn an_answer_that_was_whole_before_a_kill_is_read_after_it() {
    story(async {
        let world = World::without_bot(patient()).await;
        let process = world.process("first").await;
        world.becomes("ready").await;
        let message = crate::reading_along::submit(&world, "one", "what then?").await;
        let told = crate::reading_along::read(&world, "one", 0, &message).await;
        process.kill();
        let _process = world.process("second").await;
        world.becomes("ready").await;
        // This reader lost its connection after the first event.
        let again = crate::reading_along::read(&world, "one", told[0]["number"].as_u64().unwrap(), &message).await;
        let names: Vec<&str> = again.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["missed", "final", "done"]);
        assert_eq!(again[1]["text"], "You said: what then?");
        assert_eq!(world.model.calls(), 1);
    });
}

#[test]
fn an_apology_before_a_kill_is_read_as_one_after_it() {
    story(async {
        let world = World::without_bot(patient()).await;
        let process = world.process("first").await;
        world.becomes("ready").await;
        world.model.always(Act::Status(400));
        let message = crate::reading_along::submit(&world, "one", "what then?").await;
        let told = crate::reading_along::read(&world, "one", 0, &message).await;
        assert_eq!(told[told.len() - 2]["event"], "apology", "{told:?}");
        process.kill();
        let _process = world.process("second").await;
        world.becomes("ready").await;
        let again = crate::reading_along::read(&world, "one", told[0]["number"].as_u64().unwrap(), &message).await;
        // The process may have been killed before the end of the turn was durable: the next one takes the turn up again.
        let mut names = crate::reading_along::names(&again);
        names.retain(|name| *name != "accepted");
        assert_eq!(names, ["missed", "apology", "done"]);
        assert_eq!(again[again.len() - 2]["text"], told[told.len() - 2]["text"]);
    });
}

#[test]
fn a_key_sees_the_tools_that_its_model_is_offered_and_no_others() {
    story(async {
        let rules = r#"[{tools = "roll_dice", users = ["ci"], doors = ["terminal"], verdict = "deny"}, {tools = "calculator", verdict = "ask"}]"#;
        let setup = patient().set("STAFFAI_API_KEYS", OPERATOR).set("STAFFAI_TOOLS__RULES", rules);
        let world = World::without_bot(setup.set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")).await;
        let models =
            r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
        let client = |key: String| Client { world: &world, key };
        let made = |name: &str| client(staffai(&world, &["key", "add", name, "--right", "chat", "--right", "tools"]));
        let (laptop, ci, desk) = (client(staffai(&world, &["key", "add", "laptop"])), made("ci"), made("desk"));
        let _process = world.process("bot").await;
        world.becomes("ready").await;
        for (client, dice) in [(&ci, false), (&desk, true)] {
            let told = client.gets("tools").await;
            let tools = told["tools"].as_array().unwrap();
            let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            client.says("main", "hello").await;
            assert_eq!(names, world.model.last().tools());
            assert_eq!(names.contains(&"roll_dice"), dice, "{told}");
            let asks = tools.iter().filter(|tool| tool["asks"] == true).map(|tool| &tool["name"]);
            assert_eq!(asks.collect::<Vec<_>>(), ["calculator"]);
        }
        assert_eq!(laptop.gets("tools").await, json!({"tools": []}));
        assert_eq!(ci.asks(reqwest::Method::GET, "tool_servers", None).await.0, 403);
        assert_eq!(client(OPERATOR.to_owned()).gets("tool_servers").await["servers"], json!([]));
    });
}

#[cfg(feature = "databases")]
#[test]
fn a_statement_is_run_by_the_tool_and_its_results_are_told() {
    story(async {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("shop.db");
        let shop = rusqlite::Connection::open(&path).unwrap();
        let tables =
            "CREATE TABLE orders (item TEXT, price INTEGER); INSERT INTO orders VALUES ('tea', 3), ('rope', 9);";
        shop.execute_batch(&format!("{tables} CREATE TABLE secret (word TEXT); INSERT INTO secret VALUES ('canary');"))
            .unwrap();
        let row = format!("[{{name = 'shop', url = 'sqlite:{}', read = ['orders']}}]", path.display());
        let setup = patient().set("STAFFAI_API_KEYS", OPERATOR).set("STAFFAI_DATABASES", row);
        let world = World::without_bot(setup.set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")).await;
        let models =
            r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
        let _process = world.process("bot").await;
        world.becomes("ready").await;
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() => {
                let question = ask.question();
                let statement = question.lines().find(|line| line.starts_with("SELECT")).unwrap_or_default();
                let asked = json!({"database": "shop", "tables": ["shop.orders"], "sql": statement});
                Act::calls(&[("call-1", "db_query", asked)])
            }
            results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        });
        let client = Client { world: &world, key: OPERATOR.to_owned() };
        let told = client.says("one", "!db SELECT item FROM orders WHERE price > 5").await;
        let text = told["text"].as_str().unwrap();
        assert!(told["status"] == "complete" && text.contains("rope") && !text.contains("tea"), "{told}");
        assert!(told.get("said").is_none(), "nothing was answered in front of it: {told}");
        // A refused statement is a result that says so.
        let told = client.says("one", "!db SELECT word FROM secret").await;
        let text = told["text"].as_str().unwrap();
        assert!(told["status"] == "complete" && text.contains("secret") && !text.contains("canary"), "{told}");
        let (status, told) =
            client.asks(reqwest::Method::POST, "submit", Some(json!({"session": "one", "text": "!db"}))).await;
        assert!(status == 400 && told["detail"].as_str().unwrap().contains("!db needs a statement"), "{told}");
    });
}

/// Checks that a failed command reports those before it.
async fn fails_in_the_middle(operator: &Client<'_>) {
    let body = json!({"session": "one", "text": "!model deep\n!model wide\nhello", "wait": true});
    let (status, told) = operator.asks(reqwest::Method::POST, "submit", Some(body)).await;
    let detail = told["detail"].as_str().unwrap_or_default();
    assert!(status == 400 && detail.starts_with("!model wide failed: there is no model"), "{told}");
    assert!(detail.contains("were run:\n\n!model deep\n"), "{told}");
    operator.says("one", "!model scripted").await;
}

/// Starts the bot with a second row, `deep`, that the key of the laptop may not ask and the operator's may.
async fn with_another_row(world: &World) -> (Client<'_>, Client<'_>, Process) {
    let host = world.model.url().to_owned();
    staffai(world, &["model", "add", "deep", "--model", "deep-model", "--host", &host]);
    let client = |key: String| Client { world, key };
    let laptop = client(staffai(world, &["key", "add", "laptop", "--model", "scripted"]));
    let process = world.process("first").await;
    world.becomes("ready").await;
    (laptop, client(OPERATOR.to_owned()), process)
}

#[test]
fn a_key_limited_to_rows_cannot_store_another_row_as_a_setting() {
    story(async {
        let world = World::without_bot(patient().set("STAFFAI_API_KEYS", OPERATOR)).await;
        let (laptop, operator, _process) = with_another_row(&world).await;
        laptop.says("main", "hello").await;
        let chooses = async |client: &Client<'_>, row: Value| {
            let body = json!({"settings": {"verbosity": "short", "model": row}});
            let (status, told) = client.asks(reqwest::Method::PATCH, "settings", Some(body)).await;
            (status, told["detail"].as_str().unwrap_or_default().to_owned())
        };
        let refused = (400, "there is no model \"deep\" for this key; there are scripted".to_owned());
        assert_eq!(chooses(&laptop, json!("deep")).await, refused);
        for text in ["!set model deep", "!set here model: deep", "!model deep"] {
            let body = json!({"session": "main", "text": text, "wait": true});
            let (status, told) = laptop.asks(reqwest::Method::POST, "submit", Some(body)).await;
            assert_eq!((status, told["detail"].as_str().unwrap_or_default()), (400, &*refused.1), "{text}: {told}");
        }
        let listed = laptop.asks(reqwest::Method::GET, "settings", None).await.1;
        let set = listed["settings"].as_array().unwrap().iter().any(|setting| setting["level"] != "default");
        assert!(!set, "changes are all or none: {listed}");
        for row in [json!("scripted"), Value::Null] {
            assert_eq!(chooses(&laptop, row).await.0, 200);
        }
        assert_eq!(chooses(&operator, json!("deep")).await.0, 200, "a key without rows chooses any");
    });
}

#[cfg(feature = "databases")]
#[test]
fn commands_in_front_of_a_message_run_in_order_and_another_row_answers_one_turn() {
    story(async {
        // Nothing opens the file: the model runs no statement here.
        let setup = patient().set("STAFFAI_DATABASES", "[{name = 'shop', url = 'sqlite:shop.db', read = ['orders']}]");
        let setup = setup.set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true").set("STAFFAI_API_KEYS", OPERATOR);
        let world = World::without_bot(setup).await;
        let (laptop, operator, _process) = with_another_row(&world).await;
        operator.says("one", "my cat is called Tom").await;
        operator.says("one", "@deep what is she called?").await;
        let asked = world.model.last();
        assert!(asked.body["model"] == "deep-model" && asked.talk().contains("Tom"), "{}", asked.talk());
        operator.says("one", "and now?").await;
        assert_eq!(world.model.last().body["model"], "scripted");

        fails_in_the_middle(&operator).await;

        // An invalid or forbidden command reaches no model.
        let calls = world.model.calls();
        for (client, text, status, named) in [
            (&operator, "@wide hello", 400, "scripted, deep"),
            (&laptop, "@deep hello", 400, "there are scripted"),
            (&operator, "!reset\n!nonsense\nhello", 400, "!nonsense"),
            (&laptop, "!llm_timeout scripted 5\nhello", 403, "operate"),
        ] {
            let session = if client.key == OPERATOR { "one" } else { "main" };
            let body = json!({"session": session, "text": text, "wait": true});
            let (got, told) = client.asks(reqwest::Method::POST, "submit", Some(body)).await;
            let detail = told["detail"].as_str().unwrap_or_default();
            assert!(got == status && detail.contains(named) && !detail.contains("deep, "), "{text}: {told}");
        }
        assert_eq!(world.model.calls(), calls);

        let told = operator.says("one", "!MODEL deep\n!reset\nwhat is she called?").await;
        let said = told["said"].as_str().unwrap();
        assert!(said.contains("deep") && told["status"] == "complete", "{told}");
        let asked = world.model.last();
        assert!(asked.body["model"] == "deep-model" && !asked.talk().contains("Tom"), "{}", asked.talk());
        // A repeated submission is the same message, and its commands do not run again.
        let submits = async |session: &str, text: &str| -> Value {
            let body = json!({"session": session, "text": text, "wait": true});
            let url = format!("{}/api/v1/submit", world.http());
            let request = reqwest::Client::new().post(url).bearer_auth(OPERATOR).header("Idempotency-Key", "order-9");
            request.json(&body).timeout(Duration::from_secs(20)).send().await.unwrap().json().await.unwrap()
        };
        for said in [true, false] {
            let told = submits("two", "!model scripted\nhello").await;
            assert_eq!(told["said"].is_string(), said, "{told}");
        }
        // Statements go to the model, in order and once.
        let calls = world.model.calls();
        let statements = "!db select 1\n!db select 2\nthanks";
        let [first, again] = [submits("three", statements).await, submits("three", statements).await];
        assert!(first["message"] == again["message"] && first["message"] != "", "{first} {again}");
        assert_eq!(world.model.calls(), calls + 1);
        let asked = world.model.last();
        let [one, two, thanks] = ["select 1", "select 2", "thanks"].map(|part| asked.question().find(part));
        assert!(one.is_some() && one < two && two < thanks, "{}", asked.question());
        // An operator's change of a row is stored, and in force within seconds.
        operator.says("one", "!llm_timeout deep 7").await;
        loop {
            let rows = operator.gets("models").await;
            if rows["models"].as_array().unwrap().iter().any(|row| row["key"] == "deep" && row["timeout_s"] == 7) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        laptop.says("main", "hello").await;
        let told = laptop.says("main", "!session").await;
        assert!(
            told["text"].as_str().is_some_and(|text| text.contains(" main: 2 messages") && !text.contains("one")),
            "{told}"
        );
        laptop.says("main", "!session main delete").await;
        assert_eq!(laptop.sessions().await, []);
    });
}

#[test]
fn every_refusal_has_the_form_of_its_path() {
    story(async {
        let world = World::with(patient().set("STAFFAI_API_KEYS", OPERATOR)).await;
        let client = reqwest::Client::new();
        for (method, path, body, status) in [
            ("GET", "/api/v1/tree?children=few", "", 400),
            ("POST", "/api/v1/tree", "", 405),
            ("GET", "/api/v1/turns/999999", "", 404),
            ("GET", "/api/v1/audit?since=x", "", 400),
            ("GET", "/api/v1", "", 404),
            ("POST", "/api/v1/submit", "no form", 415),
            ("GET", "/nothing", "", 404),
            ("DELETE", "/readyz", "", 405),
            ("POST", "/hooks/none", "{}", 401),
            ("GET", "/hooks/none", "", 405),
            ("GET", "/v1", "", 404),
            ("PUT", "/v1/models", "", 405),
            ("POST", "/v1/nothing", "", 404),
            ("POST", "/v1/chat/completions", "no form", 400),
            ("GET", "/api", "", 404),
            ("GET", "/api/chat", "", 405),
            ("POST", "/v1/api/nothing", "", 404),
            ("POST", "/api/chat", "no form", 400),
        ] {
            for key in [OPERATOR, "sk-wrong"] {
                let request = client.request(method.parse().unwrap(), format!("{}{path}", world.http()));
                let answer = request.bearer_auth(key).body(body).send().await.unwrap();
                let open = ["/readyz", "/hooks/none"].contains(&path);
                let expected = if key == OPERATOR || open { status } else { 401 };
                assert_eq!(answer.status().as_u16(), expected, "{method} {path} {key}");
                let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
                let told: Value = answer.json().await.unwrap();
                let ollama = path.starts_with("/v1/api") || (path.starts_with("/api") && !path.starts_with("/api/v1"));
                let formed = match path {
                    _ if ollama => kind == "application/json" && told["error"].is_string(),
                    _ if path.starts_with("/v1") => kind == "application/json" && told["error"]["message"].is_string(),
                    _ => kind == "application/problem+json" && told["status"] == expected && told["detail"].is_string(),
                };
                assert!(formed, "{method} {path} {key}: {kind} {told}");
            }
        }
    });
}

#[test]
fn tools_are_told_by_the_rules_of_the_session_that_they_would_be_used_in() {
    story(async {
        let here = r#"doors = ["terminal"], channels = ["quiet"]"#;
        let rules = format!(
            r#"[{{tools = "roll_dice", verdict = "deny", {here}}}, {{tools = "get_time", verdict = "ask", {here}}}]"#
        );
        let setup = patient().set("STAFFAI_TOOLS__RULES", rules).set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true");
        let world = World::without_bot(setup).await;
        let models =
            r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
        std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
        world.start().await;
        let listed = async |query: &str| {
            let told = world.json(&format!("/api/v1/tools{query}")).await.1;
            let tool = |tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool["asks"].as_bool().unwrap());
            let tools: std::collections::BTreeMap<String, bool> =
                told["tools"].as_array().unwrap().iter().map(tool).collect();
            tools
        };
        let of = |tools: &std::collections::BTreeMap<String, bool>| {
            ["roll_dice", "get_time"].map(|name| tools.get(name).copied())
        };
        for query in ["", "?session=loud"] {
            assert_eq!(of(&listed(query).await), [Some(false), Some(false)], "{query}");
        }
        let quiet = listed("?session=quiet").await;
        assert_eq!(of(&quiet), [None, Some(true)]);
        Client { world: &world, key: String::new() }.says("quiet", "hello").await;
        let mut offered: Vec<String> = world.model.last().tools().iter().map(|&name| name.to_owned()).collect();
        offered.sort();
        assert_eq!(offered, quiet.into_keys().collect::<Vec<_>>(), "a turn in it is offered the same");
    });
}

#[test]
fn a_conversation_in_the_terminal_may_be_written_by_a_profile() {
    story(async {
        let prompts = tempfile::tempdir().unwrap();
        for name in ["pirate", "judge"] {
            let folder = prompts.path().join("profiles").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("personality_prompt.txt"), format!("You are a {name}.")).unwrap();
        }
        let world = World::without_bot(patient().set("STAFFAI_PROMPTS_DIR", prompts.path().display())).await;
        let _process = world.process("service").await;
        world.becomes("ready").await;
        let chat = async |args: &[&str]| {
            let mut command = tokio::process::Command::from(program(world.dir.path(), &world.variables(&[])));
            let done = command.arg("chat").args(args).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
            (done.status.code(), String::from_utf8(done.stderr).unwrap())
        };
        assert_eq!(chat(&["--once", "hello", "--profile", "pirate"]).await.0, Some(0));
        assert!(world.model.last().shows("You are a pirate."));
        assert_eq!(chat(&["--once", "hello"]).await.0, Some(0));
        assert!(!world.model.last().shows("You are a pirate."));
        let told = "there is no profile \"parrot\" for this key; there are judge, pirate\n".to_owned();
        assert_eq!(chat(&["--profile", "parrot"]).await, (Some(1), told));
    });
}

#[test]
fn one_question_for_a_script_prints_the_answer_alone() {
    story(async {
        let world = World::without_bot(patient()).await;
        let _process = world.process("service").await;
        world.becomes("ready").await;
        let asks = async |args: &[&str], input: &[u8]| {
            let mut command = tokio::process::Command::from(program(world.dir.path(), &world.variables(&[])));
            command.arg("chat").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stdin, input).await.unwrap();
            drop(stdin);
            let done = child.wait_with_output().await.unwrap();
            (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
        };
        let chat = async |args: &[&str], input: &str| {
            let (code, told, _) = asks(args, input.as_bytes()).await;
            (code, told)
        };
        assert_eq!(chat(&["--once", "hello"], "").await, (Some(0), "You said: hello\n".to_owned()));
        let (code, told) = chat(&["--once", "what is this?", "--session", "look"], "a boat\n").await;
        assert!(code == Some(0) && told.starts_with("You said: what is this?") && told.contains("a boat"), "{told}");
        // Attaches to a session by its number.
        let (code, told) = chat(&[], "!session 102 attach\nand now?\n!nonsense\n/quit\n").await;
        for part in ["you: what is this?", "in session 102 look", "You said: and now?", "there is no command !nonsense"]
        {
            assert!(code == Some(1) && told.contains(part), "{part}: {told}");
        }
        let (code, told) = chat(&[], "hello\nyou\n").await;
        assert_eq!((code, told.as_str()), (Some(0), "You said: hello\nYou said: you\n"), "a pipe gets answers alone");
        for (document, words) in [
            (&include_bytes!("../../crates/documents/fixtures/report.pdf")[..], "The ledger names 42 quinces."),
            (include_bytes!("../../crates/documents/fixtures/stock.xlsx"), "| Quince | 42 | 2026-10-03 |"),
        ] {
            assert_eq!(asks(&["--once", "how many?"], document).await.0, Some(0));
            assert!(world.model.last().question().contains(words), "{}", world.model.last().question());
        }
        let (code, _, why) = asks(&["--once", "what is this?"], b"\xff\xfe\xfd\0").await;
        assert!(code == Some(1) && why.contains("neither text nor a document"), "{why}");
        world.model.always(Act::Status(500));
        assert_eq!(chat(&["--once", "hello"], "").await.0, Some(1));
        assert_eq!(chat(&[], "hello\n").await.0, Some(1));
        let (code, told) = chat(&["--once", "hello"], &"x".repeat(40_000)).await;
        assert_eq!((code, told.as_str()), (Some(1), ""), "what is too long is not sent");
    });
}
