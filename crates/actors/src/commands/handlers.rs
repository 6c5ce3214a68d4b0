//! The handlers of all commands. They check the permission of the caller at the moment of use.

use std::sync::Arc;
use std::time::Duration;

use super::{CommandParts, approvals, cleaning, kept, linking, overview, preferences, resources, voice};
use crate::messages::config_watcher::ConfigWatcherMsg;
use crate::messages::presence_scheduler::PresenceMsg;
use crate::messages::rate_limiter::{Asker, RateLimiterMsg};
use crate::messages::tools::ToolsMsg;
use crate::observation::daily;
use crate::runtime::blocking::blocking;
use crate::services::experiments;
use crate::services::facts::best;
use crate::services::ledger;
use domain::command::{CATEGORY, CHANGE, Command, CommandKind, FACT, REMEMBERED, ROW, SWITCH, Typing, USER, WITHDRAW};
use domain::fact::Fact;
use domain::happening::CommandOutcome;
use domain::ids::Person;
use domain::keys;
use domain::locale::Locale;
use domain::menu::{CHOICES_MAX, Choice};
use domain::notice;
use domain::notice::commands as words;
use domain::outgoing::{Card, Field, File, Piece};
use domain::overview::Usage;
use domain::tool::Source;
use domain::tool::access::Access;
use domain::tool::catalogue::CatalogueEntry;
use ports::{Facts, Stored};
use settings::edges::DirectMessages;

/// The timeout of a request to the limiter.
const LIMITER_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of characters shown of a choice.
const CHOICE_CHARS: usize = 100;

/// The color of a card in the normal state, and otherwise.
const WELL: u32 = 0x2e_cc_71;
const UNWELL: u32 = 0xe6_7e_22;

/// Returns the answer to a command, and its outcome.
pub(super) async fn answer(parts: &CommandParts, command: &Command) -> (Piece, CommandOutcome) {
    let locale = command.caller.locale();
    let running = parts.basics.live.now();
    let Some(rules) = running.rules(&command.place.door) else {
        return (Piece::text(words::unknown(locale)), CommandOutcome::Unknown);
    };
    if !rules.serves(command.guild.as_deref()) {
        return (Piece::text(notice::not_served(locale)), CommandOutcome::Refused);
    }
    let served = parts.served();
    let Some(kind) = CommandKind::named(&command.name).filter(|kind| kind.is_served(served)) else {
        return (Piece::text(words::unknown(locale)), CommandOutcome::Unknown);
    };
    let operators = rules.operators();
    if !kind.may_be_run_by(&command.caller, operators) {
        return (Piece::text(words::operators_only(kind, locale)), CommandOutcome::Refused);
    }
    let piece = match kind {
        CommandKind::Help => {
            let direct = running.settings.discord.direct_messages == DirectMessages::Answer;
            // The community of a session is the door of its owner.
            let is_channel = |guild: &str| guild != command.caller.person.door.as_str();
            let place = match command.guild.as_deref().filter(|guild| is_channel(guild)) {
                Some(_) => words::HelpPlace::Channel { direct },
                None => words::HelpPlace::Alone,
            };
            let own: Vec<CommandKind> = CommandKind::ALL
                .into_iter()
                .filter(|kind| kind.is_served(served) && kind.may_be_run_by(&command.caller, operators))
                .collect();
            Piece::text(words::help(&own, place, locale))
        }
        CommandKind::New => Piece::text(begin_anew(parts, command).await),
        CommandKind::Model => Piece::text(preferences::model(parts, command).await),
        CommandKind::Settings => preferences::settings(parts, command).await,
        CommandKind::Usage => return usage(parts, command).await,
        CommandKind::Forget => Piece::text(kept::forget(parts, command).await),
        CommandKind::Export => export(parts, command).await,
        CommandKind::Remember => Piece::text(remember(parts, command).await),
        CommandKind::Memories => Piece::text(memories(parts, command).await),
        CommandKind::Link => Piece::text(linking::link(parts, command).await),
        CommandKind::Join => Piece::text(voice::join(parts, command, operators.include(&command.caller)).await),
        CommandKind::Leave => Piece::text(voice::leave(parts, command, operators.include(&command.caller)).await),
        CommandKind::Listen => Piece::text(voice::listen(parts, command).await),
        CommandKind::Unlink => Piece::text(linking::unlink(parts, command).await),
        CommandKind::Tools if command.option(CATEGORY) == Some(resources::RESOURCES) => {
            Piece::text(resources::list(parts, command).await)
        }
        CommandKind::Tools => Piece::text(visible_tools(parts, command).await),
        CommandKind::Status => status(parts, locale),
        CommandKind::Approvals => return approvals::answer(parts, command, operators.include(&command.caller)).await,
        CommandKind::RefreshTools => {
            // A supervisor that is down reconnects every server at its restart; a full one reads the lists at a later
            // refresh.
            parts.tools.tell(ToolsMsg::Refresh);
            Piece::text(words::tools_refreshed(&parts.tooling.read(), locale))
        }
        CommandKind::RefreshStatus => {
            // A watcher that is down reads all files at its restart.
            parts.config_watcher.tell(ConfigWatcherMsg::Reload);
            // A scheduler that is down writes a new line soon after its restart.
            parts.presence_scheduler.tell(PresenceMsg::Refresh);
            Piece::text(words::refreshed(&running.version, locale))
        }
    };
    (piece, CommandOutcome::Done)
}

