//! Socket Mode.

use std::collections::HashMap;

use axum::extract::ws::{Message as Wire, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{Frame, Open, Service};

/// Opens a connection; its ticket is used up.
pub async fn open(
    State(service): State<Service>,
    Query(query): Query<HashMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let ticket = query.get("ticket").and_then(|ticket| ticket.parse().ok());
    if !ticket.is_some_and(|ticket| service.state.lock().tickets.remove(&ticket)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    upgrade.on_upgrade(move |socket| serve(service, socket))
}

async fn serve(service: Service, mut socket: WebSocket) {
    let (frames, mut sent) = mpsc::unbounded_channel();
    let half_open = watch::Sender::new(false);
    let mut silent = half_open.subscribe();
    let (number, hello) = {
        let mut state = service.state.lock();
        state.opened += 1;
        let number = state.opened;
        let life = state.life;
        let many = state.sockets.len() + 1;
        (number, json!({"type": "hello", "num_connections": many, "debug_info": {"approximate_connection_time": life}}))
    };
    if socket.send(Wire::text(hello.to_string())).await.is_err() {
        return;
    }
    {
        let mut state = service.state.lock();
        state.sockets.insert(number, Open { frames, half_open });
        state.most_open = state.most_open.max(state.sockets.len());
    }
    service.change();
    loop {
        tokio::select! {
            _ = silent.changed() => {
                // The socket stays open, and no end of it reads or writes.
                service.state.lock().sockets.remove(&number);
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                break;
            }
            frame = sent.recv() => match frame {
                Some(Frame::Text(text)) => {
                    if socket.send(Wire::text(text)).await.is_err() {
                        break;
                    }
                }
                Some(Frame::Close) | None => break,
            },
            heard = socket.recv() => match heard {
                Some(Ok(Wire::Text(text))) => acknowledged(&service, number, &text),
                Some(Ok(Wire::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    service.state.lock().sockets.remove(&number);
    service.change();
}

fn acknowledged(service: &Service, number: u64, text: &str) {
    let frame: Value = serde_json::from_str(text).expect("an acknowledgement is JSON");
    let envelope = frame["envelope_id"].as_str().expect("it names its envelope").to_owned();
    let mut state = service.state.lock();
    let pending = state.pending.remove(&envelope);
    let on_its_socket = pending.is_some_and(|pending| pending.socket == Some(number));
    state.acks.push(on_its_socket);
    state.payloads.extend(frame.get("payload").cloned());
    drop(state);
    service.change();
}
