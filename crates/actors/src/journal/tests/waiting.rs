//! Parked turns: turns that are paused for a member's decision.

use super::*;
use crate::messages::approvals::Waiting;
use crate::messages::journal::{Decided, Parking};
use crate::testing::LONG;
use domain::arguments_hash::ArgumentsHash;
use domain::gate::{ApprovalDecision, Case, Gate, GateId, OPEN_MAX, OWN_MAX, Parked, Subject, TaskWait};
use domain::ids::Timestamp;

const HOUR: u64 = 3_600_000;

fn gate(turn: &Turn, now: Timestamp) -> Gate {
    let hash = ArgumentsHash("ab".to_owned());
    Gate {
        id: GateId::draw([0.5; 4], &turn.id, &hash, now),
        turn: turn.id.clone(),
        place: turn.place.clone(),
        requester: turn.person.clone(),
        unattended: false,
        locale: None,
        approvers: Vec::new(),
        tool: "fm__delete".to_owned(),
        hash,
        arguments: "{}".to_owned(),
        subject: Subject::Approval,
        asked_at: now,
        expires_at: Timestamp(now.0 + HOUR),
    }
}

fn effort(prompt: u64) -> Effort {
    let mut effort = Effort { model: Some("main".to_owned()), ..Effort::default() };
    effort.usage.prompt = prompt;
    effort
}

impl World {
    fn park(&self, turn: &Turn) -> Gate {
        let gate = gate(turn, self.clock.now());
        let parking = Parking { gate: gate.clone(), dialogue: "said".to_owned(), effort: effort(7), acted: false };
        self.journal.cast(JournalMsg::Park(turn.id.clone(), Box::new(parking))).unwrap();
        gate
    }

    /// Returns the next message to approvals.
    async fn told_to_ask(&mut self) -> Option<String> {
        match self.approvals.now().await? {
            ApprovalsMsg::Ask(waiting) => Some(format!("ask {}", waiting.gate.turn.id)),
            ApprovalsMsg::Gone(waiting) => Some(format!("gone {}", waiting.gate.turn.id)),
            ApprovalsMsg::Moved(_)
            | ApprovalsMsg::Decide(..)
            | ApprovalsMsg::List(_)
            | ApprovalsMsg::Overview(_)
            | ApprovalsMsg::Withdraw(..) => None,
        }
    }

    async fn decide(&self, gate: &Gate, decision: ApprovalDecision) -> Option<bool> {
        let decided = Decided { turn: gate.turn.clone(), gate: gate.id.clone(), decision };
        self.journal.call(|reply| JournalMsg::Decided(Box::new(decided), reply), LONG).await.ok()
    }

    /// Returns the next turn that continues, with its decision.
    async fn goes_on(&mut self) -> Option<(String, Option<ApprovalDecision>)> {
        match self.conversations.now().await? {
            ConversationsMsg::Offer(offered) => {
                Some((offered.turn.id.id.to_string(), offered.resumed.and_then(|parked| parked.case.decision)))
            }
            _ => None,
        }
    }

    /// Returns the next part of a turn that begins to count.
    async fn counted(&mut self) -> Option<String> {
        loop {
            if let RateLimiterMsg::GoesOn(turn) = self.rate_limiter.now().await? {
                return Some(turn.id.id.to_string());
            }
        }
    }

    /// Returns the stored messages of a turn.
    fn said(&self, turn: &Turn) -> Option<String> {
        self.store.entries.lock().get(&keys::parked(&turn.id)).cloned()
    }

    /// Restarts the journal.
    async fn restarts(&mut self) {
        settle().await;
        self.faults.inject("staffai/journal", Fault::Panic);
        self.journal.cast(JournalMsg::Undelivered(turn_id("999"))).unwrap();
        settle().await;
    }

    /// Restarts the journal, and discards its messages to approvals.
    async fn restart(&mut self) {
        self.restarts().await;
        while self.approvals.now().await.is_some() {}
    }

    async fn waiting(&self) -> Vec<Waiting> {
        self.journal.call(JournalMsg::Waiting, LONG).await.unwrap()
    }
}

