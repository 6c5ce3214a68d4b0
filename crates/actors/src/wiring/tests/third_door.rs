//! A third door, built only from a record and rules, as for another platform: its own source, poster, capabilities and
//! policy. No file of another door mentions it.

use std::collections::VecDeque;

use async_trait::async_trait;

use super::failures::Breaks;
use super::*;
use crate::door::Doors;
use crate::services::running::{DoorRules, LimitScope};
use domain::ids::{Door, MessageId, Person, Place};
use domain::incoming::{Author, AuthorKind, Quoted};
use domain::outgoing::Capabilities;
use domain::restart::Backoff;
use domain::triage;
use domain::turn::{HistoryScope, Policy, ReplyContract};
use domain::turn_event::TurnUpdate;
use ports::testing::Say;
use ports::{
    EventSource, Fault, Intake, PostError, PostReply, PostRequest, PostResult, Poster, SourceError, TurnEventLog as _,
};

pub(super) const CLUB: Door = Door::new("club");
/// The duration of a connection to the club.
const LASTS: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The platform: messages that are not accepted yet, and all of our messages.
#[derive(Default)]
pub(super) struct Club {
    said: Mutex<VecDeque<Posted>>,
    posted: Mutex<Vec<(String, Posted)>>,
    /// The duration of a post.
    takes: Mutex<Duration>,
}

/// Returns the record of the door.
pub(super) fn record(club: &Arc<Club>) -> DoorRecord {
    DoorRecord {
        door: CLUB,
        source: Source::Connection(Arc::clone(club) as _),
        poster: Arc::clone(club) as _,
        attachments: Arc::new(NoFiles),
        pacing: Pacing::default(),
        registers_commands: false,
    }
}

/// A door with two connections, of which either may receive an event.
pub(super) const SQUARE: Door = Door::new("square");

/// Returns the record of the door with two connections.
pub(super) fn square() -> DoorRecord {
    let source = Source::Sockets(vec![Arc::new(Quiet), Arc::new(Quiet)]);
    DoorRecord { door: SQUARE, source, ..record(&Arc::default()) }
}

/// A connection that stays open and delivers nothing.
struct Quiet;

#[async_trait]
impl EventSource for Quiet {
    async fn run(&self, _intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        serving();
        std::future::pending().await
    }

    fn pauses(&self) -> Backoff {
        Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(1) }
    }
}

/// Returns the operator's rules: plain text, no memory.
pub(super) fn rules() -> DoorRules {
    let policy = Policy { reply: ReplyContract::Plain, history: HistoryScope::Nothing, ..Policy::default() };
    let triage = triage::TriageRules { direct_messages: true, policy, ..triage::TriageRules::default() };
    DoorRules { triage, limits: LimitScope::Base }
}

fn table() -> Place {
    Place::new(CLUB, "T-1")
}

fn us() -> Person {
    Person::new(CLUB, "B-0")
}

impl Club {
    fn says(&self, id: &str, text: &str) {
        let author = Author { person: Person::new(CLUB, "U-7"), ..mention("1", "7", "42").author };
        let posted = Posted {
            id: MessageId::new(CLUB, id),
            place: table(),
            guild: None,
            author,
            text: text.to_owned(),
            ..mention("1", "7", "42")
        };
        self.said.lock().push_back(posted);
    }

    fn ours(&self) -> Vec<String> {
        self.posted.lock().iter().map(|(_, posted)| posted.text.clone()).collect()
    }

    fn create(&self, text: &str, reply_to: Option<&MessageId>, nonce: &str) -> MessageId {
        let mut posted = self.posted.lock();
        if let Some((_, known)) = posted.iter().find(|(known, _)| known == nonce) {
            return known.id.clone();
        }
        let id = MessageId::new(CLUB, format!("M-{}", posted.len()));
        let author = Author { person: us(), kind: AuthorKind::Ourselves, ..mention("1", "7", "42").author };
        let reply_to = reply_to.map(|id| Quoted { id: id.clone(), seen: None });
        let (place, text) = (table(), text.to_owned());
        let message = Posted { id: id.clone(), place, author, text, reply_to, ..mention("1", "7", "42") };
        posted.push((nonce.to_owned(), message));
        id
    }
}

#[async_trait]
impl EventSource for Club {
    async fn run(&self, intake: Arc<dyn Intake>, serving: Box<dyn Fn() + Send + Sync>) -> SourceError {
        serving();
        let begun = Instant::now();
        while begun.elapsed() < LASTS {
            let next = self.said.lock().front().cloned();
            let Some(posted) = next else {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            };
            match intake.accept(Incoming::Posted(posted), us()).await {
                Ok(()) => drop(self.said.lock().pop_front()),
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
        SourceError::Unreachable("the line was cut".to_owned())
    }

    fn pauses(&self) -> Backoff {
        Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30) }
    }
}

#[async_trait]
impl Poster for Club {
    fn capabilities(&self) -> Capabilities {
        Capabilities::replies(60)
    }

