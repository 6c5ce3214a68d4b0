//! Commands at the terminal: a line that begins with a slash and the name of a command.

use crate::domain::command;
use crate::domain::layout::lay_out;
use crate::domain::outgoing::{Capabilities, Part, Piece};

/// What was given with a command, by the names of its options.
pub type Options = Vec<(String, String)>;

/// The command of a line, and what is given with it. None for everything that only begins with a slash, such as a path.
#[must_use]
pub fn parse(line: &str) -> Option<(String, Options)> {
    let line = line.trim().strip_prefix('/')?;
    let (name, given) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        return None;
    }
    let spec = command::specs(&[], true).into_iter().find(|spec| spec.name == name);
    let given = given.trim();
    let options = match spec.and_then(|spec| spec.option) {
        Some(option) if !given.is_empty() => {
            // As other doors write it, `row: deep`, or the value alone.
            let value = given.strip_prefix(option.name).and_then(|rest| rest.trim_start().strip_prefix(':'));
            vec![(option.name.to_owned(), value.unwrap_or(given).trim().to_owned())]
        }
        Some(_) | None => Options::new(),
    };
    Some((name.to_owned(), options))
}

/// An answer in the words that a terminal shows, as messages that are each short enough.
#[must_use]
pub fn in_words(piece: &Piece, door: &Capabilities) -> Vec<String> {
    let Piece { text, cards, files } = piece.clone();
    let text = Part::Text { text };
    let cards = cards.into_iter().map(Part::Card);
    let parts: Vec<Part> = [text].into_iter().chain(cards).chain(files.into_iter().map(Part::File)).collect();
    lay_out(&parts, door).into_iter().map(|piece| piece.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outgoing::{Card, File};

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
    fn cards_and_documents_are_told_in_words_and_in_pieces() {
        let card = Card { title: Some("staffai".to_owned()), text: "All parts are up.".to_owned(), ..Card::default() };
        let file = File::new("you.json", "application/json", *b"{\"a\": 1}");
        let piece = Piece { text: "Everything:".to_owned(), cards: vec![card], files: vec![file] };
        let told = in_words(&piece, &Capabilities::text_only(1_000)).join("\n");
        for part in ["Everything:", "**staffai**\nAll parts are up.", "{\"a\": 1}"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let long = in_words(&Piece::text("word ".repeat(1_000)), &Capabilities::text_only(1_000));
        assert!(long.len() > 4 && long.iter().all(|text| text.chars().count() <= 1_000));
    }
}
