//! The Web API: tokens, faults, and the methods.

use std::collections::{BTreeSet, VecDeque};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Map, Value, json};

use super::state::{FOREIGN_ADMIN, bot_of};
use super::{Arguments, Fault, OTHER_BOT, TEAM, Workspace};

/// Performs a call.
pub async fn call(
    State(workspace): State<Workspace>,
    Path(method): Path<String>,
    Query(query): Query<Arguments>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method == "response_url" {
        workspace.responds(&query, serde_json::from_slice(&body).unwrap_or_default());
        return "ok".into_response();
    }
    let arguments = read(&headers, &body);
    workspace.state.lock().recorded.call(&method, &arguments);
    let opens = method == "apps.connections.open";
    let known = workspace.apps.iter().position(|app| carries(&headers, if opens { &app.app } else { &app.bot }));
    let Some(app) = known else { return error("invalid_auth") };
    if let Some(wait) = workspace.state.lock().over(&method) {
        return limited(wait);
    }
    let fault = workspace.state.lock().faults.get_mut(&method).and_then(VecDeque::pop_front);
    match fault {
        None => workspace.perform(app, &method, &arguments),
        Some(Fault::LostAnswer) => {
            let _ = workspace.perform(app, &method, &arguments);
            let broken = stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
            Response::new(Body::from_stream(broken))
        }
        Some(Fault::NoAnswer) => {
            let _ = workspace.perform(app, &method, &arguments);
            std::future::pending().await
        }
        Some(Fault::Limited(seconds)) => limited(seconds),
        Some(Fault::Named(name)) => error(name),
        Some(Fault::Status(status)) => {
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response()
        }
    }
}

/// Returns a file to the bot alone. Slack leads others to its login.
pub async fn file(State(workspace): State<Workspace>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    if !workspace.apps.iter().any(|app| carries(&headers, &app.bot)) {
        return StatusCode::FOUND.into_response();
    }
    let found = {
        let state = workspace.state.lock();
        state.file(&format!("/files/{name}")).or_else(|| state.file(&format!("/upload/{name}")))
    };
    found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
}

/// Takes a file.
pub async fn upload(State(workspace): State<Workspace>, Path(name): Path<String>, body: Bytes) -> Response {
    workspace.state.lock().store(format!("/upload/{name}"), body.to_vec());
    "OK".into_response()
}

fn carries(headers: &HeaderMap, token: &str) -> bool {
    headers.get(header::AUTHORIZATION).is_some_and(|told| told == &format!("Bearer {token}"))
}

/// Reads a form, or JSON.
fn read(headers: &HeaderMap, body: &[u8]) -> Arguments {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/json") {
        let told: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return told.into_iter().map(|(name, value)| (name, text(value))).collect();
    }
    let text = String::from_utf8_lossy(body);
    let decoded =
        |part: &str| percent_encoding::percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

pub(super) fn error(name: &str) -> Response {
    Json(json!({"ok": false, "error": name})).into_response()
}

fn limited(seconds: u64) -> Response {
    let headers = [("retry-after", seconds.to_string())];
    (StatusCode::TOO_MANY_REQUESTS, headers, Json(json!({"ok": false, "error": "ratelimited"}))).into_response()
}

pub(super) fn fine(mut value: Value) -> Response {
    value["ok"] = true.into();
    Json(value).into_response()
}

impl Workspace {
    fn perform(&self, app: usize, method: &str, arguments: &Arguments) -> Response {
        let of = |name: &str| arguments.get(name).cloned().unwrap_or_default();
        let answer = match method {
            "auth.test" => self.account(app),
            "apps.connections.open" => {
                let ticket = self.state.lock().ticket(app);
                fine(json!({"url": format!("{}/link?ticket={ticket}", self.url.replacen("http", "ws", 1))}))
            }
            "users.info" => {
                let person = self.state.lock().person(&of("user"));
                let team = if person.id == FOREIGN_ADMIN { "T0OTHER" } else { TEAM };
                fine(json!({"user": {
                    "id": person.id, "team_id": team, "name": person.id.to_lowercase(), "locale": "en-US", "is_admin": person.admin,
                    "is_bot": person.id == OTHER_BOT,
                    "profile": {"display_name": person.name},
                }}))
            }
            "users.conversations" => self.conversations(),
            "usergroups.list" => {
                let state = self.state.lock();
                let group = |(id, users): (&String, &Vec<String>)| json!({"id": id, "handle": id.to_lowercase(), "users": users});
                fine(json!({"usergroups": state.groups.iter().map(group).collect::<Vec<_>>()}))
            }
            "conversations.replies" => self.replies_of(&of("ts"), arguments),
            "conversations.history" => self.history_of(arguments),
            "conversations.open" => fine(json!({"channel": {"id": format!("D{}", of("users"))}})),
            "chat.postMessage" => self.post(app, arguments),
            "chat.update" => self.update(arguments),
            "chat.delete" => {
                self.state.lock().messages.retain(|message| message.ts != of("ts"));
                fine(json!({}))
            }
            "chat.postEphemeral" => self.shows_to_one(arguments),
            "chat.startStream" => self.start_stream(arguments),
            "chat.appendStream" => self.append_stream(arguments),
            "chat.stopStream" => self.stop_stream(arguments),
            "files.getUploadURLExternal" => {
                // Names are used again, as ids are not.
                let id = format!("F{}-{}", self.state.lock().next_file(), of("filename"));
                fine(json!({"upload_url": format!("{}/upload/{id}", self.url), "file_id": id}))
            }
            "files.completeUploadExternal" => self.share(arguments),
            "views.open" => self.open_view(arguments),
            "views.update" => self.update_view(arguments),
            "views.publish" => self.publish_view(arguments),
            "assistant.threads.setStatus" => {
                let words = of("status");
                let status = (!words.is_empty()).then(|| (of("channel_id"), of("thread_ts"), words));
                self.state.lock().status = status;
                fine(json!({}))
            }
            "assistant.threads.setSuggestedPrompts" | "reactions.add" => fine(json!({})),
            _ => error("unknown_method"),
        };
        self.change();
        answer
    }

    /// Returns the bot's account, with the scopes of its token as a header.
    fn account(&self, app: usize) -> Response {
        let mut answer = fine(json!({
            "user_id": self.apps[app].user, "user": "staffai", "team_id": TEAM, "team": "Work",
            "bot_id": bot_of(self.apps[app].user),
        }));
        if let Ok(scopes) = HeaderValue::from_str(&self.state.lock().scopes) {
            answer.headers_mut().insert("x-oauth-scopes", scopes);
        }
        answer
    }

    /// Returns the channels that have messages, and those from the start.
    fn conversations(&self) -> Response {
        let state = self.state.lock();
        let places = state.options.places.iter().map(|place| place.id.as_str());
        let known: BTreeSet<&str> =
            state.messages.iter().map(|message| message.channel.as_str()).chain(places).collect();
        let channels: Vec<Value> = known.into_iter().map(|id| json!({"id": id})).collect();
        fine(json!({"channels": channels, "response_metadata": {"next_cursor": ""}}))
    }
}
