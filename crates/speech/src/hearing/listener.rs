//! Finds utterances in a stream of samples.

use std::collections::VecDeque;

use earshot::Detector;
use tokio::time::Instant;

/// Samples per second.
pub const RATE: u32 = 16_000;
/// Maximum length of an utterance, in bytes: 30 seconds. A longer one ends there.
pub const UTTERANCE_MAX: usize = 30 * BYTES_PER_SECOND;
const BYTES_PER_SECOND: usize = RATE as usize * 2;
/// The samples that the detector judges together: 16 milliseconds.
const FRAME: usize = 256;
/// The score from which a frame is speech.
const SPEECH: f32 = 0.5;
/// Frames of speech that begin an utterance: 64 milliseconds.
const BEGINS: usize = 4;
/// Frames without speech that end an utterance: 704 milliseconds.
const ENDS: usize = 44;
/// Frames that are kept from before the beginning: 320 milliseconds.
const BEFORE: usize = 20;
/// The audio that may arrive at once, in bytes: ten seconds. Further audio may come at twice the speed of speech.
const AHEAD: usize = 10 * BYTES_PER_SECOND;
/// The first bytes of files with audio, which are no samples.
const HEADS: [&[u8]; 5] = [b"RIFF", b"OggS", b"fLaC", b"ID3", &[0x1a, 0x45, 0xdf, 0xa3]];

/// The listener of one stream.
pub struct Listener {
    /// True if an utterance ends with a silence; otherwise [`Listener::end`] ends it.
    hands_free: bool,
    detector: Box<Detector>,
    /// Samples of the incomplete frame.
    frame: Vec<i16>,
    /// Frames before an utterance, the last ones.
    before: VecDeque<[i16; FRAME]>,
    /// The bytes of the utterance; empty outside of one.
    utterance: Vec<u8>,
    /// Frames of speech, or of silence inside an utterance, in a row.
    in_a_row: usize,
    /// True if the utterance has speech.
    has_speech: bool,
    /// True once samples were read.
    has_begun: bool,
    pace: Pace,
}

/// The pace of audio from one source, over all of its streams.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The bytes that may arrive now.
    left: usize,
    at: Instant,
}

impl Pace {
    /// Returns true if so many bytes may arrive now.
    fn admits(&mut self, bytes: usize) -> bool {
        let micros = usize::try_from(self.at.elapsed().as_micros()).unwrap_or(usize::MAX);
        let more = micros.saturating_mul(BYTES_PER_SECOND / 1_000 * 2) / 1_000;
        (self.left, self.at) = (self.left.saturating_add(more).min(AHEAD), Instant::now());
        let rest = self.left.checked_sub(bytes);
        self.left = rest.unwrap_or(self.left);
        rest.is_some()
    }
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Speech begins.
    Begins,
    /// An utterance is complete, with its samples.
    Ends(Vec<u8>),
}

/// The reason why bytes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A sample is cut.
    #[error("a frame has whole samples of two bytes")]
    HalfSample,
    /// A file, not samples.
    #[error("audio has samples only: 16,000 per second, one channel, 16 bits, little-endian, without a header")]
    File,
    /// More than may have arrived by now.
    #[error("audio arrives faster than it is spoken")]
    TooFast,
}

impl Listener {
    /// Creates the listener of a new stream.
    #[must_use]
    pub fn new(hands_free: bool) -> Self {
        Self {
            hands_free,
            detector: Box::default(),
            frame: Vec::with_capacity(FRAME),
            before: VecDeque::with_capacity(BEFORE + 1),
            utterance: Vec::new(),
            in_a_row: 0,
            has_speech: false,
            has_begun: false,
            pace: Pace { left: AHEAD, at: Instant::now() },
        }
    }

    /// Begins a new stream of the same source.
    pub fn restart(&mut self, hands_free: bool) {
        *self = Self { pace: self.pace, ..Self::new(hands_free) };
    }

    /// Reads more samples.
    ///
    /// # Errors
    /// See [`Misfit`]. The bytes are not read.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Found>, Misfit> {
        if !self.has_begun && HEADS.iter().any(|head| bytes.starts_with(head)) {
            return Err(Misfit::File);
        }
        if !bytes.len().is_multiple_of(2) {
            return Err(Misfit::HalfSample);
        }
        if !self.pace.admits(bytes.len()) {
            return Err(Misfit::TooFast);
        }
        self.has_begun |= !bytes.is_empty();
        let mut found = Vec::new();
        for sample in bytes.chunks_exact(2) {
            self.frame.push(i16::from_le_bytes([sample[0], sample[1]]));
            if let Ok(frame) = <[i16; FRAME]>::try_from(self.frame.as_slice()) {
                self.frame.clear();
                found.extend(self.judge(&frame));
            }
        }
        Ok(found)
    }

    /// Ends the stream. Returns its open utterance, if there was speech in it.
    pub fn end(&mut self) -> Option<Vec<u8>> {
        let utterance = std::mem::take(&mut self.utterance);
        std::mem::take(&mut self.has_speech).then_some(utterance).filter(|utterance| !utterance.is_empty())
    }

    fn judge(&mut self, frame: &[i16; FRAME]) -> Option<Found> {
        let speech = self.detector.predict_i16(frame) >= SPEECH;
        if self.has_speech {
            self.keep(frame);
            self.in_a_row = if speech { 0 } else { self.in_a_row + 1 };
            let ends = self.hands_free && self.in_a_row >= ENDS || self.utterance.len() >= UTTERANCE_MAX;
            if !ends {
                return None;
            }
            self.in_a_row = 0;
            return self.end().map(Found::Ends);
        }
        self.before.push_back(*frame);
        self.in_a_row = if speech { self.in_a_row + 1 } else { 0 };
        if self.in_a_row < BEGINS {
            if self.before.len() > BEFORE {
                self.before.pop_front();
            }
            return None;
        }
        (self.in_a_row, self.has_speech) = (0, true);
        for frame in std::mem::take(&mut self.before) {
            self.keep(&frame);
        }
        Some(Found::Begins)
    }

    fn keep(&mut self, frame: &[i16]) {
        self.utterance.extend(frame.iter().flat_map(|sample| sample.to_le_bytes()));
    }
}
