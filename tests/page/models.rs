//! A local model server, which the page offers in place of the demo model.

use std::net::{Ipv4Addr, TcpListener};

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::{LAST, playground_with};

/// Serves one model; returns its port.
pub(crate) fn model_server() -> u16 {
    model_server_with(|asked| {
        let name = asked["model"].as_str().unwrap_or_default();
        format!("The tide is out, says the harbour's own model {name}.")
    })
}

/// Serves a model that answers each request with the text that `words` returns; returns its port.
pub(crate) fn model_server_with(words: impl Fn(&Value) -> String + Clone + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port that is free");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a listener");
    let answer = async move |axum::Json(asked): axum::Json<Value>| {
        let content = json!({"type": "text", "response": words(&asked), "data": ""}).to_string();
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        let about = json!({"id": "c", "created": 0, "model": asked["model"]});
        let with = |kind: &str, choice: Value| {
            let mut whole = about.clone();
            (whole["object"], whole["choices"], whole["usage"]) = (kind.into(), json!([choice]), usage.clone());
            whole
        };
        if asked["stream"] != true {
            let choice =
                json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}});
            return axum::Json(with("chat.completion", choice)).into_response();
        }
        let choice = json!({"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": content}});
        let text = format!("data: {}\n\ndata: [DONE]\n\n", with("chat.completion.chunk", choice));
        ([("content-type", "text/event-stream")], text).into_response()
    };
    let list = json!({"object": "list", "data": [{"id": "tide-7b", "object": "model"}]});
    let router =
        Router::new().route("/v1/models", get(async || axum::Json(list))).route("/v1/chat/completions", post(answer));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, router).await
        })
    });
    port
}

impl Browser {
    /// Asks until an answer has this text.
    fn until_said(&self, question: &str, part: &str) {
        for _ in 0..20 {
            let answers = "document.querySelectorAll('#messages .tag').length";
            let before = self.run(&format!("return {answers}"));
            self.say(question);
            self.until(&format!("{answers} > {before} && !{LAST}.classList.contains('growing')"));
            let text = self.run(&format!("return {LAST}.innerText"));
            if text.as_str().is_some_and(|text| text.contains(part)) {
                return;
            }
        }
        panic!("never answered with {part:?}");
    }
}

#[test]
fn a_model_of_this_machine_is_offered_and_answers_once_it_is_chosen() {
    let home = tempfile::tempdir().expect("a folder");
    let port = model_server().to_string();
    let (_program, url) = playground_with(home.path(), &[("STAFFAI_LLM__LOCAL_PORTS", &port)]);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('models').innerText.includes('tide-7b')");
    assert_eq!(browser.finds("an offer"), Vec::<String>::new());
    browser.say("@staffai what is this?");
    browser.answer("playground");
    let before = browser.run_async(IN_FORCE);
    browser.click("#models .press");
    browser.until("document.getElementById('models').innerText.includes('Answers come from tide-7b')");
    // The page shows it only once the bot uses it.
    assert_ne!(browser.run_async(IN_FORCE), before);
    // This model cannot be made to fail.
    browser.until("![...document.querySelectorAll('.trouble')].some(one => one.dataset.trouble === 'model_down')");
    browser.say("@staffai what does the tide do?");
    browser.answer("own model");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // A restarted bot uses it as well.
    browser.click("[data-trouble=kill_bot]");
    browser.until("document.querySelector('.chaos-counts strong').textContent === '1'");
    browser.until_said("@staffai and the tide after that?", "own model");
    browser.click("#models .press");
    browser.until("document.getElementById('models').innerText.includes('Use it')");
    browser.until_said("@staffai what is this?", "playground");
}

/// The version of the bot's configuration, for asynchronous scripts.
const IN_FORCE: &str = "const done = arguments[0]; fetch('/readyz').then(told => told.json()).then(told => done(told.configuration.version))";

/// True if the tour would start on an idle page, for asynchronous scripts.
const BEGINS: &str = "const done = arguments[0]; import('/playground/tour.js').then(tour => done(tour.begins()))";

#[test]
fn the_tour_does_not_begin_by_itself_where_a_real_model_answers() {
    let address = format!("http://127.0.0.1:{}", model_server());
    let real = [("LITELLM_API_URL", address.as_str()), ("LITELLM_MODEL", "tide-7b"), ("LITELLM_API_KEY", "sk-1")];
    for (variables, begins) in [(&real[..], false), (&[][..], true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (_program, url) = playground_with(folder.path(), variables);
        let browser = Browser::open_untouched(folder.path());
        browser.go(&format!("{url}/"));
        browser.until("document.querySelector('.idea') && document.querySelector('[data-trouble=kill_bot]')");
        assert_eq!(browser.run_async(BEGINS), begins);
    }
}

#[test]
fn a_configured_model_that_cannot_be_reached_is_told_of_on_the_page() {
    let home = tempfile::tempdir().expect("a folder");
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("an address").port();
    let address = format!("http://127.0.0.1:{closed}");
    let (_program, url) =
        playground_with(home.path(), &[("LITELLM_API_URL", &address), ("LITELLM_MODEL", "gpt-5-mini")]);
    let browser = Browser::open(home.path());
    browser.go(&format!("{url}/"));
    browser.until("document.getElementById('models').innerText.includes('gpt-5-mini')");
    let told = browser.run("return document.getElementById('models').innerText");
    let told = told.as_str().expect("text");
    assert!(told.contains(&address) && told.contains("cannot be reached: Connection refused"), "{told}");
    assert!(told.contains("Check LITELLM_API_URL"), "{told}");
}
