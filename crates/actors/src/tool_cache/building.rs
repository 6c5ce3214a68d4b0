//! Builds a catalogue of all offers: in-memory work proportional to the number of tools, off the actor's task.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::BuiltIn;
use super::saving::Saved;
use crate::messages::server_line::ServerLine;
use crate::services::toolbox::{Caller, Toolset};
use domain::ids::Timestamp;
use domain::tool::catalogue::{Catalogue, Offer, Pin};
use domain::tool::server::{DiscoveredTool, ServerRecord, review, with_new};
use domain::tool::{ServerName, Source, Tool, schema};
use ports::tools::{ServerEntry, Transport};

/// The input of a catalogue.
pub(super) struct Plan {
    pub servers: Vec<Planned>,
    pub built_in: BuiltIn,
    pub before: Arc<Catalogue>,
    /// True if the catalogue is rebuilt although no list changed.
    pub rebuild: bool,
    /// The current wall-clock time.
    pub now: Timestamp,
}

/// One server of a plan.
pub(super) struct Planned {
    pub entry: Arc<ServerEntry>,
    pub line: ServerLine,
    pub fingerprint: String,
    /// The previous list.
    pub tools: Arc<Vec<Arc<Tool>>>,
    /// `None` if the stored record cannot be read.
    pub pins: Option<Arc<BTreeMap<String, Pin>>>,
    pub first_seen: Arc<BTreeMap<String, Timestamp>>,
    /// A newer list.
    pub listed: Option<Vec<Tool>>,
    pub accept: bool,
    /// True if the previous list is stored.
    pub stored: bool,
    /// True if the previous list is the complete list of the server.
    pub whole: bool,
}

/// A catalogue, and its result for each server.
pub struct Built {
    pub(super) toolset: Toolset,
    pub(super) servers: Vec<BuiltServer>,
    /// The tools that are not published, with the reasons.
    pub(super) refused: Vec<(String, String)>,
    /// The tools whose schemas are simplified for models, with the omitted parts.
    pub(super) simplified: Vec<(String, String)>,
}

pub(super) struct BuiltServer {
    pub name: ServerName,
    pub fingerprint: String,
    /// The list of the server, without the tools that had no room.
    pub tools: Arc<Vec<Arc<Tool>>>,
    /// True if every tool had room.
    pub whole: bool,
    pub pins: Option<Arc<BTreeMap<String, Pin>>>,
    pub first_seen: Arc<BTreeMap<String, Timestamp>>,
    pub discovered: Vec<DiscoveredTool>,
    /// The names of tools that are withheld because they changed.
    pub changed: Vec<String>,
    /// The names of tools that changed and are published.
    pub accepted: Vec<String>,
    /// The names in calls.
    pub shown: Vec<String>,
    /// True if the stored record is out of date.
    pub unsaved: bool,
    /// True if an operator accepted changes.
    pub decided: bool,
}

/// Builds the catalogue; `None` if nothing would change.
pub(super) fn build(plan: Plan) -> Option<Built> {
    let Plan { servers, built_in, before, rebuild, now } = plan;
    let mut work = rebuild;
    let mut servers = servers;
    // If two tools conflict by name or compete for room, the first stays: a self-announced process displaces neither a
    // configured server nor an earlier process.
    let offered: HashSet<&Source> = before.entries().iter().map(|entry| &entry.tool.source).collect();
    let is_new = |name: &ServerName| !offered.contains(&Source::Server(name.clone()));
    servers.sort_by_cached_key(|planned| {
        let provider = planned.entry.transport == Transport::Provider;
        (provider, provider && is_new(&planned.entry.name))
    });
    let servers: Vec<(BuiltServer, Offer, ServerLine)> =
        servers.into_iter().map(|planned| server(planned, now, &mut work)).collect();
    if !work {
        return None;
    }
    let BuiltIn { offer, caller, .. } = built_in;
    let mut callers = HashMap::from([(Source::BuiltIn, caller)]);
    let mut offers = vec![offer];
    let mut built = Vec::with_capacity(servers.len());
    for (server, offer, line) in servers {
        callers.insert(Source::Server(server.name.clone()), Caller::Server(line));
        offers.push(offer);
        built.push(server);
    }
    let simplified = RefCell::default();
    let convert = |tool: &Tool| {
        let schema::Converted { schema, lost } = schema::convert(&tool.input_schema.to_value());
        if !lost.is_empty() {
            let mut simplified: std::cell::RefMut<'_, Vec<(String, String)>> = simplified.borrow_mut();
            simplified.push((full_name(tool), lost.join("; ")));
        }
        schema
    };
    let catalogue = Arc::new(Catalogue::new(&offers, &before, convert));
    let mut shown: HashMap<&ServerName, Vec<String>> = HashMap::new();
    for entry in catalogue.entries() {
        if let Source::Server(name) = &entry.tool.source {
            shown.entry(name).or_default().push(entry.name.to_string());
        }
    }
    let mut without_room: HashMap<&ServerName, HashSet<&str>> = HashMap::new();
    for refused in catalogue.refused().iter().filter(|refused| refused.reason.is_of_size()) {
        if let Source::Server(name) = &refused.source {
            without_room.entry(name).or_default().insert(&refused.tool);
        }
    }
    for server in &mut built {
        server.shown = shown.remove(&server.name).unwrap_or_default();
        if let Some(left_out) = without_room.get(&server.name) {
            server.whole = false;
            let kept = server.tools.iter().filter(|tool| !left_out.contains(&*tool.name)).cloned();
            server.tools = Arc::new(kept.collect());
        }
    }
    let refused = catalogue.refused().iter().map(|refused| {
        let source = match &refused.source {
            Source::BuiltIn => "built in",
            Source::Server(name) => name.as_str(),
        };
        (format!("{} ({source})", refused.tool), refused.reason.to_string())
    });
    let refused = refused.collect();
    let toolset = Toolset::new(catalogue, callers);
    Some(Built { toolset, servers: built, refused, simplified: simplified.into_inner() })
}

