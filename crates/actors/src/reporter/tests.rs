use tokio::time::Instant;

use super::*;
use crate::messages::outbox::Delivery;
use crate::testing::log::Log;
use crate::testing::{BEGINNING, DOOR, Inbox, LEAF, Stage, Tree, at, live, message, row, turn};
use domain::completion::Usage;
use domain::delivery::Form;
use domain::ending::Unposted;
use domain::ledger;
use domain::rejection::Rejection;
use domain::turn::Effort;
use ports::Fault;
use ports::testing::{ManualClock, MemoryStore, ScriptedFaults, ScriptedModels};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    outbox: Inbox<OutboxMsg>,
    timeline: Arc<Timeline>,
    faults: Arc<ScriptedFaults>,
    _tree: Tree,
}

async fn world(variables: &[(&str, &str)], store: Arc<MemoryStore>) -> World {
    let (clock, timeline) = (Arc::new(ManualClock::new()), Arc::<Timeline>::default());
    let (reporter, outbox) = (at("reporter"), at("outbox"));
    let mut stage = Stage::new();
    let actor = Reporter {
        live: live(variables, Arc::new(ScriptedModels::new(&["main"]))),
        store: Arc::clone(&store) as _,
        clock: Arc::clone(&clock) as _,
        door: DOOR,
        outbox: outbox.clone(),
        timeline: Arc::clone(&timeline),
    };
    let faults = Arc::clone(&stage.faults);
    let outbox = stage.probe(&outbox);
    stage.actor(row(LEAF), &reporter, actor);
    World { store, clock, outbox, timeline, faults, _tree: stage.go().await }
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

#[tokio::test(start_paused = true)]
async fn a_crash_loses_no_report() {
    let store = Arc::new(MemoryStore::new());
    used(&store, 7, Timestamp(BEGINNING.0 - 24 * 3_600_000));
    let mut world = world(&DAILY, store).await;
    let lost = world.post(HOUR).await.unwrap();
    world.faults.inject("staffai/reporter", Fault::Panic);
    let again = world.post(HOUR).await.unwrap();
    assert_eq!(lost.name, again.name);
    again.done();
    assert!(world.post(HOUR).await.is_none());
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
