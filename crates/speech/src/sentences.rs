//! Cuts a growing answer into parts: sentences, and silent blocks between them.
//!
//! The parts depend on the answer alone, not on the pieces in which it arrives: a reader that starts over gets the same
//! ones. The text is read character by character, in linear time. At most [`BLOCK_MAX`] bytes are held back.

mod block;

use unicode_segmentation::UnicodeSegmentation;

use self::block::{Block, CALLS, Json, Tags};
use super::abbreviations;
use super::spoken::{Part, TAG_MAX, part};

/// Maximum length of a spoken part, in bytes. A longer sentence is cut at a space, if it has one.
const PART_MAX: usize = 480;
/// Maximum length of a silent part, in bytes.
const BLOCK_MAX: usize = 2_048;
/// Maximum length of a quotation that is kept together, in bytes. An unclosed quotation mark ends with it.
const QUOTE_MAX: usize = 240;
/// Maximum length of the word before a full stop that is looked at, in bytes.
const WORD_MAX: usize = 64;

/// The state of one answer.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they change independently")]
pub struct Sentences {
    /// The text behind the last part.
    pending: String,
    mode: Mode,
    end: Option<End>,
    /// The place behind a comma at which the first part may end.
    clause: Option<usize>,
    /// The place behind the last space.
    space: Option<usize>,
    quote: Option<Quote>,
    /// True until the line has another character than white space.
    begins_line: bool,
    /// True until a spoken part was returned.
    is_first: bool,
    /// True inside `<speak>`.
    speaks: bool,
    /// True if the pending text begins inside inline code.
    in_code: bool,
}

#[derive(Debug)]
enum Mode {
    Text,
    /// A run of backticks that began here.
    Ticks {
        from: usize,
        begins_line: bool,
    },
    /// Inline code between this many backticks, and the length of the run just read.
    Code {
        ticks: usize,
        run: usize,
    },
    /// Perhaps a tag that began here.
    Tag {
        from: usize,
    },
    /// Perhaps a JSON object that began here.
    Brace {
        from: usize,
    },
    /// Perhaps the mark of calls, which began here.
    Bracket {
        from: usize,
    },
    Block(Block),
}

