//! Each question gets exactly one answer, also when Slack loses answers, refuses calls, or the bot dies.

use std::time::Duration;

use crate::model::{Act, End};
use crate::world::{World, story};
use playground::workspace::Fault;

#[test]
fn a_post_whose_answer_is_lost_is_not_repeated() {
    story(async {
        let world = World::begin().await;
        world.service.breaks("chat.postMessage", Fault::LostAnswer);
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        // The bot looked for it in the thread, and does nothing more.
        world.until("the look", || (!world.service.calls("conversations.replies").is_empty()).then_some(())).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        world.only_answer_to(&said).await;
        assert_eq!(world.service.calls("chat.postMessage").len(), 1);
    });
}

#[test]
fn a_post_that_did_not_happen_is_repeated() {
    story(async {
        let world = World::begin().await;
        world.service.breaks("chat.postMessage", Fault::Named("fatal_error"));
        world.service.breaks("chat.postMessage", Fault::Status(503));
        world.service.breaks("chat.postMessage", Fault::Limited(1));
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        assert_eq!(world.service.calls("chat.postMessage").len(), 4);
    });
}

#[test]
fn each_lost_answer_of_a_long_answer_is_found() {
    story(async {
        let world = World::begin().await;
        let long: String = (0..200).map(|number| format!("Line {number} of a long tale about the sea.\n\n")).collect();
        world.model.always(Act::says(long));
        for _ in 0..3 {
            world.service.breaks("chat.postMessage", Fault::LostAnswer);
        }
        let said = world.service.says("U1", "C1", "@bot tell me");
        world
            .until("the last part", || {
                world.service.answers(&said).iter().any(|part| part.text.contains("Line 199")).then_some(())
            })
            .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let parts = world.service.answers(&said);
        let firsts = |line: &str| parts.iter().filter(|part| part.text.contains(line)).count();
        assert_eq!((firsts("Line 0 of"), firsts("Line 100 of"), firsts("Line 199 of")), (1, 1, 1));
        assert_eq!(parts.len(), world.service.calls("chat.postMessage").len());
    });
}

#[test]
fn a_kill_between_the_post_and_its_record_does_not_double_the_answer() {
    story(async {
        let world = World::without_bot().await;
        let process = world.process("first").await;
        world.service.breaks("chat.postMessage", Fault::NoAnswer);
        let said = world.service.says("U1", "C1", "@bot hello");
        world.answer_to(&said).await;
        process.kill();
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        let mut second = world.process("second").await;
        let later = world.service.says("U1", "C1", "@bot and now?");
        world.only_answer_to(&later).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.only_answer_to(&said).await;
        second.terminate();
        assert_eq!(second.exit(crate::world::SOON).await, 0);
    });
}

#[test]
fn a_kill_before_the_post_does_not_lose_the_answer_of_an_acknowledged_question() {
    story(async {
        let world = World::without_bot().await;
        let process = world.process("first").await;
        let (_open, gate) = tokio::sync::watch::channel(false);
        world.model.always(Act::SaysWhen(gate, "never".to_owned()));
        let said = world.service.says("U1", "C1", "@bot hello");
        world.until("the question", || (world.model.calls() == 1).then_some(())).await;
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        process.kill();
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        // Neither a second delivery nor a catch-up brings the question back: only its record has it.
        world.service.forgets();
        (0..9).for_each(|_| world.service.breaks("users.conversations", Fault::Named("internal_error")));
        world.model.always(Act::says("now"));
        let _second = world.process("second").await;
        assert_eq!(world.only_answer_to(&said).await.text, "now");
    });
}

#[test]
fn calls_beyond_their_tier_wait_and_all_are_answered_once() {
    story(async {
        let world = World::begin().await;
        world.service.limits("chat.postMessage", 2, Duration::from_secs(1));
        let said: Vec<_> = (0..8).map(|number| world.service.says(&format!("U{number}"), "C1", "@bot hello")).collect();
        for said in &said {
            world.answer_to(said).await;
        }
        for said in &said {
            assert_eq!(world.service.answers(said).len(), 1);
        }
    });
}

#[test]
fn a_channel_that_refuses_the_bot_delays_no_other_one() {
    story(async {
        let world = World::begin().await;
        world.service.breaks("chat.postMessage", Fault::Named("not_in_channel"));
        let refused = world.service.says("U1", "C1", "@bot hello");
        world.until("the refusal", || (world.service.calls("chat.postMessage").len() == 1).then_some(())).await;
        let said = world.service.says("U2", "C2", "@bot hello");
        world.only_answer_to(&said).await;
        // A closed channel is tried again after some seconds.
        world.only_answer_to(&refused).await;
    });
}

