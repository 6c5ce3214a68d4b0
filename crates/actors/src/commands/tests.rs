use super::*;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::runtime::handle::Reply;
use crate::services::basics::Basics;
use crate::services::preferences::PreferenceKeeper;
use crate::services::running::Live;
use crate::services::toolbox::{Caller as ServerCaller, Toolset};
use crate::testing::log::Log;
use crate::testing::{BEGINNING, DOOR, Inbox, LEAF, LONG, Stage, Tree, at, live, message, person, place, row, settle};
use domain::command::{Callback, CallbackToken, Caller};
use domain::history::{Exchange, History};
use domain::ids::Timestamp;
use domain::keys;
use domain::keys::programs;
use domain::ledger::{self, Increment, Tally};
use domain::locale::Locale;
use domain::outgoing::FILE_BYTES_MAX;
use domain::outgoing::Medium;
use domain::ownership::Portions;
use domain::rejection::Rejection;
use domain::session_index::{Indexed, SessionIndex};
use domain::tool::catalogue::{Catalogue, Offer};
use domain::tool::testing::tool;
use domain::tool::utility::Utility;
use domain::tool::{CallError, OnBehalf, ServerName, Source, Tool, ToolRequest, ToolResult};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use ports::testing::{FixedDice, ManualClock, MemoryStore, NoVitals, ScriptedModels};
use ports::tools::{Listing, ServerInfo};
use ports::{Dice, ProgressSink, Replaced, Row, Scanned, Store, StoreStatus, Stored, ToolServer, Write};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A store with slow or panicking reads.
struct Odd {
    inner: MemoryStore,
    takes: Duration,
    panics: bool,
    /// The duration of a pass over the keys.
    scan_takes: Mutex<Duration>,
    /// The maximum bytes that one scan of keys returned.
    looked: AtomicUsize,
}

impl Store for Odd {
    fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored> {
        async move {
            tokio::time::sleep(self.takes).await;
            assert!(!self.panics, "a read of the store");
            self.inner.read(key).await
        }
        .boxed()
    }

    fn scan_many<'a>(
        &'a self,
        prefixes: &'a [&'a str],
        limit: usize,
        person: Option<&'a Person>,
    ) -> BoxFuture<'a, Scanned<Vec<Vec<Row>>>> {
        async move {
            let takes = *self.scan_takes.lock();
            tokio::time::sleep(takes).await;
            let scanned = self.inner.scan_many(prefixes, limit, person).await;
            scanned.map(|found| {
                for rows in &found {
                    self.looked.fetch_max(rows.iter().map(|(_, value)| value.len()).sum(), Ordering::SeqCst);
                }
                found
            })
        }
        .boxed()
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
        self.inner.write(writes)
    }

    fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced> {
        self.inner.replace(key, seen, value)
    }

    fn status(&self) -> StoreStatus {
        self.inner.status()
    }

    fn close(&self, within: Duration) -> BoxFuture<'_, bool> {
        self.inner.close(within)
    }
}

type Asked = (PostRequest, Reply<Result<PostResult, PostError>>);

struct World {
    commands: Handle<CommandsMsg>,
    outbox: Inbox<OutboxMsg>,
    presence: Inbox<PresenceMsg>,
    store: Arc<Odd>,
    toolbox: Arc<Toolbox>,
    _tree: Tree,
}

async fn world(takes: Duration, panics: bool) -> World {
    world_on(MemoryStore::new(), takes, panics).await
}

