//! Files of messages over HTTP, as Discord's content servers give them: to whoever knows the address, without a token.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    guild::{files::File, ids::MessageId},
    world::Core,
};

/// `GET /attachments/{channel}/{file}/{name}`
pub async fn answer(State(core): State<Arc<Core>>, Path((_, id, _)): Path<(String, String, String)>) -> Response {
    let id = id.parse().unwrap_or(MessageId(0));
    let file = core.world().state.file(id).cloned();
    file.map_or_else(|| StatusCode::NOT_FOUND.into_response(), shown)
}

/// The file as an answer. Only pictures are shown by a browser; it saves all else, so that nothing in it can run.
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
