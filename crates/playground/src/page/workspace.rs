//! The workspace's page and its API: what members see of the local Slack, and what they do there.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Desk;
use super::api::{self, ApiError, bad, forbidden, missing};
use crate::workspace::{BOT, Message, Person, Place, Said, Workspace};

/// Maximum length of a message, in characters, as at Slack.
const LETTERS: usize = 4_000;
/// The name of the shortcut that opens the settings.
const SETTINGS: &str = "settings:0";
/// Number of messages sent to the page, the newest.
const MESSAGES: usize = 500;
/// The shortest time between two events.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of keep-alive comments in a silent stream.
const ALIVE: Duration = Duration::from_secs(15);

type Body = Result<Bytes, BytesRejection>;

/// The view of a member.
#[derive(Serialize)]
pub struct Seen {
    bot: &'static str,
    /// True while the bot has a connection.
    connected: bool,
    people: Vec<Person>,
    places: Vec<Place>,
    messages: Vec<Message>,
    /// Messages that this member alone sees.
    notices: Vec<Notice>,
    /// The dialogue that is open for this member.
    dialogue: Option<Dialogue>,
    /// The bot's status: channel, thread and words.
    status: Option<(String, String, String)>,
}

/// A dialogue in Slack's form.
#[derive(Serialize)]
struct Dialogue {
    view: Value,
    /// The reasons to correct fields, by the names of their blocks.
    errors: Value,
}

#[derive(Serialize)]
struct Notice {
    channel: String,
    ts: String,
    text: String,
}

/// The member who looks or deletes.
#[derive(Deserialize)]
pub struct Looking {
    member: String,
}

/// `GET /playground/workspace/state?member=`
pub async fn state(
    State(desk): State<Desk>,
    who: Result<Query<Looking>, QueryRejection>,
) -> Result<Json<Seen>, ApiError> {
    let workspace = &desk.workspace;
    let member = looking(workspace, who)?;
    let mut messages = workspace.messages();
    messages.retain(|message| sees(&member, &message.channel));
    messages.drain(..messages.len().saturating_sub(MESSAGES));
    let mut notices = workspace.only_for(&member);
    notices.drain(..notices.len().saturating_sub(MESSAGES));
    let notices = notices.into_iter().map(|whisper| Notice {
        text: whisper.body["text"].as_str().unwrap_or_default().to_owned(),
        channel: whisper.channel,
        ts: whisper.ts,
    });
    Ok(Json(Seen {
        bot: BOT,
        connected: workspace.connections().0 > 0,
        people: workspace.people(),
        places: workspace.places(),
        notices: notices.collect(),
        messages,
        dialogue: workspace.dialogue(&member).map(|(view, errors)| Dialogue { view, errors }),
        status: workspace.status(),
    }))
}

