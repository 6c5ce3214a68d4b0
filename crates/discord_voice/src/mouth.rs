//! The audio that the bot sends: frames in order, one each 20 milliseconds, and silence behind them.

use std::collections::VecDeque;
use std::time::Duration;

use davey::OPUS_SILENCE_PACKET;
use opus2::{Application, Channels, Encoder};
use tokio::time::Instant;

use super::pcm::{FRAME, Frame, RATE};
use super::rtp::Numbers;

/// The time between two frames.
const STEP: Duration = Duration::from_millis(20);
/// The maximum number of waiting frames: five seconds.
const WAITING_MAX: usize = 250;
/// The frames of silence behind audio: without them, receivers repeat the last sounds.
const TAIL: u8 = 5;
/// The longest time that audio waits for a key of its receivers. Then it is dropped at its pace.
const KEY_TIMEOUT: Duration = Duration::from_secs(5);
/// The size of an encoded frame, in bytes.
const ENCODED_MAX: usize = 1_275;
/// The samples of a frame, in the unit of timestamps.
const TICKS: u32 = 960;

/// The bot's audio.
pub(crate) struct Mouth {
    encoder: Encoder,
    frames: VecDeque<(u64, Frame)>,
    /// The time of the next frame.
    next: Instant,
    /// The frames of silence that are left to send; `None` while nothing is sent.
    tail: Option<u8>,
    /// The mark of the last frame that was sent.
    spoken: Option<u64>,
    /// The time from which audio waits for a key.
    waits: Option<Instant>,
    pub(crate) numbers: Numbers,
}

/// The next act.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A packet of Opus; the first one after a silence if true.
    Send(Vec<u8>, bool),
    /// The audio ended.
    End,
    Nothing,
}

impl Mouth {
    pub(crate) fn new() -> Result<Self, opus2::Error> {
        Ok(Self {
            encoder: Encoder::new(RATE, Channels::Mono, Application::Voip)?,
            frames: VecDeque::new(),
            next: Instant::now(),
            tail: None,
            spoken: None,
            waits: None,
            numbers: Numbers::default(),
        })
    }

    /// True if more frames may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < WAITING_MAX
    }

    /// Adds a frame. The mark says what it belongs to.
    pub(crate) fn add(&mut self, mark: u64, frame: Frame) {
        if self.frames.is_empty() && self.tail.is_none() {
            self.next = Instant::now();
        }
        self.frames.push_back((mark, frame));
    }

    /// Drops all waiting frames.
    pub(crate) fn hush(&mut self) {
        self.frames.clear();
    }

    /// True while audio waits or its silence is sent.
    pub(crate) fn is_busy(&self) -> bool {
        !self.frames.is_empty() || self.tail.is_some()
    }

    /// Returns the mark of the next frame; `None` while no audio waits.
    pub(crate) fn sounds(&self) -> Option<u64> {
        self.frames.front().map(|(mark, _)| *mark)
    }

    /// The time of the next act.
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// The mark of the last frame that was sent.
    pub(crate) fn spoken(&self) -> Option<u64> {
        self.spoken
    }

    /// Returns what is to be sent now. Without a key of the receivers, audio waits.
    pub(crate) fn act(&mut self, has_key: bool) -> Act {
        let now = Instant::now();
        // After a stall, the pace begins anew: bursts would be heard as noise.
        self.next = if now > self.next + STEP * 5 { now + STEP } else { self.next + STEP };
        if !has_key && !self.frames.is_empty() {
            let since = *self.waits.get_or_insert(now);
            if now < since + KEY_TIMEOUT {
                return Act::Nothing;
            }
            if let Some((mark, _)) = self.frames.pop_front() {
                self.spoken = Some(mark);
            }
            return Act::Nothing;
        }
        self.waits = None;
        let packet = match self.frames.pop_front() {
            Some((mark, frame)) => {
                self.spoken = Some(mark);
                let begins = self.tail.replace(TAIL).is_none();
                // A frame that cannot be encoded is silent.
                let encoded = self.encoder.encode_vec(&frame[..], ENCODED_MAX);
                Act::Send(encoded.unwrap_or_else(|_| OPUS_SILENCE_PACKET.to_vec()), begins)
            }
            None => match self.tail {
                Some(0) | None => {
                    self.tail = None;
                    return Act::End;
                }
                Some(left) => {
                    self.tail = Some(left - 1);
                    Act::Send(OPUS_SILENCE_PACKET.to_vec(), false)
                }
            },
        };
        self.numbers.sequence = self.numbers.sequence.wrapping_add(1);
        self.numbers.timestamp = self.numbers.timestamp.wrapping_add(TICKS);
        packet
    }
}

const _: () = assert!(TICKS as usize == FRAME);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn frames_have_their_pace_and_silence_behind_them() {
        let mut mouth = Mouth::new().unwrap();
        for mark in [3, 4] {
            mouth.add(mark, Box::new([0; FRAME]));
        }
        let begun = Instant::now();
        let mut acts = Vec::new();
        while mouth.is_busy() {
            tokio::time::sleep_until(mouth.due()).await;
            acts.push(mouth.act(true));
        }
        assert_eq!((acts.len(), mouth.spoken()), (2 + usize::from(TAIL) + 1, Some(4)));
        assert!(matches!(&acts[..2], [Act::Send(_, true), Act::Send(_, false)]));
        assert!(acts[2..7].iter().all(|act| *act == Act::Send(OPUS_SILENCE_PACKET.to_vec(), false)));
        assert_eq!((&acts[7], begun.elapsed()), (&Act::End, STEP * 7));
        assert_eq!(mouth.numbers.timestamp, TICKS * 7);
    }

    #[tokio::test(start_paused = true)]
    async fn audio_waits_for_a_key_and_is_dropped_at_its_pace_without_one() {
        let mut mouth = Mouth::new().unwrap();
        mouth.add(1, Box::new([0; FRAME]));
        let begun = Instant::now();
        while mouth.is_busy() {
            tokio::time::sleep_until(mouth.due()).await;
            assert_eq!(mouth.act(false), Act::Nothing);
        }
        assert!(begun.elapsed() >= KEY_TIMEOUT);
        mouth.add(2, Box::new([0; FRAME]));
        mouth.hush();
        assert!(!mouth.is_busy());
    }
}
