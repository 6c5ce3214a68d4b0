//! The presence of the bot: its availability and a status line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use unicode_segmentation::UnicodeSegmentation;

use super::completion::{Item, Role};
use super::prompt;

/// The longest status line, in Unicode scalar values. Platforms refuse longer ones.
pub const LINE_MAX: usize = 128;
/// The maximum number of changes within [`PERIOD`]. Platforms ignore more.
pub const CHANGES: usize = 5;
/// The length of the sliding window: one minute, plus a margin because the latency of changes varies.
pub const PERIOD: Duration = Duration::from_secs(65);
/// The maximum number of earlier lines given to the model to avoid repetition.
pub const EARLIER_MAX: usize = 5;

/// The presence of the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// The availability.
    pub mood: Mood,
    /// The line beside the bot's name.
    pub line: Option<Line>,
}

/// The availability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Available.
    Online,
    /// Available, but outside of the active hours.
    Idle,
    /// Available, but degraded.
    Busy,
}

/// A status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The kind of status. The platform puts the words of the kind before the text.
    pub kind: ActivityKind,
    /// One line of at most [`LINE_MAX`] scalar values.
    pub text: Arc<str>,
}

/// The kind of a status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    /// A game that the bot plays.
    Playing,
    /// A sound that the bot listens to.
    Listening,
    /// A programme that the bot watches.
    Watching,
    /// Any text.
    Custom,
}

impl ActivityKind {
    /// The kinds in their rotation.
    pub const ALL: [Self; 4] = [Self::Playing, Self::Listening, Self::Watching, Self::Custom];

    /// Returns the kind of the line of this number.
    #[must_use]
    pub const fn of(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// Returns the name on the platform and in the prompt.
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

/// Returns the transcript for a status line: the operator's instructions, the form of the answer, the kind, and the
/// earlier lines.
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

/// Makes a status line from a model's text: plain text on one line, without mentions, links, markup, and words that the
/// platform adds itself. `None` if no text remains.
#[must_use]
pub fn line(kind: ActivityKind, written: &str) -> Option<Line> {
    let clean = crate::clean::clean(written, LINE_MAX * 4);
    let without_marks: String = outside_angles(&clean).chars().filter(|c| !MARKS.contains(c)).collect();
    let words: Vec<&str> = without_marks.split_whitespace().filter(|word| !is_address(word)).collect();
    let text = words.join(" ");
    let mut text = text.trim_matches(['"', '“', '”', '„', '«', '»', '\'', '#', '-', ' ']);
    // The platform adds the kind itself.
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

/// Characters with a meaning on a platform: code, bold, strikethrough, spoiler, mentions.
const MARKS: [char; 7] = ['`', '*', '~', '|', '@', '<', '>'];

/// Returns the text without parts in angle brackets: mentions, custom emoji, times.
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

/// Cuts a text to at most [`LINE_MAX`] scalar values in whole graphemes, and marks a cut with `…`.
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

/// A rate limiter: at most [`CHANGES`] in any [`PERIOD`]. Times are durations since an origin of the caller.
#[derive(Debug, Default)]
pub struct Pace {
    shown: VecDeque<Duration>,
}

impl Pace {
    /// Acquires the right to one change now.
    ///
    /// # Errors
    /// Returns the delay until the next change is allowed.
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

    /// Records a change that is shown now regardless of the limit.
    pub fn note(&mut self, now: Duration) {
        if self.take(now).is_err() {
            self.shown.pop_front();
            self.shown.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests;