    async fn perform(&self, request: &PostRequest) -> Result<PostReply, PostError> {
        let takes = *self.takes.lock();
        tokio::time::sleep(takes).await;
        let result = match request {
            PostRequest::Create { piece, reply_to, nonce, .. } => {
                PostResult::Message(self.create(&piece.text, reply_to.as_ref(), nonce))
            }
            PostRequest::Edit { message, .. } => PostResult::Message(message.clone()),
            PostRequest::History { .. } => {
                PostResult::Messages(self.posted.lock().iter().map(|(_, posted)| posted.clone()).collect())
            }
            _ => PostResult::Done,
        };
        Ok(PostReply { result, bucket: None })
    }
}

async fn world(variables: &[(&str, &str)], faults: Arc<dyn Faults>) -> (World, Outside, Arc<Club>) {
    let (outside, club) = (Outside::new(), Arc::new(Club::default()));
    let world = life_with(&outside, faults, variables, Arc::clone(&club)).await;
    (world, outside, club)
}

/// Returns the events sent to clients at the table, without their content.
fn told(world: &World) -> Vec<&'static str> {
    let name = |update: &TurnUpdate| match update {
        TurnUpdate::Accepted => "accepted",
        TurnUpdate::Queued { .. } => "queued",
        TurnUpdate::Final { .. } => "final",
        TurnUpdate::Apology { .. } => "apology",
        TurnUpdate::Done { .. } => "done",
        TurnUpdate::Draft { .. } | TurnUpdate::Tool { .. } | TurnUpdate::Gate { .. } | TurnUpdate::Task { .. } => {
            "more"
        }
    };
    world.events.read(&table(), 0).unwrap().events.iter().map(|event| name(&event.update)).collect()
}

#[tokio::test(start_paused = true)]
async fn it_answers_in_its_own_form_over_connections_that_end() {
    let (world, outside, club) = world(&[], Arc::new(NoFaults)).await;
    for (id, answer) in
        [("Q-1", "Just words."), ("Q-2", "A longer answer, which has to be cut in two for this small room.")]
    {
        world.models.say(Say::Plain(answer));
        club.says(id, "what is there to drink?");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let ours = club.ours();
    assert_eq!(ours[0], "Just words.");
    assert!(ours.len() == 3 && ours.iter().all(|text| text.chars().count() <= 60), "{ours:?}");
    assert_eq!(told(&world), ["accepted", "final", "done", "accepted", "final", "done"]);
    assert_eq!(world.store.json("staffai:turn:club:Q-1").unwrap()["state"], "closed");
    assert!(
        outside.answers().is_empty()
            && outside.poster.count(|request| matches!(request, PostRequest::Create { .. })) == 0
    );
    world.tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn its_members_have_limits() {
    // Without a status line, which a model writes too.
    let variables = [("RATE_LIMIT_COUNT", "1"), ("ACTIVITY_UPDATE_INTERVAL_SECONDS", "0")];
    let (world, _, club) = world(&variables, Arc::new(NoFaults)).await;
    world.models.say(Say::Plain("Just words."));
    for id in ["Q-1", "Q-2"] {
        club.says(id, "what is there to drink?");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(told(&world), ["accepted", "final", "done", "accepted", "apology", "done"]);
    assert_eq!(world.models.asked.lock().len(), 1);
    world.tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_its_outbox_concerns_its_turns_alone() {
    let (log, breaks) = (Log::capture(), Breaks::new("staffai/outbox:club", Fault::Panic));
    let (mut world, outside, club) = world(&[], Arc::clone(&breaks) as _).await;
    *club.takes.lock() = Duration::from_secs(5);
    outside.poster.slow(place("42"), Duration::from_secs(5));
    let connection = world.connected().await;
    settle().await;
    ask(&connection, 2, "10");
    world.models.say(Say::Text("fine"));
    settle().await;
    world.models.say(Say::Plain("Just words."));
    club.says("Q-1", "what is there to drink?");
    tokio::time::sleep(Duration::from_secs(4)).await;
    // Both answers are being posted.
    world.models.takes(Duration::from_secs(60));
    breaks.next(1);
    club.says("Q-2", "and to eat?");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(log.column("actor.failed", "actor"), ["staffai/outbox:club"]);
    assert_eq!(log.column("turn.resumed", "turn"), ["club:Q-1"]);
    assert_eq!((club.ours(), outside.answers()), (vec!["Just words.".to_owned()], vec!["fine".to_owned()]));
    world.tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_door_without_rules_does_not_start() {
    let club = Arc::new(Club::default());
    let record = || record(&club);
    let named = |name: &'static str| DoorRecord { door: Door::new(name), ..record() };
    let bad = |records: Vec<DoorRecord>| Doors::new(records).err().unwrap().to_string();
    assert_eq!(bad(vec![record(), record()]), "the door 'club' is there twice");
    assert!(bad(vec![named("a:b")]).contains("needs a name"));
    let running = crate::testing::running(&[], Arc::new(ScriptedModels::new(&["main"])));
    let doors = Doors::new(vec![record()]).unwrap();
    assert_eq!(doors.check(&running, &CLUB).unwrap_err().to_string(), "there are no rules for the door 'club'");
    assert_eq!(doors.check(&running, &DOOR).unwrap_err().to_string(), "there is no door 'discord'");
}
