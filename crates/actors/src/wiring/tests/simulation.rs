//! Complete lives of the program under random failures by seed: models, posts, the store, connections, actors, the
//! process itself. When the failures stop, every question has been answered exactly once.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::{BEGINNING, message};
use domain::ids::{self, Place, Timestamp};
use domain::incoming::AuthorKind;
use ports::testing::{Go, Say};
use ports::{AfterClose, Closed, Fault, Input, ModelErrorKind, PostError};

/// The seeds of the simulation. Add each seed that once failed, and keep it.
const SEEDS: std::ops::Range<u64> = 0..24;
const QUESTIONS: u64 = 30;
const MEMBERS: u64 = 10;
const PLACES: u64 = 4;
/// The most actors that break in one life, below the intensity of the root.
const BREAKS: usize = 4;
/// The final period without failures: longer than any wait of a turn.
const CALM: Duration = Duration::from_secs(600);

/// Seeded randomness (`SplitMix64`).
struct Chance(Mutex<u64>);

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn millis(&self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// Breaks random actors a few times.
struct AtRandom {
    chance: Arc<Chance>,
    left: AtomicUsize,
}

impl Faults for AtRandom {
    fn before(&self, _path: &str, _input: Input) -> Option<Fault> {
        let less = |left: usize| left.checked_sub(1);
        if self.chance.below(150) > 0 || self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            return None;
        }
        Some(if self.chance.below(2) == 0 { Fault::Panic } else { Fault::Error })
    }
}

/// The events of a session, in order; the first has sequence number two.
enum Told {
    Said(Box<Posted>),
    /// The community and its places, as a new session reports them.
    Places,
}

/// A platform and its members, over all lives of the program.
struct Story {
    chance: Arc<Chance>,
    outside: Outside,
    faults: Arc<AtRandom>,
    world: World,
    line: Option<Connection>,
    told: Vec<Told>,
    begun: Instant,
}

