//! A campaign of random faults against a real process under load: cut connections, kills, stops, and outages of the
//! store, the model, the tool server and NATS, in an order and at moments from one seed. A judge that knows only what
//! members saw counts lost, doubled and disordered answers.
//!
//! `./test campaign --rounds N --seed S` runs one of any length.

mod checker;

mod outside;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use playground::service::Service;
use ports::Clock;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use staffai::app::system::SystemClock;
use tokio::time::{Instant, sleep};

use self::checker::{Mention, Reply, Verdict, judge};
use self::outside::Outside;
use crate::proxy::Mode;
use crate::rows::Process;

/// The pause between two mentions.
const EVERY: Duration = Duration::from_millis(40);

/// The most mentions without an answer at a time, so that a slow machine is asked no faster than it answers.
const OPEN_MAX: usize = 40;

/// The bounds of the pause before a fault, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 100..700;

/// The bounds of an outage, in milliseconds.
const OUTAGE_MS: std::ops::Range<u64> = 300..2_500;

/// The bounds of a stop, in milliseconds: beyond the lease, the heartbeat, and the timeouts of the store and the model.
const STOP_MS: std::ops::Range<u64> = 2_500..4_500;

/// The bound on a recovery, and on the wait for the last answers.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The faults of a campaign, with their weights beyond the first of each kind.
const FAULTS: [(Fault, u32); 16] = [
    (Fault::CutGateway, 250),
    (Fault::CutRequests, 200),
    (Fault::LoseResponses, 150),
    (Fault::CutStore, 150),
    (Fault::CutModel, 100),
    (Fault::CutTools, 80),
    (Fault::CutNats, 70),
    (Fault::Kill, 300),
    (Fault::Stop, 30),
    (Fault::KillStore, 40),
    (Fault::FreezeStore, 40),
    (Fault::CloseModel, 30),
    (Fault::SilenceModel, 30),
    (Fault::CloseTools, 20),
    (Fault::SilenceRequests, 20),
    (Fault::KillNats, 20),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// Connections of the gateway, of requests, and so on are reset.
    CutGateway,
    CutRequests,
    CutStore,
    CutModel,
    CutTools,
    CutNats,
    /// Posts are made, and their responses are lost.
    LoseResponses,
    /// The process is killed; the next one starts at once.
    Kill,
    /// The process is stopped (SIGSTOP) for longer than its timeouts.
    Stop,
    /// Outages of services.
    KillStore,
    FreezeStore,
    CloseModel,
    SilenceModel,
    CloseTools,
    SilenceRequests,
    KillNats,
}

