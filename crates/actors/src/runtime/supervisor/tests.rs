//! Supervision, tested with real actors on paused time.

mod escalation;
mod mailbox;
mod ordered;
mod templates;
mod watchdog;

use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use super::*;
use crate::runtime::handle::{CallError, Hung, LifeState, Refused, Reply};
use crate::runtime::named::named;
use crate::testing::log::Log;
use crate::testing::{LEAF, Stage, at, below, row, settle};
use crate::tree::{ActorKind, OnHang};
use domain::restart::{Backoff, Intensity, Restart};
use ports::Fault;

/// A command for a worker.
enum Do {
    Panic(&'static str),
    Fail(&'static str),
    Hang,
    /// Fails at an event of its own.
    Own(&'static str),
    /// Fails at an external event.
    Outside(&'static str),
    /// Fails at each redelivery.
    Poison(&'static str),
    Leave,
    Lives(Reply<usize>),
    Task(&'static str),
    Later(Duration),
    Forever(Arc<()>),
    Start(ChildSpec),
    Drop(&'static str),
    Note(String),
    /// Starts a task that sends this number of events as fast as it can.
    Reads(usize),
}

named!(Do: Panic, Fail, Hang, Own, Outside, Poison, Leave, Lives, Task, Later, Forever, Start, Drop, Note, Reads);

/// An event of a worker.
enum Happened {
    Noted(String),
    Breaks(Origin, &'static str),
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().push(note.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

#[derive(Default)]
struct Worker {
    notes: Notes,
    lives: AtomicUsize,
    /// The number of starts that fail, from the first on.
    broken_starts: AtomicUsize,
}

impl Worker {
    fn noting(notes: &Notes) -> Self {
        Self { notes: notes.clone(), ..Self::default() }
    }
}

impl Actor for Worker {
    type Msg = Do;
    type Event = Happened;
    type State = usize;

    fn start(&self, ctx: &mut ActorContext<Self>) -> Result<usize, Crash> {
        if self.broken_starts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err("the start broke".into());
        }
        self.notes.add(format!("start {}", ctx.path()));
        Ok(self.lives.fetch_add(1, Ordering::SeqCst) + 1)
    }

    async fn handle(&self, ctx: &mut ActorContext<Self>, message: Do, lives: &mut usize) -> Result<(), Crash> {
        match message {
            Do::Panic(text) => panic!("{text}"),
            Do::Fail(text) | Do::Poison(text) => return Err(text.into()),
            Do::Hang => std::future::pending().await,
            Do::Own(text) => drop(ctx.events().send(Happened::Breaks(Origin::Own, text))),
            Do::Outside(text) => drop(ctx.events().send(Happened::Breaks(Origin::Outside(None), text))),
            Do::Leave => ctx.stop_self(),
            Do::Lives(reply) => drop(reply.send(*lives)),
            Do::Task(text) => {
                ctx.task(async move { panic!("{text}") }, |panic| Happened::Noted(format!("task: {panic}")));
            }
            Do::Later(delay) => ctx.after(delay, Happened::Noted("later".to_owned())),
            Do::Forever(held) => ctx.background(async move {
                std::future::pending::<()>().await;
                drop(held);
            }),
            Do::Start(spec) => ctx.start_child(spec).await?,
            Do::Drop(path) => ctx.stop_child(path).await,
            Do::Note(text) => self.notes.add(text),
            Do::Reads(many) => {
                let events = ctx.events();
                ctx.background(async move {
                    for number in 0..many {
                        let read = Happened::Noted(format!("read {number}"));
                        events.send_when_there_is_room(read).await.unwrap();
                    }
                });
            }
        }
        Ok(())
    }

    async fn event(&self, _ctx: &mut ActorContext<Self>, event: Happened, _lives: &mut usize) -> Result<(), Crash> {
        match event {
            Happened::Noted(text) => self.notes.add(text),
            Happened::Breaks(_, text) => return Err(text.into()),
        }
        Ok(())
    }

    fn subject(message: &Do) -> Option<Subject> {
        match message {
            Do::Poison(text) => Some(Subject::of(text)),
            _ => None,
        }
    }

    fn origin(event: &Happened) -> Origin {
        match event {
            Happened::Breaks(origin, _) => *origin,
            Happened::Noted(_) => Origin::Own,
        }
    }

    fn give_up(&self, _ctx: &mut ActorContext<Self>, message: Do, _lives: &mut usize) {
        if let Do::Poison(text) = message {
            self.notes.add(format!("gave up {text}"));
        }
    }

    fn overflowed(&self, _ctx: &mut ActorContext<Self>, _lives: &mut usize) {
        self.notes.add("overflowed");
    }

    async fn stop(&self, ctx: &mut ActorContext<Self>, _lives: &mut usize) {
        self.notes.add(format!("stop {}", ctx.path()));
    }
}

const PATIENT: Intensity = Intensity { restarts: 1000, period: Duration::from_secs(60) };

fn permanent() -> &'static TreeRow {
    row(LEAF)
}

fn state(handle: &Handle<Do>) -> LifeState {
    handle.stats().life().state
}

fn is_down(handle: &Handle<Do>) -> bool {
    handle.cast(Do::Leave).is_err()
}

fn last_error(handle: &Handle<Do>) -> String {
    handle.stats().life().last_error.unwrap_or_default()
}

async fn lives(handle: &Handle<Do>) -> Result<usize, CallError> {
    handle.call(Do::Lives, Duration::from_secs(1)).await
}

/// Starts two workers, `a` and `b`, below a root of this intensity.
async fn two(intensity: Intensity) -> (Handle<Do>, Handle<Do>, Notes, crate::testing::Tree) {
    let (notes, a, b) = (Notes::default(), at("a"), at("b"));
    let mut stage = Stage::new();
    stage.actor(permanent(), &a, Worker::noting(&notes));
    stage.actor(permanent(), &b, Worker::noting(&notes));
    (a, b, notes, stage.start(intensity).await)
}

// === Starting and stopping ===

#[tokio::test(start_paused = true)]
async fn children_start_in_order_and_stop_in_reverse() {
    let (_a, _b, notes, tree) = two(PATIENT).await;
    assert_eq!(notes.take(), ["start staffai/a", "start staffai/b"]);
    tree.root.drain_and_wait(None).await.unwrap();
    assert_eq!(notes.take(), ["stop staffai/b", "stop staffai/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_handles_the_mailbox_first() {
    let (a, _b, notes, tree) = two(PATIENT).await;
    notes.take();
    for number in 0..3 {
        a.cast(Do::Note(number.to_string())).unwrap();
    }
    tree.root.drain_and_wait(None).await.unwrap();
    assert_eq!(notes.take(), ["0", "1", "2", "stop staffai/b", "stop staffai/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_is_killed_at_its_deadline_and_the_others_still_stop() {
    let log = Log::capture();
    let (a, b, notes, tree) = two(PATIENT).await;
    notes.take();
    b.cast(Do::Hang).unwrap();
    settle().await;
    let begun = Instant::now();
    tree.root.drain_and_wait(None).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), LEAF.stop_timeout.as_secs());
    assert_eq!(notes.take(), ["stop staffai/a"]);
    assert_eq!(log.column("actor.stopped", "actor"), ["staffai/b", "staffai/a"]);
    assert_eq!(log.column("actor.stopped", "reason"), ["killed at its deadline", "stopped in order"]);
    assert!(is_down(&a) && is_down(&b));
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_its_restart_needs_no_time_to_stop() {
    let slow = row(TreeRow { backoff: Backoff { base: Duration::from_secs(9), cap: Duration::from_secs(9) }, ..LEAF });
    let (log, a) = (Log::capture(), at("a"));
    let mut stage = Stage::new();
    stage.actor(slow, &a, Worker::default());
    let tree = stage.go().await;
    a.cast(Do::Fail("no")).unwrap();
    settle().await;
    let begun = Instant::now();
    tree.root.drain_and_wait(None).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(log.column("actor.stopped", "reason"), ["it waited for its restart"]);
    assert_eq!(state(&a), LifeState::Stopped);
}

// === Restarts ===

#[tokio::test(start_paused = true)]
async fn only_the_failed_child_is_restarted_with_a_new_state() {
    let (a, b, ..) = two(PATIENT).await;
    a.cast(Do::Panic("went wrong")).unwrap();
    settle().await;
    assert_eq!((lives(&a).await, lives(&b).await), (Ok(2), Ok(1)));
    assert_eq!(last_error(&a), "went wrong");
    a.cast(Do::Fail("said no")).unwrap();
    settle().await;
    assert_eq!(lives(&a).await, Ok(3));
    assert_eq!(last_error(&a), "said no");
    assert_eq!(a.stats().restarts.load(Ordering::Relaxed), 2);
    assert_eq!(b.stats().restarts.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn each_policy_decides_for_itself() {
    for (restart, after_end, after_failure) in [
        (Restart::Permanent, LifeState::Running, LifeState::Running),
        (Restart::Transient, LifeState::Stopped, LifeState::Running),
        (Restart::Temporary, LifeState::Stopped, LifeState::Stopped),
    ] {
        for (message, expected) in [(Do::Leave, after_end), (Do::Fail("no"), after_failure)] {
            let failed = matches!(message, Do::Fail(_));
            let a = at("a");
            let mut stage = Stage::new();
            let (roster, recovered) = (Arc::clone(&stage.roster), Arc::clone(&stage.recovered));
            stage.actor(row(TreeRow { restart, ..LEAF }), &a, Worker::default());
            let _tree = stage.go().await;
            a.cast(message).unwrap();
            settle().await;
            assert_eq!(state(&a), expected, "{restart:?}, failed: {failed}");
            let known = roster.all().iter().any(|stats| &*stats.path == "staffai/a");
            assert_eq!(known, expected == LifeState::Running);
            let told = recovered.lock().len();
            assert_eq!(told > 0, failed || restart == Restart::Permanent, "{restart:?}, failed: {failed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_tried_again_and_recovery_is_told_when_it_worked() {
    let a = at("a");
    let mut stage = Stage::new();
    let recovered = Arc::clone(&stage.recovered);
    let worker = Worker { broken_starts: AtomicUsize::new(3), ..Worker::default() };
    let slow = row(TreeRow { backoff: Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(1) }, ..LEAF });
    stage.actor(slow, &a, worker);
    let _tree = stage.go().await;
    assert_eq!(state(&a), LifeState::Restarting);
    assert!(last_error(&a).contains("the start broke"), "{}", last_error(&a));
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!((state(&a), recovered.lock().len()), (LifeState::Restarting, 0));
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(state(&a), LifeState::Running);
    assert_eq!(*recovered.lock(), ["staffai/a"]);
}

#[tokio::test(start_paused = true)]
async fn backoff_doubles_to_its_cap_with_the_dice_in_full() {
    let a = at("a");
    let mut stage = Stage::new();
    let slow = row(TreeRow { backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(10) }, ..LEAF });
    stage.actor(slow, &a, Worker::default());
    let _tree = stage.go().await;
    for expected in [1, 2, 4, 5, 5] {
        a.cast(Do::Own("no")).unwrap();
        settle().await;
        let begun = Instant::now();
        while state(&a) != LifeState::Running {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let waited = begun.elapsed().as_secs_f64();
        assert!((waited - f64::from(expected)).abs() < 0.1, "waited {waited}, expected half of twice {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_calm_period_forgives() {
    let (a, _b, _notes, mut tree) = two(Intensity { restarts: 2, period: Duration::from_secs(10) }).await;
    for _ in 0..20 {
        a.cast(Do::Own("no")).unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert_eq!(lives(&a).await, Ok(21));
    assert!(futures_util::poll!(&mut tree.ended).is_pending());
}

// === Handles ===

#[tokio::test(start_paused = true)]
async fn a_handle_refuses_while_its_actor_waits_for_the_restart_and_serves_afterwards() {
    let a: Handle<Do> = at("a");
    assert!(is_down(&a), "before the first start");
    let mut stage = Stage::new();
    let slow = row(TreeRow { backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(2) }, ..LEAF });
    stage.actor(slow, &a, Worker::default());
    let _tree = stage.go().await;
    a.cast(Do::Fail("no")).unwrap();
    settle().await;
    assert_eq!(state(&a), LifeState::Restarting);
    let Err(Refused::Down(Do::Note(text))) = a.cast(Do::Note("kept".to_owned())) else { panic!("it was taken") };
    assert_eq!(text, "kept", "the message comes back");
    assert_eq!(lives(&a).await, Err(CallError::Down));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(lives(&a).await, Ok(2), "the same handle");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_dies_with_the_mailbox_is_answered_down_and_the_depth_stays_exact() {
    let (a, ..) = two(PATIENT).await;
    let depth = || a.stats().depth.load(Ordering::Relaxed);
    a.cast(Do::Fail("no")).unwrap();
    let question = tokio::spawn({
        let a = a.clone();
        async move { a.call(Do::Lives, Duration::from_secs(1)).await }
    });
    for _ in 0..5 {
        a.cast(Do::Note(String::new())).unwrap();
    }
    assert_eq!(depth(), 6);
    let begun = Instant::now();
    assert_eq!(question.await.unwrap(), Err(CallError::Down));
    assert_eq!(begun.elapsed(), Duration::ZERO, "not after the timeout");
    settle().await;
    assert_eq!(depth(), 0);
    assert_eq!(a.stats().handled.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_in_time_says_so() {
    let (a, ..) = two(PATIENT).await;
    a.cast(Do::Hang).unwrap();
    assert_eq!(lives(&a).await, Err(CallError::Timeout));
    assert_eq!(a.stats().depth.load(Ordering::Relaxed), 2, "the hanging one and the question");
}

// === Tasks ===

#[tokio::test(start_paused = true)]
async fn the_panic_of_a_task_becomes_a_message() {
    let (a, _b, notes, _tree) = two(PATIENT).await;
    notes.take();
    a.cast(Do::Task("the work broke")).unwrap();
    settle().await;
    assert_eq!(notes.take(), ["task: the work broke"]);
    assert_eq!(lives(&a).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn tasks_and_timers_end_with_their_actor() {
    for end in [|| Do::Fail("no"), || Do::Panic("no"), || Do::Leave] {
        let (a, _b, notes, _tree) = two(PATIENT).await;
        let held = Arc::new(());
        a.cast(Do::Forever(Arc::clone(&held))).unwrap();
        a.cast(Do::Later(Duration::from_secs(5))).unwrap();
        settle().await;
        assert_eq!(Arc::strong_count(&held), 2);
        notes.take();
        a.cast(end()).unwrap();
        settle().await;
        assert_eq!(Arc::strong_count(&held), 1);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!notes.take().contains(&"later".to_owned()), "the next life is not told what the last one wanted");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_end_with_an_orderly_stop_of_the_tree() {
    let (a, _b, _notes, tree) = two(PATIENT).await;
    let held = Arc::new(());
    a.cast(Do::Forever(Arc::clone(&held))).unwrap();
    tree.root.drain_and_wait(None).await.unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
}

// === Injected faults ===

#[tokio::test(start_paused = true)]
async fn a_fault_takes_the_place_of_the_next_message() {
    let a = at("a");
    let mut stage = Stage::new();
    let faults = Arc::clone(&stage.faults);
    stage.actor(permanent(), &a, Worker::default());
    let _tree = stage.go().await;
    for (fault, error) in [(Fault::Panic, "injected panic"), (Fault::Error, "injected error")] {
        faults.inject("staffai/a", fault);
        assert_eq!(lives(&a).await, Err(CallError::Down));
        settle().await;
        assert_eq!(last_error(&a), error);
    }
    assert_eq!(lives(&a).await, Ok(3));
    assert_eq!(a.stats().handled.load(Ordering::Relaxed), 1, "a fault is no handled message");
}

// === The log ===

#[tokio::test(start_paused = true)]
async fn each_step_of_a_life_is_one_line_with_the_path() {
    let log = Log::capture();
    let (a, _b, _notes, tree) = two(Intensity { restarts: 1, period: Duration::from_secs(60) }).await;
    assert_eq!(log.column("actor.started", "actor"), ["staffai/a", "staffai/b", "staffai"]);
    log.clear();
    a.cast(Do::Own("first")).unwrap();
    settle().await;
    assert_eq!(log.column("actor.failed", "error"), ["first"]);
    assert_eq!(log.column("actor.failed", "handling"), ["event"]);
    assert_eq!(log.column("actor.failed", "actor"), ["staffai/a"]);
    assert_eq!(log.column("actor.restarted", "actor"), ["staffai/a"]);
    assert_eq!(log.column("actor.restarted", "restarts"), ["1"]);
    assert_eq!(log.column("actor.started", "actor"), ["staffai/a"]);
    log.clear();
    a.cast(Do::Own("second")).unwrap();
    tree.ended.await.unwrap();
    assert_eq!(log.column("actor.failed", "error"), ["second"]);
    assert_eq!(log.column("actor.escalated", "actor"), ["staffai"]);
    assert_eq!(log.column("actor.stopped", "actor"), ["staffai/b"]);
    assert!(log.of("actor.restarted").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_end_is_no_failure() {
    let (log, a) = (Log::capture(), at("a"));
    let mut stage = Stage::new();
    stage.actor(row(TreeRow { kind: ActorKind::Ops, restart: Restart::Transient, ..LEAF }), &a, Worker::default());
    let _tree = stage.go().await;
    a.cast(Do::Leave).unwrap();
    settle().await;
    assert_eq!(log.column("actor.stopped", "actor"), ["staffai/a"]);
    assert!(log.of("actor.failed").is_empty());
}
