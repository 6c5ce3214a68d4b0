//! What is shown of us beside our name: whether we are there, and a line of status.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use unicode_segmentation::UnicodeSegmentation;

use super::completion::{Item, Role};
use super::prompt;

/// The longest line of status, in Unicode scalar values; platforms refuse longer ones.
pub const LINE_MAX: usize = 128;
/// The most changes that are shown within [`PERIOD`]; platforms pass over more.
pub const CHANGES: usize = 5;
/// The time in which they are counted: a minute, and some more because not every change is equally long on its way.
pub const PERIOD: Duration = Duration::from_secs(65);
/// The most earlier lines that the model is told, so that it does not repeat itself.
pub const EARLIER_MAX: usize = 5;

/// How we are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// Whether we are there.
    pub mood: Mood,
    /// The line beside our name.
    pub line: Option<Line>,
}

/// Whether we are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// As usual.
    Online,
    /// There, but out of our active hours.
    Idle,
    /// There, but something is wrong with us.
    Busy,
}

/// A line of status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What kind of status it is: the platform puts its words before the text.
    pub kind: ActivityKind,
    /// One line of at most [`LINE_MAX`] scalar values.
    pub text: Arc<str>,
}

/// What kind of status a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    /// Something that we play.
    Playing,
    /// Something that we listen to.
    Listening,
    /// Something that we watch.
    Watching,
    /// Anything.
    Custom,
}

impl ActivityKind {
    /// The kinds in their rotation.
    pub const ALL: [Self; 4] = [Self::Playing, Self::Listening, Self::Watching, Self::Custom];

    /// The kind of the line of this number.
    #[must_use]
    pub const fn of(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// How the platform and the prompt name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Playing => "Playing",
            Self::Listening => "Listening to",
            Self::Watching => "Watching",
            Self::Custom => "Custom",
        }
    }
}

/// What the model is shown to write a line: the operator's instructions, the form of the answer, the kind, and the lines before.
#[must_use]
pub fn transcript(prompts: &prompt::Prompts, kind: ActivityKind, earlier: &[Arc<str>]) -> Vec<Item> {
    let instructions = prompts.activity.trim().replace("{bot_name}", &prompts.bot_name);
    let form = prompt::typed_form(0);
    let mut ask = format!("Kind of status: {}. Write the status line.", kind.as_str());
    if !earlier.is_empty() {
        ask.push_str("\nYour last lines, not to be repeated:");
        for line in &earlier[earlier.len().saturating_sub(EARLIER_MAX)..] {
            ask.push_str("\n- ");
            ask.push_str(line);
        }
    }
    vec![Item::new(Role::System, format!("{instructions}\n\n{form}")), Item::new(Role::User, ask)]
}

/// A line made of what a model wrote: plain text on one line, without mentions, links, markup and what the platform adds by
/// itself. None when nothing is left.
#[must_use]
pub fn line(kind: ActivityKind, written: &str) -> Option<Line> {
    let clean = crate::clean::clean(written, LINE_MAX * 4);
    let without_marks: String = outside_angles(&clean).chars().filter(|c| !MARKS.contains(c)).collect();
    let words: Vec<&str> = without_marks.split_whitespace().filter(|word| !is_address(word)).collect();
    let text = words.join(" ");
    let mut text = text.trim_matches(['"', '“', '”', '„', '«', '»', '\'', '#', '-', ' ']);
    // The platform writes the kind itself.
    if kind != ActivityKind::Custom
        && let Some(start) = text.get(..kind.as_str().len())
        && start.eq_ignore_ascii_case(kind.as_str())
        && let Some(rest) = text[start.len()..].strip_prefix([' ', ':'])
    {
        text = rest.trim_start();
    }
    let text = cut(text);
    (!text.trim().is_empty()).then(|| Line { kind, text: text.into() })
}

/// Signs that some platform gives a meaning: code, bold, struck out, hidden, mentions.
const MARKS: [char; 7] = ['`', '*', '~', '|', '@', '<', '>'];

/// The text without what stands between angle brackets: mentions, custom emoji, times.
fn outside_angles(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        kept.push_str(before);
        match after.split_once('>') {
            Some((inside, behind)) if !inside.contains([' ', '<']) => rest = behind,
            _ => rest = after,
        }
    }
    kept.push_str(rest);
    kept
}

fn is_address(word: &str) -> bool {
    word.contains("://") || word.to_lowercase().starts_with("discord.gg/") || word.to_lowercase().starts_with("www.")
}

/// At most [`LINE_MAX`] scalar values, whole graphemes, the end marked where something is missing.
fn cut(text: &str) -> String {
    if text.chars().count() <= LINE_MAX {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut count = 0;
    for grapheme in text.graphemes(true) {
        count += grapheme.chars().count();
        if count > LINE_MAX - 1 {
            break;
        }
        kept.push_str(grapheme);
    }
    format!("{}…", kept.trim_end())
}

/// Keeps changes within [`CHANGES`] in any [`PERIOD`]. Times are durations since an origin that the caller keeps.
#[derive(Debug, Default)]
pub struct Pace {
    shown: VecDeque<Duration>,
}

impl Pace {
    /// Takes the right to one change now.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        while self.shown.front().is_some_and(|first| *first + PERIOD <= now) {
            self.shown.pop_front();
        }
        match self.shown.front() {
            Some(first) if self.shown.len() >= CHANGES => Err((*first + PERIOD).saturating_sub(now)),
            _ => {
                self.shown.push_back(now);
                Ok(())
            }
        }
    }

    /// A change is shown now in any case.
    pub fn note(&mut self, now: Duration) {
        if self.take(now).is_err() {
            self.shown.pop_front();
            self.shown.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests;
