//! A long time with churn: members come and go in thousands of channels, and each part of the time is compared with an
//! earlier one.

use std::time::Duration;

use tokio::time::Instant;

use super::{burst, starts};
use crate::arithmetic::{as_f64, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::{Bot, Kind};
use crate::wire::Seat;

const MIB: f64 = 1024.0 * 1024.0;
/// Number of parts of the time; each has a row of figures.
const PARTS: u32 = 10;
/// Turns in one burst.
const BURST: u64 = 1_000;
/// Channels in which members ask.
const CHANNELS: u64 = 4_000;
/// Members who ask during one part; half of them are new in the next.
const MEMBERS: u64 = 20_000;
/// The rest after which memory must be given back.
const REST: Duration = Duration::from_secs(75);
/// Memory of the smallest container, in MiB.
const CONTAINER: f64 = 128.0;

/// The figures of one part.
struct Part {
    turns: u64,
    p99: f64,
    cpu: f64,
    memory: f64,
    stored: f64,
}

/// Runs turns for this time, and compares memory and latency over it.
pub async fn run(on_core: bool, lasting: Duration, table: &mut Table) -> Result<(), String> {
    let (steal, bot) = (Steal::watch(), Bot::start(Kind::Us, on_core).await?);
    let (mut parts, mut number) = (Vec::new(), 0);
    for part in 0..PARTS {
        parts.push(one(&bot, u64::from(part), &mut number, lasting / PARTS).await?);
    }
    tokio::time::sleep(REST).await;
    let rested = bot.own_memory() / MIB;
    let end = |of: fn(&Part) -> f64| parts.last().map_or(0.0, of);
    let ratio = |of: fn(&Part) -> f64| end(of) / parts.get(1).map_or(1.0, of);
    let row = |of: fn(&Part) -> f64| parts.iter().map(of).map(plain).collect::<Vec<_>>().join(", ");
    table.told(&format!("soak: turns in {} min", plain(lasting.as_secs_f64() / 60.0)), &number.to_string(), &steal);
    table.told("soak: memory after each tenth, MiB", &row(|part| part.memory), &steal);
    table.told("soak: p99 of each tenth, ms", &row(|part| part.p99 / 1_000.0), &steal);
    table.told("soak: cpu a turn in each tenth, us", &row(|part| part.cpu), &steal);
    table.told("soak: data directory after each tenth, MiB", &row(|part| part.stored), &steal);
    table.ratio("soak: memory, last tenth : second", &[ratio(|part| part.memory)], 1.1, &steal);
    table.ratio("soak: p99, last tenth : second", &[ratio(|part| part.p99)], 1.1, &steal);
    table.at_most("soak: memory at the end", (end(|part| part.memory), "MiB"), CONTAINER, &steal);
    table.told(&format!("soak: memory after {} s of rest", REST.as_secs()), &format!("{} MiB", plain(rested)), &steal);
    let each = end(|part| part.stored) * MIB / as_f64(parts.iter().map(|part| part.turns).sum());
    table.told("soak: data directory, a turn", &format!("{} B", plain(each)), &steal);
    starts::check(&bot, table);
    Ok(())
}

async fn one(bot: &Bot, part: u64, number: &mut u64, lasting: Duration) -> Result<Part, String> {
    let (cpu, end, first) = (bot.cpu(), Instant::now() + lasting, *number);
    let mut slowest = Vec::new();
    let seat = |number: u64| Seat {
        user: 10_000_000 + part * MEMBERS / 2 + number % MEMBERS,
        channel: 10_000 + part * CHANNELS / 2 + number % CHANNELS,
    };
    while Instant::now() < end {
        slowest.push(burst(bot, *number, BURST, seat).await?.p99);
        *number += BURST;
    }
    let turns = *number - first;
    Ok(Part {
        turns,
        p99: percentile(&slowest, 0.5),
        cpu: (bot.cpu() - cpu) * 1e6 / as_f64(turns),
        memory: bot.own_memory() / MIB,
        stored: bot.stored() / MIB,
    })
}
