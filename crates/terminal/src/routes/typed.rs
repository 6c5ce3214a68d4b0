//! Commands (`!name`) in front of a message. They run in order before the message; the first failure stops them.

use std::time::Duration;

use axum::http::StatusCode;

use super::{Parts, manage, prompts, waiting};
use crate::sessions::{Sessions, owner_of};
use domain::api_key::Caller;
use domain::command::typed::{self, Typed, TypedMessage, TypedSpec};
use domain::command::{CATEGORY, CHANGE, ROW};
use domain::ids::Place;
use domain::incoming::Incoming;
use domain::model::{Row, ToolMode};
use domain::preferences::{Change, Setting};
use domain::turn_event::PREVIEW_MAX;
use ports::RowChange;

/// Timeout of a command that the bot answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// The longest timeout that can be set for model calls, in seconds.
const TIMEOUT_MAX: u64 = 3_600;

/// The tools that run SQL statements.
const DATABASE_TOOLS: [&str; 2] = ["db_query", "db_change"];

/// The reason of a refused message: status and text.
pub(super) type InputRefusal = (StatusCode, String);

fn bad(why: impl Into<String>) -> InputRefusal {
    (StatusCode::BAD_REQUEST, why.into())
}

/// The output of the commands, and the rest of the message.
pub(super) struct Done {
    /// Their output, one below the other, if there were any.
    pub said: Option<String>,
    /// The row for the rest.
    pub row: Option<String>,
    /// The rest, for the model.
    pub text: String,
}

/// Returns the rest of a message whose commands ran before.
pub(super) fn left(parts: &Parts, caller: &Caller, message: &str) -> Result<Done, InputRefusal> {
    let message = typed::read(message).map_err(|misread| bad(misread.to_string()))?;
    Ok(taken_apart(parts, caller, message)?.1)
}

/// Splits a message into the commands to run and the text for the model, which runs statements itself.
fn taken_apart(
    parts: &Parts,
    caller: &Caller,
    message: TypedMessage,
) -> Result<(Vec<(TypedSpec, String)>, Done), InputRefusal> {
    let TypedMessage { commands, row, text } = message;
    let row = row.map(|key| asked_row(parts, caller, &key)).transpose()?.map(|row| row.key);
    let (statements, commands): (Vec<_>, Vec<_>) =
        commands.into_iter().partition(|(spec, _)| spec.kind == Typed::Database);
    let statements = statements.iter().map(|(_, given)| statement(given)).collect::<Result<String, _>>()?;
    Ok((commands, Done { said: None, row, text: statements + &text }))
}

/// Runs the commands in front of a message. If any of them is invalid or not allowed, none is run.
pub(super) async fn run(parts: &Parts, caller: &Caller, place: &Place, message: &str) -> Result<Done, InputRefusal> {
    let message = typed::read(message).map_err(|misread| bad(misread.to_string()))?;
    if let Some(forbidden) = message.commands.iter().map(|(spec, _)| spec).find(|spec| !caller.may(spec.needs)) {
        let (name, right) = (forbidden.name, forbidden.needs.as_str());
        return Err((StatusCode::FORBIDDEN, format!("!{name} needs a key with the right {right}")));
    }
    if message.commands.iter().any(|(spec, _)| spec.kind == Typed::Database) {
        with_a_database(parts, place).await?;
    }
    let (commands, left) = taken_apart(parts, caller, message)?;
    let (mut said, mut done) = (Vec::new(), Vec::new());
    for (spec, given) in commands {
        let command = format!("!{} {given}", spec.name);
        match answer(parts, caller, place, spec, &given).await {
            Ok(text) => {
                done.push(format!("{}\n{text}", command.trim()));
                said.push(text);
            }
            Err((status, why)) if done.is_empty() => return Err((status, why)),
            Err((status, why)) => {
                let (failed, done) = (command.trim(), done.join("\n\n"));
                return Err((status, format!("{failed} failed: {why}. The commands before it were run:\n\n{done}")));
            }
        }
    }
    Ok(Done { said: (!said.is_empty()).then(|| said.join("\n\n")), ..left })
}

