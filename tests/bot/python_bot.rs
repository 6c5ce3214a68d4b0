//! Known defects of the Python bot that no other story covers.

use crate::support::{World, story};

#[test]
fn the_same_words_are_answered_again() {
    story(async {
        let world = World::begin().await;
        for _ in 0..3 {
            let said = world.says("Ada", "general", "@staffai hello");
            assert_eq!(world.words_to(said).await, "You said: hello");
        }
    });
}

#[test]
fn typing_is_not_shown_to_members_who_did_not_ask() {
    story(async {
        let world = World::begin().await;
        let chat = world.says("Ada", "help", "nice weather today");
        world.ignores(chat).await;
        assert!(!world.service.typing(chat.channel));
    });
}

#[test]
fn a_plain_message_is_one_call() {
    story(async {
        let world = World::begin().await;
        for number in 1..=3 {
            world.answer_to(world.says("Ada", "general", "@staffai hello")).await;
            assert_eq!(world.model.calls(), number);
        }
    });
}
