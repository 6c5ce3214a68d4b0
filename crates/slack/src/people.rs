//! Names and languages of members, which events do not carry. Read once per hour and member; a member whose data cannot
//! be read is shown by id.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::ids;
use super::web_api::{Arguments, Call, WebApi};

/// The time for which a member's data is used.
const FRESH: Duration = Duration::from_secs(3_600);
/// The time for which a failed reading is not repeated.
const FAILED: Duration = Duration::from_secs(60);
/// The longest wait for a member's data: an event must be acknowledged within three seconds.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The most members remembered.
const MOST: usize = 5_000;
/// The longest name, in characters.
const NAME_MAX: usize = 80;

/// A member's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) name: String,
    pub(super) locale: Option<String>,
    pub(super) bot: bool,
    /// The roles: user groups of the workspace, and `admin` and `owner` for its administrators.
    pub(super) roles: Vec<String>,
    /// True if these are all roles; false if the user groups are unknown.
    pub(super) roles_known: bool,
}

/// The known members.
#[derive(Default)]
pub(super) struct People(Mutex<HashMap<String, (Instant, Profile)>>);

impl People {
    /// Returns a member's data; `team` is our workspace.
    pub(super) async fn get(&self, api: &WebApi, team: &str, user: &str) -> Profile {
        let now = Instant::now();
        let known = self.0.lock().get(user).filter(|(until, _)| *until > now).map(|(_, profile)| profile.clone());
        if let Some(profile) = known {
            return profile;
        }
        let read = timeout(TIMEOUT, read(api, team, user)).await.ok().flatten();
        let lasts = if read.is_some() { FRESH } else { FAILED };
        let profile = read.unwrap_or_else(|| Profile {
            name: user.to_owned(),
            locale: None,
            bot: false,
            roles: Vec::new(),
            roles_known: false,
        });
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(user.to_owned(), (now + lasts, profile.clone()));
        profile
    }
}

impl People {
    /// Writes mentions of members and roles (`<@&S...>`) out as names, so that they notify no member. One without a known
    /// name is shown by id. `handle` returns that of a user group.
    pub(super) fn named(&self, text: &str, handle: impl Fn(&str) -> Option<String>) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("<@") {
            named.push_str(&rest[..start]);
            let inside = &rest[start + 2..];
            let role = inside.strip_prefix('&');
            let inside = role.unwrap_or(inside);
            let length = inside.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let (id, after) = inside.split_at(length);
            if let (true, Some(after)) = (ids::is_id(id), after.strip_prefix('>')) {
                let of_member = || self.0.lock().get(id).map(|(_, profile)| profile.name.clone());
                let known = if role.is_some() { handle(id) } else { of_member() };
                named.push('@');
                named.push_str(known.as_deref().unwrap_or(id));
                rest = after;
            } else {
                named.push_str(if role.is_some() { "<@&" } else { "<@" });
                rest = inside;
            }
        }
        named.push_str(rest);
        named
    }
}

async fn read(api: &WebApi, team: &str, user: &str) -> Option<Profile> {
    #[derive(Deserialize)]
    struct Told {
        user: User,
    }
    #[derive(Deserialize)]
    struct User {
        #[serde(default)]
        name: String,
        #[serde(default)]
        real_name: String,
        #[serde(default)]
        team_id: String,
        #[serde(default)]
        is_bot: bool,
        #[serde(default)]
        is_admin: bool,
        #[serde(default)]
        is_owner: bool,
        #[serde(default)]
        locale: Option<String>,
        #[serde(default)]
        profile: Names,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        display_name: String,
        real_name: String,
    }
    let arguments: Arguments<'_> = vec![("user", user.into()), ("include_locale", "true".into())];
    let Told { user: told } = api.call(Call::reads("users.info"), arguments).await.ok()?;
    let names = [told.profile.display_name, told.profile.real_name, told.real_name, told.name];
    let name = names.into_iter().find(|name| !name.trim().is_empty()).unwrap_or_else(|| user.to_owned());
    // In a shared channel, a member may be an administrator of another workspace.
    let own = told.team_id == team;
    let roles = [(own && told.is_admin, "admin"), (own && told.is_owner, "owner")];
    let roles = roles.into_iter().filter(|(is, _)| *is).map(|(_, role)| role.to_owned()).collect();
    Some(Profile {
        name: name.chars().take(NAME_MAX).collect(),
        locale: told.locale,
        bot: told.is_bot,
        roles,
        roles_known: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_become_names() {
        let people = People::default();
        let profile =
            Profile { name: "Ann".to_owned(), locale: None, bot: false, roles: Vec::new(), roles_known: true };
        people.0.lock().insert("U1".to_owned(), (Instant::now(), profile));
        let named = |text: &str| people.named(text, |id| (id == "S1").then(|| "crew".to_owned()));
        assert_eq!(named("<@U1> and <@U2>, <@>, <@U1"), "@Ann and @U2, <@>, <@U1");
        assert_eq!(named("<@&S1>, <@&S2>, <@&admin>"), "@crew, @S2, @admin");
        assert_eq!(named("<@&> <@&S1 <@&é>"), "<@&> <@&S1 <@&é>");
    }
}
