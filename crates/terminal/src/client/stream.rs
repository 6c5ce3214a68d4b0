//! Parses the event stream of a session.

use crate::wire::Event;

/// Maximum length of a line, in bytes.
const LINE_MAX: usize = 1024 * 1024;

/// Splits a stream into lines; each byte is scanned once.
#[derive(Default)]
pub(super) struct Lines {
    /// An incomplete line.
    begun: Vec<u8>,
}

impl Lines {
    /// Returns the lines that end in this piece.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut ended = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + part.len() > LINE_MAX {
                return Err("the service sent a line that is too long".to_owned());
            }
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                ended.push(std::mem::take(&mut self.begun));
            }
        }
        Ok(ended)
    }
}

/// Parses a line `data: {..}`; other lines have no event.
pub(super) fn parse(line: &[u8]) -> Option<Event> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Update;

    #[test]
    fn a_stream_costs_in_proportion_to_its_length_however_it_is_cut() {
        let pieces = |size: usize| vec![vec![b"x".to_vec(); size], vec!["x\n".repeat(size).into_bytes()]];
        cost::grows_linearly(1024, pieces, |streams| {
            for pieces in &streams {
                let mut lines = Lines::default();
                assert!(pieces.iter().all(|piece| lines.feed(piece).is_ok()));
            }
        });
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"a\nb").unwrap(), [b"a\n".to_vec()]);
        assert_eq!(lines.feed(b"c\n").unwrap(), [b"bc\n".to_vec()]);
        assert!(lines.feed(&vec![b'x'; LINE_MAX + 1]).is_err());
    }

    #[test]
    fn only_data_lines_are_events() {
        assert_eq!(parse(b": keep-alive\n"), None);
        assert_eq!(parse(b"data: nonsense\n"), None);
        let event = parse(b"data: {\"number\":3,\"turn\":\"9\",\"event\":\"done\"}\n").unwrap();
        assert_eq!(event, Event { number: 3, turn: "9".to_owned(), update: Update::DONE });
    }
}
