//! Drafts, and the answers that finish them.

use super::super::drawing::DRAFT_SPARES;
use super::*;

impl World {
    /// A turn in place 42 begins to write.
    fn writes(&self, id: &str, text: &str) -> Slot {
        self.writes_in("42", id, text)
    }

    fn writes_in(&self, there: &str, id: &str, text: &str) -> Slot {
        let slot = Slot::default();
        slot.write(text);
        let (turn, until) = (turn_id(id), Deadline::fixed(Instant::now() + Duration::from_secs(100)));
        let reply_to = Some(turn.trigger());
        let draft = TurnDraft { turn, place: place(there), reply_to, slot: slot.clone(), again: false, until };
        self.outbox.cast(OutboxMsg::Draft(draft)).unwrap();
        slot
    }

    fn finishes(&self, id: &str, text: &str) {
        let turn = turn(id, "7", "42");
        let outgoing = turn.reply_with(text);
        self.outbox
            .cast(OutboxMsg::Deliver {
                person: turn.person.clone(),
                turn: turn.id,
                outgoing,
                since: turn.at,
                check: false,
                others: Vec::new(),
                nonce_until: None,
                drafted: true,
                refused: None,
                rescue: None,
                clearance: crate::messages::clearance::Clearance::default(),
            })
            .unwrap();
    }

    /// Returns the texts of our messages in place 42.
    fn shown(&self) -> Vec<String> {
        self.poster.ours(&place("42"))
    }
}

/// The posted draft of "first words of an answer": the last letter is held back, because more may join it.
const DRAWN: &str = "first words of an answe";

