//! Each actor of the tree fails, once and permanently. The test walks the rows of the tree, so it includes new actors.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::flood::saved;
use super::*;
use crate::messages::commands::CommandsMsg;
use crate::messages::discord::DiscordMsg;
use crate::messages::presence_scheduler::PresenceMsg;
use crate::messages::restriction_sweeper::SweeperMsg;
use crate::messages::tools::ToolsMsg;
use crate::runtime::handle::LifeState;
use crate::testing::{message, person, turn};
use domain::command::{Callback, CallbackToken, Caller, Typing};
use domain::restart::Restart;
use ports::{Fault, Input, Subject};

/// Breaks the actor at one path.
pub(super) struct Breaks {
    path: String,
    fault: Fault,
    /// True if only the actor's own events break it.
    own: bool,
    /// The number of its next messages and events that break it.
    left: AtomicUsize,
    /// The number of failures so far.
    met: AtomicUsize,
}

impl Breaks {
    pub(super) fn new(path: &str, fault: Fault) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), fault, own: false, left: AtomicUsize::new(0), met: AtomicUsize::new(0) })
    }

    /// Breaks the actor at each of its own events, permanently.
    fn at_its_own(path: &str, fault: Fault) -> Arc<Self> {
        let (left, met) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Arc::new(Self { path: path.to_owned(), fault, own: true, left, met })
    }

    pub(super) fn next(&self, times: usize) {
        self.left.store(times, Ordering::SeqCst);
    }

    pub(super) fn met(&self) -> usize {
        self.met.load(Ordering::SeqCst)
    }

    fn error(&self) -> &'static str {
        match self.fault {
            Fault::Panic => "injected panic",
            Fault::Error => "injected error",
            Fault::Hang | Fault::Delay(_) => "none",
        }
    }
}

impl Faults for Breaks {
    fn before(&self, path: &str, input: Input) -> Option<Fault> {
        let less = |left: usize| left.checked_sub(1);
        if path != self.path
            || (self.own && input.is_outside())
            || self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err()
        {
            return None;
        }
        self.met.fetch_add(1, Ordering::SeqCst);
        Some(self.fault)
    }
}

/// Breaks an actor at one message on each repetition, and at the first of the messages that are not repeated.
struct Poison {
    path: String,
    chosen: Mutex<Option<Subject>>,
    /// The number of further unrepeated messages that break it.
    left: AtomicUsize,
    met: AtomicUsize,
}

impl Faults for Poison {
    fn before(&self, path: &str, input: Input) -> Option<Fault> {
        if path != self.path || !input.is_outside() {
            return None;
        }
        let hit = match input.subject() {
            Some(subject) => *self.chosen.lock().get_or_insert(subject) == subject,
            None => {
                let less = |left: usize| left.checked_sub(1);
                self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
            }
        };
        hit.then(|| {
            self.met.fetch_add(1, Ordering::SeqCst);
            Fault::Panic
        })
    }
}

/// The moment at which an actor fails.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// At the first message of its first life.
    Start,
    /// At the first message after a question arrived.
    Question,
    /// At the first message while the model is running.
    Thinking,
}

/// The interval of messages that do not address the bot; they keep the actors on their path active.
const CHATTER_EVERY: Duration = Duration::from_secs(3);

/// The platform: it replays the unacknowledged events of its session to each connection, and then sends new ones.
async fn platform(connections: &mut Connections, outside: &Outside) {
    let Outside { said, others_ask, .. } = outside;
    let tell = |connection: &Connection, number: u64, posted: &Posted| {
        let event = StreamEvent::Incoming { sequence: number, incoming: Box::new(Incoming::Posted(posted.clone())) };
        // A process that is down receives the event on its next connection.
        let _ = connection.events.send(event);
    };
    let mut present = None;
    loop {
        let next = tokio::time::timeout(CHATTER_EVERY, connections.ever()).await;
        match next {
            Ok(Some(connection)) => {
                greet(&connection);
                let known = connection.session.as_ref().map_or(1, |session| session.sequence);
                let said = said.lock();
                for (number, posted) in (2..).zip(said.iter()).filter(|(number, _)| *number > known) {
                    tell(&connection, number, posted);
                }
                present = Some(connection);
            }
            Ok(None) => std::future::pending().await,
            Err(_) => {
                let mut said = said.lock();
                let number = 100 + said.len();
                let member = if *others_ask { number.to_string() } else { "8".to_owned() };
                let chatter = Posted { mentions_us: *others_ask, ..mention(&number.to_string(), &member, "43") };
                if let Some(connection) = &present {
                    tell(connection, 2 + said.len() as u64, &chatter);
                }
                said.push(chatter);
            }
        }
    }
}

