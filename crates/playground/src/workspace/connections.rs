//! Socket Mode.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::ws::{Message as Wire, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::Workspace;
use super::state::{Frame, Open};

/// The maximum number of open connections.
const CONNECTIONS: usize = 64;
/// The maximum number of frames that wait for one connection.
const FRAMES: usize = 4_096;
/// The time that a silent connection stays open.
const SILENT: Duration = Duration::from_secs(60);

/// Opens a connection; its ticket is used up.
pub async fn open(
    State(workspace): State<Workspace>,
    Query(query): Query<HashMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let ticket = query.get("ticket").and_then(|ticket| ticket.parse().ok());
    let app = {
        let mut state = workspace.state.lock();
        let app = ticket.and_then(|ticket| state.uses_ticket(ticket));
        app.filter(|_| state.sockets.len() < CONNECTIONS)
    };
    let Some(app) = app else { return StatusCode::FORBIDDEN.into_response() };
    upgrade.on_upgrade(move |socket| serve(workspace, app, socket))
}

async fn serve(workspace: Workspace, app: usize, mut socket: WebSocket) {
    let (frames, mut sent) = mpsc::channel(FRAMES);
    let half_open = watch::Sender::new(false);
    let mut silent = half_open.subscribe();
    let (number, hello) = {
        let mut state = workspace.state.lock();
        state.opened += 1;
        let (many, life) = (state.sockets.len() + 1, state.life);
        let hello =
            json!({"type": "hello", "num_connections": many, "debug_info": {"approximate_connection_time": life}});
        (state.opened, hello)
    };
    if socket.send(Wire::text(hello.to_string())).await.is_err() {
        return;
    }
    {
        let mut state = workspace.state.lock();
        state.sockets.insert(number, Open { app, frames, silent: half_open });
        state.recorded.most_open = state.recorded.most_open.max(state.sockets.len());
    }
    workspace.change();
    loop {
        tokio::select! {
            _ = silent.changed() => {
                // The socket stays open, and no end of it reads or writes.
                workspace.state.lock().sockets.remove(&number);
                tokio::time::sleep(SILENT).await;
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
                Some(Ok(Wire::Text(text))) => acknowledged(&workspace, number, &text),
                Some(Ok(Wire::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    {
        let mut state = workspace.state.lock();
        let open = state.sockets.remove(&number).is_some();
        state.recorded.deserted += usize::from(open && state.sockets.is_empty());
    }
    workspace.change();
}

/// Takes an acknowledgement. Others are skipped.
fn acknowledged(workspace: &Workspace, number: u64, text: &str) {
    let frame: Value = serde_json::from_str(text).unwrap_or_default();
    let envelope = frame["envelope_id"].as_str().and_then(|id| id.strip_prefix("envelope-")?.parse().ok());
    let Some(envelope) = envelope else { return };
    let mut state = workspace.state.lock();
    let pending = state.pending.remove(&envelope);
    let on_its_socket = pending.as_ref().is_some_and(|pending| pending.socket == Some(number));
    let took = pending.as_ref().map(|pending| pending.given.elapsed());
    let sent = pending.filter(|pending| pending.payload["type"] == "view_submission");
    let sent_view = sent.and_then(|pending| pending.payload["view"]["id"].as_str().map(str::to_owned));
    if let Some(view) = sent_view {
        state.answers(&view, frame.get("payload"));
    }
    state.recorded.ack(on_its_socket, took, frame.get("payload").cloned());
    drop(state);
    workspace.change();
}
