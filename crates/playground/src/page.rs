//! The playground's chat page and its API, for a browser on this machine.
//!
//! The page is compiled in and loads nothing from elsewhere. It has no login, so it only accepts requests that name
//! this machine as their host (against DNS rebinding) and that come from itself (against other pages in the browser).

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post};
use secrecy::SecretString;
use tokio::sync::Semaphore;

use super::chaos::Chaos;
use super::neighbours::Neighbours;
use super::programs;
use super::service::Service;
use super::setup::Setup;
use super::workspace::Workspace;

mod actions;
mod api;
mod chaos;
mod events;
mod models;
mod setup;
mod workspace;

#[cfg(test)]
mod tests;

use api::ApiError;

/// Maximum size of a request body, in bytes: a message of the maximum length with every character escaped.
const BODY_BYTES: usize = 32 * 1024;
/// Maximum size of a message with files, in bytes: one file of the maximum size in base64, and some room.
const UPLOAD_BYTES: usize = 12 << 20;
/// Maximum number of open event streams; each browser tab has one.
const STREAMS: usize = 64;
/// Content security policy: nothing is loaded from elsewhere, and no page may frame this one.
const POLICY: &str = "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// Every file of the page: path, media type, text.
const FILES: [(&str, &str, &str); 45] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/playground/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/playground/chaos.css", "text/css; charset=utf-8", include_str!("page/chaos.css")),
    ("/playground/page.js", SCRIPT, include_str!("page/page.js")),
    ("/playground/world.js", SCRIPT, include_str!("page/world.js")),
    ("/playground/asking.js", SCRIPT, include_str!("page/asking.js")),
    ("/playground/places.js", SCRIPT, include_str!("page/places.js")),
    ("/playground/list.js", SCRIPT, include_str!("page/list.js")),
    ("/playground/questions.js", SCRIPT, include_str!("page/questions.js")),
    ("/playground/form.js", SCRIPT, include_str!("page/form.js")),
    ("/playground/settings.js", SCRIPT, include_str!("page/settings.js")),
    ("/playground/view.js", SCRIPT, include_str!("page/view.js")),
    ("/playground/threads.js", SCRIPT, include_str!("page/threads.js")),
    ("/playground/inside.js", SCRIPT, include_str!("page/inside.js")),
    ("/playground/composer.js", SCRIPT, include_str!("page/composer.js")),
    ("/playground/message.js", SCRIPT, include_str!("page/message.js")),
    ("/playground/files.js", SCRIPT, include_str!("page/files.js")),
    ("/playground/commands.js", SCRIPT, include_str!("page/commands.js")),
    ("/playground/roles.js", SCRIPT, include_str!("page/roles.js")),
    ("/playground/chaos.js", SCRIPT, include_str!("page/chaos.js")),
    ("/playground/storm.js", SCRIPT, include_str!("page/storm.js")),
    ("/playground/card.js", SCRIPT, include_str!("page/card.js")),
    ("/playground/seams.js", SCRIPT, include_str!("page/seams.js")),
    ("/playground/text.js", SCRIPT, include_str!("page/text.js")),
    ("/playground/colours.js", SCRIPT, include_str!("page/colours.js")),
    ("/playground/models.js", SCRIPT, include_str!("page/models.js")),
    ("/playground/search.js", SCRIPT, include_str!("page/search.js")),
    ("/playground/setup.js", SCRIPT, include_str!("page/setup.js")),
    ("/playground/tour.js", SCRIPT, include_str!("page/tour.js")),
    ("/workspace", "text/html; charset=utf-8", include_str!("page/workspace.html")),
    ("/playground/workspace.css", "text/css; charset=utf-8", include_str!("page/workspace.css")),
    ("/playground/modal.js", SCRIPT, include_str!("page/modal.js")),
    ("/playground/workspace.js", SCRIPT, include_str!("page/workspace.js")),
    ("/playground/mrkdwn.js", SCRIPT, include_str!("page/mrkdwn.js")),
    ("/voice", "text/html; charset=utf-8", include_str!("page/voice.html")),
    ("/playground/voice.css", "text/css; charset=utf-8", include_str!("page/voice.css")),
    ("/playground/voice.js", SCRIPT, include_str!("page/voice.js")),
    ("/playground/answers.js", SCRIPT, include_str!("page/answers.js")),
    ("/playground/talk.js", SCRIPT, include_str!("page/talk.js")),
    ("/playground/player.js", SCRIPT, include_str!("page/player.js")),
    ("/playground/reciter.js", SCRIPT, include_str!("page/reciter.js")),
    ("/playground/listening.js", SCRIPT, include_str!("page/listening.js")),
    ("/playground/ears.js", SCRIPT, include_str!("page/ears.js")),
    ("/playground/capture.js", SCRIPT, include_str!("page/capture.js")),
    ("/playground/face.js", SCRIPT, include_str!("page/face.js")),
];
/// The prefix of all paths but that of the page itself.
const FOLDER: &str = "/playground/";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The state shared by all handlers.
#[derive(Clone)]
struct Desk {
    service: Service,
    workspace: Workspace,
    streams: Arc<Semaphore>,
    breaking: Breaking,
    /// The permit of the one setup that may run.
    setting_up: Arc<Semaphore>,
}

