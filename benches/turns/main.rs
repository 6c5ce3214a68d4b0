//! The cost of a turn beside the model: `cargo bench --bench turns` prints the table, `-- --quick` a rougher one in two
//! minutes, `-- --only m1,m4` some scenes, `-- --program PATH` those of another build, `-- --threads 1` with this
//! number of threads, `-- --soak 10` ten minutes of churn alone.
//!
//! A rig in this process plays Discord and an instant model on one clock. The real program is a child process; beside
//! it runs the floor, a bare relay with the same input and output. Absolute figures depend on the machine; the ratios
//! within one run do so much less. A lost or doubled reply fails the run.

mod arithmetic;
mod figures;
mod floor;
mod gateway;
mod http;
mod process;
mod proxy;
mod rig;
mod scenes;
mod tool_server;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use figures::{Steal, Table};
use scenes::{Pair, Size, api, idle, limits, noise, peer, soak, starts, stream, tools, typed};

const FULL: Size = Size {
    rounds: 11,
    slot: Duration::from_secs(2),
    bursts: 3,
    noise: 200_000,
    idle: 100_000,
    idle_for: Duration::from_secs(65),
    starts: 20,
};

const QUICK: Size = Size {
    rounds: 3,
    slot: Duration::from_millis(500),
    bursts: 2,
    noise: 40_000,
    idle: 20_000,
    idle_for: Duration::from_secs(65),
    starts: 5,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        eprintln!("the asynchronous runtime cannot start");
        return ExitCode::FAILURE;
    };
    if words.first().is_some_and(|word| word == "--floor") {
        let address = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        let (Some(api), Some(gateway)) = (address(1), address(2)) else { return ExitCode::FAILURE };
        // The rig is gone, and the floor with it.
        let _ = runtime.block_on(floor::run(api, gateway));
        return ExitCode::SUCCESS;
    }
    if words.first().is_some_and(|word| word == tool_server::WORD) {
        let served = runtime.block_on(tool_server::run());
        return if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if words.first().is_some_and(|word| word == proxy::WORD) {
        let Some(model) = words.get(1).and_then(|word| word.parse().ok()) else { return ExitCode::FAILURE };
        let served = runtime.block_on(proxy::run(model));
        return if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let on_core = cores > 1 && process::keep_to("1");
    let quick = words.iter().any(|word| word == "--quick");
    let value = |name: &str| match words.iter().position(|word| word == name) {
        Some(at) => words.get(at + 1).cloned().map(Some).ok_or_else(|| format!("{name} wants a value")),
        None => Ok(None),
    };
    let asked = || {
        value("--program")?.map_or(Ok(()), |path| process::test_program(&path))?;
        value("--threads")?.map_or(Ok(()), process::on_threads)?;
        let minutes = value("--soak")?
            .map(|minutes| minutes.parse().map_err(|_| format!("--soak wants a number of minutes, and got {minutes}")));
        Ok((value("--only")?, minutes.transpose()?))
    };
    let asked: Result<(Option<String>, Option<u32>), String> = asked();
    let (only, soaks) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    machine(cores, on_core, quick);
    let mut table = Table::default();
    let size = if quick { QUICK } else { FULL };
    let result = runtime.block_on(async {
        match soaks {
            Some(minutes) => soak::run(on_core, Duration::from_secs(60) * minutes, &mut table).await,
            None => all(on_core, size, only.as_deref(), &mut table).await,
        }
    });
    println!();
    table.print();
    println!();
    if let Err(error) = result {
        table.broke(error);
    }
    if table.broken.is_empty() {
        println!("every turn had exactly one reply");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn all(on_core: bool, size: Size, only: Option<&str>, table: &mut Table) -> Result<(), String> {
    let wanted = |scene: &str| only.is_none_or(|only| only.split(',').any(|word| word == scene));
    if wanted("rendering") {
        typed::run(table)?;
    }
    if wanted("m6") {
        starts::cold(on_core, size, table).await?;
    }
    if ["m1", "m2", "m3", "m4"].into_iter().any(wanted) {
        let pair = Pair::start(on_core).await?;
        if wanted("m1") {
            scenes::overhead(&pair, size, table).await?;
        }
        if wanted("m2") {
            scenes::saturation(&pair, on_core, size, table).await?;
        }
        if wanted("m4") {
            noise::run(&pair, size, table).await?;
        }
        if wanted("m3") {
            stream::run(&pair, size, table).await?;
        }
        table.told("   requests a turn", &starts::exchanges(&pair.us), &Steal::watch());
        for bot in [&pair.floor, &pair.us] {
            starts::check(bot, table);
        }
    }
    if wanted("m5") || wanted("m8") {
        idle::run(on_core, size, table).await?;
    }
    if wanted("m7") {
        starts::recovery(on_core, size, table).await?;
    }
    if wanted("m10") {
        tools::run(on_core, size, table).await?;
    }
    if wanted("m11") {
        api::run(on_core, size, table).await?;
    }
    if wanted("peer") {
        peer::run(on_core, size, table).await?;
    }
    if wanted("m9") {
        limits::run(on_core, size, table).await?;
    }
    Ok(())
}

fn machine(cores: usize, on_core: bool, quick: bool) {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
        line.split_once(':').map_or(line.clone(), |(_, value)| value.trim().to_owned())
    };
    println!("cores     {cores} x {}", first("/proc/cpuinfo", "model name"));
    println!("kernel    {}", first("/proc/sys/kernel/osrelease", ""));
    println!("memory    {}", first("/proc/meminfo", "MemTotal"));
    let pinned = if on_core { "bot on core 0, rig on core 1 (taskset)" } else { "not pinned" };
    println!("pinned    {pinned}");
    println!("program   {}; log at WARN unless said, embedded store", process::program().display());
    println!("size      {}", if quick { "quick" } else { "full" });
    println!("ratios    median of the rounds [quartiles]");
}
