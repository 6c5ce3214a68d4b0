//! API keys of programs: owner, rights, expiry. Only the hash of a key is stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ids::{Door, Person, Timestamp};
use super::limits::Limits;

/// The prefix of keys that this program creates.
pub const PREFIX: &str = "sk-staffai-";
/// The door of all key holders, whichever door they use: each has one limit window and one ledger.
pub const HOLDERS: Door = Door::new("api");
/// The longest name of a key, in bytes.
pub const NAME_MAX: usize = 64;
/// Maximum number of keys.
pub const KEYS_MAX: usize = 1_000;

/// The SHA-256 of a key. Keys are long and random, so a slower hash is not needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Hashes a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Returns the hash as 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.map(|byte| format!("{byte:02x}")).concat()
    }

    /// Compares in constant time.
    fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

impl Serialize for KeyHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("must be a SHA-256 of 64 hexadecimal digits"))
    }
}

/// A permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Asking the model.
    Chat,
    /// Use of the bot's tools in answers, subject to the tool rules.
    Tools,
    /// Operator access: dashboard, supervision tree, terminal sessions.
    Operate,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Tools, Self::Operate];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Tools => "tools",
            Self::Operate => "operate",
        }
    }
}

/// One API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// The owner's name in the ledger, limits and logs.
    pub name: String,
    /// The hash of the key.
    pub sha256: KeyHash,
    /// The permissions.
    pub rights: Vec<Right>,
    /// Keys of the model rows that it may ask. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Names of the doors that it may use. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<String>,
    /// Names of the prompt profiles that it may choose. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Its own limits within the common window. `None`: the limits of a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<KeyLimits>,
    /// Creation time, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub made_at: u64,
    /// Expiry, in milliseconds since the Unix epoch. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// The limits of one key within the common window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyLimits {
    /// Requests; 0 means unlimited.
    pub messages: u32,
    /// Tokens; 0 means unlimited.
    pub tokens: u64,
}

/// More tokens than any window holds, and a number that every store represents exactly.
const ANY_TOKENS: u64 = 1 << 52;

/// In the settings of a key, 0 means unlimited; in [`Limits`], it means nothing is allowed.
impl From<KeyLimits> for Limits {
    fn from(KeyLimits { messages, tokens }: KeyLimits) -> Self {
        Self {
            messages: if messages == 0 { u32::MAX } else { messages },
            tokens: if tokens == 0 { ANY_TOKENS } else { tokens },
        }
    }
}

impl ApiKey {
    /// True if the key grants this right.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// True if the key may use this door.
    #[must_use]
    pub fn opens(&self, door: &Door) -> bool {
        self.doors.is_empty() || self.doors.iter().any(|name| name == door.as_str())
    }

    /// True if the key may ask this row.
    #[must_use]
    pub fn may_ask(&self, row: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|key| key == row)
    }

    /// True if both keys grant the same rights, models, doors and profiles.
    fn opens_the_same(&self, other: &Self) -> bool {
        (&self.rights, &self.models, &self.doors, &self.profiles)
            == (&other.rights, &other.models, &other.doors, &other.profiles)
    }

    /// Takes all rights from the key. Its entry reserves its name: data under this name belongs to its holder.
    pub fn revoke(&mut self, now: Timestamp) {
        let Self { name, sha256, made_at, .. } = self;
        let (name, sha256, made_at) = (std::mem::take(name), *sha256, *made_at);
        let (rights, models, doors, profiles) = Default::default();
        *self = Self { name, sha256, rights, models, doors, profiles, limits: None, made_at, expires_at: Some(now.0) };
    }

    /// True if the key was revoked. A version that does not know this reads an expired key without rights.
    #[must_use]
    pub const fn is_revoked(&self) -> bool {
        self.rights.is_empty() && self.expires_at.is_some()
    }

    /// True if the key has expired.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now.0)
    }
}

/// True if this is a valid key name. Names are part of ids and store keys, so only a few characters are allowed.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(usable)
}

