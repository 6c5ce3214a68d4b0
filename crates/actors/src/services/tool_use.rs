//! Which tools were called lately, and by whom: what limits and the choice of tools are made of. Lives outside the actors: a limit that
//! a crash resets would be none.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use domain::ids::{Person, Timestamp};
use domain::tool::catalogue::Entry;
use domain::tool::limits::{Calls, Limited, ToolLimits};

/// The most calls of tools at a time, of all turns together.
pub const CALLS_AT_ONCE: usize = 64;
/// The most tools whose use is remembered.
const USED_MAX: usize = 128;

/// How often tools were called lately, by their names.
type Used = Arc<[(Arc<str>, u32)]>;

/// The calls of late.
pub struct ToolUse {
    calls: Mutex<Calls>,
    used: RwLock<Used>,
    permits: Semaphore,
}

impl Default for ToolUse {
    fn default() -> Self {
        Self { calls: Mutex::default(), used: RwLock::new(Arc::from([])), permits: Semaphore::new(CALLS_AT_ONCE) }
    }
}

impl ToolUse {
    /// Counts a call, or says why it has to wait.
    ///
    /// # Errors
    /// See [`Limited`].
    pub fn admit(&self, limits: &ToolLimits, person: &Person, entry: &Entry, now: Timestamp) -> Result<(), Limited> {
        self.calls.lock().admit(limits, person, entry, now)?;
        let mut used = self.used.write();
        let mut counts = used.to_vec();
        match counts.iter_mut().find(|(name, _)| *name == entry.name) {
            Some((_, times)) => *times = times.saturating_add(1),
            None => {
                if counts.len() == USED_MAX {
                    // What is used now and then gives way to what is new.
                    for (_, times) in &mut counts {
                        *times /= 2;
                    }
                    counts.retain(|(_, times)| *times > 0);
                    counts.truncate(USED_MAX - 1);
                }
                counts.push((Arc::clone(&entry.name), 1));
            }
        }
        *used = counts.into();
        Ok(())
    }

    /// How often tools were called lately, by their names.
    #[must_use]
    pub fn used(&self) -> Used {
        Arc::clone(&self.used.read())
    }

    /// The permits for calls.
    #[must_use]
    pub const fn permits(&self) -> &Semaphore {
        &self.permits
    }
}
