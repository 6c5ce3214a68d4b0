//! Backup and restore of all stored data, also while the service runs.
//!
//! A copy is text, one JSON object per line: a head with its version, a line for each key with its value and expiry, a
//! line for each data directory file that belongs to it, and a last line with the number of lines and their SHA-256. A
//! copy without that last line is truncated and is refused. A copy of the embedded store is a snapshot of one moment; a
//! copy of Redis holds each key as it was when it was read.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::app::{files, keys, rows};
use domain::format::{OURS, PARTIAL};
use domain::hex::hex;
use domain::ids::{self, Timestamp};
use domain::keys::limits::{ACCOUNT_PREFIX, MESSAGE_LIMIT_PREFIX, TOKEN_LIMIT_PREFIX};
use domain::keys::{FORMAT, MODEL_ROWS, REVOKED_KEYS};
use ports::{Backups, Clock, Store, StoredRow, Write};
use settings::Settings;
use settings::sources::open_regular;
use telemetry::events::{BACKUP_FAILED, BACKUP_MADE};

/// The version of the file format.
const VERSION: u32 = 1;
/// The maximum length of a line on restore, in bytes: larger than any stored value.
const LINE_MAX: u64 = 64 * 1024 * 1024;
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

/// One line of the file.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line {
    Head {
        staffai_backup: u32,
        program: String,
        at: u64,
    },
    Row {
        key: String,
        value: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        end: Option<u64>,
    },
    File {
        file: String,
        text: String,
    },
    End {
        lines: u64,
        sha256: String,
    },
}

/// The fields of any line on restore. Values of other fields are skipped, never stored.
#[derive(Deserialize)]
struct Fields {
    staffai_backup: Option<u32>,
    program: Option<String>,
    at: Option<u64>,
    key: Option<String>,
    value: Option<String>,
    end: Option<u64>,
    file: Option<String>,
    text: Option<String>,
    lines: Option<u64>,
    sha256: Option<String>,
}

impl Line {
    /// Parses one line.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match fields {
            Fields { staffai_backup: Some(staffai_backup), program: Some(program), at: Some(at), .. } => {
                Ok(Self::Head { staffai_backup, program, at })
            }
            Fields { key: Some(key), value: Some(value), end, .. } => Ok(Self::Row { key, value, end }),
            Fields { file: Some(file), text: Some(text), .. } => Ok(Self::File { file, text }),
            Fields { lines: Some(lines), sha256: Some(sha256), .. } => Ok(Self::End { lines, sha256 }),
            _ => Err("it is none of a head, a key, a file and an end".to_owned()),
        }
    }
}

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

/// A copy opened for restore.
pub(crate) struct Copy<'a> {
    path: &'a Path,
    file: BufReader<fs::File>,
}

impl<'a> Copy<'a> {
    pub(crate) fn open(path: &'a Path) -> Result<Self, String> {
        let fix = "name the file that staffai backup made";
        let file = open_regular(path).map_err(|error| format!("{}: {error}; {fix}", path.display()))?;
        Ok(Self::of(path, file))
    }

    /// Reads an open file, which may have no name any more. `path` names it in errors.
    pub(crate) fn of(path: &'a Path, file: fs::File) -> Self {
        Self { path, file: BufReader::new(file) }
    }

    /// Returns the next line and its bytes, or `None` at the end of the file.
    fn next(&mut self) -> Result<Option<(Line, Vec<u8>)>, String> {
        let mut bytes = Vec::new();
        let mut bounded = std::io::Read::take(&mut self.file, LINE_MAX);
        let read = bounded.read_until(b'\n', &mut bytes);
        read.map_err(|error| self.broken(&error.to_string()))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let line = Line::parse(&bytes).map_err(|error| self.broken(&unreadable(&error)))?;
        Ok(Some((line, bytes)))
    }

    fn broken(&self, why: &str) -> String {
        format!("{}: {NOT_WHOLE}: {why}", self.path.display())
    }

    /// Checks the whole copy. Returns the number of lines.
    pub(crate) fn check(mut self) -> Result<u64, String> {
        let mut whole = WholeCheck::default();
        while let Some((line, bytes)) = self.next()? {
            whole.line(line, &bytes).map_err(|why| self.broken(why))?;
        }
        whole.end().map_err(|why| self.broken(why))
    }
}

/// The error of a copy that is truncated, changed or of another format.
const NOT_WHOLE: &str = "is no whole copy of staffai";

