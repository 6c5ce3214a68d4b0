//! Opening the file: making it, finding that it is in use, putting a damaged one aside.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::Database;

use super::{APPLIED, EXPIRY, Embedded, FILE, VALUES, damaged};
use crate::ports::Clock;
use crate::store::OpenError;

/// Memory for pages of the file. The library's own default is a gigabyte.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// How many names are tried for a damaged file.
const ASIDE_NAMES: u64 = 1_000;

/// Opens the file, again and again if need be.
pub struct Opener {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    /// Damage showed while the file was in use, so the next opening looks at all of it.
    suspect: Arc<AtomicBool>,
}

impl Opener {
    /// For the file in this directory.
    pub fn new(dir: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { dir: dir.into(), clock, suspect: Arc::default() }
    }

    /// Opens the file; makes it and its directory when they are missing. A damaged file is put aside and a new one begun.
    /// Blocks.
    ///
    /// # Errors
    /// The file is in use, or the directory does not let us.
    pub fn open(&self) -> Result<Embedded, OpenError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            OpenError::Failed(format!("{what} in {}: {error}", self.dir.display()))
        };
        make_dir(&self.dir).map_err(|error| failed("cannot make the data directory", &error))?;
        let path = self.dir.join(FILE);
        let database = match self.open_file(&path) {
            Err(OpenRefusal::Damaged(reason)) => {
                let aside =
                    self.put_aside(&path).map_err(|error| failed("cannot put the damaged store aside", &error))?;
                tracing::error!(
                    file = %path.display(), aside = %aside.display(), reason,
                    "the store's file is damaged; it was put aside and a new one is begun"
                );
                self.open_file(&path)
            }
            other => other,
        };
        match database {
            Ok(database) => Ok(Embedded::new(database, path, Arc::clone(&self.clock), Arc::clone(&self.suspect))),
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

    fn open_file(&self, path: &Path) -> Result<Database, OpenRefusal> {
        let file = open_private(path).map_err(|error| OpenRefusal::Other(error.to_string()))?;
        // A file that was damaged with a purpose may trip an assertion of the library rather than give an error.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut database = Database::builder().set_cache_size(CACHE_BYTES).create_file(file)?;
            if self.suspect.load(Ordering::Acquire) {
                database.check_integrity()?;
            }
            make_tables(&database)?;
            Ok::<_, redb::Error>(database)
        }));
        match opened {
            Ok(Ok(database)) => {
                self.suspect.store(false, Ordering::Release);
                Ok(database)
            }
            Ok(Err(error)) => Err(OpenRefusal::from(error)),
            Err(_) => Err(OpenRefusal::Damaged("the library panicked over it".to_owned())),
        }
    }

    fn put_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let now = self.clock.now().0;
        let names = (now..now.saturating_add(ASIDE_NAMES)).map(|ms| self.dir.join(format!("{FILE}.corrupt-{ms}")));
        for aside in names {
            if !aside.try_exists()? {
                fs::rename(path, &aside)?;
                return Ok(aside);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many damaged files are there already"))
    }
}

/// Why the file did not open.
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

fn make_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(VALUES)?;
    transaction.open_table(EXPIRY)?;
    transaction.open_table(APPLIED)?;
    transaction.commit()?;
    Ok(())
}

/// What is kept here is what people wrote, so no other account of the machine may read the directory. One that was there before us, or
/// that others may read, is tightened where it is ours; where it is not, a warning is logged and the start goes on.
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
        // A directory that is ours through its group, as volumes of a cluster are, is no business of others.
        Err(_) if mode.trailing_zeros() >= 3 => {}
        Err(error) => tracing::warn!(dir = %dir.display(), %error, "others can read the data directory"),
    }
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
