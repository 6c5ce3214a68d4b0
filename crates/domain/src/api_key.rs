//! Keys of programs: who holds one, what it opens, and until when. Of the key itself only a hash is known.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ids::{Door, Person, Timestamp};
use super::limits::Limits;

/// How keys begin that this program makes.
pub const PREFIX: &str = "sk-staffai-";
/// The door whose persons the holders of keys are, whichever door they come through: they have one window of limits and one ledger.
pub const HOLDERS: Door = Door::new("api");
/// The longest name of a key.
pub const NAME_MAX: usize = 64;
/// The most keys.
pub const KEYS_MAX: usize = 1_000;

/// The SHA-256 of a key. Keys are long and drawn at random, so no slower hash is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The hash of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// The hash as 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.map(|byte| format!("{byte:02x}")).concat()
    }

    /// Takes as long whatever differs.
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

/// What a key opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Asking.
    Chat,
    /// Our tools may be used for its answers, as the rules of tools say.
    Tools,
    /// Dashboard, tree, sessions of the terminal: what the operator sees and does.
    Operate,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Tools, Self::Operate];

    /// Its name in files and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Tools => "tools",
            Self::Operate => "operate",
        }
    }
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Whose it is: the person in the ledger, in limits and in logs.
    pub name: String,
    /// Its hash.
    pub sha256: KeyHash,
    /// What it opens.
    pub rights: Vec<Right>,
    /// Keys of the model rows that it may ask; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Names of the doors that it opens; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<String>,
    /// Names of the profiles of prompts that it may choose; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// What it may use within the window of all limits; none: what every member may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<KeyLimits>,
    /// When it was made, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub made_at: u64,
    /// When it ends, in milliseconds since the Unix epoch; none for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// What a key may use within the window of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyLimits {
    /// Requests; 0 for any number.
    pub messages: u32,
    /// Tokens; 0 for any number.
    pub tokens: u64,
}

/// More than any window holds, and a number that every store keeps exactly.
const ANY_TOKENS: u64 = 1 << 52;

/// A key that may use any number says 0, where limits mean none by it.
impl From<KeyLimits> for Limits {
    fn from(KeyLimits { messages, tokens }: KeyLimits) -> Self {
        Self {
            messages: if messages == 0 { u32::MAX } else { messages },
            tokens: if tokens == 0 { ANY_TOKENS } else { tokens },
        }
    }
}

impl ApiKey {
    /// Whether it opens this.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    /// Whether it opens this door.
    #[must_use]
    pub fn opens(&self, door: &Door) -> bool {
        self.doors.is_empty() || self.doors.iter().any(|name| name == door.as_str())
    }

    /// Whether it may ask this row.
    #[must_use]
    pub fn may_ask(&self, row: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|key| key == row)
    }

    /// Whether it opens what that one opens.
    fn opens_the_same(&self, other: &Self) -> bool {
        (&self.rights, &self.models, &self.doors, &self.profiles)
            == (&other.rights, &other.models, &other.doors, &other.profiles)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now.0)
    }
}

/// Whether this may be the name of a key. It stands in ids and in the keys of the store.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(usable)
}

/// Who asks: the holder of a key or, while there are no keys, somebody on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Somebody on this machine, who may do everything.
    Local,
    /// The holder of this key.
    Key(Arc<ApiKey>),
}

impl Caller {
    /// Their name among persons.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Key(key) => &key.name,
        }
    }

    /// The holder of a key as a person; none while there are no keys.
    #[must_use]
    pub fn person(&self) -> Option<Person> {
        match self {
            Self::Local => None,
            Self::Key(key) => Some(Person::new(HOLDERS, key.name.clone())),
        }
    }

    /// Whether they may do this.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.may(right),
        }
    }

    /// Whether they may come through this door.
    #[must_use]
    pub fn opens(&self, door: &Door) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.opens(door),
        }
    }

    /// The keys of the rows that they may ask; empty for all.
    #[must_use]
    pub fn rows(&self) -> &[String] {
        match self {
            Self::Local => &[],
            Self::Key(key) => &key.models,
        }
    }

    /// Whether they may choose this profile of prompts.
    #[must_use]
    pub fn may_choose(&self, profile: &str) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.profiles.is_empty() || key.profiles.iter().any(|name| name == profile),
        }
    }

    /// Whether they may ask this row.
    #[must_use]
    pub fn may_ask(&self, row: &str) -> bool {
        match self {
            Self::Local => true,
            Self::Key(key) => key.may_ask(row),
        }
    }
}

/// True if the request showed a key that no browser adds by itself. A `GET` may have an effect with one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proven(pub bool);

/// All keys that are in force.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Vec<Arc<ApiKey>>,
    /// Keys are kept in a file, be it that none is left.
    kept: bool,
}

impl KeyRing {
    /// A ring of these keys.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = ApiKey>) -> Self {
        Self { keys: keys.into_iter().map(Arc::new).collect(), kept: false }
    }

    /// A ring of keys that were set as they are and open everything.
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

    /// The same with the keys of a file. Where that has lost its last one, nobody may ask without a key all the same: whoever revoked
    /// it did not mean to open the door.
    #[must_use]
    pub fn with(mut self, kept: impl IntoIterator<Item = ApiKey>) -> Self {
        self.keys.extend(kept.into_iter().map(Arc::new));
        self.kept = true;
        self
    }

    /// No key was set or made, so this machine alone may ask.
    #[must_use]
    pub const fn is_unused(&self) -> bool {
        self.keys.is_empty() && !self.kept
    }

    /// There is no key, so none can be presented.
    #[must_use]
    pub const fn has_none(&self) -> bool {
        self.keys.is_empty()
    }

    /// A key is in force that opens what operators see and do.
    #[must_use]
    pub fn has_operator(&self, now: Timestamp) -> bool {
        self.keys.iter().any(|key| key.may(Right::Operate) && !key.is_over(now))
    }

    /// The key that somebody presents, while it is in force; one that was set and left empty opens nothing. Takes as long whichever it is.
    #[must_use]
    pub fn find(&self, presented: &str, now: Timestamp) -> Option<Arc<ApiKey>> {
        if presented.is_empty() {
            return None;
        }
        let hash = KeyHash::of(presented);
        let matching = self.keys.iter().filter(|key| key.sha256.is(&hash)).fold(None, |_, key| Some(key));
        matching.filter(|key| !key.is_over(now)).cloned()
    }

    /// True while this key is in force and opens what it opened before: a change of its rights, models, doors or profiles counts as
    /// the end of the old one.
    #[must_use]
    pub fn still_opens(&self, key: &ApiKey, now: Timestamp) -> bool {
        let same = |other: &&Arc<ApiKey>| other.sha256 == key.sha256 && other.name == key.name;
        self.keys.iter().find(same).is_some_and(|other| !other.is_over(now) && other.opens_the_same(key))
    }

    /// What the holder of this name may use; none where nothing of their own is set.
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
