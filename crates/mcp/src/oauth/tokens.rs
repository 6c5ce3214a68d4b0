//! The file of a login, readable only by its owner, like an SSH key.

use std::fs::{self, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use tokio::time::{Instant, sleep};

use super::reach::{Reach, Zone, zone_of};
use domain::ids::Timestamp;

const FILE_BYTES: u64 = 256 * 1024;
/// The timeout of the renewal lock; it covers one request of another process.
const ALONE_TIMEOUT: Duration = Duration::from_secs(15);
/// The interval between two attempts to take the lock.
const ALONE_EVERY: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// The resource identifier of the server (RFC 8707).
    pub resource: String,
    pub issuer: String,
    pub token_endpoint: String,
    pub client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "maybe_exposed")]
    pub client_secret: Option<SecretString>,
    #[serde(serialize_with = "exposed")]
    pub access: SecretString,
    /// The refresh token, if any.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "maybe_exposed")]
    pub refresh: Option<SecretString>,
    /// The expiry of the access token, if known.
    pub ends: Option<Timestamp>,
    /// True if the secret is sent in a header (`client_secret_basic`) instead of the form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub basic: bool,
    /// The server's own resource identifier, if it differs from `resource`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// The zone of the server; `None` in a login of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Zone>,
    /// Origins that the operator confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<String>,
}

impl Tokens {
    /// Returns the addresses that requests of this login may contact.
    pub(super) async fn reach(&self) -> Reach {
        let zone = match (self.zone, Url::parse(&self.resource)) {
            (Some(zone), _) => zone,
            (None, Ok(server)) => zone_of(&server).await,
            (None, Err(_)) => Zone::Public,
        };
        let mut confirmed = self.confirmed.clone();
        // A login of an earlier version, before origins were confirmed, stays usable.
        if let (None, Ok(token)) = (self.zone, Url::parse(&self.token_endpoint)) {
            confirmed.push(token.origin().ascii_serialization());
        }
        Reach { zone, confirmed }
    }
}

fn exposed<S: Serializer>(secret: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(secret.expose_secret())
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn maybe_exposed<S: Serializer>(secret: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(ExposeSecret::expose_secret).serialize(to)
}

/// Reads a login; `None` if there is no file.
///
/// # Errors
/// The mistake in the file and its remedy.
pub(super) fn read(file: &Path) -> Result<Option<Tokens>, String> {
    let shown = file.display();
    let meta = match fs::metadata(file) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{shown} cannot be read: {error}")),
    };
    // Opening a pipe blocks until a writer opens it.
    if !meta.is_file() {
        return Err(format!("{shown} is no regular file; remove it and run `staffai mcp login` again"));
    }
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(format!("{shown} contains a login and is readable by other users; run chmod 600 {shown}"));
    }
    if meta.len() > FILE_BYTES {
        return Err(format!("{shown} is too large for a login; run `staffai mcp login` again"));
    }
    let text = fs::read_to_string(file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let read = serde_json::from_str(&text);
    // The error would show contents of the file.
    read.map(Some).map_err(|_| format!("{shown} is not a login; run `staffai mcp login` again"))
}

/// Waits until no other process renews this login; dropping the lock releases it. Returns `None` after the timeout: the
/// renewal then continues without the lock, because a process that holds it for so long hangs.
pub(super) async fn alone(file: &Path) -> Option<fs::File> {
    let lock = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file.with_extension("lock")).ok()?;
    let until = Instant::now() + ALONE_TIMEOUT;
    while let Err(TryLockError::WouldBlock) = lock.try_lock() {
        if Instant::now() >= until {
            return None;
        }
        sleep(ALONE_EVERY).await;
    }
    Some(lock)
}

/// Replaces the file of a login atomically.
///
/// # Errors
/// The reason why it cannot be written.
pub(super) fn write(file: &Path, tokens: &Tokens) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{} cannot be written: {error}", file.display());
    if let Some(dir) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    let text = serde_json::to_string_pretty(tokens).map_err(|error| failed(error.into()))?;
    let beside = file.with_extension("json.new");
    // A file left by a crash may have other permissions.
    let _ = fs::remove_file(&beside);
    let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
    new.write_all(text.as_bytes()).and_then(|()| new.sync_all()).map_err(failed)?;
    fs::rename(&beside, file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens {
            resource: "https://a.example/mcp".to_owned(),
            issuer: "https://b.example".to_owned(),
            token_endpoint: "https://b.example/token".to_owned(),
            client_id: "c".to_owned(),
            client_secret: None,
            access: SecretString::from("secret-access"),
            refresh: Some(SecretString::from("secret-refresh")),
            ends: Some(Timestamp(5)),
            basic: false,
            published: None,
            zone: Some(Zone::Public),
            confirmed: Vec::new(),
        }
    }

    #[test]
    fn a_login_is_kept_for_its_owner_alone_and_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("logins/a.json");
        assert!(read(&file).unwrap().is_none());
        for _ in 0..2 {
            write(&file, &tokens()).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        let kept = read(&file).unwrap().unwrap();
        assert_eq!((kept.access.expose_secret(), kept.ends), ("secret-access", Some(Timestamp(5))));
        assert!(!format!("{kept:?}").contains("secret-"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&file).unwrap_err().contains("chmod 600"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, r#"{"access": "secret-access", "#).unwrap();
        let mistake = read(&file).unwrap_err();
        assert!(mistake.contains("mcp login") && !mistake.contains("secret-"), "{mistake}");
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&file).status().unwrap().success());
        assert!(read(&file).unwrap_err().contains("is no regular file"), "a pipe is not waited for");
    }

    #[tokio::test]
    async fn a_login_of_an_earlier_version_is_read_and_renewed_where_it_was() {
        let text = r#"{"resource":"http://127.0.0.1:1/mcp","issuer":"http://127.0.0.1:2","token_endpoint":"http://127.0.0.1:2/token",
            "client_id":"c","access":"a","ends":null}"#;
        let kept: Tokens = serde_json::from_str(text).unwrap();
        let reach = kept.reach().await;
        assert_eq!(reach, Reach { zone: Zone::Loopback, confirmed: vec!["http://127.0.0.1:2".to_owned()] });
    }
}
