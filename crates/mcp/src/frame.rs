//! Bounded reading of messages in pieces. Of an oversized message only head and tail are kept, which is enough to
//! identify its request and to show its beginning and end. A message without room in the memory budget is truncated in
//! the same way.

use std::ops::Deref;

use tokio::time::{Instant, timeout_at};

use super::room::{FREE_BYTES, Held, Room};

/// The largest message read whole, in bytes.
pub(super) const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// The bytes kept of the head of an oversized message, and of its tail.
pub(super) const EDGE_BYTES: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Whole(Message),
    /// A message that exceeds the bound.
    Oversized(Oversized),
}

/// A whole message and its reserved memory.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub bytes: Vec<u8>,
    held: Option<Held>,
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, held: None }
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Message {}

/// The kept parts of an oversized message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Oversized {
    /// Its first bytes.
    pub head: Vec<u8>,
    /// Its last bytes.
    pub tail: Vec<u8>,
    /// Its length in bytes.
    pub bytes: u64,
    /// True if the message was not too large itself, but the memory budget was used up.
    pub crowded: bool,
}

/// Assembles messages from pieces, one after another.
#[derive(Debug, Default)]
pub(super) struct Framer {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
    /// True if only head and tail are kept from here on.
    cut: bool,
    crowded: bool,
    held: Option<Held>,
}

impl Framer {
    /// Continues from a whole message, without its first `skip` bytes.
    pub(super) fn begin(&mut self, message: Message, skip: usize) {
        let Message { mut bytes, held } = message;
        bytes.drain(..skip.min(bytes.len()));
        *self = Self { bytes: bytes.len() as u64, head: bytes, held, ..Self::default() };
    }

    /// Reserves memory for the next piece. Without memory, only head and tail are kept.
    pub(super) async fn prepare(&mut self, piece: usize, room: &Room) {
        let needed = self.head.len() + piece;
        if self.cut || needed <= FREE_BYTES || needed > MESSAGE_BYTES {
            return;
        }
        let has = self.held.as_ref().map_or(0, Held::bytes);
        if self.held.as_ref().is_some_and(|held| held.until <= Instant::now()) {
            return self.crowd();
        }
        if needed <= has {
            return;
        }
        // At most twice the bytes that arrived.
        let wanted = needed.next_power_of_two();
        match room.take(wanted - has).await {
            None => self.crowd(),
            Some(more) => {
                match &mut self.held {
                    Some(held) => held.add(more),
                    None => self.held = Some(more),
                }
                self.head.reserve_exact(wanted - self.head.len());
            }
        }
    }

    /// Waits for the next piece; releases the memory of the message if it was held for too long.
    pub(super) async fn next<T: Future>(&mut self, read: T) -> T::Output {
        let mut read = std::pin::pin!(read);
        if let Some(held) = &self.held {
            match timeout_at(held.until, &mut read).await {
                Ok(came) => return came,
                Err(_) => self.crowd(),
            }
        }
        read.await
    }

    fn crowd(&mut self) {
        self.crowded = true;
        self.cut_down();
    }

    /// Reduces the message to head and tail.
    fn cut_down(&mut self) {
        self.cut = true;
        self.held = None;
        let rest = self.head.split_off(EDGE_BYTES.min(self.head.len()));
        self.tail = rest[rest.len().saturating_sub(EDGE_BYTES)..].to_vec();
        self.head.shrink_to_fit();
    }

