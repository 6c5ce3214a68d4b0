//! Turns whose models call tools of a scripted source.

use std::sync::Weak;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use metrics_exporter_prometheus::PrometheusBuilder;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::runtime::handle::Reply;
use crate::services::toolbox::{Caller, Toolset};
use domain::outgoing::Part as Shown;
use domain::tool::catalogue::{Catalogue, Offer};
use domain::tool::testing::tool;
use domain::tool::utility::Utility;
use domain::tool::{
    Annotations, CallError, CallErrorKind, Image, Part, ServerName, Source, Tool, ToolRequest, ToolResult,
};
use ports::tools::{Listing, ServerInfo};
use ports::{PlaceKind, ProgressSink, ToolServer};

/// A source with one tool for each behaviour; each takes a number.
#[derive(Default)]
pub(super) struct Bench {
    info: ServerInfo,
    pub called: Mutex<Vec<String>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// The pictures that it returned.
    drawn: Mutex<Vec<Weak<[u8]>>>,
}

impl Bench {
    /// Returns a picture of this number.
    fn draws(&self, number: u64) -> ToolResult {
        let bytes: Arc<[u8]> = [b"GIF89a\x01\0\x01\0".as_slice(), &[0; 16], &number.to_le_bytes()].concat().into();
        self.drawn.lock().push(Arc::downgrade(&bytes));
        ToolResult { parts: vec![Part::Image(Image { mime: "image/gif".to_owned(), bytes })], ..ToolResult::default() }
    }

    /// Returns the number of its pictures, and of those that are still in memory.
    fn pictures(&self) -> (usize, usize) {
        let drawn = self.drawn.lock();
        (drawn.len(), drawn.iter().filter(|picture| picture.strong_count() > 0).count())
    }
}

/// From this number on, the result of a call has as many bytes.
pub(super) const LONG: u64 = 100_000;

const NAMES: [&str; 7] = ["reads", "changes", "hangs", "panics", "fails", "draws", "read_resource"];

#[async_trait]
impl ToolServer for Bench {
    fn info(&self) -> &ServerInfo {
        &self.info
    }

    async fn list(&self) -> Result<Listing, CallError> {
        Ok(Listing::default())
    }

