//! The address for adding the bot to a guild.
//!
//! Source: Discord's `OAuth2` documentation, "Bot Authorization Flow" and "Permissions".

/// The permission that includes every other one.
pub(super) const ADMINISTRATOR: u64 = 1 << 3;
/// The permissions that answering in a channel requires, with their names in Discord's settings.
pub(super) const NEEDED: [(u64, &str); 6] = [
    (1 << 10, "View Channels"),
    (1 << 11, "Send Messages"),
    (1 << 38, "Send Messages in Threads"),
    (1 << 14, "Embed Links"),
    (1 << 15, "Attach Files"),
    (1 << 16, "Read Message History"),
];
/// Add Reactions: a refusal after the first one in a window is a reaction.
const ADD_REACTIONS: u64 = 1 << 6;
/// Manage Roles: restricted members get a role.
const MANAGE_ROLES: u64 = 1 << 28;

/// Returns the invite address of an application. It asks for the permissions to answer and react, and for Manage Roles
/// if the settings name a role for restricted members (`restricts`).
#[must_use]
pub fn address(application: &str, restricts: bool) -> String {
    let needed = NEEDED.iter().fold(ADD_REACTIONS, |all, (bit, _)| all | bit);
    let permissions = if restricts { needed | MANAGE_ROLES } else { needed };
    format!(
        "https://discord.com/oauth2/authorize?client_id={application}&scope=bot%20applications.commands&permissions={permissions}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invite_asks_for_what_the_bot_uses_and_no_more() {
        let permissions = |address: &str| address.rsplit_once('=').unwrap().1.parse::<u64>().unwrap();
        let plain = address("42", false);
        assert!(plain.contains("client_id=42&scope=bot%20applications.commands&"), "{plain}");
        assert_eq!(permissions(&plain), 1 << 6 | 1 << 10 | 1 << 11 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 38);
        assert_eq!(permissions(&address("42", true)), permissions(&plain) | 1 << 28);
        assert_eq!(permissions(&plain) & ADMINISTRATOR, 0);
    }
}
