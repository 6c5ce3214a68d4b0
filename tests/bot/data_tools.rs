//! Tools that access external data, from a member's question to the answer: a search at a local service, a forbidden
//! page, a database. The services count requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::model::Act;
use crate::model_api::post;
use crate::support::{Setup, World, story};

/// A service on this machine that counts its requests.
struct Service {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Service {
    /// Answers searches like `SearXNG`, and all other requests with a secret.
    async fn start() -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let app = Router::new().route("/search", get(found)).fallback(secret).with_state(Arc::clone(&asked));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { port, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn row(&self) -> String {
        format!("[{{provider = 'searxng', url = 'http://127.0.0.1:{}/'}}]", self.port)
    }
}

async fn found(State(asked): State<Arc<AtomicUsize>>, Query(query): Query<Value>) -> Json<Value> {
    asked.fetch_add(1, Ordering::SeqCst);
    let title = format!("About {}", query["q"].as_str().unwrap_or_default());
    Json(json!({"results": [{"title": title, "url": "https://tea.example/", "content": "Leaves in hot water."}]}))
}

async fn secret(State(asked): State<Arc<AtomicUsize>>) -> &'static str {
    asked.fetch_add(1, Ordering::SeqCst);
    "internal-canary"
}

/// A bot with these settings whose model makes this call once and reports the result.
async fn calling(setup: Setup, tool: &'static str, arguments: Value) -> World {
    let world = World::without_bot(setup.set("STAFFAI_TOOLS__BUILT_IN_ALWAYS", "true")).await;
    let models = r#"{"models": {"scripted": {"model_id": "scripted", "enabled": true, "schema_with_tools": true}}}"#;
    std::fs::write(world.dir.path().join("scripted-models.json"), models).unwrap();
    world.start().await;
    world.model.does(move |ask| match ask.results() {
        results if results.is_empty() => Act::calls(&[("call-1", tool, arguments.clone())]),
        results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
    });
    world
}

/// A picture of one pixel.
const DOT: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\x03AC\x00\x00\x00\x00IEND\xaeB`\x82";

/// The price of one picture in dollars, and those of its tokens.
const PRICES: &str = "price_per_picture = 0.04, input_price_per_million = 5, output_price_per_million = 40";

/// An images endpoint that keeps the bodies of its requests. Its first model refuses, the second one draws one pixel. It
/// reports tokens for descriptions with the word `counted`.
async fn image_models() -> (u16, Arc<parking_lot::Mutex<Vec<String>>>) {
    let bodies = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&bodies);
    let draw = move |uri: axum::http::Uri, body: axum::body::Bytes| async move {
        let body = String::from_utf8_lossy(&body).into_owned();
        let refuses = body.contains("busy-model");
        kept.lock().push(format!("{uri} {body}"));
        if refuses {
            let error = json!({"error": {"message": "overloaded"}});
            return (axum::http::StatusCode::SERVICE_UNAVAILABLE, Json(error));
        }
        // What stands behind the picture tells the pictures apart.
        let told: Value = serde_json::from_str(&body).unwrap_or_default();
        let drawn = [DOT, told["prompt"].as_str().unwrap_or("edited").as_bytes()].concat();
        let encoded = base64::engine::general_purpose::STANDARD.encode(drawn);
        let mut answer = json!({"created": 1, "data": [{"b64_json": encoded}]});
        if body.contains("counted") {
            let details = json!({"text_tokens": 50, "image_tokens": 0});
            answer["usage"] = json!({"input_tokens": 50, "input_tokens_details": details, "output_tokens": 1_056, "total_tokens": 1_106});
        }
        (axum::http::StatusCode::OK, Json(answer))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(draw)).await });
    (port, bodies)
}

/// A bot that has these image models, and a model that sees.
async fn drawing(port: u16, tool: &'static str, arguments: Value) -> World {
    drawing_with(Setup::new(), port, tool, arguments).await
}

async fn drawing_with(setup: Setup, port: u16, tool: &'static str, arguments: Value) -> World {
    let world = painting(setup.set("STAFFAI_TOOLS__LIMITS", "image 1/1d"), port, "edits = true").await;
    world.model.does(move |ask| match ask.results() {
        results if results.is_empty() && !ask.tools().is_empty() => Act::calls(&[("call-1", tool, arguments.clone())]),
        results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
    });
    world
}

/// A bot whose image models have these further fields.
async fn painting(setup: Setup, port: u16, fields: &str) -> World {
    let row = |model: &str| format!("{{url = 'http://127.0.0.1:{port}/v1', model = '{model}', {fields}}}");
    let rows = format!("[{}, {}]", row("busy-model"), row("painter"));
    World::of_row(setup.set("STAFFAI_IMAGES", rows), r#""schema_with_tools": true, "vision": true"#).await
}

/// Waits until the ledger has this much for each of these members, in millionths of a dollar. It is written in the
/// background.
async fn spent(world: &World, wanted: impl Fn(&[u64]) -> bool, members: &[&str]) -> Vec<u64> {
    let mut spent = Vec::new();
    for _ in 0..500 {
        let told = world.json("/api/v1/usage/days?days=1").await.1;
        let of = |who: &&str| {
            let id = format!("discord:{}", world.member(who));
            let mut rows = told["days"][0]["members"]["most"].as_array().into_iter().flatten();
            rows.find(|row| row["member"] == id.as_str()).map_or(0, |row| row["micros"].as_u64().unwrap())
        };
        spent = members.iter().map(of).collect();
        if wanted(&spent) {
            return spent;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the ledger has {spent:?}");
}

#[test]
fn a_picture_costs_the_tokens_that_are_reported_or_its_price() {
    story(async {
        let (port, _) = image_models().await;
        let world = painting(Setup::new(), port, PRICES).await;
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() => {
                Act::calls(&[("call-1", "create_image", json!({"prompt": ask.question()}))])
            }
            _ => Act::says("Here it is."),
        });
        for (who, said) in [("Ada", "@staffai a counted harbour"), ("Ben", "@staffai a harbour")] {
            let answer = world.answer_to(world.says(who, "general", said)).await;
            assert_eq!(answer.attachments.len(), 1, "{}", answer.content);
        }
        spent(&world, |spent| spent == [50 * 5 + 1_056 * 40, 40_000], &["Ada", "Ben"]).await;
        let told = world.tells("Ada", "usage", &[]).await;
        assert!(told.contains("$0.04"), "{told}");
        // The newest turn is first. Its model row has no prices.
        let turns = world.json("/api/v1/turns").await.1["turns"].clone();
        for (turn, dollars) in [(&turns[0], 0.04), (&turns[1], 0.042_49)] {
            let steps = turn["steps"].as_array().cloned().unwrap_or_default();
            let step = steps.iter().find(|step| step["name"] == "create_image").unwrap_or_else(|| panic!("{turn}"));
            assert_eq!((&turn["dollars"], &step["cost"]["dollars"]), (&json!(dollars), &json!(dollars)), "{turn}");
        }
    });
}

#[test]
fn pictures_of_all_members_together_cost_at_most_the_limit_in_dollars() {
    story(async {
        let (port, bodies) = image_models().await;
        // Room for five pictures.
        let limits = r#"[{scope = "guild", per = "1h", dollars = 0.21}]"#;
        let setup = Setup::new().set("STAFFAI_RATE_LIMITER__LIMITS", limits);
        let world = painting(setup, port, PRICES).await;
        let asked: Vec<_> = ["call-1", "call-2", "call-3"].map(|id| (id, "create_image", json!({"prompt": id}))).into();
        world.model.does(move |ask| match ask.results() {
            results if results.is_empty() => Act::calls(&asked),
            results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        });
        world.crowd(1);
        let members = ["Ada", "Ben", "member-0"];
        let said = members.map(|who| world.says(who, "general", "@staffai three boats"));
        let mut words = String::new();
        for message in said {
            words += &world.answer_to(message).await.content;
        }
        let drawn = bodies.lock().iter().filter(|body| body.contains("painter")).count();
        let refused = words.matches("limit of costs is reached").count();
        assert_eq!((drawn, refused), (5, 4), "{words}");
        let sums = spent(&world, |spent| spent.iter().sum::<u64>() == 200_000, &members).await;
        println!("pictures: {drawn} of 9 made, {refused} refused, {sums:?} millionths of a dollar in the ledger");
    });
}

#[test]
fn a_picture_is_made_by_the_next_model_if_one_fails_and_a_member_has_a_budget() {
    story(async {
        let (port, bodies) = image_models().await;
        let world = drawing(port, "create_image", json!({"prompt": "a harbour"})).await;
        let answer = world.answer_to(world.says("Ada", "general", "@staffai draw the harbour")).await;
        let files: Vec<&str> = answer.attachments.iter().map(|file| file.filename.as_str()).collect();
        assert_eq!(files, ["picture-1.png"], "{}", answer.content);
        let asked = bodies.lock().clone();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].contains("busy-model") && asked[1].starts_with("/v1/images/generations "), "{asked:?}");
        assert!(asked[1].contains("painter") && asked[1].contains("a harbour"), "{asked:?}");
        let again = world.answer_to(world.says("Ada", "general", "@staffai draw it again")).await;
        assert!(again.attachments.is_empty() && bodies.lock().len() == 2, "the budget is used up: {}", again.content);
        let other = world.answer_to(world.says("Ben", "general", "@staffai draw the harbour")).await;
        assert_eq!(other.attachments.len(), 1, "each member has their own: {}", other.content);
    });
}

#[test]
fn an_attached_picture_is_edited() {
    story(async {
        let (port, bodies) = image_models().await;
        let world = drawing(port, "edit_image", json!({"prompt": "make it blue"})).await;
        let words = world.words_to(world.says("Ben", "general", "@staffai make it blue")).await;
        assert!(words.contains("there is no such picture") && bodies.lock().is_empty(), "{words}");
        let said = world.sends("Ada", "general", "@staffai make it blue", &[("dot.png", "image/png", DOT)]);
        let answer = world.answer_to(said).await;
        assert_eq!(answer.attachments.len(), 1, "{}", answer.content);
        let asked = bodies.lock().last().cloned().unwrap();
        assert!(asked.starts_with("/v1/images/edits ") && asked.contains("image/png"), "{asked}");
        assert!(asked.contains("make it blue") && asked.contains("IHDR"), "{asked}");
    });
}

#[test]
fn the_picture_of_an_answer_is_edited_by_a_reply_and_the_newest_one_without() {
    story(async {
        let (port, bodies) = image_models().await;
        let world = painting(Setup::new(), port, "edits = true").await;
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() && ask.question().contains("draw") => {
                Act::calls(&[("call-1", "create_image", json!({"prompt": ask.question()}))])
            }
            results if results.is_empty() => Act::calls(&[("call-1", "edit_image", json!({"prompt": "make it blue"}))]),
            results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        });
        let harbour = world.answer_to(world.says("Ada", "general", "@staffai draw a harbour")).await;
        world.answer_to(world.says("Ada", "general", "@staffai draw a forest")).await;
        let edited = |words: &'static str| {
            let asked = bodies.lock().last().cloned().unwrap();
            assert!(asked.starts_with("/v1/images/edits ") && asked.contains(words), "{asked}");
        };
        let blue = world.answer_to(world.replies("Ada", &harbour, "@staffai make it blue")).await;
        assert_eq!(blue.attachments.len(), 1, "{}", blue.content);
        edited("draw a harbour");
        world.answer_to(world.says("Ada", "general", "@staffai and darker")).await;
        edited("edited");
        let made = bodies.lock().len();
        let other = world.words_to(world.says("Ben", "general", "@staffai make it blue")).await;
        assert!(other.contains("there is no such picture"), "those here answer another member: {other}");
        let plain = world.sends("Ada", "general", "look at this", &[("dot.png", "image/png", b"no picture")]);
        let foreign = world.words_to(world.replies("Ben", plain, "@staffai make it blue")).await;
        assert!(
            foreign.contains("there is no such picture"),
            "a picture that cannot be read is not replaced: {foreign}"
        );
        assert_eq!(bodies.lock().len(), made);
        world.answer_to(world.replies("Ben", &harbour, "@staffai make it blue")).await;
        edited("draw a harbour");
    });
}

#[test]
fn an_edit_that_was_approved_has_the_picture_of_its_question() {
    story(async {
        let (port, bodies) = image_models().await;
        let setup = Setup::new().set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "edit_image");
        let setup = setup.set("STAFFAI_TOOLS__LIMITS", "image 9/1d");
        let world = painting(setup, port, "edits = true").await;
        world.model.does(|ask| match ask.results() {
            results if results.is_empty() => Act::calls(&[("call-1", "edit_image", json!({"prompt": "make it blue"}))]),
            results => Act::says(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" / ")),
        });
        let dot = [DOT, b"of Ben"].concat();
        let dot = world.sends("Ben", "general", "a dot", &[("dot.png", "image/png", &dot)]);
        let attaches = || world.sends("Ada", "general", "@staffai make it blue", &[("dot.png", "image/png", DOT)]);
        let replies = || world.replies("Ada", dot, "@staffai make it blue");
        for (asks, words) in [(&attaches as &dyn Fn() -> _, "IHDR"), (&replies, "of Ben")] {
            let (said, made) = (asks(), bodies.lock().len());
            let question = world.asks("general").await;
            assert_eq!(bodies.lock().len(), made, "nothing leaves while it waits");
            world.presses("Ada", &question, "Approve");
            let answer = world.answer_to(said).await;
            assert_eq!(answer.attachments.len(), 1, "{}", answer.content);
            let asked = bodies.lock().last().cloned().unwrap();
            assert!(asked.starts_with("/v1/images/edits ") && asked.contains(words), "{asked}");
        }
    });
}

#[test]
fn a_picture_of_a_given_conversation_is_edited() {
    story(async {
        let (port, bodies) = image_models().await;
        let world = drawing(port, "edit_image", json!({"prompt": "make it blue"})).await;
        world.becomes("ready").await;
        let encoded = base64::engine::general_purpose::STANDARD.encode(DOT);
        let picture = json!({"type": "input_image", "image_url": format!("data:image/png;base64,{encoded}")});
        let content = json!([{"type": "input_text", "text": "make it blue"}, picture]);
        let answer = post(&world, "/v1/responses", &json!({"input": [{"role": "user", "content": content}]})).await;
        let (status, told) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{told}");
        let asked = bodies.lock().last().cloned().unwrap_or(told);
        assert!(asked.starts_with("/v1/images/edits ") && asked.contains("IHDR"), "{asked}");
    });
}

#[test]
fn the_picture_of_the_last_message_of_a_given_chat_is_edited() {
    story(async {
        let (port, bodies) = image_models().await;
        let world = drawing(port, "edit_image", json!({"prompt": "make it blue"})).await;
        world.becomes("ready").await;
        let shows = |bytes: &[u8]| {
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{encoded}")}})
        };
        let earlier = [DOT, b"earlier"].concat();
        let says = |words: &str, bytes: &[u8]| json!([{"type": "text", "text": words}, shows(bytes)]);
        let messages = json!([
            {"role": "user", "content": says("what is this?", &earlier)},
            {"role": "assistant", "content": "A dot."},
            {"role": "user", "content": says("make it blue", DOT)},
        ]);
        let answer = post(&world, "/v1/chat/completions", &json!({"model": "staffai", "messages": messages})).await;
        let (status, told) = (answer.status(), answer.json::<Value>().await.unwrap());
        assert_eq!(status, 200, "{told}");
        let said = told["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(said.contains("The picture is ready"), "{told}");
        let asked = bodies.lock().last().cloned().unwrap();
        assert!(asked.starts_with("/v1/images/edits ") && asked.contains("make it blue"), "{asked}");
        assert!(asked.contains("IHDR") && !asked.contains("earlier"), "the last message has the picture: {asked}");
    });
}

#[test]
fn a_member_asks_and_the_web_is_searched() {
    story(async {
        let service = Service::start().await;
        let setup = Setup::new().set("STAFFAI_WEB_SEARCH", service.row());
        let world = calling(setup, "web_search", json!({"query": "green tea"})).await;
        let told = world.words_to(world.says("Ada", "general", "@staffai what is green tea?")).await;
        assert!(told.contains("About green tea") && told.contains("Leaves in hot water."), "{told}");
        assert!(told.contains("https://tea.example/"), "{told}");
        assert_eq!(service.asked(), 1);
        assert!(world.model.asks()[0].tools().contains(&"web_search"));
    });
}

#[test]
fn a_search_that_has_to_be_approved_reaches_its_service_once_and_after_the_yes_alone() {
    story(async {
        let service = Service::start().await;
        let setup = Setup::new()
            .set("STAFFAI_WEB_SEARCH", service.row())
            .set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "web_search");
        let world = calling(setup, "web_search", json!({"query": "green tea"})).await;
        let denied = world.says("Ben", "general", "@staffai search");
        let question = world.asks("general").await;
        world.presses("Ben", &question, "Deny");
        assert!(world.words_to(denied).await.contains("said no"));
        assert_eq!(service.asked(), 0, "what was denied never left");
        let said = world.says("Ada", "random", "@staffai search");
        let question = world.asks("random").await;
        assert_eq!(service.asked(), 0, "nothing leaves while it waits");
        for label in ["Approve", "Approve"] {
            world.presses("Ada", &question, label);
        }
        assert!(world.words_to(said).await.contains("About green tea"));
        assert_eq!(service.asked(), 1);

        // The audit log has one line per call, with the member, the decision and the result.
        let told = world.get("/api/v1/audit?tool=web_search").await.1;
        let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events = |who: &str| -> Vec<String> {
            let person = format!("discord:{}", world.member(who));
            let own = lines.iter().filter(|line| line["person"] == person.as_str());
            own.map(|line| {
                format!("{} {}", line["event"].as_str().unwrap(), line["outcome"].as_str().unwrap_or_default())
            })
            .collect()
        };
        assert_eq!(events("Ben"), ["asked ", "decided ", "called refused"]);
        assert_eq!(events("Ada"), ["asked ", "decided ", "called ok"]);
        assert!(!told.contains("green tea"), "no content where it may not be logged: {told}");
        let decided = lines.iter().find(|line| line["decision"] == "approved").unwrap();
        assert_eq!((&decided["choice"], &decided["by"]), (&json!("once"), &json!("person")));

        // These lines are data of the member, who can export and delete them.
        assert!(world.tells("Ada", "export", &[]).await.contains("records of your tool calls and approvals"));
        assert!(world.tells("Ada", "forget", &[]).await.contains("- 3 records of your tool calls and approvals"));
        let left = world.get("/api/v1/audit").await.1;
        assert_eq!(left.lines().count(), 3, "{left}");
        assert!(!left.contains(&world.member("Ada").to_string()), "{left}");
    });
}

#[test]
fn a_page_on_this_machine_is_never_asked_for() {
    story(async {
        let service = Service::start().await;
        let setup =
            Setup::new().set("STAFFAI_URL_EXTRACT__ENABLED", "true").set("STAFFAI_URL_EXTRACT__PORTS", service.port);
        let address = format!("http://127.0.0.1:{}/secret", service.port);
        let world = calling(setup, "url_extract", json!({"url": address})).await;
        let told = world.words_to(world.says("Ada", "general", "@staffai read that page")).await;
        assert!(told.contains("not read") && !told.contains("internal-canary"), "{told}");
        println!("internal hits: {}", service.asked());
        assert_eq!(service.asked(), 0);
    });
}

#[cfg(feature = "databases")]
#[test]
fn the_model_is_told_the_tables_and_columns_that_its_caller_may_read() {
    story(async {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("shop.db");
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(
                "CREATE TABLE orders (item TEXT, price INTEGER); CREATE TABLE pay (person TEXT, salary INTEGER)",
            )
            .unwrap();
        let row = format!("[{{name = 'shop', url = 'sqlite:{}', read = ['orders', 'pay']}}]", path.display());
        let begin = World::without_bot(Setup::new()).await;
        let ada = begin.member("Ada");
        drop(begin);
        let rules = format!(
            "[{{tools = 'db_query', resource = 'shop.pay', users = [{ada}], verdict = 'auto'}}, {{tools = 'db_query', resource = 'shop.pay', roles = [1], verdict = 'deny'}}, {{tools = 'db_query', resource = 'shop.pay', verdict = 'ask', approvers = [1]}}]"
        );
        let setup = Setup::new().set("STAFFAI_DATABASES", &row).set("STAFFAI_TOOLS__RULES", rules);
        let setup = setup.set("STAFFAI_TOOLS__REQUIRES_CONFIRMATION", "");
        let world = calling(setup, "calculator", json!({"expression": "1"})).await;
        let described = |world: &World| {
            let ask = world.model.asks().into_iter().rfind(|ask| ask.tools().contains(&"db_query")).unwrap();
            let tools = ask.body["tools"].as_array().unwrap().clone();
            let tool = tools.iter().find(|tool| tool["function"]["name"] == "db_query").unwrap();
            tool["function"]["description"].as_str().unwrap().to_owned()
        };
        // The first turn of a process may get table names only.
        let mut told = String::new();
        for _ in 0..20 {
            world.words_to(world.says("Ada", "general", "@staffai one?")).await;
            told = described(&world);
            if told.contains("salary") {
                break;
            }
        }
        assert!(told.contains("\nshop.orders: item, price\nshop.pay: person, salary"), "{told}");
        world.words_to(world.says("Ben", "general", "@staffai one?")).await;
        let told = described(&world);
        assert!(told.ends_with("\nshop.orders: item, price\nshop.pay (approval required)"), "{told}");
    });
}

#[cfg(feature = "databases")]
#[test]
fn a_member_asks_and_the_database_answers_from_the_tables_that_may_be_read() {
    story(async {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("shop.db");
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(
                "CREATE TABLE orders (item TEXT, price INTEGER); INSERT INTO orders VALUES ('tea', 3), ('rope', 9);
                 CREATE TABLE secret (word TEXT); INSERT INTO secret VALUES ('internal-canary');",
            )
            .unwrap();
        let row = format!("[{{name = 'shop', url = 'sqlite:{}', read = ['orders']}}]", path.display());
        let ask = |sql: &str| json!({"database": "shop", "tables": ["shop.orders"], "sql": sql});
        let setup = || Setup::new().set("STAFFAI_DATABASES", &row);
        let world = calling(setup(), "db_query", ask("SELECT item FROM orders WHERE price > 5")).await;
        let told = world.words_to(world.says("Ada", "general", "@staffai what costs more than five?")).await;
        assert!(told.contains("rope") && !told.contains("tea"), "{told}");
        world.stop().await;
        let world = calling(setup(), "db_query", ask("SELECT word FROM secret")).await;
        let told = world.words_to(world.says("Ada", "general", "@staffai tell me the secret")).await;
        assert!(!told.contains("internal-canary"), "{told}");
    });
}
