//! The resources of tool servers that a member may name in a question.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::Map;

use super::CommandParts;
use crate::services::toolbox::Toolset;
use domain::command::Command;
use domain::notice::commands as words;
use domain::tool::access::Access;
use domain::tool::begun::CallReply;
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::named_resource::{LIST_RESOURCES, listed};
use domain::tool::rights::Verdict;
use domain::tool::{Effect, ResultLimits, Source, ToolRequest};

/// The category that lists resources instead of tools.
pub(super) const RESOURCES: &str = "resources";
/// The timeout of a list.
const LISTED_WITHIN: Duration = Duration::from_secs(5);
/// The maximum size of a list, in bytes; a longer one is not shown.
const LIST_BYTES: usize = 256 * 1024;
/// The maximum number of servers that are asked.
const SERVERS_MAX: usize = 16;

/// Asks the servers for their first page of resources, as far as the rules let this member list and read them.
pub(super) async fn list(parts: &CommandParts, command: &Command) -> String {
    let (running, set) = (parts.basics.live.now(), parts.toolbox.now());
    let Command { caller, place, parent, .. } = command.clone();
    let standing = running.standing(&place.door, &caller.person, &caller.roles);
    let rules = Arc::clone(&running.tool_rules);
    let access = Access::new(rules, caller.person.clone(), caller.roles.clone(), place, parent, standing);
    let lists = |entry: &&Arc<CatalogueEntry>| {
        *entry.tool.name == *LIST_RESOURCES
            && access.sees(entry)
            && access.decide(entry, &Map::new()).verdict == Verdict::Auto
    };
    let mut asked = Vec::new();
    for entry in set.catalogue.entries().iter().filter(lists).take(SERVERS_MAX) {
        asked.push(of_server(&set, entry, &access).boxed());
    }
    let asked = join_all(asked).await;
    words::resources(&asked.into_iter().flatten().collect::<Vec<_>>(), caller.locale())
}

/// Returns the server with the names of its resources; `None` if it has none or does not answer.
async fn of_server(set: &Toolset, entry: &CatalogueEntry, access: &Access) -> Option<(String, Vec<String>)> {
    let Source::Server(server) = &entry.tool.source else { return None };
    let request = ToolRequest::new(&entry.tool.name, Map::new(), Effect::Reads, LISTED_WITHIN);
    let limits = ResultLimits { shown: LIST_BYTES, kept: 0, images: 0, image_bytes: 0 };
    match set.call(entry, &ToolRequest { limits, ..request }, None).await {
        Ok(CallReply::Result(result)) => {
            let names = listed(server.as_str(), &result.to_text(), &set.catalogue, access);
            (!names.is_empty()).then(|| (server.to_string(), names))
        }
        Ok(_) | Err(_) => None,
    }
}
