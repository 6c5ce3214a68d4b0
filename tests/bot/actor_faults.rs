//! Each actor fails in turn while members await answers; each question is answered once, and only the failed actor is
//! restarted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ports::{Fault, Faults, Input, Subject};
use staffai::app::Ended;

use crate::model::Act;
use crate::support::{SOON, Said, Setup, World, story};

/// Fails the actor with this path prefix at some of its messages.
struct Breaks {
    path: &'static str,
    fault: Fault,
    /// The number of the first message that fails, from 1.
    first: usize,
    /// The number of messages that fail.
    times: usize,
    /// Selects the messages and events that count.
    counts: fn(Input) -> bool,
    seen: AtomicUsize,
}

impl Breaks {
    fn new(path: &'static str, fault: Fault, first: usize, times: usize) -> Arc<Self> {
        Arc::new(Self { path, fault, first, times, counts: |_| true, seen: AtomicUsize::new(0) })
    }

    /// Fails forever, at its own events only.
    fn at_its_own(path: &'static str, fault: Fault) -> Arc<Self> {
        let counts = |input: Input| !input.is_outside();
        Arc::new(Self { path, fault, first: 2, times: usize::MAX / 2, counts, seen: AtomicUsize::new(0) })
    }

    fn happened(&self) -> bool {
        self.seen.load(Ordering::SeqCst) >= self.first
    }
}

