//! Keys of what limits count. The lists are those of the Python bot.

use super::{legacy, part, whole};
use crate::ids::{Person, TurnId};
use crate::limits::account::{Account, Scope};
use crate::limits::{Cost, Member};

/// How all lists of counted messages begin.
pub const MESSAGE_LIMIT_PREFIX: &str = "msg_rl:";

/// How all lists of counted tokens begin.
pub const TOKEN_LIMIT_PREFIX: &str = "token_rl:";

/// How all sums of such a pair of lists begin.
const LIMIT_SUM_PREFIX: &str = "staffai:limit:";

/// How all accounts begin.
pub const ACCOUNT_PREFIX: &str = "staffai:limit:account:";

/// Stands for the community where there is none.
const NO_GUILD: &str = "direct";

/// Whose messages and tokens are counted together: one person in one community.
///
/// On Discord the parts are the bare ids, as the Python bot wrote them; other doors qualify each with their name.
#[must_use]
pub fn limited(person: &Person, guild: Option<&str>) -> Member {
    let guild = legacy(&person.door, guild.unwrap_or(NO_GUILD));
    Member::new(format!("{guild}:{}", legacy(&person.door, &person.id)))
}

/// The lists of counted messages and of counted tokens of a member. They live as long as the window after the last entry. Where
/// keys are spread over servers, `tagged` keeps the two together.
#[must_use]
pub fn limit_pair(member: &Member, tagged: bool) -> [String; 2] {
    [MESSAGE_LIMIT_PREFIX, TOKEN_LIMIT_PREFIX]
        .map(|prefix| if tagged { format!("{prefix}{{{member}}}") } else { format!("{prefix}{member}") })
}

/// What sums up the two lists of a member, so that they need not be read for each decision. It lives as long as they do, beside
/// them where keys are spread over servers.
#[must_use]
pub fn limit_sum(member: &Member, tagged: bool) -> String {
    if tagged { format!("{LIMIT_SUM_PREFIX}{{{member}}}") } else { format!("{LIMIT_SUM_PREFIX}{member}") }
}

/// The community of a person's accounts, as keys write it.
#[must_use]
pub fn community(person: &Person, guild: Option<&str>) -> String {
    legacy(&person.door, guild.unwrap_or(NO_GUILD))
}

/// The entries of an account. They live as long as its window after the last entry. Where keys are spread over servers, `tagged`
/// keeps all accounts of a community together.
#[must_use]
pub fn account(account: &Account, tagged: bool) -> String {
    let Account { scope, cost, window, community, id } = account;
    let community = if tagged { format!("{{{}}}", part(community)) } else { part(community).into_owned() };
    let (scope, cost, seconds) = (scope.as_str(), cost.as_str(), window.as_secs());
    format!("{ACCOUNT_PREFIX}{community}:{scope}:{cost}:{seconds}:{}", part(id))
}

/// The account that a key found under [`ACCOUNT_PREFIX`] names, where keys are not spread over servers.
#[must_use]
pub fn parse_account(key: &str) -> Option<Account> {
    let mut fields = key.strip_prefix(ACCOUNT_PREFIX)?.splitn(5, ':');
    let community = whole(fields.next()?);
    let scope: Scope = fields.next()?.parse().ok()?;
    let word = fields.next()?;
    let cost = Cost::ALL.into_iter().find(|cost| cost.as_str() == word)?;
    let window = std::time::Duration::from_secs(fields.next()?.parse().ok()?);
    let id = whole(fields.next()?);
    Some(Account { scope, cost, window, community: community.into(), id: id.into() })
}

/// The member that a key found under [`TOKEN_LIMIT_PREFIX`] names.
#[must_use]
pub fn parse_token_limit(key: &str) -> Option<Member> {
    key.strip_prefix(TOKEN_LIMIT_PREFIX).map(Member::new)
}

/// A turn as a part of an entry of those lists.
#[must_use]
pub fn limit_turn(turn: &TurnId) -> String {
    let mut out = part(turn.door.as_str()).into_owned();
    out.push_str("%3A");
    out.push_str(&part(&turn.id));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, MessageId};

    const DISCORD: Door = Door::new("discord");
    const API: Door = Door::new("api");

    #[test]
    fn limits_keep_the_keys_of_the_python_bot() {
        let member = limited(&Person::new(DISCORD, "7"), Some("5"));
        assert_eq!(limit_pair(&member, false), ["msg_rl:5:7", "token_rl:5:7"]);
        assert_eq!(limit_pair(&member, true), ["msg_rl:{5:7}", "token_rl:{5:7}"]);
        assert_eq!(
            (limit_sum(&member, false), limit_sum(&member, true)),
            ("staffai:limit:5:7".into(), "staffai:limit:{5:7}".into())
        );
        assert_eq!(parse_token_limit("token_rl:5:7"), Some(member));
        let elsewhere = limited(&Person::new(API, "a:b"), None);
        assert_eq!(elsewhere.as_str(), "api:direct:api:a%3Ab");
        assert_eq!(limit_turn(&TurnId::of(&MessageId::new(API, "a:b"))), "api%3Aa%3Ab");
    }
}
