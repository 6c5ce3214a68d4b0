//! Whole numbers stored under one key that only increase. Their text form is the numbers separated by spaces, without
//! trailing zeros, such as `12 340 0 1`; so the text of one number is that number.

use std::fmt::{Display, Formatter};

/// The number of fields of a counter.
pub const NUMBERS: usize = 6;

/// The most characters of a number that is parsed; longer ones are not valid counts.
const DIGITS_MOST: usize = 18;

/// The fields of a counter, or increments for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counter(pub [i64; NUMBERS]);

impl Counter {
    /// Parses the text form. `None` for any other text.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut numbers = [0; NUMBERS];
        let mut known = numbers.iter_mut();
        for written in text.split(' ') {
            let number = written.parse().ok().filter(|_| is_written_so(written))?;
            *known.next()? = number;
        }
        Some(Self(numbers))
    }

    /// Returns the sum. A field that exceeds [`DIGITS_MOST`] digits restarts with its next increment.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (number, by) in self.0.iter_mut().zip(other.0) {
            *number = number.saturating_add(by);
        }
        self
    }
}

impl From<i64> for Counter {
    fn from(number: i64) -> Self {
        let mut numbers = [0; NUMBERS];
        numbers[0] = number;
        Self(numbers)
    }
}

impl Display for Counter {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first}")?;
        let written = rest.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
        rest[..written].iter().try_for_each(|number| write!(f, " {number}"))
    }
}

fn is_written_so(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let usual = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0') || number == "0";
    usual && number.len() <= DIGITS_MOST
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_of_another_form_are_none() {
        for text in
            ["", " ", "1 ", " 1", "1  2", "01", "-0", "+1", "4.5", "forty", "1 2 3 4 5 6 7", "1234567890123456789"]
        {
            assert_eq!(Counter::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_text_of_one_number_is_that_number() {
        assert_eq!((Counter::from(-5).to_string().as_str(), Counter::read("42")), ("-5", Some(Counter::from(42))));
        assert_eq!(Counter([0, 3, 0, 1, 0, 0]).to_string(), "0 3 0 1");
        assert_eq!(Counter([i64::MAX; 6]).plus(Counter([1; 6])), Counter([i64::MAX; 6]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers in proptest::array::uniform6(-99_999_999_999_999_999_i64..100_000_000_000_000_000)) {
            prop_assert_eq!(Counter::read(&Counter(numbers).to_string()), Some(Counter(numbers)));
        }
    }
}
