//! What the answers to commands say.

use std::fmt::Write as _;
use std::time::Duration;

use crate::domain::command::kept::Wiped;
use crate::domain::command::overview::{Overview, Usage};
use crate::domain::command::{Kind, Tooling};
use crate::domain::ids::Timestamp;
use crate::domain::ledger::Tally;

/// What the option of `/model` means.
pub const ROW: &str = "The model that answers you from now on; default takes your choice back";
/// What the option of `/usage` means.
pub const USER: &str = "Somebody else; only for operators";

/// What a command does, in at most 100 characters.
#[must_use]
pub const fn description(kind: Kind) -> &'static str {
    match kind {
        Kind::Help => "What I do, how to talk to me, and what you may run",
        Kind::New => "Start our conversation in this channel over",
        Kind::Model => "See or choose the model that answers you",
        Kind::Usage => "What you have used, and what is left",
        Kind::Forget => "Forget everything that I keep about you",
        Kind::Export => "Get everything that I keep about you as a file",
        Kind::Tools => "The tools that I can use",
        Kind::Status => "How I am: parts, models, queues, limits",
        Kind::Approvals => "What waits for somebody's yes or no",
        Kind::RefreshTools => "Read the lists of all tools again",
        Kind::RefreshStatus => "Read my prompts and settings again, and write a status line",
    }
}

/// Says that only operators may run a command.
#[must_use]
pub fn operators_only(kind: Kind) -> String {
    format!("`/{}` is for those who run this bot: holders of its super roles and administrators.", kind.name())
}

/// Says that only operators may look at somebody else's usage.
#[must_use]
pub const fn usage_of_others() -> &'static str {
    "Only operators can see what somebody else used. Run `/usage` without a name to see your own."
}

/// Says that there is no such command any more.
#[must_use]
pub const fn unknown() -> &'static str {
    "I do not know this command. The list that you see may be an old one; `/help` names all that I know."
}

/// Says that a command broke.
#[must_use]
pub const fn broken() -> &'static str {
    "Sorry, something went wrong on my side, and I cannot say how far this got. Please run it again."
}

/// Says that a command took too long.
#[must_use]
pub const fn too_slow() -> &'static str {
    "Sorry, this took too long, and I stopped before the end. Please run it again in a minute."
}

/// Says that too many commands run.
#[must_use]
pub const fn busy() -> &'static str {
    "Sorry, too many people are asking me things right now. Nothing was done; please run it again in a minute."
}

/// Says that the same person's earlier command still runs.
#[must_use]
pub const fn still_running() -> &'static str {
    "Your last commands are still running. Nothing was done; please wait for their answers first."
}

/// Says that a conversation begins anew.
#[must_use]
pub const fn new_conversation(remembered: bool, sound: bool) -> &'static str {
    match (remembered, sound) {
        (true, true) => {
            "We start over here: I no longer know what we said in this channel. If you reply to one of my older messages I see that one again."
        }
        (false, true) => "There was nothing to leave behind: our conversation in this channel is a fresh one already.",
        (_, false) => {
            "We start over here, as far as I can see. My memory does not answer at the moment; if I still know something later, run this again."
        }
    }
}

/// Lists what was wiped and what is kept.
#[must_use]
pub fn forgotten(wiped: &Wiped, sound: bool) -> String {
    let mut lines = Vec::new();
    if wiped.conversations > 0 {
        let messages = wiped.messages;
        lines.push(format!("{} with {}", many(wiped.conversations, "conversation"), many(messages, "message")));
    }
    if wiped.answers > 0 {
        lines.push(format!("what you asked behind {} of mine", many(wiped.answers, "message")));
    }
    if wiped.quotes > 0 {
        lines.push(format!(
            "your words in {} of others who replied to my answers to you",
            many(wiped.quotes, "conversation")
        ));
    }
    if wiped.preferences {
        lines.push("your choice of a model".to_owned());
    }
    if wiped.usage {
        lines.push("how many tokens you used".to_owned());
    }
    let mut text = if lines.is_empty() {
        "I kept nothing about you that could be forgotten.".to_owned()
    } else {
        list("**Forgotten**", &lines)
    };
    if wiped.in_flight > 0 {
        let _ = write!(
            text,
            "\n\n{} from before this will still be answered, but not remembered.",
            many(wiped.in_flight, "question")
        );
    }
    text.push_str(
        "\n\n**Kept, and why**\
         \n- your limits and any restriction, with their times: forgetting is no way around them\
         \n- for an hour, the bare ids of messages that I answered: so that none is answered twice\
         \n- the messages in the channels: they stay where they were said, and yours are yours to delete",
    );
    if !sound {
        text.push_str(
            "\n\n**My memory does not answer at the moment.** I forgot all that I can see and what I hold in mind is gone, but \
             there may be more. Please run `/forget` again later.",
        );
    }
    text
}

