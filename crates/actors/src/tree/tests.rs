//! Laws that hold for every row.

use super::*;

fn every(row: &'static TreeRow, check: &impl Fn(&'static TreeRow)) {
    check(row);
    row.children.iter().for_each(|child| every(child, check));
}

#[test]
fn paths_come_from_the_rows() {
    let of = |kind: ActorKind, scope: Scope| {
        let (row, above) = TREE.locate(kind).unwrap();
        (row.path(&above, &scope), row.label(&above, &scope))
    };
    let door = Door::new("discord");
    let same = |path: &str| (path.to_owned(), path.to_owned());
    assert_eq!(of(ActorKind::Root, Scope::One), same("staffai"));
    assert_eq!(of(ActorKind::Journal, Scope::One), same("staffai/journal"));
    assert_eq!(of(ActorKind::IdentifyQueue, Scope::One), same("staffai/discord/identify_queue"));
    assert_eq!(of(ActorKind::Outbox, Scope::Door(door.clone())), same("staffai/outbox:discord"));
    assert_eq!(of(ActorKind::Shard, Scope::Number(3)), same("staffai/discord/shard:3"));
    let (path, label) = of(ActorKind::Conversation, Scope::Place(Place::new(door, "42")));
    assert_eq!(path, "staffai/conversations/conversation:discord:42");
    assert_eq!(label, "staffai/conversations/conversation", "no channel is named");
}

#[test]
fn actors_of_one_kind_have_one_supervisor() {
    // Samples, labels and page sections group actors by kind alone.
    fn kinds(row: &'static TreeRow) -> Vec<ActorKind> {
        std::iter::once(row.kind).chain(row.children.iter().flat_map(kinds)).collect()
    }
    let all = kinds(&TREE);
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "a kind has two rows: {all:?}");
}

#[test]
fn a_supervisor_has_longer_to_stop_than_any_of_its_children() {
    every(&TREE, &|row| {
        let longest = row.children.iter().map(|child| child.stop_timeout).max().unwrap_or_default();
        assert!(row.stop_timeout > longest, "{}", row.name);
    });
}

#[test]
fn a_handler_has_longer_than_the_stop_of_a_child_that_it_may_wait_for() {
    every(&TREE, &|row| {
        let longest = row.children.iter().map(|child| child.stop_timeout).max().unwrap_or_default();
        assert!(row.handler_timeout >= longest * 2, "{}", row.name);
    });
}

#[test]
fn a_branch_bears_more_than_the_root_so_that_failures_stay_in_it() {
    for branch in TREE.children.iter().filter(|row| !row.children.is_empty()) {
        assert!(branch.intensity.restarts > TREE.intensity.restarts, "{}", branch.name);
        assert!(branch.intensity.period >= TREE.intensity.period, "{}", branch.name);
    }
}

#[test]
fn whoever_is_restarted_waits_a_bounded_while_before() {
    every(&TREE, &|row| {
        let Backoff { base, cap } = row.backoff;
        assert!(base > Duration::ZERO && base <= cap && cap < TREE.intensity.period, "{}", row.name);
    });
}

#[test]
fn mailboxes_on_the_path_of_a_turn_have_room_for_all_turns_that_may_be_open() {
    let open = crate::testing::usual().now().settings.turn.open;
    let capacity = |kind| TREE.find(kind).map_or(0, |row| row.mailbox.capacity);
    assert!(capacity(ActorKind::Journal) >= open * 4);
    for kind in [ActorKind::Gateway, ActorKind::RateLimiter, ActorKind::Conversations, ActorKind::Outbox] {
        assert!(capacity(kind) >= open * 2, "{kind:?}");
    }
    assert!(capacity(ActorKind::LlmDispatcher) >= open && capacity(ActorKind::Conversation) >= open);
}
