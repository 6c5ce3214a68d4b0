//! Backup and restore of all stored data, also while the service runs.
//!
//! A copy is text, one JSON object per line: a head with its version, a line for each key with its value and expiry, a
//! line for each data directory file that belongs to it, and a last line with the number of lines and their SHA-256. A
//! copy without that last line is truncated and is refused. A copy of the embedded store is a snapshot of one moment; a
//! copy of Redis holds each key as it was when it was read.

mod lines;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

pub(crate) use self::lines::{Copy, PassingCheck};
use self::lines::{Line, VERSION};
use crate::app::{files, keys, rows};
use domain::format::{OURS, PARTIAL};
use domain::hex::hex;
use domain::ids::{self, Timestamp};
use domain::keys::limits::{ACCOUNT_PREFIX, MESSAGE_LIMIT_PREFIX, TOKEN_LIMIT_PREFIX};
use domain::keys::{FORMAT, MODEL_ROWS, REVOKED_KEYS};
use ports::{Backups, Clock, Store, StoredRow, Write};
use settings::Settings;
use telemetry::events::{BACKUP_FAILED, BACKUP_MADE};

/// The maximum number of rows buffered from the store.
const ROWS_AHEAD: usize = 256;
/// The maximum number of chunks buffered for the reader, each of about [`CHUNK`] bytes.
pub(crate) const CHUNKS_AHEAD: usize = 4;
const CHUNK: usize = 64 * 1024;
/// The maximum number of rows restored with one write.
const ROWS_AT_ONCE: usize = 256;
/// The maximum bytes of values restored with one write.
const BYTES_AT_ONCE: usize = 1024 * 1024;
/// The folder of logins at tool servers, below the data directory.
const LOGINS: &str = "mcp-logins";
/// The maximum number of logins in a copy.
const LOGINS_MAX: usize = 1_000;

/// Creates copies for a running program.
pub(crate) struct Copies {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// The data directory.
    pub dir: PathBuf,
}

impl Backups for Copies {
    fn begin(&self) -> mpsc::Receiver<Vec<u8>> {
        let (store, clock, dir) = (Arc::clone(&self.store), Arc::clone(&self.clock), self.dir.clone());
        let (to, chunks) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(async move {
            let mut copying = Copying { to, chunk: Vec::new(), lines: 0, hash: Sha256::new() };
            // Restore refuses a copy without its last line.
            if let Err(why) = copying.run(&*store, &*clock, &dir).await {
                tracing::warn!(event = BACKUP_FAILED, reason = why, "a copy of the store was not finished");
            } else {
                tracing::info!(event = BACKUP_MADE, lines = copying.lines, "a copy of the store was made");
            }
        });
        chunks
    }
}

/// A copy in progress.
struct Copying {
    to: mpsc::Sender<Vec<u8>>,
    chunk: Vec<u8>,
    lines: u64,
    hash: Sha256,
}

impl Copying {
    async fn run(&mut self, store: &dyn Store, clock: &dyn Clock, dir: &Path) -> Result<(), String> {
        let at = clock.now();
        let program = env!("CARGO_PKG_VERSION").to_owned();
        self.line(&Line::Head { staffai_backup: VERSION, program, at: at.0 }).await?;
        let (rows, mut copied) = mpsc::channel::<StoredRow>(ROWS_AHEAD);
        let take = async {
            while let Some(StoredRow { key, value, ttl }) = copied.recv().await {
                let end = ttl.map(|ttl| clock.now().0.saturating_add(ids::millis(ttl)));
                self.line(&Line::Row { key, value, end }).await?;
            }
            Ok(())
        };
        let (copied, taken): (Result<(), String>, Result<(), String>) = tokio::join!(store.copy(rows), take);
        copied.and(taken)?;
        for (file, text) in kept_files(dir)? {
            self.line(&Line::File { file, text }).await?;
        }
        let sha256 = hex(&self.hash.clone().finalize());
        self.line(&Line::End { lines: self.lines, sha256 }).await?;
        self.flush().await
    }

