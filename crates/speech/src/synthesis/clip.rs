//! The audio of one sentence: cached, or recorded by one writer while one reader reads it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Failure;
use super::format::{Format, HEAD};
use ports::shares::Share;

/// Maximum size of the audio of one sentence, in bytes.
pub const AUDIO_MAX: usize = 4 * 1024 * 1024;

/// Maximum size of a piece of audio, in bytes: a reader does other things between two pieces.
const PIECE_MAX: usize = 48 * 1024;

/// Maximum time from the first wait for audio to its end. A slower reader would keep a permit from others.
const DELIVERED_WITHIN: Duration = Duration::from_secs(180);

/// The reader's end. Dropping it ends the recording and frees its permit.
pub struct Clip {
    audio: Audio,
    /// The time by which it must be read, once it is waited for.
    until: Option<Instant>,
}

enum Audio {
    /// The audio that is left to read, and its permit.
    Cached(Format, Bytes, Share),
    Recorded(Recording),
}

/// A recording in progress; aborted when dropped.
struct Recording {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// The next of a clip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sound {
    /// More audio, at most 48 KiB.
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
    pub(super) fn whole(format: Format, bytes: Bytes, permit: Share) -> Self {
        Self { audio: Audio::Cached(format, bytes, permit), until: None }
    }

    /// Returns the clip that a task records; it begins at once with a permit.
    pub(super) fn recorded<F>(permit: Option<Share>, record: impl FnOnce(Recorder) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::new(Shared { tape: Mutex::new(Tape { permit, ..Tape::default() }), ..Shared::default() });
        let task = tokio::spawn(record(Recorder(Arc::clone(&shared)))).abort_handle();
        Self { audio: Audio::Recorded(Recording { shared, task }), until: None }
    }

    /// Frees the audio and returns the permit, for audio that is still in transit.
    #[must_use]
    pub fn into_permit(self) -> Option<Share> {
        match self.audio {
            Audio::Cached(.., permit) => Some(permit),
            Audio::Recorded(recording) => recording.shared.tape.lock().permit.take(),
        }
    }

    /// True unless it waits for a permit.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let Audio::Recorded(Recording { shared, .. }) = &self.audio else { return true };
        let tape = shared.tape.lock();
        tape.permit.is_some() || tape.end.is_some()
    }

    /// Waits for what is next. Cancel safe.
    pub async fn next(&mut self) -> Sound {
        let until = *self.until.get_or_insert_with(|| Instant::now() + DELIVERED_WITHIN);
        if Instant::now() >= until {
            return Sound::Failed(Failure::Late);
        }
        match &mut self.audio {
            Audio::Cached(_, left, _) if left.is_empty() => Sound::End,
            Audio::Cached(format, left, _) => Sound::Piece(*format, left.split_to(left.len().min(PIECE_MAX))),
            Audio::Recorded(recording) => recording.next().await,
        }
    }
}

impl Recording {
    async fn next(&self) -> Sound {
        loop {
            if let Some(sound) = self.shared.tape.lock().next() {
                return sound;
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tape {
    /// Returns what the reader does not have yet; `None` before it is recorded.
    fn next(&mut self) -> Option<Sound> {
        if let Some(format) = self.format.filter(|_| self.read < self.bytes.len()) {
            let end = self.bytes.len().min(self.read + PIECE_MAX);
            let piece = Bytes::copy_from_slice(&self.bytes[self.read..end]);
            self.read = end;
            return Some(Sound::Piece(format, piece));
        }
        self.end.as_ref().map(|end| end.as_ref().map_or_else(|failure| Sound::Failed(failure.clone()), |()| Sound::End))
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

#[cfg(test)]
mod tests {
    use ports::shares::Shares;
    use tokio::sync::Semaphore;

    use super::*;

    fn permit() -> Share {
        Shares::new(Arc::new(Semaphore::new(1))).take(None).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn audio_that_is_read_slowly_ends() {
        let audio = Bytes::from(vec![0; 10 * PIECE_MAX]);
        let mut clip = Clip::whole(Format::Wav, audio, permit());
        let mut pieces = 0;
        while let Sound::Piece(..) = clip.next().await {
            pieces += 1;
            tokio::time::sleep(DELIVERED_WITHIN / 4).await;
        }
        assert_eq!((pieces, clip.next().await), (4, Sound::Failed(Failure::Late)));
    }

    async fn sizes(mut clip: Clip) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Sound::Piece(_, piece) = clip.next().await {
            sizes.push(piece.len());
        }
        sizes
    }

    #[tokio::test]
    async fn cached_and_recorded_audio_comes_in_small_pieces() {
        let mut audio = b"RIFF0000WAVE".to_vec();
        audio.resize(2 * PIECE_MAX + 7, 0);
        let wanted = [PIECE_MAX, PIECE_MAX, 7];
        assert_eq!(sizes(Clip::whole(Format::Wav, audio.clone().into(), permit())).await, wanted);
        let recorded = Clip::recorded(None, |recorder| async move {
            recorder.push(Format::Wav, &audio).unwrap();
            recorder.end(recorder.complete());
        });
        assert_eq!(sizes(recorded).await, wanted);
    }
}
