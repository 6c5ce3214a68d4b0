//! Bounds the number of frames that a client sends.
//!
//! A frame of six bytes can be empty, and a message can consist of any number of such frames, so a bound of bytes does
//! not bound the work. The WebSocket library shows whole messages only. [`Counted`] reads the lengths of frames as
//! their bytes pass, and fails once a client sends too many.
//!
//! Source: RFC 6455, section 5.2, "Base Framing Protocol".

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The number of frames that a client may send in a second over a longer time. Speech takes fifty.
pub const PER_SECOND: u32 = 1_000;
/// The number of frames that a client may send at once.
pub const BURST: u32 = 4_000;
/// The number of bytes that are read at once.
const READ_BYTES: usize = 8 * 1024;

/// A stream of frames.
pub struct Counted<S> {
    stream: S,
    frames: Frames,
    /// The time at which all frames so far are paid for, at [`PER_SECOND`].
    paid: Instant,
    flooded: bool,
}

impl<S> Counted<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, frames: Frames::default(), paid: Instant::now(), flooded: false }
    }

    /// True once the client sent too many frames. Nothing more is read then.
    pub const fn is_flooded(&self) -> bool {
        self.flooded
    }

    fn pay(&mut self, frames: u32) -> Result<()> {
        let now = Instant::now();
        self.paid = self.paid.max(now) + Duration::from_secs(1) * frames / PER_SECOND;
        self.flooded |= self.paid > now + Duration::from_secs(1) * BURST / PER_SECOND;
        if self.flooded { Err(Error::new(ErrorKind::QuotaExceeded, "too many frames")) } else { Ok(()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        self.pay(0)?;
        let most = buffer.remaining().min(READ_BYTES);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let frames = self.frames.pass(part.filled());
        let read = part.filled().len();
        self.pay(frames)?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The position in a stream of frames.
#[derive(Default)]
struct Frames {
    /// The header so far.
    header: Vec<u8>,
    /// The bytes of the payload that follow.
    payload: u64,
}

impl Frames {
    /// Passes bytes, and returns the number of headers that end in them. The bytes are at most [`READ_BYTES`].
    fn pass(&mut self, mut bytes: &[u8]) -> u32 {
        let mut frames = 0;
        loop {
            let skipped = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
            (self.payload, bytes) = (self.payload - skipped as u64, bytes.get(skipped..).unwrap_or_default());
            let Some((byte, rest)) = bytes.split_first() else { return frames };
            bytes = rest;
            self.header.push(*byte);
            if let Some(length) = payload(&self.header) {
                frames += 1;
                self.header.clear();
                self.payload = length;
            }
        }
    }
}

/// Returns the length of the payload behind a header; `None` if the header is incomplete.
fn payload(header: &[u8]) -> Option<u64> {
    let second = header.get(1)?;
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    if header.len() < 2 + extended + mask {
        return None;
    }
    let length = header.get(2..2 + extended)?;
    Some(match extended {
        0 => u64::from(second & 0x7f),
        _ => length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn frame(length: usize) -> Vec<u8> {
        let mut frame = vec![0x82];
        match length {
            0..126 => frame.push(0x80 + u8::try_from(length).unwrap()),
            126..65_536 => {
                frame.push(0xfe);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(0xff);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        // Payloads that look like headers.
        frame.extend([0x82; 4]);
        frame.resize(frame.len() + length, 0x80);
        frame
    }

    proptest! {
        #[test]
        fn each_frame_is_counted_once_however_its_bytes_are_cut(
            lengths in prop::collection::vec(prop_oneof![0..3_usize, 124..128_usize, 65_534..65_538_usize], 0..20),
            cut in 1..9_000_usize,
        ) {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| frame(*length)).collect();
            let mut frames = Frames::default();
            let counted: u32 = bytes.chunks(cut).map(|part| frames.pass(part)).sum();
            prop_assert_eq!(counted as usize, lengths.len());
            prop_assert_eq!((frames.header.len(), frames.payload), (0, 0));
        }
    }

    async fn read(counted: &mut Counted<&[u8]>) -> Result<usize> {
        let mut all = Vec::new();
        counted.read_to_end(&mut all).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_empty_frames_fails_and_a_long_message_does_not() {
        let empty = frame(0).repeat(BURST as usize + 1);
        let mut counted = Counted::new(empty.as_slice());
        assert_eq!(read(&mut counted).await.unwrap_err().kind(), ErrorKind::QuotaExceeded);
        assert!(counted.is_flooded());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(read(&mut counted).await.is_err(), "nothing more is read");

        let long = frame(4_000_000);
        assert_eq!(read(&mut Counted::new(long.as_slice())).await.unwrap(), long.len());

        let burst = frame(0).repeat(BURST as usize);
        let mut counted = Counted::new(burst.as_slice());
        assert_eq!(read(&mut counted).await.unwrap(), burst.len());
        let second = frame(0).repeat(PER_SECOND as usize);
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            counted.stream = &second;
            assert_eq!(read(&mut counted).await.unwrap(), second.len());
        }
        counted.stream = &second;
        assert!(read(&mut counted).await.is_err());
    }
}
