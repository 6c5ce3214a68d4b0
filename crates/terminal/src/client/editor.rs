//! The line editor: history with search, messages of several lines, bracketed paste, completion of names.

use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::{DefaultHistory, History as _};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Editor as LineEditor, Event, EventContext, EventHandler,
    KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};

use super::names::Names;

/// Maximum number of lines in the history.
const KEPT: usize = 1000;

const PROMPT: &str = "you › ";
const COLORED: &str = "\x1b[1;36myou ›\x1b[0m ";

/// Added by Enter after a backslash: a zero-width mark that pasted text does not contain, and a line break.
const GOES_ON: &str = "\u{2060}\n";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Text(String),
    /// The user leaves.
    End,
}

type Line = LineEditor<Names, DefaultHistory>;

/// Edits lines on the terminal.
pub(super) struct Editor {
    /// `None` while a line is edited.
    line: Option<Line>,
    history: Option<PathBuf>,
    colors: bool,
}

impl Editor {
    /// Creates an editor with the history of this file, which is readable by its owner only.
    ///
    /// # Errors
    /// The terminal cannot be configured.
    pub(super) fn new(history: Option<PathBuf>, colors: bool) -> Result<Self, String> {
        let refused = |error: ReadlineError| error.to_string();
        let config = Config::builder().max_history_size(KEPT).and_then(|config| config.history_ignore_dups(true));
        let config = config.map_err(refused)?.history_ignore_space(true).completion_type(CompletionType::List).build();
        let mut line = Line::with_config(config).map_err(refused)?;
        line.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::NONE), EventHandler::Conditional(Box::new(GoesOn)));
        line.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        line.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(Interrupt)));
        line.set_helper(Some(Names::default()));
        let history = history.filter(|path| begin(path).is_ok());
        if let Some(path) = &history {
            // An unreadable history begins empty.
            let _ = line.load_history(path);
        }
        Ok(Self { line: Some(line), history, colors })
    }

    pub(super) async fn read(&mut self) -> Result<Typed, String> {
        let Some(mut line) = self.line.take() else { return Ok(Typed::End) };
        let prompt = (PROMPT, if self.colors { COLORED } else { PROMPT });
        let edited = tokio::task::spawn_blocking(move || {
            let read = line.readline(&prompt);
            (line, read)
        });
        let (mut line, read) = edited.await.map_err(|error| error.to_string())?;
        let typed = match read {
            Ok(text) => {
                let text = joined(&text);
                self.keep(&mut line, &text);
                Ok(Typed::Text(text.trim().to_owned()))
            }
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(Typed::End),
            Err(error) => Err(error.to_string()),
        };
        self.line = Some(line);
        typed
    }

    /// Offers the names of resources in a text that was shown for completion.
    pub(super) fn learn(&mut self, shown: &str) {
        if let Some(names) = self.line.as_mut().and_then(LineEditor::helper_mut) {
            names.learn(shown);
        }
    }

    /// Adds a message to the history. If the file cannot be written, the history lasts for this conversation.
    fn keep(&self, line: &mut Line, text: &str) {
        if text.trim().is_empty() || !line.add_history_entry(text).unwrap_or(false) {
            return;
        }
        if let Some(path) = &self.history {
            let _ = line.history_mut().append(path);
        }
    }
}

/// Creates the history file and its directories with access for the owner only.
fn begin(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}

/// Replaces a typed backslash at the end of a line by a line break. Pasted text is unchanged.
fn joined(text: &str) -> String {
    text.replace(&format!("\\{GOES_ON}"), "\n").replace("\\\u{2060}", "\\")
}

/// Enter after a trailing backslash begins another line.
struct GoesOn;

impl ConditionalEventHandler for GoesOn {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let goes_on = context.line().ends_with('\\') && context.pos() == context.line().len();
        goes_on.then(|| Cmd::Insert(1, GOES_ON.to_owned()))
    }
}

/// Ctrl-C clears the line, or ends the input if the line is empty.
struct Interrupt;

impl ConditionalEventHandler for Interrupt {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        Some(if context.line().is_empty() { Cmd::Interrupt } else { Cmd::Kill(Movement::WholeBuffer) })
    }
}
