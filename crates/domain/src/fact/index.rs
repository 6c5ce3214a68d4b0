//! What facts a member has, without their words: one record for each member, so that a search looks at nothing of anybody else.
//!
//! Each fact is a record of its own, and this only names them. Two processes that change it at once can lose a name, never a fact; the
//! process that told the fact looks again and adds it.

use serde::{Deserialize, Serialize};

use super::{Bounds, FACTS_MAX, Fact, FactId, Here};
use crate::ids::{Person, Place, Timestamp};

/// The facts of one member, the one told last at the end; at most twice [`FACTS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactIndex(Vec<Named>);

/// A fact without its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub id: FactId,
    /// Where it was told.
    pub place: Place,
    /// When it was told last.
    pub told: Timestamp,
}

/// The facts that one message told, and whose they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldBy {
    /// Whose.
    pub person: Person,
    /// Their names.
    pub facts: Vec<FactId>,
}

impl From<&Fact> for Named {
    fn from(fact: &Fact) -> Self {
        Self { id: fact.id.clone(), place: fact.place.clone(), told: fact.told }
    }
}

impl FactIndex {
    /// Reads the stored form. What cannot be read counts as empty: the facts themselves are still there.
    #[must_use]
    pub fn parse(stored: Option<&str>) -> Self {
        let mut index: Self = stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default();
        let excess = index.0.len().saturating_sub(FACTS_MAX * 2);
        index.0.drain(..excess);
        index
    }

    /// The stored form.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// All facts.
    #[must_use]
    pub fn all(&self) -> &[Named] {
        &self.0
    }

    /// Those that may be found here.
    pub fn found(&self, here: Here<'_>) -> impl Iterator<Item = &Named> {
        self.0.iter().filter(move |named| here.finds(&named.place))
    }

    /// The fact of this name.
    #[must_use]
    pub fn get(&self, id: &FactId) -> Option<&Named> {
        self.0.iter().find(|named| named.id == *id)
    }

    /// Adds a fact, in place of one of the same name.
    pub fn put(&mut self, named: Named) {
        self.remove(&named.id);
        self.0.push(named);
    }

    /// Takes a fact out; none when it is not there.
    pub fn remove(&mut self, id: &FactId) -> Option<Named> {
        let at = self.0.iter().position(|named| named.id == *id)?;
        Some(self.0.remove(at))
    }

    /// Takes out what is over.
    pub fn expire(&mut self, bounds: &Bounds, now: Timestamp) {
        self.0.retain(|named| !bounds.is_over(named.told, now));
    }

    /// Keeps only facts of these names.
    pub fn keep(&mut self, known: impl Fn(&FactId) -> bool) {
        self.0.retain(|named| known(&named.id));
    }
}
