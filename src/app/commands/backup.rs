//! `staffai backup FILE` and `staffai restore FILE`.

use std::fs;
use std::io::{ErrorKind, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::operating::{self, Failed};
use super::reading::Reading;
use crate::app::backup::{CHUNKS_AHEAD, Copies, Copy, PassingCheck, put_into};
use crate::app::drain::STORE_TIMEOUT;
use crate::app::system::SystemClock;
use crate::app::{Cli, exit, files, opening};
use ports::{Backups, Clock, Store};
use settings::{Loaded, Settings};

/// The target of a copy.
enum Target {
    Output,
    File(PathBuf),
}

impl Target {
    /// Returns the standard output for `-`, otherwise the file of this path; of a link, the file to which it leads.
    ///
    /// # Errors
    /// The path exists and is not a regular file.
    fn of(to: &Path) -> Result<Self, Failed> {
        if to == Path::new("-") {
            return Ok(Self::Output);
        }
        let refused = |why: String| {
            let fix = "name a new or a regular file, or - for the standard output";
            (format!("{}: {why}; {fix}", to.display()), exit::USAGE)
        };
        match fs::symlink_metadata(to) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::File(to.to_owned())),
            Err(error) => return Err(refused(error.to_string())),
            Ok(_) => {}
        }
        let path = fs::canonicalize(to).map_err(|error| refused(error.to_string()))?;
        if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            Ok(Self::File(path))
        } else {
            Err(refused("it is no regular file".to_owned()))
        }
    }

    /// Writes a whole copy. Returns the number of lines.
    async fn write(&self, chunks: mpsc::Receiver<Vec<u8>>) -> Result<u64, Failed> {
        match self {
            Self::Output => print(chunks).await,
            Self::File(to) => write(to, chunks).await,
        }
    }
}

/// Writes a copy of the running service's data or, if none runs, of the store.
pub(crate) async fn make(cli: &Cli, to: &Path) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let made = match Target::of(to) {
        Err(refused) => Err(refused),
        Ok(target) if operating::service_runs(&loaded).await => of_service(&loaded, &target).await,
        Ok(target) => of_store(&loaded.settings, &target).await,
    };
    match made {
        Ok(lines) => {
            let name = if to == Path::new("-") { "standard output".into() } else { to.to_string_lossy() };
            // The standard output may be the copy.
            eprintln!("{name}: {lines} lines; keep it where only you can read it: it holds conversations and keys");
            exit::FINE
        }
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

async fn of_service(loaded: &Loaded, to: &Target) -> Result<u64, Failed> {
    let (answer, source) = operating::ask_service(loaded, "copy", "/api/v1/backup", &[]).await?.into_parts();
    let mut stream = answer.bytes_stream();
    let (chunks, copied) = mpsc::channel(CHUNKS_AHEAD);
    let take = async {
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| source.failed(error))?;
            if chunks.send(chunk.to_vec()).await.is_err() {
                break;
            }
        }
        drop(chunks);
        Ok(())
    };
    let (written, taken) = tokio::join!(to.write(copied), take);
    taken.and(written)
}

async fn of_store(settings: &Settings, to: &Target) -> Result<u64, Failed> {
    let store = operating::open_store(settings).await?;
    let written = to.write(copy_of(&store, &settings.store.dir)).await;
    store.close(STORE_TIMEOUT).await;
    written
}

/// Begins a copy of an open store and its data directory.
fn copy_of(store: &Arc<dyn Store>, dir: &Path) -> mpsc::Receiver<Vec<u8>> {
    Copies { store: Arc::clone(store), clock: Arc::new(SystemClock), dir: dir.to_owned() }.begin()
}

/// Copies an open store into another open and empty one by way of a file in the data directory. The file has no name, so
/// that nothing is left of it when the process ends. Returns a sentence about the result.
pub(super) async fn pass(
    from: &Arc<dyn Store>,
    into: &Arc<dyn Store>,
    settings: &Settings,
    file: &Path,
) -> Result<String, Failed> {
    let copy = unnamed(file, copy_of(from, &settings.store.dir)).await?;
    let put = put_into(&**into, settings, copy, SystemClock.now()).await;
    put.map_err(|why| (why, exit::NEGATIVE))
}

/// Writes a whole copy into a file without a name. `path` names its folder, and the file in errors.
async fn unnamed(path: &Path, chunks: mpsc::Receiver<Vec<u8>>) -> Result<Copy<'_>, Failed> {
    let failed = |error: std::io::Error| (format!("{}: {error}", path.display()), exit::NEGATIVE);
    let (named, mut file) = files::new_beside(path).map_err(failed)?;
    fs::remove_file(&named).map_err(failed)?;
    fill(&mut file, chunks).await.map_err(failed)?;
    let mut copy = || {
        file.rewind()?;
        Ok(Copy::of(path, file.try_clone()?))
    };
    copy().map_err(failed)?.check().map_err(|why| (why, exit::NEGATIVE))?;
    copy().map_err(failed)
}

