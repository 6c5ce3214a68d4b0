//! The running configuration of this process. A turn keeps the configuration with which it started.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use secrecy::{ExposeSecret, SecretString};

use super::call_by::CallBy;
use crate::services::prompt_sections::LastEdits;
use domain::api_key::{KeyLimits, KeyRing};
use domain::command::Operators;
use domain::completion::{Accepts, Usage};
use domain::ids::{Door, Person, Place};
use domain::limits::account::Share;
use domain::limits::budget::{self, Budget, Payer};
use domain::limits::rules::Applied;
use domain::limits::{self, Limits};
use domain::model::{Price, Row};
use domain::open_to::OpenTo;
use domain::people::{Linked, Links};
use domain::preferences::{self, Preferences, Record, Setting};
use domain::prompt::Prompts;
use domain::reply::Schema;
use domain::summary::HistoryBounds;
use domain::timer::Timer;
use domain::tool::access::Standing;
use domain::tool::limits::ToolLimits;
use domain::tool::rights::Rule;
use domain::triage::TriageRules;
use domain::turn::Turn;
use domain::webhook::Webhook;
use ports::Models;
use ports::tools::ServerEntries;
use settings::Settings;
use settings::agents::{Agents, Peer};
use settings::data_tools::{Database, GoogleDrive, ImageModel, WebSearch};

/// The settings and the files that belong to them, read and checked together.
pub struct Running {
    /// The settings.
    pub settings: Settings,
    /// The prompts.
    pub prompts: Prompts,
    /// The schema of a typed reply, compiled once.
    pub schema: Arc<Schema>,
    /// The rules of each door, derived from the settings.
    pub doors: BTreeMap<Door, DoorRules>,
    /// The limits by member, role and channel, derived from the settings.
    pub limits: limits::rules::LimitRules,
    /// Further limits with their own accounts, derived from the settings.
    pub budgets: Vec<Budget>,
    /// The permissions for tools, derived from the settings.
    pub tool_rules: Arc<[Rule]>,
    /// The limits of tool calls, derived from the settings.
    pub tool_limits: ToolLimits,
    /// The approximate number of tokens that every prompt contains.
    pub fixed_prompt: u64,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The keys of programs: those from the settings and those from the key file.
    pub keys: Arc<KeyRing>,
    /// The triggers that start a turn without a message.
    pub triggers: Triggers,
    /// The tool servers.
    pub servers: Arc<ServerEntries>,
    /// Warnings that do not prevent a start, each a sentence with its fix.
    pub notes: Vec<String>,
    /// The version, derived from the content: equal content has an equal version.
    pub version: String,
}

/// The triggers that start a turn without a message.
#[derive(Debug, Clone, Default)]
pub struct Triggers {
    /// Timers, in the order of the settings.
    pub timers: Vec<Arc<Timer>>,
    /// Webhooks by name.
    pub hooks: BTreeMap<String, Arc<Webhook>>,
}

/// The operator's rules for one door.
#[derive(Debug, Clone, PartialEq)]
pub struct DoorRules {
    /// The rules for answering messages, and the policy of each turn.
    pub triage: TriageRules,
    /// The limits that apply there.
    pub limits: LimitScope,
}

/// The limits that apply at a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// All limits: the roles and channels in the limits belong to this door.
    Community,
    /// Only the limits of every member; roles and channels in the limits are ids of another door.
    Base,
    /// As `Base`, unless the key of a program has its own limits: the key's name is the id of the person.
    Keys,
}

impl Running {
    /// True if ids in the settings are ids of this door.
    #[must_use]
    pub fn knows_ids(&self, door: &Door) -> bool {
        self.doors.get(door).is_some_and(|rules| rules.limits == LimitScope::Community)
    }

