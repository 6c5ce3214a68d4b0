//! Prefetched reads, sent together with another request. Plain data, bounded, without waiting.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;

use ports::Stored;

/// The time for which an unused answer is kept: other processes may write to the backend.
pub const FRESH: Duration = Duration::from_millis(50);

/// The most prefetches; further ones are not started.
const MOST: usize = 256;

/// The running prefetches by key.
#[derive(Default)]
pub struct Ahead {
    begun: HashMap<Box<str>, Begun>,
    last: u64,
}

struct Begun {
    number: u64,
    answer: oneshot::Receiver<Stored>,
}

impl Ahead {
    /// Begins a read of this key; returns its number and the sender of its answer. Returns `None` if one is running or
    /// there are too many.
    pub fn begin(&mut self, key: &str) -> Option<(u64, oneshot::Sender<Stored>)> {
        if self.begun.len() >= MOST || self.begun.contains_key(key) {
            return None;
        }
        self.last += 1;
        let (told, answer) = oneshot::channel();
        self.begun.insert(key.into(), Begun { number: self.last, answer });
        Some((self.last, told))
    }

    /// Takes the receiver of a key's answer; only the first caller gets it.
    pub fn take(&mut self, key: &str) -> Option<oneshot::Receiver<Stored>> {
        self.begun.remove(key).map(|begun| begun.answer)
    }

    /// Discards a read, because the key was written: the answer may be outdated.
    pub fn forget(&mut self, key: &str) {
        if !self.begun.is_empty() {
            self.begun.remove(key);
        }
    }

    /// Discards an expired answer.
    pub fn over(&mut self, key: &str, number: u64) {
        if self.begun.get(key).is_some_and(|begun| begun.number == number) {
            self.begun.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_for_one_who_asks_and_none_outlives_a_write() {
        let mut ahead = Ahead::default();
        let (first, told) = ahead.begin("a").unwrap();
        assert!(ahead.begin("a").is_none());
        told.send(Stored::Absent).unwrap();
        assert_eq!(ahead.take("a").unwrap().try_recv(), Ok(Stored::Absent));
        assert!(ahead.take("a").is_none());
        let (second, _told) = ahead.begin("a").unwrap();
        ahead.over("a", first);
        assert!(ahead.begin("a").is_none());
        ahead.over("a", second);
        assert!(ahead.take("a").is_none());
        let _begun = ahead.begin("a").unwrap();
        ahead.forget("a");
        assert!(ahead.take("a").is_none());
    }

    #[test]
    fn their_number_is_bounded() {
        let mut ahead = Ahead::default();
        assert_eq!((0..=MOST).filter(|number| ahead.begin(&number.to_string()).is_some()).count(), MOST);
    }
}
