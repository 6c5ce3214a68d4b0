//! The data of `/status`, derived from the health of the program.

use std::time::Duration;

use super::CommandParts;
use domain::overview::Overview;
use ports::vitals::{Part, Status, TreeNode};

/// The maximum number of actors named for their queues, and for their restarts.
const NAMED: usize = 3;

/// The maximum number of actors of one kind that are examined. Conversations are not named, and all other kinds have
/// fewer actors.
const OF_A_KIND: usize = 100;

/// Returns the current state of the whole bot.
pub(super) fn of(parts: &CommandParts) -> Overview {
    let ready = parts.vitals.readiness();
    let tree = parts.vitals.tree(OF_A_KIND);
    let turns = parts.vitals.turns();
    let of_kind = |kind: &'static str| ready.parts.iter().filter(move |part| part.kind == kind);
    let up = |part: &&Part| part.status == Status::Ready;
    let keys = |up: bool| of_kind("model").filter(move |part| (part.status == Status::Ready) == up);
    let names = |up: bool| keys(up).map(|part| part.name.clone()).collect::<Vec<_>>();
    let down = ready.parts.iter().filter(|part| part.status != Status::Ready).map(|part| {
        let name = if part.kind == part.name { part.name.clone() } else { format!("{} {}", part.kind, part.name) };
        (name, part.last_error.clone().unwrap_or_default())
    });
    let mut actors = Vec::new();
    flatten(&tree, &mut actors);
    let settings = &parts.basics.live.now().settings;
    let limits = &settings.rate_limiter;
    Overview {
        status: ready.status.as_str().to_owned(),
        version: ready.version.clone(),
        configuration: ready.configuration.version.clone(),
        rejected: ready.configuration.rejected.clone(),
        uptime: Duration::from_secs(tree.uptime_s),
        down: down.collect(),
        shards: (of_kind("shard").filter(up).count(), of_kind("shard").count()),
        models: (names(true), names(false)),
        store: of_kind("store").all(|part| part.status == Status::Ready),
        queues: most(&actors, |node| node.mailbox),
        bounds: turns.limits.into_iter().map(|limit| (limit.name, limit.used, limit.max)).collect(),
        in_flight: parts.in_flight.now(),
        accepted: turns.accepted,
        restarts: actors.iter().map(|node| node.restarts).sum(),
        restarted: most(&actors, |node| node.restarts),
        memory: parts.vitals.memory(),
        limits: (u64::from(limits.messages), limits.tokens, limits.window),
    }
}

fn flatten<'a>(node: &'a TreeNode, all: &mut Vec<&'a TreeNode>) {
    all.push(node);
    for child in &node.children {
        flatten(child, all);
    }
}

/// Returns the actors with the highest counts, without zero counts. No channel is named.
fn most(actors: &[&TreeNode], count: impl Fn(&TreeNode) -> u64) -> Vec<(String, u64)> {
    let some = actors.iter().filter(|node| count(node) > 0 && !node.name.starts_with("conversation:"));
    let mut some: Vec<(String, u64)> = some.map(|node| (node.name.clone(), count(node))).collect();
    some.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    some.truncate(NAMED);
    some
}
