//! Fields of OpenAI's and Ollama's APIs beside text: pictures, parameters that are forwarded or reported as ignored,
//! embeddings, and the fields of the public Open Responses specification.

use serde_json::{Value, json};

use crate::api_keys::with_embedder;
use crate::model::{Act, Ask};
use crate::model_api::{KEY, WORDS, begin, body, post, python, script, steps_of};
use crate::support::{Setup, World, story};

/// A GIF of one pixel.
const GIF: &str = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=";

fn url() -> String {
    format!("data:image/gif;base64,{GIF}")
}

/// A bot with these rows, and the folder of their file.
async fn with_rows(rows: Value) -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("models.json");
    std::fs::write(&file, json!({"models": rows}).to_string()).unwrap();
    let world = begin(Setup::new().set("STAFFAI_MODELS", file.display())).await;
    world.model.always(Act::content(WORDS));
    (world, folder)
}

fn weather(ask: &Ask) -> Act {
    match ask.question() {
        "weather" => Act::calls(&[("c1", "get_weather", json!({"location": "San Francisco"}))]),
        _ => script(ask),
    }
}

#[test]
fn every_case_of_the_public_open_responses_suite_that_needs_no_websocket_holds() {
    story(async {
        let (setup, _folder) = with_embedder(&json!({"vision": true}));
        let world = begin(setup.set("STAFFAI_API_KEYS", KEY)).await;
        world.model.does(weather);
        let held = steps_of(&world, &python(), "tests/independent/open_responses.py").await;
        assert_eq!(
            held,
            "basic-response streaming-response system-prompt tool-calling tool-calling-streaming image-input multi-turn \
             assistant-phase response-output-phase-schema compact-response compact-missing-model"
        );
        let asks = world.model.asks();
        assert_eq!(asks.iter().map(|ask| ask.pictures().len()).sum::<usize>(), 1, "the picture came to the model");
        let last = asks.last().unwrap();
        assert!(last.messages.iter().any(|(role, text)| role == "system" && text.contains(WORDS)), "{last:?}");
    });
}

#[test]
fn pictures_reach_rows_that_see_and_other_rows_refuse_them_by_name() {
    story(async {
        let rows = json!({
            "scripted": {"enabled": true, "fallback": ["seer"]},
            "seer": {"enabled": true, "vision": true, "fallback": ["scripted"]},
        });
        let (world, _folder) = with_rows(rows).await;
        let chat = |model: &str| {
            let picture = json!({"type": "image_url", "image_url": {"url": url()}});
            let content = json!([{"type": "text", "text": "what is this?"}, picture]);
            json!({"model": model, "messages": [{"role": "user", "content": content}]})
        };
        let response = |model: &str| {
            let content = json!([{"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": url()}]);
            json!({"model": model, "input": [{"role": "user", "content": content}]})
        };
        let of_ollama = |model: &str| json!({"model": model, "stream": false, "messages": [{"role": "user", "content": "what?", "images": [GIF]}]});
        let generate = |model: &str| json!({"model": model, "stream": false, "prompt": "what?", "images": [GIF]});
        for (path, asked) in [
            ("/v1/chat/completions", &chat as &dyn Fn(&str) -> Value),
            ("/v1/responses", &response),
            ("/api/chat", &of_ollama),
            ("/api/generate", &generate),
        ] {
            let calls = world.model.calls();
            let refused = post(&world, path, &asked("scripted")).await;
            assert_eq!(refused.status(), 400, "{path}");
            let told = refused.text().await.unwrap();
            assert!(told.contains("scripted") && told.contains("seer") && told.contains("vision"), "{path}: {told}");
            assert_eq!(world.model.calls(), calls, "no model was asked");
            let answer = post(&world, path, &asked("seer")).await;
            let (status, told) = (answer.status(), answer.text().await.unwrap());
            assert_eq!(status, 200, "{path}: {told}");
            assert_eq!(world.model.last().pictures(), [url()], "{path}");
        }
        // A row with vision has no fallback without vision.
        world.model.always(Act::Status(500));
        let calls = world.model.calls();
        assert_eq!(post(&world, "/v1/chat/completions", &chat("seer")).await.status(), 502);
        let blind = world.model.asks().into_iter().skip(calls).filter(|ask| ask.pictures().is_empty()).count();
        assert_eq!(blind, 0);
        let shown = post(&world, "/api/show", &json!({"model": "seer"})).await.json::<Value>().await.unwrap();
        assert_eq!(shown["capabilities"], json!(["completion", "tools", "vision"]));
        let address = json!({"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/cat.png"}});
        let fetched = json!({"model": "seer", "messages": [{"role": "user", "content": [address]}]});
        let refused = post(&world, "/v1/chat/completions", &fetched).await;
        assert_eq!(refused.status(), 400);
        assert!(refused.text().await.unwrap().contains("data: URL"));
    });
}

