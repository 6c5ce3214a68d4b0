//! Rows as they come, within bounds, and how they are shown.

use std::fmt::Write as _;

/// The longest cell that is shown, in characters.
const CELL_CHARS: usize = 500;
/// The most bytes of all cells together.
pub(super) const TABLE_BYTES: usize = 256 * 1024;

/// What a statement gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    taken: Vec<Vec<Option<String>>>,
    bytes: usize,
    most: usize,
    cut: bool,
    /// How many rows were changed; none for what only reads.
    pub changed: Option<u64>,
}

impl Rows {
    /// Takes at most so many rows.
    pub(super) fn of_at_most(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Takes a row. False when there is no room for it: no more are wanted then.
    pub(super) fn push(&mut self, cells: impl Iterator<Item = Option<String>>) -> bool {
        let row: Vec<Option<String>> = cells.map(|cell| cell.map(|cell| shortened(&cell))).collect();
        let bytes: usize = row.iter().flatten().map(String::len).sum();
        if self.taken.len() == self.most || self.bytes + bytes > TABLE_BYTES {
            self.cut = true;
            return false;
        }
        self.bytes += bytes;
        self.taken.push(row);
        true
    }

    /// As a table in Markdown, with a line about what is missing.
    pub(super) fn shown(&self) -> String {
        if let Some(changed) = self.changed {
            return format!("Rows changed: {changed}.");
        }
        if self.taken.is_empty() {
            return "No rows.".to_owned();
        }
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            for cell in cells {
                // Writing into a string cannot fail.
                let _ = write!(text, "| {} ", cell.replace('|', "\\|"));
            }
            text.push_str("|\n");
        };
        line(&mut self.columns.iter().map(String::as_str));
        line(&mut self.columns.iter().map(|_| "---"));
        for row in &self.taken {
            line(&mut row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")));
        }
        let _ = match (self.cut, self.taken.len()) {
            (true, many) => write!(text, "\nOnly the first {many} rows."),
            (false, 1) => write!(text, "\n1 row."),
            (false, many) => write!(text, "\n{many} rows."),
        };
        text
    }
}

/// A cell as one line.
fn shortened(cell: &str) -> String {
    let mut line: String = cell.chars().take(CELL_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cell.chars().nth(CELL_CHARS).is_some() {
        line.push('\u{2026}');
    }
    line
}