async fn world_on(inner: MemoryStore, takes: Duration, panics: bool) -> World {
    let (commands, outbox, journal) = (at("commands"), at("outbox:discord"), at("journal"));
    let presence = at("presence_scheduler");
    let mut stage = Stage::new();
    let (heard, told) = (stage.probe(&outbox), stage.probe(&presence));
    let store = Arc::new(Odd { inner, takes, panics, scan_takes: Mutex::default(), looked: AtomicUsize::new(0) });
    let live: Live = live(&[], Arc::new(ScriptedModels::new(&["main", "deep"])));
    let dice: Arc<dyn Dice> = Arc::new(FixedDice::new(0.5));
    let (clock, dice_of_ways) = (Arc::new(ManualClock::new()), Arc::clone(&dice));
    let basics = Basics { live, store: Arc::clone(&store) as _, clock, dice };
    let parts = CommandParts {
        ranges: OwnRanges::new(Portions::WHOLE),
        facts: Arc::new(FactKeeper::of(&basics)),
        settings: Arc::new(PreferenceKeeper::new(basics.clone(), Arc::default())),
        restricted: Arc::default(),
        basics,
        home: DOOR,
        vitals: Arc::new(NoVitals),
        registers: vec![DOOR],
        ways: Ways {
            outboxes: Outboxes::new(vec![(DOOR, Medium::Messages, outbox)]),
            dice: dice_of_ways,
            events: TurnEvents::default(),
            observers: Observers::default(),
        },
        journal,
        rate_limiter: at("rate_limiter"),
        config_watcher: at("config_watcher"),
        presence_scheduler: presence,
        in_flight: Arc::default(),
        tooling: Arc::default(),
        toolbox: Arc::default(),
        tool_use: Arc::new(ToolUse::new(Arc::new(MemoryStore::new()))),
        tools: at("tools"),
        approvals: at("approvals"),
        allowances: Arc::default(),
        calls: None,
        voices: at("voices"),
    };
    let toolbox = Arc::clone(&parts.toolbox);
    stage.actor(row(LEAF), &commands, Commands { parts: Arc::new(parts) });
    World { commands, outbox: heard, presence: told, store, toolbox, _tree: stage.go().await }
}

fn counter_of(who: &str, guild: &str) -> String {
    keys::ledger::counter(keys::ledger::ALL, &DOOR, Some(guild), &ledger::Account::Member(who.to_owned()))
}

fn command(id: &str, name: &str, from: &str) -> Box<Command> {
    Box::new(Command {
        callback: Callback {
            id: message(id),
            application: "1".to_owned(),
            token: CallbackToken::new(format!("token-{id}")),
        },
        name: name.to_owned(),
        options: Vec::new(),
        named: Vec::new(),
        caller: Caller {
            person: person(from),
            name: "Ada".to_owned(),
            roles: Vec::new(),
            locale: None,
            operator: false,
        },
        place: place("42"),
        parent: None,
        guild: Some("5".to_owned()),
        at: Timestamp(BEGINNING.0 + 1_000),
    })
}

impl World {
    fn runs(&self, command: Box<Command>) {
        self.commands.cast(CommandsMsg::Run(command)).unwrap();
    }

    /// Returns the next answer to a command that the outbox receives.
    async fn asked(&mut self) -> Asked {
        loop {
            match self.outbox.next().await {
                OutboxMsg::Interact(request, reply) => return (request, reply),
                OutboxMsg::Read(_, reply) => drop(reply.send(Ok(PostResult::Already))),
                _ => panic!("commands do not say this"),
            }
        }
    }

    /// Answers the next deferral with this result.
    async fn defers(&mut self, result: Result<PostResult, PostError>) {
        let (request, reply) = self.asked().await;
        assert!(matches!(request, PostRequest::Defer(_)), "{request:?}");
        reply.send(result).unwrap();
    }

    /// Returns the text of the next answer, which succeeds.
    async fn says(&mut self) -> String {
        let (request, reply) = self.asked().await;
        let PostRequest::Respond { piece, .. } = request else { panic!("{request:?}") };
        reply.send(Ok(PostResult::Done)).unwrap();
        piece.text
    }

    /// True if no further message about commands is sent.
    async fn is_quiet(&mut self) -> bool {
        tokio::time::sleep(Duration::from_secs(10)).await;
        while let Some(message) = self.outbox.now().await {
            match message {
                OutboxMsg::Read(_, reply) => drop(reply.send(Ok(PostResult::Already))),
                _ => return false,
            }
        }
        true
    }

