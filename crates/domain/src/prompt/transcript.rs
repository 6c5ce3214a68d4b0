//! The transcript for a model, and the part of it that may be left out.

use crate::completion::Item;

/// The messages of one question: the instructions first, the question last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// All messages.
    pub items: Vec<Item>,
    /// The indexes of messages that come from the history only, in ascending order: the question does not refer to
    /// them.
    pub remembered: Vec<usize>,
}

impl Transcript {
    /// Returns the messages with at most `most` of those that come from the history only, the newest, and true if any
    /// message was left out.
    #[must_use]
    pub fn brief(&self, most: usize) -> (Vec<Item>, bool) {
        let left_out = &self.remembered[..self.remembered.len().saturating_sub(most)];
        let kept = self.items.iter().enumerate().filter(|(place, _)| left_out.binary_search(place).is_err());
        (kept.map(|(_, item)| item.clone()).collect(), !left_out.is_empty())
    }

    /// Removes the older half of the messages between the instructions and the question. Returns false if there are
    /// none.
    pub fn shorten(&mut self) -> bool {
        let between = self.items.len().saturating_sub(2);
        if between == 0 {
            return false;
        }
        let gone = between.div_ceil(2);
        self.items.drain(1..=gone);
        self.remembered.retain(|place| *place > gone);
        self.remembered.iter_mut().for_each(|place| *place -= gone);
        true
    }
}

impl From<Vec<Item>> for Transcript {
    /// Builds a transcript of which no message may be left out.
    fn from(items: Vec<Item>) -> Self {
        Self { items, remembered: Vec::new() }
    }
}
