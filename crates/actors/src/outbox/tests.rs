mod clearance;
mod closing;

mod drawing;
mod held;
mod pieces;
mod refused;

use super::courtesy::SPARES;
use super::job::Length;
use super::pace::{Pace, Track};
use super::queue::{CLOSED_FOR, Closed, PROBES_MAX, PlaceQueue};
use super::*;
use crate::messages::deadline::Deadline;
use crate::messages::draft::Slot;
use crate::messages::outbox::TurnDraft;
use crate::observation::turn_events::TurnEvents;
use crate::observers::Observers;
use crate::testing::log::Log;
use crate::testing::pictures::Sketches;
use crate::testing::{Inbox, LEAF, Stage, Tree, at, live, message, person, place, row, settle, turn, turn_id};
use domain::rejection::Rejection;
use ports::testing::{FixedDice, Go, ScriptedFaults, ScriptedModels, ScriptedPoster};
use ports::{Bucket, Fault, LimitScope};

struct World {
    outbox: Handle<OutboxMsg>,
    poster: Arc<ScriptedPoster>,
    pacer: Arc<Mutex<Pacer>>,
    closed: Arc<ClosedPlaces>,
    board: Arc<Board>,
    journal: Inbox<JournalMsg>,
    faults: Arc<ScriptedFaults>,
    _tree: Tree,
}

async fn world() -> World {
    world_of(Pacer::new(50, 1000)).await
}

async fn world_of(pacer: Pacer) -> World {
    world_with(pacer, "0").await
}

/// Creates a world that shows typing after this time.
async fn world_with(pacer: Pacer, after: &str) -> World {
    let (outbox, journal) = (at("outbox:discord"), at("journal"));
    let (poster, pacer) = (Arc::new(ScriptedPoster::new()), Arc::new(Mutex::new(pacer)));
    let mut stage = Stage::new();
    let faults = Arc::clone(&stage.faults);
    let heard = stage.probe(&journal);
    let dice = Arc::new(FixedDice::new(0.5));
    let renderer = Arc::new(Sketches);
    let closed = Arc::new(ClosedPlaces::default());
    let board = Arc::new(Board::default());
    let actor = Outbox {
        door: place("42").door,
        board: Arc::clone(&board),
        poster: Arc::clone(&poster) as _,
        pacer: Arc::clone(&pacer),
        closed: Arc::clone(&closed),
        live: live(
            &[("STAFFAI_STREAMING__HOLD", "0"), ("STAFFAI_TURN__TYPING_AFTER", after)],
            Arc::new(ScriptedModels::new(&["main"])),
        ),
        dice,
        renderer,
        journal,
        events: TurnEvents::default(),
        observers: Observers::default(),
    };
    stage.actor(row(LEAF), &outbox, actor);
    let tree = stage.go().await;
    World { outbox, poster, pacer, closed, board, journal: heard, faults, _tree: tree }
}

impl World {
    fn deliver(&self, id: &str, to: &str, text: &str) {
        self.deliver_as(id, to, text, false);
    }

    fn deliver_as(&self, id: &str, to: &str, text: &str, check: bool) {
        self.deliver_to("7", id, to, text, check);
    }

    /// Delivers an answer to a turn of this member.
    fn deliver_to(&self, member: &str, id: &str, to: &str, text: &str, check: bool) {
        let turn = turn(id, member, to);
        let outgoing = turn.reply_with(text);
        self.outbox
            .cast(OutboxMsg::Deliver {
                person: turn.person.clone(),
                turn: turn.id,
                outgoing,
                since: turn.at,
                check,
                others: Vec::new(),
                nonce_until: None,
                drafted: false,
                refused: None,
                rescue: None,
                clearance: crate::messages::clearance::Clearance::default(),
            })
            .unwrap();
    }

    /// Returns the next message to the journal: the turn, and the number of messages or the reason.
    async fn told(&mut self) -> (String, Result<usize, String>) {
        let mut told = self.journal.next().await;
        while matches!(told, JournalMsg::Refused(..)) {
            told = self.journal.next().await;
        }
        match told {
            JournalMsg::Delivered(turn, delivery) => (turn.id.into(), Ok(delivery.posted.len())),
            JournalMsg::Undeliverable(turn, reason) => (turn.id.into(), Err(reason.to_string())),
            _ => panic!("an outbox does not say this"),
        }
    }

    /// The platform blocks all requests for this long.
    fn blocks_all(&self, retry_after: Duration) {
        let error = PostError::Limited { retry_after, scope: LimitScope::Global };
        self.pacer.lock().failed(Instant::now(), &error, || None);
    }

