//! Speech: a growing answer becomes sentences ([`Sentences`]), which are synthesized ([`synthesis`]); utterances are
//! transcribed ([`hearing`]).

mod abbreviations;

mod bill;

mod clients;

mod failure;

mod program;

mod sentences;

mod source;

mod spoken;

pub mod hearing;

pub mod synthesis;

#[cfg(test)]
mod fuzz;

use std::sync::Arc;

use self::hearing::Hearing;
use self::synthesis::Synthesis;
pub use failure::Failure;
pub use program::PATH;
pub use sentences::Sentences;
pub use source::{Endpoint, Source};
pub use spoken::Part;

use ports::SpeechMetering;

/// The voices, and the rows that hear. Clones are the same.
#[derive(Clone)]
pub struct Speech {
    /// The voices.
    pub synthesis: Arc<Synthesis>,
    /// The rows that hear.
    pub hearing: Arc<Hearing>,
}

impl Speech {
    /// Returns both, whose costs are counted here.
    #[must_use]
    pub fn new(synthesis: Synthesis, hearing: Hearing, meter: &Arc<dyn SpeechMetering>) -> Self {
        let synthesis = Arc::new(synthesis.counted_by(Arc::clone(meter)));
        Self { synthesis, hearing: Arc::new(hearing.counted_by(Arc::clone(meter))) }
    }
}
