//! Writes text with the white space that its markup implies.

/// Maximum length of the text, in bytes: as much as is kept of a result.
pub(super) const TEXT_BYTES: usize = 1024 * 1024;

/// Maximum bytes between two words.
const AROUND_BYTES: usize = 8;

/// A text that grows up to its bound.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    /// Line breaks before the next word.
    lines: usize,
    /// True if a space comes before the next word.
    blank: bool,
    /// The mark before the next word, at the beginning of its line.
    mark: String,
    /// The number of open elements that preserve white space.
    preformatted: u32,
    /// True if text was written since the last link.
    fresh: bool,
    full: bool,
}

impl Writer {
    /// Ensures at least this many line breaks before the following text.
    pub(super) fn lines(&mut self, least: usize) {
        self.lines = self.lines.max(least);
        self.mark.clear();
    }

    /// Like [`lines`](Self::lines), and the following text begins with a mark.
    pub(super) fn begin(&mut self, least: usize, mark: &str) {
        self.lines(least);
        mark.clone_into(&mut self.mark);
    }

    /// Begins the next cell of a row.
    pub(super) fn cell(&mut self) {
        if self.lines == 0 && !self.text.is_empty() {
            "| ".clone_into(&mut self.mark);
            self.blank = true;
        }
    }

    pub(super) fn open_preformatted(&mut self) {
        self.lines(2);
        self.preformatted += 1;
    }

    pub(super) fn close_preformatted(&mut self) {
        self.lines(2);
        self.preformatted = self.preformatted.saturating_sub(1);
    }

    /// Writes words; white space between them is collapsed.
    pub(super) fn words(&mut self, words: &str) {
        if self.preformatted > 0 {
            self.as_it_is(words);
            return;
        }
        self.blank |= words.starts_with(char::is_whitespace);
        for word in words.split_whitespace() {
            if !self.has_room(word) {
                return;
            }
            self.next();
            self.push(word);
            self.blank = true;
        }
        if !words.is_empty() {
            self.blank = words.ends_with(char::is_whitespace);
        }
    }

    /// Writes the target of the link before it.
    pub(super) fn link(&mut self, target: &str) {
        if self.has_room(target) && std::mem::take(&mut self.fresh) && self.lines == 0 && !self.text.ends_with(target) {
            self.text.push_str(" <");
            self.text.push_str(target);
            self.text.push('>');
        }
    }

    /// True if no more text is accepted.
    pub(super) const fn is_full(&self) -> bool {
        self.full
    }

    /// True if the words and the white space before them fit. Once they do not, all further text is dropped.
    fn has_room(&mut self, words: &str) -> bool {
        self.full |= self.text.len() + words.len() + self.mark.len() + AROUND_BYTES > TEXT_BYTES;
        !self.full
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn as_it_is(&mut self, words: &str) {
        if words.is_empty() || !self.has_room(words) {
            return;
        }
        self.next();
        self.push(words);
        self.blank = false;
    }

    /// Writes the white space before a word.
    fn next(&mut self) {
        if self.text.is_empty() {
            // A text begins with a word.
        } else if self.lines > 0 {
            self.text.extend(std::iter::repeat_n('\n', self.lines));
        } else if self.blank {
            self.text.push(' ');
        }
        (self.lines, self.blank) = (0, false);
        self.text.push_str(&self.mark);
        self.mark.clear();
    }

    fn push(&mut self, words: &str) {
        self.text.extend(words.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')));
        self.fresh = true;
    }
}
