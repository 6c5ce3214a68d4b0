//! The WebSocket gateway: one task per connection, and one hub for all sessions.

use std::sync::Arc;

use axum::{
    extract::{ConnectInfo, State, WebSocketUpgrade},
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};

use super::{line::Line, world::Core};

mod connection;
mod encoder;
mod payloads;

use connection::Connection;
use encoder::Encoder;

/// Maximum size of a frame; frames over Discord's 4,096 bytes are closed with the proper code.
const LONGEST_FRAME: usize = 1 << 20;

/// Accepts a WebSocket, with `?v=10&encoding=json` and optionally `&compress=zlib-stream`.
pub async fn upgrade(
    State(core): State<Arc<Core>>,
    ConnectInfo(line): ConnectInfo<Line>,
    uri: Uri,
    upgrade: WebSocketUpgrade,
) -> Response {
    let asked = |key: &str| {
        let pairs = uri.query().unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let encoder = match (asked("encoding").unwrap_or("json"), asked("compress")) {
        ("json", None | Some("")) => Encoder::plain(),
        ("json", Some("zlib-stream")) => Encoder::zlib(),
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    let version_known = matches!(asked("v"), Some("9" | "10"));
    let at_resume_url = uri.path().contains("resume");
    let opened = {
        let mut world = core.world();
        if world.script.refuse_connects > 0 {
            world.script.refuse_connects -= 1;
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let opened = world.hub.open(line.clone());
        world.tally.stats.connections += u64::from(opened.is_some());
        opened
    };
    let Some((id, orders)) = opened else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let failed = core.clone();
    upgrade
        .max_message_size(LONGEST_FRAME)
        .max_frame_size(LONGEST_FRAME)
        .on_failed_upgrade(move |_| {
            failed.world().hub.close(id, false, tokio::time::Instant::now());
        })
        .on_upgrade(move |socket| async move {
            let connection = Connection::new(core, id, line, (socket, encoder), at_resume_url);
            connection.run(orders, version_known).await;
        })
}
