//! Opening of the file: creation, exclusive access, renaming of a damaged file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::Database;

use super::memtable::Memtable;
use super::wal::Wal;
use super::{APPLIED, ENDS, Embedded, FILE, LOG_FILE, LOGGED, VALUES, damaged, tables};
use crate::OpenError;
use ports::Clock;

/// The memory for cached pages. The default of redb is a gigabyte.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// The most names tried for a damaged file.
const ASIDE_NAMES: u64 = 1_000;

/// Opens the file, repeatedly if necessary.
pub struct Opener {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    /// Set when damage was detected during use; the next opening verifies the whole file.
    suspect: Arc<AtomicBool>,
}

impl Opener {
    /// Creates the opener of the file in this directory.
    pub fn new(dir: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { dir: dir.into(), clock, suspect: Arc::default() }
    }

    /// Opens the file, and creates it and its directory if missing. A damaged file is renamed and a new one created.
    /// Blocks.
    ///
    /// # Errors
    /// The file is in use, or the directory is not accessible.
    pub fn open(&self) -> Result<Embedded, OpenError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            OpenError::Failed(format!(
                "{what} in {} ({error}); give the directory to the user that runs the bot, or set STAFFAI_DATA_DIR to one of that user",
                self.dir.display()
            ))
        };
        make_dir(&self.dir).map_err(|error| failed("cannot make the data directory", &error))?;
        let path = self.dir.join(FILE);
        let database = match self.open_file(&path) {
            Err(OpenRefusal::Damaged(reason)) => {
                let aside = self.put_aside(&path).map_err(|error| failed("cannot rename the damaged store", &error))?;
                tracing::error!(
                    file = %path.display(), aside = %aside.display(), reason,
                    "the store's file is damaged; it was renamed and a new one is created"
                );
                self.open_file(&path)
            }
            other => other,
        };
        match database {
            Ok((database, wal)) => {
                let (clock, suspect) = (Arc::clone(&self.clock), Arc::clone(&self.suspect));
                Ok(Embedded::new(database, wal, path, clock, suspect))
            }
            Err(OpenRefusal::InUse) => Err(OpenError::InUse(format!(
                "the data directory {} is in use by another process; stop that one, or give this one a directory of its own \
                 with STAFFAI_DATA_DIR",
                self.dir.display()
            ))),
            Err(OpenRefusal::Damaged(reason) | OpenRefusal::Other(reason)) => {
                Err(failed("cannot open the store", &reason))
            }
        }
    }

    fn open_file(&self, path: &Path) -> Result<(Database, Wal), OpenRefusal> {
        let file = open_private(path).map_err(|error| OpenRefusal::Other(error.to_string()))?;
        // A maliciously damaged file may panic the library instead of returning an error.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut database = Database::builder().set_cache_size(CACHE_BYTES).create_file(file)?;
            if self.suspect.load(Ordering::Acquire) {
                database.check_integrity()?;
            }
            make_tables(&database)?;
            let wal = replay(&database, &self.dir.join(LOG_FILE))?;
            Ok::<_, redb::Error>((database, wal))
        }));
        match opened {
            Ok(Ok(opened)) => {
                self.suspect.store(false, Ordering::Release);
                Ok(opened)
            }
            Ok(Err(error)) => Err(OpenRefusal::from(error)),
            Err(_) => Err(OpenRefusal::Damaged("the library panicked".to_owned())),
        }
    }

    fn put_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let now = self.clock.now().0;
        for ms in now..now.saturating_add(ASIDE_NAMES) {
            let aside = self.dir.join(format!("{FILE}.corrupt-{ms}"));
            if !aside.try_exists()? {
                fs::rename(path, &aside)?;
                // The log belongs to the renamed file.
                let log = self.dir.join(LOG_FILE);
                if log.try_exists()? {
                    fs::rename(log, self.dir.join(format!("{LOG_FILE}.corrupt-{ms}")))?;
                }
                return Ok(aside);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many damaged files"))
    }
}

/// The reason why the file did not open.
enum OpenRefusal {
    InUse,
    Damaged(String),
    Other(String),
}

impl From<redb::Error> for OpenRefusal {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            other if damaged(&other) => Self::Damaged(other.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Moves rows that a crash left in the log into the tables, and returns the log for new records. Nothing is taken from
/// a log if the file never had one, or if an earlier version of this program ignored the log and continued without it.
fn replay(database: &Database, path: &Path) -> Result<Wal, redb::Error> {
    let logged = tables::logged(database)?;
    let is_new = !path.try_exists()?;
    let file = open_private(path)?;
    if is_new {
        // The directory entry must survive a power failure before its first record can.
        File::open(path.parent().unwrap_or(path))?.sync_all()?;
    }
    let (mut wal, records) = Wal::open(file, logged.unwrap_or(0))?;
    if logged.is_none() {
        wal.clear()?;
        let transaction = database.begin_write()?;
        transaction.open_table(APPLIED)?.insert(LOGGED, wal.last())?;
        transaction.commit()?;
    } else if !records.is_empty() {
        let mut memtable = Memtable::default();
        for record in records {
            memtable.take(record);
        }
        tables::take(database, &memtable)?;
    }
    Ok(wal)
}

fn make_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(VALUES)?;
    transaction.open_table(APPLIED)?;
    transaction.delete_table(ENDS)?;
    transaction.commit()?;
    Ok(())
}

/// Creates the directory. It contains members' messages, so other accounts must not read it. The permissions of an
/// existing one are restricted if this account owns it; otherwise a warning is logged and the start continues.
fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    #[cfg(unix)]
    tighten(dir);
    Ok(())
}

#[cfg(unix)]
fn tighten(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(about) = fs::metadata(dir) else { return };
    let mode = about.permissions().mode() & 0o7777;
    if mode.trailing_zeros() >= 6 {
        return;
    }
    match fs::set_permissions(dir, fs::Permissions::from_mode(mode & !0o077)) {
        Ok(()) => tracing::info!(dir = %dir.display(), "others could read the data directory; now only its owner can"),
        // A directory shared through its group, as in cluster volumes, is not open to others.
        Err(_) if mode.trailing_zeros() >= 3 => {}
        Err(error) => tracing::warn!(dir = %dir.display(), %error, "other users can read the data directory"),
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