/// The caller of an API request: the holder of a key or, if no keys are configured, a program on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A program on this machine, with all rights.
    Local,
    /// The holder of this key.
    Key(Arc<ApiKey>),
}

impl Caller {
    /// Returns the caller's name as a person.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Key(key) => &key.name,
        }
    }

    /// Returns the key holder as a person, `None` for a local caller.
    #[must_use]
    pub fn person(&self) -> Option<Person> {
        match self {
            Self::Local => None,
            Self::Key(key) => Some(Person::new(HOLDERS, key.name.clone())),
        }
    }

    /// True if the caller has this right.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.may(right),
        }
    }

    /// True if the caller may use this door.
    #[must_use]
    pub fn opens(&self, door: &Door) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.opens(door),
        }
    }

    /// Returns the keys of the rows that the caller may ask. Empty: all.
    #[must_use]
    pub fn rows(&self) -> &[String] {
        match self {
            Self::Local => &[],
            Self::Key(key) => &key.models,
        }
    }

    /// True if the caller may choose this prompt profile.
    #[must_use]
    pub fn may_choose(&self, profile: &str) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.profiles.is_empty() || key.profiles.iter().any(|name| name == profile),
        }
    }

    /// True if the caller may ask this row.
    #[must_use]
    pub fn may_ask(&self, row: &str) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.may_ask(row),
        }
    }
}

/// True if the request carries a key that a browser does not add by itself. A `GET` may have effects only with such a
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proven(pub bool);

/// All configured keys.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Vec<Arc<ApiKey>>,
    /// True if a key file is in use, even if it holds no key.
    kept: bool,
}

