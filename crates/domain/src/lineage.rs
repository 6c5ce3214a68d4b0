//! Where a turn stands among servers that ask each other: who began, which servers it went through, and what is left to give on. Each
//! server signs what it sends with its key at the next one, so a lineage is as true as the holder of that key.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::api_key::{KeyHash, is_name};
use super::ids::{Timestamp, TurnId};
use super::signature::{Signature, SigningKey};
use crate::hex::hex;

/// The longest lineage that is read, in bytes.
pub const LINEAGE_MAX: usize = 4 * 1024;
/// How old a lineage may be when it arrives, or ahead of our clock, in milliseconds.
const WINDOW_MS: u64 = 60 * 1_000;
/// Fewer tokens than this are not given on.
const TOKENS_LEAST: u64 = 500;
/// Less time than this is not given on, in milliseconds.
const TIME_LEAST_MS: u64 = 500;
/// Bytes of the hash that a root is named by.
const ROOT_BYTES: usize = 8;

/// What is left to give on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Servers that may follow, one behind the other.
    pub hops: u32,
    /// Calls of other servers, of all that follow together.
    pub calls: u32,
    /// Tokens, of all that follow together.
    pub tokens: u64,
    /// Time, in milliseconds.
    pub ms: u64,
}

/// What of a budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Spent {
    /// No further server may follow.
    #[error("no further server may be asked in this chain: its depth is used up")]
    Hops,
    /// No further call may be made.
    #[error("no further server may be asked: the calls of this chain are used up")]
    Calls,
    /// Too few tokens are left.
    #[error("no further server may be asked: the tokens of this chain are used up")]
    Tokens,
    /// Too little time is left.
    #[error("no further server may be asked: the time of this chain is used up")]
    Time,
}

impl Budget {
    /// Takes a share for one call: half of the calls and tokens that are left, so that all that follow together never have more than
    /// this. `used` are the tokens that the turn itself used, `ms` the time that is left for the call.
    ///
    /// # Errors
    /// What is used up.
    pub fn share(&mut self, used: u64, ms: u64) -> Result<Self, Spent> {
        let tokens = self.tokens.saturating_sub(used) / 2;
        let share = Self { hops: self.hops.saturating_sub(1), calls: self.calls.saturating_sub(1) / 2, tokens, ms };
        match self {
            Self { hops: 0, .. } => return Err(Spent::Hops),
            Self { calls: 0, .. } => return Err(Spent::Calls),
            _ if tokens < TOKENS_LEAST => return Err(Spent::Tokens),
            _ if ms < TIME_LEAST_MS => return Err(Spent::Time),
            _ => {}
        }
        self.calls -= 1 + share.calls;
        self.tokens -= tokens;
        Ok(share)
    }
}

/// Where a turn stands among servers that ask each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// Names the turn that began, without telling which it is.
    pub root: String,
    /// The names of the servers that it went through, the first one first.
    pub path: Vec<String>,
    /// What is left.
    pub budget: Budget,
    /// When it was signed; on the side of the callee: when it came.
    pub at: Timestamp,
}

/// Why a lineage is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is none.
    #[error("the lineage is not of the form that this server reads")]
    Form,
    /// Whoever asks has no key, so nothing can be checked.
    #[error("a lineage needs a key of this server: staffai key add makes one")]
    NoKey,
    /// It was signed with another key, or for another message.
    #[error("the lineage is not signed with this key for this message")]
    Signature,
    /// It is too old, or of a time to come.
    #[error("the lineage was not signed just now; compare the clocks of both servers")]
    Stale,
    /// It came through too many servers.
    #[error("the chain of servers is longer than {0}, the most that this server takes part in")]
    Deep(usize),
    /// It came through this server.
    #[error("the chain of servers came through {0} before: it would go round for ever")]
    Loop(String),
    /// Nothing is left for this turn.
    #[error("the chain of servers has no tokens or no time left")]
    Spent,
}

/// A server among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name, of the form of a key's name.
    pub name: String,
    /// The longest chain that it takes part in, itself not counted.
    pub depth: usize,
}

/// What is signed besides the lineage.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The session.
    pub session: &'a str,
    /// The text.
    pub text: &'a str,
}

/// The key that the holder of a key signs with: known to who holds the key and to who knows its hash.
fn signing(key: &KeyHash) -> SigningKey {
    SigningKey::new(&format!("lineage {}", key.to_hex()))
}

impl Lineage {
    /// That of a turn which began here.
    #[must_use]
    pub fn begin(us: &str, turn: &TurnId, budget: Budget, at: Timestamp) -> Self {
        let root = hex(&Sha256::digest(format!("{us}\0{turn}"))[..ROOT_BYTES]);
        Self { root, path: Vec::new(), budget, at }
    }

    /// What is sent to the next server: through us, with this share.
    #[must_use]
    pub fn through(&self, us: &str, share: Budget, at: Timestamp) -> Self {
        let path = self.path.iter().cloned().chain([us.to_owned()]).collect();
        Self { root: self.root.clone(), path, budget: share, at }
    }

    /// The lineage as text, and its signature by this key for this message.
    #[must_use]
    pub fn signed(&self, key: &KeyHash, message: Message<'_>) -> (String, String) {
        // Nothing in it can fail to be written.
        let text = serde_json::to_string(self).unwrap_or_default();
        let signature = signing(key).sign(&pieces(&text, message));
        (text, signature)
    }

