//! The suggested questions: on the page, in the demo model's help, and in the tour.
//!
//! All of them use this one table, and `tests/page/examples.rs` asks every row on the real page.

use serde::Serialize;

/// A question and the check of its answer.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// The text after the mention.
    pub ask: &'static str,
    /// A part of the answer; for a call that requires approval, of the answer after the denial.
    pub answer: &'static str,
    /// The content of the answer beside text.
    pub shows: Shows,
    /// The tool that is called, by its own name.
    pub tool: Option<&'static str>,
    /// Its line in the help.
    pub help: Option<Topic>,
    /// The note after its button on the page, if it has one.
    pub chip: Option<&'static str>,
    /// True if the tour asks it.
    pub tour: bool,
}

/// Content of an answer beside text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// None.
    Text,
    /// A picture.
    Picture,
    /// A block of code or plain output.
    Code,
    /// A card with a link.
    Card,
    /// A file to download.
    File,
    /// Buttons to approve or deny a call.
    Buttons,
}

/// A line of the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Kinds of answers.
    Kinds,
    /// The member's own formula.
    Formula,
    /// Lists and long answers.
    Length,
    /// Questions about the conversation.
    History,
    /// The playground itself.
    Playground,
    /// Connecting a real model.
    Connect,
    /// Tools.
    Tools,
}

impl Topic {
    /// All lines, in the order of the help.
    pub const ALL: [Self; 7] =
        [Self::Kinds, Self::Formula, Self::Length, Self::History, Self::Playground, Self::Connect, Self::Tools];

    /// Returns the text after the questions of the line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Kinds => "kinds of answers",
            Self::Formula => "your own formula, drawn",
            Self::Length => "lists, a short story, and what is too long for one message",
            Self::History => "history",
            Self::Playground => "what this is",
            Self::Connect => "how to use a real model",
            Self::Tools => "tools",
        }
    }
}

/// A button on the page.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Chip {
    ask: &'static str,
    note: &'static str,
}

/// The examples for the page.
#[derive(Debug, Clone, Serialize)]
pub struct Examples {
    chips: Vec<Chip>,
    tour: Vec<&'static str>,
}

impl Examples {
    /// Returns all examples of the table.
    #[must_use]
    pub fn all() -> Self {
        let chip = |example: &Example| example.chip.map(|note| Chip { ask: example.ask, note });
        Self {
            chips: EXAMPLES.iter().filter_map(chip).collect(),
            tour: EXAMPLES.iter().filter(|example| example.tour).map(|example| example.ask).collect(),
        }
    }
}

const fn ask(ask: &'static str, answer: &'static str) -> Example {
    Example { ask, answer, shows: Shows::Text, tool: None, help: None, chip: None, tour: false }
}

impl Example {
    const fn shows(self, shows: Shows) -> Self {
        Self { shows, ..self }
    }

    const fn tool(self, tool: &'static str) -> Self {
        Self { tool: Some(tool), help: Some(Topic::Tools), ..self }
    }

    const fn help(self, topic: Topic) -> Self {
        Self { help: Some(topic), ..self }
    }

    const fn chip(self, note: &'static str) -> Self {
        Self { chip: Some(note), ..self }
    }

    const fn tour(self) -> Self {
        Self { tour: true, ..self }
    }
}

/// All examples, in an order in which each can be asked: reads follow the writes that they depend on.
pub const EXAMPLES: [Example; 34] = [
    ask("hello!", "model").chip(""),
    ask("roll 2d6", "Rolled 2d6").tool("roll_dice").chip("").tour(),
    ask("draw a boat at sunset", "drew this").shows(Shows::Picture).tool("draw_picture").chip(""),
    ask("show me some code", "fn main()").shows(Shows::Code).chip(""),
    ask(r"$$ e^{i\pi} + 1 = 0 $$", "Your formula").shows(Shows::Picture).help(Topic::Formula).chip(""),
    ask("clear the notes", "You said no").shows(Shows::Buttons).tool("clear_notes").chip("asks you first"),
    ask("help", "I am the demo model").chip(""),
    ask("what can you do?", "I am the demo model"),
    ask("code", "fn main()").shows(Shows::Code).help(Topic::Kinds),
    ask("run", "what it printed").shows(Shows::Code).help(Topic::Kinds),
    ask("output", "plain output").shows(Shows::Code).help(Topic::Kinds),
    ask("table", "high water").shows(Shows::Code).help(Topic::Kinds),
    ask("show me a table", "high water").shows(Shows::Code),
    ask("formula", "A formula").shows(Shows::Picture).help(Topic::Kinds),
    ask("matrix", "A formula").shows(Shows::Picture).help(Topic::Kinds),
    ask("link", "A link").shows(Shows::Card).help(Topic::Kinds),
    ask("gif", "A moving picture").shows(Shows::Card).help(Topic::Kinds),
    ask("list", "Mention me in another channel").help(Topic::Length),
    ask("tale", "The end.").help(Topic::Length),
    ask("tell me a tale", "The end.").tour(),
    ask("long", "I made that long").help(Topic::Length),
    ask("file", "comes as a file").shows(Shows::File).help(Topic::Length),
    ask("my name is Ada", "my name is Ada").help(Topic::History),
    ask("what is my name?", "You told me before").help(Topic::History),
    ask("playground", "This is the playground").help(Topic::Playground),
    ask("connect", "LITELLM_API_URL").shows(Shows::Code).help(Topic::Connect),
    ask("what is 17*23", "391").tool("calculator"),
    ask("what time is it in Tokyo", "JST").tool("get_time"),
    ask("add a note: buy rope", "buy rope").tool("add_note"),
    ask("list the notes", "The notes of the example server").tool("list_notes"),
    ask("remember that I like tea", "I keep that").tool("remember"),
    ask("what do you know about me?", "I like tea").tool("search_memory"),
    ask("wait 2", "The tool answered").tool("wait"),
    ask(r"$$ \int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2} $$", "Your formula").shows(Shows::Picture).tour(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_stands_somewhere_and_once() {
        for (at, example) in EXAMPLES.iter().enumerate() {
            let before = &EXAMPLES[..at];
            assert!(before.iter().all(|other| other.ask != example.ask), "{} stands there twice", example.ask);
            assert!(!example.answer.is_empty(), "{} expects nothing", example.ask);
        }
        assert_eq!(Examples::all().tour.len(), 3, "the tour has a place for each");
    }

    /// Returns the quoted questions after a mention of the bot.
    fn asked(text: &str) -> impl Iterator<Item = &str> {
        text.split("\"@staffai ").skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn the_documents_suggest_what_the_table_has() {
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut pages = vec![root.join("README.md")];
        for folder in ["docs", "docs/guide"] {
            let inside = std::fs::read_dir(root.join(folder)).unwrap().map(|page| page.unwrap().path());
            pages.extend(inside.filter(|path| path.extension().is_some_and(|end| end == "md")));
        }
        let mut found = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            for question in asked(&text) {
                let known = EXAMPLES.iter().any(|example| example.ask == question);
                assert!(known, "{}: add \"{question}\" to the table of examples", page.display());
                found += 1;
            }
        }
        assert!(found >= 3, "the README suggests some");
    }
}
