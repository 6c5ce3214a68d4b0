//! Many mentions over many refreshes and faults: none lost, none doubled.
//!
//! `./test` runs a short form. The figures of the document are those of
//! `SLACK_MENTIONS=10000 cargo test --locked --all-features --test slack -- endurance --nocapture`.

use std::time::Duration;

use playground::workspace::{Fault, Said};

use crate::world::{World, story_within};

/// The mentions between two looks.
const WAVE: usize = 100;
/// The channels, each with one mention of a wave: Slack accepts about one message a second in a channel.
const CHANNELS: usize = 100;
/// The members.
const MEMBERS: usize = 50;
/// The refreshes of a wave.
const REFRESHES: usize = 10;
/// The mentions without the variable.
const SHORT: usize = 300;

/// The variable with the number of mentions.
#[expect(clippy::disallowed_methods, reason = "a person who wants the figures sets it")]
fn mentions() -> usize {
    std::env::var("SLACK_MENTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(SHORT)
}

#[test]
fn mentions_over_refreshes_and_faults_are_answered_once() {
    let waves = mentions().div_ceil(WAVE);
    story_within(Duration::from_secs(60 + 30 * waves as u64), async move {
        let world = World::begin().await;
        let (mut last, mut faults): (Vec<Said>, usize) = (Vec::new(), 0);
        for wave in 0..waves {
            faults += breaks(&world, wave);
            let mention = |number: usize| {
                let (member, channel) = (format!("U{}", number % MEMBERS), format!("C{}", number % CHANNELS));
                world.service.says(&member, &channel, &format!("@bot mention {number}"))
            };
            let mut said = Vec::new();
            for part in 0..REFRESHES {
                said.extend((part * WAVE / REFRESHES..(part + 1) * WAVE / REFRESHES).map(mention));
                // An event that Slack delivers a second time.
                world.service.repeats(&said[part]);
                let opened = || world.service.connections().1;
                let before = opened();
                world.service.disconnects(if part % 2 == 0 { "refresh_requested" } else { "warning" });
                world.until("the next connection", || (opened() > before).then_some(())).await;
            }
            for one in &said {
                world.answer_to(one).await;
            }
            // Those of the wave before had time for a second answer.
            for one in last.iter().chain(&said) {
                let answers = world.service.answers(one).len();
                assert_eq!(answers, 1, "{one:?} has {answers} answers");
            }
            last = said;
        }
        let (open, opened, _) = world.service.connections();
        let deserted = world.service.deserted();
        println!(
            "{} mentions, {} refreshes, {faults} faults: lost 0, doubled 0; {opened} connections opened, {open} open, none open {deserted} times",
            waves * WAVE,
            waves * REFRESHES,
        );
        let mut times = world.service.ack_times();
        times.sort_unstable();
        let share = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        println!("{} acknowledgements after their delivery: p50 {:?}, p99 {:?}", times.len(), share(50), share(99));
        assert!(times.len() >= waves * WAVE, "each mention is acknowledged");
        assert_eq!(deserted, 0, "a refreshed connection is replaced before it closes");
        assert!(opened > waves as u64 * REFRESHES as u64, "each refresh opens a connection");
        world.stop().await;
    });
}

/// Injects the faults of a wave; returns their number.
fn breaks(world: &World, wave: usize) -> usize {
    let posts = [
        Fault::LostAnswer,
        Fault::Status(503),
        Fault::Limited(1),
        Fault::Named("fatal_error"),
        Fault::LostAnswer,
        Fault::Status(502),
    ];
    let of_posts = posts.into_iter().cycle().skip(wave).take(5);
    of_posts.for_each(|fault| world.service.breaks("chat.postMessage", fault));
    world.service.breaks("users.info", Fault::Status(500));
    6
}
