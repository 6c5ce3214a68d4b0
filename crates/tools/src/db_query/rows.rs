//! Collects rows within bounds, and formats them.

use std::fmt::Write as _;

/// Maximum length of a cell, in characters.
const CELL_CHARS: usize = 500;
/// Maximum size of all cells, in bytes.
pub(super) const TABLE_BYTES: usize = 256 * 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    pub columns: Vec<String>,
    taken: Vec<Vec<Option<String>>>,
    bytes: usize,
    most: usize,
    cut: bool,
    /// The number of rows that were changed; `None` for a statement that only reads.
    pub changed: Option<u64>,
}

impl Rows {
    /// Creates an empty result that accepts at most this many rows.
    pub(super) fn of_at_most(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Adds a row. Returns false if there is no room for it; the caller then stops reading.
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

    /// Formats a Markdown table, with a line about rows that are left out.
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

fn shortened(cell: &str) -> String {
    let mut line: String = cell.chars().take(CELL_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cell.chars().nth(CELL_CHARS).is_some() {
        line.push('\u{2026}');
    }
    line
}
