//! The rig: gateway, request API and model of one bot under test, on one clock. It counts every reply; a lost or
//! doubled reply fails the whole run.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::wire::{self, Seat};
use crate::{gateway, http};

/// The program's own interval between two edits of one channel, which does not count as a delay.
const EDIT_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of queued events of the connection.
const QUEUE: usize = 4096;
/// Number of events kept for a resumed session.
const REPLAY: usize = 4096;

/// An instruction for the gateway connection.
pub enum Out {
    /// Sends one payload.
    Text(String),
    /// Cuts the connection.
    Cut,
}

/// Gateway, request API and model of one bot.
pub struct Rig {
    /// The address of request API and model.
    pub api: SocketAddr,
    pub gateway: SocketAddr,
    /// The recorded state.
    pub state: Mutex<State>,
    /// Notified of each change of the state.
    pub changed: Notify,
    born: Instant,
    born_ms: u64,
    first_id: u64,
}

/// The recorded state.
#[derive(Default)]
pub struct State {
    turns: Vec<Turn>,
    nonces: HashMap<String, u64>,
    by_channel: HashMap<String, Vec<(u64, u64)>>,
    next_post: u64,
    sequence: u64,
    connection: Option<mpsc::Sender<Out>>,
    replay: VecDeque<(u64, String)>,
    /// The times of all new sessions.
    pub readied: Vec<Instant>,
    /// The times of all resumed sessions.
    pub resumed: Vec<Instant>,
    /// Posts that answer no question.
    pub strays: usize,
    pub requests: HashMap<&'static str, u64>,
    pub prompt_bytes: u64,
    /// True if the model streams slowly.
    pub slow_model: bool,
    /// The number of words that the model streams without a pause; 0 for a normal answer.
    pub words: usize,
    /// The turns of the bot's posts, while the model is slow.
    posts: HashMap<u64, usize>,
    /// The time of the last edit per channel.
    edited: HashMap<String, Instant>,
    /// The shortest interval between two edits of one channel.
    pub shortest_pause: Option<Duration>,
}

struct Turn {
    due: Instant,
    replied: Option<Instant>,
    replies: u32,
    stream: Stream,
}

/// The progress of a streamed answer.
#[derive(Clone, Copy, Default)]
pub struct Stream {
    /// The time of its first word.
    pub begun: Option<Instant>,
    /// The time of its end.
    pub ended: Option<Instant>,
    /// The time at which the whole text was in the channel.
    pub whole: Option<Instant>,
    /// The time of the last edit before that.
    edited: Option<Instant>,
    pub edits: u32,
}

/// The latencies of a streamed turn.
pub struct Streamed {
    /// From the scheduled time to the first visible text, in microseconds.
    pub visible: f64,
    /// From the model's first word to the first visible text, in microseconds.
    pub behind_model: f64,
    /// From the end of the stream, or the time at which another edit was allowed, to the whole text, in microseconds.
    pub finished: f64,
    pub edits: u32,
}

/// A range of turns.
#[derive(Clone, Copy)]
pub struct Span {
    first: usize,
    end: usize,
}

impl Rig {
    /// Listens on ports of its own.
    pub async fn start() -> std::io::Result<Arc<Self>> {
        let api = TcpListener::bind("127.0.0.1:0").await?;
        let gateway = TcpListener::bind("127.0.0.1:0").await?;
        let born_ms = wall_ms();
        let rig = Arc::new(Self {
            api: api.local_addr()?,
            gateway: gateway.local_addr()?,
            state: Mutex::default(),
            changed: Notify::new(),
            born: Instant::now(),
            born_ms,
            first_id: wire::id_at(born_ms, 0),
        });
        tokio::spawn(http::accept(api, Arc::clone(&rig)));
        tokio::spawn(gateway::accept(gateway, Arc::clone(&rig)));
        Ok(rig)
    }

    /// Returns the gateway's URL.
    pub fn gateway_url(&self) -> String {
        format!("ws://{}", self.gateway)
    }

