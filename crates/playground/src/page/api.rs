//! The page's API: the state, and members' actions.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Desk, actions};
use crate::examples::Examples;
use crate::guild::files::{FILE_BYTES, File};
use crate::guild::ids::{ChannelId, GuildId, MessageId, UserId};
use crate::guild::{Channel, Guild, Member, Message, Role, permissions};
use crate::service::Service;

/// Maximum length of a message, in characters, as on Discord.
const LETTERS: usize = 2_000;
/// Maximum number of files of a message.
const FILES: usize = 4;
/// Maximum length of a file's name, in characters.
const FILE_NAME: usize = 200;
/// Number of messages sent per channel, the newest.
const MESSAGES: usize = 500;
/// Maximum number of channels sent.
const CHANNELS: usize = 200;
/// Maximum number of members sent.
const MEMBERS: usize = 200;

/// An error with a text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    sentence: String,
}

impl ApiError {
    /// Creates an error.
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.sentence}))).into_response()
    }
}

pub(super) fn bad(sentence: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, sentence)
}

pub(super) fn missing(sentence: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, sentence)
}

pub(super) fn forbidden(sentence: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, sentence)
}

/// The initial state of the page.
#[derive(Serialize)]
pub struct PageState {
    guild: Option<GuildName>,
    bot: UserId,
    roles: Vec<Role>,
    members: Vec<Member>,
    channels: Vec<Channel>,
    messages: BTreeMap<String, Vec<Message>>,
    /// Channels in which the bot is typing.
    typing: Vec<ChannelId>,
    /// The bot's presence as it set it; offline while disconnected.
    presence: Option<Value>,
    /// The commands that the bot registered.
    commands: Vec<Value>,
    /// The suggested questions.
    examples: Examples,
}

#[derive(Serialize)]
struct GuildName {
    id: GuildId,
    name: String,
    owner: UserId,
}

/// `GET /playground/state`
pub async fn state(State(desk): State<Desk>) -> Json<PageState> {
    let service = &desk.service;
    let first = service.guilds().into_iter().next();
    let guild = first.as_ref().map(|guild| GuildName { id: guild.id, name: guild.name.clone(), owner: guild.owner });
    let ours = |channel: &Channel| channel.guild.is_none() || channel.guild == guild.as_ref().map(|guild| guild.id);
    let channels: Vec<Channel> = service.channels().into_iter().filter(ours).take(CHANNELS).collect();
    let newest = |channel: &Channel| {
        let mut messages = service.messages(channel.id);
        messages.drain(..messages.len().saturating_sub(MESSAGES));
        (channel.id.to_string(), messages)
    };
    Json(PageState {
        bot: service.bot(),
        roles: first.as_ref().map(|guild| guild.roles.clone()).unwrap_or_default(),
        members: service.members().into_iter().take(MEMBERS).collect(),
        messages: channels.iter().map(newest).collect(),
        typing: channels.iter().map(|channel| channel.id).filter(|id| service.typing(*id)).collect(),
        presence: service.shown(),
        commands: actions::commands(service),
        examples: Examples::all(),
        channels,
        guild,
    })
}

/// A message to send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saying {
    member: String,
    channel: String,
    text: String,
    #[serde(default)]
    reply_to: Option<String>,
    #[serde(default)]
    files: Vec<Sending>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sending {
    name: String,
    /// The media type given by the browser.
    kind: String,
    /// The content, in base64.
    data: String,
}

/// `POST /playground/messages`
pub async fn say(State(desk): State<Desk>, body: Result<Bytes, BytesRejection>) -> Result<Response, ApiError> {
    let saying: Saying = read(body)?;
    let member = speaker(&desk.service, &saying.member)?;
    let channel = channel(&desk.service, &saying.channel)?;
    let files = files(saying.files)?;
    let text = if files.is_empty() { worded(&saying.text)? } else { fitting(&saying.text)? };
    if channel.recipient.is_some_and(|recipient| recipient != member.id) {
        return Err(forbidden("this conversation belongs to another member"));
    }
    let reply_to = saying.reply_to.as_deref().map(id).transpose()?.map(MessageId);
    if let Some(answered) = reply_to {
        find(&desk.service, channel.id, answered)?;
    }
    let sent = desk.service.sends(member.id, channel.id, text, reply_to, files);
    let sent = sent.ok_or_else(|| missing("there is no such channel"))?;
    Ok((StatusCode::CREATED, Json(json!({"id": sent.id}))).into_response())
}

/// A new text of a message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Editing {
    member: String,
    text: String,
}

type Place = Result<Path<(String, String)>, PathRejection>;

