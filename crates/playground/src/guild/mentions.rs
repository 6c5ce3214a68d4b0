//! Determines the members whom a message notifies: the mentions in its text, limited by the sender.

use serde_json::Value;

use super::{
    ids::{GuildId, RoleId, UserId},
    permissions::MENTION_EVERYONE,
    state::State,
};

/// Maximum number of mentions of one kind in a message, as on Discord.
const MENTIONS_PER_MESSAGE: usize = 100;

/// The `allowed_mentions` of a message. If absent, all mentions notify.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// True if all members may be notified.
    pub everyone: bool,
    /// The users who may be notified; `None` for any.
    pub users: Option<Vec<UserId>>,
    /// The roles that may be notified; `None` for any.
    pub roles: Option<Vec<RoleId>>,
    /// True to notify the author of the message that it replies to.
    pub replied_user: bool,
    /// The field as sent.
    pub raw: Option<Value>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { everyone: true, users: None, roles: None, replied_user: true, raw: None }
    }
}

impl Allowed {
    /// Parses the field of a request. Returns `None` if it is contradictory or malformed.
    #[must_use]
    pub fn read(raw: Option<&Value>) -> Option<Self> {
        let Some(raw) = raw.filter(|raw| !raw.is_null()) else {
            return Some(Self::default());
        };
        let object = raw.as_object()?;
        let parse = match object.get("parse") {
            None | Some(Value::Null) => Vec::new(),
            Some(list) => list.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?,
        };
        let all = |what: &str| parse.contains(&what);
        let listed = |what: &str| -> Option<Option<Vec<u64>>> {
            let ids = match object.get(what) {
                None | Some(Value::Null) => Vec::new(),
                Some(list) => list.as_array()?.iter().map(id).collect::<Option<Vec<_>>>()?,
            };
            match (all(what), ids.is_empty()) {
                (true, true) => Some(None),
                (true, false) => None,
                (false, _) if ids.len() > MENTIONS_PER_MESSAGE => None,
                (false, _) => Some(Some(ids)),
            }
        };
        Some(Self {
            everyone: all("everyone"),
            users: listed("users")?.map(|ids| ids.into_iter().map(UserId).collect()),
            roles: listed("roles")?.map(|ids| ids.into_iter().map(RoleId).collect()),
            replied_user: object.get("replied_user").and_then(Value::as_bool).unwrap_or(false),
            raw: Some(raw.clone()),
        })
    }
}

fn id(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The notified subjects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Users, in order, each once.
    pub users: Vec<UserId>,
    /// Roles, in order, each once.
    pub roles: Vec<RoleId>,
    /// True for all members.
    pub everyone: bool,
}

impl Mentions {
    /// Returns the mentions in `text` that `allowed` permits. `replied` is the author of the message it replies to.
    #[must_use]
    pub fn of(text: &str, allowed: &Allowed, replied: Option<UserId>) -> Self {
        let mut found = Self {
            everyone: allowed.everyone && (text.contains("@everyone") || text.contains("@here")),
            ..Self::default()
        };
        if let Some(author) = replied.filter(|_| allowed.replied_user) {
            found.users.push(author);
        }
        for (start, _) in text.match_indices("<@") {
            let Some((inside, _)) = text[start + 2..].split_once('>') else {
                break;
            };
            if let Some(number) = inside.strip_prefix('&') {
                let role = number.parse().ok().filter(|role| allowed.roles.as_ref().is_none_or(|ok| ok.contains(role)));
                add(&mut found.roles, role);
            } else {
                let number = inside.strip_prefix('!').unwrap_or(inside);
                let user = number.parse().ok().filter(|user| allowed.users.as_ref().is_none_or(|ok| ok.contains(user)));
                add(&mut found.users, user);
            }
        }
        found
    }

    /// Removes unknown users and roles, and mentions that the author has no permission for.
    #[must_use]
    pub fn known(mut self, state: &State, guild: Option<GuildId>, author: UserId) -> Self {
        self.users.retain(|user| state.member(guild, *user).is_some());
        let guild = guild.and_then(|guild| state.guild(guild));
        let guild = guild.filter(|guild| guild.permissions(author) & MENTION_EVERYONE != 0);
        self.roles.retain(|role| guild.is_some_and(|guild| guild.roles.iter().any(|known| known.id == *role)));
        self.everyone &= guild.is_some();
        self
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: Option<T>) {
    if let Some(item) = item
        && list.len() < MENTIONS_PER_MESSAGE
        && !list.contains(&item)
    {
        list.push(item);
    }
}
