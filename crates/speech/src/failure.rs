//! Failures of speech.

use std::time::Duration;

use ports::WorkRefused;

/// The reason why a sentence has no audio, or an utterance no transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The source refused the request, or the connection was lost; with the words of the reason.
    #[error("{0}")]
    Refused(String),
    /// It took too long.
    #[error("it took too long")]
    Late,
    /// The audio is longer than 4 MiB.
    #[error("the audio is too long")]
    TooLong,
    /// The bytes are not audio of the expected format.
    #[error("the answer is no audio of this format")]
    NotAudio,
    /// A limit of the payer refuses it, for this long. `None`: the limit never allows it.
    #[error("the payer is over a limit")]
    OverLimit(Option<Duration>),
}

impl Failure {
    /// Returns the failure of work that a limit refuses.
    pub(crate) const fn over_limit(refused: WorkRefused) -> Self {
        Self::OverLimit(refused.0)
    }
}
