//! Programs that use the bot as a model: their limits, failures in the format of their API, and reasons of ending.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ledger::counted;
use crate::model::{Act, End, Streamed};
use crate::model_api::{KEY, WORDS, begin, body, post};
use crate::support::{Setup, World, story};

const OTHER: &str = "sk-of-another-house";

pub async fn with_key(world: &World, path: &str, body: &Value, key: &str) -> reqwest::Response {
    let request = reqwest::Client::new().post(format!("{}{path}", world.http())).bearer_auth(key).json(body);
    request.send().await.unwrap()
}

/// Returns the status, `Retry-After`, `x-should-retry` and JSON of an answer.
async fn told(answer: reqwest::Response) -> (u16, Option<u64>, Option<bool>, Value) {
    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let wait = header("retry-after").map(|wait| wait.parse().unwrap());
    let again = header("x-should-retry").map(|again| again == "true");
    (answer.status().as_u16(), wait, again, answer.json().await.unwrap())
}

async fn chat(world: &World) -> (u16, Option<u64>, Option<bool>, Value) {
    told(post(world, "/v1/chat/completions", &body("hello", false)).await).await
}

/// Returns the data of a stream's events.
async fn events(answer: reqwest::Response) -> Vec<Value> {
    let text = answer.text().await.unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

fn whole(message: &Value, finish: Option<&str>) -> Act {
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    Act::Body(json!({"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}).to_string())
}

// === Limits ===

#[test]
fn programs_have_limits_of_their_own_and_without_keys_none() {
    story(async {
        let members = || Setup::new().set("RATE_LIMIT_COUNT", "1").set("TOKEN_RATE_LIMIT_COUNT", "50");
        let world = begin(members()).await;
        world.model.always(Act::content(WORDS));
        for _ in 0..4 {
            assert_eq!(chat(&world).await.0, 200, "without keys this machine has no limits");
        }
        let submit = json!({"session": "one", "text": "hello", "wait": true});
        for _ in 0..3 {
            let answer: Value = post(&world, "/api/v1/submit", &submit).await.json().await.unwrap();
            assert_eq!(answer["status"], "complete", "{answer}");
        }
        world.stop().await;

        let world = begin(members().set("STAFFAI_API_KEYS", format!("{KEY},{OTHER}"))).await;
        world.model.always(Act::content(WORDS));
        for _ in 0..4 {
            let answer = with_key(&world, "/v1/chat/completions", &body("hello", false), KEY).await;
            assert_eq!(answer.status(), 200, "the limits of members are not those of a key");
        }
        world.stop().await;

        let keys = members().set("STAFFAI_API_KEYS", format!("{KEY},{OTHER}")).set("STAFFAI_HTTP__KEY_REQUESTS", "2");
        let world = begin(keys).await;
        world.model.always(Act::content(WORDS));
        for (key, status) in [(KEY, 200), (KEY, 200), (KEY, 429), (OTHER, 200)] {
            let answer = with_key(&world, "/v1/chat/completions", &body("hello", false), key).await;
            assert_eq!(answer.status(), status, "{key}");
        }
    });
}

#[test]
fn a_prompt_that_fits_no_window_is_refused_for_good_and_says_so() {
    story(async {
        let setup = Setup::new().set("STAFFAI_API_KEYS", KEY).set("STAFFAI_HTTP__KEY_TOKENS", "500");
        let world = begin(setup).await;
        world.model.always(Act::content(WORDS));
        for path in ["/v1/chat/completions", "/v1/responses"] {
            let mut ask = body(&"word ".repeat(2_000), false);
            ask["input"] = ask["messages"].clone();
            let (status, wait, _, answer) = told(with_key(&world, path, &ask, KEY).await).await;
            assert_eq!((status, wait), (400, None), "{answer}");
            assert_eq!(answer["error"]["code"], "context_length_exceeded");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("This model's maximum context length is 500 tokens"), "{message}");
        }
        assert_eq!(world.model.calls(), 0);
        let short = with_key(&world, "/v1/chat/completions", &body("hello", false), KEY).await;
        assert_eq!(short.status(), 200);
    });
}

#[test]
fn how_many_requests_of_a_key_run_at_once_is_a_setting() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_HTTP__KEY_CONCURRENT", "1")).await;
        world.model.always(Act::SaysAfter(Duration::from_secs(1), WORDS.to_owned()));
        let (one, other) = tokio::join!(chat(&world), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            chat(&world).await
        });
        assert_eq!((one.0, other.0), (200, 429));
        assert!(other.3["error"]["message"].as_str().unwrap().contains("1 requests in progress"), "{}", other.3);
    });
}

