//! What this process runs with. A turn keeps the one it began with.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use secrecy::{ExposeSecret, SecretString};

use domain::api_key::{KeyLimits, KeyRing};
use domain::command::{Operators, preferences};
use domain::completion::Usage;
use domain::ids::{Door, Person, Place};
use domain::limits::account::Share;
use domain::limits::budget::{self, Budget, Payer};
use domain::limits::rules::Applied;
use domain::limits::{self, Limits};
use domain::model::{Price, Row};
use domain::prompt::Prompts;
use domain::reply::Schema;
use domain::timer::Timer;
use domain::tool::access::Standing;
use domain::tool::limits::ToolLimits;
use domain::tool::rights::Rule;
use domain::triage::Rules;
use domain::turn::Turn;
use domain::webhook::Webhook;
use ports::Models;
use ports::tools::ServerEntries;
use settings::Settings;

/// Settings and the files that belong to them, read and checked together.
pub struct Running {
    /// The settings.
    pub settings: Settings,
    /// The prompts.
    pub prompts: Prompts,
    /// The form of a typed reply, compiled once.
    pub schema: Arc<Schema>,
    /// What the operator decided about each door, made of the settings.
    pub doors: BTreeMap<Door, DoorRules>,
    /// What is allowed to whom, made of the settings.
    pub limits: limits::rules::Rules,
    /// Further limits in accounts of their own, made of the settings.
    pub budgets: Vec<Budget>,
    /// Who may use which tool, made of the settings.
    pub tool_rules: Arc<[Rule]>,
    /// How often tools may be called, made of the settings.
    pub tool_limits: ToolLimits,
    /// The tokens that every prompt has, about.
    pub fixed_prompt: u64,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The keys of programs: those that were set, and those of the file.
    pub keys: Arc<KeyRing>,
    /// What starts a turn without a message.
    pub triggers: Triggers,
    /// The tool servers.
    pub servers: Arc<ServerEntries>,
    /// What is odd about it and does not stop the program, each a sentence with its fix.
    pub notes: Vec<String>,
    /// Names this content: the same content has the same version.
    pub version: String,
}

/// What starts a turn without a message.
#[derive(Debug, Clone, Default)]
pub struct Triggers {
    /// Timers, in the order of the settings.
    pub timers: Vec<Arc<Timer>>,
    /// Webhooks by their names.
    pub hooks: BTreeMap<String, Arc<Webhook>>,
}

/// What the operator decided about one door.
#[derive(Debug, Clone, PartialEq)]
pub struct DoorRules {
    /// Who is answered, and the policy of each turn.
    pub triage: Rules,
    /// Which of the limits hold there.
    pub limits: LimitScope,
}

/// Which of the limits hold at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// All: the roles and channels that the limits name are those of this door.
    Community,
    /// The limits of every member; those of roles and channels name ids of another door.
    Base,
    /// The same, where the key of a program says nothing else: its name is the id of the person.
    Keys,
}

impl Running {
    /// Whether ids in the settings are those of this door.
    #[must_use]
    pub fn knows_ids(&self, door: &Door) -> bool {
        self.doors.get(door).is_some_and(|rules| rules.limits == LimitScope::Community)
    }

    /// Who is answered at a door, and how; none when the settings know nothing of it.
    #[must_use]
    pub fn rules(&self, door: &Door) -> Option<&Rules> {
        self.doors.get(door).map(|rules| &rules.triage)
    }

