//! Two processes with one bot account on one server: one acts, the other stands by and takes over. No question is
//! answered twice.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use playground::demo_model::DemoModel;
use playground::guild::ids::{ChannelId, MessageId, UserId};
use playground::service::{Options, Service};
use ports::{Clock, Fault, Faults, Input};
use rustix::process::Signal;
use serde_json::Value;
use staffai::app::system::SystemClock;
use staffai::app::{App, Ended, exit};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::rows::Process;
use crate::server::Server;
use crate::support::{bot_on, count, launch, logs, output, until};

/// The delay of the model's answers where a process must lose its lease before the answer.
const THINKING: Duration = Duration::from_secs(12);

/// The pause between the questions of a member during a change of processes.
const QUESTIONS_EVERY: Duration = Duration::from_millis(100);

/// Two processes on one server of Redis and one playground.
struct Pair {
    server: Server,
    service: Service,
    model: DemoModel,
    dir: TempDir,
    ada: UserId,
    place: ChannelId,
}

impl Pair {
    async fn new(thinking: Duration) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = Options { identify_period: Duration::ZERO, ..Options::new(Arc::new(|| SystemClock.now().0)) };
        let service = Service::start(options).await.unwrap();
        let ada = service.members().into_iter().find(|member| !member.bot).unwrap().id;
        let place = service.channels()[0].id;
        let model = DemoModel::start(thinking).await.unwrap();
        Self { server: Server::start(), service, model, dir: TempDir::new().unwrap(), ada, place }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let more = [
            ("RATE_LIMIT_COUNT", "100000".to_owned()),
            ("TOKEN_RATE_LIMIT_COUNT", "100000000".to_owned()),
            ("STAFFAI_TURN__LANE", "1000".to_owned()),
        ];
        bot_on(&self.server, &self.service, &self.model).into_iter().chain(more).collect()
    }

    /// Starts a process with the name of its folder.
    fn start(&self, name: &str, number: u8) -> Process {
        Process::start(&self.folder(name), number, &self.variables())
    }

    /// Returns what `staffai cluster` prints.
    fn cluster(&self) -> String {
        output(self.dir.path(), &self.variables(), &["cluster"])
    }

    /// True if `staffai cluster` shows this process in this state.
    fn shows(&self, process: &Process, state: &str) -> bool {
        let address = format!("http://{}/", process.address);
        let told = self.cluster();
        told.lines().any(|line| line.ends_with(&address) && line.contains(&format!(")  {state}")))
    }

    /// True if the process of this folder may start while the server is away.
    fn may_start_alone(&self, name: &str) -> bool {
        self.folder(name).join("data").join("alone.json").exists()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the number of lines of an event in the log of a process.
    fn count(&self, name: &str, event: &str) -> usize {
        count(&self.folder(name), event)
    }

    async fn logs(&self, name: &str, event: &str) {
        logs(&self.folder(name), event).await;
    }

    /// Starts one process that acts, and one that stands by.
    async fn both(&self, numbers: [u8; 2]) -> [Process; 2] {
        let one = self.start("first", numbers[0]);
        self.logs("first", "gateway.ready").await;
        let two = self.start("second", numbers[1]);
        self.logs("second", "lease.awaited").await;
        [one, two]
    }

    fn asks(&self, text: &str) -> MessageId {
        self.service.says(self.ada, self.place, &format!("<@{}> {text}", self.service.bot()), None)
    }

    /// Returns the number of answers to a question.
    fn answers_to(&self, question: MessageId) -> usize {
        let messages = self.service.messages(self.place).into_iter();
        messages.filter(|message| message.reply_to == Some(question)).count()
    }

    async fn answered(&self, question: MessageId) {
        until("the question is answered", || self.answers_to(question) > 0).await;
    }

    async fn end(self, processes: [Process; 2]) {
        drop(processes);
        self.service.stop().await;
        self.model.stop().await;
    }
}

