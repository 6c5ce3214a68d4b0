//! Reads a streamed answer leniently: server-sent events with one JSON value each, which the provider's wire assembles.
//! Visible text is passed on as it arrives.
//!
//! A stream succeeds only with a finish reason or, from servers that send none, with `[DONE]`; many connections close
//! without either. Data after the finish reason (usage, `[DONE]`) is awaited for at most [`IDLE`]. Before that, the
//! caller bounds the silence by the deltas that it receives: comments and empty frames produce none.
//!
//! Each byte is read once and each frame parsed once, a long one on a blocking thread. The task yields between slices
//! of a long piece.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, Stream, StreamExt};
use serde::de::IgnoredAny;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout, timeout_at};

use crate::body::{BLANK_RUN, Blanks, too_large, whole};
use crate::bounds::{ANSWER_BYTES, LONG_ANSWER, VALUES_MAX, check_values};
use crate::budget::{Budget, Reservation};
use crate::provider_error::{self, ProviderError};
use crate::wire::{Answer, AnswerForm, Assembly, Piece, Unusable, Wire};
use ports::{Delta, DeltaSink, ModelError, ModelErrorKind};

#[cfg(test)]
mod tests;

/// The timeout after the finish reason if text may still follow.
pub const IDLE: Duration = Duration::from_secs(20);

/// The timeout of usage and the closing mark after a complete answer.
pub const TAIL: Duration = Duration::from_secs(2);

/// The most bytes read of a stream: a few letters arrive in a few hundred bytes. The text itself is bounded by
/// [`ANSWER_BYTES`].
pub const STREAM_BYTES: usize = 32 * 1024 * 1024;

/// The largest frame of a stream, in bytes. The longest possible answer fits in one.
pub const FRAME_BYTES: usize = 512 * 1024;

/// The most `data:` lines of one frame. Providers write one; a few proxies split frames.
const FRAME_LINES: usize = 4_096;

/// The longest frame that is neither an object nor a list, such as `null`, in bytes.
const SCALAR_BYTES: usize = 64;

/// The number of bytes after which the task yields.
const SLICE_BYTES: usize = 16 * 1024;

/// The bounds in bytes and time for reading after the closing mark, so that the connection can be reused.
const REST_BYTES: usize = 64 * 1024;
const REST_TIME: Duration = Duration::from_secs(2);

/// Reads the body of a successful streaming response and returns the answer. If the provider sends plain JSON instead,
/// that is returned.
///
/// # Errors
/// The stream broke, contained an error, ended early or exceeded a bound.
pub async fn read<S>(mut source: S, wire: &dyn Wire, heard: &DeltaSink, budget: &Budget) -> Result<Answer, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin + 'static,
{
    let mut blanks = BytesMut::new();
    let (begun, first) = loop {
        let Some(bytes) = source.next().await else {
            return Err(ModelError::new(ModelErrorKind::Malformed, "the answer is empty"));
        };
        let bytes = bytes?;
        let first = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        if first.is_some() && blanks.is_empty() {
            // Most answers begin with their first piece, which is not copied.
            break (bytes, first);
        }
        blanks.extend_from_slice(&bytes);
        if first.is_some() || blanks.len() > BLANK_RUN {
            break (blanks.freeze(), first);
        }
    };
    if matches!(first, Some(b'{' | b'[')) {
        plain(source, begun.into(), budget.begin()).await
    } else {
        frames(source, &begun, wire, heard, budget.begin()).await
    }
}

/// Reads the rest of a body that is not a stream.
async fn plain<S>(mut source: S, mut body: Vec<u8>, mut held: Reservation) -> Result<Answer, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin,
{
    let mut blanks = Blanks::default();
    while let Some(bytes) = source.next().await {
        let bytes = bytes?;
        if body.len() + bytes.len() > ANSWER_BYTES {
            return Err(too_large());
        }
        blanks.check(&bytes)?;
        held.hold(body.len() + bytes.len()).await?;
        body.extend_from_slice(&bytes);
    }
    Ok(Answer { form: AnswerForm::Json(whole(body, VALUES_MAX, &mut held).await?), held })
}

async fn frames<S>(
    mut source: S,
    begun: &[u8],
    wire: &dyn Wire,
    heard: &DeltaSink,
    held: Reservation,
) -> Result<Answer, ModelError>
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin + 'static,
{
    let mut reading = Reading::new(wire, heard, held);
    let mut read = begun.len();
    let mut done = reading.take(begun).await?;
    // The deadline for data after the finish reason.
    let mut over: Option<Instant> = None;
    while !done {
        let now = Instant::now();
        if over.is_none() && reading.assembly.is_finished() {
            over = Some(now + if reading.assembly.is_quiet() { TAIL } else { IDLE });
        }
        if over.is_some_and(|over| over <= now) {
            break;
        }
        let next = match over {
            Some(over) => match timeout_at(over, source.next()).await {
                Ok(next) => next,
                Err(_) => break,
            },
            None => source.next().await,
        };
        let failed = match next {
            Some(Ok(bytes)) => {
                read += bytes.len();
                if read <= STREAM_BYTES {
                    done = reading.take(&bytes).await?;
                    continue;
                }
                too_large()
            }
            Some(Err(error)) => error,
            None => {
                if reading.end().await? {
                    break;
                }
                ModelError::new(ModelErrorKind::Connection, "the stream ended before the answer did")
            }
        };
        // A finished answer is kept even if the connection breaks afterwards.
        if !reading.assembly.is_finished() {
            return Err(failed);
        }
        break;
    }
    if done {
        read_rest(source);
    }
    let Reading { assembly, held, .. } = reading;
    if assembly.is_answer() {
        return Ok(Answer { form: AnswerForm::Streamed(assembly), held });
    }
    Err(ModelError::new(ModelErrorKind::Connection, "the stream ended without an answer"))
}

