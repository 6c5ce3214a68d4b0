//! The settings of the holder of a key, for all sessions or for one.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Parts, about, problem, typed};
use crate::sessions::owner_of;
use domain::api_key::Caller;
use domain::locale::Locale;
use domain::notice::commands::setting_refused;
use domain::preferences::{Change, Holder, Refused, Setting, Shown};

/// The place to look at.
#[derive(Debug, Deserialize)]
pub(super) struct Where {
    session: Option<String>,
}

/// Changes of settings: values by name; `null` resets one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    /// The only session in which the values apply; absent for all.
    session: Option<String>,
    settings: Map<String, Value>,
}

/// The purpose of a request.
#[derive(Clone, Copy)]
enum Purpose {
    /// Operators read the settings of each session.
    Read,
    /// Only the owner of a session changes its settings.
    Change,
}

/// Returns the holder of the key, in a session if one is named.
async fn holder(
    parts: &Parts,
    caller: &Caller,
    session: Option<&str>,
    purpose: Purpose,
) -> Result<Holder, Box<Response>> {
    let (person, place) = match session {
        None if caller.person().is_none() => {
            let why = "without keys, each session has settings of its own; name one with session";
            return Err(Box::new(problem::refused(StatusCode::BAD_REQUEST, why)));
        }
        None => about::asker(caller),
        Some(session) => {
            let found = match purpose {
                Purpose::Read => Ok(parts.sessions.find(caller, session).await),
                Purpose::Change => parts.sessions.find_own(caller, session).await,
            };
            let found = found.map_err(|why| Box::new(problem::refused(problem::status_of(why), &why.to_string())))?;
            let Some(found) = found else {
                let why = format!("this key has no session {session:?}; GET /api/v1/sessions lists them");
                return Err(Box::new(problem::refused(StatusCode::NOT_FOUND, &why)));
            };
            (owner_of(&found.place), found.place)
        }
    };
    Ok(Holder { person, place, parent: None, guild: None, roles: Vec::new() })
}

/// Lists the settings that the row in force can serve.
pub(super) async fn show(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    asked: Result<Query<Where>, QueryRejection>,
) -> Response {
    let session = match asked {
        Ok(Query(Where { session })) => session,
        Err(rejection) => return problem::refused(rejection.status(), &rejection.body_text()),
    };
    match holder(&parts, &caller, session.as_deref(), Purpose::Read).await {
        Ok(holder) => listed(&parts, &holder).await,
        Err(refusal) => *refusal,
    }
}

async fn listed(parts: &Parts, holder: &Holder) -> Response {
    match parts.settings.show(holder).await {
        Ok(all) => Json(json!({"settings": all.iter().map(told).collect::<Vec<_>>()})).into_response(),
        Err(refused) => refusal(&refused),
    }
}

fn told(Shown { setting, value, level, open }: &Shown) -> Value {
    json!({
        "name": setting.name(),
        "value": value,
        "level": level.as_str(),
        "changeable": open,
        "values": setting.values(),
    })
}

/// Changes settings, all or none, and lists them.
pub(super) async fn change(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    body: Result<Json<Changes>, JsonRejection>,
) -> Response {
    let Json(Changes { session, settings }) = match body {
        Ok(body) => body,
        Err(rejection) => return problem::refused(rejection.status(), &rejection.body_text()),
    };
    let changes: Result<Vec<Change>, Refused> =
        settings.into_iter().map(|(name, value)| read(&name, value, session.is_some())).collect();
    let changes = match changes {
        Ok(changes) => changes,
        Err(refused) => return refusal(&refused),
    };
    let holder = match holder(&parts, &caller, session.as_deref(), Purpose::Change).await {
        Ok(holder) => holder,
        Err(refusal) => return *refusal,
    };
    if let Err((status, why)) = changes.iter().try_for_each(|change| typed::may_choose(&parts, &caller, change)) {
        return problem::refused(status, &why);
    }
    match parts.settings.change(&holder, &changes).await {
        Ok(_) => listed(&parts, &holder).await,
        Err(refused) => refusal(&refused),
    }
}

fn read(name: &str, value: Value, here: bool) -> Result<Change, Refused> {
    let setting = Setting::named(name).ok_or(Refused::Name)?;
    let value = match value {
        Value::Null => None,
        Value::Bool(on) => Some(if on { "on" } else { "off" }.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text),
        Value::Array(_) | Value::Object(_) => return Err(Refused::Value(setting)),
    };
    Ok(Change { here, setting, value })
}

fn refusal(refused: &Refused) -> Response {
    let status = match refused {
        Refused::Name | Refused::Value(_) | Refused::NoSuchModel(..) => StatusCode::BAD_REQUEST,
        Refused::Closed(_) => StatusCode::FORBIDDEN,
        Refused::NotServed(..) => StatusCode::CONFLICT,
        Refused::Away => StatusCode::SERVICE_UNAVAILABLE,
    };
    problem::refused(status, &setting_refused(refused, Locale::English))
}
