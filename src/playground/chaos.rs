//! Failure on purpose, from the page: actors that crash, freeze or are flooded, and Discord, a model or a store that fails.
//!
//! It exists in the playground alone: `staffai run` starts with `NoFaults`. An order for an actor goes through the port of
//! injected failure into that actor's mailbox, and everything after it is the real program: the supervisor, its backoff, the
//! journal that offers the turn again. What is ordered counts as an event from outside, so no number of clicks makes a
//! supervisor give up. The root takes no orders: its end is the end of the program.
//!
//! Discord fails by [`Faults`] of the local service. The demo model and the store are told to fail for [`LASTS`], and work
//! again by themselves.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::demo_model::ModelFault;
use super::faults::Faults;
use super::rest::routes::CREATE_MESSAGE;
use crate::ports::{self, Fault, Input, StoreFault};

/// How long a model or the store fails.
pub const LASTS: Duration = Duration::from_secs(8);

/// Posts that Discord refuses at one click.
const REFUSED_POSTS: u32 = 4;

/// How many messages a flood is, and how long the actor takes for each.
const FLOOD: usize = 1_000;
const FLOOD_EACH: Duration = Duration::from_millis(1);

/// Actors that are known before those that ended are looked for.
const KNOWN: usize = 512;

/// What can be done to an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strike {
    /// It panics.
    Crash,
    /// Its handler does not come back.
    Freeze,
    /// It gets more messages than it can handle at once.
    Flood,
}

/// What can fail beside actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Every connection to Discord is reset.
    CutDiscord,
    /// Discord answers the next posts with 503.
    RefusePosts,
    /// The demo model refuses requests and breaks off answers.
    ModelDown,
    /// The demo model is slow.
    ModelSlow,
    /// The store's file cannot be read or written.
    StoreDown,
}

/// Why an order was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such actor, or it waits for its restart, or it is the root.
    #[error("no actor of that path runs now")]
    NotRunning,
    /// What was ordered before is not handled yet.
    #[error("this actor has enough to do")]
    Flooded,
    /// The model is a real one.
    #[error("only the demo model can be told to fail")]
    NoDemo,
}

/// What the page shows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caused {
    /// Actors that were told to crash or to freeze.
    pub crashes: u64,
    /// Everything else that was ordered.
    pub troubles: u64,
    /// What can be ordered beside strikes at actors, and for how many milliseconds more it lasts.
    pub lasting: Vec<(Trouble, u64)>,
}

/// Takes orders to fail, and hands them to who shall.
pub struct Chaos {
    discord: Faults,
    spells: Arc<Spells>,
    /// Whether answers come from the demo model.
    demo: bool,
    actors: Mutex<HashMap<String, mpsc::Sender<Fault>>>,
    crashes: AtomicU64,
    troubles: AtomicU64,
}

/// Until when the model and the store fail, in milliseconds since 1970.
pub struct Spells {
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    down: AtomicU64,
    slow: AtomicU64,
    store: AtomicU64,
}

impl Spells {
    /// Nothing fails yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { clock, down: AtomicU64::new(0), slow: AtomicU64::new(0), store: AtomicU64::new(0) })
    }

    /// What is wrong with the demo model now.
    #[must_use]
    pub fn model(&self) -> ModelFault {
        match (self.left(&self.down), self.left(&self.slow)) {
            (1.., _) => ModelFault::Down,
            (0, 1..) => ModelFault::Slow,
            (0, 0) => ModelFault::None,
        }
    }

    fn begin(&self, until: &AtomicU64) {
        let lasts = u64::try_from(LASTS.as_millis()).unwrap_or(u64::MAX);
        until.store((self.clock)().saturating_add(lasts), Ordering::Relaxed);
    }

    fn left(&self, until: &AtomicU64) -> u64 {
        until.load(Ordering::Relaxed).saturating_sub((self.clock)())
    }
}

impl Chaos {
    /// Takes orders from now on. Without the demo model nothing can be told to a model.
    #[must_use]
    pub fn new(discord: Faults, spells: Arc<Spells>, demo: bool) -> Arc<Self> {
        Arc::new(Self {
            discord,
            spells,
            demo,
            actors: Mutex::default(),
            crashes: AtomicU64::new(0),
            troubles: AtomicU64::new(0),
        })
    }

    /// Does this to the actor at this path.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn strike(&self, path: &str, strike: Strike) -> Result<(), Refused> {
        let actor = self.actors.lock().get(path).filter(|actor| !actor.is_closed()).cloned();
        let actor = actor.ok_or(Refused::NotRunning)?;
        let (fault, times, count) = match strike {
            Strike::Crash => (Fault::Panic, 1, &self.crashes),
            Strike::Freeze => (Fault::Hang, 1, &self.crashes),
            Strike::Flood => (Fault::Delay(FLOOD_EACH), FLOOD, &self.troubles),
        };
        // It is taken at once unless the actor is behind with what was ordered before.
        if actor.capacity() < times {
            return Err(Refused::Flooded);
        }
        for _ in 0..times {
            actor.try_send(fault).map_err(|_| Refused::NotRunning)?;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Makes this fail.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn trouble(&self, trouble: Trouble) -> Result<(), Refused> {
        if !self.offers(trouble) {
            return Err(Refused::NoDemo);
        }
        match trouble {
            Trouble::CutDiscord => self.discord.cut_gateways(),
            Trouble::RefusePosts => self.discord.answer_next(CREATE_MESSAGE, REFUSED_POSTS, 503, None),
            Trouble::ModelDown => self.spells.begin(&self.spells.down),
            Trouble::ModelSlow => self.spells.begin(&self.spells.slow),
            Trouble::StoreDown => self.spells.begin(&self.spells.store),
        }
        self.troubles.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What was ordered so far, and what still lasts.
    #[must_use]
    pub fn caused(&self) -> Caused {
        let Spells { down, slow, store, .. } = &*self.spells;
        let all = [
            (Trouble::CutDiscord, 0),
            (Trouble::RefusePosts, 0),
            (Trouble::ModelDown, self.spells.left(down)),
            (Trouble::ModelSlow, self.spells.left(slow)),
            (Trouble::StoreDown, self.spells.left(store)),
        ];
        Caused {
            crashes: self.crashes.load(Ordering::Relaxed),
            troubles: self.troubles.load(Ordering::Relaxed),
            lasting: all.into_iter().filter(|(trouble, _)| self.offers(*trouble)).collect(),
        }
    }

    const fn offers(&self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::ModelDown | Trouble::ModelSlow => self.demo,
            Trouble::CutDiscord | Trouble::RefusePosts | Trouble::StoreDown => true,
        }
    }
}

impl ports::Faults for Chaos {
    fn before(&self, _path: &str, _input: Input) -> Option<Fault> {
        None
    }

    fn ordered(&self, path: &str) -> Option<mpsc::Receiver<Fault>> {
        // The root is above all others, and nobody would start it again.
        if !path.contains('/') {
            return None;
        }
        let (order, ordered) = mpsc::channel(FLOOD);
        let mut actors = self.actors.lock();
        if actors.len() >= KNOWN {
            actors.retain(|_, actor| !actor.is_closed());
        }
        actors.insert(path.to_owned(), order);
        Some(ordered)
    }

    fn store(&self) -> Option<StoreFault> {
        let spells = Arc::clone(&self.spells);
        Some(Arc::new(move || spells.left(&spells.store) > 0))
    }
}

#[cfg(test)]
mod tests;
