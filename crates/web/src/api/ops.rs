//! The operators' routes.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use tokio::task::{spawn_blocking, yield_now};
use tokio_util::sync::CancellationToken;

use crate::api::body_slots::BodySlots;
use crate::api::connection_slots::ConnectionSlot;
use crate::api::cors::{self, Origins};
use crate::api::form::in_form;
use crate::api::grants::{Cut, Grant};
use crate::api::guard::{Access, GuardedRequest, Link, Rejection, admit, shows_bearer};
use crate::api::metrics_page::MetricsPage;
use crate::api::site::{FETCH_MODE, is_foreign};
use crate::api::{ApiOptions, Elsewhere, SERVER_NAME, bodies, dashboard};
use domain::api_key::{Caller, Proven, Right};
use domain::ids::Timestamp;
use domain::tool::server::Tooling;
use ports::vitals::{Turns, WantedTurns};
use ports::{Keys, Vitals};

/// The media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `Retry-After` if all connections are busy, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("1");

/// Returns all routes. Those of this service take precedence over the page.
pub fn router(options: ApiOptions) -> Router {
    let keys = options.keys;
    let state = Pages { vitals: options.vitals, metrics: MetricsPage::new(options.metrics) };
    let open = open(Arc::clone(&keys));
    let origins = Origins::new(options.exposure.origins);
    let gate = Gate { keys: Arc::clone(&keys), access: Access::Needs(Right::Chat), origins: origins.clone() };
    let programs =
        options.programs.layer(from_fn_with_state(gate, guard)).layer(from_fn_with_state(origins, cors::told));
    let signed = options.signed.layer(from_fn_with_state(BodySlots::new(), while_there_is_room));
    // A request is passed on before this process judges it.
    let [programs, signed] = [programs, signed].map(|routes| match &options.elsewhere {
        Some(elsewhere) => routes.layer(from_fn_with_state(elsewhere.clone(), elsewhere_or_here)),
        None => routes,
    });
    let private = Router::new()
        .route("/api/v1/tree", get(tree))
        .route("/api/v1/turns", get(turns))
        .route("/api/v1/turns/{number}", get(turn))
        .route("/api/v1/actor", get(actor))
        .route("/api/v1/samples", get(samples))
        .route("/api/v1/tool_servers", get(tool_servers))
        .with_state(state.clone())
        .merge(dashboard::router())
        .merge(options.routes)
        .fallback_service(options.page.unwrap_or_else(dashboard::at_root))
        .layer(from_fn_with_state(Gate::for_staff(keys, Access::Needs(Right::Operate)), guard));
    open.with_state(state)
        .merge(programs)
        .merge(signed)
        .merge(private)
        .layer(DefaultBodyLimit::max(options.limits.body))
        .layer(from_fn_with_state(options.limits.body_within, bodies::within))
        .layer(from_fn_with_state(options.refuse, in_form))
        .layer(map_response(with_safe_headers))
        .layer(from_fn(in_turn))
}

/// Returns the routes for health and metrics alone. With a reason, every other path is unavailable for it.
pub fn health_router(options: &ApiOptions, unavailable: Option<&'static str>) -> Router {
    let metrics = MetricsPage::new(Arc::clone(&options.metrics));
    let state = Pages { vitals: Arc::clone(&options.vitals), metrics };
    let mut open = open(Arc::clone(&options.keys)).with_state(state);
    if let Some(why) = unavailable {
        open = open.fallback(move || async move { (StatusCode::SERVICE_UNAVAILABLE, why) });
    }
    open.layer(from_fn_with_state(options.refuse, in_form))
        .layer(map_response(with_safe_headers))
        .layer(from_fn(in_turn))
}

/// Lets other work run before each request: a connection with many requests, one behind the other, holds no thread.
async fn in_turn(request: Request, next: Next) -> Response {
    yield_now().await;
    next.run(request).await
}

fn open(keys: Arc<dyn Keys>) -> Router<Pages> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(Gate::for_staff(keys, Access::Open), guard))
}

#[derive(Clone)]
struct Pages {
    vitals: Arc<dyn Vitals>,
    metrics: Arc<MetricsPage>,
}

async fn healthz(State(pages): State<Pages>) -> Response {
    if pages.vitals.alive() {
        Json(json!({"status": "ok"})).into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "down"}))).into_response()
    }
}

async fn readyz(State(pages): State<Pages>) -> Response {
    let readiness = pages.vitals.readiness();
    let status = if readiness.status.serves() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

async fn metrics(State(pages): State<Pages>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], pages.metrics.get())
}

/// The maximum number of actors of one kind shown below a supervisor; absent for all.
#[derive(Deserialize)]
struct Rows {
    children: Option<usize>,
}

