//! The codes with which members link their accounts: shown at one door, entered at another.
//!
//! A code is used once, expires after [`CODE_TTL`], and is stored as its hash only. Wrong codes are limited for each
//! account and for all accounts together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LinkRefusal;
use crate::api_key::KeyHash;
use crate::ids::{Person, Timestamp};

/// The lifetime of a code, and the window in which wrong codes are counted.
pub const CODE_TTL: Duration = Duration::from_secs(5 * 60);
/// The maximum number of valid codes.
pub const CODES_MAX: usize = 1_000;
/// The maximum number of wrong codes of one account within [`CODE_TTL`].
pub const WRONG_MAX: usize = 5;
/// The maximum number of wrong codes of all accounts within [`CODE_TTL`].
pub const WRONG_MAX_OF_ALL: usize = 100;

/// The characters of a code, without those that look like others: 5 bits each.
const LETTERS: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
/// The number of characters of a code: 60 bits, so that its hash cannot be reversed while it is valid.
const LENGTH: usize = 12;
/// The number of characters between two hyphens.
const GROUP: usize = 4;
/// The version of the record.
const VERSION: u32 = 1;

/// Creates a code from random numbers in `[0, 1)`.
#[must_use]
pub fn new_code(mut roll: impl FnMut() -> f64) -> String {
    let mut code = String::with_capacity(LENGTH + LENGTH / GROUP);
    for at in 0..LENGTH {
        if at > 0 && at % GROUP == 0 {
            code.push('-');
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below 32")]
        let index = (roll().clamp(0.0, 1.0) * 32.0) as usize;
        code.push(char::from(LETTERS[index.min(31)]));
    }
    code
}

/// Hashes a code as a person wrote it, in any case and with any separators.
#[must_use]
pub fn hash(code: &str) -> KeyHash {
    let letters = code.chars().filter(char::is_ascii_alphanumeric).take(LENGTH + 1);
    KeyHash::of(&letters.map(|letter| letter.to_ascii_uppercase()).collect::<String>())
}

/// The valid codes, and the recent wrong ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCodes {
    version: u32,
    codes: Vec<Code>,
    /// The accounts that entered wrong codes, with the times.
    wrong: Vec<(Person, Timestamp)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Code {
    sha256: KeyHash,
    account: Person,
    made: Timestamp,
}

impl LinkCodes {
    /// Parses the stored form; `None` if it is damaged or of another version.
    #[must_use]
    pub fn parse(stored: Option<&str>) -> Option<Self> {
        let Some(stored) = stored else { return Some(Self { version: VERSION, ..Self::default() }) };
        serde_json::from_str(stored).ok().filter(|codes: &Self| codes.version == VERSION)
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Adds a code of an account, in place of its earlier one.
    ///
    /// # Errors
    /// There are too many codes.
    pub fn add(&mut self, account: &Person, sha256: KeyHash, now: Timestamp) -> Result<(), LinkRefusal> {
        self.expire(now);
        self.codes.retain(|code| code.account != *account);
        if self.codes.len() >= CODES_MAX {
            return Err(LinkRefusal::TooMany);
        }
        self.codes.push(Code { sha256, account: account.clone(), made: now });
        Ok(())
    }

    /// Takes a code that an account entered, and returns the account that it was shown to. The code is gone then, also if
    /// it was shown at the same door.
    ///
    /// # Errors
    /// The code is not valid, which is counted; or there were too many wrong ones, and this one is not compared.
    pub fn take(&mut self, account: &Person, sha256: KeyHash, now: Timestamp) -> Result<Person, LinkRefusal> {
        self.expire(now);
        let own = self.wrong.iter().filter(|(by, _)| by == account).count();
        if own >= WRONG_MAX || self.wrong.len() >= WRONG_MAX_OF_ALL {
            return Err(LinkRefusal::TooMany);
        }
        let Some(at) = self.codes.iter().position(|code| code.sha256 == sha256) else {
            self.wrong.push((account.clone(), now));
            return Err(LinkRefusal::Code);
        };
        let shown_to = self.codes.remove(at).account;
        if shown_to.door == account.door { Err(LinkRefusal::SameDoor) } else { Ok(shown_to) }
    }

    fn expire(&mut self, now: Timestamp) {
        self.codes.retain(|code| now.since(code.made) < CODE_TTL);
        self.wrong.retain(|(_, at)| now.since(*at) < CODE_TTL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, millis};

    fn account(door: &'static str, id: &str) -> Person {
        Person::new(Door::new(door), id)
    }

    fn empty() -> LinkCodes {
        LinkCodes::parse(None).unwrap()
    }

    #[test]
    fn a_code_is_taken_once_within_five_minutes_at_another_door() {
        let (ada, key, now) = (account("discord", "7"), account("api", "laptop"), Timestamp(1_000));
        let code = new_code(|| 0.5);
        assert_eq!(code, "JJJJ-JJJJ-JJJJ");
        let mut codes = empty();
        codes.add(&ada, hash(&code), now).unwrap();
        let mut stored = LinkCodes::parse(Some(&codes.to_json())).unwrap();
        assert_eq!(stored, codes, "codes survive a restart");
        assert!(!codes.to_json().contains("JJJJ"), "only the hash is stored");
        assert_eq!(stored.take(&key, hash("jjjj jjjj jjjj"), now), Ok(ada.clone()), "in any spelling");
        assert_eq!(stored.take(&key, hash(&code), now), Err(LinkRefusal::Code), "once");
        let over = Timestamp(now.0 + millis(CODE_TTL));
        assert_eq!(codes.clone().take(&key, hash(&code), Timestamp(over.0 - 1)), Ok(ada.clone()));
        assert_eq!(codes.clone().take(&key, hash(&code), over), Err(LinkRefusal::Code), "it expires");
        assert_eq!(codes.clone().take(&account("discord", "8"), hash(&code), now), Err(LinkRefusal::SameDoor));
        codes.add(&ada, hash("other"), now).unwrap();
        assert_eq!(codes.take(&key, hash(&code), now), Err(LinkRefusal::Code), "a new code replaces the earlier one");
    }

    #[test]
    fn guesses_are_limited_for_an_account_and_for_all() {
        let (ada, now) = (account("discord", "7"), Timestamp(1_000));
        let mut codes = empty();
        codes.add(&ada, hash("right"), now).unwrap();
        let mut wrong = |account: &Person, times: usize| {
            let last = (0..times).map(|_| codes.take(account, hash("wrong"), now)).last();
            (last.unwrap(), codes.clone())
        };
        let eve = account("api", "eve");
        assert_eq!(wrong(&eve, WRONG_MAX).0, Err(LinkRefusal::Code));
        let (refused, mut after) = wrong(&eve, 1);
        assert_eq!(refused, Err(LinkRefusal::TooMany));
        assert_eq!(after.take(&eve, hash("right"), now), Err(LinkRefusal::TooMany), "not even the right one");
        assert_eq!(after.take(&account("api", "bob"), hash("right"), now), Ok(ada.clone()), "others are free");
        for many in 0..WRONG_MAX_OF_ALL / WRONG_MAX {
            let (refused, _) = wrong(&account("api", &many.to_string()), WRONG_MAX);
            assert!(refused.is_err());
        }
        let (refused, mut full) = wrong(&account("api", "bob"), 1);
        assert_eq!(refused, Err(LinkRefusal::TooMany));
        assert!(full.wrong.len() <= WRONG_MAX_OF_ALL);
        let later = Timestamp(now.0 + millis(CODE_TTL));
        assert_eq!(full.take(&eve, hash("wrong"), later), Err(LinkRefusal::Code), "the window is over");
    }

    #[test]
    fn codes_use_all_letters_and_their_number_is_bounded() {
        let mut rolls = (0..32).map(|at| f64::from(at) / 32.0).cycle();
        let all: String = (0..8).map(|_| new_code(|| rolls.next().unwrap())).collect();
        assert!(LETTERS.iter().all(|letter| all.contains(char::from(*letter))), "{all}");
        assert_eq!(new_code(|| 1.0), "ZZZZ-ZZZZ-ZZZZ");
        let mut codes = empty();
        for number in 0..CODES_MAX {
            let text = number.to_string();
            codes.add(&account("discord", &text), hash(&text), Timestamp(0)).unwrap();
        }
        assert_eq!(codes.add(&account("discord", "more"), hash("more"), Timestamp(0)), Err(LinkRefusal::TooMany));
        assert_eq!(codes.add(&account("discord", "1"), hash("again"), Timestamp(0)), Ok(()));
        assert!(LinkCodes::parse(Some("{}")).is_none() && LinkCodes::parse(Some("[")).is_none());
    }
}
