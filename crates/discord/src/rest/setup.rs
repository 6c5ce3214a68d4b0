//! Checks that the configured roles and channels exist and that the bot has the permissions to use them.

use std::collections::HashMap;

use http::Method;
use serde::Deserialize;
use serenity::model::id::RoleId;

use super::{Rest, number};
use domain::rejection::Rejection;
use ports::PostError;

/// The permission bit of administrators.
const ADMINISTRATOR: u64 = 1 << 3;
/// The permission bit for assigning and removing roles below the bot's highest role.
const MANAGE_ROLES: u64 = 1 << 28;

/// The roles of the checked guilds.
#[derive(Debug, Default)]
pub struct Roles(HashMap<String, RoleRights>);

/// The bot's rights over one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleRights {
    /// It can assign and remove the role.
    Grant,
    /// None: Manage Roles is missing.
    NotAllowed,
    /// None, because no role of the bot is above it.
    TooHigh,
}

/// The visibility of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelState {
    /// The bot can see it.
    Seen,
    /// It does not exist.
    Missing,
    /// It exists but is hidden from the bot.
    Hidden,
}

#[derive(Deserialize)]
struct WireRole {
    id: RoleId,
    position: i64,
    permissions: String,
}

#[derive(Deserialize)]
struct WireMember {
    roles: Vec<RoleId>,
}

impl Roles {
    /// Returns the bot's rights over a role, or `None` if no guild has it.
    #[must_use]
    pub fn rights(&self, role: &str) -> Option<RoleRights> {
        self.0.get(role).copied()
    }

    fn add(&mut self, guild: u64, roles: &[WireRole], ours: &[RoleId]) {
        let held = || roles.iter().filter(|role| role.id.get() == guild || ours.contains(&role.id));
        let may = held().filter_map(|role| role.permissions.parse::<u64>().ok()).fold(0, |may, bits| may | bits);
        let top = held().map(|role| role.position).max().unwrap_or(0);
        for role in roles {
            let rights = match may & (ADMINISTRATOR | MANAGE_ROLES) {
                0 => RoleRights::NotAllowed,
                _ if role.position >= top => RoleRights::TooHigh,
                _ => RoleRights::Grant,
            };
            self.0.insert(role.id.to_string(), rights);
        }
    }
}

impl Rest {
    /// Returns the roles of these guilds.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn roles_of(&self, guilds: &[String]) -> Result<Roles, PostError> {
        let me = self.me().await?;
        let mut all = Roles::default();
        for guild in guilds.iter().filter_map(|guild| number(guild)) {
            let path = format!("/guilds/{guild}/roles");
            let roles: Vec<WireRole> = self.send(Method::GET, &path, None).await?.json()?;
            let path = format!("/guilds/{guild}/members/{me}");
            let WireMember { roles: ours } = self.send(Method::GET, &path, None).await?.json()?;
            all.add(guild, &roles, &ours);
        }
        Ok(all)
    }

    /// Returns the visibility of a channel.
    ///
    /// # Errors
    /// See [`PostError`].
    pub async fn channel_state(&self, channel: &str) -> Result<ChannelState, PostError> {
        let Some(channel) = number(channel) else { return Ok(ChannelState::Missing) };
        match self.send(Method::GET, &format!("/channels/{channel}"), None).await.map_err(PostError::from) {
            Ok(_) => Ok(ChannelState::Seen),
            Err(PostError::Rejected { reason: Rejection::PlaceGone, .. }) => Ok(ChannelState::Missing),
            Err(PostError::Rejected { reason: Rejection::Forbidden, .. }) => Ok(ChannelState::Hidden),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(id: u64, position: i64, permissions: u64) -> WireRole {
        WireRole { id: RoleId::new(id), position, permissions: permissions.to_string() }
    }

    #[test]
    fn a_role_can_be_given_with_the_right_and_from_above() {
        let rights = |permissions, position| {
            let mut roles = Roles::default();
            roles.add(5, &[role(5, 0, 0), role(6, 2, permissions), role(12, position, 0)], &[RoleId::new(6)]);
            roles.rights("12")
        };
        assert_eq!(rights(MANAGE_ROLES, 1), Some(RoleRights::Grant));
        assert_eq!(rights(ADMINISTRATOR, 1), Some(RoleRights::Grant));
        assert_eq!(rights(0, 1), Some(RoleRights::NotAllowed));
        assert_eq!(rights(MANAGE_ROLES, 2), Some(RoleRights::TooHigh));
        assert_eq!(Roles::default().rights("12"), None);
    }
}
