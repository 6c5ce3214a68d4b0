//! M9: the cost of a limit decision: the law alone, the embedded store, and a server if one is installed. Every
//! decision is checked against the number that may be admitted.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use domain::ids::{Door, Timestamp, TurnId};
use domain::limits::member_windows::MemberWindows;
use domain::limits::{Decision, LimitStep, Limits, Member, Request, Reservation};
use futures_util::future::join_all;
use ports::{Limiter, Store, StoreStatus};
use staffai::app::system::SystemClock;
use store::resilient::Resilient;
use store::{embedded, redis};
use tempfile::TempDir;
use tokio::time::Instant;

use super::Size;
use crate::arithmetic::{as_f64, median, percentile, plain};
use crate::figures::{Steal, Table};
use crate::process::cpu_of;

/// The defaults.
const LIMITS: Limits = Limits { messages: 15, tokens: 20_000 };
const WINDOW: Duration = Duration::from_secs(60);
/// Members who ask in turn.
const MEMBERS: u64 = 500;
/// Decisions of the law alone per round.
const DECISIONS: u64 = 200_000;
/// Concurrent steps on the server, as many as there are connections.
const AT_ONCE: u64 = 8;
/// Timeout of the server's start.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// The server's port.
const PORT: u16 = 16_399;

pub async fn run(on_core: bool, size: Size, table: &mut Table) -> Result<(), String> {
    let steal = Steal::watch();
    let rounds: Vec<f64> = (0..size.rounds).map(|_| law(table)).collect();
    table.at_most("M9 reserve and settle in process, each", (median(&rounds), "ns"), 150.0, &steal);

    let data = TempDir::new().map_err(|error| error.to_string())?;
    let clock = Arc::new(SystemClock);
    let opener = embedded::opener::Opener::new(data.path().join("data"), clock.clone());
    let store = Resilient::start(move || opener.open(), clock.clone()).await.map_err(|error| error.to_string())?;
    let mut kept = Vec::new();
    for round in 0..size.rounds as u64 {
        kept.extend(turns(&store, round, table).await);
    }
    table.told("M9 a turn's two steps, embedded store, p50", &format!("{} us", plain(median(&kept))), &steal);
    store.close(Duration::from_secs(5)).await;

    let Some(server) = Server::start(data.path(), on_core).await else {
        table.told("M9 on Redis", "no redis-server here", &steal);
        return Ok(());
    };
    let opener = redis::opener::Opener::new(&format!("redis://127.0.0.1:{PORT}/0").into())?;
    let store = Resilient::start_with(move || opener.open(), clock, redis::bounds()).await;
    let store = store.map_err(|error| error.to_string())?;
    // Until the server is reached, the store decides locally.
    let deadline = Instant::now() + START_TIMEOUT;
    while store.status() != StoreStatus::Ready {
        if Instant::now() > deadline {
            return Err("the store does not reach the server".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    on_server(&store, &server, size, table).await?;
    store.close(Duration::from_secs(5)).await;
    Ok(())
}

/// Returns nanoseconds per decision of the law with full windows: sixteen turns of each member, one of them refused.
fn law(table: &mut Table) -> f64 {
    let mut book = MemberWindows::default();
    let (mut admitted, mut decided) = (0, 0);
    let requests: Vec<[Request; 2]> = (0..DECISIONS / 2).map(|number| steps(0, number)).collect();
    let begun = Instant::now();
    for [reserve, settle] in &requests {
        admitted += u64::from(book.decide(Timestamp(1_800_000_000_000), reserve) == Decision::Admitted);
        book.decide(Timestamp(1_800_000_000_000), settle);
        decided += 2;
    }
    let took = begun.elapsed().as_secs_f64() * 1e9 / as_f64(decided);
    exactly(admitted, MEMBERS * u64::from(LIMITS.messages), table);
    took
}

/// Returns the first and the last step of a turn.
fn steps(round: u64, number: u64) -> [Request; 2] {
    let turn = TurnId::new(Door::new("d"), format!("{round}x{number}"));
    let member = Member::new(format!("5:{round}x{}", number % MEMBERS));
    let reservation = Reservation { turn: turn.clone(), tokens: 700, lease: WINDOW, limits: LIMITS, exempt: false };
    let request = |step| Request::of_member(member.clone(), WINDOW, step);
    [request(LimitStep::Reserve(reservation)), request(LimitStep::Settle(turn, Some(300)))]
}

/// Measures both steps of each turn in sequence, in microseconds.
async fn turns(store: &impl Limiter, round: u64, table: &mut Table) -> Vec<f64> {
    let mut took = Vec::new();
    let mut admitted = 0;
    for number in 0..MEMBERS * 20 {
        let [reserve, settle] = steps(round, number);
        let begun = Instant::now();
        admitted += u64::from(store.step(reserve).await == Decision::Admitted);
        store.step(settle).await;
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    exactly(admitted, MEMBERS * u64::from(LIMITS.messages), table);
    took
}

async fn on_server(
    store: &Resilient<redis::Redis>,
    server: &Server,
    size: Size,
    table: &mut Table,
) -> Result<(), String> {
    let steal = Steal::watch();
    let mut took = Vec::new();
    for number in 0..MEMBERS * 4 {
        for step in steps(1_000, number) {
            let begun = Instant::now();
            store.step(step).await;
            took.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    table.at_most("M9 one decision on Redis, loopback, p50", (median(&took), "us"), 60.0, &steal);
    table.told("M9 the same, p99", &format!("{} us", plain(percentile(&took, 0.99))), &steal);
    let _ = Server::ask("CONFIG RESETSTAT")?;
    let (mut admitted, mut decided, cpu) = (0, 0, cpu_of(server.0.id()));
    for round in 0..size.rounds as u64 {
        for first in (0..MEMBERS * 20).step_by(usize::try_from(AT_ONCE).unwrap_or(1)) {
            let asked = (first..first + AT_ONCE).map(|number| async move {
                let [reserve, settle] = steps(2_000 + round, number);
                let admitted = store.step(reserve).await == Decision::Admitted;
                store.step(settle).await;
                u64::from(admitted)
            });
            admitted += join_all(asked).await.into_iter().sum::<u64>();
            decided += 2 * AT_ONCE;
        }
    }
    let rate = as_f64(decided) / (cpu_of(server.0.id()) - cpu).max(f64::EPSILON);
    table.at_least("M9 decisions a second of a Redis core", (rate, ""), 40_000.0, &steal);
    let counted = Server::ask("INFO commandstats")?;
    let each = usec_per_call(&counted).ok_or("the server counts no decisions")?;
    table.at_most("M9 the script's share of a decision, as the server counts it", (each, "us"), 25.0, &steal);
    exactly(admitted, size.rounds as u64 * MEMBERS * u64::from(LIMITS.messages), table);
    Ok(())
}

/// Returns the mean duration of a script call including its commands, in microseconds.
fn usec_per_call(counted: &str) -> Option<f64> {
    let line = counted.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"))?;
    line.split(',').find_map(|field| field.strip_prefix("usec_per_call="))?.trim().parse().ok()
}

fn exactly(admitted: u64, allowed: u64, table: &mut Table) {
    if admitted != allowed {
        table.broke(format!("{admitted} turns were admitted, {allowed} are allowed"));
    }
}

/// A server for this scene; stopped when dropped.
struct Server(Child);

impl Server {
    /// Starts it. `None` if the program is not installed or does not answer.
    async fn start(dir: &std::path::Path, on_core: bool) -> Option<Self> {
        let port = PORT.to_string();
        let there = |program: &&str| {
            let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        let child = ["redis-server", "valkey-server"].into_iter().find(there).and_then(|program| {
            let mut command = if on_core { Command::new("taskset") } else { Command::new(program) };
            if on_core {
                command.args(["-c", "0", program]);
            }
            command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
            command.arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        })?;
        let server = Self(child);
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            if Instant::now() > deadline {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Some(server)
    }

    /// Returns its answer to a command.
    fn ask(command: &str) -> Result<String, String> {
        let text = |error: ::redis::RedisError| error.to_string();
        let client = ::redis::Client::open(format!("redis://127.0.0.1:{PORT}/0")).map_err(text)?;
        let mut asked = ::redis::Cmd::new();
        for word in command.split(' ') {
            asked.arg(word);
        }
        asked.query(&mut client.get_connection().map_err(text)?).map_err(text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
