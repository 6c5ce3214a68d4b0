//! `staffai init`: collects the settings of a first run, tests them, and writes them to `.env`.
//!
//! An argument can answer each question. Nothing is written unless Discord accepts the token and the model answers.
//! Values in the existing file are offered as defaults. Secrets are not echoed or printed, and only the owner can read
//! the new file.

use std::io::{IsTerminal, Write as _};
use std::path::Path;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::check;
use super::reading::Reading;
use crate::app::{Cli, exit, files};
use settings::sources::ENV_FILE;
use settings::{Examined, dotenv};
use slack::setup;

/// The answers given as arguments.
#[derive(Debug, Clone, Args)]
pub(crate) struct Of {
    /// Prints the manifest of an app for this platform and the addresses of its tokens, instead of asking.
    #[arg(value_enum, exclusive = true)]
    platform: Option<Platform>,
    /// The bot's token, from the Discord developer portal > Bot > Reset Token.
    #[arg(long, value_name = "TOKEN")]
    discord_token: Option<String>,
    /// The address of a server with OpenAI's API, such as `http://localhost:4000`.
    #[arg(long, value_name = "URL")]
    model_url: Option<String>,
    /// The API key of that server; empty if it requires none.
    #[arg(long, value_name = "KEY")]
    model_key: Option<String>,
    /// The name of the model.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

/// A platform whose app is created from a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Platform {
    /// Slack, through Socket Mode.
    Slack,
}

/// One question: its variable, its setting, and its text.
pub(crate) struct Question {
    /// The environment variable.
    pub variable: &'static str,
    /// The key of the setting.
    pub setting: &'static str,
    text: &'static str,
    argument: &'static str,
    secret: bool,
    required: bool,
}

/// The questions, in their order: the first is about Discord, the others are about the model.
pub(crate) const QUESTIONS: [Question; 4] = [
    Question {
        variable: "DISCORD_BOT_TOKEN",
        setting: "discord.token",
        text: "Bot token (Discord developer portal > Bot > Reset Token)",
        argument: "--discord-token",
        secret: true,
        required: true,
    },
    Question {
        variable: "LITELLM_API_URL",
        setting: "llm.url",
        text: "Address of the model server, such as http://localhost:4000",
        argument: "--model-url",
        secret: false,
        required: true,
    },
    Question {
        variable: "LITELLM_API_KEY",
        setting: "llm.key",
        text: "Key for the model server (empty for none)",
        argument: "--model-key",
        secret: true,
        required: false,
    },
    Question {
        variable: "LITELLM_MODEL",
        setting: "llm.model",
        text: "Name of the model",
        argument: "--model",
        secret: false,
        required: true,
    },
];

/// Runs the command. Ctrl-C stops it at any time.
pub(crate) async fn run(cli: &Cli, of: &Of) -> u8 {
    if of.platform == Some(Platform::Slack) {
        return slack_app();
    }
    let terminal = tcgetattr(std::io::stdin()).ok();
    tokio::select! {
        code = set_up(cli, of) => code,
        _ = tokio::signal::ctrl_c() => {
            // The thread that reads may have turned the echo off.
            let _ = terminal.map(|before| tcsetattr(std::io::stdin(), OptionalActions::Now, &before));
            eprintln!();
            refused("stopped; nothing was written")
        }
    }
}

/// Prints the manifest of the app for Slack, and the next steps.
fn slack_app() -> u8 {
    let Ok(manifest) = serde_json::to_string_pretty(&setup::manifest()) else { return exit::GAVE_UP };
    say!("{manifest}");
    // Standard output has the manifest alone, for a file or a pipe.
    eprintln!("1. Create the app from this manifest, and install it in the workspace: {}", setup::create_address());
    eprintln!(
        "2. Copy both tokens at {}: OAuth & Permissions > Bot User OAuth Token is SLACK_BOT_TOKEN; Basic Information > App-Level Tokens > Generate (scope connections:write) gives SLACK_APP_TOKEN",
        setup::APPS
    );
    eprintln!("3. Invite the bot to channels (/invite @staffai), then `staffai check` and `staffai run`");
    exit::FINE
}

