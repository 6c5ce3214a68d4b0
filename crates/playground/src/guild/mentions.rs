//! Who a message notifies: what its text names, cut down by what its sender allowed.

use serde_json::Value;

use super::{
    ids::{GuildId, RoleId, UserId},
    permissions::MENTION_EVERYONE,
    state::State,
};

/// Mentions of one kind that are looked at in one message, as Discord does.
const MENTIONS_PER_MESSAGE: usize = 100;

/// The `allowed_mentions` of a message. Absent means that everything notifies.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Whether everyone may be notified.
    pub everyone: bool,
    /// Which people may be notified; none means any.
    pub users: Option<Vec<UserId>>,
    /// Which roles may be notified; none means any.
    pub roles: Option<Vec<RoleId>>,
    /// Whether the author of the answered message is notified.
    pub replied_user: bool,
    /// The field as it was sent.
    pub raw: Option<Value>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { everyone: true, users: None, roles: None, replied_user: true, raw: None }
    }
}

impl Allowed {
    /// Reads the field of a request. `None` when the field contradicts itself or is malformed.
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

/// Who is notified.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// People, in the order they are named, each once.
    pub users: Vec<UserId>,
    /// Roles, in the order they are named, each once.
    pub roles: Vec<RoleId>,
    /// Everyone.
    pub everyone: bool,
}

impl Mentions {
    /// What `text` names and `allowed` lets through. `replied` is the author of the answered message.
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

    /// The same without people and roles that do not exist in `guild`, and without everyone and
    /// roles when the author may not notify those.
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
