//! Typed commands at the beginning of a message: lines that begin with `!`, and `@row` for one answer by another
//! model. If any part is invalid, the whole message is rejected.

use crate::api_key::Right;

/// Maximum number of commands in one message.
const MOST: usize = 10;
/// Maximum number of characters of an unknown name that the error repeats.
const TOLD_CHARS: usize = 40;

/// The effect of a typed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Typed {
    /// Lists the commands.
    Help,
    /// Shows or selects the model for later messages.
    Model,
    /// Shows or changes the caller's settings.
    Set,
    /// Starts a new conversation.
    Reset,
    /// Shows sessions, or deletes one.
    Session,
    /// Lists the tools.
    Tools,
    /// Shows or sets how much of tool calls is shown.
    Preview,
    /// Shows the system prompt.
    SystemPrompt,
    /// Runs an SQL statement with the database tool.
    Database,
    /// Shows or sets whether a model is offered tools.
    CallsTools,
    /// Shows or sets the timeout of a model call.
    Timeout,
}

/// A typed command: syntax, description, required right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypedSpec {
    /// The effect.
    pub kind: Typed,
    /// The name after the `!`.
    pub name: &'static str,
    /// The syntax of its arguments.
    pub given: &'static str,
    /// The description.
    pub about: &'static str,
    /// The right that its caller must have.
    pub needs: Right,
}

/// All typed commands, in the order of the help text.
pub const ALL: [TypedSpec; 11] = [
    TypedSpec { kind: Typed::Help, name: "help", given: "", about: "lists the commands", needs: Right::Chat },
    TypedSpec {
        kind: Typed::Model,
        name: "model",
        given: "[row]",
        about: "lists the models, or selects one for the following messages",
        needs: Right::Chat,
    },
    TypedSpec {
        kind: Typed::Set,
        name: "set",
        given: "[here] [setting value]",
        about: "shows your settings, or changes one, such as !set verbosity short",
        needs: Right::Chat,
    },
    TypedSpec {
        kind: Typed::Reset,
        name: "reset",
        given: "",
        about: "starts a new conversation in this session",
        needs: Right::Chat,
    },
    TypedSpec {
        kind: Typed::Session,
        name: "session",
        given: "[n | n delete]",
        about: "lists the sessions, shows one, or ends one",
        needs: Right::Chat,
    },
    TypedSpec {
        kind: Typed::Tools,
        name: "tools",
        given: "[category]",
        about: "lists the tools, or those of a category",
        needs: Right::Tools,
    },
    TypedSpec {
        kind: Typed::Preview,
        name: "tool_preview_length",
        given: "[n | off]",
        about: "shows or sets the number of characters shown of each tool call in this session",
        needs: Right::Chat,
    },
    TypedSpec {
        kind: Typed::Database,
        name: "db",
        given: "statement",
        about: "lets the model run an SQL statement with the database tools, within the tool rules",
        needs: Right::Tools,
    },
    TypedSpec {
        kind: Typed::SystemPrompt,
        name: "sysprompt",
        given: "[sections | section [change]]",
        about: "shows the instructions of the model, lists their sections, or shows or changes one section",
        needs: Right::Operate,
    },
    TypedSpec {
        kind: Typed::CallsTools,
        name: "llm_call",
        given: "[row] [true | false]",
        about: "shows or sets whether a model is offered tools; persistent",
        needs: Right::Operate,
    },
    TypedSpec {
        kind: Typed::Timeout,
        name: "llm_timeout",
        given: "[row] [seconds]",
        about: "shows or sets the timeout of a model; persistent",
        needs: Right::Operate,
    },
];

/// A parsed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedMessage {
    /// The commands in order, each with its arguments.
    pub commands: Vec<(TypedSpec, String)>,
    /// The row that answers this one message. `None`: the selected row.
    pub row: Option<String>,
    /// The remaining text for the model.
    pub text: String,
}

/// The reason why a message is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misread {
    /// The command does not exist.
    #[error("there is no command !{0}; !help names all")]
    Unknown(String),
    /// The message has more than [`MOST`] commands.
    #[error("a message has at most {MOST} commands; send the others in another one")]
    TooMany,
}