#[test]
fn what_was_missed_while_the_bot_was_away_is_read_back() {
    story(async {
        let world = World::begin().await;
        let thread = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&thread).await;
        // The time up to which everything was received is written within moments of the start.
        world.until("the catch-up", || (world.service.calls("auth.test").len() == 1).then_some(())).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        world.stop().await;
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        let missed = [
            world.service.says("U1", "C1", "@bot one"),
            world.service.says("U2", "D1", "two"),
            world.service.replies("U3", &thread, "@bot three"),
        ];
        let not_addressed = world.service.says("U1", "C1", "not for the bot");
        world.service.forgets();
        world.start().await;
        for (said, words) in missed.iter().zip(["one", "two", "three"]) {
            assert_eq!(world.only_answer_to(said).await.text, format!("You said: {words}"));
        }
        assert!(world.service.answers(&not_addressed).is_empty());
        assert_eq!(world.service.answers(&thread).len(), 2, "one of them answers the reply");
    });
}

#[test]
fn long_messages_of_one_member_do_not_keep_those_of_others_from_being_read_back() {
    story(async {
        let world = World::begin().await;
        let said = world.service.says("U1", "C1", "@bot hello");
        world.only_answer_to(&said).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        world.stop().await;
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        let missed = world.service.says("U9", "C1", "@bot one");
        // A page of all has 18 MB; the client reads 16 MiB.
        let long = "長".repeat(40_000);
        for _ in 0..150 {
            world.service.says("U2", "C1", &long);
            world.service.forgets();
        }
        world.start().await;
        assert_eq!(world.only_answer_to(&missed).await.text, "You said: one");
        let sizes: Vec<String> =
            world.service.calls("conversations.history").iter().map(|call| call["limit"].clone()).collect();
        assert!(sizes.windows(5).any(|sizes| sizes == ["200", "50", "50", "50", "50"]), "{sizes:?}");
    });
}

#[test]
fn a_channel_that_cannot_be_read_back_is_read_later_and_delays_no_other_one() {
    story(async {
        let world = World::begin().await;
        for channel in ["C1", "C2"] {
            let said = world.service.says("U1", channel, "@bot hello");
            world.only_answer_to(&said).await;
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        world.stop().await;
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        let missed = [world.service.says("U1", "C1", "@bot one"), world.service.says("U1", "C2", "@bot two")];
        world.service.forgets();
        // The first channel is not read, and not when it is tried once more.
        for _ in 0..2 {
            world.service.breaks("conversations.history", Fault::Named("internal_error"));
        }
        world.start().await;
        world.only_answer_to(&missed[1]).await;
        assert!(world.service.answers(&missed[0]).is_empty());
        world.only_answer_to(&missed[0]).await;
        let read = world.service.calls("conversations.history");
        let of = |channel: &str| read.iter().filter(|call| call["channel"] == channel).count();
        assert_eq!((of("C1"), of("C2")), (3, 1));
    });
}

#[test]
fn drafts_in_many_threads_leave_the_tier_of_edits_to_answers() {
    story(async {
        let mut world = World::without_bot().await;
        world.env.insert("STAFFAI_STREAMING__HOLD".to_owned(), "0".to_owned());
        world.env.insert("STAFFAI_TURN__DEADLINE".to_owned(), "30s".to_owned());
        world.service.limits("chat.update", 50, Duration::from_secs(60));
        world.start().await;
        let words = "The tide comes in slowly, and it goes out again when the moon has passed. ".repeat(4);
        world.model.always(Act::streams(&words, 4, Duration::from_millis(100), End::Well));
        let said: Vec<_> = (0..10)
            .map(|number| world.service.says(&format!("U{number}"), &format!("C{number}"), "@bot tell me"))
            .collect();
        for said in &said {
            let whole = || world.service.answers(said).first().is_some_and(|answer| answer.text == words.trim());
            world.until("the whole answer", || whole().then_some(())).await;
        }
        let edits = world.service.calls("chat.update").len();
        assert!((10..50).contains(&edits), "{edits} edits, of which none waits for Slack's limit");
    });
}

#[test]
fn a_message_that_first_arrives_after_an_hour_is_answered_once() {
    story(async {
        let mut world = World::begin().await;
        let said = world.service.said_before("U1", "C1", "@bot hello", Duration::from_secs(70 * 60));
        world.only_answer_to(&said).await;
        let other = world.service.said_before("U1", "C2", "@bot hello", Duration::from_secs(25 * 3_600));
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        assert!(world.service.answers(&other).is_empty(), "it is too old for an answer");
        world.stop().await;
        world.until("the end of the connections", || (world.service.connections().0 == 0).then_some(())).await;
        // Its record expired; the thread shows the answer.
        let empty = world.dir().join("empty").display().to_string();
        world.env.insert("STAFFAI_DATA_DIR".to_owned(), empty);
        world.start().await;
        world.service.repeats(&said);
        world.until("all acknowledgements", || (world.service.unacknowledged() == 0).then_some(())).await;
        world.only_answer_to(&said).await;
        assert_eq!(world.model.calls(), 1);
    });
}
