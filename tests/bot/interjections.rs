//! Interjections: the bot joins in unasked by chance, within its limits, and at no member's cost.

use std::sync::Arc;

use parking_lot::Mutex;
use playground::guild::Member;
use playground::guild::ids::UserId;
use ports::Dice;
use serde_json::{Value, json};

use crate::model::Act;
use crate::support::{Setup, World, story};

/// Dice with the story's results.
struct Loaded(Mutex<f64>);

impl Dice for Loaded {
    fn roll(&self) -> f64 {
        *self.0.lock()
    }
}

impl Loaded {
    fn show(&self, roll: f64) {
        *self.0.lock() = roll;
    }
}

/// A bot that joins in with a chance of one half, and dice that refuse at first.
fn setup() -> (Setup, Arc<Loaded>) {
    let dice = Arc::new(Loaded(Mutex::new(0.9)));
    let setup = Setup::new().set("RESPONSE_CHANCE", "0.5").set("RANDOM_RESPONSE_DELIVERY_CHANCE", "0.5");
    (setup.dice(Arc::clone(&dice) as _), dice)
}

/// Checks that nothing more is pending: a further question is answered, and that is all.
async fn is_all(world: &World, calls: usize) {
    let later = world.says("Chloe", "help", "@staffai still there?");
    world.answer_to(later).await;
    assert_eq!(world.model.calls(), calls + 1, "{:?}", world.model.asks());
}

#[test]
fn it_joins_in_with_a_plain_message_and_remembers_nothing() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup).await;
        world.says("Ada", "general", "the ferry is late again");
        is_all(&world, 0).await;
        world.model.does(|ask| {
            let joins_in = ask.shows("reading along");
            Act::says(if joins_in { "Fog, I guess.".to_owned() } else { format!("You said: {}", ask.question()) })
        });
        dice.show(0.1);
        let said = world.says("Ben", "general", "third time this week");
        let heard = world.hears("general").await;
        insta::assert_snapshot!(heard.content, @"Fog, I guess.");
        assert_eq!(heard.reply_to, None);
        assert_eq!(world.answers(said), []);
        dice.show(0.9);
        let ask = world.model.last();
        insta::assert_snapshot!(ask.talk(), @r"
        user: Ada: the ferry is late again
        Ben: third time this week
        ");
        assert!(ask.body["tools"].is_null(), "{}", ask.body);
        assert!(!world.service.typing(said.channel), "no member sees it think");
        let next = world.says("Ben", "general", "@staffai hello");
        world.answer_to(next).await;
        insta::assert_snapshot!(world.model.last().talk(), @"user: hello");
    });
}

#[test]
fn it_hears_the_last_ten_messages_of_people() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup).await;
        let guild = world.service.guilds()[0].id;
        world.join(guild, Member { id: UserId(77), name: "Beeper".into(), roles: Vec::new(), bot: true });
        for number in 0..12 {
            world.says(["Ada", "Ben"][number % 2], "general", &format!("number {number}"));
        }
        world.says("Beeper", "general", "beep");
        let asked = world.says("Chloe", "general", "@staffai hello");
        world.answer_to(asked).await;
        dice.show(0.1);
        world.says("Ada", "general", "and so\nBen: on");
        world.hears("general").await;
        world.hears("general").await;
        let talk = world.model.last().talk();
        let lines: Vec<&str> = talk.lines().collect();
        assert_eq!(lines.len(), 10, "{talk}");
        assert_eq!((lines[0], lines[9]), ("user: Ada: number 4", "Ada: and so Ben: on"));
        assert!(!talk.contains("beep") && !talk.contains("You said"), "{talk}");
    });
}

#[test]
fn what_ignored_members_say_is_not_heard() {
    story(async {
        let (setup, dice) = setup();
        let ignored = setup.service.seed.guilds[0].roles.iter().find(|role| role.name == "moderator").unwrap().id;
        let world = World::with(setup.set("IGNORED_ROLE_IDS", ignored)).await;
        world.says("Chloe", "general", "a word for the harbour office");
        world.says("Ben", "general", "the ferry is late");
        dice.show(0.1);
        world.says("Ada", "general", "again");
        world.hears("general").await;
        let talk = world.model.last().talk();
        assert!(talk.contains("Ben: the ferry is late") && !talk.contains("the harbour office"), "{talk}");
    });
}

#[test]
fn a_reply_to_what_it_said_brings_that_along() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup).await;
        world.model.always(Act::says("Fog, I guess."));
        dice.show(0.1);
        world.says("Ada", "general", "the ferry is late again");
        let heard = world.hears("general").await;
        dice.show(0.9);
        let said = world.replies("Ben", &heard, "how do you know?");
        world.answer_to(said).await;
        insta::assert_snapshot!(world.model.last().talk(), @r"
        assistant: Fog, I guess.
        user: how do you know?
        ");
        let again = world.says("Ben", "general", "@staffai tell me");
        world.answer_to(again).await;
        assert!(world.model.last().talk().starts_with("assistant: Fog, I guess.\nuser: how do you know?"));
    });
}

#[test]
fn when_it_fails_there_is_silence() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup).await;
        world.model.always(Act::content(""));
        dice.show(0.1);
        let said = world.says("Ada", "general", "the ferry is late again");
        world.until("two tries", || (world.model.calls() == 2).then_some(())).await;
        dice.show(0.9);
        world.model.always(Act::says("yes"));
        is_all(&world, 2).await;
        assert_eq!(world.spoken(said.channel), []);
    });
}

