//! The file of API keys in the data directory. The running service reloads it when it changes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::files;
use domain::api_key::{ApiKey, KEYS_MAX, KeyHash, KeyRing, NAME_MAX, is_name};
use domain::ids::Timestamp;
use secrecy::ExposeSecret;
use settings::Settings;
use telemetry::events::CONFIG_WARNING;

/// The file in the data directory.
pub(crate) const FILE: &str = "keys.json";
/// Locked while the file is changed.
const LOCK: &str = "keys.lock";
/// The reserved prefixes of names: those of callers without a key of the file.
const RESERVED: [&str; 2] = ["local", "operator"];
/// The maximum number of revoked keys in the shared list; the oldest are evicted. Each process removes them from its
/// own file, so it must receive each one once.
const REVOKED_MAX: usize = 1_000;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    version: u32,
    keys: Vec<ApiKey>,
}

/// Returns the path of the key file for these settings.
pub(crate) fn file(settings: &Settings) -> PathBuf {
    settings.store.dir.join(FILE)
}

/// Returns all keys: those of the settings, and those of the file.
///
/// # Errors
/// A sentence that names the file and the problem.
pub(crate) fn ring(settings: &Settings) -> Result<KeyRing, String> {
    let set = KeyRing::of_secrets(settings.http.api_keys.iter().map(ExposeSecret::expose_secret));
    Ok(match read(&file(settings))? {
        Some(kept) => set.with(kept.into_iter().filter(|key| !key.is_revoked())),
        None => set,
    })
}

/// Returns the keys of the file, revoked ones included, or `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<ApiKey>>, String> {
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

/// Checks the name of a key.
///
/// # Errors
/// A sentence with the fix.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if !is_name(name) {
        return Err(format!("{name:?} is no name of a key; use 1 to {NAME_MAX} letters, digits, - _ . @"));
    }
    if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
        return Err(format!("names that begin with {} are taken; choose another one", RESERVED.join(" or ")));
    }
    Ok(())
}

/// The keys revoked by any process of a shared store, the oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Revoked {
    version: u32,
    sha256: Vec<KeyHash>,
}

impl Revoked {
    /// Parses the shared list.
    ///
    /// # Errors
    /// A sentence, if this program does not read it.
    pub(crate) fn parse(stored: &str) -> Result<Self, String> {
        match serde_json::from_str::<Self>(stored) {
            Ok(list) if list.version == 1 => Ok(list),
            Ok(list) => Err(format!("is of version {}, and this program reads version 1", list.version)),
            Err(error) => Err(format!("is damaged: {error}")),
        }
    }

    /// Returns the list with these keys as the newest; the oldest are evicted.
    pub(crate) fn with(self, revoked: &[KeyHash]) -> Self {
        let mut sha256 = self.sha256;
        sha256.retain(|hash| !revoked.contains(hash));
        sha256.extend(revoked);
        sha256.drain(..sha256.len().saturating_sub(REVOKED_MAX));
        Self { version: 1, sha256 }
    }
}

/// Revokes the keys of the file that another process on the shared store revoked. True if there was one.
pub(crate) fn mirror(path: &Path, shared: &str, now: Timestamp) -> bool {
    let Ok(Revoked { sha256, .. }) = Revoked::parse(shared) else { return false };
    let is_revoked = |key: &ApiKey| sha256.contains(&key.sha256) && !key.is_revoked();
    // An unreadable file is reported where the running configuration reads it.
    if !matches!(read(path), Ok(Some(keys)) if keys.iter().any(is_revoked)) {
        return false;
    }
    let removed = change_file(path, |keys| {
        keys.iter_mut().filter(|key| is_revoked(key)).for_each(|key| key.revoke(now));
        Ok(())
    });
    if let Err(error) = &removed {
        tracing::error!(
            event = CONFIG_WARNING,
            key = "keys",
            error,
            "a key that was revoked on another machine is still in force here"
        );
    }
    removed.is_ok()
}

/// Changes the key file of these settings.
pub(crate) fn change(
    settings: &Settings,
    change: impl FnOnce(&mut Vec<ApiKey>) -> Result<(), String>,
) -> Result<(), String> {
    change_file(&file(settings), change)
}

/// Changes the file. Concurrent changes wait for the lock, which is held only while the file is written.
fn change_file(path: &Path, change: impl FnOnce(&mut Vec<ApiKey>) -> Result<(), String>) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let lock = files::lock_file(path.parent().unwrap_or(Path::new(".")), LOCK).map_err(failed)?;
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
    fn a_key_that_another_machine_revoked_is_revoked_here_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let key =
            |name: &str, hash: KeyHash| serde_json::json!({"name": name, "sha256": hash.to_hex(), "rights": ["chat"]});
        let (first, second) = (KeyHash::of("first"), KeyHash::of("second"));
        let file = serde_json::json!({"version": 1, "keys": [key("laptop", first), key("ci", second)]});
        std::fs::write(&path, file.to_string()).unwrap();
        let revoked =
            |hashes: &[KeyHash]| serde_json::to_string(&Revoked { version: 1, sha256: hashes.to_vec() }).unwrap();
        let mirror = |shared: &str| mirror(&path, shared, Timestamp(1_000));
        assert!(!mirror(&revoked(&[KeyHash::of("third")])) && !mirror("nonsense"));
        assert!(mirror(&revoked(&[first])));
        let keys = read(&path).unwrap().unwrap();
        let valid: Vec<&str> = keys.iter().filter(|key| !key.is_revoked()).map(|key| key.name.as_str()).collect();
        assert_eq!(valid, ["ci"]);
        assert!(!mirror(&revoked(&[first])), "there is nothing more to do");
    }
}
