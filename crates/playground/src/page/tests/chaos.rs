//! Fault injection orders, with the page's requests.

use super::*;
use ports::{Fault, Faults as _};

impl Place {
    async fn order(&self, token: &str, body: &Value) -> u16 {
        let request = self.request(Method::POST, "/playground/chaos").header("x-staffai-chaos", token).json(body);
        request.send().await.expect("an answer").status().as_u16()
    }
}

#[tokio::test]
async fn the_page_breaks_an_actor_with_the_token_that_it_was_told() {
    let place = Place::open().await;
    let told: Value = place.client.get(place.url("/playground/chaos")).send().await.unwrap().json().await.unwrap();
    let token = told["token"].as_str().unwrap();
    let strike = json!({"actor": "staffai/journal", "strike": "crash"});
    assert_eq!(place.order(token, &strike).await, 409, "it does not run");
    let mut ordered = place.strikes.ordered("staffai/journal").unwrap();
    assert_eq!(place.order("a guess", &strike).await, 403);
    assert_eq!(place.request(Method::POST, "/playground/chaos").json(&strike).send().await.unwrap().status(), 403);
    assert_eq!(place.order(token, &strike).await, 204);
    assert_eq!(ordered.recv().await, Some(Fault::Panic));
    assert_eq!(place.order(token, &json!({"trouble": "model_slow"})).await, 204);
    assert_eq!(place.order(token, &json!({"trouble": "fire"})).await, 400);
    assert_eq!(place.order(token, &json!({"trouble": "kill_bot"})).await, 409, "it is away");
    let told: Value = place.client.get(place.url("/playground/chaos")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&told["ordered"], &told["crashes"]), (&json!(2), &json!(0)), "none was seen: {told}");
    assert_eq!(told["lasting"][3], json!(["model_slow", 8_000]));
}

#[tokio::test]
async fn no_other_page_breaks_anything() {
    let place = Place::open().await;
    let _ordered = place.strikes.ordered("staffai/journal").unwrap();
    let strike = json!({"actor": "staffai/journal", "strike": "crash"});
    let foreign = [("origin", "http://evil.example"), ("host", "evil.example"), ("sec-fetch-site", "cross-site")];
    for (name, value) in foreign {
        for method in [Method::GET, Method::POST] {
            let request = place.client.request(method, place.url("/playground/chaos")).json(&strike);
            let request = request.header("x-staffai-chaos", "token-of-the-page").header(name, value);
            assert_eq!(request.send().await.unwrap().status(), 403, "{name}");
        }
    }
    assert_eq!(place.chaos.caused().ordered, 0);
}

#[tokio::test]
async fn settings_are_set_up_from_the_page_only() {
    let place = Place::open().await;
    let typed = json!({"part": "model", "values": ["http://localhost:4000", "sk-1", "fast"]});
    let send = async |token: &str, body: &Value| {
        let request = place.request(Method::POST, "/playground/setup").header("x-staffai-chaos", token).json(body);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(send("a guess", &typed).await, 403);
    for (name, value) in [("origin", "http://evil.example"), ("host", "evil.example"), ("sec-fetch-site", "cross-site")]
    {
        let request = place.client.post(place.url("/playground/setup")).header("x-staffai-chaos", "token-of-the-page");
        assert_eq!(request.header(name, value).json(&typed).send().await.unwrap().status(), 403, "{name}");
    }
    assert_eq!(send("token-of-the-page", &json!({"part": "model", "values": ["one"]})).await, 400);
    assert_eq!(place.setup.0.lock().len(), 0);
    assert_eq!(send("token-of-the-page", &typed).await, 200);
    assert_eq!(*place.setup.0.lock(), [3]);
}
