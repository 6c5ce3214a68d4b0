//! The chat of the playground's page, kept in its data directory across restarts.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::app::files;
use playground::change::Change;
use playground::guild::kept::{SavedGuilds, VERSION};
use playground::service::Service;
use settings::sources::open_regular;
use telemetry::events::{PLAYGROUND_CHAT_UNREAD, PLAYGROUND_CHAT_UNWRITTEN};

/// The file of the chat.
const FILE: &str = "chat.json";
/// The file that is locked while a playground runs.
const LOCK: &str = "playground.lock";
/// The maximum size of a file that is read, in bytes: far above any that is written.
const FILE_BYTES: u64 = 32 << 20;
/// The delay between a change and its write.
const SOON: Duration = Duration::from_millis(500);

/// Returns the path of the file below a data directory.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Locks the data directory for this playground, until it ends. The system releases the lock when the process ends.
///
/// # Errors
/// A sentence that names the holder of the directory, or the reason why it cannot be used.
pub(super) fn alone(dir: &Path) -> Result<File, String> {
    let shown = dir.display();
    let failed = |error: std::io::Error| format!("the data directory {shown} cannot be used: {error}");
    std::fs::create_dir_all(dir).map_err(failed)?;
    let lock = File::create(dir.join(LOCK)).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another playground uses the data directory {shown}; stop it, or name another directory with STAFFAI_DATA_DIR"
        )),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Reads the chat. Returns `None` if there is none, or if it is unreadable, which is reported.
pub(super) fn read(file: &Path) -> Option<SavedGuilds> {
    let opened = match open_regular(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        opened => opened,
    };
    let mut text = Vec::new();
    let read = opened.and_then(|opened| opened.take(FILE_BYTES + 1).read_to_end(&mut text));
    let read = match read.map_err(|error| error.to_string()) {
        Ok(length) if length as u64 > FILE_BYTES => Err(format!("it has more than {FILE_BYTES} bytes")),
        Ok(_) => serde_json::from_slice::<SavedGuilds>(&text).map_err(|error| error.to_string()),
        Err(why) => Err(why),
    };
    match read {
        Ok(kept) if kept.version == VERSION => Some(kept),
        Ok(SavedGuilds { version, .. }) => unread(file, &format!("it is of version {version}")),
        Err(why) => unread(file, &why),
    }
}

fn unread(file: &Path, why: &str) -> Option<SavedGuilds> {
    let aside = file.with_extension("json.unread");
    // If it cannot be moved aside, it is overwritten: the page needs a file.
    let moved = std::fs::rename(file, &aside).is_ok();
    let (file, aside) = (file.display(), aside.display());
    tracing::warn!(event = PLAYGROUND_CHAT_UNREAD, %file, %aside, moved, why, "the page begins without what was said before");
    None
}

/// Writes the chat soon after each change, and completely at the end, but only once the bot listens: another playground
/// that owns this file may be the reason why the bot does not.
pub(super) async fn keep(
    service: Service,
    mut bot: watch::Receiver<Option<SocketAddr>>,
    file: PathBuf,
    end: CancellationToken,
) {
    let mut changes = service.subscribe();
    let listens = end.run_until_cancelled(bot.wait_for(Option::is_some)).await;
    if !matches!(listens, Some(Ok(_))) {
        return;
    }
    drop(listens);
    while let Some(true) = end.run_until_cancelled(changed(&mut changes)).await {
        end.run_until_cancelled(sleep(SOON)).await;
        while !matches!(changes.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
        write(&service, &file).await;
    }
    write(&service, &file).await;
}

/// Waits for a change that must be written. False if no further change is possible.
async fn changed(changes: &mut Receiver<Change>) -> bool {
    loop {
        match changes.recv().await {
            Ok(Change::TypingStarted { .. }) => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

/// Writes the current chat.
async fn write(service: &Service, file: &Path) {
    let (service, path) = (service.clone(), file.to_owned());
    let written = tokio::task::spawn_blocking(move || {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        files::replace(&path, &serde_json::to_string(&service.kept())?)
    });
    let failed = match written.await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    let file = file.display();
    tracing::warn!(event = PLAYGROUND_CHAT_UNWRITTEN, %file, error = failed, "what is said on the page is not kept");
}
