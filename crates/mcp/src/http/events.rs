//! Bounded reading of server-sent events.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Frame, Framer};
use crate::exchange::Exchanges;
use crate::frame::{Lines, Message};

/// The longest kept name or id of an event, in bytes.
const FIELD_BYTES: usize = 1_024;

#[derive(Debug, Default)]
pub struct Event {
    /// Its name; `None` for a message.
    pub name: Option<String>,
    pub data: Option<Frame>,
    pub id: Option<String>,
    /// The server's reconnection time, in milliseconds.
    pub retry: Option<u64>,
}

pub struct Events {
    response: reqwest::Response,
    lines: Lines,
    reader: Reader,
    exchanges: Arc<Exchanges>,
}

impl Events {
    pub fn new(response: reqwest::Response, exchanges: Arc<Exchanges>) -> Self {
        Self { response, lines: Lines::default(), reader: Reader::default(), exchanges }
    }

    /// Returns the next event. Returns `None` at the end of the stream, or if the server sent too much and is
    /// disconnected.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.reader.ready.pop_front() {
                return Some(event);
            }
            // A line or the lines of one event: only one of the two is large.
            let read = self.reader.data.next(self.lines.framer.next(self.response.chunk()));
            let piece = read.await.ok().flatten()?;
            self.lines.framer.prepare(piece.len(), &self.exchanges.room).await;
            self.reader.data.prepare(piece.len(), &self.exchanges.room).await;
            let reader = &mut self.reader;
            self.lines.push_all(&piece, |line| reader.line(line));
            let (others, data) = (std::mem::take(&mut reader.others), std::mem::take(&mut reader.data_lines));
            // An answer may have any number of lines.
            let lines = if self.exchanges.is_asking() { others } else { others + data };
            self.exchanges.received(piece.len(), lines);
            if self.exchanges.inquiries.is_shut() {
                return None;
            }
        }
    }
}

#[derive(Default)]
struct Reader {
    event: Event,
    data: Framer,
    has_data: bool,
    ready: VecDeque<Event>,
    /// Lines without data: comments, blank lines, other fields.
    others: usize,
    data_lines: usize,
}

impl Reader {
    fn line(&mut self, line: Frame) {
        match line {
            Frame::Whole(mut line) => {
                if line.last() == Some(&b'\r') {
                    line.bytes.pop();
                }
                if line.starts_with(b"data") {
                    self.data_lines += 1;
                } else {
                    self.others += 1;
                }
                if line.is_empty() {
                    self.end();
                } else {
                    self.field(line);
                }
            }
            Frame::Oversized(mut line) => {
                // Only data lines are that long.
                line.head = line.head.strip_prefix(b"data:").map(<[u8]>::to_vec).unwrap_or_default();
                self.event.data = Some(Frame::Oversized(line));
            }
        }
    }

    fn field(&mut self, message: Message) {
        let line: &[u8] = &message;
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let short = || (value.len() <= FIELD_BYTES).then(|| String::from_utf8_lossy(value).into_owned());
        match name {
            b"data" if self.has_data => {
                self.data.push(b"\n");
                self.data.push(value);
            }
            b"data" => {
                self.has_data = true;
                let skip = line.len() - value.len();
                self.data.begin(message, skip);
            }
            b"event" => self.event.name = short().filter(|name| !matches!(name.as_str(), "" | "message")),
            b"id" => self.event.id = short(),
            b"retry" => self.event.retry = short().and_then(|retry| retry.parse().ok()),
            _ => {}
        }
    }

    fn end(&mut self) {
        let mut event = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) && event.data.is_none() {
            event.data = Some(self.data.finish());
        }
        if event.data.is_some() || event.id.is_some() || event.retry.is_some() {
            self.ready.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Option<String>, String, Option<String>)> {
        let (mut lines, mut reader) = (Lines::default(), Reader::default());
        for piece in text.as_bytes().chunks(3) {
            lines.push_all(piece, |line| reader.line(line));
        }
        let text = |data: Option<Frame>| match data {
            Some(Frame::Whole(message)) => String::from_utf8(message.bytes).unwrap(),
            Some(Frame::Oversized(_)) => panic!("too large"),
            None => String::new(),
        };
        reader.ready.into_iter().map(|event| (event.name, text(event.data), event.id)).collect()
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = ": hi\n\nevent: endpoint\r\ndata: /m?x=1\r\n\r\nevent: message\nid: 7\ndata: {\ndata: }\n\ndata:x\n\nid: 8\n\ndata: never";
        let expected = [
            (Some("endpoint".to_owned()), "/m?x=1".to_owned(), None),
            (None, "{\n}".to_owned(), Some("7".to_owned())),
            (None, "x".to_owned(), None),
            (None, String::new(), Some("8".to_owned())),
        ];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn events_cost_no_more_than_their_length() {
        cost::grows_linearly(
            16 * 1024,
            |size| "data: x\nid\nretry: 1\n\n".repeat(size / 23),
            |text| {
                let (mut lines, mut reader) = (Lines::default(), Reader::default());
                text.as_bytes().chunks(7).for_each(|piece| lines.push_all(piece, |line| reader.line(line)));
            },
        );
    }
}
