//! `staffai key`: creates, lists and revokes API keys of programs.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Subcommand, ValueEnum};

use super::reading::Reading;
use crate::app::keys::{Revoked, change, check_name, file, read, ring};
use crate::app::system::{SystemClock, random_bits};
use crate::app::{Cli, Options, exit, opening};
use domain::api_key::{ApiKey, KEYS_MAX, KeyHash, KeyLimits, PREFIX, Right};
use domain::ids::Timestamp;
use domain::keys::REVOKED_KEYS;
use ports::{Clock, Replaced, replace};
use settings::Settings;

/// The timeout for closing the shared store.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Creates a key and prints it once: only its hash is stored.
    Add {
        /// The name of its owner: 1 to 64 letters, digits, - _ . @
        name: String,
        /// A permission. Can be repeated. Default: chat.
        #[arg(long = "right", value_name = "RIGHT")]
        rights: Vec<RightName>,
        /// The key of a model row that it may use. Can be repeated. Default: all rows.
        #[arg(long = "model", value_name = "ROW")]
        models: Vec<String>,
        /// The name of a door that it may use. Can be repeated. Default: all doors.
        #[arg(long = "door", value_name = "NAME")]
        doors: Vec<String>,
        /// The name of a profile of prompts that it may select. Can be repeated. Default: all profiles.
        #[arg(long = "profile", value_name = "NAME")]
        profiles: Vec<String>,
        /// Requests per `rate_limiter.window`. Default: `http.key_requests`. 0: unlimited.
        #[arg(long, value_name = "NUMBER", requires = "tokens")]
        messages: Option<u32>,
        /// Tokens per `rate_limiter.window`. Default: `http.key_tokens`. 0: unlimited.
        #[arg(long, value_name = "NUMBER", requires = "messages")]
        tokens: Option<u64>,
        /// Reuses the name of a revoked key: the new key takes over its sessions and conversations.
        #[arg(long)]
        same_holder: bool,
        /// Days until it expires. Default: never.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: Option<u64>,
        #[command(flatten)]
        options: Options,
    },
    /// Lists all keys, one per line.
    List {
        #[command(flatten)]
        options: Options,
    },
    /// Revokes a key.
    Revoke {
        /// The name of its owner.
        name: String,
        #[command(flatten)]
        options: Options,
    },
}

