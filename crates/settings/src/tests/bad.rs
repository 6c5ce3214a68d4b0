//! Invalid configurations: each mistake is found, named with its place, and hides no other.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::env::VARIABLES;
use super::super::layers::gather;
use super::super::load;
use super::super::sources::{Disk, Files};
use super::{bad, good, printed, settings, sources};

/// A variable with an invalid value, and the expected line.
const BAD_VALUES: &[(&str, &str, &str)] = &[
    (
        "STAFFAI_CLUSTER__RANGES",
        "0",
        "cluster.ranges = \"0\" (STAFFAI_CLUSTER__RANGES in the environment): must be a whole number from 1 to 256",
    ),
    (
        "STAFFAI_CLUSTER__RANGES",
        "2",
        "cluster.ranges = \"2\" (STAFFAI_CLUSTER__RANGES in the environment): above 1 needs a store that several processes share; set REDIS_URL, or set it to 1",
    ),
    (
        "RATE_LIMIT_COUNT",
        "many",
        "rate_limiter.messages = \"many\" (RATE_LIMIT_COUNT in the environment): must be a whole number from 0 to 4294967295",
    ),
    (
        "RATE_LIMIT_COUNT",
        "-1",
        "rate_limiter.messages = \"-1\" (RATE_LIMIT_COUNT in the environment): must be a whole number from 0 to 4294967295",
    ),
    (
        "RATE_LIMIT_COUNT",
        "99999999999",
        "rate_limiter.messages = \"99999999999\" (RATE_LIMIT_COUNT in the environment): must be a whole number from 0 to 4294967295",
    ),
    (
        "RATE_LIMIT_COUNT",
        "1.5",
        "rate_limiter.messages = \"1.5\" (RATE_LIMIT_COUNT in the environment): must be a whole number from 0 to 4294967295",
    ),
    (
        "RATE_LIMIT_WINDOW_SECONDS",
        "0",
        "rate_limiter.window = \"0\" (RATE_LIMIT_WINDOW_SECONDS in the environment): must be a duration above 0, such as 30s, 5m, 1h30m, or plain seconds",
    ),
    (
        "RATE_LIMIT_WINDOW_SECONDS",
        "a while",
        "rate_limiter.window = \"a while\" (RATE_LIMIT_WINDOW_SECONDS in the environment): must be a duration above 0, such as 30s, 5m, 1h30m, or plain seconds",
    ),
    (
        "CONTEXT_HISTORY_TTL_SECONDS",
        "18446744073709551615",
        "history.ttl = \"18446744073709551615\" (CONTEXT_HISTORY_TTL_SECONDS in the environment): must be a duration such as 30s, 5m, 1h30m, or plain seconds",
    ),
    (
        "RESPONSE_CHANCE",
        "5",
        "interjection.response_chance = \"5\" (RESPONSE_CHANCE in the environment): must be a probability from 0 to 1, such as 0.05",
    ),
    (
        "RESPONSE_CHANCE",
        "NaN",
        "interjection.response_chance = \"NaN\" (RESPONSE_CHANCE in the environment): must be a probability from 0 to 1, such as 0.05",
    ),
    (
        "RESPONSE_CHANCE",
        "5%",
        "interjection.response_chance = \"5%\" (RESPONSE_CHANCE in the environment): must be a probability from 0 to 1, such as 0.05",
    ),
    (
        "REDIS_PORT",
        "65536",
        "redis.port = \"65536\" (REDIS_PORT in the environment): must be a whole number from 0 to 65535",
    ),
    (
        "STAFFAI_BOTS__ALLOWED",
        "1,admin",
        "bots.allowed = \"1,admin\" (STAFFAI_BOTS__ALLOWED in the environment): must be a comma-separated list of Discord ids, which are whole numbers",
    ),
    (
        "STAFFAI_TOOLS__RULES",
        "[{tools = \"x\", verdict = \"ask\", users = [\"U1\"]}]",
        "tools.rules = \"[{tools = \\\"x\\\", verdict = \\\"ask\\\", users = [\\\"U1\\\"]}]\" (STAFFAI_TOOLS__RULES in the environment): roles, users, channels, except and approvers must be Discord ids, which are whole numbers; a rule for other doors names them in doors",
    ),
    (
        "RESTRICTED_CHANNEL_ID",
        "#jail",
        "restriction.channel = \"#jail\" (RESTRICTED_CHANNEL_ID in the environment): must be a Discord id, which is a whole number",
    ),
    (
        "ACTIVITY_ACTIVE_END_HOUR_UTC",
        "25",
        "presence.end_hour = \"25\" (ACTIVITY_ACTIVE_END_HOUR_UTC in the environment): must be an hour from 0 to 24",
    ),
    (
        "ACTIVITY_ACTIVE_START_HOUR_UTC",
        "24",
        "presence.start_hour = \"24\" (ACTIVITY_ACTIVE_START_HOUR_UTC in the environment): must be an hour from 0 to 23",
    ),
    (
        "ACTIVITY_SCHEDULE_ENABLED",
        "maybe",
        "presence.schedule_enabled = \"maybe\" (ACTIVITY_SCHEDULE_ENABLED in the environment): must be true or false",
    ),
    (
        "LITELLM_API_URL",
        "litellm:4000",
        "llm.url = \"litellm:4000\" (LITELLM_API_URL in the environment): must be an address such as https://host or http://host:port/path",
    ),
    (
        "LITELLM_API_URL",
        "ftp://me:hunter2@x",
        "llm.url = \"ftp://***@x\" (LITELLM_API_URL in the environment): must be an address such as https://host or http://host:port/path",
    ),
    (
        "DISCORD_SHARDS",
        "0",
        "discord.shards = \"0\" (DISCORD_SHARDS in the environment): must be auto, or a number of shards from 1",
    ),
    ("LOG_FORMAT", "xml", "log.format = \"xml\" (LOG_FORMAT in the environment): must be json, pretty or auto"),
    (
        "STAFFAI_DISCORD__DIRECT_MESSAGES",
        "maybe",
        "discord.direct_messages = \"maybe\" (STAFFAI_DISCORD__DIRECT_MESSAGES in the environment): must be ignore or answer",
    ),
    (
        "STAFFAI_DISCORD__ALLOWED_MENTIONS",
        "users, everyone",
        "discord.allowed_mentions = \"users, everyone\" (STAFFAI_DISCORD__ALLOWED_MENTIONS in the environment): must be a comma-separated list of replied_user and users, or empty",
    ),
    (
        "STAFFAI_HTTP_ADDR",
        "8420",
        "http.addr = \"8420\" (STAFFAI_HTTP_ADDR in the environment): must be an address and port such as 127.0.0.1:8420 or 0.0.0.0:8420",
    ),
    (
        "STAFFAI_TURN__OPEN",
        "0",
        "turn.open = \"0\" (STAFFAI_TURN__OPEN in the environment): must be a whole number, 1 or more",
    ),
    (
        "RESTRICTION_CHECK_INTERVAL_SECONDS",
        "-5",
        "restriction.check_interval = \"-5\" (RESTRICTION_CHECK_INTERVAL_SECONDS in the environment): must be above 0 if restriction.duration is above 0, or restrictions never end",
    ),
    (
        "STAFFAI_PROMPTS_DIR",
        "/nowhere",
        "prompts.dir = \"/nowhere\" (STAFFAI_PROMPTS_DIR in the environment): cannot be read (entity not found); correct the path, or unset it for the built-in default",
    ),
    (
        "STAFFAI_RESPONSE_SCHEMA",
        "response_schema.json",
        "llm.schema = \"response_schema.json\" (STAFFAI_RESPONSE_SCHEMA in the environment): cannot be read (entity not found); correct the path, or unset it for the built-in default",
    ),
    (
        "STAFFAI_MODELS",
        "m.json",
        "llm.models = \"m.json\" (STAFFAI_MODELS in the environment): cannot be read (entity not found); correct the path, or unset it for the built-in default",
    ),
    (
        "BASE_ACTIVITY_SYSTEM_PROMPT_PATH",
        "x.txt",
        "presence.prompt = \"x.txt\" (BASE_ACTIVITY_SYSTEM_PROMPT_PATH in the environment): cannot be read; correct the path, or unset it for the one in prompts.dir",
    ),
    (
        "REDIS_URL",
        "hunter2",
        "redis.url (REDIS_URL in the environment): must be an address such as redis://:password@host:6379/0",
    ),
    (
        "DISCORD_BOT_TOKEN_FILE",
        "/gone",
        "discord.token (DISCORD_BOT_TOKEN_FILE): the file /gone cannot be read (entity not found)",
    ),
    (
        "DISCORD_API_URL",
        "http://proxy.example",
        "discord.api_url = \"http://proxy.example\" (DISCORD_API_URL in the environment): must be https, or the token is sent unencrypted; DISCORD_ALLOW_INSECURE=true allows it for a proxy you trust",
    ),
];

