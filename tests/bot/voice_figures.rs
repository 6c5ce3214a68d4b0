//! Figures of speech: first text to first byte, order and loss, interruption to silence, many sessions, slow readers.
//! Each story is short, and prints its figures; `SPEECH_FIGURES=1` makes it as long as the figures in the documentation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::model::{Act, End};
use crate::support::{Setup, World, story_within};
use crate::voice::{Speaker, asks, heard, of, texts};

/// The timeout of a story.
const MOST: Duration = Duration::from_secs(500);
/// The goal from the first text of an answer to its first byte of audio, beside the synthesis.
const FIRST_BYTE: Duration = Duration::from_millis(20);
/// The goal from an interruption to the end of audio.
const SILENCE: Duration = Duration::from_millis(60);
/// The beginning of all audio.
const HEAD: &[u8] = b"RIFF....WAVE";

#[expect(clippy::disallowed_methods, reason = "the length of a run is chosen by its caller")]
fn size(short: usize, long: usize) -> usize {
    if std::env::var("SPEECH_FIGURES").is_ok() { long } else { short }
}

/// A voice over a real socket.
#[derive(Clone, Default)]
struct VoiceService {
    /// The latest request: its arrival, and the time when its audio was sent.
    last: Arc<Mutex<Option<(Instant, Instant)>>>,
    /// Sentences wait and fail at random, as their text decides.
    is_bad: bool,
    /// Bytes of audio behind the text.
    bytes: usize,
    /// The requests for audio of readers that do not read.
    slow: Arc<AtomicUsize>,
}

impl VoiceService {
    /// Returns the row of the settings that names it.
    async fn begin(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = self.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let this = this.clone();
                // A client that hangs up in the middle has cancelled its sentence.
                tokio::spawn(async move { this.serve(socket).await });
            }
        });
        format!(r#"[{{kind = "openai", url = "http://{address}/v1"}}]"#)
    }

    async fn serve(self, mut socket: TcpStream) -> std::io::Result<()> {
        let mut asked = Vec::new();
        while !asked.ends_with(b"}") {
            asked.push(socket.read_u8().await?);
        }
        let arrived = Instant::now();
        let body = asked.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |end| end + 4);
        let asked: Value = serde_json::from_slice(&asked[body..]).unwrap_or_default();
        let text = asked["input"].as_str().unwrap_or_default();
        if self.is_bad {
            tokio::time::sleep(Duration::from_millis(fate(text) % 8)).await;
            if fails(text) {
                return socket.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            }
        }
        // More than a socket holds, for a reader that does not read.
        let is_slow = text.contains("Slow");
        self.slow.fetch_add(usize::from(is_slow), Ordering::Relaxed);
        let bytes = if is_slow { 3_900_000 } else { self.bytes };
        let audio = [HEAD, text.as_bytes(), &vec![b' '; bytes]].concat();
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", audio.len());
        *self.last.lock() = Some((arrived, Instant::now()));
        socket.write_all(&[head.as_bytes(), &audio].concat()).await
    }
}

/// A number that looks random and depends on the text alone.
fn fate(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 29)
}

fn fails(text: &str) -> bool {
    (fate(text) >> 8).is_multiple_of(20)
}

/// Prints the median, the 99th percentile and the longest of these times. The shortest one must meet the goal: it has the
/// delays of the program itself, and the others have those of the machine too.
fn print(what: &str, mut times: Vec<Duration>, goal: Duration) {
    times.sort_unstable();
    assert!(times[0] <= goal, "{what}: {:?}", times[0]);
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what}: p50 {:?}, p99 {:?}, longest {:?}, of {}", at(50), at(99), at(100), times.len());
}

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn from_the_first_text_to_the_first_byte() {
    story_within(MOST, async {
        let voice = VoiceService::default();
        let world = World::with(Setup::new().set("STAFFAI_VOICES", voice.begin().await)).await;
        let asked = Arc::new(Mutex::new((0, Instant::now())));
        let stamp = Arc::clone(&asked);
        world.model.does(move |_| {
            let mut stamp = stamp.lock();
            *stamp = (stamp.0 + 1, Instant::now());
            // Each sentence is a new one: none is cached.
            Act::streams(&format!("Number {} it is, and so on.", stamp.0), 200, Duration::ZERO, End::Well)
        });
        let mut speaker = Speaker::open(&world, "session=one").await;
        let (mut added, mut shown) = (Vec::new(), Vec::new());
        for _ in 0..size(5, 300) {
            speaker.sends(asks("go")).await;
            speaker.until(|event| event["event"] == "sentence").await;
            let text = Instant::now();
            speaker.until(|event| event["event"] == "audio").await;
            let byte = Instant::now();
            let (arrived, sent) = voice.last.lock().take().unwrap();
            added.push(byte.saturating_duration_since(asked.lock().1).saturating_sub(sent - arrived));
            shown.push(byte.saturating_duration_since(text).saturating_sub(sent - arrived));
            speaker.answer().await;
        }
        print("request of the model to first byte of audio, beside the synthesis", added, FIRST_BYTE);
        print("first sentence to first byte of audio at the client, beside the synthesis", shown, FIRST_BYTE);
    });
}

