//! Renders an answer's markdown while it is streamed. Output is append-only and nothing is drawn twice, so the output
//! is hardly longer than the text. Text that may still become a mark is buffered: at most a line of code, or a few
//! words.

use std::fmt::Write as _;

/// Resets all colours.
pub(super) const PLAIN: &str = "\x1b[0m";
/// The colour of secondary text.
pub(super) const DIM: &str = "\x1b[2m";
const HEADING: &str = "\x1b[1;36m";
const BOLD: &str = "\x1b[1m";
const ITALIC: &str = "\x1b[3m";
const INLINE_CODE: &str = "\x1b[33m";
/// Drawn for a horizontal rule.
const RULE: &str = "────────────────";
/// Maximum length of buffered text between two marks, in bytes; longer text is written unchanged.
const HELD_MAX: usize = 400;

/// The state of the renderer.
#[derive(Debug)]
enum At {
    /// At the beginning of a line, of which nothing is drawn yet.
    Line(String),
    /// In a line of text.
    Words(Words),
    /// In a code block, at a line of which nothing is drawn yet.
    Code { fence: String, line: String },
}

#[derive(Debug)]
pub(super) struct Markdown {
    at: At,
}

impl Default for Markdown {
    fn default() -> Self {
        Self { at: At::Line(String::new()) }
    }
}

impl Markdown {
    /// Returns the output for the next piece of the answer.
    pub(super) fn feed(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            self.push(c, &mut out);
        }
        out
    }

    /// Returns the buffered text at the end of the answer, or before another line is inserted. Text after an inserted
    /// line continues its sentence, so a dash there begins no list.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        match std::mem::take(&mut self.at) {
            At::Line(held) if held.is_empty() => {}
            At::Line(held) => {
                self.begin(&held, true, &mut out);
                if let At::Words(words) = &mut self.at {
                    words.end(&mut out);
                }
            }
            At::Words(mut words) => {
                words.end(&mut out);
                self.at = At::Words(words);
            }
            At::Code { fence, line } => {
                if closes(&line, &fence) {
                    let _ = write!(out, "{DIM}──{PLAIN}");
                    return out;
                }
                out.push_str(&line);
                // After an inserted line the code block continues.
                self.at = At::Code { fence, line: String::new() };
            }
        }
        out
    }

    fn push(&mut self, c: char, out: &mut String) {
        match &mut self.at {
            At::Line(held) if c == '\n' => {
                let held = std::mem::take(held);
                match kind(&held, true) {
                    Kind::Fence(language) => {
                        let fence = held.trim_start().chars().take_while(|c| matches!(c, '`' | '~')).collect();
                        let _ = writeln!(out, "{DIM}── {language}{PLAIN}");
                        self.at = At::Code { fence, line: String::new() };
                    }
                    _ => {
                        self.begin(&held, true, out);
                        self.push_word(c, out);
                    }
                }
            }
            At::Line(held) => {
                held.push(c);
                if !matches!(kind(held, false), Kind::Open | Kind::Fence(_)) || held.len() > HELD_MAX {
                    let held = std::mem::take(held);
                    self.begin(&held, false, out);
                }
            }
            At::Words(_) => self.push_word(c, out),
            At::Code { fence, line } if c == '\n' => {
                if closes(line, fence) {
                    let _ = writeln!(out, "{DIM}──{PLAIN}");
                    self.at = At::Line(String::new());
                } else {
                    out.push_str(line);
                    out.push('\n');
                    line.clear();
                }
            }
            At::Code { line, .. } => {
                line.push(c);
                if line.len() > 10 * HELD_MAX {
                    out.push_str(line);
                    line.clear();
                }
            }
        }
    }

    /// Draws the beginning of a line of a known kind.
    fn begin(&mut self, held: &str, ended: bool, out: &mut String) {
        let indent = &held[..held.len() - held.trim_start().len()];
        let (style, rest) = match kind(held, ended) {
            Kind::Heading(rest) => (HEADING, rest),
            Kind::Item(rest) => {
                let _ = write!(out, "{indent}{DIM}•{PLAIN} ");
                ("", rest)
            }
            Kind::Quote(rest) => {
                let _ = write!(out, "{DIM}│{PLAIN} ");
                ("", rest)
            }
            Kind::Small(rest) => (DIM, rest),
            Kind::Rule => {
                let _ = write!(out, "{DIM}{RULE}{PLAIN}");
                ("", "")
            }
            Kind::Words | Kind::Open | Kind::Fence(_) => ("", held),
        };
        out.push_str(style);
        self.at = At::Words(Words { style, ..Words::default() });
        for c in rest.chars() {
            self.push_word(c, out);
        }
    }

    fn push_word(&mut self, c: char, out: &mut String) {
        let At::Words(words) = &mut self.at else { return };
        if c == '\n' {
            words.end(out);
            out.push('\n');
            self.at = At::Line(String::new());
        } else {
            words.push(c, out);
        }
    }
}

