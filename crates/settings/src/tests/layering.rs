//! The precedence of layers, and the meaning of each form of a value.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::super::address::secrets_of_address;
use super::super::edges::{DirectMessages, LogFormat, Shards};
use super::super::load;
use super::super::problem::Layer;
use super::super::sources::{Disk, Files as _, Sources};
use super::{bad, good, printed, settings, sources};
use domain::preferences::ToolUse;
use domain::tool::rights::Verdict;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// Adds one layer at a time; the newest must take precedence and be named.
#[test]
fn each_layer_wins_over_the_ones_before() {
    let toml = ("staffai.toml", "\n[rate_limiter]\nmessages = 2\n");
    let dotenv = (".env", "# x\nRATE_LIMIT_COUNT=3\nPOINTER=1\n");
    let secret = ("/run/secrets/rate_limit_count", "5\n");
    let far = ("elsewhere", " 6 ");
    let variable = ("RATE_LIMIT_COUNT", "4");
    let chooser = ("RATE_LIMIT_COUNT_FILE", "elsewhere");
    let steps: [(Pairs, Pairs, u32, &str); 6] = [
        (&[], &[], 15, "default"),
        (&[], &[toml], 2, "staffai.toml:3"),
        (&[], &[toml, dotenv], 3, "RATE_LIMIT_COUNT in .env:2"),
        (&[variable], &[toml, dotenv], 4, "RATE_LIMIT_COUNT in the environment"),
        (&[variable], &[toml, dotenv, secret], 5, "RATE_LIMIT_COUNT in /run/secrets/rate_limit_count"),
        (&[variable, chooser], &[toml, dotenv, secret, far], 6, "RATE_LIMIT_COUNT in elsewhere"),
    ];
    for (variables, files, messages, origin) in steps {
        let loaded = good(variables, files);
        assert_eq!(loaded.settings.rate_limiter.messages, messages);
        assert_eq!(loaded.origins["rate_limiter.messages"].to_string(), origin);
        assert_eq!(loaded.shown["rate_limiter.messages"], messages.to_string());
    }
    let last = sources(&[variable], &[secret]).with_option("rate_limiter.messages", "7");
    assert_eq!(load(&last).expect("fine").settings.rate_limiter.messages, 7);
}

#[test]
fn named_files_replace_the_usual_one_and_the_later_wins() {
    let files = [
        ("staffai.toml", "[turn]\nlane = 1\nopen = 1\nqueue = 1"),
        ("a.toml", "[turn]\nlane = 2\nopen = 2"),
        ("b.toml", "\u{feff}[turn]\r\nlane = 3\r\n"),
    ];
    let mut sources = sources(&[], &files);
    sources.config_files = vec![PathBuf::from("a.toml"), PathBuf::from("b.toml")];
    let turn = load(&sources).expect("fine").settings.turn;
    assert_eq!((turn.lane, turn.open, turn.queue), (3, 2, Duration::from_secs(600)));
}

#[test]
fn every_key_has_a_general_name() {
    let settings = settings(&[
        ("STAFFAI_TURN__LANE", "3"),
        ("STAFFAI_CATCH_UP__PER_CHANNEL", "7"),
        ("STAFFAI_BOTS__ALLOWED", "1, 2"),
        ("STAFFAI_TOOLS__RULES", "[{tools = \"fm__*\", verdict = \"ask\", approvers = [5]}]"),
    ]);
    assert_eq!((settings.turn.lane, settings.catch_up.per_channel), (3, 7));
    assert_eq!(settings.bots.allowed, ["1", "2"]);
    let rule = &settings.tools.rules[0];
    assert_eq!((rule.verdict, rule.approvers[0].as_str()), (Verdict::Ask, "5"));
    let files = [("pw", "k1,k2\n")];
    let loaded = good(&[("STAFFAI_HTTP__API_KEYS_FILE", "pw")], &files);
    assert_eq!(loaded.settings.http.api_keys.len(), 2);
    assert_eq!(loaded.warnings, [""; 0]);
}

#[test]
fn a_role_that_is_no_id_is_left_out_of_its_list_and_told() {
    let loaded = good(&[("SUPER_ROLE_IDS", "1,admin,2"), ("IGNORED_ROLE_IDS", "0")], &[]);
    assert_eq!(loaded.settings.members.super_roles, ["1", "2"]);
    assert_eq!(loaded.settings.members.ignored_roles, [""; 0]);
    let told = |key, id| format!("{key}: {id:?} is not a Discord id, which is a whole number; it is ignored");
    assert_eq!(loaded.warnings, [told("members.super_roles", "admin"), told("members.ignored_roles", "0")]);
}

