//! The ranges of turns that this store owns for its process: those without a token yet, those with one, and those taken
//! over by another process.

use std::collections::BTreeMap;

use crate::OwnedWrites;
use domain::ownership::{FencingToken, Range, Term};
use ports::Write;

/// The ranges that this process began to own, with their tokens. Bounded by its doors.
#[derive(Debug, Default)]
pub struct Terms(BTreeMap<Range, Ownership>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// The backend has not yet issued a token.
    Wanted,
    Held(FencingToken),
    /// A newer token exists.
    Fenced,
}

impl Terms {
    /// Begins to own these ranges, unless already begun.
    pub fn own(&mut self, ranges: Vec<Range>) {
        for range in ranges {
            self.0.entry(range).or_insert(Ownership::Wanted);
        }
    }

    /// Returns the ranges without a token.
    pub fn wanted(&self) -> Vec<Range> {
        let wanted = self.0.iter().filter(|(_, ownership)| **ownership == Ownership::Wanted);
        wanted.map(|(range, _)| range.clone()).collect()
    }

    /// Records issued tokens.
    pub fn took(&mut self, terms: Vec<Term>) {
        for Term { range, token } in terms {
            self.0.insert(range, Ownership::Held(token));
        }
    }

    /// Returns the owned ranges with their tokens.
    pub fn held(&self) -> Vec<Term> {
        let held = |(range, ownership): (&Range, &Ownership)| match ownership {
            Ownership::Held(token) => Some(Term { range: range.clone(), token: *token }),
            Ownership::Wanted | Ownership::Fenced => None,
        };
        self.0.iter().filter_map(held).collect()
    }

    pub fn token(&self, range: &Range) -> FencingToken {
        match self.0.get(range) {
            Some(Ownership::Held(token)) => *token,
            Some(Ownership::Wanted | Ownership::Fenced) | None => FencingToken::NONE,
        }
    }

    /// Records that another process owns this range. Returns true if that was unknown.
    pub fn fence(&mut self, range: &Range) -> bool {
        self.0.insert(range.clone(), Ownership::Fenced) != Some(Ownership::Fenced)
    }

    /// Ends the ownership of these ranges, which another process may own from now on.
    pub fn leave(&mut self, ranges: &[Range]) {
        self.0.retain(|range, ownership| *ownership == Ownership::Fenced || !ranges.contains(range));
    }

    /// True if this process began to own the range, and neither left nor lost it.
    pub fn is_owned(&self, range: &Range) -> bool {
        self.0.get(range).is_some_and(|ownership| *ownership != Ownership::Fenced)
    }

    /// True if another process owns this range.
    pub fn is_fenced(&self, range: &Range) -> bool {
        self.0.get(range) == Some(&Ownership::Fenced)
    }
}

/// Writes grouped by the range of their owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grouped {
    /// Those without an owner, in order.
    pub plain: Vec<Write>,
    /// The others, each group in order.
    pub owned: BTreeMap<Range, Vec<Write>>,
}

impl Grouped {
    /// Appends a write to its group.
    pub fn push(&mut self, owner: Option<&Range>, write: Write) {
        match owner {
            None => self.plain.push(write),
            Some(range) => self.owned.entry(range.clone()).or_default().push(write),
        }
    }

    pub fn len(&self) -> usize {
        self.plain.len() + self.owned.values().map(Vec::len).sum::<usize>()
    }

    /// Returns the groups of owners with their terms. An owner without a token has [`FencingToken::NONE`].
    pub fn under(owned: BTreeMap<Range, Vec<Write>>, terms: &[Term]) -> Vec<OwnedWrites> {
        let token = |range: &Range| terms.iter().find(|term| term.range == *range).map(|term| term.token);
        let under = |(range, writes)| {
            let token = token(&range).unwrap_or(FencingToken::NONE);
            OwnedWrites { term: Term { range, token }, writes }
        };
        owned.into_iter().map(under).collect()
    }
}
