//! Log lines about slash commands.

use domain::command::CommandKind;
use domain::happening::CommandChange;
use domain::ids::millis;
use telemetry::events as names;

pub(super) fn changed(change: CommandChange<'_>) {
    match change {
        CommandChange::Ended { command, outcome, took } => tracing::info!(
            event = names::COMMAND_ANSWERED,
            command = CommandKind::label(command),
            outcome = outcome.as_str(),
            ms = millis(took),
            "command ended"
        ),
        CommandChange::Panicked { command, panic } => {
            tracing::error!(
                event = names::COMMAND_PANICKED,
                command = CommandKind::label(command),
                panic,
                "a command panicked"
            );
        }
        CommandChange::Unclaimed(reason) => {
            tracing::warn!(event = names::COMMAND_LOST, %reason, "a command cannot be answered");
        }
        CommandChange::Unanswered(reason) => {
            tracing::warn!(event = names::COMMAND_LOST, %reason, "the answer to a command cannot be shown");
        }
        CommandChange::Offered { commands, changed } => {
            tracing::info!(event = names::COMMANDS_OFFERED, commands, changed, "the commands are offered");
        }
        CommandChange::NotOffered { error, again_in } => {
            let again_in_ms = millis(again_in);
            tracing::warn!(event = names::COMMANDS_REFUSED, %error, again_in_ms, "the commands cannot be offered");
        }
    }
}
