//! From settings to everything that the tree is built from.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Router;
use secrecy::SecretString;
use tokio::sync::watch;

use super::files;
use crate::actors::board::Board;
use crate::actors::roster::Roster;
use crate::actors::running::{Exit, Running};
use crate::actors::timeline::Timeline;
use crate::actors::vitals::TreeVitals;
use crate::actors::wiring::Parts;
use crate::api::{Api, ApiOptions, Limits};
use crate::config::Settings;
use crate::config::edges::DirectMessages;
use crate::discord::gateway::{Gateway, Interests};
use crate::discord::rest::Rest;
use crate::discord::{self, Access};
use crate::domain::triage::Rules;
use crate::domain::turn::{HistoryScope, LaneRule, Policy, ReplyContract};
use crate::llm::client::Client;
use crate::llm::registry::{self, DefaultRow};
use crate::ports::{Clock, Dice, Faults};
use crate::store::embedded::opener::Opener;
use crate::store::resilient::Resilient;

/// Looks up the value of a variable by name, for files that name one.
pub type Lookup = Arc<dyn Fn(&str) -> Option<SecretString> + Send + Sync>;

/// What a start needs beyond the settings.
pub struct Launch {
    /// The settings.
    pub settings: Settings,
    /// Values of variables by name.
    pub lookup: Lookup,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
    /// Injected failure; none in production.
    pub faults: Arc<dyn Faults>,
    /// Pages beside health and metrics.
    pub page: Option<Router>,
    /// The page of metrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Why a start failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Settings or files are wrong; each mistake is a sentence with its place and fix.
    #[error("{}", .0.join("\n"))]
    Configuration(Vec<String>),
    /// Another process uses the data directory.
    #[error("{0}")]
    InUse(String),
    /// The tree could not start.
    #[error("{0}")]
    Tree(String),
}

/// Builds the edges.
///
/// # Errors
/// See [`StartError`]; all mistakes in files are told at once.
pub async fn assemble(launch: Launch) -> Result<(Parts, watch::Receiver<Option<Exit>>), StartError> {
    let Launch { settings, lookup, clock, dice, faults, page, metrics } = launch;
    let mut mistakes = Vec::new();
    let prompts = files::prompts(&settings).map_err(|mistake| mistakes.push(mistake)).ok();
    let schema = files::schema(&settings).map_err(|mistake| mistakes.push(mistake)).ok();
    let models = models(&settings, &lookup).map_err(|more| mistakes.extend(more)).ok();
    let door = door(&settings).map_err(|mistake| mistakes.push(mistake)).ok();
    let (Some(prompts), Some(schema), Some(models), Some((source, poster))) = (prompts, schema, models, door) else {
        return Err(StartError::Configuration(mistakes));
    };
    let opener = Opener::new(settings.store.dir.clone(), Arc::clone(&clock));
    let store = Resilient::start(move || opener.open(), Arc::clone(&clock)).await;
    let store = Arc::new(store.map_err(|error| StartError::InUse(error.to_string()))?);
    let (roster, board) = (Arc::new(Roster::default()), Arc::new(Board::default()));
    let timeline = Arc::new(Timeline::default());
    let vitals = TreeVitals {
        roster: Arc::clone(&roster),
        board: Arc::clone(&board),
        timeline: Arc::clone(&timeline),
        store: Arc::clone(&store) as _,
        clock: Arc::clone(&clock),
    };
    let listener = Api::new(ApiOptions {
        address: settings.http.addr.to_string(),
        keys: settings.http.api_keys.clone(),
        vitals: Arc::new(vitals),
        metrics,
        page,
        limits: Limits::default(),
    });
    let (exit, exited) = watch::channel(None);
    let rules = rules(&settings);
    let parts = Parts {
        running: Arc::new(Running { settings, prompts, schema, rules }),
        clock,
        dice,
        faults,
        store,
        models: Arc::new(models),
        door: discord::DOOR,
        source: Arc::new(source),
        poster,
        listener: Arc::new(listener),
        roster,
        board,
        timeline,
        exit: Arc::new(exit),
    };
    Ok((parts, exited))
}

fn models(settings: &Settings, lookup: &Lookup) -> Result<Client, Vec<String>> {
    let llm = &settings.llm;
    let text = files::read(&llm.models).map_err(|mistake| vec![mistake])?;
    let path = llm.models.display().to_string();
    let file = text.as_deref().map(|text| registry::File { path: &path, text });
    let default = DefaultRow {
        model: llm.model.clone().unwrap_or_default(),
        base_url: llm.base_url(),
        key: llm.key.clone(),
        timeout: llm.timeout,
    };
    let rows = registry::build(file, &default, lookup.as_ref())?;
    Client::new(rows).map_err(|mistake| vec![mistake])
}

fn door(settings: &Settings) -> Result<(Gateway, Arc<Rest>), String> {
    let discord = &settings.discord;
    let access = Access {
        api_url: discord.api_url.clone(),
        token: discord.token.clone().unwrap_or_default(),
        allow_insecure: discord.allow_insecure,
    };
    let rest = Arc::new(Rest::new(&access).map_err(|error| error.to_string())?);
    let interests = Interests {
        names: settings.members.aliases.clone(),
        direct_messages: discord.direct_messages == DirectMessages::Answer,
    };
    Ok((Gateway::new(access, interests, Arc::clone(&rest)), rest))
}

/// Who is answered, and what this door wants of an answer.
fn rules(settings: &Settings) -> Rules {
    let texts = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<HashSet<_>>();
    Rules {
        aliases: settings.members.aliases.clone(),
        ignored_roles: texts(&settings.members.ignored_roles),
        allowed_bots: texts(&settings.bots.allowed),
        direct_messages: settings.discord.direct_messages == DirectMessages::Answer,
        policy: Policy {
            reply: ReplyContract::Typed,
            history: HistoryScope::PersonInPlace,
            lane: LaneRule::Queue,
            model: None,
        },
    }
}