    async fn line(&mut self, line: &Line) -> Result<(), String> {
        let mut text = serde_json::to_vec(line).map_err(|error| error.to_string())?;
        text.push(b'\n');
        self.hash.update(&text);
        self.lines += 1;
        self.chunk.extend_from_slice(&text);
        if self.chunk.len() >= CHUNK { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), String> {
        let chunk = std::mem::take(&mut self.chunk);
        self.to.send(chunk).await.map_err(|_| "nothing reads it any more".to_owned())
    }
}

/// Returns the data directory files that belong to a copy, as pairs of name below the directory and content.
fn kept_files(dir: &Path) -> Result<Vec<(String, String)>, String> {
    let mut names = vec![keys::FILE.to_owned(), rows::FILE.to_owned()];
    if let Ok(entries) = fs::read_dir(dir.join(LOGINS)) {
        let found = entries.flatten().take(LOGINS_MAX).filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<String> = found.filter(|name| is_login(name)).collect();
        found.sort();
        names.extend(found.into_iter().map(|name| format!("{LOGINS}/{name}")));
    }
    let mut kept = Vec::new();
    for name in names {
        if let Some(text) = files::read(&dir.join(&name))? {
            kept.push((name, text));
        }
    }
    Ok(kept)
}

/// True if `name` is a valid name of a login file: it cannot lead out of the folder.
fn is_login(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.strip_suffix(".json").is_some_and(|stem| !stem.is_empty() && stem.chars().all(plain))
}

/// Restores the rows and files of a checked copy into an empty store, which is marked as incomplete until the end. Returns
/// a sentence about the result.
///
/// # Errors
/// The store is unavailable or not empty, or the copy cannot be read; the sentence names the fix.
pub(crate) async fn put_into(
    store: &dyn Store,
    settings: &Settings,
    mut copy: Copy<'_>,
    now: Timestamp,
) -> Result<String, String> {
    let away = "the store cannot be reached; staffai check says why";
    if store.status() != ports::StoreStatus::Ready {
        return Err(away.to_owned());
    }
    let Some(rows) = store.scan("", 1).await.whole() else { return Err(away.to_owned()) };
    if !rows.is_empty() {
        return Err("the store is not empty, and a copy is restored into an empty store only; stop the bot, and set \
                    STAFFAI_DATA_DIR to a new directory, or REDIS_URL to an empty database"
            .to_owned());
    }
    // A server stores windows of limits in another form: they begin anew.
    let on_server = settings.chosen_store().is_shared();
    let windows = [MESSAGE_LIMIT_PREFIX, TOKEN_LIMIT_PREFIX, ACCOUNT_PREFIX];
    let stays = |key: &str| !(on_server && windows.iter().any(|window| key.starts_with(window)));
    let format = |value: String| Write::Put { key: FORMAT.to_owned(), value, ttl: None };
    // Plain data always serializes.
    let [ours, partial] = [OURS, PARTIAL].map(|format| serde_json::to_string(&format).unwrap_or_default());
    let (mut batch, mut whole) = (vec![format(partial)], format(ours));
    let (mut bytes, mut put, mut over, mut kept) = (0, 0_u64, 0_u64, 0_u64);
    while let Some((line, _)) = copy.next()? {
        match line {
            Line::Row { end: Some(end), .. } if end <= now.0 => over += 1,
            Line::Row { key, value, .. } if key == FORMAT => (put, whole) = (put + 1, format(value)),
            // Processes on a server share these; the only process of an embedded store has files of them.
            Line::Row { key, value, .. } if key == MODEL_ROWS && !on_server => {
                kept += u64::from(put_file(&settings.store.dir, rows::FILE, &format!("{value}\n"))?);
            }
            Line::Row { key, .. } if key == REVOKED_KEYS && !on_server => {}
            Line::Row { key, value, end } if stays(&key) => {
                put += 1;
                bytes += key.len() + value.len();
                let ttl = end.map(|end| Duration::from_millis(end - now.0));
                batch.push(Write::Put { key, value, ttl });
            }
            Line::Row { .. } => over += 1,
            Line::File { file, text } => kept += u64::from(put_file(&settings.store.dir, &file, &text)?),
            Line::Head { .. } | Line::End { .. } => {}
        }
        if batch.len() >= ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE {
            bytes = 0;
            if !store.commit(std::mem::take(&mut batch)).await {
                return Err(format!("{away}; empty it and try again"));
            }
        }
    }
    // The mark is replaced by a write of its own, after all others are durable.
    for last in [batch, vec![whole]] {
        if !store.commit(last).await {
            return Err(format!("{away}; empty it and try again"));
        }
    }
    Ok(format!("restored {put} keys and {kept} files; skipped {over} expired keys and limit windows"))
}

/// Writes a file of the data directory unless it exists. True if it was written.
fn put_file(dir: &Path, name: &str, text: &str) -> Result<bool, String> {
    let known = [keys::FILE, rows::FILE].contains(&name)
        || name.strip_prefix(LOGINS).and_then(|name| name.strip_prefix('/')).is_some_and(is_login);
    let path = dir.join(name);
    if !known || path.exists() {
        return Ok(false);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    files::replace(&path, text).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use ports::testing::MemoryStore;
    use settings::sources::Sources;

    #[test]
    fn a_file_of_a_copy_is_written_into_the_data_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["../evil", "mcp-logins/../../evil", "/etc/evil", "staffai.redb", "mcp-logins/a.txt", "mcp-logins/.json"]
        {
            assert_eq!(put_file(dir.path(), name, "x"), Ok(false), "{name}");
        }
        assert_eq!(put_file(dir.path(), "mcp-logins/a.json", "x"), Ok(true));
        assert_eq!(put_file(dir.path(), "mcp-logins/a.json", "y"), Ok(false), "what is there stays");
        assert_eq!(fs::read_to_string(dir.path().join("mcp-logins/a.json")).unwrap(), "x");
    }

    #[tokio::test]
    async fn a_store_is_marked_as_incomplete_until_all_of_a_copy_is_in_it() {
        let (source, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
        for row in 0..2 * ROWS_AT_ONCE {
            source.put(format!("row:{row:04}"), "value");
        }
        source.put(FORMAT.to_owned(), r#"{"format":0,"read_by":0}"#);
        let copies = Copies { store: source, clock: Arc::new(SystemClock), dir: dir.path().to_owned() };
        let (mut chunks, mut text) = (copies.begin(), Vec::new());
        while let Some(chunk) = chunks.recv().await {
            text.extend(chunk);
        }
        let path = dir.path().join("copy");
        let toml = format!("[store]\ndir = {:?}", dir.path());
        let sources = Sources::from_maps([].into(), [("staffai.toml".into(), toml)].into());
        let settings = settings::load(&sources).unwrap().settings;
        let put = async |text: &[u8]| {
            fs::write(&path, text).unwrap();
            let store = MemoryStore::new();
            let done = put_into(&store, &settings, Copy::open(&path).unwrap(), Timestamp(0)).await;
            let keys = store.entries.lock().len();
            (done.is_ok(), keys, store.get(FORMAT).await)
        };
        // In the middle of a line.
        let cut = text[..text.len() - 400].trim_ascii_end().len() - 1;
        let (done, keys, mark) = put(&text[..cut]).await;
        assert!(!done && keys >= ROWS_AT_ONCE, "{keys}");
        assert!(domain::format::examine(mark.as_deref()).unwrap_err().contains("only a part of a copy"));
        let whole = (true, 2 * ROWS_AT_ONCE + 1, Some(r#"{"format":0,"read_by":0}"#.to_owned()));
        assert_eq!(put(&text).await, whole);
    }
}
