//! `staffai model`: lists the models, and changes them without a restart.

use std::sync::Arc;

use clap::Subcommand;
use serde_json::{Map, Value};

use crate::app::commands::check;
use crate::app::commands::reading;
use crate::app::commands::reading::Reading;
use crate::app::configured::Lookup;
use crate::app::rows::{self, ChangedRows};
use crate::app::system::SystemClock;
use crate::app::{Cli, Options, exit, opening};
use llm::registry::file::{Draft, Presence};
use ports::Clock;
use settings::{Loaded, Settings};

/// The timeout for closing the shared store.
const CLOSE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Lists all rows: those in force, then the others, each with its source.
    List {
        #[command(flatten)]
        options: Options,
    },
    /// Adds a row, or changes fields of an existing one.
    Add {
        /// The key of the row.
        key: String,
        /// The model's name at the provider. Default: the key.
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// The address of its endpoint. Default: the default endpoint.
        #[arg(long, value_name = "URL")]
        host: Option<String>,
        /// The variable that holds the key of that endpoint.
        #[arg(long, value_name = "NAME")]
        env_key: Option<String>,
        /// A fallback row for failures of this one. Can be repeated.
        #[arg(long, value_name = "ROW")]
        fallback: Vec<String>,
        /// Any field of a row as in config/models.json, such as `tools="prompt"`. Can be repeated.
        #[arg(long = "set", value_name = "FIELD=JSON")]
        fields: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Enables a row.
    Enable {
        /// The key of the row.
        key: String,
        #[command(flatten)]
        options: Options,
    },
    /// Disables a row.
    Disable {
        /// The key of the row.
        key: String,
        #[command(flatten)]
        options: Options,
    },
    /// Reverts the changes of a row. Removes a row that was added.
    Reset {
        /// The key of the row.
        key: String,
        #[command(flatten)]
        options: Options,
    },
    /// Asks a row one question and tests one tool call. Exits with 1 if one fails.
    Test {
        /// The key of the row.
        key: String,
        #[command(flatten)]
        options: Options,
    },
}

impl Action {
    pub(crate) fn options(&self) -> &Options {
        match self {
            Self::List { options }
            | Self::Add { options, .. }
            | Self::Enable { options, .. }
            | Self::Disable { options, .. }
            | Self::Reset { options, .. }
            | Self::Test { options, .. } => options,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(cli: &Cli, action: &Action) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let (settings, lookup) = (&loaded.settings, &reading::lookup(&loaded));
    let done = match action {
        Action::List { .. } => list(settings, lookup),
        Action::Test { key, .. } => return test(&loaded, lookup, key).await,
        Action::Add { key, .. } => match fields(action) {
            Ok(fields) => {
                let fields = with_what_was_made(settings, lookup, key, fields);
                change(settings, lookup, key, |changed| add(changed, key, &fields)).await
            }
            Err(mistake) => Err(mistake),
        },
        Action::Enable { key, .. } => set(settings, lookup, key, true).await,
        Action::Disable { key, .. } => set(settings, lookup, key, false).await,
        Action::Reset { key, .. } => change(settings, lookup, key, |changed| reset(changed, key)).await,
    };
    match done {
        Ok(()) => exit::FINE,
        Err(mistake) => {
            eprintln!("{mistake}");
            exit::USAGE
        }
    }
}

/// Returns the rows as lines: the key, the model, its status, and its source.
pub(crate) fn described(settings: &Settings, lookup: &Lookup) -> Result<Vec<(String, String, String)>, String> {
    let changed = rows::read(settings)?;
    let drafts = rows::drafts(settings, &changed)?;
    let registry = settings.llm.model.as_ref().and_then(|_| rows::configured(settings, lookup).ok());
    let mut lines = Vec::new();
    let mut told = Vec::new();
    for (at, row) in registry.iter().flat_map(|(registry, _)| registry.rows()).enumerate() {
        let endpoint = registry.as_ref().and_then(|(registry, _)| registry.endpoint(&row.key));
        let model = endpoint.map_or(String::new(), |endpoint| format!("{} at {}", endpoint.model, endpoint.base));
        let state = if at == 0 { "the default row" } else { "in force" };
        let is_made = !drafts.iter().any(|draft| draft.row.key == row.key);
        let origin = if is_made { "made from LITELLM_MODEL".to_owned() } else { origin(settings, &changed, &row.key) };
        lines.push((row.key.clone(), format!("{model}, {state}, tools {}", row.tools.as_str()), origin));
        told.push(row.key.clone());
    }
    for draft in drafts.iter().filter(|draft| !told.contains(&draft.row.key)) {
        let state = match draft.presence {
            Presence::Disabled => "disabled",
            Presence::Taken | Presence::WhenNamed => "unused: no setting names it",
        };
        lines.push((
            draft.row.key.clone(),
            format!("{}, {state}", draft.model),
            origin(settings, &changed, &draft.row.key),
        ));
    }
    Ok(lines)
}

fn origin(settings: &Settings, changed: &ChangedRows, key: &str) -> String {
    let place =
        if settings.llm.models.exists() { settings.llm.models.display().to_string() } else { "built in".to_owned() };
    match changed.rows.get(key).and_then(Value::as_object) {
        Some(fields) => {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            format!("{}: {}", rows::file(settings).display(), names.join(", "))
        }
        None => place,
    }
}

fn list(settings: &Settings, lookup: &Lookup) -> Result<(), String> {
    for (key, what, origin) in described(settings, lookup)? {
        say!("{key}  {what}  # {origin}");
    }
    Ok(())
}

/// Returns the given fields of a new row.
fn fields(action: &Action) -> Result<Map<String, Value>, String> {
    let Action::Add { model, host, env_key, fallback, fields, .. } = action else { return Ok(Map::new()) };
    let named = [("model_id", model), ("host", host), ("env_key", env_key)];
    let mut all: Map<String, Value> =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))).collect();
    if !fallback.is_empty() {
        all.insert("fallback".to_owned(), fallback.clone().into());
    }
    for field in fields {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            format!("--set {field}: write a field of config/models.json and its value, such as vision=true")
        })?;
        // An unquoted word is a string.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        all.insert(name.trim().to_owned(), value);
    }
    all.entry("enabled").or_insert(Value::Bool(true));
    Ok(all)
}