    fn remembers(&self) -> bool {
        self.store.inner.entries.lock().contains_key(&keys::history(&person("7"), &place("42")))
    }

    fn remember(&self) {
        self.store.inner.put(keys::history(&person("7"), &place("42")), "[]");
    }
}

#[tokio::test(start_paused = true)]
async fn the_word_that_an_answer_comes_waits_for_no_store() {
    let mut world = world(Duration::from_secs(9), false).await;
    let begun = Instant::now();
    world.runs(command("10", "new", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(world.says().await.starts_with("There is nothing to do"));
    assert!(begun.elapsed() >= Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn another_status_line_is_wished_for_by_operators_alone() {
    let mut world = world(Duration::ZERO, false).await;
    for (id, operator) in [("10", false), ("11", true)] {
        let mut command = command(id, "refresh_status", "7");
        command.caller.roles.extend(operator.then(|| "99".to_owned()));
        world.runs(command);
        world.defers(Ok(PostResult::Done)).await;
        world.says().await;
        assert_eq!(matches!(world.presence.now().await, Some(PresenceMsg::Refresh)), operator);
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_given_up_with_a_word() {
    let mut world = world(LONG, false).await;
    world.runs(command("10", "new", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert_eq!(world.says().await, words::too_slow(Locale::English));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_told_to_its_member_and_to_nobody_else() {
    let log = Log::capture();
    let mut world = world(Duration::ZERO, true).await;
    world.runs(command("10", "new", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert_eq!(world.says().await, words::broken(Locale::English));
    assert_eq!(log.column("command.panicked", "command"), ["new"]);
    // The next command runs: no slot is occupied.
    world.runs(command("11", "help", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert!(world.says().await.starts_with("I answer when"));
}

#[tokio::test(start_paused = true)]
async fn without_the_first_word_nothing_is_done() {
    let mut world = world(Duration::ZERO, false).await;
    world.remember();
    let gone = PostError::unsent(Rejection::Content, "code 10062: Unknown interaction".to_owned());
    for (id, result) in [("10", Err(gone)), ("11", Ok(PostResult::Already))] {
        world.runs(command(id, "new", "7"));
        world.defers(result).await;
        assert!(world.is_quiet().await, "{id}");
        assert!(world.remembers(), "{id}");
    }
    // A deferral whose response was lost but that the platform accepted belongs to this process.
    world.runs(command("12", "new", "7"));
    world.defers(Err(PostError::Unsure("lost".to_owned()))).await;
    world.defers(Ok(PostResult::Already)).await;
    world.says().await;
    assert!(!world.remembers());
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_says_nothing_in_time_gets_no_deed() {
    let mut world = world(Duration::ZERO, false).await;
    world.remember();
    world.runs(command("10", "new", "7"));
    let (request, _unanswered) = world.asked().await;
    assert!(matches!(request, PostRequest::Defer(_)), "{request:?}");
    assert!(world.is_quiet().await);
    assert!(world.remembers());
}

#[tokio::test(start_paused = true)]
async fn the_same_command_runs_once() {
    let mut world = world(Duration::ZERO, false).await;
    for _ in 0..3 {
        world.runs(command("10", "help", "7"));
    }
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    assert!(world.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn more_than_a_few_at_once_are_told_to_wait() {
    let mut world = world(Duration::from_secs(5), false).await;
    for number in 0..=OWN_MAX {
        world.runs(command(&format!("1{number}"), "new", "7"));
    }
    for _ in 0..=OWN_MAX {
        world.defers(Ok(PostResult::Done)).await;
    }
    assert_eq!(world.says().await, words::still_running(Locale::English));
    for _ in 0..OWN_MAX {
        world.says().await;
    }
    settle().await;
    world.runs(command("20", "help", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert!(world.says().await.starts_with("I answer when"));
}

#[tokio::test(start_paused = true)]
async fn all_together_are_bounded_too() {
    let mut world = world(LONG, false).await;
    for number in 0..=RUNNING_MAX {
        let command = command(&format!("{}", 100 + number), "new", &format!("{}", 1_000 + number));
        world.runs(Box::new(Command { guild: None, ..*command }));
    }
    for _ in 0..=RUNNING_MAX {
        world.defers(Ok(PostResult::Done)).await;
    }
    assert_eq!(world.says().await, words::busy(Locale::English));
}

#[tokio::test(start_paused = true)]
async fn many_accounts_of_one_community_leave_room_for_other_communities() {
    let mut world = world(LONG, false).await;
    let accounts = RUNNING_MAX / OWN_MAX + 1;
    for number in 0..accounts * OWN_MAX {
        world.runs(command(&format!("{}", 100 + number), "new", &format!("{}", 1_000 + number % accounts)));
        world.defers(Ok(PostResult::Done)).await;
        if number >= RUNNING_MAX / 2 {
            assert_eq!(world.says().await, words::busy(Locale::English));
        }
    }
    let other = command("99", "help", "7");
    world.runs(Box::new(Command { guild: Some("6".to_owned()), ..*other }));
    world.defers(Ok(PostResult::Done)).await;
    assert!(world.says().await.starts_with("I answer when"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_tried_until_it_is_shown() {
    let mut world = world(Duration::ZERO, false).await;
    world.runs(command("10", "help", "7"));
    world.defers(Ok(PostResult::Done)).await;
    for error in [
        PostError::Unsure("lost".to_owned()),
        PostError::Limited { retry_after: Duration::from_secs(2), scope: ports::LimitScope::Route },
    ] {
        let (request, reply) = world.asked().await;
        assert!(matches!(request, PostRequest::Respond { .. }));
        reply.send(Err(error)).unwrap();
    }
    assert!(world.says().await.starts_with("I answer when"));
    assert!(world.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn forgetting_without_the_journal_or_the_store_is_said_honestly() {
    let mut world = world(Duration::ZERO, false).await;
    world.remember();
    // This tree has no journal.
    world.runs(command("10", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert!(world.says().await.contains("**I cannot reach my storage at the moment.**"));
    assert!(!world.remembers(), "what can be named is gone all the same");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_keeps_its_index_until_it_is_removed() {
    let mut world = world(Duration::ZERO, false).await;
    let (ada, ben) = (person("7"), person("8"));
    let exchange = |at: u64| Exchange {
        person: ada.clone(),
        asked: "mine".to_owned(),
        asked_at: Timestamp(at),
        answered: "aye".to_owned(),
        answered_at: Timestamp(at),
    };
    let mut quoting = History::default();
    quoting.merge(&exchange(BEGINNING.0 - 1_000), &ben, 20);
    let (quoted, damaged) = (keys::history(&ben, &place("42")), keys::history(&ben, &place("43")));
    let (answer, torn) = (message("90"), message("91"));
    let put = |key: String, value: String| world.store.inner.put(key, value);
    put(quoted.clone(), quoting.to_json());
    put(damaged.clone(), "damaged".to_owned());
    put(keys::answered(&answer), serde_json::to_string(&exchange(1)).unwrap());
    put(keys::answered(&torn), "damaged".to_owned());
    let indexes = [keys::quote_of(&ada, &quoted), keys::quote_of(&ada, &damaged), keys::answer_of(&ada, &answer)];
    for index in indexes.iter().chain([&keys::answer_of(&ada, &torn)]) {
        put(index.clone(), String::new());
    }
    world.store.inner.unreadable.lock().extend([quoted.clone(), keys::answered(&answer)]);
    world.runs(command("10", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let store = Arc::clone(&world.store);
    let there = |key: &String| store.inner.entries.lock().contains_key(key);
    assert!(indexes.iter().all(there), "each of them is still needed");
    assert!(!there(&keys::answered(&torn)) && !there(&keys::answer_of(&ada, &torn)), "a damaged answer is deleted");

    world.store.inner.unreadable.lock().clear();
    world.runs(command("11", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    assert_eq!(indexes.iter().map(there).collect::<Vec<_>>(), [false, true, false]);
    assert!(!there(&keys::answered(&answer)) && !there(&quoted), "it had no other words");
}

#[tokio::test(start_paused = true)]
async fn transcripts_are_read_and_forgotten_a_few_lines_at_a_time() {
    let mut world = world(Duration::ZERO, false).await;
    let (person, text) = (person("7"), "x".repeat(8 * 1024));
    let mut index = SessionIndex::default();
    for number in 101..141_u64 {
        let place = place(&format!("s{number}"));
        let numbers: Vec<u64> = (1..=20).collect();
        for line in &numbers {
            world.store.inner.put(keys::sessions::line(&person, &place, *line), format!("{{\"text\":\"{text}\"}}"));
        }
        let name = place.id.clone();
        let record = json!({"name": name, "number": number, "touched_at": 1, "lines": 20, "numbers": numbers});
        world.store.inner.put(keys::sessions::session(&person, &place), record.to_string());
        index.insert(&place.id, Indexed { name: name.to_string(), number, at: 1 });
    }
    index.insert("theirs", Indexed { name: "theirs".to_owned(), number: 141, at: 1 });
    world.store.inner.put(keys::sessions::INDEX.to_owned(), index.to_json());
    // Lines without a session record.
    for line in 0..250 {
        world.store.inner.put(keys::sessions::line(&person, &place("gone"), line), "{}");
    }
    world.runs(command("10", "export", "7"));
    world.defers(Ok(PostResult::Done)).await;
    let (request, reply) = world.asked().await;
    let PostRequest::Respond { piece, .. } = request else { panic!("{request:?}") };
    reply.send(Ok(PostResult::Done)).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&piece.files[0].bytes).unwrap();
    let (lines, left_out) = (document["session_lines"].as_array().unwrap().len(), &document["session_lines_left_out"]);
    assert!(lines > 100 && left_out.as_u64() == u64::try_from(800 - lines).ok(), "{lines} {left_out}");
    assert!(piece.files[0].bytes.len() < FILE_BYTES_MAX);

    world.runs(command("11", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let left = |prefix: &str| world.store.inner.entries.lock().keys().filter(|key| key.starts_with(prefix)).count();
    assert_eq!((left(keys::sessions::LINES_PREFIX), left(keys::sessions::SESSIONS_PREFIX)), (0, 0));
    let index = SessionIndex::parse(&world.store.inner.entries.lock()[keys::sessions::INDEX]).unwrap();
    assert_eq!(index.all().map(|(place, _)| place).collect::<Vec<_>>(), ["theirs"]);
    assert!(world.store.looked.load(Ordering::SeqCst) < 64 * 1024, "records alone are looked at");
}

#[tokio::test(start_paused = true)]
async fn counts_of_one_member_are_found_without_those_of_others() {
    let mut world = world(Duration::ZERO, false).await;
    settle().await;
    for Increment { key, by, .. } in
        ledger::of_member(&person("7"), Some("6"), Tally { tokens: 9, ..Tally::default() }, BEGINNING)
    {
        world.store.inner.put(key, by.to_string());
    }
    for other in 0..2_000 {
        world.store.inner.put(counter_of(&format!("1{other}"), "6"), "1 1 1 1 1 1");
    }
    world.runs(command("10", "export", "7"));
    world.defers(Ok(PostResult::Done)).await;
    let (request, reply) = world.asked().await;
    let PostRequest::Respond { piece, .. } = request else { panic!("{request:?}") };
    reply.send(Ok(PostResult::Done)).unwrap();
    let document = std::str::from_utf8(&piece.files[0].bytes).unwrap();
    assert!(document.contains(&counter_of("7", "6")), "{document}");
    world.runs(command("11", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let left: Vec<String> = world.store.inner.entries.lock().keys().filter(|key| key.contains(":7")).cloned().collect();
    assert!(
        !left.iter().any(|key| key.starts_with(keys::ledger::PREFIX) || key.starts_with(keys::ledger::COUNTED_PREFIX)),
        "{left:?}"
    );
    assert!(world.store.looked.load(Ordering::SeqCst) < 1_000, "the counters of others are not looked at");
}

#[tokio::test(start_paused = true)]
async fn counts_of_versions_without_an_index_are_added_to_it_once() {
    let (early, late) = (counter_of("7", "6"), counter_of("8", "6"));
    let store = MemoryStore::new();
    store.put(early, "1 1 1 1 1 1");
    store.put(keys::ledger::total(&person("7"), "9"), "5");
    let world = world_on(store, Duration::ZERO, false).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let indexed = |who: &str, guild: &str| {
        world.store.inner.entries.lock().contains_key(&keys::ledger::counted(&person(who), guild))
    };
    assert!(indexed("7", "6") && indexed("7", "9") && !indexed("7", "5"));
    let store = MemoryStore::new();
    store.entries.lock().clone_from(&world.store.inner.entries.lock());
    store.put(late, "1 1 1 1 1 1");
    let world = world_on(store, Duration::ZERO, false).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        !world.store.inner.entries.lock().contains_key(&keys::ledger::counted(&person("8"), "6")),
        "once is enough"
    );
}

#[tokio::test(start_paused = true)]
async fn lines_that_no_session_names_are_exported_and_forgotten() {
    let mut world = world(Duration::ZERO, false).await;
    let (person, place) = (person("7"), place("s101"));
    let record = json!({"name": "s101", "number": 101, "touched_at": 1, "lines": 1, "numbers": [1]});
    world.store.inner.put(keys::sessions::session(&person, &place), record.to_string());
    for line in 1..=3 {
        world.store.inner.put(keys::sessions::line(&person, &place, line), format!("{{\"text\":\"{line}\"}}"));
    }
    world.runs(command("10", "export", "7"));
    world.defers(Ok(PostResult::Done)).await;
    let (request, reply) = world.asked().await;
    let PostRequest::Respond { piece, .. } = request else { panic!("{request:?}") };
    reply.send(Ok(PostResult::Done)).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&piece.files[0].bytes).unwrap();
    assert_eq!(document["session_lines"], json!([{"text": "1"}, {"text": "2"}, {"text": "3"}]));
    world.runs(command("11", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    assert!(!world.store.inner.entries.lock().keys().any(|key| key.starts_with(keys::sessions::LINES_PREFIX)));
}

#[tokio::test(start_paused = true)]
async fn commands_are_offered_until_they_are_and_again_when_they_change() {
    let mut world = world(Duration::ZERO, false).await;
    let tries: Mutex<Vec<Instant>> = Mutex::default();
    for result in [
        Err(PostError::Transient("down".to_owned())),
        Err(PostError::unsent(Rejection::Forbidden, "no".to_owned())),
        Ok(PostResult::Done),
    ] {
        let OutboxMsg::Read(PostRequest::RegisterCommands(specs), reply) = world.outbox.next().await else {
            panic!("something else")
        };
        assert_eq!(specs.len(), 11, "all but those about tools");
        tries.lock().push(Instant::now());
        reply.send(result).unwrap();
    }
    let tries = tries.into_inner();
    assert!(tries[2] - tries[1] > tries[1] - tries[0], "{tries:?}");
    assert!(world.outbox.within(Duration::from_secs(600)).await.is_none(), "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn a_store_with_many_keys_is_searched_once_for_all_kinds_of_data() {
    let mut world = world(Duration::ZERO, false).await;
    settle().await;
    let before = world.store.inner.scans.load(Ordering::SeqCst);
    world.runs(command("10", "export", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    assert_eq!(world.store.inner.scans.load(Ordering::SeqCst) - before, 1);
}

/// Stores data of each kind about a member, with this time.
fn keeps(store: &MemoryStore, who: &str, at: Timestamp) {
    let person = person(who);
    let place = place(&format!("s{}", at.0));
    let session = json!({"name": "s", "number": 1, "touched_at": at.0, "lines": 1, "numbers": [1]});
    store.put(keys::sessions::session(&person, &place), session.to_string());
    store.put(keys::sessions::line(&person, &place, 1), json!({"id": "1", "text": "t", "at": at.0}).to_string());
    store.put(keys::sessions::line(&person, &place, 2), json!({"id": "2", "text": "t", "at": at.0}).to_string());
    store.put(keys::audit(&person, at, "a"), json!({"at": at.0}).to_string());
}

#[tokio::test(start_paused = true)]
async fn responses_kept_for_programs_are_exported_and_forgotten_with_their_person_alone() {
    let mut world = world(Duration::ZERO, false).await;
    settle().await;
    let asks = |id: &str, name: &str| {
        let mut command = command(id, name, "7");
        command.caller.person = Person::new(domain::api_key::HOLDERS, "laptop");
        command
    };
    let store = Arc::clone(&world.store);
    let put = |key: String, at: u64| store.inner.put(key, json!({"said": [], "at": at}).to_string());
    let owners = ["laptop", "laptop:5", "laptop-2", "7"];
    for owner in owners {
        put(programs::response(owner, "r1"), BEGINNING.0);
        put(programs::responses(owner), BEGINNING.0);
    }
    world.runs(asks("10", "export"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let person = Person::new(domain::api_key::HOLDERS, "laptop");
    world.runs(asks("11", "forget"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let left = || -> Vec<String> {
        let entries = store.inner.entries.lock();
        entries.keys().filter(|key| key.starts_with("staffai:response")).cloned().collect()
    };
    let others = ["laptop-2", "7"];
    let mut kept: Vec<String> = others.map(|owner| programs::response(owner, "r1")).to_vec();
    kept.extend(others.map(programs::responses));
    kept.sort();
    assert_eq!(left(), kept);
    // A request of another process ended after the first pass.
    put(programs::response("laptop:5", "r2"), BEGINNING.0);
    put(programs::response("laptop:5", "r3"), BEGINNING.0 + 60 * 60 * 1_000);
    tokio::time::sleep(Duration::from_secs(4 * 60 * 60)).await;
    assert!(!left().contains(&programs::response("laptop:5", "r2")), "{person}");
    assert!(left().contains(&programs::response("laptop:5", "r3")), "it is newer than the request");
}

#[tokio::test(start_paused = true)]
async fn a_request_to_be_forgotten_that_takes_long_goes_on_after_its_answer() {
    let mut world = world(Duration::ZERO, false).await;
    settle().await;
    keeps(&world.store.inner, "7", BEGINNING);
    *world.store.scan_takes.lock() = TIMEOUT * 2;
    world.runs(command("10", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    assert_eq!(world.says().await, words::forgetting_goes_on(Locale::English));
    let left = || -> Vec<String> {
        let entries = world.store.inner.entries.lock();
        entries.keys().filter(|key| key.contains(":7:") || key.ends_with(":7")).cloned().collect()
    };
    assert_eq!(left().len(), 5, "four records, and the request: {:?}", left());
    tokio::time::sleep(TIMEOUT * 8).await;
    assert_eq!(left(), [keys::forgotten(&person("7"), None)]);
    let wished = Wished::of(&world.store.inner, &person("7")).await.unwrap();
    assert!(!wished.unfinished);
}

#[tokio::test(start_paused = true)]
async fn the_next_process_finishes_a_request_to_be_forgotten() {
    let store = MemoryStore::new();
    let (cut, later) = (BEGINNING, Timestamp(BEGINNING.0 + 1));
    for (who, at) in [("7", cut), ("7", later), ("8", cut)] {
        keeps(&store, who, at);
    }
    store.put(keys::preferences(&person("7")), "{}");
    store.put(keys::quarantine(&keys::history(&person("7"), &place("42"))), "damaged");
    store.put(keys::ledger::counted(&person("7"), "6"), "0");
    store.put(counter_of("7", "6"), "1 1 1 1 1 1");
    let wished = Wished { person: person("7"), place: None, cut, noted: cut, unfinished: true };
    store.put(keys::forgotten(&person("7"), None), serde_json::to_string(&wished).unwrap());
    let newer: Vec<String> = {
        let whole = MemoryStore::new();
        keeps(&whole, "7", later);
        keeps(&whole, "8", cut);
        let entries = whole.entries.lock();
        entries.keys().cloned().collect()
    };
    // The store can list no requests at the start, and the first cleanup finds nothing.
    store.short_scans.store(4, Ordering::SeqCst);
    let world = world_on(store, Duration::ZERO, false).await;
    tokio::time::sleep(cleaning::CLEAN_EVERY * 5).await;
    world.store.inner.short_scans.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(4 * 60 * 60)).await;
    let entries = world.store.inner.entries.lock();
    let own = [keys::forgotten(&person("7"), None), keys::ledger::INDEXED.to_owned()];
    let left: Vec<String> = entries.keys().filter(|key| !own.contains(key)).cloned().collect();
    assert_eq!(left, newer);
    assert!(!entries[&keys::forgotten(&person("7"), None)].contains("unfinished"));
}

#[tokio::test(start_paused = true)]
async fn a_request_to_be_forgotten_is_not_finished_before_all_records_of_a_kind_are_gone() {
    let mut world = world(Duration::ZERO, false).await;
    settle().await;
    let words = r#"[{"content":"canary","role":"user","timestamp":1.0}]"#;
    for number in 0..kept::LOOK_MAX * 2 + 2 {
        world.store.inner.put(keys::history(&person("7"), &place(&number.to_string())), words);
    }
    world.runs(command("10", "forget", "7"));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let left = || world.store.inner.entries.lock().values().filter(|value| value.contains("canary")).count();
    assert_eq!(left(), kept::LOOK_MAX + 1, "the first pass is bounded, and also deletes the conversation of its place");
    tokio::time::sleep(Duration::from_secs(4 * 60 * 60)).await;
    assert_eq!(left(), 0);
    assert!(!Wished::of(&world.store.inner, &person("7")).await.unwrap().unfinished);
}

/// A server that records on whose behalf it was called.
#[derive(Default)]
struct Recorder {
    info: ServerInfo,
    callers: Mutex<Vec<Option<OnBehalf>>>,
}

#[async_trait::async_trait]
impl ToolServer for Recorder {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        Ok(Listing::default())
    }

    async fn call(&self, request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        self.callers.lock().push(request.on_behalf.clone());
        Ok(ToolResult::text("{}"))
    }

    async fn ping(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        tokio::sync::watch::channel(0).1
    }

    async fn closed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}

#[tokio::test(start_paused = true)]
async fn a_list_of_resources_is_a_call_of_its_member() {
    let mut world = world(Duration::ZERO, false).await;
    let (server, recorder) = (Source::Server(ServerName::new("s")), Arc::new(Recorder::default()));
    let lists = Tool { utility: Some(Utility::ListResources), ..tool("s", "list_resources", "") };
    let offer = Offer { tools: vec![Arc::new(lists)], trusted: true, ..Offer::default() };
    let catalogue = Catalogue::new(&[offer], &Catalogue::default(), |tool| tool.input_schema.to_value());
    let callers = [(server, ServerCaller::Direct(Arc::clone(&recorder) as _))].into();
    world.toolbox.publish(Toolset::new(Arc::new(catalogue), callers));
    let options = vec![("category".to_owned(), "resources".to_owned())];
    world.runs(Box::new(Command { options, ..*command("10", "tools", "7") }));
    world.defers(Ok(PostResult::Done)).await;
    world.says().await;
    let callers = recorder.callers.lock();
    let [Some(caller)] = callers.as_slice() else { panic!("{callers:?}") };
    assert_eq!((&caller.person, &caller.place, caller.call), (&person("7"), &place("42"), 1));
    assert_eq!(caller.turn, domain::ids::TurnId::of(&message("10")));
}