async fn page(process: &Process, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("http://{}{path}", process.address)).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn a_second_process_stands_by_and_takes_over_from_a_killed_one() {
    let pair = Pair::new(THINKING).await;
    let [one, two] = pair.both([4, 5]).await;
    let (status, ready) = page(&two, "/readyz").await;
    assert_eq!((status, &ready["status"]), (200, &Value::from("standby")));
    assert!(ready["notes"][0].as_str().unwrap().contains("holds the lease"), "{ready}");
    assert_eq!(page(&two, "/healthz").await.0, 200);
    assert_eq!(page(&two, "/api/v1/models").await.0, 503);
    assert_eq!(page(&one, "/readyz").await.1["status"], "ready");
    until("both are shown", || pair.shows(&one, "active") && pair.shows(&two, "standby")).await;
    assert!(pair.cluster().contains("\nnewest fencing tokens of doors: "), "{}", pair.cluster());

    let question = pair.asks("which way to the harbour");
    pair.logs("first", "turn.accepted").await;
    one.signal(Signal::KILL);
    let killed = Instant::now();
    pair.logs("second", "lease.taken").await;
    println!("took over {} ms after the kill", killed.elapsed().as_millis());
    pair.logs("second", "turn.resumed").await;
    pair.answered(question).await;
    assert_eq!(pair.answers_to(question), 1);
    until("it is ready", || pair.count("second", "gateway.ready") + pair.count("second", "gateway.resumed") > 0).await;
    assert_eq!(page(&two, "/readyz").await.1["status"], "ready");
    until("the other one is active", || pair.shows(&two, "active") && !pair.shows(&one, "active")).await;
    pair.end([one, two]).await;
}

#[tokio::test]
async fn a_process_that_was_paused_beyond_its_term_acts_on_nothing() {
    let pair = Pair::new(THINKING).await;
    let [mut one, two] = pair.both([6, 7]).await;
    let question = pair.asks("which way to the harbour");
    pair.logs("first", "turn.accepted").await;
    one.signal(Signal::STOP);
    pair.logs("second", "turn.resumed").await;
    one.signal(Signal::CONT);
    assert_eq!(one.ended().await, Some(i32::from(exit::IN_USE)));
    pair.answered(question).await;
    assert_eq!((pair.answers_to(question), pair.count("first", "turn.replied")), (1, 0));
    assert_eq!(pair.count("first", "lease.lost"), 1);

    let next = pair.asks("and back");
    pair.answered(next).await;
    assert_eq!(pair.answers_to(next), 1);
    pair.end([one, two]).await;
}

#[tokio::test]
async fn a_process_that_ends_in_order_hands_its_session_over_and_loses_no_question() {
    let pair = Pair::new(Duration::ZERO).await;
    let [mut one, two] = pair.both([8, 9]).await;
    let mut asked = Vec::new();
    let ends = async {
        tokio::time::sleep(QUESTIONS_EVERY * 5).await;
        one.signal(Signal::TERM);
        let told = Instant::now();
        assert_eq!(one.ended().await, Some(i32::from(exit::FINE)));
        let released = Instant::now();
        pair.logs("second", "lease.taken").await;
        let (drained, taken) = ((released - told).as_millis(), released.elapsed().as_millis());
        println!("drained in {drained} ms, taken over {taken} ms after its end");
        pair.logs("second", "gateway.resumed").await;
    };
    let asks = async {
        for number in 0..25 {
            asked.push(pair.asks(&format!("question {number}")));
            tokio::time::sleep(QUESTIONS_EVERY).await;
        }
    };
    tokio::join!(ends, asks);
    for question in asked {
        pair.answered(question).await;
        assert_eq!(pair.answers_to(question), 1);
    }
    assert_eq!(pair.count("second", "gateway.ready"), 0, "the session goes on");
    pair.end([one, two]).await;
}

#[tokio::test]
async fn a_process_that_cannot_renew_its_lease_stops_while_another_one_stands_by() {
    let pair = Pair::new(Duration::ZERO).await;
    let [mut one, two] = pair.both([10, 11]).await;
    // A renewal tells the holder that another process waits.
    tokio::time::sleep(Duration::from_secs(1)).await;
    pair.server.freeze();
    pair.logs("first", "lease.lost").await;
    let question = pair.asks("is the harbour open");
    pair.server.thaw();
    assert_eq!(one.ended().await, Some(i32::from(exit::IN_USE)));
    pair.logs("second", "lease.taken").await;
    pair.answered(question).await;
    assert_eq!((pair.answers_to(question), pair.count("first", "turn.accepted")), (1, 0));
    pair.end([one, two]).await;
}

