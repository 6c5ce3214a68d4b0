//! Reads a streamed chat completion as leniently as providers write them, and makes of it the one body that an answer in one
//! piece would have had. Visible text is told as it comes.
//!
//! A stream succeeds only with a finish reason or, from servers that tell none, with `[DONE]`: many connections end without a
//! word. What follows the finish reason (usage, `[DONE]`) is welcome but nothing waits long for it. Comments keep a quiet stream
//! alive; the caller's timeout bounds it all.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde_json::Value;
use tokio::time::timeout;

use crate::llm::http::{ANSWER_BYTES, BLANK_RUN, Blanks, complained, inspect, says_overflow, too_large};
use crate::llm::merge::Merged;
use crate::llm::wire;
use crate::ports::{DeltaSink, ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The longest silence between two pieces of an answer that has begun.
pub const IDLE: Duration = Duration::from_secs(20);

/// How long to wait for usage and the closing mark after the model has finished.
pub const TAIL: Duration = Duration::from_secs(2);

/// The most bytes of a stream that are read: every few letters come wrapped in a few hundred bytes.
pub const STREAM_BYTES: usize = 8 * 1024 * 1024;

/// The largest single frame of a stream.
pub const FRAME_BYTES: usize = 1024 * 1024;

/// Reads the body of a successful response to a streaming request. A provider may also answer with plain JSON, which is
/// returned as it is.
///
/// # Errors
/// The stream broke, stalled, carried an error, ended early, or grew without bound.
pub async fn read<S>(mut source: S, heard: &DeltaSink) -> Result<Vec<u8>, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin,
{
    // How long a model thinks before its first word is bounded by the caller's timeout alone.
    let mut begun = Vec::new();
    while begun.iter().all(u8::is_ascii_whitespace) && begun.len() <= BLANK_RUN {
        match source.next().await {
            Some(bytes) => begun.extend_from_slice(&bytes?),
            None => return Err(ModelError::new(ModelErrorKind::Malformed, "the answer is empty")),
        }
    }
    let first = begun.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, Some(b'{' | b'[')) { plain(source, begun).await } else { frames(source, &begun, heard).await }
}

/// The rest of a body that is no stream.
async fn plain<S>(mut source: S, mut body: Vec<u8>) -> Result<Vec<u8>, ModelError>
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
    inspect(&body)?;
    Ok(body)
}

async fn frames<S>(mut source: S, begun: &[u8], heard: &DeltaSink) -> Result<Vec<u8>, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin,
{
    let mut reading =
        Reading { heard, frames: Frames::default(), merged: Merged::default(), blanks: Blanks::default() };
    let mut read = begun.len();
    let mut done = reading.take(begun)?;
    while !done {
        let wait = if reading.merged.is_quiet() { TAIL } else { IDLE };
        let failed = match timeout(wait, source.next()).await {
            Ok(Some(Ok(bytes))) => {
                read += bytes.len();
                if read > STREAM_BYTES {
                    return Err(too_large());
                }
                done = reading.take(&bytes)?;
                continue;
            }
            Ok(Some(Err(error))) => error,
            Ok(None) => {
                if reading.end()? {
                    break;
                }
                ModelError::new(ModelErrorKind::Connection, "the stream ended before the answer did")
            }
            Err(_) => stalled(),
        };
        // Whatever happens to the connection afterwards, a finished answer is an answer.
        if !reading.merged.is_finished() {
            return Err(failed);
        }
        break;
    }
    if !reading.merged.is_finished() && !reading.merged.has_begun() {
        return Err(ModelError::new(ModelErrorKind::Connection, "the stream ended without an answer"));
    }
    Ok(reading.merged.into_body().to_string().into_bytes())
}

fn stalled() -> ModelError {
    ModelError::new(ModelErrorKind::Timeout, format!("the stream stood still for {} s", IDLE.as_secs()))
}

