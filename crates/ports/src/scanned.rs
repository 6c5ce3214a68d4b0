//! The outcome of a scan of a store.

/// A key and its value.
pub type Row = (String, String);

/// The result of a scan, and its completeness. A reader decides if it accepts a part.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Scanned<T = Vec<Row>> {
    found: T,
    complete: bool,
}

impl<T> Scanned<T> {
    /// Creates a result. `complete` is false if the store did not return everything that it holds.
    pub const fn new(found: T, complete: bool) -> Self {
        Self { found, complete }
    }

    /// Returns everything that was to be found; `None` if something may be missing.
    #[must_use]
    pub fn whole(self) -> Option<T> {
        self.complete.then_some(self.found)
    }

    /// Returns the result, of which a part may be missing.
    #[must_use]
    pub fn part(self) -> T {
        self.found
    }

    /// Returns the result, and true if nothing is missing.
    #[must_use]
    pub fn into_parts(self) -> (T, bool) {
        (self.found, self.complete)
    }

    /// True if nothing is missing.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Changes the result; its completeness stays.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Scanned<U> {
        Scanned { found: change(self.found), complete: self.complete }
    }
}

impl<T> Scanned<Vec<T>> {
    /// Returns the only element of a pass with one prefix.
    pub fn only(self) -> Scanned<T>
    where
        T: Default,
    {
        self.map(|found| found.into_iter().next().unwrap_or_default())
    }
}
