//! Members' actions on the page beside talking: commands, buttons, threads, roles, files.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Desk;
use super::api::{self, ApiError, bad, forbidden, missing};
use crate::files;
use crate::guild::ids::{MessageId, RoleId, UserId};
use crate::interactions::Interact;
use crate::members::MEMBERS;
use crate::service::Service;

/// The type of an answer that opens a form.
const FORM: u64 = 9;
/// Maximum length of a thread's name, in characters, as on Discord.
const THREAD_NAME: usize = 100;
/// Maximum length of a member's name, in characters, as on Discord.
const MEMBER_NAME: usize = 32;
/// Maximum length of an emoji, in characters: families have many.
const EMOJI: usize = 16;
/// Maximum length of an option's value, in characters.
const VALUE: usize = 6_000;

type Body = Result<Bytes, BytesRejection>;

/// Returns all commands that the bot registered, those of the guild first.
pub fn commands(service: &Service) -> Vec<Value> {
    let guild = service.guilds().first().map(|guild| guild.id);
    let mut all = guild.map(|guild| service.commands(Some(guild))).unwrap_or_default();
    all.extend(service.commands(None));
    // The other types are for context menus, which the page does not have.
    all.retain(|command| command["type"] == 1);
    all
}

/// `GET /playground/commands`
pub async fn list_commands(State(desk): State<Desk>) -> Json<Vec<Value>> {
    Json(commands(&desk.service))
}

/// A command with its options as typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Command {
    member: String,
    channel: String,
    name: String,
    #[serde(default)]
    options: Map<String, Value>,
}

/// `POST /playground/commands`
pub async fn command(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let command: Command = api::read(body)?;
    let member = api::speaker(&desk.service, &command.member)?;
    let channel = api::channel(&desk.service, &command.channel)?;
    let known = commands(&desk.service).into_iter().find(|known| known["name"] == *command.name);
    let known = known.ok_or_else(|| missing("the bot has no such command"))?;
    let options = typed(&known, &command.options)?;
    begun(desk.service.interacts(member.id, channel.id, Interact::Command(command.name, options)))
}

/// An option that is being typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    member: String,
    channel: String,
    name: String,
    option: String,
    typed: String,
}

/// `POST /playground/choices`: asks the bot for an option's choices; `GET` on the interaction returns them.
pub async fn typing(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let typing: Begun = api::read(body)?;
    let member = api::speaker(&desk.service, &typing.member)?;
    let channel = api::channel(&desk.service, &typing.channel)?;
    let known = commands(&desk.service).into_iter().find(|known| known["name"] == *typing.name);
    let known = known.ok_or_else(|| missing("the bot has no such command"))?;
    let mut options = known["options"].as_array().into_iter().flatten();
    let offers = options.any(|option| option["name"] == *typing.option && option["autocomplete"] == true);
    if !offers || typing.typed.chars().count() > VALUE {
        return Err(bad("the bot offers no choices for this"));
    }
    let focused = json!({"name": typing.option, "type": 3, "value": typing.typed, "focused": true});
    begun(desk.service.interacts(member.id, channel.id, Interact::Typing(typing.name, vec![focused])))
}

/// Converts options to Discord's format.
fn typed(command: &Value, given: &Map<String, Value>) -> Result<Vec<Value>, ApiError> {
    let known: Vec<&Value> = command["options"].as_array().into_iter().flatten().collect();
    if let Some(name) = given.keys().find(|name| known.iter().all(|option| option["name"] != **name)) {
        return Err(bad(format!("the command has no option '{name}'")));
    }
    let mut options = Vec::with_capacity(given.len());
    for option in known {
        let name = option["name"].as_str().unwrap_or_default();
        match given.get(name).and_then(Value::as_str) {
            Some(text) => {
                let kind = option["type"].as_u64().unwrap_or(3);
                let value =
                    value(kind, text).ok_or_else(|| bad(format!("'{text}' does not fit the option '{name}'")))?;
                options.push(json!({"name": name, "type": kind, "value": value}));
            }
            None if option["required"] == true => return Err(bad(format!("the option '{name}' is missing"))),
            None => {}
        }
    }
    Ok(options)
}

