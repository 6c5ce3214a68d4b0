//! Log lines about the lives of actors.

use domain::happening::ActorChange;
use telemetry::events as names;

pub(super) fn changed(actor: &str, change: ActorChange<'_>) {
    match change {
        ActorChange::Added => {}
        ActorChange::Started => tracing::info!(event = names::ACTOR_STARTED, actor, "actor started"),
        ActorChange::Stopped(reason) => tracing::info!(event = names::ACTOR_STOPPED, actor, reason, "actor stopped"),
        ActorChange::Failed { error, handling } => {
            tracing::error!(event = names::ACTOR_FAILED, actor, error, handling, "actor failed");
        }
        ActorChange::Restarted(restarts) => {
            tracing::warn!(event = names::ACTOR_RESTARTED, actor, restarts, "actor restarted");
        }
        ActorChange::Escalated { child, restarts, period } => tracing::error!(
            event = names::ACTOR_ESCALATED,
            actor,
            child,
            restarts,
            period_s = period.as_secs(),
            "restart intensity exceeded"
        ),
        ActorChange::Hung { handling, ran, action } => tracing::error!(
            event = names::ACTOR_HUNG,
            actor,
            handling,
            s = ran.as_secs(),
            action,
            "a handler exceeds its time limit"
        ),
        ActorChange::Blocked(ran) => tracing::error!(
            event = names::ACTOR_HUNG,
            actor,
            s = ran.as_secs(),
            action = "none is left",
            "a handler blocks its thread and cannot be killed; only a restart of the process ends it"
        ),
        ActorChange::Poisoned(input) => tracing::error!(
            event = names::ACTOR_POISONED,
            actor,
            input,
            "the actor failed at this message repeatedly; the message was discarded"
        ),
        ActorChange::Overflowed { capacity, refused } => tracing::warn!(
            event = names::ACTOR_OVERFLOWED,
            actor,
            capacity,
            refused,
            "the mailbox was full and has room again"
        ),
    }
}
