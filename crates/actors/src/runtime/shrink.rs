//! Maps that were once large. They keep the room for everybody they ever held, and a crowd may have come and gone.

use std::collections::HashMap;
use std::hash::Hash;

/// Maps of fewer places are left alone.
const SMALL: usize = 1024;

/// Gives most of a map's room back once it is mostly empty. Each call costs next to nothing, and each time that it does
/// something the room is halved at least, so the work stays in proportion to what was removed.
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
