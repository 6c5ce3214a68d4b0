//! Decisions about limits. A backend that several processes share decides itself; otherwise, and while the backend
//! fails, this module decides from the last state of the backend. Local decisions are sent to the backend before its
//! next decision about the same member, and all of them when it recovers.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::reading::in_time;
use super::shared::Shared;
use crate::{AccountsKnown, Backend, BackendError, LimitDecision, LimitOutcome};
use domain::ids::{self, Timestamp};
use domain::limits::member_windows::{Changes, Counted, MemberWindows};
use domain::limits::window_log::WindowLog;
use domain::limits::{Decision, LimitStep, Request, member};
use domain::{keys, panic};
use ports::{StoreStatus, Write};
use telemetry::events::STORE_CORRUPT;

/// The time for which entries of earlier processes are kept without a request about them: only a request supplies the
/// length of their window.
const LOADED_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// The known state of members' limits.
#[derive(Default)]
pub struct KnownLimits {
    /// The entries.
    pub book: MemberWindows,
    /// True once the rows of earlier processes were read.
    loaded: bool,
    /// The offset of the backend's clock to the local one, in milliseconds; positive if it is ahead.
    ahead: i64,
}

impl KnownLimits {
    /// Records a step with this answer.
    fn did(&mut self, request: &Request, answer: &Decision) {
        if matches!(request.step, LimitStep::Cancel(_)) || *answer == Decision::Admitted {
            self.book.did(request);
        }
    }
}

/// A monotonic clock: changes of the wall clock do not move it. It begins at the time of the wall clock.
pub struct Steady {
    wall: Timestamp,
    began: Instant,
}

impl Steady {
    /// Creates a clock that begins now.
    pub fn beginning(wall: Timestamp) -> Self {
        Self { wall, began: Instant::now() }
    }

    /// Returns the time of a clock that is ahead by this many milliseconds.
    fn now(&self, ahead: i64) -> Timestamp {
        let passed = ids::millis(self.began.elapsed());
        Timestamp(self.wall.0.saturating_add(passed).saturating_add_signed(ahead))
    }
}

/// Returns the backend's decision about limits, or a local one while the backend fails.
pub async fn decide_limit<B: Backend>(shared: &Shared<B>, request: &Request) -> Decision {
    let Some((backend, known)) = shared.deciding_backend(request) else {
        return shared.decide(request);
    };
    let (deadline, begun) = (shared.short.lock().deadline(), Instant::now());
    let fresh = matches!(request.step, LimitStep::Reserve(_)) && !shared.lock().decision.book.knows(request);
    let asked = async {
        let (answer, lost) = ask(shared, backend.as_ref(), request, known).await?;
        if !(lost && fresh && answer == Decision::Admitted) {
            return Ok(answer);
        }
        // The backend admitted it without the lost entries. They are sent first, and the step is repeated.
        let all = shared.everything(request);
        let LimitStep::Reserve(reservation) = &request.step else { return Ok(answer) };
        let back = Request { step: LimitStep::Cancel(reservation.turn.clone()), ..request.clone() };
        ask(shared, backend.as_ref(), &back, all).await?;
        ask(shared, backend.as_ref(), request, AccountsKnown::default()).await.map(|(answer, _)| answer)
    };
    let (failure, late) = match in_time(deadline, pin!(AssertUnwindSafe(asked).catch_unwind())).await {
        Ok(Ok(Ok(answer))) => {
            shared.short.lock().answered(begun.elapsed());
            return answer;
        }
        Ok(Ok(Err(error))) => (error, false),
        Ok(Err(caught)) => {
            (BackendError::Broken(format!("a decision panicked: {}", panic::text(caught.as_ref()))), false)
        }
        Err(_) => (BackendError::Failed(format!("a decision had no answer within {deadline:?}")), true),
    };
    if shared.decision_failed(&backend, &failure) && late {
        shared.short.lock().missed();
    }
    shared.decide_instead(request)
}

/// Makes one step at the backend. Returns its answer, and true if the backend has lost entries.
async fn ask<B: Backend>(
    shared: &Shared<B>,
    backend: &B,
    request: &Request,
    known: AccountsKnown,
) -> Result<(Decision, bool), BackendError> {
    if let LimitOutcome::Decided(decision) = backend.decide_limit(request, &known).await? {
        return Ok((decision.decision.clone(), shared.decided(request, &known, decision)));
    }
    if let Some(member) = &request.member {
        tracing::debug!(%member, "the store has lost what it knew of a member; it is told again");
        shared.lock().decision.book.lost(&Counted::Member(member.clone()));
    }
    let all = shared.everything(request);
    match backend.decide_limit(request, &all).await? {
        LimitOutcome::Decided(decision) => Ok((decision.decision.clone(), shared.decided(request, &all, decision))),
        LimitOutcome::Lost => Err(BackendError::Failed("it lost the state that was just sent".to_owned())),
    }
}

impl<B: Backend> Shared<B> {
    /// Returns everything known about the member of a step, and the pending changes of its accounts.
    fn everything(&self, request: &Request) -> AccountsKnown {
        let book = &self.lock().decision.book;
        let of = request.member.clone().map(Counted::Member);
        let changes = of.map(|of| book.everything(&of, request.window));
        AccountsKnown { version: 0, changes, shares: changes_of_shares(book, request) }
    }

