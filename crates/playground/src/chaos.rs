//! Fault injection from the page: crashes, freezes and floods of actors, kills of the bot, and failures of Discord, the
//! model and the store.
//!
//! - Only in the playground: `staffai run` uses `NoFaults`.
//! - [`Chaos`] runs beside the local chat service and receives all orders. Those for the bot's process go through the
//!   port [`BotProcess`] to [`Strikes`], which puts them into the actor's mailbox through the port of injected
//!   failures. Recovery is that of the real program: supervisor, backoff, and the journal that offers the turn again.
//! - Orders count as external events, so no number of clicks makes a supervisor give up. The root refuses orders: its
//!   end is that of the program, for which there is `kill -9`.
//! - Discord fails through [`Faults`] of the local service. The demo model and the store fail for [`LASTS`], then
//!   recover.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::demo_model::ModelFault;
use super::faults::Faults;
use super::rest::routes::CREATE_MESSAGE;
use crate::bot_process::{BotOrder, BotProcess, Counted, OrderRefusal, Strike};
use ports::{self, Fault, Input, StoreFault};

/// The time that the model or the store fails.
pub const LASTS: Duration = Duration::from_secs(8);

/// The number of posts that Discord refuses per click.
const REFUSED_POSTS: u32 = 4;

/// The number of messages of a flood, and the time that the actor takes for each.
const FLOOD: usize = 1_000;
const FLOOD_EACH: Duration = Duration::from_millis(1);

/// The number of known actors from which ended ones are swept.
const KNOWN: usize = 512;

/// Failures beside those of actors.
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
    /// The bot's process is killed.
    KillBot,
}

/// The state shown on the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caused {
    /// The number of accepted orders. One may have no effect if its actor ends first.
    pub ordered: u64,
    /// The available failures, and the milliseconds that each still lasts.
    pub lasting: Vec<(Trouble, u64)>,
}

/// Receives orders and forwards them.
pub struct Chaos {
    discord: Faults,
    spells: Arc<Spells>,
    /// True if answers come from the demo model.
    demo: AtomicBool,
    bot: Arc<dyn BotProcess>,
    ordered: AtomicU64,
}

/// Executes orders in the bot's process.
pub struct Strikes {
    spells: Arc<Spells>,
    actors: Mutex<HashMap<String, mpsc::Sender<Fault>>>,
    /// The number of actors at which ended ones are swept next.
    sweep_at: AtomicUsize,
}

/// The ends of the failures of the model and the store, in milliseconds since 1970.
pub struct Spells {
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    down: AtomicU64,
    slow: AtomicU64,
    store: AtomicU64,
}

