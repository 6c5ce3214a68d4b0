//! Creates the parts of the tree from the settings.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::app::backup::Copies;
use crate::app::configured::Configured;
pub use crate::app::launch::{Launch, StartError};
use crate::app::opening::{Opened, open_store, redis};
use crate::app::programs::{ProgramParts, programs};
use crate::app::reload::{self, Watched};
use crate::app::standby::{self, Active, Alone, Forwarding, SharedProcesses, StandbyParts};
use crate::app::{built_ins, doors, format, voices};
use actors::door::{DoorRecord, Doors};
use actors::observation::audit::Audit;
use actors::observation::board::{Board, PartKind, STORE};
use actors::observation::daily::DailyUse;
use actors::observation::instruments::Instruments;
use actors::observation::past::Past;
use actors::observation::timeline::Timeline;
use actors::observation::turn_events::TurnEvents;
use actors::observation::vitals::TreeVitals;
use actors::services::basics::Basics;
use actors::services::clean_calls::OpenCalls;
use actors::services::facts::FactKeeper;
use actors::services::in_force::InForce;
use actors::services::links::{self, Linker};
use actors::services::own_ranges::OwnRanges;
use actors::services::preferences::PreferenceKeeper;
use actors::services::prompt_sections::SectionKeeper;
use actors::services::recorded::Recorded;
use actors::services::running::{Exit, Live};
use actors::services::toolbox::{Caller, Toolbox, Toolset};
use actors::services::work_costs::WorkCosts;
use actors::tool_cache::BuiltIn;
use actors::wiring::Handles;
use actors::wiring::parts::{DoorParts, Observation, Pages, Parts, Process, Records, ToolParts};
use discord::voice::Voice;
use domain::hex::hex;
use domain::ids::Door;
use domain::lineage::Identity;
use domain::ownership::Portions;
use domain::tool::catalogue::Catalogue;
use domain::tool::{Source, schema};
use mcp::McpServers;
use mcp::nats::NatsProviders;
use mcp::oauth::Logins;
use ports::{
    Clock, Dice, Documents, Facts, Limiter, Meter, Observer, OwnedStore, PromptSections, ToolProviders, TurnLog,
    WorkMetering,
};
use render;
use settings::Settings;
use settings::stores::StoreChoice;
use speech::{Speech, Uncounted};
use store::redis::lease::{Lease, LeaseFault};
use store::turns::StoredTurns;
use telemetry::Redaction;
use telemetry::events::{CONFIG_REJECTED, LEASE_UNKNOWN};
use telemetry::tally::Tally;
use terminal;
use terminal::sessions::Sessions;
use tools::images;
use tools::{BuiltInTool, BuiltIns};
use web::api::sockets::Sockets;
use web::api::{self, Api, ApiOptions, Elsewhere, Exposure, Limits};
use web::hooks::{self, Hooks};
use web::model_api;
use web::problem::problem;

/// All parts of a run.
pub struct Assembled {
    /// The parts of the tree.
    pub parts: Parts,
    /// Holds the reason once the process must end.
    pub exited: watch::Receiver<Option<Exit>>,
    /// Holds the address of the pages once they are bound.
    pub bound: watch::Receiver<Option<SocketAddr>>,
    /// The lease on a shared store. `None` for an embedded store, and for a process without a platform.
    pub active: Option<Active>,
}

/// Configuration that is read and valid, with the edges that need nothing else.
struct Checked {
    configured: Configured,
    live: Live,
    /// The doors to platforms, the home of the bot first.
    platforms: Vec<DoorRecord>,
    own: Vec<Box<dyn BuiltInTool>>,
    /// The rows of image models, whose tools need the limiter.
    pictures: Vec<images::Row>,
    speech: Uncounted,
    /// The voice channels of Discord.
    voice: Option<Arc<Voice>>,
    us: Identity,
}

/// Creates the edges once this process may be active.
///
/// # Errors
/// See [`StartError`]; reports all mistakes in files together.
pub async fn assemble(launch: Launch) -> Result<Assembled, StartError> {
    let checked = check(launch.configured.clone(), &launch).map_err(StartError::Configuration)?;
    let (checked, active) = activated(checked, &launch).await?;
    Box::pin(build(checked, launch, active)).await
}

