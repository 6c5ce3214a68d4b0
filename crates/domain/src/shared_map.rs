//! A bounded map that groups of keys, such as the threads of each community, share by the rule of
//! [`fair_share`]: one group has at most half of the entries. Beyond its share, a new entry evicts
//! the oldest one of its own group, never an entry of another group.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::fair_share;

/// The map. An entry that is inserted again is the newest one of its group.
#[derive(Debug)]
pub struct SharedMap<K, V> {
    capacity: usize,
    entries: HashMap<K, Entry<V>>,
    /// The keys of each group by age, the oldest first; no group is empty.
    groups: HashMap<Arc<str>, BTreeMap<u64, K>>,
    last: u64,
}

#[derive(Debug)]
struct Entry<V> {
    group: Arc<str>,
    age: u64,
    value: V,
}

/// The map is full, and the group has no entry to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl<K: Clone + Eq + Hash, V> SharedMap<K, V> {
    /// Creates an empty map with a maximum number of entries.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), groups: HashMap::new(), last: 0 }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// True if a group may have a further entry without an eviction.
    #[must_use]
    pub fn has_room(&self, group: &str) -> bool {
        let held = self.groups.get(group).map_or(0, BTreeMap::len);
        fair_share::admits(held, self.capacity.saturating_sub(self.len()))
    }

    /// Inserts or replaces an entry. Returns the key of the evicted entry, if any.
    ///
    /// # Errors
    /// There is no room. An entry of another group under this key is removed.
    pub fn insert(&mut self, group: &str, key: K, value: V) -> Result<Option<K>, NoRoom> {
        self.remove(&key);
        let evicted = if self.has_room(group) {
            None
        } else {
            let oldest = self.groups.get(group).and_then(|keys| keys.first_key_value());
            let oldest = oldest.map(|(_, key)| key.clone()).ok_or(NoRoom)?;
            self.remove(&oldest);
            Some(oldest)
        };
        self.last += 1;
        let group = self.groups.get_key_value(group).map_or_else(|| Arc::from(group), |(group, _)| Arc::clone(group));
        self.groups.entry(Arc::clone(&group)).or_default().insert(self.last, key.clone());
        self.entries.insert(key, Entry { group, age: self.last, value });
        Ok(evicted)
    }

    /// Removes an entry; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let Entry { group, age, value } = self.entries.remove(key)?;
        if let Some(keys) = self.groups.get_mut(&group) {
            keys.remove(&age);
            if keys.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(value)
    }

    /// Removes the entries of a group that do not match. Costs as much as the group has entries.
    pub fn retain_in(&mut self, group: &str, mut matching: impl FnMut(&K, &V) -> bool) {
        let Some(keys) = self.groups.get_mut(group) else { return };
        let entries = &mut self.entries;
        keys.retain(|_, key| {
            let stays = entries.get(key).is_some_and(|entry| matching(key, &entry.value));
            if !stays {
                entries.remove(key);
            }
            stays
        });
        if keys.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Removes the entries that do not match. Costs as much as the map has entries.
    pub fn retain(&mut self, mut matching: impl FnMut(&K, &V) -> bool) {
        let groups: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for group in groups {
            self.retain_in(&group, &mut matching);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(map: &SharedMap<u32, char>, group: &str) -> Vec<u32> {
        map.groups.get(group).map_or_else(Vec::new, |keys| keys.values().copied().collect())
    }

    #[test]
    fn a_group_beyond_its_share_evicts_its_own_oldest_entry() {
        let mut map = SharedMap::new(6);
        assert_eq!(map.insert("quiet", 100, 'q'), Ok(None));
        let evicted: Vec<_> = (1..=5).map(|key| map.insert("loud", key, 'l')).collect();
        assert_eq!(evicted, [Ok(None), Ok(None), Ok(None), Ok(Some(1)), Ok(Some(2))]);
        assert_eq!(map.insert("loud", 3, 'n'), Ok(None), "an entry that is inserted again is the newest");
        assert_eq!((keys(&map, "loud"), map.get(&3), map.get(&100)), (vec![4, 5, 3], Some(&'n'), Some(&'q')));
        assert_eq!(map.insert("third", 200, 't'), Ok(None));
        assert_eq!(map.insert("fourth", 300, 'f'), Ok(None));
        assert_eq!(map.insert("fifth", 400, 'x'), Err(NoRoom), "all entries are of other groups");
        assert_eq!((map.len(), map.get(&400)), (6, None));
    }

    #[test]
    fn removed_entries_leave_nothing_behind() {
        let mut map = SharedMap::new(8);
        for key in 1..=4 {
            map.insert(if key % 2 == 0 { "even" } else { "odd" }, key, 'v').unwrap();
        }
        assert_eq!((map.remove(&1), map.remove(&1)), (Some('v'), None));
        map.retain_in("even", |key, _| *key != 2);
        assert_eq!((keys(&map, "even"), keys(&map, "odd")), (vec![4], vec![3]));
        map.insert("odd", 4, 'm').unwrap();
        assert_eq!(keys(&map, "odd"), [3, 4], "an entry has one group");
        map.retain(|_, _| false);
        assert!(map.is_empty() && map.groups.is_empty());
    }
}
