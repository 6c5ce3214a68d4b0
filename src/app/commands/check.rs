//! `staffai check`: tests everything that a run needs and prints the problems in one table. It answers no messages,
//! posts nothing, and prints no secret.

use secrecy::SecretString;

pub(crate) use self::report::Report;

use self::report::CheckStatus;
use crate::app::commands::reading;
use crate::app::commands::reading::Reading;
use crate::app::configured;
use crate::app::configured::Lookup;
use crate::app::mistakes::{self, Mistake};
use crate::app::{Cli, built_ins, exit, setting_files, triggers};
use llm::registry::Registry;
use settings::problem::Layer;
use settings::{Examined, Loaded, Settings};

mod agents;

mod data_tools;

mod door;

mod listener;

mod models;

mod places;

mod report;

mod servers;

mod slack;

mod storage;

mod tools;

/// The scope of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// True if no service is contacted.
    pub offline: bool,
    /// True for every model, not only the default one.
    pub models: bool,
}

/// Checks everything and prints the table.
pub async fn run(cli: &Cli, scope: Scope) -> u8 {
    let Examined { loaded, problems, .. } = Reading::new(cli, |sources| sources).examine();
    let (mut report, mut secrets) = (Report::default(), Vec::new());
    for problem in &problems {
        report.wrong_with("configuration", problem.to_string());
    }
    if let Some(loaded) = loaded {
        secrets = configured::secrets(&loaded.settings);
        report.append(examine(&loaded, problems.is_empty(), scope, &mut secrets).await);
    }
    say!("{}", report.table(&secrets).trim_end());
    if report.wrong() == 0 {
        say!("all checks passed");
        return exit::FINE;
    }
    match report.wrong() {
        1 => say!("1 problem"),
        several => say!("{several} problems"),
    }
    exit::NEGATIVE
}

/// Checks the requirements of a first run, Discord's account and the default model, and prints the table. True if all
/// succeed.
pub(crate) async fn first_run(loaded: &Loaded) -> bool {
    let mut report = of_discord(loaded).await;
    report.append(of_model(loaded).await);
    say!("{}", report.table(&configured::secrets(&loaded.settings)).trim_end());
    report.wrong() == 0
}

/// Checks Discord's account.
pub(crate) async fn of_discord(loaded: &Loaded) -> Report {
    let mut report = Report::default();
    match loaded.settings.discord.token_mistake() {
        Some(mistake) => report.wrong_with(door::TOKEN, mistake),
        None => door::check(&loaded.settings, &mut report).await,
    }
    report
}

/// Asks the default model.
pub(crate) async fn of_model(loaded: &Loaded) -> Report {
    let (settings, lookup, mut report) = (&loaded.settings, &reading::lookup(loaded), Report::default());
    if let Some(registry) = models::rows(settings, lookup, &mut report) {
        models::ask(settings, lookup, registry, false, &mut report).await;
    }
    report
}

/// Asks the model rows that `LITELLM_MODELS` names or, by default, the default row, and prints the table.
pub(crate) async fn model(settings: &Settings, lookup: &Lookup) -> u8 {
    let (mut report, mut secrets) = (Report::default(), configured::secrets(settings));
    if let Some(registry) = models::rows(settings, lookup, &mut report) {
        secrets.extend(registry.secrets());
        report = Report::default();
        models::ask(settings, lookup, registry, true, &mut report).await;
    }
    say!("{}", report.table(&secrets).trim_end());
    if report.wrong() == 0 { exit::FINE } else { exit::NEGATIVE }
}

/// Adds a row for each timer and webhook.
fn triggers(settings: &Settings, lookup: &Lookup, report: &mut Report) {
    let triggers = match triggers::read(settings, lookup) {
        Ok(triggers) => triggers,
        Err(mistakes) => return mistakes.into_iter().for_each(|mistake| report.wrong_with("triggers", mistake)),
    };
    let timers = triggers.timers.iter().map(|timer| ("timer", &timer.action));
    for (kind, action) in timers.chain(triggers.hooks.values().map(|hook| ("webhook", &hook.action))) {
        report.ok(&format!("{kind} {}", action.name), format!("answers go to {}", action.target));
    }
}

