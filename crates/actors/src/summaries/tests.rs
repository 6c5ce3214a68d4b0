use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;
use crate::llm_dispatcher::LlmDispatcher;
use crate::model_permits::ModelPermits;
use crate::services::conversation_records::{AskedQuestion, ConversationRecords};
use crate::testing::{BEGINNING, DOOR, LEAF, Stage, Tree, at, live, person, place, row, settle};
use domain::history::{Exchange, History};
use domain::ids::{MessageId, Person, Place, Timestamp};
use domain::incoming::Deletion;
use domain::keys;
use domain::summary::Summary;
use ports::testing::{FixedDice, ManualClock, MemoryStore, Say, ScriptedModels};
use ports::{Fault, Store};
use tokio::sync::Semaphore;

struct World {
    summaries: Handle<SummariesMsg>,
    models: Arc<ScriptedModels>,
    store: Arc<MemoryStore>,
    forgotten: Arc<Forgotten>,
    faults: Arc<ports::testing::ScriptedFaults>,
    _tree: Tree,
}

/// Histories of eight messages, with these further variables.
async fn world(variables: &[(&str, &str)]) -> World {
    let models = Arc::new(ScriptedModels::new(&["main", "cheap"]));
    let always = [("STAFFAI_SUMMARIES__MODEL", "cheap"), ("MAX_HISTORY_PER_USER", "8")];
    let live = live(&[&always[..], variables].concat(), Arc::clone(&models) as _);
    let (summaries, dispatcher) = (at("summaries"), at("llm_dispatcher"));
    let (store, forgotten) = (Arc::new(MemoryStore::new()), Arc::<Forgotten>::default());
    let permits = Arc::new(Semaphore::new(live.now().settings.llm.concurrent));
    let mut stage = Stage::new();
    let actor = LlmDispatcher {
        live: live.clone(),
        permits: ModelPermits::new(permits),
        board: Arc::default(),
        observers: Observers::default(),
    };
    stage.actor(row(LEAF), &dispatcher, actor);
    let (clock, dice) = (Arc::new(ManualClock::new()), Arc::new(FixedDice::new(0.5)));
    let basics = Basics { live, store: Arc::clone(&store) as _, clock, dice };
    let parts = SummaryParts {
        basics,
        forgotten: Arc::clone(&forgotten),
        dispatcher,
        observers: Observers::default(),
        home: DOOR,
        reserved: Arc::default(),
    };
    stage.actor(row(LEAF), &summaries, Summaries { parts: Arc::new(parts) });
    let faults = Arc::clone(&stage.faults);
    World { summaries, models, store, forgotten, faults, _tree: stage.go().await }
}

fn asked_at(number: u64) -> Timestamp {
    Timestamp(BEGINNING.0 - 100_000 + number * 1_000)
}

fn exchange(person: &Person, number: u64) -> Exchange {
    let (asked, answered, at) = (format!("question {number}"), format!("answer {number}"), asked_at(number));
    Exchange { person: person.clone(), asked, asked_at: at, answered, answered_at: at }
}

impl World {
    /// A conversation with this many exchanges, as a turn saves it.
    fn has(&self, who: &str, place: &Place, exchanges: u64) {
        let person = person(who);
        let mut history = History::default();
        for number in 1..=exchanges {
            history.add(&exchange(&person, number), 8);
        }
        self.saved(&person, place, &history);
    }

    fn saved(&self, person: &Person, place: &Place, history: &History) {
        self.store.put(keys::history(person, place), history.to_json());
        let conversation = Conversation { person: person.clone(), place: place.clone() };
        self.summaries.tell(SummariesMsg::Saved(conversation, Instant::now()));
    }

    fn asked(&self) -> usize {
        self.models.asked.lock().len()
    }

    /// The texts of a stored summary.
    async fn texts(&self, who: &str, place: &Place) -> Vec<String> {
        let key = keys::conversations::summary(&keys::history(&person(who), place));
        let summary = Summary::parse(self.store.get(&key).await.as_deref());
        summary.parts().iter().map(|part| part.text.clone()).collect()
    }
}