    /// Appends the next piece of the message.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if !self.cut && self.head.len() + piece.len() <= MESSAGE_BYTES {
            self.head.extend_from_slice(piece);
            return;
        }
        if !self.cut {
            self.cut_down();
        }
        // The head of a message that was truncated before its first piece.
        let room = EDGE_BYTES.saturating_sub(self.head.len()).min(piece.len());
        let (head, piece) = piece.split_at(if self.tail.is_empty() { room } else { 0 });
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(EDGE_BYTES)..]);
        // Moved in large steps, so that many small pieces take linear time.
        if self.tail.len() > 4 * EDGE_BYTES {
            self.tail.drain(..self.tail.len() - EDGE_BYTES);
        }
    }

    pub(super) fn finish(&mut self) -> Frame {
        let Self { head, mut tail, bytes, cut, crowded, held } = std::mem::take(self);
        if !cut {
            return Frame::Whole(Message { bytes: head, held });
        }
        tail.drain(..tail.len().saturating_sub(EDGE_BYTES));
        Frame::Oversized(Oversized { head, tail, bytes, crowded })
    }
}

/// Splits a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub framer: Framer,
}

impl Lines {
    /// Processes the next bytes. Passes each completed line, without its line break and including empty ones, to
    /// `each`.
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

    fn lines(pieces: &[&[u8]]) -> Vec<Frame> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push_all(piece, |frame| found.push(frame));
        }
        found
    }

    #[test]
    fn lines_are_found_wherever_they_are_cut() {
        let whole = |text: &str| Frame::Whole(text.as_bytes().to_vec().into());
        assert_eq!(
            lines(&[b"one\ntwo\n\nth", b"ree", b"\nfour"]),
            [whole("one"), whole("two"), whole(""), whole("three")]
        );
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
        let Frame::Oversized(Oversized { head, tail, bytes, crowded: false }) = framer.finish() else {
            panic!("it is not whole")
        };
        assert_eq!(bytes, 40 * 1024 * 1024 + 16);
        assert!(head.len() <= EDGE_BYTES && head.starts_with(b"{\"id\":7,"));
        assert!(tail.len() == EDGE_BYTES && tail.ends_with(b"the end}"));
        assert_eq!(framer.finish(), Frame::Whole(Message::default()));
    }

    #[test]
    fn the_bound_itself_is_whole() {
        let mut framer = Framer::default();
        framer.push(&vec![b'x'; MESSAGE_BYTES]);
        assert!(matches!(framer.finish(), Frame::Whole(whole) if whole.len() == MESSAGE_BYTES));
        framer.push(&vec![b'x'; MESSAGE_BYTES + 1]);
        assert!(matches!(framer.finish(), Frame::Oversized(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_without_room_is_passed_over_and_the_next_one_has_it_again() {
        let room = Room::default();
        let piece = vec![b'x'; 64 * 1024];
        let mut framers: Vec<Framer> = Vec::new();
        for _ in 0..3 {
            let mut framer = Framer::default();
            for _ in 0..112 {
                framer.prepare(piece.len(), &room).await;
                framer.push(&piece);
            }
            framers.push(framer);
        }
        let mut last = framers.pop().unwrap();
        let Frame::Oversized(Oversized { head, tail, bytes, crowded: true }) = last.finish() else { panic!("no room") };
        assert_eq!((head.len(), tail.len(), bytes), (EDGE_BYTES, EDGE_BYTES, 7 * 1024 * 1024));
        let whole = framers.pop().unwrap().finish();
        assert!(matches!(&whole, Frame::Whole(whole) if whole.len() == 7 * 1024 * 1024));
        last.prepare(1024 * 1024, &room).await;
        assert!(last.cut, "a message keeps its memory until it is read");
        drop((whole, framers));
        last.finish();
        last.prepare(1024 * 1024, &room).await;
        last.push(&vec![b'y'; 1024 * 1024]);
        // A message that never completes releases its memory.
        let never = last.next(std::future::pending::<()>());
        assert!(tokio::time::timeout(std::time::Duration::from_secs(70), never).await.is_err());
        assert!(last.crowded && last.held.is_none());
    }

    #[test]
    fn lines_cost_no_more_than_their_length_however_small_their_pieces_are() {
        cost::grows_linearly(
            512 * 1024,
            |size| vec![b'x'; size],
            |bytes| {
                // Larger than the kept part, in the small pieces of a slow server.
                let mut framer = Framer { cut: true, ..Framer::default() };
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