#[tokio::test]
async fn a_process_that_stands_by_ends_at_once_when_it_is_told() {
    let pair = Pair::new(Duration::ZERO).await;
    let [one, mut two] = pair.both([12, 13]).await;
    two.signal(Signal::TERM);
    assert_eq!(two.ended().await, Some(i32::from(exit::FINE)));
    let question = pair.asks("hello");
    pair.answered(question).await;
    pair.end([one, two]).await;
}

#[tokio::test]
async fn a_process_that_takes_over_reads_the_configuration_again() {
    let pair = Pair::new(Duration::ZERO).await;
    let [one, mut two] = pair.both([14, 15]).await;
    std::fs::write(pair.folder("second").join("staffai.toml"), "[drain]\ntimeout = \"7s\"\n").unwrap();
    one.signal(Signal::KILL);
    pair.logs("second", "service.started").await;
    two.signal(Signal::TERM);
    assert_eq!(two.ended().await, Some(i32::from(exit::FINE)));
    let log = std::fs::read_to_string(pair.folder("second").join("log")).unwrap();
    assert!(log.contains("\"within_ms\":7000"), "{log}");
    pair.end([one, two]).await;
}

/// Returns the value of a metric of a process.
async fn metric(process: &Process, name: &str) -> Option<f64> {
    let page = reqwest::get(format!("http://{}/metrics", process.address)).await.unwrap().text().await.unwrap();
    page.lines().find_map(|line| line.rsplit_once(' ').filter(|(told, _)| *told == name)?.1.parse().ok())
}

