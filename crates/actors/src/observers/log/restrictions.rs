//! Log lines about restrictions.

use domain::happening::RestrictionChange;
use domain::ids::millis;
use domain::restriction::Member;
use telemetry::events as names;

pub(super) fn changed(Member { guild, person }: &Member, change: RestrictionChange<'_>) {
    match change {
        RestrictionChange::Added { tier, until } => tracing::info!(
            event = names::RESTRICTION_ADDED, guild, %person, tier, until = until.map(|until| until.0 / 1000),
            "a member is restricted"
        ),
        RestrictionChange::Left => tracing::info!(
            event = names::RESTRICTION_ADDED, guild, %person, reason = "left",
            "a restricted member left before the role was given"
        ),
        RestrictionChange::Lifted { why, late } => tracing::info!(
            event = names::RESTRICTION_LIFTED, guild, %person, late_ms = late.map(millis), reason = why.as_str(),
            "a restriction ended"
        ),
        RestrictionChange::Failed(reason) => {
            tracing::debug!(event = names::RESTRICTION_FAILED, %person, reason, "tried again later");
        }
        RestrictionChange::Refused(reason) => tracing::warn!(
            event = names::RESTRICTION_FAILED, guild, %person, reason,
            "a role could not be changed; give the bot Manage Roles and put its role above restriction.role; it is tried again"
        ),
    }
}
