//! The cost of speech, within the limits of its payer and charged to the payer in the ledger. As for embeddings, no record
//! is kept: if the process ends in between, a reservation counts until it leaves its window.

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
use ports::{Clock, Limiter, SpeechMetering, SpeechPayer, SpeechRefused, SpeechReservation, SpeechWork, Store};

/// The maximum time between a reservation and its settlement: beyond the timeouts of all rows.
const LEASE: Duration = Duration::from_secs(300);

/// Counts the cost of speech. Clones share their state.
#[derive(Clone)]
pub struct SpeechCosts {
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
impl SpeechMetering for SpeechCosts {
    async fn reserve(
        &self,
        payer: &SpeechPayer,
        work: SpeechWork,
        micros: u64,
    ) -> Result<SpeechReservation, SpeechRefused> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        // Unique across restarts and processes that share a store.
        let id = format!("{}#{}-{:x}-{number}", payer.person.id, work.as_str(), self.clock.now().0);
        let reservation = SpeechReservation {
            id: TurnId::new(payer.person.door.clone(), id),
            payer: payer.clone(),
            work,
            priced: micros > 0,
        };
        let exempt = self.live.now().limits_in(&payer.person, &payer.place, payer.parent.as_ref(), &payer.roles).exempt;
        let limits = Limits { messages: 0, tokens: 0 };
        let step = Reservation { turn: reservation.id.clone(), tokens: 0, lease: LEASE, limits, exempt };
        match self.step(&reservation, micros, LimitStep::Reserve(step)).await {
            Some(Decision::Refused(refusal)) => Err(SpeechRefused(refusal.retry_after)),
            _ => Ok(reservation),
        }
    }

    fn settle(&self, reservation: SpeechReservation, micros: u64) {
        // At the end of the process, a reservation that is not settled counts until it leaves its window.
        let Ok(runtime) = Handle::try_current() else { return };
        let this = self.clone();
        // The work is charged even if its reader has gone.
        runtime.spawn(async move {
            this.step(&reservation, micros, LimitStep::Settle(reservation.id.clone(), None)).await;
            this.write_down(&reservation.payer, micros).await;
        });
    }
}

impl SpeechCosts {
    /// Performs a step on all accounts; `None` if there are none.
    async fn step(&self, reservation: &SpeechReservation, micros: u64, step: LimitStep) -> Option<Decision> {
        let SpeechPayer { person, guild, roles, place, parent } = &reservation.payer;
        let running = self.live.now();
        let payer = running.payer(person, roles, guild.as_deref(), place, parent.as_ref());
        let cost = reservation.priced.then_some(micros);
        let shares = shares(&running.budgets, payer, &self.live.linked(person), (reservation.work, cost));
        if shares.is_empty() {
            return None;
        }
        Some(self.limiter.step(Request::of_shares(shares, step)).await)
    }

    async fn write_down(&self, payer: &SpeechPayer, micros: u64) {
        if micros == 0 {
            return;
        }
        let tally = Tally { micros, ..Tally::default() };
        let writes = ledger::of_member(&payer.person, payer.guild.as_deref(), tally, self.clock.now());
        // If the store is degraded, the writes are held in memory.
        self.store.write(writes.into_iter().map(Into::into).collect()).await;
    }
}

/// Returns the accounts that speech counts in, with its cost: those of dollars, and those of calls whose rows name this
/// work.
fn shares(
    budgets: &[Budget],
    payer: Payer<'_>,
    linked: &Linked,
    (work, micros): (SpeechWork, Option<u64>),
) -> Vec<Share> {
    let those =
        |wanted: fn(&Budget) -> bool| budgets.iter().filter(|budget| wanted(budget)).cloned().collect::<Vec<_>>();
    let dollars = those(|budget| budget.cost == Cost::Dollars);
    let mut shares = if micros.is_some() { budget::of_turn(&dollars, payer) } else { Vec::new() };
    for share in &mut shares {
        share.amount = micros;
    }
    shares.extend(budget::of_call(&those(|budget| !budget.tools.is_empty()), payer, work.as_str()));
    let copies: Vec<Share> = linked.copies(payer.person, &shares).collect();
    shares.extend(copies);
    shares
}
