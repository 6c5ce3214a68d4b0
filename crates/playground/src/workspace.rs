//! A local Slack: one workspace with members, channels and one app. It implements the part of Slack's Web API and Socket
//! Mode that the bot uses, delivers each event to any open connection, again until it is acknowledged, and fails where
//! [`Fault`]s say so.
//!
//! Every collection is bounded: the oldest entries leave first.
//!
//! Sources: `docs.slack.dev/apis/events-api/using-socket-mode`, `docs.slack.dev/reference/methods`.

mod acting;
mod breaking;
mod connections;
mod history;
mod methods;
mod posts;
mod seen;
mod state;
mod streaming;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use state::State;

/// The user id of the bot.
pub const BOT: &str = "UBOT";
/// The user id of the bot of another app.
pub const OTHER_BOT: &str = "UOTHER";
/// The id of the workspace.
pub const TEAM: &str = "T0WORK";

/// The largest body of a request, in bytes: a file of an answer.
const BODY_BYTES: usize = 10 << 20;
/// The life of a stream. Source: `docs.slack.dev/reference/methods/chat.startStream`.
const STREAM: Duration = Duration::from_secs(300);
/// The time between two looks for events that are due.
const LOOK: Duration = Duration::from_millis(20);

/// A message.
#[derive(Debug, Clone, Serialize)]
pub struct Message {
    /// The channel: its id begins with `D` for a direct message.
    pub channel: String,
    /// The timestamp, which identifies it in its channel.
    pub ts: String,
    /// The timestamp of the first message of its thread.
    pub thread: Option<String>,
    /// The author.
    pub user: String,
    /// The text in Slack's markup; Markdown if it was streamed.
    pub text: String,
    /// The blocks, or null.
    pub blocks: Value,
    /// The metadata, or null.
    #[serde(skip)]
    pub metadata: Value,
    /// The number of edits.
    pub edits: usize,
    /// Its file, or null.
    pub file: Value,
    /// True if it was streamed.
    pub streamed: bool,
    /// The start of its stream, while it is open.
    #[serde(skip)]
    pub streams: Option<Instant>,
}

/// A message of a member, by its place in Slack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Said {
    /// The channel.
    pub channel: String,
    /// Its timestamp.
    pub ts: String,
    /// The timestamp of the first message of its thread.
    pub root: String,
}

/// The fault of a call.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The call takes effect, and its answer is lost.
    LostAnswer,
    /// The call takes effect, and there is no answer.
    NoAnswer,
    /// 429 with this delay in seconds.
    Limited(u64),
    /// An error that Slack names.
    Named(&'static str),
    /// A status without Slack's words.
    Status(u16),
}

/// A member of the workspace.
#[derive(Debug, Clone, Serialize)]
pub struct Person {
    /// The user id.
    pub id: String,
    /// The displayed name.
    pub name: String,
    /// True for an administrator of the workspace.
    pub admin: bool,
}

/// A channel that exists from the start.
#[derive(Debug, Clone, Serialize)]
pub struct Place {
    /// The id.
    pub id: String,
    /// The name, without a sign.
    pub name: String,
}

/// The options of a workspace.
#[derive(Clone)]
pub struct Options {
    /// The token of the bot user.
    pub bot_token: String,
    /// The token of the app.
    pub app_token: String,
    /// The tokens of another app in this workspace: of its bot user, and of the app. Then all apps get the events of all
    /// messages, also of those of bots, as at Slack.
    pub other_app: Option<(String, String)>,
    /// The known members; others have a name made from their id.
    pub people: Vec<Person>,
    /// The channels without messages.
    pub places: Vec<Place>,
    /// The time after which Slack closes a stream; `None` for a workspace without streams.
    pub streams: Option<Duration>,
    /// The number of calls and answers that are kept for tests.
    pub recorded: usize,
    /// The clock for timestamps, in milliseconds since 1970.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Options {
    /// Returns the options of the playground: Ada, Ben and Chloe (an administrator), two channels, and streams that are
    /// closed after five minutes. Nothing is recorded.
    #[must_use]
    pub fn of_playground(bot_token: String, app_token: String, clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        let person = |id: &str, name: &str, admin| Person { id: id.to_owned(), name: name.to_owned(), admin };
        let place = |id: &str, name: &str| Place { id: id.to_owned(), name: name.to_owned() };
        Self {
            bot_token,
            app_token,
            other_app: None,
            people: vec![person("UADA", "Ada", false), person("UBEN", "Ben", false), person("UCHLOE", "Chloe", true)],
            places: vec![place("C1", "general"), place("C2", "random")],
            streams: Some(STREAM),
            recorded: 0,
            clock,
        }
    }
}

/// A running workspace. Cheap to clone; it ends with its runtime.
#[derive(Clone)]
pub struct Workspace {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
    /// The apps with their tokens: of the bot user, and of the app.
    apps: Arc<[AppTokens]>,
    url: String,
    envelopes: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
struct AppTokens {
    bot: String,
    app: String,
    /// The user id of its bot.
    user: &'static str,
}

impl AppTokens {
    fn all(options: &Options) -> Arc<[Self]> {
        let (bot, app) = (options.bot_token.clone(), options.app_token.clone());
        let other = options.other_app.clone().map(|(bot, app)| Self { bot, app, user: OTHER_BOT });
        [Self { bot, app, user: BOT }].into_iter().chain(other).collect()
    }
}

/// The arguments of a call.
pub type Arguments = HashMap<String, String>;

impl Workspace {
    /// Starts a workspace on a free port of this machine.
    ///
    /// # Errors
    /// No port can be bound.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let workspace = Self {
            url: format!("http://{}", listener.local_addr()?),
            apps: AppTokens::all(&options),
            state: Arc::new(Mutex::new(State::new(options))),
            changed: Arc::new(watch::Sender::new(0)),
            envelopes: Arc::default(),
        };
        let app = Router::new()
            .route("/api/{method}", post(methods::call).get(methods::call))
            .route("/link", get(connections::open))
            .route("/files/{name}", get(methods::file))
            .route("/upload/{name}", post(methods::upload))
            .layer(DefaultBodyLimit::max(BODY_BYTES))
            .with_state(workspace.clone());
        tokio::spawn(async move {
            // With Nagle's algorithm, an envelope would wait for the delayed acknowledgement of the packet before it.
            let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
            if let Err(error) = axum::serve(listener, app).await {
                tracing::warn!(%error, "the local workspace stopped listening");
            }
        });
        let redelivers = workspace.clone();
        tokio::spawn(async move { redelivers.redeliver().await });
        Ok(workspace)
    }

    /// Returns the address for `SLACK_API_URL`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a counter of changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Gives due events to connections, for ever.
    async fn redeliver(&self) {
        let mut changes = self.changed.subscribe();
        loop {
            self.state.lock().give();
            // The end of the pause is the other reason to look.
            let _ = tokio::time::timeout(LOOK, changes.changed()).await;
        }
    }
}
