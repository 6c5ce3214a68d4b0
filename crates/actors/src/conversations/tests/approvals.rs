//! Turns whose calls require approval: their parked state, and their resumption.

use super::tools::{Bench, LONG, bench, calls, told, wish};
use super::*;
use crate::messages::journal::Parking;
use crate::services::toolbox::Toolset;
use domain::command::Caller;
use domain::gate::allowance::Allowance;
use domain::gate::{ApprovalDecision, Case, Clicker, Gate, Parked};
use domain::ids::Person;
use domain::keys;
use domain::tool::catalogue::Catalogue;
use ports::{PostRequest, PostResult};

const ASKS: (&str, &str) = ("STAFFAI_TOOLS__RULES", r#"[{tools = "s__changes", verdict = "ask"}]"#);

impl World {
    /// Stores the parking of the turn where the journal stores it, and returns it.
    async fn parks(&mut self) -> Box<Parking> {
        loop {
            if let JournalMsg::Park(id, parking) = self.journal.next().await {
                self.store.put(keys::parked(&id), parking.dialogue.clone());
                return parking;
            }
        }
    }

    /// Resumes the turn with this decision.
    fn goes_on(&self, turn: Turn, parking: &Parking, decision: ApprovalDecision) {
        let case = Case { gate: parking.gate.clone(), decision: Some(decision) };
        let parked = Parked { case, posted: None, effort: parking.effort.clone(), acted: parking.acted };
        let offered = OfferedTurn { turn: Arc::new(turn), again: false, resumed: Some(Box::new(parked)) };
        self.router.cast(ConversationsMsg::Offer(Box::new(offered))).unwrap();
    }

    /// Permits the turn to act, like a journal that has recorded it.
    async fn lets_act(&mut self) {
        wish(self).await.1.send(true).unwrap();
    }
}

fn yes() -> ApprovalDecision {
    ApprovalDecision::Approved { by: None }
}

/// Returns a turn pending on the approval of `changes`, with the calls that ran before it.
async fn waits(rules: &[(&str, &str)]) -> (World, Arc<Bench>, Box<Parking>) {
    let mut world = world(rules).await;
    let bench = bench(&world);
    calls(&world, &[("reads", 1), ("changes", 2), ("reads", 3)]);
    world.offer(turn("10", "7", "42"));
    let parking = world.parks().await;
    (world, bench, parking)
}

#[tokio::test(start_paused = true)]
async fn what_was_approved_runs_once_and_what_ran_before_runs_no_second_time() {
    let (mut world, bench, parking) = waits(&[ASKS]).await;
    assert_eq!(*bench.called.lock(), ["reads 1"], "nothing runs that waits, nor what comes after it");
    let Gate { tool, arguments, requester, approvers, .. } = &parking.gate;
    assert_eq!((tool.as_str(), requester.id.as_str(), approvers.len()), ("s__changes", "7", 0));
    assert_eq!(arguments, "{\n  \"n\": 2\n}");
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    world.lets_act().await;
    assert_eq!(world.answer().await, ("10".into(), Outcome::Replied, "fine".into()));
    assert_eq!(*bench.called.lock(), ["reads 1", "changes 2", "reads 3"]);
    assert_eq!(told(&world), ["reads gave 1", "changes gave 2", "reads gave 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_cancelled_after_its_decision_counts_only_what_it_used_since() {
    let (mut world, _bench, mut parking) = waits(&[ASKS]).await;
    parking.effort.usage.prompt = 7_000;
    world.models.say(Say::Flows(HIDDEN));
    world.goes_on(turn("10", "7", "42"), &parking, ApprovalDecision::Denied { by: None });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.router.cast(ConversationsMsg::Cancel(place("42"), turn_id("10"))).unwrap();
    let RateLimiterMsg::Settle { effort, .. } = world.rate_limiter.next().await else { panic!("it is settled") };
    assert_eq!(effort.usage.completion, 16);
    let all = world.store.scan("staffai:ledger:", usize::MAX).await.part();
    let counted: Vec<&str> = all.iter().map(|(_, sum)| sum.as_str()).collect();
    // The journal counts the part before, with the message.
    let used = format!("{} 16 0 0 0 {}", effort.usage.prompt, effort.usage.total());
    assert_eq!(counted, [used.as_str(); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_long_result_keeps_no_later_call_from_its_approval() {
    for bytes in [LONG, 1_000_000] {
        let mut world = world(&[ASKS, ("STAFFAI_TOOLS__RESULT_BYTES", "1000")]).await;
        let bench = bench(&world);
        let free = world.long_results.free();
        calls(&world, &[("reads", u32::try_from(bytes).unwrap()), ("changes", 2)]);
        world.offer(turn("10", "7", "42"));
        let parking = world.parks().await;
        settle().await;
        assert_eq!(world.long_results.free(), free, "a turn that waits is in the store");
        assert_eq!(parking.dialogue.len() > usize::try_from(LONG).unwrap(), bytes == LONG);
        world.goes_on(turn("10", "7", "42"), &parking, yes());
        world.lets_act().await;
        assert_eq!(world.answer().await.1, Outcome::Replied);
        assert_eq!(bench.called.lock().len(), 2);
        settle().await;
        assert_eq!(world.long_results.free(), free);
    }
}

#[tokio::test(start_paused = true)]
async fn many_results_are_shortened_for_the_approval_of_a_later_call() {
    let mut world = world(&[ASKS]).await;
    let bench = bench(&world);
    let long = (0..6).map(|n| ("reads", u32::try_from(LONG).unwrap() + n));
    calls(&world, &long.chain([("changes", 2)]).collect::<Vec<_>>());
    world.offer(turn("10", "7", "42"));
    let parking = world.parks().await;
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    world.lets_act().await;
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert_eq!(bench.called.lock().len(), 7);
    let told = told(&world);
    assert!(told.len() == 7 && told[..6].iter().all(|text| text.len() > 10_000), "{:?}", told.iter().map(String::len));
}

#[tokio::test(start_paused = true)]
async fn the_lane_takes_the_next_message_while_a_turn_waits() {
    let (mut world, bench, parking) = waits(&[ASKS]).await;
    world.offer(turn("11", "7", "42"));
    assert_eq!(world.answer().await.0, "11");
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    world.lets_act().await;
    assert_eq!(world.answer().await.0, "10");
    assert_eq!(bench.called.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn whatever_is_no_yes_is_told_to_the_model_and_runs_nothing() {
    for (decision, words) in [
        (ApprovalDecision::Denied { by: None }, "A person was asked to approve this call and said no."),
        (ApprovalDecision::Expired, "nobody answered in time"),
        (ApprovalDecision::NotAsked, "nobody could be asked now"),
    ] {
        let (mut world, bench, parking) = waits(&[ASKS]).await;
        world.goes_on(turn("10", "7", "42"), &parking, decision);
        assert_eq!(world.answer().await.1, Outcome::Replied);
        assert_eq!(*bench.called.lock(), ["reads 1", "reads 3"]);
        let told = told(&world);
        assert!(told[1].contains(words) && told[1].contains("It did not run"), "{told:?}");
    }
}

/// Resumes with an approval after a change of the world; returns the calls that ran and the result that the model
/// received.
async fn goes_on_after(change: impl FnOnce(&World, &Arc<Bench>, &mut Parking)) -> (Vec<String>, String) {
    let (mut world, bench, mut parking) = waits(&[ASKS]).await;
    change(&world, &bench, &mut parking);
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    assert_eq!(world.answer().await.1, Outcome::Replied);
    let (called, told) = (bench.called.lock().clone(), told(&world).remove(1));
    (called, told)
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_changed_does_not_run_with_the_approval_of_what_it_was() {
    let (called, told) = goes_on_after(|world, bench, _| super::tools::changed(world, bench)).await;
    assert!(!called.contains(&"changes 2".to_owned()), "{called:?}");
    assert!(told.contains("changed after a person was asked"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn other_arguments_do_not_run_with_the_approval_of_those_that_were_shown() {
    let (called, told) = goes_on_after(|world, _, parking| {
        let forged = parking.dialogue.replace(r#"{\"n\":2}"#, r#"{\"n\":9}"#);
        assert_ne!(forged, parking.dialogue);
        world.store.put(keys::parked(&parking.gate.turn), forged);
    })
    .await;
    assert_eq!(called, ["reads 1", "reads 3"]);
    assert!(told.contains("changed after a person was asked"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_outlasts_reads_that_fail() {
    let (mut world, bench, parking) = waits(&[ASKS]).await;
    world.store.degraded.store(true, Ordering::SeqCst);
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(*bench.called.lock(), ["reads 1"]);
    world.store.degraded.store(false, Ordering::SeqCst);
    world.lets_act().await;
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert_eq!(*bench.called.lock(), ["reads 1", "changes 2", "reads 3"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_any_more_is_an_apology() {
    let (mut world, bench, parking) = waits(&[ASKS]).await;
    world.store.put(keys::parked(&parking.gate.turn), "{");
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    assert_eq!(world.answer().await.1, Outcome::Apologised(Ending::NotResumed));
    assert_eq!(*bench.called.lock(), ["reads 1"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_was_approved_runs_before_it_is_on_record() {
    // A read-only tool, so that only the approval causes the record.
    let rule = ("STAFFAI_TOOLS__RULES", r#"[{tools = "s__reads", verdict = "ask"}]"#);
    let mut world = world(&[rule]).await;
    let bench = bench(&world);
    calls(&world, &[("reads", 1)]);
    world.offer(turn("10", "7", "42"));
    let parking = world.parks().await;
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    let (_, reply) = wish(&mut world).await;
    assert!(bench.called.lock().is_empty());
    drop(reply);
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert!(bench.called.lock().is_empty());
    assert_eq!(told(&world), ["It cannot run now, because nothing can be recorded. It did not run."]);
}

#[tokio::test(start_paused = true)]
async fn an_allowance_lets_the_same_call_of_the_same_person_run_in_the_same_place() {
    let (mut world, bench, parking) = waits(&[ASKS]).await;
    let caller = Caller {
        person: Person::new(DOOR, "7"),
        name: String::new(),
        roles: Vec::new(),
        locale: None,
        operator: false,
    };
    let now = ports::Clock::now(&*world.clock);
    world.allowances.add(Allowance::of(&parking.gate, &Clicker::Member(caller), now), now);
    calls(&world, &[("changes", 2)]);
    world.offer(turn("11", "7", "42"));
    world.lets_act().await;
    assert_eq!(world.answer().await.0, "11");
    assert_eq!(bench.called.lock().last().map(String::as_str), Some("changes 2"));
    for (id, person, place, n) in [("12", "7", "42", 3), ("13", "8", "42", 2), ("14", "7", "43", 2)] {
        calls(&world, &[("changes", n)]);
        world.offer(turn(id, person, place));
        assert_eq!(world.parks().await.gate.turn.id, id, "another call, person or place");
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_the_call_is_refused_in_the_same_turn() {
    let named = r#"[{tools = "s__changes", verdict = "ask", approvers = [5]}]"#;
    let mut world = world(&[("STAFFAI_TOOLS__RULES", named)]).await;
    let bench = bench(&world);
    let mut silent = turn("10", "7", "42");
    silent.policy.gates = domain::turn::GatePolicy::Deny;
    calls(&world, &[("changes", 1)]);
    world.offer(silent);
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert!(bench.called.lock().is_empty());
    assert!(told(&world)[0].contains("there is no way to ask one now"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_too_long_to_be_shown_is_refused() {
    let mut world = world(&[ASKS]).await;
    let bench = bench(&world);
    let filler = "x".repeat(domain::gate::ARGUMENTS_MAX);
    let text = serde_json::json!({"tool": "s__changes", "arguments": {"n": 1, "why": filler}}).to_string();
    world.models.say(Say::Plain(Box::leak(text.into_boxed_str())));
    world.offer(turn("10", "7", "42"));
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert!(bench.called.lock().is_empty() && told(&world)[0].contains("too long to be shown"));
}

/// Each call of `changes` requires approval, and members with role 6 may make none.
const RULES: (&str, &str) = (
    "STAFFAI_TOOLS__RULES",
    r#"[{tools = "s__changes", verdict = "ask"}, {tools = "s__changes", roles = [6], verdict = "deny"}]"#,
);

/// Resumes an approved turn whose member has these roles now; returns the calls that ran.
async fn goes_on_with(roles: Option<&[&str]>) -> (Vec<String>, String) {
    let mut world = world(&[RULES]).await;
    let bench = super::tools::bench(&world);
    calls(&world, &[("changes", 2)]);
    let moderator = Turn { roles: vec!["5".to_owned()], ..turn("10", "7", "42") };
    world.offer(moderator.clone());
    let parking = world.parks().await;
    world.goes_on(moderator, &parking, yes());
    loop {
        if let OutboxMsg::Read(PostRequest::Roles(member), reply) = world.outbox.next().await {
            assert_eq!((member.guild.as_str(), member.person.id.as_str()), ("5", "7"));
            match roles {
                Some(roles) => {
                    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
                    reply.send(Ok(PostResult::Roles(roles))).unwrap();
                }
                None => drop(reply),
            }
            break;
        }
    }
    if roles.is_some_and(|roles| roles.contains(&"5")) {
        world.lets_act().await;
    }
    assert_eq!(world.answer().await.1, Outcome::Replied);
    let called = bench.called.lock().clone();
    (called, told(&world).remove(0))
}

#[tokio::test(start_paused = true)]
async fn what_was_approved_is_decided_about_again_with_the_roles_of_now() {
    assert_eq!(goes_on_with(Some(&["5"])).await.0, ["changes 2"]);
    for (roles, words) in [(Some(&["6"] as &[&str]), "may not use this tool"), (None, "could not be found out")] {
        let (called, told) = goes_on_with(roles).await;
        assert!(called.is_empty() && told.contains(words), "{called:?} {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_waits_for_its_server_after_a_restart_and_not_for_ever() {
    for comes_back in [true, false] {
        let (mut world, bench, parking) = waits(&[ASKS]).await;
        world.toolbox.publish(Toolset::new(Arc::new(Catalogue::default()), std::collections::HashMap::new()));
        world.goes_on(turn("10", "7", "42"), &parking, yes());
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bench.called.lock().len(), 1, "it waits");
        if comes_back {
            super::tools::comes_back(&world, &bench);
            world.lets_act().await;
        }
        assert_eq!(world.answer().await.1, Outcome::Replied);
        assert_eq!(bench.called.lock().contains(&"changes 2".to_owned()), comes_back);
        if !comes_back {
            assert!(told(&world)[1].contains("its tool is not there any more"), "{:?}", told(&world));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_is_not_turned_away_by_a_full_lane_and_comes_first() {
    let (mut world, bench, parking) = waits(&[ASKS, ("STAFFAI_TURN__LANE", "1")]).await;
    world.models.takes(Duration::from_secs(3));
    for id in ["11", "12"] {
        world.offer(turn(id, "7", "42"));
        settle().await;
    }
    world.goes_on(turn("10", "7", "42"), &parking, yes());
    assert_eq!(world.answer().await.0, "11");
    world.lets_act().await;
    assert_eq!((world.answer().await.0, world.answer().await.0), ("10".into(), "12".into()));
    assert_eq!(bench.called.lock().len(), 3);
}