/// The load: members who go on asking.
struct Load {
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    asking: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(outside: &Outside) -> Self {
        let (asked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (service, members, channels) = (outside.service.clone(), outside.members.clone(), outside.channels.clone());
        let (counted, ends) = (Arc::clone(&asked), Arc::clone(&over));
        let asking = tokio::spawn(async move {
            let mut answered = 0;
            while !ends.load(Ordering::Relaxed) {
                let number = counted.load(Ordering::Relaxed);
                if number - answered >= OPEN_MAX {
                    answered = number - open(&service);
                } else {
                    let channel = channels[number / members.len() % channels.len()];
                    let text = format!("<@{}> {}", service.bot(), question(number));
                    let _ = service.says(members[number % members.len()], channel, &text, None);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                sleep(EVERY).await;
            }
        });
        Self { asked, over, asking }
    }

    async fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.asking.await.unwrap();
        self.asked.load(Ordering::Relaxed)
    }
}

/// Questions for the model alone, a built-in tool, a tool server and a provider over NATS.
fn question(number: usize) -> String {
    match number % 4 {
        0 => format!("good morning {number}"),
        1 => format!("what is {number} + 1"),
        2 => format!("use docs__look_up {{\"name\": \"{number}\"}}"),
        _ => format!("use desk__letters {{\"word\": \"tomato {number}\"}}"),
    }
}

/// Returns all mentions and the replies to them, as members see them.
fn seen(service: &Service) -> (Vec<Mention>, Vec<Reply>) {
    let bot = service.bot();
    let (mut mentions, mut replies) = (Vec::new(), Vec::new());
    for message in service.channels().iter().flat_map(|channel| service.messages(channel.id)) {
        if message.author != bot && message.content.starts_with("<@") {
            let lane = (message.author.0, message.channel.0);
            mentions.push(Mention { id: message.id.0, lane, at: message.sent_at });
        } else if let Some(to) = message.reply_to.filter(|_| message.author == bot) {
            let apology = message.content.starts_with("Sorry, ");
            replies.push(Reply { to: to.0, at: message.sent_at, apology });
        }
    }
    (mentions, replies)
}

/// Returns the number of mentions without an answer.
fn open(service: &Service) -> usize {
    let (mentions, replies) = seen(service);
    judge(&mentions, &replies, &[]).lost.len()
}

/// Counts of one kind of fault.
#[derive(Default)]
struct Count {
    times: usize,
    /// The mentions that were open when it began.
    open: usize,
    /// The longest time from its end until the bot was ready.
    longest: Duration,
}

/// A running campaign.
struct Campaign {
    outside: Outside,
    bot: Process,
    dice: StdRng,
    counts: BTreeMap<Fault, Count>,
    /// The times at which a process was killed, or was ready after a stop, in milliseconds.
    interruptions: Vec<u64>,
    /// Each fault with the time of its beginning, in milliseconds.
    begun: Vec<(u64, Fault)>,
}

impl Campaign {
    /// Begins a fault, ends it, and waits until the bot is ready.
    async fn suffers(&mut self, fault: Fault) {
        sleep(Duration::from_millis(self.dice.random_range(PAUSE_MS))).await;
        let open = open(&self.outside.service);
        let lasts = Duration::from_millis(self.dice.random_range(OUTAGE_MS));
        self.begun.push((SystemClock.now().0, fault));
        self.strikes(fault, lasts).await;
        let healed = Instant::now();
        self.recovers(fault).await;
        if fault == Fault::Stop {
            self.interruptions.push(SystemClock.now().0);
        }
        let count = self.counts.entry(fault).or_default();
        count.times += 1;
        count.open += open;
        count.longest = count.longest.max(healed.elapsed());
    }

    async fn strikes(&mut self, fault: Fault, lasts: Duration) {
        let outside = &mut self.outside;
        match fault {
            Fault::CutGateway => outside.service.faults().cut_gateways(),
            Fault::CutRequests => outside.requests.cut(),
            Fault::CutStore => outside.store.cut(),
            Fault::CutModel => outside.model.cut(),
            Fault::CutTools => outside.tools.cut(),
            Fault::CutNats => outside.nats_line.cut(),
            Fault::LoseResponses => outside.service.faults().drop_answers(5),
            Fault::Kill => {
                self.bot.signal(Signal::KILL);
                self.interruptions.push(SystemClock.now().0);
                assert_eq!(self.bot.ended().await, None);
                self.bot = outside.start();
            }
            Fault::Stop => {
                self.bot.signal(Signal::STOP);
                sleep(Duration::from_millis(self.dice.random_range(STOP_MS))).await;
                self.bot.signal(Signal::CONT);
            }
            Fault::KillStore => {
                outside.server.kill();
                sleep(lasts).await;
                tokio::task::block_in_place(|| outside.server.restart());
            }
            Fault::FreezeStore => {
                outside.server.freeze();
                sleep(lasts).await;
                outside.server.thaw();
            }
            Fault::CloseModel => during(&outside.model, Mode::Closed, lasts).await,
            Fault::SilenceModel => during(&outside.model, Mode::Silent, lasts).await,
            Fault::CloseTools => during(&outside.tools, Mode::Closed, lasts).await,
            Fault::SilenceRequests => during(&outside.requests, Mode::Silent, lasts).await,
            Fault::KillNats => {
                outside.nats_ends();
                sleep(lasts).await;
                outside.nats_starts();
            }
        }
    }

