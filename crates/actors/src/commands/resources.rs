//! The resources of tool servers that a member may name in a question. A list is a tool call of the member: rules,
//! quotas, permits and the audit apply.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::CommandParts;
use crate::services::call_by::CallBy;
use crate::services::running::Running;
use crate::services::tool_use::Call;
use crate::services::toolbox::Toolset;
use domain::command::Command;
use domain::completion::ToolCall;
use domain::happening::{CallOrigin, Happening, ToolCalled};
use domain::ids::TurnId;
use domain::notice::commands as words;
use domain::tool::access::Access;
use domain::tool::begun::CallReply;
use domain::tool::called::{CallEnd, Finding};
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::named_resource::listed;
use domain::tool::rights::Verdict;
use domain::tool::round::Ready;
use domain::tool::utility::Utility;
use domain::tool::{CallError, CallErrorKind, OnBehalf, ResultLimits, Source, ToolRequest};

/// The category that lists resources instead of tools.
pub(super) const RESOURCES: &str = "resources";
/// The timeout of a list, permit included.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a list, in bytes; a longer one is not shown.
const LIST_BYTES: usize = 256 * 1024;
/// The maximum number of servers that are asked.
const SERVERS_MAX: usize = 16;
/// The bounds of a list.
const LIMITS: ResultLimits = ResultLimits { shown: LIST_BYTES, kept: 0, images: 0, image_bytes: 0, blob_bytes: 0 };

/// A command that lists resources.
struct Lister<'a> {
    parts: &'a CommandParts,
    command: &'a Command,
    running: Arc<Running>,
    set: Arc<Toolset>,
    access: Access,
    id: TurnId,
}

/// Asks the servers for their first page of resources, as far as the rules let this member list and read them.
pub(super) async fn list(parts: &CommandParts, command: &Command) -> String {
    let (running, set) = (parts.basics.live.now(), parts.toolbox.now());
    let Command { caller, place, parent, callback, .. } = command;
    let standing = running.standing(&place.door, &caller.person, &caller.roles);
    let (rules, place, parent) = (Arc::clone(&running.tool_rules), place.clone(), parent.clone());
    let access = Access::new(rules, caller.person.clone(), caller.roles.clone(), place, parent, standing);
    let lister = Lister { parts, command, running, set, access, id: TurnId::of(&callback.id) };
    let mut asked = Vec::new();
    for (number, (ready, rule)) in lister.calls().into_iter().take(SERVERS_MAX).enumerate() {
        asked.push(lister.of_server(number + 1, ready, rule).boxed());
    }
    let asked = join_all(asked).await;
    words::resources(&asked.into_iter().flatten().collect::<Vec<_>>(), caller.locale())
}

impl Lister<'_> {
    /// Returns the calls that may run without an approval, each with the number of the rule that decided.
    fn calls(&self) -> Vec<(Ready, Option<usize>)> {
        let catalogue = &self.set.catalogue;
        let lists = |entry: &&Arc<CatalogueEntry>| entry.tool.utility == Some(Utility::ListResources);
        let bind = |entry: &Arc<CatalogueEntry>| {
            let call = ToolCall { id: String::new(), name: entry.name.to_string(), arguments: "{}".to_owned() };
            let ready = Ready::bind(&call, catalogue, |entry| self.access.sees(entry)).ok()?;
            let decided = self.access.decide(&ready.entry, &ready.arguments);
            (decided.verdict == Verdict::Auto).then_some((ready, decided.rule))
        };
        catalogue.entries().iter().filter(lists).filter_map(bind).collect()
    }

    /// Returns the server with the names of its resources, `None` in their place if it cannot be asked now. A server
    /// without resources for this member has no row.
    async fn of_server(
        &self,
        number: usize,
        ready: Ready,
        rule: Option<usize>,
    ) -> Option<(String, Option<Vec<String>>)> {
        let Source::Server(server) = &ready.entry.tool.source else { return None };
        let began = Instant::now();
        let mut ran = None;
        let called = timeout(LIST_TIMEOUT, self.call(number, &ready, &mut ran)).await;
        let late = |_| CallEnd::Failed(CallError::new(CallErrorKind::Timeout, "no result in time"));
        let end = called.unwrap_or_else(late);
        let Command { caller, place, at, .. } = self.command;
        let now = Instant::now();
        self.parts.ways.observers.tell(&Happening::CommandCalled(ToolCalled {
            origin: CallOrigin { id: &self.id, person: &caller.person, place, at: *at },
            number,
            call: &ready,
            role: self.running.role(&caller.roles),
            rule: rule.map(|index| index + 1),
            end: Some(&end),
            queued: Duration::ZERO,
            waited: ran.unwrap_or(now).saturating_duration_since(began),
            ran: ran.map(|ran| now.saturating_duration_since(ran)),
            took: now.saturating_duration_since(began),
            paid_micros: 0,
        }));
        let name = server.to_string();
        let Ok(contents) = end.resource() else { return Some((name, None)) };
        let names = listed(&name, &contents.text.unwrap_or_default(), &self.set.catalogue, &self.access);
        (!names.is_empty()).then_some((name, Some(names)))
    }

    /// Applies the quotas, then asks the server. `ran` receives the time at which it was asked.
    async fn call(&self, number: usize, ready: &Ready, ran: &mut Option<Instant>) -> CallEnd {
        let (parts, entry) = (self.parts, &ready.entry);
        let Command { caller, place, parent, guild, .. } = self.command;
        let person = &caller.person;
        let linked = parts.basics.live.linked(person);
        let (roles, guild, parent) = (&caller.roles, guild.as_deref(), parent.as_ref());
        let by = CallBy { person, linked: &linked, roles, guild, place, parent };
        let call = Call { person, entry, turn: &self.id, now: parts.basics.clock.now() };
        let budgets = self.running.call_shares(by, &entry.name);
        if let Err(limited) = parts.tool_use.admit(&self.running.tool_limits, budgets, &call).await {
            return CallEnd::Limited(limited);
        }
        let _permit = parts.tool_use.permits().wait(Some(person)).await;
        *ran = Some(Instant::now());
        let request = ToolRequest::new(&entry.tool.name, ready.arguments.clone(), entry.effect, LIST_TIMEOUT);
        let on_behalf = Some(OnBehalf { call: number, ..parts.on_behalf(self.command) });
        match self.set.call(entry, &ToolRequest { limits: LIMITS, on_behalf, ..request }, None).await {
            Ok(CallReply::Result(result)) => CallEnd::Result(Finding::of(result, LIMITS)),
            Ok(_) => CallEnd::Failed(CallError::new(CallErrorKind::Malformed, "the list is no result")),
            Err(error) => CallEnd::Failed(error),
        }
    }
}