#[test]
fn each_bad_value_is_one_line_with_place_and_fix() {
    for (name, value, expected) in BAD_VALUES {
        assert_eq!(bad(&[(name, value)], &[]), [*expected]);
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let toml = "[turn]\nlaen = 3\nopen = \"lots\"\n[weather]\nx = 1\n[llm]\ntimeout = true\n";
    let variables = [("RESPONSE_CHANCE", "2"), ("STAFFAI_MODELS", "gone.json"), ("LITELLM_API_KEY_FILE", "gone")];
    let lines = bad(&variables, &[("staffai.toml", toml), (".env", "A=1\nREDIS_DB=x\n")]);
    let expected = [
        "interjection.response_chance = \"2\" (RESPONSE_CHANCE in the environment): must be a probability from 0 to 1, such as 0.05",
        "llm.key (LITELLM_API_KEY_FILE): the file gone cannot be read (entity not found)",
        "llm.models = \"gone.json\" (STAFFAI_MODELS in the environment): cannot be read (entity not found); correct the path, or unset it for the built-in default",
        "llm.timeout = \"true\" (staffai.toml:7): must be a duration above 0, such as 30s, 5m, 1h30m, or plain seconds",
        "redis.db = \"x\" (REDIS_DB in .env:2): must be a whole number from 0 to 4294967295",
        "turn.laen (staffai.toml:2): the key does not exist; did you mean turn.lane?",
        "turn.open = \"lots\" (staffai.toml:3): must be a whole number, 1 or more",
        "weather (staffai.toml:4): the key does not exist; `staffai config` lists all keys",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn broken_files_are_named_with_line_and_without_their_text() {
    let lines = bad(&[], &[("staffai.toml", "[discord]\ntoken = \"hunter2\n")]);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("staffai.toml (staffai.toml:2): is not valid TOML: "), "{}", lines[0]);
    assert!(!lines[0].contains("hunter2"));
    let twice = bad(&[], &[("staffai.toml", "[turn]\nlane = 1\nlane = 2\n")]);
    assert!(twice[0].starts_with("staffai.toml (staffai.toml:3): is not valid TOML: duplicate key"), "{}", twice[0]);
}

#[test]
fn sections_and_keys_of_the_wrong_shape_are_refused() {
    let toml = "turn = 3\n[llm.timeout]\nseconds = 3\n[[tools.rules]]\ntools = \"x\"\nverdict = \"perhaps\"\n[rate_limiter]\nroles = [{id = 1}]\n";
    let expected = [
        "llm.timeout (staffai.toml:2): must be a duration above 0, such as 30s, 5m, 1h30m, or plain seconds",
        "rate_limiter.roles (staffai.toml:8): row 1: messages is missing; add it",
        "tools.rules (staffai.toml:4): row 1: verdict: must be auto, ask or deny",
        "turn (staffai.toml:1): is a section; write [turn] and its keys below",
    ];
    assert_eq!(bad(&[], &[("staffai.toml", toml)]), expected);
}

#[test]
fn the_source_of_a_voice_is_an_endpoint_or_a_command() {
    for (row, fix) in [
        ("kind = 'flute'", "speech.voices (staffai.toml:1): row 1: kind: write openai or command"),
        (
            "kind = 'command'",
            "speech.voices (staffai.toml:1): row 1: kind: it has no command; set command = [\"espeak-ng\"",
        ),
        ("voice = 'alloy'", "speech.voices (staffai.toml:1): row 1: kind is missing; add it"),
    ] {
        let lines = bad(&[], &[("staffai.toml", &format!("[[speech.voices]]\n{row}\n"))]);
        assert!(lines.len() == 1 && lines[0].starts_with(fix), "{lines:?}");
    }
}

#[test]
fn a_named_file_must_be_there() {
    let mut sources = sources(&[], &[]);
    sources.config_files = vec![PathBuf::from("mine.toml")];
    let expected = ["mine.toml (--config): cannot be read (entity not found); name a readable TOML file"];
    assert_eq!(printed(&sources), expected);
}

#[test]
fn a_secret_is_never_in_a_message() {
    let variables = [
        ("STAFFAI_DISCORD__TOKEN", "hunter2"),
        ("REDIS_URL", "hunter2"),
        ("STAFFAI_NATS_URL", "hunter2"),
        ("RATE_LIMIT_COUNT", "x"),
    ];
    let toml = "[discord]\ntoken = [\"hunter2\"]\n[http]\napi_keys = { a = \"hunter2\" }\n[llm]\nkey = [\"hunter2\"]\n";
    let problems = load(&sources(&variables, &[("staffai.toml", toml)])).expect_err("several are wrong");
    let text = format!("{problems:?}");
    assert!(!text.contains("hunter2"), "{text}");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["http.api_keys", "llm.key", "rate_limiter.messages", "redis.url", "tools.nats_url"]);
}

#[test]
fn plain_http_to_discord_is_for_this_machine_or_on_request() {
    for local in ["http://localhost:1", "http://127.0.0.1:1/", "http://127.9.9.9", "http://[::1]:1"] {
        assert_eq!(settings(&[("DISCORD_API_URL", local)]).discord.api_url, local.trim_end_matches('/'));
    }
    for remote in ["http://localhost.example", "http://10.0.0.1", "http://127.0.0.1.example", "http://[::2]"] {
        assert_eq!(bad(&[("DISCORD_API_URL", remote)], &[]).len(), 1, "{remote}");
        let allowed = good(&[("DISCORD_API_URL", remote), ("DISCORD_ALLOW_INSECURE", "true")], &[]);
        assert_eq!(allowed.settings.discord.api_url, remote);
    }
}

#[test]
fn each_address_is_listened_on_once_and_sites_have_no_path() {
    for twice in ["127.0.0.1:8420", "127.0.0.1:11434,127.0.0.1:11434", "nowhere"] {
        assert_eq!(bad(&[("STAFFAI_HTTP__LISTENERS", twice)], &[]).len(), 1, "{twice}");
    }
    let both = good(&[("STAFFAI_HTTP__LISTENERS", "localhost:11434, 127.0.0.1:8767")], &[]);
    assert_eq!(both.settings.http.listeners.len(), 2);
    for wrong in ["chat.example", "https://chat.example/path", "https://"] {
        assert_eq!(bad(&[("STAFFAI_HTTP__ORIGINS", wrong)], &[]).len(), 1, "{wrong}");
    }
    assert_eq!(settings(&[("STAFFAI_HTTP__ORIGINS", "https://chat.example,*")]).http.origins.len(), 2);
}

#[test]
fn a_process_is_reached_at_one_host_and_port() {
    for right in ["10.0.0.5:8420", "bot-1.internal:8420", "[fd00::5]:8420", "127.0.0.1:8420"] {
        assert_eq!(settings(&[("STAFFAI_CLUSTER__ADDRESS", right)]).cluster.address.as_deref(), Some(right));
    }
    assert_eq!(settings(&[("STAFFAI_CLUSTER__ADDRESS", "")]).cluster.address, None);
    let redis = ("REDIS_URL", "redis://db:6379");
    for (address, more, warned) in [
        ("10.0.0.5:8420", &[][..], Some("without Redis")),
        ("10.0.0.5:8420", &[redis], Some("for this machine alone")),
        ("10.0.0.5:8420", &[redis, ("STAFFAI_HTTP_ADDR", "0.0.0.0:8420")], None),
        ("127.0.0.1:8420", &[redis], None),
    ] {
        let loaded = good(&[&[("STAFFAI_CLUSTER__ADDRESS", address)], more].concat(), &[]);
        let told = loaded.warnings.iter().find(|text| text.contains("cluster.address"));
        assert_eq!(told.is_some(), warned.is_some(), "{told:?}");
        assert!(told.is_none_or(|told| told.contains(warned.unwrap_or_default())), "{told:?}");
    }
    for wrong in
        ["10.0.0.5", "0.0.0.0:8420", "[::]:8420", "host:0", "host:99999", "fd00::5:8420", "me@host:1", "http://a:1"]
    {
        assert_eq!(bad(&[("STAFFAI_CLUSTER__ADDRESS", wrong)], &[]).len(), 1, "{wrong}");
    }
}

#[test]
fn a_run_needs_a_token_and_a_model_and_says_both() {
    let missing = settings(&[]).require_for_run();
    let places: Vec<&str> = missing.iter().map(|problem| problem.place.as_str()).collect();
    assert_eq!(places, ["DISCORD_BOT_TOKEN", "LITELLM_MODEL"]);
    assert!(missing[0].to_string().contains("staffai playground"));
    let token = format!("{}.GaBcDe.{}", "MTIzNDU2Nzg5MDEyMzQ1Njc4", "x".repeat(38));
    assert_eq!(settings(&[("DISCORD_BOT_TOKEN", &token), ("LITELLM_MODEL", "m")]).require_for_run(), []);
}

#[test]
fn a_token_of_a_wrong_form_is_named_but_not_shown() {
    let mistakes = |token: &str, more: &[(&str, &str)]| {
        let variables = [&[("DISCORD_BOT_TOKEN", token), ("LITELLM_MODEL", "m")], more].concat();
        settings(&variables).require_for_run()
    };
    let elsewhere = [("DISCORD_API_URL", "http://127.0.0.1:1")];
    for (token, more, words) in [
        ("abc", &[][..], "three parts"),
        ("a..c", &[], "three parts"),
        ("Bot hunter22.a.b", &[], "begins with"),
        ("bot hunter22", &elsewhere, "begins with"),
        ("hunter22 abc", &elsewhere, "contains a space"),
    ] {
        let found = mistakes(token, more);
        let [mistake] = &found[..] else { panic!("{token}: {found:?}") };
        let text = mistake.to_string();
        assert!(text.starts_with("discord.token (DISCORD_BOT_TOKEN): ") && text.contains(words), "{text}");
        assert!(!text.contains("hunter22"), "{text}");
    }
    assert_eq!(mistakes("token-of-another-service", &elsewhere), []);
}

#[test]
fn a_weaker_bad_value_does_not_matter() {
    let toml = ("staffai.toml", "[rate_limiter]\nmessages = \"many\"\n");
    assert_eq!(good(&[("RATE_LIMIT_COUNT", "4")], &[toml]).settings.rate_limiter.messages, 4);
}

/// The disk with another working directory, so that a developer's own `.env` is not read.
struct Below(PathBuf);

impl Files for Below {
    fn read(&self, path: &Path) -> std::io::Result<String> {
        Disk.read(&self.0.join(path))
    }

    fn probe(&self, path: &Path) -> std::io::Result<()> {
        Disk.probe(&self.0.join(path))
    }
}

#[test]
fn the_real_disk_is_read_with_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let small = file("fine.toml", "[turn]\nlane = 3\n");
    let huge = file("huge.toml", &"#".repeat(1024 * 1024 + 1));
    let mut sources = sources(&[("STAFFAI_PROMPTS_DIR", &folder.path().display().to_string())], &[]);
    sources.files = std::sync::Arc::new(Below(folder.path().to_owned()));
    sources.config_files = vec![small];
    assert_eq!(load(&sources).expect("fine").settings.turn.lane, 3);
    sources.config_files = vec![huge, folder.path().join("gone.toml")];
    let lines = printed(&sources);
    assert!(lines.len() == 2 && lines[1].contains("larger than 1 MiB"), "{lines:?}");
}

