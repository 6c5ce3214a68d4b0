//! What others may tell commands.

use crate::domain::command::{Command, Typing};

/// What commands is told.
pub enum CommandsMsg {
    /// The gateway: somebody ran a command. A task answers it, unless it was seen before.
    Run(Box<Command>),
    /// The gateway: somebody types a command. Choices are offered, if there is room.
    Suggest(Box<Typing>),
}
