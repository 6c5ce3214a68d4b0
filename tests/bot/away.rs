//! What was said while the bot was away is answered, also where Discord's hints about the newest messages lag behind.

use std::time::Duration;

use crate::support::{SOON, Said, Setup, World, story};

/// Mentions in two channels and a direct message while nobody listens, by a platform whose hints are old.
async fn missed(world: &World, direct: staffai::playground::guild::ids::ChannelId) -> Vec<Said> {
    world.service.disconnected(0).await;
    world.service.faults().forget_sessions();
    world.service.faults().stale_hints(true);
    vec![
        world.says("Ada", "general", "@staffai anybody?"),
        // Nothing was ever asked here.
        world.says("Ben", "random", "@staffai are you away?"),
        world.writes("Ada", direct, "psst, are you there?", None),
    ]
}

#[test]
fn mentions_are_read_back_although_the_hints_of_discord_lag_behind() {
    story(async {
        let world = World::without_bot(Setup::new().set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer")).await;
        let direct = world.service.direct(world.member("Ada")).unwrap().id;
        let process = world.process("one").await;
        let first = [world.says("Ada", "general", "@staffai hello"), world.writes("Ada", direct, "psst", None)];
        world.all_answered(&first, SOON).await;
        // What is noted of the places is written down within a second.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        process.kill();
        let said = missed(&world, direct).await;
        let _second = world.process("two").await;
        world.all_answered(&said, Duration::from_secs(20)).await;
        assert_eq!(world.service.stats().identifies, 2, "the session was lost");
    });
}

#[test]
fn a_session_that_is_lost_while_the_bot_runs_loses_no_mention_either() {
    story(async {
        let world = World::with(Setup::new().set("STAFFAI_DISCORD__DIRECT_MESSAGES", "answer")).await;
        let direct = world.service.direct(world.member("Ada")).unwrap().id;
        let first = [world.says("Ada", "general", "@staffai hello"), world.writes("Ada", direct, "psst", None)];
        world.all_answered(&first, SOON).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        world.service.faults().refuse_connects(2);
        world.service.faults().cut_gateways();
        let said = missed(&world, direct).await;
        world.all_answered(&said, Duration::from_secs(20)).await;
    });
}
