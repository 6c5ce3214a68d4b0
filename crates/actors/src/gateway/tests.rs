use tokio::sync::mpsc;

use tokio::sync::Semaphore;

use super::*;
use crate::messages::receipt::Outcome as Told;
use crate::observation::board::PartKind;
use crate::observers::Observers;
use crate::services::busy::BUSY_NOTICE_EVERY;
use crate::services::facts::FactKeeper;
use crate::testing::log::Log;
use crate::testing::{DOOR, Inbox, LEAF, Stage, Tree, at, live, mention, message, row, settle, us, usual};
use domain::ending::Dropped;
use domain::incoming::Deletion;
use domain::locale::Locale;
use domain::outgoing::Medium;
use domain::people::Links;
use domain::restriction::Member;
use ports::TurnEventLog;
use ports::testing::{ManualClock, MemoryStore, ScriptedModels};

struct World {
    gateway: Handle<GatewayMsg>,
    journal: Inbox<JournalMsg>,
    outbox: Inbox<OutboxMsg>,
    board: Arc<Board>,
    told: mpsc::UnboundedSender<Told>,
    receipts: mpsc::UnboundedReceiver<Told>,
    events: TurnEvents,
    permits: Arc<Semaphore>,
    _tree: Tree,
}

async fn world(permits: usize) -> World {
    world_of(permits, Medium::Replies).await
}

/// Returns a gateway with this number of permits, and a door of this medium.
async fn world_of(permits: usize, medium: Medium) -> World {
    let (gateway, journal, outbox) = (at("gateway"), at("journal"), at("outbox"));
    let mut stage = Stage::new();
    let (accepted, heard) = (stage.probe(&journal), stage.probe(&outbox));
    let permits = Arc::new(Semaphore::new(permits));
    let outboxes = Outboxes::new(vec![(DOOR, medium, outbox)]);
    let actor = gateway_with(Shares::new(Arc::clone(&permits)), journal, outboxes);
    let (board, events) = (Arc::clone(&actor.board), actor.events.clone());
    stage.actor(row(LEAF), &gateway, actor);
    let tree = stage.go().await;
    let (told, receipts) = mpsc::unbounded_channel();
    World { gateway, journal: accepted, outbox: heard, board, events, told, receipts, permits, _tree: tree }
}

fn outboxes(outbox: Handle<OutboxMsg>) -> Outboxes {
    Outboxes::new(vec![(DOOR, Medium::Replies, outbox)])
}

fn gateway_with(permits: Shares, journal: Handle<JournalMsg>, outboxes: Outboxes) -> Gateway {
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryStore::new());
    let sweeper = at("restriction_sweeper");
    let facts =
        FactKeeper::new(Arc::clone(&store) as _, Arc::clone(&clock) as _, || usual().now().settings.memory.bounds());
    Gateway {
        acts: Arc::default(),
        live: usual(),
        facts: Arc::new(facts),
        permits,
        journal,
        sweeper,
        approvals: at("approvals"),
        outboxes,
        commands: at("commands"),
        events: TurnEvents::new(vec![DOOR], Arc::clone(&clock) as _),
        observers: Observers::default(),
        busy: Arc::default(),
        clock,
        board: Arc::default(),
        store,
        interjections: Arc::default(),
        restricted: Arc::default(),
    }
}

impl World {
    fn receive(&self, incoming: Incoming) {
        let told = self.told.clone();
        let receipt = Receipt::new(move |outcome| {
            let _ = told.send(outcome);
        });
        self.gateway.cast(GatewayMsg::Received(Box::new(incoming), us(), receipt)).unwrap();
    }

    async fn told(&mut self) -> Option<Told> {
        settle().await;
        self.receipts.try_recv().ok()
    }
}

#[tokio::test(start_paused = true)]
async fn a_mention_becomes_a_turn_with_its_receipt_and_a_permit() {
    let mut world = world(1).await;
    world.receive(Incoming::Posted(mention("10", "7", "42")));
    let Some(JournalMsg::Accept(accepted)) = world.journal.now().await else { panic!("no turn came") };
    assert_eq!((accepted.turn.id.to_string().as_str(), accepted.turn.text.as_str()), ("discord:10", "what is up?"));
    assert!(accepted.answer.is_none());
    assert_eq!(world.told().await, None, "the journal settles it");
    accepted.receipt.settle();
    assert_eq!(world.told().await, Some(Told::Settled));
}