#[test]
fn a_rule_for_another_door_has_ids_of_its_own_form() {
    let rules = "[{tools = \"x\", verdict = \"deny\", users = [\"U1\"], doors = [\"elsewhere\"]}]";
    assert_eq!(settings(&[("STAFFAI_TOOLS__RULES", rules)]).tools.rules[0].users, ["U1"]);
}

#[test]
fn openai_names_count_only_when_ours_are_not_set() {
    let openai = ("OPENAI_BASE_URL", "https://api.openai.com/v1/");
    let loaded = good(&[openai, ("OPENAI_API_KEY", "o")], &[("staffai.toml", "[llm]\nurl = \"http://file\"")]);
    assert_eq!(loaded.settings.llm.base_url(), "https://api.openai.com/v1");
    assert!(loaded.llm_configured());
    let loaded =
        good(&[openai, ("OPENAI_API_KEY", "o")], &[(".env", "LITELLM_API_URL=http://proxy\nLITELLM_API_KEY=l")]);
    assert_eq!(loaded.settings.llm.base_url(), "http://proxy/v1");
    assert_eq!(loaded.settings.llm.key.as_ref().map(ExposeSecret::expose_secret), Some("l"));
    assert!(!good(&[("OPENAI_API_KEY", "o")], &[]).llm_configured());
}

#[test]
fn an_empty_variable_is_not_set() {
    let loaded = good(&[("RATE_LIMIT_COUNT", " "), ("RESTRICTED_CHANNEL_ID", ""), ("LOG_LEVEL", "")], &[]);
    assert_eq!(loaded.settings.rate_limiter.messages, 15);
    assert_eq!(loaded.origins["restriction.channel"].layer, Layer::Default);
}

#[test]
fn values_have_several_forms() {
    for (text, seconds) in [("90", 90), ("30s", 30), ("5m", 300), ("1h30m", 5400), (" 2m ", 120)] {
        assert_eq!(settings(&[("RATE_LIMIT_WINDOW_SECONDS", text)]).rate_limiter.window.as_secs(), seconds);
    }
    for (text, flag) in [("True", true), ("t", true), ("1", true), ("False", false), ("0", false), ("off", false)] {
        assert_eq!(settings(&[("ACTIVITY_SCHEDULE_ENABLED", text)]).presence.schedule_enabled, flag);
    }
    let toml = "[members]\nsuper_roles = [\"1\", 2]\nignored_roles = \"03,4\"\n[report]\nchannel = 5\n[restriction]\nrole = \"0\"";
    let loaded = good(&[("DISCORD_SHARDS", "4"), ("LOG_FORMAT", "JSON")], &[("staffai.toml", toml)]).settings;
    assert_eq!(loaded.members.super_roles, ["1", "2"]);
    assert_eq!(loaded.members.ignored_roles, ["3", "4"]);
    assert_eq!((loaded.report.channel.as_deref(), loaded.restriction.role), (Some("5"), None));
    assert_eq!((loaded.discord.shards, loaded.log.format), (Shards::Count(4), LogFormat::Json));
    assert_eq!(settings(&[("REDIS_PASSWORD", "0123"), ("LITELLM_MODEL", "0123")]).llm.model.as_deref(), Some("0123"));
}

#[test]
fn role_limits_and_tool_rules_are_rows() {
    let toml = r#"
        [[rate_limiter.roles]]
        id = "77"
        messages = 30
        tokens = 40000
        [[tools.rules]]
        tools = "fm__*"
        operation = "write"
        roles = [1, "2"]
        verdict = "deny"
    "#;
    let settings = good(&[], &[("staffai.toml", toml)]).settings;
    assert_eq!((settings.rate_limiter.roles[0].id.as_str(), settings.rate_limiter.roles[0].tokens), ("77", 40_000));
    assert_eq!(
        (settings.tools.rules[0].verdict, settings.tools.rules[0].roles.join(" ")),
        (Verdict::Deny, "1 2".to_owned())
    );
}

