//! Restrictions of members: their place, begin and end; and the bot's own permissions.

use std::sync::Arc;
use std::time::Duration;

use playground::change::RoleChange;
use playground::guild::ids::{RoleId, UserId};
use playground::guild::{Member, Overwrite, Who, permissions};
use ports::{Clock, Store, Write};
use staffai::app::system::SystemClock;
use store::embedded::opener::Opener;
use store::resilient::Resilient;

use crate::clock::MovedClock;
use crate::support::{Said, Setup, World, story};

/// A role for restricted members, who are answered in the channel random; records are checked every second.
fn setup() -> Setup {
    let setup = Setup::new();
    let guild = &setup.service.seed.guilds[0];
    let channel = guild.channels.iter().find(|channel| channel.name == "random").unwrap().id;
    let role = guild.roles.iter().find(|role| role.name == "restricted").unwrap().id;
    setup
        .set("RESTRICTED_USER_ROLE_ID", role)
        .set("RESTRICTED_CHANNEL_ID", channel)
        .set("RESTRICTION_CHECK_INTERVAL_SECONDS", 1)
        .set("RESTRICTED_CHANNEL_MESSAGE_USER", "Please go to <#{channel_id}>, {user}, until {until}.")
}

fn role(world: &World, name: &str) -> RoleId {
    world.service.guilds()[0].roles.iter().find(|role| role.name == name).unwrap().id
}

/// Gives or removes the role for restricted members as the moderator.
fn restricts(world: &World, who: &str, held: bool) {
    let (chloe, member) = (world.member("Chloe"), world.member(who));
    assert!(world.service.sets_role(chloe, member, role(world, "restricted"), held));
}

fn is_restricted(world: &World, who: UserId) -> bool {
    let restricted = role(world, "restricted");
    world.service.members().iter().any(|member| member.id == who && member.roles.contains(&restricted))
}

/// Returns the bot's changes of roles, each of which has a reason.
fn deeds(world: &World) -> Vec<RoleChange> {
    world.service.role_changes().into_iter().filter(|change| change.reason.is_some()).collect()
}

/// Stores the end of a restriction, while no bot runs.
async fn record(world: &World, who: UserId, ends_in: i64) {
    let data = world.dir.path().join("data");
    let opener = Opener::new(&data, Arc::new(SystemClock));
    let store = Resilient::start(move || opener.open(), Arc::new(SystemClock)).await.unwrap();
    let key = format!("restricted_until:{}:{who}", world.service.guilds()[0].id);
    let value = (SystemClock.now().0 / 1000).saturating_add_signed(ends_in).to_string();
    assert!(store.write(vec![Write::Put { key, value, ttl: None }]).await);
    store.close(Duration::from_secs(10)).await;
}

/// Returns the stored restrictions, while no bot runs.
async fn records(world: &World) -> Vec<String> {
    let data = world.dir.path().join("data");
    let opener = Opener::new(&data, Arc::new(SystemClock));
    let store = Resilient::start(move || opener.open(), Arc::new(SystemClock)).await.unwrap();
    let rows = store.scan("restricted_until:", 1_000).await.part();
    store.close(Duration::from_secs(10)).await;
    rows.into_iter().map(|(key, _)| key).collect()
}

// === The place of answers ===

#[test]
fn a_restricted_member_is_answered_in_one_channel_and_told_so_once_elsewhere() {
    story(async {
        let world = World::with(setup()).await;
        restricts(&world, "Ada", true);
        let first = world.says("Ada", "general", "@staffai hello");
        let random = world.channel("random");
        let told = world.answer_to(first).await;
        assert_eq!(told.content, format!("Please go to <#{random}>, Ada, until a moderator lifts the restriction."));
        assert_eq!(told.mentions, [], "no member is notified");
        for (channel, text) in [("general", "@staffai hello?"), ("help", "@staffai"), ("help", "@staffai why not?")] {
            let again = world.says("Ada", channel, text);
            world.ignores(again).await;
        }
        let there = world.says("Ada", "random", "@staffai hello");
        assert_eq!(world.words_to(there).await, "You said: hello");
        let thread = world.service.opens_thread(world.member("Ada"), random, None, "my corner").unwrap().id;
        let inside = world.writes("Ada", thread, "@staffai and here?", None);
        assert_eq!(world.words_to(inside).await, "You said: and here?");
        let ben = world.says("Ben", "general", "@staffai hello");
        assert_eq!(world.words_to(ben).await, "You said: hello");
        restricts(&world, "Ada", false);
        let free = world.says("Ada", "general", "@staffai and now?");
        assert_eq!(world.words_to(free).await, "You said: and now?");
        assert_eq!(deeds(&world), [], "what a moderator gave and took is the moderator's");
    });
}

