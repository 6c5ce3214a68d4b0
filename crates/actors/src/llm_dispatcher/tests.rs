use std::time::Duration;

use super::*;
use crate::messages::llm_dispatcher::Summary;
use crate::observers::Observers;
use crate::runtime::handle::Handle;
use crate::testing::log::Log;
use crate::testing::{LEAF, Stage, Tree, at, live, person, row, settle, turn_id};
use domain::breaker::{OPEN_AFTER, OPEN_FOR};
use domain::ending::ModelErrorKind;
use domain::happening::CallPurpose;
use ports::Fault;
use ports::ModelError;
use ports::testing::{ScriptedFaults, ScriptedModels};
use tokio::sync::Semaphore;

struct World {
    dispatcher: Handle<LlmDispatcherMsg>,
    permits: ModelPermits,
    board: Arc<Board>,
    faults: Arc<ScriptedFaults>,
    _tree: Tree,
}

async fn world(permits: usize) -> World {
    world_of(permits, ScriptedModels::new(&["main", "spare", "last"])).await
}

async fn world_of(permits: usize, models: ScriptedModels) -> World {
    let dispatcher = at("llm_dispatcher");
    let (permits, board) = (ModelPermits::new(Arc::new(Semaphore::new(permits))), Arc::new(Board::default()));
    let live = live(&[], Arc::new(models));
    let mut stage = Stage::new();
    let faults = Arc::clone(&stage.faults);
    let actor =
        LlmDispatcher { live, permits: permits.clone(), board: Arc::clone(&board), observers: Observers::default() };
    stage.actor(row(LEAF), &dispatcher, actor);
    World { dispatcher, permits, board, faults, _tree: stage.go().await }
}

impl World {
    async fn acquire(&self, row: Option<&str>, tried: &[&str]) -> Result<Lease, NoModel> {
        self.acquire_for("7", row, tried).await
    }

    async fn acquire_for(&self, who: &str, row: Option<&str>, tried: &[&str]) -> Result<Lease, NoModel> {
        self.acquire_among(&[], who, row, tried).await
    }

    async fn acquire_among(
        &self,
        among: &[&str],
        who: &str,
        row: Option<&str>,
        tried: &[&str],
    ) -> Result<Lease, NoModel> {
        let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let (row, among, tried) = (row.map(str::to_owned), owned(among), owned(tried));
        let priority = Priority::Waits(person(who));
        let ask = |reply| LlmDispatcherMsg::Acquire { row, among, tried, priority, reply };
        self.dispatcher.call(ask, Duration::from_secs(1000)).await.unwrap()
    }

    /// The row that the dispatcher selects.
    async fn row(&self, row: Option<&str>, tried: &[&str]) -> Result<String, NoModel> {
        self.acquire(row, tried).await.map(|lease| lease.row.key)
    }

    fn report(&self, row: &str, result: Result<(), ModelErrorKind>) {
        let usage = Usage::default();
        let result = match result {
            Ok(()) => Ok(Summary { finish: "stop".into(), usage, calls: 0 }),
            Err(kind) => Err(ModelError::new(kind, "no")),
        };
        self.reported(report(row, 10, "7", result));
    }

    fn reported(&self, report: Report) {
        self.dispatcher.cast(LlmDispatcherMsg::Report(report)).unwrap();
    }

    /// Reports failures of this many turns of several people.
    fn fail(&self, row: &str, turns: usize, kind: ModelErrorKind) {
        for turn in 0..turns {
            let person = if turn == 0 { "7" } else { "8" };
            self.reported(report(row, 10 + turn, person, Err(ModelError::new(kind, "no"))));
        }
    }

    /// Grants permits to as many of these requests as may have one now.
    async fn flood(&self, row: &str, names: std::ops::Range<u32>) -> Vec<Lease> {
        let mut held = Vec::new();
        for name in names {
            let name = name.to_string();
            let asked = tokio::time::timeout(Duration::from_secs(1), self.acquire_for(&name, Some(row), &[])).await;
            held.extend(asked.into_iter().map(|lease| lease.ok().unwrap()));
        }
        held
    }

    fn shown_up(&self, row: &str) -> bool {
        self.board.parts().iter().any(|(_, name, state)| name == row && state.up)
    }
}

