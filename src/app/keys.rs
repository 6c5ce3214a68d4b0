//! The file of keys in the data directory, and `staffai key`, which changes it. The running service reads it again by itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::commands::Reading;
use super::system::{SystemClock, random_bits};
use super::{Cli, Options, assemble, exit, files};
use domain::api_key::{ApiKey, KEYS_MAX, KeyHash, KeyLimits, KeyRing, NAME_MAX, PREFIX, Right, is_name};
use domain::ids::Timestamp;
use domain::keys::REVOKED_KEYS;
use ports::{Clock, Replaced, replace};
use secrecy::ExposeSecret;
use settings::Settings;

/// The file in the data directory.
pub(super) const FILE: &str = "keys.json";
/// Held while the file is changed.
const LOCK: &str = "keys.lock";
/// How the names of those begin who have no key of the file.
const RESERVED: [&str; 2] = ["local", "operator"];
/// The most revoked keys that processes tell each other of; the oldest give way. Each process removes them from its own file, so it
/// has to be told once.
const REVOKED_MAX: usize = 1_000;
/// How long the shared store may take to be left.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Makes a key and prints it, once: only its hash is kept.
    Add {
        /// Whose it is: 1 to 64 letters, digits, - _ . @
        name: String,
        /// What it opens; may be given more than once. Without this it may chat.
        #[arg(long = "right", value_name = "RIGHT")]
        rights: Vec<RightName>,
        /// The key of a model row that it may ask; may be given more than once. Without this it may ask all.
        #[arg(long = "model", value_name = "ROW")]
        models: Vec<String>,
        /// The name of a door that it opens; may be given more than once. Without this it opens all.
        #[arg(long = "door", value_name = "NAME")]
        doors: Vec<String>,
        /// The name of a profile of prompts that it may choose; may be given more than once. Without this it may choose all.
        #[arg(long = "profile", value_name = "NAME")]
        profiles: Vec<String>,
        /// Requests within the window of the limits, in place of those of every member; 0 for any number.
        #[arg(long, value_name = "NUMBER", requires = "tokens")]
        messages: Option<u32>,
        /// Tokens within the window of the limits; 0 for any number.
        #[arg(long, value_name = "NUMBER", requires = "messages")]
        tokens: Option<u64>,
        /// Days until it ends. Without this it does not.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: Option<u64>,
        #[command(flatten)]
        options: Options,
    },
    /// All keys, one a line.
    List {
        #[command(flatten)]
        options: Options,
    },
    /// Ends a key.
    Revoke {
        /// Whose it is.
        name: String,
        #[command(flatten)]
        options: Options,
    },
}

