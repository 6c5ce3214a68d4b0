//! The timers and webhooks of the settings.

use std::collections::BTreeSet;

use secrecy::{ExposeSecret, SecretString};

use crate::app::configured::Lookup;
use crate::app::doors;
use crate::app::row_secret;
use actors::services::running::Triggers;
use domain::fire::{NAME_MAX, TriggerAction};
use domain::ids::Place;
use domain::model::Row;
use domain::timer::{CronSchedule, GRACE_MAX, Timer};
use domain::webhook::{Proof, SCHEMES, SECRET_MIN, Scheme, WINDOW_MAX, Webhook};
use llm::registry::RowOff;
use settings::Settings;
use settings::check::ids;
use settings::triggers::{HookRow, TimerRow, Triggers as Rows};
use terminal::{self, sessions};

/// The maximum number of timers, and of webhooks.
const ROWS_MAX: usize = 64;

/// Reads all timers and webhooks.
///
/// # Errors
/// Each mistake as a sentence with its place and fix.
pub(crate) fn read(settings: &Settings, lookup: &Lookup) -> Result<Triggers, Vec<String>> {
    let rows = &settings.triggers;
    let mut mistakes = Vec::new();
    let mut triggers = Triggers::default();
    let mut names = BTreeSet::new();
    for (number, row) in settings.numbered("triggers.timers", &rows.timers) {
        match timer(row, &mut names) {
            Ok(timer) => triggers.timers.push(timer.into()),
            Err(more) => mistakes.extend(placed("triggers.timers", number, &row.name, more)),
        }
    }
    names.clear();
    for (number, row) in settings.numbered("triggers.hooks", &rows.hooks) {
        match hook(row, lookup, &mut names) {
            Ok(hook) => drop(triggers.hooks.insert(row.name.clone(), hook.into())),
            Err(more) => mistakes.extend(placed("triggers.hooks", number, &row.name, more)),
        }
    }
    let secrets: Vec<SecretString> = secrets(settings, lookup);
    if (1..secrets.len()).any(|at| secrets[..at].iter().any(|one| one.expose_secret() == secrets[at].expose_secret())) {
        mistakes.push("triggers.hooks: two of them have one secret; give each its own".to_owned());
    }
    for (key, rows) in [("timers", rows.timers.len()), ("hooks", rows.hooks.len())] {
        if rows > ROWS_MAX {
            mistakes
                .push(format!("triggers.{key}: there are {rows} rows, and at most {ROWS_MAX} may be; leave some out"));
        }
    }
    if mistakes.is_empty() { Ok(triggers) } else { Err(mistakes) }
}

/// Returns a mistake for each timer or webhook whose model row is neither in `rows` nor disabled.
pub(crate) fn unknown_rows(settings: &Settings, rows: &[Row], off: &[RowOff]) -> Vec<String> {
    let known = |key: &str| rows.iter().any(|row| row.key == key) || off.iter().any(|row| row.key == key);
    let unknown = named_rows(settings).into_iter().filter(|(.., model)| !known(model));
    let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    let sentence = |(kind, name, model)| {
        format!("triggers.{kind}, {name}: there is no model row {model:?}; there are {}", keys.join(", "))
    };
    unknown.map(sentence).collect()
}

/// Returns a warning for each timer or webhook whose model row is disabled: the default row answers instead.
pub(crate) fn without_their_rows(settings: &Settings, off: &[RowOff]) -> Vec<String> {
    let affected = named_rows(settings).into_iter().filter(|(.., model)| off.iter().any(|row| row.key == **model));
    let sentence = |(kind, name, model)| {
        format!("triggers.{kind}, {name}: its model row {model} is disabled, so the default row answers")
    };
    affected.map(sentence).collect()
}

/// Returns the kind, the name and the model row of each timer and webhook that names a row.
fn named_rows(settings: &Settings) -> Vec<(&'static str, &str, &String)> {
    let Rows { timers, hooks } = &settings.triggers;
    let timers = timers.iter().filter_map(|row| Some(("timers", &*row.name, row.model.as_ref()?)));
    let hooks = hooks.iter().filter_map(|row| Some(("hooks", &*row.name, row.model.as_ref()?)));
    timers.chain(hooks).collect()
}

/// Returns the secrets of these settings and of the variables that they name.
pub(crate) fn secrets(settings: &Settings, lookup: &Lookup) -> Vec<SecretString> {
    settings.triggers.hooks.iter().filter_map(|row| secret(row, lookup)).collect()
}

fn secret(row: &HookRow, lookup: &Lookup) -> Option<SecretString> {
    row_secret::find(row.env_secret.as_deref(), row.secret.as_ref(), lookup)
}

