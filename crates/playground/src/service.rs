//! The service: starts the local Discord, acts for its members, and shows its state.

use std::{collections::BTreeSet, fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, middleware, routing};
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    change::{Change, RoleChange},
    faults::Faults,
    files, gateway,
    guild::{
        Channel, Guild, Member, Message, MessageInput,
        ids::{ChannelId, GuildId, MessageId, UserId},
        kept::SavedGuilds,
        seed::Seed,
        state::State,
    },
    hub::{Bounds, Hub},
    intents,
    interactions::{Interact, Interaction, Interactions},
    limits::{Budgets, Limits},
    line::{Door, Line},
    programs, rest,
    script::Script,
    stats::{Stats, Tally},
    world::{Core, World},
};

/// Maximum number of changes that a subscriber may lag behind.
const CHANGES: usize = 4_096;
/// Maximum length of a member's message, in characters; the rest is cut off.
const MEMBER_MESSAGE: usize = 4_000;

/// The options of the service; begin with [`Options::new`].
#[derive(Clone)]
pub struct Options {
    /// The address to listen at; port 0 takes any free one.
    pub addr: SocketAddr,
    /// The initial guilds and the bot.
    pub seed: Seed,
    /// The bot's token.
    pub token: String,
    /// The number of shards that `GET /gateway/bot` recommends.
    pub shards: u32,
    /// The heartbeat interval in HELLO. A client that is silent for twice as long is closed with 4009.
    pub heartbeat: Duration,
    /// The number of shards that may identify concurrently.
    pub max_concurrency: u32,
    /// The time that one IDENTIFY blocks the next one in its bucket; 5 s on Discord.
    pub identify_period: Duration,
    /// The total number of session starts; 1,000 a day on Discord.
    pub session_starts: u32,
    /// The time that a disconnected session can be resumed.
    pub session_ttl: Duration,
    /// Events kept for a resume per session, at most 8,192.
    pub replay: usize,
    /// Privileged intents that the bot may use, as bits; others are closed with 4014.
    pub privileged: u64,
    /// REST budgets.
    pub budgets: Budgets,
    /// The data kept from an earlier run.
    pub kept: Option<SavedGuilds>,
    /// The clock for ids and timestamps, in milliseconds since 1970.
    pub clock: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Options {
    /// Returns Discord's own values, the default seed, any free port, and a constant token: for tests. A service for
    /// users needs a random token.
    #[must_use]
    pub fn new(clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            seed: Seed::default(),
            token: "token-of-the-playground".to_owned(),
            shards: 1,
            heartbeat: Duration::from_millis(41_250),
            max_concurrency: 1,
            identify_period: Duration::from_secs(5),
            session_starts: 1_000,
            session_ttl: Duration::from_secs(180),
            replay: 4_096,
            privileged: intents::PRIVILEGED,
            budgets: Budgets::default(),
            kept: None,
            clock,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("addr", &self.addr).field("shards", &self.shards).finish_non_exhaustive()
    }
}

/// A running local service with Discord's gateway and REST v10. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) core: Arc<Core>,
    faults: Faults,
}

