//! The cost of work with a price of its own, such as speech and pictures, within the limits of its payer and charged to
//! the payer in the ledger. As for embeddings, no record is kept: if the process ends in between, a reservation counts
//! until it leaves its window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;

use crate::services::running::Live;
use domain::ids::TurnId;
use domain::ledger::{self, Tally};
use domain::limits::account::Share;
use domain::limits::budget::{self, Budget, Payer};
use domain::limits::{Cost, Decision, LimitStep, Limits, Request, Reservation};
use domain::people::Linked;
use ports::{Clock, Limiter, PaidWork, Store, WorkMetering, WorkPayer, WorkRefused, WorkReservation};

/// The maximum time between a reservation and its settlement: beyond the timeouts of all rows.
const LEASE: Duration = Duration::from_secs(300);

/// Counts the cost of work. Clones share their state.
#[derive(Clone)]
pub struct WorkCosts {
    /// The running configuration.
    pub live: Live,
    /// Reserves and settles the cost.
    pub limiter: Arc<dyn Limiter>,
    /// Stores the ledger.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// The number of the next reservation.
    pub numbers: Arc<AtomicU64>,
}

#[async_trait]
impl WorkMetering for WorkCosts {
    async fn reserve(&self, payer: &WorkPayer, work: PaidWork, micros: u64) -> Result<WorkReservation, WorkRefused> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        // Unique across restarts and processes that share a store.
        let id = format!("{}#{}-{:x}-{number}", payer.person.id, work.as_str(), self.clock.now().0);
        let reservation = WorkReservation {
            id: TurnId::new(payer.person.door.clone(), id),
            payer: payer.clone(),
            work,
            priced: micros > 0,
        };
        // The bot's own turns are counted and never refused.
        let exempt = payer.own.is_some()
            || self.live.now().limits_in(&payer.person, &payer.place, payer.parent.as_ref(), &payer.roles).exempt;
        let limits = Limits { messages: 0, tokens: 0 };
        let step = Reservation { turn: reservation.id.clone(), tokens: 0, lease: LEASE, limits, exempt };
        let mut pending = Pending { costs: self, reservation: Some(reservation.clone()) };
        let decision = self.step(&reservation, micros, LimitStep::Reserve(step)).await;
        pending.reservation = None;
        match decision {
            Some(Decision::Refused(refusal)) => Err(WorkRefused(refusal.retry_after)),
            _ => Ok(reservation),
        }
    }

    fn settle(&self, reservation: WorkReservation, micros: u64) {
        // The work is charged even if its reader has gone.
        self.ended(reservation, micros, |id| LimitStep::Settle(id, None));
    }
}

/// A reservation whose step is under way. If the caller drops it, the accounts may have counted it: it is cancelled.
struct Pending<'a> {
    costs: &'a WorkCosts,
    reservation: Option<WorkReservation>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.costs.ended(reservation, 0, LimitStep::Cancel);
        }
    }
}

impl WorkCosts {
    /// Ends a reservation in the background. At the end of the process, one that is not ended counts until it leaves its
    /// window.
    fn ended(&self, reservation: WorkReservation, micros: u64, step: fn(TurnId) -> LimitStep) {
        let Ok(runtime) = Handle::try_current() else { return };
        let this = self.clone();
        runtime.spawn(async move {
            this.step(&reservation, micros, step(reservation.id.clone())).await;
            this.write_down(&reservation.payer, micros).await;
        });
    }

    /// Performs a step on all accounts; `None` if there are none.
    async fn step(&self, reservation: &WorkReservation, micros: u64, step: LimitStep) -> Option<Decision> {
        let WorkPayer { person, guild, roles, place, parent, own: _ } = &reservation.payer;
        let running = self.live.now();
        let payer = running.payer(person, roles, guild.as_deref(), place, parent.as_ref());
        let cost = reservation.priced.then_some(micros);
        let shares = shares(&running.budgets, payer, &self.live.linked(person), (reservation.work, cost));
        if shares.is_empty() {
            return None;
        }
        Some(self.limiter.step(Request::of_shares(shares, step)).await)
    }

    async fn write_down(&self, payer: &WorkPayer, micros: u64) {
        if micros == 0 {
            return;
        }
        let tally = Tally { micros, ..Tally::default() };
        let (person, guild, now) = (&payer.person, payer.guild.as_deref(), self.clock.now());
        let writes = match payer.own {
            Some(purpose) => ledger::own(&person.door, guild, purpose, tally, now),
            None => ledger::of_member(person, guild, tally, now),
        };
        // If the store is degraded, the writes are held in memory.
        self.store.write(writes.into_iter().map(Into::into).collect()).await;
    }
}