/// `GET /playground/workspace/events`: Server-Sent Events. Each `change` reports that the state has changed.
pub async fn events(State(desk): State<Desk>, closing: Option<Extension<CancellationToken>>) -> Response {
    let Ok(permit) = desk.streams.try_acquire_owned() else {
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open").into_response();
    };
    // Without a listener that stops, only the client ends the stream.
    let closing = closing.map(|Extension(closing)| closing).unwrap_or_default();
    let mut changes = desk.workspace.changes();
    changes.mark_changed();
    let events = stream::unfold((changes, closing, permit), async |(mut changes, closing, permit)| {
        let changed = closing.run_until_cancelled(changes.changed()).await?;
        changed.ok()?;
        // Changes that come in quick succession are one event.
        tokio::time::sleep(PAUSE).await;
        let count = *changes.borrow_and_update();
        let event = Event::default().event("change").data(count.to_string());
        Some((Ok::<_, Infallible>(event), (changes, closing, permit)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// A message to send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saying {
    member: String,
    channel: String,
    text: String,
    /// The timestamp of the first message of the thread.
    #[serde(default)]
    thread: Option<String>,
}

/// `POST /playground/workspace/messages`: a message, or a command if it begins with `/staffai`.
pub async fn say(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let saying: Saying = api::read(body)?;
    let member = person(&desk.workspace, &saying.member)?;
    let channel = place(&desk.workspace, &saying.channel, &member)?;
    let text = saying.text.trim();
    if text.is_empty() || text.chars().count() > LETTERS {
        return Err(bad(format!("a message has 1 to {LETTERS} characters")));
    }
    let command = text.strip_prefix("/staffai").filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    if let Some(command) = command {
        desk.workspace.runs(&member, &channel, command.trim());
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let text = &text.replace("@staffai", &format!("<@{BOT}>"));
    let said = match saying.thread {
        None => desk.workspace.says(&member, &channel, text),
        Some(root) => {
            let begins = Said { channel, ts: root.clone(), root };
            let first = desk.workspace.message(&begins).filter(|first| first.channel == begins.channel);
            if first.is_none() {
                return Err(missing("there is no such thread"));
            }
            desk.workspace.replies(&member, &begins, text)
        }
    };
    Ok((StatusCode::CREATED, Json(json!({"ts": said.ts}))).into_response())
}

/// A button of a message of the bot.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pressing {
    member: String,
    ts: String,
    label: String,
}

/// `POST /playground/workspace/presses`
pub async fn press(State(desk): State<Desk>, body: Body) -> Result<StatusCode, ApiError> {
    let pressing: Pressing = api::read(body)?;
    let member = person(&desk.workspace, &pressing.member)?;
    let message = found(&desk.workspace, &pressing.ts, &member)?;
    if !desk.workspace.presses(&member, &message, &pressing.label) {
        return Err(missing("the message has no such button"));
    }
    Ok(StatusCode::ACCEPTED)
}

/// A member who opens their settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    member: String,
}

/// `POST /playground/workspace/settings`: uses the shortcut of the settings.
pub async fn open_settings(State(desk): State<Desk>, body: Body) -> Result<StatusCode, ApiError> {
    let opening: Opening = api::read(body)?;
    let member = person(&desk.workspace, &opening.member)?;
    desk.workspace.uses_global_shortcut(&member, SETTINGS);
    Ok(StatusCode::ACCEPTED)
}

/// The values of a dialogue, by the names of its blocks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sending {
    member: String,
    values: BTreeMap<String, String>,
}

/// `POST /playground/workspace/dialogue`: sends the dialogue that is open for a member.
pub async fn send(State(desk): State<Desk>, body: Body) -> Result<StatusCode, ApiError> {
    let sending: Sending = api::read(body)?;
    let member = person(&desk.workspace, &sending.member)?;
    let values: Vec<(&str, &str)> =
        sending.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if !desk.workspace.fills_in(&member, &values) {
        return Err(missing("no dialogue with these fields is open"));
    }
    Ok(StatusCode::ACCEPTED)
}

/// `DELETE /playground/workspace/dialogue?member=`
pub async fn close(
    State(desk): State<Desk>,
    who: Result<Query<Looking>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    desk.workspace.closes_dialogue(&looking(&desk.workspace, who)?);
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /playground/workspace/messages/{ts}?member=`: deletes a member's own message.
pub async fn delete(
    State(desk): State<Desk>,
    Path(ts): Path<String>,
    who: Result<Query<Looking>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    let member = looking(&desk.workspace, who)?;
    let message = found(&desk.workspace, &ts, &member)?;
    if message.user != member {
        return Err(forbidden("only the author can delete a message"));
    }
    desk.workspace.deletes(&Said { root: ts.clone(), channel: message.channel, ts });
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /playground/workspace/files/{id}?member=`: a picture of an answer that this member sees, or a download.
pub async fn file(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    who: Result<Query<Looking>, QueryRejection>,
) -> Response {
    let member = match looking(&desk.workspace, who) {
        Ok(member) => member,
        Err(refusal) => return refusal.into_response(),
    };
    let is_there =
        desk.workspace.messages().iter().any(|message| message.file["id"] == *id && sees(&member, &message.channel));
    let content = if is_there { desk.workspace.stored(&id) } else { Vec::new() };
    if content.is_empty() {
        return missing("there is no such file any more").into_response();
    }
    if content.starts_with(b"\x89PNG") {
        return ([(header::CONTENT_TYPE, "image/png")], content).into_response();
    }
    let fixed = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_DISPOSITION, "attachment")];
    (fixed, content).into_response()
}

/// True for a channel, and for the member's direct conversation with the bot.
fn sees(member: &str, channel: &str) -> bool {
    channel.strip_prefix('D').is_none_or(|with| with == member)
}

fn looking(workspace: &Workspace, who: Result<Query<Looking>, QueryRejection>) -> Result<String, ApiError> {
    let Query(who) = who.map_err(|_| bad("say who it is: ?member=<id>"))?;
    person(workspace, &who.member)
}

fn person(workspace: &Workspace, id: &str) -> Result<String, ApiError> {
    let known = workspace.people().into_iter().find(|person| person.id == id);
    known.map(|person| person.id).ok_or_else(|| missing("there is no such member"))
}

/// Returns a channel, or the direct conversation of a member with the bot.
fn place(workspace: &Workspace, id: &str, member: &str) -> Result<String, ApiError> {
    let known = sees(member, id) && (id.starts_with('D') || workspace.places().iter().any(|place| place.id == id));
    if known { Ok(id.to_owned()) } else { Err(missing("there is no such channel")) }
}

fn found(workspace: &Workspace, ts: &str, member: &str) -> Result<Message, ApiError> {
    let said = Said { channel: String::new(), ts: ts.to_owned(), root: ts.to_owned() };
    let message = workspace.message(&said).ok_or_else(|| missing("there is no such message"))?;
    place(workspace, &message.channel, member)?;
    Ok(message)
}
