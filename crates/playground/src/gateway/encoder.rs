//! Encodes payloads as frames: plain text, or one zlib stream per connection with a sync flush after each payload.

use axum::extract::ws::Message;
use flate2::{Compress, Compression, FlushCompress};

/// Growth of the output buffer, in bytes.
const ROOM: usize = 4_096;

/// The encoding of one connection.
pub struct Encoder(Option<Compress>);

impl Encoder {
    /// Text frames.
    #[must_use]
    pub fn plain() -> Self {
        Self(None)
    }

    /// Binary frames of one zlib stream.
    #[must_use]
    pub fn zlib() -> Self {
        Self(Some(Compress::new(Compression::fast(), true)))
    }

    /// Encodes a frame. `None` on a failure of the compressor, which ends the connection.
    pub fn frame(&mut self, text: &str) -> Option<Message> {
        let Some(stream) = &mut self.0 else {
            return Some(Message::text(text));
        };
        let before = stream.total_in();
        let mut out = Vec::with_capacity(text.len() / 2 + ROOM);
        loop {
            let eaten = usize::try_from(stream.total_in() - before).ok()?;
            stream.compress_vec(text.as_bytes().get(eaten..)?, &mut out, FlushCompress::Sync).ok()?;
            if out.len() < out.capacity() {
                return Some(Message::binary(out));
            }
            out.reserve(ROOM);
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress};

    use super::*;

    #[test]
    fn payloads_of_every_length_come_back_from_one_stream() {
        let mut encoder = Encoder::zlib();
        let mut decoder = Decompress::new(true);
        for length in [0, 1, 100, 4_095, 4_096, 4_097, 20_000, 300_000] {
            let text: String =
                (0..length).map(|n| char::from(b' ' + u8::try_from((n * n + n / 7) % 90).unwrap())).collect();
            let Some(Message::Binary(frame)) = encoder.frame(&text) else {
                panic!("no binary frame");
            };
            assert_eq!(frame[frame.len() - 4..], [0, 0, 0xff, 0xff]);
            let mut out = Vec::with_capacity(length + 64);
            decoder.decompress_vec(&frame, &mut out, FlushDecompress::Sync).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