#[test]
fn a_request_that_its_client_leaves_costs_what_was_used() {
    story(async {
        let patient = Setup::new().set("STAFFAI_TURN__DEADLINE", "60s").set("STAFFAI_LLM__TIMEOUT", "60s");
        let world = begin(patient.set("STAFFAI_API_KEYS", KEY).set("STAFFAI_HTTP__KEY_TOKENS", "1500")).await;
        world.model.always(Act::Hangs);
        for number in 1..=5 {
            let left = reqwest::Client::new().post(format!("{}/v1/chat/completions", world.http())).bearer_auth(KEY);
            let left = left.json(&body("hello", true)).timeout(Duration::from_secs(20));
            let left = tokio::spawn(left.send());
            world.until("the model is asked", || (world.model.calls() == number).then_some(())).await;
            left.abort();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        world.model.always(Act::content(WORDS));
        let (status, _, _, answer) =
            told(with_key(&world, "/v1/chat/completions", &body("hello", false), KEY).await).await;
        assert_eq!(status, 200, "{answer}");
    });
}

#[test]
fn a_stream_that_its_client_leaves_after_some_words_costs_what_was_written_and_no_more() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY).set("STAFFAI_HTTP__KEY_TOKENS", "6000")).await;
        // The whole answer would be about 6,000 tokens; each prompt has some hundred.
        let content = WORDS.repeat(810);
        let pause = Duration::from_millis(30);
        world.model.always(Act::Streams(Streamed { content, piece: 8, pause, end: End::Well }));
        for _ in 0..5 {
            let mut answer = with_key(&world, "/v1/chat/completions", &body("hello", true), KEY).await;
            assert_eq!(answer.status(), 200);
            let mut told = String::new();
            while !told.contains("tide") {
                told.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().expect("more of it")));
            }
            drop(answer);
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        world.model.always(Act::content(WORDS));
        let (status, _, _, answer) =
            told(with_key(&world, "/v1/chat/completions", &body("hello", false), KEY).await).await;
        world.stop().await;
        let counted = counted(&world).await;
        assert_eq!(status, 200, "five whole answers were not charged: {answer} {counted:?}");
        let written: Vec<_> = counted.iter().filter(|(key, _)| key.ends_with(":out")).collect();
        assert!(!written.is_empty() && written.iter().all(|(_, tokens)| (10..=600).contains(*tokens)), "{counted:?}");
    });
}

// === Failures ===

#[test]
fn why_a_provider_refuses_is_told_with_its_own_wait_and_code() {
    story(async {
        let world = begin(Setup::new()).await;
        world.model.always(Act::RetryAfter("37"));
        let (status, wait, again, answer) = chat(&world).await;
        assert_eq!((status, wait, again), (429, Some(37), Some(false)), "{answer}");
        assert_eq!(answer["error"]["code"], "rate_limit_exceeded");
        let quota = json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}});
        for (status, body, code) in [
            (401, json!({"error": {"message": "Incorrect API key provided"}}), "upstream_refused"),
            (429, quota, "upstream_quota"),
            (402, json!({"error": {"message": "Insufficient Balance"}}), "upstream_quota"),
        ] {
            let asked = world.model.calls();
            world.model.always(Act::Error(status, body.to_string()));
            let (told, _, again, answer) = chat(&world).await;
            assert_eq!((told, again, &answer["error"]["code"]), (502, Some(false), &json!(code)), "{answer}");
            assert_eq!(world.model.calls(), asked + 1, "another try would not help");
        }
    });
}

