//! The fact index of a member: ids without texts. One record per member, so that a search reads no other member's
//! data.
//!
//! Each fact has a record of its own. If two processes change the index at the same time, an entry can be lost, but
//! never a fact; the process that stored the fact checks the index again and adds it.

use serde::{Deserialize, Serialize};

use super::{Bounds, FACTS_MAX, Fact, FactId, Here};
use crate::ids::{Person, Place, Timestamp};

/// The facts of one member, last told at the end; at most twice [`FACTS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactIndex(Vec<Named>);

/// A fact without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The id.
    pub id: FactId,
    /// The place where it was told.
    pub place: Place,
    /// The time when it was last told.
    pub told: Timestamp,
    /// See [`Fact::alone`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// The facts told by one message, with their owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldBy {
    /// The owner.
    pub person: Person,
    /// The ids of the facts.
    pub facts: Vec<FactId>,
}

impl From<&Fact> for Named {
    fn from(fact: &Fact) -> Self {
        Self { id: fact.id.clone(), place: fact.place.clone(), told: fact.told, alone: fact.alone }
    }
}

impl FactIndex {
    /// Parses the stored form. Unreadable text counts as empty: the facts themselves are still stored.
    #[must_use]
    pub fn parse(stored: Option<&str>) -> Self {
        let mut index: Self = stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default();
        let excess = index.0.len().saturating_sub(FACTS_MAX * 2);
        index.0.drain(..excess);
        index
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns all facts.
    #[must_use]
    pub fn all(&self) -> &[Named] {
        &self.0
    }

    /// Returns the facts that may be found here.
    pub fn found(&self, here: Here<'_>) -> impl Iterator<Item = &Named> {
        self.0.iter().filter(move |named| here.finds(&named.place, named.alone))
    }

    /// Returns the fact with this id.
    #[must_use]
    pub fn get(&self, id: &FactId) -> Option<&Named> {
        self.0.iter().find(|named| named.id == *id)
    }

    /// Adds a fact, and replaces one with the same id.
    pub fn put(&mut self, named: Named) {
        self.remove(&named.id);
        self.0.push(named);
    }

    /// Removes a fact. `None` if it is not in the index.
    pub fn remove(&mut self, id: &FactId) -> Option<Named> {
        let at = self.0.iter().position(|named| named.id == *id)?;
        Some(self.0.remove(at))
    }

    /// Removes expired facts.
    pub fn expire(&mut self, bounds: &Bounds, now: Timestamp) {
        self.0.retain(|named| !bounds.is_over(named.told, now));
    }

    /// Keeps only the facts for which `known` is true.
    pub fn keep(&mut self, known: impl Fn(&FactId) -> bool) {
        self.0.retain(|named| known(&named.id));
    }
}