/// Returns the lease once this process is active and the terms of other divisions are ended, if others can have the same
/// bot account. If the store stops answering in between, this process stands by again.
async fn activated(mut checked: Checked, launch: &Launch) -> Result<(Checked, Option<Active>), StartError> {
    while let Some(lease) = lease(&checked, &launch.dice)? {
        let parts = standby_parts(&checked.live, &launch.clock, &launch.metrics);
        let alone = Alone::of(&checked.configured.settings.store.dir, Arc::clone(&launch.clock));
        let held = standby::activate(lease, alone, parts, &launch.stop).await.ok_or(StartError::Stopped)?;
        if held.took_over {
            checked = check_again(checked, launch);
        }
        let reason = match held.end_other_divisions(&turn_doors(&checked, &launch.clock)).await {
            Ok(()) => return Ok((checked, Some(held))),
            Err(LeaseFault::Away(reason)) => reason,
            Err(LeaseFault::Refused(reason)) => return Err(StartError::InUse(reason)),
        };
        tracing::warn!(
            event = LEASE_UNKNOWN,
            reason,
            "the store stopped answering before this process took up its turns; it stands by until the store answers"
        );
        held.release().await;
    }
    standby::show(true);
    Ok((checked, None))
}

/// Returns the names of the doors whose turns this process will own.
fn turn_doors(checked: &Checked, clock: &Arc<dyn Clock>) -> Vec<Door> {
    let nats = doors::chat_service(&checked.configured.settings, clock);
    let records = checked.platforms.iter().chain(&nats).map(|record| record.door.clone());
    records.chain([terminal::DOOR, model_api::DOOR]).collect()
}

/// Reads and checks the configuration. Reports all mistakes together.
fn check(configured: Configured, launch: &Launch) -> Result<Checked, Vec<String>> {
    let Launch { clock, dice, alone, .. } = launch;
    let settings = &configured.settings;
    let (mut mistakes, us) = (Vec::new(), built_ins::agents::identity(settings, &**dice));
    let live = reload::running(configured.clone()).map(Live::new).map_err(|more| mistakes.extend(more)).ok();
    let listed = mistakes.clone();
    let (mut platforms, mut voice) = (Vec::new(), None);
    if !alone {
        let slack = doors::slack(settings, live.as_ref(), (clock, dice)).unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            None
        });
        // Without a token for Discord, Slack is the home of the bot.
        if slack.is_none() || settings.discord.token.is_some() {
            match doors::discord(settings, live.as_ref(), dice) {
                Ok((discord, signals)) => {
                    platforms.push(discord);
                    voice = Some(signals);
                }
                Err(mistake) => mistakes.push(mistake),
            }
        }
        platforms.extend(slack);
    }
    let own = built_ins::configured(settings, &configured.lookup, &us, clock, Arc::clone(dice));
    // The list of mistakes in the running configuration already includes some of these.
    let mut unlisted = |more: Vec<String>| mistakes.extend(more.into_iter().filter(|one| !listed.contains(one)));
    let own = own.map_err(&mut unlisted).ok();
    let pictures = built_ins::image_models(settings, &configured.lookup).map_err(&mut unlisted).unwrap_or_default();
    let speech = voices::speech(settings, &configured.lookup).map_err(&mut unlisted).ok();
    match (live, own, speech) {
        (Some(live), Some(own), Some(speech)) if mistakes.is_empty() => {
            Ok(Checked { configured, live, platforms, own, pictures, speech, voice, us })
        }
        _ => Err(mistakes),
    }
}

/// Reads the configuration again, because it may have changed while this process stood by. If it is wrong now, the
/// earlier one is used.
fn check_again(earlier: Checked, launch: &Launch) -> Checked {
    let Some(watched) = &launch.reread else { return earlier };
    watched.configured().and_then(|configured| check(configured, launch)).unwrap_or_else(|mistakes| {
        let reason = mistakes.join("; ");
        tracing::error!(
            event = CONFIG_REJECTED,
            reason,
            "the changed files are invalid; the previous configuration stays in force"
        );
        earlier.live.reject(reason);
        earlier
    })
}