#[test]
fn further_limits_are_rows_with_a_budget_for_each_cost() {
    let toml = r#"
        [[rate_limiter.limits]]
        scope = "channel"
        per = "24h"
        dollars = 2.5
        messages = 200
        channels = [42]
        [[rate_limiter.limits]]
        scope = "role"
        per = "1h"
        tokens = 9
        roles = [1, 2]
    "#;
    let budgets = good(&[], &[("staffai.toml", toml)]).settings.rate_limiter.budgets();
    let shown: Vec<_> = budgets.iter().map(|row| (row.scope.as_str(), row.cost.as_str(), row.limit)).collect();
    assert_eq!(shown, [("channel", "messages", 200), ("channel", "dollars", 2_500_000), ("role", "tokens", 9)]);
    assert_eq!((budgets[0].window, budgets[0].channels.clone()), (Duration::from_secs(86_400), vec!["42".to_owned()]));
    assert_eq!(budgets[2].roles, ["1", "2"]);
    for (row, wrong) in [
        ("scope = 'guild', per = '1h'", "row 1 sets no limit; set messages, tokens, dollars or calls"),
        (
            "scope = 'tool', per = '1h', tokens = 1",
            "row 1 has the scope tool, which counts calls only; remove messages, tokens and dollars",
        ),
        (
            "scope = 'guild', per = '1h', tokens = 1, tools = ['x']",
            "row 1 has tools, which apply to calls only; remove messages, tokens and dollars",
        ),
        ("scope = 'role', per = '1h', tokens = 1", "row 1 has the scope role, which needs roles"),
        ("scope = 'guild', per = '32d', tokens = 1", "row 1 per must be whole seconds, from 1s to 31d"),
        ("scope = 'guild', per = '1h', dollars = -1", "row 1 dollars must be from 0 to 1000000"),
        ("scope = 'role', per = '1h', tokens = 1, roles = ['x']", "roles and channels must be Discord ids"),
    ] {
        let toml = format!("[rate_limiter]\nlimits = [{{{row}}}]\n");
        let lines = bad(&[], &[("staffai.toml", &toml)]);
        assert!(lines.len() == 1 && lines[0].contains(wrong), "{lines:?}");
    }
}

#[test]
fn what_is_no_regular_file_is_named_and_never_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [&*pipe, Path::new("/dev/zero"), folder.path()] {
        let shown = path.to_str().unwrap();
        let disk = || Sources { files: Arc::new(Disk), ..sources(&[("DISCORD_BOT_TOKEN_FILE", shown)], &[]) };
        let named = Sources { config_files: vec![path.to_owned()], ..disk() };
        for (sources, key) in [(disk(), "discord.token"), (named, shown)] {
            let lines = printed(&sources);
            let names = |line: &String| line.starts_with(key) && line.contains("it is no regular file");
            assert!(lines.iter().any(names), "{key}: {lines:?}");
        }
    }
    std::os::unix::fs::symlink("token", folder.path().join("link")).unwrap();
    std::fs::write(folder.path().join("token"), "text").unwrap();
    assert_eq!(Disk.read(&folder.path().join("link")).unwrap(), "text", "a link leads to its file");
}

#[test]
fn the_playground_leaves_the_real_discord_and_redis_out() {
    let variables = [
        ("DISCORD_BOT_TOKEN", "real"),
        ("DISCORD_API_URL", "not an address"),
        ("REDIS_URL", "redis://real"),
        ("STAFFAI_REDIS__PORT", "many"),
        ("STAFFAI_MCP_CONFIG", "mine.json"),
        ("RATE_LIMIT_COUNT", "3"),
    ];
    let files = [
        ("staffai.toml", "[discord]\ntoken = \"real\"\n[redis]\nhost = \"real\"\n[turn]\nlane = 3"),
        ("/run/secrets/discord_bot_token", "real"),
        (".env", "REDIS_PORT=1\n"),
    ];
    let loaded = load(&sources(&variables, &files).for_playground()).expect("ignored settings cause no error");
    let settings = &loaded.settings;
    assert!(settings.discord.token.is_none() && settings.redis.address().is_none());
    assert_eq!(settings.discord.api_url, "https://discord.com");
    assert_eq!((settings.rate_limiter.messages, settings.turn.lane), (3, 3));
    assert_eq!(settings.store.dir, PathBuf::from("data/playground"));
    assert_eq!((settings.tools.mcp_config.clone(), loaded.llm_configured()), (None, false));
    let ignored = "DISCORD_API_URL, DISCORD_BOT_TOKEN, REDIS_PORT, REDIS_URL, STAFFAI_MCP_CONFIG, STAFFAI_REDIS__PORT, \
                   discord.token, redis.host";
    assert_eq!(loaded.warnings, [format!("the playground ignores {ignored}")]);
    let servers = load(&sources(&[], &[("mcp.json", "{}")]).for_playground()).expect("the file is not read");
    let (discord, limits) = (&servers.settings.discord, &servers.settings.rate_limiter);
    assert_eq!(discord.direct_messages, DirectMessages::Answer);
    assert_eq!((limits.messages, limits.tokens), (30, 1_000_000), "generous unless the operator sets them");
    assert_eq!(servers.origins["rate_limiter.tokens"].layer, Layer::Default);
    assert_eq!(servers.warnings, ["the playground ignores mcp.json"]);
}