/// Parses the leading lines that begin with `!` as commands, ignoring case, and then an optional `@row`.
///
/// # Errors
/// See [`Misread`].
pub fn read(message: &str) -> Result<TypedMessage, Misread> {
    let mut commands = Vec::new();
    let mut rest = message.trim_start();
    while let Some((line, behind)) = first_line(rest) {
        let (name, given) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let spec = ALL.into_iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
        let spec = spec.ok_or_else(|| Misread::Unknown(name.chars().take(TOLD_CHARS).collect()))?;
        if commands.len() == MOST {
            return Err(Misread::TooMany);
        }
        commands.push((spec, given.trim().to_owned()));
        rest = behind.trim_start();
    }
    let (row, text) = match named(rest) {
        Some((row, text)) => (Some(row.to_owned()), text),
        None => (None, rest),
    };
    Ok(TypedMessage { commands, row, text: text.trim().to_owned() })
}

/// Returns the first line after its `!`, and the rest, if the text begins with a command.
fn first_line(text: &str) -> Option<(&str, &str)> {
    let behind = text.strip_prefix('!')?;
    let named = behind.starts_with(|c: char| c.is_ascii_alphabetic());
    named.then(|| behind.split_once('\n').unwrap_or((behind, "")))
}

/// Returns the leading `@row` of a text, and the rest.
fn named(text: &str) -> Option<(&str, &str)> {
    let (row, text) = text.strip_prefix('@')?.split_once(char::is_whitespace)?;
    let usable = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    (!row.is_empty() && row.chars().all(usable) && !text.trim().is_empty()).then_some((row, text))
}

/// Parses a boolean word.
#[must_use]
pub fn yes_or_no(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

/// Returns the text of `!help` for a member with these rights.
#[must_use]
pub fn help(may: impl Fn(Right) -> bool) -> String {
    let line = |spec: &TypedSpec| format!("!{} {} - {}", spec.name, spec.given, spec.about).replace("  ", " ");
    let mut lines: Vec<String> = ALL.iter().filter(|spec| may(spec.needs)).map(line).collect();
    lines.push("@row text - one answer by another model".to_owned());
    lines.push("/help lists further commands".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: &str) -> (Vec<(&'static str, String)>, Option<String>, String) {
        let TypedMessage { commands, row, text } = read(message).unwrap();
        (commands.into_iter().map(|(spec, given)| (spec.name, given)).collect(), row, text)
    }

    #[test]
    fn commands_stand_in_front_in_order_and_the_rest_is_for_the_model() {
        let of = |name: &'static str, given: &str| (name, given.to_owned());
        for (message, commands, row, text) in [
            ("hello", vec![], None, "hello"),
            ("!reset", vec![of("reset", "")], None, ""),
            (
                " !RESET \n!model  deep \n\nwhat now?\n!important",
                vec![of("reset", ""), of("model", "deep")],
                None,
                "what now?\n!important",
            ),
            ("!session 101 delete\n@deep why?", vec![of("session", "101 delete")], Some("deep"), "why?"),
            ("@gpt-5.1 hi\nthere", vec![], Some("gpt-5.1"), "hi\nthere"),
            ("! not a command", vec![], None, "! not a command"),
            ("!!", vec![], None, "!!"),
            ("@deep", vec![], None, "@deep"),
            ("@<script> hi", vec![], None, "@<script> hi"),
            ("mail @deep hi", vec![], None, "mail @deep hi"),
        ] {
            assert_eq!(told(message), (commands, row.map(str::to_owned), text.to_owned()), "{message}");
        }
    }

    #[test]
    fn what_is_not_understood_is_a_mistake() {
        assert_eq!(read("!reset\n!nonsense x\nhello"), Err(Misread::Unknown("nonsense".to_owned())));
        assert_eq!(read(&"!reset\n".repeat(11)), Err(Misread::TooMany));
        assert!(matches!(read(&format!("!{}", "x".repeat(1_000))), Err(Misread::Unknown(name)) if name.len() == 40));
    }

    #[test]
    fn help_names_what_its_reader_may_run() {
        let all = help(|_| true);
        assert!(ALL.iter().all(|spec| all.contains(&format!("!{}", spec.name))));
        assert!(!help(|right| right == Right::Chat).contains("!llm_timeout"));
        assert_eq!((yes_or_no("YES"), yes_or_no("0"), yes_or_no("maybe")), (Some(true), Some(false), None));
    }

    #[test]
    fn the_longest_message_fits_a_slice() {
        let messages = |size: usize| {
            vec!["!".repeat(size), "!a".repeat(size), " \n".repeat(size), format!("@{}", "a".repeat(size))]
        };
        cost::fits_a_slice(32 * 1024, messages, |messages| {
            for message in &messages[..] {
                drop(read(message));
            }
        });
    }
}