fn unreadable(error: &str) -> String {
    format!("a line cannot be read ({error})")
}

/// Checks that a copy has its head, its end, and the lines and hash that its end states.
#[derive(Default)]
struct WholeCheck {
    hash: Sha256,
    lines: u64,
    ended: bool,
}

impl WholeCheck {
    fn line(&mut self, line: Line, bytes: &[u8]) -> Result<(), &'static str> {
        const CHANGED: &str = "it was changed or damaged";
        match line {
            _ if self.ended => return Err(CHANGED),
            Line::Head { staffai_backup: VERSION, .. } if self.lines == 0 => {}
            Line::Head { .. } if self.lines == 0 => return Err("it is of a later version; use that program"),
            _ if self.lines == 0 => return Err("its head is missing"),
            Line::End { lines, sha256 } => {
                if lines != self.lines || sha256 != hex(&self.hash.clone().finalize()) {
                    return Err(CHANGED);
                }
                self.ended = true;
            }
            Line::Head { .. } | Line::Row { .. } | Line::File { .. } => {}
        }
        self.hash.update(bytes);
        self.lines += 1;
        Ok(())
    }

    /// Returns the number of lines.
    fn end(self) -> Result<u64, &'static str> {
        match self {
            Self { lines: 0, .. } => Err("its head is missing"),
            Self { ended: false, .. } => Err("its end is missing; make it again"),
            Self { lines, .. } => Ok(lines),
        }
    }
}

/// Checks a copy while it passes by in chunks.
#[derive(Default)]
pub(crate) struct PassingCheck {
    whole: WholeCheck,
    /// The begun line.
    begun: Vec<u8>,
}

impl PassingCheck {
    /// # Errors
    /// The reason why this is no whole copy.
    pub(crate) fn chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = Line::parse(&self.begun).map_err(|error| format!("{NOT_WHOLE}: {}", unreadable(&error)))?;
                self.whole.line(line, &self.begun).map_err(|why| format!("{NOT_WHOLE}: {why}"))?;
                self.begun.clear();
            } else if self.begun.len() as u64 > LINE_MAX {
                return Err(format!("{NOT_WHOLE}: a line is longer than {LINE_MAX} bytes"));
            }
        }
        Ok(())
    }

    /// Returns the number of lines.
    ///
    /// # Errors
    /// The reason why this is no whole copy.
    pub(crate) fn end(self) -> Result<u64, String> {
        let whole = if self.begun.is_empty() { self.whole.end() } else { Err("its end is missing; make it again") };
        whole.map_err(|why| format!("{NOT_WHOLE}: {why}"))
    }
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

    /// Checks a copy as a file and in chunks of seven bytes; the two must agree.
    fn written(text: &str) -> Result<u64, String> {
        let mut passing = PassingCheck::default();
        let passed = text.as_bytes().chunks(7).try_for_each(|chunk| passing.chunk(chunk));
        let passed = passed.and_then(|()| passing.end());
        let read = read(text);
        match &read {
            Ok(_) => assert_eq!(passed, read),
            // A file may lack the last line break.
            Err(_) => assert!(passed.is_err(), "{text}"),
        }
        read
    }

    fn read(text: &str) -> Result<u64, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        fs::write(&path, text).unwrap();
        Copy::open(&path).and_then(Copy::check)
    }

    #[tokio::test]
    async fn a_copy_that_was_cut_or_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        store.put("a".to_owned(), "1".to_owned());
        let mut chunks =
            Copies { store: Arc::new(store), clock: Arc::new(SystemClock), dir: dir.path().to_owned() }.begin();
        let mut text = String::new();
        while let Some(chunk) = chunks.recv().await {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        assert_eq!(written(&text), Ok(3), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        for (broken, why) in [
            (lines[..2].join("\n"), "its end is missing"),
            (text.replace("\"1\"", "\"2\""), "changed or damaged"),
            (format!("{}\n{}\n", lines[0], lines[2]), "changed or damaged"),
            (text.replace("\"staffai_backup\":1", "\"staffai_backup\":2"), "of a later version"),
            (lines[1..].join("\n"), "its head is missing"),
            (String::new(), "its head is missing"),
            (format!("{text}{}\n", lines[1]), "changed or damaged"),
            ("no JSON\n".to_owned(), "cannot be read"),
        ] {
            let refused = written(&broken).unwrap_err();
            assert!(refused.contains(why), "{refused} should say {why}");
        }
    }

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
