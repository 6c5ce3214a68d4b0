use std::sync::atomic::Ordering;

use parking_lot::RwLock;
use tokio::time::Instant;

use super::*;
use crate::messages::server_line::{CALLS_MAX, ServerLine};
use crate::observation::board::{Board, PartKind};
use crate::observers::Observers;
use crate::testing::log::Log;
use crate::testing::tools::{Script, ScriptedServers, entry, request};
use crate::testing::{Inbox, Stage, Tree, at, real, settle};
use crate::tree::{ActorKind, ROOT, Scope};
use domain::tool::begun::CallReply;
use domain::tool::server::Tooling;
use domain::tool::{OnBehalf, ServerName, ToolRequest};
use ports::Fault;
use ports::testing::FixedDice;

struct World {
    line: ServerLine,
    script: Arc<Script>,
    lists: Inbox<ToolCacheMsg>,
    published: Published,
    faults: Arc<ports::testing::ScriptedFaults>,
    _tree: Tree,
}

const NAME: &str = "time";

/// The actor of a server; `prepare` writes the script first.
async fn world(prepare: impl FnOnce(&Script)) -> World {
    let servers = Arc::new(ScriptedServers::default());
    let script = servers.script(NAME);
    prepare(&script);
    let published = Published {
        board: Arc::new(Board::default()),
        tooling: Arc::new(RwLock::new(Tooling::default())),
        observers: Observers::default(),
    };
    let handle = Handle::new(real(ActorKind::Mcp), ROOT, Scope::Server(ServerName::new(NAME)));
    let cache = at("tool_cache");
    let mut stage = Stage::new();
    let lists = stage.probe(&cache);
    let actor = McpActor {
        entry: Arc::new(entry(NAME, "program")),
        servers,
        cache,
        dice: Arc::new(FixedDice::new(0.5)),
        published: published.clone(),
        starts: Starts::default(),
    };
    stage.actor(real(ActorKind::Mcp), &handle, actor);
    let faults = Arc::clone(&stage.faults);
    let tree = stage.go().await;
    settle().await;
    World {
        line: ServerLine::new(&entry(NAME, "program"), handle, Observers::default()),
        script,
        lists,
        published,
        faults,
        _tree: tree,
    }
}

impl World {
    fn state(&self) -> ServerStatus {
        self.published.tooling.read().servers[0].state.clone()
    }

    fn is_up(&self) -> bool {
        let parts = self.published.board.parts();
        parts.into_iter().any(|(kind, name, part)| kind == PartKind::McpServer && name == NAME && part.up)
    }

    /// The same in a turn of this member.
    async fn text_for(&self, tool: &str, who: &str, turn: usize) -> Result<String, CallErrorKind> {
        let result = self.line.call(&behalf(tool, who, turn), None, None).await;
        result.and_then(CallReply::into_result).map(|result| result.to_text()).map_err(|error| error.kind)
    }

    async fn text(&self, tool: &str) -> Result<String, CallErrorKind> {
        let result = self.line.call(&request(tool), None, None).await;
        result.and_then(CallReply::into_result).map(|result| result.to_text()).map_err(|error| error.kind)
    }
}

