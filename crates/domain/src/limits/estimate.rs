//! What a turn will take, before a model was asked: learned from what turns took. All of it is approximate on purpose; what a
//! turn really took is settled afterwards.
//!
//! The length of an answer is learned for each member, else for each place, else for all. What a member did counts once where
//! others are estimated by it, and the longest is always left out: so no single member makes another one's estimate longer.
//!
//! An estimate is at most twice the mean of what such turns really took. So a member who asks short questions is not refused by
//! estimates that one long answer, or one question that called tools, left behind.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem;
use std::num::NonZeroU32;

use crate::ids::{Person, Place};

/// Characters that make a token, about.
pub const CHARS_A_TOKEN: u64 = 4;

/// The tokens of an answer while too few were seen.
const OUTPUT_AT_FIRST: u64 = 300;

/// So many answers of a member, or of different members, make a habit.
const OUTPUTS_FEW: usize = 4;

/// The last answers of one member that are remembered, and of so many different members in one place.
const OUTPUTS_NARROW: usize = 16;

/// The last answers of so many different members are remembered of all.
const OUTPUTS_ALL: usize = 64;

/// One of so many of the longest answers is taken for an exception, and at least one is.
const EXCEPTION_OF: usize = 20;

/// Sizes of answers that are told apart: two for each doubling.
const SIZES: usize = 64;

/// The last prompts of a conversation that are remembered. A turn that calls tools has several prompts, which are summed; the
/// smallest of these is near the length of one.
const PROMPTS: usize = 4;

/// Conversations, members and places in each of two generations. The older one goes when the younger one is full.
const CONVERSATIONS: usize = 8_192;
const MEMBERS: usize = 8_192;
const PLACES: usize = 1_024;

/// What was learned of turns.
pub struct Learned {
    /// The last prompts of each conversation.
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
    /// A turn of a conversation has ended: it had a prompt of so many tokens and an answer of so many.
    pub fn learn(&mut self, person: &Person, place: &Place, prompt: u64, output: u64) {
        let member = number(person);
        let sizes = Sizes { by: None, output: size(output), whole: size(prompt.saturating_add(output)) };
        let by = Sizes { by: Some(short(member)), ..sizes };
        self.prompts.update(number((person, place)), |last| last.add(prompt));
        self.members.update(member, |lengths| lengths.add(sizes, OUTPUTS_NARROW));
        self.places.update(number(place), |lengths| lengths.add(by, OUTPUTS_NARROW));
        self.all.add(by, OUTPUTS_ALL);
    }

    /// The tokens that a turn of a conversation will take: the smallest of its last prompts or at least the fixed part of every
    /// prompt, tools included, plus the question and the length of an answer. At most twice what turns took on average, or that
    /// average and the question, where it is long.
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

    /// What is known of the member, else of the place, else of all.
    fn of(&self, person: &Person, place: &Place, what: fn(&Lengths) -> Option<u64>) -> Option<u64> {
        let member = self.members.get(number(person)).and_then(what);
        let known = member.or_else(|| self.places.get(number(place)).and_then(what));
        known.or_else(|| what(&self.all))
    }
}

/// The last prompts of a conversation, each one more than its tokens.
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

/// The sizes of one answer and of all that its turn took, with the member whose it was where several are learned from.
#[derive(Clone, Copy)]
struct Sizes {
    by: Option<NonZeroU32>,
    output: u8,
    whole: u8,
}

/// The sizes of the last turns, the oldest first.
#[derive(Default)]
struct Lengths(Vec<Sizes>);

impl Lengths {
    /// Of a member only the last one is kept.
    fn add(&mut self, sizes: Sizes, most: usize) {
        let before = self.0.iter().position(|known| sizes.by.is_some() && known.by == sizes.by);
        if let Some(before) = before.or_else(|| (self.0.len() >= most).then_some(0)) {
            self.0.remove(before);
        }
        self.0.push(sizes);
    }

    /// All but the exceptions, the smallest first; none while too few were seen.
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

    /// The largest answer that is no exception.
    fn usual_output(&self) -> Option<u64> {
        self.usual(|sizes| sizes.output)?.last().map(|size| most(*size))
    }

    /// The mean of what turns took, without exceptions, and never above what they really took.
    fn mean_whole(&self) -> Option<u64> {
        let sizes = self.usual(|sizes| sizes.whole)?;
        let sum: u128 = sizes.iter().map(|size| u128::from(least(*size))).sum();
        u64::try_from(sum / sizes.len().max(1) as u128).ok()
    }
}

/// What was seen last, by a number, bounded. What is not seen for two generations is forgotten.
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

/// A number for a member, a place or both. Two with the same one would share an estimate, which harms nobody.
fn number(named: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    named.hash(&mut hasher);
    hasher.finish()
}

/// The same in less room.
fn short(number: u64) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add((number >> 33) as u32)
}

/// Sizes 0 and 1 are for none and one; then each doubling has a lower and an upper half.
fn size(tokens: u64) -> u8 {
    if tokens < 2 {
        return u8::from(tokens == 1);
    }
    let octave = tokens.ilog2();
    let upper = (tokens >> (octave - 1)) & 1 == 1;
    let size = (octave as usize * 2 + usize::from(upper)).min(SIZES - 1);
    u8::try_from(size).unwrap_or(u8::MAX)
}

/// The smallest number of a size.
fn least(size: u8) -> u64 {
    match size {
        0 | 1 => u64::from(size),
        _ => (1_u64 << (size / 2 - 1)) * (u64::from(size) % 2 + 2),
    }
}

/// The largest number of a size.
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
        /// The promise about short questions, over every order of short, long and tool-calling turns.
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
