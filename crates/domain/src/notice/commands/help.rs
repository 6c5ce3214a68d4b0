//! The answer to `/help`.

use super::{description, list, words};
use crate::command::CommandKind;
use crate::locale::Locale;

/// The conversation in which a member asks for help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelpPlace {
    /// A conversation of this member alone.
    Alone,
    /// A channel of a community. `direct` is true if the bot also answers direct messages.
    Channel {
        /// True if members may write to the bot directly.
        direct: bool,
    },
}

/// Describes the bot and the commands that this member may run.
#[must_use]
pub fn help(may_run: &[CommandKind], place: HelpPlace, locale: Locale) -> String {
    let words = words(locale);
    let text = match place {
        HelpPlace::Alone => words.help_alone.to_owned(),
        HelpPlace::Channel { direct: true } => format!("{} {}", words.help, words.help_direct),
        HelpPlace::Channel { direct: false } => words.help.to_owned(),
    };
    let line = |kind: &CommandKind| format!("`/{}`: {}", kind.name(), description(*kind, locale));
    let commands: Vec<String> = may_run.iter().map(line).collect();
    [text, list(words.help_commands, &commands), words.help_kept.to_owned()].join("\n\n")
}
