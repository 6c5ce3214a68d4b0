//! Model use outside of turns, and work with a price of its own, such as speech and pictures, within the limits of the
//! caller.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::ModelError;
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::ids::{MessageId, Person, Place, TurnId};
use domain::tool::{OnBehalf, PaidCost};

/// Model use outside of turns. It counts against limits and in the ledger like turns.
#[async_trait]
pub trait Metering: Send + Sync {
    /// Creates embeddings, within five minutes.
    ///
    /// # Errors
    /// See [`NotEmbedded`].
    async fn embed(&self, ask: EmbeddingAsk) -> Result<Embeddings, NotEmbedded>;

    /// Returns the token limit of this person per window. `None`: unlimited.
    fn most_tokens(&self, person: &Person) -> Option<u64>;

    /// Returns how long the limits refuse this person from now on. `None` if they do not, or permanently.
    async fn refused_for(&self, person: &Person) -> Option<Duration>;
}

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

/// The payer of work: a person, and the place for which it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkPayer {
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
    /// The bot's own account in the ledger, for work that no member requested.
    pub own: Option<&'static str>,
}

impl From<&Person> for WorkPayer {
    /// Returns a payer at a door without communities, such as that of programs.
    fn from(person: &Person) -> Self {
        let door = person.door.clone();
        let (guild, place) = (Some(door.as_str().to_owned()), Place::new(door, person.id.clone()));
        Self { person: person.clone(), guild, roles: Vec::new(), place, parent: None, own: None }
    }
}

impl From<&OnBehalf> for WorkPayer {
    /// Returns the payer of a tool call.
    fn from(asked: &OnBehalf) -> Self {
        let OnBehalf { person, guild, roles, place, parent, own, .. } = asked.clone();
        Self { person, guild, roles, place, parent, own }
    }
}

/// Work of a source that is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaidWork {
    /// A sentence is synthesized.
    Synthesis,
    /// An utterance is transcribed.
    Hearing,
    /// A picture is made or edited.
    Picture,
}

impl PaidWork {
    /// Returns the name in ids of reservations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Synthesis => "speech",
            Self::Hearing => "hearing",
            Self::Picture => "picture",
        }
    }

    /// Returns the name that limits of calls use, like the name of a tool. `None` for the work of a tool, whose call the
    /// turn counts.
    #[must_use]
    pub const fn call(self) -> Option<&'static str> {
        match self {
            Self::Synthesis | Self::Hearing => Some(self.as_str()),
            Self::Picture => None,
        }
    }
}

/// Reserved work, to be settled once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkReservation {
    /// The id of the reservation.
    pub id: TurnId,
    /// The payer.
    pub payer: WorkPayer,
    /// The work.
    pub work: PaidWork,
    /// True if it has a price: work without one is in no account of dollars.
    pub priced: bool,
}

/// A limit of the payer refuses the work, for this long. `None`: the limit never allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkRefused(pub Option<Duration>);

/// The cost of work. It counts against limits and in the ledger like the cost of turns.
#[async_trait]
pub trait WorkMetering: Send + Sync {
    /// Reserves work that costs this much, in millionths of a dollar, before a source is called.
    ///
    /// # Errors
    /// A limit of the payer refuses it; nothing is counted.
    async fn reserve(&self, payer: &WorkPayer, work: PaidWork, micros: u64) -> Result<WorkReservation, WorkRefused>;

    /// Settles reserved work with its actual cost, in the background.
    fn settle(&self, reservation: WorkReservation, micros: u64);
}

/// The account of all work; `None` counts nothing.
pub type Meter = Option<Arc<dyn WorkMetering>>;

/// The bill of one sentence, utterance or picture: reserved before a source is called, and settled once, also if the work
/// is cancelled. Dropping it settles it.
#[derive(Default)]
pub struct Bill {
    reserved: Option<(Arc<dyn WorkMetering>, WorkReservation)>,
    spent: u64,
    /// The cost of the request under way.
    open: u64,
    /// The figures of the call that the work is part of.
    paid: PaidCost,
}

impl Bill {
    /// Reserves this cost, in millionths of a dollar.
    ///
    /// # Errors
    /// A limit of the payer refuses it.
    pub async fn reserve(meter: &Meter, payer: &WorkPayer, work: PaidWork, micros: u64) -> Result<Self, WorkRefused> {
        let reserved = match meter {
            Some(meter) => Some((Arc::clone(meter), meter.reserve(payer, work, micros).await?)),
            None => None,
        };
        Ok(Self { reserved, spent: 0, open: 0, paid: PaidCost::default() })
    }

    /// Adds the cost also to the figures of this call.
    #[must_use]
    pub fn of_call(mut self, paid: PaidCost) -> Self {
        self.paid = paid;
        self
    }

    /// Begins a request that costs this much. If it is cancelled, its source may still charge for it.
    pub const fn begin(&mut self, micros: u64) {
        self.open = micros;
    }

    /// Ends the request. A source that failed before it returned anything charges nothing.
    pub const fn end(&mut self, is_paid: bool) {
        if is_paid {
            self.spent = self.spent.saturating_add(self.open);
        }
        self.open = 0;
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        let cost = self.spent.saturating_add(self.open);
        self.paid.add(cost);
        if let Some((meter, reservation)) = self.reserved.take() {
            meter.settle(reservation, cost);
        }
    }
}

/// Returns the cost of this amount in millionths of a dollar, at a price in dollars per million.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, also below zero")]
pub fn micros(price: Option<f64>, amount: f64) -> u64 {
    price.map_or(0, |price| (price * amount).round() as u64)
}
