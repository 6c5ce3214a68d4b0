//! The same turns through a common kind of bot: `peer.py`, on discord.py. Floor, program and peer alternate in one run,
//! in both orders.

use super::{Sample, Size, burst, one_by_one, regular, warm};
use crate::arithmetic::{median, plain, spread};
use crate::figures::{Steal, Table};
use crate::process::{Bot, Kind, peer_program};

/// Minimum number of rounds of a comparison.
const ROUNDS_LEAST: usize = 5;
/// Mentions at once.
const MANY: u64 = 300;

const KINDS: [(Kind, &str); 3] = [(Kind::Floor, "floor"), (Kind::Us, "us"), (Kind::Peer, "peer")];

/// Runs the scene, if the peer's libraries are installed.
pub async fn run(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    if let Err(why) = peer_program() {
        table.told("peer", &why, &steal);
        return Ok(());
    }
    let mut bots = Vec::new();
    for (kind, _) in KINDS {
        let bot = Bot::start(kind, on_core).await?;
        warm(&bot).await?;
        bots.push(bot);
    }
    let rounds = size.rounds.max(ROUNDS_LEAST);
    for at_once in [false, true] {
        let steal = Steal::watch();
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for round in 0..rounds {
            for step in 0..KINDS.len() {
                let at = if round % 2 == 0 { step } else { KINDS.len() - 1 - step };
                samples[at].push(if at_once {
                    burst(&bots[at], round as u64 * MANY, MANY, regular).await?
                } else {
                    one_by_one(&bots[at], size.slot, regular).await?
                });
            }
        }
        let how = if at_once { format!("bursts of {MANY}") } else { "one by one".to_owned() };
        let all = |at: usize, of: fn(&Sample) -> f64| samples[at].iter().map(of).collect::<Vec<_>>();
        for (at, (_, name)) in KINDS.iter().enumerate() {
            let (cpu, wall) = (all(at, |sample| sample.cpu), all(at, |sample| sample.p50));
            let figure = format!("{} us of cpu {}, p50 {} us", plain(median(&cpu)), spread(&cpu), plain(median(&wall)));
            table.told(&format!("peer scene, {how}, {name}: a turn"), &figure, &steal);
        }
        let ratios = |of: fn(&Sample) -> f64| -> Vec<f64> {
            all(1, of).iter().zip(all(2, of)).map(|(us, peer)| us / peer).collect()
        };
        table.ratio(&format!("us : peer, {how}, cpu a turn"), &ratios(|sample| sample.cpu), 0.2, &steal);
        table.ratio(&format!("us : peer, {how}, p50"), &ratios(|sample| sample.p50), 1.0, &steal);
    }
    Ok(())
}
