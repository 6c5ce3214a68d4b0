//! The tables of the operator's guide match the program. A table that differs is printed as it should be: put it
//! between its two marks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::keys::{self, ledger};
use settings::defaults::{DefaultKey, offered};
use settings::env::{VARIABLES, general_name};
use store::redis::lease;
use telemetry::events::EVENTS;
use telemetry::metrics::{METRICS, MetricKind};

/// The pages of the guide.
const GUIDE: &str = "docs/guide";

/// Returns the text between the marks of this name.
fn block(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE);
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let pages = std::fs::read_dir(folder).unwrap().map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    let behind = |page: String| page.split_once(&begin).map(|(_, behind)| behind.to_owned());
    let found: Vec<String> = pages.filter_map(behind).collect();
    let [behind] = &found[..] else { panic!("{} pages of {GUIDE} have {begin}", found.len()) };
    behind.split_once(&end).unwrap_or_else(|| panic!("{GUIDE} has no {end}")).0.to_owned()
}

#[track_caller]
fn same(name: &str, expected: &str) {
    let found = block(name);
    assert!(found == expected, "the {name} of {GUIDE} must be:\n{expected}");
}

fn row(text: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    writeln!(text, "| {} |", cells.join(" | ")).unwrap();
}

fn head(text: &mut String, cells: &[&str]) {
    row(text, cells);
    writeln!(text, "|{}", "---|".repeat(cells.len())).unwrap();
}

fn names(entry: &DefaultKey) -> String {
    let rows: Vec<_> = VARIABLES.iter().filter(|variable| variable.key == entry.key).collect();
    if rows.is_empty() {
        return format!("`{}`", general_name(&entry.key));
    }
    let name = |name: &str, secret: bool| if secret { format!("`{name}` (secret)") } else { format!("`{name}`") };
    rows.iter().map(|variable| name(variable.name, variable.secret)).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_settings_are_those_of_the_default_file() {
    let mut text = String::new();
    let mut section = String::new();
    for entry in offered() {
        if entry.section() != section {
            section = entry.section().to_owned();
            write!(text, "\n**`[{section}]`**\n\n").unwrap();
            head(&mut text, &["key", "variable", "default", "meaning"]);
        }
        let key = entry.key.split_once('.').unwrap().1;
        let default = entry.text();
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        row(&mut text, &[&format!("`{key}`"), &names(&entry), &default, entry.sentence]);
    }
    text.push('\n');
    same("settings", &text);
}

#[test]
fn the_events_are_those_of_the_log() {
    let (mut text, levels) = (String::from("\n"), levels());
    head(&mut text, &["event", "level", "meaning"]);
    for (name, meaning) in EVENTS.iter().copied().collect::<BTreeMap<_, _>>() {
        let levels = levels.get(name).unwrap_or_else(|| panic!("no line of the log has {name}"));
        let levels: Vec<&str> = LEVELS.into_iter().filter(|level| levels.contains(level)).collect();
        row(&mut text, &[&format!("`{name}`"), &levels.join(", "), meaning]);
    }
    text.push('\n');
    same("events", &text);
}

/// The levels of log lines, the gravest first.
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// The events whose level is an argument of a macro, or that the writer of the log itself writes.
const INDIRECT: [(&str, &[&str]); 3] = [
    (telemetry::events::ACTOR_HEALTH, &["info", "debug"]),
    (telemetry::events::SUMMARY_MADE, &["warn", "info", "debug"]),
    (telemetry::events::LOG_SHED, &["warn"]),
];

/// Returns the levels of each event, as the source logs it.
fn levels() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let constants = file("crates/telemetry/src/events.rs");
    let constant = |line: &str| {
        let (constant, rest) = line.trim().split_once(" = \"")?;
        let name = rest.split_once('"')?.0;
        Some((constant.to_owned(), EVENTS.iter().find(|(event, _)| *event == name)?.0))
    };
    let constants: BTreeMap<String, &str> = constants.lines().filter_map(constant).collect();
    assert_eq!(constants.len(), EVENTS.len());
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, levels) in INDIRECT {
        found.entry(name).or_default().extend(levels);
    }
    for path in sources() {
        let text = shipped(&path);
        for level in LEVELS {
            for (_, call) in text.match_indices(&format!("{level}!(")).map(|(at, call)| (at, &text[at + call.len()..]))
            {
                let Some(event) = call.trim_start().strip_prefix("event = ") else { continue };
                let event =
                    event.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next().unwrap_or_default();
                let event = constants.get(event.rsplit(':').next().unwrap_or_default());
                found
                    .entry(event.unwrap_or_else(|| panic!("{}: unknown event", path.display())))
                    .or_default()
                    .insert(level);
            }
        }
    }
    found
}

