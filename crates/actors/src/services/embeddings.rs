//! Embeddings for programs, within the limits of the caller and charged to the caller in the ledger. There is no turn:
//! no record is kept and nothing is retried after a crash; a reservation then counts until it leaves its window. A
//! request is charged even if the caller disconnects.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use crate::messages::llm_dispatcher::{Lease, LlmDispatcherMsg, Priority};
use crate::runtime::handle::Handle;
use crate::services::running::Live;
use domain::embedding::{EmbeddingRequest, Embeddings};
use domain::ending::ModelErrorKind;
use domain::ids::{Person, Place, TurnId};
use domain::ledger::{self, Tally};
use domain::limits::rules::Applied;
use domain::limits::{Cost, Decision, LimitStep, Member, Request, Reservation};
use domain::turn::Effort;
use ports::{Clock, EmbeddingAsk, Limiter, Metering, ModelError, NotEmbedded, Store};
use telemetry::events::EMBEDDINGS_MADE;

/// The maximum number of inputs of one call: the longest vectors in full precision stay well below the response limit.
const AT_ONCE: usize = 16;
/// The maximum number of vector components in a request.
const NUMBERS_MAX: usize = 2_000_000;
/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The timeout of a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Computes embeddings with the configured rows. Clones share their state.
#[derive(Clone)]
pub struct Meter {
    /// The running configuration.
    pub live: Live,
    /// Reserves and settles the tokens.
    pub limiter: Arc<dyn Limiter>,
    /// Stores the ledger.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Grants permits for model calls.
    pub dispatcher: Handle<LlmDispatcherMsg>,
}

#[async_trait]
impl Metering for Meter {
    async fn embed(&self, ask: EmbeddingAsk) -> Result<Embeddings, NotEmbedded> {
        // The caller may disconnect, also during the reservation; the work is charged all the same.
        let meter = self.clone();
        let counted = tokio::spawn(async move { meter.reserved(&ask).await });
        counted.await.unwrap_or(Err(NotEmbedded::NotCounted))
    }

    fn most_tokens(&self, person: &Person) -> Option<u64> {
        let Applied { limits, exempt } = self.limits(person);
        (!exempt).then_some(limits.tokens)
    }

    async fn refused_for(&self, person: &Person) -> Option<Duration> {
        let Applied { limits, exempt } = self.limits(person);
        match self.step(person, LimitStep::Read(limits)).await {
            Decision::Used(used) if !exempt => used.wait,
            _ => None,
        }
    }
}

impl Meter {
    /// Reserves the tokens, and computes the embeddings.
    async fn reserved(&self, ask: &EmbeddingAsk) -> Result<Embeddings, NotEmbedded> {
        let turn = TurnId::of(&ask.message);
        let Applied { limits, exempt } = self.limits(&ask.person);
        let tokens = ask.request.inputs.tokens();
        let reservation = Reservation { turn: turn.clone(), tokens, lease: TIMEOUT, limits, exempt };
        match self.step(&ask.person, LimitStep::Reserve(reservation)).await {
            Decision::Admitted => self.counted(turn, ask).await,
            Decision::Refused(refusal) => Err(NotEmbedded::OverLimit(refusal.retry_after)),
            Decision::Done | Decision::Used(_) => Err(NotEmbedded::NotCounted),
        }
    }

    /// Computes the embeddings and charges the tokens, also after a failure.
    async fn counted(&self, turn: TurnId, ask: &EmbeddingAsk) -> Result<Embeddings, NotEmbedded> {
        let EmbeddingAsk { person, row, request, .. } = ask;
        let mut made = Embeddings::default();
        let late =
            |_| Err(NotEmbedded::Model(ModelError::new(ModelErrorKind::Timeout, "not all vectors came in time")));
        let ended = timeout(TIMEOUT, self.in_pieces(ask, &mut made)).await.unwrap_or_else(late);
        self.step(person, LimitStep::Settle(turn, Some(made.usage.prompt))).await;
        let error = match &ended {
            Err(NotEmbedded::Model(error)) => Some(error.safe_message.as_str()),
            Err(NotEmbedded::TooMany(_)) => Some("too many numbers"),
            Err(NotEmbedded::OverLimit(_) | NotEmbedded::NotCounted) => Some("no permit"),
            Ok(()) => None,
        };
        let (inputs, tokens) = (request.inputs.len(), made.usage.prompt);
        tracing::info!(event = EMBEDDINGS_MADE, user = %person, model = row, inputs, tokens, error, "vectors");
        self.write_down(person, row, &made).await;
        ended.map(|()| made)
    }

    async fn in_pieces(&self, ask: &EmbeddingAsk, made: &mut Embeddings) -> Result<(), NotEmbedded> {
        let EmbeddingAsk { person, row, request, .. } = ask;
        let models = Arc::clone(&self.live.now().models);
        for inputs in request.inputs.pieces(AT_ONCE) {
            let piece = EmbeddingRequest { inputs, dimensions: request.dimensions };
            let _permit = self.permit(person, row).await?;
            let Embeddings { vectors, usage } = models.embed(row, &piece).await.map_err(NotEmbedded::Model)?;
            made.vectors.extend(vectors);
            made.usage += usage;
            let longest = made.vectors.iter().map(Vec::len).max().unwrap_or_default();
            if longest.saturating_mul(request.inputs.len()) > NUMBERS_MAX {
                return Err(NotEmbedded::TooMany(NUMBERS_MAX / longest.max(1)));
            }
        }
        Ok(())
    }

    /// Acquires the permit for one call. Its result is not reported, because it does not concern the chat model of the
    /// row.
    async fn permit(&self, person: &Person, row: &str) -> Result<Lease, NotEmbedded> {
        let (among, priority) = (vec![row.to_owned()], Priority::Waits(person.clone()));
        let row = Some(row.to_owned());
        let ask = |reply| LlmDispatcherMsg::Acquire { row, among, tried: Vec::new(), priority, reply };
        let lease = self.dispatcher.call(ask, PERMIT_TIMEOUT).await;
        lease.ok().and_then(Result::ok).ok_or(NotEmbedded::NotCounted)
    }

    /// The limits of a person at their door.
    fn limits(&self, person: &Person) -> Applied {
        let place = Place::new(person.door.clone(), person.id.clone());
        self.live.now().limits_in(person, &place, None, &[])
    }

    async fn step(&self, person: &Person, step: LimitStep) -> Decision {
        let (member, running) = (Member::of(person, Some(person.door.as_str())), self.live.now());
        let mut shares = self.live.linked(person).shares(person, self.limits(person).limits, &running.limits, &[]);
        for share in &mut shares {
            share.amount = match (share.account.cost, &step) {
                (Cost::Tokens, LimitStep::Reserve(reservation)) => Some(reservation.tokens),
                (Cost::Tokens, LimitStep::Settle(_, tokens)) => *tokens,
                _ => Some(1),
            };
        }
        self.limiter.step(Request { shares, ..Request::of_member(member, running.limits.window, step) }).await
    }

    async fn write_down(&self, person: &Person, row: &str, made: &Embeddings) {
        let mut effort = Effort { model: Some(row.to_owned()), usage: made.usage, ..Effort::default() };
        ledger::charge(&mut effort, self.live.now().embeddings_price(row), made.usage);
        let writes = ledger::of_member(person, Some(person.door.as_str()), Tally::of(&effort), self.clock.now());
        // If the store is degraded, the writes are held in memory.
        self.store.write(writes.into_iter().map(Into::into).collect()).await;
    }
}