/// Reads the data after the closing mark, usually only the end of the body: a connection can be reused only after its
/// body was read completely. Runs as a detached task. The number of these tasks is bounded by the answers that ended
/// within [`REST_TIME`].
fn read_rest<S>(mut source: S)
where
    S: Stream<Item = Result<Bytes, ModelError>> + Send + Unpin + 'static,
{
    let mut read = match source.next().now_or_never() {
        Some(None | Some(Err(_))) => return,
        Some(Some(Ok(bytes))) => bytes.len(),
        None => 0,
    };
    let rest = async move {
        while let Some(Ok(bytes)) = source.next().await {
            read += bytes.len();
            if read > REST_BYTES {
                break;
            }
        }
    };
    tokio::spawn(timeout(REST_TIME, rest));
}

struct Reading<'a> {
    wire: &'a dyn Wire,
    heard: &'a DeltaSink,
    frames: Frames,
    assembly: Box<dyn Assembly>,
    blanks: Blanks,
    /// The length of the answer so far: bytes of text, and characters of hidden content.
    told: usize,
    /// The bytes read since the last yield.
    slice: usize,
    held: Reservation,
}

impl<'a> Reading<'a> {
    fn new(wire: &'a dyn Wire, heard: &'a DeltaSink, held: Reservation) -> Self {
        let (frames, assembly, blanks) = (Frames::default(), wire.assembly(), Blanks::default());
        Self { wire, heard, frames, assembly, blanks, told: 0, slice: 0, held }
    }

    /// Processes a piece; returns true after the closing mark or the last frame.
    async fn take(&mut self, bytes: &[u8]) -> Result<bool, ModelError> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.frames.feed(line)? {
                Some(Frame::Done) => return Ok(true),
                Some(Frame::Data(data)) => self.chunk(data).await?.then_some(()).ok_or_else(not_json)?,
                None => {}
            }
            if self.assembly.is_complete() {
                return Ok(true);
            }
            self.slice += line.len();
            if self.slice >= SLICE_BYTES {
                self.slice = 0;
                yield_now().await;
            }
        }
        self.held.hold(self.frames.pending() + self.assembly.bytes()).await?;
        Ok(false)
    }

    /// Processes an unterminated last frame; returns true if it is the closing mark.
    async fn end(&mut self) -> Result<bool, ModelError> {
        let last = match self.frames.feed(b"\n") {
            Ok(Some(Frame::Data(data))) => data.into_owned(),
            Ok(Some(Frame::Done)) => return Ok(true),
            Ok(None) | Err(_) => return Ok(false),
        };
        // A truncated frame is dropped.
        self.chunk(last.into()).await?;
        Ok(false)
    }

    /// Processes a frame, a long one on a blocking thread; returns false if it is not JSON.
    async fn chunk(&mut self, frame: Cow<'_, str>) -> Result<bool, ModelError> {
        if frame.len() <= LONG_ANSWER {
            let taken = self.assembly.take(&frame);
            return self.tell(taken);
        }
        // Its values take more memory than its text.
        let parsing = self.held.budget().parsing().await;
        let (mut assembly, frame) = (std::mem::replace(&mut self.assembly, self.wire.assembly()), frame.into_owned());
        let taking = move || {
            let checked = check_values(frame.as_bytes(), VALUES_MAX).map_err(Unusable::OutOfBounds);
            let taken = checked.and_then(|()| assembly.take(&frame).map(Piece::into_owned));
            drop(parsing);
            (assembly, taken)
        };
        let (assembly, taken) = tokio::task::spawn_blocking(taking).await.map_err(|_| not_json())?;
        self.assembly = assembly;
        self.tell(taken)
    }

    /// Passes the content of a frame on; returns false if it was not JSON.
    fn tell(&mut self, taken: Result<Piece<'_>, Unusable>) -> Result<bool, ModelError> {
        let piece = match taken {
            Ok(piece) => piece,
            Err(Unusable::NotJson) => return Ok(false),
            // A later error does not invalidate a finished answer.
            Err(Unusable::Failed(_)) if self.assembly.is_finished() => return Ok(true),
            Err(Unusable::Failed(error)) => return Err(broken_off(&error)),
            Err(Unusable::OutOfBounds(error)) => return Err(error),
        };
        self.told += piece.hidden + piece.text.len();
        if self.told > ANSWER_BYTES {
            return Err(too_large());
        }
        if piece.hidden > 0 {
            (self.heard)(Delta::Hidden(piece.hidden));
        }
        if !piece.text.is_empty() {
            self.blanks.check(piece.text.as_bytes())?;
            (self.heard)(Delta::Text(&piece.text));
        }
        Ok(true)
    }
}

