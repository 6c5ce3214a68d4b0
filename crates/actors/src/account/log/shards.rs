//! Log lines about shards.

use domain::happening::ShardChange;
use domain::ids::millis;
use telemetry::events as names;

pub(super) fn changed(shard: u32, change: ShardChange<'_>) {
    match change {
        ShardChange::Ready { total } => tracing::info!(event = names::GATEWAY_READY, shard, total, "session began"),
        ShardChange::Resumed => tracing::info!(event = names::GATEWAY_RESUMED, shard, "session resumed"),
        ShardChange::Closed { reason, outlived, resumes, again_in } => {
            let (next, again_in_ms) = (if resumes { "Resume" } else { "Identify" }, millis(again_in));
            if outlived {
                tracing::info!(event = names::GATEWAY_CLOSED, shard, reason, %next, again_in_ms, "the stored session is over");
            } else {
                tracing::warn!(event = names::GATEWAY_CLOSED, shard, reason, %next, again_in_ms, "connection closed");
            }
        }
        ShardChange::Refused(reason) => {
            tracing::error!(
                event = names::GATEWAY_CLOSED,
                shard,
                reason,
                "the platform rejects the bot permanently; correct its token or its permissions"
            );
        }
        ShardChange::CaughtUp { place, messages } => {
            tracing::info!(event = names::GATEWAY_CAUGHT_UP, %place, messages, "a gap was read back");
        }
    }
}