/// Returns the Rust files of the program.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut folders: Vec<PathBuf> = crates.chain([root.join("src")]).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the text of a file before its tests.
fn shipped(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
}

#[test]
fn the_metrics_are_those_that_are_scraped() {
    let mut text = String::from("\n");
    head(&mut text, &["metric", "kind", "meaning"]);
    for metric in METRICS {
        let kind = match metric.kind {
            MetricKind::Counter | MetricKind::ZeroCounter | MetricKind::ZeroCounters(..) => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        row(&mut text, &[&format!("`{}`", metric.name), kind, metric.help]);
    }
    text.push('\n');
    same("metrics", &text);
}

/// The time in which an unfinished deletion is repeated: `UNFINISHED_TTL` of the actors.
const UNFINISHED_FORGETTING: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Returns a duration in its largest whole unit.
fn life(life: Duration) -> String {
    let seconds = life.as_secs();
    let units = [("day", 24 * 60 * 60), ("hour", 60 * 60), ("minute", 60), ("second", 1)];
    let (unit, length) = units.into_iter().find(|(_, length)| seconds.is_multiple_of(*length)).unwrap();
    let count = seconds / length;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// Stored data, by the prefix of its key, with its retention.
#[expect(clippy::too_many_lines, reason = "one row for each kind of key")]
fn kept() -> Vec<(&'static str, &'static str, String)> {
    let history = "`history.ttl` after the last exchange (default 30 minutes; 0: no expiry)".to_owned();
    let answered = format!("as long as the history, or {} if that never expires", life(keys::ANSWERED_TTL));
    let asked = format!(
        "the longer of `history.ttl` (0: {}) and `history.message_max_age` (at most {})",
        life(keys::ANSWERED_TTL),
        life(keys::conversations::SUMMARY_AGE_MAX)
    );
    let turn = format!(
        "open: {} after the last change; waiting for a decision: {} after the wait ends; closed: {}",
        life(keys::TURN_TTL),
        life(keys::TURN_TTL),
        life(keys::CLOSED_TURN_TTL)
    );
    let days = |life: Duration| life.as_secs() / (24 * 60 * 60);
    let counted = format!("{} days; totals {} days", days(ledger::DAY_TTL), days(ledger::ALL_TTL));
    vec![
        (keys::HISTORY_PREFIX, "the conversation of one member with the bot in one channel, with times", history),
        (
            keys::conversations::SUMMARY_PREFIX,
            "the summary of older exchanges of such a conversation, with the ids of quoted members",
            "with the conversation; its parts end at `history.message_max_age`".to_owned(),
        ),
        (
            keys::conversations::EVICTED_PREFIX,
            "the number of exchanges that such a conversation no longer has",
            "`history.ttl` after its last change".to_owned(),
        ),
        (keys::conversations::ASKED_PREFIX, "the conversation of one message, for its deletion", asked.clone()),
        (keys::conversations::ASKED_BY_PREFIX, "the index of these marks by member", asked),
        (
            keys::limits::MESSAGE_LIMIT_PREFIX,
            "times of one member's accepted messages (Redis only)",
            "the window after the last message".to_owned(),
        ),
        (
            keys::limits::TOKEN_LIMIT_PREFIX,
            "the same with the tokens used",
            "the window after the last message".to_owned(),
        ),
        ("staffai:limit:", "sums of these two lists", "the window after the last message".to_owned()),
        (keys::TURN_PREFIX, "the journal: one turn with its message, its answer and its post", turn),
        (
            keys::PARKED_PREFIX,
            "the dialogue of a turn that waits for a decision, an answer or a task",
            format!("{} after the end of its wait, and at most as long as its turn", life(keys::TURN_TTL)),
        ),
        (
            keys::TERM_PREFIX,
            "the newest fencing token of a door, or of a range of it: the process that owns its open turns",
            "no expiry; one per door and range".to_owned(),
        ),
        (
            keys::PROCESS_PREFIX,
            "a process that shares the store: state, version, address (Redis only)",
            format!("{} s after its last report", lease::PRESENT_FOR.as_secs()),
        ),
        (keys::FORMAT, "the format of the stored data", "no expiry; one record".to_owned()),
        (
            keys::CLICK_PREFIX,
            "a click on an approval that arrived at another process than its turn, with the means to answer it (only with `cluster.ranges` above 1)",
            life(domain::gate::passed::KEPT),
        ),
        (
            keys::LEASE,
            "the active process and the standby",
            format!("{} s after the last renewal", lease::WAITS.as_secs()),
        ),
        (
            keys::DIVISIONS,
            "the numbers of ranges of former divisions (only with `cluster.ranges` above 1)",
            "no expiry; one record".to_owned(),
        ),
        (
            keys::restrictions::CHANGES,
            "the last 100 changes of restrictions, with member and guild, for an hour (only with `cluster.ranges` above 1)",
            "no expiry; one record".to_owned(),
        ),
        (
            keys::IDENTIFY_PREFIX,
            "a bucket in which a process identified at Discord a moment ago (only with `cluster.ranges` above 1)",
            "5.25 s".to_owned(),
        ),
        (
            keys::FORWARDING,
            "the secret by which a process recognises requests that another one passed on (Redis only)",
            format!("{} after its last use", life(lease::SHARED_FOR)),
        ),
        (
            keys::ALONE,
            "the data directory whose process may act while Redis does not answer (Redis only)",
            format!("{} after the last renewal", life(lease::ALONE_TERM)),
        ),
        (keys::ALLOWANCE_PREFIX, "an allowance: a tool call that needs no new approval", life(keys::ALLOWANCE_TTL)),
        (keys::ANSWERED_PREFIX, "the question that a message of the bot answers, for replies to it", answered),
        (
            "staffai:answers_of:*`, `staffai:quotes_of:",
            "index of the records that contain a member's words, for `/forget`",
            "as long as the indexed records".to_owned(),
        ),
        (
            keys::TOOLS_PREFIX,
            "the last tool list of one server, and the accepted definition of each tool",
            format!("{} days after the last read", keys::TOOLS_TTL.as_secs() / 86_400),
        ),
        (
            keys::PREFERENCES_PREFIX,
            "the settings of a member: their own, and those for single places",
            format!("{} days after the last choice", keys::PREFERENCES_TTL.as_secs() / 86_400),
        ),
        (
            keys::sessions::SESSIONS_PREFIX,
            "a session of the API or the terminal: name and number",
            "`http.session_ttl` after its last activity (default 7 days)".to_owned(),
        ),
        (
            keys::sessions::INDEX,
            "index of sessions: names and numbers",
            "no expiry; at most 1,000, expired sessions are removed when new ones start".to_owned(),
        ),
        (
            keys::sessions::LINES_PREFIX,
            "one line of the transcript of such a session",
            "`http.session_ttl` after it was written (default 7 days)".to_owned(),
        ),
        (
            "staffai:fact:",
            "a [fact](members.md#facts) about one member, with the place where it was told",
            "`memory.facts_ttl` after it was last told (default 365 days)".to_owned(),
        ),
        (
            "staffai:facts:*`, `staffai:facts_by:",
            "index of the facts of a member, and of the facts learned from a message",
            "as long as the facts".to_owned(),
        ),
        (
            "staffai:facts_told:",
            "the number of facts of all members, by the time when they were told",
            format!("`memory.facts_ttl` and {}", life(keys::facts::FACTS_TOLD_STEP)),
        ),
        (
            keys::AUDIT_PREFIX,
            "one entry of the [audit of tools](tools.md#the-audit-of-tools), with its member",
            "`tools.audit` (default 30 days)".to_owned(),
        ),
        ("staffai:audit_lines:", "the number of these entries of one day", life(keys::AUDIT_COUNT_TTL)),
        (
            keys::FORGOTTEN_PREFIX,
            "a member asked to delete all data, or one conversation: running turns store nothing from before that time",
            format!("about twice `turn.longest`; an unfinished request at least {}", life(UNFINISHED_FORGETTING)),
        ),
        (
            keys::restrictions::ENDLESS_PREFIX,
            "start of a restriction that only a moderator ends",
            life(keys::restrictions::ENDLESS_TTL),
        ),
        (
            "staffai:hook:",
            "the id of an accepted [webhook](triggers.md) request, to recognise its repetition",
            "30 days".to_owned(),
        ),
        (keys::MODEL_ROWS, "changes of model rows (Redis only)", "no expiry; at most 256 KiB".to_owned()),
        (
            keys::past::PAST_PREFIX,
            "the last 200 turns of one process with the ids of channel, member and message, and its counters of the last ten minutes; `/forget` removes the turns of the member",
            "1 day after the last write; at most 81 keys".to_owned(),
        ),
        (keys::REVOKED_KEYS, "hashes of revoked API keys (Redis only)", "no expiry; at most 1,000".to_owned()),
        (keys::LINKS, "the accounts that are linked to one person", "no expiry; at most 10,000 accounts".to_owned()),
        (
            keys::LINK_CODES,
            "hashes of codes to link accounts, with the account that got each, and the accounts that entered wrong codes",
            "no expiry; at most 1,000 codes and 100 wrong ones, each for 5 minutes".to_owned(),
        ),
        (
            "staffai:response:*`, `staffai:responses:",
            "requests and answers of `/v1/responses`, unless the request has `\"store\": false`; at most 500 and 4 MiB per key",
            format!("{} days", days(keys::programs::RESPONSE_TTL)),
        ),
        (keys::SESSION_PREFIX, "the gateway session of a shard, to resume after a restart", life(keys::SESSION_TTL)),
        (
            keys::WATERMARK_PREFIX,
            "the last processed message of a Discord server (watermark); channels whose missed messages could not be read yet",
            life(keys::WATERMARK_TTL),
        ),
        (
            keys::active::ACTIVE_PREFIX,
            "a channel in which a member addressed the bot: missed messages are read there after a start",
            format!("{} after the last write, at most one write per hour", life(keys::active::ACTIVE_TTL)),
        ),
        (keys::QUARANTINE_PREFIX, "an unreadable record, kept for inspection", life(keys::QUARANTINE_TTL)),
        (
            keys::restrictions::RESTRICTED_PREFIX,
            "end time of a member's restriction",
            "as long as the restriction".to_owned(),
        ),
        (
            keys::restrictions::RESTRICTING_PREFIX,
            "a member whose role change is pending",
            life(keys::restrictions::RESTRICTING_TTL),
        ),
        (
            keys::restrictions::TOLD_PREFIX,
            "a restricted member who already got the notice about their channel",
            format!("one limit window, or until the restriction ends; at most {}", life(keys::restrictions::TOLD_TTL)),
        ),
        (
            ledger::PREFIX,
            "usage of one account per day and in total: input, output and cached tokens, messages, millionths of a dollar, tokens without a price",
            counted,
        ),
        (
            ledger::COUNTED_PREFIX,
            "a Discord server in which a member was counted, so that `/export` and `/forget` find the counts",
            format!("{} days after the last count", days(ledger::ALL_TTL)),
        ),
        (
            ledger::INDEXED,
            "a mark: counts that versions without these entries wrote have entries too",
            life(ledger::INDEXED_TTL),
        ),
        (
            ledger::TOTAL_PREFIX,
            "token count of one member, in the format of the [Python bot](../coming-from.md)",
            "no expiry; one number each".to_owned(),
        ),
        (ledger::DAILY_PREFIX, "the same for one day", life(ledger::DAILY_TTL)),
        (
            keys::experiments::PREFIX,
            "counters of one arm of an experiment; none names a member",
            format!("{} days after the last change; at most 58 per arm", days(keys::experiments::COUNTER_TTL)),
        ),
        (
            keys::experiments::TRIAL_PREFIX,
            "the experiment and the arm of the answer in one message, for reactions to it",
            life(keys::experiments::TRIAL_TTL),
        ),
        (
            keys::experiments::VOTE_PREFIX,
            "a member reacted to such an answer with a thumb",
            life(keys::experiments::TRIAL_TTL),
        ),
        (
            keys::RECORDED_PREFIX,
            "a question recorded for `staffai replay`, without names, with the ids of its member and its message for deletion",
            format!("{}; at most `replay.questions`", life(keys::RECORDED_TTL)),
        ),
        (keys::REPORT_LAST, "end of the last reported interval", "no expiry; one number".to_owned()),
        (
            keys::REPORT_TOOLS,
            "tool servers and built-in tools that fail, and the number of notices about them",
            format!("no expiry; at most {} parts", domain::tool::outage::PARTS_MAX),
        ),
        (keys::PROMPT_EDITS, "prompt sections changed at run time", "no expiry; one text per section".to_owned()),
        (
            keys::PROMPT_PREFIX,
            "the last 20 versions of one such section, with author and time",
            "no expiry; one list per section".to_owned(),
        ),
        (
            keys::triggers::TIMER_PREFIX,
            "the last due time of a timer that was handled",
            format!("{} days after the due time", days(keys::triggers::TIMER_TTL)),
        ),
        (
            keys::APPLIED_PREFIX,
            "the last increments of one process, to count each exactly once",
            life(keys::APPLIED_TTL),
        ),
    ]
}

#[test]
fn the_keys_are_those_of_the_store() {
    let mut text = String::from("\n");
    head(&mut text, &["keys", "content", "expiry"]);
    for (prefix, what, life) in kept() {
        let star = if prefix.ends_with(':') { "*" } else { "" };
        row(&mut text, &[&format!("`{prefix}{star}`"), what, &life]);
    }
    text.push('\n');
    same("keys", &text);
}

/// The key of a probe, which is never written.
const NEVER_STORED: &str = keys::PROBE;

#[test]
fn every_key_of_the_program_is_in_the_table() {
    let folder = Path::new("crates/domain/src/keys");
    let of_keys =
        |path: &Path| path.ancestors().any(|parent| parent.ends_with(folder)) || path.ends_with("domain/src/keys.rs");
    let files: Vec<String> = sources().iter().filter(|path| of_keys(path)).map(|path| shipped(path)).collect();
    let code = files.iter().flat_map(|text| text.lines()).filter(|line| !line.trim_start().starts_with("//"));
    let literals: Vec<&str> = code.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    // A key or its prefix begins with the program's name, or is one of the Python bot's: words with a colon at the end.
    let prefix = |literal: &&str| {
        let words = literal.split('{').next().unwrap_or_default();
        literal.starts_with("staffai:") || (*words == **literal && words.len() > 1 && words.ends_with(':'))
    };
    let stored = literals.into_iter().filter(prefix).map(|literal| literal.split('{').next().unwrap_or_default());
    let stored: BTreeSet<&str> = stored.filter(|key| *key != NEVER_STORED).collect();
    assert!(stored.len() > 50 && stored.contains("staffai:hook:") && stored.contains("msg_rl:"), "{stored:?}");
    let rows = kept();
    let rows: Vec<&str> = rows.iter().flat_map(|(names, _, _)| names.split("*`, `")).collect();
    let named = |key: &str| rows.iter().any(|row| key == *row || (row.ends_with(':') && key.starts_with(row)));
    let missing: Vec<&&str> = stored.iter().filter(|key| !named(key)).collect();
    assert!(missing.is_empty(), "the table of stored data has no row for {missing:?}");
}

#[test]
fn the_output_of_a_check_has_the_number_of_settings() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operators-guide.md");
    let (text, all) = (std::fs::read_to_string(page).unwrap(), settings::defaults::entries().len());
    assert!(text.contains(&format!(" of {all} settings are set")), "the check in the operators' guide must say {all}");
}

/// The clients that the tests run unmodified: their package, its registry, and the tested features.
const CLIENTS: [(&str, &str, &str); 9] = [
    ("openai", "PyPI", "chat, streams, tools, structured answers, errors, responses, embeddings, pictures"),
    ("ollama", "PyPI", "chat, generate, streams, tools, pictures, embeddings, errors, also below `/v1`"),
    ("langchain-openai", "PyPI", "chat, streams, tools, responses, embeddings"),
    ("llm", "PyPI", "chat from the command line"),
    ("httpx", "PyPI", "11 cases of the public Open Responses suite, without WebSocket"),
    ("openresponses-types", "PyPI", "schemas that validate each response and event of that suite"),
    ("openai", "npm", "chat, streams, responses"),
    ("ai", "npm", "AI SDK: text, streams, tools"),
    ("@ai-sdk/openai-compatible", "npm", "the AI SDK provider for OpenAI-compatible servers"),
];

#[test]
fn the_clients_of_the_guide_are_those_that_the_tests_run_in_their_versions() {
    let (pypi, npm) = (file("tests/requirements.txt"), file("tests/mcp/servers/package.json"));
    let npm: serde_json::Value = serde_json::from_str(&npm).unwrap();
    let mut text = String::from("\n");
    head(&mut text, &["client", "from", "version", "tried"]);
    for (name, source, tried) in CLIENTS {
        let pinned = |line: &str| line.strip_prefix(name)?.strip_prefix("==").map(str::to_owned);
        let version = match source {
            "PyPI" => pypi.lines().find_map(pinned),
            _ => npm["dependencies"][name].as_str().map(str::to_owned),
        };
        row(
            &mut text,
            &[&format!("`{name}`"), source, &version.unwrap_or_else(|| panic!("no test has {name}")), tried],
        );
    }
    text.push('\n');
    same("clients", &text);
}

/// Returns the text of a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_slash_command_is_in_the_guide() {
    let guide = file("docs/operators-guide.md");
    let missing: Vec<_> = domain::command::CommandKind::ALL
        .iter()
        .map(|kind| kind.name())
        .filter(|name| !guide.lines().any(|line| line.starts_with(&format!("| `/{name}"))))
        .collect();
    assert!(missing.is_empty(), "docs/operators-guide.md has no row for {missing:?}");
}