/// A call in a turn of this member.
fn behalf(tool: &str, who: &str, turn: usize) -> ToolRequest {
    let turn = crate::testing::turn(&format!("{who}-{turn}"), who, "42");
    ToolRequest { on_behalf: Some(OnBehalf::of(&turn, None)), ..request(tool) }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_connected_and_called() {
    let log = Log::capture();
    let mut world = world(|_| {}).await;
    assert!(
        matches!(world.lists.now().await, Some(ToolCacheMsg::Listed(name, tools)) if name.as_str() == NAME && tools.len() == 1)
    );
    assert_eq!((world.state(), world.is_up()), (ServerStatus::Ready, true));
    assert_eq!(world.text("echo").await.as_deref(), Ok("echo"));
    assert_eq!(log.column("mcp.state", "to"), ["ready"]);
    assert_eq!(log.column("mcp.state", "server"), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_tried_again_and_refuses_calls_at_once() {
    let log = Log::capture();
    let world = world(|script| *script.down.lock() = Some("nothing answers".to_owned())).await;
    assert!(matches!(world.state(), ServerStatus::Degraded(reason) if reason == "nothing answers; start it"));
    let begun = Instant::now();
    let error = world.line.call(&request("echo"), None, None).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(error.kind == CallErrorKind::Unavailable && error.message.contains("nothing answers"), "{error}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = Script::count(&world.script.connects);
    assert!((15..40).contains(&tries), "{tries} tries in ten minutes");
    assert!(matches!(world.state(), ServerStatus::Open(_)));
    assert_eq!(log.column("mcp.state", "to")[..1], ["degraded"]);
    *world.script.down.lock() = None;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((world.state(), world.text("echo").await.is_ok()), (ServerStatus::Ready, true));
}

#[tokio::test(start_paused = true)]
async fn an_operator_need_not_wait_for_the_next_try() {
    let world = world(|script| *script.down.lock() = Some("nothing answers".to_owned())).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    *world.script.down.lock() = None;
    world.line.handle.cast(McpMsg::Refresh).ok().unwrap();
    settle().await;
    assert_eq!(world.state(), ServerStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_starts_for_two_minutes_shows_how_far_it_is_and_holds_no_call_for_more_than_ten_seconds() {
    let world = world(|script| *script.takes.lock() = Duration::from_secs(115)).await;
    assert_eq!(world.state(), ServerStatus::Starting);
    let begun = Instant::now();
    assert_eq!(world.text("echo").await, Err(CallErrorKind::Unavailable));
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    tokio::time::sleep(Duration::from_millis(4_001)).await;
    assert_eq!(world.published.tooling.read().servers[0].progress.as_deref(), Some("14 s"));
    let begun = Instant::now();
    let error = world.line.call(&request("echo"), None, None).await.unwrap_err();
    assert!(error.message.contains("starting: 14 s"), "{error}");
    assert_eq!((begun.elapsed(), world.state()), (Duration::ZERO, ServerStatus::Starting));
    tokio::time::sleep(Duration::from_secs(101)).await;
    let text = world.text("echo").await;
    assert_eq!(
        (world.state(), text.as_deref(), Script::count(&world.script.connects)),
        (ServerStatus::Ready, Ok("echo"), 1)
    );
    assert_eq!(world.published.tooling.read().servers[0].progress, None);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_hangs_at_its_start_is_given_up_after_its_timeout() {
    let world = world(|script| *script.takes.lock() = Duration::from_secs(1_000)).await;
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(world.state(), ServerStatus::Starting);
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert!(matches!(world.state(), ServerStatus::Degraded(_)));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_while_the_server_starts_waits_for_it_and_runs_if_the_tool_is_what_it_was() {
    let slow = |script: &Script| *script.takes.lock() = Duration::from_secs(3);
    let listed = Pin::of(&domain::tool::testing::tool(NAME, "echo", "says it again"));
    let other = Pin::of(&domain::tool::testing::tool(NAME, "echo", "says it once"));
    for (pin, kind) in [(None, None), (Some(&listed), None), (Some(&other), Some(CallErrorKind::Unavailable))] {
        let world = world(slow).await;
        let begun = Instant::now();
        let told = world.line.call(&request("echo"), pin, None).await;
        assert_eq!((told.err().map(|error| error.kind), begun.elapsed()), (kind, Duration::from_secs(3)));
    }
    let world = world(slow).await;
    *world.script.down.lock() = Some("nothing answers".to_owned());
    let error = world.line.call(&request("echo"), None, None).await.unwrap_err();
    assert!(error.kind == CallErrorKind::Unavailable && error.message.contains("nothing answers"), "{error}");
    settle().await;
    assert_eq!(world.text("echo").await, Err(CallErrorKind::Unavailable), "who failed once is not waited for");
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_start_are_bounded() {
    let world = world(|script| *script.takes.lock() = Duration::from_secs(3)).await;
    let call = || {
        let line = world.line.clone();
        tokio::spawn(async move { line.call(&request("echo"), None, None).await })
    };
    let calls: Vec<_> = (0..CALLS_MAX).map(|_| call()).collect();
    settle().await;
    assert_eq!(world.text("echo").await, Err(CallErrorKind::RateLimited));
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_its_calls_and_is_begun_again() {
    let world = world(|_| {}).await;
    let call = tokio::spawn({
        let line = world.line.clone();
        async move { line.call(&request("hang"), None, None).await }
    });
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.script.lose("it exited with code 3");
    settle().await;
    assert_eq!(call.await.unwrap().unwrap_err().kind, CallErrorKind::Lost);
    assert!(matches!(world.state(), ServerStatus::Degraded(reason) if reason == "it exited with code 3"));
    assert_eq!(Script::count(&world.script.dropped), 1, "what is left of the connection is let go at once");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((world.state(), Script::count(&world.script.connects)), (ServerStatus::Ready, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_sign_of_life_is_connected_anew() {
    let world = world(|_| {}).await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(Script::count(&world.script.connects), 1);
    *world.script.silent.lock() = true;
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(Script::count(&world.script.dropped), 1);
    assert_eq!(Script::count(&world.script.connects), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_bound_are_refused_at_once_and_a_dropped_call_gives_its_place_back() {
    let world = world(|_| {}).await;
    let hang = || {
        let line = world.line.clone();
        tokio::spawn(async move { line.call(&request("hang"), None, None).await })
    };
    let calls: Vec<_> = (0..CALLS_MAX).map(|_| hang()).collect();
    settle().await;
    let begun = Instant::now();
    assert_eq!(world.text("echo").await, Err(CallErrorKind::RateLimited));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    calls[0].abort();
    settle().await;
    assert_eq!(Script::count(&world.script.cancelled), 1, "the server's side of the call is dropped as well");
    assert_eq!(world.text("echo").await.as_deref(), Ok("echo"));
}

#[tokio::test(start_paused = true)]
async fn slow_calls_of_one_member_leave_places_for_others() {
    let world = world(|_| {}).await;
    let mut calls: Vec<_> = (0..CALLS_MAX).map(|number| Box::pin(world.text_for("hang", "ada", number))).collect();
    for call in &mut calls {
        let _ = futures_util::poll!(call);
    }
    settle().await;
    assert_eq!(world.text_for("echo", "ben", 1).await.as_deref(), Ok("echo"));
    assert_eq!(world.text_for("echo", "ada", 99).await, Err(CallErrorKind::RateLimited));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_the_calls_of_several_members_without_an_answer_is_left_alone_for_a_while() {
    let world = world(|_| {}).await;
    for (number, who) in ["ada", "ben"].into_iter().enumerate() {
        assert_eq!(world.text_for("late", who, number).await, Err(CallErrorKind::Timeout));
    }
    assert!(world.text("echo").await.is_ok(), "an answer begins the count anew");
    for number in 0..10 {
        assert_eq!(world.text_for("hasty", "ada", number).await, Err(CallErrorKind::Timeout));
        assert_eq!(world.text_for("hasty", "ben", number).await, Err(CallErrorKind::Timeout));
    }
    settle().await;
    assert_eq!(world.state(), ServerStatus::Ready, "a turn that had no time left says nothing of the server");
    for (number, who) in ["ada", "ben", "ada"].into_iter().enumerate() {
        assert_eq!(world.text_for("late", who, number).await, Err(CallErrorKind::Timeout));
    }
    settle().await;
    assert!(matches!(world.state(), ServerStatus::Open(_)));
    assert_eq!(world.text("echo").await, Err(CallErrorKind::Unavailable));
    tokio::time::sleep(breaker::OPEN_FOR + Duration::from_millis(1)).await;
    assert_eq!(world.state(), ServerStatus::Ready);
    let trying = tokio::spawn({
        let line = world.line.clone();
        async move { line.call(&behalf("late", "chloe", 9), None, None).await }
    });
    settle().await;
    assert_eq!(world.text("echo").await, Err(CallErrorKind::Unavailable), "one call tries it, and no more");
    assert!(trying.await.unwrap().is_err());
    settle().await;
    assert!(matches!(world.state(), ServerStatus::Open(_)), "the first call decides");
    tokio::time::sleep(breaker::OPEN_FOR + Duration::from_millis(1)).await;
    assert!(world.text("echo").await.is_ok());
    assert!(world.text("echo").await.is_ok());
    assert_eq!(world.state(), ServerStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn one_member_alone_never_shuts_a_server_for_the_others() {
    let world = world(|_| {}).await;
    for number in 0..20 {
        assert_eq!(world.text_for("late", "mallory", number).await, Err(CallErrorKind::Timeout));
    }
    settle().await;
    assert_eq!((world.state(), world.text("echo").await.is_ok()), (ServerStatus::Ready, true));
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_changes_is_read_once_a_second() {
    let mut world = world(|_| {}).await;
    while world.lists.now().await.is_some() {}
    for _ in 0..10_000 {
        world.script.change();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lists = Script::count(&world.script.lists) - 1;
    assert!((5..=11).contains(&lists), "{lists} lists in ten seconds");
    world.script.offer(&[("one", ""), ("two", "")]);
    world.script.change();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut last = None;
    while let Some(ToolCacheMsg::Listed(_, tools)) = world.lists.now().await {
        last = Some(tools.len());
    }
    assert_eq!(last, Some(2));
}

#[tokio::test(start_paused = true)]
async fn lists_of_servers_that_announce_nothing_are_read_every_five_minutes() {
    let quiet = world(|script| *script.announces.lock() = false).await;
    tokio::time::sleep(Duration::from_secs(1_501)).await;
    assert_eq!(Script::count(&quiet.script.lists), 6);
    let telling = world(|_| {}).await;
    tokio::time::sleep(Duration::from_secs(1_501)).await;
    assert_eq!(Script::count(&telling.script.lists), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_lets_the_connection_go_and_another_is_made() {
    let world = world(|_| {}).await;
    world.faults.inject(&world.line.handle.stats().path, Fault::Panic);
    assert_eq!(world.text("echo").await, Err(CallErrorKind::Lost));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Script::count(&world.script.dropped), 1);
    assert_eq!(world.line.handle.stats().restarts.load(Ordering::Relaxed), 1);
    assert_eq!((world.state(), world.text("echo").await.is_ok()), (ServerStatus::Ready, true));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_works_on_a_call_is_not_asked_for_a_sign_of_life() {
    let world = world(|_| {}).await;
    *world.script.silent.lock() = true;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let line = world.line.clone();
    let call = tokio::spawn(async move { line.call(&request("hang"), None, None).await });
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(Script::count(&world.script.dropped), 0);
    assert_eq!(call.await.unwrap().unwrap_err().kind, CallErrorKind::Timeout);
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(Script::count(&world.script.dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_odd_about_a_list_is_logged_once_for_each_that_differs_and_at_most_each_minute() {
    let (mut odd, mut logged) = (Odd::default(), 0);
    let lines = |number: u32| vec![format!("tool {number} of s is left out")];
    // The list changes every second, then stays the same.
    for second in 0..600 {
        logged += u32::from(odd.is_news(&lines(if second < 180 { second } else { 180 })));
        logged += u32::from(odd.is_news(&[]));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(logged, 4);
    assert!(odd.is_news(&lines(7)), "another list is logged again");
}