    /// Returns the label of a caller with these roles in logs: `super` if limits exempt one of them, else `member`.
    #[must_use]
    pub fn role(&self, roles: &[String]) -> &'static str {
        if roles.iter().any(|role| self.limits.exempt.contains(role)) { "super" } else { "member" }
    }

    /// Returns the rules of a door; `None` if the settings have none for it.
    #[must_use]
    pub fn rules(&self, door: &Door) -> Option<&TriageRules> {
        self.doors.get(door).map(|rules| &rules.triage)
    }

    /// Returns the operators of the bot at a door; `None` if no ids of operators apply there.
    #[must_use]
    pub fn operators(&self, door: &Door) -> Option<Operators<'_>> {
        self.rules(door).filter(|_| self.knows_ids(door)).map(TriageRules::operators)
    }

    /// Returns the standing of a caller with these roles at a door.
    #[must_use]
    pub fn standing(&self, door: &Door, person: &Person, roles: &[String]) -> Standing {
        let operators = self.operators(door);
        Standing { known: operators.is_some(), operator: operators.is_some_and(|all| all.include_one(person, roles)) }
    }

    /// Returns the limits of a person with these roles in a place. A door without rules has the base limits.
    #[must_use]
    pub fn limits_in(&self, person: &Person, place: &Place, parent: Option<&Place>, roles: &[String]) -> Applied {
        let base = || self.limits.of(&[], "", None);
        match self.doors.get(&place.door).map(|rules| rules.limits) {
            Some(LimitScope::Community) => self.limits.of(roles, &place.id, parent.map(|parent| parent.id.as_str())),
            Some(LimitScope::Keys) => {
                let limits = self.keys.limits_of(&person.id).unwrap_or_else(|| self.usual_of_keys());
                // Without keys, only programs on this machine may connect.
                Applied { limits, exempt: self.keys.is_unused() }
            }
            Some(LimitScope::Base) | None => base(),
        }
    }

    /// Returns the accounts that a message of a person counts in, without amounts: those of the budgets, and those that
    /// count the person at all doors.
    #[must_use]
    pub fn shares(&self, payer: Payer<'_>, linked: &Linked, limits: Limits) -> Vec<Share> {
        let mut shares = if self.budgets.is_empty() { Vec::new() } else { budget::of_turn(&self.budgets, payer) };
        let everywhere = linked.shares(payer.person, limits, &self.limits, &shares);
        shares.extend(everywhere);
        shares
    }

    /// Returns the accounts of `rate_limiter.limits` that a tool call counts in; empty for a person exempt from limits.
    #[must_use]
    pub fn call_shares(&self, by: CallBy<'_>, tool: &str) -> Vec<Share> {
        let CallBy { person, linked, roles, guild, place, parent } = by;
        let exempt = || self.limits_in(person, place, parent, roles).exempt;
        if self.budgets.is_empty() || exempt() {
            return Vec::new();
        }
        let mut shares = budget::of_call(&self.budgets, self.payer(person, roles, guild, place, parent), tool);
        let copies: Vec<Share> = linked.copies(person, &shares).collect();
        shares.extend(copies);
        shares
    }

    /// Returns the payer, with the settings of their door.
    #[must_use]
    pub fn payer<'a>(
        &self,
        person: &'a Person,
        roles: &'a [String],
        guild: Option<&'a str>,
        place: &'a Place,
        parent: Option<&'a Place>,
    ) -> Payer<'a> {
        let keys = self.doors.get(&place.door).is_some_and(|rules| rules.limits == LimitScope::Keys);
        let known = self.knows_ids(&place.door);
        Payer { person, guild, roles, place, parent, known, is_key: keys && !self.keys.is_unused() }
    }

    /// Returns the cost of this many input tokens for the model row of a turn, in millionths of a dollar; zero without
    /// a price.
    #[must_use]
    pub fn micros_of(&self, row: Option<&str>, tokens: u64) -> u64 {
        let price = self.candidates(row, &[]).next().and_then(|row| row.price);
        price.map_or(0, |price| price.micros(Usage { prompt: tokens, ..Usage::default() }))
    }

    /// The limits of a key without its own limits.
    fn usual_of_keys(&self) -> Limits {
        let http = &self.settings.http;
        KeyLimits { messages: http.key_requests, tokens: http.key_tokens }.into()
    }

    /// Returns the model rows that members may choose from; empty if there is no choice.
    #[must_use]
    pub fn choices(&self) -> Vec<&Row> {
        let rows = self.models.rows();
        if rows.len() < 2 { Vec::new() } else { preferences::allowed(rows, &self.settings.members.models) }
    }

    /// True if the settings of its person apply to a turn: a person asked, and not with a conversation of their own.
    #[must_use]
    pub fn has_preferences(&self, turn: &Turn) -> bool {
        turn.trigger.has_message() && turn.given.is_none()
    }

    /// True if the stored settings of its person apply to a turn.
    #[must_use]
    pub fn reads_preferences(&self, turn: &Turn) -> bool {
        self.settings.members.opens_any() && self.has_preferences(turn)
    }

    /// Returns the settings in force for a person with these roles in a place, without those that are not open to them or
    /// whose values do not exist any more. Narrower values win.
    #[must_use]
    pub fn preferences(
        &self,
        record: &Record,
        place: &Place,
        parent: Option<&Place>,
        guild: Option<&str>,
        roles: &[String],
    ) -> Preferences {
        let members = &self.settings.members;
        let community = guild.and_then(|guild| members.community_defaults.get(guild)).cloned().unwrap_or_default();
        let chosen = record.in_force(place, parent, Preferences::default());
        let mut chosen =
            chosen.only(|setting| members.opens(setting, roles)).over(community).over(members.defaults.clone());
        let choices = self.choices();
        chosen.model = chosen.model.filter(|key| choices.iter().any(|row| row.key == *key));
        chosen
    }

    /// True if the member of a turn has chosen a model for its place, or the community has one.
    #[must_use]
    pub fn has_chosen_model(&self, record: &Record, turn: &Turn) -> bool {
        let members = &self.settings.members;
        let theirs = record.in_force(&turn.place, turn.parent.as_ref(), Preferences::default()).model;
        let theirs = theirs.filter(|_| members.opens(Setting::Model, &turn.roles));
        let of_community = turn.guild.as_ref().and_then(|guild| members.community_defaults.get(guild)?.model.as_ref());
        let offered = |key: &String| self.choices().iter().any(|row| row.key == *key);
        theirs.as_ref().or(of_community).is_some_and(offered)
    }

    /// Returns the row that answers with these settings.
    #[must_use]
    pub fn row_with(&self, chosen: &Preferences) -> Option<&Row> {
        let rows = self.models.rows();
        rows.iter().find(|row| Some(&row.key) == chosen.model.as_ref()).or_else(|| rows.first())
    }

    /// Returns the bounds of histories.
    #[must_use]
    pub const fn history_bounds(&self) -> HistoryBounds {
        let history = &self.settings.history;
        HistoryBounds { messages: history.max_messages, max_age: history.message_max_age }
    }

    /// Returns the maximum number of history messages in the prompt for this row (`None`: the default row).
    #[must_use]
    pub fn history_most(&self, row: Option<&str>) -> usize {
        let rows = self.models.rows();
        let row = row.and_then(|key| rows.iter().find(|row| row.key == key)).or(rows.first());
        row.and_then(|row| row.max_context).unwrap_or(usize::MAX)
    }

    /// Returns the rows that may answer, in the order of the attempts: this row (`None`: the default row), then its
    /// fallbacks. If `among` is not empty, only rows named there.
    pub fn candidates<'a>(&'a self, row: Option<&str>, among: &'a [String]) -> impl Iterator<Item = &'a Row> {
        let rows = self.models.rows();
        let find = move |key: &str| rows.iter().find(|row| row.key == key);
        let first = row.and_then(find).or(rows.first());
        let fallbacks = first.into_iter().flat_map(move |first| first.fallback.iter().filter_map(move |key| find(key)));
        first.into_iter().chain(fallbacks).filter(move |row| among.is_empty() || among.contains(&row.key))
    }

    /// Returns the parts beside text that this row (`None`: the default row) or one of its fallbacks accepts.
    #[must_use]
    pub fn accepts(&self, row: Option<&str>) -> Accepts {
        let any = |accepts: fn(&Row) -> bool| self.candidates(row, &[]).any(accepts);
        Accepts { pictures: any(|row| row.vision), pdf: any(|row| row.pdf) }
    }

    /// True if any rule depends on the roles of members.
    #[must_use]
    pub fn roles_matter(&self) -> bool {
        let matter = |rules: &TriageRules| {
            !rules.ignored_roles.is_empty() || !rules.super_roles.is_empty() || rules.restriction.is_some()
        };
        !self.limits.roles.is_empty() || self.doors.values().any(|rules| matter(&rules.triage))
    }

    /// Returns the prices of a row; `None` if it has none.
    #[must_use]
    pub fn price(&self, row: &str) -> Option<Price> {
        self.models.rows().iter().find(|known| known.key == row)?.price
    }

    /// Returns the price of the embeddings of a row; `None` if it has none.
    #[must_use]
    pub fn embeddings_price(&self, row: &str) -> Option<Price> {
        self.models.rows().iter().find(|known| known.key == row)?.embeddings_price.map(Price::of_input)
    }

    /// Returns the names of changed settings that only take effect at a start.
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
            ("discord.voice", (new.discord.voice == OpenTo::Off) != (old.discord.voice == OpenTo::Off)),
            ("discord.requests_per_second", new.discord.requests_per_second != old.discord.requests_per_second),
            ("slack.bot_token", differ(&new.slack.bot_token, &old.slack.bot_token)),
            ("slack.app_token", differ(&new.slack.app_token, &old.slack.app_token)),
            ("slack.api_url", new.slack.api_url != old.slack.api_url),
            ("members.aliases", new.members.aliases != old.members.aliases),
            (
                "interjection.backoff_after",
                (new.interjection.backoff_after > 0) != (old.interjection.backoff_after > 0),
            ),
            ("llm.experiments", new.wants_reactions() != old.wants_reactions()),
            ("turn.open", new.turn.open != old.turn.open),
            ("llm.concurrent", new.llm.concurrent != old.llm.concurrent),
            ("http.addr", new.http.addr != old.http.addr),
            ("http.health_addr", new.http.health_addr != old.http.health_addr),
            ("http.listeners", new.http.listeners != old.http.listeners),
            ("http.connections", new.http.connections != old.http.connections),
            ("http.key_concurrent", new.http.key_concurrent != old.http.key_concurrent),
            ("http.origins", new.http.origins != old.http.origins),
            ("cluster.address", new.cluster.address != old.cluster.address),
            ("runtime.threads", new.runtime.threads != old.runtime.threads),
            ("store.dir", new.store.dir != old.store.dir),
            ("redis.url", differ(&new.redis.url, &old.redis.url)),
            ("redis.host", new.redis.host != old.redis.host),
            ("redis.port", new.redis.port != old.redis.port),
            ("redis.db", new.redis.db != old.redis.db),
            ("redis.password", differ(&new.redis.password, &old.redis.password)),
            ("cluster.ranges", new.cluster.ranges != old.cluster.ranges),
            ("log.level", new.log.level != old.log.level),
            ("log.format", new.log.format != old.log.format),
            ("log.content", new.log.content != old.log.content),
            ("telemetry.endpoint", new.telemetry.endpoint != old.telemetry.endpoint),
            ("telemetry.headers", differ(&new.telemetry.headers, &old.telemetry.headers)),
            ("telemetry.service_name", new.telemetry.service_name != old.telemetry.service_name),
            ("telemetry.content", new.telemetry.content != old.telemetry.content),
            ("turn.longest", new.turn.longest != old.turn.longest),
            ("drain.timeout", new.drain.timeout != old.drain.timeout),
            ("prompts.editable", new.prompts.editable != old.prompts.editable),
            ("tools.nats_url", differ(&new.tools.nats_url, &old.tools.nats_url)),
            ("tools.web_search", !same(&new.tools.web_search, &old.tools.web_search, search)),
            ("tools.images", !same(&new.tools.images, &old.tools.images, ImageModel::identity)),
            ("tools.databases", !same(&new.tools.databases, &old.tools.databases, database)),
            ("google_drive", !same(from_ref(&new.google_drive), from_ref(&old.google_drive), drive)),
            ("url_extract", new.url_extract != old.url_extract),
            ("agents", agents(&new.agents) != agents(&old.agents) || !same(&new.agents.peers, &old.agents.peers, peer)),
        ];
        changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }
}