async fn set_up(cli: &Cli, of: &Of) -> u8 {
    let file = Path::new(ENV_FILE);
    let text = match files::read(file) {
        Ok(text) => text.unwrap_or_default(),
        Err(mistake) => return refused(&mistake),
    };
    let asked = tokio::task::spawn_blocking({
        let (given, before) = (of.given(), dotenv::parse(&text, &std::collections::BTreeMap::new()));
        move || answers(&given, |name| before.values.get(name).map(|(value, _)| value.clone()))
    });
    let answers = match asked.await {
        Ok(Ok(answers)) => answers,
        Ok(Err(mistake)) => return refused(&mistake),
        Err(_) => return exit::GAVE_UP,
    };

    let answers: Vec<(&Question, String)> = QUESTIONS.iter().zip(answers).collect();
    let Examined { loaded, problems, .. } = examined(&Reading::new(cli, |sources| sources), &answers);
    let Some(loaded) = loaded.filter(|_| problems.is_empty()) else {
        super::reading::print_problems(&problems);
        return exit::USAGE;
    };
    if !check::first_run(&loaded).await {
        say!("nothing was written; run `staffai init` again with other values");
        return exit::NEGATIVE;
    }
    match write(&text, &answers) {
        Ok(()) => {}
        Err(NotWritten::SeveralLines) => return refused(&NotWritten::SeveralLines.to_string()),
        Err(why) => {
            eprintln!("{why}");
            return exit::NEGATIVE;
        }
    }
    say!("{ENV_FILE} is written. Next: open the invite address above, then `staffai run`");
    exit::FINE
}

/// Reads the configuration with these answers. An empty answer counts, too: what is tested is what will be written.
pub(crate) fn examined(reading: &Reading, answers: &[(&Question, String)]) -> Examined {
    reading.examine_with(|sources| {
        answers
            .iter()
            .fold(sources, |sources, (question, answer)| sources.with_option(question.setting, answer.clone()))
    })
}

/// The reason why the answers were not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWritten {
    /// The file has values over several lines.
    #[error("{ENV_FILE} has values over several lines; set these variables there yourself")]
    SeveralLines,
    /// The file could not be replaced.
    #[error("{ENV_FILE}: {0}; nothing was written")]
    File(std::io::Error),
}

/// Writes the answers to the file with this text, which only its owner can read from then on.
///
/// # Errors
/// The reason why nothing was written.
pub(crate) fn write(text: &str, answers: &[(&Question, String)]) -> Result<(), NotWritten> {
    let values: Vec<(&str, &str)> =
        answers.iter().map(|(question, answer)| (question.variable, answer.as_str())).collect();
    let Some(changed) = dotenv::editing::with_values(text, &values) else {
        return Err(NotWritten::SeveralLines);
    };
    let file = Path::new(ENV_FILE);
    // The file holds secrets from here on.
    let written = owner_alone(file).and_then(|()| files::replace(file, &changed));
    written.map_err(NotWritten::File)
}

impl Question {
    /// Checks that an answer can be stored in the file.
    ///
    /// # Errors
    /// A required answer is missing, or the file cannot hold it.
    pub(crate) fn check(&self, answer: &str) -> Result<(), String> {
        if answer.is_empty() && self.required {
            return Err(format!("{} is missing", self.variable));
        }
        if answer.contains("${") || answer.contains(char::is_control) {
            return Err(format!(
                "{}: a value with ${{ or a control character cannot be kept in {ENV_FILE}",
                self.variable
            ));
        }
        Ok(())
    }
}

impl Of {
    fn given(&self) -> [Option<String>; QUESTIONS.len()] {
        [self.discord_token.clone(), self.model_url.clone(), self.model_key.clone(), self.model.clone()]
    }
}

/// Returns the answer to each question: the argument, else the typed answer, else the value of the file.
///
/// # Errors
/// A required answer is missing, or an answer cannot be stored in the file.
fn answers(given: &[Option<String>], before: impl Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let answer = |(question, given): (&Question, &Option<String>)| {
        let before = before(question.variable).unwrap_or_default();
        let answer = match given {
            Some(given) => given.trim().to_owned(),
            None => match ask(question, &before)? {
                typed if typed.is_empty() => before,
                typed => typed,
            },
        };
        if answer.is_empty() && question.required {
            return Err(format!("{} is missing: answer the question, or add {}", question.variable, question.argument));
        }
        question.check(&answer)?;
        Ok(answer)
    };
    QUESTIONS.iter().zip(given).map(answer).collect()
}

/// Reads one line. The end of the input is an empty line.
fn ask(question: &Question, before: &str) -> Result<String, String> {
    let hint = match (before.is_empty(), question.secret) {
        (true, _) => String::new(),
        (false, true) => " [Enter keeps the one in .env]".to_owned(),
        (false, false) => format!(" [{before}]"),
    };
    // The questions go to standard error, so that standard output holds only the table.
    eprint!("{}{hint}: ", question.text);
    let _ = std::io::stderr().flush();
    let _hidden = question.secret.then(Hidden::new).flatten();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| format!("the answer cannot be read: {error}"))?;
    if question.secret || !std::io::stdin().is_terminal() {
        eprintln!();
    }
    Ok(line.trim().to_owned())
}

/// Disables echo until dropped.
struct Hidden(Termios);

impl Hidden {
    /// Returns `None` if standard input is not a terminal.
    fn new() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Takes the rights of others away from a file that exists.
fn owner_alone(file: &Path) -> std::io::Result<()> {
    match std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        changed => changed,
    }
}

fn refused(mistake: &str) -> u8 {
    eprintln!("{mistake}");
    exit::USAGE
}
