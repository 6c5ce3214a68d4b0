//! M4: the cost of events that do not address the bot.

use std::time::Duration;

use tokio::time::Instant;

use super::{Pair, Size, answered, paced, regular};
use crate::arithmetic::{as_f64, median, plain};
use crate::figures::{Steal, Table};
use crate::process::Bot;

/// Rate of noise during turns, in events per second.
const BESIDE: u64 = 20_000;
/// Events per batch of that noise.
const GO: u64 = 100;

pub async fn run(pair: &Pair, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds.min(5) {
        floors.push(discard(&pair.floor, size.noise).await?);
        ours.push(discard(&pair.us, size.noise).await?);
    }
    table.at_most("M4 cpu an event that is not for us (zlib, 1.4 KB)", (median(&ours), "us"), 4.0, &steal);
    table.told("M4 floor, the same events uncompressed", &format!("{} us", plain(median(&floors))), &steal);
    let steal = Steal::watch();
    let (mut quiet, mut noisy) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        quiet.push(paced(&pair.us, 200, size.slot, regular).await?.p99);
        let (sample, ()) = tokio::join!(paced(&pair.us, 200, size.slot, regular), beside(&pair.us, size.slot));
        noisy.push(sample?.p99);
    }
    let ratios: Vec<f64> = noisy.iter().zip(&quiet).map(|(noisy, quiet)| noisy / quiet).collect();
    table.ratio(&format!("M4 p99 beside {BESIDE} such events/s : quiet"), &ratios, 1.3, &steal);
    Ok(())
}

/// Returns the CPU time per event, in microseconds. A final turn marks the end of the events.
async fn discard(bot: &Bot, many: u64) -> Result<f64, String> {
    let cpu = bot.cpu();
    for number in 0..many {
        bot.rig.noise(number).await;
    }
    let first = bot.rig.begin();
    bot.rig.ask(regular(0), Instant::now()).await;
    answered(&bot.rig, first).await?;
    Ok((bot.cpu() - cpu) * 1e6 / as_f64(many))
}

async fn beside(bot: &Bot, lasting: Duration) {
    let start = Instant::now();
    let mut due = start;
    let mut number = 0;
    while due < start + lasting {
        due += Duration::from_millis(1000 * GO / BESIDE);
        tokio::time::sleep_until(due).await;
        for _ in 0..GO {
            bot.rig.noise(number).await;
            number += 1;
        }
    }
}
