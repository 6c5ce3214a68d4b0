//! Ranges that move between the processes of a divided bot: this process takes those that became free, and gives some
//! to processes with fewer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Claim, shown_range};
use actors::wiring::RangeMover;
use domain::ownership::{Portion, Portions};
use store::redis::lease::Lease;
use telemetry::events::{LEASE_GIVEN, LEASE_TAKEN, LEASE_UNKNOWN};

/// The pause between two checks of the shares of all processes.
const BALANCE_EVERY: Duration = Duration::from_secs(1);

/// The time of a move beyond the turns in flight.
const MOVE_MARGIN: Duration = Duration::from_secs(60);

/// A change of the ranges of this process.
pub(super) enum Order {
    /// This process holds the lease of this range, and works on it from now on.
    Take(Portion),
    /// This process finishes its work on this range, and then releases it.
    Give(Portion),
}

/// Notices changes of the ranges of this process while it renews them.
pub(super) struct Balance {
    known: Portions,
    orders: mpsc::UnboundedSender<Order>,
    /// The time for the turns in flight.
    drain: Duration,
    checked: Instant,
}

impl Balance {
    pub(super) fn new(known: Portions, orders: mpsc::UnboundedSender<Order>, drain: Duration) -> Self {
        Self { known, orders, drain, checked: Instant::now() }
    }

    /// Orders to take the ranges that the last renewal added.
    pub(super) fn renewed(&mut self, lease: &Lease) {
        let (held, known) = (lease.portions(), self.known);
        for portion in held.iter().filter(|portion| !known.has(portion.number)) {
            // A process that ends no longer follows orders, and releases all of its ranges.
            let _ = self.orders.send(Order::Take(portion));
        }
        self.known = held;
    }

    /// Orders to give a range away if another process has too few.
    pub(super) async fn keep(&mut self, lease: &Lease) {
        if self.known.count() < 2 || self.checked.elapsed() < BALANCE_EVERY || self.orders.is_closed() {
            return;
        }
        self.checked = Instant::now();
        match lease.give(self.drain + MOVE_MARGIN).await {
            Ok(Some(portion)) => {
                let _ = self.orders.send(Order::Give(portion));
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(event = LEASE_UNKNOWN, %error, "the shares of the processes are not read"),
        }
    }
}

/// The changes of the ranges of this process, in their order.
pub(in crate::app) struct Moves {
    pub(super) claim: Arc<Claim>,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
}

impl Moves {
    /// Applies the changes to the tree until the future is dropped. `drain` bounds the time for turns in flight.
    pub(in crate::app) async fn follow(mut self, tree: &RangeMover, drain: Duration) {
        let mut next = None;
        while let Some(order) = self.next(&mut next).await {
            match order {
                Order::Take(portion) => {
                    let mut portions = vec![portion];
                    // The ranges of a process that died are taken together.
                    while let Ok(order) = self.orders.try_recv() {
                        match order {
                            Order::Take(portion) => portions.push(portion),
                            Order::Give(_) => {
                                next = Some(order);
                                break;
                            }
                        }
                    }
                    tree.take(&portions).await;
                    self.show();
                    for range in portions.into_iter().map(Portion::range_name) {
                        tracing::info!(event = LEASE_TAKEN, range, "this process took a further range");
                    }
                }
                Order::Give(portion) => {
                    tree.give(portion, drain).await;
                    if let Err(error) = self.claim.lease.release_one(portion).await {
                        tracing::debug!(event = LEASE_UNKNOWN, %error, "the range is not released; its term ends by itself");
                    }
                    self.show();
                    let range = portion.range_name();
                    tracing::info!(event = LEASE_GIVEN, range, "this process gave a range to another one");
                }
            }
        }
    }

    /// Returns the order that was read before, or the next one.
    async fn next(&mut self, read: &mut Option<Order>) -> Option<Order> {
        match read.take() {
            Some(order) => Some(order),
            None => self.orders.recv().await,
        }
    }

    fn show(&self) {
        if let Some(ranges) = shown_range(&self.claim.lease) {
            telemetry::show_range(&ranges);
        }
    }
}
