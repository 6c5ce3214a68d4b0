//! Audio of a voice as samples for Opus: 48,000 per second, one channel.

use speech::synthesis::Format;

/// Samples per second of Opus.
pub(crate) const RATE: u32 = 48_000;
/// The samples of a frame: 20 milliseconds.
pub(crate) const FRAME: usize = 960;
/// Samples per second of audio without a header.
const PLAIN_RATE: u32 = 24_000;
/// The bounds of the rate of a file.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;
/// The longest header of a file, in bytes.
const HEAD_MAX: usize = 64 * 1024;

/// One frame.
pub(crate) type Frame = Box<[i16; FRAME]>;

/// Converts the audio of one sentence while it arrives.
pub(crate) struct Samples {
    /// Bytes that are not read yet: a header, or a part of a sample.
    bytes: Vec<u8>,
    /// The form of the samples, once the header is read.
    form: Option<Form>,
    /// The last four samples of the source.
    window: [f32; 4],
    /// The position between the second and the third of them.
    position: f64,
    /// The incomplete frame.
    frame: Vec<i16>,
}

#[derive(Clone, Copy)]
struct Form {
    rate: u32,
    channels: usize,
}

/// The audio cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Samples {
    /// Begins audio of a format. A file that is no WAV is unreadable.
    pub(crate) fn new(format: Format) -> Self {
        let form = (format == Format::Pcm).then_some(Form { rate: PLAIN_RATE, channels: 1 });
        Self { bytes: Vec::new(), form, window: [0.0; 4], position: 0.0, frame: Vec::with_capacity(FRAME) }
    }

    /// Reads more bytes, and returns the complete frames.
    pub(crate) fn push(&mut self, more: &[u8]) -> Result<Vec<Frame>, Unreadable> {
        self.bytes.extend_from_slice(more);
        let form = match self.form {
            Some(form) => form,
            None => match header(&self.bytes)? {
                Some((form, begin)) => {
                    self.bytes.drain(..begin);
                    *self.form.insert(form)
                }
                None if self.bytes.len() > HEAD_MAX => return Err(Unreadable),
                None => return Ok(Vec::new()),
            },
        };
        let size = form.channels * 2;
        let whole = self.bytes.len() / size * size;
        let bytes: Vec<u8> = self.bytes.drain(..whole).collect();
        let mut frames = Vec::new();
        for sample in bytes.chunks_exact(size) {
            let sum: i32 = sample.chunks_exact(2).map(|one| i32::from(i16::from_le_bytes([one[0], one[1]]))).sum();
            self.take(average(sum, form.channels), form.rate, &mut frames);
        }
        Ok(frames)
    }

    /// Returns the last frame, filled with silence.
    pub(crate) fn end(mut self) -> Option<Frame> {
        if self.frame.is_empty() {
            return None;
        }
        self.frame.resize(FRAME, 0);
        self.frame.into_boxed_slice().try_into().ok()
    }

    /// Takes one sample of the source.
    fn take(&mut self, sample: f32, rate: u32, frames: &mut Vec<Frame>) {
        self.window.rotate_left(1);
        self.window[3] = sample;
        while self.position < 1.0 {
            self.frame.push(between(&self.window, self.position));
            self.position += f64::from(rate) / f64::from(RATE);
            if let Ok(frame) = <[i16; FRAME]>::try_from(self.frame.as_slice()) {
                self.frame.clear();
                frames.push(Box::new(frame));
            }
        }
        self.position -= 1.0;
    }
}

#[expect(clippy::cast_precision_loss, reason = "samples and channels are small")]
fn average(sum: i32, channels: usize) -> f32 {
    sum as f32 / channels as f32
}

/// Returns the value of a cubic curve through four samples, between the second and the third.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn between(window: &[f32; 4], position: f64) -> i16 {
    let [before, from, to, after] = window.map(f64::from);
    let slope = |one: f64, other: f64| (other - one) / 2.0;
    let (first, second) = (slope(before, to), slope(from, after));
    let (square, cube) = (position * position, position * position * position);
    let value = (2.0 * cube - 3.0 * square + 1.0) * from
        + (cube - 2.0 * square + position) * first
        + (3.0 * square - 2.0 * cube) * to
        + (cube - square) * second;
    value.round() as i16
}

