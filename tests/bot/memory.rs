//! The history: its scope, its lifetime, and its separation between members.

use std::time::Duration;

use crate::model::Act;
use crate::support::{Setup, World, story};

#[test]
fn a_conversation_is_remembered_in_order() {
    story(async {
        let world = World::begin().await;
        for text in ["one", "two", "three"] {
            let said = world.says("Ada", "general", &format!("@staffai {text}"));
            world.answer_to(said).await;
        }
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: one
        assistant: You said: one
        user: two
        assistant: You said: two
        user: three
        ");
    });
}

#[test]
fn only_the_newest_messages_are_kept() {
    story(async {
        let world = World::with(Setup::new().set("MAX_HISTORY_PER_USER", 4)).await;
        for text in ["one", "two", "three", "four"] {
            let said = world.says("Ada", "general", &format!("@staffai {text}"));
            world.answer_to(said).await;
        }
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: [No longer visible: 1 older exchange of this conversation. If the member refers to them, say that you no longer see them.]

        two
        assistant: You said: two
        user: three
        assistant: You said: three
        user: four
        ");
    });
}

#[test]
fn old_messages_are_forgotten_each_by_its_own_age() {
    story(async {
        let world = World::with(Setup::new().set("CONTEXT_MESSAGE_MAX_AGE_SECONDS", 2)).await;
        for text in ["old", "newer"] {
            let said = world.says("Ada", "general", &format!("@staffai {text}"));
            world.answer_to(said).await;
            tokio::time::sleep(Duration::from_millis(1_200)).await;
        }
        let said = world.says("Ada", "general", "@staffai now");
        world.answer_to(said).await;
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: newer
        assistant: You said: newer
        user: now
        ");
    });
}

#[test]
fn a_conversation_survives_a_restart() {
    story(async {
        let world = World::begin().await;
        let said = world.says("Ada", "general", "@staffai my boat is the Heron");
        world.answer_to(said).await;
        assert!(world.drain().await, "nothing was left");
        world.start().await;
        the_boat_is_known(&world).await;
    });
}

/// Ada has told the bot the name of her boat once, and the bot has answered.
pub async fn the_boat_is_known(world: &World) {
    let said = world.says("Ada", "general", "@staffai which boat?");
    world.answer_to(said).await;
    let talk = "user: my boat is the Heron\nassistant: You said: my boat is the Heron\nuser: which boat?";
    assert_eq!(world.model.last().talk(), talk);
}

#[test]
fn nothing_leaks_between_members_and_channels() {
    story(async {
        let world = World::begin().await;
        let (members, channels) = (["Ada", "Ben", "Chloe"], ["general", "help", "random"]);
        for round in 0..3 {
            let mut said = Vec::new();
            for who in members {
                for place in channels {
                    said.push(world.says(who, place, &format!("@staffai canary-{who}-{place} round {round}")));
                }
            }
            world.all_answered(&said, Duration::from_secs(10)).await;
        }
        for ask in world.model.asks() {
            let own = ask.question().split(' ').next().unwrap().to_owned();
            for who in members {
                for place in channels {
                    let canary = format!("canary-{who}-{place}");
                    assert_eq!(ask.shows(&canary), canary == own, "{own} was shown {canary}");
                }
            }
        }
        let last = world.model.last().talk();
        assert_eq!(last.matches("round").count(), 5, "two rounds and the question:\n{last}");
    });
}

#[test]
fn what_a_member_replies_to_is_shown_however_old_it_is() {
    story(async {
        let world = World::with(Setup::new().set("MAX_HISTORY_PER_USER", 4)).await;
        let ben = world.says("Ben", "general", "@staffai how deep is the harbour?");
        let answer = world.answer_to(ben).await;
        for text in ["one", "two"] {
            let said = world.says("Ada", "general", &format!("@staffai {text}"));
            world.answer_to(said).await;
        }
        let said = world.replies("Ada", &answer, "and at low tide?");
        world.answer_to(said).await;
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: [No longer visible: 1 older exchange of this conversation. If the member refers to them, say that you no longer see them.]

        two
        assistant: You said: two
        user: [asked by member 900000000000000003] how deep is the harbour?
        assistant: You said: how deep is the harbour?
        user: and at low tide?
        ");
        let said = world.says("Ada", "general", "@staffai sure?");
        world.answer_to(said).await;
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: [No longer visible: 2 older exchanges of this conversation. If the member refers to them, say that you no longer see them.]

        [asked by member 900000000000000003] how deep is the harbour?
        assistant: You said: how deep is the harbour?
        user: and at low tide?
        assistant: You said: and at low tide?
        user: sure?
        ");
    });
}

#[test]
fn a_failed_turn_is_not_remembered() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::Status(400));
        let said = world.says("Ada", "general", "@staffai one");
        world.answer_to(said).await;
        world.model.always(Act::says("fine"));
        let said = world.says("Ada", "general", "@staffai two");
        world.answer_to(said).await;
        insta::assert_snapshot!(world.model.last().talk(), @"user: two");
    });
}