impl World {
    /// Advances time while the platform runs; true if the tree gave up.
    pub(super) async fn passes(&mut self, time: Duration, outside: &Outside) -> bool {
        let Self { tree, connections, .. } = self;
        tokio::select! {
            biased;
            () = tree.gave_up() => true,
            () = platform(connections, outside) => unreachable!("it never ends"),
            () = tokio::time::sleep(time) => false,
        }
    }
}

impl Outside {
    /// Creates a platform on which a member asked a question.
    pub(super) fn asked() -> Self {
        let outside = Self::new();
        outside.said.lock().push(mention("10", "7", "42"));
        outside
    }
}

/// Returns the names of this row and of all rows below it.
fn names(row: &'static TreeRow) -> Vec<String> {
    [row.name.to_string()].into_iter().chain(row.children.iter().flat_map(names)).collect()
}

/// Returns every actor except the root, with its row, while a question is being answered.
async fn every_actor() -> Vec<(&'static TreeRow, String)> {
    let outside = Outside::asked();
    let mut world = life(&outside, Arc::new(NoFaults)).await;
    world.models.takes(Duration::from_secs(10));
    assert!(!world.passes(Duration::from_secs(1), &outside).await);
    let living = world.roster.all().into_iter().filter(|stats| stats.kind != ActorKind::Root);
    let found: Vec<_> = living.map(|stats| (TREE.find(stats.kind).unwrap(), stats.path.to_string())).collect();
    world.tree.stop().await;
    let kinds: BTreeSet<_> = found.iter().map(|(row, _)| row.name.to_string()).collect();
    // No call is on in this world.
    let calls = TREE.find(ActorKind::Voice).unwrap().name.to_string();
    let expected = names(&TREE).into_iter().skip(1).filter(|name| *name != calls).collect();
    assert_eq!(kinds, expected, "each row has an actor by then");
    // Nothing reaches a socket or a voice channel of this world after its start.
    let idle = |kind| matches!(kind, ActorKind::SlackSocket | ActorKind::Voices);
    found.into_iter().filter(|(row, _)| !idle(row.kind)).collect()
}

/// Breaks the actor at this path once. Returns the number of failures, which is zero if the actor is idle at that
/// moment.
async fn breaks_once(row: &'static TreeRow, path: &str, fault: Fault, moment: Moment) -> usize {
    let told = format!("{path} {fault:?} {moment:?}");
    let (log, outside, breaks) = (Log::capture(), Outside::asked(), Breaks::new(path, fault));
    if let Moment::Start = moment {
        breaks.next(1);
    }
    let mut world = life(&outside, Arc::clone(&breaks) as _).await;
    world.models.takes(Duration::from_secs(10));
    match moment {
        Moment::Start => {}
        Moment::Question => {
            let connection = world.connected().await;
            settle().await;
            breaks.next(1);
            ask(&connection, 2, "10");
            settle().await;
        }
        Moment::Thinking => {
            assert!(!world.passes(Duration::from_secs(1), &outside).await, "{told}");
            breaks.next(1);
        }
    }
    assert!(!world.passes(Duration::from_secs(120), &outside).await, "{told}");
    let met = breaks.met.load(Ordering::SeqCst);
    let broken: &[&str] = if met == 1 { &[path] } else { &[] };
    let errors: &[&str] = if met == 1 { &[breaks.error()] } else { &[] };
    assert_eq!(log.column("actor.failed", "actor"), broken, "{told}");
    assert_eq!(log.column("actor.failed", "error"), errors, "{told}");
    assert_eq!(log.column("actor.restarted", "actor"), broken, "{told}");
    assert!(log.of("actor.escalated").is_empty(), "{told}");
    assert_eq!(outside.answers(), ["fine"], "{told}");
    assert_eq!(outside.store.json("staffai:turn:discord:10").unwrap()["state"], "closed", "{told}");
    let holds = matches!(row.kind, ActorKind::Journal | ActorKind::Conversation) && matches!(moment, Moment::Thinking);
    if holds {
        assert_eq!(log.column("turn.resumed", "turn"), ["discord:10"], "{told}");
    }
    world.tree.stop().await;
    met
}

