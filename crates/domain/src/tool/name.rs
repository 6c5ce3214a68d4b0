//! The tool names that models use in calls.

use crate::hex::hex;
use sha2::{Digest, Sha256};

use super::Source;

/// The maximum length of a name, in bytes; providers accept `^[A-Za-z0-9_-]{1,64}$`.
pub const NAME_MAX: usize = 64;
/// The number of hash digits at the end of a changed name.
const HASH_DIGITS: usize = 8;

/// Returns the name of a tool in calls: its own name for a built-in tool, `<server>__<tool>` for a tool of a server. A
/// name that providers would reject is changed and ends with a hash of the original, so equal tools always have equal
/// names.
#[must_use]
pub fn callable(source: &Source, name: &str) -> String {
    let whole = match source {
        Source::BuiltIn => name.to_owned(),
        Source::Server(server) => format!("{server}__{name}"),
    };
    let legal: String = whole.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    if legal == whole && !legal.is_empty() && legal.len() <= NAME_MAX {
        return legal;
    }
    let hash = hex(&Sha256::digest(whole.as_bytes()));
    let kept: String = legal.chars().take(NAME_MAX - HASH_DIGITS - 1).collect();
    format!("{kept}_{}", &hash[..HASH_DIGITS])
}

const fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns a canonical form that visually confusable names share.
#[must_use]
pub fn skeleton(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .map(|c| match c.to_ascii_lowercase() {
            '0' => 'o',
            '1' | 'i' => 'l',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::ServerName;
    use super::*;

    fn of_server(server: &str, name: &str) -> String {
        callable(&Source::Server(ServerName::new(server)), name)
    }

    #[test]
    fn legal_names_stay() {
        assert_eq!(callable(&Source::BuiltIn, "roll_dice"), "roll_dice");
        assert_eq!(of_server("time", "get_current_time"), "time__get_current_time");
        assert_eq!(of_server("a-b", "C_d"), "a-b__C_d");
    }

    #[test]
    fn illegal_names_become_legal_and_stay_apart() {
        let names = [
            of_server("docs", "search.all"),
            of_server("docs", "search all"),
            of_server("docs", "search_all"),
            of_server("docs", &"x".repeat(100)),
            of_server("docs", &"x".repeat(101)),
            of_server("docs", "suche nach ä"),
            of_server("docs", ""),
        ];
        for name in &names {
            assert!((1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_legal), "{name}");
        }
        let apart: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(apart.len(), names.len(), "{names:?}");
        assert_eq!(names[0], of_server("docs", "search.all"), "the same tool has the same name each time");
    }

    #[test]
    fn names_that_look_alike_share_a_skeleton() {
        assert_eq!(skeleton("GitHub__list-repos"), skeleton("g1thub__listrepos"));
        assert_ne!(skeleton("github__list"), skeleton("gitlab__list"));
    }
}
