//! Serves messages' files over HTTP like Discord's CDN: without a token.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use futures_util::StreamExt;

use super::{
    guild::{files::File, ids::MessageId},
    script::FileFault,
    world::Core,
};

/// `GET /attachments/{channel}/{file}/{name}`
pub async fn answer(State(core): State<Arc<Core>>, Path((_, id, _)): Path<(String, String, String)>) -> Response {
    let fault = core.world().script.files.clone();
    if let Some(fault) = fault {
        return instead(fault);
    }
    let id = id.parse().unwrap_or(MessageId(0));
    let file = core.world().state.file(id).cloned();
    file.map_or_else(|| StatusCode::NOT_FOUND.into_response(), shown)
}

/// Time between two bytes of a file that drips.
const DRIP: Duration = Duration::from_secs(1);

fn instead(fault: FileFault) -> Response {
    let (piece, pause) = match fault {
        FileFault::Redirect(address) => return (StatusCode::FOUND, [(header::LOCATION, address)]).into_response(),
        FileFault::Drip => (Bytes::from_static(b"x"), DRIP),
        FileFault::Endless => (Bytes::from_static(&[b'x'; 16 << 10]), Duration::ZERO),
    };
    // The stream ends when the client disconnects.
    let pieces = futures_util::stream::repeat(piece).then(move |piece| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::convert::Infallible>(piece)
    });
    Body::from_stream(pieces).into_response()
}

/// Returns the file as a response. Browsers display only pictures and save other files, so that nothing in them can
/// run.
pub fn shown(file: File) -> Response {
    let picture = file.picture();
    let headers = [
        (header::CONTENT_TYPE, picture.unwrap_or("application/octet-stream")),
        (header::CONTENT_DISPOSITION, if picture.is_some() { "inline" } else { "attachment" }),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, file.bytes).into_response()
}
