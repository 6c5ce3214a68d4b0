//! Many concurrent readers of streams, many of them too slow.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::model::{Act, End};
use crate::process::Process;
use crate::reading_along::{names, submit};
use crate::support::{SOON, Setup, World, story};

/// Readers of one session that keep up.
const CROWD: usize = 796;
/// Readers of another session that keep up, and readers of it that do not read at all.
const FAST: usize = 4;
const SLOW: usize = 200;
/// Questions of the session with slow readers, and characters per answer: together more than a stream keeps.
const QUESTIONS: usize = 40;
const LONG: usize = 15_000;
/// Maximum growth of the process' memory: 1,000 readers with their buffers, in a development build.
const MOST_KIB: u64 = 256 * 1024;

/// A client that reads an event stream.
struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The searched part of the buffer, without a line end.
    looked: usize,
}

impl Reader {
    /// Reads from an event on. A small receive buffer fills up soon when it is not read.
    async fn open(world: &World, session: &str, after: u64, bytes: Option<u32>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let address = world.http().strip_prefix("http://").unwrap().to_owned();
        let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
        // HTTP/1.0 responses have no chunks.
        let head = format!("GET /api/v1/stream/{session}?after={after} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reader = Self { stream, buffer: Vec::new(), looked: 0 };
        let status = reader.line().await.unwrap();
        assert!(status.contains("200"), "{status}");
        while !reader.line().await.unwrap().is_empty() {}
        reader
    }

    /// Returns the next line; `None` at the end.
    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer[self.looked..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.looked + at).collect();
                self.looked = 0;
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            self.looked = self.buffer.len();
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    async fn event(&mut self) -> Option<Value> {
        loop {
            if let Some(data) = self.line().await?.strip_prefix("data:") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// Reads until events are reported as lost; returns the number of the last of them.
    async fn misses(&mut self) -> u64 {
        let mut told = Vec::new();
        while let Some(event) = self.event().await {
            if event["event"] == "missed" {
                in_order(&told);
                return number(&event);
            }
            told.push(event);
        }
        panic!("the stream ended without a word: {:?}", told.last())
    }

    /// Returns all events until this many turns are over, in order and complete.
    async fn turns(&mut self, many: usize) -> Vec<Value> {
        let mut told: Vec<Value> = Vec::new();
        while names(&told).iter().filter(|name| **name == "done").count() < many {
            let event = timeout(SOON, self.event()).await;
            assert!(event.is_ok(), "all events come: {} {:?}", told.len(), told.last());
            told.push(event.unwrap().expect("the stream goes on"));
        }
        in_order(&told);
        told
    }
}

/// Checks that numbers increase by one.
fn in_order(told: &[Value]) {
    let numbers: Vec<u64> = told.iter().map(number).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
}

fn number(event: &Value) -> u64 {
    event["number"].as_u64().unwrap()
}

/// Returns the resident memory of a process in KiB: current or peak.
pub fn memory(process: &Process, which: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(which)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Raises the limit of open files, also for child processes.
fn allow_files(many: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < many) {
        let enough = maximum.is_none_or(|maximum| maximum >= many);
        assert!(enough, "{maximum:?} files may be open, and this needs {many}; raise the hard limit (ulimit -Hn)");
        setrlimit(Resource::Nofile, Rlimit { current: Some(many), maximum }).unwrap();
    }
}

/// Opens many readers, a few at a time: the listen backlog is short.
async fn open(world: &World, session: &str, after: u64, many: usize, bytes: Option<u32>) -> Vec<Reader> {
    let one = |_| Reader::open(world, session, after, bytes);
    timeout(SOON, stream::iter(0..many).map(one).buffered(32).collect()).await.expect("all are let in")
}

/// Begins a session with one message; returns the number of the last event.
async fn begun(world: &World, session: &str) -> u64 {
    let message = submit(world, session, "hello").await;
    let told = crate::reading_along::read(world, session, 0, &message).await;
    number(told.last().unwrap())
}

#[test]
fn a_thousand_readers_get_all_of_it_and_the_slow_ones_delay_no_other() {
    allow_files(4_096);
    story(async {
        let setup = Setup::new()
            .set("STAFFAI_HTTP__CONNECTIONS", "4096")
            .set("STAFFAI_TURN__DEADLINE", "30s")
            .set("STAFFAI_LLM__TIMEOUT", "30s")
            .set("STAFFAI_HISTORY__MAX_MESSAGES", "2")
            .set("RATE_LIMIT_COUNT", "1000")
            .set("TOKEN_RATE_LIMIT_COUNT", "1000000000");
        let world = World::without_bot(setup).await;
        let process = world.process("bot").await;
        world.becomes("ready").await;
        let (crowd, mixed) = (begun(&world, "crowd").await, begun(&world, "mixed").await);
        let before = memory(&process, "VmRSS:");
        let mut slow = open(&world, "mixed", mixed, SLOW, Some(2_048)).await;
        let mut fast = open(&world, "mixed", mixed, FAST, None).await;
        let mut all = open(&world, "crowd", crowd, CROWD, None).await;

        // One growing answer, for all who keep up.
        let words = "The tide comes in twice a day, and the boats come with it.";
        world.model.always(Act::streams(words, 6, Duration::from_millis(20), End::Well));
        submit(&world, "crowd", "when?").await;
        let told = join_all(all.iter_mut().map(|reader| reader.turns(1))).await;
        let (first, rest) = told.split_first().unwrap();
        let drafts = first.iter().filter(|event| event["event"] == "draft");
        assert_eq!(drafts.map(|event| event["text"].as_str().unwrap()).collect::<String>(), words, "{first:?}");
        assert_eq!((&first[first.len() - 2]["text"], names(first)[0]), (&words.into(), "accepted"));
        assert!(rest.iter().all(|told| told == first), "all readers get the same");

        // More than a stream keeps, with the slow readers.
        let long = (0..LONG / 6).map(|number| format!("{number:05}")).collect::<Vec<_>>().join(" ");
        world.model.always(Act::says(long.as_str()));
        let url = format!("{}/api/v1/submit", world.http());
        let mut told = vec![Vec::new(); FAST];
        for question in 0..QUESTIONS {
            let body = json!({"session": "mixed", "text": format!("question {question}"), "wait": true});
            let asked = reqwest::Client::new().post(&url).json(&body).send();
            // The next question follows when they have read this answer: on a loaded machine they would fall behind.
            let (answer, read) = tokio::join!(asked, join_all(fast.iter_mut().map(|reader| reader.turns(1))));
            assert_eq!(answer.unwrap().json::<Value>().await.unwrap()["status"], "complete");
            told.iter_mut().zip(read).for_each(|(told, read)| told.extend(read));
        }
        for told in &told {
            in_order(told);
        }
        let finals = |told: &[Value]| {
            let finals = told.iter().filter(|event| event["event"] == "final" && event["text"] == long.as_str());
            finals.count()
        };
        assert!(told.iter().all(|told| finals(told) == QUESTIONS), "each answer is whole");
        let last = number(told[0].last().unwrap());

        // The others get the number of the lost events, and resume after it.
        let missed =
            timeout(SOON, join_all(slow.iter_mut().map(Reader::misses))).await.expect("they go on where they were");
        assert!(missed.iter().all(|missed| (mixed..last).contains(missed)), "{missed:?}");
        for after in missed.into_iter().take(5) {
            let mut reader = Reader::open(&world, "mixed", after, None).await;
            let mut next = after;
            while next < last {
                let event = timeout(SOON, reader.event()).await.expect("it goes on").expect("it stays");
                // Events dropped meanwhile are lost again, and earlier answers are sent once more under that number.
                assert!(number(&event) == next + 1 || event["event"] == "missed" || number(&event) == next, "{event}");
                next = number(&event);
            }
        }
        let grown = memory(&process, "VmHWM:").saturating_sub(before);
        println!("1,000 readers took {grown} KiB at most, above {before} KiB");
        assert!(grown < MOST_KIB, "{grown} KiB");
    });
}
