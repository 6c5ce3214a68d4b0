//! Messages that are answered, and the answers.

use std::time::Duration;

use playground::guild::Member;
use playground::guild::ids::UserId;

use crate::model::Act;
use crate::support::{Setup, World, story};

#[test]
fn a_mention_is_answered() {
    story(async {
        let world = World::begin().await;
        let said = world.says("Ada", "general", "@staffai hello");
        let heard = world.hears("general").await;
        assert_eq!(heard.reply_to, Some(said.id));
        insta::assert_snapshot!(heard.content, @"You said: hello");
        let ask = world.model.last();
        insta::assert_snapshot!(ask.talk(), @"user: hello");
        assert_eq!(ask.body["model"], "scripted");
        assert_eq!(ask.tools().first(), Some(&"give_answer"), "the answer is a function beside the tools");
        assert_eq!(ask.messages[0].0, "system");
    });
}

#[test]
fn a_reply_to_the_bot_is_answered_without_a_mention() {
    story(async {
        let world = World::begin().await;
        world.says("Ada", "general", "@staffai my cat is called Miso");
        let first = world.hears("general").await;
        world.replies("Ada", &first, "what is she called?");
        let second = world.hears("general").await;
        insta::assert_snapshot!(second.content, @"You said: what is she called?");
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: my cat is called Miso
        assistant: You said: my cat is called Miso
        user: what is she called?
        ");
    });
}

#[test]
fn a_name_is_as_good_as_a_mention() {
    story(async {
        let world = World::with(Setup::new().set("BOT_NAME_TRIGGER", "harbourmaster, robo")).await;
        let said = world.says("Ben", "help", "hey Harbourmaster, when is high tide?");
        insta::assert_snapshot!(world.words_to(said).await, @"You said: hey Harbourmaster, when is high tide?");
        let other = world.says("Ben", "help", "the harbourmasters are asleep");
        world.ignores(other).await;
    });
}

#[test]
fn mentions_of_everyone_and_of_roles_are_not_for_the_bot() {
    story(async {
        let world = World::begin().await;
        let everyone = world.says("Chloe", "general", "@everyone the boat leaves");
        let roles = world.service.guilds()[0].roles.clone();
        let own = roles.iter().find(|role| role.name == "staffai").unwrap().id;
        let role = world.says("Chloe", "general", &format!("<@&{own}> the boat leaves"));
        world.ignores(everyone).await;
        world.ignores(role).await;
        assert_eq!(world.model.calls(), 2, "only the two later messages were asked about");
    });
}

#[test]
fn other_bots_and_the_bot_itself_are_not_answered() {
    story(async {
        let world = World::begin().await;
        let guild = world.service.guilds()[0].id;
        world.join(guild, Member { id: UserId(77), name: "Beeper".into(), roles: Vec::new(), bot: true });
        let beep = world.says("Beeper", "general", "@staffai beep");
        let own = world.says("staffai", "general", "@staffai am I here?");
        world.ignores(beep).await;
        world.ignores(own).await;
        assert_eq!(world.model.calls(), 2);
    });
}

#[test]
fn a_listed_bot_is_answered() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_BOTS__ALLOWED", "77")).await;
        let guild = world.service.guilds()[0].id;
        world.join(guild, Member { id: UserId(77), name: "Beeper".into(), roles: Vec::new(), bot: true });
        let beep = world.says("Beeper", "general", "@staffai beep");
        insta::assert_snapshot!(world.words_to(beep).await, @"You said: beep");
    });
}

#[test]
fn members_with_an_ignored_role_are_not_answered() {
    story(async {
        let guild = Setup::new().service.seed.guilds[0].clone();
        let restricted = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
        let world = World::with(Setup::new().set("IGNORED_ROLE_IDS", restricted)).await;
        let rude = Member { id: UserId(78), name: "Rude".into(), roles: vec![restricted], bot: false };
        world.join(guild.id, rude);
        let said = world.says("Rude", "general", "@staffai hello");
        world.ignores(said).await;
    });
}