#[tokio::test(start_paused = true)]
async fn whoever_breaks_once_nobody_else_does_and_the_question_is_answered_once() {
    for (row, path) in every_actor().await {
        for fault in [Fault::Panic, Fault::Error] {
            let mut met = 0;
            for moment in [Moment::Start, Moment::Question, Moment::Thinking] {
                met += breaks_once(row, &path, fault, moment).await;
            }
            assert!(met > 0, "{path} met no message");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_breaks_for_ever_at_its_own_events_takes_only_those_above_along_and_the_next_life_answers() {
    let mut escalated = 0;
    for (_, path) in every_actor().await {
        for fault in [Fault::Panic, Fault::Error] {
            let told = format!("{path} {fault:?}");
            let (log, outside, breaks) = (Log::capture(), Outside::asked(), Breaks::at_its_own(&path, fault));
            let mut world = life(&outside, Arc::clone(&breaks) as _).await;
            let gave_up = world.passes(Duration::from_secs(600), &outside).await;
            if breaks.met.load(Ordering::SeqCst) == 0 {
                world.tree.stop().await;
                continue;
            }
            escalated += usize::from(gave_up);
            let above: BTreeSet<String> = path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect();
            let distinct = |event: &str| log.column(event, "actor").into_iter().collect::<BTreeSet<_>>();
            let mut failed = distinct("actor.failed");
            assert!(failed.remove(&path), "{told}");
            assert!(failed.is_subset(&above), "{told}: {failed:?}");
            if gave_up {
                assert_eq!(distinct("actor.escalated"), above, "{told}");
                let mut next = life(&outside, Arc::new(NoFaults)).await;
                assert!(!next.passes(Duration::from_secs(120), &outside).await, "{told}");
                next.tree.stop().await;
                assert_eq!(outside.answers(), ["fine"], "{told}");
            } else {
                assert!(log.of("actor.escalated").is_empty(), "{told}");
                assert_eq!(outside.answers().len(), 1, "{told}");
                world.tree.stop().await;
            }
        }
    }
    assert!(escalated >= 8, "{escalated}: those whose timers and tasks always fail are above all");
}

/// Returns a command of a member; the number distinguishes commands.
pub(super) fn typing(number: u32) -> Typing {
    Typing {
        callback: Callback {
            id: message(&number.to_string()),
            application: "1".to_owned(),
            token: CallbackToken::new("secret".to_owned()),
        },
        name: "model".to_owned(),
        option: "model".to_owned(),
        typed: String::new(),
        caller: Caller {
            person: person("9"),
            name: "nine".to_owned(),
            roles: Vec::new(),
            locale: None,
            operator: false,
        },
    }
}

impl World {
    /// Sends the inputs of members and operators other than questions, once a second.
    fn speaking(&self) -> JoinHandle<()> {
        let handles = self.handles.clone();
        tokio::spawn(async move {
            for number in 0_u32.. {
                // An actor that is down receives the next one.
                handles.presence_scheduler.tell(PresenceMsg::Refresh);
                handles.summaries.tell(saved());
                handles.config_watcher.tell(ConfigWatcherMsg::Reload);
                handles.tools.tell(ToolsMsg::Refresh);
                handles.restriction_sweeper.tell(SweeperMsg::Spoke(Arc::new(turn("5", "9", "44"))));
                handles.commands.tell(CommandsMsg::Suggest(Box::new(typing(number))));
                handles.discord.tell(DiscordMsg::StartShards(1));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn poison_ends_neither_the_process_nor_the_service_of_others_whoever_it_breaks() {
    for (row, path) in every_actor().await {
        let (log, outside) = (Log::capture(), Outside { others_ask: true, ..Outside::asked() });
        let poison = Poison {
            path: path.clone(),
            chosen: Mutex::default(),
            left: AtomicUsize::new(8),
            met: AtomicUsize::new(0),
        };
        let poison = Arc::new(poison);
        let mut world = life(&outside, Arc::clone(&poison) as _).await;
        let speaking = world.speaking();
        assert!(!world.passes(Duration::from_secs(240), &outside).await, "{path} ended the process");
        speaking.abort();
        assert!(log.of("actor.escalated").is_empty(), "{path}");
        let met = poison.met.load(Ordering::SeqCst);
        // No shard identifies here, the intake is not used or belongs to the other door, and the other actors have no
        // messages.
        let without_messages = matches!(
            row.kind,
            ActorKind::Ops
                | ActorKind::Listener
                | ActorKind::Reporter
                | ActorKind::Timers
                | ActorKind::Source
                | ActorKind::Slack
                | ActorKind::SlackSocket
                | ActorKind::IdentifyQueue
                | ActorKind::Approvals
                | ActorKind::Providers
        );
        let told_nothing = without_messages || [CLUB, SQUARE].iter().any(|door| path.ends_with(door.as_str()));
        assert_eq!(met == 0, told_nothing, "{path}: {met}");
        if poison.chosen.lock().is_some() {
            assert!(met >= 3, "{path}: {met}");
        }
        if row.restart != Restart::Temporary {
            let stats = world.roster.find(&path).unwrap();
            assert_eq!(stats.life().state, LifeState::Running, "{path}");
            assert_eq!(stats.restarts.load(Ordering::SeqCst), met as u64, "{path}");
        }
        let said = outside.said.lock().len() - 1;
        let answered = outside.poster.ours(&place("43")).len();
        println!("{path}: failed {met} times, answered {answered} of {said} others");
        // One message may be the poison itself, and the last ones may not have been forwarded again yet.
        assert!(answered + 12 >= said, "{path}: {answered} of {said}");
        world.tree.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_is_killed_at_its_deadline_and_the_others_stop_in_order() {
    for (row, path) in every_actor().await {
        let (log, outside, breaks) = (Log::capture(), Outside::asked(), Breaks::new(&path, Fault::Hang));
        breaks.next(1);
        let mut world = life(&outside, Arc::clone(&breaks) as _).await;
        for _ in 0..300 {
            assert!(!world.passes(Duration::from_millis(100), &outside).await, "{path}");
            if breaks.met.load(Ordering::SeqCst) == 1 {
                break;
            }
        }
        assert_eq!(breaks.met.load(Ordering::SeqCst), 1, "{path}");
        let begun = Instant::now();
        world.tree.stop().await;
        let took = begun.elapsed();
        assert!(took >= row.stop_timeout && took < row.stop_timeout + Duration::from_secs(1), "{path}: {took:?}");
        let stopped = log.of("actor.stopped").into_iter();
        let killed = stopped.filter(|line| line.get("reason").is_some_and(|reason| reason == "killed at its deadline"));
        assert_eq!(killed.map(|line| line["actor"].clone()).collect::<Vec<_>>(), [path], "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_in_service_is_killed_and_restarted_and_the_question_is_answered_once() {
    for (row, path) in every_actor().await {
        let (log, outside, breaks) = (Log::capture(), Outside::asked(), Breaks::new(&path, Fault::Hang));
        breaks.next(1);
        let mut world = life(&outside, Arc::clone(&breaks) as _).await;
        assert!(!world.passes(Duration::from_secs(180), &outside).await, "{path}");
        assert_eq!(breaks.met.load(Ordering::SeqCst), 1, "{path}");
        assert_eq!(log.column("actor.hung", "actor"), [path.as_str()]);
        assert_eq!(log.column("actor.failed", "actor"), [path.as_str()]);
        if row.restart != Restart::Temporary {
            assert_eq!(world.roster.find(&path).unwrap().life().state, LifeState::Running, "{path}");
        }
        assert_eq!(outside.answers(), ["fine"], "{path}");
        world.tree.stop().await;
    }
}

/// Breaks every actor of the tree.
struct AllHang;

impl Faults for AllHang {
    fn before(&self, _path: &str, _input: Input) -> Option<Fault> {
        Some(Fault::Hang)
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_hangs_as_a_whole_is_killed_at_the_deadline_of_its_root() {
    let world = life(&Outside::new(), Arc::new(AllHang)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let begun = Instant::now();
    world.tree.stop().await;
    assert_eq!(begun.elapsed().as_secs(), TREE.stop_timeout.as_secs());
}
