//! Notices to members about limits.

use super::template::{Filling, fill};
use super::words;
use crate::ids::Timestamp;
use crate::limits::account::Scope;
use crate::locale::Locale;

/// Says that a member is over a limit, and when the next message will be accepted: in the operator's words if they
/// are set. The built-in words are used if the operator's name a channel that does not exist or is not this member's,
/// or if the limit never allows a message. `restricts`: the breach restricts the member.
#[must_use]
pub fn over(template: &str, filling: &Filling<'_>, restricts: bool) -> String {
    let (words, ours) = (words(filling.locale), template == words(Locale::English).limit_over);
    if filling.retry_at.is_none() {
        return words.limit_never.to_owned();
    }
    let names_none = filling.channel_id.is_none() && template.contains("{channel_id}");
    let text = match (restricts, filling.channel_id) {
        _ if !ours && !names_none => template,
        (true, Some(_)) => words.limit_over,
        (true, None) => words.limit_over_nowhere,
        (false, _) => words.limit_over_for_now,
    };
    fill(text, filling)
}

/// Says that the member's running messages may use up the rest of the limit.
#[must_use]
pub const fn wait(locale: Locale) -> &'static str {
    words(locale).limit_wait
}

/// Says that the member's running messages leave too little for this one, and when it will be accepted.
#[must_use]
pub fn little_left(locale: Locale, retry_at: Option<Timestamp>) -> String {
    fill(words(locale).limit_over_for_now, &Filling { locale, retry_at, ..Filling::default() })
}

/// Tells a member that an account has no room for their message, and when it will have some.
#[must_use]
pub fn account_full(scope: Scope, locale: Locale, retry_at: Option<Timestamp>) -> String {
    let words = words(locale);
    let text = match scope {
        _ if retry_at.is_none() => words.limit_never,
        Scope::Member | Scope::Key => words.limit_over_for_now,
        Scope::Role | Scope::Channel | Scope::Tool | Scope::Guild => words.limit_shared,
    };
    fill(text, &Filling { locale, retry_at, ..Filling::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Timestamp;

    #[test]
    fn the_notice_that_nobody_wrote_is_in_the_language_of_the_place() {
        let retry_at = Some(Timestamp(1_800_000_000_000));
        let german =
            Filling { channel_id: Some("42"), user: "Ada", retry_at, locale: Locale::German, ..Filling::default() };
        let ours = words(Locale::English).limit_over;
        let told = over(ours, &german, true);
        assert!(
            told.starts_with("Du hast das Limit") && told.contains("<#42>") && told.contains("<t:1800000000:R>"),
            "{told}"
        );
        assert_eq!(over("My own, {user}.", &german, true), "My own, Ada.");
    }

    #[test]
    fn a_full_account_says_whether_others_share_it() {
        let at = Some(Timestamp(1_800_000_000_000));
        let told = |scope, at| account_full(scope, Locale::English, at);
        assert_eq!(told(Scope::Member, at), "You have reached the limit for now; I can answer again <t:1800000000:R>.");
        let shared = "The limit that all members share here is used up; I can answer again <t:1800000000:R>.";
        assert_eq!(told(Scope::Guild, at), shared);
        assert_eq!(told(Scope::Guild, None), "The limits here do not allow me to answer you.");
    }

    #[test]
    fn members_hear_when_they_are_answered_again() {
        let template = "Enough, {user}. Go to <#{channel_id}>; again {retry_at}.";
        let retry_at = Some(Timestamp(1_800_000_000_000));
        let known = Filling { channel_id: Some("42"), user: "Ada", retry_at, ..Filling::default() };
        assert_eq!(over(template, &known, true), "Enough, Ada. Go to <#42>; again <t:1800000000:R>.");
        let nowhere = Filling { channel_id: None, ..known };
        let said = "You have reached the limit for now; I can answer again <t:1800000000:R>.";
        assert_eq!(over(template, &nowhere, false), said);
        assert_eq!(over("Enough, {user}.", &nowhere, true), "Enough, Ada.");
        assert_eq!(
            over(template, &Filling { retry_at: None, ..known }, true),
            "The limits here do not allow me to answer you."
        );
    }

    #[test]
    fn the_notice_that_nobody_wrote_promises_only_what_will_be() {
        let ours = words(Locale::English).limit_over;
        let (retry_at, until) = (Some(Timestamp(1_800_000_000_000)), Some(Timestamp(1_800_086_400_000)));
        let confined = Filling { channel_id: Some("42"), user: "Ada", retry_at, until, ..Filling::default() };
        let nowhere = Filling { channel_id: None, ..confined };
        let moderator = Filling { until: None, ..confined };
        for (filling, restricts, said) in [
            (
                &confined,
                true,
                "You have reached the limit. I can answer you again <t:1800000000:R>, but only in <#42> until 2027-01-16 08:00 UTC.",
            ),
            (
                &moderator,
                true,
                "You have reached the limit. I can answer you again <t:1800000000:R>, but only in <#42> until a moderator lifts the restriction.",
            ),
            (&nowhere, true, "You have reached the limit; I cannot answer you until 2027-01-16 08:00 UTC."),
            (&confined, false, "You have reached the limit for now; I can answer again <t:1800000000:R>."),
            (&nowhere, false, "You have reached the limit for now; I can answer again <t:1800000000:R>."),
        ] {
            assert_eq!(over(ours, filling, restricts), said);
        }
    }
}
