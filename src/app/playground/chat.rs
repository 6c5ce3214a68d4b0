//! What was said on the playground's page, kept in its data directory over a restart.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;

use crate::app::files;
use crate::playground::guild::kept::{Kept, VERSION};
use crate::playground::service::{Change, Service};

/// The file.
const FILE: &str = "chat.json";
/// The longest file that is read, in bytes: what is written is far below it.
const FILE_BYTES: u64 = 32 << 20;
/// How soon after a change it is written.
const SOON: Duration = Duration::from_millis(500);

/// Where it is below a data directory.
pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// What was kept; none when there is nothing, or nothing that can be read, which is told.
pub(super) fn read(file: &Path) -> Option<Kept> {
    let length = std::fs::metadata(file).ok()?.len();
    let read = if length > FILE_BYTES {
        Err(format!("it has {length} bytes"))
    } else {
        let text = std::fs::read(file).map_err(|error| error.to_string());
        text.and_then(|text| serde_json::from_slice::<Kept>(&text).map_err(|error| error.to_string()))
    };
    match read {
        Ok(kept) if kept.version == VERSION => Some(kept),
        Ok(Kept { version, .. }) => unread(file, &format!("it is of version {version}")),
        Err(why) => unread(file, &why),
    }
}

fn unread(file: &Path, why: &str) -> Option<Kept> {
    let file = file.display();
    tracing::warn!(event = "playground.chat_unread", %file, why, "the page begins without what was said before");
    None
}

/// Writes what is said, soon after it was, for as long as the service runs.
pub(super) async fn keep(service: Service, mut changes: Receiver<Change>, file: PathBuf) {
    loop {
        match changes.recv().await {
            Ok(Change::TypingStarted { .. }) => continue,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        sleep(SOON).await;
        while changes.try_recv().is_ok() {}
        write(&service, &file).await;
    }
}

/// Writes what was said up to now.
pub(super) async fn write(service: &Service, file: &Path) {
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
    tracing::warn!(event = "playground.chat_unwritten", %file, error = failed, "what is said on the page is not kept");
}
