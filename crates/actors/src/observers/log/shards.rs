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
        ShardChange::Exceeded { place, messages } => {
            tracing::warn!(event = names::GATEWAY_CAUGHT_UP, %place, messages, "as many messages were missed as `catch_up.per_channel`; older ones were not read");
        }
        ShardChange::Unread { place, reason } => {
            tracing::warn!(event = names::GATEWAY_CAUGHT_UP, %place, reason, "the missed messages of a channel could not be read; trying again");
        }
        ShardChange::NotRead { places, reason } => {
            tracing::warn!(
                event = names::GATEWAY_DROPPED,
                shard,
                reason,
                channels = places,
                "missed messages of channels were not read in time"
            );
        }
    }
}
