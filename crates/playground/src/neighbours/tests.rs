use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::json;

use super::*;
use crate::bot_process::Counted;

/// Records its orders.
#[derive(Default)]
struct Bot(Mutex<Vec<BotOrder>>);

#[async_trait::async_trait]
impl BotProcess for Bot {
    async fn order(&self, order: BotOrder) -> Result<(), OrderRefusal> {
        self.0.lock().push(order);
        Ok(())
    }

    fn kill(&self) -> Result<(), OrderRefusal> {
        Err(OrderRefusal::Away)
    }

    fn counted(&self) -> Counted {
        Counted::default()
    }
}

async fn serve(router: Router) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

fn neighbours(places: Vec<(&'static str, u16)>) -> (Arc<Neighbours>, Arc<Bot>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bot = Arc::new(Bot::default());
    (Neighbours::at(places, None, Arc::clone(&bot) as _), bot)
}

#[tokio::test]
async fn those_that_list_models_are_offered_and_one_of_these_can_be_chosen() {
    let of_openai =
        json!({"object": "list", "data": [{"id": "qwen3"}, {"id": "nomic-embed-text"}, {"id": 7}, {"id": "phi4"}]});
    let of_ollama = json!({"models": [{"name": "llama3:8b"}]});
    let openai = serve(Router::new().route("/v1/models", get(async || axum::Json(of_openai)))).await;
    let ollama = serve(Router::new().route("/api/tags", get(async || axum::Json(of_ollama)))).await;
    let other = serve(Router::new().route("/v1/models", get(async || "hello"))).await;
    let closed = serve(Router::new().route("/v1/models", get(async || StatusCode::UNAUTHORIZED))).await;
    let places = vec![("LM Studio", openai), ("Ollama", ollama), ("other", other), ("closed", closed), ("nothing", 1)];
    let (neighbours, bot) = neighbours(places);
    let offers = neighbours.offers().await;
    let told: Vec<_> = offers.iter().map(|offer| (offer.name, offer.models.join(" "))).collect();
    assert_eq!(told, [("LM Studio", "qwen3 phi4".to_owned()), ("Ollama", "llama3:8b".to_owned())]);

    let choice = |url: &str, model: &str| Some(Choice { url: url.to_owned(), model: model.to_owned() });
    let (url, elsewhere) = (&offers[0].url, "http://127.0.0.1:1");
    for wrong in [choice(elsewhere, "qwen3"), choice(url, "nomic-embed-text"), choice("http://example.com", "phi4")] {
        assert_eq!(neighbours.choose(wrong).await, Err(NotTaken::Gone));
    }
    assert_eq!(neighbours.choose(choice(url, "phi4")).await, Ok(()));
    assert_eq!(neighbours.chosen(), choice(url, "phi4"));
    assert_eq!(neighbours.choose(None).await, Ok(()));
    assert_eq!(neighbours.chosen(), None);
    assert_eq!(*bot.0.lock(), [BotOrder::AskModel(choice(url, "phi4")), BotOrder::AskModel(None)]);
}

#[tokio::test]
async fn a_slow_or_too_large_list_is_not_offered_and_delays_no_request() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let port = silent.local_addr().expect("an address").port();
    let huge = format!("{{\"data\": [{{\"id\": \"{}\"}}]}}", "x".repeat(LIST_BYTES));
    let huge = serve(Router::new().route("/v1/models", get(async move || huge))).await;
    let (neighbours, _) = neighbours(vec![("silent", port), ("huge", huge)]);
    let begun = Instant::now();
    assert_eq!(neighbours.offers().await, []);
    assert!(begun.elapsed() < REPORT_TIMEOUT * 3, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_configured_model_that_cannot_be_reached_is_told_of_with_the_cause() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let unreachable = async |port: u16| {
        let url = format!("http://127.0.0.1:{port}/v1");
        let configured = Configured { model: "gpt-5-mini".to_owned(), shown: "the address".to_owned(), url };
        Neighbours::at(Vec::new(), Some(configured), Arc::new(Bot::default())).unreachable().await
    };
    let port = serve(Router::new()).await;
    assert_eq!(unreachable(port).await, None, "any answer will do");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let why = unreachable(closed).await.unwrap();
    assert!(why.starts_with("The model gpt-5-mini at the address cannot be reached: Connection refused"), "{why}");
    assert_eq!(neighbours(Vec::new()).0.unreachable().await, None, "the demo model is none of these");
}
