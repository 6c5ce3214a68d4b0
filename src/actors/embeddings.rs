//! Vectors for programs, within the limits of who asks and on their account in the ledger. No turn: nothing is remembered, and nothing
//! is owed to anybody after a crash; what was reserved then stays counted until it has aged out of its window.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use super::running::Live;
use crate::domain::embedding::{EmbeddingRequest, Embeddings};
use crate::domain::ending::ModelErrorKind;
use crate::domain::ids::{Person, Place, TurnId};
use crate::domain::keys;
use crate::domain::ledger::{self, Tally};
use crate::domain::limits::rules::Applied;
use crate::domain::limits::{Decision, Request, Reservation, Step};
use crate::domain::turn::Effort;
use crate::ports::{Clock, EmbeddingAsk, Metering, ModelError, NotEmbedded, Store};

/// The most inputs of one call: so many long vectors are a whole answer of a model.
const AT_ONCE: usize = 64;
/// The longest that a request may take.
const WITHIN: Duration = Duration::from_secs(300);

/// Makes vectors by the rows in force.
pub struct Meter {
    /// What this process runs with.
    pub live: Live,
    /// Limits and ledger.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
}

#[async_trait]
impl Metering for Meter {
    async fn embed(&self, ask: EmbeddingAsk) -> Result<Embeddings, NotEmbedded> {
        let EmbeddingAsk { person, message, row, request } = ask;
        let (turn, tokens, lease) = (TurnId::of(&message), request.inputs.tokens(), WITHIN);
        let Applied { limits, exempt } = self.limits(&person);
        let reservation = Reservation { turn: turn.clone(), tokens, lease, limits, exempt };
        match self.step(&person, Step::Reserve(reservation)).await {
            Decision::Admitted => {}
            Decision::Refused(refusal) => return Err(NotEmbedded::OverLimit(refusal.retry_after)),
            Decision::Done | Decision::Used(_) => return Err(NotEmbedded::NotCounted),
        }
        let mut made = Embeddings::default();
        let late = |_| Err(ModelError::new(ModelErrorKind::Timeout, "not all vectors came in time"));
        let ended = timeout(WITHIN, self.in_pieces(&row, &request, &mut made)).await.unwrap_or_else(late);
        // What came before a failure was taken all the same.
        self.step(&person, Step::Settle(turn, Some(made.usage.prompt))).await;
        let error = ended.as_ref().err().map(|error| error.safe_message.as_str());
        let (inputs, tokens) = (request.inputs.len(), made.usage.prompt);
        tracing::info!(event = "embeddings.made", user = %person, model = row, inputs, tokens, error, "vectors");
        self.write_down(&person, &row, &made).await;
        ended.map_err(NotEmbedded::Model)?;
        Ok(made)
    }

    async fn refused_for(&self, person: &Person) -> Option<Duration> {
        let Applied { limits, exempt } = self.limits(person);
        match self.step(person, Step::Read(limits)).await {
            Decision::Used(used) if !exempt => used.wait,
            _ => None,
        }
    }
}

impl Meter {
    async fn in_pieces(&self, row: &str, request: &EmbeddingRequest, made: &mut Embeddings) -> Result<(), ModelError> {
        let models = Arc::clone(&self.live.now().models);
        for inputs in request.inputs.pieces(AT_ONCE) {
            let piece = EmbeddingRequest { inputs, dimensions: request.dimensions };
            let Embeddings { vectors, usage } = models.embed(row, &piece).await?;
            made.vectors.extend(vectors);
            made.usage += usage;
        }
        Ok(())
    }

    /// What is allowed to a person at their door.
    fn limits(&self, person: &Person) -> Applied {
        let place = Place::new(person.door.clone(), person.id.clone());
        self.live.now().limits_in(person, &place, None, &[])
    }

    async fn step(&self, person: &Person, step: Step) -> Decision {
        let member = keys::limited(person, Some(person.door.as_str()));
        self.store.limit(Request { member, window: self.live.now().limits.window, step }).await
    }

    async fn write_down(&self, person: &Person, row: &str, made: &Embeddings) {
        let mut effort = Effort { model: Some(row.to_owned()), usage: made.usage, ..Effort::default() };
        ledger::charge(&mut effort, self.live.now().price(row), made.usage);
        let writes = ledger::of_member(person, Some(person.door.as_str()), Tally::of(&effort), self.clock.now());
        // Where the store is degraded, memory holds it.
        self.store.write(writes.into_iter().map(Into::into).collect()).await;
    }
}
