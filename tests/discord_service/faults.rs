//! Each fault has its documented effect.

use std::time::Duration;

use playground::service::{Options, Service};
use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Error;

use crate::support::{DEADLINE, Gateway, INTENTS, Rest, channel, member, options, start};

#[tokio::test]
async fn a_created_message_can_go_unanswered() {
    let service = start().await;
    let (general, rest) = (channel(&service, "general"), Rest::of(&service));
    service.faults().drop_answers(2);
    let body = json!({"content": "x", "nonce": "n", "enforce_nonce": true});
    let path = format!("/channels/{general}/messages");
    for _ in 0..2 {
        assert!(rest.send(Method::POST, &path, Some(body.clone())).await.is_err());
    }
    assert_eq!(rest.write(general, body).await.0, 200);
    assert_eq!(service.messages(general).len(), 1);
    assert_eq!((service.stats().duplicate_nonces, service.stats().by_status[&0]), (2, 2));
}

#[tokio::test]
async fn answers_can_be_replaced_and_delayed() {
    let service = start().await;
    let (general, help, rest) = (channel(&service, "general"), channel(&service, "help"), Rest::of(&service));
    let faults = service.faults();
    faults.answer_next("POST /channels/{channel}/messages", 1, 503, Some(Duration::from_secs(2)));
    faults.answer_next("*", 1, 429, Some(Duration::from_millis(1_500)));
    let (status, headers, _) = rest.write(general, json!({"content": "x"})).await;
    assert_eq!((status, headers["retry-after"].to_str().unwrap()), (503, "2"));
    let (status, _, body) = rest.write(general, json!({"content": "x"})).await;
    assert_eq!((status, body["retry_after"].as_f64().unwrap()), (429, 1.5));
    assert_eq!(rest.write(general, json!({"content": "x"})).await.0, 200);

    faults.refuse_next("POST /channels/{channel}/messages", 1, 400, 30_046);
    let (status, _, body) = rest.write(general, json!({"content": "x"})).await;
    assert_eq!((status, &body["code"]), (400, &json!(30_046)));

    faults.delay_channel(general, Duration::from_secs(600));
    let slow = timeout(Duration::from_millis(200), rest.write(general, json!({"content": "x"})));
    assert!(slow.await.is_err());
    assert_eq!(rest.write(help, json!({"content": "x"})).await.0, 200);
    faults.delay_channel(general, Duration::from_millis(300));
    let asked = Instant::now();
    assert_eq!(rest.write(general, json!({"content": "x"})).await.0, 200);
    assert!(asked.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn channels_can_be_forbidden_and_deleted() {
    let service = start().await;
    let (general, rest) = (channel(&service, "general"), Rest::of(&service));
    let (mut gateway, _) = Gateway::login(&service).await;
    service.faults().forbid_channel(general, true);
    let (status, _, body) = rest.write(general, json!({"content": "x"})).await;
    assert_eq!((status, &body["code"]), (403, &json!(50_013)));
    service.faults().forbid_channel(general, false);
    assert_eq!(rest.write(general, json!({"content": "x"})).await.0, 200);
    service.faults().delete_channel(general);
    let (status, _, body) = rest.write(general, json!({"content": "x"})).await;
    assert_eq!((status, &body["code"]), (404, &json!(10_003)));
    assert_eq!(gateway.event("CHANNEL_DELETE").await["id"], general.to_string());
}

#[tokio::test]
async fn gateways_are_closed_invalidated_and_asked_to_reconnect() {
    let service = start().await;
    let faults = service.faults();
    let (mut gateway, ready) = Gateway::login(&service).await;
    faults.reconnect();
    assert_eq!(gateway.op(7).await["d"], json!(null));
    faults.invalidate_sessions(true);
    assert_eq!(gateway.op(9).await["d"], true);
    faults.close_gateways(4000);
    assert_eq!(gateway.end().await, Some(4000));

    faults.close_resumes(1, 4009);
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], 2).await;
    assert_eq!(gateway.end().await, Some(4009));
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], 2).await;
    gateway.event("RESUMED").await;
    faults.invalidate_sessions(false);
    assert_eq!(gateway.op(9).await["d"], false);
    gateway.identify(service.token(), INTENTS).await;
    gateway.event("READY").await;

    faults.refuse_connects(1);
    let url = service.api_url().replace("http", "ws") + "/gateway/?v=10&encoding=json";
    let Err(Error::Http(response)) = tokio_tungstenite::connect_async(&url).await else {
        panic!("the upgrade was not refused");
    };
    assert_eq!(response.status().as_u16(), 503);
    assert!(tokio_tungstenite::connect_async(&url).await.is_ok());
}

