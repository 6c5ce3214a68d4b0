//! Whether the roles and channels that the settings name are there, and whether we may do with them what was promised.

use std::collections::HashMap;

use http::Method;
use serde::Deserialize;
use serenity::model::id::RoleId;

use super::{Rest, number};
use domain::rejection::Rejection;
use ports::PostError;

/// May do everything.
const ADMINISTRATOR: u64 = 1 << 3;
/// May give and take roles below the own one.
const MANAGE_ROLES: u64 = 1 << 28;

/// The roles of the communities that were looked at.
#[derive(Debug, Default)]
pub struct Roles(HashMap<String, RoleRights>);

/// What we may do with one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleRights {
    /// Give it and take it.
    Grant,
    /// None: Manage Roles is missing.
    NotAllowed,
    /// Nothing, because no role of ours stands above it.
    TooHigh,
}

/// How a channel looks to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelState {
    /// We see it.
    Seen,
    /// There is none with this id.
    Missing,
    /// It is there, and we may not see it.
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
    /// What we may do with a role; none when no community has it.
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
    /// The roles of these communities.
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

    /// How a channel looks to us.
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
