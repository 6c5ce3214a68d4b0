//! Speech: a growing answer becomes sentences ([`Sentences`]), which are synthesized ([`synthesis`]).

mod abbreviations;

mod sentences;

mod spoken;

pub mod synthesis;

#[cfg(test)]
mod fuzz;

pub use sentences::Sentences;
pub use spoken::Part;