/// Adds the place to each mistake of one row.
fn placed<'a>(
    list: &'a str,
    number: usize,
    name: &'a str,
    mistakes: Vec<String>,
) -> impl Iterator<Item = String> + use<'a> {
    mistakes.into_iter().map(move |mistake| format!("{list}, row {number}: {name}: {mistake}"))
}

/// The fields that timers and webhooks share.
#[derive(Clone, Copy)]
struct SharedFields<'a> {
    name: &'a str,
    prompt: &'a str,
    target: &'a str,
    per_hour: u32,
    tools: bool,
    model: Option<&'a String>,
}

/// Reads the shared fields. Adds each mistake to `mistakes`.
fn action(row: SharedFields<'_>, names: &mut BTreeSet<String>, mistakes: &mut Vec<String>) -> Option<TriggerAction> {
    let SharedFields { name, prompt, target, per_hour, tools, model } = row;
    mistakes.extend(named(name, names).err());
    let target = place(target).map_err(|mistake| mistakes.push(mistake)).ok()?;
    let (name, prompt, model) = (name.to_owned(), prompt.to_owned(), model.cloned());
    Some(TriggerAction { name, target, prompt, per_hour, tools, model })
}

fn timer(row: &TimerRow, names: &mut BTreeSet<String>) -> Result<Timer, Vec<String>> {
    let TimerRow { name, cron, zone, prompt, target, per_hour, grace, tools, model } = row;
    let mut mistakes = Vec::new();
    let (per_hour, tools, model) = (*per_hour, *tools, model.as_ref());
    let fields = SharedFields { name, prompt, target, per_hour, tools, model };
    let action = action(fields, names, &mut mistakes);
    if *grace > GRACE_MAX {
        mistakes.push(format!("grace is at most {} minutes", GRACE_MAX.as_secs() / 60));
    }
    let schedule = CronSchedule::read(cron, zone).map_err(|more| mistakes.extend(more)).ok();
    match (action, schedule) {
        (Some(action), Some(schedule)) if mistakes.is_empty() => Ok(Timer { action, schedule, grace: *grace }),
        _ => Err(mistakes),
    }
}

fn hook(row: &HookRow, lookup: &Lookup, names: &mut BTreeSet<String>) -> Result<Webhook, Vec<String>> {
    let HookRow { name, prompt, target, per_hour, window, tools, model, .. } = row;
    let mut mistakes = Vec::new();
    let (per_hour, tools, model) = (*per_hour, *tools, model.as_ref());
    let fields = SharedFields { name, prompt, target, per_hour, tools, model };
    let action = action(fields, names, &mut mistakes);
    if *window > WINDOW_MAX {
        mistakes.push(format!("window is at most {} minutes", WINDOW_MAX.as_secs() / 60));
    }
    let proof = proof(row, lookup).map_err(|mistake| mistakes.push(mistake)).ok();
    match (action, proof) {
        (Some(action), Some(proof)) if mistakes.is_empty() => Ok(Webhook { action, proof }),
        _ => Err(mistakes),
    }
}

