//! Use by day and by arm of experiments, read from the usage ledger and the tool audit. One read runs at a time, and its result is cached
//! briefly, so that pages that poll share one read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::observation::audit;
use crate::services::{experiments, ledger};
use domain::arm_figures::ArmFigures;
use domain::audit::AuditFilter;
use domain::daily::{DAYS_MAX, DayUse, tools};
use domain::experiment::Trial;
use domain::ids::{Door, Timestamp};
use domain::ledger::days;
use ports::{Clock, Store, UseByDay};

/// The TTL of a cached read.
const SERVES: Duration = Duration::from_secs(10);
/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A cached report: its number of days, the time of the read, and the use by day.
type Reading = Option<(usize, Instant, Vec<DayUse>)>;

/// Cached figures of experiments, with the time of the read.
type ReadArms = Option<(Instant, Vec<(Trial, ArmFigures)>)>;

/// Reads the use by day.
pub struct DailyUse {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    home: Door,
    last: Mutex<Reading>,
    arms: Mutex<ReadArms>,
}

impl DailyUse {
    /// The use in this store; `home` is the door whose members the Python bot counted.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, home: Door) -> Self {
        Self { store, clock, home, last: Mutex::default(), arms: Mutex::default() }
    }
}

#[async_trait]
impl UseByDay for DailyUse {
    async fn days(&self, many: usize) -> Vec<DayUse> {
        let many = many.clamp(1, DAYS_MAX);
        let mut last = self.last.lock().await;
        if let Some((of, at, known)) = &*last
            && *of == many
            && at.elapsed() < SERVES
        {
            return known.clone();
        }
        let read = read(&*self.store, many, self.clock.now(), &self.home).await;
        *last = Some((many, Instant::now(), read.clone()));
        read
    }

    async fn experiments(&self) -> Vec<(Trial, ArmFigures)> {
        let mut last = self.arms.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < SERVES
        {
            return known.clone();
        }
        let read = experiments::table(&*self.store).await;
        *last = Some((Instant::now(), read.clone()));
        read
    }
}

/// Returns the use of the last days, today first. The store bounds each read.
pub(crate) async fn read(store: &dyn Store, many: usize, now: Timestamp, home: &Door) -> Vec<DayUse> {
    let first = Timestamp(now.0.saturating_sub(DAY_MS * (many.saturating_sub(1)) as u64));
    let first_ms = first.0 - first.0 % DAY_MS;
    let wanted = AuditFilter { since: Some(Timestamp(first_ms)), ..AuditFilter::default() };
    let mut called = audit::read(store, &wanted, tools).await;
    let mut all = Vec::with_capacity(many);
    for (day, overview) in ledger::each(store, &days(first, now), home).await {
        all.push(DayUse::new(day, overview, called.remove(&day).unwrap_or_default()));
    }
    all
}
