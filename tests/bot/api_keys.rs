//! API keys of programs: rights, allowed addresses, limits.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::ledger::counted;
use crate::model::{Act, End};
use crate::model_api::{KEY, WORDS, begin, body};
use crate::programs::with_key;
use crate::support::{Setup, World, own_address, story};

/// A row with embeddings and these further fields, and the folder of its file.
pub fn with_embedder(more: &Value) -> (Setup, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("models.json");
    let mut row = json!({"enabled": true, "temperature": 0.7, "embeddings": "embedder"});
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::write(&rows, json!({"models": {"scripted": row}}).to_string()).unwrap();
    (Setup::new().set("STAFFAI_MODELS", rows.display()), folder)
}

#[test]
fn embeddings_count_in_the_limits_and_in_the_ledger_of_their_key() {
    story(async {
        let (setup, _folder) = with_embedder(&json!({}));
        let world = begin(setup.set("STAFFAI_API_KEYS", KEY).set("STAFFAI_HTTP__KEY_REQUESTS", "2")).await;
        let ask = json!({"model": "embedder", "input": ["a", "bcd"]});
        for status in [200, 200, 429] {
            let answer = with_key(&world, "/v1/embeddings", &ask, KEY).await;
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
            let told: Value = answer.json().await.unwrap();
            match status {
                200 => assert_eq!(told["data"][1], json!({"object": "embedding", "index": 1, "embedding": [3.0, 0.5]})),
                _ => assert_eq!(told["error"]["code"], "rate_limit_exceeded"),
            }
        }
        let chat = with_key(&world, "/v1/chat/completions", &body("hello", false), KEY).await;
        assert_eq!(chat.status(), 429, "they are counted together");
        for wrong in [json!({"input": []}), json!({"input": [""]}), json!({"input": "x", "model": "gpt-99"})] {
            assert!(with_key(&world, "/v1/embeddings", &wrong, KEY).await.status().is_client_error(), "{wrong}");
        }
        world.stop().await;
        let kept = counted(&world).await;
        let sums: Vec<u64> = kept
            .iter()
            .filter(|(key, _)| key.contains("operator") && key.ends_with("in"))
            .map(|(_, sum)| *sum)
            .collect();
        assert!(!sums.is_empty() && sums.iter().all(|sum| *sum == 12), "{kept:?}");
    });
}

#[test]
fn embeddings_cost_what_their_row_says() {
    story(async {
        // One dollar per token.
        let (setup, _folder) = with_embedder(&json!({"embeddings_price_per_million": 1_000_000}));
        let world = begin(setup.set("STAFFAI_API_KEYS", KEY)).await;
        let client = reqwest::Client::new();
        let ask = client.post(format!("{}/v1/embeddings", world.http())).bearer_auth(KEY);
        let answer = ask.json(&json!({"model": "embedder", "input": ["a", "bcd"]})).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let tokens = answer.json::<Value>().await.unwrap()["usage"]["prompt_tokens"].as_u64().unwrap();
        let used = client.get(format!("{}/api/v1/usage", world.http())).bearer_auth(KEY).send().await.unwrap();
        let today = used.json::<Value>().await.unwrap()["used"]["today"].clone();
        let expected = json!({
            "messages": 1, "tokens": tokens, "tokens_in": tokens, "tokens_out": 0, "cached": 0,
            "micros": tokens * 1_000_000, "unpriced_tokens": 0,
        });
        assert!(tokens > 0 && today == expected, "{today}");
    });
}

#[test]
fn limits_hold_for_the_holder_of_a_key_and_a_limit_has_its_own_status() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY).set("STAFFAI_HTTP__KEY_REQUESTS", "2")).await;
        world.model.always(Act::content(WORDS));
        // A program gets the limit's error each time; a member would get one notice per window.
        for status in [200, 200, 429, 429, 429] {
            let answer = with_key(&world, "/v1/chat/completions", &body("hello", false), KEY).await;
            assert_eq!(answer.status(), status);
            let wait = answer.headers().get("retry-after").map(|wait| wait.to_str().unwrap().parse::<u64>().unwrap());
            assert_eq!(wait.is_some_and(|wait| wait > 0), status == 429, "{wait:?}");
            assert_eq!(answer.headers().contains_key("x-should-retry"), status == 429);
            let told: Value = answer.json().await.unwrap();
            assert_eq!(told["error"]["code"] == "rate_limit_exceeded", status == 429, "{told}");
        }
    });
}

