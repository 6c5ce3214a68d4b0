//! The last lines of the log that belong to a turn, for the pages. They are made as all lines are: without secrets, and without
//! content unless the log has it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// The lines that are kept, the newest.
const LINES: usize = 2_000;
/// Bytes of one line; the rest is cut off.
const LINE_BYTES: usize = 1_024;
/// The lines of one turn that are told, the newest.
const OF_A_TURN: usize = 100;

/// The ring of lines. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct TurnLines(Arc<Mutex<VecDeque<Line>>>);

#[derive(Debug)]
struct Line {
    turn: Box<str>,
    text: Box<str>,
}

impl TurnLines {
    /// Adds a line, and drops the oldest one when there are too many.
    pub(super) fn push(&self, turn: &str, line: &str) {
        let line = line.trim_end();
        let text = line[..line.floor_char_boundary(LINE_BYTES)].into();
        let mut lines = self.0.lock();
        if lines.len() >= LINES {
            lines.pop_front();
        }
        lines.push_back(Line { turn: turn.into(), text });
    }

    /// The lines of this turn, the oldest first.
    #[must_use]
    pub fn of(&self, turn: &str) -> Vec<String> {
        let lines = self.0.lock();
        let mut found: Vec<String> =
            lines.iter().rev().filter(|line| &*line.turn == turn).take(OF_A_TURN).map(|line| line.text.to_string()).collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_turn_and_bounded() {
        let lines = TurnLines::default();
        for number in 0..3_000 {
            lines.push(if number % 2 == 0 { "one" } else { "two" }, &format!("{number} {}\n", "ä".repeat(1_000)));
        }
        let told = lines.of("one");
        assert_eq!((told.len(), lines.0.lock().len()), (OF_A_TURN, LINES));
        assert!(told[99].starts_with("2998 ") && told[99].len() <= LINE_BYTES, "{}", told[99].len());
        assert!(lines.of("three").is_empty());
    }
}