/// Converts a text to an option's value of this type, in Discord's numbers; `None` if it is invalid.
fn value(kind: u64, text: &str) -> Option<Value> {
    let id = || text.trim_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>().ok();
    match kind {
        3 => (text.chars().count() <= VALUE).then(|| json!(text)),
        4 => text.parse::<i64>().ok().map(Value::from),
        5 => match text {
            "true" | "yes" => Some(json!(true)),
            "false" | "no" => Some(json!(false)),
            _ => None,
        },
        // Users, channels, roles, and mentionables.
        6..=9 => id().map(|id| json!(id.to_string())),
        10 => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
        _ => None,
    }
}

/// A pressed button, or chosen values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Press {
    member: String,
    channel: String,
    message: String,
    custom_id: String,
    #[serde(default)]
    values: Vec<String>,
}

/// `POST /playground/presses`
pub async fn press(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let press: Press = api::read(body)?;
    let member = api::speaker(&desk.service, &press.member)?;
    let channel = api::channel(&desk.service, &press.channel)?;
    let message = api::find(&desk.service, channel.id, MessageId(api::id(&press.message)?))?;
    let mut parts = message.components.iter().flat_map(|row| row["components"].as_array().into_iter().flatten());
    let part = parts.find(|part| part["custom_id"] == *press.custom_id);
    let part = part.ok_or_else(|| missing("the message has no such button"))?;
    if part["disabled"] == true || message.only_for.is_some_and(|only| only != member.id) {
        return Err(forbidden("this button cannot be pressed"));
    }
    begun(desk.service.interacts(member.id, channel.id, Interact::Component(message.id, press.custom_id, press.values)))
}

/// A form that a press opened, filled in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filling {
    member: String,
    channel: String,
    /// The interaction that opened the form.
    interaction: String,
    /// The values by the names of the fields.
    values: BTreeMap<String, String>,
}

/// `POST /playground/forms`
pub async fn form(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let filling: Filling = api::read(body)?;
    let member = api::speaker(&desk.service, &filling.member)?;
    let channel = api::channel(&desk.service, &filling.channel)?;
    let opened = desk.service.interaction(MessageId(api::id(&filling.interaction)?));
    let opened = opened.filter(|opened| opened.answer == Some(FORM)).ok_or_else(|| missing("there is no such form"))?;
    if opened.member != member.id || opened.channel != channel.id {
        return Err(forbidden("this form belongs to another member"));
    }
    let form: Value = opened.form.as_deref().and_then(|form| serde_json::from_str(form).ok()).unwrap_or_default();
    let name = form["custom_id"].as_str().unwrap_or_default().to_owned();
    let parts = form["components"].as_array().into_iter().flatten().map(|part| &part["component"]);
    let rows = parts.filter_map(|part| {
        let value = filling.values.get(part["custom_id"].as_str()?)?;
        // A menu has a list of values.
        let key = if part["type"] == 4 { json!(value) } else { json!([value]) };
        let field = if part["type"] == 4 { "value" } else { "values" };
        let component = json!({"type": part["type"], "custom_id": part["custom_id"], field: key});
        Some(json!({"type": 18, "component": component}))
    });
    begun(desk.service.interacts(member.id, channel.id, Interact::Form(name, rows.collect())))
}

fn begun(interaction: Option<MessageId>) -> Result<Response, ApiError> {
    let id = interaction.ok_or_else(|| missing("there is no such member or message"))?;
    Ok((StatusCode::CREATED, Json(json!({"id": id}))).into_response())
}

type Named<T> = Result<Path<T>, PathRejection>;