    /// The operators of the bot at a door; none where no ids of operators are known.
    #[must_use]
    pub fn operators(&self, door: &Door) -> Option<Operators<'_>> {
        self.rules(door).filter(|_| self.knows_ids(door)).map(Rules::operators)
    }

    /// What is known of a caller with these roles at a door.
    #[must_use]
    pub fn standing(&self, door: &Door, person: &Person, roles: &[String]) -> Standing {
        let operators = self.operators(door);
        Standing { known: operators.is_some(), operator: operators.is_some_and(|all| all.include_one(person, roles)) }
    }

    /// What is allowed to a person with these roles in a place. A door of which nothing is known has the base limits.
    #[must_use]
    pub fn limits_in(&self, person: &Person, place: &Place, parent: Option<&Place>, roles: &[String]) -> Applied {
        let base = || self.limits.of(&[], "", None);
        match self.doors.get(&place.door).map(|rules| rules.limits) {
            Some(LimitScope::Community) => self.limits.of(roles, &place.id, parent.map(|parent| parent.id.as_str())),
            Some(LimitScope::Keys) => {
                let limits = self.keys.limits_of(&person.id).unwrap_or_else(|| self.usual_of_keys());
                // Without keys this machine alone may ask.
                Applied { limits, exempt: self.keys.is_unused() }
            }
            Some(LimitScope::Base) | None => base(),
        }
    }

    /// The accounts that a message of a person counts in, without amounts.
    #[must_use]
    pub fn shares(&self, payer: Payer<'_>) -> Vec<Share> {
        if self.budgets.is_empty() { Vec::new() } else { budget::of_turn(&self.budgets, payer) }
    }

    /// The accounts of `rate_limiter.limits` that a call of a tool counts in; none for a person whom no limit refuses.
    #[must_use]
    pub fn call_shares(&self, turn: &Turn, tool: &str) -> Vec<Share> {
        let exempt = || self.limits_in(&turn.person, &turn.place, turn.parent.as_ref(), &turn.roles).exempt;
        if self.budgets.is_empty() || exempt() {
            return Vec::new();
        }
        let person = (&turn.person, &turn.roles[..]);
        budget::of_call(
            &self.budgets,
            self.payer(person, turn.guild.as_deref(), &turn.place, turn.parent.as_ref()),
            tool,
        )
    }

    /// Who pays, with what the settings know of their door.
    #[must_use]
    pub fn payer<'a>(
        &self,
        (person, roles): (&'a Person, &'a [String]),
        guild: Option<&'a str>,
        place: &'a Place,
        parent: Option<&'a Place>,
    ) -> Payer<'a> {
        let keys = self.doors.get(&place.door).is_some_and(|rules| rules.limits == LimitScope::Keys);
        let known = self.knows_ids(&place.door);
        Payer { person, guild, roles, place, parent, known, is_key: keys && !self.keys.is_unused() }
    }

    /// The cost of so many tokens that go into the model row of a turn, in millionths of a dollar; zero without a price.
    #[must_use]
    pub fn micros_of(&self, row: Option<&str>, tokens: u64) -> u64 {
        let price = self.candidates(row, &[]).next().and_then(|row| row.price);
        price.map_or(0, |price| price.micros(Usage { prompt: tokens, ..Usage::default() }))
    }

    /// What a key may use that says nothing of its own.
    fn usual_of_keys(&self) -> Limits {
        let http = &self.settings.http;
        KeyLimits { messages: http.key_requests, tokens: http.key_tokens }.into()
    }

    /// The model rows that members may choose from; empty when there is nothing to choose.
    #[must_use]
    pub fn choices(&self) -> Vec<&Row> {
        let rows = self.models.rows();
        if rows.len() < 2 { Vec::new() } else { preferences::allowed(rows, &self.settings.members.models) }
    }

    /// The most history messages that the prompt for this row (none: the default row) may hold.
    #[must_use]
    pub fn history_most(&self, row: Option<&str>) -> usize {
        let rows = self.models.rows();
        let row = row.and_then(|key| rows.iter().find(|row| row.key == key)).or(rows.first());
        row.and_then(|row| row.max_context).unwrap_or(usize::MAX)
    }

    /// The rows that may answer, in the order in which they are asked: this one (none: the default row), then its fallbacks. Of
    /// these, only rows `among` those named there, if any are.
    pub fn candidates<'a>(&'a self, row: Option<&str>, among: &'a [String]) -> impl Iterator<Item = &'a Row> {
        let rows = self.models.rows();
        let find = move |key: &str| rows.iter().find(|row| row.key == key);
        let first = row.and_then(find).or(rows.first());
        let fallbacks = first.into_iter().flat_map(move |first| first.fallback.iter().filter_map(move |key| find(key)));
        first.into_iter().chain(fallbacks).filter(move |row| among.is_empty() || among.contains(&row.key))
    }

    /// Whether a row that may be asked (this one, none: the default row, or one of its fallbacks) sees pictures.
    #[must_use]
    pub fn somebody_sees(&self, row: Option<&str>) -> bool {
        self.candidates(row, &[]).any(|row| row.vision)
    }

    /// Whether it makes a difference to anybody which roles they hold.
    #[must_use]
    pub fn roles_matter(&self) -> bool {
        let matter = |rules: &Rules| {
            !rules.ignored_roles.is_empty() || !rules.super_roles.is_empty() || rules.restriction.is_some()
        };
        !self.limits.roles.is_empty() || self.doors.values().any(|rules| matter(&rules.triage))
    }

    /// The prices of a row, when it has any.
    #[must_use]
    pub fn price(&self, row: &str) -> Option<Price> {
        self.models.rows().iter().find(|known| known.key == row)?.price
    }

    /// The price of the embeddings of a row, when it has one.
    #[must_use]
    pub fn embeddings_price(&self, row: &str) -> Option<Price> {
        self.models.rows().iter().find(|known| known.key == row)?.embeddings_price.map(Price::of_input)
    }

    /// Settings that differ from those of the start and are only read there.
    #[must_use]
    pub fn fixed_at_start(&self, before: &Self) -> Vec<&'static str> {
        let (new, old) = (&self.settings, &before.settings);
        let changed = [
            ("discord.token", differ(&new.discord.token, &old.discord.token)),
            ("discord.api_url", new.discord.api_url != old.discord.api_url),
            ("discord.allow_insecure", new.discord.allow_insecure != old.discord.allow_insecure),
            ("discord.shards", new.discord.shards != old.discord.shards),
            ("discord.direct_messages", new.discord.direct_messages != old.discord.direct_messages),
            ("discord.allowed_mentions", new.discord.allowed_mentions != old.discord.allowed_mentions),
            ("discord.requests_per_second", new.discord.requests_per_second != old.discord.requests_per_second),
            ("members.aliases", new.members.aliases != old.members.aliases),
            (
                "interjection.backoff_after",
                (new.interjection.backoff_after > 0) != (old.interjection.backoff_after > 0),
            ),
            ("turn.open", new.turn.open != old.turn.open),
            ("llm.concurrent", new.llm.concurrent != old.llm.concurrent),
            ("http.addr", new.http.addr != old.http.addr),
            ("http.health_addr", new.http.health_addr != old.http.health_addr),
            ("http.listeners", new.http.listeners != old.http.listeners),
            ("http.connections", new.http.connections != old.http.connections),
            ("http.key_concurrent", new.http.key_concurrent != old.http.key_concurrent),
            ("http.origins", new.http.origins != old.http.origins),
            ("runtime.threads", new.runtime.threads != old.runtime.threads),
            ("store.dir", new.store.dir != old.store.dir),
            ("redis.url", differ(&new.redis.url, &old.redis.url)),
            ("redis.host", new.redis.host != old.redis.host),
            ("redis.port", new.redis.port != old.redis.port),
            ("redis.db", new.redis.db != old.redis.db),
            ("redis.password", differ(&new.redis.password, &old.redis.password)),
            ("log.level", new.log.level != old.log.level),
            ("log.format", new.log.format != old.log.format),
            ("log.content", new.log.content != old.log.content),
            ("telemetry.endpoint", new.telemetry.endpoint != old.telemetry.endpoint),
            ("telemetry.headers", differ(&new.telemetry.headers, &old.telemetry.headers)),
            ("telemetry.service_name", new.telemetry.service_name != old.telemetry.service_name),
            ("turn.longest", new.turn.longest != old.turn.longest),
            ("drain.timeout", new.drain.timeout != old.drain.timeout),
        ];
        changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }
}

