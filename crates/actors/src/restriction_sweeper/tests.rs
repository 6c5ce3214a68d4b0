use parking_lot::Mutex;

use super::*;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::outbox::{Outbox, Pacer};
use crate::runtime::handle::Handle;
use crate::services::own_ranges::OwnRanges;
use crate::testing::log::Log;
use crate::testing::pictures::Sketches;
use crate::testing::{BEGINNING, DOOR, Inbox, LEAF, Stage, Tree, at, live, mention, person, place, row, settle, turn};
use domain::outgoing::Medium;
use domain::ownership::Portion;
use domain::rejection::Rejection;
use ports::testing::{FixedDice, Go, ManualClock, MemoryStore, ScriptedFaults, ScriptedModels, ScriptedPoster};
use ports::{Fault, PostError, PostRequest};

/// A role, a channel for its holders, an hour.
const USUAL: [(&str, &str); 4] = [
    ("RESTRICTED_USER_ROLE_ID", "12"),
    ("RESTRICTED_CHANNEL_ID", "42"),
    ("RESTRICTION_DURATION_SECONDS", "3600"),
    ("RESTRICTION_CHECK_INTERVAL_SECONDS", "300"),
];

struct World {
    restricted: Arc<Restricted>,
    sweeper: Handle<SweeperMsg>,
    poster: Arc<ScriptedPoster>,
    store: Arc<MemoryStore>,
    faults: Arc<ScriptedFaults>,
    _journal: Inbox<crate::messages::journal::JournalMsg>,
    _tree: Tree,
}

async fn world() -> World {
    world_of(&USUAL, MemoryStore::new()).await
}

async fn world_of(variables: &[(&str, &str)], store: MemoryStore) -> World {
    world_with(variables, store, Portion::WHOLE).await
}

async fn world_with(variables: &[(&str, &str)], store: MemoryStore, portion: Portion) -> World {
    shared_world(variables, Arc::new(store), portion).await
}

async fn shared_world(variables: &[(&str, &str)], store: Arc<MemoryStore>, portion: Portion) -> World {
    let (sweeper, outbox, journal) = (at("restriction_sweeper"), at("outbox"), at("journal"));
    let poster = Arc::new(ScriptedPoster::new());
    let restricted = Arc::new(Restricted::default());
    let mut stage = Stage::new();
    let faults = Arc::clone(&stage.faults);
    let heard = stage.probe(&journal);
    let pacer = Arc::new(Mutex::new(Pacer::new(50, 1000)));
    let dice = Arc::new(FixedDice::new(0.5));
    stage.actor(
        row(LEAF),
        &outbox,
        Outbox {
            door: crate::testing::DOOR,
            board: Arc::default(),
            poster: Arc::clone(&poster) as _,
            pacer,
            closed: Arc::default(),
            live: live(&[], Arc::new(ScriptedModels::new(&["main"]))),
            dice,
            renderer: Arc::new(Sketches),
            journal,
            events: TurnEvents::default(),
            observers: Observers::default(),
        },
    );
    let actor = RestrictionSweeper {
        observers: Observers::default(),
        store: Arc::clone(&store) as _,
        clock: Arc::new(ManualClock::new()),
        live: live(variables, Arc::new(ScriptedModels::new(&["main"]))),
        outboxes: Outboxes::new(vec![(DOOR, Medium::Messages, outbox)]),
        restricted: Arc::clone(&restricted),
        ranges: OwnRanges::new(portion.into()),
    };
    stage.actor(row(LEAF), &sweeper, actor);
    let tree = stage.go().await;
    settle().await;
    World { sweeper, restricted, poster, store, faults, _journal: heard, _tree: tree }
}

impl World {
    async fn breaks_a_limit(&self, id: &str, who: &str, roles: &[&str]) {
        let mut turn = turn(id, who, "43");
        turn.roles = roles.iter().map(|role| (*role).to_owned()).collect();
        self.sweeper.cast(SweeperMsg::Breached { turn: Arc::new(turn), tier: "messages" }).unwrap();
        settle().await;
    }

    async fn speaks(&self, id: &str, who: &str) {
        self.sweeper.cast(SweeperMsg::Spoke(Arc::new(turn(id, who, "43")))).unwrap();
        settle().await;
    }

    /// Returns the role changes so far: `+` assigned, `-` removed.
    fn roles(&self) -> Vec<String> {
        let changes = self.poster.requests.lock();
        let change = |request: &PostRequest| match request {
            PostRequest::AddRole(it) => Some(format!("+{} {} {}", it.member.person.id, it.role, it.reason)),
            PostRequest::RemoveRole(it) => Some(format!("-{} {} {}", it.member.person.id, it.role, it.reason)),
            _ => None,
        };
        changes.iter().filter_map(|(_, request)| change(request)).collect()
    }

