//! The doors of this program: the record of each door's parts, and the decisions of the settings about it. To add a
//! door, extend `NAMES`, `POSTABLE` and `rules`, and write a function for its record.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use actors::door::{DoorRecord, Pacing, Source};
use actors::observation::turn_events::TurnEvents;
use actors::services::running::{DoorRules, LimitScope, Live};
use discord::attachments::ContentServers;
use discord::gateway::{Gateway, Interests};
use discord::message::AllowedMentions;
use discord::rest::Rest;
use discord::voice::Voice;
use discord::{self, Access};
use domain::ids::Door;
use domain::open_to::OpenTo;
use domain::restriction;
use domain::triage::TriageRules;
use domain::turn::{GatePolicy, HistoryScope, Lasts, Policy, ReplyContract};
use nats::chat_service::{self, ChatService};
use ports::{Clock, Dice, Lottery, NoFiles};
use settings::Settings;
use settings::edges::{AllowedMentions as Allowed, DirectMessages};
use slack::Slack;
use slack::socket::Socket;
use terminal::sessions::Sessions;
use web::model_api::{self, Answers};

/// The number of refused requests (401, 403, 429) in ten minutes after which sending pauses. Discord bans an address at
/// 10,000.
const REFUSALS_MAX: u32 = 1_000;

/// The doors whose clients may read the events of a turn after it began: the log keeps them from the first one on.
const READ_ALONG: [Door; 1] = [terminal::DOOR];

/// The names of all doors, open or not.
pub(crate) const NAMES: [Door; 5] = [discord::DOOR, slack::DOOR, chat_service::DOOR, model_api::DOOR, terminal::DOOR];

/// The doors where posts without a message to answer are possible.
pub(crate) const POSTABLE: [Door; 2] = [discord::DOOR, terminal::DOOR];

/// Returns a mistake for each rule for tools that names a door which this program does not have.
pub(crate) fn unknown(settings: &Settings) -> Vec<String> {
    let known: Vec<String> = rules(settings).into_keys().map(|door| door.to_string()).collect();
    let named = settings.numbered("tools.rules", &settings.tools.rules);
    let named = named.flat_map(|(number, rule)| rule.doors.iter().map(move |door| (number, door)));
    let unknown = named.filter(|(_, door)| !known.contains(door));
    unknown
        .map(|(number, door)| {
            format!("tools.rules, row {number}: there is no door {door:?}; there are {}", known.join(", "))
        })
        .collect()
}

/// Creates the log of the events of turns.
pub(crate) fn events(clock: &Arc<dyn Clock>) -> TurnEvents {
    TurnEvents::new(READ_ALONG.to_vec(), Arc::clone(clock))
}

/// Returns the rules of each door, as the settings decide.
pub(crate) fn rules(settings: &Settings) -> BTreeMap<Door, DoorRules> {
    BTreeMap::from([
        (discord::DOOR, DoorRules { triage: triage(settings), limits: LimitScope::Community }),
        (slack::DOOR, DoorRules { triage: of_workspace(triage(settings)), limits: LimitScope::Community }),
        (chat_service::DOOR, DoorRules { triage: requests(settings), limits: LimitScope::Base }),
        (model_api::DOOR, DoorRules { triage: programs(settings), limits: LimitScope::Keys }),
        (terminal::DOOR, DoorRules { triage: sessions(settings), limits: LimitScope::Keys }),
    ])
}

/// Returns the members that are answered, and the requirements of the door for an answer.
fn triage(settings: &Settings) -> TriageRules {
    let set = |ids: &[String]| ids.iter().cloned().collect::<HashSet<_>>();
    let channel = settings.restriction.channel.clone();
    TriageRules {
        aliases: settings.members.aliases.clone(),
        ignored_roles: set(&settings.members.ignored_roles),
        allowed_bots: set(&settings.bots.allowed),
        direct_messages: settings.discord.direct_messages == DirectMessages::Answer,
        communities: set(&settings.discord.guilds),
        operators: set(&settings.discord.operators),
        super_roles: set(&settings.members.super_roles),
        restriction: settings.restriction.role.clone().map(|role| restriction::RestrictionRules {
            role,
            channel,
            by_record: false,
        }),
        policy: Policy { gates: GatePolicy::Ask, ..Policy::default() },
    }
}

/// Returns the rules for a door whose members have no roles and belong to no guild.
fn without_roles(rules: TriageRules) -> TriageRules {
    TriageRules { communities: HashSet::new(), operators: HashSet::new(), restriction: None, ..rules }
}

/// Returns the rules for Slack. Ids of Discord are numbers and those of Slack begin with a letter, so one list can hold
/// both. Slack has user groups instead of roles, which the bot does not assign.
fn of_workspace(rules: TriageRules) -> TriageRules {
    let by_record = |rules: restriction::RestrictionRules| {
        let channel = rules.channel.filter(|channel| channel.starts_with(|c: char| c.is_ascii_alphabetic()));
        restriction::RestrictionRules { channel, by_record: true, ..rules }
    };
    let restriction = rules.restriction.map(by_record);
    TriageRules { communities: HashSet::new(), direct_messages: true, restriction, ..rules }
}

/// Returns the rules for a door where approvals cannot be requested.
fn unasked(rules: TriageRules) -> TriageRules {
    let policy = Policy { gates: GatePolicy::Deny, ..rules.policy };
    TriageRules { policy, ..rules }
}

/// Returns the rules for sessions, which only their owner reads.
fn sessions(settings: &Settings) -> TriageRules {
    let rules = without_roles(triage(settings));
    let policy = Policy { alone: true, ..rules.policy };
    TriageRules { policy, ..rules }
}