/// Returns the published tools of one server. Sets `work` if they changed.
fn server(planned: Planned, now: Timestamp, work: &mut bool) -> (BuiltServer, Offer, ServerLine) {
    let Planned { entry, line, fingerprint, tools, pins, first_seen, listed, accept: decided, stored, whole } = planned;
    // If the last list had no room, some of the rest may have room now.
    let fresh = listed.filter(|listed| !whole || !listed.iter().eq(tools.iter().map(|tool| &**tool)));
    let read = fresh.is_some();
    let tools = fresh.map_or(tools, |listed| Arc::new(listed.into_iter().map(Arc::new).collect()));
    let mut own = pins.as_deref().cloned();
    let accept = decided || entry.trusted;
    let reviewed: Vec<(&str, Pin)> = tools.iter().map(|tool| (&*tool.name, Pin::of(tool))).collect();
    let changed = review(&mut own, reviewed.iter().cloned(), accept);
    let held: BTreeSet<&str> = if accept { BTreeSet::new() } else { changed.iter().copied().collect() };
    let offered: Vec<Arc<Tool>> = tools.iter().filter(|tool| !held.contains(&*tool.name)).cloned().collect();
    let offer = entry.offer(offered);
    let named: Vec<String> = changed.iter().map(|name| (*name).to_owned()).collect();
    let (changed, accepted) = if accept { (Vec::new(), named) } else { (named, Vec::new()) };
    let other_pins = own.as_ref() != pins.as_deref();
    let new = own.as_ref().and_then(|pins| with_new(&first_seen, pins, reviewed.iter().map(|(name, _)| *name), now));
    let other = other_pins || new.is_some();
    *work |= read || other;
    // A record that cannot be read is not overwritten before its tools are accepted.
    let unsaved = own.is_some() && (read || other || !stored && !tools.is_empty());
    let first_seen = new.map_or(first_seen, Arc::new);
    let discovered = reviewed.into_iter().map(|(name, pin)| DiscoveredTool {
        name: name.to_owned(),
        first_seen_at: first_seen.get(name).copied(),
        pin,
    });
    let discovered = discovered.collect();
    let built = BuiltServer {
        name: entry.name.clone(),
        fingerprint,
        tools,
        whole: whole || read,
        pins: own.map(Arc::new),
        first_seen,
        discovered,
        changed,
        accepted,
        shown: Vec::new(),
        unsaved,
        decided,
    };
    (built, offer, line)
}

/// Returns the record of a server to store; `None` if it is too large. A list without room is omitted, so that it is
/// not read again at each start. No list of a self-announced process is stored: the process reports it when it
/// connects, and any client with access there can invent names.
pub(super) fn record(saved: &Saved, transport: &Transport, entry: String) -> Option<String> {
    let Saved { tools, pins, first_seen, whole, verified } = saved;
    let provider = *transport == Transport::Provider;
    let listed = *whole && !provider;
    let tools = if listed { tools.iter().map(|tool| (**tool).clone()).collect() } else { Vec::new() };
    let first_seen = if provider { BTreeMap::new() } else { BTreeMap::clone(first_seen) };
    let verified = verified.filter(|_| !provider).map(|at| Timestamp(at.0 - at.0 % HOUR));
    let record = ServerRecord { entry, tools, pins: BTreeMap::clone(pins), first_seen, verified }.to_json();
    record.filter(|text| !provider || text.len() <= PROVIDER_BYTES)
}

/// The milliseconds of an hour.
const HOUR: u64 = 60 * 60 * 1_000;
/// The largest record of a self-announced process, in bytes.
const PROVIDER_BYTES: usize = 64 * 1024;

fn full_name(tool: &Tool) -> String {
    domain::tool::name::callable(&tool.source, &tool.name)
}
