//! The details of one actor: its row of the tree, its current work, and its last failures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::observation::timeline::micros;
use crate::runtime::handle::{HUNG, Handled, LifeState, Stats};
use crate::tree::{ActorKind, TREE, TreeRow};
use domain::ids::{self, Timestamp};
use ports::vitals::{ActorDetail, ActorFailure, ActorRow, HandledInput};

/// Returns the details of an actor. `now` is the current wall-clock time.
pub(super) fn detail(stats: &Stats, now: Timestamp) -> ActorDetail {
    let life = stats.life();
    let handling = stats.handling().map(|handling| handling.since.elapsed());
    let (busy, last) = stats.work();
    let failures: Vec<ActorFailure> = stats.failures().into_iter().map(|failure| shown(failure, now)).collect();
    ActorDetail {
        path: stats.path.to_string(),
        state: if stats.is_hung() { HUNG } else { life.state.as_str() }.to_owned(),
        for_s: life.since.elapsed().as_secs(),
        mailbox: stats.depth.load(Ordering::Relaxed) as u64,
        handled: stats.handled.load(Ordering::Relaxed),
        restarts: stats.restarts.load(Ordering::Relaxed),
        busy_us: micros(busy),
        last: last.into_iter().map(input).collect(),
        handling_ms: handling.filter(|_| life.state == LifeState::Running).map(ids::millis),
        row: find(&TREE, stats.kind).map(row),
        failures,
    }
}

fn input(handled: Handled) -> HandledInput {
    let Handled { kind, since, took } = handled;
    HandledInput { kind: kind.to_owned(), ago_ms: ids::millis(since.elapsed()), took_us: took.map(micros) }
}

fn shown(failure: crate::runtime::handle::Failure, now: Timestamp) -> ActorFailure {
    ActorFailure {
        at: moment(failure.at, now),
        error: failure.error,
        backoff_ms: failure.backoff.map(ids::millis),
        outage_ms: failure.outage.map(ids::millis),
    }
}

fn moment(at: Instant, now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_sub(ids::millis(at.elapsed())))
}

fn find(row: &'static TreeRow, kind: ActorKind) -> Option<&'static TreeRow> {
    if row.kind == kind {
        return Some(row);
    }
    row.children.iter().find_map(|child| find(child, kind))
}

fn row(row: &TreeRow) -> ActorRow {
    ActorRow {
        role: row.role.to_owned(),
        restart: row.policy(),
        backoff: format!("up to {}, then longer each time, up to {}", words(row.backoff.base), words(row.backoff.cap)),
        handles_within_ms: ids::millis(row.handler_timeout),
        on_hang: row.on_hang.as_str().to_owned(),
        stop_within_ms: ids::millis(row.stop_timeout),
    }
}

fn words(time: Duration) -> String {
    if time < Duration::from_secs(1) { format!("{} ms", time.as_millis()) } else { format!("{} s", time.as_secs_f64()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::runtime::handle::Handle;
    use crate::testing::real;
    use crate::tree::{ROOT, Scope};
    use ports::{Input, Origin};

    #[tokio::test(start_paused = true)]
    async fn an_actor_is_told_with_its_last_messages_and_its_busy_time() {
        let stats = Arc::clone(Handle::<()>::new(real(ActorKind::Journal), ROOT, Scope::One).stats());
        let handle = async |input, kind, us| {
            stats.begin(input, kind);
            tokio::time::advance(Duration::from_micros(us)).await;
            stats.done();
        };
        for number in 1..=20 {
            handle(Input::Message(None), if number % 2 == 0 { "Accept" } else { "Answered" }, number).await;
        }
        handle(Input::Event(Origin::Own), "event", 1_000).await;
        handle(Input::Event(Origin::Outside(None)), "event", 5_000).await;
        stats.begin(Input::Message(None), "Drain");
        let told = detail(&stats, Timestamp(1_000_000));
        assert_eq!(told.busy_us, 20 * 21 / 2 + 6_000);
        let last: Vec<_> = told.last.iter().map(|input| (input.kind.as_str(), input.took_us)).collect();
        assert_eq!(last[..4], [("Drain", None), ("event", Some(5_000)), ("Accept", Some(20)), ("Answered", Some(19))]);
        assert_eq!((last.len(), last[7], told.last[1].ago_ms), (8, ("Answered", Some(15)), 5));
        stats.blame();
        assert_eq!(detail(&stats, Timestamp(1_000_000)).last[0].took_us, None, "the actor failed at it");
    }

    #[tokio::test(start_paused = true)]
    async fn an_actor_is_told_with_its_row_and_its_last_failures() {
        let stats = Arc::clone(Handle::<()>::new(real(ActorKind::Journal), ROOT, Scope::One).stats());
        stats.enter(LifeState::Running);
        for number in 1..=20 {
            stats.failed(&format!("failure {number}"));
            stats.restarts_after(Duration::from_millis(50));
            tokio::time::advance(Duration::from_millis(80)).await;
            stats.enter(LifeState::Running);
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let told = detail(&stats, Timestamp(1_000_000));
        assert_eq!((told.state.as_str(), told.for_s, told.failures.len()), ("running", 10, 16));
        let last = &told.failures[0];
        assert_eq!((last.error.as_str(), last.at), ("failure 20", Timestamp(1_000_000 - 10_080)));
        assert_eq!((last.backoff_ms, last.outage_ms), (Some(50), Some(80)));
        assert_eq!(told.failures[15].error, "failure 5");
        stats.failed(&"ä".repeat(10_000));
        assert!(detail(&stats, Timestamp(1_000_000)).failures[0].error.len() <= 512);
        assert!(told.row.is_some_and(|row| row.restart.contains("permanent") && !row.role.is_empty()));
    }
}
