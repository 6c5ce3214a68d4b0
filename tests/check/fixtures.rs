//! Every configuration that `run` refuses is refused by `check` for the same reasons, with the same words.

use std::process::Stdio;
use std::time::Duration;

use super::{Outcome, program, text};

/// Files and variables of one configuration.
struct Fixture {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    variables: &'static [(&'static str, &'static str)],
    /// Texts that both print, one per mistake.
    mistakes: &'static [&'static str],
}

const TIMER: &str = "[[triggers.timers]]\nname = 'a'\ncron = '0 9 * * *'\nprompt = 'x'\ntarget = 'discord:42'\n";
const TWO_ROWS: &str = r#"{"models": {"demo": {"host": "http://127.0.0.1:1"}, "paid": {"host": "http://127.0.0.1:1", "env_key": "UNSET"}}}"#;

const REFUSED: &[Fixture] = &[
    Fixture {
        name: "a timer with an unknown model row",
        files: &[(
            "staffai.toml",
            "[[triggers.timers]]\nname = 'a'\ncron = '0 9 * * *'\nprompt = 'x'\ntarget = 'discord:42'\nmodel = 'ghost'\n",
        )],
        variables: &[],
        mistakes: &["triggers.timers, a: there is no model row \"ghost\""],
    },
    Fixture {
        name: "a timer in which all is wrong",
        files: &[(
            "staffai.toml",
            "[[triggers.timers]]\nname = 'a b'\ncron = 'daily'\nzone = 'Europe/Berlim'\nprompt = 'x'\ntarget = 'nowhere'\ngrace = '9h'\nmodel = 'ghost'\n",
        )],
        variables: &[],
        mistakes: &[
            "is no name",
            "is no cron expression",
            "is no time zone",
            "is no target",
            "grace is at most",
            "no model row",
        ],
    },
    Fixture {
        name: "webhooks without secrets, and one that cannot be read",
        files: &[(
            "staffai.toml",
            "[[triggers.hooks]]\nname = 'a'\nprompt = 'x'\ntarget = 'discord:1'\ncolour = 'red'\n[[triggers.hooks]]\nname = 'b'\nenv_secret = 'UNSET'\nprompt = 'x'\ntarget = 'api:1'\n[[triggers.hooks]]\nname = 'c'\nsecret = 'short'\nprompt = 'x'\ntarget = 'discord:1'\n",
        )],
        variables: &[],
        mistakes: &[
            "row 1: the field colour does not exist",
            "row 2: b: the variable UNSET",
            "row 2: b: \"api:1\" is no target",
            "row 3: c: its secret is too short",
        ],
    },
    Fixture {
        name: "a rule beside a timer",
        files: &[(
            "staffai.toml",
            "[[tools.rules]]\ntools = 'x'\nverdict = 'perhaps'\n[[tools.rules]]\ntools = 'y'\nverdict = 'deny'\ndoors = ['irc']\n[[triggers.timers]]\nname = 'a'\ncron = '0 9 * * *'\nzone = 'Mars'\nprompt = 'x'\ntarget = 'discord:42'\n",
        )],
        variables: &[],
        mistakes: &[
            "row 1: verdict: must be auto, ask or deny",
            "tools.rules, row 2: there is no door \"irc\"",
            "\"Mars\" is no time zone",
        ],
    },
    Fixture {
        name: "rows of data tools and peers",
        files: &[(
            "staffai.toml",
            "[tools]\nweb_search = [{provider = 'altavista'}]\ndatabases = [{name = 'shop', env_url = 'UNSET', read = ['a']}]\n[url_extract]\ndeny = ['a b']\n[google_drive]\ncredentials = 'x'\n[agents]\npeers = [{name = 'x y', url = 'http://127.0.0.1:1', key = 'a-key-of-some-length'}]\n",
        )],
        variables: &[],
        mistakes: &[
            "there is no provider",
            "tools.databases",
            "url_extract.deny",
            "google_drive.credentials",
            "agents.peers, row 1",
        ],
    },
    Fixture {
        name: "model rows",
        files: &[(
            "models.json",
            r#"{"models": {"demo": {"env_key": "UNSET"}, "b": {"host": "nowhere", "fallback": ["ghost"]}}}"#,
        )],
        variables: &[("STAFFAI_MODELS", "models.json")],
        mistakes: &["row demo: env_key: the variable UNSET", "row b: host", "no row is named ghost"],
    },
    Fixture {
        name: "files",
        files: &[
            ("prompts/personality_prompt.txt", " "),
            ("response_schema.json", "{"),
            ("mcp.json", "["),
            ("data/keys.json", "{"),
            ("m.json", "[]"),
        ],
        variables: &[("STAFFAI_MODELS", "m.json")],
        mistakes: &["the prompt is empty", "response_schema.json", "mcp.json", "is not a models file"],
    },
    Fixture {
        name: "settings of every kind",
        files: &[("staffai.toml", "[turn]\nlane = 'many'\ndeadlin = 3\n[log]\nlevel = 'info,staffai=loud'\n")],
        variables: &[("REDIS_URL", "redis://me:pw@host:port/0"), ("DISCORD_BOT_TOKEN", ""), ("LITELLM_MODEL", "")],
        mistakes: &[
            "turn.lane",
            "did you mean turn.deadline?",
            "log.level",
            "discord.token (DISCORD_BOT_TOKEN): is not set",
            "llm.model (LITELLM_MODEL): is not set",
        ],
    },
    Fixture {
        name: "no TOML",
        files: &[("staffai.toml", "[turn\n")],
        variables: &[],
        mistakes: &["is not valid TOML"],
    },
    Fixture {
        name: "a token of a wrong form",
        files: &[],
        variables: &[("DISCORD_BOT_TOKEN", "Bot abc")],
        mistakes: &["discord.token (DISCORD_BOT_TOKEN): "],
    },
];