impl Service {
    /// Starts the service.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(options: Options) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let door = Door::open(options.addr, stop.clone()).await?;
        let address = axum::serve::Listener::local_addr(&door)?;
        let core = Arc::new(assemble(options, address, stop.clone()));
        let app = router(core.clone()).into_make_service_with_connect_info::<Line>();
        let closed = core.closed.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                result = axum::serve(door, app).into_future() => {
                    if let Err(error) = result {
                        tracing::warn!(%error, "playground stopped listening");
                    }
                }
            }
            closed.cancel();
        });
        Ok(Self { faults: Faults::new(core.clone()), core })
    }

    /// Breaks every connection and stops listening, which frees the port. The state stays readable.
    pub async fn stop(&self) {
        self.core.stop.cancel();
        self.core.closed.cancelled().await;
    }

    /// Returns the address for `DISCORD_API_URL`.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("http://{}", self.core.address)
    }

    /// Returns the bot's token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.core.token
    }

    /// Returns the bot's id.
    #[must_use]
    pub fn bot(&self) -> UserId {
        self.core.world().state.bot().id
    }

    /// Returns all guilds with their roles.
    #[must_use]
    pub fn guilds(&self) -> Vec<Guild> {
        self.core.world().state.guilds().to_vec()
    }

    /// Returns all channels, guild by guild, direct message channels last.
    #[must_use]
    pub fn channels(&self) -> Vec<Channel> {
        self.core.world().state.channels().cloned().collect()
    }

    /// Returns all members of the first guild, including the bot.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.core.world().state.guilds().first().map(|guild| guild.members.clone()).unwrap_or_default()
    }

    /// Adds or replaces a member of a guild. Returns false if the guild does not exist.
    #[allow(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn put_member(&self, guild: GuildId, member: Member) -> bool {
        self.core.world().state.put_member(guild, member)
    }

    /// Returns the direct message channel of a user and the bot, opening it if necessary. `None` for an unknown user.
    #[must_use]
    pub fn direct(&self, with: UserId) -> Option<Channel> {
        let mut world = self.core.world();
        let now = world.now();
        world.state.direct(with, now)
    }

    /// Sends a member's message. Mentions such as `<@id>`, `<@&id>` and `@everyone` notify; the last two only with the
    /// permission, which Chloe has in the default seed. The id is 0 if the channel does not exist.
    #[allow(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn says(&self, member: UserId, channel: ChannelId, text: &str, reply_to: Option<MessageId>) -> MessageId {
        let content = text.chars().take(MEMBER_MESSAGE).collect();
        let draft = MessageInput { content, reply_to, ..MessageInput::default() };
        self.core.world().post(channel, member, draft).map_or(MessageId(0), |message| message.id)
    }

    /// Edits a member's message; no effect if it does not exist.
    pub fn edits(&self, message: MessageId, channel: ChannelId, text: &str) {
        let content: String = text.chars().take(MEMBER_MESSAGE).collect();
        self.core.world().edit(channel, message, |message| message.content = content);
    }

    /// Deletes a message; no effect if it does not exist.
    pub fn deletes(&self, channel: ChannelId, message: MessageId) {
        self.core.world().delete(channel, message);
    }

    /// Adds a member's reaction to a message in a guild; no effect if it does not exist.
    pub fn reacts(&self, member: UserId, channel: ChannelId, message: MessageId, emoji: &str) {
        self.core.world().reacts(channel, message, member, emoji, true);
    }

    /// Shows a member's typing indicator.
    pub fn types(&self, member: UserId, channel: ChannelId) {
        self.core.world().types(channel, member);
    }

    /// Returns all messages of a channel, oldest first.
    #[must_use]
    pub fn messages(&self, channel: ChannelId) -> Vec<Message> {
        self.core.world().state.messages(channel).cloned().collect()
    }

    /// True if the bot's typing indicator is shown; it ends after 10 s or with a message.
    #[must_use]
    pub fn typing(&self, channel: ChannelId) -> bool {
        self.core.world().typing(channel)
    }

    /// Returns the role changes made over REST, oldest first, the last 1,000.
    #[must_use]
    pub fn role_changes(&self) -> Vec<RoleChange> {
        self.core.world().role_changes.iter().cloned().collect()
    }

    /// Returns the presence that a shard last set, as sent.
    #[must_use]
    pub fn presence(&self, shard: u32) -> Option<Value> {
        self.core.world().presences.get(&shard).cloned()
    }

    /// Returns the bot's presence as members see it: that of its first shard, or offline while that is disconnected.
    #[must_use]
    pub fn shown(&self) -> Option<Value> {
        let connected = self.core.connected.borrow().contains(&0);
        if connected { self.presence(0) } else { Some(json!({"status": "offline"})) }
    }

    /// Sends the bot to this voice server from now on.
    pub fn voice_server(&self, endpoint: &str, token: &str) {
        self.core.world().serve_voice(endpoint, token);
    }

    /// Moves a member to a voice channel; `None` to none. The bot is told where it is itself.
    pub fn in_voice(&self, guild: GuildId, member: UserId, channel: Option<ChannelId>) {
        let world = &mut *self.core.world();
        if member == world.state.bot().id {
            return world.place_bot(guild, channel);
        }
        match channel {
            Some(channel) => world.voice.channels.insert(member, channel),
            None => world.voice.channels.remove(&member),
        };
    }

    /// Returns the voice channel of a member.
    #[must_use]
    pub fn voice_of(&self, member: UserId) -> Option<ChannelId> {
        self.core.world().voice.channels.get(&member).copied()
    }

    /// Returns the data to keep over a restart of the service.
    #[must_use]
    pub fn kept(&self) -> SavedGuilds {
        self.core.world().state.kept()
    }

    /// Returns the number of messages that the bot answered more than once, by the visible chat.
    #[must_use]
    pub fn doubled(&self) -> u64 {
        self.core.world().state.doubled()
    }

    /// Subscribes to all further changes. A subscriber that lags 4,096 changes behind misses some.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.core.world().changes.subscribe()
    }

    /// Returns the handle for faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let world = self.core.world();
        Stats { open_connections: world.hub.open_connections() as u64, ..world.tally.stats.clone() }
    }

    /// Resolves when a shard has identified or resumed and is connected.
    pub async fn connected(&self, shard: u32) {
        let mut shards = self.core.connected.subscribe();
        // The sender is in the core of this handle, so this cannot fail.
        let _ = shards.wait_for(|shards| shards.contains(&shard)).await;
    }

    /// Resolves when a shard is not connected.
    pub async fn disconnected(&self, shard: u32) {
        let mut shards = self.core.connected.subscribe();
        let _ = shards.wait_for(|shards| !shards.contains(&shard)).await;
    }

    /// Begins a member's interaction: a command, a button or a form. Returns its id; `None` if the channel, the member
    /// or the message does not exist.
    #[allow(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn interacts(&self, member: UserId, channel: ChannelId, interact_with: Interact) -> Option<MessageId> {
        self.core.world().interact(member, channel, interact_with)
    }

    /// Returns the state of an interaction.
    #[must_use]
    pub fn interaction(&self, id: MessageId) -> Option<Interaction> {
        self.core.world().interactions.by_id(id).cloned()
    }

    /// Returns the commands that the bot registered for a guild, or for all guilds.
    #[must_use]
    pub fn commands(&self, scope: Option<GuildId>) -> Vec<Value> {
        self.core.world().interactions.commands(scope).to_vec()
    }
}

