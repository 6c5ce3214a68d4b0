//! What others may tell commands.

use domain::command::{Command, Typing};

/// The messages that commands handles.
pub enum CommandsMsg {
    /// From the gateway: a member ran a command. A task answers it, unless it is a repetition.
    Run(Box<Command>),
    /// From the gateway: a member types a command. Choices are offered, unless all tasks are taken.
    Suggest(Box<Typing>),
}