    fn typing(&self) -> usize {
        self.poster.count(|request| matches!(request, PostRequest::Typing { .. }))
    }

    /// Returns the messages with a reaction.
    fn reactions(&self) -> Vec<String> {
        let requests = self.poster.requests.lock();
        let reacted = |(_, request): &(Instant, PostRequest)| match request {
            PostRequest::React { message, .. } => Some(message.id.to_string()),
            _ => None,
        };
        requests.iter().filter_map(reacted).collect()
    }

    fn creates(&self) -> usize {
        self.poster.count(|request| matches!(request, PostRequest::Create { .. }))
    }
}

fn transient() -> Go {
    Go::Fail(PostError::Unsure("reset by peer".into()))
}

fn rejected(reason: Rejection) -> Go {
    let counted = matches!(reason, Rejection::Forbidden | Rejection::Credentials);
    Go::Fail(PostError::Rejected { reason, message: "no".into(), counted })
}

// === Posts that answer no message ===

#[tokio::test(start_paused = true)]
async fn a_post_that_answers_nobody_waits_its_turn_is_tried_again_and_reported() {
    let world = world().await;
    world.poster.slow(place("42"), Duration::from_secs(1));
    world.deliver("10", "42", "first");
    world.poster.post_goes(Go::LoseAnswer);
    world.poster.post_goes(transient());
    let post = |text: &str| {
        let parts = vec![Part::Text { text: text.to_owned() }];
        let outgoing =
            Outgoing { place: place("42"), reply_to: None, parts, apology: false, spent: None, private: false };
        let ask = |reply| OutboxMsg::Post { name: "report-1800000000".to_owned(), outgoing, reply };
        world.outbox.call(ask, Duration::from_secs(1000))
    };
    assert_eq!(post("second").await.unwrap().unwrap().posted.len(), 1);
    assert_eq!(world.poster.ours(&place("42")), ["first", "second"]);
    assert!(post("second").await.unwrap().is_ok(), "the same post is the same message");
    assert_eq!(world.poster.ours(&place("42")), ["first", "second"]);
    for _ in 0..PROBES_MAX {
        world.poster.post_goes(rejected(Rejection::Forbidden));
    }
    assert_eq!(post("third").await.unwrap(), Err(Unposted::Rejected(Rejection::Forbidden, "no".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn answers_that_reply_to_nothing_and_have_the_same_words_are_told_apart() {
    let mut world = world().await;
    // A new outbox gets each answer again: the first is in the channel, and does not count as the second.
    for id in ["10", "11", "11", "10"] {
        let turn = turn(id, "7", "42");
        let outgoing = Outgoing { reply_to: None, ..turn.reply_with("The build is red.") };
        let nonce_until = Some(Instant::now() + Duration::from_secs(30));
        let deliver = OutboxMsg::Deliver {
            person: turn.person.clone(),
            turn: turn.id,
            outgoing,
            since: turn.at,
            check: true,
            others: Vec::new(),
            nonce_until,
            drafted: false,
            refused: None,
            rescue: None,
            clearance: crate::messages::clearance::Clearance::default(),
        };
        world.outbox.cast(deliver).unwrap();
        assert_eq!(world.told().await, (id.to_owned(), Ok(1)));
    }
    assert_eq!(world.poster.ours(&place("42")), ["The build is red."; 2]);
}

#[tokio::test(start_paused = true)]
async fn answers_to_different_fires_with_the_same_words_are_looked_for_by_what_is_known_of_the_others() {
    let mut world = world().await;
    let deliver = |id: &str, others: Vec<MessageId>| {
        let turn = turn(id, "7", "42");
        let outgoing = Outgoing { reply_to: None, ..turn.reply_with("The build is red.") };
        let (since, nonce_until) = (turn.at, Some(Instant::now()));
        let (refused, rescue) = (None, None);
        OutboxMsg::Deliver {
            person: turn.person.clone(),
            turn: turn.id,
            outgoing,
            since,
            check: true,
            others,
            nonce_until,
            drafted: false,
            refused,
            rescue,
            clearance: crate::messages::clearance::Clearance::default(),
        }
    };
    // An earlier process posted the first answer and recorded it; the second was not posted.
    world.outbox.cast(deliver("10", Vec::new())).unwrap();
    let JournalMsg::Delivered(_, first) = world.journal.next().await else { panic!("it is posted") };
    world.outbox.cast(deliver("11", Vec::new())).unwrap();
    let JournalMsg::Delivered(_, second) = world.journal.next().await else { panic!("it is posted") };
    assert_ne!(first.posted, second.posted, "what this outbox posted for another one is none of its");
    assert_eq!(world.poster.ours(&place("42")), ["The build is red."; 2]);
    // The same answer is found again, and so is an answer whose counterpart only the journal has recorded.
    world.outbox.cast(deliver("11", first.posted.clone())).unwrap();
    let JournalMsg::Delivered(_, again) = world.journal.next().await else { panic!("it is found") };
    assert_eq!(again.posted, second.posted);
    assert_eq!(world.poster.ours(&place("42")).len(), 2);
}

// === Deleted questions ===

#[tokio::test(start_paused = true)]
async fn a_repeated_delivery_is_cancelled_when_its_question_was_deleted() {
    let mut world = world().await;
    // The outbox reads the channel, then the question itself.
    world.poster.read_goes(Go::Leaves(5, Duration::from_secs(1)));
    world.poster.read_goes(rejected(Rejection::MessageGone));
    world.deliver_as("10", "42", "an answer to nobody", true);
    assert!(matches!(world.journal.next().await, JournalMsg::Cancel(turn) if turn.id == "10"));
    assert_eq!(world.poster.ours(&place("42")), [""; 0]);
    world.poster.read_goes(Go::Leaves(5, Duration::from_secs(1)));
    world.poster.read_goes(rejected(Rejection::Content));
    world.deliver_as("11", "42", "still wanted", true);
    assert_eq!(world.told().await, ("11".to_owned(), Ok(1)), "nothing else is taken for a deletion");
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_reply_is_refused_because_its_question_was_deleted_is_cancelled() {
    let mut world = world().await;
    world.poster.post_goes(rejected(Rejection::Reply));
    world.poster.read_goes(rejected(Rejection::MessageGone));
    world.deliver("10", "42", "an answer to nobody");
    assert!(matches!(world.journal.next().await, JournalMsg::Cancel(turn) if turn.id == "10"));
    assert_eq!(world.poster.ours(&place("42")), [""; 0]);
}

// === Order ===

#[tokio::test(start_paused = true)]
async fn order_holds_within_a_place_and_a_slow_place_delays_nobody_else() {
    let mut world = world().await;
    world.poster.slow(place("42"), Duration::from_secs(30));
    let begun = Instant::now();
    for (id, text) in [("10", "one"), ("11", "two"), ("12", "three")] {
        world.deliver(id, "42", text);
    }
    world.deliver("20", "43", "elsewhere");
    assert_eq!(world.told().await, ("20".into(), Ok(1)));
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(world.creates(), 2, "one courier for each place");
    for id in ["10", "11", "12"] {
        assert_eq!(world.told().await.0, id);
    }
    assert_eq!(world.poster.ours(&place("42")), ["one", "two", "three"]);
    assert_eq!(begun.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_offered_twice_is_posted_once() {
    let mut world = world().await;
    world.poster.slow(place("42"), Duration::from_secs(1));
    for id in ["10", "11", "10", "11"] {
        world.deliver(id, "42", id);
    }
    assert_eq!((world.told().await.0, world.told().await.0), ("10".into(), "11".into()));
    assert!(world.journal.within(Duration::from_secs(60)).await.is_none());
    assert_eq!(world.poster.ours(&place("42")), ["10", "11"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_posted_in_pieces_of_which_the_first_replies() {
    let mut world = world().await;
    world.deliver("10", "42", &"words and words ".repeat(15));
    assert_eq!(world.told().await, ("10".into(), Ok(3)));
    let requests = world.poster.requests.lock();
    let replies: Vec<bool> =
        requests.iter().map(|(_, request)| matches!(request, PostRequest::Create { reply_to: Some(_), .. })).collect();
    assert_eq!(replies, [true, false, false]);
}

// === Failure ===

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_tried_again_with_the_same_nonce_and_seen_once() {
    let mut world = world().await;
    world.poster.post_goes(Go::LoseAnswer);
    world.poster.post_goes(transient());
    world.deliver("10", "42", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!(world.poster.ours(&place("42")), ["hello"]);
    let nonces: Vec<String> = world.poster.requests.lock().iter().filter_map(|(_, request)| nonce(request)).collect();
    assert_eq!(nonces, ["10-0"; 3]);
}

fn nonce(request: &PostRequest) -> Option<String> {
    match request {
        PostRequest::Create { nonce, .. } => Some(nonce.clone()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_middle_of_a_long_answer_goes_on_there() {
    let mut world = world().await;
    let text = "words and words ".repeat(15);
    world.deliver("10", "42", &text);
    assert!(world.told().await.1.is_ok());
    let whole = world.poster.ours(&place("42"));
    world.poster.post_goes(Go::Leaves(0, Duration::ZERO));
    world.poster.post_goes(transient());
    world.deliver("11", "43", &text);
    assert_eq!(world.told().await, ("11".into(), Ok(3)));
    assert_eq!(world.poster.ours(&place("43")), whole);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_longer_than_nonces_live_the_channel_is_looked_at_first() {
    let mut world = world().await;
    world.poster.post_goes(Go::LoseAnswer);
    for _ in 0..16 {
        world.poster.post_goes(transient());
    }
    world.deliver("10", "42", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!(world.poster.ours(&place("42")), ["hello"]);
    let reads = world.poster.count(|request| matches!(request, PostRequest::History { .. }));
    assert!(reads > 0, "it was not looked for");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_given_up_after_its_time_and_not_before() {
    let mut world = world().await;
    for _ in 0..1000 {
        let retry_after = Duration::from_secs(60);
        world.poster.post_goes(Go::Fail(PostError::Limited { retry_after, scope: LimitScope::Route }));
    }
    let begun = Instant::now();
    world.deliver("10", "42", "hello");
    let (_, result) = world.told().await;
    assert!(result.unwrap_err().starts_with("given up"));
    assert_eq!(begun.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_fails_alone() {
    let mut world = world().await;
    world.poster.post_goes(rejected(Rejection::Content));
    for id in ["10", "11"] {
        world.deliver(id, "42", "hello");
    }
    assert_eq!(world.told().await.1, Err("content refused: no".into()));
    assert_eq!(world.told().await.1, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn where_replies_are_refused_the_answer_comes_as_a_plain_message() {
    let mut world = world().await;
    world.poster.post_goes(rejected(Rejection::Reply));
    world.deliver("10", "42", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!((world.poster.ours(&place("42")), world.creates()), (vec!["hello".to_owned()], 2));
    let plain = |request: &PostRequest| matches!(request, PostRequest::Create { reply_to: None, .. });
    assert_eq!(world.poster.count(plain), 1);
    world.poster.post_goes(rejected(Rejection::Reply));
    world.poster.post_goes(rejected(Rejection::Reply));
    world.deliver("11", "42", "hello");
    assert!(world.told().await.1.is_err(), "there is no third way");
}

#[tokio::test(start_paused = true)]
async fn a_short_answer_passes_long_ones_of_others_and_none_of_its_own_member() {
    let mut world = world().await;
    let long = |word: &str| format!("{word} ").repeat(60);
    for (member, id, text) in [
        ("1", "10", long("one")),
        ("2", "11", long("two")),
        ("3", "12", long("three")),
        ("3", "13", "short three".to_owned()),
        ("4", "14", "short four".to_owned()),
        ("4", "15", "second four".to_owned()),
    ] {
        world.deliver_to(member, id, "42", &text, false);
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(world.told().await.0);
    }
    assert_eq!(order, ["10", "14", "15", "11", "12", "13"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_passed_for_a_bounded_time() {
    let job = |member: &str, length| {
        let turn = turn("10", member, "42");
        Job { person: Some(turn.person.clone()), length, ..Job::new(Task::Turn(turn.id.clone()), turn.reply_with("")) }
    };
    let mut jobs =
        std::collections::VecDeque::from([job("1", Length::Long), job("2", Length::Short), job("3", Length::Short)]);
    assert_eq!(job::take_next(&mut jobs).unwrap().length, Length::Short);
    tokio::time::advance(job::PASSED_FOR).await;
    assert_eq!(job::take_next(&mut jobs).unwrap().length, Length::Long);
    assert!(job::take_next(&mut jobs).is_some() && job::take_next(&mut jobs).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_courier_that_panics_is_followed_by_one_more_that_looks_first() {
    for go in [Go::Panic, Go::PanicAfter] {
        let mut world = world().await;
        world.poster.post_goes(go);
        for id in ["10", "11"] {
            world.deliver(id, "42", id);
        }
        assert_eq!(world.told().await, ("10".into(), Ok(1)));
        assert_eq!(world.told().await, ("11".into(), Ok(1)));
        assert_eq!(world.poster.ours(&place("42")), ["10", "11"], "in order, each once");
        assert_eq!(world.poster.count(|request| matches!(request, PostRequest::History { .. })), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_courier_that_panics_twice_fails_its_answer_and_the_next_goes_out() {
    let mut world = world().await;
    world.poster.post_goes(Go::Panic);
    world.poster.read_goes(Go::Panic);
    for id in ["10", "11"] {
        world.deliver(id, "42", id);
    }
    assert_eq!(world.told().await, ("10".into(), Err("the courier panicked: the poster panicked".into())));
    assert_eq!(world.told().await, ("11".into(), Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_comes_after_the_answer_is_passed_over() {
    let mut world = world().await;
    world.deliver("10", "42", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    let slot = Slot::default();
    slot.write("hel lo");
    slot.watch().take();
    slot.write("hel lo wor");
    let until = Deadline::fixed(Instant::now() + Duration::from_secs(60));
    let (turn, place) = (turn_id("10"), place("42"));
    let reply_to = Some(turn.trigger());
    let late = TurnDraft { turn, place: place.clone(), reply_to, slot, again: true, until };
    world.outbox.cast(OutboxMsg::Draft(late)).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.poster.ours(&place), ["hello"]);
    assert_eq!(world.poster.requests.lock().len(), 1, "nothing was even looked for");
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_had_to_be_looked_for_keeps_to_the_budgets_as_they_are_by_then() {
    let world = world().await;
    world.poster.slow(place("42"), Duration::from_secs(5));
    let slot = Slot::default();
    slot.write("hello");
    let (turn, begun) = (turn_id("10"), Instant::now());
    let (reply_to, until) = (Some(turn.trigger()), Deadline::fixed(begun + Duration::from_secs(100)));
    let draft = TurnDraft { turn, place: place("42"), reply_to, slot, again: true, until };
    world.outbox.cast(OutboxMsg::Draft(draft)).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.blocks_all(Duration::from_secs(40));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked: Vec<u64> = world.poster.requests.lock().iter().map(|(at, _)| (*at - begun).as_secs()).collect();
    assert_eq!(asked[..2], [0, 42], "the channel was read, and everything was blocked meanwhile");
    assert_eq!(asked[2..], [48], "the nonce might have brought back an older draft");
    assert_eq!(world.creates(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_takes_the_couriers_with_it_and_the_budgets_survive() {
    let mut world = world().await;
    world.poster.slow(place("42"), Duration::from_secs(5));
    world.deliver("10", "42", "hello");
    settle().await;
    world.blocks_all(Duration::from_secs(40));
    world.faults.inject("staffai/outbox:discord", Fault::Error);
    world.deliver("11", "42", "gone");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(world.poster.ours(&place("42")).is_empty());
    world.deliver_as("10", "42", "hello", true);
    let begun = Instant::now();
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert!(begun.elapsed() >= Duration::from_secs(20), "the block outlived the crash");
}

// === Reading the channel first ===

#[tokio::test(start_paused = true)]
async fn an_answer_of_an_earlier_life_is_finished_by_edit_and_never_posted_again() {
    let mut world = world().await;
    world.poster.earlier("500", &place("42"), &message("10"), "hel");
    world.deliver_as("10", "42", "hello", true);
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!(world.poster.ours(&place("42")), ["hello"]);
    assert_eq!(world.creates(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stands_there_as_it_should_is_left_alone() {
    let mut world = world().await;
    world.poster.earlier("500", &place("42"), &message("10"), "hello");
    world.deliver_as("10", "42", "hello", true);
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!(world.poster.requests.lock().len(), 1, "one look");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_of_a_long_answer_is_posted() {
    let mut world = world().await;
    let text = "words and words ".repeat(15);
    world.deliver("10", "43", &text);
    assert!(world.told().await.1.is_ok());
    let whole = world.poster.ours(&place("43"));
    world.poster.earlier("500", &place("42"), &message("11"), &whole[0]);
    world.deliver_as("11", "42", &text, true);
    assert_eq!(world.told().await, ("11".into(), Ok(3)));
    assert_eq!(world.poster.ours(&place("42")), whole);
}

#[tokio::test(start_paused = true)]
async fn an_outage_while_looking_is_waited_for() {
    let mut world = world().await;
    world.poster.earlier("500", &place("42"), &message("10"), "hello");
    for _ in 0..10 {
        world.poster.read_goes(transient());
    }
    world.deliver_as("10", "42", "hello", true);
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!(world.creates(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_answers_to_one_trigger_are_reported() {
    let mut world = world().await;
    for id in ["500", "501"] {
        world.poster.earlier(id, &place("42"), &message("10"), "hello");
    }
    world.deliver_as("10", "42", "hello", true);
    let JournalMsg::Delivered(_, delivery) = world.journal.next().await else { panic!("it was not delivered") };
    assert!(delivery.doubled);
}

// === Budgets ===

#[tokio::test(start_paused = true)]
async fn no_second_holds_more_than_the_budget() {
    let mut world = world_of(Pacer::new(10, 1000)).await;
    for number in 0..100 {
        world.deliver(&(1000 + number).to_string(), &number.to_string(), "hello");
    }
    for _ in 0..100 {
        assert!(world.told().await.1.is_ok());
    }
    let times: Vec<Instant> = world.poster.requests.lock().iter().map(|(at, _)| *at).collect();
    for window in times.windows(11) {
        assert!(window[10] - window[0] >= Duration::from_secs(1));
    }
    assert!(times[99] - times[0] < Duration::from_secs(11), "nor much less");
}

#[tokio::test(start_paused = true)]
async fn an_empty_bucket_is_waited_for_in_its_place_only() {
    let mut world = world().await;
    world.poster.post_goes(Go::Leaves(0, Duration::from_secs(7)));
    world.deliver("10", "42", "one");
    assert!(world.told().await.1.is_ok());
    let begun = Instant::now();
    world.deliver("11", "42", "two");
    world.deliver("20", "43", "elsewhere");
    assert_eq!(world.told().await.0, "20");
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(world.told().await.0, "11");
    assert_eq!(begun.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_is_lost_counts_in_its_bucket_too() {
    let mut world = world().await;
    world.poster.post_goes(Go::Leaves(2, Duration::from_secs(7)));
    world.deliver("10", "42", "one");
    assert!(world.told().await.1.is_ok());
    let begun = Instant::now();
    world.poster.post_goes(Go::LoseAnswer);
    world.poster.post_goes(transient());
    world.deliver("11", "42", "two");
    assert_eq!(world.told().await, ("11".into(), Ok(1)));
    assert_eq!(begun.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_global_block_stops_every_place() {
    let mut world = world().await;
    world
        .poster
        .post_goes(Go::Fail(PostError::Limited { retry_after: Duration::from_secs(9), scope: LimitScope::Global }));
    world.deliver("10", "42", "one");
    settle().await;
    let begun = Instant::now();
    world.deliver("20", "43", "elsewhere");
    assert!(world.told().await.1.is_ok());
    assert!(begun.elapsed() >= Duration::from_millis(8_990), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn too_many_refusals_silence_the_door_and_nobody_bursts_out_afterwards() {
    let mut world = world_of(Pacer::new(10, 3)).await;
    let begun = Instant::now();
    for place in ["1", "2", "3"] {
        world.poster.post_goes(rejected(Rejection::Forbidden));
        world.deliver(place, place, "hello");
        settle().await;
    }
    for number in 0..30 {
        world.deliver(&(100 + number).to_string(), &(100 + number).to_string(), "hello");
    }
    assert!(world.told().await.1.is_ok());
    assert!(begun.elapsed() >= Duration::from_secs(580), "{:?}", begun.elapsed());
    for _ in 1..33 {
        assert!(world.told().await.1.is_ok());
    }
    let times: Vec<Instant> = world.poster.requests.lock().iter().skip(3).map(|(at, _)| *at).collect();
    for window in times.windows(11) {
        assert!(window[10] - window[0] >= Duration::from_secs(1));
    }
}

// === Notices, typing, reads ===

#[tokio::test(start_paused = true)]
async fn notices_are_bounded_and_dropped_with_a_count() {
    let (log, world) = (Log::capture(), world().await);
    for (channel, community) in [("42", "5"), ("43", "6")] {
        world.poster.slow(place(channel), Duration::from_secs(3600));
        world.poster.communities.lock().insert(place(channel), community.to_owned());
    }
    let notify = |number: usize, channel: &str| {
        let about = message(&number.to_string());
        world.outbox.cast(OutboxMsg::Notify { about, place: place(channel), text: "busy".into() }).unwrap();
    };
    (0..NOTICES_MAX).for_each(|number| notify(1_000 + number, "42"));
    settle().await;
    assert_eq!(log.column("turn.shed", "where").len(), NOTICES_MAX / 2, "one community has its share");
    (0..5).for_each(|number| notify(3_000 + number, "43"));
    settle().await;
    assert_eq!(log.column("turn.shed", "where").len(), NOTICES_MAX / 2, "and leaves room for another");
    // A notice that is repeated while it is queued takes no further room.
    (0..NOTICES_MAX).for_each(|_| notify(3_000, "43"));
    notify(4_000, "43");
    settle().await;
    assert_eq!(log.column("turn.shed", "where").len(), NOTICES_MAX / 2);
}

#[tokio::test(start_paused = true)]
async fn posts_of_one_community_leave_room_for_those_of_another() {
    let world = world().await;
    for (channel, community) in [("42", "5"), ("43", "6")] {
        world.poster.slow(place(channel), Duration::from_secs(10));
        world.poster.communities.lock().insert(place(channel), community.to_owned());
    }
    let post = |number: usize, channel: &str| {
        let parts = vec![Part::Text { text: "approve?".to_owned() }];
        let outgoing =
            Outgoing { place: place(channel), reply_to: None, parts, apology: false, spent: None, private: false };
        let ask = move |reply| OutboxMsg::Post { name: format!("gate-{number}"), outgoing, reply };
        world.outbox.call(ask, Duration::from_secs(10_000))
    };
    let is_busy = |result: Result<Result<Delivery, Unposted>, _>| matches!(result, Ok(Err(Unposted::Busy)));
    let flood = futures_util::future::join_all((0..POSTS_MAX).map(|number| post(number, "42")));
    let later = async {
        settle().await;
        post(1_000, "43").await
    };
    let (flood, other) = tokio::join!(flood, later);
    let refused = flood.into_iter().map(is_busy).filter(|busy| *busy).count();
    assert_eq!(refused, POSTS_MAX / 2);
    assert!(!is_busy(other));
    assert!(!is_busy(post(1_001, "42").await), "posts that ended take no room");
}

#[tokio::test(start_paused = true)]
async fn typing_is_shown_only_while_a_turn_thinks() {
    let world = world().await;
    let until = Deadline::fixed(Instant::now() + Duration::from_secs(120));
    world.outbox.cast(OutboxMsg::Typing { place: place("42"), turn: turn_id("10"), until }).unwrap();
    settle().await;
    assert_eq!(world.typing(), 1, "at once");
    tokio::time::sleep(Duration::from_secs(17)).await;
    assert_eq!(world.typing(), 3, "and again");
    world.outbox.cast(OutboxMsg::Quiet(place("42"), turn_id("10"))).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.typing(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_quick_answer_shows_no_typing_and_a_slow_one_shows_it_in_time() {
    let world = world_with(Pacer::new(50, 1000), "300ms").await;
    let until = Deadline::fixed(Instant::now() + Duration::from_secs(120));
    let thinks =
        |turn: &str, to: &str| OutboxMsg::Typing { place: place(to), turn: turn_id(turn), until: until.clone() };
    for turn in 10..20 {
        world.outbox.cast(thinks(&turn.to_string(), "42")).unwrap();
        tokio::time::sleep(Duration::from_millis(290)).await;
        world.outbox.cast(OutboxMsg::Quiet(place("42"), turn_id(&turn.to_string()))).unwrap();
    }
    assert_eq!(world.typing(), 0);
    world.outbox.cast(thinks("20", "42")).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.outbox.cast(thinks("21", "43")).unwrap();
    world.outbox.cast(thinks("22", "42")).unwrap();
    tokio::time::sleep(Duration::from_millis(151)).await;
    assert_eq!(world.typing(), 1, "the first thinks long enough");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.typing(), 2, "once in each place");
}

#[tokio::test(start_paused = true)]
async fn typing_of_a_turn_that_is_never_heard_of_again_ends_in_time() {
    let world = world().await;
    let until = Deadline::fixed(Instant::now() + Duration::from_secs(20));
    world.outbox.cast(OutboxMsg::Typing { place: place("42"), turn: turn_id("10"), until }).unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.typing(), 3);
}

#[tokio::test(start_paused = true)]
async fn typing_goes_on_while_the_deadline_of_its_turn_moves() {
    let world = world().await;
    let until = Deadline::new(Duration::from_secs(10), Duration::from_secs(600));
    let typing = OutboxMsg::Typing { place: place("42"), turn: turn_id("10"), until: until.clone() };
    world.outbox.cast(typing).unwrap();
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        until.move_on();
    }
    assert!(world.typing() >= 7, "a minute of thoughts: {}", world.typing());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let shown = world.typing();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.typing(), shown, "what stands still is not shown");
}

#[tokio::test(start_paused = true)]
async fn typing_waits_for_its_bucket() {
    let world = world().await;
    let (begun, until) = (Instant::now(), Deadline::fixed(Instant::now() + Duration::from_secs(60)));
    world.poster.courtesy_goes(Go::Leaves(0, Duration::from_secs(12)));
    let empty = PostError::Limited { retry_after: Duration::from_secs(20), scope: LimitScope::Route };
    world.poster.courtesy_goes(Go::Fail(empty));
    for turn in ["10", "11", "12", "13"] {
        world.outbox.cast(OutboxMsg::Typing { place: place("42"), turn: turn_id(turn), until: until.clone() }).unwrap();
        settle().await;
        world.outbox.cast(OutboxMsg::Quiet(place("42"), turn_id(turn))).unwrap();
    }
    assert_eq!(world.typing(), 1, "nothing is left");
    world.outbox.cast(OutboxMsg::Typing { place: place("42"), turn: turn_id("14"), until }).unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    let shown: Vec<u64> = world.poster.requests.lock().iter().map(|(at, _)| (*at - begun).as_secs()).collect();
    assert_eq!(shown, [0, 16, 40, 48]);
}

#[tokio::test(start_paused = true)]
async fn typing_gives_way_when_requests_are_short() {
    let world = world_of(Pacer::new(SPARES, 1000)).await;
    let until = Deadline::fixed(Instant::now() + Duration::from_secs(20));
    world.outbox.cast(OutboxMsg::Typing { place: place("42"), turn: turn_id("10"), until }).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.typing(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reaction_gives_way_to_answers_and_to_places_that_refuse_it() {
    let react = |about: &str, there: &str| {
        let (about, place) = (message(about), place(there));
        OutboxMsg::React { about, place, emoji: "⏳".to_owned() }
    };
    let short = world_of(Pacer::new(SPARES, 1000)).await;
    short.outbox.cast(react("10", "42")).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(short.reactions().is_empty());

    let world = world().await;
    world.poster.courtesy_goes(rejected(Rejection::MessageGone));
    world.poster.courtesy_goes(rejected(Rejection::Forbidden));
    for (about, there) in [("10", "42"), ("11", "42"), ("12", "42"), ("13", "43")] {
        world.outbox.cast(react(about, there)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.reactions(), ["10", "11", "13"], "one that is gone says nothing about the place");
    tokio::time::sleep(Duration::from_secs(600)).await;
    world.outbox.cast(react("14", "42")).unwrap();
    let until = Deadline::fixed(Instant::now() + Duration::from_secs(5));
    world.outbox.cast(OutboxMsg::Typing { place: place("42"), turn: turn_id("20"), until }).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((world.reactions().last().map(String::as_str), world.typing()), (Some("14"), 1));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_answer_is_not_posted() {
    let mut world = world().await;
    world.poster.slow(place("42"), Duration::from_secs(5));
    for id in ["10", "11", "12"] {
        world.deliver(id, "42", id);
    }
    world.outbox.cast(OutboxMsg::Withdraw { place: place("42"), turn: turn_id("11"), perhaps: false }).unwrap();
    assert_eq!((world.told().await.0, world.told().await.0), ("10".into(), "12".into()));
    assert_eq!(world.poster.ours(&place("42")), ["10", "12"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_tried_a_few_times() {
    let world = world().await;
    let read = || PostRequest::Fetch { place: place("42"), message: message("500") };
    world.poster.earlier("500", &place("42"), &message("10"), "hello");
    for failures in [2, 3] {
        for _ in 0..failures {
            world.poster.read_goes(transient());
        }
        let answer = world.outbox.call(|reply| OutboxMsg::Read(read(), reply), Duration::from_secs(60)).await.unwrap();
        assert_eq!(answer.is_ok(), failures == 2);
    }
}

#[test]
fn places_where_nothing_waits_are_forgotten() {
    let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).enable_time().build().unwrap();
    let _guard = runtime.enter();
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    let spent = |until: Instant| {
        let mut pace = Pace::default();
        pace.learn(Track::Posts, Some(&Bucket { id: None, remaining: 0, reset_after: until - now }), now);
        PlaceQueue { pace: Arc::new(Mutex::new(pace)), ..PlaceQueue::default() }
    };
    let closed = |until| PlaceQueue { closed: Some(Closed { until, refusals: 1 }), ..PlaceQueue::default() };
    let mut state = OutboxState::default();
    for (id, queue) in [("1", spent(now)), ("2", closed(now)), ("3", spent(later)), ("4", closed(later))] {
        state.lanes.insert(place(id), queue);
    }
    state.tidy(now);
    let mut left: Vec<&str> = state.lanes.keys().map(|place| place.id.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["3", "4"]);
}