    /// Returns the current time as a message's timestamp.
    pub fn stamp(&self) -> String {
        let ms = self.born_ms + u64::try_from(self.born.elapsed().as_millis()).unwrap_or(0);
        jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap_or(0)).map(|at| at.to_string()).unwrap_or_default()
    }

    /// Asks one turn, scheduled for `due`.
    pub async fn ask(&self, seat: Seat, due: Instant) {
        let (out, text) = {
            let mut state = self.state.lock();
            let number = state.turns.len();
            state.turns.push(Turn { due, replied: None, replies: 0, stream: Stream::default() });
            let id = self.first_id + number as u64;
            state.sequence += 1;
            let text = wire::message(state.sequence, id, &self.stamp(), seat, true);
            state.keep(&text);
            (state.connection.clone(), text)
        };
        // Without a connection the event waits for a resume.
        if let Some(out) = out {
            let _ = out.send(Out::Text(text)).await;
        }
    }

    /// Sends one message that does not address the bot.
    pub async fn noise(&self, number: u64) {
        let (out, text) = {
            let mut state = self.state.lock();
            state.sequence += 1;
            // Ids of noise are from another year, so that they differ from those of turns.
            let id = self.first_id - (1 << 50) + number;
            let seat = Seat { user: number % 5000, channel: number % 500 };
            (state.connection.clone(), wire::message(state.sequence, id, &self.stamp(), seat, false))
        };
        if let Some(out) = out {
            let _ = out.send(Out::Text(text)).await;
        }
    }

    /// Cuts the gateway connection.
    pub async fn cut(&self) {
        let out = self.state.lock().connection.take();
        if let Some(out) = out {
            let _ = out.send(Out::Cut).await;
        }
    }

    /// Begins a range of turns.
    pub fn begin(&self) -> usize {
        self.state.lock().turns.len()
    }

    /// Awaits the answers to all turns since `first`. `None` on a timeout.
    pub async fn answered(&self, first: usize, within: Duration) -> Option<Span> {
        let deadline = Instant::now() + within;
        let mut done = first;
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                done += state.turns[done..].iter().take_while(|turn| turn.replied.is_some()).count();
                if done == state.turns.len() {
                    return Some(Span { first, end: done });
                }
            }
            tokio::time::timeout_at(deadline, changed).await.ok()?;
        }
    }

    /// Waits until a condition holds; returns false on a timeout.
    pub async fn until(&self, within: Duration, holds: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + within;
        loop {
            let changed = self.changed.notified();
            if holds(&self.state.lock()) {
                return true;
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    /// Returns the latency of each turn of a range, in microseconds, from its scheduled time.
    pub fn latencies(&self, span: Span) -> Vec<f64> {
        let state = self.state.lock();
        let took = |turn: &Turn| turn.replied.map(|at| at.saturating_duration_since(turn.due).as_secs_f64() * 1e6);
        state.turns[span.first..span.end].iter().filter_map(took).collect()
    }

    /// Waits until the whole text of all turns since `first` is in its channel.
    pub async fn finished(&self, span: Span, within: Duration) -> bool {
        self.until(within, |state| state.turns[span.first..].iter().all(|turn| turn.stream.whole.is_some())).await
    }

    /// Returns the latencies of the streamed turns of a range.
    pub fn streamed(&self, span: Span) -> Vec<Streamed> {
        let state = self.state.lock();
        let micros = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e6;
        let each = state.turns[span.first..span.end].iter().filter_map(|turn| {
            let Stream { begun, ended, whole, edited, edits } = turn.stream;
            let replied = turn.replied?;
            let allowed = edited.map_or(replied, |at| at + EDIT_EVERY);
            Some(Streamed {
                visible: micros(turn.due, replied),
                behind_model: micros(begun?, replied),
                finished: micros(ended?.max(allowed), whole?),
                edits,
            })
        });
        each.collect()
    }

    /// Returns the time from the first question to the last reply, in seconds.
    pub fn stretch(&self, span: Span) -> f64 {
        let state = self.state.lock();
        let turns = &state.turns[span.first..span.end];
        let begun = turns.iter().map(|turn| turn.due).min();
        let ended = turns.iter().filter_map(|turn| turn.replied).max();
        begun.zip(ended).map_or(0.0, |(begun, ended)| ended.saturating_duration_since(begun).as_secs_f64())
    }

    /// Returns the numbers of turns without a reply and with more than one.
    pub fn wrong(&self) -> (usize, usize) {
        let state = self.state.lock();
        let count = |wrong: fn(&Turn) -> bool| state.turns.iter().filter(|turn| wrong(turn)).count();
        (count(|turn| turn.replies == 0), count(|turn| turn.replies > 1))
    }

    // === Server side ===

    /// Registers a connection, and returns the queue of what it sends.
    pub fn connected(&self) -> mpsc::Receiver<Out> {
        let (out, queue) = mpsc::channel(QUEUE);
        self.state.lock().connection = Some(out);
        queue
    }

    /// Returns the payload that begins a session.
    pub fn identify(&self) -> String {
        let mut state = self.state.lock();
        state.sequence += 1;
        state.readied.push(Instant::now());
        let text = wire::ready(state.sequence, &self.gateway_url());
        drop(state);
        self.changed.notify_waiters();
        text
    }

    /// Returns the payloads that a resumed session missed.
    pub fn resume(&self, seen: u64) -> Vec<String> {
        let mut state = self.state.lock();
        state.resumed.push(Instant::now());
        let mut missed: Vec<String> =
            state.replay.iter().filter(|(sequence, _)| *sequence > seen).map(|(_, text)| text.clone()).collect();
        state.sequence += 1;
        missed.push(format!(r#"{{"t":"RESUMED","s":{},"op":0,"d":{{"_trace":[]}}}}"#, state.sequence));
        drop(state);
        self.changed.notify_waiters();
        missed
    }

    /// Records a post; returns the platform's response.
    pub fn post(&self, channel: &str, body: &[u8]) -> String {
        let now = Instant::now();
        let stamp = self.stamp();
        let reference = memchr::memmem::find(body, b"\"message_reference\"").map_or(&body[..0], |at| &body[at..]);
        // Some clients write an id as a number.
        let ways = ["\"message_id\":\"", "\"message_id\":"];
        let trigger = ways.iter().find_map(|way| wire::number_behind(reference, way)).unwrap_or(0);
        let nonce = text_behind(body, "\"nonce\":\"");
        let mut state = self.state.lock();
        let known = nonce.as_ref().and_then(|nonce| state.nonces.get(nonce).copied());
        let id = match known {
            Some(id) => id,
            None => {
                state.next_post += 1;
                let id = self.first_id + (1 << 40) + state.next_post;
                if let Some(nonce) = nonce {
                    state.nonces.insert(nonce, id);
                }
                state.by_channel.entry(channel.to_owned()).or_default().push((id, trigger));
                let number = trigger.checked_sub(self.first_id).and_then(|number| usize::try_from(number).ok());
                match number.and_then(|number| state.turns.get_mut(number)) {
                    Some(turn) => {
                        turn.replies += 1;
                        turn.replied.get_or_insert(now);
                    }
                    None => state.strays += 1,
                }
                if let (true, Some(number)) = (state.slow_model, number) {
                    state.posts.extend([(id, number), (trigger, number)]);
                    state.shows(number, body, now);
                }
                id
            }
        };
        drop(state);
        self.changed.notify_waiters();
        wire::posted(id, channel, trigger, &stamp)
    }

    /// Records an edit of the bot's post.
    pub fn edit(&self, channel: &str, id: u64, body: &[u8]) {
        let now = Instant::now();
        let mut state = self.state.lock();
        // A complete answer is not subject to the interval.
        let grows = memchr::memmem::find(body, wire::streamed_text().as_bytes()).is_none();
        if grows && let Some(before) = state.edited.insert(channel.to_owned(), now) {
            let pause = now.saturating_duration_since(before);
            state.shortest_pause = Some(state.shortest_pause.map_or(pause, |shortest| shortest.min(pause)));
        }
        if let Some(number) = state.posts.get(&id).copied() {
            state.turns[number].stream.edits += 1;
            state.shows(number, body, now);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the turn of a prompt: its message contains its own id.
    pub fn asked_in(&self, prompt: &[u8]) -> Option<usize> {
        let at = memchr::memmem::rfind(prompt, b"about number ")?;
        let id = wire::number_behind(&prompt[at..], "about number ")?;
        id.checked_sub(self.first_id).and_then(|number| usize::try_from(number).ok())
    }

    /// Records the progress of streaming the answer to a turn.
    pub fn streams(&self, number: usize, note: impl FnOnce(&mut Stream, Instant)) {
        if let Some(turn) = self.state.lock().turns.get_mut(number) {
            note(&mut turn.stream, Instant::now());
        }
    }

    /// Returns the bot's messages in a channel after an id, newest first.
    pub fn history(&self, channel: &str, after: u64) -> String {
        let stamp = self.stamp();
        let state = self.state.lock();
        let ours = state.by_channel.get(channel).map_or(&[][..], Vec::as_slice);
        let later = ours.iter().rev().filter(|(id, _)| *id > after).take(100);
        let texts: Vec<String> = later.map(|(id, trigger)| wire::posted(*id, channel, *trigger, &stamp)).collect();
        format!("[{}]", texts.join(","))
    }

    /// Counts a request.
    pub fn count(&self, what: &'static str) {
        *self.state.lock().requests.entry(what).or_default() += 1;
    }
}

impl State {
    /// Records the text of a turn's answer in the channel.
    fn shows(&mut self, number: usize, body: &[u8], now: Instant) {
        let whole = memchr::memmem::find(body, wire::streamed_text().as_bytes()).is_some();
        if let Some(turn) = self.turns.get_mut(number) {
            if whole {
                turn.stream.whole.get_or_insert(now);
            } else if turn.replied != Some(now) {
                turn.stream.edited = Some(now);
            }
        }
    }

    fn keep(&mut self, text: &str) {
        let sequence = self.sequence;
        self.replay.push_back((sequence, text.to_owned()));
        if self.replay.len() > REPLAY {
            self.replay.pop_front();
        }
    }
}

fn text_behind(body: &[u8], marker: &str) -> Option<String> {
    let at = memchr::memmem::find(body, marker.as_bytes())? + marker.len();
    let end = memchr::memchr(b'"', &body[at..])?;
    std::str::from_utf8(&body[at..at + end]).ok().map(str::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "messages are stamped with the real time, as the platform does")]
fn wall_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}
