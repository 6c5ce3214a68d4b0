//! Model use outside of turns, and speech, within the limits of the caller.

use std::time::Duration;

use async_trait::async_trait;

use super::ModelError;
use domain::embedding::EmbeddingRequest;
use domain::ids::{MessageId, Person, Place, TurnId};

/// A request for embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingAsk {
    /// The caller.
    pub person: Person,
    /// The id of this request in the caller's limit window.
    pub message: MessageId,
    /// The row whose embedding model is used.
    pub row: String,
    /// The inputs.
    pub request: EmbeddingRequest,
}

/// The reason why there are no embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotEmbedded {
    /// The caller is over a limit, for this long. `None`: the limit never allows it.
    OverLimit(Option<Duration>),
    /// Limits or permits could not be checked, or all permits are taken.
    NotCounted,
    /// The vectors requested exceed the bound; this many would be allowed.
    TooMany(usize),
    /// The model failed.
    Model(ModelError),
}

/// The payer of speech: a person, and the place where they listen or speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeechPayer {
    /// The person.
    pub person: Person,
    /// The community.
    pub guild: Option<String>,
    /// The ids of the person's roles.
    pub roles: Vec<String>,
    /// The place.
    pub place: Place,
    /// The parent place.
    pub parent: Option<Place>,
}

impl From<&Person> for SpeechPayer {
    /// Returns a payer at a door without communities, such as that of programs.
    fn from(person: &Person) -> Self {
        let door = person.door.clone();
        let (guild, place) = (Some(door.as_str().to_owned()), Place::new(door, person.id.clone()));
        Self { person: person.clone(), guild, roles: Vec::new(), place, parent: None }
    }
}

/// Work of a source of speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeechWork {
    /// A sentence is synthesized.
    Synthesis,
    /// An utterance is transcribed.
    Hearing,
}

impl SpeechWork {
    /// Returns the name that limits of calls use, like the name of a tool.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Synthesis => "speech",
            Self::Hearing => "hearing",
        }
    }
}

/// Reserved work of a source of speech, to be settled once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeechReservation {
    /// The id of the reservation.
    pub id: TurnId,
    /// The payer.
    pub payer: SpeechPayer,
    /// The work.
    pub work: SpeechWork,
    /// True if it has a price: work without one is in no account of dollars.
    pub priced: bool,
}

/// A limit of the payer refuses the work, for this long. `None`: the limit never allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeechRefused(pub Option<Duration>);

/// The cost of speech. It counts against limits and in the ledger like the cost of turns.
#[async_trait]
pub trait SpeechMetering: Send + Sync {
    /// Reserves work that costs this much, in millionths of a dollar, before a source is called.
    ///
    /// # Errors
    /// A limit of the payer refuses it; nothing is counted.
    async fn reserve(
        &self,
        payer: &SpeechPayer,
        work: SpeechWork,
        micros: u64,
    ) -> Result<SpeechReservation, SpeechRefused>;

    /// Settles reserved work with its actual cost, in the background.
    fn settle(&self, reservation: SpeechReservation, micros: u64);
}
