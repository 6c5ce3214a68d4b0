//! What a turn will take, before a model was asked: learned from what turns took. All of it is approximate on purpose; what a
//! turn really took is settled afterwards.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem;

use crate::domain::ids::{Person, Place};

/// Characters that make a token, about.
pub const CHARS_A_TOKEN: u64 = 4;

/// The tokens of an answer while too few were seen.
const OUTPUT_AT_FIRST: u64 = 300;

/// So many answers make a habit.
const OUTPUTS_FEW: u32 = 20;

/// With so many answers all are counted half, so that old habits fade.
const OUTPUTS_MANY: u32 = 1_024;

/// Sizes of answers that are told apart: two for each doubling.
const SIZES: usize = 64;

/// Lanes in each of the two generations. The older one goes when the younger one is full.
const LANES: usize = 8_192;

/// What was learned of turns.
pub struct Learned {
    outputs: [u32; SIZES],
    seen: u32,
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
}

impl Default for Learned {
    fn default() -> Self {
        Self { outputs: [0; SIZES], seen: 0, young: HashMap::new(), old: HashMap::new() }
    }
}

impl Learned {
    /// A turn of a lane has ended: it had a prompt of so many tokens and an answer of so many.
    pub fn learn(&mut self, person: &Person, place: &Place, prompt: u64, output: u64) {
        self.outputs[size(output)] += 1;
        self.seen += 1;
        if self.seen >= OUTPUTS_MANY {
            self.outputs.iter_mut().for_each(|count| *count /= 2);
            self.seen = self.outputs.iter().sum();
        }
        let lane = lane(person, place);
        self.old.remove(&lane);
        self.young.insert(lane, prompt);
        if self.young.len() >= LANES {
            self.old = mem::take(&mut self.young);
        }
    }

    /// The tokens that a turn of a lane will take: its last prompt or at least the fixed part of every prompt, the question,
    /// and what nineteen of twenty answers stay below.
    #[must_use]
    pub fn estimate(&self, person: &Person, place: &Place, fixed: u64, question: &str) -> u64 {
        let lane = lane(person, place);
        let before = self.young.get(&lane).or_else(|| self.old.get(&lane)).copied().unwrap_or(0);
        let asked = question.chars().count() as u64 / CHARS_A_TOKEN;
        fixed.max(before).saturating_add(asked).saturating_add(self.output())
    }

    /// What nineteen of twenty answers stay below.
    fn output(&self) -> u64 {
        if self.seen < OUTPUTS_FEW {
            return OUTPUT_AT_FIRST;
        }
        let mut above = self.seen / 20;
        for (index, count) in self.outputs.iter().enumerate().rev() {
            if *count > above {
                return most(index);
            }
            above -= count;
        }
        OUTPUT_AT_FIRST
    }
}

/// A number for a lane. Two lanes with the same one would share an estimate, which harms nobody.
fn lane(person: &Person, place: &Place) -> u64 {
    let mut hasher = DefaultHasher::new();
    (person, place).hash(&mut hasher);
    hasher.finish()
}

/// Sizes 0 and 1 are for none and one; then each doubling has a lower and an upper half.
fn size(tokens: u64) -> usize {
    if tokens < 2 {
        return usize::from(tokens == 1);
    }
    let octave = tokens.ilog2();
    let upper = (tokens >> (octave - 1)) & 1 == 1;
    (octave as usize * 2 + usize::from(upper)).min(SIZES - 1)
}

/// The largest number of a size.
fn most(size: usize) -> u64 {
    match size {
        0 | 1 => size as u64,
        _ => {
            let half = 1_u64 << (size / 2 - 1);
            half * (size as u64 % 2 + 3) - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Door;

    const DOOR: Door = Door::new("discord");

    #[test]
    fn every_number_is_within_its_size() {
        let mut before = 0;
        for tokens in 0..100_000 {
            let size = size(tokens);
            assert!(tokens <= most(size) && size >= before, "{tokens}");
            assert!(size == 0 || tokens > most(size - 1), "{tokens}");
            before = size;
        }
        assert_eq!(size(u64::MAX), SIZES - 1);
    }

    #[test]
    fn answers_are_learned_and_rare_long_ones_do_not_count() {
        let (person, place) = (Person::new(DOOR, "7"), Place::new(DOOR, "42"));
        let mut learned = Learned::default();
        assert_eq!(learned.estimate(&person, &place, 200, "12345678"), 200 + 2 + OUTPUT_AT_FIRST);
        for turn in 0..100 {
            learned.learn(&person, &place, 900, if turn % 25 == 0 { 10_000 } else { 40 });
        }
        assert_eq!(learned.estimate(&person, &place, 200, ""), 900 + 47);
        let stranger = Person::new(DOOR, "8");
        assert_eq!(learned.estimate(&stranger, &place, 200, ""), 200 + 47);
        for _ in 0..2_000 {
            learned.learn(&person, &place, 0, 500);
        }
        assert_eq!(learned.estimate(&person, &place, 0, ""), 511);
        learned.learn(&person, &place, u64::MAX, u64::MAX);
        assert_eq!(learned.estimate(&person, &place, 0, ""), u64::MAX);
    }

    #[test]
    fn lanes_are_bounded() {
        let place = Place::new(DOOR, "42");
        let mut learned = Learned::default();
        for number in 0..LANES * 3 {
            learned.learn(&Person::new(DOOR, number.to_string()), &place, 1, 1);
        }
        assert!(learned.young.len() + learned.old.len() <= 2 * LANES);
    }
}