impl Action {
    pub(crate) fn options(&self) -> &Options {
        match self {
            Self::Add { options, .. } | Self::List { options } | Self::Revoke { options, .. } => options,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum RightName {
    /// Ask questions.
    Chat,
    /// Use the bot's tools for its answers.
    Tools,
    /// Administer the bot: read all stored data (backup, audit, turns, sessions, usage), decide on approvals, change
    /// prompts and model rows, link accounts.
    Operate,
}

impl From<RightName> for Right {
    fn from(name: RightName) -> Self {
        match name {
            RightName::Chat => Self::Chat,
            RightName::Tools => Self::Tools,
            RightName::Operate => Self::Operate,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(cli: &Cli, action: &Action) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let done = match action {
        Action::Add { .. } => add(&loaded.settings, action),
        Action::List { .. } => list(&loaded.settings),
        Action::Revoke { name, .. } => revoke(&loaded.settings, name).await,
    };
    match done {
        Ok(()) => exit::FINE,
        Err(mistake) => {
            eprintln!("{mistake}");
            exit::USAGE
        }
    }
}

fn add(settings: &Settings, action: &Action) -> Result<(), String> {
    let Action::Add { name, rights, models, doors, profiles, messages, tokens, days, same_holder, .. } = action else {
        return Ok(());
    };
    check_name(name)?;
    let known: Vec<String> = crate::app::doors::rules(settings).into_keys().map(|door| door.to_string()).collect();
    if let Some(door) = doors.iter().find(|door| !known.contains(door)) {
        return Err(format!("there is no door {door:?}; there are {}", known.join(", ")));
    }
    let now = SystemClock.now().0;
    let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random_bits::<32>()));
    let mut rights = rights.clone();
    rights.sort_unstable();
    rights.dedup();
    let rights = if rights.is_empty() { vec![Right::Chat] } else { rights.into_iter().map(Right::from).collect() };
    let made = ApiKey {
        name: name.clone(),
        sha256: KeyHash::of(&key),
        rights,
        models: models.clone(),
        doors: doors.clone(),
        profiles: profiles.clone(),
        limits: messages.zip(*tokens).map(|(messages, tokens)| KeyLimits { messages, tokens }),
        made_at: now,
        expires_at: days.map(|days| now + days * DAY_MS),
    };
    change(settings, |keys| put(keys, made, *same_holder))?;
    eprintln!("the key of {name}; it is not shown again:");
    say!("{key}");
    if !ring(settings)?.has_operator(SystemClock.now()) {
        eprintln!(
            "no key has the right operate; until one has it, the dashboard, backup, audit and replay of a running service \
             are not accessible: run staffai key add NAME --right operate"
        );
    }
    Ok(())
}

/// Adds a key. The name of a revoked key is free only for its holder, who has sessions and conversations under it.
fn put(keys: &mut Vec<ApiKey>, made: ApiKey, same_holder: bool) -> Result<(), String> {
    let name = &made.name;
    match keys.iter().position(|key| key.name == *name) {
        Some(known) if !keys[known].is_revoked() => {
            return Err(format!("there is a key of {name} already; choose another name, or revoke it first"));
        }
        Some(_) if !same_holder => {
            return Err(format!(
                "there was a key of {name}, whose sessions and conversations the new key could read; choose another name, \
                 or add --same-holder if its holder gets this key too"
            ));
        }
        Some(known) => drop(keys.remove(known)),
        None => {}
    }
    if keys.len() >= KEYS_MAX {
        let oldest = keys.iter().position(ApiKey::is_revoked);
        keys.remove(oldest.ok_or_else(|| format!("there are {KEYS_MAX} keys already; revoke one first"))?);
    }
    keys.push(made);
    Ok(())
}

fn list(settings: &Settings) -> Result<(), String> {
    let now = SystemClock.now();
    let path = file(settings);
    let keys = read(&path)?.unwrap_or_default();
    if keys.is_empty() {
        eprintln!("there is no key in {}", path.display());
    }
    for key in keys {
        let rights: Vec<&str> = key.rights.iter().map(|right| right.as_str()).collect();
        let all = |names: &[String]| if names.is_empty() { "all".to_owned() } else { names.join(",") };
        let limits = key.limits.map_or_else(
            || "default".to_owned(),
            |KeyLimits { messages, tokens }| format!("{messages} requests, {tokens} tokens"),
        );
        let until = match key.expires_at {
            None => "never expires".to_owned(),
            Some(_) if key.is_revoked() => "revoked".to_owned(),
            Some(_) if key.is_over(now) => "expired".to_owned(),
            Some(at) => format!("expires {}", day(Timestamp(at))),
        };
        let profiles = match key.profiles.as_slice() {
            [] => String::new(),
            some => format!("  profiles: {}", some.join(",")),
        };
        say!(
            "{}  rights: {}  models: {}  doors: {}{profiles}  limits: {limits}  created {}  {until}",
            key.name,
            rights.join(","),
            all(&key.models),
            all(&key.doors),
            day(Timestamp(key.made_at)),
        );
    }
    Ok(())
}

fn day(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
}

async fn revoke(settings: &Settings, name: &str) -> Result<(), String> {
    let (mut revoked, now) = (Vec::new(), SystemClock.now());
    change(settings, |keys| {
        for key in keys.iter_mut().filter(|key| key.name == name) {
            // Revoking it again tells the other machines again.
            revoked.push(key.sha256);
            key.revoke(now);
        }
        if revoked.is_empty() {
            return Err(format!("there is no key of {name}; staffai key list shows all"));
        }
        Ok(())
    })?;
    tell(settings, &revoked).await.map_err(|why| {
        format!(
            "the key of {name} is revoked on this machine, but {why}; revoke it on the other machines of this store too"
        )
    })?;
    say!("the key {name} is revoked; it is rejected and its open streams end within 2 seconds");
    if ring(settings)?.has_none() {
        let file = file(settings);
        eprintln!(
            "no key is left, and every request is refused; create a key with staffai key add, or remove {} to let programs \
             on this machine connect without a key",
            file.display()
        );
    }
    Ok(())
}

/// Sends the revoked keys to the other processes of a shared store. An embedded store belongs to one process alone.
async fn tell(settings: &Settings, revoked: &[KeyHash]) -> Result<(), String> {
    if !settings.chosen_store().is_shared() {
        return Ok(());
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = opening::open_store(settings, &clock, None).await.map_err(|error| error.to_string())?;
    let (store, mut wrong) = (opened.store, None);
    let told =
        replace(&*store, REVOKED_KEYS, |stored| match stored.map_or_else(|| Ok(Revoked::default()), Revoked::parse) {
            Ok(known) => serde_json::to_string(&known.with(revoked)).ok(),
            Err(why) => {
                wrong = Some(why);
                None
            }
        });
    let told = told.await;
    store.close(CLOSE_TIMEOUT).await;
    if let Some(why) = wrong {
        return Err(format!(
            "the list of revoked keys in the store, {REVOKED_KEYS}, {why}; it was left as it is. Mend or delete it, then \
             revoke the key again"
        ));
    }
    match told {
        Replaced::Done => Ok(()),
        Replaced::Other => Err("the list of revoked keys is being changed by another machine".to_owned()),
        Replaced::Away => Err("the store that processes share cannot be reached".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, at: u64) -> ApiKey {
        ApiKey {
            name: name.to_owned(),
            sha256: KeyHash::of(&format!("{name}{at}")),
            rights: vec![Right::Chat],
            models: Vec::new(),
            doors: Vec::new(),
            profiles: Vec::new(),
            limits: None,
            made_at: at,
            expires_at: None,
        }
    }

    #[test]
    fn the_name_of_a_revoked_key_is_free_for_its_holder_alone() {
        let mut keys = vec![key("laptop", 1), key("ci", 1)];
        assert!(put(&mut keys, key("laptop", 2), true).unwrap_err().contains("revoke it first"));
        keys[0].revoke(Timestamp(2));
        let refused = put(&mut keys, key("laptop", 2), false).unwrap_err();
        assert!(refused.contains("sessions and conversations") && refused.contains("--same-holder"), "{refused}");
        assert_eq!(keys.len(), 2);
        put(&mut keys, key("laptop", 2), true).unwrap();
        assert_eq!(keys, [key("ci", 1), key("laptop", 2)]);
    }

    #[test]
    fn a_full_list_forgets_the_oldest_revoked_key_and_no_other() {
        let mut keys: Vec<ApiKey> = (0..KEYS_MAX).map(|number| key(&format!("k{number}"), 1)).collect();
        assert!(put(&mut keys, key("new", 2), false).unwrap_err().contains("revoke one first"));
        keys[7].revoke(Timestamp(2));
        put(&mut keys, key("new", 2), false).unwrap();
        assert!(keys.len() == KEYS_MAX && !keys.iter().any(|key| key.name == "k7"));
    }
}