#[test]
fn a_slip_in_any_name_is_named_where_it_is() {
    let dotenv =
        "DISCORD_BOT_TOKEN_FIEL=x\nLITELLM_MODLE=gpt\nRATE_LIMIT_COUNTS=3\nSOMETHING_ELSE=1\nCOMPOSE_PROJECT_NAME=y\n";
    let loaded = good(&[("REDIS_URI", "redis://db"), ("HOME", "/root"), ("LOGNAME", "me")], &[(".env", dotenv)]);
    let named = |wrong: &str, place: &str, right: &str| {
        format!("{wrong} in {place} is not a variable of staffai; did you mean {right}?")
    };
    let wanted = [
        named("DISCORD_BOT_TOKEN_FIEL", ".env", "DISCORD_BOT_TOKEN_FILE"),
        named("LITELLM_MODLE", ".env", "LITELLM_MODEL"),
        named("RATE_LIMIT_COUNTS", ".env", "RATE_LIMIT_COUNT"),
        named("REDIS_URI", "the environment", "REDIS_URL"),
    ];
    assert_eq!(loaded.warnings, wanted);
}

#[test]
fn a_secret_address_is_shown_without_its_login() {
    let loaded =
        good(&[("REDIS_URL", "redis://:hunter22@db:6379/0"), ("STAFFAI_NATS_URL", "nats://:hunter22@bus")], &[]);
    assert_eq!(loaded.shown["redis.url"], "redis://***@db:6379/0");
    assert_eq!(loaded.shown["tools.nats_url"], "nats://***@bus");
    let secrets = |address: &str| -> Vec<String> {
        let secrets = secrets_of_address(&address.into());
        secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect()
    };
    assert_eq!(secrets("redis://db:6379/0"), [""; 0]);
    assert!(secrets("redis://me:p%40ss@db/0").contains(&"p@ss".to_owned()));
    assert!(secrets("redis://me:p%40ss@db/0").contains(&"p%40ss".to_owned()));
    assert!(secrets("nats://token@host").contains(&"token".to_owned()));
    assert!(secrets("redis-cluster://:one@a:1,:two@b:2").iter().any(|secret| secret == "two"));
    assert!(!secrets("redis://me:secret@db:6379/0").iter().any(|secret| secret.contains("db")));
}

#[test]
fn plain_http_to_another_network_is_warned_of() {
    for (url, warned) in [
        ("http://localhost:4000", false),
        ("http://litellm:4000", false),
        ("http://10.1.2.3:4000", false),
        ("http://models.default.svc.cluster.local", false),
        ("https://api.example.com", false),
        ("http://api.example.com", true),
        ("http://93.184.216.34", true),
        ("http://[2606:2800::1]:4000", true),
    ] {
        let warnings = good(&[("LITELLM_API_URL", url)], &[]).warnings;
        assert_eq!(warnings.iter().any(|text| text.contains("plain http")), warned, "{url}: {warnings:?}");
    }
}

#[test]
fn other_files_can_ask_for_any_variable() {
    let files = [(".env", "A=dotenv\nB=dotenv\n"), ("/run/secrets/c", "secret\n"), ("d.txt", "file\n")];
    let loaded = good(&[("A", "environment"), ("C", "environment"), ("D_FILE", "d.txt"), ("E", "")], &files);
    let got = ["A", "B", "C", "D", "E", "../../d.txt"].map(|name| loaded.variables.get(name));
    let got = got.each_ref().map(|value| value.as_ref().map(ExposeSecret::expose_secret));
    assert_eq!(got, [Some("environment"), Some("dotenv"), Some("secret"), Some("file"), None, None]);
}

