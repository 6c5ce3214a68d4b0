//! The foundation of the actors' tests: a small tree with probes in place of neighbors, in-memory ports, a captured
//! log. Time is paused in all tests.

pub mod log;
pub mod pictures;
pub mod tools;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::observers::Observers;
use crate::runtime::handle::Handle;
use crate::runtime::named::Named;
use crate::runtime::roster::Roster;
use crate::runtime::supervisor::{Actor, ActorContext, ChildSpec, Crash, Shared, start_root};
use crate::services::running::{DoorRules, LimitScope, Live, Running};
use crate::tree::{ActorKind, Mailbox, Name, OnHang, ROOT, Runs, Scope, TREE, TreeRow, WhenFull};
use domain::ids::{MessageId, Place, TurnId};
use domain::incoming::{Author, AuthorKind, Posted, WantedModels};
use domain::limits::Limits;
use domain::limits::rules::LimitRules;
use domain::ownership::Portions;
use domain::people::Linked;
use domain::prompt::Prompts;
use domain::reply::Schema;
use domain::restart::{Backoff, Intensity, Restart};
use domain::turn::{Answer, Effort, GatePolicy, Outcome, Policy, Trigger, Turn};
use domain::{restriction, triage};
pub use ports::testing::{BEGINNING, DOOR, LONG, person, settle, us};
use ports::testing::{FixedDice, MemoryStore, ScriptedFaults, ScriptedModels};
use ports::{Models, Turns};
use settings::Settings;
use settings::sources::Sources;
use store::turns::StoredTurns;

/// The records of a process that owns all turns of [`DOOR`].
pub fn turns(store: &Arc<MemoryStore>) -> Arc<dyn Turns> {
    Arc::new(StoredTurns::new(Arc::clone(store) as _, vec![DOOR], Portions::WHOLE))
}

// === A small tree ===

/// A permanent leaf, restarted immediately, with two seconds to stop.
pub const LEAF: TreeRow = TreeRow {
    kind: ActorKind::Ops,
    name: Name::Fixed("leaf"),
    role: "",
    restart: Restart::Permanent,
    backoff: Backoff { base: Duration::ZERO, cap: Duration::ZERO },
    intensity: Intensity { restarts: 3, period: Duration::from_secs(60) },
    handler_timeout: Duration::from_secs(5),
    on_hang: OnHang::Log,
    stop_timeout: Duration::from_secs(2),
    mailbox: Mailbox { capacity: 100_000, when_full: WhenFull::Refuse },
    runs: Runs::InEachRange,
    holds: None,
    children: &[],
};

/// A row that lives as long as the test.
pub fn row(row: TreeRow) -> &'static TreeRow {
    Box::leak(Box::new(row))
}

/// The row of a kind in the real tree.
pub fn real(kind: ActorKind) -> &'static TreeRow {
    TREE.find(kind).expect("every kind has a row")
}

/// A builder of a tree.
pub struct Stage {
    pub roster: Arc<Roster>,
    pub faults: Arc<ScriptedFaults>,
    pub dice: Arc<FixedDice>,
    pub children: Vec<ChildSpec>,
    /// Paths that the supervisors reported as recovered, in order.
    pub recovered: Arc<Mutex<Vec<String>>>,
}

/// A running tree. It is dropped with the test's runtime.
pub struct Tree {
    pub root: ractor::ActorCell,
    pub ended: JoinHandle<()>,
}

impl Stage {
    pub fn new() -> Self {
        Self {
            roster: Arc::default(),
            faults: Arc::default(),
            dice: Arc::new(FixedDice::new(0.5)),
            children: Vec::new(),
            recovered: Arc::default(),
        }
    }

    pub fn shared(&self) -> Arc<Shared> {
        let recovered = Arc::clone(&self.recovered);
        Arc::new(Shared {
            observers: Observers::default(),
            faults: Arc::clone(&self.faults) as _,
            dice: Arc::clone(&self.dice) as _,
            roster: Arc::clone(&self.roster),
            recovered: Box::new(move |stats| recovered.lock().push(stats.path.to_string())),
        })
    }

