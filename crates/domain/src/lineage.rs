//! The chain of servers behind a turn: its origin, the servers that it passed, and the remaining budget. Each server
//! signs the lineage with its key at the next server, so a lineage is as trustworthy as the holder of that key.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::api_key::{KeyHash, is_name};
use super::ids::{Timestamp, TurnId};
use super::signature::{Signature, SigningKey};
use crate::hex::hex;

/// The longest lineage that is read, in bytes.
pub const LINEAGE_MAX: usize = 4 * 1024;
/// The largest age of a lineage on arrival, and the largest difference ahead of the local clock, in milliseconds.
const WINDOW_MS: u64 = 60 * 1_000;
/// Minimum number of tokens passed on.
const TOKENS_LEAST: u64 = 500;
/// The shortest time passed on, in milliseconds.
const TIME_LEAST_MS: u64 = 500;
/// The number of hash bytes in the name of a root.
const ROOT_BYTES: usize = 8;

/// The remaining budget of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainBudget {
    /// The number of further servers in sequence.
    pub hops: u32,
    /// Calls of other servers, for all of them together.
    pub calls: u32,
    /// Tokens, for all of them together.
    pub tokens: u64,
    /// Time, in milliseconds.
    pub ms: u64,
}

/// The exhausted part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainExhausted {
    /// No further server may follow.
    #[error("no further server may be asked in this chain: its depth is used up")]
    Hops,
    /// No further call may be made.
    #[error("no further server may be asked: the calls of this chain are used up")]
    Calls,
    /// Too few tokens remain.
    #[error("no further server may be asked: the tokens of this chain are used up")]
    Tokens,
    /// Too little time remains.
    #[error("no further server may be asked: the time of this chain is used up")]
    Time,
}

impl ChainBudget {
    /// Takes a share for one call: half of the remaining calls and tokens, so that all following servers together
    /// never exceed this budget. `used` are the tokens that the turn itself used, `ms` the time remaining for the
    /// call.
    ///
    /// # Errors
    /// The part that is exhausted.
    pub fn share(&mut self, used: u64, ms: u64) -> Result<Self, ChainExhausted> {
        let tokens = self.tokens.saturating_sub(used) / 2;
        let share = Self { hops: self.hops.saturating_sub(1), calls: self.calls.saturating_sub(1) / 2, tokens, ms };
        match self {
            Self { hops: 0, .. } => return Err(ChainExhausted::Hops),
            Self { calls: 0, .. } => return Err(ChainExhausted::Calls),
            _ if tokens < TOKENS_LEAST => return Err(ChainExhausted::Tokens),
            _ if ms < TIME_LEAST_MS => return Err(ChainExhausted::Time),
            _ => {}
        }
        self.calls -= 1 + share.calls;
        self.tokens -= tokens;
        Ok(share)
    }
}

/// The position of a turn in a chain of servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// A hash of the first turn, which does not reveal its id.
    pub root: String,
    /// The names of the servers passed, first one first.
    pub path: Vec<String>,
    /// The remaining budget.
    pub budget: ChainBudget,
    /// The time of the signature; at the callee, the time of arrival.
    pub at: Timestamp,
}

/// The reason why a lineage is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineageRefusal {
    /// The text is not a lineage.
    #[error("the lineage is not of the form that this server reads")]
    Form,
    /// The caller has no key, so the signature cannot be checked.
    #[error("a lineage needs a key of this server: staffai key add makes one")]
    NoKey,
    /// The signature is of another key or another message.
    #[error("the lineage is not signed with this key for this message")]
    Signature,
    /// The lineage is too old, or from the future.
    #[error("the lineage was not signed just now; compare the clocks of both servers")]
    Stale,
    /// The chain is longer than this server accepts.
    #[error("the chain of servers is longer than {0}, the most that this server takes part in")]
    Deep(usize),
    /// The chain already contains this server.
    #[error("the chain of servers came through {0} before: it would go round for ever")]
    Loop(String),
    /// The remaining budget is empty.
    #[error("the chain of servers has no tokens or no time left")]
    Spent,
}

/// The identity of this server in chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name, in the form of a key's name.
    pub name: String,
    /// The longest chain that it accepts, not counting itself.
    pub depth: usize,
}

/// The message signed with the lineage.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The session.
    pub session: &'a str,
    /// The text.
    pub text: &'a str,
}

/// Derives the signing key from the hash of an API key. Both the key holder and a server that stores the hash can
/// compute it.
fn signing(key: &KeyHash) -> SigningKey {
    SigningKey::new(&format!("lineage {}", key.to_hex()))
}

impl Lineage {
    /// Creates the lineage of a turn that began here.
    #[must_use]
    pub fn begin(us: &str, turn: &TurnId, budget: ChainBudget, at: Timestamp) -> Self {
        let root = hex(&Sha256::digest(format!("{us}\0{turn}"))[..ROOT_BYTES]);
        Self { root, path: Vec::new(), budget, at }
    }

    /// Returns the lineage for the next server, with this server added and this share as its budget.
    #[must_use]
    pub fn through(&self, us: &str, share: ChainBudget, at: Timestamp) -> Self {
        let path = self.path.iter().cloned().chain([us.to_owned()]).collect();
        Self { root: self.root.clone(), path, budget: share, at }
    }