    fn until(&self, who: &str) -> Option<String> {
        self.store.entries.lock().get(&keys::restrictions::restricted_until("5", &person(who))).cloned()
    }
}

fn refused() -> Go {
    Go::Fail(PostError::unsent(Rejection::Forbidden, "code 50013: Missing Permissions".into()))
}

/// A store with restrictions that ended this many seconds ago.
fn ended(people: &[&str], ago: u64) -> MemoryStore {
    let store = MemoryStore::new();
    for who in people {
        let until = BEGINNING.0 / 1000 - ago;
        store.put(keys::restrictions::restricted_until("5", &person(who)), until.to_string());
    }
    store
}

#[tokio::test(start_paused = true)]
async fn a_breach_gives_the_role_once_and_it_is_lifted_on_time() {
    let (log, world) = (Log::capture(), world().await);
    world.breaks_a_limit("10", "7", &[]).await;
    world.breaks_a_limit("11", "7", &[]).await;
    world.breaks_a_limit("12", "7", &["12"]).await;
    assert_eq!(world.roles(), ["+7 12 Rate limit exceeded"]);
    assert_eq!(world.until("7"), Some((BEGINNING.0 / 1000 + 3600).to_string()));
    assert_eq!(log.column("restriction.added", "tier"), ["messages"]);
    tokio::time::sleep(Duration::from_secs(3598)).await;
    assert_eq!(world.roles().len(), 1);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.roles()[1..], ["-7 12 Restriction expired"]);
    assert_eq!(log.column("restriction.lifted", "reason"), ["expired"]);
    assert!(world.store.entries.lock().is_empty(), "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn what_ended_while_we_were_away_is_lifted_at_the_start_and_left_alone_afterwards() {
    let world = world_of(&USUAL, ended(&["7", "8"], 5_000)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut taken = world.roles();
    taken.sort();
    assert_eq!(taken, ["-7 12 Restriction expired", "-8 12 Restriction expired"]);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert_eq!(world.roles().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_community_lifts_its_restrictions_and_the_others_know_of_them() {
    let now = BEGINNING.0 / 1000;
    let there = |guild: u64, who: &str, until: u64| {
        (keys::restrictions::restricted_until(&guild.to_string(), &person(who)), until.to_string())
    };
    for number in 0..2 {
        let store = MemoryStore::new();
        for (key, until) in [there(2 << 22, "7", now - 9), there(3 << 22, "8", now - 9), there(2 << 22, "9", now + 900)]
        {
            store.put(key, until);
        }
        let world = world_with(&USUAL, store, Portion { number, of: 2 }).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(world.roles(), [["-7 12 Restriction expired"], ["-8 12 Restriction expired"]][number as usize]);
        let running = live(&USUAL, Arc::new(ScriptedModels::new(&["main"]))).now();
        assert!(world.restricted.holds_anywhere(&running, &person("9")), "process {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_processes_of_a_divided_bot_know_of_each_change_within_two_seconds() {
    let store = Arc::new(MemoryStore::new());
    let worlds = [0, 1].map(|number| shared_world(&USUAL, Arc::clone(&store), Portion { number, of: 2 }));
    let [first, second] = futures_util::future::join_all(worlds).await.try_into().ok().unwrap();
    let running = live(&USUAL, Arc::new(ScriptedModels::new(&["main"]))).now();
    let known = || [&first, &second].map(|world: &World| world.restricted.holds_anywhere(&running, &person("7")));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(known(), [false, false]);
    let mut broken = turn("10", "7", "43");
    broken.guild = Some((3_u64 << 22).to_string());
    second.sweeper.cast(SweeperMsg::Breached { turn: Arc::new(broken), tier: "messages" }).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((known(), first.roles().len(), second.roles().len()), ([true, true], 0, 1));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((known(), first.roles().len(), second.roles().len()), ([false, false], 0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_keeps_the_record_and_is_tried_again_without_hammering() {
    let log = Log::capture();
    let world = world_of(&USUAL, MemoryStore::new()).await;
    for who in ["7", "8", "9"] {
        world
            .store
            .put(keys::restrictions::restricted_until("5", &person(who)), (BEGINNING.0 / 1000 + 310).to_string());
    }
    for _ in 0..3 {
        world.poster.role_goes(refused());
    }
    tokio::time::sleep(Duration::from_secs(305 + 3 * 300 - 10)).await;
    assert_eq!(world.roles().len(), 3, "one try for the whole community each time");
    assert_eq!(log.column("restriction.failed", "guild"), ["5"], "and one line in an hour");
    assert!(world.until("7").is_some() && world.until("8").is_some());
    tokio::time::sleep(Duration::from_secs(320)).await;
    assert_eq!(world.roles().len(), 6);
    assert!(world.store.entries.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_left_is_crossed_out() {
    let log = Log::capture();
    let world = world_of(&USUAL, MemoryStore::new()).await;
    world.store.put(keys::restrictions::restricted_until("5", &person("7")), (BEGINNING.0 / 1000).to_string());
    world.poster.role_goes(Go::Absent);
    tokio::time::sleep(Duration::from_secs(302)).await;
    assert_eq!(log.column("restriction.lifted", "reason"), ["left"]);
    assert!(world.store.entries.lock().is_empty());
    world.poster.role_goes(Go::Absent);
    world.breaks_a_limit("10", "8", &[]).await;
    assert!(world.until("8").is_some(), "who left before the role was given may come back");
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert!(world.store.entries.lock().is_empty(), "but not for ever");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_and_comes_back_is_still_restricted_and_given_the_role_again() {
    let world = world().await;
    world.breaks_a_limit("10", "7", &[]).await;
    assert_eq!(world.roles().len(), 1);
    let back = |joined_after: u64| {
        let mut posted = mention("11", "7", "43");
        posted.author.joined = Some(Timestamp(BEGINNING.0 + joined_after));
        world.restricted.came_back(&posted)
    };
    assert_eq!(back(0), None, "who stayed lost the role by a moderator");
    let member = back(1).unwrap();
    world.sweeper.cast(SweeperMsg::CameBack(member)).unwrap();
    settle().await;
    assert_eq!(world.roles(), ["+7 12 Rate limit exceeded"; 2]);
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(back(1), None, "it is over");
}

#[tokio::test(start_paused = true)]
async fn what_a_moderator_gave_is_never_taken() {
    let world = world().await;
    world.breaks_a_limit("10", "7", &["12"]).await;
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert!(world.roles().is_empty() && world.store.entries.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_duration_the_role_has_no_end() {
    let variables = [USUAL[0], USUAL[1], ("RESTRICTION_DURATION_SECONDS", "0")];
    let world = world_of(&variables, MemoryStore::new()).await;
    world.breaks_a_limit("10", "7", &[]).await;
    tokio::time::sleep(Duration::from_secs(5_000)).await;
    assert_eq!(world.roles(), ["+7 12 Rate limit exceeded"]);
    let kept: Vec<String> = world.store.entries.lock().keys().cloned().collect();
    assert_eq!(kept, ["staffai:restricted:discord:5:7"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_duration_leaving_and_coming_back_ends_nothing_and_a_moderator_does() {
    let variables = [USUAL[0], USUAL[1], ("RESTRICTION_DURATION_SECONDS", "0")];
    let world = world_of(&variables, MemoryStore::new()).await;
    let given = |times: usize| vec!["+7 12 Rate limit exceeded"; times];
    let speaks = |joined: u64, at: u64| {
        let mut posted = mention("11", "7", "43");
        posted.author.joined = Some(Timestamp(BEGINNING.0 + joined));
        posted.at = Timestamp(BEGINNING.0 + at);
        (world.restricted.came_back(&posted), world.restricted.stayed(&posted))
    };
    world.breaks_a_limit("10", "7", &[]).await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(world.roles(), given(1));
    // The member leaves and rejoins.
    let (Some(member), None) = speaks(300_000, 400_000) else { panic!("they came back") };
    world.sweeper.cast(SweeperMsg::CameBack(member)).unwrap();
    settle().await;
    assert_eq!(world.roles(), given(2));
    // From then on the member stays.
    assert_eq!(speaks(300_000, 410_000), (None, None), "their role may not have been seen yet");
    tokio::time::sleep(Duration::from_secs(400)).await;
    let (None, Some(member)) = speaks(300_000, 800_000) else { panic!("a moderator took the role") };
    world.sweeper.cast(SweeperMsg::Lifted(member)).unwrap();
    settle().await;
    assert!(world.store.entries.lock().is_empty());
    assert_eq!(speaks(900_000, 900_000), (None, None), "they are free, also after they left");
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(world.roles(), given(2));
}

#[tokio::test(start_paused = true)]
async fn who_is_exempt_is_never_restricted_and_nobody_is_without_a_role() {
    let world = world().await;
    world.breaks_a_limit("10", "7", &["99"]).await;
    assert!(world.roles().is_empty());
    let none = world_of(&[], MemoryStore::new()).await;
    none.breaks_a_limit("10", "7", &[]).await;
    assert!(none.roles().is_empty() && none.store.entries.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_record_and_the_role_is_made_good() {
    let store = MemoryStore::new();
    let until = BEGINNING.0 / 1000 + 600;
    store.put(keys::restrictions::restricted_until("5", &person("7")), until.to_string());
    store.put(keys::restrictions::restricting("5", &person("7")), "1");
    let world = world_of(&USUAL, store).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.roles(), ["+7 12 Rate limit exceeded"]);
    assert_eq!(world.until("7"), Some(until.to_string()), "until the same moment");
    assert_eq!(world.store.entries.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_the_role_is_given_gives_it_again_and_never_forgets_the_end() {
    let world = world().await;
    world.poster.role_goes(Go::LoseAnswer);
    world.faults.inject("staffai/restriction_sweeper", Fault::Panic);
    world.breaks_a_limit("10", "7", &[]).await;
    assert!(world.roles().is_empty(), "the crash took the breach with it");
    world.breaks_a_limit("11", "7", &[]).await;
    world.faults.inject("staffai/restriction_sweeper", Fault::Panic);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.roles().len() >= 2, "{:?}", world.roles());
    tokio::time::sleep(Duration::from_secs(3700)).await;
    assert_eq!(world.roles().last().map(String::as_str), Some("-7 12 Restriction expired"));
}

#[tokio::test(start_paused = true)]
async fn the_role_waits_for_its_record() {
    let world = world().await;
    world.store.durable(false);
    world.breaks_a_limit("10", "7", &[]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.roles().is_empty());
    world.store.durable(true);
    settle().await;
    assert_eq!(world.roles().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_nothing() {
    let world = world().await;
    world.breaks_a_limit("10", "7", &[]).await;
    world.store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3605)).await;
    assert_eq!(world.roles().len(), 2, "it is remembered, and lifted all the same");
}

#[tokio::test(start_paused = true)]
async fn a_restricted_member_is_told_where_to_go_once_in_a_window_also_over_a_crash() {
    let world = world().await;
    for id in ["10", "11"] {
        world.speaks(id, "7").await;
    }
    world.speaks("12", "8").await;
    let told = "For now I can only answer you in <#42>, until a moderator lifts the restriction.";
    assert_eq!(world.poster.ours(&place("43")), [told; 2], "once each");
    world.faults.inject("staffai/restriction_sweeper", Fault::Panic);
    world.speaks("13", "7").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.speaks("14", "7").await;
    assert_eq!(world.poster.ours(&place("43")).len(), 2);
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.speaks("15", "7").await;
    assert_eq!(world.poster.ours(&place("43")).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn without_a_channel_they_are_told_once_until_the_end() {
    let variables = [USUAL[0], USUAL[2], USUAL[3]];
    let world = world_of(&variables, MemoryStore::new()).await;
    world.breaks_a_limit("10", "7", &[]).await;
    for number in 11..20 {
        world.speaks(&number.to_string(), "7").await;
        tokio::time::sleep(Duration::from_secs(300)).await;
    }
    assert_eq!(world.poster.ours(&place("43")), ["I cannot answer you for now, until 2027-01-15 09:00 UTC."]);
}

#[tokio::test(start_paused = true)]
async fn moderators_hear_of_each_step() {
    let variables = [USUAL[0], USUAL[1], USUAL[2], USUAL[3], ("STAFFAI_RESTRICTION__AUDIT_CHANNEL", "60")];
    let world = world_of(&variables, MemoryStore::new()).await;
    world.poster.role_goes(refused());
    world.breaks_a_limit("10", "7", &[]).await;
    tokio::time::sleep(Duration::from_secs(4000)).await;
    let heard = world.poster.ours(&place("60"));
    assert!(heard[0].starts_with("The role for restrictions could not be given to member 7 (7)."), "{heard:?}");
    // The test platform limits messages to a hundred characters, so the first report came in two parts.
    assert_eq!(heard[2], "member 7 (7) went over the limit and is restricted until 2027-01-15 09:00 UTC.");
    assert_eq!(heard[3], "The restriction of member 7 (7) has ended.");
    assert_eq!(heard.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_removed_role_is_noticed_when_its_member_writes_outside_of_the_community() {
    let world = world().await;
    let since = |seconds: u64| Timestamp(BEGINNING.0 - seconds * 1_000);
    // The platform gives each member the role of their own id.
    for (who, began) in [("7", since(120)), ("12", since(120)), ("8", since(10))] {
        world.restricted.begin(Member { guild: "5".to_owned(), person: person(who) }, began);
    }
    let writes = async |who: &str| {
        world.sweeper.cast(SweeperMsg::Confines(person(who))).unwrap();
        settle().await;
        !world.restricted.settled(&person(who), BEGINNING).is_empty()
    };
    let reads = || world.poster.count(|request| matches!(request, PostRequest::Roles(_)));
    assert!(!writes("7").await, "a moderator removed the role");
    assert!(writes("12").await, "the role is there");
    writes("8").await;
    assert_eq!(reads(), 2, "the role may be younger than what the platform shows");
    for _ in 0..10 {
        writes("12").await;
    }
    assert_eq!(reads(), 2);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(writes("12").await && reads() == 3);
}
