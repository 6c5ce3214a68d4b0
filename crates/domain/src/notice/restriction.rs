//! Notices to members and moderators about restrictions.

use super::template::{Filling, fill, moment};
use super::words;
use crate::ids::Timestamp;
use crate::locale::Locale;
use crate::restriction::Member;

/// Says where a restricted member is answered, or that they are not: in the operator's words if they are set and
/// apply.
#[must_use]
pub fn elsewhere(template: &str, filling: &Filling<'_>) -> String {
    let (words, ours) = (words(filling.locale), words(Locale::English).restricted);
    let template = if template == ours { words.restricted } else { template };
    let names_none = filling.channel_id.is_none() && template.contains("{channel_id}");
    fill(if names_none { words.restricted_without_channel } else { template }, filling)
}

/// Says that another account of the same person is restricted.
#[must_use]
pub const fn of_other_account(locale: Locale) -> &'static str {
    words(locale).restricted_elsewhere
}

/// Says in a direct conversation that the account is restricted in a community.
#[must_use]
pub const fn in_community(locale: Locale) -> &'static str {
    words(locale).restricted_in_community
}

/// Reports a restriction to moderators.
#[must_use]
pub fn added(member: &Member, name: Option<&str>, until: Option<Timestamp>) -> String {
    let who = who(member, name);
    let until = until.map_or_else(|| "a moderator lifts it".to_owned(), moment);
    format!("{who} went over the limit and is restricted until {until}.")
}

/// Reports the end of a restriction to moderators.
#[must_use]
pub fn lifted(member: &Member, name: Option<&str>) -> String {
    format!("The restriction of {} has ended.", who(member, name))
}

/// Reports to moderators that a restricted member left.
#[must_use]
pub fn left(member: &Member, name: Option<&str>) -> String {
    format!("{} has left, so the restriction has ended.", who(member, name))
}

/// Reports to moderators that a role could not be assigned or removed.
#[must_use]
pub fn failed(member: &Member, name: Option<&str>, give: bool) -> String {
    let what = if give { "given to" } else { "taken from" };
    let who = who(member, name);
    format!(
        "The role for restrictions could not be {what} {who}. Please grant me Manage Roles and move my role above that role; I will try again."
    )
}

fn who(member: &Member, name: Option<&str>) -> String {
    let id = &member.person.id;
    name.map_or_else(|| format!("Member {id}"), |name| format!("{name} ({id})"))
}

/// The reason in the platform's audit log when the role is assigned.
pub const REASON_ADDED: &str = "Rate limit exceeded";

/// The reason in the platform's audit log when the role is removed.
pub const REASON_LIFTED: &str = "Restriction expired";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, Person};

    #[test]
    fn members_hear_where_and_until_when() {
        let template = "Only in <#{channel_id}>, {user}.";
        let known = Filling { channel_id: Some("42"), user: "Ada", ..Filling::default() };
        assert_eq!(elsewhere(template, &known), "Only in <#42>, Ada.");
        let none = Filling { user: "Ada", ..Filling::default() };
        assert_eq!(elsewhere(template, &none), "I cannot answer you for now, until a moderator lifts the restriction.");
        assert_eq!(elsewhere("Not now, {user}.", &none), "Not now, Ada.");
    }

    #[test]
    fn moderators_hear_who_and_why() {
        let member = Member { guild: "5".into(), person: Person::new(Door::new("test"), "7") };
        let until = Some(Timestamp(1_800_000_000_000));
        let told = added(&member, Some("Ada"), until);
        assert_eq!(told, "Ada (7) went over the limit and is restricted until 2027-01-15 08:00 UTC.");
        assert_eq!(lifted(&member, None), "The restriction of Member 7 has ended.");
        assert_eq!(left(&member, None), "Member 7 has left, so the restriction has ended.");
        assert!(failed(&member, Some("Ada"), true).contains("could not be given to Ada (7)."));
    }
}