async fn tree(State(pages): State<Pages>, rows: Result<Query<Rows>, QueryRejection>) -> Response {
    let Ok(Query(rows)) = rows else {
        return (StatusCode::BAD_REQUEST, "children is a number").into_response();
    };
    // The tree may have thousands of actors: serializing it would block the executor.
    let drawn = move || serde_json::to_vec(&pages.vitals.tree(rows.children.unwrap_or(usize::MAX)));
    match spawn_blocking(drawn).await {
        Ok(Ok(drawn)) => ([(header::CONTENT_TYPE, "application/json")], drawn).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn turn(State(pages): State<Pages>, number: Result<Path<u64>, PathRejection>) -> Response {
    let Ok(Path(number)) = number else {
        return (StatusCode::BAD_REQUEST, "a turn has a number").into_response();
    };
    // The log is searched for it.
    match spawn_blocking(move || pages.vitals.turn(number)).await.ok().flatten() {
        Some(detail) => Json(detail).into_response(),
        None => (StatusCode::NOT_FOUND, "no turn of that number is remembered").into_response(),
    }
}

#[derive(Deserialize)]
struct Named {
    path: String,
}

async fn actor(State(pages): State<Pages>, named: Result<Query<Named>, QueryRejection>) -> Response {
    let Ok(Query(Named { path })) = named else {
        return (StatusCode::BAD_REQUEST, "path must be an actor's path in the tree").into_response();
    };
    match pages.vitals.actor(&path) {
        Some(detail) => Json(detail).into_response(),
        None => (StatusCode::NOT_FOUND, "there is no actor at this path").into_response(),
    }
}

/// The time after which samples are requested, in milliseconds since 1970; absent for all.
#[derive(Deserialize)]
struct Newer {
    after: Option<u64>,
}

async fn samples(State(pages): State<Pages>, newer: Result<Query<Newer>, QueryRejection>) -> Response {
    let Ok(Query(newer)) = newer else {
        return (StatusCode::BAD_REQUEST, "after must be a number of milliseconds").into_response();
    };
    Json(pages.vitals.samples(Timestamp(newer.after.unwrap_or(0)))).into_response()
}

async fn tool_servers(State(pages): State<Pages>) -> Json<Tooling> {
    Json(pages.vitals.tooling())
}

async fn turns(State(pages): State<Pages>, wanted: Result<Query<WantedTurns>, QueryRejection>) -> Response {
    let Ok(Query(wanted)) = wanted else {
        return (StatusCode::BAD_REQUEST, "limit is a number").into_response();
    };
    let mut turns: Turns = pages.vitals.turns();
    turns.newest.retain(|turn| wanted.fits(turn));
    turns.newest.truncate(wanted.limit.unwrap_or(usize::MAX));
    Json(turns).into_response()
}

/// The authorization of a group of routes.
#[derive(Clone)]
pub(super) struct Gate {
    keys: Arc<dyn Keys>,
    access: Access,
    origins: Origins,
}

impl Gate {
    /// Creates a gate for this program's own pages, without access from other origins.
    pub(super) fn for_staff(keys: Arc<dyn Keys>, access: Access) -> Self {
        Self { keys, access, origins: Origins::default() }
    }
}

pub(super) async fn guard(
    State(Gate { keys, access, origins }): State<Gate>,
    link: axum::Extension<Link>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    let asked = GuardedRequest { link: *link, method, path, headers };
    let caller = match admit(asked, &*keys, access, &origins) {
        Ok(caller) => caller,
        Err(refusal) => return refused(refusal, request.headers()),
    };
    let shown = Proven(matches!(caller, Caller::Key(_)) && shows_bearer(headers));
    request.extensions_mut().insert(shown);
    request.extensions_mut().insert(caller.clone());
    if access == Access::Open {
        return next.run(request).await;
    }
    if let (Caller::Key(key), Some(place)) = (&caller, request.extensions().get::<Arc<ConnectionSlot>>())
        && !place.count_for(&key.name)
    {
        return refused(Rejection::KeyBusy, request.headers());
    }
    let (cut, asked) = (request.extensions().get::<Cut>().cloned(), headers_of_refusal(request.headers()));
    let granted = Grant { keys, caller }.while_it_holds(next.run(request), cut);
    granted.await.unwrap_or_else(|| refused(Rejection::WrongKey, &asked))
}

/// Passes a request on while another process serves it.
async fn elsewhere_or_here(
    State(Elsewhere { forwarder, is_here }): State<Elsewhere>,
    link: axum::Extension<Link>,
    request: Request,
    next: Next,
) -> Response {
    if is_here() {
        return next.run(request).await;
    }
    let ended = request.extensions().get::<CancellationToken>().cloned().unwrap_or_default();
    forwarder.answer(*link, ended, request).await
}

/// Keeps the headers that a refusal depends on, for refusals after the request is consumed.
fn headers_of_refusal(headers: &HeaderMap) -> HeaderMap {
    headers.get(FETCH_MODE).map(|mode| HeaderMap::from_iter([(FETCH_MODE, mode.clone())])).unwrap_or_default()
}

/// Bounds the concurrent self-authenticating requests, and refuses those of other sites' pages. Their bodies are read
/// before the sender is known, so they have separate places.
async fn while_there_is_room(
    State(rooms): State<BodySlots>,
    link: axum::Extension<Link>,
    request: Request,
    next: Next,
) -> Response {
    if is_foreign(request.headers()) {
        return refused(Rejection::Origin, request.headers());
    }
    let Some(room) = rooms.take(&link) else { return refused(Rejection::Busy, request.headers()) };
    // The body holds its place.
    bodies::until(async move { room.displaced().await }, request, next).await
}

pub(super) fn refused(refusal: Rejection, asked: &HeaderMap) -> Response {
    let mut response = refusal.answer().into_response();
    if matches!(refusal, Rejection::Busy | Rejection::KeyBusy) {
        response.headers_mut().insert(header::RETRY_AFTER, AGAIN);
    }
    if matches!(refusal, Rejection::Key | Rejection::WrongKey) {
        // Only this scheme makes a browser ask its user for a password. A request by a script gets an error instead:
        // the page shows it and keeps the user's input.
        if asked.get(&FETCH_MODE).is_none_or(|mode| mode.as_bytes() == b"navigate") {
            let basic = HeaderValue::from_static("Basic realm=\"staffai\"");
            response.headers_mut().append(header::WWW_AUTHENTICATE, basic);
        }
        response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

pub(super) async fn with_safe_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static(SERVER_NAME));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
