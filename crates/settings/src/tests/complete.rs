//! Completeness of keys, structs, names, descriptions, the example, and the Python bot's variables.

use std::collections::BTreeSet;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::super::defaults::{DEFAULT_TOML, entries};
use super::super::edges::{AllowedMentions, DirectMessages, LogFormat, Shards};
use super::super::env::{VARIABLES, general_name};
use super::super::problem::Layer;
use super::super::{Settings, show};
use super::{example, good, settings};

#[derive(Debug)]
struct Stop(Vec<&'static str>);

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
impl std::error::Error for Stop {}
impl Error for Stop {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        panic!("{message}")
    }
}

/// Returns each requested struct as the list of its fields.
struct FieldsOf(Option<&'static str>);

impl<'de> Deserializer<'de> for FieldsOf {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
        panic!("a section should be a struct")
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        match self.0 {
            Some(section) => visitor.visit_map(Only(Some(section))),
            None => Err(Stop(fields.to_vec())),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Only(Option<&'static str>);

impl<'de> MapAccess<'de> for Only {
    type Error = Stop;

    fn next_key_seed<K: serde::de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        let key = self.0.take().expect("asked for one section only");
        seed.deserialize(serde::de::value::StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: serde::de::DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        seed.deserialize(FieldsOf(None))
    }
}

fn fields_of(section: Option<&'static str>) -> Vec<&'static str> {
    Settings::deserialize(FieldsOf(section)).expect_err("it stops at the fields").0
}

#[test]
fn the_structs_have_exactly_the_keys_of_the_default_file() {
    let mut in_structs = BTreeSet::new();
    for section in fields_of(None) {
        in_structs.extend(fields_of(Some(section)).iter().map(|key| format!("{section}.{key}")));
    }
    let in_file: BTreeSet<String> = entries().into_iter().map(|entry| entry.key).collect();
    assert_eq!(in_structs, in_file);
}

#[test]
fn defaults_live_in_the_default_file_only() {
    let whole: toml::Table = DEFAULT_TOML.parse().expect("the compiled-in file is valid");
    let settings = whole.clone().try_into::<Settings>();
    settings.expect("the file alone is a whole configuration");
    for entry in entries() {
        let (section, key) = entry.key.split_once('.').expect("two parts");
        let mut less = whole.clone();
        less[section].as_table_mut().expect("a section").remove(key);
        assert!(less.try_into::<Settings>().is_err(), "{} has a default in code", entry.key);
    }
}

#[test]
fn every_row_names_a_key_and_no_name_is_there_twice() {
    let keys: BTreeSet<String> = entries().into_iter().map(|entry| entry.key).collect();
    let mut names: BTreeSet<String> = keys.iter().map(|key| general_name(key)).collect();
    for row in VARIABLES {
        assert!(keys.contains(row.key), "{} sets {}, which is no key", row.name, row.key);
        assert!(names.insert(row.name.to_owned()), "{} is there twice", row.name);
    }
}

#[test]
fn secrets_are_the_same_in_the_table_and_in_the_structs() {
    let names: Vec<(&str, &str)> = VARIABLES
        .iter()
        .filter(|row| row.secret)
        .map(|row| {
            let value = match row.key {
                "redis.url" => "redis://:hunter2@db",
                "tools.databases" => "[{name = 'shop', url = 'postgres://a:hunter2@db/shop'}]",
                "tools.nats_url" => "nats://:hunter2@bus",
                "tools.images" => "[{model = 'm', key = 'hunter2'}]",
                "tools.web_search" => "[{provider = 'tavily', key = 'hunter2'}]",
                "triggers.hooks" => "[{name = 'ci', secret = 'hunter2', prompt = 'x', target = 'discord:1'}]",
                "agents.peers" => "[{name = 'archive', url = 'https://archive.example', key = 'hunter2'}]",
                "speech.voices" | "speech.hearing" => "[{kind = 'openai', key = 'hunter2'}]",
                _ => "hunter2",
            };
            (row.name, value)
        })
        .collect();
    let loaded = good(&names, &[]);
    let text = format!("{loaded:?} {:?} {:?}", show::table(&loaded), loaded.warnings);
    assert!(!text.contains("hunter2"), "{text}");
    let masked: Vec<show::ConfigRow> = show::table(&loaded).into_iter().filter(|row| row.value == show::MASK).collect();
    // Of an address only the credentials are masked.
    let secret = VARIABLES.iter().filter(|row| row.secret && !["redis.url", "tools.nats_url"].contains(&row.key));
    let keys: BTreeSet<&str> = secret.map(|row| row.key).collect();
    assert_eq!(masked.iter().map(|row| row.key.as_str()).collect::<BTreeSet<_>>(), keys);
}

#[test]
fn the_example_is_the_table_of_names() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.env.example");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let expected = example::text();
    assert!(written == expected, "replace the text of .env.example with:\n{expected}");
}

#[test]
fn each_form_in_the_example_is_accepted_and_no_default_has_quotes() {
    let example = example::text();
    let lines: Vec<&str> = example.lines().collect();
    let mut tables = 0;
    for pair in lines.windows(2) {
        let name = pair[1].trim_start_matches('#').split('=').next().unwrap();
        if let Some((_, form)) = pair[0].split_once("Format: ") {
            let value = form.strip_suffix('.').unwrap();
            let set = loaded_from(name, value);
            assert!(set.len() == 1, "{name} is set by {set:?}");
            tables += 1;
        }
        // Container engines take quotes in their files of variables literally.
        assert!(!pair[1].contains("=\""), "{}", pair[1]);
    }
    assert!(tables >= 10, "{tables}");
}

/// Returns the keys that a variable sets.
fn loaded_from(name: &str, value: &str) -> Vec<String> {
    let loaded = good(&[(name, value)], &[]);
    let set = loaded.origins.iter().filter(|(_, origin)| origin.layer > Layer::Default);
    set.map(|(key, _)| key.clone()).collect()
}

#[test]
fn the_example_itself_can_be_used_and_changes_nothing() {
    let example = example::text();
    let all: String = example
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .fold(String::new(), |text, line| {
            let missing_is_wrong = ["STAFFAI_MODELS=", "STAFFAI_RESPONSE_SCHEMA=", "STAFFAI_PROMPTS_DIR="];
            let keep = !missing_is_wrong.iter().any(|name| line.starts_with(name));
            if keep { text + line + "\n" } else { text }
        });
    let from_example = good(&[], &[(".env", &all)]);
    let plain = good(&[], &[]);
    assert_eq!(format!("{:?}", from_example.settings), format!("{:?}", plain.settings));
    let chosen = from_example.origins["turn.deadline"].to_string();
    assert!(chosen.starts_with("STAFFAI_TURN__DEADLINE in .env:"), "{chosen}");
}

#[test]
fn the_python_bots_env_file_works_unchanged() {
    let file = include_str!("python.env");
    let loaded = good(&[], &[(".env", file)]);
    let settings = &loaded.settings;
    assert_eq!(settings.require_for_run(), []);
    assert_eq!(settings.discord.token.as_ref().map(ExposeSecret::expose_secret), Some("token.of.bot"));
    assert_eq!(settings.llm.base_url(), "http://litellm:4000/v1");
    assert_eq!(settings.llm.model.as_deref(), Some("gemini/gemini-2.5-flash-lite"));
    assert_eq!(settings.tools.mcp_servers, ["https://tenor.example/mcp", "https://cve.example/mcp"]);
    assert_eq!(settings.members.super_roles, ["111111111111111111", "222222222222222222"]);
    assert_eq!(settings.restriction.role.as_deref(), Some("1234567890123456789"));
    assert_eq!(settings.restriction.channel.as_deref(), Some("987654321098765432"));
    assert_eq!(settings.rate_limiter.notice, "Slow down! Go to <#{channel_id}> # please");
    assert!((settings.interjection.delivery_chance - 0.3).abs() < f64::EPSILON);
    assert_eq!(settings.rate_limiter.messages, 15);
    assert_eq!(settings.presence.days, [0, 1, 2, 3, 4]);
    assert!(settings.presence.schedule_enabled);
    assert_eq!(settings.log.level, "warn");
    let address = settings.redis.address().expect("a host is set");
    assert_eq!(address.expose_secret(), "redis://:p%40ss%20word@redis:6379/2");
    let notes =
        ["utils/prompts/base_activity_system_prompt.txt does not exist; the status prompt of prompts.dir is used"];
    assert_eq!(loaded.warnings, notes);
}

/// The table of the Python bot: name, its default, and the same in staffai.
#[test]
fn the_python_bots_defaults_are_ours() {
    let ours = settings(&[]);
    assert_eq!(ours.llm.url, "http://localhost:4000");
    assert_eq!(ours.llm.key.as_ref().map(ExposeSecret::expose_secret), Some("sk-1234"));
    assert!((ours.interjection.response_chance - 0.05).abs() < f64::EPSILON);
    assert!((ours.interjection.delivery_chance - 0.3).abs() < f64::EPSILON);
    assert_eq!(ours.history.max_messages, 20);
    assert_eq!(ours.history.ttl, Duration::from_secs(1800));
    assert_eq!(ours.history.message_max_age, Duration::from_secs(1800));
    assert_eq!((ours.redis.host.clone(), ours.redis.port, ours.redis.db), (None, 6379, 0));
    assert_eq!(ours.rate_limiter.messages, 15);
    assert_eq!(ours.rate_limiter.window, Duration::from_secs(60));
    assert_eq!(ours.rate_limiter.tokens, 20_000);
    assert_eq!((ours.restriction.role, ours.restriction.channel), (None, None));
    assert_eq!(ours.restriction.duration, Duration::from_secs(86_400));
    assert_eq!(ours.restriction.check_interval, Duration::from_secs(300));
    assert_eq!(ours.presence.interval, Duration::from_secs(300));
    assert!(!ours.presence.schedule_enabled);
    assert_eq!((ours.presence.start_hour, ours.presence.end_hour), (0, 23));
    assert_eq!(ours.presence.days, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(ours.presence.prompt.to_str(), Some("utils/prompts/base_activity_system_prompt.txt"));
    assert_eq!((ours.report.channel, ours.report.top_users), (None, 10));
    assert_eq!(ours.report.interval, Duration::from_secs(86_400));
    assert_eq!(ours.log.level, "info");
}

/// Other defaults that operators and dashboards rely on.
#[test]
fn our_own_defaults_are_as_promised() {
    let ours = settings(&[]);
    assert_eq!(ours.discord.api_url, "https://discord.com");
    assert_eq!((ours.discord.shards, ours.discord.direct_messages), (Shards::Auto, DirectMessages::Ignore));
    assert_eq!(ours.discord.allowed_mentions, AllowedMentions::default());
    let allowed = settings(&[("STAFFAI_DISCORD__ALLOWED_MENTIONS", "replied_user, Users")]).discord.allowed_mentions;
    assert_eq!(allowed, AllowedMentions { replied_user: true, users: true });
    assert_eq!(ours.discord.requests_per_second, 50);
    assert_eq!(ours.turn.deadline, Duration::from_secs(120));
    assert_eq!((ours.turn.open, ours.turn.lane, ours.llm.concurrent), (2000, 8, 64));
    assert_eq!((ours.tools.timeout, ours.tools.result_bytes), (Duration::from_secs(30), 65_536));
    assert_eq!((ours.gates.expiry, ours.catch_up.age), (Duration::from_secs(900), Duration::from_secs(900)));
    assert_eq!(ours.catch_up.per_channel, 100);
    assert_eq!(ours.drain.timeout, Duration::from_secs(25));
    assert_eq!(ours.http.addr.to_string(), "127.0.0.1:8420");
    assert_eq!((ours.log.format, ours.log.content), (LogFormat::Auto, false));
    assert_eq!(ours.store.dir.to_str(), Some("data"));
    assert_eq!(ours.tools.mcp_config.as_deref().and_then(std::path::Path::to_str), Some("mcp.json"));
}
