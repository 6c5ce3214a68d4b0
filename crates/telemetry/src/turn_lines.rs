//! The recent log lines, for pages that show those of a turn. The writer's thread stores them, so they cost a turn
//! nothing. They are redacted and without content, like all lines.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use domain::ids::Timestamp;
use ports::TurnLog;

/// The bytes kept.
const BYTES: usize = 512 * 1024;
/// The bytes shown of one line; the rest is cut off.
const LINE_BYTES: usize = 2 * 1024;
/// The most lines shown of one turn, the newest.
const OF_A_TURN: usize = 100;

/// The recent lines. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct TurnLines(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// The time and the bytes of each write, in order.
    batches: VecDeque<(Timestamp, usize)>,
    /// True if the first line may be truncated at its start.
    cut: bool,
}

impl Kept {
    fn drop_first(&mut self, mut bytes: usize) {
        self.bytes.drain(..bytes);
        while let Some((_, batch)) = self.batches.front_mut().filter(|_| bytes > 0) {
            let part = bytes.min(*batch);
            (*batch, bytes) = (*batch - part, bytes - part);
            self.cut = *batch > 0;
            if *batch == 0 {
                self.batches.pop_front();
            }
        }
    }
}

impl TurnLines {
    /// Adds whole lines and drops the oldest bytes beyond the bound.
    pub(super) fn push(&self, lines: &[u8], at: Timestamp) {
        if lines.is_empty() {
            return;
        }
        let mut kept = self.0.lock();
        if lines.len() > BYTES {
            let lines = &lines[lines.len() - BYTES..];
            *kept = Kept { bytes: lines.iter().copied().collect(), batches: [(at, BYTES)].into(), cut: true };
            return;
        }
        let over = (kept.bytes.len() + lines.len()).saturating_sub(BYTES);
        kept.drop_first(over);
        kept.bytes.extend(lines);
        kept.batches.push_back((at, lines.len()));
    }

    /// Returns all lines, and true if the first one may be truncated at its start.
    fn all(&self) -> (Vec<u8>, bool) {
        let kept = self.0.lock();
        let (first, second) = kept.bytes.as_slices();
        ([first, second].concat(), kept.cut)
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
        let (kept, cut) = self.all();
        let text = String::from_utf8_lossy(&kept);
        let whole = if cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let mut found: Vec<String> =
            whole.lines().rev().filter(|line| names(line)).take(OF_A_TURN).map(shown).collect();
        found.reverse();
        found
    }

    fn forget(&self) {
        *self.0.lock() = Kept::default();
    }

    fn forget_before(&self, moment: Timestamp) {
        let mut kept = self.0.lock();
        let old: usize = kept.batches.iter().take_while(|(at, _)| *at < moment).map(|(_, bytes)| bytes).sum();
        kept.drop_first(old);
    }
}

/// Returns a bounded line without terminal colours.
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
            lines.push(
                format!("{{\"n\":{number},\"turn\":\"{turn}\",\"text\":\"{}\"}}\n", "ä".repeat(100)).as_bytes(),
                Timestamp(0),
            );
            lines.push(format!("10:00 \x1b[32m INFO\x1b[0m {number} turn={turn} ms=1\n").as_bytes(), Timestamp(0));
        }
        lines.push(b"{\"text\":\",\\\"turn\\\":\\\"discord:1\\\"\"}\n", Timestamp(0));
        lines.push(format!("last turn=discord:1 {}\n", "ä".repeat(5_000)).as_bytes(), Timestamp(0));
        let told = lines.of("discord:1");
        assert_eq!((told.len(), lines.0.lock().bytes.len()), (OF_A_TURN, BYTES));
        assert!(told[99].starts_with("last ") && told[99].len() <= LINE_BYTES, "{}", told[99].len());
        assert_eq!(told[98], "10:00  INFO 3998 turn=discord:1 ms=1");
        assert!(told[97].starts_with("{\"n\":3998,"), "{}", told[97]);
        assert!(lines.of("discord:2").is_empty());
        lines.forget();
        assert!(lines.of("discord:1").is_empty());
    }

    #[test]
    fn what_is_too_old_is_dropped_as_whole_batches() {
        let lines = TurnLines::default();
        for at in [1_000, 2_000, 3_000] {
            lines.push(format!("{at} turn=a\n").as_bytes(), Timestamp(at));
        }
        lines.forget_before(Timestamp(3_000));
        assert_eq!(lines.of("a"), ["3000 turn=a"]);
        lines.forget_before(Timestamp(4_000));
        assert!(lines.of("a").is_empty() && lines.0.lock().batches.is_empty());
    }

    #[test]
    fn what_is_more_than_all_that_is_kept_leaves_its_end() {
        let lines = TurnLines::default();
        lines.push(&b"x turn=a\n".repeat(BYTES / 4), Timestamp(0));
        let kept = lines.0.lock().bytes.len();
        assert_eq!((kept, lines.of("a").len()), (BYTES, OF_A_TURN));
    }
}
