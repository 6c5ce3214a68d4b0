//! Real processes with several ranges each, while some of them are killed, paused and cut off, and while a server of a
//! cluster dies. `SIX=6` runs as many processes; without it, there are three.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::proxy::{Mode, Proxy};
use crate::ranges::{Load, World};
use crate::rows::Process;

/// The ranges, of which each process has some.
const RANGES: u32 = 4;
/// Longer than a term.
const PAUSED: Duration = Duration::from_secs(3);
/// The time between two faults.
const SERVES: Duration = Duration::from_secs(2);
/// The bound on each step on a loaded machine.
const BOUND: Duration = Duration::from_secs(240);

/// Returns the number of processes.
#[expect(clippy::disallowed_methods, reason = "a longer run names it")]
fn many() -> u8 {
    std::env::var("SIX").ok().map_or(3, |many| many.parse().unwrap())
}

async fn within(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Processes, of which each is started again after its end, as by a supervisor.
struct Kept<'a> {
    world: &'a World,
    first: u8,
    all: Vec<(String, Process)>,
    starts: u32,
}

impl<'a> Kept<'a> {
    fn of(world: &'a World, first: u8) -> Self {
        let mut kept = Self { world, first, all: Vec::new(), starts: 0 };
        for at in 0..many() {
            let started = kept.started(at);
            kept.all.push(started);
        }
        kept
    }

    fn started(&mut self, at: u8) -> (String, Process) {
        self.starts += 1;
        let name = format!("p{at}-{}", self.starts);
        let process = self.world.start(&name, self.first + at, RANGES);
        (name, process)
    }

    /// Starts those again that ended.
    fn keep(&mut self) {
        for at in 0..many() {
            if self.all[usize::from(at)].1.has_ended() {
                self.all[usize::from(at)] = self.started(at);
            }
        }
    }

    /// Serves for some time.
    async fn serves(&mut self, lasts: Duration) {
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            self.keep();
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until each range has a process.
    async fn is_whole(&mut self) {
        let end = Instant::now() + BOUND;
        // The commands of the cluster fail while no server answers.
        while !self.world.tells_cluster().is_some_and(|told| told.contains("without a process: 0")) {
            assert!(Instant::now() < end, "each range has a process");
            self.keep();
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn told(what: &str, times: &[u64], world: &World, starts: u32) {
    println!(
        "{what}: {} processes, {} mentions, lost 0, doubled {}, answered after {} ms (half), {} ms (99 %), {} ms (all), {starts} starts",
        many(),
        times.len(),
        world.service.doubled(),
        times[times.len() / 2],
        times[(times.len() - 1) * 99 / 100],
        times[times.len() - 1]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_paused_and_cut_off_lose_and_double_nothing() {
    let world = World::of(Duration::ZERO, RANGES).await;
    let line = Proxy::to(world.server.address()).await;
    let mut kept = Kept::of(&world, 180);
    // One more reaches the server over a line that can be cut.
    let mut far = world.start_at("far", 180 + many(), RANGES, format!("redis://{}/0", line.address()));
    kept.is_whole().await;
    within("it has a range", || world.count("far", "lease.taken") > 0 || world.count("far", "lease.awaited") > 0).await;
    let load = Load::begin(&world);
    kept.serves(SERVES).await;
    kept.all[0].1.signal(Signal::KILL);
    kept.serves(SERVES).await;
    kept.all[1].1.signal(Signal::STOP);
    kept.serves(PAUSED).await;
    kept.all[1].1.signal(Signal::CONT);
    kept.serves(SERVES).await;
    line.set(Mode::Silent);
    kept.serves(PAUSED).await;
    line.set(Mode::Open);
    if far.has_ended() {
        far = world.start_at("far again", 180 + many(), RANGES, format!("redis://{}/0", line.address()));
    }
    kept.is_whole().await;
    kept.serves(SERVES).await;
    let times = load.end(&world).await;
    told("killed, paused, cut off", &times, &world, kept.starts);
    let starts = kept.starts;
    drop((kept, far));
    assert!(starts > u32::from(many()), "one was killed");
    world.end().await;
}

#[cfg(feature = "redis-cluster")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_a_cluster_dies_and_its_replica_takes_over() {
    use crate::cluster::OPTIONS;
    use crate::server::Server;

    let options: Vec<&str> = OPTIONS.into_iter().chain(["--cluster-node-timeout", "1000"]).collect();
    let mut nodes: Vec<Server> = (0..6).map(|_| Server::start_with(&options)).collect();
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        let () = node.ask(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    for node in &nodes[1..] {
        let () = nodes[0].ask(&format!("CLUSTER MEET 127.0.0.1 {}", node.address().port()));
    }
    let info = |node: &Server| node.ask::<String>("CLUSTER INFO");
    within("the servers meet", || nodes.iter().all(|node| info(node).contains("cluster_known_nodes:6"))).await;
    let ids: Vec<String> = nodes[..3].iter().map(|node| node.ask("CLUSTER MYID")).collect();
    for (replica, id) in nodes[3..].iter().zip(&ids) {
        let mut known = false;
        within("the replica knows its primary", || {
            known = known || replica.words::<redis::Value>(&["CLUSTER", "NODES"]) != redis::Value::Nil;
            known
        })
        .await;
        let () = replica.ask(&format!("CLUSTER REPLICATE {id}"));
    }
    within("the cluster is whole", || nodes.iter().all(|node| info(node).contains("cluster_state:ok"))).await;
    let linked = |node: &Server| node.ask::<String>("INFO replication").contains("master_link_status:up");
    within("the replicas follow", || nodes[3..].iter().all(linked)).await;

    let mut world = World::of(Duration::ZERO, RANGES).await;
    let addresses: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
    world.url = Some(format!("redis-cluster://{}", addresses.join(",")));
    let mut kept = Kept::of(&world, 200);
    kept.is_whole().await;
    let load = Load::begin(&world);
    kept.serves(SERVES).await;
    // The server with the lease dies.
    let slot: u32 = nodes[0].ask("CLUSTER KEYSLOT staffai:lease");
    let primary = usize::try_from(slot / 5_461).unwrap();
    nodes[primary].kill();
    within("its replica is promoted", || nodes[3 + primary].ask::<String>("INFO replication").contains("role:master"))
        .await;
    kept.is_whole().await;
    kept.serves(SERVES).await;
    let times = load.end(&world).await;
    told("a primary killed", &times, &world, kept.starts);
    drop(kept);
    world.end().await;
}