#[test]
fn while_a_model_rests_clients_are_told_for_how_long() {
    story(async {
        let setup = Setup::new().set("STAFFAI_API_KEYS", format!("{KEY},{OTHER}")).set("STAFFAI_LLM__REST", "40s");
        let world = begin(setup.set("STAFFAI_TURN__DEADLINE", "20s")).await;
        world.model.always(Act::Status(500));
        let ask = async |key| told(with_key(&world, "/v1/chat/completions", &body("hello", false), key).await).await;
        // The third turn finds the breaker open before its last try.
        for key in [KEY, OTHER] {
            let (status, _, again, answer) = ask(key).await;
            assert_eq!((status, again), (502, Some(false)), "{answer}");
        }
        assert_eq!(ask(KEY).await.0, 503);
        let asked = world.model.calls();
        let (status, wait, again, answer) = ask(OTHER).await;
        assert_eq!((status, &answer["error"]["code"]), (503, &json!("upstream_resting")), "{answer}");
        assert!(wait.is_some_and(|wait| (20..=40).contains(&wait)), "{wait:?}");
        assert_eq!(again, Some(true));
        assert_eq!(world.model.calls(), asked, "it was left alone");
    });
}

#[test]
fn the_error_of_a_stream_that_broke_holds_no_part_of_the_answer() {
    story(async {
        let world = begin(Setup::new()).await;
        let content = "xylophone quokka xylophone quokka xylophone quokka".to_owned();
        for end in [End::CutAfter(4), End::ErrorAfter(4), End::SilenceAfter(4)] {
            let pause = Duration::from_millis(60);
            world.model.always(Act::Streams(Streamed { content: content.clone(), piece: 4, pause, end: end.clone() }));
            let all = events(post(&world, "/v1/chat/completions", &body("hello", true)).await).await;
            let said: String =
                all.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
            assert!(said.starts_with("xylophone"), "{end:?}: {all:?}");
            let message = all.last().unwrap()["error"]["message"].as_str().unwrap().to_owned();
            assert!(!message.contains("xylo") && !message.contains("quok"), "{message}");
            let ask = json!({"model": "scripted", "messages": [{"role": "user", "content": "hello"}]});
            let lines = post(&world, "/api/chat", &ask).await.text().await.unwrap();
            let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
            assert!(last["error"].as_str().is_some_and(|error| !error.contains("xylo")), "{lines}");
        }
    });
}

#[test]
fn a_wrong_key_and_none_are_told_apart() {
    story(async {
        let world = begin(Setup::new().set("STAFFAI_API_KEYS", KEY)).await;
        let (none, _, _, without) = chat(&world).await;
        let wrong = with_key(&world, "/v1/chat/completions", &body("hello", false), "sk-unknown").await;
        let (wrong, _, _, other) = told(wrong).await;
        assert_eq!((none, wrong), (401, 401));
        let message = |answer: &Value| answer["error"]["message"].as_str().unwrap().to_owned();
        assert!(message(&without).starts_with("send a key") && message(&other).contains("wrong"), "{without} {other}");
    });
}

// === Ends ===

