//! Requests that the platform refuses: what counts against the bot, and who waits for it.

use super::*;

fn limited(milliseconds: u64, scope: LimitScope) -> PostError {
    PostError::Limited { retry_after: Duration::from_millis(milliseconds), scope }
}

/// Returns the names of the parts of this kind that do not work.
fn down(board: &Board, kind: PartKind) -> Vec<String> {
    board.parts().into_iter().filter(|(of, ..)| *of == kind).map(|(_, name, _)| name).collect()
}

async fn world_that_reports(refusals: u32) -> World {
    let board = Arc::new(Board::default());
    let pacer = Pacer::new(50, refusals).reporting(place("42").door, Arc::clone(&board));
    World { board, ..world_of(pacer).await }
}

#[tokio::test(start_paused = true)]
async fn content_that_the_platform_refuses_is_sent_once_and_spends_no_budget() {
    let mut world = world_that_reports(4).await;
    for number in 0..20 {
        world.poster.post_goes(rejected(Rejection::Content));
        world.deliver(&(100 + number).to_string(), "42", "blocked by a filter of the guild");
        assert!(world.told().await.1.is_err());
    }
    assert_eq!(world.creates(), 20, "no request is repeated without its reply");
    let begun = Instant::now();
    world.deliver("10", "43", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn limits_of_all_senders_together_spend_no_budget() {
    let mut world = world_that_reports(4).await;
    for _ in 0..6 {
        world.poster.post_goes(Go::Fail(limited(10, LimitScope::Shared)));
    }
    let begun = Instant::now();
    world.deliver("10", "42", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_community_spends_at_most_half_of_the_refusals_and_only_it_waits() {
    let log = Log::capture();
    let mut world = world_that_reports(8).await;
    for channel in ["1", "2", "3", "4", "5", "6"] {
        world.poster.communities.lock().insert(place(channel), "guild".to_owned());
    }
    for _ in 0..4 {
        world.poster.post_goes(rejected(Rejection::Forbidden));
    }
    let begun = Instant::now();
    for channel in ["1", "2", "3", "4"] {
        world.deliver(channel, channel, "hello");
    }
    settle().await;
    assert_eq!(world.creates(), 4);
    world.deliver("5", "5", "hello");
    world.deliver("6", "6", "hello");
    world.deliver("42", "42", "hello");
    assert_eq!(world.told().await, ("42".into(), Ok(1)), "another community is answered");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(world.creates(), 5);
    assert_eq!(down(&world.board, PartKind::Held), ["discord:guild"]);
    assert_eq!(log.column("outbox.held", "name"), ["discord:guild"], "it is logged once");
    for _ in 0..6 {
        assert!(world.told().await.1.is_ok());
    }
    assert!(begun.elapsed() >= domain::budget::INVALID_WINDOW, "{:?}", begun.elapsed());
    assert!(down(&world.board, PartKind::Held).is_empty(), "the hold is over");
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_the_whole_door_is_logged_once_and_shown_until_it_ends() {
    let log = Log::capture();
    let world = world_that_reports(3).await;
    for channel in ["1", "2", "3"] {
        world.poster.post_goes(rejected(Rejection::Forbidden));
        world.deliver(channel, channel, "hello");
        settle().await;
    }
    for channel in ["4", "5"] {
        world.deliver(channel, channel, "hello");
    }
    settle().await;
    assert_eq!(down(&world.board, PartKind::Requests), ["discord:requests"]);
    // The second place had spent as many refusals as were left before the third used them up.
    assert_eq!(log.column("outbox.held", "name"), ["discord:2", "discord:requests"]);
    tokio::time::sleep(domain::budget::INVALID_WINDOW).await;
    assert!(down(&world.board, PartKind::Requests).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reaction_that_one_message_does_not_take_silences_its_place_for_seconds_only() {
    let world = world().await;
    world.poster.courtesy_goes(rejected(Rejection::Content));
    for about in ["10", "11"] {
        let (about, place) = (message(about), place("42"));
        world.outbox.cast(OutboxMsg::React { about, place, emoji: "⏳".to_owned() }).unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert_eq!(world.reactions(), ["10", "11"]);
}

#[tokio::test(start_paused = true)]
async fn limits_without_a_delay_are_met_a_few_times_and_delay_no_other_place() {
    let mut world = world().await;
    *world.poster.fails_in.lock() = Some((place("42"), limited(0, LimitScope::Route)));
    world.deliver("10", "42", "hello");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(world.creates() <= 5, "{} requests", world.creates());
    world.deliver("20", "43", "hello");
    assert_eq!(world.told().await, ("20".into(), Ok(1)));
    assert!(world.told().await.1.unwrap_err().starts_with("given up"));
    assert!(world.creates() <= 30, "{} requests", world.creates());
}