/// Returns the authentication of requests: the signature scheme and the secret.
fn proof(row: &HookRow, lookup: &Lookup) -> Result<Proof, String> {
    let Some(scheme) = Scheme::named(&row.scheme) else {
        let known = SCHEMES.iter().map(|scheme| scheme.name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no scheme {:?}; write one of {known}", row.scheme));
    };
    let Some(secret) = secret(row, lookup) else {
        return Err(match &row.env_secret {
            Some(variable) => format!("the variable {variable} that env_secret names is not set; set it"),
            None => "set env_secret to the name of the variable that holds its secret".to_owned(),
        });
    };
    let Some(proof) = Proof::new(scheme, secret.expose_secret(), row.window) else {
        return Err("its secret is no base64; copy it as its sender shows it, beginning with whsec_".to_owned());
    };
    if proof.is_weak() {
        return Err(format!("its secret is too short; use {SECRET_MIN} characters or more, drawn at random"));
    }
    Ok(proof)
}

fn named(name: &str, names: &mut BTreeSet<String>) -> Result<(), String> {
    let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.len() > NAME_MAX || !name.chars().all(usable) {
        return Err(format!("is no name; use 1 to {NAME_MAX} small letters, digits, - or _"));
    }
    if names.insert(name.to_owned()) { Ok(()) } else { Err("is there twice; rename one of them".to_owned()) }
}

/// Parses a place at a door where posts without a message to answer are possible.
fn place(target: &str) -> Result<Place, String> {
    let doors = doors::POSTABLE.map(|door| door.to_string()).join(", ");
    let wanted = || format!("{target:?} is no target; write door:id, such as discord:<channel id>; doors are {doors}");
    let place: Place = target.parse().map_err(|_| wanted())?;
    if !doors::POSTABLE.contains(&place.door) {
        return Err(wanted());
    }
    if let Some(mistake) = ids::mistake_in(place.door.as_str(), &place.id) {
        return Err(format!("the target's id {mistake}"));
    }
    if place.door == terminal::DOOR && !sessions::is_place(&place.id) {
        let fix = "write terminal:SESSION, or terminal:KEY.SESSION for a session of a key; a session's name has 1 to 64 letters, digits, - or _";
        return Err(format!("{target:?} is no session; {fix}"));
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use settings::sources::Sources;

    fn read_from(toml: &str) -> Result<Triggers, Vec<String>> {
        let files = [("staffai.toml".into(), toml.to_owned())].into();
        let settings = settings::load(&Sources::from_maps([].into(), files)).unwrap().settings;
        let set = |name: &str| (name == "CI_SECRET").then(|| "a secret of some length".to_owned().into());
        let lookup: Lookup = Arc::new(set);
        assert!(!format!("{settings:?}").contains("of some length"));
        read(&settings, &lookup)
    }

    #[test]
    fn rows_are_read_with_their_defaults() {
        let toml = r#"
            [[triggers.timers]]
            name = "morning"
            cron = "0 9 * * MON-FRI"
            zone = "Europe/Berlin"
            prompt = "Greet."
            target = "discord:42"
            [[triggers.hooks]]
            name = "ci"
            env_secret = "CI_SECRET"
            prompt = "{{status}}"
            target = "terminal:laptop.builds"
            per_hour = 3
        "#;
        let triggers = read_from(toml).unwrap();
        let timer = &triggers.timers[0];
        assert_eq!((timer.action.per_hour, timer.grace.as_secs(), timer.action.tools), (12, 900, false));
        let hook = &triggers.hooks["ci"];
        assert_eq!((hook.action.target.to_string().as_str(), hook.action.per_hour), ("terminal:laptop.builds", 3));
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        let good = r#"name = "a", cron = "0 9 * * *", prompt = "x", target = "discord:42""#;
        for (rows, place, fix) in [
            (format!("timers = [{{{good}}}, {{{good}}}]"), "timers, row 2", "there twice"),
            (format!("timers = [{{{}}}]", good.replace("\"a\"", "\"A b\"")), "timers, row 1", "is no name"),
            (format!("timers = [{{{}}}]", good.replace("0 9", "99 9")), "timers, row 1", "cron expression"),
            (format!("timers = [{{{}}}]", good.replace("discord:42", "api:x")), "timers, row 1", "is no target"),
            (format!("timers = [{{{}}}]", good.replace("discord:42", "discord:x")), "timers, row 1", "Discord id"),
            (
                format!("timers = [{{{}}}]", good.replace("discord:42", "terminal:my builds")),
                "timers, row 1",
                "is no session",
            ),
            (
                format!("timers = [{{{}}}]", good.replace("discord:42", "terminal:ci.")),
                "timers, row 1",
                "is no session",
            ),
            (format!("timers = [{{{good}, grace = \"2h\"}}]"), "timers, row 1", "at most 30 minutes"),
            (
                r#"hooks = [{name = "a", prompt = "x", target = "discord:42"}]"#.to_owned(),
                "hooks, row 1",
                "set env_secret",
            ),
            (
                r#"hooks = [{name = "a", env_secret = "NONE", prompt = "x", target = "discord:42"}]"#.to_owned(),
                "hooks, row 1",
                "the variable NONE",
            ),
            (
                r#"hooks = [{name = "a", scheme = "gitea", secret = "a secret of some length", prompt = "x", target = "discord:42"}]"#
                    .to_owned(),
                "hooks, row 1",
                "one of staffai, github, standard, gitlab, stripe",
            ),
            (
                r#"hooks = [{name = "a", scheme = "standard", secret = "whsec_not base64", prompt = "x", target = "discord:42"}]"#
                    .to_owned(),
                "hooks, row 1",
                "no base64",
            ),
            (
                r#"hooks = [{name = "a", secret = "short", prompt = "x", target = "discord:42"}]"#.to_owned(),
                "hooks, row 1",
                "too short",
            ),
        ] {
            let mistakes = read_from(&format!("[triggers]\n{rows}")).unwrap_err();
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            assert!(
                mistakes[0].starts_with(&format!("triggers.{place}: ")) && mistakes[0].contains(fix),
                "{mistakes:?}"
            );
        }
    }
}
