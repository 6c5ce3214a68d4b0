//! Sections of prompts: operators read, change and revert them.

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::{Parts, problem};
use crate::DOOR;
use domain::api_key::{Caller, Right};
use domain::ids::{MessageId, Person, Place, TurnId};
use domain::people::Linked;
use domain::prompt::editing::{self, Edit, USAGE};
use domain::prompt::sections::{Section, Version};
use domain::tool::OnBehalf;

/// The word that lists the sections in place of a section's name.
const LIST: &str = "sections";

/// Creates a request of an operator in this place.
fn asked(parts: &Parts, caller: &Caller, place: &Place) -> OnBehalf {
    OnBehalf {
        person: caller.person().unwrap_or_else(|| Person::new(DOOR, caller.name())),
        linked: Linked::default(),
        alone: false,
        place: place.clone(),
        parent: None,
        guild: None,
        roles: Vec::new(),
        own: None,
        turn: TurnId::of(&MessageId::new(DOOR, "0")),
        at: parts.sessions.now(),
        keeps: false,
        operator: caller.may(Right::Operate),
        lineage: None,
        tokens: 0,
        call: 0,
    }
}

async fn sections(parts: &Parts, caller: &Caller) -> Result<Vec<Section>, Box<Response>> {
    if !caller.may(Right::Operate) {
        let why = "the system prompt is for keys with the right operate";
        return Err(Box::new(problem::refused(StatusCode::FORBIDDEN, why)));
    }
    let asked = asked(parts, caller, &Place::new(DOOR, caller.name()));
    let all = parts.prompts.sections(&asked).await;
    all.map_err(|why| Box::new(problem::refused(StatusCode::SERVICE_UNAVAILABLE, &why)))
}

fn head(section: &Section) -> Value {
    json!({
        "section": section.name,
        "version": section.versions.number(),
        "characters": section.text.chars().count(),
        "changeable": !section.container,
    })
}

fn unknown(section: &str) -> Response {
    let why = format!("there is no section {section:?}; GET /api/v1/prompts lists all");
    problem::refused(StatusCode::NOT_FOUND, &why)
}

/// Lists all sections without their texts.
pub(super) async fn list(State(parts): State<Parts>, Extension(caller): Extension<Caller>) -> Response {
    match sections(&parts, &caller).await {
        Ok(all) => Json(json!({"sections": all.iter().map(head).collect::<Vec<_>>()})).into_response(),
        Err(refusal) => *refusal,
    }
}

/// Returns one section with its text and its versions, newest first.
pub(super) async fn show(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(wanted): Path<String>,
) -> Response {
    let all = match sections(&parts, &caller).await {
        Ok(all) => all,
        Err(refusal) => return *refusal,
    };
    let Some(section) = editing::find(&all, &wanted) else { return unknown(&wanted) };
    let version = |version: &Version| {
        json!({
            "version": version.number,
            "change": version.change,
            "by": version.by.to_string(),
            "at": version.at,
            "text": version.text,
        })
    };
    let mut told = head(section);
    told["text"] = section.text.clone().into();
    told["versions"] = section.versions.0.iter().rev().map(version).collect();
    Json(told).into_response()
}

/// Changes a section, or reverts it to an earlier version.
pub(super) async fn change(
    State(parts): State<Parts>,
    Extension(caller): Extension<Caller>,
    Path(wanted): Path<String>,
    body: Result<Json<Edit>, JsonRejection>,
) -> Response {
    let all = match sections(&parts, &caller).await {
        Ok(all) => all,
        Err(refusal) => return *refusal,
    };
    let Some(section) = editing::find(&all, &wanted) else { return unknown(&wanted) };
    let change = match body {
        Ok(Json(edit)) => edit.change(),
        Err(rejection) => return problem::refused(rejection.status(), &rejection.body_text()),
    };
    let change = match change {
        Ok(change) => change,
        Err(why) => return problem::refused(StatusCode::UNPROCESSABLE_ENTITY, why),
    };
    let asked = asked(&parts, &caller, &Place::new(DOOR, caller.name()));
    match parts.prompts.change(&asked, &section.name, &change).await {
        Ok(version) => Json(json!({"section": section.name, "version": version})).into_response(),
        Err(why) => problem::refused(StatusCode::CONFLICT, &why),
    }
}

/// Runs `!sysprompt`: returns the assembled instructions, the list of sections, one section, or the result of a change.
///
/// # Errors
/// The reason of a refusal, for the caller.
pub(super) async fn typed(parts: &Parts, caller: &Caller, place: &Place, given: &str) -> Result<String, String> {
    let asked = asked(parts, caller, place);
    let (wanted, line) = given.split_once(char::is_whitespace).unwrap_or((given, ""));
    if wanted.is_empty() {
        return parts.prompts.assembled(&asked, caller.name()).await;
    }
    let all = parts.prompts.sections(&asked).await?;
    let listed = || if all.is_empty() { "there are no sections".to_owned() } else { editing::list(&all) };
    let section = match editing::find(&all, wanted) {
        Some(section) => section,
        None if wanted == LIST && line.is_empty() => return Ok(listed()),
        None => return Err(format!("there is no section {wanted:?}. {}", listed())),
    };
    if line.is_empty() {
        return Ok(editing::whole(section));
    }
    let change = Edit::typed(line).ok_or(USAGE)?.change()?;
    let version = parts.prompts.change(&asked, &section.name, &change).await?;
    Ok(format!("{} is version {version} now, from the next question on", section.name))
}