async fn soon() {
    tokio::time::sleep(Duration::from_secs(1)).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn the_older_half_is_summarised_by_the_row_of_the_settings_and_the_history_stays() {
    let world = world(&[]).await;
    world.models.say(Say::Plain("They met."));
    world.has("7", &place("42"), 2);
    soon().await;
    assert_eq!(world.asked(), 0, "there is room");
    world.has("7", &place("42"), 3);
    soon().await;
    assert_eq!(world.texts("7", &place("42")).await, ["They met."]);
    let asked = world.models.asked.lock().clone();
    let lines = "> Member: question 1\n> Assistant: answer 1\n> Member: question 2\n> Assistant: answer 2";
    assert_eq!(asked, [("cheap".to_owned(), lines.to_owned())]);
    let history = world.store.get(&keys::history(&person("7"), &place("42"))).await.unwrap();
    assert_eq!(History::parse(&history).unwrap().history.entries().len(), 6);
    world.has("7", &place("42"), 3);
    soon().await;
    assert_eq!(world.asked(), 1, "these are summarised");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_has_one_call_at_a_time_and_all_together_two() {
    let world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    for number in 40..50 {
        for _ in 0..3 {
            world.has("7", &place(&number.to_string()), 4);
        }
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(world.models.most_at_once.load(Ordering::SeqCst), RUNNING_MAX);
    assert_eq!(world.asked(), 10, "repeated messages request nothing more");
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_means_no_call_until_the_next_day() {
    let world = world(&[("STAFFAI_SUMMARIES__TOKENS_PER_DAY", "5000")]).await;
    let today = domain::ledger::own_today(&DOOR, domain::ledger::SUMMARIES, BEGINNING);
    world.store.put(today, "4000 900");
    world.has("7", &place("42"), 4);
    soon().await;
    assert_eq!((world.asked(), world.texts("7", &place("42")).await), (0, Vec::new()));
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    let mut history = History::default();
    for number in 1..=4 {
        let at = Timestamp(BEGINNING.0 + 24 * 60 * 60 * 1_000 - number);
        history.add(&Exchange { asked_at: at, answered_at: at, ..exchange(&person("7"), number) }, 8);
    }
    world.saved(&person("7"), &place("42"), &history);
    soon().await;
    assert_eq!(world.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_in_progress_count_against_the_budget() {
    // One call is expected to need about 220 tokens.
    let world = world(&[("STAFFAI_SUMMARIES__TOKENS_PER_DAY", "400")]).await;
    world.models.takes(Duration::from_secs(10));
    world.has("7", &place("42"), 4);
    world.has("8", &place("42"), 4);
    soon().await;
    assert_eq!(world.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_or_deleted_during_the_call_is_not_written() {
    for (number, forget) in [
        |world: &World| world.forgotten.wish(&person("7"), None, asked_at(50)),
        |world: &World| world.forgotten.wish(&person("7"), Some(&place("42")), asked_at(1)),
        |world: &World| drop(world.forgotten.withdraw(&person("7"), &place("42"), asked_at(2))),
    ]
    .into_iter()
    .enumerate()
    {
        let world = world(&[]).await;
        world.models.takes(Duration::from_secs(10));
        world.has("7", &place("42"), 4);
        soon().await;
        assert_eq!(world.asked(), 1);
        forget(&world);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(world.texts("7", &place("42")).await, [""; 0], "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_concerns_another_conversation_changes_nothing() {
    let world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    world.has("7", &place("42"), 4);
    soon().await;
    world.forgotten.wish(&person("8"), None, asked_at(50));
    world.forgotten.wish(&person("7"), Some(&place("43")), asked_at(50));
    drop(world.forgotten.withdraw(&person("7"), &place("43"), asked_at(2)));
    drop(world.forgotten.withdraw(&person("8"), &place("42"), asked_at(2)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.texts("7", &place("42")).await, ["fine"]);
}

#[tokio::test(start_paused = true)]
async fn what_another_process_was_asked_to_forget_meanwhile_is_removed() {
    let world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    world.has("7", &place("42"), 4);
    soon().await;
    let noted = Timestamp(BEGINNING.0 + 5_000);
    let wished = crate::services::forgotten::Wished {
        person: person("7"),
        place: None,
        cut: asked_at(50),
        noted,
        unfinished: false,
    };
    world.store.put(keys::forgotten(&person("7"), None), serde_json::to_string(&wished).unwrap());
    tokio::time::sleep(Duration::from_secs(10)).await;
    settle().await;
    assert_eq!(world.texts("7", &place("42")).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_call_loses_only_the_call() {
    let world = world(&[]).await;
    world.models.takes(Duration::from_secs(10));
    world.has("7", &place("42"), 4);
    soon().await;
    assert_eq!(world.asked(), 1);
    world.faults.inject("staffai/summaries", Fault::Panic);
    world.has("8", &place("42"), 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.texts("7", &place("42")).await, [""; 0]);
    world.has("7", &place("42"), 4);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((world.asked(), world.texts("7", &place("42")).await), (2, vec!["fine".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_failing_model_or_store_changes_nothing() {
    let world = world(&[]).await;
    world.models.say(Say::Fail(domain::ending::ModelErrorKind::Provider));
    world.has("7", &place("42"), 4);
    soon().await;
    assert_eq!((world.asked(), world.texts("7", &place("42")).await), (1, Vec::new()));
    world.has("7", &place("42"), 4);
    soon().await;
    assert_eq!(world.texts("7", &place("42")).await, ["fine"], "the next turn tries again");
    world.store.degraded.store(true, Ordering::SeqCst);
    world.has("7", &place("42"), 8);
    soon().await;
    world.store.degraded.store(false, Ordering::SeqCst);
    assert_eq!((world.asked(), world.texts("7", &place("42")).await), (2, vec!["fine".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn one_failed_read_neither_deletes_nor_replaces_a_summary() {
    let world = world(&[]).await;
    world.has("7", &place("42"), 4);
    soon().await;
    assert_eq!(world.texts("7", &place("42")).await, ["fine"]);
    world.store.failing_reads.store(1, Ordering::SeqCst);
    world.has("7", &place("42"), 8);
    soon().await;
    assert_eq!((world.asked(), world.texts("7", &place("42")).await), (1, vec!["fine".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_meets_a_failing_store_is_repeated() {
    let world = world(&[]).await;
    world.has("7", &place("42"), 2);
    let (message, asked) = (MessageId::new(DOOR, "9"), asked_at(1));
    let mark = AskedQuestion { person: person("7"), place: place("42"), at: asked };
    world.store.put(keys::conversations::asked(&message), serde_json::to_string(&mark).unwrap());
    let running = live(&[], Arc::clone(&world.models) as _).now();
    let (records, key) = (ConversationRecords::new(&*world.store, &running), keys::history(&person("7"), &place("42")));
    let left = async || {
        let stored = world.store.get(&key).await.unwrap();
        History::parse(&stored).unwrap().history.entries().iter().filter(|entry| entry.at == asked).count()
    };
    world.store.failing_reads.store(1, Ordering::SeqCst);
    records.withdraw(&world.forgotten, &Deletion::of(message)).await;
    assert_eq!(left().await, 2);
    records.withdraw_again(&world.forgotten).await;
    assert_eq!(left().await, 0);
    assert!(world.forgotten.take_later().is_empty());
}