impl Faults for Breaks {
    fn before(&self, path: &str, input: Input) -> Option<Fault> {
        let own = path.strip_prefix(self.path).is_some_and(|rest| !rest.contains('/'));
        if !own || !(self.counts)(input) {
            return None;
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        (self.first..self.first + self.times).contains(&number).then_some(self.fault)
    }
}

/// Panics at the first handling of each of several messages. A message that failed each time would be given up.
struct BreaksOnceAt {
    path: &'static str,
    times: usize,
    broken: Mutex<HashSet<Subject>>,
}

impl Faults for BreaksOnceAt {
    fn before(&self, path: &str, input: Input) -> Option<Fault> {
        let subject = input.subject().filter(|_| path == self.path)?;
        let mut broken = self.broken.lock();
        (broken.len() < self.times && broken.insert(subject)).then_some(Fault::Panic)
    }
}

/// Fails the actor at these messages while thirty mentions are in flight; returns the restarts.
async fn breaks(path: &'static str, fault: Fault, first: usize) -> BTreeMap<String, u64> {
    let faults = Breaks::new(path, fault, first, 1);
    let world = World::with(Setup::new().faults(Arc::clone(&faults) as _)).await;
    world.crowd(30);
    world.model.does(|ask| {
        Act::SaysAfter(Duration::from_millis(ask.number as u64 * 13 % 200), format!("You said: {}", ask.question()))
    });
    let mut said: Vec<Said> = Vec::new();
    for number in 0..30 {
        let channel = ["general", "help", "random"][number % 3];
        said.push(world.says(&format!("member-{number}"), channel, &format!("@staffai hello {number}")));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.all_answered(&said, Duration::from_secs(20)).await;
    assert!(faults.happened(), "{path} never had so many messages");
    for (number, said) in said.into_iter().enumerate() {
        assert_eq!(world.words_to(said).await, format!("You said: hello {number}"), "{path} {fault:?}");
    }
    world.restarts().await
}

/// Checks that only this actor was restarted, once.
fn only(path: &str, restarts: &BTreeMap<String, u64>) {
    for (other, restarts) in restarts {
        assert_eq!(*restarts, u64::from(other == path), "restarts of {other}");
    }
}

/// Fails with a panic and with an error, early and late.
fn each_way(path: &'static str, moments: [usize; 2]) {
    story(async move {
        let ways = [(Fault::Panic, moments[0]), (Fault::Error, moments[1])];
        let told = ways.map(|(fault, first)| breaks(path, fault, first));
        for restarts in futures_util::future::join_all(told).await {
            only(path, &restarts);
        }
    });
}

#[test]
fn the_journal_breaks() {
    each_way("staffai/journal", [20, 55]);
}

#[test]
fn the_outbox_breaks() {
    each_way("staffai/outbox:discord", [30, 61]);
}

#[test]
fn the_gateway_breaks() {
    each_way("staffai/gateway", [1, 17]);
}

#[test]
fn the_router_of_conversations_breaks() {
    each_way("staffai/conversations", [10, 25]);
}

#[test]
fn the_dispatcher_of_models_breaks() {
    each_way("staffai/llm_dispatcher", [7, 31]);
}

#[test]
fn a_shard_breaks() {
    each_way("staffai/discord/shard:0", [3, 40]);
}

#[test]
fn the_identify_queue_breaks() {
    each_way("staffai/discord/identify_queue", [1, 1]);
}

#[test]
fn the_supervisor_of_shards_breaks() {
    each_way("staffai/discord", [1, 1]);
}

#[test]
fn a_conversation_breaks_and_is_made_anew_which_counts_as_its_restart() {
    story(async {
        let path = "staffai/conversations/conversation:";
        let ways = [(Fault::Panic, 3), (Fault::Error, 9), (Fault::Panic, 20)];
        let told = ways.map(|(fault, first)| breaks(path, fault, first));
        for restarts in futures_util::future::join_all(told).await {
            let broken: Vec<_> = restarts.iter().filter(|(_, restarts)| **restarts > 0).collect();
            assert!(matches!(broken[..], [(other, 1)] if other.starts_with(path)), "{broken:?}");
        }
    });
}

#[test]
fn the_pages_break_and_come_back() {
    story(async {
        let faults = Breaks::new("staffai/ops", Fault::Panic, 1, 1);
        let world = World::with(Setup::new().faults(Arc::clone(&faults) as _)).await;
        world.until("it breaks", || faults.happened().then_some(())).await;
        let said = world.says("Ada", "general", "@staffai hello");
        world.all_answered(&[said], SOON).await;
        world.until("it is back", || Some(())).await;
        assert_eq!(world.get("/healthz").await.0, 200);
        only("staffai/ops", &world.restarts().await);
    });
}

#[test]
fn an_actor_that_breaks_a_few_times_in_a_row_is_borne() {
    story(async {
        let faults = Breaks::new("staffai/outbox:discord", Fault::Error, 5, 3);
        let world = World::with(Setup::new().faults(Arc::clone(&faults) as _)).await;
        world.crowd(10);
        let said: Vec<Said> = (0..10).map(|n| world.says(&format!("member-{n}"), "help", "@staffai hello")).collect();
        world.all_answered(&said, Duration::from_secs(20)).await;
        assert!(world.restarts().await["staffai/outbox:discord"] >= 1);
    });
}

#[test]
fn an_actor_that_breaks_for_ever_by_itself_ends_the_bot() {
    story(async {
        let world = World::with(Setup::new().faults(Breaks::at_its_own("staffai/journal", Fault::Panic))).await;
        assert_eq!(world.ends().await, Ended::GaveUp);
    });
}

/// More often and faster than the root tolerates.
#[test]
fn messages_that_break_the_gateway_do_not_end_the_bot() {
    story(async {
        let faults = Arc::new(BreaksOnceAt { path: "staffai/gateway", times: 8, broken: Mutex::default() });
        let world = World::with(Setup::new().faults(Arc::clone(&faults) as _)).await;
        world.crowd(30);
        let mut said: Vec<Said> = Vec::new();
        while faults.broken.lock().len() < 8 {
            let member = format!("member-{}", said.len() % 30);
            said.push(world.says(&member, "general", "@staffai hello"));
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        world.all_answered(&said, Duration::from_secs(60)).await;
        assert_eq!(world.restarts().await["staffai/gateway"], 8);
    });
}
