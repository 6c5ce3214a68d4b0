//! Decisions about limits: by the backend where several processes share it, else here; and here too while the backend fails,
//! from what it told last. What was decided here is told to it before it decides about the same member again, and all of it
//! when it recovers.

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
use domain::limits::{Decision, Request, Step, member};
use domain::{keys, panic};
use ports::{StoreStatus, Write};

/// How long entries of an earlier life are kept when no request is about them: the length of their window comes with a request
/// only.
const LOADED_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of members' limits.
#[derive(Default)]
pub struct KnownLimits {
    /// The entries.
    pub book: MemberWindows,
    /// What earlier lives wrote down was read.
    loaded: bool,
    /// How far the backend's clock is ahead of ours, in milliseconds.
    ahead: i64,
}

impl KnownLimits {
    /// A step was done, with this answer.
    fn did(&mut self, request: &Request, answer: &Decision) {
        if matches!(request.step, Step::Cancel(_)) || *answer == Decision::Admitted {
            self.book.did(request);
        }
    }
}

/// A monotonic clock: changes of the wall clock do not move it. It begins with that one's time.
pub struct Steady {
    wall: Timestamp,
    began: Instant,
}

impl Steady {
    /// A clock that begins now.
    pub fn beginning(wall: Timestamp) -> Self {
        Self { wall, began: Instant::now() }
    }

    /// The time on a clock that is so far ahead, in milliseconds.
    fn now(&self, ahead: i64) -> Timestamp {
        let passed = ids::millis(self.began.elapsed());
        Timestamp(self.wall.0.saturating_add(passed).saturating_add_signed(ahead))
    }
}

/// The backend's decision about limits, or one's own while it fails.
pub async fn decide_limit<B: Backend>(shared: &Shared<B>, request: &Request) -> Decision {
    let Some((backend, known)) = shared.deciding_backend(request) else {
        return shared.decide(request);
    };
    let (deadline, begun) = (shared.short.lock().deadline(), Instant::now());
    let fresh = matches!(request.step, Step::Reserve(_)) && !shared.lock().decision.book.knows(request);
    let asked = async {
        let (answer, lost) = ask(shared, backend.as_ref(), request, known).await?;
        if !(lost && fresh && answer == Decision::Admitted) {
            return Ok(answer);
        }
        // It was admitted beside less than counts: what was lost is told first, and it is asked for again.
        let all = shared.everything(request);
        let Step::Reserve(reservation) = &request.step else { return Ok(answer) };
        let back = Request { step: Step::Cancel(reservation.turn.clone()), ..request.clone() };
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

/// One step of the backend; true with its answer when it turned out to have lost something.
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
        LimitOutcome::Lost => Err(BackendError::Failed("it lost what it was just told".to_owned())),
    }
}

impl<B: Backend> Shared<B> {
    /// All that is known about the member of a step, and what changed in its accounts.
    fn everything(&self, request: &Request) -> AccountsKnown {
        let book = &self.lock().decision.book;
        let of = request.member.clone().map(Counted::Member);
        let changes = of.map(|of| book.everything(&of, request.window));
        AccountsKnown { version: 0, changes, shares: changes_of_shares(book, request) }
    }

    /// Decides by what is known here.
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

    /// The same, after a request to the backend whose outcome is unknown.
    fn decide_instead(&self, request: &Request) -> Decision {
        let answer = self.decide(request);
        self.lock().decision.book.tell_of(request);
        self.dirty.notify_one();
        answer
    }

    /// The backend, and what is known about the windows of a step; none while it fails.
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

    /// The backend has decided, knowing these changes. True when it turned out to have lost something.
    fn decided(&self, request: &Request, known: &AccountsKnown, decision: LimitDecision) -> bool {
        let mut state = self.lock();
        let ours = self.steady.now(0);
        let decided = &mut state.decision;
        decided.ahead = decision.now.0.cast_signed().saturating_sub(ours.0.cast_signed());
        for changes in known.shares.iter().flatten().chain(&known.changes) {
            decided.book.kept_of(&changes.of, changes.through);
        }
        for (share, log) in request.shares.iter().zip(decision.shares) {
            // Entries of ended turns are joined there, so what is missing is no sign of a loss.
            let (of, window) = (Counted::Account(share.account.clone()), share.account.window);
            decided.book.learned(decision.now, &of, window, log, decision.micros);
        }
        let of = request.member.clone().map(Counted::Member);
        let lost = match (decision.log, of) {
            (_, None) => false,
            (Some(log), Some(of)) => {
                if matches!(request.step, Step::Cancel(_)) {
                    decided.book.did(request);
                }
                decided.book.learned(decision.now, &of, request.window, log, decision.version)
            }
            // What an account refused changed nothing.
            (None, Some(_)) if matches!(&decision.decision, Decision::Refused(refusal) if refusal.account.is_some()) => {
                false
            }
            (None, Some(_)) => {
                decided.book.followed(decision.now, request, (known.version, decision.version), decision.used);
                false
            }
        };
        decided.did(request, &decision.decision);
        if decided.book.has_changes() {
            self.dirty.notify_one();
        }
        lost
    }

    /// What the backend does not know yet: as writes, or as changes where it decides itself. Then the number of the last of
    /// them, and whether what earlier lives wrote down is still to be read.
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

    /// The backend knows all changes up to this number; and what earlier lives wrote down, if it was read.
    pub fn kept(&self, through: u64, loaded: Option<Vec<(String, String)>>) {
        let mut state = self.lock();
        state.decision.book.kept(through);
        let Some(rows) = loaded.filter(|_| !state.decision.loaded) else { return };
        state.decision.loaded = true;
        let rows = rows.into_iter().filter_map(|(key, text)| {
            let log = read_row(&key, &text);
            if log.is_none() {
                tracing::warn!(
                    event = "store.corrupt",
                    key,
                    "the entries of a limit cannot be read; they are forgotten"
                );
            }
            log
        });
        let rows = rows.collect();
        state.decision.book.load(rows, LOADED_WINDOW);
    }

    /// Forgets what has aged out.
    pub fn tidy(&self) {
        let mut state = self.lock();
        let now = self.steady.now(state.decision.ahead);
        state.decision.book.tidy(now);
    }
}

/// What changed in the accounts of a step and the backend does not know yet, in order.
fn changes_of_shares(book: &MemberWindows, request: &Request) -> Vec<Option<Changes>> {
    request.shares.iter().map(|share| book.changes_of(&Counted::Account(share.account.clone()))).collect()
}

/// A window as an earlier life wrote it down; `None` when it cannot be read.
fn read_row(key: &str, text: &str) -> Option<(Counted, WindowLog)> {
    match keys::limits::parse_account(key) {
        Some(account) => Some((Counted::Account(account), member::account_from_json(text)?)),
        None => Some((Counted::Member(keys::limits::parse_token_limit(key)?), member::from_json(text)?)),
    }
}