/// Writes chunks to a file until they end, and flushes it to the disk.
async fn fill(file: &mut fs::File, mut chunks: mpsc::Receiver<Vec<u8>>) -> std::io::Result<()> {
    while let Some(chunk) = chunks.recv().await {
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Writes a copy to the standard output and checks it. Returns the number of lines.
async fn print(mut chunks: mpsc::Receiver<Vec<u8>>) -> Result<u64, Failed> {
    let failed = |why: String| (format!("standard output: {why}"), exit::NEGATIVE);
    let (mut output, mut check) = (std::io::stdout(), PassingCheck::default());
    while let Some(chunk) = chunks.recv().await {
        output.write_all(&chunk).map_err(|error| failed(error.to_string()))?;
        check.chunk(&chunk).map_err(failed)?;
    }
    output.flush().map_err(|error| failed(error.to_string()))?;
    check.end().map_err(failed)
}

/// Writes a whole copy beside the file and then moves it into place. Returns the number of lines.
async fn write(to: &Path, chunks: mpsc::Receiver<Vec<u8>>) -> Result<u64, Failed> {
    let failed = |error: std::io::Error| {
        let to = to.display();
        (format!("{to}: {error}; name a file in a directory that you may write to"), exit::NEGATIVE)
    };
    let (beside, mut file) = files::new_beside(to).map_err(failed)?;
    let checked = fill(&mut file, chunks).await.map_err(failed).and_then(|()| {
        let copy = Copy::open(&beside).map_err(|why| (why, exit::NEGATIVE))?;
        copy.check().map_err(|why| (why, exit::NEGATIVE))
    });
    if checked.is_ok() {
        fs::rename(&beside, to).map_err(failed)?;
    } else {
        // The remaining file is useless, and the first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    checked
}

/// Restores a copy into an empty store.
pub(crate) async fn restore(cli: &Cli, from: &Path) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    operating::ended(put_back(&loaded.settings, from).await)
}

/// Restores a copy into an empty store that no service uses. Returns a sentence about the result.
async fn put_back(settings: &Settings, from: &Path) -> Result<String, Failed> {
    let wrong = |why: String| (why, exit::USAGE);
    Copy::open(from).and_then(Copy::check).map_err(wrong)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = opening::open_store(settings, &clock, None).await;
    let store = store.map_err(|error| (error.to_string(), exit::IN_USE))?.store;
    let copy = Copy::open(from).map_err(wrong)?;
    let done = put_into(&*store, settings, copy, clock.now()).await;
    let saved = store.close(STORE_TIMEOUT).await;
    match done {
        Ok(_) if !saved => {
            Err(("some data could not be written; empty the store and try again".to_owned(), exit::NEGATIVE))
        }
        other => other.map_err(|why| (why, exit::NEGATIVE)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_target_that_is_no_regular_file_is_refused_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let refused = |target: &Path| match Target::of(target) {
            Err((why, code)) => code == exit::USAGE && why.contains("- for the standard output"),
            Ok(_) => false,
        };
        fs::write(path("file"), "old").unwrap();
        symlink("file", path("link")).unwrap();
        symlink("none", path("dangling")).unwrap();
        symlink("/dev/null", path("device")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        for target in [&*path("dangling"), &path("device"), &path("pipe"), dir.path(), Path::new("/dev/null")] {
            assert!(refused(target), "{}", target.display());
        }
        let file = fs::canonicalize(path("file")).unwrap();
        for (target, expected) in [(path("link"), &file), (path("file"), &file), (path("new"), &path("new"))] {
            assert!(matches!(Target::of(&target), Ok(Target::File(to)) if to == *expected), "{}", target.display());
        }
        assert!(matches!(Target::of(Path::new("-")), Ok(Target::Output)));
    }

    #[tokio::test]
    async fn a_copy_is_written_into_no_file_that_was_put_in_its_way() {
        let dir = tempfile::tempdir().unwrap();
        let (to, other) = (dir.path().join("copy"), dir.path().join("other"));
        fs::write(&other, "of another").unwrap();
        symlink(&other, dir.path().join(format!("copy.{}", std::process::id()))).unwrap();
        let (chunks, copied) = mpsc::channel(1);
        chunks.send(b"{}\n".to_vec()).await.unwrap();
        drop(chunks);
        assert!(write(&to, copied).await.is_err(), "it is no whole copy");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of another");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left of it");
    }

    #[tokio::test]
    async fn a_copy_on_its_way_has_no_name_in_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(ports::testing::MemoryStore::new());
        let path = dir.path().join("migration.copy");
        let copy = unnamed(&path, copy_of(&store, dir.path())).await.unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(copy.check(), Ok(2), "the head and the end");
    }
}