#[test]
fn what_is_read_back_after_an_outage_knows_the_roles_of_its_author() {
    story(async {
        let world = World::with(setup()).await;
        let before = world.says("Ben", "general", "@staffai hello");
        world.answer_to(before).await;
        restricts(&world, "Ada", true);
        world.service.faults().invalidate_sessions(false);
        let during = world.says("Ada", "general", "@staffai are you away?");
        let free = world.says("Ben", "general", "@staffai are you away?");
        assert_eq!(world.words_to(free).await, "You said: are you away?");
        let told = world.answer_to(during).await;
        assert!(told.content.starts_with("Please go to"), "{}", told.content);
        assert_eq!(world.service.stats().identifies, 2, "it was read back");
    });
}

#[test]
fn who_was_told_is_not_told_again_after_a_restart() {
    story(async {
        let world = World::with(setup().set("RATE_LIMIT_WINDOW_SECONDS", 3600)).await;
        restricts(&world, "Ada", true);
        let first = world.says("Ada", "general", "@staffai hello");
        world.answer_to(first).await;
        world.stop().await;
        world.start().await;
        let second = world.says("Ada", "general", "@staffai hello?");
        world.ignores(second).await;
    });
}

#[test]
fn without_a_channel_they_are_told_once_and_not_answered() {
    story(async {
        let setup = setup().set("RESTRICTED_CHANNEL_ID", "").set("RATE_LIMIT_WINDOW_SECONDS", 1);
        let clock = MovedClock::new();
        let world = World::with(setup.clock(Arc::clone(&clock) as _)).await;
        restricts(&world, "Ada", true);
        let first = world.says("Ada", "general", "@staffai hello");
        assert_eq!(
            world.words_to(first).await,
            "I cannot answer you for now, until a moderator lifts the restriction."
        );
        // The window of the limit is over.
        clock.passes(2_000);
        for channel in ["general", "random"] {
            let again = world.says("Ada", channel, "@staffai hello?");
            world.ignores(again).await;
        }
    });
}

#[test]
fn exempt_members_are_never_restricted() {
    story(async {
        let setup = setup();
        let moderator = setup.service.seed.guilds[0].roles.iter().find(|role| role.name == "moderator").unwrap().id;
        let world = World::with(setup.set("SUPER_ROLE_IDS", moderator)).await;
        restricts(&world, "Chloe", true);
        let said = world.says("Chloe", "general", "@staffai hello");
        assert_eq!(world.words_to(said).await, "You said: hello");
    });
}

// === The end ===

#[test]
fn what_ended_while_the_bot_was_away_is_lifted_at_the_start() {
    story(async {
        let world = World::without_bot(setup()).await;
        for who in ["Ada", "Ben"] {
            restricts(&world, who, true);
        }
        let (ada, ben, chloe) = (world.member("Ada"), world.member("Ben"), world.member("Chloe"));
        record(&world, ada, -3600).await;
        record(&world, ben, 3600).await;
        // Chloe lost the role meanwhile, and the last member left.
        record(&world, chloe, -60).await;
        record(&world, UserId(4711), -60).await;
        world.start().await;
        world.until("the end", || (!is_restricted(&world, ada)).then_some(())).await;
        world.until("all deeds", || (deeds(&world).len() == 2).then_some(())).await;
        let reasons: Vec<_> = deeds(&world).into_iter().map(|change| (change.held, change.reason.unwrap())).collect();
        assert_eq!(reasons, [(false, "Restriction expired".to_owned()), (false, "Restriction expired".to_owned())]);
        assert!(is_restricted(&world, ben), "his time has not come");
        let said = world.says("Ada", "general", "@staffai hello");
        assert_eq!(world.words_to(said).await, "You said: hello");
        world.until_page("/metrics", |page| page.contains("staffai_restrictions_active 1\n").then_some(())).await;
        world.stop().await;
        let guild = world.service.guilds()[0].id;
        assert_eq!(records(&world).await, [format!("restricted_until:{guild}:{ben}")]);
    });
}

