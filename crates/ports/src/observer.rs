//! Readers of what happens.

use domain::happening::Happening;

/// A reader of what happens: one rendering of it. It is told in the task to which it happens.
pub trait Observer: Send + Sync {
    /// Takes in what happened. Never waits, holds no lock for longer than it takes to note something, and keeps only what a named
    /// bound allows.
    fn observe(&self, happening: &Happening<'_>);
}
