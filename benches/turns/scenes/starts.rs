//! M6 and M7: starts, cuts and kills.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use super::{Size, answered, regular, warm};
use crate::arithmetic::{as_f64, median, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::{Bot, Kind, Log, program};

const MIB: f64 = 1024.0 * 1024.0;
/// Timeout of a start.
const TIMEOUT: Duration = Duration::from_secs(20);

/// M6: cold start, memory at rest, size.
pub async fn cold(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let (mut ready, mut first_reply, mut idle) = (Vec::new(), Vec::new(), (0.0, 0.0));
    for number in 0..size.starts {
        let mut bot = Bot::launch(Kind::Us, on_core, Log::Heard).await?;
        let session = bot.when_logged("gateway.ready");
        bot.up().await?;
        let first = bot.rig.begin();
        bot.rig.ask(regular(0), Instant::now()).await;
        answered(&bot.rig, first).await?;
        first_reply.push(bot.executed.elapsed().as_secs_f64() * 1e3);
        let at = tokio::time::timeout(TIMEOUT, session).await;
        let at = at.ok().and_then(Result::ok).ok_or("no log line told of the session")?;
        ready.push((at - bot.executed).as_secs_f64() * 1e3);
        if number + 1 == size.starts {
            tokio::time::sleep(size.idle_for / 6).await;
            idle = (bot.rss() / MIB, bot.own_memory() / MIB);
        }
        check(&bot, table);
    }
    table.at_most("M6 exec to a session, cold", (median(&ready), "ms"), 30.0, &steal);
    table.at_most("M6 exec to the first reply, cold", (median(&first_reply), "ms"), 50.0, &steal);
    table.at_most("M6 memory at rest", (idle.0, "MiB"), 17.0, &steal);
    table.told("M6 of that, not the binary's own pages", &format!("{} MiB", plain(idle.1)), &steal);
    let (whole, bare) = sizes(&program());
    // The goal is for the shipped binary, which link-time optimization makes a tenth smaller.
    let what =
        if bare.is_some() { "M6 binary of this build, stripped" } else { "M6 binary of this build, with symbols" };
    table.told(what, &format!("{} MiB", plain(bare.unwrap_or(whole) / MIB)), &steal);
    Ok(())
}

/// M7: a cut connection, and a killed process.
pub async fn recovery(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let mut resumed = Vec::new();
    for number in 0..size.starts as u64 * 2 {
        // A recently cut session is resumed after a deliberate pause, so each cut has a process of its own.
        let bot = Bot::start(Kind::Us, on_core).await?;
        let first = bot.rig.begin();
        bot.rig.ask(regular(number), Instant::now()).await;
        answered(&bot.rig, first).await?;
        let cut = Instant::now();
        bot.rig.cut().await;
        // One turn falls into the gap.
        bot.rig.ask(regular(number), cut).await;
        if !bot.rig.until(TIMEOUT, |state| !state.resumed.is_empty()).await {
            return Err("the session was not resumed after a cut".to_owned());
        }
        let at = bot.rig.state.lock().resumed.last().copied();
        resumed.extend(at.map(|at| (at - cut).as_secs_f64() * 1e3));
        answered(&bot.rig, first).await?;
        check(&bot, table);
    }
    table.at_most("M7 cut to RESUME, worst", (percentile(&resumed, 1.0), "ms"), 100.0, &steal);
    let mut bot = Bot::start(Kind::Us, on_core).await?;
    warm(&bot).await?;
    let mut back = Vec::new();
    for number in 0..size.starts as u64 {
        let first = bot.rig.begin();
        for waiting in 0..20 {
            bot.rig.ask(regular(number * 20 + waiting), Instant::now()).await;
        }
        // Some of them are answered by now, some are in progress, some are unread.
        tokio::time::sleep(Duration::from_millis(number % 10)).await;
        bot.kill_and_start()?;
        answered(&bot.rig, first).await?;
        back.push(bot.executed.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    table.at_most("M7 kill -9 and exec to the last of 20 open turns, p50", (median(&back), "ms"), 1000.0, &steal);
    table.at_most("M7 the same, worst", (percentile(&back, 1.0), "ms"), 5000.0, &steal);
    check(&bot, table);
    Ok(())
}

/// Checks that every turn has exactly one reply, and that there is no other post.
pub fn check(bot: &Bot, table: &mut Table) {
    let (lost, doubled) = bot.rig.wrong();
    let (strays, unknown) = {
        let state = bot.rig.state.lock();
        (state.strays, state.requests.get("unknown").copied().unwrap_or(0))
    };
    if lost + doubled + strays > 0 {
        table.broke(format!("{lost} turns without a reply, {doubled} with more than one, {strays} posts for no turn"));
    }
    if unknown > 0 {
        println!("note: {unknown} requests that the rig does not know");
    }
}

/// Describes the requests of one turn.
pub fn exchanges(bot: &Bot) -> String {
    let turns = as_f64(bot.rig.begin() as u64);
    let state = bot.rig.state.lock();
    let mut each: Vec<String> =
        state.requests.iter().map(|(what, many)| format!("{} {what}", plain(as_f64(*many) / turns))).collect();
    each.sort();
    let model = state.requests.get("model").copied().unwrap_or(0).max(1);
    format!("{}; {} B a prompt", each.join(", "), plain(as_f64(state.prompt_bytes) / as_f64(model)))
}

/// Returns the size of the binary, and without symbols if that can be determined.
fn sizes(path: &Path) -> (f64, Option<f64>) {
    let size = |path: &Path| std::fs::metadata(path).map(|about| as_f64(about.len())).ok();
    let bare = tempfile::NamedTempFile::new().ok().and_then(|copy| {
        let done = Command::new("strip").arg("-o").arg(copy.path()).arg(path).status().ok()?;
        done.success().then(|| size(copy.path())).flatten()
    });
    (size(path).unwrap_or(f64::NAN), bare)
}
