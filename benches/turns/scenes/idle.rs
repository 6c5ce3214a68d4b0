//! M5 and M8: many idle conversations, and their effect on active ones.

use super::{Size, answered, burst, one_by_one, regular, warm};
use crate::arithmetic::{as_f64, median, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::{Bot, Kind};
use crate::wire::Seat;

const MIB: f64 = 1024.0 * 1024.0;

/// Each member in a channel of their own: each active conversation has an actor.
fn alone(number: u64) -> Seat {
    Seat { user: 1_000_000 + number, channel: 1_000_000 + number }
}

pub async fn run(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let few = Bot::start(Kind::Us, on_core).await?;
    let many = Bot::start(Kind::Us, on_core).await?;
    for bot in [&few, &many] {
        warm(bot).await?;
    }
    let before = many.rss();
    for from in (0..size.idle).step_by(1000) {
        burst(&many, from, 1000, alone).await?;
    }
    let awake = many.rss();
    tokio::time::sleep(size.idle_for).await;
    let after = many.rss();
    let grown = (after - before).max(0.0);
    let conversations = as_f64(size.idle);
    let goal = 64.0 * conversations / 100_000.0;
    table.at_most(&format!("M5 memory of {} idle conversations", size.idle), (grown / MIB, "MiB"), goal, &steal);
    let each = format!("{} B each; {} MiB while awake", plain(grown / conversations), plain((awake - before) / MIB));
    table.told("M5 the same", &each, &steal);
    let mut woken = Vec::new();
    for number in 0..200 {
        let first = many.rig.begin();
        many.rig.ask(alone(number * size.idle / 200), tokio::time::Instant::now()).await;
        let span = answered(&many.rig, first).await?;
        woken.extend(many.rig.latencies(span));
    }
    let warm = one_by_one(&many, size.slot, regular).await?;
    table.at_most("M5 waking one adds, p50", (median(&woken) - warm.p50, "us"), 200.0, &steal);
    table.at_most("M5 waking one adds, p99", (percentile(&woken, 0.99) - warm.p99, "us"), 200.0, &steal);
    flat(&few, &many, size, table).await?;
    let stored = many.stored() / conversations;
    table.told("M8 data directory, a conversation", &format!("{} B", plain(stored)), &steal);
    for bot in [&few, &many] {
        super::starts::check(bot, table);
    }
    Ok(())
}

/// Compares the same turns with few and with many stored conversations, then with an empty and with a full history.
async fn flat(few: &Bot, many: &Bot, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let (mut took, mut cpu, mut full) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let (first, second) = if round % 2 == 0 { (few, many) } else { (many, few) };
        let (first, second) =
            (one_by_one(first, size.slot, regular).await?, one_by_one(second, size.slot, regular).await?);
        let (beside_few, beside_many) = if round % 2 == 0 { (first, second) } else { (second, first) };
        took.push(beside_many.p50 / beside_few.p50);
        cpu.push(beside_many.cpu / beside_few.cpu);
        let base = 10_000_000 + round as u64 * 1_000_000;
        let stranger = |number| Seat { user: base + number, channel: number % 20 };
        let empty = one_by_one(few, size.slot, stranger).await?;
        full.push(beside_few.p50 / empty.p50);
    }
    table.ratio(&format!("M8 overhead beside {} stored : beside 50", size.idle), &took, 1.1, &steal);
    table.ratio(&format!("M8 cpu beside {} stored : beside 50", size.idle), &cpu, 1.1, &steal);
    table.ratio("M8 overhead with a full history : an empty one", &full, 1.1, &steal);
    Ok(())
}
