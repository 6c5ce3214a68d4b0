//! What a model is shown of a conversation, and which of it may be left out.

use crate::completion::Item;

/// The messages of one question: our instructions first, the question last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// All messages.
    pub items: Vec<Item>,
    /// Places of those that are only remembered, in order: the question does not refer to them.
    pub remembered: Vec<usize>,
}

impl Transcript {
    /// The messages with no more than so many of those that are only remembered, the newest; and whether any was left out.
    #[must_use]
    pub fn brief(&self, most: usize) -> (Vec<Item>, bool) {
        let left_out = &self.remembered[..self.remembered.len().saturating_sub(most)];
        let kept = self.items.iter().enumerate().filter(|(place, _)| left_out.binary_search(place).is_err());
        (kept.map(|(_, item)| item.clone()).collect(), !left_out.is_empty())
    }

    /// Leaves out the older half of what stands between our instructions and the question; false when there is nothing.
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
    /// Nothing of it may be left out.
    fn from(items: Vec<Item>) -> Self {
        Self { items, remembered: Vec::new() }
    }
}
