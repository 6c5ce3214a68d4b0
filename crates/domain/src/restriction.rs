//! Restrictions: who is confined to one channel, until when, and which role has to be given or taken next.
//!
//! Restricted is who holds the role, and who has a record and joined the community after it was made: platforms forget the roles of
//! members who leave. A record says until when, and only roles with a record are ever taken: what a moderator gave stays, and what a
//! moderator took from a member who stayed is not given again. A record is written before the role is given, so a crash between the two leaves too little, never a
//! restriction without an end.

use super::ids::{Person, Place, Timestamp};

pub mod book;

/// What an operator decided about restrictions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The role that marks a restricted member.
    pub role: String,
    /// The only channel in which they are answered; none means nowhere.
    pub channel: Option<String>,
}

impl Rules {
    /// Whether somebody with these roles is not answered in this place.
    #[must_use]
    pub fn confine(&self, roles: &[String], place: &Place, parent: Option<&Place>) -> bool {
        roles.contains(&self.role) && !self.answers_in(place, parent)
    }

    /// Whether restricted members are answered in this place. Threads belong to their channel.
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

/// A role that a member gets or loses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appointment {
    /// Who.
    pub member: Member,
    /// The role's id.
    pub role: String,
    /// What the platform's own audit log says of it.
    pub reason: String,
}

/// Until when, as the record says it: seconds since the Unix epoch, with or without a fraction. None for anything else.
#[must_use]
pub fn parse_until(text: &str) -> Option<Timestamp> {
    let seconds: f64 = text.trim().parse().ok()?;
    let sane = seconds.is_finite() && (0.0..1e12).contains(&seconds);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    sane.then_some(Timestamp((seconds * 1000.0) as u64))
}

/// The same as it is written: whole seconds, so that what is read back is not later than what was said.
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
        let rules = Rules { role: "12".into(), channel: Some("42".into()) };
        let (held, other) = (vec!["9".to_owned(), "12".to_owned()], vec!["9".to_owned()]);
        let at = |id: &str| Place::new(DOOR, id);
        assert!(rules.confine(&held, &at("43"), None));
        assert!(!rules.confine(&other, &at("43"), None));
        assert!(!rules.confine(&held, &at("42"), None));
        assert!(!rules.confine(&held, &at("99"), Some(&at("42"))));
        assert!(rules.confine(&held, &at("99"), Some(&at("43"))));
        assert!(Rules { channel: None, ..rules }.confine(&held, &at("42"), None));
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