fn report(row: &str, turn: usize, who: &str, result: Result<Summary, ModelError>) -> Report {
    let (turn, person) = (Some(turn_id(&turn.to_string())), Some(person(who)));
    let purpose = CallPurpose::Turn;
    Report { turn, purpose, person, row: row.into(), tries: 1, took: Duration::ZERO, streamed: None, result }
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_said_is_content_and_who_was_asked_for_is_told() {
    let (log, world) = (Log::capture(), world(1).await);
    let error = || {
        let message = "status 500: I cannot answer 'my diary'".to_owned();
        ModelError { message, ..ModelError::new(ModelErrorKind::Provider, "status 500") }
    };
    for turn in 0..OPEN_AFTER {
        world.reported(report("main", 10 + turn, &turn.to_string(), Err(error())));
    }
    world.reported(Report {
        turn: None,
        purpose: CallPurpose::StatusLine,
        person: None,
        ..report("main", 10, "7", Err(error()))
    });
    settle().await;
    let calls = log.of("llm.called");
    let fields =
        |line: &crate::testing::log::Line| [&line["purpose"], &line["reason"], &line["text"]].map(String::clone);
    assert_eq!(fields(&calls[0]), ["turn", "status 500", &error().message]);
    assert_eq!(calls.last().map(fields).unwrap()[0], "status");
    assert_eq!(log.column("breaker.opened", "reason"), ["Provider: status 500"]);
    let told = world.board.parts().into_iter().find_map(|(_, name, state)| state.last_error.filter(|_| name == "main"));
    assert_eq!(told.as_deref(), Some("Provider: status 500"), "it stands on an open page");
}

#[tokio::test(start_paused = true)]
async fn permits_are_handed_out_and_waited_for_in_order() {
    let world = world(1).await;
    let first = world.acquire(None, &[]).await.ok().unwrap();
    let mut second = Box::pin(world.acquire(None, &[]));
    assert!(futures_util::poll!(&mut second).is_pending());
    settle().await;
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    assert!(second.await.is_ok());
    assert_eq!(world.permits.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_burst_of_one_person_stands_behind_the_first_question_of_others() {
    let world = world(1).await;
    let first = world.acquire_for("7", None, &[]).await.ok().unwrap();
    let served = parking_lot::Mutex::new(Vec::new());
    let wait = |who: &'static str| {
        let (world, served) = (&world, &served);
        async move {
            let lease = world.acquire_for(who, None, &[]).await.ok().unwrap();
            served.lock().push(who);
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(lease);
        }
    };
    let waiting = ["7", "7", "7", "8", "9"].map(wait);
    let free = async {
        settle().await;
        drop(first);
    };
    tokio::join!(futures_util::future::join_all(waiting), free);
    assert_eq!(*served.lock(), ["7", "8", "9", "7", "7"]);
    assert_eq!(world.permits.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_stopped_waiting_holds_no_permit() {
    let world = world(1).await;
    let first = world.acquire(None, &[]).await.ok().unwrap();
    let ask = |reply| LlmDispatcherMsg::Acquire {
        row: None,
        among: Vec::new(),
        tried: Vec::new(),
        priority: Priority::Waits(person("7")),
        reply,
    };
    assert!(world.dispatcher.call(ask, Duration::from_secs(1)).await.is_err());
    drop(first);
    settle().await;
    assert_eq!(world.permits.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_may_not_answer_is_passed_over() {
    let world = world(9).await;
    let among = async |rows: &[&str], row: Option<&str>, tried: &[&str]| {
        world.acquire_among(rows, "7", row, tried).await.map(|lease| lease.row.key)
    };
    let (first, second) = (world.row(None, &[]).await.unwrap(), world.row(None, &["main"]).await.unwrap());
    assert_ne!(first, second);
    assert_eq!(among(&[&second], None, &[]).await, Ok(second.clone()));
    assert_eq!(among(&["main"], None, &["main"]).await, Err(NoModel::Exhausted));
    assert_eq!(
        among(&["gone"], Some("gone"), &[]).await,
        Err(NoModel::Exhausted),
        "nor the default row for one that is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn fallbacks_are_tried_in_order_until_none_is_left() {
    let world = world(9).await;
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("main"));
    assert_eq!(world.row(None, &["main"]).await.as_deref(), Ok("spare"));
    assert_eq!(world.row(None, &["main", "spare"]).await.as_deref(), Ok("last"));
    assert_eq!(world.row(None, &["main", "spare", "last"]).await, Err(NoModel::Exhausted));
    assert_eq!(world.row(Some("last"), &[]).await.as_deref(), Ok("last"));
    assert_eq!(world.row(Some("unknown"), &[]).await.as_deref(), Ok("main"));
}

#[tokio::test(start_paused = true)]
async fn a_failing_model_is_passed_over_then_tried_once_and_taken_back() {
    let (log, world) = (Log::capture(), world(9).await);
    world.fail("main", OPEN_AFTER, ModelErrorKind::Provider);
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("spare"));
    assert!(!world.shown_up("main") && world.shown_up("spare"));
    assert_eq!(log.column("breaker.opened", "model"), ["main"]);
    tokio::time::sleep(OPEN_FOR).await;
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("main"), "one call may try");
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("spare"), "and only one");
    world.report("main", Ok(()));
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("main"));
    assert!(world.shown_up("main"));
    assert_eq!(log.column("breaker.closed", "model"), ["main"]);
}

#[tokio::test(start_paused = true)]
async fn when_every_breaker_is_open_nobody_waits() {
    let world = world(9).await;
    for row in ["main", "spare", "last"] {
        world.fail(row, OPEN_AFTER, ModelErrorKind::Timeout);
    }
    assert!(matches!(world.row(None, &[]).await, Err(NoModel::Open(rest)) if rest <= OPEN_FOR && rest > OPEN_FOR / 2));
}

#[tokio::test(start_paused = true)]
async fn what_speaks_of_the_question_does_not_count_against_the_model() {
    let world = world(9).await;
    world.fail("main", OPEN_AFTER * 2, ModelErrorKind::BadRequest);
    world.fail("main", OPEN_AFTER * 2, ModelErrorKind::ContextOverflow);
    world.fail("main", OPEN_AFTER * 2, ModelErrorKind::TooLarge);
    world.fail("main", OPEN_AFTER * 2, ModelErrorKind::NoMemory);
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("main"));
}

#[tokio::test(start_paused = true)]
async fn permits_survive_a_crash() {
    let world = world(1).await;
    let lease = world.acquire(None, &[]).await.ok().unwrap();
    world.faults.inject("staffai/llm_dispatcher", Fault::Panic);
    world.report("main", Ok(()));
    settle().await;
    let mut second = Box::pin(world.acquire(None, &[]));
    assert!(futures_util::poll!(&mut second).is_pending());
    settle().await;
    assert!(futures_util::poll!(&mut second).is_pending(), "the lease from before still counts");
    drop(lease);
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_takes_only_what_nobody_else_wants() {
    let world = world(3).await;
    let unasked = async |priority: Priority| {
        let ask =
            |reply| LlmDispatcherMsg::Acquire { row: None, among: Vec::new(), tried: Vec::new(), priority, reply };
        world.dispatcher.call(ask, Duration::from_secs(1)).await.unwrap()
    };
    // The settings allow 64 calls, of which two are reserved.
    let spare = unasked(Priority::Spare).await.ok().unwrap();
    assert_eq!(unasked(Priority::Spare).await.err(), Some(NoModel::Busy), "the last two are kept");
    let free = unasked(Priority::IfFree).await.ok().unwrap();
    let asked = world.acquire(None, &[]).await.ok().unwrap();
    assert_eq!(unasked(Priority::IfFree).await.err(), Some(NoModel::Busy), "and it does not wait");
    let mut waiting = Box::pin(world.acquire(None, &[]));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    settle().await;
    drop((spare, free));
    assert_eq!(unasked(Priority::IfFree).await.err(), Some(NoModel::Busy), "somebody waits");
    assert!(waiting.await.is_ok());
    drop(asked);
}

#[test]
fn few_permits_are_kept_and_none_where_there_are_hardly_any() {
    assert_eq!([1, 3, 4, 8, 64].map(kept), [0, 0, 1, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn one_member_whose_questions_break_the_model_shuts_it_for_nobody() {
    let world = world(9).await;
    for turn in 0..9 {
        world.reported(report("main", turn, "7", Err(ModelError::new(ModelErrorKind::Provider, "no"))));
    }
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("main"));
    assert!(world.shown_up("main"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_flowed_is_no_failure_of_the_model() {
    let world = world(9).await;
    for turn in 0..9 {
        let late = Err(ModelError::new(ModelErrorKind::Timeout, "late"));
        let streamed = Some(Usage::of_streamed(400, 40));
        world.reported(Report { streamed, ..report("main", turn, &turn.to_string(), late) });
    }
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("main"));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_every_turn_is_refused_by_is_degraded_with_the_reason() {
    let (log, world) = (Log::capture(), world(9).await);
    let refused = |turn| {
        report("spare", turn, "7", Err(ModelError::new(ModelErrorKind::Refused, "status 400: no_db_connection")))
    };
    (0..2).for_each(|turn| world.reported(refused(turn)));
    settle().await;
    assert!(world.shown_up("spare"));
    world.reported(refused(2));
    settle().await;
    assert!(!world.shown_up("spare"));
    assert_eq!(log.column("llm.refused", "reason"), ["status 400: no_db_connection"]);
    assert_eq!(world.row(None, &["main"]).await.as_deref(), Ok("spare"), "it is tried all the same");
    world.report("spare", Ok(()));
    settle().await;
    assert!(world.shown_up("spare"));
}

#[tokio::test(start_paused = true)]
async fn long_answers_of_one_person_leave_permits_for_others() {
    let world = world(4).await;
    let mut flood: Vec<_> = (0..20).map(|_| Box::pin(world.acquire_for("7", None, &[]))).collect();
    let mut held = Vec::new();
    for asked in &mut flood {
        if let Ok(lease) = tokio::time::timeout(Duration::from_secs(1), asked).await {
            held.push(lease.ok().unwrap());
        }
    }
    assert_eq!(held.len(), 2, "one person holds at most half");
    let other = tokio::time::timeout(Duration::from_secs(1), world.acquire_for("8", None, &[])).await;
    assert!(other.is_ok_and(|lease| lease.is_ok()), "another person is served at once");
    drop(flood);
    drop(held);
    settle().await;
    let again = tokio::time::timeout(Duration::from_secs(1), world.acquire_for("7", None, &[])).await;
    assert!(again.is_ok_and(|lease| lease.is_ok()), "requests without a caller hold nothing back");
}

#[tokio::test(start_paused = true)]
async fn a_slow_row_leaves_permits_for_calls_to_other_rows() {
    let world = world(8).await;
    let (names, mut held): (Vec<_>, _) = ((0..20).map(|name| name.to_string()).collect(), Vec::new());
    let mut flood: Vec<_> = names.iter().map(|name| Box::pin(world.acquire_for(name, Some("main"), &[]))).collect();
    for asked in &mut flood {
        if let Ok(lease) = tokio::time::timeout(Duration::from_secs(1), asked).await {
            held.push(lease.ok().unwrap());
        }
    }
    assert_eq!(held.len(), 6, "one row holds at most three quarters");
    let other = tokio::time::timeout(Duration::from_secs(1), world.acquire_for("21", Some("spare"), &[])).await;
    assert_eq!(other.unwrap().ok().unwrap().row.key, "spare", "calls to another row pass the queue of the slow one");
    held.clear();
    let next = tokio::time::timeout(Duration::from_secs(1), &mut flood[6]).await;
    assert!(next.is_ok_and(|lease| lease.is_ok()), "a returned permit is granted to the queue");
}

/// Two rows of one provider, and one of another.
fn two_providers() -> ScriptedModels {
    ScriptedModels::new(&["main", "spare", "last"]).with_providers(&[("main", "one"), ("spare", "one")])
}

#[tokio::test(start_paused = true)]
async fn a_slow_provider_with_many_rows_leaves_permits_for_another_provider() {
    let world = world_of(16, two_providers()).await;
    let main = world.flood("main", 100..120).await;
    let spare = world.flood("spare", 200..220).await;
    assert_eq!((main.len(), spare.len()), (12, 2), "the rows of one provider together hold at most seven eighths");
    assert_eq!(world.flood("last", 300..301).await.len(), 1);
    drop((main, spare));
    let models = ScriptedModels::new(&["main", "spare"]).with_providers(&[("spare", "main")]);
    let lone = world_of(16, models).await;
    let held = (lone.flood("main", 100..120).await, lone.flood("spare", 200..220).await);
    assert_eq!(held.1.len(), 3, "a single provider has no bound of its own");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_be_reached_is_passed_over_with_all_its_rows() {
    let (log, world) = (Log::capture(), world_of(9, two_providers()).await);
    let failed = |unreached| Err(ModelError { unreached, ..ModelError::new(ModelErrorKind::Connection, "no") });
    for turn in 0..OPEN_AFTER {
        world.reported(report("main", 10 + turn, &turn.to_string(), failed(false)));
    }
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("spare"), "a model can fail alone");
    world.report("main", Ok(()));
    for turn in 0..OPEN_AFTER {
        world.reported(report("main", 20 + turn, &format!("2{turn}"), failed(true)));
    }
    assert_eq!(world.row(None, &[]).await.as_deref(), Ok("last"), "no call has to discover it for the other row");
    assert!(!world.shown_up("main") && !world.shown_up("spare") && world.shown_up("last"));
    assert_eq!(log.column("breaker.opened", "model"), ["main", "main", "spare"]);
    tokio::time::sleep(OPEN_FOR).await;
    assert_eq!(world.row(Some("spare"), &[]).await.as_deref(), Ok("spare"), "one call may try");
    world.report("spare", Ok(()));
    settle().await;
    assert!(world.shown_up("spare"));
}
