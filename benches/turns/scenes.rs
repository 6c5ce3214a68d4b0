//! The measured scenes. Comparisons run floor and program alternately in both orders, so that a slow minute of the
//! machine affects both.

use std::time::Duration;

use tokio::time::Instant;

use crate::arithmetic::{as_f64, median, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::{Bot, Kind, Log, own_cpu};
use crate::rig::{Rig, Span};
use crate::wire::Seat;

pub mod api;

pub mod idle;

pub mod limits;

pub mod noise;

pub mod peer;

pub mod soak;

pub mod starts;

pub mod stream;

pub mod tools;
pub mod typed;

/// Timeout of a range of turns.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of turns that fill a history.
const FILL: u64 = 11;

/// The extent of the measurement.
#[derive(Clone, Copy)]
pub struct Size {
    /// Rounds of each comparison.
    pub rounds: usize,
    /// Duration of one side of a round.
    pub slot: Duration,
    /// Bursts per round.
    pub bursts: u64,
    /// Events that do not address the bot.
    pub noise: u64,
    /// Idle conversations.
    pub idle: u64,
    /// Duration of the idle time.
    pub idle_for: Duration,
    /// Cold starts, cuts and kills.
    pub starts: usize,
}

/// Few members in a few channels, with histories.
pub fn regular(number: u64) -> Seat {
    Seat { user: number % 50, channel: number % 20 }
}

/// Ten thousand members in five hundred channels.
pub fn crowd(number: u64) -> Seat {
    Seat { user: 1_000 + number % 10_000, channel: 100 + number % 500 }
}

/// Fills the histories of the regular members.
pub async fn warm(bot: &Bot) -> Result<(), String> {
    for round in 0..FILL {
        let first = bot.rig.begin();
        for number in 0..50 {
            bot.rig.ask(regular(number + round * 50), Instant::now()).await;
        }
        answered(&bot.rig, first).await?;
    }
    Ok(())
}

/// Runs turns in sequence for a while.
pub async fn one_by_one(bot: &Bot, lasting: Duration, seat: impl Fn(u64) -> Seat) -> Result<Sample, String> {
    let (first, cpu, end) = (bot.rig.begin(), bot.cpu(), Instant::now() + lasting);
    let mut number = 0;
    while Instant::now() < end {
        let this = bot.rig.begin();
        bot.rig.ask(seat(number), Instant::now()).await;
        answered(&bot.rig, this).await?;
        number += 1;
    }
    settled().await;
    Ok(Sample::of(bot, answered(&bot.rig, first).await?, cpu))
}

/// Runs this many turns per second on an open-loop schedule.
pub async fn paced(bot: &Bot, rate: u32, lasting: Duration, seat: impl Fn(u64) -> Seat) -> Result<Sample, String> {
    let (first, cpu, start) = (bot.rig.begin(), bot.cpu(), Instant::now());
    let mut due = start;
    for number in 0.. {
        due += Duration::from_secs(1) / rate;
        if due > start + lasting {
            break;
        }
        exactly(due).await;
        bot.rig.ask(seat(number), due).await;
    }
    let span = answered(&bot.rig, first).await?;
    settled().await;
    Ok(Sample::of(bot, span, cpu))
}

/// Runs this many turns at once.
pub async fn burst(bot: &Bot, from: u64, many: u64, seat: impl Fn(u64) -> Seat) -> Result<Sample, String> {
    let (first, cpu) = (bot.rig.begin(), bot.cpu());
    for number in from..from + many {
        bot.rig.ask(seat(number), Instant::now()).await;
    }
    let span = answered(&bot.rig, first).await?;
    settled().await;
    Ok(Sample::of(bot, span, cpu))
}

/// The figures of a range of turns.
pub struct Sample {
    pub p50: f64,
    pub p99: f64,
    /// Turns per second.
    pub rate: f64,
    /// CPU time of the process under test per turn, in microseconds.
    pub cpu: f64,
}

impl Sample {
    fn of(bot: &Bot, span: Span, cpu_before: f64) -> Self {
        let took = bot.rig.latencies(span);
        let turns = as_f64(took.len() as u64);
        Self {
            p50: median(&took),
            p99: percentile(&took, 0.99),
            rate: turns / bot.rig.stretch(span),
            cpu: (bot.cpu() - cpu_before) * 1e6 / turns,
        }
    }
}

/// Awaits the answers to all turns since `first`.
pub async fn answered(rig: &Rig, first: usize) -> Result<Span, String> {
    rig.answered(first, TIMEOUT).await.ok_or_else(|| {
        let (lost, doubled) = rig.wrong();
        format!("{lost} turns have no reply after {} s, {doubled} have more than one", TIMEOUT.as_secs())
    })
}

/// Work after a reply (receipt, record) is part of its cost.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(60)).await;
}

/// Timers have a resolution of a millisecond; the last part is a busy wait.
async fn exactly(due: Instant) {
    let early = due.checked_sub(Duration::from_millis(2)).unwrap_or(due);
    tokio::time::sleep_until(early).await;
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}

/// Two processes, compared with each other.
pub struct Pair {
    pub floor: Bot,
    pub us: Bot,
}

impl Pair {
    pub async fn start(on_core: bool) -> Result<Self, String> {
        let pair = Self { floor: Bot::start(Kind::Floor, on_core).await?, us: Bot::start(Kind::Us, on_core).await? };
        warm(&pair.floor).await?;
        warm(&pair.us).await?;
        Ok(pair)
    }
}

