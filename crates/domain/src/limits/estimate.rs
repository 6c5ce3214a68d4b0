//! Estimates of a turn's tokens before the model call, learned from the actual use of earlier turns. Estimates are
//! approximate by design; the actual use is settled afterwards.
//!
//! - *Source of the length.* The typical length of an answer is learned for each member, else for each place, else over
//!   all.
//! - *Isolation of members.* One member counts once in the estimates of others, and the longest answers are always
//!   excluded: so no single member raises another member's estimate.
//! - *Upper bound.* An estimate is at most twice the mean actual use of such turns. So one long answer or one turn with
//!   tool calls does not cause refusals of a member's short questions.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem;
use std::num::NonZeroU32;

use crate::ids::{Person, Place};

/// The approximate number of characters per token.
pub const CHARS_A_TOKEN: u64 = 4;

/// The tokens assumed for an answer until there are enough samples.
const OUTPUT_AT_FIRST: u64 = 300;

/// The minimum number of samples: answers of a member, or of different members.
const OUTPUTS_FEW: usize = 4;

/// The number of recent answers kept for one member, and of different members kept for one place.
const OUTPUTS_NARROW: usize = 16;

/// The number of recent answers of different members kept over all.
const OUTPUTS_ALL: usize = 64;

/// The share of the longest answers that are excluded as outliers is one in this number, and at least one answer.
const EXCEPTION_OF: usize = 20;

/// The number of size classes of answers: two for each power of two.
const SIZES: usize = 64;

/// The number of recent prompts kept for a conversation. The prompts of a turn with tool calls are summed up; the
/// smallest kept value is close to the length of one prompt.
const PROMPTS: usize = 4;

/// The maximum numbers of conversations, members and places in each of two generations. When the younger generation is
/// full, the older is evicted.
const CONVERSATIONS: usize = 8_192;
const MEMBERS: usize = 8_192;
const PLACES: usize = 1_024;

/// The statistics learned from turns.
pub struct Learned {
    /// The recent prompts of each conversation.
    prompts: Generations<Prompts>,
    members: Generations<Lengths>,
    places: Generations<Lengths>,
    all: Lengths,
}

impl Default for Learned {
    fn default() -> Self {
        Self {
            prompts: Generations::new(CONVERSATIONS),
            members: Generations::new(MEMBERS),
            places: Generations::new(PLACES),
            all: Lengths::default(),
        }
    }
}

impl Learned {
    /// Records an ended turn of a conversation, with the tokens of its prompt and of its answer.
    pub fn learn(&mut self, person: &Person, place: &Place, prompt: u64, output: u64) {
        let member = number(person);
        let sizes = Sizes { by: None, output: size(output), whole: size(prompt.saturating_add(output)) };
        let by = Sizes { by: Some(short(member)), ..sizes };
        self.prompts.update(number((person, place)), |last| last.add(prompt));
        self.members.update(member, |lengths| lengths.add(sizes, OUTPUTS_NARROW));
        self.places.update(number(place), |lengths| lengths.add(by, OUTPUTS_NARROW));
        self.all.add(by, OUTPUTS_ALL);
    }

    /// Returns the estimated tokens of a turn: the smallest recent prompt, but at least the fixed part of every prompt
    /// (tools included), plus the question and the typical answer length. The estimate is at most twice the mean use of
    /// turns, or that mean plus the question if the question is long.
    #[must_use]
    pub fn estimate(&self, person: &Person, place: &Place, fixed: u64, question: &str) -> u64 {
        let before = self.prompts.get(number((person, place))).map_or(0, Prompts::smallest);
        let asked = question.chars().count() as u64 / CHARS_A_TOKEN;
        let output = self.of(person, place, Lengths::usual_output).unwrap_or(OUTPUT_AT_FIRST);
        let estimate = fixed.max(before).saturating_add(asked).saturating_add(output);
        match self.of(person, place, Lengths::mean_whole) {
            Some(mean) => estimate.min(mean.saturating_add(mean.max(asked))),
            None => estimate,
        }
    }

    /// Returns the statistic of the member, else of the place, else over all.
    fn of(&self, person: &Person, place: &Place, what: fn(&Lengths) -> Option<u64>) -> Option<u64> {
        let member = self.members.get(number(person)).and_then(what);
        let known = member.or_else(|| self.places.get(number(place)).and_then(what));
        known.or_else(|| what(&self.all))
    }
}

/// The recent prompts of a conversation, each stored as its tokens plus one.
#[derive(Default)]
struct Prompts([Option<NonZeroU32>; PROMPTS]);

impl Prompts {
    fn add(&mut self, tokens: u64) {
        self.0.rotate_right(1);
        self.0[0] = Some(NonZeroU32::MIN.saturating_add(u32::try_from(tokens).unwrap_or(u32::MAX)));
    }