#[test]
fn a_picture_in_a_kept_response_is_seen_again_when_the_conversation_goes_on() {
    story(async {
        let (world, _folder) = with_rows(json!({"scripted": {"enabled": true, "vision": true}})).await;
        let content = json!([{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": url()}]);
        let first = post(&world, "/v1/responses", &json!({"input": [{"role": "user", "content": content}]})).await;
        let first: Value = first.json().await.unwrap();
        let next = json!({"input": "what was it?", "previous_response_id": first["id"]});
        assert_eq!(post(&world, "/v1/responses", &next).await.status(), 200);
        assert!(world.model.last().body.to_string().contains(GIF));
    });
}

#[test]
fn a_temperature_reaches_every_row_that_does_not_forbid_it_and_what_is_left_out_is_named() {
    story(async {
        let rows = json!({
            "scripted": {"enabled": true}, "fixed": {"enabled": true, "temperature": null},
            "warm": {"enabled": true, "temperature": 0.7},
        });
        let (world, _folder) = with_rows(rows).await;
        for (model, sent, named) in
            [("scripted", json!(0.3), false), ("warm", json!(0.3), false), ("fixed", Value::Null, true)]
        {
            let mut ask = body("hello", false);
            (ask["model"], ask["temperature"], ask["seed"]) = (model.into(), 0.3.into(), 7.into());
            let answer = post(&world, "/v1/chat/completions", &ask).await;
            assert_eq!(answer.status(), 200);
            let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
            assert_eq!(world.model.last().body["temperature"], sent, "{model}");
            assert!(warning.contains("seed") && warning.contains("temperature") == named, "{model}: {warning}");
            let options = json!({"temperature": 0.3, "mirostat": 1});
            let of_ollama = json!({"model": model, "prompt": "hello", "stream": false, "options": options});
            let answer = post(&world, "/api/generate", &of_ollama).await;
            let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
            assert!(warning.contains("mirostat") && warning.contains("temperature") == named, "{model}: {warning}");
            assert_eq!(world.model.last().body["temperature"], sent, "{model}");
        }
        let plain = post(&world, "/v1/chat/completions", &body("hello", false)).await;
        assert!(!plain.headers().contains_key("warning") && world.model.last().body["temperature"].is_null());
    });
}

#[test]
fn tools_of_other_types_are_left_out_and_the_function_beside_them_is_called() {
    story(async {
        let (world, _folder) = with_rows(json!({"scripted": {"enabled": true}})).await;
        world.model.does(weather);
        // The tools of Codex CLI: functions, one of OpenAI's own, and a namespace of further ones.
        let weather =
            json!({"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": false});
        let inside = json!({"type": "namespace", "name": "mcp", "tools": [weather]});
        let tools = json!([{"type": "web_search", "external_web_access": false}, weather, inside]);
        let ask = json!({"model": "scripted:latest", "input": "weather", "tools": tools, "store": false});
        let answer = post(&world, "/v1/responses", &ask).await;
        assert_eq!(answer.status(), 200);
        let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
        assert!(warning.contains("tools of type web_search, tools of type namespace"), "{warning}");
        let told: Value = answer.json().await.unwrap();
        assert_eq!((&told["output"][0]["name"], &told["model"]), (&json!("get_weather"), &json!("scripted")));
        assert_eq!(told["tools"].as_array().map(Vec::len), Some(1), "{told}");
        assert_eq!(world.model.last().body["tools"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn a_row_without_embeddings_says_so_in_the_words_of_each_wire() {
    story(async {
        let (world, _folder) = with_rows(json!({"scripted": {"enabled": true}})).await;
        for path in ["/api/embed", "/api/embeddings", "/v1/api/embed"] {
            let refused = post(&world, path, &json!({"model": "scripted:latest", "input": "x", "prompt": "x"})).await;
            assert_eq!(refused.status(), 400, "{path}");
            let told: Value = refused.json().await.unwrap();
            assert!(told["error"].as_str().is_some_and(|why| why.contains("does not support embeddings")), "{told}");
        }
        let unknown = post(&world, "/api/embed", &json!({"model": "gpt-99", "input": "x"})).await;
        assert_eq!(unknown.status(), 404);
    });
}

#[test]
fn a_long_body_is_taken_for_its_pictures_and_not_for_more_text() {
    story(async {
        let (world, _folder) = with_rows(json!({"scripted": {"enabled": true, "vision": true}})).await;
        let mut bytes = b"GIF89a\x01\x00\x01\x00\x00\x00\x00,".to_vec();
        bytes.resize(2_700 << 10, 0);
        let long = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
        let with_pictures = |number: usize| json!({"model": "scripted", "stream": false, "prompt": "what?", "images": vec![long.as_str(); number]});
        let answer = post(&world, "/api/generate", &with_pictures(1)).await;
        let (status, told) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 200, "{told}");
        let refused = post(&world, "/api/generate", &with_pictures(2)).await;
        assert_eq!(refused.status(), 400);
        assert!(refused.text().await.unwrap().contains("5 MiB together"));
        let text = body(&"x ".repeat(700_000), false);
        assert_eq!(post(&world, "/v1/chat/completions", &text).await.status(), 413);
    });
}

#[test]
fn official_clients_send_pictures_and_ask_for_vectors() {
    story(async {
        let (setup, _folder) = with_embedder(&json!({"vision": true}));
        let world = begin(setup.set("STAFFAI_API_KEYS", KEY)).await;
        world.model.does(script);
        let held = steps_of(&world, &python(), "tests/independent/picture_clients.py").await;
        assert_eq!(held, "openai pictures ollama pictures ollama embed latest");
        let pictures = world.model.asks().iter().map(|ask| ask.pictures().len()).sum::<usize>();
        assert_eq!(pictures, 4);
    });
}
