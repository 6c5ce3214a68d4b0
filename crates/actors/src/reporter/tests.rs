use tokio::time::Instant;

use super::*;
use crate::messages::outbox::Delivery;
use crate::observation::board::PartKind;
use crate::testing::log::Log;
use crate::testing::tools::tool;
use crate::testing::{BEGINNING, DOOR, Inbox, LEAF, Stage, Tree, at, live, message, row, turn};
use domain::completion::{ToolCall, Usage};
use domain::delivery::Form;
use domain::ending::Unposted;
use domain::happening::{Happening, ToolCalled};
use domain::ledger;
use domain::rejection::Rejection;
use domain::tool::called::{CallEnd, Finding};
use domain::tool::catalogue::{Catalogue, Offer};
use domain::tool::round::Ready;
use domain::tool::{CallError, CallErrorKind, ResultLimits, Source, Tool, ToolResult, schema};
use domain::turn::Effort;
use ports::testing::{ManualClock, MemoryStore, ScriptedFaults, ScriptedModels};
use ports::{Fault, Observer as _};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    outbox: Inbox<OutboxMsg>,
    timeline: Arc<Timeline>,
    board: Arc<Board>,
    tool_health: Arc<ToolHealth>,
    faults: Arc<ScriptedFaults>,
    _tree: Tree,
}

async fn world(variables: &[(&str, &str)], store: Arc<MemoryStore>) -> World {
    world_at(variables, store, Arc::new(ManualClock::new())).await
}

async fn world_at(variables: &[(&str, &str)], store: Arc<MemoryStore>, clock: Arc<ManualClock>) -> World {
    let timeline = Arc::<Timeline>::default();
    let (reporter, outbox) = (at("reporter"), at("outbox"));
    let (board, tool_health) = (Arc::<Board>::default(), Arc::<ToolHealth>::default());
    let mut stage = Stage::new();
    let actor = Reporter {
        live: live(variables, Arc::new(ScriptedModels::new(&["main"]))),
        store: Arc::clone(&store) as _,
        clock: Arc::clone(&clock) as _,
        door: DOOR,
        outbox: outbox.clone(),
        timeline: Arc::clone(&timeline),
        board: Arc::clone(&board),
        tool_health: Arc::clone(&tool_health),
    };
    let faults = Arc::clone(&stage.faults);
    let outbox = stage.probe(&outbox);
    stage.actor(row(LEAF), &reporter, actor);
    World { store, clock, outbox, timeline, board, tool_health, faults, _tree: stage.go().await }
}

const DAILY: [(&str, &str); 1] = [("STATS_REPORT_CHANNEL_ID", "99")];

/// Adds this many used tokens at a time to the store.
fn used(store: &MemoryStore, tokens: u64, at: Timestamp) {
    let usage = Usage { prompt: tokens, ..Usage::default() };
    let effort = Effort { model: Some("main".to_owned()), usage, ..Effort::default() };
    let writes = ledger::writes(&turn("10", "7", "42"), &effort, at);
    drop(store.write(writes.into_iter().map(Write::from).collect()));
}

struct Post {
    name: String,
    text: String,
    reply: crate::runtime::handle::Reply<Result<Delivery, Unposted>>,
}

impl World {
    async fn post(&mut self, within: Duration) -> Option<Post> {
        match self.outbox.within(within).await? {
            OutboxMsg::Post { name, outgoing, reply } => {
                assert_eq!((outgoing.place.id.as_str(), &outgoing.reply_to), ("99", &None));
                Some(Post { name, text: outgoing.text(), reply })
            }
            _ => panic!("a reporter says nothing else"),
        }
    }

    fn last(&self) -> Option<String> {
        self.store.entries.lock().get(keys::REPORT_LAST).cloned()
    }
}