/// Fault injection, and the token that the page must send with it; a new one at each start.
#[derive(Clone)]
pub struct Breaking {
    /// Receives the orders.
    pub chaos: Arc<Chaos>,
    /// Model servers of this machine.
    pub models: Arc<Neighbours>,
    /// Tests and writes the settings of a first run.
    pub setup: Arc<dyn Setup>,
    /// Sent to the page with the state, and required with each order.
    pub token: SecretString,
}

/// Returns the routes: the page of the server at `/`, that of the workspace at `/workspace`, that of speech at `/voice`, their parts and their API under
/// `/playground/`. The dashboard on the page is served
/// by other routes. An event stream stays open until its client disconnects or the listener stops, which it signals by
/// a [`tokio_util::sync::CancellationToken`] in the request's extensions.
pub fn router(service: Service, workspace: Workspace, breaking: Breaking) -> Router {
    let desk = Desk {
        service,
        workspace,
        streams: Arc::new(Semaphore::new(STREAMS)),
        breaking,
        setting_up: Arc::new(Semaphore::new(1)),
    };
    let mut router = Router::new();
    for (path, kind, text) in FILES {
        router = router.route(path, get(async move || ([(header::CONTENT_TYPE, kind)], text)));
    }
    router
        .route("/playground/state", get(api::state))
        .route("/playground/events", get(events::stream))
        .route("/playground/messages", post(api::say).layer(DefaultBodyLimit::max(UPLOAD_BYTES)))
        .route("/playground/messages/{channel}/{id}", patch(api::edit).delete(api::delete))
        .route("/playground/typing", post(api::types))
        .route("/playground/commands", get(actions::list_commands).post(actions::command))
        .route("/playground/presses", post(actions::press))
        .route("/playground/forms", post(actions::form))
        .route("/playground/choices", post(actions::typing))
        .route("/playground/interactions/{id}", get(actions::interaction))
        .route("/playground/threads", post(actions::thread))
        .route("/playground/roles", post(actions::role))
        .route("/playground/members", post(actions::join))
        .route("/playground/direct", post(actions::direct))
        .route("/playground/reactions", post(actions::react))
        .route("/playground/files/{id}/{name}", get(actions::file))
        .route("/playground/models", get(models::offered).post(models::choose))
        .route("/playground/setup", get(setup::known).post(setup::set_up))
        .route("/playground/workspace/state", get(workspace::state))
        .route("/playground/workspace/events", get(workspace::events))
        .route("/playground/workspace/messages", post(workspace::say))
        .route("/playground/workspace/messages/{ts}", delete(workspace::delete))
        .route("/playground/workspace/presses", post(workspace::press))
        .route("/playground/workspace/settings", post(workspace::open_settings))
        .route("/playground/workspace/dialogue", post(workspace::send).delete(workspace::close))
        .route("/playground/workspace/files/{id}", get(workspace::file))
        .route("/playground/chaos", get(chaos::caused).post(chaos::order))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn(guard))
        .with_state(desk)
}

/// Accepts a request only if it is addressed to this machine and, for a change, comes from the page.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = match admit(request.method(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn admit(method: &Method, path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    if !programs::names_this_machine(headers) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "the playground answers to localhost only"));
    }
    // Browsers send the origin with changes and with requests of other sites' pages; other programs may omit it. A link
    // from elsewhere may open the page itself, which is not below this prefix.
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let foreign = |origin: &HeaderValue| origin.as_bytes() != [b"http://", host].concat();
    let elsewhere = |site: &HeaderValue| !matches!(site.as_bytes(), b"same-origin" | b"none");
    let origins = headers.get_all(header::ORIGIN).iter().any(foreign);
    let sites = path.starts_with(FOLDER) && headers.get_all(programs::FETCH_SITE).iter().any(elsewhere);
    if origins || sites {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "requests of other pages are refused"));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if *method != Method::DELETE && !kind.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON as application/json"));
    }
    Ok(())
}