/// Says what is in the file of an export.
#[must_use]
pub fn exported(counts: &Wiped, sound: bool) -> String {
    let mut text = format!(
        "Everything that I keep about you: {} with {}, {} kept for replies{}{}. Your limits count in windows that end by themselves.",
        many(counts.conversations, "conversation"),
        many(counts.messages, "message"),
        many(counts.answers, "answer"),
        if counts.usage { ", how many tokens you used" } else { "" },
        if counts.preferences { ", your choice of a model" } else { "" },
    );
    if !sound {
        text.push_str(
            "\n**My memory does not answer at the moment**, so there may be more. Please run `/export` again later.",
        );
    }
    text
}

/// The name of the file of an export.
#[must_use]
pub const fn export_name() -> &'static str {
    "what-staffai-keeps-about-you.json"
}

/// Shows the present choice and what can be chosen. `chosen` is none for the default.
#[must_use]
pub fn models(rows: &[&str], default: &str, chosen: Option<&str>) -> String {
    let mut text = match chosen {
        None => format!("You are answered by the default model, `{default}`."),
        Some(chosen) if rows.contains(&chosen) => format!("You chose `{chosen}`."),
        Some(chosen) => format!(
            "You chose `{chosen}`, which is not there any more. You are answered by the default model, `{default}`."
        ),
    };
    if rows.is_empty() || rows == [default] {
        text.push_str(" There is no other to choose.");
        return text;
    }
    text.push_str(" You can choose with `/model row:`");
    for row in rows {
        let note = if *row == default { " (default)" } else { "" };
        let _ = write!(text, "\n- `{row}`{note}");
    }
    text
}

/// Says that a choice was taken.
#[must_use]
pub fn model_chosen(row: &str, sound: bool) -> String {
    let later =
        if sound { "" } else { " My memory does not answer at the moment, so I may lose this when I am restarted." };
    format!("From your next message on `{row}` answers you, in every channel.{later}")
}

/// Says that a choice was taken back.
#[must_use]
pub fn model_default(row: &str) -> String {
    format!("From your next message on the default model answers you, which is `{row}` now.")
}

/// Says that there is no such model, and which there are.
#[must_use]
pub fn no_such_model(asked: &str, rows: &[&str]) -> String {
    let asked: String = asked.chars().filter(|c| *c != '`').take(40).collect();
    let rows: Vec<String> = rows.iter().map(|row| format!("`{row}`")).collect();
    format!("There is no model `{asked}` to choose. There is {}.", rows.join(", "))
}

/// What somebody used; `whose` is none for the caller's own.
#[must_use]
pub fn usage(usage: &Usage, whose: Option<&str>) -> String {
    let (who, has) = whose.map_or(("You".to_owned(), "have"), |whose| (whose.to_owned(), "has"));
    let mut lines = Vec::new();
    if let Some(standing) = &usage.standing {
        let (messages, tokens) = (standing.messages, standing.tokens);
        let window = span(standing.window);
        lines.push(format!(
            "{who} {has} used {} of {} messages and {} of {} tokens in the last {window}.",
            number(messages.0.into()),
            number(messages.1.into()),
            number(tokens.0),
            number(tokens.1)
        ));
        if standing.exempt {
            lines.push("These limits do not hold here: a super role is exempt.".to_owned());
        } else if let Some(at) = standing.frees_at {
            lines.push(format!("The next message will be accepted {}.", moment(at)));
        }
    } else {
        lines.push("I cannot tell at the moment how much of the limits is used.".to_owned());
    }
    let sums = &usage.sums;
    for (when, tally) in [("Today", &sums.today), ("Seven days", &sums.week), ("In all", &sums.total)] {
        lines.push(format!("{when}: {}", used(tally)));
    }
    lines.join("\n")
}

fn used(tally: &Tally) -> String {
    if tally.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = format!("{} tokens", number(tally.tokens));
    if tally.messages > 0 {
        let messages = usize::try_from(tally.messages).unwrap_or(usize::MAX);
        let _ = write!(text, " for {}", many(messages, "message"));
    }
    if tally.micros > 0 {
        let more = if tally.unpriced > 0 { " and more that has no price" } else { "" };
        let _ = write!(text, ", ${}.{:04}{more}", tally.micros / 1_000_000, tally.micros % 1_000_000 / 100);
    }
    text
}

/// The title of the card of `/status`.
#[must_use]
pub fn status_title(overview: &Overview) -> String {
    format!("staffai {}: {}", overview.version, overview.status)
}

/// The text of the card of `/status`: what is wrong, if anything.
#[must_use]
pub fn status_text(overview: &Overview) -> String {
    let mut lines: Vec<String> =
        overview.down.iter().map(|(part, why)| format!("**{part} is down**: {}", brief(why))).collect();
    if let Some(why) = &overview.rejected {
        lines.push(format!("**The changed files are not in force**: {}", brief(why)));
    }
    if lines.is_empty() { "All parts are up.".to_owned() } else { lines.join("\n") }
}