    /// Decides from the local state.
    pub fn decide(&self, request: &Request) -> Decision {
        let mut state = self.lock();
        let now = self.steady.now(state.decision.ahead);
        let answer = state.decision.book.decide(now, request);
        if B::SHARED {
            state.decision.did(request, &answer);
        }
        if state.decision.book.has_changes() {
            self.dirty.notify_one();
        }
        answer
    }

    /// Decides from the local state after a request to the backend whose outcome is unknown.
    fn decide_instead(&self, request: &Request) -> Decision {
        let answer = self.decide(request);
        self.lock().decision.book.tell_of(request);
        self.dirty.notify_one();
        answer
    }

    /// Returns the backend, and the known state of a step's windows, or `None` while the backend fails.
    fn deciding_backend(&self, request: &Request) -> Option<(Arc<B>, AccountsKnown)> {
        let state = self.lock();
        let well = state.status == StoreStatus::Ready;
        let backend = state.backend.clone().filter(|_| well)?;
        self.take_along(&state);
        let now = self.steady.now(state.decision.ahead);
        let book = &state.decision.book;
        let of = request.member.clone().map(Counted::Member);
        let version = of.as_ref().map_or(0, |of| book.version(now, of));
        let changes = of.and_then(|of| book.changes_of(&of));
        Some((backend, AccountsKnown { version, changes, shares: changes_of_shares(book, request) }))
    }

    /// Records the decision of the backend, which had these changes. Returns true if the backend has lost entries.
    fn decided(&self, request: &Request, known: &AccountsKnown, decision: LimitDecision) -> bool {
        let mut state = self.lock();
        let ours = self.steady.now(0);
        let decided = &mut state.decision;
        decided.ahead = decision.now.0.cast_signed().saturating_sub(ours.0.cast_signed());
        for changes in known.shares.iter().flatten().chain(&known.changes) {
            decided.book.kept_of(&changes.of, changes.through);
        }
        for (share, log) in request.shares.iter().zip(decision.shares) {
            // The backend merges entries of ended turns, so a missing entry does not indicate a loss.
            let (of, window) = (Counted::Account(share.account.clone()), share.account.window);
            decided.book.learned(decision.now, &of, window, log, decision.micros);
        }
        let of = request.member.clone().map(Counted::Member);
        let lost = match (decision.log, of) {
            (_, None) => false,
            (Some(log), Some(of)) => {
                if matches!(request.step, LimitStep::Cancel(_)) {
                    decided.book.did(request);
                }
                decided.book.learned(decision.now, &of, request.window, log, decision.version)
            }
            // A step refused by an account changed nothing.
            (None, Some(_)) if matches!(&decision.decision, Decision::Refused(refusal) if refusal.account.is_some()) => {
                false
            }
            (None, Some(_)) => {
                decided.book.followed(decision.now, request, known.version, decision.version, decision.used);
                false
            }
        };
        decided.did(request, &decision.decision);
        if decided.book.has_changes() {
            self.dirty.notify_one();
        }
        lost
    }

    /// Collects the changes that the backend lacks: as writes, or as changes if the backend decides itself. Also
    /// returns the number of the last change, and true if the rows of earlier processes must still be read.
    pub fn unkept(&self, writes: &mut Vec<Write>) -> (Vec<Changes>, u64, bool) {
        let state = self.lock();
        let book = &state.decision.book;
        if B::SHARED {
            return (book.changes(), book.last(), false);
        }
        writes.extend(book.changed().into_iter().map(|(of, log, window)| {
            let key = match of {
                Counted::Member(member) => {
                    let [_, key] = keys::limits::limit_pair(member, false);
                    key
                }
                Counted::Account(account) => keys::limits::account(account, false),
            };
            Write::Put { key, value: member::to_json(log), ttl: Some(window) }
        }));
        (Vec::new(), book.last(), !state.decision.loaded)
    }

    /// Records that the backend has all changes up to this number, and loads the rows of earlier processes, if they
    /// were read.
    pub fn kept(&self, through: u64, loaded: Option<Vec<(String, String)>>) {
        let mut state = self.lock();
        state.decision.book.kept(through);
        let Some(rows) = loaded.filter(|_| !state.decision.loaded) else { return };
        state.decision.loaded = true;
        let rows = rows.into_iter().filter_map(|(key, text)| {
            let log = read_row(&key, &text);
            if log.is_none() {
                tracing::warn!(event = STORE_CORRUPT, key, "the entries of a limit cannot be read; they are forgotten");
            }
            log
        });
        let rows = rows.collect();
        state.decision.book.load(rows, LOADED_WINDOW);
    }

    /// Removes expired entries.
    pub fn tidy(&self) {
        let mut state = self.lock();
        let now = self.steady.now(state.decision.ahead);
        state.decision.book.tidy(now);
    }
}

/// Returns the changes in the accounts of a step that the backend lacks, in order.
fn changes_of_shares(book: &MemberWindows, request: &Request) -> Vec<Option<Changes>> {
    request.shares.iter().map(|share| book.changes_of(&Counted::Account(share.account.clone()))).collect()
}

/// Parses a window written by an earlier process. Returns `None` if it is unreadable.
fn read_row(key: &str, text: &str) -> Option<(Counted, WindowLog)> {
    match keys::limits::parse_account(key) {
        Some(account) => Some((Counted::Account(account), member::account_from_json(text)?)),
        None => Some((Counted::Member(keys::limits::parse_token_limit(key)?), member::from_json(text)?)),
    }
}
