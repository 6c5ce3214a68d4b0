//! Failure on purpose, from the page: actors that crash, freeze or are flooded, a bot that is killed, and Discord, a model or a
//! store that fails.
//!
//! It exists in the playground alone: `staffai run` starts with `NoFaults`. [`Chaos`] stands beside the local chat service and
//! takes all orders. What the bot's own process has to do goes there by the port [`BotProcess`], and [`Strikes`] does it: an
//! order for an actor goes through the port of injected failure into that actor's mailbox, and everything after it is the real
//! program: the supervisor, its backoff, the journal that offers the turn again. What is ordered counts as an event from
//! outside, so no number of clicks makes a supervisor give up. The root takes no orders: its end is the end of the program, for
//! which there is `kill -9`.
//!
//! Discord fails by [`Faults`] of the local service. The demo model and the store are told to fail for [`LASTS`], and work
//! again by themselves.

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
use crate::bot_process::{BotOrder, BotProcess, Counted, Refused, Strike};
use ports::{self, Fault, Input, StoreFault};

/// How long a model or the store fails.
pub const LASTS: Duration = Duration::from_secs(8);

/// Posts that Discord refuses at one click.
const REFUSED_POSTS: u32 = 4;

/// How many messages a flood is, and how long the actor takes for each.
const FLOOD: usize = 1_000;
const FLOOD_EACH: Duration = Duration::from_millis(1);

/// Actors that are known before those that ended are looked for.
const KNOWN: usize = 512;

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
    /// The bot's process ends at once, without a word.
    KillBot,
}

/// What the page shows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caused {
    /// How much was ordered. An order that was taken may still come to nothing: its actor may end before.
    pub ordered: u64,
    /// What can be ordered beside strikes at actors, and for how many milliseconds more it lasts.
    pub lasting: Vec<(Trouble, u64)>,
}

/// Takes orders to fail, and hands them to who shall.
pub struct Chaos {
    discord: Faults,
    spells: Arc<Spells>,
    /// Whether answers come from the demo model.
    demo: AtomicBool,
    bot: Arc<dyn BotProcess>,
    ordered: AtomicU64,
}

/// Does in the bot's process what is ordered.
pub struct Strikes {
    spells: Arc<Spells>,
    actors: Mutex<HashMap<String, mpsc::Sender<Fault>>>,
    /// At how many actors those that ended are looked for next.
    sweep_at: AtomicUsize,
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
    pub fn new(discord: Faults, spells: Arc<Spells>, demo: bool, bot: Arc<dyn BotProcess>) -> Arc<Self> {
        Arc::new(Self { discord, spells, demo: AtomicBool::new(demo), bot, ordered: AtomicU64::new(0) })
    }

    /// Whether answers come from the demo model from now on.
    pub fn set_demo(&self, demo: bool) {
        self.demo.store(demo, Ordering::Relaxed);
    }

    /// Does this to the actor at this path.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn strike(&self, path: &str, strike: Strike) -> Result<(), Refused> {
        self.bot.order(BotOrder::Strike(path.to_owned(), strike)).await?;
        self.ordered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Makes this fail.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn trouble(&self, trouble: Trouble) -> Result<(), Refused> {
        if !self.offers(trouble) {
            return Err(Refused::NoDemo);
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
                // The next life knows nothing of it.
                self.spells.store.store(0, Ordering::Relaxed);
            }
        }
        self.ordered.fetch_add(1, Ordering::Relaxed);
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
            (Trouble::KillBot, 0),
        ];
        Caused {
            ordered: self.ordered.load(Ordering::Relaxed),
            lasting: all.into_iter().filter(|(trouble, _)| self.offers(*trouble)).collect(),
        }
    }

    /// What was seen of the bot, over all its lives.
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
    /// Both together.
    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        let Self { crashes, lost, doubled } = more;
        Self { crashes: self.crashes + crashes, lost: self.lost + lost, doubled: self.doubled + doubled }
    }
}

impl Strikes {
    /// Does what is ordered from now on. `clock`: the time in milliseconds since 1970.
    #[must_use]
    pub fn new(clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { spells: Spells::new(clock), actors: Mutex::default(), sweep_at: AtomicUsize::new(KNOWN) })
    }

    /// Does it.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn order(&self, order: &BotOrder) -> Result<(), Refused> {
        match order {
            BotOrder::Strike(path, strike) => self.strike(path, *strike),
            BotOrder::StoreDown => {
                self.spells.begin(&self.spells.store);
                Ok(())
            }
            // Nothing fails by it: the process that hears it does it.
            BotOrder::AskModel(_) => Ok(()),
        }
    }

    fn strike(&self, path: &str, strike: Strike) -> Result<(), Refused> {
        let actor = self.actors.lock().get(path).filter(|actor| !actor.is_closed()).cloned();
        let actor = actor.ok_or(Refused::NotRunning)?;
        let (fault, times) = match strike {
            Strike::Crash => (Fault::Panic, 1),
            Strike::Freeze => (Fault::Hang, 1),
            Strike::Flood => (Fault::Delay(FLOOD_EACH), FLOOD),
        };
        // It is taken at once unless the actor is behind with what was ordered before.
        if actor.capacity() < times {
            return Err(Refused::Flooded);
        }
        for _ in 0..times {
            actor.try_send(fault).map_err(|_| Refused::NotRunning)?;
        }
        Ok(())
    }
}

impl ports::Faults for Strikes {
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
