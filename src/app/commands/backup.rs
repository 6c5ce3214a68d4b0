//! `staffai backup FILE` and `staffai restore FILE`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::operating::{self, Failed};
use super::reading::Reading;
use crate::app::backup::{CHUNKS_AHEAD, Copies, Copy, put_into};
use crate::app::drain::STORE_WITHIN;
use crate::app::system::SystemClock;
use crate::app::{Cli, assemble, exit, files};
use ports::{Backups, Clock};
use settings::{Loaded, Settings};

/// Writes a copy of the running service's data or, if none runs, of the store.
pub(crate) async fn make(cli: &Cli, to: &Path) -> u8 {
    let Ok(loaded) = Reading::new(cli, |sources| sources).load() else { return exit::USAGE };
    let runs = operating::service_runs(&loaded).await;
    let made = if runs { of_service(&loaded, to).await } else { of_store(&loaded.settings, to).await };
    match made {
        Ok(lines) => {
            say!(
                "{}: {lines} lines; keep it where only you can read it: it holds conversations and keys",
                to.display()
            );
            exit::FINE
        }
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

async fn of_service(loaded: &Loaded, to: &Path) -> Result<u64, Failed> {
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
    let (written, taken) = tokio::join!(write(to, copied), take);
    taken.and(written)
}

async fn of_store(settings: &Settings, to: &Path) -> Result<u64, Failed> {
    let store = operating::open_store(settings).await?;
    let (clock, dir) = (Arc::new(SystemClock), settings.store.dir.clone());
    let copies = Copies { store: Arc::clone(&store), clock, dir };
    let written = write(to, copies.begin()).await;
    store.close(STORE_WITHIN).await;
    written
}

/// Writes a whole copy beside the file and then moves it into place. Returns the number of lines.
async fn write(to: &Path, mut chunks: mpsc::Receiver<Vec<u8>>) -> Result<u64, Failed> {
    let failed = |error: std::io::Error| {
        let to = to.display();
        (format!("{to}: {error}; name a file in a directory that you may write to"), exit::NEGATIVE)
    };
    let (beside, mut file) = files::new_beside(to).map_err(failed)?;
    let mut done = Ok(());
    while let Some(chunk) = chunks.recv().await {
        done = file.write_all(&chunk);
        if done.is_err() {
            break;
        }
    }
    let checked = done.and_then(|()| file.sync_all()).map_err(failed).and_then(|()| {
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
    match put_back(&loaded.settings, from).await {
        Ok(told) => {
            say!("{told}");
            exit::FINE
        }
        Err((why, code)) => {
            eprintln!("{why}");
            code
        }
    }
}

async fn put_back(settings: &Settings, from: &Path) -> Result<String, Failed> {
    let wrong = |why: String| (why, exit::USAGE);
    Copy::open(from).and_then(Copy::check).map_err(wrong)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = assemble::open_store(settings, &clock, None).await;
    let store = store.map_err(|error| (error.to_string(), exit::IN_USE))?.store;
    let done = put_into(&*store, settings, from, clock.now()).await;
    let saved = store.close(STORE_WITHIN).await;
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
}
