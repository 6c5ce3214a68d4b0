//! M3: a model that streams a word every 20 ms: the latency of visible text, and the intervals of edits.

use std::time::Duration;

use domain::ids;
use tokio::time::Instant;

use super::{Pair, Size, answered};
use crate::arithmetic::{as_f64, median, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::{Bot, HELD_BACK};
use crate::rig::Streamed;
use crate::wire::{PIECE_EVERY, PIECES, Seat};

/// Turns of one side of a round, and the interval between them.
const TURNS: u64 = 10;
const EVERY: Duration = Duration::from_millis(97);
/// Concurrent turns, and their channels.
const CROWD: u64 = 60;
const CHANNELS: u64 = 20;
/// Timeout of the whole text of a range.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The promised interval between two edits of growing answers in one channel, less the clock's tolerance.
const PAUSE: Duration = Duration::from_millis(990);

pub async fn run(pair: &Pair, size: Size, table: &mut Table) -> Result<(), String> {
    for bot in [&pair.floor, &pair.us] {
        bot.rig.state.lock().slow_model = true;
    }
    let steal = Steal::watch();
    let (mut all, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds as u64 {
        let (floor, us) = if round % 2 == 0 {
            let floor = spaced(&pair.floor, round).await?;
            (floor, spaced(&pair.us, round).await?)
        } else {
            let us = spaced(&pair.us, round).await?;
            (spaced(&pair.floor, round).await?, us)
        };
        // The model's time until its first word is the same for both.
        let held = PIECE_EVERY.as_secs_f64() * 1e6;
        let visible =
            |side: &[Streamed], held: f64| median(&side.iter().map(|turn| turn.visible - held).collect::<Vec<_>>());
        let held_back = as_f64(ids::millis(HELD_BACK)) * 1_000.0;
        ratios.push(visible(&us, held + held_back) / visible(&floor, held));
        all.extend(us);
        floors.extend(floor);
    }
    let of = |of: fn(&Streamed) -> f64| all.iter().map(of).collect::<Vec<_>>();
    let floor = |of: fn(&Streamed) -> f64| floors.iter().map(of).collect::<Vec<_>>();
    // First words are held back for this long by design, so that a short answer is one post.
    let held = as_f64(ids::millis(HELD_BACK)) * 1_000.0;
    let behind = of(|turn| turn.behind_model).iter().map(|waited| waited - held).collect::<Vec<_>>();
    let what = format!(
        "M3 first word of the model to first visible text, less the {} ms it is held, p50",
        HELD_BACK.as_millis()
    );
    table.at_most(&what, (ms(median(&behind)), "ms"), 1.0, &steal);
    table.at_most("M3 the same, p99", (ms(percentile(&behind, 0.99)), "ms"), 5.0, &steal);
    let before = floor(|turn| turn.behind_model);
    let text = format!("{} / {} ms", plain(ms(median(&before))), plain(ms(percentile(&before, 0.99))));
    table.told("M3 floor, the same, p50 / p99", &text, &steal);
    table.ratio("M3 mention to first visible text less the model, us : floor", &ratios, 3.0, &steal);
    let finished = of(|turn| turn.finished);
    table.at_most("M3 end of the stream to the whole text, p50", (ms(median(&finished)), "ms"), 2.0, &steal);
    crowd(pair, table).await?;
    for bot in [&pair.floor, &pair.us] {
        bot.rig.state.lock().slow_model = false;
    }
    Ok(())
}

/// Runs some concurrent streams, each in a channel of its own.
async fn spaced(bot: &Bot, round: u64) -> Result<Vec<Streamed>, String> {
    let (first, start) = (bot.rig.begin(), Instant::now());
    for number in 0..TURNS {
        let due = start + EVERY * u32::try_from(number).unwrap_or(0);
        super::exactly(due).await;
        let seat = Seat { user: 20_000_000 + round * TURNS + number, channel: 20_000_000 + round * TURNS + number };
        bot.rig.ask(seat, due).await;
    }
    whole(bot, first).await
}

/// Runs many at once, several per channel: edits keep their intervals, and every text is completed.
async fn crowd(pair: &Pair, table: &mut Table) -> Result<(), String> {
    let (bot, steal) = (&pair.us, Steal::watch());
    let first = bot.rig.begin();
    for number in 0..CROWD {
        let seat = Seat { user: 30_000_000 + number, channel: 30_000_000 + number % CHANNELS };
        bot.rig.ask(seat, Instant::now()).await;
    }
    let turns = whole(bot, first).await?;
    let most = turns.iter().map(|turn| turn.edits).max().unwrap_or(0);
    let bound = (PIECE_EVERY * u32::try_from(PIECES).unwrap_or(0)).as_secs() + 1 + 2;
    let what = format!("M3 edits of one answer, {CROWD} streams in {CHANNELS} channels, most");
    table.at_most(&what, (f64::from(most), "edits"), as_f64(bound), &steal);
    let pause = bot.rig.state.lock().shortest_pause;
    if let Some(pause) = pause {
        table.told("M3 shortest pause between two edits of one channel", &format!("{} ms", pause.as_millis()), &steal);
    }
    if pause.is_some_and(|pause| pause < PAUSE) {
        table.broke("two edits of one channel followed each other too fast");
    }
    Ok(())
}

async fn whole(bot: &Bot, first: usize) -> Result<Vec<Streamed>, String> {
    let span = answered(&bot.rig, first).await?;
    if bot.rig.finished(span, TIMEOUT).await {
        return Ok(bot.rig.streamed(span));
    }
    Err(format!("a streamed answer was not whole within {} s", TIMEOUT.as_secs()))
}

fn ms(micros: f64) -> f64 {
    micros / 1000.0
}
