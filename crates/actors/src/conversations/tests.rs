//! The router and its conversations together, with turns that call scripted models.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::door::Doors;
use crate::llm_dispatcher::LlmDispatcher;
use crate::messages::journal::JournalMsg;
use crate::messages::outbox::OutboxMsg;
use crate::messages::rate_limiter::RateLimiterMsg;
use crate::model_permits::ModelPermits;
use crate::observation::board::Board;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::roster::Roster;
use crate::services::allowances::Allowances;
use crate::services::basics::Basics;
use crate::services::facts::FactKeeper;
use crate::services::forgotten::Wished;
use crate::services::in_flight::InFlight;
use crate::services::long_results::LongResults;
use crate::services::toolbox::Toolbox;
use crate::testing::log::Log;
use crate::testing::{DOOR, Inbox, LEAF, Stage, Tree, at, live, place, real, row, settle, turn, turn_id};
use crate::tree::ActorKind;
use crate::turn::parts::{FileServices, Neighbors, Readers, SharedState, ToolServices};
use domain::ending::Ending;
use domain::ids::Timestamp;
use domain::incoming::Attachment;
use domain::keys;
use domain::limits::charge::{Charge, charge};
use domain::locale::Locale;
use domain::notice::{self, Apology};
use domain::outgoing::Medium;
use domain::turn::Turn;
use domain::turn::{Answer, Effort, LaneRule, Outcome, Trigger};
use ports::shares::Shares;
use ports::testing::{FixedDice, ManualClock, MemoryStore, Say, ScriptedFaults, ScriptedModels};
use ports::{Clock, Fault, ModelErrorKind, NoDocuments, Store};

mod approvals;

mod tools;

struct World {
    router: Handle<ConversationsMsg>,
    journal: Inbox<JournalMsg>,
    models: Arc<ScriptedModels>,
    roster: Arc<Roster>,
    faults: Arc<ScriptedFaults>,
    in_flight: Arc<InFlight>,
    attachment_kib: Shares,
    rate_limiter: Inbox<RateLimiterMsg>,
    store: Arc<MemoryStore>,
    toolbox: Arc<Toolbox>,
    long_results: LongResults,
    allowances: Arc<Allowances>,
    clock: Arc<ManualClock>,
    outbox: Inbox<OutboxMsg>,
    _tree: Tree,
}

async fn world(variables: &[(&str, &str)]) -> World {
    world_with(variables, &["main"]).await
}

async fn world_with(variables: &[(&str, &str)], rows: &[&str]) -> World {
    let models = Arc::new(ScriptedModels::new(rows));
    let (router, journal, outbox, dispatcher) =
        (at("conversations"), at("journal"), at("outbox"), at("llm_dispatcher"));
    let rate_limiter = at("rate_limiter");
    let live = live(variables, Arc::clone(&models) as _);
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(ManualClock::new());
    let basics = Basics {
        live: live.clone(),
        store: Arc::clone(&store) as _,
        clock: Arc::clone(&clock) as _,
        dice: Arc::new(FixedDice::new(0.5)),
    };
    let neighbors = Neighbors {
        journal: journal.clone(),
        dispatcher: dispatcher.clone(),
        rate_limiter: rate_limiter.clone(),
        summaries: at("summaries"),
        outboxes: Outboxes::new(vec![(DOOR, Medium::Messages, outbox.clone())]),
    };
    let parts = Arc::new(TurnParts {
        facts: Arc::new(FactKeeper::of(&basics)),
        basics,
        neighbors,
        readers: Readers::default(),
        tools: ToolServices::new(Arc::default(), Arc::clone(&store) as _, Arc::default()),
        files: FileServices::new(Doors::new(Vec::new()).unwrap(), 1, Arc::new(NoDocuments)),
        shared: SharedState::default(),
    });
    let TurnParts { tools, files, shared, .. } = &*parts;
    let (toolbox, allowances) = (Arc::clone(&tools.toolbox), Arc::clone(&tools.allowances));
    let long_results = tools.long_results.clone();
    let (in_flight, attachment_kib) = (Arc::clone(&shared.in_flight), files.kib.clone());
    let mut stage = Stage::new();
    let (roster, faults) = (Arc::clone(&stage.roster), Arc::clone(&stage.faults));
    let (journal, outbox) = (stage.probe(&journal), stage.probe(&outbox));
    let rate_limiter = stage.probe(&rate_limiter);
    let permits = ModelPermits::new(Arc::new(Semaphore::new(64)));
    stage.actor(
        row(LEAF),
        &dispatcher,
        LlmDispatcher { live, permits, board: Arc::new(Board::default()), observers: Observers::default() },
    );
    stage.actor(row(LEAF), &router, Conversations { template: real(ActorKind::Conversation), parts });
    let tree = stage.go().await;
    World {
        router,
        journal,
        models,
        roster,
        faults,
        in_flight,
        attachment_kib,
        rate_limiter,
        store,
        toolbox,
        long_results,
        allowances,
        clock,
        outbox,
        _tree: tree,
    }
}

