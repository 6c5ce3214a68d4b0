//! Messages of the commands actor.

use crate::runtime::named::named;
use domain::command::{Command, Typing};
use domain::preferences::dialogue::Dialogue;

/// The messages that commands handles.
pub enum CommandsMsg {
    /// From the gateway: a member ran a command. A task answers it, unless it is a duplicate.
    Run(Box<Command>),
    /// From the gateway: a member types a command. A task offers choices, unless all tasks are busy.
    Suggest(Box<Typing>),
    /// From the gateway: a step of the dialogue of the settings. A task serves it, unless all tasks are busy.
    Dialogue(Box<Dialogue>),
}

named!(CommandsMsg: Run, Suggest, Dialogue);