/// The rounds of a comparison: floor, program, program, floor, and so on.
struct Rounds {
    floor: Vec<Sample>,
    us: Vec<Sample>,
}

impl Rounds {
    async fn run(
        pair: &Pair,
        rounds: usize,
        mut side: impl AsyncFnMut(&Bot, usize) -> Result<Sample, String>,
    ) -> Result<Self, String> {
        let mut all = Self { floor: Vec::new(), us: Vec::new() };
        for round in 0..rounds {
            if round % 2 == 0 {
                all.floor.push(side(&pair.floor, round).await?);
                all.us.push(side(&pair.us, round).await?);
            } else {
                all.us.push(side(&pair.us, round).await?);
                all.floor.push(side(&pair.floor, round).await?);
            }
        }
        Ok(all)
    }

    fn ratios(&self, of: fn(&Sample) -> f64) -> Vec<f64> {
        self.us.iter().zip(&self.floor).map(|(us, floor)| of(us) / of(floor)).collect()
    }

    fn ours(&self, of: fn(&Sample) -> f64) -> f64 {
        median(&self.us.iter().map(of).collect::<Vec<_>>())
    }

    fn floors(&self, of: fn(&Sample) -> f64) -> f64 {
        median(&self.floor.iter().map(of).collect::<Vec<_>>())
    }
}

/// M1: from the event to the reply, with an instant model.
pub async fn overhead(pair: &Pair, size: Size, table: &mut Table) -> Result<(), String> {
    for paced_at in [None, Some(200)] {
        let steal = Steal::watch();
        let rounds = Rounds::run(pair, size.rounds, async |bot, _| match paced_at {
            None => one_by_one(bot, size.slot, regular).await,
            Some(rate) => paced(bot, rate, size.slot * 2, regular).await,
        })
        .await?;
        let how = if paced_at.is_some() { "200 turns/s" } else { "one by one" };
        table.at_most(&format!("M1 turn overhead, {how}, p50"), (rounds.ours(|s| s.p50), "us"), 150.0, &steal);
        table.at_most(&format!("M1 turn overhead, {how}, p99"), (rounds.ours(|s| s.p99), "us"), 500.0, &steal);
        let floor = format!("{} / {} us", plain(rounds.floors(|s| s.p50)), plain(rounds.floors(|s| s.p99)));
        table.told(&format!("M1 floor, {how}, p50 / p99"), &floor, &steal);
        table.ratio(&format!("M1 us : floor, {how}, p50"), &rounds.ratios(|s| s.p50), 3.0, &steal);
        let cpu = format!("{} / {} us", plain(rounds.ours(|s| s.cpu)), plain(rounds.floors(|s| s.cpu)));
        table.told(&format!("M1 cpu a turn, {how}, us / floor"), &cpu, &steal);
        if paced_at.is_none() {
            table.at_most(&format!("M1 cpu a turn, {how}"), (rounds.ours(|s| s.cpu), "us"), 350.0, &steal);
        }
    }
    Ok(())
}

/// M2: bursts of a thousand mentions.
pub async fn saturation(pair: &Pair, on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let many = size.bursts * 1000;
    let mut rig_cpu = Vec::new();
    let rounds = Rounds::run(pair, size.rounds, async |bot, round| {
        let own = own_cpu();
        let (mut samples, cpu) = (Vec::new(), bot.cpu());
        for number in 0..size.bursts {
            samples.push(burst(bot, round as u64 * many + number * 1000, 1000, crowd).await?);
        }
        rig_cpu.push((own_cpu() - own) * 1e6 / as_f64(many));
        let of = |of: fn(&Sample) -> f64| median(&samples.iter().map(of).collect::<Vec<_>>());
        let cpu = (bot.cpu() - cpu) * 1e6 / as_f64(many);
        Ok(Sample { p50: of(|s| s.p50), p99: of(|s| s.p99), rate: of(|s| s.rate), cpu })
    })
    .await?;
    table.at_most("M2 cpu a turn, bursts of 1,000", (rounds.ours(|s| s.cpu), "us"), 170.0, &steal);
    table.at_least("M2 turns a second on one core", (rounds.ours(|s| s.rate), "/s"), 5500.0, &steal);
    table.at_most("M2 last reply of a burst (p99)", (rounds.ours(|s| s.p99) / 1000.0, "ms"), 1000.0, &steal);
    let floor = format!("{} us, {} /s", plain(rounds.floors(|s| s.cpu)), plain(rounds.floors(|s| s.rate)));
    table.told("M2 floor, cpu a turn and turns a second", &floor, &steal);
    table.told("M2 us : floor, cpu a turn", &format!("{:.2} x", median(&rounds.ratios(|s| s.cpu))), &steal);
    let talkative = Bot::launch(Kind::Us, on_core, Log::Default).await?;
    talkative.up().await?;
    let mut cpu = Vec::new();
    for number in 0..size.bursts * 3 {
        cpu.push(burst(&talkative, number * 1000, 1000, crowd).await?.cpu);
    }
    table.at_most("M2 cpu a turn with the default log, every turn told", (median(&cpu), "us"), 200.0, &steal);
    let rig = median(&rig_cpu);
    table.told("   the rig itself: cpu a turn, its ceiling", &format!("{rig:.0} us, {:.0} /s", 1e6 / rig), &steal);
    Ok(())
}