/// Words that fill messages of a hundred characters.
fn words(from: usize, to: usize) -> String {
    (from..to).map(|n| format!("word{n:03}")).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_the_pace_of_no_draft_and_for_no_other_answer() {
    let mut world = world().await;
    let ids = ["10", "11", "12", "13", "14", "15"];
    for id in ids {
        world.writes(id, "first words of it");
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(world.shown().len(), 6);
    let begun = Instant::now();
    for id in ids {
        world.finishes(id, "first words of it, and the last ones");
    }
    for _ in ids {
        assert_eq!(world.told().await.1, Ok(1));
    }
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!(world.shown(), ["first words of it, and the last ones"; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_is_new_does_not_overtake_those_that_wait_for_the_budget() {
    let world = world_of(Pacer::new(DRAFT_SPARES + 1, 1000)).await;
    let text = words(0, 10);
    let mut slots = Vec::new();
    for there in ["1", "2", "3"] {
        slots.push(world.writes_in(there, there, &text));
    }
    tokio::time::sleep(Duration::from_millis(900)).await;
    for late in 0..150 {
        slots.push(world.writes_in(&format!("late {late}"), &format!("1{late:03}"), &text));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let created = |(_, request): &(Instant, PostRequest)| match request {
        PostRequest::Create { place, .. } => Some(place.id.to_string()),
        _ => None,
    };
    let places: Vec<String> = world.poster.requests.lock().iter().filter_map(created).collect();
    assert_eq!(places[..3], ["1", "2", "3"], "one draft a second: {places:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_posted_while_another_waits_for_the_bucket_of_edits() {
    let mut world = world().await;
    let slot = world.writes("10", "first words");
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    world.poster.post_goes(Go::Leaves(0, Duration::from_secs(7)));
    slot.write("first words and more");
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let begun = Instant::now();
    world.finishes("10", "first words and the last ones");
    world.deliver("11", "42", "short");
    assert_eq!(world.told().await.0, "11");
    assert!(begun.elapsed() < Duration::from_millis(100));
    assert_eq!(world.told().await.0, "10");
    assert!(begun.elapsed() >= Duration::from_secs(5), "the bucket was empty");
    assert_eq!(world.shown(), ["first words and the last ones", "short"]);
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_is_full_goes_on_in_further_messages() {
    let mut world = world().await;
    let slot = world.writes("10", &words(0, 10));
    tokio::time::sleep(Duration::from_secs(2)).await;
    for end in [16, 24, 28, 40, 60, 90] {
        slot.write(&words(0, end));
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let shown = world.shown();
    assert_eq!(shown.len(), domain::draft::DRAFT_MESSAGES_MAX, "{shown:#?}");
    assert!(words(0, 90).starts_with(&shown.join(" ")), "{shown:#?}");
    world.finishes("10", &words(0, 90));
    assert_eq!(world.told().await.1, Ok(8));
    assert_eq!(world.shown().join(" "), words(0, 90));
    let nonces: Vec<String> = world.poster.requests.lock().iter().filter_map(|(_, request)| nonce(request)).collect();
    assert_eq!(nonces, (0..8).map(|piece| format!("10-{piece}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn every_message_of_a_draft_is_found_after_a_crash() {
    let mut world = world().await;
    let slot = world.writes("10", &words(0, 24));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.shown().len(), 2);
    world.faults.inject("staffai/outbox:discord", Fault::Error);
    world.deliver("99", "43", "gone");
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The turn continues to write, and announces its draft again.
    slot.write(&words(0, 25));
    let (turn, until) = (turn_id("10"), Deadline::fixed(Instant::now() + Duration::from_secs(100)));
    let reply_to = Some(turn.trigger());
    let draft = TurnDraft { turn, place: place("42"), reply_to, slot, again: false, until };
    world.outbox.cast(OutboxMsg::Draft(draft)).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.shown().len(), world.creates()), (2, 2));
    // The complete answer of a restarted process finds them as well.
    world.deliver_as("10", "42", &words(0, 30), true);
    assert_eq!(world.told().await.1, Ok(3));
    assert_eq!(world.shown().join(" "), words(0, 30));
    assert_eq!(world.creates(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_is_written_again_goes_on_in_its_own_messages_when_their_nonces_are_gone() {
    let world = world().await;
    world.writes("10", &words(0, 36));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.shown().len(), world.creates()), (3, 3));
    world.faults.inject("staffai/outbox:discord", Fault::Error);
    world.deliver("99", "43", "gone");
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.poster.forget_nonces();
    // The turn begins again, with a first text that fits into one message.
    let slot = Slot::default();
    slot.write(&words(0, 3));
    let (turn, until) = (turn_id("10"), Deadline::fixed(Instant::now() + Duration::from_secs(100)));
    let reply_to = Some(turn.trigger());
    let draft = TurnDraft { turn, place: place("42"), reply_to, slot: slot.clone(), again: true, until };
    world.outbox.cast(OutboxMsg::Draft(draft)).unwrap();
    for end in 4..=47 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        slot.write(&words(0, end));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.creates(), 4, "only the message that is new: {:#?}", world.shown());
    assert!(words(0, 47).starts_with(&world.shown().join(" ")), "{:#?}", world.shown());
}

#[tokio::test(start_paused = true)]
async fn what_a_draft_showed_beyond_the_end_of_its_answer_is_removed() {
    let mut world = world().await;
    world.writes("10", &words(0, 37));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.shown().len(), 3);
    world.finishes("10", "only this");
    assert_eq!(world.told().await.1, Ok(1));
    assert_eq!(world.shown(), ["only this"]);
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_was_removed_comes_again_with_its_answer() {
    let mut world = world().await;
    world.writes("10", "first words");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.poster.messages.lock().clear();
    world.poster.post_goes(rejected(Rejection::MessageGone));
    world.finishes("10", "first words and the last ones");
    assert_eq!(world.told().await.1, Ok(1));
    assert_eq!(world.shown(), ["first words and the last ones"]);
}

#[tokio::test(start_paused = true)]
async fn what_stands_of_an_answer_is_removed_with_its_question() {
    let mut world = world().await;
    let forget = |id: &str, perhaps: bool| OutboxMsg::Withdraw { place: place("42"), turn: turn_id(id), perhaps };
    let slot = world.writes("10", "first words of an answer");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(world.shown(), [DRAWN]);
    // The first try of the removal fails.
    world.poster.post_goes(transient());
    world.outbox.cast(forget("10", false)).unwrap();
    slot.write("first words of an answer and more");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.shown(), [""; 0]);

    // The draft is in flight meanwhile.
    world.poster.slow(place("42"), Duration::from_secs(2));
    world.writes("11", "first words of another");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.outbox.cast(forget("11", false)).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((world.shown(), world.creates()), (Vec::new(), 2));

    // The answer is in flight meanwhile.
    world.deliver("12", "42", "a whole answer");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.outbox.cast(forget("12", false)).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((world.shown(), world.creates()), (Vec::new(), 3));
    assert!(world.journal.within(Duration::from_secs(1)).await.is_none(), "its turn is closed");

    // An earlier process posted it.
    world.poster.earlier("9500", &place("42"), &message("13"), "first words of an earlier life");
    world.poster.earlier("9501", &place("42"), &message("14"), "an answer to another");
    world.outbox.cast(forget("13", true)).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.shown(), ["an answer to another"]);
}

/// Posts messages of an earlier outbox: the trigger, if it is a reply, and the text.
fn posted_earlier(world: &World, all: &[(Option<&str>, &str)]) {
    for (number, (trigger, text)) in all.iter().enumerate() {
        let id = format!("{}", 9500 + number);
        world.poster.earlier(&id, &place("42"), &message(trigger.unwrap_or("1")), text);
        if let (None, Some(posted)) = (trigger, world.poster.messages.lock().last_mut()) {
            posted.reply_to = None;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_message_of_another_answer_that_begins_alike_is_left_as_it_is() {
    let (first, rest) = (words(0, 12), words(12, 24));
    let begun = words(12, 18);
    let (ours, other, further) = ((Some("10"), &*first), (Some("11"), "another answer"), (None, &*begun));
    for (earlier, shown) in [
        // Directly behind the known part, with no other answer.
        (vec![ours, further], vec![&*first, &*rest]),
        (vec![ours, other, further], vec![&*first, "another answer", &*begun, &*rest]),
        (vec![other, ours, further], vec!["another answer", &*first, &*begun, &*rest]),
    ] {
        let mut world = world().await;
        posted_earlier(&world, &earlier);
        world.finishes("10", &format!("{first} {rest}"));
        assert_eq!(world.told().await, ("10".into(), Ok(2)));
        assert_eq!(world.shown(), shown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_is_gone_without_a_word_about_it_is_posted_anew() {
    for reason in [Rejection::Unexplained, Rejection::Content] {
        let mut world = world().await;
        world.writes("10", "first words of an answer");
        tokio::time::sleep(Duration::from_millis(400)).await;
        world.poster.messages.lock().clear();
        world.poster.post_goes(rejected(reason));
        world.finishes("10", "first words of an answer and the last");
        assert_eq!(world.told().await.1, Ok(1));
        assert_eq!(world.shown(), ["first words of an answer and the last"], "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_can_no_longer_be_edited_is_replaced_and_never_passes_for_the_answer() {
    for (reason, tries) in [(Rejection::Unexplained, 6), (Rejection::Content, 1)] {
        // The thread was archived, for example: the edit is refused, and a post is accepted.
        for kept in [false, true] {
            let mut world = world().await;
            world.writes("10", "first words of an answer");
            tokio::time::sleep(Duration::from_millis(400)).await;
            for _ in 0..tries + usize::from(kept) {
                world.poster.post_goes(rejected(reason));
            }
            world.finishes("10", "first words of an answer and the last");
            assert_eq!(world.told().await.1, Ok(1), "{reason}");
            let whole = "first words of an answer and the last";
            let shown: &[&str] = if kept { &[DRAWN, whole] } else { &[whole] };
            assert_eq!(world.shown(), shown, "{reason}");
        }
        // If the rest is refused as well, the answer failed.
        let mut world = world().await;
        world.writes("11", "first words of an answer");
        tokio::time::sleep(Duration::from_millis(400)).await;
        for _ in 0..20 {
            world.poster.post_goes(rejected(reason));
        }
        world.finishes("11", "first words of an answer and the last");
        assert!(world.told().await.1.is_err(), "{reason}");
    }
}