    /// Reads what a caller with this key sent, and checks it.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn check(
        (text, signature): (&str, &str),
        key: &KeyHash,
        message: Message<'_>,
        us: &Identity,
        now: Timestamp,
    ) -> Result<Self, Refused> {
        if text.len() > LINEAGE_MAX {
            return Err(Refused::Form);
        }
        let signature = Signature::read(signature).ok_or(Refused::Signature)?;
        if !signing(key).signed(&pieces(text, message), &signature) {
            return Err(Refused::Signature);
        }
        let lineage: Self = serde_json::from_str(text).map_err(|_| Refused::Form)?;
        if now.0.abs_diff(lineage.at.0) > WINDOW_MS {
            return Err(Refused::Stale);
        }
        let named = lineage.path.iter().chain([&lineage.root]).all(|name| is_name(name));
        if lineage.path.is_empty() || !named {
            return Err(Refused::Form);
        }
        if lineage.path.contains(&us.name) {
            return Err(Refused::Loop(us.name.clone()));
        }
        if lineage.path.len() > us.depth {
            return Err(Refused::Deep(us.depth));
        }
        if lineage.budget.tokens == 0 || lineage.budget.ms == 0 {
            return Err(Refused::Spent);
        }
        Ok(Self { at: now, ..lineage })
    }

    /// The time that is left of it, in milliseconds.
    #[must_use]
    pub fn left_ms(&self, now: Timestamp) -> u64 {
        self.budget.ms.saturating_sub(now.0.saturating_sub(self.at.0))
    }
}

/// What is signed. A session's name has no line break.
fn pieces<'a>(lineage: &'a str, message: Message<'a>) -> [&'a [u8]; 5] {
    [lineage.as_bytes(), b"\n", message.session.as_bytes(), b"\n", message.text.as_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, MessageId};

    const NOW: Timestamp = Timestamp(1_700_000_000_000);
    const MESSAGE: Message<'_> = Message { session: "s", text: "Which tide is it?" };
    const BUDGET: Budget = Budget { hops: 3, calls: 8, tokens: 100_000, ms: 30_000 };

    fn us() -> Identity {
        Identity { name: "harbour".to_owned(), depth: 3 }
    }

    fn lineage(path: &[&str]) -> Lineage {
        let turn = TurnId::of(&MessageId::new(Door::new("discord"), "9"));
        let begun = Lineage::begin("lighthouse", &turn, BUDGET, NOW);
        path.iter().fold(begun, |lineage, name| lineage.through(name, BUDGET, NOW))
    }

    #[test]
    fn only_what_the_key_signed_for_this_message_just_now_is_taken() {
        let (key, other) = (KeyHash::of("sk-one"), KeyHash::of("sk-other"));
        let sent = lineage(&["lighthouse", "pier"]);
        let (text, signature) = sent.signed(&key, MESSAGE);
        let check = |text: &str, signature: &str, key: &KeyHash, message, now| {
            Lineage::check((text, signature), key, message, &us(), now)
        };
        assert_eq!(check(&text, &signature, &key, MESSAGE, NOW), Ok(sent.clone()));
        let richer = text.replace("100000", "900000");
        let elsewhere = Message { text: "Open the gate.", ..MESSAGE };
        for (text, signature, key, message, now, wanted) in [
            (richer.as_str(), signature.as_str(), &key, MESSAGE, NOW, Refused::Signature),
            (&text, &signature, &other, MESSAGE, NOW, Refused::Signature),
            (&text, &signature, &key, elsewhere, NOW, Refused::Signature),
            (&text, "", &key, MESSAGE, NOW, Refused::Signature),
            (&text, &signature, &key, MESSAGE, Timestamp(NOW.0 + WINDOW_MS + 1), Refused::Stale),
            (&text, &signature, &key, MESSAGE, Timestamp(NOW.0 - WINDOW_MS - 1), Refused::Stale),
        ] {
            assert_eq!(check(text, signature, key, message, now), Err(wanted), "{text}");
        }
    }

    #[test]
    fn loops_long_chains_and_empty_budgets_are_refused() {
        let key = KeyHash::of("sk-one");
        let spent = Lineage { budget: Budget { tokens: 0, ..BUDGET }, ..lineage(&["a"]) };
        for (sent, wanted) in [
            (lineage(&["a", "harbour", "b"]), Refused::Loop("harbour".to_owned())),
            (lineage(&["a", "b", "c", "d"]), Refused::Deep(3)),
            (lineage(&[]), Refused::Form),
            (lineage(&["a b"]), Refused::Form),
            (spent, Refused::Spent),
        ] {
            let (text, signature) = sent.signed(&key, MESSAGE);
            assert_eq!(Lineage::check((&text, &signature), &key, MESSAGE, &us(), NOW), Err(wanted), "{text}");
        }
    }

    #[test]
    fn all_shares_together_are_never_more_than_the_budget() {
        let (mut left, mut shares) = (BUDGET, Vec::new());
        let spent = loop {
            match left.share(0, 1_000) {
                Ok(share) => shares.push(share),
                Err(spent) => break spent,
            }
        };
        assert_eq!(spent, Spent::Calls);
        let calls: u32 = shares.iter().map(|share| 1 + share.calls).sum();
        assert!(calls <= BUDGET.calls && shares.iter().map(|share| share.tokens).sum::<u64>() <= BUDGET.tokens);
        assert!(shares.iter().all(|share| share.hops == 2 && share.ms == 1_000));
        for (mut budget, used, ms, wanted) in [
            (Budget { hops: 0, ..BUDGET }, 0, 1_000, Spent::Hops),
            (BUDGET, 99_500, 1_000, Spent::Tokens),
            (BUDGET, 0, 100, Spent::Time),
        ] {
            assert_eq!(budget.share(used, ms), Err(wanted));
        }
    }
}