#[test]
fn warnings_do_not_stop() {
    let variables = [
        ("REDIS_PORT", "6380"),
        ("STAFFAI_TURN__LAEN", "3"),
        ("LOG_LEVEL", "LOUD"),
        ("ACTIVITY_ACTIVE_DAYS_UTC", "Mon-Fri"),
        ("STAFFAI_MCP_CONFIG", "a.json"),
        ("MCP_CONFIG_PATH", "b.json"),
        ("STAFFAI_DRAIN_SECONDS", "30"),
        ("RATE_LIMIT_MESSAGE_USER", "wait {minutes}"),
        ("RESTRICTED_CHANNEL_ID", "5"),
    ];
    let loaded = good(&variables, &[(".env", "nonsense\n")]);
    assert_eq!(loaded.settings.log.level, "info");
    assert_eq!(loaded.settings.presence.days.len(), 7);
    let expected = [
        ".env:1 is ignored: it contains no =",
        "STAFFAI_TURN__LAEN in the environment is not a variable of staffai; did you mean STAFFAI_TURN__LANE?",
        "STAFFAI_MCP_CONFIG and MCP_CONFIG_PATH differ; STAFFAI_MCP_CONFIG is used",
        "presence.days (ACTIVITY_ACTIVE_DAYS_UTC in the environment) must be a list of days from 0 (Monday) to 6 (Sunday); the default is used",
        "restriction.channel has no effect without restriction.role (RESTRICTED_USER_ROLE_ID)",
        "drain.timeout is not below 30s, after which container runtimes kill the process; lower it",
        "tools.mcp_config: a.json cannot be read; no MCP server comes from it",
        "REDIS_PORT set without REDIS_URL or REDIS_HOST: the embedded store in data is used",
        "rate_limiter.notice has {minutes}, which is no placeholder and is posted as written; placeholders: {channel_id} {user} {until} {retry_at}",
        "log.level must be debug, info, warning, error, critical or a filter such as info,staffai=debug; info is used",
    ];
    assert_eq!(loaded.warnings, expected);
}

#[test]
fn the_default_of_the_slackbot_for_tool_servers_is_a_default_of_members() {
    let name = "MCP_ENABLED_DEFAULT";
    let dotenv = (".env", "MCP_ENABLED_DEFAULT=false # no servers\n");
    for (variables, files, origin) in [
        (&[(name, "False")][..], &[][..], "MCP_ENABLED_DEFAULT in the environment"),
        (&[], &[dotenv], "MCP_ENABLED_DEFAULT in .env:1"),
        (&[(name, "0")], &[(".env", "MCP_ENABLED_DEFAULT=true\n")], "MCP_ENABLED_DEFAULT in the environment"),
    ] {
        let loaded = good(variables, files);
        assert_eq!(loaded.settings.members.defaults.tools, Some(ToolUse::BuiltIn));
        assert_eq!(loaded.origins["members.defaults"].to_string(), origin);
        assert_eq!(loaded.warnings, Vec::<String>::new());
    }
    for files in [&[(".env", "MCP_ENABLED_DEFAULT=true\n")][..], &[(".env", "MCP_ENABLED_DEFAULT=\n")]] {
        assert!(good(&[], files).settings.members.defaults.is_empty());
    }
    for own in [
        (".env", "STAFFAI_MEMBERS__DEFAULTS=language de\n"),
        ("staffai.toml", "[members]\ndefaults = ['language de']\n"),
    ] {
        let loaded = good(&[(name, "false")], &[own]);
        assert_eq!((loaded.settings.members.defaults.tools, loaded.warnings.len()), (None, 1), "{:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains("list \"tools built_in\" there"), "{:?}", loaded.warnings);
    }
    let wrong = "members.defaults (MCP_ENABLED_DEFAULT in the environment): must be true or false";
    assert_eq!(bad(&[(name, "perhaps")], &[]), [wrong]);
}

#[test]
fn a_copy_of_the_defaults_as_a_file_means_what_no_file_means() {
    let variables = [("DISCORD_BOT_TOKEN", "t"), ("LITELLM_MODEL", "m")];
    let copied = good(&variables, &[("staffai.toml", crate::defaults::DEFAULT_TOML)]);
    let without = good(&variables, &[]);
    assert_eq!(copied.warnings, without.warnings);
    assert_eq!((&copied.shown, &copied.origins), (&without.shown, &without.origins));
    assert!(!copied.llm_configured());
    // A changed path must exist.
    let changed = crate::defaults::DEFAULT_TOML.replace("\"response_schema.json\"", "\"other.json\"");
    assert!(
        bad(&variables, &[("staffai.toml", &changed)])[0].starts_with("llm.schema = \"other.json\" (staffai.toml:")
    );
}