    /// Adds an actor under test to the tree.
    pub fn actor<A: Actor>(&mut self, row: &'static TreeRow, handle: &Handle<A::Msg>, actor: A) {
        self.children.push(ChildSpec::new(row, handle, actor, Vec::new()));
    }

    /// Adds a probe in place of a neighbor.
    pub fn probe<M: Named + Send + 'static>(&mut self, handle: &Handle<M>) -> Inbox<M> {
        let (sender, heard) = mpsc::unbounded_channel();
        self.actor(row(LEAF), handle, Probe { heard: sender });
        Inbox(heard)
    }

    /// Starts the tree below a root that tolerates these failures.
    pub async fn start(self, intensity: Intensity) -> Tree {
        let shared = self.shared();
        let top = row(TreeRow { name: Name::Fixed(ROOT), intensity, ..LEAF });
        let handle = Handle::new(top, "", Scope::One);
        let (root, ended) = start_root(top, &handle, Nobody, self.children, shared).await.unwrap();
        Tree { root, ended }
    }

    /// Starts the tree below a root that tolerates many failures.
    pub async fn go(self) -> Tree {
        self.start(Intensity { restarts: 1000, period: Duration::from_secs(60) }).await
    }
}

/// Returns a handle to an actor of this name below the root.
pub fn at<M: Send + 'static>(name: &str) -> Handle<M> {
    below(ROOT, name)
}

/// Returns a handle to an actor of this name below the actor at this path.
pub fn below<M: Send + 'static>(above: &str, name: &str) -> Handle<M> {
    let name = Name::Fixed(String::leak(name.to_owned()));
    Handle::new(&TreeRow { name, ..LEAF }, above, Scope::One)
}

/// An actor that receives no messages.
pub struct Nobody;

impl Actor for Nobody {
    type Msg = Infallible;
    type Event = Infallible;
    type State = ();

    fn start(&self, _me: &mut ActorContext<Self>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, _me: &mut ActorContext<Self>, message: Infallible, (): &mut ()) -> Result<(), Crash> {
        match message {}
    }

    async fn event(&self, _me: &mut ActorContext<Self>, event: Infallible, (): &mut ()) -> Result<(), Crash> {
        match event {}
    }
}

struct Probe<M> {
    heard: mpsc::UnboundedSender<M>,
}

impl<M: Named + Send + 'static> Actor for Probe<M> {
    type Msg = M;
    type Event = Infallible;
    type State = ();

    fn start(&self, _me: &mut ActorContext<Self>) -> Result<(), Crash> {
        Ok(())
    }

    async fn handle(&self, _me: &mut ActorContext<Self>, message: M, (): &mut ()) -> Result<(), Crash> {
        let _ = self.heard.send(message);
        Ok(())
    }

    async fn event(&self, _me: &mut ActorContext<Self>, event: Infallible, (): &mut ()) -> Result<(), Crash> {
        match event {}
    }
}

/// The messages that a probe received.
pub struct Inbox<M>(mpsc::UnboundedReceiver<M>);

impl<M> Inbox<M> {
    /// Returns the next message; waits without a limit.
    pub async fn next(&mut self) -> M {
        tokio::time::timeout(LONG, self.0.recv()).await.expect("nothing came").expect("the probe ended")
    }

    /// Returns the next message that is already present, after all actors have done their current work.
    pub async fn now(&mut self) -> Option<M> {
        settle().await;
        self.0.try_recv().ok()
    }

    /// Returns the next message if it arrives within `time`.
    pub async fn within(&mut self, time: Duration) -> Option<M> {
        tokio::time::timeout(time, self.0.recv()).await.ok().flatten()
    }
}

// === What the process runs with ===

/// A configuration from these variables, with scripted models.
pub fn live(variables: &[(&str, &str)], models: Arc<dyn Models>) -> Live {
    Live::new(running(variables, models))
}