impl Action {
    pub(super) fn options(&self) -> &Options {
        match self {
            Self::Add { options, .. } | Self::List { options } | Self::Revoke { options, .. } => options,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum RightName {
    /// Asking.
    Chat,
    /// Our tools may be used for its answers.
    Tools,
    /// Dashboard, tree, sessions of the terminal.
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

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    version: u32,
    keys: Vec<ApiKey>,
}

/// The file of keys that belongs to these settings.
pub(super) fn file(settings: &Settings) -> PathBuf {
    settings.store.dir.join(FILE)
}

/// All keys: those that are set, and those of the file.
///
/// # Errors
/// A sentence that names the file and what is wrong with it.
pub(super) fn ring(settings: &Settings) -> Result<KeyRing, String> {
    let set = KeyRing::of_secrets(settings.http.api_keys.iter().map(ExposeSecret::expose_secret));
    Ok(match read(&file(settings))? {
        Some(kept) => set.with(kept),
        None => set,
    })
}

/// The keys of the file; none when there is no file.
fn read(path: &Path) -> Result<Option<Vec<ApiKey>>, String> {
    let Some(text) = files::read(path)? else { return Ok(None) };
    let shown = path.display();
    let KeyFile { version, keys } = serde_json::from_str(&text).map_err(|error| {
        format!("{shown}: {error}; mend the file, or move it away and make keys with staffai key add")
    })?;
    if version != 1 {
        return Err(format!("{shown}: is of version {version}, and this program reads version 1"));
    }
    if keys.len() > KEYS_MAX {
        return Err(format!("{shown}: has more than the {KEYS_MAX} keys that are read"));
    }
    for (at, key) in keys.iter().enumerate() {
        check_name(&key.name).map_err(|mistake| format!("{shown}: {mistake}"))?;
        if keys[..at].iter().any(|other| other.name == key.name) {
            return Err(format!("{shown}: the name {} is there twice; rename one", key.name));
        }
    }
    Ok(Some(keys))
}

fn check_name(name: &str) -> Result<(), String> {
    if !is_name(name) {
        return Err(format!("{name:?} is no name of a key; use 1 to {NAME_MAX} letters, digits, - _ . @"));
    }
    if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
        return Err(format!("names that begin with {} are taken; choose another one", RESERVED.join(" or ")));
    }
    Ok(())
}

/// Does it.
pub(super) async fn run(cli: &Cli, action: &Action) -> u8 {
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
    let Action::Add { name, rights, models, doors, profiles, messages, tokens, days, .. } = action else {
        return Ok(());
    };
    check_name(name)?;
    let known: Vec<String> = super::doors::rules(settings).into_keys().map(|door| door.to_string()).collect();
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
    change(settings, |keys| {
        if keys.iter().any(|key| key.name == *name) {
            return Err(format!("there is a key of {name} already; choose another name, or revoke it first"));
        }
        if keys.len() >= KEYS_MAX {
            return Err(format!("there are {KEYS_MAX} keys already; revoke one first"));
        }
        keys.push(made);
        Ok(())
    })?;
    eprintln!("the key of {name}, which is shown this once:");
    say!("{key}");
    if !ring(settings)?.has_operator(SystemClock.now()) {
        eprintln!(
            "no key has the right operate, so nobody can open the dashboard and the sessions of the terminal: \
             staffai key add NAME --right operate makes one that has it"
        );
    }
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
            || "of every member".to_owned(),
            |KeyLimits { messages, tokens }| format!("{messages} requests, {tokens} tokens"),
        );
        let until = match key.expires_at {
            None => "no end".to_owned(),
            Some(_) if key.is_over(now) => "ended".to_owned(),
            Some(at) => format!("until {}", day(Timestamp(at))),
        };
        let profiles = match key.profiles.as_slice() {
            [] => String::new(),
            some => format!("  profiles: {}", some.join(",")),
        };
        say!(
            "{}  rights: {}  models: {}  doors: {}{profiles}  limits: {limits}  made {}  {until}",
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
    let mut revoked = Vec::new();
    change(settings, |keys| {
        revoked.extend(keys.iter().filter(|key| key.name == name).map(|key| key.sha256));
        keys.retain(|key| key.name != name);
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
    say!("the key of {name} opens nothing any more, and its open streams end, within 2 seconds");
    if ring(settings)?.has_none() {
        let file = file(settings);
        eprintln!(
            "no key is left, so nobody may ask; make one with staffai key add, or remove {} to let this machine ask without one",
            file.display()
        );
    }
    Ok(())
}

/// Keys that were revoked by any process of a shared store, the oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Revoked {
    version: u32,
    sha256: Vec<KeyHash>,
}

/// Tells the other processes of a shared store that these keys are revoked. The embedded store is of one process alone.
async fn tell(settings: &Settings, revoked: &[KeyHash]) -> Result<(), String> {
    if settings.redis.address().is_none() {
        return Ok(());
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = assemble::store(settings, &clock, None).await.map_err(|error| error.to_string())?;
    let told = replace(&*store, REVOKED_KEYS, |stored| {
        let mut known: Revoked = stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        known.version = 1;
        known.sha256.retain(|hash| !revoked.contains(hash));
        known.sha256.extend(revoked);
        let over = known.sha256.len().saturating_sub(REVOKED_MAX);
        known.sha256.drain(..over);
        serde_json::to_string(&known).ok()
    });
    let told = told.await;
    store.close(CLOSED_WITHIN).await;
    match told {
        Replaced::Done => Ok(()),
        Replaced::Other => Err("the list of revoked keys is being changed by another machine".to_owned()),
        Replaced::Away => Err("the store that processes share cannot be reached".to_owned()),
    }
}

/// Removes the keys from the file that another process on the shared store revoked. True when there was one.
pub(super) fn mirror(path: &Path, shared: &str) -> bool {
    let Ok(Revoked { sha256, .. }) = serde_json::from_str(shared) else { return false };
    let is_revoked = |key: &ApiKey| sha256.contains(&key.sha256);
    // A file that cannot be read is told of where it is read for what runs.
    if !matches!(read(path), Ok(Some(keys)) if keys.iter().any(is_revoked)) {
        return false;
    }
    let removed = change_file(path, |keys| {
        keys.retain(|key| !is_revoked(key));
        Ok(())
    });
    if let Err(error) = &removed {
        tracing::error!(
            event = "config.warning",
            key = "keys",
            error,
            "a key that was revoked on another machine is still in force here"
        );
    }
    removed.is_ok()
}

/// Changes the file of these settings.
fn change(settings: &Settings, change: impl FnOnce(&mut Vec<ApiKey>) -> Result<(), String>) -> Result<(), String> {
    change_file(&file(settings), change)
}

/// Changes the file. Others that want to wait meanwhile.
fn change_file(path: &Path, change: impl FnOnce(&mut Vec<ApiKey>) -> Result<(), String>) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).map_err(failed)?;
    let lock = File::create(dir.join(LOCK)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut keys = read(path)?.unwrap_or_default();
    change(&mut keys)?;
    let text = serde_json::to_string_pretty(&KeyFile { version: 1, keys }).map_err(|error| error.to_string())?;
    files::replace(path, &format!("{text}\n")).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_wrong_names_the_place_and_the_fix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(read(&path).unwrap().is_none(), "no file, no keys");
        let key =
            |name: &str| format!("{{\"name\":\"{name}\",\"sha256\":\"{}\",\"rights\":[\"chat\"]}}", "0".repeat(64));
        let whole = |keys: &[String]| format!("{{\"version\":1,\"keys\":[{}]}}", keys.join(","));
        std::fs::write(&path, whole(&[key("laptop"), key("ci")])).unwrap();
        assert_eq!(read(&path).unwrap().map(|keys| keys.len()), Some(2));
        for (text, expected) in [
            ("{".to_owned(), "mend the file"),
            (whole(&[key("laptop"), key("laptop")]), "is there twice"),
            (whole(&[key("a b")]), "is no name of a key"),
            (whole(&[key("operator")]), "are taken"),
            ("{\"version\":2,\"keys\":[]}".to_owned(), "is of version 2"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let mistake = read(&path).unwrap_err();
            assert!(mistake.contains(expected) && mistake.contains(FILE), "{text}: {mistake}");
        }
    }

    #[test]
    fn a_key_that_another_machine_revoked_leaves_the_file_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let key =
            |name: &str, hash: KeyHash| serde_json::json!({"name": name, "sha256": hash.to_hex(), "rights": ["chat"]});
        let (first, second) = (KeyHash::of("first"), KeyHash::of("second"));
        let file = serde_json::json!({"version": 1, "keys": [key("laptop", first), key("ci", second)]});
        std::fs::write(&path, file.to_string()).unwrap();
        let revoked =
            |hashes: &[KeyHash]| serde_json::to_string(&Revoked { version: 1, sha256: hashes.to_vec() }).unwrap();
        assert!(!mirror(&path, &revoked(&[KeyHash::of("third")])) && !mirror(&path, "nonsense"));
        assert!(mirror(&path, &revoked(&[first])));
        let names: Vec<String> = read(&path).unwrap().unwrap().into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["ci"]);
        assert!(!mirror(&path, &revoked(&[first])), "there is nothing more to do");
    }
}