#[test]
fn no_sentence_is_lost_or_out_of_order_although_voices_are_slow_and_fail() {
    const EACH: usize = 250;
    story_within(MOST, async {
        let voice = VoiceService { is_bad: true, ..VoiceService::default() };
        let world = World::with(Setup::new().set("STAFFAI_VOICES", voice.begin().await)).await;
        let turns = size(1, 40);
        let (mut failed, begun) = (0, Instant::now());
        let mut speaker = Speaker::open(&world, "session=one").await;
        for turn in 0..turns {
            let sentences: Vec<String> = (0..EACH).map(|number| format!("It is {turn} and {number} so.")).collect();
            let words = sentences.join(" ");
            world.model.always(Act::streams(&words, 100, Duration::ZERO, End::Well));
            speaker.sends(asks("go")).await;
            let events = speaker.answer().await;
            assert_eq!(texts(&events), words);
            let spoken: Vec<String> = heard(&events).into_iter().map(|(_, words)| words).collect();
            let expected: Vec<String> = sentences
                .iter()
                .map(|text| if fails(text) { "-".to_owned() } else { format!("RIFF....WAVE{text}") })
                .collect();
            assert!(spoken == expected, "{turn}: {spoken:?}");
            failed += spoken.iter().filter(|words| *words == "-").count();
        }
        println!("{} sentences, {failed} failed, none lost or out of order, in {:?}", turns * EACH, begun.elapsed());
        assert!(failed > 0, "a voice failed");
    });
}

#[test]
fn from_an_interruption_to_silence() {
    story_within(MOST, async {
        // Ten pieces of audio for each sentence.
        let voice = VoiceService { bytes: 480_000, ..VoiceService::default() };
        let world = World::with(Setup::new().set("STAFFAI_VOICES", voice.begin().await)).await;
        let mut speaker = Speaker::open(&world, "session=one").await;
        let mut times = Vec::new();
        for number in 0..size(3, 100) {
            let words = format!("One is {number}. Two is {number}. Three is {number}. Four is {number}.");
            world.model.always(Act::streams(&words, 10, Duration::from_millis(2), End::Well));
            speaker.sends(asks("go")).await;
            speaker.until(|event| event["event"] == "audio").await;
            let begun = Instant::now();
            speaker.sends(json!({"event": "interrupt", "spoken_to": 0})).await;
            speaker.until(|event| event["event"] == "interrupted").await;
            times.push(begun.elapsed());
            let after = speaker.answer().await;
            assert!(of(&after, "audio").next().is_none(), "it is silent: {}", after.len());
        }
        print("interruption to the end of audio at the client", times, SILENCE);
    });
}

#[test]
fn many_sessions_speak_at_once_and_a_reader_that_stops_delays_no_other() {
    story_within(MOST, async {
        let voice = VoiceService { bytes: 48_000, ..VoiceService::default() };
        let asked = Arc::clone(&voice.slow);
        let setup = Setup::new().set("STAFFAI_VOICES", voice.begin().await);
        // One key alone may have half of the sockets, and many keys fewer each.
        let keys: Vec<String> = (0..12).map(|number| format!("sk-{number}")).collect();
        let setup = setup.set("STAFFAI_API_KEYS", keys.join(",")).set("STAFFAI_HTTP__CONNECTIONS", 512);
        let world = World::with(setup).await;
        world.model.does(|ask| {
            let who = ask.question();
            Act::says((0..10).map(|number| format!("{who} has {number} now.")).collect::<Vec<_>>().join(" "))
        });
        let (many, before, begun) = (size(8, 100), resident(), Instant::now());
        // Readers that never read.
        let mut slow = Vec::new();
        let slow_readers = size(1, 8);
        for number in 0..slow_readers {
            let query = format!("session=slow{number}");
            slow.push(Speaker::opens(&world, &query, &[("authorization", "Bearer sk-11")]).await.unwrap());
            slow[number].sends(asks("Slow")).await;
        }
        let mut sessions = Vec::new();
        for number in 0..many {
            let (key, query) = (format!("Bearer sk-{}", number % 11), format!("session=s{number}"));
            sessions.push(Speaker::opens(&world, &query, &[("authorization", key.as_str())]).await.unwrap());
        }
        let opened = resident();
        let tasks: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(number, mut speaker)| {
                tokio::spawn(async move {
                    speaker.sends(asks(&format!("Person{number}"))).await;
                    let events = speaker.answer().await;
                    let bytes: usize = of(&events, "audio")
                        .map(|event| STANDARD.decode(event["data"].as_str().unwrap()).unwrap().len())
                        .sum();
                    (heard(&events).len(), bytes, speaker)
                })
            })
            .collect();
        let mut most = opened;
        let mut speakers = Vec::new();
        for task in tasks {
            let (sentences, bytes, speaker) = task.await.unwrap();
            assert!(sentences == 10 && bytes > 10 * 48_000, "{sentences} sentences, {bytes} bytes");
            most = most.max(resident());
            speakers.push(speaker);
        }
        // The sockets of the system hold a sentence or two, and the bot at most three.
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked <= 6 * slow_readers, "{asked} sentences for {slow_readers} readers that do not read");
        println!(
            "{many} sessions at once: {:?}; resident memory {before} KiB before, {opened} KiB open, {most} KiB at most",
            begun.elapsed()
        );
    });
}
