//! The gauges of the whole program, updated at each check.

use std::collections::{BTreeMap, BTreeSet};

use super::Sum;
use crate::observation::board::PartKind;
use ports::Vitals;
use ports::vitals::Status;
use telemetry::metrics::{
    BOUND_MAX, BOUND_USED, BUILD_INFO, CONFIG_REJECTED, LLM_COST_DOLLARS, MAILBOX_DEPTH, PART_UP, PROCESS_CPU_SECONDS,
    PROCESS_MEMORY_BYTES, UPTIME_SECONDS,
};

/// The parts that have a gauge, by kind and name.
pub(super) type Shown = BTreeSet<(String, String)>;

/// Sets every gauge. Labels are kinds of actors, parts and configured names, never members or places. `shown` holds the
/// parts of the last check and receives the current ones.
#[expect(clippy::cast_precision_loss, reason = "what is counted here is far below 2^52")]
pub(super) fn set(sums: &BTreeMap<String, Sum>, vitals: &dyn Vitals, shown: &mut Shown) {
    for (kind, sum) in sums {
        metrics::gauge!(MAILBOX_DEPTH, "actor" => kind.clone()).set(sum.mailbox as f64);
    }
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    metrics::gauge!(UPTIME_SECONDS).set(vitals.uptime().as_secs_f64());
    if let Some(bytes) = vitals.memory() {
        metrics::gauge!(PROCESS_MEMORY_BYTES).set(bytes as f64);
    }
    if let Some(used) = vitals.cpu() {
        metrics::gauge!(PROCESS_CPU_SECONDS).set(used.as_secs_f64());
    }
    let readiness = vitals.readiness();
    metrics::gauge!(CONFIG_REJECTED).set(f64::from(u8::from(readiness.configuration.rejected.is_some())));
    let parts = readiness.parts.into_iter().filter(|part| part.kind != PartKind::Place.as_str());
    let mut gone = std::mem::take(shown);
    for part in parts {
        let up = f64::from(u8::from(part.status == Status::Ready));
        let key = (part.kind, part.name);
        metrics::gauge!(PART_UP, "kind" => key.0.clone(), "name" => key.1.clone()).set(up);
        gone.remove(&key);
        shown.insert(key);
    }
    // A gauge cannot be removed. A part that was removed is neither up nor down.
    for (kind, name) in gone {
        metrics::gauge!(PART_UP, "kind" => kind, "name" => name).set(f64::NAN);
    }
    let turns = vitals.turns();
    for bound in turns.limits {
        let name = bound.name.replace(' ', "_");
        metrics::gauge!(BOUND_USED, "bound" => name.clone()).set(bound.used as f64);
        metrics::gauge!(BOUND_MAX, "bound" => name).set(bound.max as f64);
    }
    for spend in turns.spent {
        if let Some(dollars) = spend.dollars {
            metrics::gauge!(LLM_COST_DOLLARS, "model" => spend.model).set(dollars);
        }
    }
}