/// `PATCH /playground/messages/{channel}/{id}`: edits a member's own message.
pub async fn edit(
    State(desk): State<Desk>,
    place: Place,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let message = placed(&desk.service, place)?;
    let editing: Editing = read(body)?;
    if message.author != speaker(&desk.service, &editing.member)?.id {
        return Err(forbidden("only the author can edit a message"));
    }
    desk.service.edits(message.id, message.channel, worded(&editing.text)?);
    Ok(Json(json!({"id": message.id})))
}

/// The member who deletes.
#[derive(Deserialize)]
pub struct Deleting {
    member: String,
}

/// `DELETE /playground/messages/{channel}/{id}?member=`: deletes a member's own message, or any with the permission to
/// manage messages.
pub async fn delete(
    State(desk): State<Desk>,
    place: Place,
    who: Result<Query<Deleting>, QueryRejection>,
) -> Result<StatusCode, ApiError> {
    let Query(who) = who.map_err(|_| bad("say who deletes: ?member=<id>"))?;
    let message = placed(&desk.service, place)?;
    let member = speaker(&desk.service, &who.member)?;
    let manages = |guild: &Guild| guild.permissions(member.id) & permissions::MANAGE_MESSAGES != 0;
    let own = message.author == member.id || message.only_for == Some(member.id);
    if !own && !desk.service.guilds().first().is_some_and(manages) {
        return Err(forbidden("only the author or a moderator can delete a message"));
    }
    desk.service.deletes(message.channel, message.id);
    Ok(StatusCode::NO_CONTENT)
}

/// A typing member and the channel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typing {
    member: String,
    channel: String,
}

/// `POST /playground/typing`
pub async fn types(State(desk): State<Desk>, body: Result<Bytes, BytesRejection>) -> Result<StatusCode, ApiError> {
    let typing: Typing = read(body)?;
    let member = speaker(&desk.service, &typing.member)?;
    let channel = channel(&desk.service, &typing.channel)?;
    desk.service.types(member.id, channel.id);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn read<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, ApiError> {
    let body =
        body.map_err(|rejection| ApiError::new(rejection.status(), "the body was too large or did not arrive"))?;
    serde_json::from_slice(&body).map_err(|error| bad(format!("the body is invalid: {error}")))
}

pub(super) fn id(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| bad("an id is a number written as text"))
}

/// Returns the member to act as; not the bot.
pub(super) fn speaker(service: &Service, member: &str) -> Result<Member, ApiError> {
    let id = UserId(id(member)?);
    let member = service.members().into_iter().find(|member| member.id == id);
    match member {
        None => Err(missing("there is no such member")),
        Some(member) if member.bot => Err(forbidden("the bot speaks for itself")),
        Some(member) => Ok(member),
    }
}

pub(super) fn channel(service: &Service, channel: &str) -> Result<Channel, ApiError> {
    let id = ChannelId(id(channel)?);
    let channel = service.channels().into_iter().find(|channel| channel.id == id);
    channel.ok_or_else(|| missing("there is no such channel"))
}

pub(super) fn find(service: &Service, channel: ChannelId, id: MessageId) -> Result<Message, ApiError> {
    let message = service.messages(channel).into_iter().find(|message| message.id == id);
    message.ok_or_else(|| missing("there is no such message"))
}

fn placed(service: &Service, place: Place) -> Result<Message, ApiError> {
    let Path((of, message)) = place.map_err(|_| bad("name the channel and the message"))?;
    let of = channel(service, &of)?;
    find(service, of.id, MessageId(id(&message)?))
}

/// Checks the text of a message without files.
fn worded(text: &str) -> Result<&str, ApiError> {
    let text = fitting(text)?;
    if text.is_empty() { Err(bad("a message needs some text")) } else { Ok(text) }
}

fn fitting(text: &str) -> Result<&str, ApiError> {
    let text = text.trim();
    if text.chars().count() > LETTERS {
        return Err(bad(format!("a message has at most {LETTERS} characters")));
    }
    Ok(text)
}

fn files(sent: Vec<Sending>) -> Result<Vec<File>, ApiError> {
    if sent.len() > FILES {
        return Err(bad(format!("a message has at most {FILES} files")));
    }
    let read = |file: Sending| {
        let name: String = file.name.chars().filter(|letter| !letter.is_control()).take(FILE_NAME).collect();
        let bytes = STANDARD.decode(file.data).map_err(|_| bad("a file comes in base64"))?;
        if bytes.len() > FILE_BYTES {
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "a file has at most 8 MiB"));
        }
        let kind = if file.kind.is_empty() { "application/octet-stream".to_owned() } else { file.kind };
        Ok(File {
            name: if name.is_empty() { "file".to_owned() } else { name },
            kind,
            bytes: bytes.into(),
            description: None,
        })
    };
    sent.into_iter().map(read).collect()
}
