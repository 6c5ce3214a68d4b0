//! The questions to people and their outcomes, with probes for the journal and the outbox.

use tokio::time::Instant;

use super::*;
use crate::messages::outbox::{Delivery, OutboxMsg};
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::outbox::Outboxes;
use crate::services::own_ranges::OwnRanges;
use crate::testing::{DOOR, Inbox, LEAF, LONG, Stage, Tree, at, message, row, settle, turn, usual};
use domain::arguments_hash::ArgumentsHash;
use domain::caller::{Callback, CallbackToken, Caller};
use domain::delivery::Form;
use domain::ending::Unposted;
use domain::gate::{Click, Clicker};
use domain::ids::Person;
use domain::outgoing::Medium;
use domain::outgoing::Piece;
use domain::ownership::Portions;
use domain::rejection::Rejection;
use ports::testing::{FixedDice, ManualClock, MemoryStore};
use ports::{PostRequest, PostResult};

const HOUR: u64 = 3_600_000;

struct World {
    approvals: Handle<ApprovalsMsg>,
    journal: Inbox<JournalMsg>,
    outbox: Inbox<OutboxMsg>,
    allowances: Arc<Allowances>,
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    /// The ranges of turns that other processes took over.
    fence: watch::Sender<Vec<Range>>,
    _tree: Tree,
}

/// An approvals actor at its start, with this store.
async fn beginning(store: MemoryStore) -> World {
    let (approvals, journal, outbox) = (at("approvals"), at("journal"), at("outbox"));
    let (fence, fenced) = watch::channel(Vec::new());
    let (store, clock, allowances) = (Arc::new(store), Arc::new(ManualClock::new()), Arc::<Allowances>::default());
    let audit = Arc::new(Audit::new(Arc::clone(&store) as _, Arc::clone(&clock) as _, usual(), Arc::default()));
    let actor = Approvals {
        store: Arc::clone(&store) as _,
        clock: Arc::clone(&clock) as _,
        journal: journal.clone(),
        ways: Ways {
            outboxes: Outboxes::new(vec![(DOOR, Medium::Messages, outbox.clone())]),
            dice: Arc::new(FixedDice::new(0.5)),
            events: TurnEvents::default(),
            observers: Observers::new([Arc::clone(&audit) as _]),
        },
        toolbox: Arc::default(),
        allowances: Arc::clone(&allowances),
        audit,
        fenced,
        ranges: OwnRanges::new(Portions::WHOLE),
    };
    let mut stage = Stage::new();
    let (journal, outbox) = (stage.probe(&journal), stage.probe(&outbox));
    stage.actor(row(LEAF), &approvals, actor);
    let tree = stage.go().await;
    World { approvals, journal, outbox, allowances, store, clock, fence, _tree: tree }
}

/// An approvals actor that has loaded an empty state.
async fn world() -> World {
    let mut world = beginning(MemoryStore::new()).await;
    world.loads().await.send(Vec::new()).unwrap();
    settle().await;
    world
}

fn gate(id: &str) -> Gate {
    let (turn, hash) = (turn(id, "7", "42"), ArgumentsHash("ab".to_owned()));
    Gate {
        id: GateId::draw([0.5; 4], &turn.id, &hash, Timestamp(0)),
        turn: turn.id,
        place: turn.place,
        requester: turn.person,
        unattended: false,
        locale: None,
        approvers: Vec::new(),
        tool: "fm__delete".to_owned(),
        hash,
        arguments: r#"{"path": "secret.txt"}"#.to_owned(),
        subject: domain::gate::Subject::Approval,
        asked_at: crate::testing::BEGINNING,
        expires_at: Timestamp(crate::testing::BEGINNING.0 + HOUR),
    }
}

fn click(gate: &Gate, who: &str, choice: Choice) -> Click {
    let person = Person::new(DOOR, who);
    let caller = Caller { person, name: String::new(), roles: Vec::new(), locale: None, operator: false };
    Click {
        gate: gate.id.clone(),
        choice,
        answers: serde_json::Map::new(),
        by: Clicker::Member(caller),
        place: None,
        callback: None,
    }
}

/// A click of member 7 whose response the platform expects.
fn pressed(gate: &Gate) -> Click {
    let callback =
        Callback { id: message("77"), application: String::new(), token: CallbackToken::new("t".to_owned()) };
    Click { callback: Some(callback), place: Some(gate.place.clone()), ..click(gate, "7", Choice::Once) }
}

impl World {
    /// The request to the journal for pending gates.
    async fn loads(&mut self) -> Reply<Vec<Waiting>> {
        loop {
            if let JournalMsg::Waiting(reply) = self.journal.next().await {
                return reply;
            }
        }
    }

