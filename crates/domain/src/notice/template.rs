//! Operators' sentences with placeholders.

use std::fmt::Write as _;

use super::words;
use crate::ids::Timestamp;
use crate::locale::Locale;
use crate::prompt;

/// The values for a template.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filling<'a> {
    /// The language of the values.
    pub locale: Locale,
    /// The value of `{channel_id}`: the channel in which restricted members are answered.
    pub channel_id: Option<&'a str>,
    /// The value of `{user}`: the name of the member.
    pub user: &'a str,
    /// The value of `{until}`: the end of the restriction. `None` if only a moderator ends it.
    pub until: Option<Timestamp>,
    /// The value of `{retry_at}`: the time when the next message will be accepted.
    pub retry_at: Option<Timestamp>,
}

/// Fills in the template. Nothing is appended, and placeholders in a member's name are not replaced.
#[must_use]
pub fn fill(template: &str, filling: &Filling<'_>) -> String {
    let mut text = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        // A brace followed by another opening brace does not begin a placeholder.
        let end = match rest[1..].find(['{', '}']) {
            Some(next) if rest[1 + next..].starts_with('}') => next + 2,
            Some(_) | None => 1,
        };
        match &rest[..end] {
            "{channel_id}" => text.push_str(filling.channel_id.unwrap_or_default()),
            "{user}" => text.push_str(crate::clean::clean(filling.user, prompt::MAX_NAME_CHARS).trim()),
            "{until}" => {
                text.push_str(&filling.until.map_or_else(|| words(filling.locale).until_lifted.to_owned(), moment));
            }
            "{retry_at}" => {
                text.push_str(&filling.retry_at.map_or_else(|| words(filling.locale).later.to_owned(), countdown));
            }
            other => text.push_str(other),
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
    text
}

/// Formats a time for people.
#[must_use]
pub fn moment(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.unwrap_or(jiff::Timestamp::MAX).strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Formats a time as a countdown that the platform renders in the reader's language: `<t:..:R>`, in whole seconds,
/// rounded up. A door without countdowns replaces it with [`spelled_out`].
#[must_use]
pub fn countdown(at: Timestamp) -> String {
    format!("<t:{}:R>", at.0.div_ceil(1_000))
}

/// Replaces each countdown by words, for a door without countdowns.
#[must_use]
pub fn spelled_out(text: &str, now: Timestamp) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<t:") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let inside = &rest[3..];
        // Only digits are read, so an unterminated mark causes no search.
        let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = inside.split_at(digits);
        let (Ok(seconds), Some(after)) = (number.parse::<u64>(), after.strip_prefix(":R>")) else {
            out.push_str("<t:");
            rest = inside;
            continue;
        };
        let left = seconds.saturating_sub(now.0 / 1_000);
        // Writing to a string cannot fail.
        let _ = match left {
            0 => write!(out, "now"),
            1..=119 => write!(out, "in {left} s"),
            // Rounded as Discord does: 15 minutes and some seconds are 15 min.
            120..=7_199 => write!(out, "in {} min", (left + 30) / 60),
            _ => write!(out, "in {} h", (left + 1_800) / 3_600),
        };
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_that_are_none_stay_as_they_are() {
        for text in ["<t:R>", "<t::R>", "<t:R", "<t:", "a <t:R> b <t:-1:R>", "<t:99999999999999999999:R>", "<t:+5:R>"] {
            assert_eq!(spelled_out(text, Timestamp(0)), text);
        }
        assert_eq!(spelled_out("<t:R><t:0:R>", Timestamp(0)), "<t:R>now");
    }

    proptest! {
        #[test]
        fn any_text_is_spelled_out(text in "(<t:|[0-9]{1,25}|:R>|R|>|[a-z ]|é|👩){0,60}") {
            let out = spelled_out(&text, Timestamp(1_000));
            prop_assert!(text.contains(":R>") || out == text);
        }
    }

    #[test]
    fn countdowns_are_never_too_early_and_can_be_spelled_out() {
        assert_eq!(countdown(Timestamp(1_800_000_000_000)), "<t:1800000000:R>");
        assert_eq!(countdown(Timestamp(1_800_000_000_001)), "<t:1800000001:R>");
        let spelled = |text: &str| spelled_out(text, Timestamp(1_800_000_000_500));
        assert_eq!(spelled("a <t:1800000042:R>, <t:1800000000:R> b"), "a in 42 s, now b");
        assert_eq!(spelled("<t:1800000121:R> <t:1800007201:R>"), "in 2 min in 2 h");
        assert_eq!(spelled("<t:1800000913:R> <t:1800000931:R>"), "in 15 min in 16 min");
        assert_eq!(spelled("<t:x:R> <t:<t:1800000001:R> <t:"), "<t:x:R> <t:in 1 s <t:");
    }

    #[test]
    fn everything_known_is_filled_in_once_and_nothing_else_is_touched() {
        let filling = Filling {
            locale: Locale::English,
            channel_id: Some("42"),
            user: "{until}",
            until: Some(Timestamp(1_800_000_000_000)),
            retry_at: None,
        };
        let told = fill("{user}: <#{channel_id}> until {until}, {retry_at}; {other} {", &filling);
        assert_eq!(told, "{until}: <#42> until 2027-01-15 08:00 UTC, later; {other} {");
        assert_eq!(fill("plain } words", &filling), "plain } words");
        assert_eq!(fill("{ {channel_id} {{channel_id}}", &filling), "{ 42 {42}", "a stray brace hides nothing");
        let hidden = Filling { user: "Ada\u{200b}\u{e0041} ", ..filling };
        assert_eq!(fill("<{user}>", &hidden), "<Ada>", "names are shown as people see them");
        assert_eq!(fill("until {until}", &Filling::default()), "until a moderator lifts the restriction");
        assert_eq!(moment(Timestamp(u64::MAX)).len(), "9999-12-30 22:00 UTC".len());
    }

    #[test]
    fn any_text_costs_in_proportion_to_its_length() {
        let texts = |size: usize| {
            vec![
                "{".repeat(size),
                "{user}".repeat(size / 6),
                "<t:".repeat(size / 3),
                format!("<t:{}", "1".repeat(size)),
            ]
        };
        cost::grows_linearly(2 * 1024, texts, |texts| {
            for text in &texts {
                drop((fill(text, &Filling::default()), spelled_out(text, Timestamp(1))));
            }
        });
    }
}
