//! Keys of the rate limits. The lists are those of the Python bot.

use crate::key_part::{part, whole};
use crate::limits::account::{Account, Scope};
use crate::limits::{Cost, Member};

/// The prefix of the lists of counted messages.
pub const MESSAGE_LIMIT_PREFIX: &str = "msg_rl:";

/// The prefix of the lists of counted tokens.
pub const TOKEN_LIMIT_PREFIX: &str = "token_rl:";

/// The prefix of the sums of such a pair of lists.
const LIMIT_SUM_PREFIX: &str = "staffai:limit:";

/// The prefix of accounts.
pub const ACCOUNT_PREFIX: &str = "staffai:limit:account:";

/// Returns the keys of a member's lists of counted messages and tokens. They live for the window's length after the
/// last entry. In a cluster, `tagged` keeps both on one node.
#[must_use]
pub fn limit_pair(member: &Member, tagged: bool) -> [String; 2] {
    [MESSAGE_LIMIT_PREFIX, TOKEN_LIMIT_PREFIX]
        .map(|prefix| if tagged { format!("{prefix}{{{member}}}") } else { format!("{prefix}{member}") })
}

/// Returns the key of the sum of a member's two lists, which saves reading them for each decision. It has the same TTL
/// as the lists, and in a cluster the same node.
#[must_use]
pub fn limit_sum(member: &Member, tagged: bool) -> String {
    if tagged { format!("{LIMIT_SUM_PREFIX}{{{member}}}") } else { format!("{LIMIT_SUM_PREFIX}{member}") }
}

/// Returns the key of the entries of an account. They live for the window's length after the last entry. In a cluster,
/// `tagged` keeps all accounts of a community on one node.
#[must_use]
pub fn account(account: &Account, tagged: bool) -> String {
    let Account { scope, cost, window, community, id } = account;
    let community = if tagged { format!("{{{}}}", part(community)) } else { part(community).into_owned() };
    let (scope, cost, seconds) = (scope.as_str(), cost.as_str(), window.as_secs());
    format!("{ACCOUNT_PREFIX}{community}:{scope}:{cost}:{seconds}:{}", part(id))
}

/// Parses the account from an untagged key under [`ACCOUNT_PREFIX`].
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

/// Parses the member from a key under [`TOKEN_LIMIT_PREFIX`].
#[must_use]
pub fn parse_token_limit(key: &str) -> Option<Member> {
    key.strip_prefix(TOKEN_LIMIT_PREFIX).map(Member::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, Person};

    #[test]
    fn limits_keep_the_keys_of_the_python_bot() {
        let member = Member::of(&Person::new(Door::new("discord"), "7"), Some("5"));
        assert_eq!(limit_pair(&member, false), ["msg_rl:5:7", "token_rl:5:7"]);
        assert_eq!(limit_pair(&member, true), ["msg_rl:{5:7}", "token_rl:{5:7}"]);
        assert_eq!(
            (limit_sum(&member, false), limit_sum(&member, true)),
            ("staffai:limit:5:7".into(), "staffai:limit:{5:7}".into())
        );
        assert_eq!(parse_token_limit("token_rl:5:7"), Some(member));
    }
}