    fn ask(&self, gate: &Gate) {
        self.approvals.cast(ApprovalsMsg::Ask(Box::new(Waiting { gate: gate.clone(), posted: None }))).unwrap();
    }

    fn gone(&self, gate: &Gate) {
        self.approvals.cast(ApprovalsMsg::Gone(Box::new(Waiting { gate: gate.clone(), posted: None }))).unwrap();
    }

    /// The next question being posted.
    async fn posts(&mut self) -> Reply<Result<Delivery, Unposted>> {
        loop {
            if let OutboxMsg::Post { reply, .. } = self.outbox.next().await {
                return reply;
            }
        }
    }

    /// Returns the next decision to record, and confirms the record.
    async fn records(&mut self) -> ApprovalDecision {
        loop {
            if let JournalMsg::Decided(decided, reply) = self.journal.next().await {
                reply.send(true).unwrap();
                return decided.decision;
            }
        }
    }

    /// Returns the replacement of a question.
    async fn rewrites(&mut self) -> Option<Piece> {
        while let Some(message) = self.outbox.now().await {
            if let OutboxMsg::Read(PostRequest::Edit { piece, .. }, _) = message {
                return Some(piece);
            }
        }
        None
    }

    async fn decides(&self, click: Click) -> Result<ApprovalDecision, ClickRefusal> {
        let ask = |reply| ApprovalsMsg::Decide(Box::new(click), Some(reply));
        self.approvals.call(ask, LONG).await.unwrap()
    }
}