/// Configurations that `run` accepts, and the findings of `check`.
const STARTED: &[(&str, Fixture)] = &[
    ("ok", Fixture { name: "nothing special", files: &[], variables: &[], mistakes: &["model rows"] }),
    ("ok", Fixture { name: "a timer", files: &[("staffai.toml", TIMER)], variables: &[], mistakes: &["timer a"] }),
    (
        "wrong",
        Fixture {
            name: "a row without its key",
            files: &[("models.json", TWO_ROWS)],
            variables: &[("STAFFAI_MODELS", "models.json")],
            mistakes: &["row paid: is disabled, because the variable UNSET"],
        },
    ),
    (
        "wrong",
        Fixture {
            name: "an entry of a tool server",
            files: &[("mcp.json", r#"{"mcpServers": {"a": {"comand": "x"}}}"#)],
            variables: &[],
            mistakes: &["has neither a command nor a url"],
        },
    ),
];

impl Fixture {
    /// Returns the command with this configuration, in a folder of its own.
    fn command(&self, arguments: &[&str]) -> (tempfile::TempDir, std::process::Command) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in self.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut command = program(folder.path());
        command
            .args(arguments)
            .env("DISCORD_API_URL", super::NOWHERE)
            .env("DISCORD_BOT_TOKEN", "t")
            .env("LITELLM_API_URL", super::NOWHERE)
            .env("LITELLM_MODEL", "demo")
            .env("STAFFAI_HTTP_ADDR", "127.0.0.1:0")
            .envs(self.variables.iter().copied());
        (folder, command)
    }

    fn check(&self) -> Outcome {
        let (_folder, mut command) = self.command(&["check", "--offline"]);
        let output = command.output().unwrap();
        Outcome { code: output.status.code().unwrap(), table: text(&output) }
    }
}

#[test]
fn check_names_every_mistake_that_run_refuses_by_the_same_words() {
    for fixture in REFUSED {
        let name = fixture.name;
        let (_folder, mut command) = fixture.command(&["run"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(64), "{name}: {said}");
        let refused: Vec<&str> = said.lines().filter(|line| !line.starts_with("warning: ")).collect();
        for words in fixture.mistakes {
            assert!(refused.iter().any(|line| line.contains(words)), "{name}: run does not say {words}\n{said}");
        }
        let checked = fixture.check();
        assert_eq!(checked.code, 1, "{name}: {}", checked.table);
        for line in &refused {
            // Rows of the table are truncated.
            let shown: String = line.chars().take(390).collect();
            assert!(checked.table.contains(&shown), "{name}: check does not say {line}\n{}", checked.table);
        }
        let wrong = checked.table.lines().filter(|line| line.starts_with("wrong  ")).count();
        assert_eq!(wrong, refused.len(), "{name}: run says\n{said}\ncheck says\n{}", checked.table);
    }
}

#[test]
fn run_starts_with_what_check_finds_well_and_with_what_only_disables_a_part() {
    for (verdict, fixture) in STARTED {
        let (folder, mut command) = fixture.command(&["run"]);
        let log = folder.path().join("log");
        let out = std::fs::File::create(&log).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().unwrap();
        let mut looks = 3_000;
        let read = || std::fs::read_to_string(&log).unwrap();
        while !read().contains("program.started") && child.try_wait().unwrap().is_none() && looks > 0 {
            looks -= 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = (child.kill(), child.wait());
        let said = read();
        assert!(said.contains("program.started"), "{}: {said}", fixture.name);
        let checked = fixture.check();
        for words in fixture.mistakes {
            let found = checked.table.lines().any(|line| line.starts_with(verdict) && line.contains(words));
            assert!(found, "{}: {words}\n{}", fixture.name, checked.table);
        }
        if fixture.name == "a row without its key" {
            assert!(said.contains(fixture.mistakes[0]), "the log says it too: {said}");
        }
    }
}
