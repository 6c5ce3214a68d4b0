//! Formats of audio, recognized by their first bytes.

/// A format of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// RIFF with samples. The lengths in its header may be placeholders.
    Wav,
    /// MPEG layer 3.
    Mp3,
    /// Opus in Ogg.
    Opus,
    /// FLAC.
    Flac,
    /// Samples alone: 24,000 per second, one channel, 16 bits, little-endian.
    Pcm,
}

/// The number of first bytes that decide about a format.
pub(super) const HEAD: usize = 12;

/// The formats: name in requests, media type.
const ROWS: [(Format, &str, &str); 5] = [
    (Format::Wav, "wav", "audio/wav"),
    (Format::Mp3, "mp3", "audio/mpeg"),
    (Format::Opus, "opus", "audio/ogg"),
    (Format::Flac, "flac", "audio/flac"),
    (Format::Pcm, "pcm", "audio/pcm"),
];

impl Format {
    /// Returns the format of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        ROWS.iter().find(|(_, known, _)| *known == name).map(|(format, ..)| *format)
    }

    /// Returns the names of all formats.
    #[must_use]
    pub fn names() -> String {
        ROWS.map(|(_, name, _)| name).join(", ")
    }

    /// Returns the name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        ROWS.iter().find(|(format, ..)| *format == self).map_or("", |(_, name, _)| name)
    }

    /// Returns the media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        ROWS.iter().find(|(format, ..)| *format == self).map_or("", |(.., media_type)| media_type)
    }

    /// True if it is samples without compression, which voice channels play.
    #[must_use]
    pub const fn is_samples(self) -> bool {
        matches!(self, Self::Wav | Self::Pcm)
    }

    /// True if audio of this format may begin with these bytes.
    pub(super) fn begins(self, head: &[u8]) -> bool {
        match self {
            Self::Wav => head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WAVE"),
            Self::Mp3 => head.starts_with(b"ID3") || matches!(head, [0xff, second, ..] if second & 0xe0 == 0xe0),
            Self::Opus => head.starts_with(b"OggS"),
            Self::Flac => head.starts_with(b"fLaC"),
            // Samples have no mark, but text of a service that failed has.
            Self::Pcm => !head.is_empty() && !head.starts_with(b"{") && !head.starts_with(b"<"),
        }
    }
}