    fn smallest(&self) -> u64 {
        self.0.iter().flatten().min().map_or(0, |tokens| u64::from(tokens.get()) - 1)
    }
}

/// The size classes of one answer and of its whole turn, with the member if the sample list covers several members.
#[derive(Clone, Copy)]
struct Sizes {
    by: Option<NonZeroU32>,
    output: u8,
    whole: u8,
}

/// The size classes of the recent turns, oldest first.
#[derive(Default)]
struct Lengths(Vec<Sizes>);

impl Lengths {
    /// Adds a sample. Only the latest sample of each member is kept.
    fn add(&mut self, sizes: Sizes, most: usize) {
        let before = self.0.iter().position(|known| sizes.by.is_some() && known.by == sizes.by);
        if let Some(before) = before.or_else(|| (self.0.len() >= most).then_some(0)) {
            self.0.remove(before);
        }
        self.0.push(sizes);
    }

    /// Returns the samples without the outliers, in ascending order; none if there are too few samples.
    fn usual(&self, of: fn(&Sizes) -> u8) -> Option<Vec<u8>> {
        if self.0.len() < OUTPUTS_FEW {
            return None;
        }
        let mut sizes: Vec<u8> = self.0.iter().map(of).collect();
        sizes.sort_unstable();
        let exceptions = (sizes.len() / EXCEPTION_OF).max(1);
        sizes.truncate(sizes.len() - exceptions);
        Some(sizes)
    }

    /// Returns the largest answer that is not an outlier.
    fn usual_output(&self) -> Option<u64> {
        self.usual(|sizes| sizes.output)?.last().map(|size| most(*size))
    }

    /// Returns the mean use of turns without outliers, never above the actual mean.
    fn mean_whole(&self) -> Option<u64> {
        let sizes = self.usual(|sizes| sizes.whole)?;
        let sum: u128 = sizes.iter().map(|size| u128::from(least(*size))).sum();
        u64::try_from(sum / sizes.len().max(1) as u128).ok()
    }
}

/// A bounded cache by number, with two generations. Entries unused for two generations are evicted.
struct Generations<T> {
    young: HashMap<u64, T>,
    old: HashMap<u64, T>,
    most: usize,
}

impl<T: Default> Generations<T> {
    fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most }
    }

    fn get(&self, key: u64) -> Option<&T> {
        self.young.get(&key).or_else(|| self.old.get(&key))
    }

    fn update(&mut self, key: u64, change: impl FnOnce(&mut T)) {
        if !self.young.contains_key(&key) {
            if self.young.len() >= self.most {
                self.old = mem::take(&mut self.young);
            }
            let known = self.old.remove(&key).unwrap_or_default();
            self.young.insert(key, known);
        }
        if let Some(known) = self.young.get_mut(&key) {
            change(known);
        }
    }
}

/// Returns the hash of a member, a place or both. Two with the same hash share an estimate, which is harmless.
fn number(named: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    named.hash(&mut hasher);
    hasher.finish()
}

/// Returns the hash, shortened to 32 bits.
fn short(number: u64) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add((number >> 33) as u32)
}

/// Returns the size class. Classes 0 and 1 stand for 0 and 1 tokens; then each power of two has a lower and an upper
/// half.
fn size(tokens: u64) -> u8 {
    if tokens < 2 {
        return u8::from(tokens == 1);
    }
    let octave = tokens.ilog2();
    let upper = (tokens >> (octave - 1)) & 1 == 1;
    let size = (octave as usize * 2 + usize::from(upper)).min(SIZES - 1);
    u8::try_from(size).unwrap_or(u8::MAX)
}

/// Returns the smallest number in a size class.
fn least(size: u8) -> u64 {
    match size {
        0 | 1 => u64::from(size),
        _ => (1_u64 << (size / 2 - 1)) * (u64::from(size) % 2 + 2),
    }
}