#[test]
fn a_missing_right_is_told_to_moderators_and_the_end_comes_once_it_is_there() {
    story(async {
        let setup = setup();
        let help = setup.service.seed.guilds[0].channels.iter().find(|channel| channel.name == "help").unwrap().id;
        let world = World::without_bot(setup.set("STAFFAI_RESTRICTION__AUDIT_CHANNEL", help)).await;
        let (guild, own) = (world.service.guilds()[0].id, role(&world, "staffai"));
        let rights = world.service.guilds()[0].permissions(world.service.bot());
        restricts(&world, "Ada", true);
        let ada = world.member("Ada");
        record(&world, ada, -60).await;
        assert!(world.service.sets_permissions(guild, own, rights & !permissions::MANAGE_ROLES));
        world.start().await;
        let told = world.hears("help").await;
        assert!(told.content.contains("could not be taken from"), "{}", told.content);
        assert!(is_restricted(&world, ada));
        assert!(world.service.sets_permissions(guild, own, rights));
        let told = world.hears("help").await;
        assert_eq!(told.content, format!("The restriction of Member {ada} has ended."));
        assert_eq!((told.reply_to, is_restricted(&world, ada)), (None, false));
    });
}

// === The bot's permissions ===

#[test]
fn where_the_bot_may_not_write_no_token_is_spent() {
    story(async {
        let world = World::begin().await;
        let (guild, help) = (world.service.guilds()[0].id, world.channel("help"));
        let everyone = Who::Role(RoleId(guild.0));
        // What the start reads back over REST may be there before the change of permissions on the gateway.
        world.ignores(world.says("Ada", "help", "hello all")).await;
        let closed = vec![Overwrite { who: everyone, allow: 0, deny: permissions::SEND_MESSAGES }];
        assert!(world.service.sets_overwrites(help, closed.clone()));
        let said = world.says("Ada", "help", "@staffai hello");
        world.ignores(said).await;
        let asks = world.model.asks();
        let questions: Vec<&str> = asks.iter().map(crate::model::Ask::question).collect();
        assert_eq!(questions, ["still there?"; 2], "only the later messages were asked about");
        assert!(!world.service.typing(help));
        let thread = world.service.opens_thread(world.member("Ada"), help, None, "aside").unwrap().id;
        let inside = world.writes("Ada", thread, "@staffai and here?", None);
        assert_eq!(world.words_to(inside).await, "You said: and here?");
        let own = Overwrite { who: Who::User(world.service.bot()), allow: permissions::SEND_MESSAGES, deny: 0 };
        assert!(world.service.sets_overwrites(help, [closed, vec![own]].concat()));
        let again = world.says("Ada", "help", "@staffai hello again");
        assert_eq!(world.words_to(again).await, "You said: hello again");
    });
}

#[test]
fn a_role_of_the_bot_opens_what_is_closed_for_all_members() {
    story(async {
        let world = World::begin().await;
        let (guild, help) = (world.service.guilds()[0].id, world.channel("help"));
        let overwrite = |who, allow, deny| Overwrite { who: Who::Role(who), allow, deny };
        let deny = overwrite(RoleId(guild.0), 0, permissions::VIEW_CHANNEL);
        assert!(world.service.sets_overwrites(help, vec![deny]));
        let said = world.says("Ada", "help", "@staffai hello");
        world.ignores(said).await;
        let allow = overwrite(role(&world, "moderator"), permissions::VIEW_CHANNEL, 0);
        assert!(world.service.sets_overwrites(help, vec![deny, allow]));
        let bot = world.service.bot();
        let roles = [role(&world, "staffai"), role(&world, "moderator")];
        world.join(guild, Member { id: bot, name: "staffai".into(), roles: vec![roles[0]], bot: true });
        assert!(world.service.sets_role(world.member("Chloe"), bot, roles[1], true));
        let again = world.says("Ada", "help", "@staffai hello again");
        assert_eq!(world.words_to(again).await, "You said: hello again");
    });
}

#[test]
fn without_the_right_to_read_back_the_answer_is_no_reply() {
    story(async {
        let world = World::begin().await;
        let (guild, help) = (world.service.guilds()[0].id, world.channel("help"));
        let deny = Overwrite { who: Who::Role(RoleId(guild.0)), allow: 0, deny: permissions::READ_HISTORY };
        assert!(world.service.sets_overwrites(help, vec![deny]));
        let said = world.says("Ada", "help", "@staffai hello");
        let heard = world.hears("help").await;
        assert_eq!((heard.content.as_str(), heard.reply_to), ("You said: hello", None));
        assert_eq!(world.answers(Said { ..said }), []);
        assert_eq!(world.spoken(help).len(), 1);
    });
}