/// Turns the row created from `LITELLM_MODEL` alone into a row of its own. Fields that are not given keep the known
/// values of its model.
fn with_what_was_made(
    settings: &Settings,
    lookup: &Lookup,
    key: &str,
    fields: Map<String, Value>,
) -> Map<String, Value> {
    let described = rows::read(settings).and_then(|changed| rows::drafts(settings, &changed));
    let is_made = settings.llm.model.as_deref() == Some(key)
        && described.is_ok_and(|drafts| !drafts.iter().any(|draft| draft.row.key == key));
    let registry = if is_made { rows::configured(settings, lookup).ok() } else { None };
    let Some(made) = registry.as_ref().and_then(|(registry, _)| registry.rows().iter().find(|row| row.key == key))
    else {
        return fields;
    };
    let known = [
        // Null would forbid every temperature.
        made.temperature.map(|degrees| ("temperature", degrees.into())),
        Some(("schema_with_tools", made.schema_with_tools.into())),
        Some(("vision", made.vision.into())),
    ];
    let known = known.into_iter().flatten();
    let mut all: Map<String, Value> = known.map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(fields);
    say!("{key} was derived from LITELLM_MODEL; it is now a separate row with the same properties");
    all
}

fn add(changed: &mut ChangedRows, key: &str, fields: &Map<String, Value>) -> Result<(), String> {
    if key.trim().is_empty() || key.len() > 64 || key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("{key:?} is not a valid key of a row; use up to 64 characters without spaces"));
    }
    for (name, value) in fields {
        changed.set(key, name, value.clone());
    }
    Ok(())
}

fn reset(changed: &mut ChangedRows, key: &str) -> Result<(), String> {
    match changed.rows.remove(key) {
        Some(_) => Ok(()),
        None => Err(format!("the row {key} has no changes; `staffai model list` shows all")),
    }
}

async fn set(settings: &Settings, lookup: &Lookup, key: &str, enabled: bool) -> Result<(), String> {
    let drafts = rows::drafts(settings, &rows::read(settings)?)?;
    if !drafts.iter().any(|draft: &Draft| draft.row.key == key) {
        return Err(format!("there is no row {key} in the files of rows; staffai model list shows all"));
    }
    change(settings, lookup, key, |changed| {
        changed.set(key, "enabled", Value::Bool(enabled));
        Ok(())
    })
    .await
}

/// Changes the rows, if the result is valid.
async fn change(
    settings: &Settings,
    lookup: &Lookup,
    key: &str,
    act: impl FnMut(&mut ChangedRows) -> Result<(), String> + Send,
) -> Result<(), String> {
    let store = if settings.chosen_store().is_shared() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Some(opening::open_store(settings, &clock, None).await.map_err(|error| error.to_string())?.store)
    } else {
        None
    };
    let readable = |changed: &ChangedRows| {
        rows::drafts(settings, changed)?;
        // Without a model, the required rows are unknown.
        let rows = settings.llm.model.as_ref().map(|_| rows::configured_with(settings, changed, lookup).map(drop));
        rows.unwrap_or(Ok(())).map_err(|mistakes| mistakes.join("\n"))
    };
    let done = rows::change(settings, store.as_ref(), act, readable).await;
    if let Some(store) = &store {
        store.close(CLOSE_TIMEOUT).await;
    }
    done?;
    let which = match &store {
        Some(_) => "that keeps its data in the same Redis".to_owned(),
        None => format!("whose data directory is {}", settings.store.dir.display()),
    };
    say!("{key} is changed; a running service {which} applies it within seconds");
    Ok(())
}

/// Asks one real question and tests one tool call.
async fn test(loaded: &Loaded, lookup: &Lookup, key: &str) -> u8 {
    let mut settings = loaded.settings.clone();
    let known = settings.llm.model.as_ref().and_then(|_| rows::configured(&settings, lookup).ok());
    let known = known.is_some_and(|(registry, _)| registry.rows().iter().any(|row| row.key == key));
    if !known {
        eprintln!("there is no row {key} in force; staffai model list shows all");
        return exit::USAGE;
    }
    settings.llm.check_models = vec![key.to_owned()];
    check::model(&settings, lookup).await
}