fn assemble(options: Options, address: SocketAddr, stop: CancellationToken) -> Core {
    let connected = watch::Sender::new(BTreeSet::new());
    let bounds = Bounds {
        session_ttl: options.session_ttl,
        replay: options.replay,
        identify_period: options.identify_period,
        max_concurrency: options.max_concurrency,
        session_starts: options.session_starts,
    };
    let mut state = State::new(options.seed);
    state.set_origin(format!("http://{address}"));
    if let Some(kept) = options.kept {
        state.restore(kept);
    }
    let world = World {
        state,
        hub: Hub::new(bounds, (options.clock)(), connected.clone()),
        limits: Limits::new(options.budgets),
        tally: Tally::default(),
        script: Script::default(),
        interactions: Interactions::default(),
        role_changes: std::collections::VecDeque::new(),
        presences: std::collections::HashMap::new(),
        voice: crate::world::Voice::default(),
        typing: std::collections::HashMap::<ChannelId, Instant>::new(),
        changes: broadcast::Sender::new(CHANGES),
        clock: options.clock,
    };
    Core {
        address,
        token: options.token,
        shards: options.shards.max(1),
        max_concurrency: options.max_concurrency.max(1),
        heartbeat: options.heartbeat,
        privileged: options.privileged,
        frozen: watch::Sender::new(false),
        connected,
        stop,
        closed: CancellationToken::new(),
        world: parking_lot::Mutex::new(world),
    }
}

fn router(core: Arc<Core>) -> Router {
    let mut router = Router::new();
    for path in ["/gateway", "/gateway/", "/gateway/resume", "/gateway/resume/"] {
        router = router.route(path, routing::any(gateway::upgrade));
    }
    router = router.route("/attachments/{channel}/{file}/{name}", routing::get(files::answer));
    router.fallback(rest::answer).layer(middleware::from_fn(programs::only)).with_state(core)
}