    /// Returns the lineage as text, and its signature with this key for this message.
    #[must_use]
    pub fn signed(&self, key: &KeyHash, message: Message<'_>) -> (String, String) {
        // Plain data always serializes.
        let text = serde_json::to_string(self).unwrap_or_default();
        let signature = signing(key).sign(&pieces(&text, message));
        (text, signature)
    }

    /// Parses and verifies a lineage from a caller with this key.
    ///
    /// # Errors
    /// See [`LineageRefusal`].
    pub fn check(
        text: &str,
        signature: &str,
        key: &KeyHash,
        message: Message<'_>,
        us: &Identity,
        now: Timestamp,
    ) -> Result<Self, LineageRefusal> {
        if text.len() > LINEAGE_MAX {
            return Err(LineageRefusal::Form);
        }
        let signature = Signature::read(signature).ok_or(LineageRefusal::Signature)?;
        if !signing(key).signed(&pieces(text, message), &signature) {
            return Err(LineageRefusal::Signature);
        }
        let lineage: Self = serde_json::from_str(text).map_err(|_| LineageRefusal::Form)?;
        if now.0.abs_diff(lineage.at.0) > WINDOW_MS {
            return Err(LineageRefusal::Stale);
        }
        let named = lineage.path.iter().chain([&lineage.root]).all(|name| is_name(name));
        if lineage.path.is_empty() || !named {
            return Err(LineageRefusal::Form);
        }
        if lineage.path.contains(&us.name) {
            return Err(LineageRefusal::Loop(us.name.clone()));
        }
        if lineage.path.len() > us.depth {
            return Err(LineageRefusal::Deep(us.depth));
        }
        if lineage.budget.tokens == 0 || lineage.budget.ms == 0 {
            return Err(LineageRefusal::Spent);
        }
        Ok(Self { at: now, ..lineage })
    }

    /// Returns the remaining time, in milliseconds.
    #[must_use]
    pub fn left_ms(&self, now: Timestamp) -> u64 {
        self.budget.ms.saturating_sub(now.0.saturating_sub(self.at.0))
    }
}

/// Returns the signed bytes. The name of a session contains no line break.
fn pieces<'a>(lineage: &'a str, message: Message<'a>) -> [&'a [u8]; 5] {
    [lineage.as_bytes(), b"\n", message.session.as_bytes(), b"\n", message.text.as_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, MessageId};

    const NOW: Timestamp = Timestamp(1_700_000_000_000);
    const MESSAGE: Message<'_> = Message { session: "s", text: "Which tide is it?" };
    const BUDGET: ChainBudget = ChainBudget { hops: 3, calls: 8, tokens: 100_000, ms: 30_000 };

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
            Lineage::check(text, signature, key, message, &us(), now)
        };
        assert_eq!(check(&text, &signature, &key, MESSAGE, NOW), Ok(sent.clone()));
        let richer = text.replace("100000", "900000");
        let elsewhere = Message { text: "Open the gate.", ..MESSAGE };
        for (text, signature, key, message, now, wanted) in [
            (richer.as_str(), signature.as_str(), &key, MESSAGE, NOW, LineageRefusal::Signature),
            (&text, &signature, &other, MESSAGE, NOW, LineageRefusal::Signature),
            (&text, &signature, &key, elsewhere, NOW, LineageRefusal::Signature),
            (&text, "", &key, MESSAGE, NOW, LineageRefusal::Signature),
            (&text, &signature, &key, MESSAGE, Timestamp(NOW.0 + WINDOW_MS + 1), LineageRefusal::Stale),
            (&text, &signature, &key, MESSAGE, Timestamp(NOW.0 - WINDOW_MS - 1), LineageRefusal::Stale),
        ] {
            assert_eq!(check(text, signature, key, message, now), Err(wanted), "{text}");
        }
    }

    #[test]
    fn loops_long_chains_and_empty_budgets_are_refused() {
        let key = KeyHash::of("sk-one");
        let spent = Lineage { budget: ChainBudget { tokens: 0, ..BUDGET }, ..lineage(&["a"]) };
        for (sent, wanted) in [
            (lineage(&["a", "harbour", "b"]), LineageRefusal::Loop("harbour".to_owned())),
            (lineage(&["a", "b", "c", "d"]), LineageRefusal::Deep(3)),
            (lineage(&[]), LineageRefusal::Form),
            (lineage(&["a b"]), LineageRefusal::Form),
            (spent, LineageRefusal::Spent),
        ] {
            let (text, signature) = sent.signed(&key, MESSAGE);
            assert_eq!(Lineage::check(&text, &signature, &key, MESSAGE, &us(), NOW), Err(wanted), "{text}");
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
        assert_eq!(spent, ChainExhausted::Calls);
        let calls: u32 = shares.iter().map(|share| 1 + share.calls).sum();
        assert!(calls <= BUDGET.calls && shares.iter().map(|share| share.tokens).sum::<u64>() <= BUDGET.tokens);
        assert!(shares.iter().all(|share| share.hops == 2 && share.ms == 1_000));
        for (mut budget, used, ms, wanted) in [
            (ChainBudget { hops: 0, ..BUDGET }, 0, 1_000, ChainExhausted::Hops),
            (BUDGET, 99_500, 1_000, ChainExhausted::Tokens),
            (BUDGET, 0, 100, ChainExhausted::Time),
        ] {
            assert_eq!(budget.share(used, ms), Err(wanted));
        }
    }
}
