//! M11: programs that ask over HTTP: the cost of their turns compared with a member's turn, and the throughput of a
//! stream compared with a bare proxy.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{Sample, Size, one_by_one, regular, settled, warm};
use crate::arithmetic::{as_f64, median, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::{Bot, Helper, Kind, key};
use crate::proxy;

/// Tokens of a streamed answer, and streams of one side per round.
const TOKENS: usize = 4_000;
const STREAMS: usize = 10;
/// Conversations over the bot's own API.
const SESSIONS: usize = 20;
/// Timeout until the API answers.
const START_TIMEOUT: Duration = Duration::from_secs(20);

pub async fn run(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let bot = Bot::start(Kind::Us, on_core).await?;
    warm(&bot).await?;
    let mut client = Client::open(&bot.http.to_string()).await?;
    turns(&bot, &mut client, size, table).await?;
    stream(&bot, &mut client, on_core, size, table).await
}

/// The way to ask for a turn.
#[derive(Clone, Copy)]
enum Way {
    Member,
    Chat { stream: bool },
    Session,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Member, "a member's mention"),
    (Way::Chat { stream: false }, "/v1/chat/completions"),
    (Way::Chat { stream: true }, "/v1/chat/completions, streamed"),
    (Way::Session, "/api/v1/submit that waits"),
];

/// Runs turns in sequence, alternating between the ways.
async fn turns(bot: &Bot, client: &mut Client, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let mut samples: [Vec<Sample>; 4] = Default::default();
    for round in 0..=size.rounds {
        for step in 0..WAYS.len() {
            let at = (round + step) % WAYS.len();
            let sample = match WAYS[at].0 {
                Way::Member => one_by_one(bot, size.slot, regular).await?,
                way => asked(bot, client, way, size.slot).await?,
            };
            // The first round is a warm-up.
            if round > 0 {
                samples[at].push(sample);
            }
        }
    }
    let of = |at: usize, of: fn(&Sample) -> f64| median(&samples[at].iter().map(of).collect::<Vec<_>>());
    let member = of(0, |sample| sample.cpu);
    for (at, (_, name)) in WAYS.iter().enumerate() {
        let cpu = of(at, |sample| sample.cpu);
        let (p50, p99) = (of(at, |sample| sample.p50), of(at, |sample| sample.p99));
        let figure = format!("{} us, {:.2} x; {} / {} us", plain(cpu), cpu / member, plain(p50), plain(p99));
        table.told(&format!("m11 {name}: cpu a turn, of a mention; p50 / p99"), &figure, &steal);
    }
    Ok(())
}

/// Sends requests in sequence for a while.
async fn asked(bot: &Bot, client: &mut Client, way: Way, lasting: Duration) -> Result<Sample, String> {
    let (cpu, begun, mut took) = (bot.cpu(), Instant::now(), Vec::new());
    while begun.elapsed() < lasting {
        let text = "what would you say about it, in a sentence or two?";
        let (path, body) = match way {
            Way::Chat { stream } => ("/v1/chat/completions", chat(text, stream)),
            Way::Session | Way::Member => {
                let session = format!("s{}", client.asked % SESSIONS);
                ("/api/v1/submit", json!({"session": session, "text": text, "wait": true}).to_string())
            }
        };
        let asked = Instant::now();
        client.ask(path, &body).await?;
        took.push(asked.elapsed().as_secs_f64() * 1e6);
    }
    let rate = as_f64(took.len() as u64) / begun.elapsed().as_secs_f64();
    settled().await;
    let cpu = (bot.cpu() - cpu) * 1e6 / as_f64(took.len() as u64);
    Ok(Sample { p50: median(&took), p99: percentile(&took, 0.99), rate, cpu })
}

fn chat(text: &str, stream: bool) -> String {
    json!({"model": "rig", "messages": [{"role": "user", "content": text}], "stream": stream}).to_string()
}

/// A model that streams many words at once, through the bot and through a bare proxy.
async fn stream(bot: &Bot, client: &mut Client, on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let proxy = Helper::start(on_core, &[proxy::WORD, &bot.rig.api.to_string()])?;
    let mut bare = Client::open(&proxy.address).await?;
    bot.rig.state.lock().words = TOKENS;
    let body = chat("tell me all of it", true);
    // Tokens per second and CPU microseconds per token: of the proxy, and of the bot.
    let (mut rates, mut cpus) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..=size.rounds {
        for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let cpu = || if side == 0 { proxy.cpu() } else { bot.cpu() };
            let (before, begun) = (cpu(), Instant::now());
            for _ in 0..STREAMS {
                let client = if side == 0 { &mut bare } else { &mut *client };
                client.ask("/v1/chat/completions", &body).await?;
                client.ends_with(&format!("word{}", TOKENS - 1))?;
            }
            let tokens = as_f64((TOKENS * STREAMS) as u64);
            let rate = tokens / begun.elapsed().as_secs_f64();
            settled().await;
            if round > 0 {
                rates[side].push(rate);
                cpus[side].push((cpu() - before) * 1e6 / tokens);
            }
        }
    }
    bot.rig.state.lock().words = 0;
    for (side, name) in ["a bare proxy", "the bot"].into_iter().enumerate() {
        let figure = format!("{:.0} /s, {} us", median(&rates[side]), plain(median(&cpus[side])));
        table.told(&format!("m11 stream through {name}: tokens a second, cpu a token"), &figure, &steal);
    }
    let ratios: Vec<f64> = rates[1].iter().zip(&rates[0]).map(|(us, bare)| us / bare).collect();
    table.told("m11 tokens a second, us : proxy", &format!("{:.2} x", median(&ratios)), &steal);
    Ok(())
}

/// A minimal HTTP client with one connection, so that it is not what is measured.
struct Client {
    stream: TcpStream,
    address: String,
    buffer: Vec<u8>,
    /// Number of requests.
    asked: usize,
}

impl Client {
    async fn open(address: &str) -> Result<Self, String> {
        let until = Instant::now() + START_TIMEOUT;
        let stream = loop {
            match TcpStream::connect(address).await {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > until => return Err(format!("{address}: {error}")),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self { stream, address: address.to_owned(), buffer: Vec::with_capacity(1 << 20), asked: 0 })
    }

    /// Sends a request and reads the whole response.
    async fn ask(&mut self, path: &str, body: &str) -> Result<(), String> {
        let (key, address, length) = (key(self.asked), &self.address, body.len());
        self.asked += 1;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(head.as_bytes()).await.map_err(|error| error.to_string())?;
        self.buffer.clear();
        while !self.is_whole()? {
            let read = self.stream.read_buf(&mut self.buffer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err(format!("{path}: the connection ended"));
            }
        }
        Ok(())
    }

    fn is_whole(&self) -> Result<bool, String> {
        let Some(head) = memchr::memmem::find(&self.buffer, b"\r\n\r\n").map(|at| at + 4) else { return Ok(false) };
        if !self.buffer.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&self.buffer).into_owned());
        }
        let length = std::str::from_utf8(&self.buffer[..head]).unwrap_or_default().lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        Ok(match length {
            Some(length) => self.buffer.len() >= head + length,
            None => self.buffer.ends_with(b"\r\n0\r\n\r\n"),
        })
    }

    /// Checks that the last response contained this.
    fn ends_with(&self, word: &str) -> Result<(), String> {
        let found = memchr::memmem::rfind(&self.buffer, word.as_bytes());
        found.map(drop).ok_or_else(|| "a streamed answer was not whole".to_owned())
    }
}
