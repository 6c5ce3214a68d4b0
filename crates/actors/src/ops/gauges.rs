//! The gauges of the whole program, updated at each check.

use std::collections::{BTreeMap, BTreeSet};

use super::Sum;
use crate::observation::board::PartKind;
use ports::Vitals;
use ports::vitals::Status;

/// The parts that have a gauge, by kind and name.
pub(super) type Shown = BTreeSet<(String, String)>;

/// Sets every gauge. Labels are kinds of actors, parts and configured names, never members or places. `shown` holds the
/// parts of the last check and receives the current ones.
#[expect(clippy::cast_precision_loss, reason = "what is counted here is far below 2^52")]
pub(super) fn set(sums: &BTreeMap<String, Sum>, vitals: &dyn Vitals, shown: &mut Shown) {
    for (kind, sum) in sums {
        metrics::gauge!("staffai_mailbox_depth", "actor" => kind.clone()).set(sum.mailbox as f64);
    }
    metrics::gauge!("staffai_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    metrics::gauge!("staffai_uptime_seconds").set(vitals.uptime().as_secs_f64());
    if let Some(bytes) = vitals.memory() {
        metrics::gauge!("staffai_process_memory_bytes").set(bytes as f64);
    }
    if let Some(used) = vitals.cpu() {
        metrics::gauge!("staffai_process_cpu_seconds").set(used.as_secs_f64());
    }
    let readiness = vitals.readiness();
    metrics::gauge!("staffai_config_rejected").set(f64::from(u8::from(readiness.configuration.rejected.is_some())));
    let parts = readiness.parts.into_iter().filter(|part| part.kind != PartKind::Place.as_str());
    let mut gone = std::mem::take(shown);
    for part in parts {
        let up = f64::from(u8::from(part.status == Status::Ready));
        let key = (part.kind, part.name);
        metrics::gauge!("staffai_part_up", "kind" => key.0.clone(), "name" => key.1.clone()).set(up);
        gone.remove(&key);
        shown.insert(key);
    }
    // A gauge cannot be removed. A part that was removed is neither up nor down.
    for (kind, name) in gone {
        metrics::gauge!("staffai_part_up", "kind" => kind, "name" => name).set(f64::NAN);
    }
    let turns = vitals.turns();
    for bound in turns.limits {
        let name = bound.name.replace(' ', "_");
        metrics::gauge!("staffai_bound_used", "bound" => name.clone()).set(bound.used as f64);
        metrics::gauge!("staffai_bound_max", "bound" => name).set(bound.max as f64);
    }
    for spend in turns.spent {
        if let Some(dollars) = spend.dollars {
            metrics::gauge!("staffai_llm_cost_dollars", "model" => spend.model).set(dollars);
        }
    }
}