    /// Waits until the process serves with its store and its connection: the end of a process whose store is away may
    /// lose what only memory held.
    async fn recovers(&mut self, fault: Fault) {
        let until = Instant::now() + TIMEOUT;
        while !self.is_ready().await {
            assert!(Instant::now() < until, "not ready again after {fault:?}:\n{}", self.outside.log());
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let page = reqwest::Client::new().get(format!("http://{}/readyz", self.bot.address));
        let Ok(answer) = page.timeout(Duration::from_secs(2)).send().await else { return false };
        let Ok(told) = answer.json::<serde_json::Value>().await else { return false };
        let parts = told["parts"].as_array().cloned().unwrap_or_default();
        let ready = |kind: &str| parts.iter().any(|part| part["kind"] == kind && part["status"] == "ready");
        ready("store") && ready("shard")
    }

    /// Waits until all mentions are answered, and judges what members saw.
    async fn judged(&self, asked: usize) -> Verdict {
        let until = Instant::now() + TIMEOUT;
        while open(&self.outside.service) > 0 && Instant::now() < until {
            sleep(Duration::from_millis(50)).await;
        }
        // A second answer comes late, if at all.
        sleep(Duration::from_secs(1)).await;
        let (mentions, replies) = seen(&self.outside.service);
        assert_eq!(mentions.len(), asked);
        judge(&mentions, &replies, &self.interruptions)
    }

    fn print(&self, verdict: &Verdict) {
        println!("{:<16}{:>7}{:>15}{:>17}", "fault", "times", "open mentions", "ready after, ms");
        for (fault, count) in &self.counts {
            let name = format!("{fault:?}");
            println!("{name:<16}{:>7}{:>15}{:>17}", count.times, count.open, count.longest.as_millis());
        }
        let Verdict { mentions, apologies, lost, doubled, disordered, overtaken } = verdict;
        let (lost, doubled, disordered) = (lost.len(), doubled.len(), disordered.len());
        println!(
            "{mentions} mentions: lost {lost}, doubled {doubled}, out of order {disordered}, out of order over the end or \
             a stop of a process {overtaken}, apologies {apologies}"
        );
        for number in verdict.lost.iter().chain(&verdict.doubled).chain(&verdict.disordered) {
            self.tell(*number);
        }
    }

    /// Prints a mention with a broken promise, the answers in its lane about that time, and the fault before it.
    fn tell(&self, number: u64) {
        let (mentions, replies) = seen(&self.outside.service);
        let mention = mentions.iter().find(|mention| mention.id == number).unwrap();
        let fault = self.begun.iter().rev().find(|(at, _)| *at <= mention.at);
        println!("{mention:?} {fault:?}\n{}", self.outside.lines(&number.to_string()).join("\n"));
        for other in
            mentions.iter().filter(|other| other.lane == mention.lane && other.at.abs_diff(mention.at) < 20_000)
        {
            println!("  {other:?} {:?}", replies.iter().filter(|reply| reply.to == other.id).collect::<Vec<_>>());
        }
    }
}

async fn during(line: &crate::proxy::Proxy, mode: Mode, lasts: Duration) {
    line.set(mode);
    sleep(lasts).await;
    line.set(Mode::Open);
}

/// The faults in their order: each kind once, then by weight.
fn deck(rounds: usize, dice: &mut StdRng) -> Vec<Fault> {
    let mut faults: Vec<Fault> = FAULTS.iter().map(|(fault, _)| *fault).collect();
    faults.shuffle(dice);
    while faults.len() < rounds {
        faults.push(FAULTS.choose_weighted(dice, |(_, weight)| *weight).unwrap().0);
    }
    faults.truncate(rounds);
    faults
}

/// Returns the number of rounds and the seed.
#[expect(clippy::disallowed_methods, reason = "./test campaign names them")]
fn chosen() -> (usize, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("CAMPAIGN_ROUNDS").and_then(|rounds| usize::try_from(rounds).ok()).unwrap_or(FAULTS.len());
    (rounds, number("CAMPAIGN_SEED").unwrap_or(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_under_load_lose_and_double_no_answer() {
    let (rounds, seed) = chosen();
    println!("{rounds} rounds, seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let faults = deck(rounds, &mut dice);
    let mut outside = Outside::new().await;
    let bot = outside.start();
    let mut campaign =
        Campaign { outside, bot, dice, counts: BTreeMap::new(), interruptions: Vec::new(), begun: Vec::new() };
    // Mentions from before the first connection are none of this bot's.
    campaign.recovers(Fault::Kill).await;
    let load = Load::start(&campaign.outside);
    for fault in faults {
        campaign.suffers(fault).await;
    }
    let asked = load.end().await;
    let verdict = campaign.judged(asked).await;
    campaign.print(&verdict);
    let broken = (&verdict.lost, &verdict.doubled, &verdict.disordered);
    assert_eq!(broken, (&vec![], &vec![], &vec![]), "{}", campaign.outside.log());
    let Campaign { outside, bot, .. } = campaign;
    drop(bot);
    outside.end().await;
}
