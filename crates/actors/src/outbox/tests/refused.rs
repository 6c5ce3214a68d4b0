//! Answers that the platform keeps refusing.

use super::*;
use crate::messages::outbox::Rescue;
use domain::delivery::Form;
use domain::locale::Locale;
use domain::outgoing::{Button, ButtonStyle, Capabilities, Card, Piece};

/// True if a request is refused.
type Rule = fn(&PostRequest) -> bool;

fn piece(request: &PostRequest) -> Option<&Piece> {
    match request {
        PostRequest::Create { piece, .. } | PostRequest::Edit { piece, .. } => Some(piece),
        _ => None,
    }
}

fn is_poison(request: &PostRequest) -> bool {
    piece(request).is_some_and(|piece| piece.text.contains("poison"))
}

fn is_post(request: &PostRequest) -> bool {
    piece(request).is_some()
}

fn shows_a_sign(request: &PostRequest) -> bool {
    is_post(request) || matches!(request, PostRequest::React { .. })
}

impl World {
    /// Matching requests get a 5xx response from now on.
    fn refuses(&self, rule: Rule) {
        *self.poster.refuses.lock() = Some(rule);
    }

    fn refuses_nothing(&self) {
        *self.poster.refuses.lock() = None;
    }

    /// Delivers an answer to a member who is told after this time that the platform refused it.
    fn deliver_to_member(&self, id: &str, parts: Vec<Part>, told_after: Duration, refused: Option<(u32, Instant)>) {
        let turn = turn(id, "7", "42");
        let outgoing = Outgoing { parts, ..turn.reply_with("") };
        let rescue = Some(Rescue { at: Instant::now() + told_after, locale: Locale::English });
        let (since, check) = (turn.at, refused.is_some());
        let deliver = OutboxMsg::Deliver {
            person: turn.person.clone(),
            turn: turn.id,
            outgoing,
            since,
            check,
            others: Vec::new(),
            nonce_until: None,
            drafted: false,
            refused,
            rescue,
            clearance: crate::messages::clearance::Clearance::default(),
        };
        self.outbox.cast(deliver).unwrap();
    }

    fn says_poison(&self, told_after: u64) {
        self.deliver_to_member("10", vec![text("poison")], Duration::from_secs(told_after), None);
    }

    /// Returns the next turn that ended, its form, and the refusals reported before.
    async fn ended(&mut self) -> (String, Option<Form>, Vec<u32>) {
        let mut refusals = Vec::new();
        loop {
            match self.journal.next().await {
                JournalMsg::Refused(_, many, _) => refusals.push(many),
                JournalMsg::Delivered(turn, delivery) => return (turn.id.into(), Some(delivery.form), refusals),
                JournalMsg::Undeliverable(turn, _) => return (turn.id.into(), None, refusals),
                _ => panic!("an outbox does not say this"),
            }
        }
    }

