//! The bounded text of a document.

use std::fmt;

/// A text that takes a limited number of Unicode scalar values.
#[derive(Debug)]
pub(crate) struct Output {
    text: String,
    room: usize,
    cut: bool,
}

impl Output {
    pub(crate) fn new(most: usize) -> Self {
        Self { text: String::new(), room: most, cut: false }
    }

    /// True if no more text is taken, so that the rest of the document need not be read.
    pub(crate) fn is_full(&self) -> bool {
        self.cut
    }

    /// Returns the number of Unicode scalar values that are still taken.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// States that the document has more text.
    pub(crate) fn cut(&mut self) {
        self.cut = true;
    }

    /// Adds text up to the limit.
    pub(crate) fn push(&mut self, text: &str) {
        if self.cut || text.is_empty() {
            return;
        }
        match text.char_indices().nth(self.room) {
            Some((end, _)) => {
                self.text.push_str(&text[..end]);
                (self.room, self.cut) = (0, true);
            }
            None => {
                self.text.push_str(text);
                self.room -= text.chars().count();
            }
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.push("\n");
        }
        self.push(line);
    }

    /// Adds a heading, after an empty line.
    pub(crate) fn heading(&mut self, level: usize, title: &str) {
        if !self.text.is_empty() {
            self.push("\n");
        }
        self.line(&format!("{} {title}", "#".repeat(level.clamp(1, 6))));
    }

    /// Adds a row of a table. The first row of a table is its head.
    pub(crate) fn row(&mut self, cells: &[String], is_first: bool) {
        let cell = |text: &String| {
            let words: Vec<&str> = text.split_whitespace().collect();
            words.join(" ").replace('|', "\\|")
        };
        let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        if is_first && !self.text.is_empty() {
            self.push("\n");
        }
        self.line(&row(cells.iter().map(cell).collect()));
        if is_first {
            self.line(&row(vec!["---".to_owned(); cells.len()]));
        }
    }

    /// Returns the text without blanks around it, and true if the document has more.
    pub(crate) fn done(self) -> (String, bool) {
        (self.text.trim().to_owned(), self.cut)
    }
}

/// A writer that fails once it has a number of bytes, so that its caller stops.
#[derive(Debug)]
pub(crate) struct Limited {
    pub(crate) text: String,
    most: usize,
}

impl Limited {
    pub(crate) fn new(most: usize) -> Self {
        Self { text: String::new(), most }
    }
}

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}
