//! What members hear of limits.

use super::template::{Filling, fill};
use super::words;
use crate::domain::locale::Locale;

/// Tells a member that they are over a limit, and when the next message will be accepted: in the operator's words where there
/// are any. Where there is no channel that they could name, or nothing is ever allowed, it says so in ours.
#[must_use]
pub fn over(template: &str, filling: &Filling<'_>) -> String {
    let (words, ours) = (words(filling.locale), words(Locale::English).limit_over);
    if filling.retry_at.is_none() {
        return words.limit_never.to_owned();
    }
    let template = if template == ours { words.limit_over } else { template };
    let names_none = filling.channel_id.is_none() && template.contains("{channel_id}");
    fill(if names_none { words.limit_over_without_channel } else { template }, filling)
}

/// Tells a member that their earlier messages may use up all that is left.
#[must_use]
pub const fn wait(locale: Locale) -> &'static str {
    words(locale).limit_wait
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Timestamp;

    #[test]
    fn the_notice_that_nobody_wrote_is_in_the_language_of_the_place() {
        let retry_at = Some(Timestamp(1_800_000_000_000));
        let german =
            Filling { channel_id: Some("42"), user: "Ada", retry_at, locale: Locale::German, ..Filling::default() };
        let told = over(words(Locale::English).limit_over, &german);
        assert!(
            told.starts_with("Du hast das Limit") && told.contains("<#42>") && told.contains("<t:1800000000:R>"),
            "{told}"
        );
        assert_eq!(over("My own, {user}.", &german), "My own, Ada.");
    }

    #[test]
    fn members_hear_when_they_are_answered_again() {
        let template = "Enough, {user}. Go to <#{channel_id}>; again {retry_at}.";
        let retry_at = Some(Timestamp(1_800_000_000_000));
        let known = Filling { channel_id: Some("42"), user: "Ada", retry_at, ..Filling::default() };
        assert_eq!(over(template, &known), "Enough, Ada. Go to <#42>; again <t:1800000000:R>.");
        let nowhere = Filling { channel_id: None, ..known };
        let said = "You have reached the limit for now; I can answer again <t:1800000000:R>.";
        assert_eq!(over(template, &nowhere), said);
        assert_eq!(over("Enough, {user}.", &nowhere), "Enough, Ada.");
        assert_eq!(over(template, &Filling { retry_at: None, ..known }), "I may not answer you here.");
    }
}