impl KeyRing {
    /// Creates a ring of these keys.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = ApiKey>) -> Self {
        Self { keys: keys.into_iter().map(Arc::new).collect(), kept: false }
    }

    /// Creates a ring of plain keys from the settings, each with all rights.
    #[must_use]
    pub fn of_secrets<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(keys.into_iter().enumerate().map(|(at, key)| ApiKey {
            name: if at == 0 { "operator".to_owned() } else { format!("operator-{}", at + 1) },
            sha256: KeyHash::of(key),
            rights: Right::ALL.to_vec(),
            models: Vec::new(),
            doors: Vec::new(),
            profiles: Vec::new(),
            limits: None,
            made_at: 0,
            expires_at: None,
        }))
    }

    /// Adds the keys of a key file. From then on a key is required even if the file is empty: revoking the last key
    /// must not open the door.
    #[must_use]
    pub fn with(mut self, kept: impl IntoIterator<Item = ApiKey>) -> Self {
        self.keys.extend(kept.into_iter().map(Arc::new));
        self.kept = true;
        self
    }

    /// True if keys are neither configured nor stored, so only this machine may connect.
    #[must_use]
    pub const fn is_unused(&self) -> bool {
        self.keys.is_empty() && !self.kept
    }

    /// True if the ring is empty, so no key can be presented.
    #[must_use]
    pub const fn has_none(&self) -> bool {
        self.keys.is_empty()
    }

    /// True if a valid key grants operator access.
    #[must_use]
    pub fn has_operator(&self, now: Timestamp) -> bool {
        self.keys.iter().any(|key| key.may(Right::Operate) && !key.is_over(now))
    }

    /// Returns the presented key if it is valid. An empty key never matches. The time does not depend on which key
    /// matches.
    #[must_use]
    pub fn find(&self, presented: &str, now: Timestamp) -> Option<Arc<ApiKey>> {
        if presented.is_empty() {
            return None;
        }
        let hash = KeyHash::of(presented);
        let matching = self.keys.iter().filter(|key| key.sha256.is(&hash)).fold(None, |_, key| Some(key));
        matching.filter(|key| !key.is_over(now)).cloned()
    }

    /// True while this key is valid and unchanged. Any change of its rights, models, doors or profiles ends the old
    /// key.
    #[must_use]
    pub fn still_opens(&self, key: &ApiKey, now: Timestamp) -> bool {
        let same = |other: &&Arc<ApiKey>| other.sha256 == key.sha256 && other.name == key.name;
        self.keys.iter().find(same).is_some_and(|other| !other.is_over(now) && other.opens_the_same(key))
    }

    /// Returns the limits of the key with this name, `None` if it has no limits of its own.
    #[must_use]
    pub fn limits_of(&self, name: &str) -> Option<Limits> {
        self.keys.iter().find(|key| key.name == name)?.limits.map(Limits::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_itself_until_it_ends() {
        let mut kept = (*KeyRing::of_secrets(["first"]).keys[0]).clone();
        kept.name = "laptop".to_owned();
        kept.sha256 = KeyHash::of("second");
        kept.expires_at = Some(1_000);
        kept.rights = vec![Right::Chat];
        kept.models = vec!["fast".to_owned()];
        kept.profiles = vec!["pirate".to_owned()];
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<ApiKey>(&text).unwrap(), kept);
        assert!(!text.contains("second"), "the key itself stands nowhere");
        let ring = KeyRing::of_secrets(["first", ""]).with([kept]);
        let name = |key: &str, now: u64| ring.find(key, Timestamp(now)).map(|key| key.name.clone());
        assert_eq!(name("first", 5_000).as_deref(), Some("operator"));
        assert_eq!(name("second", 999).as_deref(), Some("laptop"));
        assert_eq!(name("second", 1_000), None);
        assert_eq!(name("", 0), None, "a key that was left empty opens nothing");
        let caller = Caller::Key(ring.find("second", Timestamp(0)).unwrap());
        assert!(caller.may(Right::Chat) && !caller.may(Right::Operate));
        assert!(caller.may_ask("fast") && !caller.may_ask("slow"));
        assert!(caller.may_choose("pirate") && !caller.may_choose("judge") && Caller::Local.may_choose("judge"));
    }

    #[test]
    fn a_key_opens_what_it_did_until_it_ends_is_revoked_or_changes() {
        let first = ApiKey { expires_at: Some(1_000), ..(*KeyRing::of_secrets(["first"]).keys[0]).clone() };
        let ring = KeyRing::new([first.clone()]);
        assert!(ring.still_opens(&first, Timestamp(999)) && !ring.still_opens(&first, Timestamp(1_000)));
        assert!(!KeyRing::default().still_opens(&first, Timestamp(0)));
        let fewer = ApiKey { rights: vec![Right::Chat], ..first.clone() };
        let other = ApiKey { sha256: KeyHash::of("second"), ..first.clone() };
        for changed in [fewer, other] {
            assert!(!KeyRing::new([changed]).still_opens(&first, Timestamp(0)));
        }
    }

    #[test]
    fn a_revoked_key_opens_nothing_and_keeps_its_name() {
        let mut key = (*KeyRing::of_secrets(["first"]).keys[0]).clone();
        key.models = vec!["fast".to_owned()];
        assert!(!key.is_revoked());
        key.revoke(Timestamp(1_000));
        assert!(key.is_revoked() && key.is_over(Timestamp(1_000)) && key.name == "operator");
        let read: ApiKey = serde_json::from_str(&serde_json::to_string(&key).unwrap()).unwrap();
        assert!(read.is_revoked() && KeyRing::new([read]).find("first", Timestamp(1_000)).is_none());
    }

    #[test]
    fn a_key_that_says_0_may_use_any_number() {
        let limits = |messages: u32, tokens: u64| Limits::from(KeyLimits { messages, tokens });
        assert_eq!(limits(1, 0), Limits { messages: 1, tokens: ANY_TOKENS });
        assert_eq!(limits(0, 7), Limits { messages: u32::MAX, tokens: 7 });
    }

    #[test]
    fn a_hash_that_is_none_is_refused() {
        for bad in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            assert!(serde_json::from_str::<KeyHash>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
    }
}