/// Returns the accounts that work counts in, with its cost: those of dollars, and those of calls whose rows name speech
/// or hearing. A pattern such as `*` stands for tools, and does not name it.
fn shares(
    budgets: &[Budget],
    payer: Payer<'_>,
    linked: &Linked,
    (work, micros): (PaidWork, Option<u64>),
) -> Vec<Share> {
    let dollars: Vec<Budget> = budgets.iter().filter(|budget| budget.cost == Cost::Dollars).cloned().collect();
    let mut shares = if micros.is_some() { budget::of_turn(&dollars, payer) } else { Vec::new() };
    for share in &mut shares {
        share.amount = micros;
    }
    if let Some(call) = work.call() {
        let named = |budget: &&Budget| budget.tools.iter().any(|name| name == call);
        let named: Vec<Budget> = budgets.iter().filter(named).cloned().collect();
        shares.extend(budget::of_call(&named, payer, call));
    }
    let copies: Vec<Share> = linked.copies(payer.person, &shares).collect();
    shares.extend(copies);
    shares
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::testing::{DOOR, live, settle};
    use domain::ids::Person;
    use ports::testing::{ManualClock, MemoryStore, ScriptedModels};

    /// The costs under these rows, and the limiter.
    fn costs(rows: &str) -> (WorkCosts, Arc<MemoryStore>) {
        let store = Arc::new(MemoryStore::new());
        let costs = WorkCosts {
            live: live(&[("STAFFAI_RATE_LIMITER__LIMITS", rows)], Arc::new(ScriptedModels::new(&["main"]))),
            limiter: Arc::clone(&store) as _,
            store: Arc::clone(&store) as _,
            clock: Arc::new(ManualClock::new()),
            numbers: Arc::default(),
        };
        (costs, store)
    }

    fn payer() -> WorkPayer {
        WorkPayer::from(&Person::new(DOOR, "7"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_that_is_dropped_half_way_counts_in_no_account() {
        let rows = r#"[
            {scope = "member", per = "1h", calls = 1, tools = ["speech"]},
            {scope = "member", per = "1h", dollars = 0.01},
        ]"#;
        let (costs, limiter) = costs(rows);
        limiter.answering(false);
        let reserved = timeout(Duration::from_secs(1), costs.reserve(&payer(), PaidWork::Synthesis, 10_000)).await;
        assert!(reserved.is_err(), "the answer is held back, and the caller gives up");
        limiter.answering(true);
        settle().await;
        let one = costs.reserve(&payer(), PaidWork::Synthesis, 10_000).await.expect("the accounts are empty again");
        assert!(costs.reserve(&payer(), PaidWork::Synthesis, 1).await.is_err(), "and full with this one");
        // Work that was cancelled before it began costs nothing; its call counts.
        costs.settle(one, 0);
        settle().await;
        assert!(costs.reserve(&payer(), PaidWork::Synthesis, 1).await.is_err());
        assert!(costs.reserve(&payer(), PaidWork::Hearing, 10_000).await.is_ok(), "the dollars are free");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_no_member_requested_is_counted_on_the_bots_account_and_never_refused() {
        let (costs, store) = costs(r#"[{scope = "guild", per = "1h", dollars = 0.01}]"#);
        let own = WorkPayer { own: Some(ledger::TRIGGERS), ..payer() };
        for _ in 0..2 {
            let reserved = costs.reserve(&own, PaidWork::Picture, 10_000).await.expect("never refused");
            costs.settle(reserved, 10_000);
            settle().await;
        }
        assert!(costs.reserve(&payer(), PaidWork::Picture, 1).await.is_err(), "but counted");
        let keys: Vec<String> = store.entries.lock().keys().filter(|key| key.contains("ledger")).cloned().collect();
        assert!(!keys.is_empty() && keys.iter().all(|key| key.ends_with(":%triggers")), "{keys:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_rows_that_name_speech_count_sentences() {
        for (row, counts) in [(r#"["*"]"#, false), (r#"["sp*"]"#, false), (r#"["*", "speech"]"#, true)] {
            let (costs, _) = costs(&format!(r#"[{{scope = "member", per = "1h", calls = 1, tools = {row}}}]"#));
            assert!(costs.reserve(&payer(), PaidWork::Synthesis, 0).await.is_ok(), "{row}");
            assert_eq!(costs.reserve(&payer(), PaidWork::Synthesis, 0).await.is_err(), counts, "{row}");
        }
    }
}