/// Checks everything, or only the files if the settings have invalid values. Adds keys that only model rows name to
/// `secrets`.
async fn examine(loaded: &Loaded, readable: bool, scope: Scope, secrets: &mut Vec<SecretString>) -> Report {
    let (settings, lookup) = (&loaded.settings, &reading::lookup(loaded));
    let mut report = Report::default();
    configuration(loaded, readable, &mut report);
    // The mistakes that a run refuses come first; a later part that finds the same mistake adds nothing.
    for Mistake { part, text } in mistakes::examine(settings, lookup).mistakes {
        report.wrong_with(part, text);
    }
    prompts(settings, &mut report);
    let registry = models::rows(settings, lookup, &mut report);
    secrets.extend(registry.iter().flat_map(Registry::secrets));
    secrets.extend(built_ins::secrets(settings, lookup));
    let entries = servers::read(settings, lookup, secrets, &mut report);
    if !readable {
        for part in ["store", "discord", "model"] {
            report.skipped(part, "not checked, because the configuration is wrong");
        }
        return report;
    }
    listener::check(settings, &mut report).await;
    storage::check(settings, scope.offline, &mut report).await;
    servers::check(&entries, settings, lookup, scope.offline, &mut report).await;
    servers::nats(settings, scope.offline, &mut report).await;
    triggers(settings, lookup, &mut report);
    agents::check(settings, lookup, scope.offline, &mut report).await;
    data_tools::check(settings, lookup, scope.offline, &mut report).await;
    if scope.offline {
        report.skipped("discord", "not contacted: --offline");
        report.skipped("model", "not contacted: --offline");
        return report;
    }
    let (mut discord, mut slack, mut answers) = (Report::default(), Report::default(), Report::default());
    let asking = async {
        match registry {
            Some(registry) => models::ask(settings, lookup, registry, scope.models, &mut answers).await,
            None if settings.llm.model.is_none() => answers.skipped("model", "not called: no model is set"),
            None => answers.skipped("model", "not called: the model rows are wrong"),
        }
    };
    tokio::join!(door::check(settings, &mut discord), slack::check(settings, &mut slack), asking);
    report.append(discord);
    report.append(slack);
    report.append(answers);
    report
}

fn configuration(loaded: &Loaded, readable: bool, report: &mut Report) {
    let set = loaded.origins.values().filter(|origin| origin.layer > Layer::Default).count();
    let missing = loaded.settings.require_for_run();
    for problem in &missing {
        report.wrong_with("configuration", problem.to_string());
    }
    if missing.is_empty() && readable {
        let all = loaded.origins.len();
        report.ok("configuration", format!("{set} of {all} settings are set, the others have their defaults"));
    }
    for warning in &loaded.warnings {
        report.push("configuration", CheckStatus::Note, warning.clone());
    }
}

fn prompts(settings: &Settings, report: &mut Report) {
    match setting_files::prompts(settings) {
        Ok(prompts) => {
            let from = setting_files::origin(&settings.prompts.dir.join("personality_prompt.txt"));
            let words = prompts.personality.split_whitespace().count();
            let channels = prompts.channels.len();
            let own = if channels == 0 { String::new() } else { format!("; {channels} channels have a separate one") };
            report.ok("prompts", format!("personality of {words} words, {from}{own}"));
        }
        Err(mistakes) => mistakes.into_iter().for_each(|mistake| report.wrong_with("prompts", mistake)),
    }
    match setting_files::schema(settings) {
        Ok(_) => report.ok("schema", format!("compiles, {}", setting_files::origin(&settings.llm.schema))),
        Err(mistake) => report.wrong_with("schema", mistake),
    }
}

/// Removes secrets from a text that is shown.
fn masked(text: &str, secrets: &[SecretString]) -> String {
    use secrecy::ExposeSecret;
    let mut text = text.to_owned();
    for secret in secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| secret.len() >= SECRET_LEAST) {
        text = text.replace(secret, settings::show::MASK);
    }
    text
}

/// The minimum length of a masked secret: shorter ones occur in ordinary words.
const SECRET_LEAST: usize = 6;