/// The same configuration before it is live.
pub fn running(variables: &[(&str, &str)], models: Arc<dyn Models>) -> Running {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let loaded = settings::load(&Sources::from_maps(environment, std::collections::BTreeMap::default()));
    let settings = loaded.unwrap_or_else(|problems| panic!("{problems:#?}")).settings;
    let document = serde_json::from_str(include_str!("../../../response_schema.json")).unwrap();
    let limiter = &settings.rate_limiter;
    let limits = LimitRules {
        base: Limits { messages: limiter.messages, tokens: limiter.tokens },
        roles: Vec::new(),
        channels: Vec::new(),
        exempt: settings.members.super_roles.iter().cloned().collect(),
        window: limiter.window,
    };
    let rules = rules(&settings);
    Running {
        limits,
        budgets: settings.rate_limiter.budgets(),
        tool_rules: settings.tools.table(),
        tool_limits: settings.tools.call_limits(),
        fixed_prompt: 100,
        settings,
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
        schema: Arc::new(Schema::compile(&document).unwrap()),
        doors: [(DOOR, DoorRules { triage: rules, limits: LimitScope::Community })].into(),
        models,
        keys: Arc::default(),
        triggers: crate::services::running::Triggers::default(),
        servers: Arc::default(),
        notes: Vec::new(),
        version: "1".to_owned(),
    }
}

/// The default settings and one model.
pub fn usual() -> Live {
    live(&[], Arc::new(ScriptedModels::new(&["main"])))
}

fn rules(settings: &Settings) -> triage::TriageRules {
    let (role, channel) = (settings.restriction.role.clone(), settings.restriction.channel.clone());
    triage::TriageRules {
        aliases: Vec::new(),
        ignored_roles: std::collections::HashSet::default(),
        allowed_bots: ["77".to_owned()].into(),
        direct_messages: false,
        communities: settings.discord.guilds.iter().cloned().collect(),
        operators: std::collections::HashSet::default(),
        super_roles: ["99".to_owned()].into(),
        restriction: role.map(|role| restriction::RestrictionRules { role, channel, by_record: false }),
        policy: policy(),
    }
}

pub fn policy() -> Policy {
    Policy { gates: GatePolicy::Ask, ..Policy::default() }
}

// === Messages and turns ===

pub fn place(id: &str) -> Place {
    Place::new(DOOR, id)
}

pub fn message(id: &str) -> MessageId {
    MessageId::new(DOOR, id)
}

pub fn turn_id(id: &str) -> TurnId {
    TurnId::of(&message(id))
}

/// A turn of one person in one place.
pub fn turn(id: &str, from: &str, to: &str) -> Turn {
    Turn {
        id: turn_id(id),
        place: place(to),
        parent: None,
        guild: Some("5".to_owned()),
        person: person(from),
        linked: Linked::default(),
        name: format!("member {from}"),
        roles: Vec::new(),
        trigger: Trigger::Mention,
        text: format!("question {id}"),
        quoted: None,
        attachments: Vec::new(),
        locale: None,
        at: BEGINNING,
        policy: policy(),
        given: None,
    }
}

/// A plain answer to a turn.
pub fn answer(turn: &Turn, text: &str) -> Answer {
    Answer { outgoing: turn.reply_with(text), exchange: None, outcome: Outcome::Replied, effort: Effort::default() }
}

/// A message of a member that mentions the bot.
pub fn mention(id: &str, from: &str, to: &str) -> Posted {
    Posted {
        id: message(id),
        place: place(to),
        parent: None,
        guild: Some("5".to_owned()),
        author: Author {
            joined: None,
            person: person(from),
            name: format!("member {from}"),
            roles: Vec::new(),
            kind: AuthorKind::Member,
        },
        text: "<@1> what is up?".to_owned(),
        mentions_us: true,
        reply_to: None,
        attachments: Vec::new(),
        locale: None,
        may_answer: true,
        at: BEGINNING,
        draw: None,
        tools: true,
        given: None,
        models: WantedModels::default(),
        lineage: None,
    }
}