proptest! {
    #[test]
    fn no_text_whatever_makes_it_panic(
        dotenv in "(export )?[A-Z]{0,3} ?=? ?['\"]?(\\PC|[\\\\$\\{\\}#\n\r'\" ]){0,30}",
        toml in "(\\[(llm|turn|tools)\\]\n)?(url|lane|rules) ?=? ?(\\PC|\n){0,30}",
        value in "\\PC{0,30}",
        row in 0..VARIABLES.len(),
    ) {
        let _ = load(&sources(&[(VARIABLES[row].name, &value)], &[(".env", &dotenv), ("staffai.toml", &toml)]));
    }
}

#[test]
fn any_file_costs_in_proportion_to_its_length() {
    let files = |size: usize| {
        vec![
            (0..size / 16).map(|key| format!("unknown_{key} = 1\n")).collect::<Vec<_>>().concat(),
            (0..size / 16).map(|key| format!("[section_{key}]\n")).collect::<Vec<_>>().concat(),
            "[limits]\n".repeat(size / 9),
            "broken line\n".repeat(size / 12),
            format!("a = {}", "[".repeat(size)),
            format!("a = \"{}", "x".repeat(size)),
            format!("{}x = 1", "a.".repeat(size / 2)),
        ]
    };
    cost::grows_linearly(1024, files, |files| {
        for file in &files {
            drop(gather(&sources(&[], &[("staffai.toml", file)])));
        }
    });
}
