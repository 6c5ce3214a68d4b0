//! Votes: reactions of members to answers.

/// A reaction that judges an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vote {
    /// Thumbs up.
    Up,
    /// Thumbs down.
    Down,
}

impl Vote {
    /// Returns the vote of an emoji, as a character or by its short name, with any skin tone. `None` for other emoji.
    #[must_use]
    pub fn of(emoji: &str) -> Option<Self> {
        let name = emoji.split_once("::").map_or(emoji, |(name, _)| name);
        match name {
            "+1" | "thumbsup" => Some(Self::Up),
            "-1" | "thumbsdown" => Some(Self::Down),
            _ if emoji.starts_with('\u{1F44D}') => Some(Self::Up),
            _ if emoji.starts_with('\u{1F44E}') => Some(Self::Down),
            _ => None,
        }
    }
}
