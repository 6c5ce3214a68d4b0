//! The right to act alone: which data directory's process may start, or stay active, while the shared store does not
//! answer.
//!
//! A process that cannot reach the store cannot know whether another one is active. At most one data directory has this
//! right at a time, so during an outage at most one process acts:
//!
//! - The right is a second lease with a long term, in the name of the data directory. Only the active process renews it,
//!   and only while no process stands by. A file in the directory says until when the right is certain.
//! - A process that learns of another one removes its file first, and then ends its term.
//! - An active process whose directory does not have the right, because a former one has it, stops in an outage.
//! - A process of a divided bot gives the right up.
//! - The file is valid for less than the term, because clocks differ.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::app::files;
use crate::app::system::random_bits;
use domain::ids;
use ports::Clock;
use store::redis::lease::{ALONE_TERM, Lease, LeaseAnswer};
use telemetry::events::LEASE_UNKNOWN;

/// The file in the data directory.
const FILE: &str = "alone.json";

/// The version of the file.
const VERSION: u32 = 1;

/// The pause between two renewals of the right.
const RENEW_EVERY: Duration = Duration::from_secs(60);

/// The time before the end of the term from which the file is no longer valid: the longest difference of two clocks.
const MARGIN: Duration = Duration::from_secs(60 * 60);

/// The right of one data directory.
pub(in crate::app) struct Alone {
    file: PathBuf,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
    /// True while this process has the right. It is false until the store has said so.
    held: AtomicBool,
    /// The name of a directory without a file: the same one after a file that could not be written.
    name: String,
    /// True once a file that cannot be removed was reported.
    stuck: AtomicBool,
}

/// The state of the file, as far as this process knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Unread,
    /// Renewed, or tried to renew, at this time.
    Renewed(Instant),
    /// There is none.
    Absent,
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    version: u32,
    /// The address of the store, without secrets.
    store: String,
    /// The name of the data directory, which no other one has.
    name: String,
    /// The time in milliseconds since 1970 until which the right is certain.
    until: u64,
}

impl Alone {
    /// Creates the right of this data directory.
    pub(in crate::app) fn of(dir: &Path, clock: Arc<dyn Clock>) -> Self {
        let name = format!("{:032x}", u128::from_ne_bytes(random_bits()));
        let (known, [held, stuck]) = (Mutex::new(Known::Unread), [false, false].map(AtomicBool::new));
        Self { file: dir.join(FILE), clock, known, held, name, stuck }
    }

    /// True if this directory has the right at the store of this lease.
    pub(super) async fn may_start(&self, lease: &Lease) -> bool {
        let now = self.clock.now().0;
        // A file from the future was written under another clock.
        let most = now.saturating_add(ids::millis(ALONE_TERM));
        self.kept().await.is_some_and(|kept| kept.store == lease.place() && (now..most).contains(&kept.until))
    }

    /// True if this process may stay active while the store does not answer.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Records that this process becomes active without a lease: it has the right, or no process can have one.
    pub(super) fn acts(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// Renews the right while no other process stands by, and gives it up otherwise.
    pub(super) async fn follow(&self, lease: &Lease, mut awaited: watch::Receiver<Option<bool>>) -> Infallible {
        loop {
            let known = *awaited.borrow_and_update();
            match known {
                Some(true) => self.give_up(lease).await,
                Some(false) if lease.is_divided() => self.give_up(lease).await,
                Some(false) => self.renew(lease).await,
                None => {}
            }
            tokio::select! {
                Ok(()) = awaited.changed() => {}
                () = sleep(RENEW_EVERY) => {}
            }
        }
    }

    /// Removes the file, and lets another directory have the right.
    pub(super) async fn give_up(&self, lease: &Lease) {
        self.held.store(false, Ordering::Relaxed);
        if *self.known.lock() == Known::Absent {
            return;
        }
        let kept = self.kept().await;
        if !self.remove().await {
            return;
        }
        if let Some(kept) = kept.filter(|kept| kept.store == lease.place())
            && let Err(fault) = lease.alone(kept.name).release().await
        {
            let error = fault.to_string();
            tracing::debug!(event = LEASE_UNKNOWN, error, "the right to act alone is not released; its term ends");
        }
    }

    async fn renew(&self, lease: &Lease) {
        if matches!(*self.known.lock(), Known::Renewed(at) if at.elapsed() < RENEW_EVERY) {
            return;
        }
        let kept = self.kept().await.filter(|kept| kept.store == lease.place());
        let name = kept.map_or_else(|| self.name.clone(), |kept| kept.name);
        let until = self.clock.now().0.saturating_add(ids::millis(ALONE_TERM.saturating_sub(MARGIN)));
        *self.known.lock() = Known::Renewed(Instant::now());
        match lease.alone(name.clone()).take(false).await {
            Ok(LeaseAnswer::Held { .. }) => {
                self.held.store(true, Ordering::Relaxed);
                self.write(&Kept { version: VERSION, store: lease.place().to_owned(), name, until }).await;
            }
            Ok(LeaseAnswer::Elsewhere(_)) => {
                self.held.store(false, Ordering::Relaxed);
                self.remove().await;
            }
            Err(fault) => {
                let error = fault.to_string();
                tracing::debug!(event = LEASE_UNKNOWN, error, "the right to act alone is not renewed");
            }
        }
    }

    async fn kept(&self) -> Option<Kept> {
        let file = self.file.clone();
        let read = ports::blocking(move || files::read(&file)).await.ok()?.ok()??;
        serde_json::from_str::<Kept>(&read).ok().filter(|kept| kept.version == VERSION)
    }

    async fn write(&self, kept: &Kept) {
        let (file, text) = (self.file.clone(), serde_json::to_string(kept).unwrap_or_default());
        let write = move || {
            if let Some(dir) = file.parent() {
                std::fs::create_dir_all(dir)?;
            }
            files::replace(&file, &text)
        };
        if let Ok(Err(error)) = ports::blocking(write).await {
            let file = self.file.display();
            tracing::warn!(
                event = LEASE_UNKNOWN, %error, %file,
                "the file cannot be written; this process stands by if it starts while the store does not answer"
            );
        }
    }

    /// Removes the file. True if there is none any more.
    async fn remove(&self) -> bool {
        let file = self.file.clone();
        let removed = ports::blocking(move || std::fs::remove_file(&file)).await;
        let gone = match removed {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.kind() == std::io::ErrorKind::NotFound,
            Err(_) => false,
        };
        if gone {
            *self.known.lock() = Known::Absent;
        } else if !self.stuck.swap(true, Ordering::Relaxed) {
            let file = self.file.display();
            tracing::warn!(event = LEASE_UNKNOWN, %file, "the right to act alone cannot be given up; remove the file");
        }
        gone
    }
}