async fn build(checked: Checked, launch: Launch, active: Option<Active>) -> Result<Assembled, StartError> {
    let Checked { configured, live, platforms, own, pictures, speech, voice, us } = checked;
    let Launch { reread, clock, dice, faults, documents, alone, .. } = launch;
    let (settings, mask, events) = (configured.settings.clone(), configured.redaction.clone(), doors::events(&clock));
    let reread = reread.unwrap_or_else(|| Watched::new(Arc::new(move || Ok(configured.clone())), [], &settings));
    let Opened { store, owned, limiter } = open_store(&settings, &clock, faults.store()).await?;
    format::check(&*store).await?;
    let nats_door = (!alone).then(|| doors::chat_service(&settings, &clock)).flatten();
    let basics = Basics { live, store, clock, dice };
    // No turn starts before the links are known, if the store answers.
    links::refresh(&basics.live, &*basics.store).await;
    let sessions = sessions(&basics);
    let mut doors = opened(door_records(platforms, &sessions, nats_door), documents)?;
    let ranges = OwnRanges::new(active.as_ref().map_or(Portions::WHOLE, Active::portions));
    let peers = active.as_ref().and_then(Active::peers);
    let records = Records::new(&basics, limiter, turns(owned, &doors.all, ranges.now()));
    let (speech, meter) = counted(speech, &basics, &records.limiter);
    doors.calls = voices::calls(&settings, voice, (&speech, &events, &basics)).map_err(StartError::Configuration)?;
    let vitals = Arc::new(vitals(&basics, &ranges, launch.tally, launch.logged, mask));
    let (handles, sections) = (Handles::new(&doors.all), sections(&basics));
    let (in_force, own) = (in_force(&basics), own.into_iter().chain(images::tools(pictures, &meter)).collect());
    let built_in = built_in(own, &settings, &records.facts, &sections);
    let toolbox = toolbox(&built_in, !basics.live.now().servers.entries.is_empty());
    let preferences = Arc::new(PreferenceKeeper::new(basics.clone(), Arc::clone(&toolbox)));
    let program_parts = ProgramParts {
        basics: &basics,
        in_force: &in_force,
        handles: &handles,
        events: &events,
        prompts: &sections,
        settings: &preferences,
        sessions: &sessions,
        vitals: &vitals,
        toolbox: &toolbox,
        limiter: &records.limiter,
        documents: Arc::clone(&doors.documents),
        us,
    };
    let (membership, sockets) = active.as_ref().map(|active| active.inheritance(&settings.http)).unwrap_or_default();
    let listener = Api::new(ApiOptions {
        exposure: Exposure { membership, sockets, ..exposure(&settings) },
        keys: Arc::clone(&in_force) as _,
        refuse,
        programs: programs(program_parts, speech),
        vitals: Arc::clone(&vitals) as _,
        metrics: launch.metrics,
        page: None,
        routes: kept_routes(&settings, &basics, &records.audit, &doors.home)
            .merge(api::questions::router(Arc::new(handles.pending_gates())))
            .merge(api::processes::router(Arc::new(SharedProcesses::of(active.as_ref(), &basics.store)))),
        signed: signed(&basics, &in_force, &handles, &records.limiter),
        limits: limits(&settings),
        elsewhere: elsewhere(active.as_ref(), &ranges, limits(&settings)),
    });
    let (bound, (exit, exited)) = (listener.bound(), watch::channel(None));
    let parts = Parts {
        tools: tool_parts(&settings, &basics, toolbox, preferences, built_in),
        observation: observation(&vitals, events, launch.observers),
        pages: Pages {
            further: settings.http.listeners.iter().map(|address| listener.at(address)).collect(),
            listener: Arc::new(listener),
            vitals,
        },
        process: Process { files: Arc::new(reread), ranges, peers, faults, exit: Arc::new(exit) },
        basics,
        records,
        doors,
        handles,
    };
    Ok(Assembled { parts, exited, bound, active })
}

/// Returns the process that serves programs while this one does not: their turns belong to the first range.
fn elsewhere(active: Option<&Active>, ranges: &OwnRanges, limits: Limits) -> Option<Elsewhere> {
    let (forwarder, ranges) = (active?.forwarder(limits)?, ranges.clone());
    Some(Elsewhere { forwarder, is_here: Arc::new(move || ranges.now().is_first()) })
}

/// The observers of events, with those of the caller.
fn observation(vitals: &TreeVitals, events: TurnEvents, more: Vec<Arc<dyn Observer>>) -> Observation {
    let observers = more.into_iter().chain([Arc::clone(&vitals.tally) as _]).collect();
    Observation { instruments: vitals.instruments.clone(), events, observers }
}

/// The tools, with the connections to their servers and providers.
fn tool_parts(
    settings: &Settings,
    basics: &Basics,
    toolbox: Arc<Toolbox>,
    preferences: Arc<PreferenceKeeper>,
    built_in: BuiltIn,
) -> ToolParts {
    let nats = settings.tools.nats_url.clone().map(|url| Arc::new(NatsProviders::new(url)));
    ToolParts {
        toolbox,
        settings: preferences,
        built_in,
        servers: servers(settings, &basics.clock, nats.clone()),
        providers: nats.map(|nats| nats as Arc<dyn ToolProviders>),
    }
}

