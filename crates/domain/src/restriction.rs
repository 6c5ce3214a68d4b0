//! Restrictions: the members confined to one channel, the end of each confinement, and the next role change.
//!
//! A member is restricted if they hold the role, or if they have a record and joined the community after it was made,
//! because platforms drop the roles of members who leave. A record contains the end of the restriction, and the bot
//! removes only roles with a record. So a role given by a moderator stays, and a role that a moderator removed from a
//! present member is not given again. The record is written before the role is given, so a crash between the two leaves
//! a record without a role, never a restriction without an end.

use super::ids::{Person, Place, Timestamp};

pub mod book;
pub mod changes;

/// The rules of restrictions, from the operator's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestrictionRules {
    /// The role that marks a restricted member.
    pub role: String,
    /// The only channel in which restricted members are answered; `None` means nowhere.
    pub channel: Option<String>,
    /// True if the platform has no roles: the record alone restricts a member.
    pub by_record: bool,
}

impl RestrictionRules {
    /// True if a member with these roles is not answered in this place.
    #[must_use]
    pub fn confine(&self, roles: &[String], place: &Place, parent: Option<&Place>) -> bool {
        roles.contains(&self.role) && !self.answers_in(place, parent)
    }

    /// True if restricted members are answered in this place. Threads belong to their channel.
    #[must_use]
    pub fn answers_in(&self, place: &Place, parent: Option<&Place>) -> bool {
        let there = |place: &Place| self.channel.as_deref() == Some(place.id.as_str());
        there(place) || parent.is_some_and(there)
    }
}

/// One person in one community.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The community.
    pub guild: String,
    /// The person.
    pub person: Person,
}

/// A role to give to or remove from a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appointment {
    /// The member.
    pub member: Member,
    /// The role's id.
    pub role: String,
    /// The reason shown in the platform's audit log.
    pub reason: String,
}

/// Parses the end of a restriction from its record: seconds since the Unix epoch, with an optional fraction. Returns
/// `None` for anything else.
#[must_use]
pub fn parse_until(text: &str) -> Option<Timestamp> {
    let seconds: f64 = text.trim().parse().ok()?;
    let sane = seconds.is_finite() && (0.0..1e12).contains(&seconds);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    sane.then_some(Timestamp((seconds * 1000.0) as u64))
}

/// Formats the end of a restriction in whole seconds, rounded down, so that the stored time is not later than the
/// announced time.
#[must_use]
pub fn format_until(until: Timestamp) -> String {
    (until.0 / 1000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Door;

    const DOOR: Door = Door::new("test");

    #[test]
    fn only_holders_of_the_role_are_confined_and_threads_belong_to_their_channel() {
        let rules = RestrictionRules { role: "12".into(), channel: Some("42".into()), by_record: false };
        let (held, other) = (vec!["9".to_owned(), "12".to_owned()], vec!["9".to_owned()]);
        let at = |id: &str| Place::new(DOOR, id);
        assert!(rules.confine(&held, &at("43"), None));
        assert!(!rules.confine(&other, &at("43"), None));
        assert!(!rules.confine(&held, &at("42"), None));
        assert!(!rules.confine(&held, &at("99"), Some(&at("42"))));
        assert!(rules.confine(&held, &at("99"), Some(&at("43"))));
        assert!(RestrictionRules { channel: None, ..rules }.confine(&held, &at("42"), None));
    }

    #[test]
    fn records_are_read_as_the_python_bot_wrote_them() {
        assert_eq!(parse_until("1800000000"), Some(Timestamp(1_800_000_000_000)));
        assert_eq!(parse_until(" 1800000000.5\n"), Some(Timestamp(1_800_000_000_500)));
        for bad in ["", "soon", "-5", "NaN", "inf", "1e300"] {
            assert_eq!(parse_until(bad), None, "{bad}");
        }
        assert_eq!(format_until(Timestamp(1_800_000_000_999)), "1800000000");
    }
}
