//! Limits the answers to authors without other limits, such as bots: at most a fixed number per window. This stops two
//! bots that answer each other's every message.

use std::collections::HashMap;
use std::time::Duration;

use super::ids::{Person, Timestamp, TurnId};

/// The maximum number of authors tracked at once. Further authors get no answer.
const PAIRS_MAX: usize = 1_000;

/// The current windows by author. A window begins with the first message.
#[derive(Debug, Default)]
pub struct Pairs(HashMap<Person, Window>);

#[derive(Debug)]
struct Window {
    began: Timestamp,
    /// The messages answered in this window.
    answered: Vec<TurnId>,
}

impl Pairs {
    /// Returns true if this message may be answered, within `most` answers per `window`. Repeats of one message count
    /// once.
    pub fn admit(&mut self, whom: &Person, message: &TurnId, now: Timestamp, most: u32, window: Duration) -> bool {
        self.0.retain(|_, known| now.since(known.began) < window);
        if self.0.len() >= PAIRS_MAX && !self.0.contains_key(whom) {
            return false;
        }
        let known = self.0.entry(whom.clone()).or_insert_with(|| Window { began: now, answered: Vec::new() });
        if known.answered.contains(message) {
            return true;
        }
        let admitted = known.answered.len() < usize::try_from(most).unwrap_or(usize::MAX);
        if admitted {
            known.answered.push(message.clone());
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Door, MessageId};

    const WINDOW: Duration = Duration::from_secs(600);
    const DOOR: Door = Door::new("test");

    fn message(number: u32) -> TurnId {
        TurnId::of(&MessageId::new(DOOR, number.to_string()))
    }

    #[test]
    fn so_many_answers_in_a_window_then_none_until_it_is_over() {
        let (bot, mut pairs) = (Person::new(DOOR, "77"), Pairs::default());
        let mut admit = |number, at: u64| pairs.admit(&bot, &message(number), Timestamp(at), 3, WINDOW);
        assert!((1..=3).all(|number| admit(number, 1000 * u64::from(number))));
        assert!(!admit(4, 5_000));
        assert!(admit(2, 5_000), "what was admitted stays so");
        assert!(!admit(5, 600_999), "messages that were ignored do not begin a window");
        assert!(admit(6, 601_000));
    }

    #[test]
    fn each_bot_has_its_own_window() {
        let mut pairs = Pairs::default();
        let mut admit =
            |bot: &str, number| pairs.admit(&Person::new(DOOR, bot), &message(number), Timestamp(1), 1, WINDOW);
        assert!(admit("77", 1) && admit("78", 2));
        assert!(!admit("77", 3) && !admit("78", 4));
    }

    #[test]
    fn a_clock_that_goes_back_closes_no_window_early() {
        let (bot, mut pairs) = (Person::new(DOOR, "77"), Pairs::default());
        assert!(pairs.admit(&bot, &message(1), Timestamp(10_000_000), 1, WINDOW));
        assert!(!pairs.admit(&bot, &message(2), Timestamp(1_000), 1, WINDOW));
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut pairs = Pairs::default();
        for number in 0..PAIRS_MAX {
            assert!(pairs.admit(&Person::new(DOOR, number.to_string()), &message(1), Timestamp(1), 1, WINDOW));
        }
        assert!(!pairs.admit(&Person::new(DOOR, "new"), &message(1), Timestamp(1), 1, WINDOW));
        assert!(pairs.admit(&Person::new(DOOR, "new"), &message(1), Timestamp(700_000), 1, WINDOW));
    }
}
