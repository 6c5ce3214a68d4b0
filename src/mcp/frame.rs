//! Messages off a wire, piece by piece, without ever holding more than the bound of one: of a larger message the head and the
//! tail are kept, which is enough to tell whose answer it is and to show how it begins and ends.

/// The largest message that is read whole, in bytes.
pub(super) const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a larger message that are kept of its head, and of its tail.
pub(super) const EDGE_BYTES: usize = 64 * 1024;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// All of it.
    Whole(Vec<u8>),
    /// More than is read.
    Oversized(Oversized),
}

/// What is kept of a message that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Oversized {
    /// Its first bytes.
    pub head: Vec<u8>,
    /// Its last bytes.
    pub tail: Vec<u8>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Gathers the pieces of one message after the other.
#[derive(Debug, Default)]
pub(super) struct Framer {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

impl Framer {
    /// Takes in the next piece of the message.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.tail.is_empty() && self.head.len() + piece.len() <= MESSAGE_BYTES {
            self.head.extend_from_slice(piece);
            return;
        }
        if self.tail.is_empty() {
            let rest = self.head.split_off(EDGE_BYTES.min(self.head.len()));
            self.tail = rest[rest.len().saturating_sub(EDGE_BYTES)..].to_vec();
            self.head.shrink_to_fit();
        }
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(EDGE_BYTES)..]);
        // Moved in large steps, so that many small pieces cost no more than linear time.
        if self.tail.len() > 4 * EDGE_BYTES {
            self.tail.drain(..self.tail.len() - EDGE_BYTES);
        }
    }

    /// The message that was taken in.
    pub(super) fn finish(&mut self) -> Frame {
        let Self { head, mut tail, bytes } = std::mem::take(self);
        if tail.is_empty() {
            return Frame::Whole(head);
        }
        tail.drain(..tail.len().saturating_sub(EDGE_BYTES));
        Frame::Oversized(Oversized { head, tail, bytes })
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    framer: Framer,
}

impl Lines {
    /// Takes in the next bytes and hands each line that they end to `each`, without its end; empty lines are left out.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Frame)) {
        self.push_all(bytes, |line| {
            if line != Frame::Whole(Vec::new()) {
                each(line);
            }
        });
    }

    /// The same with empty lines.
    pub(super) fn push_all(&mut self, bytes: &[u8], mut each: impl FnMut(Frame)) {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            self.framer.push(line);
            each(self.framer.finish());
        }
        if !rest.is_empty() {
            self.framer.push(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost;

    fn lines(pieces: &[&[u8]]) -> Vec<Frame> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, |frame| found.push(frame));
        }
        found
    }

    #[test]
    fn lines_are_found_wherever_they_are_cut() {
        let whole = |text: &str| Frame::Whole(text.as_bytes().to_vec());
        assert_eq!(lines(&[b"one\ntwo\n\nth", b"ree", b"\nfour"]), [whole("one"), whole("two"), whole("three")]);
    }

    #[test]
    fn of_a_giant_message_head_and_tail_are_kept() {
        let mut framer = Framer::default();
        framer.push(b"{\"id\":7,");
        for _ in 0..40 {
            framer.push(&vec![b'x'; 1024 * 1024]);
        }
        framer.push(b"the end}");
        assert!(framer.head.capacity() <= 2 * EDGE_BYTES && framer.tail.capacity() <= 16 * EDGE_BYTES);
        let Frame::Oversized(Oversized { head, tail, bytes }) = framer.finish() else { panic!("it is not whole") };
        assert_eq!(bytes, 40 * 1024 * 1024 + 16);
        assert!(head.len() <= EDGE_BYTES && head.starts_with(b"{\"id\":7,"));
        assert!(tail.len() == EDGE_BYTES && tail.ends_with(b"the end}"));
        assert_eq!(framer.finish(), Frame::Whole(Vec::new()));
    }

    #[test]
    fn the_bound_itself_is_whole() {
        let mut framer = Framer::default();
        framer.push(&vec![b'x'; MESSAGE_BYTES]);
        assert!(matches!(framer.finish(), Frame::Whole(whole) if whole.len() == MESSAGE_BYTES));
        framer.push(&vec![b'x'; MESSAGE_BYTES + 1]);
        assert!(matches!(framer.finish(), Frame::Oversized(_)));
    }

    #[test]
    fn lines_cost_no_more_than_their_length_however_small_their_pieces_are() {
        cost::grows_linearly(
            512 * 1024,
            |size| vec![b'x'; size],
            |bytes| {
                // Larger than what is kept of one message, in pieces as a slow server sends them.
                let mut framer = Framer { tail: vec![b'x'], ..Framer::default() };
                bytes.chunks(16).for_each(|piece| framer.push(piece));
                drop(framer.finish());
            },
        );
    }

    proptest! {
        #[test]
        fn no_cut_changes_the_lines(text in "[a-c\\n]{0,60}", cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let whole = lines(&[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([text.len()]);
            let mut from = 0;
            let pieces: Vec<&[u8]> = ends.map(|end| &text.as_bytes()[std::mem::replace(&mut from, end)..end]).collect();
            prop_assert_eq!(lines(&pieces), whole);
        }
    }
}