impl Spells {
    /// Creates the state without failures.
    #[must_use]
    pub fn new(clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { clock, down: AtomicU64::new(0), slow: AtomicU64::new(0), store: AtomicU64::new(0) })
    }

    /// Returns the current fault of the demo model.
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
    /// Creates the receiver of orders. Without the demo model, orders for it are refused.
    #[must_use]
    pub fn new(discord: Faults, spells: Arc<Spells>, demo: bool, bot: Arc<dyn BotProcess>) -> Arc<Self> {
        Arc::new(Self { discord, spells, demo: AtomicBool::new(demo), bot, ordered: AtomicU64::new(0) })
    }

    /// Sets whether answers come from the demo model.
    pub fn set_demo(&self, demo: bool) {
        self.demo.store(demo, Ordering::Relaxed);
    }

    /// Strikes the actor at this path.
    ///
    /// # Errors
    /// See [`OrderRefusal`].
    pub async fn strike(&self, path: &str, strike: Strike) -> Result<(), OrderRefusal> {
        self.bot.order(BotOrder::Strike(path.to_owned(), strike)).await?;
        self.ordered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Causes this failure.
    ///
    /// # Errors
    /// See [`OrderRefusal`].
    pub async fn trouble(&self, trouble: Trouble) -> Result<(), OrderRefusal> {
        if !self.offers(trouble) {
            return Err(OrderRefusal::NoDemo);
        }
        match trouble {
            Trouble::CutDiscord => self.discord.cut_gateways(),
            Trouble::RefusePosts => self.discord.answer_next(CREATE_MESSAGE, REFUSED_POSTS, 503, None),
            Trouble::ModelDown => self.spells.begin(&self.spells.down),
            Trouble::ModelSlow => self.spells.begin(&self.spells.slow),
            Trouble::StoreDown => {
                self.bot.order(BotOrder::StoreDown).await?;
                self.spells.begin(&self.spells.store);
            }
            Trouble::KillBot => {
                self.bot.kill()?;
                // A new process starts without the failure.
                self.spells.store.store(0, Ordering::Relaxed);
            }
        }
        self.ordered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the orders so far and the failures in effect.
    #[must_use]
    pub fn caused(&self) -> Caused {
        let Spells { down, slow, store, .. } = &*self.spells;
        let all = [
            (Trouble::CutDiscord, 0),
            (Trouble::RefusePosts, 0),
            (Trouble::ModelDown, self.spells.left(down)),
            (Trouble::ModelSlow, self.spells.left(slow)),
            (Trouble::StoreDown, self.spells.left(store)),
            (Trouble::KillBot, 0),
        ];
        Caused {
            ordered: self.ordered.load(Ordering::Relaxed),
            lasting: all.into_iter().filter(|(trouble, _)| self.offers(*trouble)).collect(),
        }
    }

    /// Returns the bot's counters, summed over restarts.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.bot.counted()
    }

    fn offers(&self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::ModelDown | Trouble::ModelSlow => self.demo.load(Ordering::Relaxed),
            Trouble::CutDiscord | Trouble::RefusePosts | Trouble::StoreDown | Trouble::KillBot => true,
        }
    }
}

impl Counted {
    /// Adds two counters.
    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        let Self { crashes, lost, doubled } = more;
        Self { crashes: self.crashes + crashes, lost: self.lost + lost, doubled: self.doubled + doubled }
    }
}

impl Strikes {
    /// Creates the executor. `clock` returns milliseconds since 1970.
    #[must_use]
    pub fn new(clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { spells: Spells::new(clock), actors: Mutex::default(), sweep_at: AtomicUsize::new(KNOWN) })
    }

    /// Executes an order.
    ///
    /// # Errors
    /// See [`OrderRefusal`].
    pub fn order(&self, order: &BotOrder) -> Result<(), OrderRefusal> {
        match order {
            BotOrder::Strike(path, strike) => self.strike(path, *strike),
            BotOrder::StoreDown => {
                self.spells.begin(&self.spells.store);
                Ok(())
            }
            // The process does this itself.
            BotOrder::AskModel(_) => Ok(()),
        }
    }

    fn strike(&self, path: &str, strike: Strike) -> Result<(), OrderRefusal> {
        let actor = self.actors.lock().get(path).filter(|actor| !actor.is_closed()).cloned();
        let actor = actor.ok_or(OrderRefusal::NotRunning)?;
        let (fault, times) = match strike {
            Strike::Crash => (Fault::Panic, 1),
            Strike::Freeze => (Fault::Hang, 1),
            Strike::Flood => (Fault::Delay(FLOOD_EACH), FLOOD),
        };
        // Orders are executed at once unless earlier ones are pending.
        if actor.capacity() < times {
            return Err(OrderRefusal::Flooded);
        }
        for _ in 0..times {
            actor.try_send(fault).map_err(|_| OrderRefusal::NotRunning)?;
        }
        Ok(())
    }
}

impl ports::Faults for Strikes {
    fn before(&self, _path: &str, _input: Input) -> Option<Fault> {
        None
    }

    fn ordered(&self, path: &str) -> Option<mpsc::Receiver<Fault>> {
        // The root has no supervisor that would restart it.
        if !path.contains('/') {
            return None;
        }
        let (order, ordered) = mpsc::channel(FLOOD);
        let mut actors = self.actors.lock();
        if actors.len() >= self.sweep_at.load(Ordering::Relaxed) {
            actors.retain(|_, actor| !actor.is_closed());
            self.sweep_at.store(KNOWN.max(actors.len() * 2), Ordering::Relaxed);
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
