//! Recorded histories of two or three owners that share one server, judged by a checker that knows only numbers and
//! times. The lease, the fencing tokens and the records of turns are those of the program. Each history has faults of its
//! own by seed: stops beyond the term of the lease, kills, orderly ends, partitions, skewed and jumping clocks. The
//! histories of one server share its fault: a kill, a freeze or a failover.
//!
//! `./test histories N` runs any number.

mod checker;

mod owner;

mod scene;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::sleep;

use self::checker::{Verdict, judge};
use self::scene::Scene;
use crate::server::Server;
use crate::support::until;

/// The histories of one server, each in a database of its own.
const TOGETHER: usize = 16;

/// The time of the server's fault, in milliseconds.
const FAULT_MS: std::ops::Range<u64> = 1_000..3_000;

/// The duration of an outage, in milliseconds.
const OUTAGE_MS: std::ops::Range<u64> = 200..2_500;

/// The settings of a server, and its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerFault {
    None,
    Freeze,
    Kill,
    KillEverysec,
    Failover,
    FailoverEverysec,
}

const SERVER_FAULTS: [ServerFault; 6] = [
    ServerFault::None,
    ServerFault::Freeze,
    ServerFault::Kill,
    ServerFault::KillEverysec,
    ServerFault::Failover,
    ServerFault::FailoverEverysec,
];

impl ServerFault {
    /// True if the server keeps every acknowledged write.
    fn keeps_all(self) -> bool {
        matches!(self, Self::None | Self::Freeze | Self::Kill)
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::None | Self::Freeze | Self::Kill | Self::Failover => &["--databases", "16"],
            Self::KillEverysec | Self::FailoverEverysec => &["--databases", "16", "--appendfsync", "everysec"],
        }
    }

    fn fails_over(self) -> bool {
        matches!(self, Self::Failover | Self::FailoverEverysec)
    }
}

/// The judgement of several histories, and their faults by kind.
#[derive(Default)]
struct Sum {
    histories: usize,
    verdict: Verdict,
    faults: BTreeMap<&'static str, usize>,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.histories += other.histories;
        self.verdict += other.verdict;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
    }
}

/// Runs the histories of these seeds on one server.
async fn together(kind: ServerFault, seeds: Vec<u64>) -> Sum {
    let mut server = block_in_place(|| Server::start_with(kind.options()));
    let mut replica = None;
    if kind.fails_over() {
        let other = block_in_place(|| Server::start_with(kind.options()));
        let () = other.ask(&format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
        until("the replica follows", || other.ask::<String>("INFO replication").contains("master_link_status:up"))
            .await;
        replica = Some(other);
    }
    let mut scenes = Vec::new();
    for (database, seed) in seeds.iter().enumerate() {
        scenes.push(Scene::new(*seed, server.address(), database).await);
    }
    let owners = scenes.iter().flat_map(|scene| (0..scene.plan.len()).map(move |owner| (Arc::clone(scene), owner)));
    let threads: Vec<_> = owners.map(|(scene, owner)| std::thread::spawn(move || owner::run(&scene, owner))).collect();
    let fails = fails(kind, seeds[0], &mut server, replica.as_ref(), &scenes);
    tokio::join!(fails, join_all(scenes.iter().map(|scene| scene.plays())));
    for thread in threads {
        spawn_blocking(|| thread.join()).await.unwrap().expect("no owner panics");
    }
    let mut sum = Sum::default();
    for (scene, seed) in scenes.iter().zip(&seeds) {
        let verdict = judge(&scene.events());
        if !verdict.is_clean() {
            println!("seed {seed}, {kind:?}: {verdict:?}\n{:?}", scene.plan);
        }
        sum.add(&Sum { histories: 1, verdict, faults: scene.suffered() });
    }
    sum
}

/// Lets the server fail once.
async fn fails(kind: ServerFault, seed: u64, server: &mut Server, replica: Option<&Server>, scenes: &[Arc<Scene>]) {
    let mut dice = StdRng::seed_from_u64(seed);
    sleep(Duration::from_millis(dice.random_range(FAULT_MS))).await;
    let lasts = Duration::from_millis(dice.random_range(OUTAGE_MS));
    match (kind, replica) {
        (ServerFault::None, _) => {}
        (ServerFault::Freeze, _) => {
            server.freeze();
            sleep(lasts).await;
            server.thaw();
        }
        (_, None) => {
            server.kill();
            sleep(lasts).await;
            block_in_place(|| server.restart());
        }
        (_, Some(replica)) => {
            server.kill();
            sleep(lasts).await;
            let () = replica.ask("REPLICAOF NO ONE");
            scenes.iter().flat_map(|scene| &scene.lines).for_each(|line| line.leads_to(replica.address()));
        }
    }
}

/// Returns the number of histories and the first seed.
#[expect(clippy::disallowed_methods, reason = "./test histories names them")]
fn chosen() -> (usize, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let many = number("HISTORIES").and_then(|many| usize::try_from(many).ok());
    (many.unwrap_or(SERVER_FAULTS.len() * TOGETHER), number("HISTORIES_SEED").unwrap_or(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_owners_only_the_newest_acts_and_no_acknowledged_turn_is_lost() {
    let (many, first) = chosen();
    let mut sums = SERVER_FAULTS.map(|kind| (kind, Sum::default()));
    let mut next = first;
    let end = first + many as u64;
    while next < end {
        let mut running = Vec::new();
        for (at, kind) in SERVER_FAULTS.into_iter().enumerate() {
            let seeds: Vec<u64> = (next..end).take(TOGETHER).collect();
            next += seeds.len() as u64;
            if !seeds.is_empty() {
                running.push(async move { (at, tokio::spawn(together(kind, seeds)).await.unwrap()) });
            }
        }
        for (at, sum) in join_all(running).await {
            sums[at].1.add(&sum);
        }
    }
    print(&sums);
    let refused: usize = sums.iter().map(|(_, sum)| sum.verdict.refused).sum();
    assert!(refused > 0 || many < TOGETHER, "no former owner wrote, so no token was tried");
    for (kind, Sum { verdict, .. }) in &sums {
        assert_eq!((verdict.shared_terms, verdict.unanswered), (0, 0), "{kind:?}");
        assert!(!kind.keeps_all() || verdict.is_clean(), "{kind:?}: {verdict:?}");
    }
}

fn print(sums: &[(ServerFault, Sum)]) {
    println!(
        "{:<18}{:>10}{:>8}{:>14}{:>9}{:>12}{:>13}{:>16}{:>7}{:>12}{:>12}",
        "server",
        "histories",
        "terms",
        "acknowledged",
        "refused",
        "held twice",
        "acted twice",
        "older accepted",
        "lost",
        "unanswered",
        "late posts"
    );
    let mut all = Sum::default();
    for (kind, sum) in sums {
        let (name, told) = (format!("{kind:?}"), &sum.verdict);
        println!(
            "{name:<18}{:>10}{:>8}{:>14}{:>9}{:>12}{:>13}{:>16}{:>7}{:>12}{:>12}",
            sum.histories,
            told.terms,
            told.acknowledged,
            told.refused,
            told.held_twice,
            told.acted_twice,
            told.older_accepted,
            told.lost,
            told.unanswered,
            told.late_posts
        );
        all.add(sum);
    }
    let faults: Vec<String> = all.faults.iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!("faults of owners: {}", faults.join(", "));
}