#[test]
fn every_command_of_the_program_is_in_the_readme() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_staffai")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let names = commands.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("    "));
    let names: Vec<&str> =
        names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(names.len() > 10, "{help}");
    let readme = file("README.md");
    let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `staffai ")).collect();
    let in_a_row = |name: &str| {
        rows.iter().any(|row| {
            let commands = row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2);
            commands.filter_map(|text| text.trim_start_matches("staffai ").split(' ').next()).any(|word| word == name)
        })
    };
    let missing: Vec<&&str> = names.iter().filter(|name| !in_a_row(name)).collect();
    assert!(missing.is_empty(), "the commands of README.md lack {missing:?}");
}

#[test]
fn the_help_says_where_the_playground_is_and_speaks_in_one_voice() {
    let help = |arguments: &[&str]| {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_staffai")).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let playground = help(&["playground", "--help"]);
    assert_eq!(playground, help(&["help", "playground"]));
    let settings =
        settings::load(&settings::sources::Sources::from_maps(BTreeMap::new(), BTreeMap::new()).for_playground());
    let settings = settings.unwrap_or_else(|problems| panic!("{problems:?}")).settings;
    let data = settings.store.dir.display().to_string();
    for named in [format!("http://{}/", settings.http.addr), data, "STAFFAI_HTTP_ADDR".to_owned()] {
        assert!(playground.contains(&named), "{named} is not in {playground}");
    }
    for arguments in [&["--help"][..], &["-h"], &["help"], &["help", "key", "add"], &["chat", "-h"]] {
        let text = help(arguments);
        assert!(text.contains("Prints help") && !text.contains("Print "), "{text}");
    }
}

#[test]
fn every_endpoint_of_the_api_is_in_the_guide() {
    let description: serde_json::Value = serde_json::from_str(&file("crates/terminal/src/openapi.json")).unwrap();
    let pages = file("docs/api.md") + &file("docs/guide/watching.md");
    let paths: Vec<&String> = description["paths"].as_object().unwrap().keys().collect();
    let named = |path: &str| {
        ["`", " ", "?"]
            .iter()
            .any(|end| [path, &path["/api/v1".len()..]].iter().any(|path| pages.contains(&format!("{path}{end}"))))
    };
    let missing: Vec<&&String> = paths.iter().filter(|path| !named(path)).collect();
    assert!(paths.len() > 15 && missing.is_empty(), "no page describes {missing:?}");
}

#[test]
fn the_alerts_of_the_guide_are_those_of_the_rules() {
    let rules = file("deploy/prometheus/staffai.rules.yaml");
    let alerts: Vec<(&str, &str)> = rules
        .split("- alert: ")
        .skip(1)
        .map(|rule| (rule.lines().next().unwrap_or_default(), rule))
        .map(|(name, rule)| (name, if rule.contains("severity: critical") { "critical" } else { "warning" }))
        .collect();
    let page = file("docs/guide/watching.md");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter(|line| line.starts_with("| `Staffai"))
        .map(|line| line.split(" | ").collect::<Vec<_>>())
        .map(|cells| (cells[0].trim_matches(['|', ' ', '`']), cells[1]))
        .collect();
    let (mut alerts, mut rows) = (alerts, rows);
    alerts.sort_unstable();
    rows.sort_unstable();
    assert_eq!(alerts, rows, "docs/guide/watching.md lists other alerts than the rules");
}