#[test]
fn why_a_model_stopped_is_passed_on() {
    story(async {
        let world = begin(Setup::new()).await;
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let thoughts = json!({"role": "assistant", "content": "", "reasoning_content": "let me see"});
        for (message, finish, ended, text) in [
            (said("Half of it"), "content_filter", "content_filter", "Half of it"),
            (said(""), "content_filter", "content_filter", ""),
            (said("Half of it"), "length", "length", "Half of it"),
            (thoughts, "length", "length", ""),
            (said(""), "stop", "stop", ""),
        ] {
            world.model.always(whole(&message, Some(finish)));
            let asked = world.model.calls();
            let (status, _, _, answer) = chat(&world).await;
            assert_eq!(status, 200, "{message}: {answer}");
            let choice = &answer["choices"][0];
            assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!(ended), &json!(text)));
            let all = events(post(&world, "/v1/chat/completions", &body("hello", true)).await).await;
            assert_eq!(all.last().unwrap()["choices"][0]["finish_reason"], ended, "{all:?}");
            assert_eq!(world.model.calls(), asked + 2, "no sentence of ours asked again");
            let (status, _, _, answer) = told(post(&world, "/v1/responses", &json!({"input": "hello"})).await).await;
            let why = match ended {
                "length" => json!({"reason": "max_output_tokens"}),
                "content_filter" => json!({"reason": "content_filter"}),
                _ => Value::Null,
            };
            assert_eq!((status, &answer["incomplete_details"]), (200, &why), "{answer}");
        }
        // Nothing is queued behind an answer without a post.
        world.until_told("/api/v1/tree", |_| Some(())).await;
        assert!(world.drain().await, "no turn is left open");
    });
}

#[test]
fn a_call_that_the_limit_of_tokens_cut_is_told_as_one() {
    story(async {
        let world = begin(Setup::new()).await;
        let half = r#"{"at": "se"#;
        let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": half}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
        let mut ask = body("look", false);
        ask["tools"] = tools.clone();
        world.model.always(whole(&message, Some("length")));
        let (status, _, _, answer) = told(post(&world, "/v1/chat/completions", &ask).await).await;
        let choice = &answer["choices"][0];
        assert_eq!((status, &choice["finish_reason"]), (200, &json!("length")), "{answer}");
        assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], half);
        let (status, _, _, answer) = told(post(&world, "/api/chat", &ask).await).await;
        assert_eq!((status, &answer["done_reason"]), (200, &json!("length")), "{answer}");
        assert_eq!(answer["message"]["tool_calls"], json!([]), "this wire cannot tell half of a call");
        let function = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
        let ask_response = json!({"input": "look", "tools": [function]});
        let (_, _, _, answer) = told(post(&world, "/v1/responses", &ask_response).await).await;
        assert_eq!((&answer["status"], &answer["output"][0]["status"]), (&json!("incomplete"), &json!("incomplete")));

        // Without a finish reason it is not known to be a call.
        world.model.always(whole(&message, None));
        let (status, _, _, answer) = told(post(&world, "/v1/chat/completions", &ask).await).await;
        assert_eq!((status, &answer["error"]["code"]), (502, &json!("upstream_failed")), "{answer}");
    });
}

#[test]
fn a_refusal_arrives_as_one() {
    story(async {
        let world = begin(Setup::new()).await;
        let words = "I cannot help with that.";
        world.model.always(Act::Refuses(words.to_owned()));
        let (status, _, _, answer) = chat(&world).await;
        let message = &answer["choices"][0]["message"];
        assert_eq!((status, &message["refusal"], &message["content"]), (200, &json!(words), &Value::Null), "{answer}");
        let all = events(post(&world, "/v1/chat/completions", &body("hello", true)).await).await;
        let refused: Vec<&Value> = all.iter().map(|event| &event["choices"][0]["delta"]["refusal"]).collect();
        assert!(refused.contains(&&json!(words)), "{all:?}");
        let (_, _, _, answer) = told(post(&world, "/v1/responses", &json!({"input": "hello"})).await).await;
        let refusal = json!({"type": "refusal", "refusal": words});
        assert_eq!((&answer["status"], &answer["output"][0]["content"][0]), (&json!("completed"), &refusal));
        let streamed = events(post(&world, "/v1/responses", &json!({"input": "hello", "stream": true})).await).await;
        let kinds: Vec<&str> = streamed.iter().filter_map(|event| event["type"].as_str()).collect();
        assert!(
            kinds.contains(&"response.refusal.done") && !kinds.contains(&"response.output_text.delta"),
            "{kinds:?}"
        );
    });
}