impl Post {
    fn done(self) {
        let delivery =
            Delivery { posted: vec![message("900")], first_visible: Instant::now(), doubled: false, form: Form::Whole };
        assert!(self.reply.send(Ok(delivery)).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_is_reported_once_when_it_is_over() {
    let mut world = world(&DAILY, Arc::new(MemoryStore::new())).await;
    used(&world.store, 1_234, BEGINNING);
    // It is 08:00, and there was nothing to report yesterday.
    assert!(world.post(15 * HOUR).await.is_none());
    let post = world.post(2 * HOUR).await.expect("the day is over");
    assert_eq!(world.clock.now().0 % u64::try_from(DAY.as_millis()).unwrap(), 0);
    assert!(
        post.text.contains("Usage on 2027-01-15 (UTC)") && post.text.contains("<@7>: 1,234 tokens"),
        "{}",
        post.text
    );
    assert!(post.name.len() <= 22);
    post.done();
    assert!(world.post(2 * DAY + HOUR).await.is_none(), "nothing was used since");
    assert_eq!(world.last().unwrap(), (BEGINNING.0 + 64 * 3_600_000).to_string());
}

#[tokio::test(start_paused = true)]
async fn without_a_channel_nothing_is_said() {
    let mut world = world(&[], Arc::new(MemoryStore::new())).await;
    used(&world.store, 5, BEGINNING);
    assert!(world.post(3 * DAY).await.is_none());
    assert_eq!(world.last(), None);
}

#[tokio::test(start_paused = true)]
async fn what_was_due_while_nobody_ran_is_reported_at_the_start_and_never_twice() {
    let store = Arc::new(MemoryStore::new());
    used(&store, 7, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    let mut first = world(&DAILY, Arc::clone(&store)).await;
    let mut second = world(&DAILY, Arc::clone(&store)).await;
    let (one, other) = (first.post(HOUR).await.unwrap(), second.post(HOUR).await.unwrap());
    assert_eq!(one.name, other.name, "two processes mean the same post");
    one.done();
    other.done();
    let mut third = world(&DAILY, Arc::clone(&store)).await;
    assert!(third.post(HOUR).await.is_none());
    assert!(first.post(HOUR).await.is_none() && second.post(HOUR).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_failed_report_is_tried_again_under_its_name_and_then_given_up() {
    let log = Log::capture();
    let store = Arc::new(MemoryStore::new());
    used(&store, 7, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    let mut world = world(&DAILY, store).await;
    let mut names = Vec::new();
    while let Some(post) = world.post(HOUR).await {
        names.push(post.name);
        assert!(post.reply.send(Err(Unposted::Rejected(Rejection::Forbidden, "Missing Access".to_owned()))).is_ok());
    }
    names.dedup();
    assert_eq!((names.len(), log.of("report.failed").len()), (1, usize::try_from(TRIES).unwrap()));
    assert_eq!(world.last(), None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_postpones_the_report() {
    let store = Arc::new(MemoryStore::new());
    used(&store, 7, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut world = world(&DAILY, store).await;
    assert!(world.post(2 * LOOK_EVERY).await.is_none());
    world.store.degraded.store(false, std::sync::atomic::Ordering::SeqCst);
    world.post(2 * LOOK_EVERY).await.expect("the store is well").done();
}

/// A crash between two posts repeats the first one under its name, and only once.
async fn repeats_under_one_name(world: &mut World) {
    let lost = world.post(HOUR).await.unwrap();
    world.faults.inject("staffai/reporter", Fault::Panic);
    let again = world.post(HOUR).await.unwrap();
    assert_eq!(lost.name, again.name);
    again.done();
    assert!(world.post(HOUR).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_no_report() {
    let store = Arc::new(MemoryStore::new());
    used(&store, 7, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    let mut world = world(&DAILY, store).await;
    repeats_under_one_name(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn the_pages_know_the_sums_of_today() {
    let world = world(&[], Arc::new(MemoryStore::new())).await;
    let today = || world.timeline.turns(BEGINNING).today.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((today().day.as_str(), today().messages, today().dollars), ("2027-01-15", 0, None));
    used(&world.store, 7, BEGINNING);
    used(&world.store, 5, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    tokio::time::sleep(SUM_EVERY).await;
    assert_eq!((today().members, today().messages, today().prompt_tokens, today().unpriced_tokens), (1, 1, 7, 0));
}

#[tokio::test(start_paused = true)]
async fn a_report_is_not_posted_again_because_the_last_one_cannot_be_read() {
    let store = Arc::new(MemoryStore::new());
    used(&store, 7, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    let end = BEGINNING.0 - BEGINNING.0 % u64::try_from(DAY.as_millis()).unwrap();
    store.put(keys::REPORT_LAST.to_owned(), end.to_string());
    store.unreadable.lock().insert(keys::REPORT_LAST.to_owned());
    let log = Log::capture();
    let mut world = world(&DAILY, Arc::clone(&store)).await;
    assert!(world.post(Duration::from_secs(90)).await.is_none());
    assert!(!log.of("report.failed").is_empty());
    store.unreadable.lock().clear();
    assert!(world.post(HOUR).await.is_none());
    assert_eq!(world.last().unwrap(), end.to_string());
}

const FAILURES: [(&str, &str); 1] = [("STAFFAI_REPORT__FAILURES_CHANNEL", "99")];

impl World {
    /// A server is down for this reason.
    fn down(&self, reason: &str) {
        self.board.down(PartKind::McpServer, "fm", reason);
    }

    /// A built-in tool is called by this person, with this end.
    fn called(&self, person: &str, end: &CallEnd) {
        let tool = Tool { source: Source::BuiltIn, ..tool("-", "calculator", "") };
        let catalogue = Catalogue::new(&[Offer::built_in(vec![tool])], &Catalogue::default(), schema::of);
        let call = ToolCall { id: "1".to_owned(), name: "calculator".to_owned(), arguments: "{}".to_owned() };
        let call = Ready::bind(&call, &catalogue, |_| true).unwrap();
        let turn = turn("10", person, "42");
        let called = ToolCalled {
            origin: (&turn).into(),
            number: 0,
            call: &call,
            role: "member",
            rule: None,
            end: Some(end),
            queued: Duration::ZERO,
            waited: Duration::ZERO,
            ran: None,
            took: Duration::ZERO,
            paid_micros: 0,
        };
        self.tool_health.observe(&Happening::ToolCalled(called));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_long_is_told_once_also_by_the_next_process_and_so_is_its_return() {
    let store = Arc::new(MemoryStore::new());
    let mut first = world(&FAILURES, Arc::clone(&store)).await;
    first.down("nothing answers");
    assert!(first.post(Duration::from_secs(14 * 60)).await.is_none(), "not yet");
    let post = first.post(Duration::from_secs(2 * 60)).await.expect("it has failed for too long");
    assert!(post.text.contains("The tool server `fm` has failed since") && post.text.contains("nothing answers"));
    assert!(post.name.len() <= 22);
    post.done();
    assert!(first.post(HOUR).await.is_none(), "once");
    let mut next = world_at(&FAILURES, Arc::clone(&store), Arc::clone(&first.clock)).await;
    assert!(next.post(HOUR).await.is_none(), "it has not started the server yet");
    next.board.starting(PartKind::McpServer, "fm");
    assert!(next.post(HOUR).await.is_none(), "it still does not work");
    next.board.up(PartKind::McpServer, "fm");
    let post = next.post(Duration::from_secs(60)).await.expect("it works again");
    assert!(post.text.contains("The tool server `fm` works again"), "{}", post.text);
    post.done();
    assert!(next.post(HOUR).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_failure_counts_over_restarts() {
    let store = Arc::new(MemoryStore::new());
    let first = world(&FAILURES, Arc::clone(&store)).await;
    first.down("nothing answers");
    tokio::time::sleep(Duration::from_secs(10 * 60)).await;
    let mut next = world_at(&FAILURES, store, Arc::clone(&first.clock)).await;
    next.down("nothing answers");
    next.post(Duration::from_secs(6 * 60)).await.expect("16 minutes in all").done();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_after_each_connection_counts_as_failing() {
    let mut world = world(&FAILURES, Arc::new(MemoryStore::new())).await;
    for _ in 0..28 {
        world.board.up(PartKind::McpServer, "fm");
        assert!(world.post(Duration::from_secs(15)).await.is_none());
        world.down("it broke");
        assert!(world.post(Duration::from_secs(15)).await.is_none());
    }
    world.post(Duration::from_secs(3 * 60)).await.expect("it never worked for half a minute").done();
}

#[tokio::test(start_paused = true)]
async fn a_built_in_tool_whose_calls_all_fail_is_told_and_one_success_ends_it() {
    let mut world = world(&FAILURES, Arc::new(MemoryStore::new())).await;
    let failed = CallEnd::Result(Finding::of(ToolResult::failure("no such page"), ResultLimits::default()));
    let fine = CallEnd::Result(Finding::of(ToolResult::text("4"), ResultLimits::default()));
    // The requests of one person may be invalid.
    for _ in 0..10 {
        world.called("42", &failed);
        assert!(world.post(Duration::from_secs(120)).await.is_none());
    }
    world.called("43", &failed);
    let post = world.post(Duration::from_secs(60)).await.expect("it fails for others as well");
    assert!(post.text.contains("The built-in tool `calculator` has failed since"), "{}", post.text);
    post.done();
    world.called("43", &fine);
    let post = world.post(Duration::from_secs(60)).await.expect("it works again");
    assert!(post.text.contains("The built-in tool `calculator` works again"), "{}", post.text);
    post.done();
    // Failures that are about one call only are no evidence.
    let invalid = CallEnd::Failed(CallError::new(CallErrorKind::InvalidArguments, "no"));
    let broken = CallEnd::Failed(CallError::new(CallErrorKind::Unavailable, "the store is away"));
    for end in [&invalid, &broken] {
        for _ in 0..10 {
            world.called("42", end);
            tokio::time::sleep(Duration::from_secs(50)).await;
        }
    }
    assert!(world.post(Duration::from_secs(60)).await.is_none(), "8 minutes of failures");
    for _ in 0..10 {
        world.called("42", &broken);
        tokio::time::sleep(Duration::from_secs(50)).await;
    }
    let post = world.post(Duration::from_secs(60)).await.expect("the tool itself reports them");
    assert!(post.text.contains("the store is away"), "{}", post.text);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_refuses_notices_gets_a_bounded_number_of_attempts() {
    let mut world = world(&FAILURES, Arc::new(MemoryStore::new())).await;
    world.down("nothing answers");
    let mut names = Vec::new();
    while let Some(post) = world.post(HOUR).await {
        names.push(post.name);
        assert!(post.reply.send(Err(Unposted::Rejected(Rejection::Forbidden, "Missing Access".to_owned()))).is_ok());
    }
    names.dedup();
    assert_eq!(names.len(), usize::try_from(domain::tool::outage::NOTICES_A_DAY).unwrap());
    assert!(world.post(DAY).await.is_some(), "the next day has new attempts");
}

#[tokio::test(start_paused = true)]
async fn a_crash_repeats_a_notice_under_its_name_only() {
    let mut world = world(&FAILURES, Arc::new(MemoryStore::new())).await;
    world.down("nothing answers");
    repeats_under_one_name(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_channel_a_record_or_ownership_no_failure_is_told() {
    let mut silent = world(&[], Arc::new(MemoryStore::new())).await;
    silent.down("nothing answers");
    assert!(silent.post(DAY).await.is_none());
    let mut fenced = world(&FAILURES, Arc::new(MemoryStore::new())).await;
    fenced.down("nothing answers");
    fenced.board.down(PartKind::Custody, "discord", "another process owns them");
    assert!(fenced.post(DAY).await.is_none(), "the owner tells it");
    let store = Arc::new(MemoryStore::new());
    store.unreadable.lock().insert(keys::REPORT_TOOLS.to_owned());
    let mut world = world(&FAILURES, Arc::clone(&store)).await;
    world.down("nothing answers");
    assert!(world.post(HOUR).await.is_none());
    store.unreadable.lock().clear();
    world.post(HOUR).await.expect("it can be read again").done();
}
