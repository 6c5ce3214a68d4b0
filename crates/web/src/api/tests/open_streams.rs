//! Responses in progress when the key that opened them is revoked.

use std::convert::Infallible;

use axum::body::Body;
use futures_util::stream;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::*;

/// Keys that change, at a time that changes.
struct Changing(RwLock<(KeyRing, u64)>);

impl Keys for Changing {
    fn are_unused(&self) -> bool {
        self.0.read().0.is_unused()
    }

    fn holder(&self, presented: &str) -> Option<Arc<ApiKey>> {
        let kept = self.0.read();
        kept.0.find(presented, Timestamp(kept.1))
    }

    fn still_opens(&self, key: &ApiKey) -> bool {
        let kept = self.0.read();
        kept.0.still_opens(key, Timestamp(kept.1))
    }
}

/// Endless responses: one that keeps sending, one that sends once, one that never sends, and a socket.
pub(super) fn routes() -> Router {
    let word = || Ok::<_, Infallible>("word\n");
    let sends = async move || {
        Body::from_stream(stream::unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((word(), ()))
        }))
    };
    let waits = async move || Body::from_stream(stream::once(async move { word() }).chain(stream::pending()));
    let polls = async || std::future::pending::<()>().await;
    let socket = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(frame)) = socket.next().await {
                if socket.send(frame).await.is_err() {
                    return;
                }
            }
        })
    };
    let router = Router::new().route("/v1/sends", get(sends)).route("/v1/waits", get(waits));
    router.route("/v1/polls", get(polls)).route("/v1/socket", get(socket))
}

fn laptop() -> ApiKey {
    ApiKey {
        name: "laptop".to_owned(),
        sha256: KeyHash::of("sk-of-the-laptop"),
        rights: vec![Right::Chat],
        models: Vec::new(),
        doors: Vec::new(),
        profiles: Vec::new(),
        limits: None,
        made_at: 0,
        expires_at: Some(1_000),
    }
}

/// The change that ends the key's validity.
type End = fn(&mut (KeyRing, u64));

#[tokio::test]
async fn answers_under_way_end_with_the_key_that_opened_them() {
    let ends: [(&str, End); 4] = [
        ("revoked", |kept| kept.0 = KeyRing::default().with([])),
        ("expired", |kept| kept.1 = 1_000),
        ("without its right", |kept| kept.0 = KeyRing::new([ApiKey { rights: vec![Right::Tools], ..laptop() }])),
        ("of other models", |kept| kept.0 = KeyRing::new([ApiKey { models: vec!["fast".to_owned()], ..laptop() }])),
    ];
    for (how, end) in ends {
        let keys = Arc::new(Changing(RwLock::new((KeyRing::new([laptop()]), 500))));
        let served = Arc::new(Served::over(keys.clone(), None, Limits::default()).await);
        let mut reading = Vec::new();
        for path in ["/v1/sends", "/v1/waits", "/v1/polls"] {
            let served = Arc::clone(&served);
            reading.push(tokio::spawn(async move {
                let request = served.client.get(format!("{}{path}", served.url)).bearer_auth("sk-of-the-laptop");
                let mut answer = request.timeout(PATIENCE * 2).send().await.unwrap();
                let status = answer.status().as_u16();
                let end = loop {
                    match answer.chunk().await {
                        Ok(Some(_)) => {}
                        Ok(None) => break "whole",
                        Err(error) if error.is_timeout() => break "never",
                        Err(_) => break "cut",
                    }
                };
                (status, end)
            }));
        }
        let mut request = tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(format!(
            "ws://{}/v1/socket",
            served.address
        ))
        .unwrap();
        request.headers_mut().insert("authorization", "Bearer sk-of-the-laptop".parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        socket.send("hello".into()).await.unwrap();
        assert!(socket.next().await.unwrap().is_ok(), "it is open");
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(reading.iter().all(|reader| !reader.is_finished()), "they go on while the key is in force");

        end(&mut keys.0.write());
        let ended = Instant::now();
        let mut told = Vec::new();
        for reader in reading {
            told.push(reader.await.unwrap());
        }
        assert_eq!(told, [(200, "cut"), (200, "cut"), (401, "whole")], "{how}");
        let closed = tokio::time::timeout(PATIENCE, async { while let Some(Ok(_)) = socket.next().await {} }).await;
        assert!(closed.is_ok(), "{how}: the socket stays open");
        assert!(ended.elapsed() < Duration::from_secs(2), "{how}: {:?}", ended.elapsed());
    }
}

#[tokio::test]
async fn what_was_opened_without_a_key_ends_with_the_first_key() {
    let keys = Arc::new(Changing(RwLock::new((KeyRing::default(), 500))));
    let served = Served::over(keys.clone(), None, Limits::default()).await;
    let mut answer = served.client.get(format!("{}/v1/waits", served.url)).send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    keys.0.write().0 = KeyRing::new([laptop()]);
    let rest = tokio::time::timeout(Duration::from_secs(2), answer.chunk()).await;
    assert!(matches!(rest, Ok(Err(_))), "{rest:?}");
}