impl Default for At {
    fn default() -> Self {
        Self::Line(String::new())
    }
}

/// True if this line closes a code block opened by this fence.
fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.len() >= fence.len() && line.chars().all(|c| fence.starts_with(c))
}

/// The kind of a line, as far as its beginning shows.
#[derive(Debug, PartialEq, Eq)]
enum Kind<'a> {
    /// Undecided.
    Open,
    Words,
    Heading(&'a str),
    Item(&'a str),
    Quote(&'a str),
    /// Small text, which platforms mark with `-#`.
    Small(&'a str),
    Rule,
    /// The beginning of a code block; the language is complete when the line is.
    Fence(&'a str),
}

/// Returns the kind of a line that begins with `held`, or equals it if it has ended.
fn kind(held: &str, ended: bool) -> Kind<'_> {
    let text = held.trim_start();
    let behind = text.trim_start_matches('#');
    let level = text.len() - behind.len();
    if (1..=6).contains(&level) {
        return match behind.strip_prefix(' ') {
            Some(rest) => Kind::Heading(rest),
            None if behind.is_empty() && !ended => Kind::Open,
            None => Kind::Words,
        };
    }
    for fence in ["```", "~~~"] {
        if let Some(language) = text.strip_prefix(fence) {
            let language = language.trim_start_matches(['`', '~']).trim();
            // A fence that closes on the same line is inline code.
            return if language.contains('`') { Kind::Words } else { Kind::Fence(language) };
        }
        if fence.starts_with(text) && !ended {
            return Kind::Open;
        }
    }
    if let Some(rest) = text.strip_prefix('>') {
        if rest.is_empty() && !ended {
            return Kind::Open;
        }
        return Kind::Quote(rest.strip_prefix(' ').unwrap_or(rest));
    }
    if let Some(rest) = text.strip_prefix("-#") {
        return match rest.strip_prefix(' ') {
            Some(rest) => Kind::Small(rest),
            None if rest.is_empty() && !ended => Kind::Open,
            None => Kind::Words,
        };
    }
    let dashes = text.trim_end();
    if !dashes.is_empty() && dashes.bytes().all(|b| b == b'-') {
        match dashes.len() {
            3.. if ended => return Kind::Rule,
            // A space after the mark begins a list item.
            1 if text.len() > 1 => {}
            _ if ended => return Kind::Words,
            _ => return Kind::Open,
        }
    }
    ["- ", "* ", "+ "].iter().find_map(|mark| text.strip_prefix(mark)).map_or_else(
        || if (text.is_empty() || text == "+" || text == "*") && !ended { Kind::Open } else { Kind::Words },
        Kind::Item,
    )
}

/// Draws text with inline marks.
#[derive(Debug, Default)]
struct Words {
    style: &'static str,
    /// The open mark and the text after it.
    open: String,
    held: String,
    /// True if the mark was opened after a letter.
    within: bool,
    /// The last character drawn, or a space.
    before: Option<char>,
}

impl Words {
    fn push(&mut self, c: char, out: &mut String) {
        if self.open.is_empty() {
            // Inside of a word `*` is no mark, and `**` is one between letters.
            self.within = self.before.is_some_and(char::is_alphabetic);
            let may_open = self.within || self.before.is_none_or(|before| !before.is_alphanumeric() && before != '*');
            if c == '`' || (c == '*' && may_open) {
                self.open.push(c);
            } else {
                out.push(c);
                self.before = Some(c);
            }
            return;
        }
        if self.held.is_empty() {
            if self.open.starts_with(c) && self.open.len() < 3 {
                self.open.push(c);
                return;
            }
            if self.open.starts_with('*') && c.is_whitespace() {
                return self.give_up(c, out);
            }
            if self.open.starts_with('*') && self.within && (self.open.len() != 2 || !c.is_alphabetic()) {
                out.push_str(&std::mem::take(&mut self.open));
                self.before = Some('*');
                return self.push(c, out);
            }
        }
        self.held.push(c);
        if self.held.ends_with(self.open.as_str()) && self.held.len() > self.open.len() {
            let text = &self.held[..self.held.len() - self.open.len()];
            let style = match self.open.as_str() {
                "*" => ITALIC,
                "**" | "***" => BOLD,
                _ => INLINE_CODE,
            };
            let _ = write!(out, "{style}{text}{PLAIN}{}", self.style);
            self.before = Some(' ');
            self.open.clear();
            self.held.clear();
        } else if self.held.len() > HELD_MAX {
            self.held.pop();
            self.give_up(c, out);
        }
    }

    /// Draws an unmatched mark unchanged.
    fn give_up(&mut self, next: char, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.open));
        out.push_str(&std::mem::take(&mut self.held));
        out.push(next);
        self.before = Some(next);
    }

    fn end(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.open));
        out.push_str(&std::mem::take(&mut self.held));
        if !self.style.is_empty() {
            out.push_str(PLAIN);
            self.style = "";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders an answer in pieces of this many characters.
    fn drawn(text: &str, size: usize) -> String {
        let mut markdown = Markdown::default();
        let chars: Vec<char> = text.chars().collect();
        let mut out: String =
            chars.chunks(size).map(|piece| markdown.feed(&piece.iter().collect::<String>())).collect();
        out.push_str(&markdown.finish());
        let marks =
            [(HEADING, "<h>"), (BOLD, "<b>"), (ITALIC, "<i>"), (INLINE_CODE, "<code>"), (DIM, "<dim>"), (PLAIN, "</>")];
        marks.iter().fold(out, |text, (color, mark)| text.replace(color, mark))
    }

    #[test]
    fn marks_are_drawn_however_the_answer_is_cut() {
        for (text, expected) in [
            ("# Plan\nwords", "<h>Plan</>\nwords"),
            ("#5 is no heading", "#5 is no heading"),
            ("- one\n  * two\n-3", "<dim>•</> one\n  <dim>•</> two\n-3"),
            ("1. one\n2. two", "1. one\n2. two"),
            ("-# small `x` text\n-#5\n-#", "<dim>small <code>x</><dim> text</>\n-#5\n-#"),
            ("a **bold** and *so* `x*y`.", "a <b>bold</> and <i>so</> <code>x*y</>."),
            ("## A `b` c\n", "<h>A <code>b</><h> c</>\n"),
            ("2 * 3 * 4, a*b*c, snake_case_name", "2 * 3 * 4, a*b*c, snake_case_name"),
            ("un**break**able, これは**重要**です", "un<b>break</>able, これは<b>重要</>です"),
            ("2**3 and 4**5, f(a**, b**), x**2, a*`b`", "2**3 and 4**5, f(a**, b**), x**2, a*<code>b</>"),
            ("**open\nnext", "**open\nnext"),
            ("**bold** first", "<b>bold</> first"),
            ("> said\n---\n>", "<dim>│</> said\n<dim>────────────────</>\n<dim>│</> "),
            ("```rs\nlet a;\n```\nend", "<dim>── rs</>\nlet a;\n<dim>──</>\nend"),
            ("```\n**as it is**", "<dim>── </>\n**as it is**"),
            ("```rs\nlet a;\n```", "<dim>── rs</>\nlet a;\n<dim>──</>"),
            ("end\n```py", "end\n```py"),
            ("end\n~~~", "end\n~~~"),
            ("`` a`b `` c", "<code> a`b </> c"),
            ("*", "*"),
            ("", ""),
            ("a\n\n  b", "a\n\n  b"),
        ] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(drawn(text, size), expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_sentence_that_goes_on_behind_a_line_of_ours_begins_no_list() {
        let mut markdown = Markdown::default();
        let mut interrupted = |before: &str, behind: &str| {
            let told = [markdown.feed(before), markdown.finish(), markdown.feed(behind), markdown.finish()].concat();
            markdown = Markdown::default();
            told
        };
        assert_eq!(interrupted("the boat", " - a red one\n"), "the boat - a red one\n");
        assert_eq!(interrupted("the boat is well", "# known"), "the boat is well# known");
        assert_eq!(interrupted("boats:\n", "- red"), format!("boats:\n{DIM}•{PLAIN} red"));
    }

    #[test]
    fn words_are_drawn_as_they_come() {
        let mut markdown = Markdown::default();
        assert_eq!([markdown.feed("T"), markdown.feed("he "), markdown.feed("end")], ["T", "he ", "end"]);
    }

    #[test]
    fn an_answer_costs_in_proportion_to_its_length() {
        let texts = |size: usize| {
            ["*", "**a", "`", "# ", "- ", "```\n", "`a` ", "~~~", "> "].map(|mark| mark.repeat(size / mark.len()))
        };
        cost::grows_linearly(2048, texts, |texts| {
            for text in texts {
                let mut markdown = Markdown::default();
                markdown.feed(&text);
                markdown.finish();
            }
        });
    }
}