#[tokio::test]
async fn a_refused_resume_leaves_identify_open() {
    let service = start().await;
    let (gateway, ready) = Gateway::login(&service).await;
    drop(gateway);
    service.faults().refuse_resumes(1);
    let mut gateway = Gateway::connect(&service).await;
    gateway.resume(&service, &ready["session_id"], 2).await;
    assert_eq!(gateway.op(9).await["d"], false);
    gateway.identify(service.token(), INTENTS).await;
    gateway.event("READY").await;
    assert_eq!(service.stats().resumes_refused, 1);
}

#[tokio::test]
async fn a_silent_service_neither_acknowledges_nor_closes() {
    let service = Service::start(Options { heartbeat: Duration::from_millis(50), ..options() }).await.unwrap();
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let (mut gateway, _) = Gateway::login(&service).await;
    service.faults().freeze(true);
    gateway.send(json!({"op": 1, "d": null})).await;
    let id = service.says(ada, general, "anybody there?", None);
    assert!(timeout(Duration::from_millis(300), gateway.next()).await.is_err(), "longer than two heartbeats");
    service.faults().freeze(false);
    assert_eq!(gateway.event("MESSAGE_CREATE").await["id"], id.to_string());

    service.faults().stop_acks(true);
    gateway.send(json!({"op": 1, "d": null})).await;
    service.says(ada, general, "still there?", None);
    loop {
        let payload = gateway.next().await.unwrap();
        if payload["t"] == "MESSAGE_CREATE" {
            break;
        }
        assert_eq!(payload["op"], 11, "only the acknowledgement from before");
    }
}

#[tokio::test]
async fn events_can_come_several_times_and_frames_can_be_anything() {
    let service = start().await;
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let (mut gateway, _) = Gateway::login(&service).await;
    service.faults().duplicate_events(2);
    service.says(ada, general, "x", None);
    let first = gateway.next().await.unwrap();
    assert_eq!(gateway.next().await.unwrap(), first);
    assert_eq!(gateway.next().await.unwrap(), first);
    service.faults().send_text("{\"op\": 0, \"t\": ");
    let parsed = tokio::spawn(async move { gateway.next().await }).await;
    assert!(parsed.is_err(), "the text must not parse");
}

#[tokio::test]
async fn with_the_socket_cut_at_random_frames_nothing_is_lost_or_doubled() {
    let service = start().await;
    let (general, ada) = (channel(&service, "general"), member(&service, "Ada"));
    let (mut gateway, ready) = Gateway::login(&service).await;
    service.faults().cut_randomly(7, 4);
    let speaker = service.clone();
    let said = tokio::spawn(async move {
        let mut ids = Vec::new();
        for n in 0..200 {
            ids.push(speaker.says(ada, general, &n.to_string(), None).to_string());
            tokio::task::yield_now().await;
        }
        ids
    });
    let mut heard = Vec::new();
    let mut seq = gateway.seq;
    while heard.len() < 200 {
        match gateway.next().await {
            Ok(payload) if payload["op"] == 0 => {
                let fresh = payload["s"].as_u64().unwrap();
                assert_eq!(fresh, seq + 1);
                seq = fresh;
                if payload["t"] == "MESSAGE_CREATE" {
                    heard.push(payload["d"]["id"].as_str().unwrap().to_owned());
                }
            }
            Ok(_) => {}
            Err(code) => {
                assert_eq!(code, None);
                gateway = Gateway::connect(&service).await;
                gateway.resume(&service, &ready["session_id"], seq).await;
            }
        }
    }
    assert_eq!(heard, timeout(DEADLINE, said).await.unwrap().unwrap());
    assert!(service.stats().resumes > 10, "the dice must have cut often: {:?}", service.stats());
}

#[tokio::test]
async fn stop_breaks_everything_and_frees_the_port() {
    let service = start().await;
    let (mut gateway, _) = Gateway::login(&service).await;
    service.stop().await;
    assert_eq!(gateway.end().await, None);
    let rest = Rest::of(&service);
    assert!(rest.send(Method::GET, "/gateway", None).await.is_err());
    let addr = service.api_url().trim_start_matches("http://").parse().unwrap();
    Service::start(Options { addr, ..options() }).await.unwrap();
    assert_eq!(rest.get("/gateway").await.0, 200);
}