    fn parts_down(&self) -> Vec<String> {
        let down = self.board.parts().into_iter().filter(|(.., state)| !state.up);
        down.map(|(kind, name, _)| format!("{} {name}", kind.as_str())).collect()
    }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_always_refused_holds_up_no_other_and_its_member_is_told_in_time() {
    let (log, mut world) = (Log::capture(), world().await);
    world.refuses(is_poison);
    let begun = Instant::now();
    world.says_poison(110);
    for id in ["11", "12", "13"] {
        world.deliver(id, "42", id);
    }
    for id in ["11", "12", "13"] {
        let (ended, form, _) = world.ended().await;
        assert_eq!((ended.as_str(), form), (id, Some(Form::Whole)));
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(world.parts_down(), ["place discord:42"], "the others are taken, so the door is well");
    let (ended, form, refusals) = world.ended().await;
    assert_eq!((ended.as_str(), form), ("10", Some(Form::Apology)));
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    assert!(refusals.iter().is_sorted() && refusals.len() > 3, "its attempts are on record: {refusals:?}");
    assert_eq!(world.poster.ours(&place("42")).len(), 4);
    assert!(world.poster.ours(&place("42"))[3].starts_with("Sorry, "));
    assert_eq!(log.column("outbox.delayed", "turn"), ["discord:10"], "one line names the delay");
    assert!(log.column("outbox.delayed", "error")[0].contains("discord answered 503"));
    settle().await;
    assert_eq!(world.parts_down(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn where_no_text_is_taken_the_question_gets_a_reaction() {
    let mut world = world().await;
    world.refuses(is_post);
    let begun = Instant::now();
    world.says_poison(50);
    let (_, form, _) = world.ended().await;
    assert_eq!((form, world.reactions()), (Some(Form::Reaction), vec!["10".to_owned()]));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_words_of_an_answer_come_when_its_file_is_always_refused() {
    let mut world = world().await;
    *world.poster.shows.lock() = Capabilities { cards: 1, buttons: 5, ..Capabilities::text_only(100) };
    world.refuses(|request| piece(request).is_some_and(|piece| !piece.cards.is_empty()));
    let card = Part::Card(Card { text: "a boat".to_owned(), ..Card::default() });
    let begun = Instant::now();
    world.deliver_to_member("10", vec![text("look"), card.clone()], Duration::from_secs(110), None);
    let (_, form, _) = world.ended().await;
    assert_eq!(form, Some(Form::Words));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(world.poster.ours(&place("42")), ["look\n\na boat"]);
    // A post that asks for a decision is never reduced.
    let button = Button { name: "yes".to_owned(), label: "Yes".to_owned(), style: ButtonStyle::Good };
    let parts = vec![text("may I?"), card, Part::Buttons { buttons: vec![button] }];
    let outgoing = Outgoing { place: place("43"), reply_to: None, parts, apology: false, spent: None, private: false };
    let ask = |reply| OutboxMsg::Post { name: "gate-1".to_owned(), outgoing, reply };
    assert!(world.outbox.call(ask, Duration::from_secs(2000)).await.unwrap().is_err());
    assert_eq!(world.poster.ours(&place("43")), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_answers_of_a_place_come_whole_and_in_order() {
    let mut world = world().await;
    world.refuses(is_post);
    for id in ["10", "11", "12", "13", "14"] {
        world.deliver_to_member(id, vec![text(id)], Duration::from_secs(110), None);
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(world.parts_down(), ["place discord:42", "door discord:posts"]);
    world.refuses_nothing();
    for id in ["10", "11", "12", "13", "14"] {
        let (ended, form, _) = world.ended().await;
        assert_eq!((ended.as_str(), form), (id, Some(Form::Whole)));
    }
    assert_eq!(world.poster.ours(&place("42")), ["10", "11", "12", "13", "14"]);
    settle().await;
    assert_eq!(world.parts_down(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn two_bad_answers_in_a_row_delay_the_third_by_one_sweep() {
    let mut world = world().await;
    world.refuses(is_poison);
    let begun = Instant::now();
    for id in ["10", "11"] {
        world.deliver_to_member(id, vec![text("poison")], Duration::from_secs(110), None);
    }
    world.deliver("12", "42", "well");
    let (ended, ..) = world.ended().await;
    assert_eq!(ended, "12");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_ends_at_the_deadline_brings_the_answer_and_no_apology() {
    let mut world = world().await;
    world.refuses(shows_a_sign);
    world.says_poison(30);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(world.reactions().is_empty() || world.poster.ours(&place("42")).is_empty());
    world.refuses_nothing();
    assert_eq!(world.ended().await.1, Some(Form::Whole));
    assert_eq!(world.poster.ours(&place("42")), ["poison"]);
}

#[tokio::test(start_paused = true)]
async fn refusals_of_an_earlier_life_count() {
    let mut world = world().await;
    world.refuses(is_poison);
    let before = Some((9, Instant::now()));
    world.deliver_to_member("10", vec![text("poison")], Duration::from_secs(20), before);
    world.deliver("11", "42", "well");
    settle().await;
    assert_eq!(world.ended().await.0, "11", "it does not hold up the others anew");
    assert_eq!(world.ended().await.1, Some(Form::Apology));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_apologised_for_at_once() {
    let mut world = world().await;
    world.poster.post_goes(rejected(Rejection::Content));
    let begun = Instant::now();
    world.says_poison(110);
    assert_eq!(world.ended().await.1, Some(Form::Apology));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_post_of_which_the_answer_was_lost_is_not_doubled_by_words_or_an_apology() {
    let mut world = world().await;
    // The message exists, and every response claims that it does not.
    for _ in 0..200 {
        world.poster.post_goes(Go::LoseAnswer);
    }
    world.says_poison(100);
    world.ended().await;
    assert_eq!(world.poster.ours(&place("42")), ["poison"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_whose_question_is_gone_is_dropped() {
    let mut world = world().await;
    world.refuses(is_poison);
    world.says_poison(100);
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.outbox.cast(OutboxMsg::Withdraw { place: place("42"), turn: turn_id("10"), perhaps: false }).unwrap();
    world.refuses_nothing();
    while let Some(told) = world.journal.within(Duration::from_secs(300)).await {
        assert!(matches!(told, JournalMsg::Refused(..)), "nothing comes of it");
    }
    assert_eq!(world.poster.ours(&place("42")), [""; 0]);
    assert_eq!(world.parts_down(), [""; 0]);
}