fn yes() -> ApprovalDecision {
    ApprovalDecision::Approved { by: None }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_gives_back_what_it_holds_and_goes_on_once_with_the_decision() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    assert_eq!(world.offered().await.as_deref(), Some("10"));
    let gate = world.park(&ten);
    assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"));
    assert_eq!(world.charged().await.as_deref(), Some("settle 10 7"), "what it took so far is settled");
    assert_eq!(world.permits.free(), 100, "it takes no place among the open turns");
    assert!(world.said(&ten).is_some());
    // Only its decision triggers an offer.
    world.recovered(ActorKind::Conversations, Scope::One);
    assert_eq!((world.offered().await, world.goes_on().await), (None, None));
    assert_eq!(world.decide(&gate, yes()).await, Some(true));
    assert_eq!(world.goes_on().await, Some(("10".to_owned(), Some(yes()))));
    let part = format!("10-{}", &gate.id.as_str()[..8]);
    assert_eq!(world.counted().await.as_deref(), Some(&*part), "what follows is counted by itself");
    assert_eq!(world.decide(&gate, ApprovalDecision::Denied { by: None }).await, Some(false), "it is decided once");
    assert_eq!(world.goes_on().await, None);
    let found = Answer { effort: effort(30), ..crate::testing::answer(&ten, "done") };
    world.journal.cast(JournalMsg::Answered(ten.id.clone(), Box::new(found))).unwrap();
    assert_eq!(world.charged().await, Some(format!("settle {part} 23")), "and settled with what it took since");
    world.delivered("10");
    settle().await;
    assert_eq!((world.record("10").as_str(), world.said(&ten)), ("closed", None));
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_an_answer_may_be_refused_begins_with_the_decision() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    let gate = world.park(&ten);
    settle().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.decide(&gate, yes()).await, Some(true));
    world.answered(&ten, "done");
    let rescue = loop {
        match world.outbox.now().await {
            Some(OutboxMsg::Deliver { rescue, .. }) => break rescue,
            Some(_) => {}
            None => panic!("the answer is posted"),
        }
    };
    let at = rescue.expect("a member asked").at;
    assert!(
        at > Instant::now() + Duration::from_secs(60),
        "an apology replaces it near the end of this part of its work"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing_before_and_after_the_decision() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    let gate = world.park(&ten);
    assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"));
    world.journal.cast(JournalMsg::Asked(ten.id.clone(), gate.id.clone(), message("77"))).unwrap();
    world.restarts().await;
    assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"), "a life that ended before it asked is made good");
    assert_eq!(world.waiting().await, [Waiting { gate: gate.clone(), posted: Some(message("77")) }]);
    assert_eq!(world.decide(&gate, yes()).await, Some(true));
    assert_eq!(world.goes_on().await, Some(("10".to_owned(), Some(yes()))));
    world.restart().await;
    assert_eq!(world.goes_on().await, Some(("10".to_owned(), Some(yes()))), "it had not acted, so it goes on");
    assert_eq!(world.waiting().await, []);
    // After the call was allowed to run, a restarted journal reports that it may have acted.
    let id = ten.id.clone();
    assert_eq!(world.journal.call(|reply| JournalMsg::Acts(id, reply), LONG).await, Ok(true));
    world.restart().await;
    assert_eq!(world.goes_on().await, None);
    let doubtful = notice::apology(Apology::MayHaveActed, Locale::English);
    assert_eq!(world.delivery().await.map(|(_, text, _)| text).as_deref(), Some(doubtful));
}

