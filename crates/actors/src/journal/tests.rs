use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::offering::OFFERS_MAX;
use super::*;
use crate::messages::deadline::Deadline;
use crate::messages::outbox::Delivery;
use crate::messages::outbox::OutboxMsg;
use crate::messages::receipt::Outcome as Told;
use crate::messages::receipt::{Claim, Receipt};
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::runtime::handle::CallError;
use crate::testing::log::Log;
use crate::testing::{DOOR, Inbox, LEAF, Stage, Tree, answer, at, message, place, row, settle, turn, turn_id, usual};
use crate::tree::Scope;
use crate::tree::{ActorKind, HeldTurns, TREE};
use domain::completion::Usage;
use domain::delivery::Form;
use domain::ending::{Dropped, Ending, ModelErrorKind, OverLimit, Unposted};
use domain::ids::{self, Door};
use domain::keys;
use domain::locale::Locale;
use domain::notice::{self, Apology};
use domain::outgoing::Medium;
use domain::outgoing::Part;
use domain::rejection::Rejection;
use domain::turn::Answer;
use domain::turn::OpenTurn;
use domain::turn::Turn;
use domain::turn::{ClosedTurn, Custody, Effort, Exchange, Times, Trigger};
use domain::turn_event::{NoAnswer, TurnUpdate};
use ports::shares::Shares;
use ports::testing::{ManualClock, MemoryStore};
use ports::{Fault, TurnEventLog as _};

mod acting;
mod overflow;

mod fencing;

mod waiting;

mod stored;

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    permits: Shares,
    rate_limiter: Inbox<RateLimiterMsg>,
    outbox: Inbox<OutboxMsg>,
    approvals: Inbox<ApprovalsMsg>,
    conversations: Inbox<ConversationsMsg>,
    journal: Handle<JournalMsg>,
    events: TurnEvents,
    faults: Arc<ports::testing::ScriptedFaults>,
    told: mpsc::UnboundedSender<Told>,
    receipts: mpsc::UnboundedReceiver<Told>,
    in_flight: Arc<InFlight>,
    board: Arc<Board>,
    _tree: Tree,
}

async fn world(store: MemoryStore) -> World {
    let (store, clock) = (Arc::new(store), Arc::new(ManualClock::new()));
    let events = TurnEvents::new(vec![DOOR], Arc::clone(&clock) as _);
    let (journal, rate_limiter, outbox) = (at("journal"), at("rate_limiter"), at("outbox"));
    let (approvals, conversations) = (at("approvals"), at("conversations"));
    let mut stage = Stage::new();
    let (in_flight, board) = (Arc::<InFlight>::default(), Arc::<Board>::default());
    let actor = Journal {
        forgotten: Arc::default(),
        observers: Observers::new([Arc::new(events.clone()) as _]),
        board: Arc::clone(&board),
        events: events.clone(),
        store: Arc::clone(&store) as _,
        turns: crate::testing::turns(&store),
        clock: Arc::clone(&clock) as _,
        live: usual(),
        rate_limiter: rate_limiter.clone(),
        approvals: approvals.clone(),
        conversations: conversations.clone(),
        outboxes: Outboxes::new(vec![(DOOR, Medium::Replies, outbox.clone())]),
        in_flight: Arc::clone(&in_flight),
    };
    let faults = Arc::clone(&stage.faults);
    let (rate_limiter, outbox) = (stage.probe(&rate_limiter), stage.probe(&outbox));
    let (approvals, conversations) = (stage.probe(&approvals), stage.probe(&conversations));
    stage.actor(row(LEAF), &journal, actor);
    let tree = stage.go().await;
    let (told, receipts) = mpsc::unbounded_channel();
    let permits = Shares::new(Arc::new(Semaphore::new(100)));
    World {
        store,
        clock,
        permits,
        rate_limiter,
        outbox,
        approvals,
        conversations,
        journal,
        events,
        faults,
        told,
        receipts,
        in_flight,
        board,
        _tree: tree,
    }
}

impl World {
    fn accept(&self, turn: &Turn) {
        let told = self.told.clone();
        let receipt = Receipt::new(move |outcome| {
            let _ = told.send(outcome);
        });
        let permit = self.permits.take(Some(&turn.person)).unwrap();
        let accepted = Accepted { turn: Arc::new(turn.clone()), answer: None, permit, receipt };
        self.journal.cast(JournalMsg::Accept(Box::new(accepted))).unwrap();
    }

    /// Returns the next turn that is offered or withdrawn; ended turns are skipped.
    async fn offered(&mut self) -> Option<String> {
        loop {
            match self.rate_limiter.now().await? {
                RateLimiterMsg::Admit(offered) => return Some(offered.turn.id.id.to_string()),
                RateLimiterMsg::Withdraw(turn) => return Some(format!("cancel {}", turn.id.id)),
                _ => {}
            }
        }
    }