/// Reads the header of a WAV file: its form, and where the samples begin. `None` if more bytes are needed.
fn header(bytes: &[u8]) -> Result<Option<(Form, usize)>, Unreadable> {
    if bytes.len() < 12 {
        return Ok(None);
    }
    if !bytes.starts_with(b"RIFF") || &bytes[8..12] != b"WAVE" {
        return Err(Unreadable);
    }
    let (mut at, mut form) = (12_usize, None);
    loop {
        let Some(head) = bytes.get(at..at + 8) else { return Ok(None) };
        let size = usize::try_from(u32::from_le_bytes([head[4], head[5], head[6], head[7]])).map_err(|_| Unreadable)?;
        if &head[..4] == b"data" {
            return form.map(|form| Some((form, at + 8))).ok_or(Unreadable);
        }
        if size > HEAD_MAX {
            return Err(Unreadable);
        }
        if &head[..4] == b"fmt " {
            let Some(content) = bytes.get(at + 8..at + 24).filter(|_| size >= 16) else {
                return if size < 16 { Err(Unreadable) } else { Ok(None) };
            };
            form = Some(format_of(content).ok_or(Unreadable)?);
        }
        // Parts begin at even positions.
        at += 8 + size + size % 2;
    }
}

/// Reads the form of uncompressed samples of 16 bits.
fn format_of(content: &[u8]) -> Option<Form> {
    let short = |at: usize| u16::from_le_bytes([content[at], content[at + 1]]);
    let rate = u32::from_le_bytes([content[4], content[5], content[6], content[7]]);
    // An extensible header names the same form elsewhere.
    let is_plain = matches!(short(0), 1 | 0xfffe) && short(14) == 16;
    let channels = usize::from(short(2));
    (is_plain && RATES.contains(&rate) && matches!(channels, 1 | 2)).then_some(Form { rate, channels })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rate: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
        let mut file = b"RIFF\xff\xff\xff\x7fWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0".to_vec();
        file.extend(channels.to_le_bytes());
        file.extend(rate.to_le_bytes());
        file.extend([0; 6]);
        file.extend(16_u16.to_le_bytes());
        file.extend(b"data\xff\xff\xff\x7f");
        file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        file
    }

    fn converted(file: &[u8], piece: usize) -> Vec<i16> {
        let mut samples = Samples::new(Format::Wav);
        let mut all: Vec<i16> = Vec::new();
        for piece in file.chunks(piece) {
            all.extend(samples.push(piece).unwrap().iter().flat_map(|frame| frame.iter()));
        }
        all.extend(samples.end().iter().flat_map(|frame| frame.iter()));
        all
    }

    #[test]
    fn a_tone_keeps_its_length_pitch_and_loudness_in_pieces_of_any_size() {
        let tone: Vec<i16> = (0..22_050)
            .map(|at| {
                let phase = f64::from(at) / 22_050.0 * 440.0 * std::f64::consts::TAU;
                #[expect(clippy::cast_possible_truncation, reason = "it fits")]
                let sample = (phase.sin() * 10_000.0) as i16;
                sample
            })
            .collect();
        let whole = converted(&file(22_050, 1, &tone), usize::MAX);
        assert!((48_000..=48_000 + FRAME).contains(&whole.len()), "{}", whole.len());
        let crossings = whole.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
        assert!((438..=441).contains(&crossings), "{crossings}");
        assert!((9_900..=10_100).contains(whole.iter().max().unwrap()));
        assert_eq!(converted(&file(22_050, 1, &tone), 7), whole);
        let both: Vec<i16> = tone.iter().flat_map(|sample| [*sample, *sample]).collect();
        assert_eq!(converted(&file(22_050, 2, &both), 1_001), whole);
    }

    #[test]
    fn audio_that_is_no_plain_wav_is_refused() {
        for bad in [
            &b"RIFF....AVI fmt "[..],
            b"RIFF....WAVEdata\0\0\0\0",
            b"RIFF....WAVEfmt \x02\0\0\0\x01\0",
            b"RIFF....WAVEfmt \xff\xff\xff\xff",
            &file(7_999, 1, &[]),
            &file(22_050, 3, &[]),
        ] {
            assert_eq!(Samples::new(Format::Wav).push(bad).err(), Some(Unreadable), "{bad:?}");
        }
        let endless = [&b"RIFF....WAVE"[..], &b"junk\xff\xff\0\0".repeat(20_000)].concat();
        assert_eq!(Samples::new(Format::Wav).push(&endless).err(), Some(Unreadable));
        let compressed = b"ID3\x04\0\0\0\0\0\0\xff\xfb";
        assert_eq!(Samples::new(Format::Mp3).push(compressed).err(), Some(Unreadable));
    }
}