fn posted() -> Delivery {
    Delivery { posted: vec![message("77")], first_visible: Instant::now(), doubled: false, form: Form::Whole }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_posted_after_it_was_taken_back_keeps_neither_words_nor_buttons() {
    let mut world = world().await;
    let gate = gate("10");
    world.ask(&gate);
    let on_its_way = world.posts().await;
    world.gone(&gate);
    assert_eq!(world.rewrites().await, None, "it stands nowhere yet");
    on_its_way.send(Ok(posted())).unwrap();
    let piece = world.rewrites().await.expect("it is rewritten");
    assert!(piece.buttons.is_empty() && !piece.text.contains("secret.txt"), "{piece:?}");
}

#[tokio::test(start_paused = true)]
async fn the_questions_of_a_door_that_another_process_owns_are_left_as_they_are() {
    let mut world = world().await;
    let gate = gate("10");
    world.ask(&gate);
    world.posts().await.send(Ok(posted())).unwrap();
    settle().await;
    world.fence.send_replace(vec![Range::Door(DOOR)]);
    world.gone(&gate);
    world.approvals.cast(ApprovalsMsg::Decide(Box::new(pressed(&gate)), None)).unwrap();
    settle().await;
    assert!(world.outbox.now().await.is_none(), "neither an edit nor a response to the click");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_posted_after_it_was_decided_shows_the_decision() {
    let mut world = world().await;
    let gate = gate("10");
    world.ask(&gate);
    let on_its_way = world.posts().await;
    let (decided, recorded) = tokio::join!(
        world
            .approvals
            .call(|reply| ApprovalsMsg::Decide(Box::new(click(&gate, "7", Choice::Once)), Some(reply)), LONG),
        async {
            loop {
                if let JournalMsg::Decided(decided, reply) = world.journal.next().await {
                    reply.send(true).unwrap();
                    return decided.decision;
                }
            }
        }
    );
    assert_eq!(decided.unwrap(), Ok(recorded));
    on_its_way.send(Ok(posted())).unwrap();
    let piece = world.rewrites().await.expect("it is rewritten");
    assert!(piece.buttons.is_empty() && piece.text.contains("Approved by <@7>"), "{piece:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_posted_whole_counts_as_not_asked() {
    let mut world = world().await;
    world.ask(&gate("10"));
    world.posts().await.send(Err(Unposted::Rejected(Rejection::Content, "no files".to_owned()))).unwrap();
    assert_eq!(world.records().await, ApprovalDecision::NotAsked);
}

#[tokio::test(start_paused = true)]
async fn until_what_waits_is_known_nobody_is_told_that_there_is_nothing_to_decide() {
    let mut world = beginning(MemoryStore::new()).await;
    let reply = world.loads().await;
    assert_eq!(world.decides(click(&gate("10"), "7", Choice::Once)).await, Err(ClickRefusal::NotRecorded));
    reply.send(Vec::new()).unwrap();
    settle().await;
    assert_eq!(world.decides(click(&gate("10"), "7", Choice::Once)).await, Err(ClickRefusal::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_members_click_waits_for_what_is_being_loaded() {
    let mut world = beginning(MemoryStore::new()).await;
    let (gate, load) = (gate("10"), world.loads().await);
    world.approvals.cast(ApprovalsMsg::Decide(Box::new(pressed(&gate)), None)).unwrap();
    let OutboxMsg::Interact(PostRequest::Defer(_), deferred) = world.outbox.next().await else {
        panic!("the response is deferred")
    };
    deferred.send(Ok(PostResult::Done)).unwrap();
    settle().await;
    assert!(world.outbox.now().await.is_none(), "the click is neither decided nor refused");
    load.send(vec![Waiting { gate, posted: Some(message("78")) }]).unwrap();
    assert!(matches!(world.records().await, ApprovalDecision::Approved { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_member_who_clicks_without_end_leaves_responses_for_others() {
    let mut world = world().await;
    let mut clicks = 0..;
    let mut presses = |who: &str| {
        let id = format!("9{}", clicks.next().unwrap_or(0));
        let callback =
            Callback { id: message(&id), application: String::new(), token: CallbackToken::new("t".to_owned()) };
        let gate = gate("10");
        let click =
            Click { callback: Some(callback), place: Some(gate.place.clone()), ..click(&gate, who, Choice::Once) };
        world.approvals.cast(ApprovalsMsg::Decide(Box::new(click), None)).unwrap();
    };
    (0..CLICKS_MAX).for_each(|_| presses("7"));
    presses("8");
    settle().await;
    let mut deferred = Vec::new();
    while let Some(message) = world.outbox.now().await {
        if let OutboxMsg::Interact(PostRequest::Defer(callback), reply) = message {
            deferred.push((callback.id.id.to_string(), reply));
        }
    }
    assert_eq!(deferred.len(), CLICKS_MAX / 2 + 1);
    assert_eq!(deferred.last().map(|(id, _)| id.clone()), Some(format!("9{CLICKS_MAX}")));
    drop(deferred);
}

#[tokio::test(start_paused = true)]
async fn an_allowance_that_is_taken_back_while_it_is_read_stays_taken_back() {
    let clicker = click(&gate("10"), "7", Choice::Hour).by;
    let allowance = Allowance::of(&gate("10"), &clicker, crate::testing::BEGINNING);
    let store = MemoryStore::new();
    store.put(keys::allowance(&allowance.id), serde_json::to_string(&allowance).unwrap());
    let mut world = beginning(store).await;
    let reply = world.loads().await;
    let which = Withdrawal::One { id: allowance.id.clone(), by: Person::new(DOOR, "1"), any: true };
    let gone = world.approvals.call(|reply| ApprovalsMsg::Withdraw(which, reply), LONG).await;
    assert_eq!(gone, Ok(0), "it is not known yet");
    reply.send(Vec::new()).unwrap();
    settle().await;
    assert_eq!(world.allowances.now(world.clock.now()), []);
    assert!(
        !world.store.entries.lock().contains_key(&keys::allowance(&allowance.id)),
        "nor is it read by a later life"
    );
}

#[tokio::test(start_paused = true)]
async fn allowances_that_the_store_cannot_list_at_the_start_are_read_again() {
    let clicker = click(&gate("10"), "7", Choice::Hour).by;
    let allowance = Allowance::of(&gate("10"), &clicker, crate::testing::BEGINNING);
    let store = MemoryStore::new();
    store.put(keys::allowance(&allowance.id), serde_json::to_string(&allowance).unwrap());
    store.short_scans.store(1, std::sync::atomic::Ordering::SeqCst);
    let mut world = beginning(store).await;
    world.loads().await.send(Vec::new()).unwrap();
    settle().await;
    assert_eq!(world.allowances.now(world.clock.now()), []);
    world.loads().await.send(Vec::new()).unwrap();
    settle().await;
    assert_eq!(world.allowances.now(world.clock.now()), [allowance]);
}

#[tokio::test(start_paused = true)]
async fn nobody_decided_in_time_and_the_place_of_the_question_says_so() {
    let mut world = world().await;
    let gate = gate("10");
    world.ask(&gate);
    world.posts().await.send(Ok(posted())).unwrap();
    settle().await;
    tokio::time::sleep(Duration::from_millis(HOUR) + LOOK_EVERY).await;
    assert_eq!(world.records().await, ApprovalDecision::Expired);
    assert!(world.rewrites().await.is_some_and(|piece| piece.text.contains("expired without a decision")));
    assert_eq!(world.decides(click(&gate, "7", Choice::Once)).await, Err(ClickRefusal::Unknown));
}
