//! Slash commands: a line that begins with a slash and the name of a command.

use domain::command::CommandKind;
use domain::menu;

/// The options of a command: names and values.
pub type Options = Vec<(String, String)>;

/// Parses a command line; `None` for other text that begins with a slash, such as a path.
#[must_use]
pub fn parse(line: &str) -> Option<(String, Options)> {
    let line = line.trim().strip_prefix('/')?;
    let (name, given) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        return None;
    }
    let given = given.trim();
    let options = match CommandKind::named(name).and_then(menu::option) {
        Some(option) if !given.is_empty() => {
            // In the form of other doors, `row: deep`, or only the value.
            let value = given.strip_prefix(option.name).and_then(|rest| rest.trim_start().strip_prefix(':'));
            vec![(option.name.to_owned(), value.unwrap_or(given).trim().to_owned())]
        }
        Some(_) | None => Options::new(),
    };
    Some((name.to_owned(), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_slash_and_a_name_is_a_command() {
        let named = |name: &str| Some((name.to_owned(), Options::new()));
        let deep = Some(("model".to_owned(), vec![("row".to_owned(), "deep".to_owned())]));
        for (line, expected) in [
            ("/help", named("help")),
            (" /refresh_tools \n", named("refresh_tools")),
            ("/nonsense x", named("nonsense")),
            ("/help me", named("help")),
            ("/model", named("model")),
            ("/model deep", deep.clone()),
            ("/model row:deep", deep.clone()),
            ("/model row : deep", deep),
            ("/", None),
            ("/etc/hosts is what?", None),
            ("/Help", None),
            ("what is /help", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn the_longest_line_fits_a_slice() {
        let lines = |size: usize| {
            vec![format!("/{}", "a".repeat(size)), format!("/model row{}", " ".repeat(size)), "/".repeat(size)]
        };
        cost::fits_a_slice(32 * 1024, lines, |lines| {
            for line in &lines {
                drop(parse(line));
            }
        });
    }
}