/// Returns the row of this key, if the caller may ask it.
pub(super) fn asked_row(parts: &Parts, caller: &Caller, key: &str) -> Result<Row, InputRefusal> {
    let models = parts.models.models();
    let rows: Vec<&Row> = models.rows().iter().filter(|row| caller.may_ask(&row.key)).collect();
    match rows.iter().find(|row| row.key == key) {
        Some(row) => Ok((*row).clone()),
        None => {
            let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
            Err(bad(format!("there is no model {key:?} for this key; there are {}", keys.join(", "))))
        }
    }
}

/// Refuses the setting of a row that a key limited to rows may not ask.
pub(super) fn may_choose(parts: &Parts, caller: &Caller, change: &Change) -> Result<(), InputRefusal> {
    match &change.value {
        Some(row) if change.setting == Setting::Model && !caller.rows().is_empty() => {
            asked_row(parts, caller, row).map(drop)
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses statements while the caller has no tool for them.
async fn with_a_database(parts: &Parts, place: &Place) -> Result<(), InputRefusal> {
    let tools = parts.tools.tools(&owner_of(place), place).await;
    if tools.iter().any(|tool| DATABASE_TOOLS.contains(&tool.spec.name.as_str())) {
        return Ok(());
    }
    let why = "!db needs a database, and none may be used in this session. The operator configures one with [[tools.databases]] and a restart \
               (docs/guide/tools.md, Databases), and allows db_query with [[tools.rules]] if a rule denies it";
    Err((StatusCode::CONFLICT, why.to_owned()))
}

/// Returns the request to the model, so that the tool runs within its rights, approvals and limits.
fn statement(given: &str) -> Result<String, InputRefusal> {
    if given.is_empty() {
        return Err(bad("!db needs a statement, such as !db select 1"));
    }
    Ok(format!(
        "Run this statement as it is with the tool db_query, or db_change if it changes something, and show what comes of it:\n{given}\n"
    ))
}

async fn answer(
    parts: &Parts,
    caller: &Caller,
    place: &Place,
    spec: TypedSpec,
    given: &str,
) -> Result<String, InputRefusal> {
    let with = |name: &'static str, options: Vec<(String, String)>| by_the_bot(parts, caller, place, name, options);
    match spec.kind {
        Typed::Help => Ok(typed::help(|right| caller.may(right))),
        Typed::Reset => with("new", Vec::new()).await,
        Typed::Tools => with("tools", vec![(CATEGORY.to_owned(), given.to_owned())]).await,
        Typed::Model if given.is_empty() => with("model", Vec::new()).await,
        Typed::Model => {
            let row = asked_row(parts, caller, given)?;
            with("model", vec![(ROW.to_owned(), row.key)]).await
        }
        Typed::Set if given.is_empty() => with("settings", Vec::new()).await,
        Typed::Set => {
            // The bot refuses a text that is no change.
            if let Ok(change) = Change::parse(given) {
                may_choose(parts, caller, &change)?;
            }
            with("settings", vec![(CHANGE.to_owned(), given.to_owned())]).await
        }
        Typed::Session => session(parts, caller, given).await,
        Typed::Preview => preview(parts, place, given).await,
        Typed::SystemPrompt => prompts::typed(parts, caller, place, given).await.map_err(bad),
        Typed::CallsTools => {
            let shown = |row: &Row| {
                let about = row.description.as_ref().map(|about| format!(" ({about})")).unwrap_or_default();
                format!("{}{about}", row.tools != ToolMode::Off)
            };
            let read = |word: &str| typed::yes_or_no(word).map(RowChange::Tools);
            row_field(parts, caller, given, (shown, read, "!llm_call takes a model and true or false")).await
        }
        Typed::Timeout => {
            let shown = |row: &Row| format!("{} s", row.timeout.as_secs());
            let read = |word: &str| {
                let seconds = word.parse().ok().filter(|seconds| (1..=TIMEOUT_MAX).contains(seconds));
                seconds.map(|seconds| RowChange::Timeout(Duration::from_secs(seconds)))
            };
            row_field(parts, caller, given, (shown, read, "!llm_timeout takes a model and 1 to 3600 seconds")).await
        }
        // The model handles it.
        Typed::Database => Ok(String::new()),
    }
}

/// Runs a command that the bot answers at every door.
async fn by_the_bot(
    parts: &Parts,
    caller: &Caller,
    place: &Place,
    name: &str,
    options: Vec<(String, String)>,
) -> Result<String, InputRefusal> {
    let busy = || (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment".to_owned());
    let command = parts.sessions.runs(caller, place, name.to_owned(), options).await;
    let id = command.callback.id.id.clone();
    parts.events.open(place);
    let accepted = parts.intake.accept(Incoming::Command(Box::new(command)), Sessions::us()).await;
    accepted.map_err(|_| busy())?;
    match waiting::end(&parts.events, place, &id, ANSWER_TIMEOUT, || parts.sessions.now()).await {
        (waiting::Status::Complete | waiting::Status::Error, text) => Ok(text),
        (waiting::Status::OverLimit, text) => Err((StatusCode::TOO_MANY_REQUESTS, text)),
        (waiting::Status::Cancelled | waiting::Status::Timeout, _) => Err(busy()),
    }
}

/// Lists all sessions, shows one, or deletes one.
async fn session(parts: &Parts, caller: &Caller, given: &str) -> Result<String, InputRefusal> {
    let words: Vec<&str> = given.split_whitespace().collect();
    match words[..] {
        [] => {
            let lines = parts.sessions.list(caller).await;
            Ok(lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        }
        [named] => {
            let found = parts.sessions.find(caller, named).await.ok_or_else(|| unknown(named))?;
            let lines = parts.sessions.transcript(&found.place).await;
            let said: Vec<String> = lines.iter().map(ToString::to_string).collect();
            Ok(format!("{} {}\n{}", found.number, found.name, said.join("\n")))
        }
        [named, "delete"] => {
            let found = parts.sessions.find(caller, named).await.ok_or_else(|| unknown(named))?;
            let busy = (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; try again in a moment".to_owned());
            if manage::end(parts, caller, &found.place).await {
                Ok(format!("{} {} is gone", found.number, found.name))
            } else {
                Err(busy)
            }
        }
        [_, "attach"] => {
            Err(bad("only a client can attach to a session: staffai chat does; programs name the session"))
        }
        _ => Err(bad("write !session, !session NAME, or !session NAME delete")),
    }
}

/// Shows or sets the preview length of tool calls in this session.
async fn preview(parts: &Parts, place: &Place, given: &str) -> Result<String, InputRefusal> {
    let told = |shown: usize| match shown {
        0 => "tool calls are not shown".to_owned(),
        shown => format!("{shown} characters of each tool call and of its result are shown"),
    };
    let wanted = match given.to_ascii_lowercase().as_str() {
        "" => return Ok(told(parts.sessions.preview(place).await)),
        "off" => Some(0),
        number => number.parse().ok().filter(|number| *number <= PREVIEW_MAX),
    };
    let usage = || bad(format!("!tool_preview_length takes 0 to {PREVIEW_MAX} characters, or off"));
    let wanted = wanted.ok_or_else(usage)?;
    parts.sessions.show_of_calls(place, wanted).await;
    Ok(told(wanted))
}

fn unknown(session: &str) -> InputRefusal {
    (StatusCode::NOT_FOUND, format!("there is no session {session}; !session shows all"))
}

/// Shows a field of all rows or of one, or changes it.
async fn row_field(
    parts: &Parts,
    caller: &Caller,
    given: &str,
    (shown, read, usage): (impl Fn(&Row) -> String, impl Fn(&str) -> Option<RowChange>, &str),
) -> Result<String, InputRefusal> {
    let line = |row: &Row| format!("{}: {}", row.key, shown(row));
    let words: Vec<&str> = given.split_whitespace().collect();
    match words[..] {
        [] => Ok(parts.models.models().rows().iter().map(line).collect::<Vec<_>>().join("\n")),
        [key] => asked_row(parts, caller, key).map(|row| line(&row)),
        [key, word] => {
            let row = asked_row(parts, caller, key)?;
            let change = read(word).ok_or_else(|| bad(usage))?;
            parts.console.change_row(&row.key, change).await.map_err(|why| (StatusCode::CONFLICT, why))?;
            Ok(format!("{key}: {word}; in force within seconds"))
        }
        _ => Err(bad(usage)),
    }
}