/// `GET /playground/interactions/{id}`: returns whether the bot answered, and its answer: choices, a form or a message.
pub async fn interaction(State(desk): State<Desk>, id: Named<String>) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|_| bad("name the interaction"))?;
    let known = desk.service.interaction(MessageId(api::id(&id)?));
    let known = known.ok_or_else(|| missing("there is no such interaction"))?;
    let data: Option<Value> = known.form.as_deref().and_then(|form| serde_json::from_str(form).ok());
    let choices = data.as_ref().map_or(Value::Null, |data| data["choices"].clone());
    let form = data.filter(|_| known.answer == Some(FORM));
    let message = known.original.and_then(|message| api::find(&desk.service, known.channel, message).ok());
    Ok(Json(json!({
        "answered": known.answer.is_some(), "answer": known.answer, "choices": choices, "form": form, "message": message,
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    member: String,
    channel: String,
    name: String,
    #[serde(default)]
    message: Option<String>,
}

/// `POST /playground/threads`
pub async fn thread(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let opening: Opening = api::read(body)?;
    let member = api::speaker(&desk.service, &opening.member)?;
    let channel = api::channel(&desk.service, &opening.channel)?;
    let name = opening.name.trim();
    if !(1..=THREAD_NAME).contains(&name.chars().count()) {
        return Err(bad(format!("a thread needs a name of at most {THREAD_NAME} characters")));
    }
    let message = opening.message.as_deref().map(api::id).transpose()?.map(MessageId);
    if let Some(message) = message {
        api::find(&desk.service, channel.id, message)?;
    }
    let thread = desk.service.opens_thread(member.id, channel.id, message, name);
    let thread = thread.ok_or_else(|| forbidden("no thread can be opened here"))?;
    Ok((StatusCode::CREATED, Json(thread)).into_response())
}

/// A role to give or remove.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Appointing {
    member: String,
    user: String,
    role: String,
    held: bool,
}

/// `POST /playground/roles`
pub async fn role(State(desk): State<Desk>, body: Body) -> Result<StatusCode, ApiError> {
    let appointing: Appointing = api::read(body)?;
    let member = api::speaker(&desk.service, &appointing.member)?;
    let (user, role) = (UserId(api::id(&appointing.user)?), RoleId(api::id(&appointing.role)?));
    if !desk.service.members().iter().any(|known| known.id == user) {
        return Err(missing("there is no such member"));
    }
    if !desk.service.sets_role(member.id, user, role, appointing.held) {
        return Err(forbidden("only a moderator can give and remove roles, below their own"));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A new member, and the inviter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Joining {
    member: String,
    name: String,
    #[serde(default)]
    roles: Vec<String>,
}

/// `POST /playground/members`
pub async fn join(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let joining: Joining = api::read(body)?;
    let member = api::speaker(&desk.service, &joining.member)?;
    let name = joining.name.trim();
    let fits = (1..=MEMBER_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if !fits || desk.service.members().iter().any(|known| known.name.eq_ignore_ascii_case(name)) {
        return Err(bad(format!("a member needs a name of at most {MEMBER_NAME} characters that is not taken")));
    }
    if desk.service.members().len() >= MEMBERS {
        return Err(forbidden("the server is full"));
    }
    let roles = joining.roles.iter().map(|role| api::id(role).map(RoleId)).collect::<Result<_, _>>()?;
    let joined = desk.service.joins(member.id, name, roles);
    let joined = joined.ok_or_else(|| forbidden("only a moderator can add a member, with roles below their own"))?;
    Ok((StatusCode::CREATED, Json(joined)).into_response())
}

/// The member of a direct message channel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alone {
    member: String,
}

/// `POST /playground/direct`: opens a member's direct message channel with the bot.
pub async fn direct(State(desk): State<Desk>, body: Body) -> Result<Response, ApiError> {
    let alone: Alone = api::read(body)?;
    let member = api::speaker(&desk.service, &alone.member)?;
    let channel = desk.service.direct(member.id).ok_or_else(|| forbidden("too many such conversations are open"))?;
    Ok((StatusCode::CREATED, Json(channel)).into_response())
}

/// An emoji to add or remove.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reacting {
    member: String,
    channel: String,
    message: String,
    emoji: String,
    held: bool,
}

/// `POST /playground/reactions`
pub async fn react(State(desk): State<Desk>, body: Body) -> Result<StatusCode, ApiError> {
    let reacting: Reacting = api::read(body)?;
    let member = api::speaker(&desk.service, &reacting.member)?;
    let channel = api::channel(&desk.service, &reacting.channel)?;
    let message = api::find(&desk.service, channel.id, MessageId(api::id(&reacting.message)?))?;
    let emoji = reacting.emoji.trim();
    if emoji.is_empty() || emoji.chars().count() > EMOJI || emoji.chars().any(char::is_control) {
        return Err(bad("a reaction is one emoji"));
    }
    if message.only_for.is_some() || channel.recipient.is_some_and(|recipient| recipient != member.id) {
        return Err(forbidden("nothing can be put below this message"));
    }
    if !desk.service.marks(member.id, channel.id, message.id, emoji, reacting.held) {
        return Err(missing("there is no such message"));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /playground/files/{id}/{name}`: returns an attachment.
pub async fn file(State(desk): State<Desk>, place: Named<(String, String)>) -> Result<Response, ApiError> {
    let Path((id, _)) = place.map_err(|_| bad("name the file"))?;
    let file = desk.service.file(MessageId(api::id(&id)?));
    file.map(files::shown).ok_or_else(|| missing("there is no such file any more"))
}