#[tokio::test(start_paused = true)]
async fn nothing_may_act_for_a_turn_that_waits() {
    let world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    world.park(&ten);
    let id = ten.id.clone();
    assert!(world.journal.call(|reply| JournalMsg::Acts(id, reply), LONG).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn while_the_store_fails_it_is_asked_and_nothing_may_run() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    settle().await;
    world.store.degraded.store(true, std::sync::atomic::Ordering::SeqCst);
    let gate = world.park(&ten);
    assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"));
    assert_eq!(world.decide(&gate, yes()).await, Some(true));
    assert_eq!(world.goes_on().await, Some(("10".to_owned(), Some(yes()))));
    let id = ten.id.clone();
    assert_eq!(world.journal.call(|reply| JournalMsg::Acts(id, reply), LONG).await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_person_has_so_many_questions_open_and_no_more() {
    let mut world = world(MemoryStore::new()).await;
    for number in 0..=OWN_MAX {
        let turn = turn(&(10 + number).to_string(), "7", "42");
        world.accept(&turn);
        world.park(&turn);
    }
    let mut asked = 0;
    while let Some(told) = world.told_to_ask().await {
        assert!(told.starts_with("ask "), "{told}");
        asked += 1;
    }
    assert_eq!(asked, OWN_MAX);
    assert_eq!(world.goes_on().await.unwrap().1, Some(ApprovalDecision::NotAsked));
}

#[tokio::test(start_paused = true)]
async fn one_community_leaves_room_for_questions_in_another() {
    let mut world = world(MemoryStore::new()).await;
    let parks = async |world: &mut World, id: usize, guild: &str| {
        let turn = Turn { guild: Some(guild.to_owned()), ..turn(&id.to_string(), &id.to_string(), "42") };
        world.accept(&turn);
        world.park(&turn);
        world.told_to_ask().await.is_some()
    };
    let mut asked = 0;
    for id in 100..100 + OPEN_MAX {
        asked += usize::from(parks(&mut world, id, "5").await);
    }
    assert_eq!(asked, OPEN_MAX / 2, "each is of another member");
    assert!(parks(&mut world, 1_000, "6").await);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_nobody_closed_is_closed_by_the_journal() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    world.park(&ten);
    settle().await;
    tokio::time::sleep(Duration::from_secs(3_600 + 30)).await;
    assert_eq!(world.goes_on().await, None, "approvals has its time");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.goes_on().await, Some(("10".to_owned(), Some(ApprovalDecision::Expired))));
}

#[tokio::test(start_paused = true)]
async fn who_is_forgotten_is_asked_nothing_more() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    world.park(&ten);
    assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"));
    let (person, cut) = (ten.person.clone(), world.clock.now());
    let forgotten = world.journal.call(|reply| JournalMsg::Forget(person, cut, reply), LONG).await;
    assert_eq!(forgotten, Ok(1));
    assert_eq!(world.told_to_ask().await.as_deref(), Some("gone 10"));
    let (_, text, _) = world.delivery().await.unwrap();
    assert_eq!(text, notice::gate::dropped(Locale::English));
    world.delivered("10");
    settle().await;
    assert_eq!(world.said(&ten), None);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_parks_after_its_member_was_forgotten_ends_and_stores_nothing() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    let (person, cut) = (ten.person.clone(), world.clock.now());
    assert_eq!(world.journal.call(|reply| JournalMsg::Forget(person, cut, reply), LONG).await, Ok(1));
    world.park(&ten);
    assert_eq!(world.told_to_ask().await.as_deref(), Some("gone 10"), "its task is cancelled");
    assert_eq!(world.told_to_ask().await, None);
    let (_, text, _) = world.delivery().await.unwrap();
    assert_eq!(text, notice::gate::dropped(Locale::English));
    assert_eq!(world.charged().await.as_deref(), Some("settle 10 7"), "what it took is settled");
    settle().await;
    assert_eq!((world.said(&ten), world.permits.free()), (None, 100));
    world.delivered("10");
    settle().await;
    assert_eq!((world.record("10").as_str(), world.said(&ten)), ("closed", None));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_question_waits_no_more() {
    let mut world = world(MemoryStore::new()).await;
    let ten = turn("10", "7", "42");
    world.accept(&ten);
    let gate = world.park(&ten);
    assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"));
    world.journal.cast(JournalMsg::Cancel(ten.id.clone())).unwrap();
    assert_eq!(world.told_to_ask().await.as_deref(), Some("gone 10"));
    assert_eq!(world.decide(&gate, yes()).await, Some(false));
    assert_eq!((world.goes_on().await, world.said(&ten)), (None, None));
}

/// Returns the record of a turn that began three days ago and waits for a task that may take this many days.
fn three_days_old(id: &str, longest: u64, decision: Option<ApprovalDecision>) -> (Gate, (String, String)) {
    let mut turn = turn(id, id, "42");
    turn.at.0 -= 3 * 24 * HOUR;
    let task = TaskWait { server: "fm".to_owned(), id: format!("task {id}"), poll_ms: 1_000, answered: Vec::new() };
    let expires_at = Timestamp(turn.at.0 + longest * 24 * HOUR);
    let gate = Gate { subject: Subject::Task(task), expires_at, ..gate(&turn, turn.at) };
    let parked = Parked { case: Case { gate: gate.clone(), decision }, posted: None, effort: effort(1), acted: false };
    let custody = Custody::Open(OpenTurn { parked: Some(Box::new(parked)), ..OpenTurn::new(Arc::new(turn), None) });
    (gate.clone(), (keys::turn(&gate.turn), serde_json::to_string(&custody).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_task_that_began_three_days_ago_is_waited_for_after_a_restart_and_its_turn_goes_on() {
    let done = Some(ApprovalDecision::Finished);
    let (working, first) = three_days_old("10", 7, None);
    let (_, second) = three_days_old("11", 7, done.clone());
    let (_, overdue) = three_days_old("12", 2, done.clone());
    let mut world = world(with(vec![first, second, overdue])).await;
    assert_eq!(world.goes_on().await, Some(("11".to_owned(), done.clone())), "it ended while the bot was away");
    assert_eq!(world.goes_on().await, None);
    assert_eq!(world.waiting().await, [Waiting { gate: working.clone(), posted: None }]);
    let (id, text, _) = world.delivery().await.unwrap();
    assert_eq!((id.as_str(), text.as_str()), ("12", notice::interrupted(Locale::English)), "its time was over");
    // The wait goes on for days, and ends with the task.
    settle().await;
    tokio::time::sleep(Duration::from_secs(2 * 24 * 3_600)).await;
    assert_eq!(world.goes_on().await, None);
    assert_eq!(world.decide(&working, ApprovalDecision::Finished).await, Some(true));
    assert_eq!(world.goes_on().await, Some(("10".to_owned(), done)));
}

#[tokio::test(start_paused = true)]
async fn what_was_used_before_a_decision_is_counted_by_the_journal_also_without_an_answer() {
    for decided in [false, true] {
        let mut world = world(MemoryStore::new()).await;
        let ten = turn("10", "7", "42");
        world.accept(&ten);
        let gate = world.park(&ten);
        assert_eq!(world.told_to_ask().await.as_deref(), Some("ask 10"));
        if decided {
            assert_eq!(world.decide(&gate, yes()).await, Some(true));
        }
        world.journal.cast(JournalMsg::Cancel(ten.id.clone())).unwrap();
        settle().await;
        let entries = world.store.entries.lock().clone();
        let counted = entries.iter().filter(|(key, _)| key.starts_with("staffai:ledger:")).map(|(_, sum)| sum);
        assert_eq!(counted.collect::<Vec<_>>(), ["7 0 0 1", "7 0 0 1"], "{decided}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_long_ago_is_not_done_any_more() {
    let (mut decided, mut open) = (turn("10", "7", "42"), turn("11", "8", "42"));
    for turn in [&mut decided, &mut open] {
        turn.at.0 -= 3 * HOUR;
    }
    let record = |turn: &Turn, decision: Option<ApprovalDecision>| {
        let case = Case { gate: gate(turn, turn.at), decision };
        let parked = Some(Box::new(Parked { case, posted: None, effort: effort(1), acted: false }));
        let custody = Custody::Open(OpenTurn { parked, ..OpenTurn::new(Arc::new(turn.clone()), None) });
        (keys::turn(&turn.id), serde_json::to_string(&custody).unwrap())
    };
    let mut world = world(with(vec![record(&decided, Some(yes())), record(&open, None)])).await;
    assert_eq!((world.goes_on().await, world.waiting().await), (None, Vec::new()));
    for _ in 0..2 {
        let (_, text, _) = world.delivery().await.unwrap();
        assert_eq!(text, notice::interrupted(Locale::English));
    }
}
