//! Speech: a growing answer becomes sentences that are displayed and spoken.

mod abbreviations;

mod sentences;

mod spoken;

pub use sentences::Sentences;
pub use spoken::Part;
