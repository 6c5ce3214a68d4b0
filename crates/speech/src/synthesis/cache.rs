//! A cache of audio by the hash of its text. The longest unused audio is evicted first.

use std::collections::VecDeque;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::format::Format;

/// Maximum bytes of all audio.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of entries.
const ENTRIES_MAX: usize = 256;

pub(super) type Key = [u8; 32];

#[derive(Default)]
pub(super) struct Cache {
    /// The last used entry is the last one.
    entries: VecDeque<(Key, Format, Bytes)>,
    bytes: usize,
}

impl Cache {
    pub(super) fn key(text: &str) -> Key {
        Sha256::digest(text).into()
    }

    pub(super) fn get(&mut self, key: &Key) -> Option<(Format, Bytes)> {
        let at = self.entries.iter().position(|(known, ..)| known == key)?;
        let entry = self.entries.remove(at)?;
        let found = (entry.1, entry.2.clone());
        self.entries.push_back(entry);
        Some(found)
    }

    pub(super) fn put(&mut self, key: Key, format: Format, audio: Bytes) {
        if self.get(&key).is_some() {
            return;
        }
        self.bytes += audio.len();
        self.entries.push_back((key, format, audio));
        while self.bytes > BYTES_MAX || self.entries.len() > ENTRIES_MAX {
            let Some((.., evicted)) = self.entries.pop_front() else { break };
            self.bytes -= evicted.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_audio_is_evicted_within_the_bounds() {
        let mut cache = Cache::default();
        let quarter = Bytes::from(vec![0; BYTES_MAX / 4]);
        for text in ["a", "b", "c", "d"] {
            cache.put(Cache::key(text), Format::Wav, quarter.clone());
        }
        assert!(cache.get(&Cache::key("a")).is_some());
        cache.put(Cache::key("e"), Format::Wav, quarter);
        assert!(cache.get(&Cache::key("b")).is_none() && cache.get(&Cache::key("a")).is_some());
        for number in 0..2 * ENTRIES_MAX {
            cache.put(Cache::key(&number.to_string()), Format::Wav, Bytes::from_static(b"x"));
        }
        assert!(cache.entries.len() == ENTRIES_MAX && cache.bytes <= BYTES_MAX);
    }
}