impl Story {
    async fn begin(seed: u64) -> Self {
        let chance = Arc::new(Chance(Mutex::new(seed)));
        let outside = Outside::new();
        let faults = Arc::new(AtRandom { chance: Arc::clone(&chance), left: AtomicUsize::new(BREAKS) });
        let world = life(&outside, Arc::clone(&faults) as _).await;
        Self { chance, outside, faults, world, line: None, told: Vec::new(), begun: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        Timestamp(BEGINNING.0 + ids::millis(self.begun.elapsed()))
    }

    /// Advances time; new connections are greeted and get the events that they missed.
    async fn passes(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Ok(connection) = tokio::time::timeout_at(until, self.world.connections.ever()).await {
            let connection = connection.expect("the tree gave up");
            let known = connection.session.as_ref().map_or(1 + self.told.len() as u64, |session| session.sequence);
            if connection.session.is_some() {
                let _ = connection.events.send(StreamEvent::Resumed);
            } else {
                let session =
                    GatewaySession { id: "s".into(), sequence: known, resume_url: None, service: None, total: 1 };
                let _ = connection.events.send(StreamEvent::Ready(session));
                self.told.push(Told::Places);
            }
            for (sequence, told) in (2..).zip(&self.told).filter(|(sequence, _)| *sequence > known) {
                self.tell(&connection, sequence, told);
            }
            self.line = Some(connection);
        }
    }

    fn tell(&self, connection: &Connection, sequence: u64, told: &Told) {
        let event = match told {
            Told::Said(posted) => {
                StreamEvent::Incoming { sequence, incoming: Box::new(Incoming::Posted(Posted::clone(posted))) }
            }
            Told::Places => {
                let said = self.outside.said.lock();
                let of = |place: &Place| said.iter().filter(|posted| posted.place == *place).map(|said| said.at).max();
                let newest = (0..PLACES).map(channel).filter_map(|place| Some((place.clone(), of(&place)?)));
                StreamEvent::Places { sequence, guild: "5".to_owned(), newest: newest.collect() }
            }
        };
        // A process that is down receives the event on its next connection.
        let _ = connection.events.send(event);
    }

    /// A member asks a question.
    fn asks(&mut self) {
        let number = self.outside.said.lock().len() as u64;
        if number >= QUESTIONS {
            return;
        }
        let (from, to) = (self.chance.below(MEMBERS), self.chance.below(PLACES));
        let id = (10 + number).to_string();
        let posted = Posted { at: self.now(), place: channel(to), ..mention(&id, &(100 + from).to_string(), "") };
        self.outside.poster.messages.lock().push(posted.clone());
        self.outside.said.lock().push(posted.clone());
        self.told.push(Told::Said(Box::new(posted)));
        if let (Some(line), Some(told)) = (&self.line, self.told.last()) {
            self.tell(line, 1 + self.told.len() as u64, told);
        }
    }

    fn connection_breaks(&mut self) {
        let next = if self.chance.below(3) == 0 { AfterClose::Identify } else { AfterClose::Resume };
        if let Some(line) = self.line.take() {
            let _ = line.events.send(StreamEvent::Closed(Closed { reason: "cut".to_owned(), next }));
        }
    }

    fn post_fails(&self) {
        self.outside.poster.post_goes(match self.chance.below(4) {
            0 => Go::Fail(PostError::Unsure("bad gateway".to_owned())),
            1 => {
                Go::Fail(PostError::Limited { retry_after: self.chance.millis(3_000), scope: ports::LimitScope::Route })
            }
            2 => Go::LoseAnswer,
            _ => Go::PanicAfter,
        });
    }

    fn model_fails(&self) {
        self.world.models.say(match self.chance.below(4) {
            0 => Say::Fail(ModelErrorKind::Provider),
            1 => Say::Fail(ModelErrorKind::Timeout),
            2 => Say::Fail(ModelErrorKind::Refused),
            _ => Say::Panic,
        });
    }

    /// The process is killed, and its container restarts it.
    async fn is_killed(&mut self) {
        self.world.tree.root.kill();
        self.line = None;
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.faults.left.store(BREAKS, Ordering::SeqCst);
        self.world = life(&self.outside, Arc::clone(&self.faults) as _).await;
    }

    async fn trouble(&mut self) {
        self.world.models.takes(self.chance.millis(4_000));
        match self.chance.below(24) {
            0..=11 => self.asks(),
            12..=14 => self.model_fails(),
            15..=17 => self.post_fails(),
            18..=19 => self.connection_breaks(),
            20..=22 => {
                let fails = self.chance.below(2) == 0;
                self.outside.store.degraded.store(fails, Ordering::SeqCst);
            }
            _ => self.is_killed().await,
        }
        self.passes(self.chance.millis(3_000)).await;
    }

    async fn calm(&mut self) {
        self.faults.left.store(0, Ordering::SeqCst);
        self.outside.store.degraded.store(false, Ordering::SeqCst);
        self.passes(CALM).await;
    }

    /// Returns our messages that answer this question.
    fn answers(&self, id: &str) -> Vec<String> {
        let question = message(id);
        let messages = self.outside.poster.messages.lock();
        let ours = messages.iter().filter(|posted| posted.author.kind == AuthorKind::Ourselves);
        let to = |posted: &&Posted| posted.reply_to.as_ref().is_some_and(|quoted| quoted.id == question);
        ours.filter(to).map(|posted| posted.text.clone()).collect()
    }
}

fn channel(number: u64) -> Place {
    place(&(42 + number).to_string())
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_at_random_every_question_is_answered_once_when_it_stops() {
    for seed in SEEDS {
        println!("seed {seed}");
        let mut story = Story::begin(seed).await;
        while (story.outside.said.lock().len() as u64) < QUESTIONS {
            story.trouble().await;
        }
        story.calm().await;
        for id in (10..10 + QUESTIONS).map(|id| id.to_string()) {
            let answers = story.answers(&id);
            assert_eq!(answers.len(), 1, "seed {seed}, question {id}: {answers:?}");
            let record = story.outside.store.json(&format!("staffai:turn:discord:{id}"));
            assert_eq!(record.unwrap()["state"], "closed", "seed {seed}, question {id}");
        }
        story.world.tree.stop().await;
    }
}