    /// Returns the outcome of the reservation of the turn that ended last.
    async fn charged(&mut self) -> Option<String> {
        let mut charged = None;
        while let Some(message) = self.rate_limiter.now().await {
            match message {
                RateLimiterMsg::Settle { turn, effort } => {
                    charged = Some(format!("settle {} {:?}", turn.id.id, effort.usage.prompt));
                }
                RateLimiterMsg::Cancel(turn) => charged = Some(format!("cancel {}", turn.id.id)),
                _ => {}
            }
        }
        charged
    }

    /// Returns the next delivery: turn, text, and true if the channel is read first.
    async fn delivery(&mut self) -> Option<(String, String, bool)> {
        match self.outbox.now().await? {
            OutboxMsg::Deliver { turn, outgoing, check, .. } => Some((turn.id.into(), outgoing.text(), check)),
            OutboxMsg::Withdraw { turn, .. } => Some((turn.id.into(), "forget".to_owned(), false)),
            _ => None,
        }
    }

    fn recovered(&self, kind: ActorKind, scope: Scope) {
        let held = TREE.find(kind).and_then(|row| row.holds).unwrap();
        self.journal.cast(JournalMsg::ActorRecovered(Recovered { held, scope })).unwrap();
    }

    fn answered(&self, turn: &Turn, text: &str) {
        self.journal.cast(JournalMsg::Answered(turn.id.clone(), Box::new(answer(turn, text)))).unwrap();
    }

    fn delivered(&self, id: &str) {
        let delivery =
            Delivery { posted: vec![message("900")], first_visible: Instant::now(), doubled: false, form: Form::Whole };
        self.journal.cast(JournalMsg::Delivered(turn_id(id), delivery)).unwrap();
    }

    /// Returns the events sent to clients of this channel since the start.
    fn events(&self) -> Vec<(String, TurnUpdate)> {
        let batch = self.events.read(&place("42"), 0).unwrap();
        batch.events.iter().map(|event| (event.turn.id.to_string(), event.update.clone())).collect()
    }

    fn record(&self, id: &str) -> String {
        let record = self.store.json(&keys::turn(&turn_id(id))).expect("there is no record");
        record["state"].as_str().unwrap().to_owned()
    }
}

fn open(turn: &Turn, answer: Option<Answer>) -> (String, String) {
    let custody = Custody::Open(OpenTurn::new(Arc::new(turn.clone()), answer));
    (keys::turn(&turn.id), serde_json::to_string(&custody).unwrap())
}

fn with(records: Vec<(String, String)>) -> MemoryStore {
    let store = MemoryStore::new();
    for (key, value) in records {
        store.put(key, value);
    }
    store
}

