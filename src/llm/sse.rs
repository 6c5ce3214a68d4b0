//! Reads a streamed answer as leniently as providers write it: server-sent events, each with one JSON value, which the wire of
//! the provider puts together. Text for people is told as it comes.
//!
//! A stream succeeds only with a finish reason or, from servers that tell none, with `[DONE]`: many connections end without a
//! word. What follows the finish reason (usage, `[DONE]`) is welcome but nothing waits long for it. Comments keep a quiet stream
//! alive; the caller's timeout bounds it all.
//!
//! Each byte is read once and each frame parsed once, a long one on a thread of its own. Between slices of a long piece other
//! tasks have their turn.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use crate::llm::http::{ANSWER_BYTES, BLANK_RUN, Blanks, LONG_ANSWER, too_large, whole};
use crate::llm::provider_error::{self, ProviderError};
use crate::llm::wire::{Assembly, Wire};
use crate::ports::{Delta, DeltaSink, ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The longest silence between two pieces of an answer that has begun.
pub const IDLE: Duration = Duration::from_secs(20);

/// How long to wait for usage and the closing mark after the model has finished.
pub const TAIL: Duration = Duration::from_secs(2);

/// The most bytes of a stream that are read: every few letters come wrapped in a few hundred bytes.
pub const STREAM_BYTES: usize = 8 * 1024 * 1024;

/// The largest single frame of a stream, in bytes. The longest answer that is read at all fits in one.
pub const FRAME_BYTES: usize = 512 * 1024;

/// The most `data:` lines of one frame. Providers write one; a few proxies break a frame into some.
const FRAME_LINES: usize = 4_096;

/// The longest frame that is no object and no list, such as `null`, in bytes.
const SCALAR_BYTES: usize = 64;

/// After so many bytes other tasks have their turn.
const SLICE_BYTES: usize = 16 * 1024;

/// Reads the body of a successful response to a streaming request, and gives the answer as it would have come in one piece. A
/// provider may also answer with plain JSON, which is returned as it is.
///
/// # Errors
/// The stream broke, stalled, carried an error, ended early, or grew without bound.
pub async fn read<S>(mut source: S, wire: &dyn Wire, heard: &DeltaSink) -> Result<Value, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin,
{
    // How long a model thinks before its first word is bounded by the caller's timeout alone.
    let mut begun = Vec::new();
    let first = loop {
        let Some(bytes) = source.next().await else {
            return Err(ModelError::new(ModelErrorKind::Malformed, "the answer is empty"));
        };
        let bytes = bytes?;
        let first = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        begun.extend_from_slice(&bytes);
        if first.is_some() || begun.len() > BLANK_RUN {
            break first;
        }
    };
    if matches!(first, Some(b'{' | b'[')) {
        plain(source, begun).await
    } else {
        frames(source, &begun, wire, heard).await
    }
}

/// The rest of a body that is no stream.
async fn plain<S>(mut source: S, mut body: Vec<u8>) -> Result<Value, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin,
{
    let mut blanks = Blanks::default();
    while let Some(bytes) = timeout(IDLE, source.next()).await.map_err(|_| stalled())? {
        let bytes = bytes?;
        if body.len() + bytes.len() > ANSWER_BYTES {
            return Err(too_large());
        }
        blanks.check(&bytes)?;
        body.extend_from_slice(&bytes);
    }
    whole(body).await
}

async fn frames<S>(mut source: S, begun: &[u8], wire: &dyn Wire, heard: &DeltaSink) -> Result<Value, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin,
{
    let mut reading =
        Reading { heard, frames: Frames::default(), assembly: wire.assembly(), blanks: Blanks::default(), slice: 0 };
    let mut read = begun.len();
    let mut done = reading.take(begun).await?;
    // When the wait for what follows the finish reason ends, whatever keeps coming.
    let mut over: Option<Instant> = None;
    while !done {
        let now = Instant::now();
        if over.is_none() && reading.assembly.is_finished() {
            over = Some(now + if reading.assembly.is_quiet() { TAIL } else { IDLE });
        }
        if over.is_some_and(|over| over <= now) {
            break;
        }
        let failed = match timeout_at(over.unwrap_or(now + IDLE), source.next()).await {
            Ok(Some(Ok(bytes))) => {
                read += bytes.len();
                if read <= STREAM_BYTES {
                    done = reading.take(&bytes).await?;
                    continue;
                }
                too_large()
            }
            Ok(Some(Err(error))) => error,
            Ok(None) => {
                if reading.end().await? {
                    break;
                }
                ModelError::new(ModelErrorKind::Connection, "the stream ended before the answer did")
            }
            Err(_) => stalled(),
        };
        // A finished answer stays an answer, also when the connection breaks afterwards.
        if !reading.assembly.is_finished() {
            return Err(failed);
        }
        break;
    }
    let answer = reading.assembly.into_answer();
    answer.ok_or_else(|| ModelError::new(ModelErrorKind::Connection, "the stream ended without an answer"))
}

fn stalled() -> ModelError {
    ModelError::new(ModelErrorKind::Timeout, format!("the stream stood still for {} s", IDLE.as_secs()))
}

/// What has become of a stream so far.
struct Reading<'a> {
    heard: &'a DeltaSink,
    frames: Frames,
    assembly: Box<dyn Assembly>,
    blanks: Blanks,
    /// Bytes that were read since other tasks had their turn.
    slice: usize,
}

