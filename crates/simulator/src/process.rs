//! One process: the tree of actors of the program on the doubles of its ports.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::chance::{Chance, Stream};
use super::door::{SimulatedPoster, SimulatedSource};
use super::idle::{NoTools, Still, Undrawn, Unread, Unserved};
use super::models::SimulatedModels;
use super::platform::DOOR;
use super::servers::{self, SimulatedServers};
use super::store::{self, SimulatedBackend};
use super::world::World;
use ::store::resilient::Resilient;
use ::store::turns::StoredTurns;
use actors::door::{DoorRecord, Doors, Pacing, Source};
use actors::observation::turn_events::TurnEvents;
use actors::services::basics::Basics;
use actors::services::own_ranges::OwnRanges;
use actors::services::preferences::PreferenceKeeper;
use actors::services::running::{DoorRules, LimitScope, Live, Running, Triggers};
use actors::services::toolbox::Caller;
use actors::tool_cache::BuiltIn;
use actors::wiring::parts::{self, DoorParts, Observation, Pages, Parts, Records, ToolParts};
use actors::wiring::{Handles, Tree};
use domain::limits::Limits;
use domain::limits::rules::LimitRules;
use domain::ownership::Portions;
use domain::prompt::Prompts;
use domain::reply::Schema;
use domain::tool::catalogue::Offer;
use domain::triage::TriageRules;
use domain::turn::{GatePolicy, Policy};
use ports::{Clock, Dice, Fault, Faults, Input, NoDocuments, NoFiles, Store as _};
use settings::sources::Sources;
use tokio::sync::watch;

/// The window of the members' limits.
pub const WINDOW: Duration = Duration::from_secs(60);

/// A running process.
pub struct Process {
    tree: Tree,
    store: Arc<Resilient<SimulatedBackend>>,
}

impl Process {
    /// Starts a process. `None` if its tree gave up at the start, as a container would see it.
    pub async fn start(world: &Arc<World>, seed: u64) -> Option<Self> {
        let opened = Arc::clone(world);
        let clock: Arc<dyn Clock> = Arc::clone(world) as _;
        let resilient = Resilient::start(move || store::open(&opened), Arc::clone(&clock)).await.ok()?;
        let store = Arc::new(resilient);
        world.opened(Arc::clone(&store) as _);
        let tree = Tree::start(parts(world, seed, &store, clock)).await.ok()?;
        Some(Self { tree, store })
    }

    /// Waits until the root of the tree gives up.
    pub async fn gave_up(&mut self) {
        self.tree.gave_up().await;
    }

    /// Ends the process in order, as after SIGTERM. Returns true if all records are durable.
    pub async fn stop(self) -> bool {
        let _ = self.tree.drain(Duration::from_secs(25)).await;
        self.tree.stop().await;
        self.store.close(Duration::from_secs(5)).await
    }
}

fn parts(world: &Arc<World>, seed: u64, store: &Arc<Resilient<SimulatedBackend>>, clock: Arc<dyn Clock>) -> Parts {
    let record = DoorRecord {
        door: DOOR,
        source: Source::Shards(Arc::new(SimulatedSource(Arc::clone(world)))),
        poster: Arc::new(SimulatedPoster(Arc::clone(world))),
        attachments: Arc::new(NoFiles),
        pacing: Pacing { requests_per_second: 50, refusals: 1_000 },
        registers_commands: true,
    };
    let doors = Doors::new(vec![record]).unwrap_or_else(|mistake| panic!("{mistake}"));
    let basics = Basics {
        live: Live::new(running(world, seed)),
        store: Arc::clone(store) as _,
        clock: Arc::clone(&clock),
        dice: Arc::clone(world) as Arc<dyn Dice>,
    };
    let turns = StoredTurns::new(Arc::clone(store) as _, vec![DOOR], Portions::WHOLE);
    let breaks = Chance::new(seed ^ world.elapsed(), Stream::Actors);
    Parts {
        tools: ToolParts {
            settings: Arc::new(PreferenceKeeper::new(basics.clone(), Arc::default())),
            toolbox: Arc::default(),
            built_in: BuiltIn {
                offer: Offer::built_in(Vec::new()),
                caller: Caller::Direct(Arc::new(NoTools::new())),
                clean_calls: Arc::default(),
            },
            servers: Arc::new(SimulatedServers(Arc::clone(world))),
            providers: None,
        },
        records: Records::new(&basics, Arc::clone(store) as _, Arc::new(turns)),
        basics,
        handles: Handles::new(&doors),
        doors: DoorParts {
            all: doors,
            home: DOOR,
            renderer: Arc::new(Undrawn),
            documents: Arc::new(NoDocuments),
            calls: None,
        },
        pages: Pages { listener: Arc::new(Unserved), further: Vec::new(), vitals: Arc::new(Unread) },
        observation: Observation { events: TurnEvents::new(Vec::new(), clock), ..Observation::default() },
        process: parts::Process {
            files: Arc::new(Still),
            ranges: OwnRanges::new(Portions::WHOLE),
            peers: None,
            faults: Arc::new(Breaks { world: Arc::clone(world), chance: breaks }),
            exit: Arc::new(watch::channel(None).0),
        },
    }
}