/// Returns the autocomplete choices.
pub(super) async fn choices(parts: &CommandParts, typing: &Typing) -> Vec<Choice> {
    match (CommandKind::named(&typing.name), &*typing.option) {
        (Some(CommandKind::Model), ROW) => preferences::rows(parts, typing),
        (Some(CommandKind::Settings), CHANGE) => preferences::changes(parts, typing),
        (Some(CommandKind::Memories), FACT) => facts(parts, typing).await,
        (Some(CommandKind::Listen), SWITCH) => voice::choices(),
        (Some(CommandKind::Approvals), WITHDRAW) => approvals::choices(parts, typing),
        _ => Vec::new(),
    }
}

/// Returns the typing member's facts that contain the words.
async fn facts(parts: &CommandParts, typing: &Typing) -> Vec<Choice> {
    let facts = kept::facts(parts, &typing.caller.person).await;
    let shown = |fact: &Fact| {
        let name = fact.text.chars().take(CHOICE_CHARS).collect();
        Choice { name, value: fact.id.to_string() }
    };
    best(&facts, &typing.typed, CHOICES_MAX).await.iter().map(shown).collect()
}

/// Stores a fact from the caller, in the place of the command.
async fn remember(parts: &CommandParts, command: &Command) -> String {
    let (asked, text) = (parts.on_behalf(command), command.option(REMEMBERED).unwrap_or_default());
    words::remembered(&parts.facts.remember(&asked, text).await, command.caller.locale())
}

/// Lists the caller's facts, or deletes one of them.
async fn memories(parts: &CommandParts, command: &Command) -> String {
    let (person, locale) = (&command.caller.person, command.caller.locale());
    let Some(asked) = command.option(FACT).filter(|asked| !asked.is_empty()) else {
        let (facts, (summaries, complete)) = tokio::join!(kept::facts(parts, person), kept::summaries(parts, person));
        return words::memories(&facts, &summaries, complete && kept::is_sound(parts), locale);
    };
    let forgotten = match asked.parse() {
        Ok(id) => kept::forget_fact(parts, person, &id).await,
        Err(_) => Ok(None),
    };
    let is_sound = forgotten.is_ok() && kept::is_sound(parts);
    words::fact_forgotten(forgotten.unwrap_or(None), is_sound, locale).to_owned()
}

/// Restarts the caller's conversation in this place.
async fn begin_anew(parts: &CommandParts, command: &Command) -> String {
    let (person, place) = (&command.caller.person, &command.place);
    parts.facts.forgotten().wish(person, Some(place), command.at);
    let noted = cleaning::note(parts, person, Some(place), command.at).await;
    let key = keys::history(person, place);
    // One that cannot be read is deleted too.
    let remembered = parts.basics.store.read(&key).await != Stored::Absent;
    let durable = parts.basics.store.write(cleaning::of_conversation(person, place).into());
    parts.facts.forgotten().wish(person, Some(place), command.at);
    words::new_conversation(remembered, durable.await && noted && kept::is_sound(parts), command.caller.locale())
        .to_owned()
}