// === The begin ===

#[test]
fn a_broken_limit_restricts_once_and_the_restriction_ends_by_itself() {
    story(async {
        let setup = setup()
            .set("RATE_LIMIT_COUNT", 2)
            .set("RATE_LIMIT_WINDOW_SECONDS", 2)
            .set("RATE_LIMIT_MESSAGE_USER", "Slow down, {user}.")
            .set("RESTRICTION_DURATION_SECONDS", 3);
        let world = World::with(setup).await;
        let ada = world.member("Ada");
        let burst: Vec<Said> =
            (0..8).map(|number| world.says("Ada", "general", &format!("@staffai {number}"))).collect();
        world.until("the role", || is_restricted(&world, ada).then_some(())).await;
        let elsewhere = world.says("Ada", "help", "@staffai and here?");
        let told = world.words_to(elsewhere).await;
        assert!(told.starts_with("Please go to <#") && told.contains("UTC"), "{told}");
        world.until("the end", || (!is_restricted(&world, ada)).then_some(())).await;
        let given: Vec<_> = deeds(&world).into_iter().map(|change| (change.held, change.reason.unwrap())).collect();
        let expected = [(true, "Rate limit exceeded".to_owned()), (false, "Restriction expired".to_owned())];
        assert_eq!(given, expected, "once each");
        let words: Vec<String> =
            burst.iter().flat_map(|said| world.answers(*said)).map(|answer| answer.content).collect();
        assert_eq!(words.iter().filter(|words| words.starts_with("You said")).count(), 2);
        assert_eq!(words.iter().filter(|words| *words == "Slow down, Ada.").count(), 1);
        let free = world.says("Ada", "general", "@staffai and now?");
        assert_eq!(world.words_to(free).await, "You said: and now?");
        let page = world.get("/metrics").await.1;
        assert!(page.contains("staffai_restrictions_active"), "{page}");
        world.stop().await;
        assert_eq!(records(&world).await, Vec::<String>::new());
    });
}

#[test]
fn a_restricted_member_is_not_answered_in_direct_messages_either() {
    story(async {
        let setup = setup()
            .set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer")
            .set("RATE_LIMIT_COUNT", 1)
            .set("RATE_LIMIT_WINDOW_SECONDS", 2)
            .set("RESTRICTION_DURATION_SECONDS", 4);
        let world = World::with(setup).await;
        let (ada, direct) = (world.member("Ada"), world.service.direct(world.member("Ada")).unwrap().id);
        let first = world.says("Ada", "general", "@staffai 0");
        assert_eq!(world.words_to(first).await, "You said: 0");
        for number in 1..3 {
            world.says("Ada", "general", &format!("@staffai {number}"));
        }
        world.until("the role", || is_restricted(&world, ada).then_some(())).await;
        let said = world.writes("Ada", direct, "and here?", None);
        let told = "You are restricted in a server, so I cannot answer you here until the restriction ends.";
        assert_eq!(world.words_to(said).await, told);
        let other = world.service.direct(world.member("Ben")).unwrap().id;
        let said = world.writes("Ben", other, "hello", None);
        assert_eq!(world.words_to(said).await, "You said: hello");
        world.until("the end", || (!is_restricted(&world, ada)).then_some(())).await;
        let said = world.writes("Ada", direct, "and now?", None);
        assert_eq!(world.words_to(said).await, "You said: and now?");
    });
}

#[test]
fn a_restriction_survives_the_end_of_the_process_in_its_middle() {
    story(async {
        let setup = setup().set("RATE_LIMIT_COUNT", 1).set("RESTRICTION_DURATION_SECONDS", 4);
        let world = World::without_bot(setup).await;
        let first = world.process("first").await;
        let ada = world.member("Ada");
        for number in 0..3 {
            world.says("Ada", "general", &format!("@staffai {number}"));
        }
        world.until("the role", || is_restricted(&world, ada).then_some(())).await;
        first.kill();
        world.service.disconnected(0).await;
        assert!(is_restricted(&world, ada));
        let _second = world.process("second").await;
        world.until("the end", || (!is_restricted(&world, ada)).then_some(())).await;
        assert_eq!(
            deeds(&world).last().and_then(|change| change.reason.clone()).as_deref(),
            Some("Restriction expired")
        );
    });
}
