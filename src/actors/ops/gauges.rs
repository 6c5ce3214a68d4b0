//! What is measured of the whole program, set anew at each look.

use std::collections::BTreeMap;

use super::Sum;
use crate::ports::Vitals;
use crate::ports::vitals::Status;

/// Sets every gauge. Their labels are kinds of actors, parts and names of configuration, never of members.
#[expect(clippy::cast_precision_loss, reason = "what is counted here is far below 2^52")]
pub(super) fn set(sums: &BTreeMap<String, Sum>, vitals: &dyn Vitals) {
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
    for part in readiness.parts {
        let up = f64::from(u8::from(part.status == Status::Ready));
        metrics::gauge!("staffai_part_up", "kind" => part.kind, "name" => part.name).set(up);
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