/// A place that may be the end of a sentence.
#[derive(Debug, Clone, Copy)]
struct End {
    /// The place behind the mark and closing brackets.
    at: usize,
    /// The place before the mark.
    mark: usize,
    kind: Mark,
    /// True once a space followed.
    spaced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// One full stop.
    Stop,
    /// Another mark of ASCII, or several.
    Ascii,
    /// A mark of a script that may have no space behind it.
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Quote {
    from: usize,
    closes: [char; 2],
}

impl Default for Sentences {
    fn default() -> Self {
        Self::new()
    }
}

impl Sentences {
    /// Creates the state of an answer without text.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pending: String::new(),
            mode: Mode::Text,
            end: None,
            clause: None,
            space: None,
            quote: None,
            begins_line: true,
            is_first: true,
            speaks: false,
            in_code: false,
        }
    }

    /// Appends text to the answer, and returns the parts that are complete now.
    pub fn push(&mut self, more: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        for c in more.chars() {
            self.read(c, &mut parts);
        }
        parts
    }

    /// Returns the rest of the answer. Text may follow, as after a tool call.
    pub fn flush(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        self.cut(self.pending.len(), &mut parts);
        // A tag, brace or run of backticks that began in the returned text ends with it.
        if matches!(self.mode, Mode::Ticks { .. } | Mode::Tag { .. } | Mode::Brace { .. } | Mode::Bracket { .. }) {
            self.mode = Mode::Text;
        }
        parts
    }

    /// Returns the text behind the last part.
    #[must_use]
    pub fn pending(&self) -> &str {
        &self.pending
    }

    /// Forgets the text behind the last part, so that other text may follow the part.
    pub fn take_back(&mut self) {
        self.pending.clear();
        (self.mode, self.end, self.clause, self.space, self.quote) = (Mode::Text, None, None, None, None);
    }

    fn read(&mut self, c: char, parts: &mut Vec<Part>) {
        if let Mode::Block(block) = &mut self.mode {
            let over = block.read(c);
            let ends_before = over && block.ends_before_its_last();
            if !ends_before {
                self.pending.push(c);
            }
            if over || self.pending.len() >= BLOCK_MAX {
                self.cut(self.pending.len(), parts);
            }
            if over {
                (self.mode, self.begins_line) = (Mode::Text, false);
            }
            if ends_before {
                self.text(c, parts);
            }
            return;
        }
        match self.mode {
            Mode::Ticks { from, .. } if c == '`' && self.pending.len() - from < TAG_MAX => self.pending.push(c),
            Mode::Ticks { from, begins_line } => {
                let ticks = self.pending.len() - from;
                if begins_line && ticks >= 3 {
                    self.open(from, Block::fence(c), parts);
                    self.pending.push(c);
                } else {
                    self.mode = Mode::Code { ticks, run: 0 };
                    self.read(c, parts);
                }
            }
            Mode::Code { ticks, run } => match c {
                '`' => {
                    self.mode = Mode::Code { ticks, run: run + 1 };
                    self.keep(c, parts);
                }
                _ if run == ticks || c == '\n' => {
                    self.mode = Mode::Text;
                    self.text(c, parts);
                }
                _ => {
                    self.mode = Mode::Code { ticks, run: 0 };
                    self.keep(c, parts);
                }
            },
            Mode::Tag { from } => self.tag(from, c, parts),
            Mode::Brace { from } => match c {
                '"' => {
                    self.open(from, Block::json(), parts);
                    self.pending.push(c);
                }
                _ if c.is_whitespace() && self.pending.len() - from < TAG_MAX => self.pending.push(c),
                _ => {
                    self.mode = Mode::Text;
                    self.text(c, parts);
                }
            },
            Mode::Bracket { from } => {
                let read = self.pending.len() - from;
                if !CALLS[read..].starts_with(c) {
                    self.mode = Mode::Text;
                    return self.text(c, parts);
                }
                self.pending.push(c);
                if read + 1 == CALLS.len() {
                    self.open(from, Block::Calls(Json::default()), parts);
                }
            }
            Mode::Text | Mode::Block(_) => self.text(c, parts),
        }
    }

    fn text(&mut self, c: char, parts: &mut Vec<Part>) {
        if let Some(at) = self.clause.take()
            && c.is_whitespace()
        {
            self.cut(at, parts);
        }
        if let Some(end) = self.end
            && let Some(at) = self.ended(end, c)
        {
            self.cut(at, parts);
        }
        if c == '\n' {
            if !self.pending.trim().is_empty() {
                self.cut(self.pending.len(), parts);
            }
            self.pending.push(c);
            (self.begins_line, self.quote, self.end) = (true, None, None);
            return;
        }
        self.fit(parts);
        let begins_line = self.begins_line;
        self.begins_line &= c.is_whitespace();
        let from = self.pending.len();
        match c {
            '`' => self.mode = Mode::Ticks { from, begins_line },
            '<' => self.mode = Mode::Tag { from },
            '{' => self.mode = Mode::Brace { from },
            '[' => self.mode = Mode::Bracket { from },
            _ => self.mark(c),
        }
        self.keep(c, parts);
    }

    /// Notes the end of a sentence, a clause or a quotation at this character, which is not kept yet.
    fn mark(&mut self, c: char) {
        let (from, behind) = (self.pending.len(), self.pending.len() + c.len_utf8());
        if let Some(quote) = self.quote {
            if from - quote.from > QUOTE_MAX || quote.closes.contains(&c) {
                self.quote = None;
                return;
            }
        } else if let Some(closes) = self.opens(c) {
            self.quote = Some(Quote { from, closes });
            return;
        }
        if let Some(end) = &mut self.end {
            if !end.spaced && terminates(c) {
                (end.at, end.kind) = (behind, if end.kind == Mark::Other { Mark::Other } else { Mark::Ascii });
            }
            return;
        }
        if terminates(c) {
            let kind = match c {
                '.' => Mark::Stop,
                _ if c.is_ascii() || c == '…' => Mark::Ascii,
                _ => Mark::Other,
            };
            self.end = Some(End { at: behind, mark: from, kind, spaced: false });
        } else if self.is_first && self.quote.is_none() && is_clause(c) && self.pending.contains(char::is_alphanumeric)
        {
            self.clause = Some(behind);
        }
    }

    /// Returns the closing marks of a quotation that this character opens.
    fn opens(&self, c: char) -> Option<[char; 2]> {
        let inside_word = self.pending.ends_with(char::is_alphanumeric);
        let closes = match c {
            '"' => ['"', '"'],
            '“' => ['”', '”'],
            '„' => ['“', '”'],
            '«' => ['»', '»'],
            '»' => ['«', '«'],
            '「' => ['」', '」'],
            '『' => ['』', '』'],
            _ => return None,
        };
        (!inside_word || !matches!(c, '"' | '»')).then_some(closes)
    }

    /// Decides about a place that may end a sentence, by the next character. Returns the place if it does.
    fn ended(&mut self, end: End, c: char) -> Option<usize> {
        if !end.spaced {
            if terminates(c) {
                return None;
            }
            if is_closing(c) {
                let behind = self.pending.len() + c.len_utf8();
                self.end = Some(End { at: behind, ..end });
                return None;
            }
        }
        if c.is_whitespace() && c != '\n' {
            self.end = Some(End { spaced: true, ..end });
            return None;
        }
        self.end = None;
        let separate = end.spaced || c == '\n' || end.kind == Mark::Other;
        (separate && self.quote.is_none() && self.is_sentence(end, c)).then_some(end.at)
    }

    /// True if the text up to this place is a sentence before this character: by UAX 29, and by the rows of
    /// abbreviations.
    fn is_sentence(&self, end: End, c: char) -> bool {
        let mut from = end.mark.saturating_sub(WORD_MAX);
        while !self.pending.is_char_boundary(from) {
            from += 1;
        }
        let line = &self.pending[from..end.mark];
        let (before, word) = line.rsplit_once(char::is_whitespace).unwrap_or(("", line));
        if end.kind == Mark::Stop {
            let begins = self.pending[..end.mark].trim_start().len() == word.len();
            let before = before.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
            if abbreviations::continues(before, word, begins) {
                return false;
            }
        }
        // Marks of emphasis are no punctuation.
        let marks = self.pending[end.mark..end.at].chars().filter(|c| !matches!(c, '*' | '_' | '~'));
        let mut window: String = word.chars().chain(marks).collect();
        if end.spaced {
            window.push(' ');
        }
        let border = window.len();
        window.push(c);
        c == '\n' || window.split_sentence_bound_indices().any(|(at, _)| at == border)
    }

    /// Reads a character of what may be a tag.
    fn tag(&mut self, from: usize, c: char, parts: &mut Vec<Part>) {
        let length = self.pending.len() - from;
        let named = length > 1 || c.is_alphabetic() || matches!(c, '/' | '|' | '｜');
        if !named || length >= TAG_MAX || matches!(c, '\n' | '<') {
            self.mode = Mode::Text;
            return self.text(c, parts);
        }
        self.pending.push(c);
        if c != '>' {
            return;
        }
        self.mode = Mode::Text;
        match Tags::of(&self.pending[from..]) {
            Tags::Opens(block) => self.open(from, block, parts),
            Tags::Speak => {
                self.cut_before(from, parts);
                self.speaks = true;
            }
            Tags::Spoken => {
                self.cut(self.pending.len(), parts);
                self.speaks = false;
            }
            Tags::Other => {}
        }
    }

    /// Begins a silent block at this place.
    fn open(&mut self, from: usize, block: Block, parts: &mut Vec<Part>) {
        self.cut_before(from, parts);
        (self.mode, self.end, self.clause) = (Mode::Block(block), None, None);
    }

    /// Appends a character, and cuts a part that is too long.
    fn keep(&mut self, c: char, parts: &mut Vec<Part>) {
        self.pending.push(c);
        if c.is_whitespace() {
            self.space = Some(self.pending.len());
        }
        // A tag, a run of backticks and a brace refer to their place; each of them is short, or begins a block.
        if matches!(self.mode, Mode::Text | Mode::Code { .. }) {
            self.fit(parts);
        }
    }

    /// Cuts a part that is too long: at a space, else between graphemes.
    fn fit(&mut self, parts: &mut Vec<Part>) {
        if self.pending.len() >= PART_MAX {
            let last = || self.pending.grapheme_indices(true).next_back().map(|(at, _)| at).filter(|at| *at > 0);
            let at = self.space.filter(|at| *at > PART_MAX / 4).or_else(last).unwrap_or(self.pending.len());
            self.cut(at, parts);
        }
    }

    /// Ends the part before this place, if there is more than white space.
    fn cut_before(&mut self, from: usize, parts: &mut Vec<Part>) {
        if !self.pending[..from].trim().is_empty() {
            self.cut(from, parts);
        }
    }

    /// Returns the text up to this place as a part.
    fn cut(&mut self, at: usize, parts: &mut Vec<Part>) {
        let display: String = self.pending.drain(..at).collect();
        let behind = |place: usize| place.checked_sub(at).filter(|place| *place > 0);
        (self.space, self.clause, self.end) = (self.space.and_then(behind), None, None);
        if let Some(quote) = &mut self.quote {
            quote.from = quote.from.saturating_sub(at);
        }
        if display.is_empty() {
            return;
        }
        let part = if matches!(self.mode, Mode::Block(_)) {
            Part { display, speaks: self.speaks, ..Part::default() }
        } else {
            part(display, self.speaks, self.in_code)
        };
        self.in_code = matches!(self.mode, Mode::Code { .. });
        self.is_first &= part.speech.is_empty();
        parts.push(part);
    }
}

/// True for a mark that ends sentences, in any script.
fn terminates(c: char) -> bool {
    match c {
        '.' | '!' | '?' | '…' => true,
        _ if c.is_ascii() || c.is_alphanumeric() || c.is_whitespace() => false,
        _ => ["a", c.encode_utf8(&mut [0; 4]), "A"].concat().split_sentence_bounds().nth(1).is_some(),
    }
}

/// True for a mark that may follow the end of a sentence.
const fn is_closing(c: char) -> bool {
    matches!(c, ')' | ']' | '"' | '\'' | '”' | '“' | '’' | '»' | '«' | '」' | '』' | '）' | '*' | '_' | '~')
}

/// True for a mark that ends a clause.
const fn is_clause(c: char) -> bool {
    matches!(c, ',' | ';' | ':' | '，' | '、' | '；' | '：' | '،' | '؛' | '—')
}

#[cfg(test)]
mod tests;