/// Returns the rules for requests, each of which waits for its reply.
fn requests(settings: &Settings) -> TriageRules {
    let rules = unasked(without_roles(triage(settings)));
    let policy = Policy { answers_each: true, ..rules.policy };
    TriageRules { policy, ..rules }
}

/// Returns the rules for programs that supply their conversation and wait for its answer on their connection.
fn programs(settings: &Settings) -> TriageRules {
    let rules = unasked(without_roles(triage(settings)));
    let (reply, history, lasts) = (ReplyContract::Verbatim, HistoryScope::Given, Lasts::WhileRead);
    let policy = Policy { reply, history, lasts, ..rules.policy };
    TriageRules { policy, ..rules }
}

/// Returns the record of the door for programs that use the API of a model.
pub(crate) fn model_api() -> DoorRecord {
    DoorRecord {
        door: model_api::DOOR,
        source: Source::Requests,
        poster: Arc::new(Answers),
        attachments: Arc::new(NoFiles),
        pacing: Pacing::default(),
        registers_commands: false,
    }
}

/// Returns the record of terminal sessions: asked through its routes, read by its clients, with no budget.
pub(crate) fn terminal(sessions: &Arc<Sessions>) -> DoorRecord {
    DoorRecord {
        door: terminal::DOOR,
        source: Source::Requests,
        poster: Arc::clone(sessions) as _,
        attachments: Arc::clone(sessions) as _,
        pacing: Pacing::default(),
        registers_commands: false,
    }
}

/// Returns the record of requests over NATS, if an address of it is configured.
pub(crate) fn chat_service(settings: &Settings, clock: &Arc<dyn Clock>) -> Option<DoorRecord> {
    let url = settings.tools.nats_url.clone()?;
    let service = Arc::new(ChatService::new(url, Arc::clone(clock)));
    Some(DoorRecord {
        door: chat_service::DOOR,
        source: Source::Connection(Arc::clone(&service) as _),
        poster: service,
        attachments: Arc::new(NoFiles),
        pacing: Pacing::default(),
        registers_commands: false,
    })
}

/// Returns the record of Discord: receives through shards, sends over REST.
///
/// # Errors
/// The reason as a sentence.
pub(crate) fn discord(
    settings: &Settings,
    live: Option<&Live>,
    dice: &Arc<dyn Dice>,
) -> Result<(DoorRecord, Arc<Voice>), String> {
    let access = access(settings);
    let Allowed { replied_user, users } = settings.discord.allowed_mentions;
    let rest = Rest::new(&access).map_err(|error| error.to_string())?;
    let rest = Arc::new(rest.pinging(AllowedMentions { answered: replied_user, mentioned: users }));
    let interests = Interests {
        names: settings.members.aliases.clone(),
        direct_messages: settings.discord.direct_messages == DirectMessages::Answer,
        reactions: settings.wants_reactions(),
        voice: settings.discord.voice != OpenTo::Off,
        lottery: live.map(|live| lottery(live.clone(), Arc::clone(dice))),
    };
    let attachments = ContentServers::new(&access, &rest).map_err(|error| error.to_string())?;
    let source = Gateway::new(access, interests, Arc::clone(&rest));
    let voice = source.voice();
    let record = DoorRecord {
        door: discord::DOOR,
        source: Source::Shards(Arc::new(source)),
        poster: rest,
        attachments: Arc::new(attachments),
        pacing: Pacing { requests_per_second: settings.discord.requests_per_second, refusals: REFUSALS_MAX },
        registers_commands: true,
    };
    Ok((record, voice))
}

/// Returns the record of Slack, if both tokens are set: receives through sockets, sends over the Web API.
pub(crate) fn slack(
    settings: &Settings,
    live: Option<&Live>,
    (clock, dice): (&Arc<dyn Clock>, &Arc<dyn Dice>),
) -> Result<Option<DoorRecord>, String> {
    let Some(access) = slack_access(settings) else { return Ok(None) };
    let slack = Arc::new(Slack::new(&access, Arc::clone(clock)).map_err(|error| error.to_string())?);
    let lottery = live.map(|live| lottery(live.clone(), Arc::clone(dice)));
    Ok(Some(DoorRecord {
        door: slack::DOOR,
        source: Source::Sockets(Socket::all(&slack, &settings.members.aliases, &lottery)),
        poster: Arc::clone(&slack) as _,
        attachments: slack,
        pacing: Pacing::default(),
        registers_commands: false,
    }))
}

/// Returns the access to Slack, if both tokens are set.
pub(crate) fn slack_access(settings: &Settings) -> Option<slack::Access> {
    let (bot_token, app_token) = settings.slack.tokens()?;
    let api_url = settings.slack.api_url.clone();
    Some(slack::Access { api_url, bot_token: bot_token.clone(), app_token: app_token.clone() })
}

/// Returns the access to Discord.
pub(crate) fn access(settings: &Settings) -> Access {
    let discord = &settings.discord;
    Access {
        api_url: discord.api_url.clone(),
        token: discord.token.clone().unwrap_or_default(),
        allow_insecure: discord.allow_insecure,
    }
}

/// Decides by chance on messages not addressed to the bot, with the chances in force at that moment.
fn lottery(live: Live, dice: Arc<dyn Dice>) -> Lottery {
    let chances = move || {
        let running = live.now();
        let interjection = &running.settings.interjection;
        (interjection.response_chance, interjection.delivery_chance)
    };
    Lottery { dice, chances: Arc::new(chances) }
}
