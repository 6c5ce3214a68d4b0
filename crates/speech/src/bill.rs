//! The cost of one sentence or utterance: reserved before a source is called, and settled once, also if it is cancelled.

use std::sync::Arc;

use crate::failure::Failure;
use ports::{SpeechMetering, SpeechPayer, SpeechReservation, SpeechWork};

/// The account of all work; `None` counts nothing.
pub(crate) type Meter = Option<Arc<dyn SpeechMetering>>;

/// The bill of one sentence or utterance. Dropping it settles it.
pub(crate) struct Bill {
    reserved: Option<(Arc<dyn SpeechMetering>, SpeechReservation)>,
    spent: u64,
    /// The cost of the request under way.
    open: u64,
}

impl Bill {
    /// Reserves this cost, in millionths of a dollar.
    ///
    /// # Errors
    /// [`Failure::OverLimit`].
    pub async fn reserve(meter: &Meter, payer: &SpeechPayer, work: SpeechWork, micros: u64) -> Result<Self, Failure> {
        let reserved = match meter {
            Some(meter) => {
                let reservation = meter.reserve(payer, work, micros).await;
                Some((Arc::clone(meter), reservation.map_err(|refused| Failure::OverLimit(refused.0))?))
            }
            None => None,
        };
        Ok(Self { reserved, spent: 0, open: 0 })
    }

    /// Begins a request that costs this much. If it is cancelled, its source may still demand the cost.
    pub const fn begin(&mut self, micros: u64) {
        self.open = micros;
    }

    /// Ends the request. A source that failed before it returned anything demands nothing.
    pub const fn end(&mut self, is_paid: bool) {
        if is_paid {
            self.spent = self.spent.saturating_add(self.open);
        }
        self.open = 0;
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        if let Some((meter, reservation)) = self.reserved.take() {
            meter.settle(reservation, self.spent.saturating_add(self.open));
        }
    }
}

/// Returns the cost of this amount in millionths of a dollar.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, also below zero")]
pub(crate) fn micros(price: Option<f64>, amount: f64) -> u64 {
    price.map_or(0, |price| (price * amount).round() as u64)
}
