//! The audio of one sentence while it is recorded: one writer, one reader.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::Failure;
use super::format::{Format, HEAD};
use ports::shares::Share;

/// Maximum size of the audio of one sentence, in bytes.
pub const AUDIO_MAX: usize = 4 * 1024 * 1024;

/// The reader's end. Dropping it ends the recording.
pub struct Clip {
    shared: Arc<Shared>,
    task: Option<AbortHandle>,
}

/// The next of a clip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sound {
    /// More audio.
    Piece(Format, Bytes),
    /// The audio is complete.
    End,
    /// There is no more audio.
    Failed(Failure),
}

/// The writer's end.
pub struct Recorder(Arc<Shared>);

#[derive(Default)]
struct Shared {
    tape: Mutex<Tape>,
    changed: Notify,
}

#[derive(Default)]
struct Tape {
    /// The whole audio; the reader has it up to `read`.
    bytes: BytesMut,
    read: usize,
    /// The format, once the first bytes fit it.
    format: Option<Format>,
    end: Option<Result<(), Failure>>,
    /// The permit, until the reader drops the clip.
    permit: Option<Share>,
}

impl Clip {
    /// Returns complete audio.
    pub(super) fn whole(format: Format, bytes: Bytes) -> Self {
        let tape = Tape { bytes: bytes.into(), read: 0, format: Some(format), end: Some(Ok(())), permit: None };
        Self { shared: Arc::new(Shared { tape: Mutex::new(tape), ..Shared::default() }), task: None }
    }

    /// Returns the clip that a task records; it begins at once with a permit.
    pub(super) fn recorded<F>(permit: Option<Share>, record: impl FnOnce(Recorder) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::new(Shared { tape: Mutex::new(Tape { permit, ..Tape::default() }), ..Shared::default() });
        let task = tokio::spawn(record(Recorder(Arc::clone(&shared))));
        Self { shared, task: Some(task.abort_handle()) }
    }

    /// True unless it waits for a permit.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let tape = self.shared.tape.lock();
        tape.permit.is_some() || tape.end.is_some()
    }

    /// Waits for what is next. Cancel safe.
    pub async fn next(&mut self) -> Sound {
        loop {
            {
                let tape = &mut *self.shared.tape.lock();
                if let Some(format) = tape.format.filter(|_| tape.read < tape.bytes.len()) {
                    let piece = Bytes::copy_from_slice(&tape.bytes[tape.read..]);
                    tape.read = tape.bytes.len();
                    return Sound::Piece(format, piece);
                }
                match &tape.end {
                    Some(Ok(())) => return Sound::End,
                    Some(Err(failure)) => return Sound::Failed(failure.clone()),
                    None => {}
                }
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Drop for Clip {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Recorder {
    /// True if it has a permit.
    pub(super) fn has_begun(&self) -> bool {
        self.0.tape.lock().permit.is_some()
    }

    /// Gives it a permit.
    pub(super) fn begin(&self, permit: Share) {
        self.0.tape.lock().permit = Some(permit);
    }

    /// Appends audio of this format.
    ///
    /// # Errors
    /// The audio is too long, or does not begin like audio of this format.
    pub(super) fn push(&self, format: Format, more: &[u8]) -> Result<(), Failure> {
        let tape = &mut *self.0.tape.lock();
        if tape.bytes.len() + more.len() > AUDIO_MAX {
            return Err(Failure::TooLong);
        }
        tape.bytes.extend_from_slice(more);
        if tape.format.is_none() && tape.bytes.len() >= HEAD {
            if !format.begins(&tape.bytes) {
                return Err(Failure::NotAudio);
            }
            tape.format = Some(format);
        }
        self.0.changed.notify_one();
        Ok(())
    }

    /// Checks at the end that there was audio.
    ///
    /// # Errors
    /// There was none.
    pub(super) fn complete(&self) -> Result<(), Failure> {
        self.0.tape.lock().format.map(drop).ok_or(Failure::NotAudio)
    }

    /// Discards bytes that are no audio, before another voice begins. Returns true if there was audio.
    pub(super) fn has_audio(&self) -> bool {
        let tape = &mut *self.0.tape.lock();
        if tape.format.is_none() {
            tape.bytes.clear();
        }
        tape.format.is_some()
    }

    /// Returns the whole audio.
    pub(super) fn recorded(&self) -> Option<Bytes> {
        let tape = self.0.tape.lock();
        tape.format.map(|_| Bytes::copy_from_slice(&tape.bytes))
    }

    /// Ends the recording.
    pub(super) fn end(&self, result: Result<(), Failure>) {
        self.0.tape.lock().end = Some(result);
        self.0.changed.notify_one();
    }
}

impl Drop for Recorder {
    /// A recording that panicked or was aborted ends too.
    fn drop(&mut self) {
        self.0.tape.lock().end.get_or_insert(Err(Failure::Refused("the synthesis was cancelled".to_owned())));
        self.0.changed.notify_one();
    }
}