/// Returns the use of the caller or, for operators, of another member.
async fn usage(parts: &CommandParts, command: &Command) -> (Piece, CommandOutcome) {
    let own = &command.caller.person;
    let asked = command.option(USER).filter(|asked| !asked.is_empty());
    let person = asked.map_or_else(|| own.clone(), |id| Person::new(own.door.clone(), id));
    let others = person != *own;
    let running = parts.basics.live.now();
    let is_operator = running.rules(&own.door).is_some_and(|rules| rules.operators().include(&command.caller));
    if others && !is_operator {
        return (Piece::text(words::usage_of_others(command.caller.locale())), CommandOutcome::Refused);
    }
    let linked = parts.basics.live.linked(&person);
    let sums =
        ledger::sums(&*parts.basics.store, (&person, &linked), command.guild.as_deref(), parts.basics.clock.now())
            .await;
    let named = command.named.iter().find(|(named, _)| *named == person).map(|(_, roles)| roles.clone());
    let asker = Asker {
        person: person.clone(),
        linked,
        guild: command.guild.clone(),
        roles: if others { named.unwrap_or_default() } else { command.caller.roles.clone() },
        place: command.place.clone(),
        parent: command.parent.clone(),
    };
    let ask = |reply| RateLimiterMsg::Usage { asker: Box::new(asker), reply };
    let standing = parts.rate_limiter.call(ask, LIMITER_TIMEOUT).await.ok();
    let usage = Usage { standing, sums };
    let whose = others.then(|| format!("<@{}>", person.id));
    let mut text = words::usage(&usage, whose.as_deref(), command.caller.locale());
    if is_operator && asked.is_none() {
        let today = daily::read(&*parts.basics.store, 1, parts.basics.clock.now(), &parts.home).await;
        for day in today.iter().filter(|day| !day.ledger.total.is_empty() || !day.tools.is_empty()) {
            text.push('\n');
            text.push_str(&words::usage_of_all(day, command.caller.locale()));
        }
        let arms = experiments::table(&*parts.basics.store).await;
        if let Some(table) = words::experiments(&arms, command.caller.locale()) {
            text.push('\n');
            text.push_str(&table);
        }
    }
    (Piece::text(text), CommandOutcome::Done)
}

/// Returns the tools visible to the caller's model, and the states of their servers.
async fn visible_tools(parts: &CommandParts, command: &Command) -> String {
    let (running, now, tooling) = (parts.basics.live.now(), parts.toolbox.now(), Arc::clone(&parts.tooling));
    let category = command.option(CATEGORY).filter(|category| !category.is_empty()).map(str::to_lowercase);
    let Command { caller, place, parent, .. } = command.clone();
    // There can be thousands of tools.
    let listed = move || {
        let standing = running.standing(&place.door, &caller.person, &caller.roles);
        let rules = Arc::clone(&running.tool_rules);
        let access = Access::new(rules, caller.person.clone(), caller.roles.clone(), place, parent, standing);
        let of_category =
            |entry: &CatalogueEntry| category.as_ref().is_none_or(|word| entry.tool.kind.as_str() == *word);
        let sees = |tool: &str| now.catalogue.get(tool).is_some_and(|entry| access.sees(entry) && of_category(entry));
        let own = now.catalogue.entries().iter().filter(|entry| entry.tool.source == Source::BuiltIn);
        let own: Vec<String> = own.map(|entry| entry.name.to_string()).filter(|tool| sees(tool)).collect();
        let mut tooling = tooling.read().clone();
        for server in &mut tooling.servers {
            server.tools.retain(|tool| sees(tool));
        }
        if category.is_some() {
            tooling.servers.retain(|server| !server.tools.is_empty());
        }
        words::tools(&tooling, &own, caller.locale())
    };
    blocking(listed).await
}

async fn export(parts: &CommandParts, command: &Command) -> Piece {
    let (text, document) = kept::export(parts, command).await;
    let file = File::new(words::export_name(), "application/json", document);
    Piece { text, files: vec![file], ..Piece::default() }
}

fn status(parts: &CommandParts, locale: Locale) -> Piece {
    let overview = overview::of(parts);
    let fields = words::status_facts(&overview, locale);
    let field = |(name, value): (&str, String)| Field { name: name.to_owned(), value, inline: true };
    let well = overview.down.is_empty() && overview.rejected.is_none();
    let card = Card {
        title: Some(words::status_title(&overview)),
        text: words::status_text(&overview, locale),
        fields: fields.into_iter().map(field).collect(),
        colour: Some(if well { WELL } else { UNWELL }),
        ..Card::default()
    };
    Piece { cards: vec![card], ..Piece::default() }
}