/// Waits for the token of a process's term of Discord. The store takes it beside the start.
async fn term(process: &Process) -> f64 {
    let taken = async {
        loop {
            if let Some(term) = metric(process, "staffai_term{door=\"discord\"}").await {
                return term;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), taken).await.expect("a process that started has a term")
}

#[tokio::test]
async fn metrics_tell_the_active_process_and_its_term() {
    let pair = Pair::new(Duration::ZERO).await;
    let [mut one, two] = pair.both([16, 17]).await;
    assert_eq!((metric(&one, "staffai_active").await, metric(&two, "staffai_active").await), (Some(1.0), Some(0.0)));
    let first = term(&one).await;
    one.signal(Signal::TERM);
    assert_eq!(one.ended().await, Some(i32::from(exit::FINE)));
    pair.logs("second", "service.started").await;
    assert_eq!(metric(&two, "staffai_active").await, Some(1.0));
    assert!(term(&two).await > first);
    pair.end([one, two]).await;
}

#[tokio::test]
async fn of_two_processes_that_start_while_the_server_is_away_none_acts_before_it_answers() {
    let pair = Pair::new(Duration::ZERO).await;
    pair.server.freeze();
    let processes = [pair.start("first", 18), pair.start("second", 19)];
    for (name, process) in ["first", "second"].iter().zip(&processes) {
        pair.logs(name, "lease.awaited").await;
        until("its pages are there", || std::net::TcpStream::connect(process.address).is_ok()).await;
        let (status, ready) = page(process, "/readyz").await;
        assert_eq!((status, &ready["status"]), (200, &Value::from("standby")), "{ready}");
    }
    let question = pair.asks("which way to the harbour");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((pair.count("first", "gateway.ready"), pair.count("second", "gateway.ready")), (0, 0));
    pair.server.thaw();
    until("one is active", || pair.count("first", "gateway.ready") + pair.count("second", "gateway.ready") > 0).await;
    let question = if pair.answers_to(question) == 0 { pair.asks("and back") } else { question };
    pair.answered(question).await;
    assert_eq!(pair.answers_to(question), 1);
    assert_eq!(pair.count("first", "lease.taken") + pair.count("second", "lease.taken"), 1);
    pair.end(processes).await;
}

#[tokio::test]
async fn only_the_process_that_acted_alone_starts_while_the_server_is_away() {
    let pair = Pair::new(Duration::ZERO).await;
    let mut one = pair.start("first", 20);
    until("it may start alone", || pair.may_start_alone("first")).await;
    one.signal(Signal::TERM);
    assert_eq!(one.ended().await, Some(i32::from(exit::FINE)));
    pair.server.freeze();
    let (one, two) = (pair.start("first", 20), pair.start("second", 21));
    pair.logs("second", "lease.awaited").await;
    pair.logs("first", "lease.unknown").await;
    until("it is connected", || pair.count("first", "gateway.ready") + pair.count("first", "gateway.resumed") > 0)
        .await;
    let question = pair.asks("which way to the harbour");
    pair.answered(question).await;
    pair.server.thaw();
    // It learns of the other process, which may then take over at any time.
    until("it may not start alone", || !pair.may_start_alone("first")).await;
    let right = || pair.server.ask::<Option<String>>("HGET staffai:alone holder");
    until("another one may get the right", || right().is_none()).await;
    assert_eq!((pair.count("second", "lease.taken"), pair.answers_to(question)), (0, 1));
    one.signal(Signal::KILL);
    pair.logs("second", "lease.taken").await;
    until("the other one may start alone", || pair.may_start_alone("second")).await;
    pair.end([one, two]).await;
}

#[tokio::test]
async fn a_process_stops_in_an_outage_in_which_a_former_one_may_start() {
    let pair = Pair::new(Duration::ZERO).await;
    let one = pair.start("first", 24);
    until("it may start alone", || pair.may_start_alone("first")).await;
    one.signal(Signal::KILL);
    let mut two = pair.start("second", 25);
    pair.logs("second", "lease.taken").await;
    let connected = |name: &str| pair.count(name, "gateway.ready") + pair.count(name, "gateway.resumed") > 0;
    until("it is connected", || connected("second")).await;
    assert!(pair.may_start_alone("first") && !pair.may_start_alone("second"));
    pair.server.freeze();
    pair.logs("second", "lease.lost").await;
    let one_again = pair.start("first", 24);
    until("it is connected", || connected("first")).await;
    let question = pair.asks("which way to the harbour");
    pair.answered(question).await;
    assert_eq!((pair.answers_to(question), pair.count("second", "turn.accepted")), (1, 0));
    pair.server.thaw();
    assert_eq!(two.ended().await, Some(i32::from(exit::IN_USE)));
    drop(one);
    pair.end([one_again, two]).await;
}

/// Blocks the thread of the journal while it is set.
struct Blocked(AtomicBool);

impl Faults for Blocked {
    fn before(&self, path: &str, _input: Input) -> Option<Fault> {
        while path == "staffai/journal" && self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            // Another worker wakes up, and takes care of the sockets that this thread watched.
            drop(tokio::spawn(async {}));
        }
        None
    }
}

/// Lets the thread go on when it is dropped, also by a failure of the test.
struct Unblocks(Arc<Blocked>);

impl Drop for Unblocks {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_whose_tree_makes_no_progress_gives_way_to_one_that_stands_by() {
    let pair = Pair::new(Duration::ZERO).await;
    let data = pair.folder("first").join("data").display().to_string();
    let more = [("STAFFAI_HTTP_ADDR", "127.0.0.1:0".to_owned()), ("STAFFAI_DATA_DIR", data)];
    let variables = pair.variables().into_iter().chain(more);
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).collect();
    let blocked = Arc::new(Blocked(AtomicBool::new(false)));
    let mut one = App::start(launch(&variables, Arc::clone(&blocked) as _)).await.unwrap();
    let two = pair.start("second", 22);
    pair.logs("second", "lease.awaited").await;
    let unblocks = Unblocks(Arc::clone(&blocked));
    blocked.0.store(true, Ordering::Relaxed);
    let question = pair.asks("which way to the harbour");
    let Ended::Superseded(reason) = one.serve(std::future::pending()).await else { panic!("it ends otherwise") };
    assert!(reason.contains("staffai/journal is blocked"), "{reason}");
    one.give_way(&reason).await;
    pair.logs("second", "lease.taken").await;
    pair.answered(question).await;
    assert_eq!(pair.answers_to(question), 1);
    drop((unblocks, two));
    pair.service.stop().await;
    pair.model.stop().await;
}