/// Creates the error for an error object in a stream.
fn broken_off(provider_error: &ProviderError) -> ModelError {
    let kind = match provider_error.code.as_deref() {
        Some("429" | "rate_limit_error" | "rate_limit_exceeded") => ModelErrorKind::RateLimited,
        _ => provider_error::kind_of_words(&provider_error.to_string()).unwrap_or(ModelErrorKind::Provider),
    };
    provider_error::model_error(kind, "an error inside the stream", provider_error)
}

/// Splits lines into frames of server-sent events.
#[derive(Default)]
struct Frames {
    line: Vec<u8>,
    data: String,
    /// The data lines of this frame.
    lines: usize,
    nesting: Nesting,
}

enum Frame<'a> {
    /// One JSON value, unless the peer sent something else.
    Data(Cow<'a, str>),
    Done,
}

impl Frame<'_> {
    fn into_owned(self) -> Frame<'static> {
        match self {
            Self::Data(data) => Frame::Data(Cow::Owned(data.into_owned())),
            Self::Done => Frame::Done,
        }
    }
}

impl Frames {
    /// Returns the bytes of the frame that is not complete.
    fn pending(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Processes a line or a piece of one. A frame is complete as soon as its brackets are closed: some servers omit
    /// the blank line. A frame on one line is not copied.
    fn feed<'a>(&mut self, piece: &'a [u8]) -> Result<Option<Frame<'a>>, ModelError> {
        if self.pending() + piece.len() > FRAME_BYTES {
            let message = format!("a frame is larger than {FRAME_BYTES} bytes");
            return Err(ModelError::new(ModelErrorKind::TooLarge, message));
        }
        if !piece.ends_with(b"\n") {
            self.line.extend_from_slice(piece);
            return Ok(None);
        }
        if self.line.is_empty() {
            return self.bytes(piece);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(piece);
        Ok(self.bytes(&line)?.map(Frame::into_owned))
    }

    /// Processes a whole line.
    fn bytes<'a>(&mut self, line: &'a [u8]) -> Result<Option<Frame<'a>>, ModelError> {
        match String::from_utf8_lossy(line) {
            Cow::Borrowed(line) => self.line(line),
            Cow::Owned(line) => Ok(self.line(&line)?.map(Frame::into_owned)),
        }
    }

    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Frame<'a>>, ModelError> {
        let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok(self.close());
        }
        match line.strip_prefix("data:") {
            Some(data) => self.data(data.strip_prefix(' ').unwrap_or(data)),
            // Some servers send the error that ends a stream without the `data:` prefix.
            None if line.starts_with('{') => self.data(line),
            // Comments, event names and ids.
            None => Ok(None),
        }
    }

    /// Processes the data of one line.
    fn data<'a>(&mut self, data: &'a str) -> Result<Option<Frame<'a>>, ModelError> {
        let first = self.data.is_empty();
        if first {
            let word = data.trim();
            if word.is_empty() {
                return Ok(None);
            }
            if word == "[DONE]" {
                return Ok(Some(Frame::Done));
            }
            // A value without brackets occupies one line.
            if word.len() <= SCALAR_BYTES
                && !word.starts_with(['{', '['])
                && serde_json::from_str::<IgnoredAny>(word).is_ok()
            {
                return Ok(Some(Frame::Data(word.into())));
            }
        } else {
            self.data.push('\n');
        }
        self.lines += 1;
        if self.lines > FRAME_LINES {
            return Err(malformed(&format!("a frame has more than {FRAME_LINES} lines of data")));
        }
        let closed = self.nesting.closes_in(data.as_bytes());
        if first && closed {
            self.begin_anew();
            return Ok(Some(Frame::Data(data.into())));
        }
        self.data.push_str(data);
        Ok(closed.then(|| self.whole()))
    }

    /// Processes a blank line, which ends the frame.
    fn close(&mut self) -> Option<Frame<'static>> {
        if self.data.trim().is_empty() {
            self.data.clear();
            return None;
        }
        Some(self.whole())
    }

    fn whole(&mut self) -> Frame<'static> {
        self.begin_anew();
        Frame::Data(Cow::Owned(std::mem::take(&mut self.data)))
    }

    fn begin_anew(&mut self) {
        (self.lines, self.nesting) = (0, Nesting::default());
    }
}

/// The nesting of brackets and strings in a frame; each byte is scanned once.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// Scans more data; returns true if the frame's first bracket is now closed.
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

fn not_json() -> ModelError {
    malformed("a frame of the stream is not JSON")
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Malformed, message)
}
