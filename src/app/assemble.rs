//! From settings to everything that the tree is built from.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;

use super::reload::{self, Configured, Lookup, Watched};
use crate::actors::board::{Board, PartKind, STORE};
use crate::actors::roster::Roster;
use crate::actors::running::{Exit, Live};
use crate::actors::timeline::Timeline;
use crate::actors::turn_events::TurnEvents;
use crate::actors::vitals::TreeVitals;
use crate::actors::wiring::{Handles, Parts};
use crate::api::{Api, ApiOptions, Limits};
use crate::config::Settings;
use crate::config::edges::{self, DirectMessages};
use crate::discord::attachments::ContentServers;
use crate::discord::gateway::{Gateway, Interests};
use crate::discord::message::AllowedMentions;
use crate::discord::prefilter::Lottery;
use crate::discord::rest::Rest;
use crate::discord::{self, Access};
use crate::ports::{Attachments, Clock, Dice, EventSource, Faults, Poster, Store, Vitals};
use crate::render;
use crate::store::resilient::Resilient;
use crate::store::{OpenError, embedded, redis};
use crate::telemetry::Redaction;
use crate::terminal::sessions::Sessions;
use crate::terminal::{self, Nowhere};

/// What a start needs beyond the settings.
pub struct Launch {
    /// The settings.
    pub settings: Settings,
    /// Values of variables by name.
    pub lookup: Lookup,
    /// Told of every secret before it is used.
    pub redaction: Redaction,
    /// How the configuration is read again; none reads only the files that the settings name.
    pub reread: Option<Watched>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub dice: Arc<dyn Dice>,
    /// Injected failure; none in production.
    pub faults: Arc<dyn Faults>,
    /// Only the terminal's door is open: no platform is asked for anything.
    pub alone: bool,
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

/// Everything that a run is made of.
pub struct Assembled {
    /// What the tree is built from.
    pub parts: Parts,
    /// Told when the process must end.
    pub exited: watch::Receiver<Option<Exit>>,
    /// Where the pages are, once they are.
    pub bound: watch::Receiver<Option<SocketAddr>>,
}

/// Builds the edges.
///
/// # Errors
/// See [`StartError`]; all mistakes in files are told at once.
pub async fn assemble(launch: Launch) -> Result<Assembled, StartError> {
    let Launch { settings, lookup, redaction, reread, clock, dice, faults, alone, page, metrics } = launch;
    let mut mistakes = Vec::new();
    let sessions = Arc::new(Sessions::new(Arc::clone(&clock)));
    let configured = Configured { settings: settings.clone(), lookup, redaction };
    let live = reload::running(configured.clone()).map(Live::new);
    let door = if alone { Ok(alone_with(&sessions)) } else { door(&settings, live.as_ref().ok(), &dice) };
    let door = door.map_err(|mistake| mistakes.push(mistake)).ok();
    let live = live.map_err(|more| mistakes.extend(more)).ok();
    let (Some(Platform { source, poster, attachments }), Some(live)) = (door, live) else {
        return Err(StartError::Configuration(mistakes));
    };
    let reread = reread.unwrap_or_else(|| Watched::new(Arc::new(move || Ok(configured.clone())), [], &settings));
    let store = store(&settings, &clock).await?;
    let (roster, board) = (Arc::new(Roster::default()), Arc::new(Board::default()));
    let timeline = Arc::new(Timeline::default());
    let vitals: Arc<dyn Vitals> = Arc::new(TreeVitals {
        roster: Arc::clone(&roster),
        board: Arc::clone(&board),
        timeline: Arc::clone(&timeline),
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        live: live.clone(),
    });
    board.meet(PartKind::Store, STORE);
    let handles = Handles::new(discord::DOOR, terminal::DOOR);
    let events = TurnEvents::new(vec![terminal::DOOR], Arc::clone(&clock));
    let listener = Api::new(ApiOptions {
        address: settings.http.addr.to_string(),
        keys: settings.http.api_keys.clone(),
        vitals: Arc::clone(&vitals),
        metrics,
        page,
        routes: terminal::routes::router(Arc::clone(&sessions), Arc::new(handles.intake()), Arc::new(events.clone())),
        limits: Limits::default(),
    });
    let bound = listener.bound();
    let (exit, exited) = watch::channel(None);
    let parts = Parts {
        live,
        files: Arc::new(reread),
        clock,
        dice,
        faults,
        store,
        door: discord::DOOR,
        source,
        poster,
        attachments,
        terminal_door: terminal::DOOR,
        terminal: sessions,
        renderer: render::renderer(),
        handles,
        listener: Arc::new(listener),
        vitals,
        roster,
        board,
        timeline,
        events,
        exit: Arc::new(exit),
    };
    Ok(Assembled { parts, exited, bound })
}

/// Redis where an address of it is configured, else the file in the data directory. A server that is down is no reason not
/// to start.
async fn store(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>, StartError> {
    let in_use = |error: OpenError| StartError::InUse(error.to_string());
    if let Some(address) = settings.redis.address() {
        let opener = redis::opener::Opener::new(&address)
            .map_err(|mistake| StartError::Configuration(vec![format!("the address of redis {mistake}")]))?;
        let store = Resilient::start_with(move || opener.open(), Arc::clone(clock), redis::limits()).await;
        return Ok(Arc::new(store.map_err(in_use)?));
    }
    let opener = embedded::opener::Opener::new(settings.store.dir.clone(), Arc::clone(clock));
    let store = Resilient::start(move || opener.open(), Arc::clone(clock)).await;
    Ok(Arc::new(store.map_err(in_use)?))
}

/// How to reach Discord.
pub(super) fn access(settings: &Settings) -> Access {
    let discord = &settings.discord;
    Access {
        api_url: discord.api_url.clone(),
        token: discord.token.clone().unwrap_or_default(),
        allow_insecure: discord.allow_insecure,
    }
}

/// A platform as the tree sees it: what it tells, what it can be asked, and the files that it keeps.
struct Platform {
    source: Arc<dyn EventSource>,
    poster: Arc<dyn Poster>,
    attachments: Arc<dyn Attachments>,
}

/// No platform: nothing is told, and nothing is ever posted but to the terminal.
fn alone_with(sessions: &Arc<Sessions>) -> Platform {
    Platform { source: Arc::new(Nowhere), poster: Arc::clone(sessions) as _, attachments: Arc::new(Nowhere) }
}

/// Draws for messages that nobody addressed to us, with the chances that are in force at that moment.
fn lottery(live: Live, dice: Arc<dyn Dice>) -> Lottery {
    let chances = move || {
        let running = live.now();
        let interjection = &running.settings.interjection;
        (interjection.response_chance, interjection.delivery_chance)
    };
    Lottery { dice, chances: Arc::new(chances) }
}

fn door(settings: &Settings, live: Option<&Live>, dice: &Arc<dyn Dice>) -> Result<Platform, String> {
    let access = access(settings);
    let edges::AllowedMentions { replied_user, users } = settings.discord.allowed_mentions;
    let rest = Rest::new(&access).map_err(|error| error.to_string())?;
    let rest = Arc::new(rest.pinging(AllowedMentions { answered: replied_user, mentioned: users }));
    let interests = Interests {
        names: settings.members.aliases.clone(),
        direct_messages: settings.discord.direct_messages == DirectMessages::Answer,
        reactions: settings.interjection.backoff_after > 0,
        lottery: live.map(|live| lottery(live.clone(), Arc::clone(dice))),
    };
    let attachments = ContentServers::new(&access, &rest).map_err(|error| error.to_string())?;
    let source = Gateway::new(access, interests, Arc::clone(&rest));
    Ok(Platform { source: Arc::new(source), poster: rest, attachments: Arc::new(attachments) })
}
