//! The catalogue of a configuration, as its bot would create it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::stored::{self, Records, StoredRecord};
use super::{Of, first_line, harmless, misfit, pretty, told, unknown};
use crate::app::commands::mcp::logins;
use crate::app::commands::reading;
use crate::app::commands::reading::Reading;
use crate::app::servers::{self, Tried};
use crate::app::{Cli, built_ins, doors, exit, setting_files};
use actors::services::running::LimitScope;
use domain::ids::{Door, Person, Place, Timestamp};
use domain::notice::template::moment;
use domain::tool::access::{Access, Standing};
use domain::tool::catalogue::{Catalogue, CatalogueEntry};
use domain::tool::rights::{Decided, Rule, Verdict};
use domain::tool::{Source, ToolRequest, schema};
use ports::ToolServer;
use ports::tools::ServerOff;
use settings::{Settings, check::ids};
use tools::BuiltIns;

/// The reason why a tool is held back, and the fix.
const HELD: &str = "the tool is not what it was when it was accepted, so the bot does not offer it; read what it says of itself \
                    now, then run /refresh_tools to accept it";

/// The tools of a configuration.
pub(super) struct Catalogued {
    catalogue: Catalogue,
    built_in: BuiltIns,
    servers: Vec<Tried>,
    rules: Arc<[Rule]>,
    member: Option<Member>,
    settings: Settings,
    records: Records,
}

/// The member whose permissions apply.
#[derive(Clone)]
struct Member {
    person: Person,
    roles: Vec<String>,
    place: Place,
}

impl Member {
    fn of(id: &str, of: &Of, settings: &Settings) -> Result<Self, u8> {
        let doors: Vec<Door> = doors::rules(settings).into_keys().collect();
        let Some(door) = doors.iter().find(|door| door.as_str() == of.door) else {
            let known: Vec<&str> = doors.iter().map(Door::as_str).collect();
            eprintln!("there is no door {}; there are {}", harmless(&of.door), known.join(", "));
            return Err(exit::USAGE);
        };
        let given = [("--as", Some(id)), ("--channel", of.channel.as_deref())].into_iter();
        let given = given.chain(of.role.iter().map(|role| ("--role", Some(role.as_str()))));
        for (option, id) in given.filter_map(|(option, id)| Some((option, id?))) {
            if let Some(mistake) = ids::mistake_in(&of.door, id) {
                eprintln!("{option} {}: {mistake}", harmless(id));
                return Err(exit::USAGE);
            }
        }
        let place = Place::new(door.clone(), of.channel.clone().unwrap_or_default());
        Ok(Self { person: Person::new(door.clone(), id), roles: of.role.clone(), place })
    }
}

impl Catalogued {
    /// Connects to all servers and creates the catalogue of their tools.
    pub(super) async fn read(cli: &Cli, of: &Of) -> Result<Self, u8> {
        let loaded = Reading::new(cli, |sources| sources).load().map_err(|()| exit::USAGE)?;
        let lookup = reading::lookup(&loaded);
        let settings = loaded.settings;
        let member = of.member.as_deref().map(|id| Member::of(id, of, &settings)).transpose()?;
        let configured = setting_files::servers(&settings, &lookup).map_err(|mistake| {
            eprintln!("{mistake}");
            exit::USAGE
        })?;
        let entries = configured.0.servers;
        entries.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        for ServerOff { mistake, .. } in &entries.off {
            if let Some(mistake) = mistake {
                eprintln!("{mistake}");
            }
        }
        let servers = servers::try_all(&entries.entries, &logins(&settings)).await;
        for Tried { entry, outcome, .. } in &servers {
            match outcome {
                Ok((_, listing)) => {
                    listing.warnings.iter().for_each(|warning| eprintln!("{}: {}", entry.name, harmless(warning)));
                }
                Err(mistake) => eprintln!("{}: {}", entry.name, harmless(mistake)),
            }
        }
        let built_in = built_ins::by_hand(&settings, &lookup).map_err(|mistakes| {
            for mistake in mistakes {
                eprintln!("{mistake}");
            }
            exit::USAGE
        })?;
        let catalogue = catalogue(&built_in, &servers);
        for refused in catalogue.refused() {
            eprintln!("{} is not offered: {}", harmless(&refused.tool), refused.reason);
        }
        let records = stored::records(&settings, &servers).await.unwrap_or_else(|why| {
            eprintln!(
                "it is unknown which tools the bot holds back, and since when tools are known: {}",
                harmless(&why)
            );
            Records::default()
        });
        Ok(Self { catalogue, built_in, servers, rules: settings.tools.table(), member, settings, records })
    }