#[tokio::test(start_paused = true)]
async fn those_who_read_along_learn_of_each_step_once() {
    let earlier = turn("9", "7", "42");
    let known = answer(&earlier, "from before");
    let mut world = world(with(vec![open(&earlier, Some(known))])).await;
    let (question, lost) = (turn("10", "7", "42"), turn("11", "8", "42"));
    world.accept(&question);
    world.accept(&lost);
    settle().await;
    world.answered(&question, "hello");
    world.answered(&question, "hello twice");
    world
        .journal
        .cast(JournalMsg::Answered(lost.id.clone(), Box::new(lost.apology("sorry", Ending::Deadline))))
        .unwrap();
    while world.delivery().await.is_some() {}
    for id in ["9", "10"] {
        world.delivered(id);
    }
    world.journal.cast(JournalMsg::Cancel(lost.id.clone())).unwrap();
    settle().await;
    let parts = |text: &str| [Part::Text { text: text.to_owned() }].as_slice().into();
    let told = |id: &str, update| (id.to_owned(), update);
    let expected = [
        told("9", TurnUpdate::Accepted),
        told("9", TurnUpdate::Final { parts: parts("from before"), effort: Effort::default() }),
        told("10", TurnUpdate::Accepted),
        told("11", TurnUpdate::Accepted),
        told("10", TurnUpdate::Final { parts: parts("hello"), effort: Effort::default() }),
        told("11", TurnUpdate::Apology { parts: parts("sorry"), why: NoAnswer::Ended(Ending::Deadline), again: None }),
        told("9", TurnUpdate::DONE),
        told("10", TurnUpdate::DONE),
        told("11", TurnUpdate::unanswered(Dropped::TriggerDeleted)),
    ];
    assert_eq!(world.events(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_from_record_to_offer_to_delivery_to_its_end() {
    let log = Log::capture();
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert_eq!((world.record("10").as_str(), world.permits.free()), ("open", 99));
    world.answered(&question, "hello");
    assert_eq!(world.delivery().await, Some(("10".into(), "hello".into(), false)));
    assert_eq!(world.store.json(&keys::turn(&question.id)).unwrap()["answer"]["outcome"], "replied");
    world.delivered("10");
    settle().await;
    assert_eq!((world.record("10").as_str(), world.permits.free()), ("closed", 100));
    let [line] = &log.of("turn.replied")[..] else { panic!("{:?}", log.of("turn.replied")) };
    assert_eq!((line["turn"].as_str(), line["outcome"].as_str()), ("discord:10", "replied"));
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_used_is_counted_once_with_the_record_that_closes_it() {
    let log = Log::capture();
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    world.offered().await;
    let usage = Usage { prompt: 100, completion: 10, ..Usage::default() };
    let times = Times { lane_ms: 1, permit_ms: 2, model_ms: 3, tools_ms: 4 };
    let effort =
        Effort { model: Some("main".to_owned()), usage, micros: 21, paid_micros: 40_000, times, ..Effort::default() };
    let answer = Answer { effort, ..answer(&question, "hello") };
    world.journal.cast(JournalMsg::Answered(question.id.clone(), Box::new(answer))).unwrap();
    world.delivery().await;
    let counted = |world: &World| world.store.entries.lock().get("token_stats:total:5:7").cloned();
    assert_eq!(counted(&world), None, "it is not over yet");
    for _ in 0..3 {
        world.delivered("10");
    }
    world.journal.cast(JournalMsg::Undeliverable(question.id, Unposted::Nothing)).unwrap();
    settle().await;
    // One line names the member, the place, and the duration of each step.
    let [line] = &log.of("turn.replied")[..] else { panic!("{:?}", log.of("turn.replied")) };
    let texts: Vec<_> = ["place", "member", "model"].iter().map(|name| line[*name].as_str()).collect();
    assert_eq!(texts, ["discord:42", "discord:7", "main"]);
    let times = ["lane_ms", "permit_ms", "model_ms", "tools_ms"].map(|name| line[name].as_str());
    assert_eq!((times, line.contains_key("post_ms")), (["1", "2", "3", "4"], true));
    assert_eq!(line["dollars"], "0.040021", "with what a tool paid, which the ledger has already");
    assert_eq!((world.record("10").as_str(), counted(&world).as_deref()), ("closed", Some("110")));
    let entries = world.store.entries.lock().clone();
    let counted: Vec<_> =
        entries.iter().filter(|(key, _)| key.starts_with("staffai:ledger:")).map(|(_, sum)| sum).collect();
    assert_eq!(counted, ["100 10 0 1 21", "100 10 0 1 21"], "of the day and of all time");
}

#[tokio::test(start_paused = true)]
async fn the_receipt_is_settled_when_the_record_is_durable_but_the_offer_does_not_wait() {
    let mut world = world(MemoryStore::new()).await;
    world.store.durable(false);
    world.accept(&turn("10", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert!(world.receipts.try_recv().is_err());
    world.store.durable(true);
    settle().await;
    assert_eq!(world.receipts.try_recv(), Ok(Told::Settled));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_sender_stopped_waiting_becomes_no_turn() {
    let mut world = world(MemoryStore::new()).await;
    let claim = Claim::default();
    let accept = |claim: &Claim| {
        let receipt = Receipt::awaited(claim.clone(), |_| {});
        let permit = world.permits.take(None).unwrap();
        let accepted = Accepted { turn: Arc::new(turn("10", "7", "42")), answer: None, permit, receipt };
        world.journal.cast(JournalMsg::Accept(Box::new(accepted))).unwrap();
    };
    assert!(claim.take(), "the sender stops waiting");
    accept(&claim);
    settle().await;
    assert_eq!(world.permits.free(), 100);
    let again = Claim::default();
    accept(&again);
    assert_eq!(world.offered().await.as_deref(), Some("10"), "the sender may send it again");
    assert!(!again.take());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_seen_before_is_settled_and_not_offered_again() {
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    world.accept(&question);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert_eq!(world.offered().await, None, "while it is open");
    world.answered(&question, "hello");
    world.delivered("10");
    settle().await;
    world.accept(&question);
    assert_eq!(world.offered().await, None, "after its end");
    for _ in 0..3 {
        assert_eq!(world.receipts.try_recv(), Ok(Told::Settled));
    }
    assert_eq!(world.permits.free(), 100);
}

#[tokio::test(start_paused = true)]
async fn open_turns_of_an_earlier_life_are_taken_up_and_known_answers_are_looked_for_first() {
    let (open_one, answered_one) = (turn("10", "7", "42"), turn("11", "8", "42"));
    let records = vec![open(&open_one, None), open(&answered_one, Some(answer(&answered_one, "known")))];
    let mut world = world(with(records)).await;
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert_eq!(world.delivery().await, Some(("11".into(), "known".into(), true)));
    world.answered(&open_one, "late");
    assert_eq!(world.delivery().await, Some(("10".into(), "late".into(), true)), "it may have been posted as well");
}

#[tokio::test(start_paused = true)]
async fn records_that_a_failing_store_hid_are_taken_up_when_it_recovers() {
    let hidden = turn("10", "7", "42");
    let store = with(vec![open(&hidden, None)]);
    store.degraded.store(true, Ordering::SeqCst);
    let mut world = world(store).await;
    world.accept(&turn("11", "8", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("11"));
    assert_eq!(world.offered().await, None);
    world.store.degraded.store(false, Ordering::SeqCst);
    tokio::time::sleep(SWEEP_EVERY * 2).await;
    assert_eq!(world.offered().await.as_deref(), Some("10"), "and what was open already is not offered again");
    assert_eq!(world.offered().await, None);
}

fn closed(id: &str) -> (String, String) {
    let custody = Custody::Closed(ClosedTurn { posted: Vec::new(), alone: false });
    (keys::turn(&turn_id(id)), serde_json::to_string(&custody).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_message_that_an_earlier_process_answered_is_known_although_its_record_was_not_loaded() {
    let store = with(vec![closed("10"), open(&turn("12", "9", "42"), None)]);
    store.short_scans.store(usize::MAX, Ordering::SeqCst);
    let mut world = world(store).await;
    for id in ["10", "11", "12"] {
        world.accept(&turn(id, "7", "42"));
    }
    settle().await;
    assert_eq!(world.receipts.try_recv(), Ok(Told::Settled));
    assert_eq!((world.offered().await.as_deref(), world.offered().await.as_deref()), (Some("11"), Some("12")));
    assert_eq!(world.offered().await, None);
    let scans = || world.store.scans.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scans() < 10, "a store that does not return all records is not read all the time: {}", scans());
    world.store.short_scans.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = scans();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(scans(), before, "all records are loaded");
}

#[tokio::test(start_paused = true)]
async fn an_old_message_waits_for_a_store_that_does_not_tell_if_it_was_answered() {
    let store = with(vec![closed("10")]);
    store.degraded.store(true, Ordering::SeqCst);
    let mut world = world(store).await;
    let old = |id: &str| Turn { at: ids::Timestamp(crate::testing::BEGINNING.0 - 1), ..turn(id, "7", "42") };
    for turn in [old("10"), old("11"), old("12"), turn("13", "8", "42")] {
        world.accept(&turn);
    }
    assert_eq!(world.offered().await.as_deref(), Some("13"), "the bot answers during an outage");
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.journal.cast(JournalMsg::Cancel(turn_id("12"))).unwrap();
    assert_eq!(world.offered().await, None);
    for _ in ["13", "12, which was deleted"] {
        assert_eq!(world.receipts.try_recv(), Ok(Told::Settled));
    }
    assert!(world.receipts.try_recv().is_err(), "10 and 11 wait");
    world.store.degraded.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.offered().await.as_deref(), world.offered().await), (Some("11"), None));
    for _ in ["10", "11"] {
        assert_eq!(world.receipts.try_recv(), Ok(Told::Settled));
    }
}

#[tokio::test(start_paused = true)]
async fn closed_and_corrupt_records_of_an_earlier_life_are_not_offered() {
    let log = Log::capture();
    let closed = serde_json::to_string(&Custody::Closed(ClosedTurn { posted: Vec::new(), alone: false })).unwrap();
    let corrupt = r#"{"state": "my diary"}"#.to_owned();
    let records = vec![(keys::turn(&turn_id("10")), closed), (keys::turn(&turn_id("11")), corrupt)];
    let mut world = world(with(records)).await;
    world.accept(&turn("10", "7", "42"));
    assert_eq!(world.offered().await, None);
    assert_eq!(log.column("store.corrupt", "key"), ["staffai:turn:discord:11"]);
    assert!(log.column("store.corrupt", "error").iter().all(|error| !error.contains("diary")));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_too_old_to_be_taken_up_gets_an_apology() {
    let mut old = turn("10", "7", "42");
    old.at.0 -= 16 * 60 * 1000;
    let mut world = world(with(vec![open(&old, None)])).await;
    assert_eq!(world.delivery().await, Some(("10".into(), notice::interrupted(Locale::English).to_owned(), true)));
    assert_eq!(world.offered().await, None);
    assert!(world.clock.now() > old.at);
}

#[tokio::test(start_paused = true)]
async fn a_crash_forgets_nothing() {
    let mut world = world(MemoryStore::new()).await;
    let (first, second) = (turn("10", "7", "42"), turn("11", "8", "42"));
    world.accept(&first);
    world.accept(&second);
    world.answered(&second, "known");
    settle().await;
    while world.rate_limiter.now().await.is_some() || world.outbox.now().await.is_some() {}
    world.faults.inject("staffai/journal", Fault::Panic);
    world.accept(&turn("12", "9", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert_eq!(world.delivery().await, Some(("11".into(), "known".into(), true)));
    let mut told = Vec::new();
    while let Ok(outcome) = world.receipts.try_recv() {
        told.push(outcome);
    }
    assert_eq!(told, [Told::Settled, Told::Settled, Told::Returned], "the third comes again through its receipt");
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_the_records_are_read_waits_for_them() {
    let (asked, deleted) = (turn("10", "7", "42"), turn("11", "7", "42"));
    let mut world = world(with(vec![open(&asked, None), open(&deleted, None)])).await;
    // The probes have blocked the load so far, so these messages are the first in the mailbox.
    world.answered(&asked, "found by a task that outlived the crash");
    world.journal.cast(JournalMsg::Cancel(turn_id("11"))).unwrap();
    settle().await;
    let mut texts = Vec::new();
    while let Some((id, text, _)) = world.delivery().await {
        texts.push((id, text));
    }
    assert!(texts.contains(&("10".into(), "found by a task that outlived the crash".into())), "{texts:?}");
    assert_eq!(world.record("11"), "closed");
}

#[tokio::test(start_paused = true)]
async fn records_that_cannot_be_read_crash_the_journal_until_they_can() {
    let store = with(vec![open(&turn("10", "7", "42"), None)]);
    store.broken_scans.store(2, Ordering::SeqCst);
    let mut world = world(store).await;
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    assert_eq!(world.journal.stats().restarts.load(Ordering::Relaxed), 2);
    assert!(world.journal.stats().life().last_error.unwrap().contains("the scan broke"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_trigger_ends_the_turn_without_an_answer() {
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    world.journal.cast(JournalMsg::Cancel(question.id.clone())).unwrap();
    assert_eq!(world.offered().await.as_deref(), Some("cancel 10"));
    assert_eq!(world.delivery().await, Some(("10".into(), "forget".into(), false)));
    world.answered(&question, "too late");
    assert_eq!(world.delivery().await, None);
    assert_eq!((world.record("10").as_str(), world.permits.free()), ("closed", 100));
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_progress_gets_an_apology_when_every_bound_has_passed() {
    let mut world = world(MemoryStore::new()).await;
    world.accept(&turn("10", "7", "42"));
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    tokio::time::sleep(Duration::from_secs(600 + 120 + 29)).await;
    assert_eq!(world.delivery().await, None);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let apology = notice::apology(Apology::TimedOut, Locale::English).to_owned();
    assert_eq!(world.delivery().await, Some(("10".into(), apology, false)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_writes_is_not_stalled() {
    let mut world = world(MemoryStore::new()).await;
    let writes = turn("10", "7", "42");
    world.accept(&writes);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    let flight = world.in_flight.enter(&writes.id);
    let deadline = Deadline::new(Duration::from_secs(120), Duration::from_secs(1800));
    world.in_flight.due(&writes.id, &deadline);
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        deadline.move_on();
    }
    assert_eq!(world.delivery().await, None, "it stood still at no time");
    tokio::time::sleep(Duration::from_secs(125)).await;
    let apology = notice::apology(Apology::TimedOut, Locale::English).to_owned();
    assert_eq!(world.delivery().await, Some(("10".into(), apology, false)), "its deadline has passed");
    drop(flight);
}

#[tokio::test(start_paused = true)]
async fn recovered_actors_are_offered_what_they_may_have_held_and_nobody_else() {
    let mut world = world(MemoryStore::new()).await;
    let (here, there, known) = (turn("10", "7", "42"), turn("11", "7", "43"), turn("12", "7", "44"));
    for turn in [&here, &there, &known] {
        world.accept(turn);
    }
    world.answered(&known, "known");
    settle().await;
    while world.rate_limiter.now().await.is_some() || world.outbox.now().await.is_some() {}
    let recovered = |kind, scope| world.recovered(kind, scope);
    recovered(ActorKind::Conversation, Scope::Place(place("43")));
    assert_eq!(world.offered().await.as_deref(), Some("11"));
    assert_eq!(world.offered().await, None);
    world.recovered(ActorKind::Conversations, Scope::One);
    let both = [world.offered().await.unwrap(), world.offered().await.unwrap()];
    assert_eq!((both, world.offered().await), (["10".to_owned(), "11".to_owned()], None));
    world.recovered(ActorKind::Outbox, Scope::Door(Door::new("terminal")));
    assert_eq!(world.delivery().await, None, "another door's outbox held nothing of it");
    world.recovered(ActorKind::Outbox, Scope::Door(DOOR));
    assert_eq!(world.delivery().await, Some(("12".into(), "known".into(), true)));
}

#[tokio::test(start_paused = true)]
async fn a_lane_gets_its_turns_back_in_the_order_in_which_they_were_asked() {
    let mut world = world(MemoryStore::new()).await;
    let ids: Vec<String> = (10..20).map(|id| id.to_string()).collect();
    for id in &ids {
        world.accept(&turn(id, "7", "42"));
    }
    settle().await;
    while world.rate_limiter.now().await.is_some() {}
    world.recovered(ActorKind::Conversation, Scope::Place(place("42")));
    let mut offered = Vec::new();
    while let Some(id) = world.offered().await {
        offered.push(id);
    }
    assert_eq!(offered, ids);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_kills_its_conversation_again_and_again_gets_an_apology() {
    let mut world = world(MemoryStore::new()).await;
    world.accept(&turn("10", "7", "42"));
    let mut offers = Vec::new();
    while let Some(offered) = world.offered().await {
        offers.push(offered);
        world.recovered(ActorKind::Conversation, Scope::Place(place("42")));
    }
    // The work on it ends: its drafts would replace the apology if the outbox restarted.
    let last = usize::try_from(OFFERS_MAX).unwrap();
    assert_eq!(offers[..last], vec!["10"; last]);
    assert_eq!(offers[last..], ["cancel 10"]);
    let apology = notice::apology(Apology::Internal, Locale::English).to_owned();
    assert_eq!(world.delivery().await, Some(("10".into(), apology, false)));
}

#[tokio::test(start_paused = true)]
async fn the_second_work_on_a_posted_turn_is_cancelled() {
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    assert_eq!(world.offered().await, Some("10".to_owned()));
    // The limiter restarted, and the turn was offered again while its first work ended.
    world.recovered(ActorKind::RateLimiter, Scope::One);
    assert_eq!(world.offered().await, Some("10".to_owned()));
    world.answered(&question, "hello");
    assert_eq!(world.offered().await, None);
    world.delivered("10");
    assert_eq!(world.offered().await, Some("cancel 10".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_process_may_have_begun_the_answer_to_a_question_that_is_read_back() {
    let mut world = world(MemoryStore::new()).await;
    let (fresh, mut old) = (turn("10", "7", "42"), turn("11", "7", "42"));
    old.at.0 -= 60_000;
    for (question, looks) in [(&fresh, false), (&old, true)] {
        world.accept(question);
        let offered = loop {
            match world.rate_limiter.now().await {
                Some(RateLimiterMsg::Admit(offered)) => break offered,
                Some(_) => {}
                None => panic!("it is offered"),
            }
        };
        assert_eq!(offered.again, looks, "it reads requests to forget, and its drafts read the channel");
        world.answered(question, "hello");
        assert_eq!(world.delivery().await, Some((question.id.id.to_string(), "hello".into(), looks)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_posted_is_closed_and_counted_as_failed() {
    let log = Log::capture();
    let world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    world.answered(&question, "hello");
    world
        .journal
        .cast(JournalMsg::Undeliverable(question.id.clone(), Unposted::Rejected(Rejection::Content, "no".into())))
        .unwrap();
    settle().await;
    assert_eq!(world.record("10"), "closed");
    assert_eq!(log.column("turn.failed", "reason"), ["content refused: no"]);
}

#[tokio::test(start_paused = true)]
async fn a_posted_answer_remembers_its_exchange_for_replies_to_it() {
    let world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    let exchange = Exchange {
        person: question.person.clone(),
        asked: "what".into(),
        asked_at: question.at,
        answered: "that".into(),
        answered_at: question.at,
    };
    world.accept(&question);
    let full = Answer { exchange: Some(exchange.clone()), ..answer(&question, "that") };
    world.journal.cast(JournalMsg::Answered(question.id.clone(), Box::new(full))).unwrap();
    settle().await;
    world.delivered("10");
    settle().await;
    let stored = world.store.json(&keys::answered(&message("900"))).unwrap();
    assert_eq!(stored, serde_json::to_value(&exchange).unwrap());
}

#[tokio::test(start_paused = true)]
async fn while_draining_turns_are_recorded_but_not_begun_and_known_answers_still_go_out() {
    let mut world = world(MemoryStore::new()).await;
    let (before, after) = (turn("10", "7", "42"), turn("11", "7", "42"));
    world.accept(&before);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    world.journal.cast(JournalMsg::Drain).unwrap();
    world.accept(&after);
    assert_eq!((world.offered().await, world.record("11").as_str()), (None, "open"));
    world.answered(&before, "in time");
    let left = world.journal.call(JournalMsg::Left, Duration::from_secs(1));
    assert_eq!(left.await, Ok(RemainingWork { open: 2, undelivered: 1 }));
    assert_eq!(world.delivery().await, Some(("10".into(), "in time".into(), false)));
    world.delivered("10");
    let left = world.journal.call(JournalMsg::Left, Duration::from_secs(1));
    assert_eq!(left.await, Ok(RemainingWork { open: 1, undelivered: 0 }));
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_the_end_of_a_turn_is_told_once_its_exchange_can_be_found() {
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    let exchange = Exchange {
        person: question.person.clone(),
        asked: "how deep?".to_owned(),
        asked_at: question.at,
        answered: "nine metres".to_owned(),
        answered_at: question.at,
    };
    let answer = Answer { exchange: Some(exchange), ..answer(&question, "nine metres") };
    world.journal.cast(JournalMsg::Answered(question.id.clone(), Box::new(answer))).unwrap();
    assert_eq!(world.delivery().await.map(|(id, ..)| id).as_deref(), Some("10"));
    let ask = |id: &str| {
        let id = turn_id(id);
        world.journal.call(move |reply| JournalMsg::TellWhenClosed(id, reply), Duration::from_secs(1))
    };
    assert_eq!(ask("10").await, Err(CallError::Timeout), "it is still open");
    let (told, ()) = tokio::join!(ask("10"), async { world.delivered("10") });
    assert_eq!(told, Err(CallError::Down), "the question was dropped with what it was about");
    assert!(world.store.json(&keys::answered(&message("900"))).is_some());
    assert_eq!(ask("10").await, Err(CallError::Down), "it is closed");
    assert_eq!(ask("77").await, Err(CallError::Down), "nobody knows it");
}

fn unasked(id: &str) -> Turn {
    Turn { trigger: Trigger::Interjection, ..turn(id, "7", "42") }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asked_for_is_said_once_and_its_failures_are_silent() {
    let mut world = world(MemoryStore::new()).await;
    let (well, ill) = (unasked("10"), unasked("11"));
    for turn in [&well, &ill] {
        world.accept(turn);
        assert_eq!(world.offered().await, Some(turn.id.id.to_string()));
    }
    let exchange = Exchange {
        person: well.person.clone(),
        asked: String::new(),
        asked_at: well.at,
        answered: "by the way".into(),
        answered_at: well.at,
    };
    let said = Answer { exchange: Some(exchange), ..answer(&well, "by the way") };
    world.journal.cast(JournalMsg::Answered(well.id.clone(), Box::new(said))).unwrap();
    assert_eq!(world.delivery().await, Some(("10".into(), "by the way".into(), false)));
    let apology = ill.apology("sorry", Ending::Model(ModelErrorKind::Timeout));
    world.journal.cast(JournalMsg::Answered(ill.id.clone(), Box::new(apology))).unwrap();
    assert_eq!(world.delivery().await, Some(("11".into(), "forget".into(), false)));
    let delivery =
        Delivery { posted: vec![message("20")], first_visible: Instant::now(), doubled: false, form: Form::Whole };
    world.journal.cast(JournalMsg::Delivered(well.id.clone(), delivery)).unwrap();
    settle().await;
    let kept = world.store.json(&keys::answered(&message("20"))).unwrap();
    assert_eq!((&kept["asked"], &kept["answered"]), (&"".into(), &"by the way".into()));
    world.accept(&well);
    assert_eq!(world.delivery().await, None, "the same message never triggers twice");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asked_for_is_never_taken_up_again() {
    let mut world = world(MemoryStore::new()).await;
    let (thinking, posting) = (unasked("10"), unasked("11"));
    for turn in [&thinking, &posting] {
        world.accept(turn);
        assert!(world.offered().await.is_some());
    }
    world.journal.cast(JournalMsg::Answered(posting.id.clone(), Box::new(answer(&posting, "hm")))).unwrap();
    assert_eq!(world.delivery().await, Some(("11".into(), "hm".into(), false)));
    world.recovered(ActorKind::Conversation, Scope::Place(place("42")));
    world.recovered(ActorKind::Outbox, Scope::Door(DOOR));
    assert_eq!(world.offered().await.as_deref(), Some("cancel 10"));
    assert_eq!(world.delivery().await, Some(("10".into(), "forget".into(), false)));
    assert_eq!(world.delivery().await, Some(("11".into(), "forget".into(), false)));

    let third = unasked("12");
    world.accept(&third);
    assert_eq!(world.offered().await.as_deref(), Some("cancel 11"));
    assert_eq!(world.offered().await.as_deref(), Some("12"));
    world.faults.inject("staffai/journal", Fault::Panic);
    world.journal.cast(JournalMsg::Drain).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.offered().await, None, "a journal that begins anew leaves it");
    assert_eq!(world.record("12"), "closed", "and keeps no word of it");
    world.accept(&third);
    assert_eq!(world.offered().await, None, "and knows that it was there");
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_took_is_settled_when_it_ends_and_a_fault_of_ours_is_taken_back() {
    let mut world = world(MemoryStore::new()).await;
    let (answered, failed, posted_nowhere) = (turn("10", "7", "42"), turn("11", "7", "42"), turn("12", "7", "42"));
    for question in [&answered, &failed, &posted_nowhere] {
        world.accept(question);
    }
    let mut found = answer(&answered, "hello");
    found.effort.usage.prompt = 70;
    world.journal.cast(JournalMsg::Answered(answered.id.clone(), Box::new(found.clone()))).unwrap();
    assert_eq!(world.charged().await.as_deref(), Some("settle 10 70"));
    world.delivered("10");
    assert_eq!(world.charged().await, None, "once");
    world
        .journal
        .cast(JournalMsg::Answered(failed.id.clone(), Box::new(failed.apology("sorry", Ending::Deadline))))
        .unwrap();
    assert_eq!(world.charged().await.as_deref(), Some("cancel 11"));
    world.journal.cast(JournalMsg::Answered(posted_nowhere.id.clone(), Box::new(found))).unwrap();
    world.journal.cast(JournalMsg::Undeliverable(posted_nowhere.id, Unposted::Nothing)).unwrap();
    assert_eq!(world.charged().await.as_deref(), Some("settle 12 70"), "the tokens were spent");
}

#[tokio::test(start_paused = true)]
async fn a_refused_turn_ends_with_its_reason_and_costs_nothing() {
    let log = Log::capture();
    let mut world = world(MemoryStore::new()).await;
    let (told, silent) = (turn("10", "7", "42"), turn("11", "7", "42"));
    world.accept(&told);
    world.accept(&silent);
    let mut refused = answer(&told, "enough");
    refused.outcome = domain::turn::Outcome::Refused(OverLimit::Messages);
    world.journal.cast(JournalMsg::Answered(told.id.clone(), Box::new(refused))).unwrap();
    world.delivered("10");
    world.journal.cast(JournalMsg::Dropped(silent.id.clone(), Dropped::OverLimit(OverLimit::Messages))).unwrap();
    assert_eq!(world.charged().await, None);
    assert_eq!((world.record("10").as_str(), world.record("11").as_str()), ("closed", "closed"));
    let lines = log.of("turn.refused");
    let told: Vec<_> = lines.iter().map(|line| (line["outcome"].as_str(), line["reason"].as_str())).collect();
    assert_eq!(told, [("refused", "message limit"), ("dropped", "message limit")]);
    assert!(lines.iter().all(|line| (line["place"].as_str(), line["member"].as_str()) == ("discord:42", "discord:7")));
    assert!(log.of("turn.replied").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_heard_is_offered_again() {
    let mut world = world(MemoryStore::new()).await;
    let question = turn("10", "7", "42");
    world.accept(&question);
    for _ in 0..2 * OFFERS_MAX {
        assert_eq!(world.offered().await.as_deref(), Some("10"));
        world.journal.cast(JournalMsg::Undelivered(question.id.clone())).unwrap();
        tokio::time::sleep(SWEEP_EVERY).await;
    }
    assert_eq!(world.delivery().await, None, "it is no fault of the turn");
}

#[test]
fn what_comes_before_the_records_waits_in_order_and_within_a_bound() {
    let mut phase = Phase::Loading { early: Vec::new() };
    let recovered = Recovered { held: HeldTurns::Unanswered, scope: Scope::One };
    assert!(phase.defer(JournalMsg::ActorRecovered(recovered), &Observers::default()).is_none());
    for id in 0..EARLY_MAX + 2 {
        assert!(phase.defer(JournalMsg::Cancel(turn_id(&id.to_string())), &Observers::default()).is_none());
    }
    let early = phase.loaded();
    assert_eq!(early.len(), EARLY_MAX);
    assert!(matches!(&early[..2], [JournalMsg::Cancel(first), JournalMsg::Cancel(second)]
        if first.id == "0" && second.id == "1"));
    assert!(phase.offers() && phase.defer(JournalMsg::Drain, &Observers::default()).is_some());
    assert!(phase.loaded().is_empty(), "records that are read once more");
}

#[test]
fn a_drain_that_comes_before_the_records_holds_for_them_and_is_never_shed() {
    let mut phase = Phase::Loading { early: Vec::new() };
    for id in 0..EARLY_MAX {
        assert!(phase.defer(JournalMsg::Cancel(turn_id(&id.to_string())), &Observers::default()).is_none());
    }
    assert!(phase.defer(JournalMsg::Drain, &Observers::default()).is_none());
    assert_eq!(phase.loaded().len(), EARLY_MAX + 1);
    assert!(!phase.offers());
}
