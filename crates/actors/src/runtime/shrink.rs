//! Shrinking of maps that were once large. A map keeps the capacity of its largest size, even after most entries are
//! removed.

use std::collections::HashMap;
use std::hash::Hash;

/// The capacity below which maps are not shrunk.
const SMALL: usize = 1024;

/// Releases most of a map's capacity if the map is mostly empty. A call without effect is cheap, and each effective
/// call at least halves the capacity, so the total work is proportional to the number of removals.
pub fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_the_contents_down_and_small_maps_are_left_alone() {
        let mut map: HashMap<u32, u32> = (0..100_000).map(|number| (number, number)).collect();
        for number in 0..100_000 {
            map.remove(&number);
            shrink(&mut map);
            assert!(map.capacity() <= SMALL.max(8 * map.len() + 8), "{} for {}", map.capacity(), map.len());
        }
        let room = map.capacity();
        shrink(&mut map);
        assert!(room > 0 && map.capacity() == room);
    }
}