#[test]
fn direct_messages_are_ignored_unless_they_are_wanted() {
    story(async {
        let world = World::begin().await;
        let direct = world.service.direct(world.member("Ada")).unwrap().id;
        let said = world.writes("Ada", direct, "@staffai psst", None);
        world.ignores(said).await;

        let world = World::with(Setup::new().set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer")).await;
        let direct = world.service.direct(world.member("Ada")).unwrap().id;
        let said = world.writes("Ada", direct, "psst", None);
        insta::assert_snapshot!(world.words_to(said).await, @"You said: psst");
    });
}

#[test]
fn a_bare_mention_gets_a_hint_and_costs_nothing() {
    story(async {
        let world = World::begin().await;
        for text in ["@staffai", "  @staffai \n", "@staffai @staffai"] {
            let said = world.says("Ada", "general", text);
            assert_eq!(world.words_to(said).await, "Hi! Write your question in the same message and I will answer it.");
        }
        assert_eq!(world.model.calls(), 0);
    });
}

#[test]
fn a_mention_in_a_reply_to_a_member_quotes_that_message() {
    story(async {
        let world = World::begin().await;
        let ben = world.says("Ben", "general", "the moon is made of cheese");
        let said = world.replies("Ada", ben, "@staffai is that so?");
        world.answer_to(said).await;
        insta::assert_snapshot!(world.model.last().talk(), @r"
        user: [Quoted message by Ben (id 900000000000000003), for reference only:]
        > the moon is made of cheese
        [End of the quoted message.]

        is that so?
        ");
    });
}

#[test]
fn a_reply_to_an_answer_to_another_member_includes_that_exchange() {
    story(async {
        let world = World::begin().await;
        let ben = world.says("Ben", "general", "@staffai how deep is the harbour?");
        world.model.always(Act::says("Nine metres."));
        let answer = world.answer_to(ben).await;
        let said = world.replies("Ada", &answer, "and at low tide?");
        world.answer_to(said).await;
        let talk = world.model.last().talk();
        assert!(talk.starts_with("user: [asked by member 900000000000000003] how deep is the harbour?\nassistant: "));
        assert!(talk.ends_with("user: and at low tide?"), "{talk}");
    });
}

#[test]
fn a_reply_that_is_quicker_than_the_word_of_the_post_brings_the_exchange_along_too() {
    story(async {
        let world = World::begin().await;
        // The answer was posted, but the bot learns that only from its retry.
        world.service.faults().drop_answers(1);
        let ben = world.says("Ben", "general", "@staffai how deep is the harbour?");
        let answer = world.answer_to(ben).await;
        let said = world.replies("Ada", &answer, "and at low tide?");
        world.answer_to(said).await;
        let talk = world.model.last().talk();
        assert!(talk.starts_with("user: [asked by member 900000000000000003] how deep is the harbour?\nassistant: "));
        assert!(talk.ends_with("user: and at low tide?"), "{talk}");
    });
}

#[test]
fn a_deleted_question_is_not_answered() {
    story(async {
        let world = World::begin().await;
        world.model.always(Act::SaysAfter(Duration::from_secs(1), "too late".into()));
        let said = world.says("Ada", "general", "@staffai what was I thinking");
        world.until("the model is asked", || (world.model.calls() == 1).then_some(())).await;
        world.service.deletes(said.channel, said.id);
        world.model.does(|ask| Act::says(format!("You said: {}", ask.question())));
        world.ignores(said).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.spoken(said.channel), []);
    });
}

#[test]
fn text_of_any_script_is_answered() {
    story(async {
        let world = World::begin().await;
        let corpus = [
            "👩‍👩‍👧‍👦 family",
            "שלום עולם",
            "مرحبا بالعالم",
            "ॐ नमः",
            "Z̷̢͝a̶l̵g̸o̷",
            "\u{202e}reversed",
            "zero\u{200b}width\u{feff}",
            "𝔣𝔯𝔞𝔨𝔱𝔲𝔯",
            "a\u{0}b",
            "\u{fffd}\u{ffff}",
            "\u{10ffff}",
            "```rust\nfn main() {}\n```",
            "<@&1> @everyone @here <#5> <:e:1>",
            "{\"type\": \"text\"}",
            "\\u0000 \\\\ \" ' `",
            "\u{e0041}\u{e0042} tags",
            "한국어 日本語 中文",
            "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
            "\u{1f3fd}",
            "line\nbreak\r\nand\ttab",
        ];
        world.crowd(corpus.len() as u64);
        let say =
            |(n, text): (usize, &&str)| world.says(&format!("member-{n}"), "general", &format!("@staffai {text}"));
        let said: Vec<_> = corpus.iter().enumerate().map(say).collect();
        world.all_answered(&said, Duration::from_secs(20)).await;
        for said in said {
            let words = world.words_to(said).await;
            assert!(words.starts_with("You said:"), "{words}");
        }
    });
}

#[test]
fn two_messages_of_one_member_are_answered_in_order() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| match ask.question() {
            "one" => Act::SaysAfter(Duration::from_millis(400), "1".into()),
            other => Act::says(other),
        });
        world.says("Ada", "general", "@staffai one");
        world.says("Ada", "general", "@staffai two");
        assert_eq!(world.hears("general").await.content, "1");
        assert_eq!(world.hears("general").await.content, "two");
    });
}

#[test]
fn a_slow_answer_to_one_member_delays_no_other() {
    story(async {
        let world = World::begin().await;
        world.model.does(|ask| match ask.question() {
            "think hard" => Act::SaysAfter(Duration::from_millis(1_500), "done".into()),
            other => Act::says(other),
        });
        let slow = world.says("Ada", "general", "@staffai think hard");
        let quick = world.says("Ben", "general", "@staffai quick");
        let elsewhere = world.says("Ada", "help", "@staffai elsewhere");
        assert_eq!(world.words_to(quick).await, "quick");
        assert_eq!(world.words_to(elsewhere).await, "elsewhere");
        assert!(world.answers(slow).is_empty());
        assert_eq!(world.words_to(slow).await, "done");
    });
}
