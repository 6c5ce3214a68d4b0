//! Reads that were begun before anybody asked for them, so that they go out together with another request. Plain data, bounded, no
//! waiting.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;

/// How long an answer is kept that nobody asked for: others may write to the backend meanwhile.
pub const FRESH: Duration = Duration::from_millis(50);

/// How many such reads there are at most; further ones are not begun.
const MOST: usize = 256;

/// The value of a key in the backend; the outer none says that it could not be read.
pub type Read = Option<Option<String>>;

/// The reads that were begun, by key.
#[derive(Default)]
pub struct Ahead {
    begun: HashMap<Box<str>, Begun>,
    last: u64,
}

struct Begun {
    number: u64,
    answer: oneshot::Receiver<Read>,
}

impl Ahead {
    /// A read of this key begins: its number, and where its answer goes. None when one is under way, or when there are too many.
    pub fn begin(&mut self, key: &str) -> Option<(u64, oneshot::Sender<Read>)> {
        if self.begun.len() >= MOST || self.begun.contains_key(key) {
            return None;
        }
        self.last += 1;
        let (told, answer) = oneshot::channel();
        self.begun.insert(key.into(), Begun { number: self.last, answer });
        Some((self.last, told))
    }

    /// Where the answer for this key comes, for the first who asks.
    pub fn take(&mut self, key: &str) -> Option<oneshot::Receiver<Read>> {
        self.begun.remove(key).map(|begun| begun.answer)
    }

    /// The key was written: what was read of it may be older.
    pub fn forget(&mut self, key: &str) {
        if !self.begun.is_empty() {
            self.begun.remove(key);
        }
    }

    /// The answer of this read is too old now.
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
        told.send(Some(None)).unwrap();
        assert_eq!(ahead.take("a").unwrap().try_recv(), Ok(Some(None)));
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