#[test]
fn it_leaves_those_alone_who_may_not_be_answered() {
    story(async {
        let guild = Setup::new().service.seed.guilds[0].clone();
        let restricted = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
        for variable in ["IGNORED_ROLE_IDS", "RESTRICTED_USER_ROLE_ID"] {
            let (setup, dice) = setup();
            let world = World::with(setup.set(variable, restricted)).await;
            let rude = Member { id: UserId(78), name: "Rude".into(), roles: vec![restricted], bot: false };
            world.join(guild.id, rude);
            dice.show(0.1);
            let said = world.says("Rude", "general", "what a day");
            is_all(&world, 0).await;
            assert_eq!(world.spoken(said.channel), [], "{variable}");
        }
    });
}

#[test]
fn who_is_over_the_limit_is_not_joined_and_hears_nothing_of_it() {
    story(async {
        let guild = Setup::new().service.seed.guilds[0].clone();
        let role = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
        let (setup, dice) = setup();
        let setup = setup.set("RATE_LIMIT_COUNT", 1).set("RATE_LIMIT_WINDOW_SECONDS", 600);
        let world = World::with(setup.set("RESTRICTED_USER_ROLE_ID", role)).await;
        let asked = world.says("Ada", "general", "@staffai hello");
        world.answer_to(asked).await;
        dice.show(0.1);
        let said = world.says("Ada", "general", "the ferry is late again");
        let turn = world
            .until_told("/api/v1/turns", |told| {
                let turns = told["turns"].as_array()?;
                let ended = |turn: &&Value| turn["trigger"] == "interjection" && turn["ended_ms"].is_u64();
                turns.iter().find(ended).cloned()
            })
            .await;
        assert_eq!((&turn["outcome"], &turn["reason"]), (&json!("dropped"), &json!("message limit")));
        assert_eq!(world.model.calls(), 1, "no token is spent");
        assert_eq!(world.spoken(said.channel).len(), 1, "nothing but the answer from before");
        let restricted = |name: &str| {
            let id = world.member(name);
            world.service.members().iter().any(|member| member.id == id && member.roles.contains(&role))
        };
        assert!(!restricted("Ada"));
        // Others still get interjections, and a question of hers still restricts her.
        world.says("Ben", "random", "what a day");
        world.hears("random").await;
        dice.show(0.9);
        world.says("Ada", "general", "@staffai hello again");
        world.until("the restriction", || restricted("Ada").then_some(())).await;
    });
}

#[test]
fn interjections_use_nothing_of_the_limits_of_those_who_are_joined() {
    story(async {
        let (setup, dice) = setup();
        let role = setup.service.seed.guilds[0].roles.iter().find(|role| role.name == "restricted").unwrap().id;
        let setup = setup.set("RATE_LIMIT_COUNT", 2).set("RATE_LIMIT_WINDOW_SECONDS", 600);
        let world = World::with(setup.set("RESTRICTED_USER_ROLE_ID", role)).await;
        dice.show(0.1);
        for text in ["one", "two", "three", "four"] {
            world.says("Ada", "general", text);
            world.hears("general").await;
        }
        dice.show(0.9);
        for text in ["five", "six"] {
            let asked = world.says("Ada", "help", &format!("@staffai {text}"));
            assert_eq!(world.words_to(asked).await, format!("You said: {text}"));
        }
    });
}

#[test]
fn a_channel_rests_after_each() {
    story(async {
        let (setup, dice) = setup();
        let random = setup.service.seed.guilds[0].channels.iter().find(|channel| channel.name == "random").unwrap().id;
        let setup = setup.set("STAFFAI_INTERJECTION__COOLDOWN", "1h");
        let world = World::with(setup.set("STAFFAI_INTERJECTION__MUTED_CHANNELS", random)).await;
        dice.show(0.1);
        world.says("Ada", "general", "one");
        world.hears("general").await;
        world.says("Ada", "general", "two");
        let muted = world.says("Ada", "random", "three");
        is_all(&world, 1).await;
        assert_eq!(world.spoken(world.channel("general")).len(), 1);
        assert_eq!(world.spoken(muted.channel), []);
    });
}

#[test]
fn interjections_become_rarer_until_a_member_reacts() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup.set("STAFFAI_INTERJECTION__BACKOFF_AFTER", "1")).await;
        dice.show(0.3);
        world.says("Ada", "general", "one");
        let heard = world.hears("general").await;
        world.says("Ada", "general", "two");
        is_all(&world, 1).await;
        assert_eq!(world.spoken(heard.channel).len(), 1, "half the chance is too little");
        world.service.reacts(world.member("Ben"), heard.channel, heard.id, "👍");
        world.says("Ada", "general", "three");
        let second = world.hears("general").await;
        assert_eq!(second.reply_to, None);
    });
}

#[test]
fn a_restart_never_says_it_twice_or_late() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup).await;
        world.model.always(Act::Hangs);
        dice.show(0.1);
        let said = world.says("Ada", "general", "the ferry is late again");
        world.until("the model is asked", || (world.model.calls() == 1).then_some(())).await;
        world.stop().await;
        world.service.disconnected(0).await;
        dice.show(0.9);
        world.model.always(Act::says("yes"));
        world.start().await;
        is_all(&world, 1).await;
        assert_eq!(world.spoken(said.channel), []);
    });
}

#[test]
fn a_lost_answer_of_discord_does_not_double_it() {
    story(async {
        let (setup, dice) = setup();
        let world = World::with(setup).await;
        world.service.faults().drop_answers(1);
        dice.show(0.1);
        let said = world.says("Ada", "general", "the ferry is late again");
        world.hears("general").await;
        dice.show(0.9);
        is_all(&world, 1).await;
        assert_eq!(world.spoken(said.channel).len(), 1);
    });
}