/// True if the rows are equal: their secrets, and their other fields.
fn same<'a, Row, Plain: PartialEq>(
    new: &'a [Row],
    old: &'a [Row],
    read: impl Fn(&'a Row) -> (Option<&'a SecretString>, Plain),
) -> bool {
    let rows = |rows: &'a [Row]| -> (Vec<Option<&'a SecretString>>, Vec<Plain>) { rows.iter().map(&read).unzip() };
    let ((new_secrets, new), (old_secrets, old)) = (rows(new), rows(old));
    let present = |secrets: &[Option<&SecretString>]| secrets.iter().map(Option::is_some).collect::<Vec<_>>();
    let equal = present(&new_secrets) == present(&old_secrets)
        && !differ(new_secrets.into_iter().flatten(), old_secrets.into_iter().flatten());
    equal && new == old
}

fn search(row: &WebSearch) -> (Option<&SecretString>, impl PartialEq) {
    (row.key.as_ref(), (&row.provider, &row.url, &row.env_key, &row.engine, &row.model, row.timeout))
}

fn drive(row: &GoogleDrive) -> (Option<&SecretString>, impl PartialEq) {
    (row.credentials.as_ref(), (&row.folder, row.changes, &row.url, row.bytes, row.timeout))
}

fn database(row: &Database) -> (Option<&SecretString>, impl PartialEq) {
    (row.url.as_ref(), (&row.name, &row.env_url, &row.read, &row.write, row.rows, row.timeout))
}