impl Reading<'_> {
    /// Takes in what came; true after the closing mark.
    async fn take(&mut self, bytes: &[u8]) -> Result<bool, ModelError> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.frames.feed(line)? {
                Some(Frame::Done) => return Ok(true),
                Some(Frame::Data(data)) => self.chunk(parsed(data).await?)?,
                None => {}
            }
            self.slice += line.len();
            if self.slice >= SLICE_BYTES {
                self.slice = 0;
                yield_now().await;
            }
        }
        Ok(false)
    }

    /// Takes in a last frame that nothing closed; true when it is the closing mark.
    async fn end(&mut self) -> Result<bool, ModelError> {
        match self.frames.feed(b"\n") {
            // Half a frame is what a cut leaves behind.
            Ok(Some(Frame::Data(data))) => parsed(data).await.map_or(Ok(()), |chunk| self.chunk(chunk)).map(|()| false),
            Ok(Some(Frame::Done)) => Ok(true),
            Ok(None) | Err(_) => Ok(false),
        }
    }

    fn chunk(&mut self, chunk: Value) -> Result<(), ModelError> {
        if let Some(provider_error) = provider_error::inside(&chunk) {
            // A finished answer is not undone by what went wrong behind it.
            return if self.assembly.is_finished() { Ok(()) } else { Err(broken_off(&provider_error)) };
        }
        let piece = self.assembly.take(chunk)?;
        if piece.hidden > 0 {
            (self.heard)(Delta::Hidden(piece.hidden));
        }
        if !piece.text.is_empty() {
            self.blanks.check(piece.text.as_bytes())?;
            (self.heard)(Delta::Text(&piece.text));
        }
        Ok(())
    }
}

/// The error for the error object in a frame of a stream.
fn broken_off(provider_error: &ProviderError) -> ModelError {
    let kind = match provider_error.code.as_deref() {
        Some("429" | "rate_limit_error" | "rate_limit_exceeded") => ModelErrorKind::RateLimited,
        _ => provider_error::kind_of_words(&provider_error.to_string()).unwrap_or(ModelErrorKind::Provider),
    };
    provider_error::model_error(kind, "an error inside the stream", provider_error)
}

// === Frames ===

/// Cuts lines into the frames of server-sent events.
#[derive(Default)]
struct Frames {
    line: Vec<u8>,
    data: String,
    /// Lines of data in this frame.
    lines: usize,
    nesting: Nesting,
}

enum Frame {
    /// One JSON value, unless the peer wrote something else.
    Data(String),
    /// The closing mark.
    Done,
}

/// The one parse of a frame. Long ones are parsed on a thread for blocking work.
async fn parsed(data: String) -> Result<Value, ModelError> {
    let parse = |data: &str| serde_json::from_str(data).ok();
    let parsed = if data.len() <= LONG_ANSWER {
        parse(&data)
    } else {
        tokio::task::spawn_blocking(move || parse(&data)).await.ok().flatten()
    };
    parsed.ok_or_else(|| malformed("a frame of the stream is not JSON"))
}

impl Frames {
    /// Takes in a line or a piece of one. A frame is whole as soon as its brackets are closed: some servers leave out the blank
    /// line.
    fn feed(&mut self, piece: &[u8]) -> Result<Option<Frame>, ModelError> {
        if self.line.len() + piece.len() + self.data.len() > FRAME_BYTES {
            return Err(malformed(&format!("a frame is larger than {FRAME_BYTES} bytes")));
        }
        self.line.extend_from_slice(piece);
        if !piece.ends_with(b"\n") {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok(self.close());
        }
        match line.strip_prefix("data:") {
            Some(data) => self.data(data.strip_prefix(' ').unwrap_or(data)),
            // Some servers write the error that ends a stream without its mark.
            None if line.starts_with('{') => self.data(line),
            // Comments, and the names and numbers of events.
            None => Ok(None),
        }
    }

    /// Takes in the data of one line.
    fn data(&mut self, data: &str) -> Result<Option<Frame>, ModelError> {
        if self.data.is_empty() {
            let word = data.trim();
            if word.is_empty() {
                return Ok(None);
            }
            if word == "[DONE]" {
                return Ok(Some(Frame::Done));
            }
            // A value without brackets stands alone on its line.
            if word.len() <= SCALAR_BYTES
                && !word.starts_with(['{', '['])
                && serde_json::from_str::<IgnoredAny>(word).is_ok()
            {
                return Ok(Some(Frame::Data(word.to_owned())));
            }
        } else {
            self.data.push('\n');
        }
        self.lines += 1;
        if self.lines > FRAME_LINES {
            return Err(malformed(&format!("a frame has more than {FRAME_LINES} lines of data")));
        }
        self.data.push_str(data);
        Ok(self.nesting.closes_in(data.as_bytes()).then(|| self.whole()))
    }

    /// A blank line: the frame must be whole now.
    fn close(&mut self) -> Option<Frame> {
        if self.data.trim().is_empty() {
            self.data.clear();
            return None;
        }
        Some(self.whole())
    }

    /// The frame that is whole now.
    fn whole(&mut self) -> Frame {
        (self.lines, self.nesting) = (0, Nesting::default());
        Frame::Data(std::mem::take(&mut self.data))
    }
}

/// How deep in brackets and texts the data of a frame is; each byte is looked at once.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// Takes in more data; true when the first bracket of the frame is closed by then and nothing is open.
    fn closes_in(&mut self, data: &[u8]) -> bool {
        let mut closed = false;
        for byte in data {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => {
                    self.depth += 1;
                    closed = false;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    closed = self.depth == 0;
                }
                _ => {}
            }
        }
        closed && !self.in_text
    }
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, message)
}