/// The settings in force, for requests.
fn in_force(basics: &Basics) -> Arc<InForce> {
    Arc::new(InForce { live: basics.live.clone(), clock: Arc::clone(&basics.clock) })
}

/// Returns the lease of this process, if others can have the same bot account on the same store.
fn lease(checked: &Checked, dice: &Arc<dyn Dice>) -> Result<Option<Lease>, StartError> {
    let StoreChoice::Redis(address) = checked.configured.settings.chosen_store() else { return Ok(None) };
    if checked.platforms.is_empty() {
        return Ok(None);
    }
    let ranges = checked.configured.settings.cluster.ranges;
    Ok(Some(Lease::new(redis(&address)?, process_name(&**dice)).divided(ranges)))
}

/// Returns a name for this process that no other process on a shared store has.
pub(crate) fn process_name(dice: &dyn Dice) -> String {
    format!("{} (process {}, {:08x})", machine(), std::process::id(), dice.roll().to_bits() >> 20)
}

/// Returns the inputs of a process that stands by.
fn standby_parts(live: &Live, clock: &Arc<dyn Clock>, metrics: &Arc<dyn Fn() -> String + Send + Sync>) -> StandbyParts {
    let running = live.now();
    let settings = &running.settings;
    let forwarding = Forwarding::of(settings);
    let membership = forwarding.as_ref().map(|forwarding| Arc::clone(&forwarding.membership));
    StandbyParts {
        live: live.clone(),
        clock: Arc::clone(clock),
        metrics: Arc::clone(metrics),
        exposure: Exposure { membership, ..exposure(settings) },
        refuse,
        limits: limits(settings),
        forwarding,
        listeners: settings.http.listeners.clone(),
    }
}

/// The limits on clients of the pages.
fn limits(settings: &Settings) -> Limits {
    Limits::of(settings.http.connections, settings.turn.lease())
}

/// Returns the turns of this process, which owns these portions of the turns of its doors.
fn turns(owned: Arc<dyn OwnedStore>, doors: &Doors, portions: Portions) -> Arc<StoredTurns> {
    Arc::new(StoredTurns::new(owned, doors.names(|_| true), portions))
}

/// Returns the doors. The first is the one whose members are counted by day.
fn opened(records: Vec<DoorRecord>, documents: Arc<dyn Documents>) -> Result<DoorParts, StartError> {
    let home = records.first().map_or(terminal::DOOR, |record| record.door.clone());
    let all = Doors::new(records).map_err(|mistake| StartError::Configuration(vec![mistake.to_string()]))?;
    Ok(DoorParts { all, home, renderer: render::renderer(), documents, calls: None })
}

/// The routes through which operators read stored data.
fn kept_routes(settings: &Settings, basics: &Basics, audit: &Arc<Audit>, home: &Door) -> Router {
    let Basics { store, clock, .. } = basics.clone();
    let used = Arc::new(DailyUse::new(Arc::clone(&store), Arc::clone(&clock), home.clone()));
    let recorded = Arc::new(Recorded(Arc::clone(&store)));
    let copies = Copies { store, clock, dir: settings.store.dir.clone() };
    api::audit::router(Arc::clone(audit) as _)
        .merge(api::usage::router(used))
        .merge(api::recorded::router(recorded))
        .merge(api::backup::router(Arc::new(copies)))
        .merge(api::links::router(Arc::new(Linker { basics: basics.clone() }), Arc::new(doors::NAMES)))
}

/// Returns the records of the doors, those of platforms first.
fn door_records(platforms: Vec<DoorRecord>, sessions: &Arc<Sessions>, nats: Option<DoorRecord>) -> Vec<DoorRecord> {
    platforms.into_iter().chain([doors::terminal(sessions), doors::model_api()]).chain(nats).collect()
}

/// Returns the addresses of the pages and their access rules.
fn exposure(settings: &Settings) -> Exposure {
    let http = &settings.http;
    Exposure {
        address: http.addr.to_string(),
        health_address: http.health_addr.map(|address| address.to_string()),
        origins: http.origins.clone(),
        trusted_proxies: http.trusted_proxies.clone(),
        membership: None,
        sockets: Sockets::default(),
        behind: http.behind,
    }
}

/// Returns the reply to a refused request, in the form that clients of its path expect.
pub(crate) fn refuse(path: &str, status: StatusCode, why: &str) -> Response {
    if model_api::speaks(path) { model_api::refused(path, status, why) } else { problem(status, why).into_response() }
}