fn peer(row: &Peer) -> (Option<&SecretString>, impl PartialEq) {
    (row.key.as_ref(), (&row.name, &row.url, &row.env_key, &row.description, row.timeout))
}

fn agents(section: &Agents) -> impl PartialEq {
    (&section.name, section.depth, section.calls, section.tokens, &section.models)
}

/// True if secrets changed; they do not implement equality.
fn differ<'a>(
    new: impl IntoIterator<Item = &'a SecretString>,
    old: impl IntoIterator<Item = &'a SecretString>,
) -> bool {
    let shown = |secret: &'a SecretString| secret.expose_secret();
    new.into_iter().map(shown).ne(old.into_iter().map(shown))
}

/// The running configuration. Cheap to clone; all clones see a reload. A caller that needs several consistent settings
/// calls [`Live::now`] once.
#[derive(Clone)]
pub struct Live(Arc<LiveInner>);

struct LiveInner {
    now: RwLock<Arc<Running>>,
    rejected: Mutex<Option<String>>,
    /// The stored changes of prompts that were read last.
    edits: Mutex<LastEdits>,
    /// The links of accounts that were read last.
    links: RwLock<Arc<Links>>,
}

impl Live {
    /// Starts with the configuration read at start.
    #[must_use]
    pub fn new(running: Running) -> Self {
        Self(Arc::new(LiveInner {
            now: RwLock::new(Arc::new(running)),
            rejected: Mutex::new(None),
            edits: Mutex::default(),
            links: RwLock::default(),
        }))
    }

