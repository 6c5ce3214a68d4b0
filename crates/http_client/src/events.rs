//! Reads streams of server-sent events of this program's own API: each event is one `data:` line.

/// Maximum length of a line, in bytes.
const LINE_MAX: usize = 1024 * 1024;

/// Splits a stream into the data of its events. Each byte is scanned once.
#[derive(Debug, Default)]
pub struct Events {
    /// An incomplete line.
    begun: Vec<u8>,
}

/// A line exceeds its bound of 1 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLong;

impl Events {
    /// Returns the data of the events that end in this piece. Comments and other fields are skipped.
    ///
    /// # Errors
    /// See [`LineTooLong`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        let mut data = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + part.len() > LINE_MAX {
                return Err(LineTooLong);
            }
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                data.extend(self.begun.strip_prefix(b"data:").map(|data| data.trim_ascii().to_vec()));
                self.begun.clear();
            }
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_costs_in_proportion_to_its_length_however_it_is_cut() {
        let pieces = |size: usize| vec![vec![b"x".to_vec(); size], vec!["data:\n".repeat(size).into_bytes()]];
        cost::grows_linearly(1024, pieces, |streams| {
            for pieces in &streams {
                let mut events = Events::default();
                assert!(pieces.iter().all(|piece| events.feed(piece).is_ok()));
            }
        });
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut events = Events::default();
        assert_eq!(events.feed(b"data:a\nda").unwrap(), [b"a".to_vec()]);
        assert_eq!(events.feed(b"ta: {\r\n").unwrap(), [b"{".to_vec()]);
        assert_eq!(events.feed(&vec![b'x'; LINE_MAX + 1]), Err(LineTooLong));
    }

    #[test]
    fn only_data_lines_are_events() {
        assert_eq!(Events::default().feed(b": keep-alive\n\nid: 1\ndata: 7\n").unwrap(), [b"7".to_vec()]);
    }
}
