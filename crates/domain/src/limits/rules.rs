//! The operator's rules: the limits that apply to each member and place.

use std::collections::HashSet;
use std::time::Duration;

use super::Limits;

/// The rules set by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRules {
    /// The default limits.
    pub base: Limits,
    /// The limits of holders of a role, by role id.
    pub roles: Vec<(String, Limits)>,
    /// The limits of a channel and its threads, by channel id.
    pub channels: Vec<(String, Limits)>,
    /// The ids of the roles whose holders are counted but never refused.
    pub exempt: HashSet<String>,
    /// The length of the window of both limits.
    pub window: Duration,
}

/// The rules that apply to one member in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The limits.
    pub limits: Limits,
    /// True if the member is counted but never refused.
    pub exempt: bool,
}

impl LimitRules {
    /// Returns the rules for a member with these roles in this place below this parent. Limits of roles take precedence
    /// over limits of channels, and those over the default. Of several roles, the most generous value applies, for each
    /// limit separately. A thread has the limits of its channel unless it has its own.
    #[must_use]
    pub fn of(&self, roles: &[String], place: &str, parent: Option<&str>) -> Applied {
        let exempt = roles.iter().any(|role| self.exempt.contains(role));
        let held = self.roles.iter().filter(|(id, _)| roles.contains(id)).map(|(_, limits)| *limits);
        let role = held.reduce(|one, other| Limits {
            messages: one.messages.max(other.messages),
            tokens: one.tokens.max(other.tokens),
        });
        let channel = |place: &str| self.channels.iter().find(|(id, _)| id == place).map(|(_, limits)| *limits);
        let limits = role.or_else(|| channel(place)).or_else(|| channel(parent?)).unwrap_or(self.base);
        Applied { limits, exempt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(messages: u32, tokens: u64) -> Limits {
        Limits { messages, tokens }
    }

    fn rules() -> LimitRules {
        LimitRules {
            base: limits(15, 20_000),
            roles: vec![("new".into(), limits(3, 50)), ("old".into(), limits(2, 70)), ("vip".into(), limits(100, 60))],
            channels: vec![("busy".into(), limits(5, 500)), ("thread".into(), limits(6, 600))],
            exempt: ["staff".to_owned()].into(),
            window: Duration::from_secs(60),
        }
    }

    fn of(roles: &[&str], place: &str, parent: Option<&str>) -> (u32, u64, bool) {
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        let Applied { limits, exempt } = rules().of(&roles, place, parent);
        (limits.messages, limits.tokens, exempt)
    }

    #[test]
    fn the_most_generous_role_wins_and_goes_before_the_channel() {
        assert_eq!(of(&[], "general", None), (15, 20_000, false));
        assert_eq!(of(&["someone"], "busy", None), (5, 500, false));
        assert_eq!(of(&["new"], "general", None), (3, 50, false));
        assert_eq!(of(&["new", "old"], "busy", None), (3, 70, false));
        assert_eq!(of(&["old", "vip"], "busy", None), (100, 70, false));
    }

    #[test]
    fn a_thread_has_the_limits_of_its_channel_unless_it_has_its_own() {
        assert_eq!(of(&[], "another", Some("busy")), (5, 500, false));
        assert_eq!(of(&[], "thread", Some("busy")), (6, 600, false));
        assert_eq!(of(&[], "another", Some("general")), (15, 20_000, false));
    }

    #[test]
    fn super_roles_are_exempt_whatever_else_they_hold() {
        assert_eq!(of(&["new", "staff"], "busy", None), (3, 50, true));
    }
}
