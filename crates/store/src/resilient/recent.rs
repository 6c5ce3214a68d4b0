//! A cache of recent histories, and of the settings of their members. If no other process writes to the backend, a
//! continuing conversation needs no read. While the backend cannot be read, the cache also prevents a new short history
//! from later overwriting the long one, and the settings of recent members stay in force, also if they have none.
//! Plain data, bounded, without waiting.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::overlay::after;
use domain::ids::Timestamp;
use domain::keys;
use ports::Stored;

const ENTRIES: usize = 20_000;

/// The most bytes of keys and values.
const BYTES: usize = 8 * 1024 * 1024;

/// The TTL of a history that was read, because its remaining one is unknown.
const READ_LIFE: Duration = Duration::from_secs(30 * 60);

#[derive(Default)]
pub struct Recent {
    entries: HashMap<Arc<str>, Entry>,
    /// The same keys, least recently used first.
    order: BTreeMap<u64, Arc<str>>,
    bytes: usize,
    last: u64,
}

struct Entry {
    number: u64,
    /// `None` if the backend has no value.
    value: Option<Box<str>>,
    expires: Option<Timestamp>,
    /// True if it was written here, so that its expiry is known; false if it was read.
    written: bool,
}

impl Recent {
    /// Caches a written value with its TTL. Other kinds of keys are ignored: their owners cache them.
    pub fn wrote(&mut self, key: &str, value: &str, ttl: Option<Duration>, now: Timestamp) {
        let expires = ttl.map(|ttl| after(now, ttl));
        if read_life(key).is_some() {
            self.keep(key, Entry { number: 0, value: Some(value.into()), expires, written: true });
        }
    }

    /// Caches a value read from the backend, and for settings also that there is none.
    pub fn read(&mut self, key: &str, value: Option<&str>, now: Timestamp) {
        let Some(life) = read_life(key) else { return };
        // The expiry of a value written here is known.
        if value.is_some()
            && self.entries.get(key).is_some_and(|entry| entry.written && entry.value.as_deref() == value)
        {
            return;
        }
        if value.is_none() && keys::is_history(key) {
            return self.forget(key);
        }
        let expires = Some(after(now, life));
        self.keep(key, Entry { number: 0, value: value.map(Into::into), expires, written: false });
    }

    pub fn forget(&mut self, key: &str) {
        if let Some((key, entry)) = self.entries.remove_entry(key) {
            self.order.remove(&entry.number);
            self.bytes -= key.len() + entry.bytes();
        }
    }

    /// Returns what is cached of a key, unless it has expired.
    pub fn get(&self, key: &str, now: Timestamp) -> Option<Stored> {
        self.entries.get(key).filter(|entry| entry.lives(now)).map(|entry| Stored::from(entry.text()))
    }

    /// Returns a value written here, unless it has expired. Without other writers, the backend has this value or will
    /// have it soon.
    pub fn written(&self, key: &str, now: Timestamp) -> Option<String> {
        self.entries.get(key).filter(|entry| entry.written && entry.lives(now)).and_then(Entry::text)
    }

    fn keep(&mut self, key: &str, entry: Entry) {
        self.forget(key);
        let key: Arc<str> = key.into();
        self.last += 1;
        self.bytes += key.len() + entry.bytes();
        self.order.insert(self.last, Arc::clone(&key));
        self.entries.insert(key, Entry { number: self.last, ..entry });
        while self.entries.len() > ENTRIES || self.bytes > BYTES {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            let oldest = Arc::clone(oldest);
            self.forget(&oldest);
        }
    }
}

impl Entry {
    fn lives(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|end| end > now)
    }

    fn text(&self) -> Option<String> {
        self.value.as_deref().map(str::to_owned)
    }

    fn bytes(&self) -> usize {
        self.value.as_deref().map_or(0, str::len)
    }
}

/// The time for which a value that was read is used; `None` if values of this kind are not cached.
fn read_life(key: &str) -> Option<Duration> {
    let of_settings = keys::is_preferences(key).then_some(keys::PREFERENCES_TTL);
    if keys::is_history(key) { Some(READ_LIFE) } else { of_settings }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn key(number: usize) -> String {
        format!("discord_context:{number}:1")
    }

    #[test]
    fn the_last_value_is_kept_until_its_end() {
        let mut recent = Recent::default();
        recent.wrote(&key(1), "a", None, NOW);
        recent.wrote(&key(1), "b", Some(Duration::from_millis(10)), NOW);
        recent.read(&key(1), Some("b"), NOW);
        assert_eq!(recent.get(&key(1), Timestamp(1_009)), Some(Stored::Value("b".to_owned())));
        assert_eq!(recent.written(&key(1), Timestamp(1_009)).as_deref(), Some("b"));
        assert_eq!(recent.written(&key(1), Timestamp(1_010)), None);
        assert_eq!(recent.get(&key(1), Timestamp(1_010)), None);
        recent.read(&key(2), Some("c"), NOW);
        assert_eq!(recent.get(&key(2), NOW), Some(Stored::Value("c".to_owned())));
        assert_eq!(recent.written(&key(2), NOW), None);
        assert_eq!(recent.get(&key(2), after(NOW, READ_LIFE)), None);
        recent.read(&key(2), None, NOW);
        assert_eq!(recent.get(&key(2), NOW), None);
    }

    #[test]
    fn settings_of_members_are_kept_and_that_they_have_none() {
        let mut recent = Recent::default();
        let (one, other) = ("staffai:preferences:d:1", "staffai:preferences:d:2");
        recent.read(one, Some("a"), NOW);
        recent.read(other, None, NOW);
        let later = after(NOW, READ_LIFE * 2);
        assert_eq!(recent.get(one, later), Some(Stored::Value("a".to_owned())));
        assert_eq!(recent.get(other, later), Some(Stored::Absent));
        recent.forget(one);
        assert_eq!(recent.get(one, later), None, "what is deleted is not kept");
    }

    #[test]
    fn a_value_that_is_read_again_lives_on() {
        let mut recent = Recent::default();
        recent.read(&key(1), Some("a"), NOW);
        recent.read(&key(1), Some("a"), after(NOW, READ_LIFE / 2));
        assert!(recent.get(&key(1), after(NOW, READ_LIFE)).is_some());
    }

    #[test]
    fn nothing_else_is_kept() {
        let mut recent = Recent::default();
        recent.wrote("staffai:turn:d:1", "a", None, NOW);
        recent.read("a", Some("b"), NOW);
        assert!(recent.entries.is_empty());
    }

    #[test]
    fn the_number_and_the_bytes_are_bounded() {
        let mut recent = Recent::default();
        for number in 0..=ENTRIES {
            recent.wrote(&key(number), "a", None, NOW);
        }
        assert_eq!((recent.entries.len(), recent.order.len()), (ENTRIES, ENTRIES));
        assert_eq!(recent.get(&key(0), NOW), None);
        let large = "x".repeat(BYTES / 4);
        for number in 0..8 {
            recent.wrote(&key(number), &large, None, NOW);
            assert!(recent.bytes <= BYTES);
        }
        assert!(recent.get(&key(7), NOW).is_some() && recent.get(&key(3), NOW).is_none());
        recent.wrote(&key(9), &"x".repeat(BYTES), None, NOW);
        assert_eq!((recent.entries.len(), recent.bytes), (0, 0));
    }
}