    /// Returns the running configuration.
    #[must_use]
    pub fn now(&self) -> Arc<Running> {
        Arc::clone(&self.0.now.read())
    }

    /// Returns the reason for the rejection of the current files; `None` if they are accepted.
    #[must_use]
    pub fn rejected(&self) -> Option<String> {
        self.0.rejected.lock().clone()
    }

    /// Returns the stored changes of prompts that were read last.
    pub(crate) fn last_edits(&self) -> &Mutex<LastEdits> {
        &self.0.edits
    }

    /// Returns the accounts of the person who holds this account, as they were read last.
    #[must_use]
    pub fn linked(&self, account: &Person) -> Linked {
        self.links().linked(account)
    }

    /// Returns the links of accounts that were read last.
    #[must_use]
    pub fn links(&self) -> Arc<Links> {
        Arc::clone(&self.0.links.read())
    }

    /// Replaces the links that were read last.
    pub(crate) fn replace_links(&self, links: Links) {
        *self.0.links.write() = Arc::new(links);
    }

    /// Replaces the configuration. Turns in flight keep the configuration with which they started.
    pub(crate) fn replace(&self, running: Running) {
        *self.0.now.write() = Arc::new(running);
        *self.0.rejected.lock() = None;
    }

    /// Records that the files are invalid; the running configuration stays in force.
    pub fn reject(&self, reason: String) {
        *self.0.rejected.lock() = Some(reason);
    }
}

/// The reason for an exit that the process itself initiates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// A required service rejected the process permanently, for this reason.
    Refused(String),
}

/// The channel on which an actor requests the exit of the process.
pub type ExitSender = Arc<tokio::sync::watch::Sender<Option<Exit>>>;
