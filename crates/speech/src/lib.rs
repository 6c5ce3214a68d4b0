//! Speech: a growing answer becomes sentences, which are synthesized; utterances are transcribed.
//!
//! | file | subject |
//! |---|---|
//! | `answers`, `answer` | the events of turns as sentences |
//! | `sentences`, `abbreviations`, `spoken` | where a text is cut, and how it is spoken |
//! | `phrases` | announcements of tools |
//! | [`queue`] | the audio of one listener, in order |
//! | [`synthesis`] | voices: permits, cache, cost |
//! | [`hearing`] | utterances in a stream of samples, and their transcripts |
//! | `source`, `clients`, `program` | endpoints and local programs that speak or transcribe |

mod abbreviations;

pub mod answer;

pub mod answers;

mod clients;

mod failure;

mod phrases;

mod program;

pub mod queue;

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
pub use phrases::{Announcement, Phrases};
pub use program::PATH;
pub use sentences::Sentences;
pub use source::{Endpoint, Source};
pub use spoken::Part;

use ports::WorkMetering;

/// The voices, and the rows that transcribe. Clones share them.
#[derive(Clone)]
pub struct Speech {
    /// The voices.
    pub synthesis: Arc<Synthesis>,
    /// The rows that hear.
    pub hearing: Arc<Hearing>,
    /// The phrases that announce tools.
    pub phrases: Arc<Phrases>,
}

/// The parts of [`Speech`] before its costs are counted.
pub struct Uncounted {
    /// The voices.
    pub synthesis: Synthesis,
    /// The rows that hear.
    pub hearing: Hearing,
    /// The phrases that announce tools.
    pub phrases: Phrases,
}

impl Uncounted {
    /// Returns speech whose costs are counted here.
    #[must_use]
    pub fn counted_by(self, meter: &Arc<dyn WorkMetering>) -> Speech {
        let Self { synthesis, hearing, phrases } = self;
        Speech {
            synthesis: Arc::new(synthesis.counted_by(Arc::clone(meter))),
            hearing: Arc::new(hearing.counted_by(Arc::clone(meter))),
            phrases: Arc::new(phrases),
        }
    }
}
