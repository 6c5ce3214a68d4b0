//! Answers with cards and files.

use super::*;
use domain::outgoing::{Capabilities, Card, Piece};

/// Creates a world whose platform accepts cards and files.
async fn rich_world() -> World {
    let world = world().await;
    *world.poster.shows.lock() =
        Capabilities { cards: 10, files: 10, file_bytes: 10_000, buttons: 5, ..Capabilities::text_only(100) };
    world
}

fn formula(words: &str, formula: &str) -> Vec<Part> {
    vec![Part::Text { text: words.to_owned() }, Part::Formula { formula: formula.to_owned() }]
}

impl World {
    fn deliver_parts(&self, id: &str, parts: Vec<Part>, check: bool) {
        let turn = turn(id, "7", "42");
        let outgoing = Outgoing { parts, ..turn.reply_with("") };
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

    /// Returns the content of each of our messages in order: its text, and the names of its files.
    fn carried(&self) -> Vec<(String, Vec<String>)> {
        let names = |piece: &Piece| piece.files.iter().map(|file| file.name.clone()).collect();
        let messages = self.poster.messages.lock();
        let carried = self.poster.carried.lock();
        let pieces = messages.iter().filter_map(|posted| carried.get(&posted.id));
        pieces.map(|piece| (piece.text.clone(), names(piece))).collect()
    }

    fn edits(&self) -> usize {
        self.poster.count(|request| matches!(request, PostRequest::Edit { .. }))
    }
}

fn whole(text: &str, files: &[&str]) -> (String, Vec<String>) {
    (text.to_owned(), files.iter().map(|&name| name.to_owned()).collect())
}

#[tokio::test(start_paused = true)]
async fn a_formula_is_drawn_where_pictures_are_taken_and_told_where_not() {
    let mut world = rich_world().await;
    world.deliver_parts("10", formula("Look:", "x^2"), false);
    world.deliver_parts("11", formula("Look:", "bad"), false);
    assert_eq!((world.told().await.1, world.told().await.1), (Ok(1), Ok(1)));
    let told = whole("Look:\n```latex\nbad\n```", &[]);
    assert_eq!(world.carried(), [whole("Look:", &["formula.png"]), told]);
    let picture = world.poster.carried.lock().values().find_map(|piece| piece.files.first().cloned()).unwrap();
    assert_eq!((&*picture.bytes, picture.description.as_str()), (&b"x^2"[..], "x^2"));

    *world.poster.shows.lock() = Capabilities::text_only(100);
    world.deliver_parts("12", formula("Look:", "x^2"), false);
    assert!(world.told().await.1.is_ok());
    assert_eq!(world.carried()[2], whole("Look:\n```latex\nx^2\n```", &[]));
}

#[tokio::test(start_paused = true)]
async fn a_first_message_of_an_earlier_life_gets_its_file_by_edit() {
    let mut world = rich_world().await;
    world.poster.earlier("500", &place("42"), &message("10"), "Look:");
    world.deliver_parts("10", formula("Look:", "x^2"), true);
    assert_eq!(world.told().await.1, Ok(1));
    assert_eq!((world.creates(), world.edits()), (0, 1), "a draft with the same words has no file yet");
    assert_eq!(world.carried(), [whole("Look:", &["formula.png"])]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_between_two_messages_posts_the_rest_once_with_its_file() {
    let words = "words and words ".repeat(8);
    let mut first = rich_world().await;
    first.deliver_parts("10", formula(&words, "x^2"), false);
    assert_eq!(first.told().await.1, Ok(2));
    let all = first.carried();
    assert_eq!(all.iter().map(|(_, files)| files.len()).collect::<Vec<_>>(), [0, 1]);

    let mut second = rich_world().await;
    second.poster.earlier("500", &place("42"), &message("10"), &all[0].0);
    second.deliver_parts("10", formula(&words, "x^2"), true);
    assert_eq!(second.told().await.1, Ok(2));
    assert_eq!((second.creates(), second.edits()), (1, 0));
    assert_eq!(second.carried(), all[1..]);

    // The answer is complete: the second message was posted with its file or not at all.
    let mut third = rich_world().await;
    third.poster.earlier("500", &place("42"), &message("10"), &all[0].0);
    third.poster.earlier("501", &place("42"), &message("10"), &all[1].0);
    third.poster.messages.lock()[1].reply_to = None;
    third.deliver_parts("10", formula(&words, "x^2"), true);
    assert_eq!(third.told().await.1, Ok(2));
    assert_eq!((third.creates(), third.edits()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_place_refuses_to_show_is_told_in_words() {
    let mut world = rich_world().await;
    for (id, reason) in [("1", Rejection::Content), ("2", Rejection::Forbidden), ("3", Rejection::Unexplained)] {
        world.poster.post_goes(rejected(reason));
        world.deliver_parts(id, formula("Look:", "x^2"), false);
        assert_eq!(world.told().await.1, Ok(1), "{reason}");
        assert_eq!(world.carried().pop(), Some(whole("Look:\n```latex\nx^2\n```", &[])));
    }
    let card = Card { url: Some("https://example.com".to_owned()), ..Card::default() };
    world.poster.post_goes(rejected(Rejection::Content));
    world.deliver_parts("20", vec![Part::Card(card)], false);
    assert_eq!(world.told().await.1, Ok(1));
    assert_eq!(world.carried().pop(), Some(whole("https://example.com", &[])));
    // If plain text is refused as well, the place is closed as usual.
    for _ in 0..2 * PROBES_MAX {
        world.poster.post_goes(rejected(Rejection::Forbidden));
    }
    world.deliver_parts("21", formula("Look:", "x^2"), false);
    assert!(world.told().await.1.is_err());
    assert_eq!(world.carried().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_post_with_a_file_is_seen_once() {
    let mut world = rich_world().await;
    world.poster.post_goes(Go::LoseAnswer);
    world.poster.post_goes(transient());
    world.deliver_parts("10", formula("Look:", "x^2"), false);
    assert_eq!(world.told().await.1, Ok(1));
    assert_eq!(world.carried(), [whole("Look:", &["formula.png"])]);
}

#[tokio::test(start_paused = true)]
async fn a_post_with_an_unknown_outcome_becomes_the_smaller_form() {
    let mut world = rich_world().await;
    world.poster.post_goes(Go::LoseAnswer);
    world.poster.post_goes(rejected(Rejection::Content));
    world.deliver_parts("10", formula("Look:", "x^2"), false);
    assert_eq!(world.told().await.1, Ok(1));
    let shown = world.poster.ours(&place("42"));
    assert!(shown.len() == 1 && shown[0].contains("x^2"), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_post_that_is_found_later_and_cannot_be_edited_is_replaced() {
    let mut world = rich_world().await;
    world.poster.post_goes(Go::LoseAnswer);
    world.poster.post_goes(rejected(Rejection::Content));
    for _ in 0..16 {
        world.poster.post_goes(transient());
    }
    // The edit of the message that is found.
    world.poster.post_goes(rejected(Rejection::Content));
    world.deliver_parts("10", formula("Look:", "x^2"), false);
    assert_eq!(world.told().await.1, Ok(1));
    let shown = world.poster.ours(&place("42"));
    assert!(shown.len() == 1 && shown[0].contains("x^2"), "{shown:?}");
    assert_eq!(world.poster.count(|request| matches!(request, PostRequest::Delete { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn what_has_buttons_is_not_told_in_words_where_files_are_refused() {
    use domain::outgoing::{Button, ButtonStyle};

    let world = rich_world().await;
    let refused = || Go::Fail(PostError::unsent(Rejection::Content, "no files".to_owned()));
    let button = Button { name: "b".to_owned(), label: "Approve".to_owned(), style: ButtonStyle::Good };
    let parts = vec![
        Part::Text { text: "May it?".to_owned() },
        Part::Code { language: "json".to_owned(), stem: "arguments".to_owned(), text: "x".repeat(300) },
        Part::Buttons { buttons: vec![button] },
    ];
    let outgoing = Outgoing { place: place("42"), reply_to: None, parts, apology: false, spent: None, private: false };
    world.poster.post_goes(refused());
    let post = |reply| OutboxMsg::Post { name: "gate".to_owned(), outgoing, reply };
    let posted = world.outbox.call(post, crate::testing::LONG).await.unwrap();
    assert!(matches!(posted, Err(Unposted::Rejected(..))), "{posted:?}");
    assert_eq!(world.creates(), 1, "no other form of it is tried");
}