    async fn call(&self, request: &ToolRequest, _progress: Option<ProgressSink>) -> Result<ToolResult, CallError> {
        let number = request.arguments.get("n").unwrap_or(&Value::Null);
        self.called.lock().push(format!("{} {number}", request.name));
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        match &*request.name {
            "hangs" => std::future::pending().await,
            "panics" => panic!("the tool panicked"),
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        match &*request.name {
            "draws" => Ok(self.draws(request.arguments["n"].as_u64().unwrap())),
            "read_resource" => Ok(self.draws(0)),
            "fails" => Err(CallError::new(CallErrorKind::Lost, "the pipe at 10.0.0.1 broke")),
            name => Ok(ToolResult::text(match request.arguments["n"].as_u64() {
                Some(bytes) if bytes >= LONG => "x".repeat(usize::try_from(bytes).unwrap()),
                _ => format!("{name} gave {}", request.arguments["n"]),
            })),
        }
    }

    async fn ping(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    async fn closed(&self) -> String {
        std::future::pending().await
    }

    async fn close(&self) {}
}

pub(super) fn bench(world: &World) -> Arc<Bench> {
    let bench = Arc::new(Bench::default());
    let tools = described("");
    publish(world, &bench, tools);
    bench
}

/// Restores the tools unchanged.
pub(super) fn comes_back(world: &World, bench: &Arc<Bench>) {
    publish(world, bench, described(""));
}

/// Changes the description of each tool.
pub(super) fn changed(world: &World, bench: &Arc<Bench>) {
    publish(world, bench, described("now safer than ever"));
}

fn described(description: &str) -> Vec<Arc<Tool>> {
    let made = |name: &&str| {
        let read_only = Some(!matches!(*name, "changes" | "fails"));
        Arc::new(Tool {
            annotations: Annotations { read_only, ..Annotations::default() },
            description: description.to_owned(),
            utility: (*name == "read_resource").then_some(Utility::ReadResource),
            ..tool("s", name, "")
        })
    };
    NAMES.iter().map(made).collect()
}

fn publish(world: &World, bench: &Arc<Bench>, tools: Vec<Arc<Tool>>) {
    let source = Source::Server(ServerName::new("s"));
    let offer = Offer { tools, trusted: true, ..Offer::default() };
    let catalogue = Catalogue::new(&[offer], &Catalogue::default(), |tool| tool.input_schema.to_value());
    let callers = [(source, Caller::Direct(Arc::clone(bench) as _))].into();
    world.toolbox.publish(Toolset::new(Arc::new(catalogue), callers));
}

/// Makes the model request these calls at once, and answer afterwards.
pub(super) fn calls(world: &World, calls: &[(&str, u32)]) {
    let call = |(name, n): &(&str, u32)| json!({"tool": format!("s__{name}"), "arguments": {"n": n}}).to_string();
    let text = calls.iter().map(call).collect::<Vec<_>>().join("\n");
    world.models.say(Say::Plain(Box::leak(text.into_boxed_str())));
}

/// Returns the results that the model received for its calls.
pub(super) fn told(world: &World) -> Vec<String> {
    let asked = world.asked();
    let text = asked.iter().find(|text| text.contains("</tool_result>")).cloned().unwrap_or_default();
    let inside = |part: &str| part.split_once(">\n").map(|(_, inside)| inside.trim().to_owned());
    text.split("</tool_result>").filter_map(inside).collect()
}

/// Returns the next request to act that the journal receives.
pub(super) async fn wish(world: &mut World) -> (String, Reply<bool>) {
    loop {
        if let JournalMsg::Acts(id, reply) = world.journal.next().await {
            return (id.id.into(), reply);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_before_it_is_on_record_that_the_turn_acts() {
    let mut world = world(&[]).await;
    let bench = bench(&world);
    calls(&world, &[("reads", 1), ("changes", 1), ("changes", 2)]);
    world.offer(turn("10", "7", "42"));
    let (id, reply) = wish(&mut world).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((id.as_str(), bench.called.lock().join(", ").as_str()), ("10", "reads 1"));
    reply.send(true).unwrap();
    assert_eq!(world.answer().await, ("10".into(), Outcome::Replied, "fine".into()));
    assert_eq!(*bench.called.lock(), ["reads 1", "changes 1", "changes 2"], "it is recorded once for a turn");
    assert_eq!(told(&world), ["reads gave 1", "changes gave 1", "changes gave 2"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_does_not_run() {
    let mut world = world(&[]).await;
    let bench = bench(&world);
    calls(&world, &[("changes", 1)]);
    world.offer(turn("10", "7", "42"));
    // The journal is down: the request is dropped with its mailbox.
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert_eq!(told(&world), ["It cannot run now, because nothing can be recorded. It did not run."]);
    assert!(bench.called.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn readers_run_side_by_side_and_changes_one_by_one() {
    let mut world = world(&[]).await;
    let reading = bench(&world);
    calls(&world, &(0..9).map(|n| ("reads", n)).collect::<Vec<_>>());
    world.offer(turn("10", "7", "42"));
    world.answer().await;
    assert_eq!(reading.most_at_once.load(Ordering::SeqCst), 4, "bounded");
    assert_eq!(told(&world)[8], "reads gave 8");
    let changing = bench(&world);
    calls(&world, &(0..5).map(|n| ("changes", n)).collect::<Vec<_>>());
    world.offer(turn("11", "7", "42"));
    wish(&mut world).await.1.send(true).unwrap();
    world.answer().await;
    assert_eq!((changing.most_at_once.load(Ordering::SeqCst), changing.called.lock().len()), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_a_call_is_a_result_and_the_turn_goes_on() {
    let log = Log::capture();
    let mut world = world(&[("STAFFAI_TOOLS__TIMEOUT", "3s")]).await;
    bench(&world);
    calls(&world, &[("hangs", 1), ("panics", 1), ("fails", 1), ("reads", 1)]);
    let begun = Instant::now();
    world.offer(turn("10", "7", "42"));
    wish(&mut world).await.1.send(true).unwrap();
    assert_eq!(world.answer().await.1, Outcome::Replied);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let doubt = "What was asked for may have happened all the same: do not call it again, and say so.";
    assert_eq!(
        told(&world),
        [
            "The tool took too long.",
            "The tool failed.",
            &format!("The connection to the tool broke. {doubt}"),
            "reads gave 1"
        ]
    );
    let mut outcomes = log.column("tool.called", "outcome");
    outcomes.sort();
    assert_eq!(outcomes, ["failed", "lost", "ok", "timeout"]);
    assert_eq!(log.column("tool.called", "server"), ["s"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_leaves_time_for_the_answer() {
    let mut world = world(&[("STAFFAI_TURN__DEADLINE", "20s"), ("STAFFAI_LLM__TIMEOUT", "20s")]).await;
    bench(&world);
    calls(&world, &[("hangs", 1), ("hangs", 2)]);
    world.offer(turn("10", "7", "42"));
    assert_eq!(world.answer().await, ("10".into(), Outcome::Replied, "fine".into()));
}

#[tokio::test(start_paused = true)]
async fn arguments_are_logged_as_a_hash() {
    let log = Log::capture();
    let mut world = world(&[]).await;
    bench(&world);
    calls(&world, &[("reads", 7_777)]);
    world.offer(turn("10", "7", "42"));
    world.answer().await;
    let lines: Vec<Value> = log.of("tool.called").iter().map(|line| json!(format!("{line:?}"))).collect();
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].to_string().contains("7777"), "{lines:?}");
    assert_eq!(log.column("tool.called", "args_sha256")[0].len(), 64);
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_a_turn_that_acted_its_member_learns_that_it_may_have_happened() {
    for fails in [Say::Fail(ModelErrorKind::Refused), Say::Panic, Say::Flows("")] {
        let mut world = world(&[]).await;
        let bench = bench(&world);
        calls(&world, &[("changes", 1)]);
        world.models.say(fails);
        world.offer(turn("10", "7", "42"));
        wish(&mut world).await.1.send(true).unwrap();
        let (_, outcome, text) = world.answer().await;
        assert!(matches!(outcome, Outcome::Apologised(_)), "{outcome:?}");
        assert_eq!(text, notice::apology(Apology::MayHaveActed, Locale::English));
        assert_eq!(bench.called.lock().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_off_is_told_of_all_the_same() {
    let log = Log::capture();
    let world = world(&[]).await;
    let _bench = bench(&world);
    calls(&world, &[("hangs", 1)]);
    world.offer(turn("10", "7", "42"));
    settle().await;
    world.router.cast(ConversationsMsg::Cancel(place("42"), turn_id("10"))).unwrap();
    settle().await;
    assert_eq!(log.column("tool.called", "outcome"), ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_call_names_the_rule_that_decided_and_only_what_ran_is_measured() {
    let log = Log::capture();
    let recorder = PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let rules = r#"[
        {tools = "s__changes", verdict = "auto"},
        {tools = "s__reads", resource = "7", verdict = "deny"},
        {tools = "s__reads", verdict = "auto"},
    ]"#;
    let mut world = world(&[("STAFFAI_TOOLS__RULES", rules)]).await;
    let bench = bench(&world);
    calls(&world, &[("reads", 7), ("reads", 1)]);
    world.offer(turn("10", "7", "42"));
    world.answer().await;
    assert_eq!(*bench.called.lock(), ["reads 1"]);
    assert_eq!(log.column("tool.called", "outcome"), ["denied", "ok"]);
    assert_eq!(log.column("tool.called", "rule"), ["2", "3"]);
    let page = recorder.handle().render();
    let measured: Vec<&str> =
        page.lines().filter(|line| line.contains("execute_tool_duration_seconds_count")).collect();
    assert!(matches!(&measured[..], [one] if one.contains("s__reads") && one.ends_with(" 1")), "{page}");
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_answers_by_itself_has_a_line_too() {
    let log = Log::capture();
    let mut world = world(&[]).await;
    bench(&world);
    let call = |tool: &str, arguments: Value| json!({"tool": tool, "arguments": arguments}).to_string();
    let text = [call("find_tools", json!({"query": "reads"})), call("read_result", json!({"result": 1}))].join("\n");
    world.models.say(Say::Plain(Box::leak(text.into_boxed_str())));
    world.offer(turn("10", "7", "42"));
    world.answer().await;
    assert_eq!(log.column("tool.called", "tool"), ["find_tools", "read_result"]);
    assert_eq!(log.column("tool.called", "outcome"), ["ok", "ok"]);
    let told = told(&world);
    assert!(told[0].contains("s__reads") && told[1].contains("no such result"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn long_results_of_all_turns_are_kept_within_one_bound_until_their_turns_end() {
    let mut world = world(&[("STAFFAI_TOOLS__MAX_CALLS", "40"), ("STAFFAI_TOOLS__RESULT_BYTES", "1000")]).await;
    bench(&world);
    let free = world.long_results.free();
    let other_turn = world.long_results.of_turn(&crate::testing::person("7"));
    assert!(other_turn.hold(8 * 1024 * 1024));
    calls(&world, &(1_000_000..1_000_012).map(|bytes| ("reads", bytes)).collect::<Vec<_>>());
    world.offer(turn("10", "7", "42"));
    assert_eq!(world.answer().await.1, Outcome::Replied);
    let asked = world.asked().into_iter().find(|text| text.contains("</tool_result>")).unwrap();
    let results = |words: &str| asked.matches(words).count();
    assert_eq!((results("bytes left out"), results("gives the whole of it")), (12, 8), "a person has half of 32 MiB");
    drop(other_turn);
    settle().await;
    assert_eq!(world.long_results.free(), free);
}

#[tokio::test(start_paused = true)]
async fn pictures_of_all_running_turns_are_held_within_the_room_of_files() {
    let mut world = world(&[("STAFFAI_TOOLS__TIMEOUT", "5s")]).await;
    let bench = bench(&world);
    for turn_number in 0..8 {
        let first = turn_number * 3;
        calls(&world, &[("draws", first), ("draws", first + 1), ("draws", first + 2), ("hangs", first)]);
        world.offer(turn(&format!("1{turn_number}"), &format!("{turn_number}"), &format!("4{turn_number}")));
        settle().await;
    }
    // Each turn waits for its last call. There is room for one picture.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((bench.pictures(), world.attachment_kib.free()), ((24, 1), 0));
    let mut posted = 0;
    for _ in 0..8 {
        loop {
            if let JournalMsg::Answered(_, answer) = world.journal.next().await {
                posted += answer.outgoing.parts.iter().filter(|part| matches!(part, Shown::File(_))).count();
                break;
            }
        }
    }
    settle().await;
    assert_eq!((posted, bench.pictures().1, world.attachment_kib.free()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn resources_of_all_turns_wait_for_the_room_of_files_within_a_bound() {
    let mut world = world(&[]).await;
    let bench = bench(&world);
    let others = world.attachment_kib.take(None).expect("the only permit");
    for turn_number in 0..8 {
        let id = format!("1{turn_number}");
        let asked = turn(&id, &turn_number.to_string(), &format!("4{turn_number}"));
        world.offer(Turn { text: "what is on @s:note://map?".to_owned(), ..asked });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.pictures(), (8, 1), "one of them waits in memory");
    for _ in 0..8 {
        assert_eq!(world.answer().await.1, Outcome::Replied);
    }
    assert_eq!(bench.pictures().1, 0);
    drop(others);
    world.offer(Turn { text: "what is on @s:note://map?".to_owned(), ..turn("20", "1", "41") });
    world.answer().await;
    let named = |asked: &String| asked.contains("[Attached picture @s:note://map");
    assert!(world.asked().iter().any(named), "{:?}", world.asked().last());
    assert_eq!(world.attachment_kib.free(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_turn_of_a_timer_in_a_thread_has_the_rules_of_its_channel() {
    let rules = r#"[{tools = "s__reads", channels = ["41"], verdict = "deny"}]"#;
    for (kind, called) in
        [(PlaceKind::Channel, "reads 1"), (PlaceKind::Thread(place("41")), ""), (PlaceKind::Unknown, "")]
    {
        let mut world = world(&[("STAFFAI_TOOLS__RULES", rules)]).await;
        let bench = bench(&world);
        calls(&world, &[("reads", 1)]);
        world.offer(Turn { trigger: Trigger::Timer, ..turn("10", "timer-a", "42") });
        let answer = loop {
            tokio::select! {
                message = world.outbox.next() => {
                    if let OutboxMsg::Kind(_, reply) = message {
                        reply.send(kind.clone()).unwrap();
                    }
                }
                message = world.journal.next() => {
                    if let JournalMsg::Answered(_, answer) = message {
                        break answer;
                    }
                }
            }
        };
        assert_eq!((answer.outcome, bench.called.lock().join(", ")), (Outcome::Replied, called.to_owned()), "{kind:?}");
    }
}
