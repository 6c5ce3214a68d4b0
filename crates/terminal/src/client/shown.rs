//! The part of an answer that is on the screen.

use std::fmt::Write as _;
use std::io::Write;

use super::markdown::Markdown;

/// An answer in progress.
#[derive(Default)]
pub(super) struct Shown {
    text: String,
    /// The renderer, if marks are drawn.
    markdown: Option<Markdown>,
}

impl Shown {
    /// Creates an empty answer; `drawn` renders marks.
    pub(super) fn nothing(drawn: bool) -> Self {
        Self { text: String::new(), markdown: drawn.then(Markdown::default) }
    }

    /// True if nothing is written yet.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns what is written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Appends to the draft; a new draft begins on a new line.
    pub(super) fn grow(&mut self, more: &str, anew: bool, out: &mut impl Write) -> std::io::Result<()> {
        if anew && !self.text.is_empty() {
            self.begin_anew(out)?;
        }
        self.write(&harmless(more), out)
    }

    /// Writes the rest of the complete answer; one that does not begin like its draft is written on a new line.
    pub(super) fn update(&mut self, text: &str, out: &mut impl Write) -> std::io::Result<()> {
        let text = harmless(text);
        if let Some(more) = text.strip_prefix(self.text.as_str()) {
            return self.write(more, out);
        }
        self.begin_anew(out)?;
        self.write(&text, out)
    }

    /// Writes the buffered rest of the answer.
    pub(super) fn end(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if let Some(markdown) = &mut self.markdown {
            write!(out, "{}", markdown.finish())?;
        }
        out.flush()
    }

    fn begin_anew(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        self.end(out)?;
        writeln!(out)?;
        self.text.clear();
        self.markdown = self.markdown.is_some().then(Markdown::default);
        Ok(())
    }

    fn write(&mut self, more: &str, out: &mut impl Write) -> std::io::Result<()> {
        match &mut self.markdown {
            Some(markdown) => write!(out, "{}", markdown.feed(more))?,
            None => write!(out, "{more}")?,
        }
        self.text.push_str(more);
        out.flush()
    }
}

/// Removes control characters, which could control the terminal, and bidirectional overrides, which could disguise a
/// call.
pub(super) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !steers(*c)).collect()
}

/// Shows such characters by their number, for texts that are decided about.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// True for control characters and bidirectional overrides.
fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(drawn: bool) -> String {
        let mut shown = Shown::nothing(drawn);
        let mut out = Vec::new();
        for (text, anew) in [("Hel", true), ("lo", false)] {
            shown.grow(text, anew, &mut out).unwrap();
        }
        shown.update("Hello **you**!", &mut out).unwrap();
        shown.grow("M\u{1b}[2J**ore", true, &mut out).unwrap();
        shown.update("Other", &mut out).unwrap();
        shown.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_answer_goes_on_behind_its_draft_and_else_on_a_new_line() {
        assert_eq!(written(false), "Hello **you**!\nM[2J**ore\nOther");
        assert_eq!(written(true), "Hello \u{1b}[1myou\u{1b}[0m!\nM[2J**ore\nOther");
    }

    #[test]
    fn control_and_bidirectional_characters_are_shown_by_number_where_a_decision_is_made() {
        assert_eq!(escaped("pay\u{202e} 10\u{1b}[2J\n"), "pay\\u202e 10\\u001b[2J\n");
        assert_eq!(harmless("pay\u{202e} 10\u{1b}[2J\n"), "pay 10[2J\n");
    }
}
