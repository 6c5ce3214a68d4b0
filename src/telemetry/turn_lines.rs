//! The last lines of the log, for pages that tell those of a turn. The writer's thread puts them there, so that they cost a turn
//! nothing. They are as all lines are: without secrets, and without content unless the log has it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ports::TurnLog;

/// Bytes that are kept, the newest.
const BYTES: usize = 512 * 1024;
/// Bytes of one line that are told; the rest is cut off.
const LINE_BYTES: usize = 2 * 1024;
/// The lines of one turn that are told, the newest.
const OF_A_TURN: usize = 100;

/// The last lines. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TurnLines(Arc<Mutex<VecDeque<u8>>>);

impl TurnLines {
    /// Adds whole lines, and drops the oldest bytes when there are too many.
    pub(super) fn push(&self, lines: &[u8]) {
        let lines = &lines[lines.len().saturating_sub(BYTES)..];
        let mut kept = self.0.lock();
        let over = (kept.len() + lines.len()).saturating_sub(BYTES);
        kept.drain(..over);
        kept.extend(lines);
    }

    fn all(&self) -> Vec<u8> {
        let kept = self.0.lock();
        let (first, second) = kept.as_slices();
        [first, second].concat()
    }
}

impl TurnLog for TurnLines {
    fn of(&self, turn: &str) -> Vec<String> {
        let (json, plain) = (format!(",\"turn\":\"{turn}\""), format!(" turn={turn}"));
        let names = |line: &str| {
            line.contains(&json)
                || line
                    .match_indices(&plain)
                    .any(|(at, _)| matches!(line.as_bytes().get(at + plain.len()), None | Some(b' ')))
        };
        let kept = self.all();
        let text = String::from_utf8_lossy(&kept);
        // The first line may be the end of one.
        let whole = if kept.len() == BYTES { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let mut found: Vec<String> =
            whole.lines().rev().filter(|line| names(line)).take(OF_A_TURN).map(shown).collect();
        found.reverse();
        found
    }

    fn forget(&self) {
        *self.0.lock() = VecDeque::new();
    }
}

/// A line as it is told: bounded, and without the colours of a terminal.
fn shown(line: &str) -> String {
    let mut out = String::with_capacity(line.len().min(LINE_BYTES));
    for (n, part) in line[..line.floor_char_boundary(LINE_BYTES)].split("\x1b[").enumerate() {
        out.push_str(if n == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_turn_in_either_form_and_bounded() {
        let lines = TurnLines::default();
        for number in 0..4_000 {
            let turn = if number % 2 == 0 { "discord:1" } else { "discord:12" };
            lines.push(format!("{{\"n\":{number},\"turn\":\"{turn}\",\"text\":\"{}\"}}\n", "ä".repeat(100)).as_bytes());
            lines.push(format!("10:00 \x1b[32m INFO\x1b[0m {number} turn={turn} ms=1\n").as_bytes());
        }
        lines.push(b"{\"text\":\",\\\"turn\\\":\\\"discord:1\\\"\"}\n");
        lines.push(format!("last turn=discord:1 {}\n", "ä".repeat(5_000)).as_bytes());
        let told = lines.of("discord:1");
        assert_eq!((told.len(), lines.0.lock().len()), (OF_A_TURN, BYTES));
        assert!(told[99].starts_with("last ") && told[99].len() <= LINE_BYTES, "{}", told[99].len());
        assert_eq!(told[98], "10:00  INFO 3998 turn=discord:1 ms=1");
        assert!(told[97].starts_with("{\"n\":3998,"), "{}", told[97]);
        assert!(lines.of("discord:2").is_empty());
        lines.forget();
        assert!(lines.of("discord:1").is_empty());
    }

    #[test]
    fn what_is_more_than_all_that_is_kept_leaves_its_end() {
        let lines = TurnLines::default();
        lines.push(&b"x turn=a\n".repeat(BYTES / 4));
        let kept = lines.0.lock().len();
        assert_eq!((kept, lines.of("a").len()), (BYTES, OF_A_TURN));
    }
}