/// What has become of a stream so far.
struct Reading<'a> {
    heard: &'a DeltaSink,
    frames: Frames,
    merged: Merged,
    blanks: Blanks,
}

impl Reading<'_> {
    /// Takes in what came; true after the closing mark.
    fn take(&mut self, bytes: &[u8]) -> Result<bool, ModelError> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.frames.feed(line)? {
                Some(Frame::Done) => return Ok(true),
                Some(Frame::Chunk(chunk)) => self.chunk(chunk)?,
                None => {}
            }
        }
        Ok(false)
    }

    /// Takes in a last frame that nothing closed; true when it is the closing mark.
    fn end(&mut self) -> Result<bool, ModelError> {
        match self.frames.feed(b"\n") {
            Ok(Some(Frame::Chunk(chunk))) => self.chunk(chunk).map(|()| false),
            Ok(Some(Frame::Done)) => Ok(true),
            // Half a frame is what a cut leaves behind.
            Ok(None) | Err(_) => Ok(false),
        }
    }

    fn chunk(&mut self, chunk: Value) -> Result<(), ModelError> {
        if let Some(provider_error) = wire::complaint_inside(&chunk) {
            // A finished answer is not undone by what went wrong behind it.
            return if self.merged.is_finished() { Ok(()) } else { Err(broken_off(&provider_error)) };
        }
        let text = self.merged.take(chunk);
        if !text.is_empty() {
            self.blanks.check(text.as_bytes())?;
            (self.heard)(&text);
        }
        Ok(())
    }
}

/// Names the failure that a frame of a stream tells.
fn broken_off(provider_error: &wire::ProviderError) -> ModelError {
    let kind = match provider_error.code.as_deref() {
        _ if says_overflow(&provider_error.to_string()) => ModelErrorKind::ContextOverflow,
        Some("429" | "rate_limit_error" | "rate_limit_exceeded") => ModelErrorKind::RateLimited,
        _ => ModelErrorKind::Provider,
    };
    complained(kind, "an error inside the stream", provider_error)
}

/// Cuts lines into the frames of server-sent events.
#[derive(Default)]
struct Frames {
    line: Vec<u8>,
    data: String,
}

enum Frame {
    Chunk(Value),
    Done,
}

impl Frames {
    /// Takes in a line or a piece of one. A frame is whole as soon as its data is: some servers leave out the blank line.
    fn feed(&mut self, piece: &[u8]) -> Result<Option<Frame>, ModelError> {
        if self.line.len() + piece.len() + self.data.len() > FRAME_BYTES {
            return Err(ModelError::new(
                ModelErrorKind::Malformed,
                format!("a frame is larger than {FRAME_BYTES} bytes"),
            ));
        }
        self.line.extend_from_slice(piece);
        if !piece.ends_with(b"\n") {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return self.close();
        }
        let data = match line.strip_prefix("data:") {
            Some(data) => data.strip_prefix(' ').unwrap_or(data),
            // Some servers write the error that ends a stream without its mark.
            None if line.starts_with('{') => line,
            // Comments, and the names and numbers of events.
            None => return Ok(None),
        };
        if !self.data.is_empty() {
            self.data.push('\n');
        }
        self.data.push_str(data);
        if self.data.trim() == "[DONE]" {
            return Ok(Some(Frame::Done));
        }
        match serde_json::from_str(&self.data) {
            Ok(chunk) => {
                self.data.clear();
                Ok(Some(Frame::Chunk(chunk)))
            }
            // The rest of it may stand in the next line.
            Err(_) => Ok(None),
        }
    }

    /// A blank line: whatever is there must be whole now.
    fn close(&mut self) -> Result<Option<Frame>, ModelError> {
        let data = std::mem::take(&mut self.data);
        if data.trim().is_empty() {
            return Ok(None);
        }
        Err(ModelError::new(ModelErrorKind::Malformed, "a frame of the stream is not JSON"))
    }
}
