//! Admits tool calls and counts recent use for the choice of tools. Quotas are accounts of the limiter, so no crash
//! resets them; permits and recent use are in memory, outside the actors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::Semaphore;

use domain::ids::{Person, Timestamp, TurnId};
use domain::limits::Decision;
use domain::limits::account::Share;
use domain::tool::catalogue::CatalogueEntry;
use domain::tool::limits::{Limited, ToolLimits};
use ports::Limiter;
use ports::shares::Shares;

/// The maximum number of concurrent tool calls of all turns.
pub const CALLS_AT_ONCE: usize = 64;
/// The maximum number of tools with a use count.
const USED_MAX: usize = 128;

/// The recent use counts of tools, by name.
type Used = Arc<[(Arc<str>, u32)]>;

/// The permits, and the recent calls.
pub struct ToolUse {
    limiter: Arc<dyn Limiter>,
    /// The number of the next call.
    numbers: AtomicU64,
    used: RwLock<Used>,
    permits: Shares,
}

/// One call, before it runs.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The person who requested it.
    pub person: &'a Person,
    /// The tool.
    pub entry: &'a CatalogueEntry,
    /// The turn that makes it.
    pub turn: &'a TurnId,
    /// The current time.
    pub now: Timestamp,
}

impl ToolUse {
    /// Starts without calls; `limiter` holds the quotas.
    #[must_use]
    pub fn new(limiter: Arc<dyn Limiter>) -> Self {
        let (used, permits) = (RwLock::new(Arc::from([])), Shares::new(Arc::new(Semaphore::new(CALLS_AT_ONCE))));
        Self { limiter, numbers: AtomicU64::new(0), used, permits }
    }

    /// Counts a call in all its accounts, or returns the limit that it exceeds. `turn` is the turn that makes the call.
    ///
    /// # Errors
    /// See [`Limited`].
    pub async fn admit(&self, limits: &ToolLimits, budgets: Vec<Share>, call: &Call<'_>) -> Result<(), Limited> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        // Unique among all calls of the turn, of all processes, and across restarts.
        let id = TurnId::new(call.turn.door.clone(), format!("{}#{:x}-{number}", call.turn.id, call.now.0));
        let step = limits.step(call.person, call.entry, budgets, id);
        if let Some(request) = &step.request
            && let Decision::Refused(refusal) = self.limiter.step(request.clone()).await
        {
            let (limited, closing) = step.refused(&refusal);
            if let Some(closing) = closing {
                self.limiter.step(closing).await;
            }
            return Err(limited);
        }
        self.count(call.entry);
        Ok(())
    }

    /// Counts the use of a tool.
    fn count(&self, entry: &CatalogueEntry) {
        let mut used = self.used.write();
        let mut counts = used.to_vec();
        match counts.iter_mut().find(|(name, _)| *name == entry.name) {
            Some((_, times)) => *times = times.saturating_add(1),
            None => {
                if counts.len() == USED_MAX {
                    // All counts decay, so that new tools displace rarely used ones.
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
    }

    /// Returns the recent use counts of tools, by name.
    #[must_use]
    pub fn used(&self) -> Used {
        Arc::clone(&self.used.read())
    }

    /// Returns the permits for calls.
    #[must_use]
    pub const fn permits(&self) -> &Shares {
        &self.permits
    }
}
