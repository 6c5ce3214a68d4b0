//! The answers to `/join`, `/leave` and `/listen`, and the notices in voice channels.

use super::words;
use crate::locale::Locale;
use crate::voice_channel::{VoiceNotice, VoiceReply};

/// Returns the description of the option of `/listen`, at most 100 characters.
#[must_use]
pub const fn switch(locale: Locale) -> &'static str {
    words(locale).switch
}

/// Answers a command about voice channels.
#[must_use]
pub fn voice(reply: VoiceReply, locale: Locale) -> &'static str {
    (words(locale).voice)(reply)
}

/// Returns the text of a notice in a voice channel.
#[must_use]
pub fn voice_notice(notice: &VoiceNotice<'_>, locale: Locale) -> String {
    (words(locale).voice_notice)(notice)
}