    /// Prints each tool with its description and permission.
    pub(super) fn list(&self, category: Option<&str>) -> u8 {
        let wanted = |entry: &&Arc<CatalogueEntry>| category.is_none_or(|word| entry.tool.kind.as_str() == word);
        if let Some(word) = category.filter(|_| !self.catalogue.entries().iter().any(|entry| wanted(&entry))) {
            let known: BTreeSet<&str> = self.catalogue.entries().iter().map(|entry| entry.tool.kind.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            eprintln!("no tool has the category {}; there are {}", harmless(word), known.join(", "));
            return exit::NEGATIVE;
        }
        for entry in self.catalogue.entries().iter().filter(wanted) {
            let verdict = self.decided(entry, &Map::new()).map(|decided| format!(" [{}]", decided.verdict.as_str()));
            let about = first_line(&entry.tool.description);
            let held = if self.is_held(entry) { " [held back]" } else { "" };
            say!("{} ({}){}{held}: {about}", entry.name, entry.effect.as_str(), verdict.unwrap_or_default());
        }
        if self.catalogue.entries().iter().any(|entry| self.is_held(entry)) {
            eprintln!("held back: {HELD}");
        }
        exit::FINE
    }

    /// Prints all details of one tool.
    pub(super) fn show(&self, name: &str) -> u8 {
        let Some(entry) = self.catalogue.get(name) else { return self.unknown(name) };
        let source = match &entry.tool.source {
            Source::BuiltIn => "built in".to_owned(),
            Source::Server(server) => format!("server {server}, where it is called {}", harmless(&entry.tool.name)),
        };
        say!("{}\nsource: {source}", entry.name);
        say!(
            "kind: {}, effect: {}, default verdict: {}",
            entry.tool.kind.as_str(),
            entry.effect.as_str(),
            entry.usual.as_str()
        );
        if let Some(decided) = self.decided(entry, &Map::new()) {
            say!("for this member: {}", self.why(decided));
        }
        if self.is_held(entry) {
            say!("held back: {HELD}");
        }
        say!("pin: {}", entry.pin.0);
        if let Some(record) = self.record(entry) {
            let told = |at: Option<&Timestamp>| at.map_or_else(|| "unknown".to_owned(), |at| moment(*at));
            let first = told(record.first_seen.get(&*entry.tool.name));
            say!("first seen: {first}, last verified: {}", told(record.verified.as_ref()));
        }
        let source = entry.tool.input_schema.to_value();
        let told = schema::convert(&source);
        if !told.lost.is_empty() {
            say!("not sent to models: {}", harmless(&told.lost.join("; ")));
        }
        let title = entry.tool.title.as_deref().map(|title| format!("\n{}", harmless(title))).unwrap_or_default();
        say!("{title}\n{}\n\n{}", harmless(&entry.tool.description), pretty(&told.schema));
        let texts = [entry.tool.input_schema.as_str(), &entry.tool.description];
        if texts.iter().any(|text| harmless(text) != **text) {
            say!("\nsome of its text is invisible: it is escaped here, and not sent to models");
            say!("the schema as the server sent it:\n{}", pretty(&source));
        }
        exit::FINE
    }

    /// Calls one tool if the rules permit it.
    pub(super) async fn call(&self, name: &str, arguments: Map<String, Value>) -> u8 {
        let Some(entry) = self.catalogue.get(name) else { return self.unknown(name) };
        if let Err(mistake) = entry.check(&Value::Object(arguments.clone())) {
            return misfit(&mistake, name);
        }
        match self.decided(entry, &arguments) {
            Some(decided) if decided.verdict != Verdict::Auto => {
                eprintln!("not called: {}", self.why(decided));
                return exit::NEGATIVE;
            }
            Some(decided) => eprintln!("{}", self.why(decided)),
            None => eprintln!("called without the rules; --as ID applies those for a member"),
        }
        let Some((server, deadline)) = self.server(entry) else { return self.unknown(name) };
        let request = ToolRequest::new(&entry.tool.name, arguments, entry.effect, deadline);
        let begun = Instant::now();
        told(&server.call(&request, None).await, begun.elapsed())
    }

    /// Ends all sessions.
    pub(super) async fn close(&self) {
        servers::close(&self.servers).await;
    }

    /// True if the bot holds the tool back.
    fn is_held(&self, entry: &CatalogueEntry) -> bool {
        self.record(entry).is_some_and(|record| record.held.iter().any(|tool| **tool == *entry.tool.name))
    }

    /// Returns the bot's record of the tool's server.
    fn record(&self, entry: &CatalogueEntry) -> Option<&StoredRecord> {
        match &entry.tool.source {
            Source::BuiltIn => None,
            Source::Server(name) => self.records.get(name),
        }
    }

    fn server(&self, entry: &CatalogueEntry) -> Option<(&dyn ToolServer, Duration)> {
        let usual = self.settings.tools.timeout;
        match &entry.tool.source {
            Source::BuiltIn => Some((&self.built_in, usual)),
            Source::Server(name) => {
                let tried = self.servers.iter().find(|tried| tried.entry.name == *name)?;
                let (server, _) = tried.outcome.as_ref().ok()?;
                Some((&**server, tried.entry.timeout.unwrap_or(usual)))
            }
        }
    }

    fn unknown(&self, name: &str) -> u8 {
        unknown(name, self.catalogue.entries().iter().map(|entry| &*entry.name))
    }

    /// Returns the decision of the rules about a call of this tool by the member, or `None` without a member.
    fn decided(&self, entry: &CatalogueEntry, arguments: &Map<String, Value>) -> Option<Decided> {
        let Member { person, roles, place } = self.member.clone()?;
        let doors = doors::rules(&self.settings);
        let door = doors.get(&place.door).filter(|door| door.limits == LimitScope::Community);
        let operator = door.is_some_and(|door| door.triage.operators().include_one(&person, &roles));
        let standing = Standing { known: door.is_some(), operator };
        let access = Access::new(Arc::clone(&self.rules), person, roles, place, None, standing);
        Some(access.decide(entry, arguments))
    }

    fn why(&self, decided: Decided) -> String {
        let verdict = decided.verdict.as_str();
        match decided.rule.and_then(|index| Some((index, self.rules.get(index)?))) {
            Some((index, rule)) => format!("{verdict}, by rule {} about {}", index + 1, rule.tools.as_str()),
            // Apart from rules, a call is denied for one reason only.
            None if decided.verdict == Verdict::Deny => format!("{verdict}, as the tool is for operators alone"),
            None => format!("{verdict}, as no rule says otherwise"),
        }
    }
}

fn catalogue(built_in: &BuiltIns, servers: &[Tried]) -> Catalogue {
    let mut offers = vec![built_in.offer()];
    for Tried { entry, outcome, .. } in servers {
        if let Ok((_, listing)) = outcome {
            offers.push(entry.offer(listing.tools.iter().cloned().map(Arc::new).collect()));
        }
    }
    Catalogue::new(&offers, &Catalogue::default(), schema::of)
}