impl World {
    fn offer(&self, turn: Turn) {
        self.router
            .cast(ConversationsMsg::Offer(Box::new(OfferedTurn { turn: Arc::new(turn), again: false, resumed: None })))
            .unwrap();
    }

    /// Returns the next answer: the turn's number, its outcome, and its text.
    async fn answer(&mut self) -> (String, Outcome, String) {
        loop {
            if let JournalMsg::Answered(id, answer) = self.journal.next().await {
                return (id.id.into(), answer.outcome, answer.outgoing.text());
            }
        }
    }

    fn asked(&self) -> Vec<String> {
        self.models.asked.lock().iter().map(|(_, text)| text.clone()).collect()
    }

    fn conversations(&self) -> Vec<String> {
        let all = self.roster.all();
        let names = all.iter().filter_map(|stats| stats.path.split_once("conversation:").map(|(_, name)| name));
        names.map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_answered_by_the_model() {
    let mut world = world(&[]).await;
    world.models.say(Say::Text("hello"));
    world.offer(turn("10", "7", "42"));
    assert_eq!(world.answer().await, ("10".into(), Outcome::Replied, "hello".into()));
    assert_eq!(world.conversations(), ["discord:42"]);
    settle().await;
    assert_eq!(world.in_flight.now(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_member_may_have_forbidden_is_not_done_while_their_settings_cannot_be_read() {
    for (open, kept) in [("memory,tools", false), ("verbosity", true)] {
        let mut world = world(&[("STAFFAI_MEMBERS__SETTINGS", open)]).await;
        let ten = turn("10", "7", "42");
        world.store.unreadable.lock().insert(keys::preferences(&ten.person));
        world.models.say(Say::Text("hello"));
        world.offer(ten.clone());
        let answer = loop {
            if let JournalMsg::Answered(_, answer) = world.journal.next().await {
                break answer;
            }
        };
        settle().await;
        let stored = world.store.entries.lock().contains_key(&keys::history(&ten.person, &ten.place));
        assert_eq!((answer.outcome, answer.exchange.is_some(), stored), (Outcome::Replied, kept, kept), "{open}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_process_was_asked_to_forget_meanwhile_does_not_stay_in_memory() {
    let mut world = world(&[]).await;
    let turn = turn("9", "7", "42");
    let key = keys::history(&turn.person, &turn.place);
    let seconds = turn.at.0 / 1_000 - 100;
    let old = ["user", "assistant"].map(|role| json!({"role": role, "content": "old words", "timestamp": seconds}));
    for (number, cut) in [(9, turn.at.0 - 50_000), (10, turn.at.0)] {
        world.store.put(key.clone(), json!(old).to_string());
        let cut = Timestamp(cut);
        let wished =
            Wished { person: turn.person.clone(), place: None, cut, noted: world.clock.now(), unfinished: false };
        world.store.put(keys::forgotten(&turn.person, None), serde_json::to_string(&wished).unwrap());
        world.offer(Turn { id: turn_id(&number.to_string()), ..turn.clone() });
        world.answer().await;
        settle().await;
        let kept = world.store.get(&key).await;
        assert_eq!(kept.is_some(), turn.at > cut, "{kept:?}");
        assert!(!kept.unwrap_or_default().contains("old words"));
    }
}

#[tokio::test(start_paused = true)]
async fn one_lane_runs_in_order_and_lanes_run_side_by_side() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    let begun = Instant::now();
    for id in ["10", "11", "12"] {
        world.offer(turn(id, "7", "42"));
    }
    world.offer(turn("20", "8", "42"));
    world.offer(turn("30", "7", "43"));
    settle().await;
    assert_eq!(world.models.at_once.load(Ordering::SeqCst), 3, "three lanes");
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(world.answer().await.0);
    }
    let lane: Vec<&String> = order.iter().filter(|id| id.starts_with('1')).collect();
    assert_eq!(lane, ["10", "11", "12"]);
    assert_eq!(begun.elapsed().as_secs(), 30, "as long as the longest lane");
    assert_eq!(world.models.most_at_once.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_offered_twice_runs_once() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11", "10", "11"] {
        world.offer(turn(id, "7", "42"));
    }
    assert_eq!((world.answer().await.0, world.answer().await.0), ("10".into(), "11".into()));
    assert!(world.journal.within(Duration::from_secs(60)).await.is_none());
    assert_eq!(world.asked(), ["question 10", "question 11"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_sheds_with_one_notice_for_a_person_in_all_places() {
    let log = Log::capture();
    let mut world = world(&[("STAFFAI_TURN__LANE", "2")]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11", "12", "13", "14"] {
        world.offer(turn(id, "7", "42"));
    }
    for id in ["20", "21", "22", "23"] {
        world.offer(turn(id, "7", "43"));
    }
    let full = Outcome::Apologised(Ending::LaneFull);
    let JournalMsg::Answered(first, answer) = world.journal.next().await else { panic!("no notice") };
    assert_eq!(
        (first.id.as_str(), answer.outcome, answer.outgoing.text()),
        ("13", full, notice::lane_full(Locale::English).into())
    );
    let mut dropped = Vec::new();
    while let Some(JournalMsg::Dropped(id, reason)) = world.journal.now().await {
        dropped.push((id.id.to_string(), reason.as_str()));
    }
    dropped.sort();
    assert_eq!(dropped, [("14".to_owned(), "lane full"), ("23".to_owned(), "lane full")]);
    assert_eq!(log.column("turn.shed", "where"), ["lane"; 3]);
    let mut counted = Vec::new();
    while let Some(RateLimiterMsg::Settle { turn, .. }) = world.rate_limiter.now().await {
        counted.push(turn.id.id.clone());
    }
    counted.sort();
    assert_eq!(counted, ["14", "23"], "they count as messages");
}

#[tokio::test(start_paused = true)]
async fn what_fits_into_a_lane_is_answered_in_order() {
    let mut world = world(&[("STAFFAI_TURN__LANE", "2")]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11", "12"] {
        world.offer(turn(id, "7", "42"));
    }
    for id in ["10", "11", "12"] {
        assert_eq!(world.answer().await.0, id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_refuses_does_not_queue() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11"] {
        let mut turn = turn(id, "7", "42");
        turn.policy.lane = LaneRule::Refuse;
        world.offer(turn);
    }
    let (_, outcome, words) = world.answer().await;
    assert_eq!((outcome, words.as_str()), (Outcome::Apologised(Ending::LaneFull), notice::lane_busy(Locale::English)));
    assert_eq!(world.answer().await.0, "10");
}

#[tokio::test(start_paused = true)]
async fn the_room_of_a_text_file_is_free_once_it_is_read() {
    let world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    let (name, url) = ("a.txt".to_owned(), "https://example.org/a.txt".to_owned());
    let file = Attachment { name, mime: None, size: 10, url, width: None, height: None };
    world.offer(Turn { attachments: vec![file], ..turn("10", "7", "42") });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.asked().len(), world.attachment_kib.free()), (1, 1), "while the model reads");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asked_for_costs_nothing_when_its_lane_is_busy() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    for (id, person) in [("10", "7"), ("11", "8")] {
        let mut turn = turn(id, person, "42");
        turn.trigger = Trigger::Interjection;
        turn.policy.lane = LaneRule::Refuse;
        world.offer(turn);
    }
    let (id, outcome, _) = world.answer().await;
    assert_eq!((id.as_str(), &outcome), ("11", &Outcome::Apologised(Ending::LaneBusy)));
    let outgoing = turn("11", "8", "42").reply_with("");
    let answer = Answer { outgoing, exchange: None, outcome, effort: Effort::default() };
    assert_eq!(charge(&answer.outcome, &answer.effort), Charge::Cancel);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_ends_without_an_answer_and_the_next_begins() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11", "12"] {
        world.offer(turn(id, "7", "42"));
    }
    settle().await;
    for id in ["10", "11"] {
        world.router.cast(ConversationsMsg::Cancel(place("42"), turn_id(id))).unwrap();
    }
    assert_eq!(world.answer().await.0, "12");
    assert_eq!(world.asked(), ["question 10", "question 12"]);
    let Some(RateLimiterMsg::Cancel(never_begun)) = world.rate_limiter.now().await else { panic!() };
    assert_eq!(never_begun.id.id, "11", "what never began costs nothing");
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_apologised_for_at_its_deadline() {
    let log = Log::capture();
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(1000));
    let begun = Instant::now();
    world.offer(turn("10", "7", "42"));
    let (_, outcome, said) = world.answer().await;
    assert_eq!(
        (outcome, said.as_str()),
        (Outcome::Apologised(Ending::Deadline), notice::apology(Apology::TimedOut, Locale::English))
    );
    assert_eq!(begun.elapsed().as_secs(), 120);
    settle().await;
    assert_eq!(log.column("llm.called", "error"), ["timeout"], "the call that was cut off is heard of");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_eats_every_deadline_is_left_alone_and_a_cancelled_call_says_nothing() {
    let log = Log::capture();
    let mut world = world(&[("STAFFAI_TURN__DEADLINE", "5s")]).await;
    world.models.takes(Duration::from_secs(1000));
    world.offer(turn("9", "7", "42"));
    settle().await;
    world.router.cast(ConversationsMsg::Cancel(place("42"), turn_id("9"))).unwrap();
    settle().await;
    assert!(log.of("llm.called").is_empty());
    for number in 0..domain::breaker::OPEN_AFTER {
        world.offer(turn(&format!("1{number}"), if number == 0 { "7" } else { "8" }, "42"));
        assert_eq!(world.answer().await.1, Outcome::Apologised(Ending::Deadline));
    }
    settle().await;
    assert_eq!(log.of("breaker.opened").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waited_too_long_in_its_lane_is_apologised_for() {
    let mut world = world(&[("STAFFAI_TURN__QUEUE", "5s")]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11"] {
        world.offer(turn(id, "7", "42"));
    }
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert_eq!(world.answer().await.1, Outcome::Apologised(Ending::WaitedTooLong));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_costs_its_turn_an_apology_and_nobody_else_anything() {
    let log = Log::capture();
    let mut world = world(&[]).await;
    world.models.say(Say::Panic);
    for id in ["10", "11"] {
        world.offer(turn(id, "7", "42"));
    }
    assert_eq!(
        world.answer().await,
        (
            "10".into(),
            Outcome::Apologised(Ending::Panicked),
            notice::apology(Apology::Internal, Locale::English).into()
        )
    );
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert_eq!(log.column("turn.panicked", "panic"), ["the model panicked"]);
    assert!(log.of("actor.failed").is_empty());
}

#[tokio::test(start_paused = true)]
async fn failing_models_are_tried_then_passed_over_for_their_fallback() {
    let mut world = world_with(&[], &["main", "spare"]).await;
    for _ in 0..3 {
        world.models.say(Say::Fail(ModelErrorKind::Provider));
    }
    world.models.say(Say::Text("from the spare"));
    world.offer(turn("10", "7", "42"));
    assert_eq!(world.answer().await.2, "from the spare");
    let rows: Vec<String> = world.models.asked.lock().iter().map(|(row, _)| row.clone()).collect();
    assert_eq!(rows, ["main", "main", "main", "spare"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_conversation_is_forgotten_and_comes_back_for_the_next_turn() {
    let mut world = world(&[]).await;
    world.offer(turn("10", "7", "42"));
    world.answer().await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(world.conversations().is_empty());
    world.offer(turn("11", "7", "42"));
    assert_eq!(world.answer().await.0, "11");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_with_a_turn_is_not_forgotten() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(110));
    world.offer(turn("10", "7", "42"));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.conversations(), ["discord:42"]);
    assert_eq!(world.answer().await.0, "10");
}

#[tokio::test(start_paused = true)]
async fn a_turn_right_behind_the_goodbye_of_its_conversation_is_answered() {
    let mut world = world(&[]).await;
    world.offer(turn("10", "7", "42"));
    world.answer().await;
    settle().await;
    // Both messages are in the router's mailbox at once.
    world.router.cast(ConversationsMsg::Idle(place("42"), 1)).unwrap();
    world.offer(turn("11", "7", "42"));
    let begun = Instant::now();
    assert_eq!(world.answer().await.0, "11");
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(world.conversations(), ["discord:42"]);
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_that_crossed_a_new_turn_is_ignored() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    world.offer(turn("10", "7", "42"));
    world.offer(turn("11", "7", "42"));
    world.router.cast(ConversationsMsg::Idle(place("42"), 1)).unwrap();
    assert_eq!((world.answer().await.0, world.answer().await.0), ("10".into(), "11".into()));
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_crashed_is_made_anew_by_the_next_offer() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    world.offer(turn("10", "7", "42"));
    settle().await;
    world.faults.inject("staffai/conversations/conversation:discord:42", Fault::Panic);
    world.offer(turn("11", "8", "42"));
    settle().await;
    assert!(world.conversations().is_empty());
    assert_eq!(world.in_flight.now(), 0, "its tasks died with it");
    for (id, from) in [("10", "7"), ("11", "8")] {
        world.offer(turn(id, from, "42"));
    }
    let mut both = [world.answer().await.0, world.answer().await.0];
    both.sort();
    assert_eq!(both, ["10", "11"]);
    assert_eq!(world.conversations(), ["discord:42"]);
    assert_eq!(
        world.roster.find("staffai/conversations/conversation:discord:42").unwrap().restarts.load(Ordering::Relaxed),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_finishes_what_runs_and_begins_nothing() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    for id in ["10", "11"] {
        world.offer(turn(id, "7", "42"));
    }
    settle().await;
    world.router.cast(ConversationsMsg::Drain).unwrap();
    world.offer(turn("12", "9", "42"));
    assert_eq!(world.answer().await.0, "10");
    assert!(world.journal.within(Duration::from_secs(200)).await.is_none());
    assert_eq!((world.asked().len(), world.in_flight.now()), (1, 0));
}

/// Text that no draft shows, because no typed reply begins like this.
const HIDDEN: &str = "Let me think about this for a while, aloud and in many words.";

#[tokio::test(start_paused = true)]
async fn what_was_streamed_until_the_deadline_is_paid_and_no_fault_of_the_model() {
    let mut world = world(&[]).await;
    for number in 0..4 {
        world.models.say(Say::Flows(HIDDEN));
        world.offer(turn(&format!("1{number}"), &number.to_string(), "42"));
        let answer = loop {
            if let JournalMsg::Answered(_, answer) = world.journal.next().await {
                break *answer;
            }
        };
        assert_eq!(answer.outcome, Outcome::Apologised(Ending::Deadline), "the model was asked");
        let usage = answer.effort.usage;
        assert!(usage.estimated && usage.completion == 16 && usage.prompt > 0, "{usage:?}");
        assert_eq!(charge(&answer.outcome, &answer.effort), Charge::Settle);
    }
    world.offer(turn("20", "9", "42"));
    assert_eq!(world.answer().await.1, Outcome::Replied, "no breaker opened");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_all_at_once_and_is_cut_off_costs_its_prompt_at_least() {
    let mut world = world(&[]).await;
    world.models.takes(Duration::from_secs(1_000));
    world.offer(turn("10", "7", "42"));
    let answer = loop {
        if let JournalMsg::Answered(_, answer) = world.journal.next().await {
            break *answer;
        }
    };
    assert_eq!(answer.outcome, Outcome::Apologised(Ending::Deadline));
    let usage = answer.effort.usage;
    assert!(usage.estimated && usage.completion == 0 && usage.prompt > 0, "{usage:?}");
    assert_eq!(charge(&answer.outcome, &answer.effort), Charge::Settle);
    world.offer(turn("11", "8", "42"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.router.cast(ConversationsMsg::Cancel(place("42"), turn_id("11"))).unwrap();
    let RateLimiterMsg::Settle { turn, effort } = world.rate_limiter.next().await else { panic!("it is settled") };
    assert!(turn.id == turn_id("11") && effort.usage.prompt > 0, "{:?}", effort.usage);
}

#[tokio::test(start_paused = true)]
async fn what_was_streamed_until_a_turn_was_cancelled_is_counted() {
    let mut world = world(&[]).await;
    world.models.say(Say::Flows(HIDDEN));
    world.offer(turn("10", "7", "42"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.router.cast(ConversationsMsg::Cancel(place("42"), turn_id("10"))).unwrap();
    let RateLimiterMsg::Settle { turn, effort } = world.rate_limiter.next().await else { panic!("it is settled") };
    assert_eq!((turn.id.clone(), effort.usage.completion), (turn_id("10"), 16));
    let all = world.store.scan("", usize::MAX).await.part();
    let numbers = |value: &str| value.split(|c: char| !c.is_ascii_digit()).any(|number| number == "16");
    let counted = all.iter().any(|(_, value)| numbers(value));
    assert!(counted, "the ledger has the tokens");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_no_model_takes_is_told_as_such() {
    for (kind, why) in
        [(ModelErrorKind::ContextOverflow, Apology::TooLong), (ModelErrorKind::Filtered, Apology::Filtered)]
    {
        let mut world = world(&[]).await;
        world.models.say(Say::Fail(kind));
        world.offer(turn("10", "7", "42"));
        assert_eq!(world.answer().await.2, notice::apology(why, Locale::English));
    }
}
