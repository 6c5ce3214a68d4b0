//! The cost of a turn at Redis, and the number of turns per second, with several processes that share the work.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::ranges::World;

/// The ranges, of which each process has an equal share.
const RANGES: u32 = 8;
/// The number before those of the processes of this test.
const FIRST: u8 = 170;
/// The questions in each guild for a measurement.
const ROUNDS: usize = 20;
/// The time for which the requests without turns are counted.
const IDLE: Duration = Duration::from_secs(5);
/// The bound on the start of all processes, and on the answers, on a loaded machine.
const BOUND: Duration = Duration::from_secs(240);
/// By how many percent the cost of a turn may differ from that with one process. The batches of writes depend on time.
const DIFFERS_MAX: f64 = 25.0;

/// Returns the numbers of processes: a longer run names them.
#[expect(clippy::disallowed_methods, reason = "a longer run names them")]
fn chosen() -> Vec<u8> {
    let named = std::env::var("SCALE_PROCESSES").unwrap_or_else(|_| "1 2".to_owned());
    named.split_whitespace().map(|many| many.parse().unwrap()).collect()
}

async fn within(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the number of commands that the server ran.
fn commands(world: &World) -> f64 {
    let told: String = world.server.ask("INFO commandstats");
    let calls = told.lines().filter_map(|line| line.split_once(":calls=")?.1.split(',').next()?.parse::<f64>().ok());
    calls.sum()
}

/// The commands of one turn, the commands per second without turns, and the turns per second.
struct Measured {
    of_a_turn: f64,
    at_rest: f64,
    per_second: f64,
}

async fn measure(many: u8) -> Measured {
    let world = World::of(Duration::ZERO, RANGES).await;
    let processes: Vec<_> = (0..many).map(|at| world.start(&format!("p{at}"), FIRST + at, RANGES)).collect();
    let share = RANGES / u32::from(many);
    within("each process has an equal share", || {
        let told = world.cluster();
        let holders = told
            .lines()
            .filter(|line| line.contains("moves: "))
            .filter_map(|line| Some(line.trim().split_once("/8  ")?.1.split(',').next()?.to_owned()));
        let mut counts = std::collections::HashMap::<String, u32>::new();
        holders.for_each(|holder| *counts.entry(holder).or_default() += 1);
        counts.len() == usize::from(many) && counts.values().all(|count| *count == share)
    })
    .await;
    for shard in 0..RANGES {
        world.service.connected(shard).await;
    }
    let answered = |asked: usize| world.answers().values().filter(|(times, _)| *times > 0).count() == asked;
    let mut asked = world.asks_everywhere("what is 1 + 1").len();
    within("the first questions are answered", || answered(asked)).await;

    let before = commands(&world);
    sleep(IDLE).await;
    let at_rest = (commands(&world) - before) / IDLE.as_secs_f64();
    let (before, begun) = (commands(&world), Instant::now());
    let mut turns = 0;
    for round in 0..ROUNDS {
        turns += world.asks_everywhere(&format!("what is {round} + 1")).len();
    }
    asked += turns;
    within("all questions are answered", || answered(asked)).await;
    let took = begun.elapsed().as_secs_f64();
    let spent = commands(&world) - before - at_rest * took;
    world.each_once();
    drop(processes);
    world.end().await;
    let turns = f64::from(u32::try_from(turns).unwrap());
    Measured { of_a_turn: spent / turns, at_rest, per_second: turns / took }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_costs_redis_the_same_with_any_number_of_processes() {
    let mut one = None;
    println!("processes, commands of a turn, commands per second at rest, turns per second of a process, of all");
    for many in chosen() {
        let Measured { of_a_turn, at_rest, per_second } = measure(many).await;
        println!("{many}, {of_a_turn:.1}, {at_rest:.0}, {:.1}, {per_second:.1}", per_second / f64::from(many));
        assert!(of_a_turn > 1.0, "{of_a_turn}");
        let one = *one.get_or_insert(of_a_turn);
        assert!(
            (of_a_turn - one).abs() * 100.0 <= one * DIFFERS_MAX,
            "{of_a_turn} with {many} processes, {one} with one"
        );
    }
}