#[test]
fn keys_are_made_and_revoked_while_the_service_runs() {
    story(async {
        // The stream makes no progress until its key ends.
        let patient = Setup::new().set("STAFFAI_LLM__TIMEOUT", "100s").set("STAFFAI_TURN__DEADLINE", "100s");
        let world = World::without_bot(patient).await;
        world.model.always(Act::content(WORDS));
        let _process = world.process("service").await;
        world.becomes("ready").await;
        let staffai = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
            command.args(arguments).env_clear().envs(world.variables(&[])).current_dir(world.dir.path());
            let done = command.stdin(Stdio::null()).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap().trim().to_owned()
        };
        let key = staffai(&["key", "add", "laptop", "--days", "30"]);
        assert!(key.starts_with("sk-staffai-") && staffai(&["key", "list"]).contains("laptop  rights: chat"));
        let kept = std::fs::read_to_string(world.dir.path().join("data/keys.json")).unwrap();
        assert!(!kept.contains(&key), "only a hash is kept");
        let ask = async |bearer: Option<&str>, path: &str| {
            let mut request = reqwest::Client::new().get(format!("{}{path}", world.http()));
            if let Some(key) = bearer {
                request = request.bearer_auth(key);
            }
            request.send().await.unwrap().status().as_u16()
        };
        let becomes = async |bearer: Option<&str>, path: &str, status: u16| {
            let until = tokio::time::Instant::now() + Duration::from_secs(25);
            while ask(bearer, path).await != status {
                assert!(tokio::time::Instant::now() < until, "{path} does not become {status}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        becomes(None, "/v1/models", 401).await;
        assert_eq!(ask(Some(&key), "/v1/models").await, 200);
        assert_eq!(ask(Some(&key), "/api/v1/tree").await, 403, "it may chat and no more");
        // A stream of this key is open in each of the doors for programs when the key is revoked.
        world.model.always(Act::streams("The tide comes in, slowly.", 45, Duration::from_secs(60), End::Well));
        let body = json!({"session": "main", "text": "hello"});
        let submit = reqwest::Client::new().post(format!("{}/api/v1/submit", world.http())).bearer_auth(&key);
        assert_eq!(submit.json(&body).send().await.unwrap().status(), 202);
        let events = reqwest::Client::new().get(format!("{}/api/v1/stream/main", world.http())).bearer_auth(&key);
        let events = events.send().await.unwrap();
        let chat = reqwest::Client::new().post(format!("{}/v1/chat/completions", world.http())).bearer_auth(&key);
        let chat = chat.json(&crate::model_api::body("hello", true)).send().await.unwrap();
        assert_eq!((events.status().as_u16(), chat.status().as_u16()), (200, 200));
        staffai(&["key", "revoke", "laptop"]);
        let revoked = tokio::time::Instant::now();
        let rest = async |mut answer: reqwest::Response| while let Ok(Some(_)) = answer.chunk().await {};
        let cut = async { tokio::join!(rest(events), rest(chat)) };
        tokio::time::timeout(Duration::from_secs(20), cut).await.expect("its streams end");
        // The bound is 2 s; the rest is slack for loaded machines.
        assert!(revoked.elapsed() < Duration::from_secs(4), "{:?}", revoked.elapsed());
        becomes(Some(&key), "/v1/models", 401).await;
        assert_eq!(ask(None, "/api/v1/tree").await, 401, "the last key is gone, and the door is still shut");
        std::fs::remove_file(world.dir.path().join("data/keys.json")).unwrap();
        becomes(None, "/api/v1/tree", 200).await;
    });
}

#[test]
fn further_addresses_answer_the_same_and_listed_sites_may_ask() {
    story(async {
        let address = own_address();
        let taken = std::net::TcpListener::bind(address).unwrap();
        let setup = Setup::new().set("STAFFAI_HTTP__LISTENERS", address).set("STAFFAI_API_KEYS", KEY);
        let world = begin(setup.set("STAFFAI_HTTP__ORIGINS", "https://chat.example")).await;
        world.model.always(Act::content(WORDS));
        // Another program used the address for a while.
        drop(taken);
        let url = format!("http://{address}/v1/chat/completions");
        let client = reqwest::Client::new();
        let until = tokio::time::Instant::now() + Duration::from_secs(25);
        let answer = loop {
            let request = client.post(&url).bearer_auth(KEY).header("origin", "https://chat.example");
            match request.json(&body("hello", false)).send().await {
                Ok(answer) => break answer,
                Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["access-control-allow-origin"], "https://chat.example");
        for (origin, status, allowed) in [("https://chat.example", 204, true), ("https://other.example", 403, false)] {
            let request = client.request(reqwest::Method::OPTIONS, format!("{}/v1/chat/completions", world.http()));
            let request = request.header("origin", origin).header("access-control-request-method", "POST");
            let answer = request.header("access-control-request-headers", "authorization").send().await.unwrap();
            assert_eq!(answer.status(), status, "{origin}");
            assert_eq!(answer.headers().contains_key("access-control-allow-origin"), allowed, "{origin}");
        }
        let tree = client.get(format!("{}/api/v1/tree", world.http())).bearer_auth(KEY);
        let tree = tree.header("origin", "https://chat.example").send().await.unwrap();
        assert!(!tree.headers().contains_key("access-control-allow-origin"), "only programs' endpoints are opened");
        assert!(tree.text().await.unwrap().contains("listener:0"));
    });
}