/// The facts of the card of `/status`.
#[must_use]
pub fn status_facts(overview: &Overview) -> Vec<(&'static str, String)> {
    let (up, shards) = overview.shards;
    let (answering, resting) = &overview.models;
    let mut models = answering.join(", ");
    if !resting.is_empty() {
        let _ = write!(models, "{}left alone: {}", if models.is_empty() { "" } else { "; " }, resting.join(", "));
    }
    let listed = |pairs: &[(String, u64)]| {
        let all: Vec<String> = pairs.iter().map(|(name, count)| format!("{name} {count}")).collect();
        all.join(", ")
    };
    let queues = if overview.queues.is_empty() { "empty".to_owned() } else { listed(&overview.queues) };
    let restarts = match overview.restarts {
        0 => "none".to_owned(),
        all => format!("{all} ({})", listed(&overview.restarted)),
    };
    let bounds: Vec<String> =
        overview.bounds.iter().map(|(what, used, most)| format!("{what} {used}/{most}")).collect();
    let (messages, tokens, window) = overview.limits;
    let mut facts = vec![
        ("Up for", span(overview.uptime)),
        ("Configuration", overview.configuration.clone()),
        ("Shards", format!("{up} of {shards} connected")),
        ("Models", models),
        ("Store", if overview.store { "works" } else { "fails; memory serves" }.to_owned()),
        ("Turns", format!("{} in flight, {} since the start", overview.in_flight, number(overview.accepted))),
        ("In use", bounds.join(", ")),
        ("Queues", queues),
        ("Restarts", restarts),
        (
            "Limits for each member",
            format!("{} messages, {} tokens in {}", number(messages), number(tokens), span(window)),
        ),
    ];
    facts.extend(overview.memory.map(|bytes| ("Memory", format!("{} MiB", bytes >> 20))));
    facts.retain(|(_, fact)| !fact.is_empty());
    facts
}

/// The tools that there are.
#[must_use]
pub fn tools(tooling: &Tooling) -> String {
    if tooling.servers.is_empty() {
        return "No tool server is connected, so I answer from what I know and what we said.".to_owned();
    }
    let mut text = String::from("**Tools**");
    for server in &tooling.servers {
        let tools = if server.tools.is_empty() { "no tools".to_owned() } else { server.tools.join(", ") };
        let _ = write!(text, "\n- **{}** ({}): {tools}", server.name, server.state);
    }
    text
}

/// What came of reading the lists of tools again.
#[must_use]
pub fn tools_refreshed(tooling: &Tooling) -> String {
    if tooling.servers.is_empty() {
        return "No tool server is connected, so there is no list to read again.".to_owned();
    }
    format!("Reading again, {}: `/tools` shows what comes of it.", many(tooling.servers.len(), "tool server"))
}

/// What waits for a yes or no.
#[must_use]
pub fn approvals(tooling: &Tooling) -> String {
    if tooling.waiting.is_empty() {
        return "Nothing waits for approval.".to_owned();
    }
    list("**Waiting for approval**", &tooling.waiting)
}

/// Says that prompts and settings are being read again.
#[must_use]
pub fn refreshed(version: &str) -> String {
    format!(
        "I am reading my prompts and settings again, and I think of another status line where those are switched on. If they changed and are right, `/status` shows another configuration than `{version}`."
    )
}

/// What the bot does and what this person may run.
#[must_use]
pub fn help(may_run: &[Kind], direct: bool) -> String {
    let mut text = String::from(
        "I answer when you mention me or reply to one of my messages. I know what you and I said in this channel lately, and \
         nothing of what others said to me or of other channels, except a message that you reply to.",
    );
    if direct {
        text.push_str(" You can also write to me directly.");
    }
    text.push_str("\n\n**What you can run** (only you see the answers)");
    for kind in may_run {
        let _ = write!(text, "\n- `/{}`: {}", kind.name(), description(*kind));
    }
    text.push_str(
        "\n\n**What I keep**: our last messages in each channel, for a while; your choice of a model; how many tokens you used. \
         It stays in this bot's own store; what you ask goes to the model that answers. `/export` shows you all of it, `/forget` \
         takes it away.",
    );
    text
}

/// A headline and a line for each thing below it.
fn list(headline: &str, lines: &[String]) -> String {
    let mut text = headline.to_owned();
    for line in lines {
        let _ = write!(text, "\n- {line}");
    }
    text
}

/// One of a thing, or many.
fn many(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// With commas between groups of three digits.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In its two largest units.
fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (length, unit) in units {
        let count = rest / length;
        rest %= length;
        if count > 0 {
            parts.push(format!("{count} {unit}"));
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// A moment as each reader's own client writes it.
fn moment(at: Timestamp) -> String {
    format!("<t:{}:R>", at.0.div_ceil(1_000))
}

/// The beginning of a failure, without marks that would change the text around it.
fn brief(why: &str) -> String {
    why.chars().filter(|c| !matches!(c, '`' | '*' | '\n')).take(200).collect()
}

#[cfg(test)]
mod tests;
