//! `staffai check` as an operator runs it: the real program against the playground's Discord and its demo model.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

#[path = "check/first_run.rs"]
mod first_run;
#[path = "check/fixtures.rs"]
mod fixtures;

use playground::demo_model::DemoModel;
use playground::service::{Options, Service};

/// The time of all tests here, in milliseconds since 1970.
const NOW: u64 = 1_790_000_000_000;
/// A port of this machine without a listener.
const NOWHERE: &str = "http://127.0.0.1:1";

struct Bench {
    service: Service,
    model: DemoModel,
    folder: tempfile::TempDir,
}

struct Outcome {
    code: i32,
    table: String,
}

impl Bench {
    async fn start(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Arc::new(|| NOW));
        "the-token-of-the-test".clone_into(&mut options.token);
        change(&mut options);
        Self {
            service: Service::start(options).await.unwrap(),
            model: DemoModel::start(Duration::ZERO).await.unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs the check with a complete configuration and these further variables.
    async fn check(&self, options: &[&str], more: &[(&str, &str)]) -> Outcome {
        let mut command = program(self.folder.path());
        command
            .arg("check")
            .args(options)
            .env("DISCORD_API_URL", self.service.api_url())
            .env("DISCORD_BOT_TOKEN", self.service.token())
            .env("LITELLM_API_URL", self.model.base_url())
            .env("LITELLM_MODEL", "demo")
            .env("STAFFAI_HTTP_ADDR", "127.0.0.1:0")
            .envs(more.iter().copied());
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        Outcome { code: output.status.code().unwrap(), table: text(&output) }
    }
}

fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_staffai"));
    command.env_clear().current_dir(folder);
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Outcome {
    /// Checks that the row of a part has this verdict and these words.
    #[track_caller]
    fn has(&self, verdict: &str, part: &str, words: &str) -> &Self {
        let row = |line: &&str| {
            line.strip_prefix(verdict).is_some_and(|rest| rest.trim_start().starts_with(part) && rest.contains(words))
        };
        assert!(self.table.lines().any(|line| row(&line)), "no row: {verdict} {part} .. {words}\n{}", self.table);
        self
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_configuration_is_well() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&[], &[]).await;
    outcome
        .has("ok", "prompts", "built in")
        .has("ok", "schema", "compiles, built in")
        .has("ok", "model rows", "demo")
        .has("ok", "store", "the folder data has no store yet")
        .has("ok", "discord token", "accepted; the bot is staffai")
        .has("ok", "discord message content", "enabled")
        .has("ok", "discord gateway", "of 1000 gateway sessions left for today; Discord recommends 1 shards")
        .has("ok", "model demo", "structured output: yes");
    assert_eq!(outcome.code, 0, "{}", outcome.table);
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0, "the check left something behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_discord_is_no_mistake_of_the_token() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&[], &[("DISCORD_API_URL", "http://127.0.0.1:1")]).await;
    outcome.has("wrong", "discord  ", "check the network").has("ok", "model demo", "structured output: yes");
    assert!(outcome.code == 1 && !outcome.table.contains("discord token"), "{}", outcome.table);
    assert!(outcome.table.ends_with("1 problem\n"), "{}", outcome.table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_named_and_never_shown() {
    let bench = Bench::start(|_| {}).await;
    let secret = "another-token-entirely";
    let outcome = bench.check(&[], &[("DISCORD_BOT_TOKEN", secret)]).await;
    outcome.has("wrong", "discord token", "set DISCORD_BOT_TOKEN").has("ok", "model demo", "structured output: yes");
    assert_eq!(outcome.code, 1);
    assert!(!outcome.table.contains(secret), "{}", outcome.table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_cannot_be_a_token_is_not_sent() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&[], &[("DISCORD_BOT_TOKEN", "a secret of another service")]).await;
    outcome.has("wrong", "configuration", "contains a space").has("skipped", "discord", "not contacted");
    assert!(outcome.table.ends_with("1 problem\n"), "{}", outcome.table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_message_content_intent_is_wrong() {
    let bench = Bench::start(|options| options.privileged = 0).await;
    let outcome = bench.check(&[], &[]).await;
    outcome.has("wrong", "discord message content", "Privileged Gateway Intents");
    assert_eq!(outcome.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_wrong() {
    let bench = Bench::start(|options| {
        for role in options.seed.guilds.iter_mut().flat_map(|guild| guild.roles.iter_mut()) {
            role.permissions = 0;
        }
    })
    .await;
    let outcome = bench.check(&[], &[]).await;
    outcome.has("wrong", "discord permissions", "lacks View Channels, Send Messages, Send Messages in Threads");
    assert_eq!(outcome.code, 1, "{}", outcome.table);
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_channels_that_are_not_there_are_wrong() {
    let bench = Bench::start(|_| {}).await;
    let named = [("SUPER_ROLE_IDS", "77"), ("RESTRICTED_USER_ROLE_ID", "78"), ("RESTRICTED_CHANNEL_ID", "79")];
    let outcome = bench.check(&[], &named).await;
    outcome
        .has("wrong", "discord roles", "members.super_roles: no server of the bot has a role with the id 77")
        .has("wrong", "discord roles", "restriction.role: no server of the bot has a role with the id 78")
        .has("wrong", "discord channels", "restriction.channel: there is no channel with the id 79");
    assert_eq!(outcome.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_the_bot_cannot_give_is_wrong() {
    let mut role = String::new();
    let bench = Bench::start(|options| {
        let roles = &mut options.seed.guilds[0].roles;
        let restricted = roles.iter_mut().find(|role| role.name == "restricted").unwrap();
        restricted.position = 9;
        role = restricted.id.to_string();
    })
    .await;
    let outcome = bench.check(&[], &[("RESTRICTED_USER_ROLE_ID", &role)]).await;
    outcome.has("wrong", "discord roles", "move the bot's role above it");
    assert_eq!(outcome.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_reached_is_wrong() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&[], &[("LITELLM_API_URL", NOWHERE)]).await;
    outcome.has("wrong", "model demo", "check LITELLM_API_URL").has("ok", "discord token", "accepted");
    assert_eq!(outcome.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_named_model_is_asked() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&["--models"], &[("LITELLM_MODELS", "demo, other/model")]).await;
    outcome.has("ok", "model demo", "structured output: yes").has("ok", "model other/model", "structured output: yes");
    assert_eq!(outcome.code, 0, "{}", outcome.table);
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_contacts_no_service() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&["--offline"], &[]).await;
    outcome.has("skipped", "discord", "--offline").has("skipped", "model", "--offline");
    assert_eq!(outcome.code, 0, "{}", outcome.table);
    let asked = bench.service.stats().by_status;
    assert!(asked.is_empty(), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_cannot_be_reached_is_wrong_and_its_password_never_shown() {
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&[], &[("REDIS_URL", "redis://:a-long-password@127.0.0.1:1/0")]).await;
    outcome.has("wrong", "store", "redis at 127.0.0.1:1");
    assert_eq!(outcome.code, 1);
    assert!(!outcome.table.contains("a-long-password"), "{}", outcome.table);
    let offline = bench.check(&["--offline"], &[("REDIS_URL", "redis://127.0.0.1:1/0")]).await;
    offline.has("skipped", "store", "--offline");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_schema_and_a_missing_token_are_told_together() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("response_schema.json"), "{").unwrap();
    let output = program(folder.path()).args(["check", "--offline"]).output().unwrap();
    let outcome = Outcome { code: output.status.code().unwrap(), table: text(&output) };
    outcome
        .has("wrong", "configuration", "discord.token (DISCORD_BOT_TOKEN): is not set")
        .has("wrong", "configuration", "llm.model (LITELLM_MODEL): is not set")
        .has("wrong", "schema", "response_schema.json: not json");
    assert_eq!(outcome.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_cannot_be_read_is_told_with_all_else_that_is_wrong() {
    let bench = Bench::start(|_| {}).await;
    std::fs::write(bench.folder.path().join("response_schema.json"), "{").unwrap();
    let outcome = bench
        .check(&[], &[("STAFFAI_TURN__DEADLINE", "soon"), ("LOG_LEVEL", "info,staffai=loud"), ("LITELLM_MODEL", "")])
        .await;
    outcome
        .has("wrong", "configuration", "turn.deadline = \"soon\" (STAFFAI_TURN__DEADLINE in the environment)")
        .has("wrong", "configuration", "log.level = \"info,staffai=loud\" (LOG_LEVEL in the environment)")
        .has("wrong", "configuration", "llm.model (LITELLM_MODEL): is not set")
        .has("wrong", "schema", "response_schema.json: not json")
        .has("skipped", "discord", "the configuration is wrong");
    assert_eq!(outcome.code, 1);
    let asked = bench.service.stats().by_status;
    assert!(asked.is_empty(), "no service is contacted with invalid settings: {asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_found_without_contacting_a_service() {
    let bench = Bench::start(|_| {}).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // The listener does not answer, so it is not this program's service.
    drop(std::thread::spawn(move || {
        while let Ok((stream, _)) = taken.accept() {
            drop(stream);
        }
    }));
    for (variable, part) in [("STAFFAI_HTTP_ADDR", "http"), ("STAFFAI_HEALTH_ADDR", "health")] {
        let outcome = bench.check(&["--offline"], &[(variable, &address)]).await;
        outcome.has("wrong", part, &format!("{address} is in use by another program")).has("wrong", part, variable);
        assert_eq!(outcome.code, 1);
    }
}

/// Returns the table of an offline check with only these variables.
fn offline(variables: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.args(["check", "--offline"]).env("LITELLM_MODEL", "demo").env("STAFFAI_HTTP_ADDR", "127.0.0.1:0");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    Outcome { code: output.status.code().unwrap(), table: text(&output) }
}

#[test]
fn a_token_of_a_wrong_form_is_found_without_contacting_a_service() {
    let whole = format!("{}.GaBcDe.{}", "MTIzNDU2Nzg5MDEyMzQ1Njc4", "x".repeat(38));
    let prefixed = format!("Bot {whole}");
    for (token, words) in [("abc", "three parts"), (prefixed.as_str(), "begins with"), ("a b.c.d", "contains a space")]
    {
        let outcome = offline(&[("DISCORD_BOT_TOKEN", token)]);
        outcome.has("wrong", "configuration", words).has("wrong", "configuration", "DISCORD_BOT_TOKEN");
        assert!(outcome.code == 1 && (token == "abc" || !outcome.table.contains(token)), "{}", outcome.table);
    }
    assert_eq!(offline(&[("DISCORD_BOT_TOKEN", &whole)]).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_server_that_models_may_ask_is_tried_with_its_key() {
    let peers = |url: &str, key: &str| format!("[{{name = 'tides', url = '{url}', {key}}}]");
    let key = "key = 'sk-of-a-sensible-length'";
    offline(&[("STAFFAI_PEERS", &peers(NOWHERE, "key = 'short'"))])
        .has("note", "agents", "agents.name is not set")
        .has("note", "agent tides", "fewer than 16 characters")
        .has("skipped", "agent tides", "--offline");
    for (row, fix) in [
        (peers("http://tides.example", key), "use https"),
        (peers(NOWHERE, "env_key = 'NOT_SET'"), "the variable NOT_SET that env_key names is not set"),
        (peers("http://a:b@127.0.0.1:1", key), "give the address alone"),
    ] {
        let outcome = offline(&[("STAFFAI_PEERS", &row)]);
        outcome.has("wrong", "agents", fix);
        assert!(outcome.code == 1 && !outcome.table.contains("sensible"), "{}", outcome.table);
    }
    let bench = Bench::start(|_| {}).await;
    let outcome = bench.check(&[], &[("STAFFAI_PEERS", &peers(NOWHERE, key)), ("STAFFAI_AGENTS__NAME", "here")]).await;
    outcome.has("wrong", "agent tides", "cannot be reached");
    assert_eq!(outcome.code, 1);
}

#[test]
fn a_slip_in_a_name_is_named() {
    let outcome =
        offline(&[("DISCORD_BOT_TOKN", "abc"), ("REDIS_ULR", "redis://db"), ("LITELLM_SALT_KEY", "of another")]);
    outcome
        .has(
            "note",
            "configuration",
            "DISCORD_BOT_TOKN in the environment is not a variable of staffai; did you mean DISCORD_BOT_TOKEN",
        )
        .has("note", "configuration", "did you mean REDIS_URL");
    assert!(!outcome.table.contains("LITELLM_SALT_KEY"), "{}", outcome.table);
}

#[test]
fn the_usual_names_of_other_programs_are_named() {
    let elsewhere = [("DISCORD_TOKEN", "abc"), ("OPENAI_MODEL", "gpt-5-mini")];
    offline(&elsewhere).has(
        "note",
        "configuration",
        "DISCORD_TOKEN in the environment is not a variable of staffai; did you mean DISCORD_BOT_TOKEN?",
    );
    let outcome = offline(&[elsewhere[0], ("DISCORD_BOT_TOKEN", "a.b.c")]);
    assert!(
        !outcome.table.contains("DISCORD_TOKEN"),
        "ours is set, so that one is for another program: {}",
        outcome.table
    );
    assert!(!offline(&elsewhere).table.contains("OPENAI_MODEL"), "LITELLM_MODEL is set");
}

#[test]
fn a_default_of_the_slackbot_is_read_or_told() {
    let off = ("MCP_ENABLED_DEFAULT", "false");
    let outcome = offline(&[off, ("STAFFAI_MEMBERS__DEFAULTS", "language de")]);
    outcome.has("note", "configuration", "MCP_ENABLED_DEFAULT in the environment has no effect");
    offline(&[("MCP_ENABLED_DEFAULT", "perhaps")]).has("wrong", "configuration", "must be true or false");
    let outcome = offline(&[off, ("DISCORD_API_URL", NOWHERE), ("DISCORD_BOT_TOKEN", "t")]);
    assert!(outcome.code == 0 && !outcome.table.contains("MCP_ENABLED_DEFAULT"), "{}", outcome.table);
}

#[test]
fn a_row_over_plain_http_through_another_network_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let rows = r#"{"models": {"far": {"model_id": "x", "host": "http://api.example.com"}, "near": {"model_id": "y", "host": "http://ollama:11434"}}}"#;
    let file = folder.path().join("models.json");
    std::fs::write(&file, rows).unwrap();
    let outcome = offline(&[
        ("STAFFAI_MODELS", file.to_str().unwrap()),
        ("LITELLM_MODEL", "near"),
        ("DISCORD_API_URL", NOWHERE),
        ("DISCORD_BOT_TOKEN", "t"),
    ]);
    outcome.has("note", "model far", "plain http");
    assert!(outcome.code == 0 && !outcome.table.contains("model near"), "{}", outcome.table);
}

/// Writes a file of tool servers next to the bench, and returns the variables that servers need.
fn servers(bench: &Bench, entries: &str) -> [(&'static str, &'static str); 2] {
    std::fs::write(bench.folder.path().join("mcp.json"), format!(r#"{{"mcpServers": {{{entries}}}}}"#)).unwrap();
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("SERVER_KEY", "sk-the-key-of-a-server")]
}

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/servers/hostile.py");

#[tokio::test(flavor = "multi_thread")]
async fn each_tool_server_has_a_row_and_each_usual_mistake_its_fix() {
    let bench = Bench::start(|_| {}).await;
    let model = bench.model.base_url();
    let entries = format!(
        r#""well": {{"command": "python3", "args": ["{SERVER}", "well"], "env": {{"KEY": "${{SERVER_KEY}}"}}, "reuse_results": {{"echo": "1m", "eko": "1m"}}}},
        "missing": {{"command": "no-such-program"}},
        "lost": {{"command": "python3", "args": ["/no/such/file.py"]}},
        "crash": {{"command": "python3", "args": ["{SERVER}", "crash"]}},
        "unset": {{"command": "python3", "args": ["${{NO_SUCH_VARIABLE}}"]}},
        "closed": {{"url": "http://127.0.0.1:1/mcp"}},
        "other": {{"url": "{model}/nowhere"}},
        "plain": {{"url": "http://tools.example/mcp"}},
        "typo": {{"comand": "python3"}},
        "slip": {{"command": "python3", "allowed_tool": ["echo"]}},
        "off": {{"command": "python3", "enabled": false}}"#
    );
    let more = servers(&bench, &entries);
    let rules = r#"
        [tools]
        requires_confirmation = ["calculatr", "roll_*", "missing__any"]
        [[tools.rules]]
        tools = "wel__*"
        verdict = "deny"
        [[tools.rules]]
        tools = "well__ecko"
        verdict = "deny"
        [[tools.rules]]
        tools = "well__*"
        verdict = "auto""#;
    std::fs::write(bench.folder.path().join("staffai.toml"), rules).unwrap();
    let outcome = bench.check(&[], &more).await;
    outcome
        .has("ok", "mcp well", "tools of hostile 1")
        .has("note", "mcp well", "reuse_results has no effect for echo: it may change something")
        .has("note", "mcp well", "reuse_results: this server has no tool eko")
        .has("wrong", "mcp missing", "install it, or set command to its full path")
        .has("wrong", "mcp lost", "correct args and env of its entry")
        .has("wrong", "mcp crash", "API_KEY is not set")
        .has("wrong", "mcp unset", "the variable NO_SUCH_VARIABLE is not set; set it in .env")
        .has("wrong", "mcp closed", "start the server, or correct host and port of url")
        .has("wrong", "mcp other", "correct")
        .has("wrong", "mcp plain", "allow_http")
        .has("wrong", "mcp typo", "has neither a command nor a url")
        .has("wrong", "mcp slip", "allowed_tool is not known; did you mean allowed_tools? The server stays off")
        .has("note", "tool servers", "comand is not known; did you mean command?")
        .has("note", "tool rules", "rule 1: wel__*: there is no server wel; did you mean well?")
        .has("note", "tool rules", "rule 2: well__ecko matches no tool of well; did you mean well__echo?")
        .has("note", "tool rules", "tools.requires_confirmation: calculatr matches no tool; did you mean calculator?")
        .has("skipped", "mcp off", "disabled");
    assert_eq!(outcome.code, 1);
    assert!(!outcome.table.contains("sk-the-key") && !outcome.table.contains("rule 3"), "{}", outcome.table);
    let offline = bench.check(&["--offline"], &more).await;
    offline
        .has("skipped", "mcp well", "not contacted")
        .has("wrong", "mcp typo", "has neither")
        .has("wrong", "mcp missing", "install it, or set command to its full path")
        .has("wrong", "mcp plain", "allow_http")
        .has("note", "tool rules", "rule 1: wel__*: there is no server wel")
        .has("note", "tool rules", "calculatr matches no tool");
    for pattern in ["roll_", "missing__any", "well__ecko"] {
        assert!(!offline.table.contains(pattern), "what a server offers is not known: {}", offline.table);
    }
}

#[test]
fn mistakes_about_tools_are_found_without_contacting_a_service() {
    let outcome = offline(&[("STAFFAI_NATS_URL", "nats://me:pw@host:99999")]);
    outcome.has("wrong", "configuration", "with a port up to 65535");
    assert!(outcome.code == 1 && !outcome.table.contains("pw@"), "{}", outcome.table);
    let hosts = [
        ("STAFFAI_URL_EXTRACT__ENABLED", "true"),
        ("STAFFAI_URL_EXTRACT__ALLOW", "docs.example.org, other.example"),
        ("STAFFAI_URL_EXTRACT__DENY", "Example.org"),
    ];
    let words = "url_extract.allow has no effect on docs.example.org, because url_extract.deny has example.org";
    offline(&hosts).has("note", "url_extract", words);
}

/// Runs another command with the bench's files.
fn run(bench: &Bench, arguments: &[&str], more: &[(&str, &str)]) -> (i32, String) {
    let mut command = program(bench.folder.path());
    let output = command.args(arguments).env("LITELLM_MODEL", "demo").envs(more.iter().copied()).output().unwrap();
    (output.status.code().unwrap(), text(&output))
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_shown_called_and_added_by_hand() {
    let bench = Bench::start(|_| {}).await;
    let more = servers(&bench, "");
    let (code, told) =
        run(&bench, &["mcp", "add", "one", "--env", "KEY=${SERVER_KEY}", "--", "python3", SERVER, "well"], &more);
    assert!(code == 0 && told.contains("one works") && told.contains("echo"), "{told}");
    let file = std::fs::read_to_string(bench.folder.path().join("mcp.json")).unwrap();
    assert!(file.contains("${SERVER_KEY}") && !file.contains("sk-the-key"), "{file}");
    let (code, told) = run(&bench, &["mcp", "add", "my server", "--", "python3", SERVER, "well"], &more);
    assert!(code == 0 && told.contains("its name here is my-server"), "{told}");
    let file = std::fs::read_to_string(bench.folder.path().join("mcp.json")).unwrap();
    assert!(file.contains("\"my-server\": {"), "{file}");
    let (code, told) = run(&bench, &["mcp", "add", "one", "--url", "http://127.0.0.1:1/"], &more);
    assert!(code == 64 && told.contains("--replace"), "{told}");
    let (code, told) = run(&bench, &["mcp", "add", "two", "--", "no-such-program"], &more);
    assert!(code == 1 && told.contains("install it") && told.contains("nothing was written"), "{told}");
    let (code, told) = run(&bench, &["tools", "list"], &more);
    assert!(
        code == 0 && told.contains("one__echo (changes): does echo") && told.contains("roll_dice (reads)"),
        "{told}"
    );
    let (code, told) = run(&bench, &["tools", "show", "one__echo"], &more);
    assert!(code == 0 && told.contains("server one, where it is called echo") && told.contains("pin: "), "{told}");
    let (code, told) = run(&bench, &["tools", "call", "one__echo", r#"{"text": "hello"}"#], &more);
    assert!(code == 0 && told.contains("hello\n") && told.contains("done after"), "{told}");
    let (code, told) = run(&bench, &["tools", "call", "echo"], &more);
    assert!(code == 1 && told.contains("one__echo"), "{told}");

    let rules = r#"
        [[tools.rules]]
        tools = "one__*"
        roles = ["7"]
        verdict = "auto"
        [[tools.rules]]
        tools = "one__echo"
        users = ["13"]
        verdict = "deny""#;
    std::fs::write(bench.folder.path().join("staffai.toml"), rules).unwrap();
    let call = ["tools", "call", "one__echo", r#"{"text": "hello"}"#, "--as"];
    let (code, told) = run(&bench, &[&call[..], &["12", "--role", "7"]].concat(), &more);
    assert!(code == 0 && told.contains("auto, by rule 1 about one__*") && told.contains("hello\n"), "{told}");
    let (code, told) = run(&bench, &[&call[..], &["13", "--role", "7"]].concat(), &more);
    assert!(code == 1 && told.contains("not called: deny, by rule 2 about one__echo"), "{told}");
    for (option, wrong) in
        [(&["--as", "bob"][..], "--as bob"), (&["--as", "13", "--role", "staff"][..], "--role staff")]
    {
        let (code, told) = run(&bench, &[&["tools", "list"], option].concat(), &more);
        assert!(code == 64 && told.contains(&format!("{wrong}: must be a Discord id")), "{told}");
    }
    let (code, told) = run(&bench, &["tools", "call", "roll_dice"], &more);
    assert!(code == 64 && told.contains("invalid arguments: \"notation\" is a required property"), "{told}");
    let (_, told) = run(&bench, &["tools", "list", "--as", "13"], &more);
    assert!(told.contains("one__echo (changes) [deny]"), "{told}");
}