/// Returns the largest number in a size class.
fn most(size: u8) -> u64 {
    match size {
        0 | 1 => u64::from(size),
        _ => {
            let half = 1_u64 << (size / 2 - 1);
            half * (u64::from(size) % 2 + 3) - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Door;

    const DOOR: Door = Door::new("discord");

    fn person(number: usize) -> Person {
        Person::new(DOOR, number.to_string())
    }

    #[test]
    fn every_number_is_within_its_size() {
        let mut before = 0;
        for tokens in 0..100_000 {
            let size = size(tokens);
            assert!(least(size) <= tokens && tokens <= most(size) && size >= before, "{tokens}");
            assert!(size == 0 || tokens > most(size - 1), "{tokens}");
            before = size;
        }
        assert_eq!(usize::from(size(u64::MAX)), SIZES - 1);
    }

    #[test]
    fn answers_are_learned_and_rare_long_ones_do_not_count() {
        let (person, place) = (person(7), Place::new(DOOR, "42"));
        let mut learned = Learned::default();
        assert_eq!(learned.estimate(&person, &place, 200, "12345678"), 200 + 2 + OUTPUT_AT_FIRST);
        for turn in 0..100 {
            learned.learn(&person, &place, 900, if turn % 25 == 0 { 10_000 } else { 40 });
        }
        assert_eq!(learned.estimate(&person, &place, 200, ""), 900 + 47);
        for _ in 0..OUTPUTS_NARROW {
            learned.learn(&person, &place, 0, 500);
        }
        assert_eq!(learned.estimate(&person, &place, 0, ""), 511);
        learned.learn(&person, &place, u64::MAX, u64::MAX);
        assert_eq!(learned.estimate(&person, &place, 0, ""), 511, "one is an exception");
    }

    #[test]
    fn a_question_that_called_tools_makes_the_next_estimate_no_longer() {
        let (person, place) = (person(7), Place::new(DOOR, "42"));
        let mut learned = Learned::default();
        for prompt in [700, 720, 740, 3_800] {
            learned.learn(&person, &place, prompt, 40);
        }
        assert_eq!(learned.estimate(&person, &place, 600, "and then?"), 700 + 2 + 47);
    }

    #[test]
    fn a_long_question_is_added_to_what_turns_take() {
        let (person, place) = (person(7), Place::new(DOOR, "42"));
        let mut learned = Learned::default();
        for _ in 0..OUTPUTS_FEW {
            learned.learn(&person, &place, 1_000, 24);
        }
        let long = "word ".repeat(8_000);
        assert_eq!(learned.estimate(&person, &place, 0, &long), 1_024 + 10_000);
    }

    proptest! {
        /// Tests the bound for short questions over every order of short, long and tool-calling turns.
        #[test]
        fn a_short_question_is_estimated_at_no_more_than_twice_what_turns_took(
            turns in vec((100_u64..20_000, 1_u64..6, 0_u64..8_000), OUTPUTS_FEW..40),
            fixed in 0_u64..100_000, question in "[a-z ?]{0,80}",
        ) {
            let (person, place) = (person(7), Place::new(DOOR, "42"));
            let mut learned = Learned::default();
            for (prompt, calls, output) in &turns {
                learned.learn(&person, &place, prompt * calls, *output);
            }
            let last = &turns[turns.len().saturating_sub(OUTPUTS_NARROW)..];
            let took: u64 = last.iter().map(|(prompt, calls, output)| prompt * calls + output).sum();
            let estimate = learned.estimate(&person, &place, fixed, &question);
            prop_assert!(estimate <= 2 * took / last.len() as u64, "{estimate} for turns of {took}");
        }
    }

    #[test]
    fn what_one_member_did_makes_no_estimate_of_another() {
        let (here, there) = (Place::new(DOOR, "42"), Place::new(DOOR, "43"));
        let mut learned = Learned::default();
        for _ in 0..1_000 {
            learned.learn(&person(7), &here, 900, 100_000);
        }
        assert_eq!(learned.estimate(&person(8), &here, 200, ""), 200 + OUTPUT_AT_FIRST);
        for number in 10..14 {
            learned.learn(&person(number), &here, 100, 40);
        }
        assert_eq!(learned.estimate(&person(8), &here, 200, ""), 200 + 47, "learned from the others here");
        assert_eq!(learned.estimate(&person(8), &there, 200, ""), 200 + 47, "learned from the others elsewhere");
        assert!(learned.estimate(&person(7), &there, 200, "") > 100_000, "their own answers are long everywhere");
        for _ in 0..OUTPUTS_FEW {
            learned.learn(&person(8), &there, 200, 3);
        }
        assert_eq!(learned.estimate(&person(8), &here, 200, ""), 200 + 3, "their own are known best");
    }

    #[test]
    fn what_is_learned_is_bounded() {
        let mut learned = Learned::default();
        for number in 0..MEMBERS * 3 {
            learned.learn(&person(number), &Place::new(DOOR, number.to_string()), 1, 1);
        }
        let sizes = [
            learned.prompts.young.len() + learned.prompts.old.len(),
            learned.members.young.len() + learned.members.old.len(),
            learned.places.young.len() + learned.places.old.len(),
            learned.all.0.len(),
        ];
        assert!(
            sizes
                .iter()
                .zip([2 * CONVERSATIONS, 2 * MEMBERS, 2 * PLACES, OUTPUTS_ALL])
                .all(|(size, most)| *size <= most)
        );
        for _ in 0..100 {
            learned.learn(&person(1), &Place::new(DOOR, "1"), 1, 1);
        }
        assert!(learned.members.get(number(person(1))).is_some_and(|lengths| lengths.0.len() == OUTPUTS_NARROW));
    }
}
