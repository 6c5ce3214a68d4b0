//! Answers as posts in the channel.

use serde_json::json;

use crate::model::Act;
use crate::support::{Setup, World, story};

#[test]
fn a_long_answer_comes_in_parts_in_order() {
    story(async {
        let world = World::begin().await;
        let words: Vec<String> = (0..900).map(|n| format!("word{n}")).collect();
        world.model.always(Act::says(words.join(" ")));
        let said = world.says("Ada", "general", "@staffai tell me everything");
        let first = world.answer_to(said).await;
        world
            .until("all parts", || {
                world.spoken(said.channel).last().is_some_and(|part| part.content.ends_with("word899")).then_some(())
            })
            .await;
        let parts = world.spoken(said.channel);
        assert!(parts.len() > 2);
        assert_eq!(parts[0].id, first.id, "the first is the reply");
        assert!(parts[1..].iter().all(|part| part.reply_to.is_none()), "and the others are not");
        assert!(parts.iter().all(|part| part.content.chars().count() <= 2_000));
        let said: Vec<String> =
            parts.iter().flat_map(|part| part.content.split_whitespace().map(str::to_owned)).collect();
        assert_eq!(said, words, "every word once and in order");
    });
}

#[test]
fn no_post_notifies_a_member_and_each_has_its_nonce() {
    story(async {
        let world = World::begin().await;
        let ben = world.member("Ben");
        world.model.always(Act::says(format!("@everyone @here <@{ben}> look")));
        let said = world.says("Chloe", "general", "@staffai call everyone");
        let answer = world.answer_to(said).await;
        assert_eq!(answer.nonce, Some(format!("{}-0", said.id)));
        assert_eq!(answer.allowed_mentions.as_ref().map(|allowed| &allowed["parse"]), Some(&json!([])));
        assert_eq!(answer.mentions, []);
        assert!(!answer.mention_everyone);
    });
}

#[test]
fn the_operator_may_let_the_answered_and_the_mentioned_be_notified() {
    story(async {
        let setup = Setup::new().set("STAFFAI_DISCORD__ALLOWED_MENTIONS", "replied_user,users");
        let world = World::with(setup).await;
        let (ben, chloe) = (world.member("Ben"), world.member("Chloe"));
        let role = world.service.guilds()[0].roles.last().unwrap().id;
        world.model.always(Act::says(format!("@everyone <@&{role}> <@{ben}> look")));
        let said = world.says("Chloe", "general", "@staffai call everyone");
        let answer = world.answer_to(said).await;
        let mut notified = answer.mentions.clone();
        notified.sort_unstable();
        let mut expected = vec![ben, chloe];
        expected.sort_unstable();
        assert_eq!(notified, expected);
        assert_eq!((answer.mention_roles.len(), answer.mention_everyone), (0, false));
    });
}

#[test]
fn a_known_nonce_is_enforced() {
    story(async {
        let world = World::begin().await;
        world.service.faults().drop_answers(1);
        let said = world.says("Ada", "general", "@staffai hello");
        world.all_answered(&[said], crate::support::SOON).await;
        world.until("the second try", || (world.service.stats().duplicate_nonces == 1).then_some(())).await;
        assert_eq!(world.answers(said).len(), 1);
    });
}

#[test]
fn code_is_shown_as_code() {
    story(async {
        let world = World::begin().await;
        let reply = json!({"type": "code", "response": "Here you are:", "data": "print('hi')"});
        world.model.always(Act::content(reply.to_string()));
        let said = world.says("Ada", "general", "@staffai write something");
        let words = world.words_to(said).await;
        assert!(words.contains("Here you are:") && words.contains("```") && words.contains("print('hi')"), "{words}");
    });
}

#[test]
fn typing_is_shown_while_the_model_thinks() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::SaysAfter(std::time::Duration::from_millis(500), "done".into()));
        let said = world.says("Ada", "general", "@staffai hello");
        world.until("typing", || world.service.typing(said.channel).then_some(())).await;
        world.answer_to(said).await;
        assert!(!world.service.typing(said.channel));
    });
}