/// The requests that start a turn and are authenticated by a signature.
fn signed(basics: &Basics, in_force: &Arc<InForce>, handles: &Handles, limiter: &Arc<dyn Limiter>) -> Router {
    hooks::router(Hooks {
        intake: Arc::new(handles.intake()),
        webhooks: Arc::clone(in_force) as _,
        store: Arc::clone(&basics.store),
        limiter: Arc::clone(limiter),
        clock: Arc::clone(&basics.clock),
        process: format!("{:016x}", basics.dice.roll().to_bits()).into(),
    })
}

/// The program's figures for operators.
fn vitals(
    basics: &Basics,
    ranges: &OwnRanges,
    tally: Arc<Tally>,
    logged: Arc<dyn TurnLog>,
    mask: Redaction,
) -> TreeVitals {
    let board = Arc::<Board>::default();
    board.meet(PartKind::Store, STORE);
    let running = basics.live.now();
    let log = &running.settings.log;
    let timeline = if log.content || log.messages {
        Timeline::showing_texts(Box::new(move |text, most| mask.excerpt(text, most)))
    } else {
        Timeline::default()
    };
    TreeVitals {
        instruments: Instruments { board, timeline: Arc::new(timeline), ..Instruments::default() },
        samples: Arc::default(),
        past: Arc::new(Past::new(Arc::clone(&basics.store), instance(&running.settings))),
        basics: basics.clone(),
        ranges: ranges.clone(),
        logged,
        tally,
    }
}

/// Returns an id that separates this program from others on the same store, also after a restart: the machine and the
/// data directory.
fn instance(settings: &Settings) -> String {
    let dir = std::path::absolute(&settings.store.dir).unwrap_or_else(|_| settings.store.dir.clone());
    let hash = Sha256::digest(format!("{} {}", machine(), dir.display()));
    hex(&hash[..8])
}

/// Returns the name of this machine.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Returns the connections to tool servers: processes that announce themselves, and configured servers with the logins
/// of the data directory.
fn servers(settings: &Settings, clock: &Arc<dyn Clock>, providers: Option<Arc<NatsProviders>>) -> Arc<McpServers> {
    let logins = Some(Logins::below(&settings.store.dir, Arc::clone(clock)));
    Arc::new(McpServers { logins, providers, ..McpServers::guarded() })
}

/// Returns the sessions, with the retention of the settings in force.
fn sessions(basics: &Basics) -> Arc<Sessions> {
    let Basics { live, store, clock, .. } = basics.clone();
    Arc::new(Sessions::new(clock, store, Arc::new(move || live.now().settings.http.session_ttl)))
}

/// The sections of prompts, and the changes to them.
fn sections(basics: &Basics) -> Arc<dyn PromptSections> {
    let Basics { live, store, clock, .. } = basics.clone();
    Arc::new(SectionKeeper { live, store, clock, changing: tokio::sync::Mutex::default() })
}

/// Returns speech whose costs count in limits and in the ledger, and the account of all such work.
fn counted(speech: Uncounted, basics: &Basics, limiter: &Arc<dyn Limiter>) -> (Speech, Meter) {
    let Basics { live, store, clock, .. } = basics.clone();
    let costs = WorkCosts { live, limiter: Arc::clone(limiter), store, clock, numbers: Arc::default() };
    let meter: Arc<dyn WorkMetering> = Arc::new(costs);
    (speech.counted_by(&meter), Some(meter))
}

/// The built-in tools.
fn built_in(
    mut own: Vec<Box<dyn BuiltInTool>>,
    settings: &Settings,
    facts: &Arc<FactKeeper>,
    sections: &Arc<dyn PromptSections>,
) -> BuiltIn {
    let facts: Arc<dyn Facts> = Arc::clone(facts) as _;
    own.extend(built_ins::memory(settings, &facts));
    own.extend(built_ins::prompts(settings, sections));
    let clean_calls = Arc::<OpenCalls>::default();
    own.extend(built_ins::models(settings, &(Arc::clone(&clean_calls) as _)));
    let built_ins = BuiltIns::new(own);
    BuiltIn { offer: built_ins.offer(), caller: Caller::Direct(Arc::new(built_ins)), clean_calls }
}

/// The toolbox before any tool server is connected.
fn toolbox(built_in: &BuiltIn, servers: bool) -> Arc<Toolbox> {
    let catalogue = Catalogue::new(std::slice::from_ref(&built_in.offer), &Catalogue::default(), schema::of);
    let tools = Toolset::new(Arc::new(catalogue), [(Source::BuiltIn, built_in.caller.clone())].into());
    Arc::new(Toolbox::beginning_with(tools, servers))
}