/// Whether secrets changed, which have no equality of their own.
fn differ<'a>(
    new: impl IntoIterator<Item = &'a SecretString>,
    old: impl IntoIterator<Item = &'a SecretString>,
) -> bool {
    let shown = |secret: &'a SecretString| secret.expose_secret();
    new.into_iter().map(shown).ne(old.into_iter().map(shown))
}

/// What runs now. Cheap to clone; everybody who holds one sees a reload. Whoever needs several settings that belong together
/// takes [`Live::now`] once.
#[derive(Clone)]
pub struct Live(Arc<LiveInner>);

struct LiveInner {
    now: RwLock<Arc<Running>>,
    rejected: Mutex<Option<String>>,
}

impl Live {
    /// Begins with what was read at start.
    #[must_use]
    pub fn new(running: Running) -> Self {
        Self(Arc::new(LiveInner { now: RwLock::new(Arc::new(running)), rejected: Mutex::new(None) }))
    }

    /// What runs now.
    #[must_use]
    pub fn now(&self) -> Arc<Running> {
        Arc::clone(&self.0.now.read())
    }

    /// Why the files as they are now do not run; none when they do.
    #[must_use]
    pub fn rejected(&self) -> Option<String> {
        self.0.rejected.lock().clone()
    }

    /// From now on this runs. Turns in flight keep what they began with.
    pub(crate) fn replace(&self, running: Running) {
        *self.0.now.write() = Arc::new(running);
        *self.0.rejected.lock() = None;
    }

    /// The files are wrong; what runs goes on.
    pub(crate) fn reject(&self, reason: String) {
        *self.0.rejected.lock() = Some(reason);
    }
}

/// Why the process must end by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// A needed service refused us for good, for this reason.
    Refused(String),
}

/// Where an actor says that the process must end.
pub type ExitSender = Arc<tokio::sync::watch::Sender<Option<Exit>>>;