#[tokio::test(start_paused = true)]
async fn a_mention_without_words_is_answered_by_a_hint() {
    let mut world = world(1).await;
    let mut bare = mention("10", "7", "42");
    bare.text = "<@1>".into();
    world.receive(Incoming::Posted(bare));
    let Some(JournalMsg::Accept(accepted)) = world.journal.now().await else { panic!("no turn came") };
    assert_eq!(accepted.answer.map(|answer| answer.outcome), Some(Outcome::Hinted));
}

#[tokio::test(start_paused = true)]
async fn mentions_without_words_get_only_so_many_hints() {
    let (log, mut world) = (Log::capture(), world(100).await);
    let bare =
        |id: u32, from: &str| Incoming::Posted(Posted { text: "<@1>".into(), ..mention(&id.to_string(), from, "42") });
    for id in 0..HINTS_MAX + 2 {
        world.receive(bare(100 + id, "7"));
    }
    world.receive(bare(200, "8"));
    let mut hinted = 0;
    while world.journal.now().await.is_some() {
        hinted += 1;
    }
    assert_eq!(hinted, HINTS_MAX + 1, "another person has hints of their own");
    assert_eq!(log.column("gateway.dropped", "reason"), ["hinted_enough"; 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_for_us_is_settled_at_once() {
    let (log, mut world) = (Log::capture(), world(1).await);
    let mut chatter = mention("10", "7", "42");
    chatter.mentions_us = false;
    chatter.text = "good morning".into();
    world.receive(Incoming::Posted(chatter));
    assert_eq!(world.told().await, Some(Told::Settled));
    assert!(world.journal.now().await.is_none());
    assert_eq!(log.column("gateway.dropped", "reason"), ["not_addressed"]);
}

#[tokio::test(start_paused = true)]
async fn above_the_bound_turns_are_shed_with_one_notice_a_minute_for_each_person() {
    let mut world = world(0).await;
    for id in ["10", "11"] {
        world.receive(Incoming::Posted(mention(id, "7", "42")));
    }
    world.receive(Incoming::Posted(mention("12", "8", "42")));
    assert_eq!(world.told().await, Some(Told::Settled));
    let mut about = Vec::new();
    while let Some(OutboxMsg::Notify { about: id, text, .. }) = world.outbox.now().await {
        assert_eq!(text, notice::busy(Locale::English));
        about.push(id.id);
    }
    assert_eq!(about, ["10", "12"]);
    tokio::time::sleep(BUSY_NOTICE_EVERY).await;
    world.receive(Incoming::Posted(mention("13", "7", "42")));
    assert!(world.outbox.now().await.is_some());
    assert!(world.journal.now().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn one_person_never_holds_all_open_turns() {
    let mut world = world(8).await;
    let mut held = Vec::new();
    for (person, most) in [("7", 4), ("8", 2), ("9", 1)] {
        for id in 0..8 {
            world.receive(Incoming::Posted(mention(&format!("{person}{id}"), person, &id.to_string())));
        }
        let before = held.len();
        while let Some(JournalMsg::Accept(accepted)) = world.journal.now().await {
            held.push(accepted);
        }
        assert_eq!(held.len() - before, most, "the share of person {person}");
        assert!(world.outbox.now().await.is_some(), "the person gets the busy notice for the rest");
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_along_learns_of_a_turn_that_was_shed_without_a_notice() {
    let mut world = world(0).await;
    for id in ["10", "11"] {
        world.receive(Incoming::Posted(mention(id, "7", "42")));
        settle().await;
    }
    assert!(world.outbox.now().await.is_some(), "the notice about the first one, which the outbox publishes");
    let told = world.events.read(&crate::testing::place("42"), 0).unwrap().events;
    let told: Vec<_> = told.iter().map(|event| (event.turn.id.as_str(), event.update.clone())).collect();
    assert_eq!(told, [("11", TurnUpdate::unanswered(Dropped::NotTaken))]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_turned_away_and_asks_again_under_the_same_id_is_taken() {
    let mut world = world(0).await;
    for _ in 0..2 {
        world.receive(Incoming::Posted(mention("10", "7", "42")));
        assert_eq!(world.told().await, Some(Told::Settled));
        assert!(world.journal.now().await.is_none());
    }
    world.permits.add_permits(1);
    world.receive(Incoming::Posted(mention("10", "7", "42")));
    let Some(JournalMsg::Accept(accepted)) = world.journal.now().await else { panic!("it is not taken") };
    // The journal compares a message that is repeated under the same id.
    drop(accepted.permit);
    world.receive(Incoming::Posted(mention("10", "7", "42")));
    assert!(matches!(world.journal.now().await, Some(JournalMsg::Accept(again)) if again.turn.id == accepted.turn.id));
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_message_is_answered_as_its_first_one_was() {
    let (log, mut world) = (Log::capture(), world_of(0, Medium::Messages).await);
    world.receive(Incoming::Posted(mention("10", "7", "42")));
    assert_eq!(world.told().await, Some(Told::Settled));
    assert!(world.outbox.now().await.is_some(), "its member is told that there is too much to do");
    world.permits.add_permits(1);
    world.receive(Incoming::Posted(mention("10", "7", "42")));
    assert_eq!(world.told().await, Some(Told::Settled));
    assert_eq!(log.column("gateway.dropped", "reason"), ["repeated"]);
    assert!(world.journal.now().await.is_none(), "who was told so is not answered after that");

    world.receive(Incoming::Posted(mention("11", "7", "42")));
    let Some(JournalMsg::Accept(accepted)) = world.journal.now().await else { panic!("it is not taken") };
    world.receive(Incoming::Posted(mention("11", "7", "42")));
    assert_eq!(
        world.told().await,
        Some(Told::Returned),
        "its copy comes back until the journal has room to compare it"
    );
    assert!(world.outbox.now().await.is_none() && world.journal.now().await.is_none());
    drop(accepted);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_message_cancels_its_turn() {
    let mut world = world(1).await;
    world.receive(Incoming::Deleted(Deletion::of(message("10"))));
    let Some(JournalMsg::Cancel(id)) = world.journal.now().await else { panic!("nothing was cancelled") };
    assert_eq!(id.to_string(), "discord:10");
    assert_eq!(world.told().await, Some(Told::Settled));
}

#[tokio::test(start_paused = true)]
async fn while_the_journal_is_down_events_go_back() {
    let (gateway, journal, outbox) = (at("gateway"), at("journal"), at("outbox"));
    let mut stage = Stage::new();
    let permits = Arc::new(Semaphore::new(1));
    stage.actor(row(LEAF), &gateway, gateway_with(Shares::new(Arc::clone(&permits)), journal, outboxes(outbox)));
    let _tree = stage.go().await;
    let (told, mut receipts) = mpsc::unbounded_channel();
    for incoming in [Incoming::Posted(mention("10", "7", "42")), Incoming::Deleted(Deletion::of(message("10")))] {
        let told = told.clone();
        let receipt = Receipt::new(move |outcome| {
            let _ = told.send(outcome);
        });
        gateway.cast(GatewayMsg::Received(Box::new(incoming), us(), receipt)).unwrap();
    }
    settle().await;
    assert_eq!((receipts.try_recv(), receipts.try_recv()), (Ok(Told::Returned), Ok(Told::Returned)));
    assert_eq!(permits.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_bot_is_answered_so_often_in_its_window() {
    let (log, mut world) = (Log::capture(), world(100).await);
    let beep = |id: &str| {
        let mut beep = mention(id, "77", "42");
        beep.author.kind = AuthorKind::Bot;
        Incoming::Posted(beep)
    };
    let most = usual().now().settings.bots.max_turns;
    for number in 0..most + 3 {
        world.receive(beep(&(100 + number).to_string()));
    }
    let mut accepted = 0;
    while world.journal.now().await.is_some() {
        accepted += 1;
    }
    assert_eq!(accepted, most);
    assert_eq!(log.column("gateway.dropped", "reason"), ["pair_window"; 3]);
    world.receive(Incoming::Posted(mention("500", "7", "42")));
    assert!(world.journal.now().await.is_some(), "people are not concerned");
    tokio::time::sleep(usual().now().settings.bots.window).await;
    world.receive(beep("600"));
    assert!(world.journal.now().await.is_some());
}

/// Returns a message to the whole channel for which the random draws allow an interjection.
fn chatter(id: &str) -> Incoming {
    let draw = Some(Draw { consider: 0.0, deliver: 0.0 });
    let text = "the ferry is late".to_owned();
    Incoming::Posted(Posted { mentions_us: false, text, draw, ..mention(id, "7", "42") })
}

#[tokio::test(start_paused = true)]
async fn it_joins_in_only_while_all_is_well_and_nobody_hears_of_it_else() {
    let (log, mut world) = (Log::capture(), world(1).await);
    world.receive(chatter("10"));
    assert_eq!(world.told().await, Some(Told::Settled));
    assert!(world.journal.now().await.is_none(), "no door is open yet");
    world.board.up(PartKind::Shard, "discord:0");
    world.receive(chatter("11"));
    let Some(JournalMsg::Accept(accepted)) = world.journal.now().await else { panic!("it did not join in") };
    assert_eq!(accepted.turn.trigger, domain::turn::Trigger::Interjection);
    world.receive(chatter("12"));
    assert!(world.journal.now().await.is_none(), "no permit is free");
    drop(accepted);
    world.board.down(PartKind::Model, "main", "gone");
    world.receive(chatter("13"));
    world.board.up(PartKind::Model, "main");
    world.board.drain();
    world.receive(chatter("14"));
    assert!(world.journal.now().await.is_none() && world.outbox.now().await.is_none());
    assert_eq!(log.column("gateway.dropped", "reason"), ["unwell"; 4]);
}

#[tokio::test(start_paused = true)]
async fn where_we_may_not_answer_the_log_says_so_once_an_hour() {
    let (log, mut world) = (Log::capture(), world(1).await);
    for (id, to) in [("10", "42"), ("11", "42"), ("12", "43")] {
        let mut posted = mention(id, "7", to);
        posted.may_answer = false;
        world.receive(Incoming::Posted(posted));
    }
    assert_eq!(world.told().await, Some(Told::Settled));
    assert!(world.journal.now().await.is_none());
    assert_eq!(log.column("gateway.dropped", "reason"), ["no_permission"; 3]);
    assert_eq!(log.column("gateway.forbidden", "place"), ["discord:42", "discord:43"]);
}

#[tokio::test(start_paused = true)]
async fn a_direct_message_that_is_not_answered_is_logged_with_its_setting_once_an_hour() {
    let (log, mut world) = (Log::capture(), world(1).await);
    for id in ["10", "11"] {
        world.receive(Incoming::Posted(Posted { guild: None, ..mention(id, "7", "42") }));
    }
    assert_eq!(world.told().await, Some(Told::Settled));
    assert!(world.journal.now().await.is_none());
    assert_eq!(log.of("gateway.direct_ignored").len(), 1);
    assert_eq!(log.column("gateway.dropped", "reason"), ["direct_message"; 2]);
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_without_the_role_is_still_restricted() {
    let (gateway, journal) = (at("gateway"), at("journal"));
    let mut stage = Stage::new();
    let mut accepted = stage.probe(&journal);
    let mut actor = gateway_with(Shares::new(Arc::new(Semaphore::new(8))), journal, outboxes(at("outbox")));
    actor.sweeper = at("restriction_sweeper");
    let mut sweeper = stage.probe(&actor.sweeper);
    actor.live = live(
        &[("RESTRICTED_USER_ROLE_ID", "12"), ("RESTRICTED_CHANNEL_ID", "42")],
        Arc::new(ScriptedModels::new(&["main"])),
    );
    let member = Member { guild: "5".to_owned(), person: mention("1", "7", "42").author.person };
    actor.restricted.begin(member.clone(), Timestamp(1_000));
    stage.actor(row(LEAF), &gateway, actor);
    let _tree = stage.go().await;
    let says = |id: &str, to: &str, joined: u64| {
        let mut posted = mention(id, "7", to);
        posted.author.joined = Some(Timestamp(joined));
        let receipt = Receipt::new(|_| {});
        gateway.cast(GatewayMsg::Received(Box::new(Incoming::Posted(posted)), us(), receipt)).unwrap();
    };
    says("10", "43", 1_001);
    assert!(matches!(sweeper.now().await, Some(SweeperMsg::CameBack(back)) if back == member));
    assert!(matches!(sweeper.now().await, Some(SweeperMsg::Spoke(turn)) if turn.id.id == "10"));
    says("11", "42", 1_001);
    assert!(matches!(sweeper.now().await, Some(SweeperMsg::CameBack(_))));
    assert!(accepted.now().await.is_some(), "there they are answered");
    says("12", "43", 999);
    assert!(matches!(sweeper.now().await, Some(SweeperMsg::Lifted(stayed)) if stayed == member));
    assert!(sweeper.now().await.is_none() && accepted.now().await.is_some(), "a moderator took the role");
}

#[tokio::test(start_paused = true)]
async fn a_restriction_holds_for_a_linked_account_until_a_moderator_lifts_it() {
    let (gateway, journal) = (at("gateway"), at("journal"));
    let mut stage = Stage::new();
    let mut accepted = stage.probe(&journal);
    let mut actor = gateway_with(Shares::new(Arc::new(Semaphore::new(8))), journal, outboxes(at("outbox")));
    actor.sweeper = at("restriction_sweeper");
    let mut sweeper = stage.probe(&actor.sweeper);
    actor.live = live(
        &[("RESTRICTED_USER_ROLE_ID", "12"), ("RESTRICTED_CHANNEL_ID", "42")],
        Arc::new(ScriptedModels::new(&["main"])),
    );
    let [ada, other] = ["7", "8"].map(|id| mention("1", id, "42").author.person);
    let mut links = Links::default();
    links.link(&ada, &other).unwrap();
    actor.live.replace_links(links);
    let restricted = Arc::clone(&actor.restricted);
    restricted.begin(Member { guild: "5".to_owned(), person: ada.clone() }, Timestamp(1_000));
    stage.actor(row(LEAF), &gateway, actor);
    let _tree = stage.go().await;
    let mut says = async |id: &str, from: &str, to: &str| {
        let mut posted = mention(id, from, to);
        posted.author.joined = Some(Timestamp(999));
        let receipt = Receipt::new(|_| {});
        gateway.cast(GatewayMsg::Received(Box::new(Incoming::Posted(posted)), us(), receipt)).unwrap();
        match accepted.now().await {
            Some(JournalMsg::Accept(accepted)) => Some((accepted.turn.linked.accounts().len(), accepted.answer)),
            _ => None,
        }
    };
    let (accounts, answer) = says("10", "8", "43").await.unwrap();
    let told = notice::restriction::of_other_account(Locale::English);
    assert_eq!((accounts, answer.map(|answer| answer.outgoing.text())), (2, Some(told.to_owned())));
    let asked = sweeper.now().await;
    assert!(matches!(asked, Some(SweeperMsg::Confines(account)) if account == ada), "its roles are read");
    assert!(says("11", "8", "42").await.unwrap().1.is_none(), "restricted members are answered there");
    assert!(sweeper.now().await.is_none());
    assert!(says("12", "9", "43").await.unwrap().1.is_none(), "another person is not concerned");
    // Ada, who never left, has no role any more: a moderator took it.
    assert!(says("13", "7", "43").await.unwrap().1.is_none());
    assert!(says("14", "8", "43").await.unwrap().1.is_none());
    restricted.replace([(Member { guild: "5".to_owned(), person: ada.clone() }, Timestamp(1_000))].into());
    assert!(says("15", "8", "43").await.unwrap().1.is_none(), "a later read of the records does not restrict again");
    restricted.begin(Member { guild: "5".to_owned(), person: ada }, Timestamp(2_000));
    assert!(says("16", "8", "43").await.unwrap().1.is_some());
}
