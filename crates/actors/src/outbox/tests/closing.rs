//! Closed places, and requests that are rejected once.

use super::*;
use crate::outbox::PlaceAccess;
use ports::AccessScope;

impl World {
    fn access(&self, id: &str) -> PlaceAccess {
        self.closed.access(&place("42"), Some(&person(id)))
    }
}

#[tokio::test(start_paused = true)]
async fn one_rejection_of_any_kind_silences_nothing() {
    for reason in [Rejection::Unexplained, Rejection::Credentials, Rejection::Forbidden, Rejection::Reply] {
        let mut world = world().await;
        world.poster.post_goes(rejected(reason));
        for id in ["10", "11", "12"] {
            world.deliver(id, "42", id);
        }
        let begun = Instant::now();
        for id in ["10", "11", "12"] {
            assert_eq!(world.told().await, (id.into(), Ok(1)), "{reason}");
        }
        assert!(begun.elapsed() <= Duration::from_secs(6), "{reason}: {:?}", begun.elapsed());
        assert_eq!(world.poster.ours(&place("42")), ["10", "11", "12"], "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_without_a_reason_keeps_its_reply_and_ends_in_time() {
    let mut world = world().await;
    for _ in 0..3 {
        world.poster.post_goes(rejected(Rejection::Unexplained));
    }
    world.deliver("10", "42", "hello");
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    let plain = |request: &PostRequest| matches!(request, PostRequest::Create { reply_to: None, .. });
    assert_eq!((world.creates(), world.poster.count(plain)), (4, 0));
    for _ in 0..100 {
        world.poster.post_goes(rejected(Rejection::Unexplained));
    }
    let begun = Instant::now();
    world.deliver("11", "42", "hello");
    assert_eq!(world.told().await, ("11".into(), Err("refused: no".into())));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(world.poster.count(plain), 1, "the last try is without the reply");
    assert_eq!(world.access("7"), PlaceAccess::Open);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_place_is_probed_and_then_fails_what_waits_there() {
    let mut world = world().await;
    for _ in 0..PROBES_MAX {
        world.poster.post_goes(rejected(Rejection::Forbidden));
    }
    for id in ["10", "11", "12"] {
        world.deliver(id, "42", "hello");
    }
    settle().await;
    assert_eq!((world.access("7"), world.access("7")), (PlaceAccess::Notice, PlaceAccess::Silent));
    let begun = Instant::now();
    for id in ["10", "11", "12"] {
        assert_eq!(world.told().await, (id.into(), Err("forbidden: no".into())));
    }
    assert_eq!(begun.elapsed().as_secs(), u64::from(PROBES_MAX - 1) * CLOSED_FOR.as_secs());
    assert_eq!(world.creates(), PROBES_MAX as usize, "no hammering");
    world.deliver("13", "43", "elsewhere");
    assert_eq!(world.told().await, ("13".into(), Ok(1)));
    world.deliver("14", "42", "back");
    assert_eq!(world.told().await, ("14".into(), Ok(1)), "the next answer probes");
    assert_eq!(world.access("7"), PlaceAccess::Open);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_gone_is_not_waited_for() {
    let mut world = world().await;
    world.poster.post_goes(rejected(Rejection::PlaceGone));
    for id in ["10", "11"] {
        world.deliver(id, "42", "hello");
    }
    let begun = Instant::now();
    assert_eq!(world.told().await.1, Err("place gone: no".into()));
    assert_eq!(world.told().await.1, Err("place gone: no".into()));
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!((world.creates(), world.access("7")), (1, PlaceAccess::Notice));
}

#[tokio::test(start_paused = true)]
async fn what_the_platform_tells_of_access_opens_at_once() {
    let community = |id: &str| AccessScope::Community(id.to_owned());
    for (told, opens) in [
        (AccessScope::Place(place("42")), true),
        (community("5"), true),
        (AccessScope::Place(place("43")), false),
        (community("6"), false),
    ] {
        let mut world = world().await;
        world.poster.communities.lock().insert(place("42"), "5".to_owned());
        world.poster.post_goes(rejected(Rejection::Forbidden));
        world.deliver("10", "42", "hello");
        settle().await;
        let begun = Instant::now();
        world.outbox.cast(OutboxMsg::AccessChanged(told)).unwrap();
        assert_eq!(world.told().await, ("10".into(), Ok(1)));
        assert_eq!(begun.elapsed() < Duration::from_secs(1), opens);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_second_message_is_forbidden_goes_on_there() {
    let mut world = world().await;
    let text = "words and words ".repeat(15);
    world.poster.post_goes(Go::Leaves(10, Duration::ZERO));
    world.poster.post_goes(rejected(Rejection::Forbidden));
    world.deliver("10", "42", &text);
    assert_eq!(world.told().await, ("10".into(), Ok(3)));
    assert_eq!((world.poster.ours(&place("42")).len(), world.creates()), (3, 4));
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_finds_its_message_gone_posts() {
    let mut world = world().await;
    world.poster.earlier("500", &place("42"), &message("10"), "hel");
    world.poster.post_goes(rejected(Rejection::MessageGone));
    world.deliver_as("10", "42", "hello", true);
    assert_eq!(world.told().await, ("10".into(), Ok(1)));
    assert_eq!(world.creates(), 1);
    assert_eq!(world.poster.ours(&place("42")).last().map(String::as_str), Some("hello"));
    let requests = world.poster.requests.lock();
    assert_eq!(requests.iter().find_map(|(_, request)| nonce(request)).as_deref(), Some("10-0r"));
}