/// Returns the settings of the life, with the models of this process.
fn running(world: &Arc<World>, seed: u64) -> Running {
    let variables = [
        ("RATE_LIMIT_COUNT", world.swarm.messages.to_string()),
        ("TOKEN_RATE_LIMIT_COUNT", "100000000".to_owned()),
        ("RATE_LIMIT_WINDOW_SECONDS", WINDOW.as_secs().to_string()),
    ];
    let environment = variables.map(|(name, value)| (name.to_owned(), value));
    let loaded = settings::load(&Sources::from_maps(environment.into(), BTreeMap::default()));
    let settings = loaded.unwrap_or_else(|problems| panic!("{problems:#?}")).settings;
    let document = serde_json::from_str(include_str!("../../../response_schema.json"));
    let schema = document.ok().and_then(|document| Schema::compile(&document).ok());
    let triage = TriageRules {
        aliases: Vec::new(),
        ignored_roles: HashSet::default(),
        allowed_bots: HashSet::default(),
        direct_messages: false,
        communities: settings.discord.guilds.iter().cloned().collect(),
        operators: HashSet::default(),
        super_roles: HashSet::default(),
        restriction: None,
        policy: Policy { gates: GatePolicy::Ask, ..Policy::default() },
    };
    Running {
        limits: LimitRules {
            base: Limits { messages: settings.rate_limiter.messages, tokens: settings.rate_limiter.tokens },
            roles: Vec::new(),
            channels: Vec::new(),
            exempt: HashSet::default(),
            window: settings.rate_limiter.window,
        },
        budgets: settings.rate_limiter.budgets(),
        tool_rules: settings.tools.table(),
        tool_limits: settings.tools.call_limits(),
        fixed_prompt: 100,
        prompts: Prompts {
            personality: "You help.".into(),
            interjection: "Join in.".into(),
            activity: "You write a status line.".into(),
            bot_name: "staffai".into(),
            words: 30,
            channels: Arc::default(),
            doors: Arc::default(),
            profiles: Arc::default(),
            sections: Arc::default(),
        },
        schema: Arc::new(schema.unwrap_or_else(|| panic!("the schema of replies is broken"))),
        doors: [(DOOR, DoorRules { triage, limits: LimitScope::Community })].into(),
        models: Arc::new(SimulatedModels::new(world, seed)),
        keys: Arc::default(),
        triggers: Triggers::default(),
        servers: Arc::new(servers::entries()),
        notes: Vec::new(),
        version: "1".to_owned(),
        settings,
    }
}

/// Breaks actors at random.
struct Breaks {
    world: Arc<World>,
    chance: Chance,
}

impl Faults for Breaks {
    fn before(&self, path: &str, input: Input) -> Option<Fault> {
        self.world.history.count(format_args!("{} {path} {input:?}", self.world.elapsed()));
        if self.world.calm.load(Ordering::SeqCst) || !self.chance.one_in(self.world.swarm.breaks) {
            return None;
        }
        self.world.broke(path);
        Some(match self.chance.below(8) {
            0..=3 => Fault::Panic,
            4..=6 => Fault::Error,
            _ => Fault::Hang,
        })
    }
}
