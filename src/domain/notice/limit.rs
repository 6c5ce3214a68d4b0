//! What members hear of limits.

use super::template::{Filling, fill};

/// Says the same as the operator's template where there is no channel that it could name.
const WITHOUT_CHANNEL: &str = "You have reached the limit for now; I can answer again {retry_at}.";

/// Says the same where the limit allows nothing at all.
const NEVER: &str = "I may not answer you here.";

/// Tells a member that they are over a limit, and when the next message will be accepted.
#[must_use]
pub fn over(template: &str, filling: &Filling<'_>) -> String {
    if filling.retry_at.is_none() {
        return NEVER.to_owned();
    }
    let names_none = filling.channel_id.is_none() && template.contains("{channel_id}");
    fill(if names_none { WITHOUT_CHANNEL } else { template }, filling)
}

/// Tells a member that their earlier messages may use up all that is left.
#[must_use]
pub const fn wait() -> &'static str {
    "One moment please: I am still working on your earlier messages. Ask me again when I have answered those."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Timestamp;

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
        assert_eq!(over(template, &Filling { retry_at: None, ..known }), NEVER);
    }
}
