//! The process with little memory, few file descriptors or no disk space, or stopped for longer than any timeout. Limits
//! are those of the kernel.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use playground::guild::Message;
use playground::guild::ids::UserId;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::memory::the_boat_is_known;
use crate::model::Act;
use crate::process::Process;
use crate::support::{SOON, Said, Setup, World, story};

/// The memory of the process, the open turns that fit into it, and the members who ask at once.
const MEMORY: u64 = 64 * 1024 * 1024;
const OPEN: u32 = 200;
const BURST: u64 = 1_500;

/// The file descriptors of the process, and the idle connections that use them up.
const FILES: u32 = 64;
const CONNECTIONS: usize = 100;

/// The disk of the process.
const DISK: &str = "size=16m";

/// Longer than each timeout of the process and of its connection.
const STOPPED: Duration = Duration::from_secs(8);

/// Set where a limit that cannot be set fails its test.
const REQUIRED: &str = "LIMITS_ARE_REQUIRED";

/// Reports a test whose limit cannot be set here. The capture of the output of passed tests does not hide it.
#[expect(clippy::disallowed_methods, reason = "continuous integration sets it")]
fn skipped(why: &str) {
    assert!(std::env::var_os(REQUIRED).is_none(), "{why}, and {REQUIRED} is set");
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).unwrap();
}

/// A control group with little memory; removed when dropped, after its process.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a group below the first memory controller that may be used: of version 1, then of version 2.
    fn new() -> Option<Self> {
        let name = format!("staffai-test-{}", std::process::id());
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")].into_iter().find_map(
            |(parent, limit)| {
                let group = Self(Path::new(parent).join(&name));
                std::fs::create_dir(&group.0).ok()?;
                // Only the kernel makes these files: a folder elsewhere limits nothing.
                let is_limited = group.0.join("cgroup.procs").exists() && group.0.join(limit).exists();
                is_limited.then(|| std::fs::write(group.0.join(limit), MEMORY.to_string()).ok())??;
                Some(group)
            },
        )
    }

    /// Returns the most memory of the group so far, in bytes.
    fn peak(&self) -> u64 {
        let files = ["memory.max_usage_in_bytes", "memory.peak"];
        let text = files.iter().find_map(|file| std::fs::read_to_string(self.0.join(file)).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_burst_beyond_little_memory_is_shed_and_the_process_is_not_killed() {
    let Some(group) = Cgroup::new() else {
        return skipped("no memory controller of control groups may be used here");
    };
    story(async {
        let setup = Setup::new().set("STAFFAI_TURN__DEADLINE", "100s").set("STAFFAI_TURN__OPEN", OPEN);
        let world = World::without_bot(setup).await;
        world.crowd(BURST);
        world.model.does(|_| Act::SaysAfter(Duration::from_millis(100), "done".into()));
        let procs = group.0.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$0\" run", procs.display());
        let mut process = world.process_under("small", &script).await;
        let tides = "The tide comes in twice a day. ".repeat(50);
        let text = format!("<@{}> what is this? {tides}", world.service.bot());
        let channels = ["general", "help", "random"].map(|name| world.channel(name));
        let asks = |number: u64| {
            let channel = channels[usize::try_from(number % 3).unwrap()];
            world.service.says(UserId(800_000_000_000_000_000 + number), channel, &text, None)
        };
        let all = (0..BURST).map(asks).count();
        // Notices have a bound of their own, so not each refused member gets one; the log has each refusal.
        let count = |text: &str| process.output().matches(text).count();
        let shed = || count(r#""where":"gateway""#);
        let accepted = || count(r#""event":"turn.accepted""#);
        world.until("each mention is accepted or shed", || (accepted() + shed() == all).then_some(())).await;
        let is_answer = |message: &Message| message.reply_to.is_some() && !message.content.contains("too many people");
        let spoken = || channels.iter().flat_map(|channel| world.spoken(*channel));
        let answered = || spoken().filter(is_answer).count();
        world.until("each accepted one is answered", || (answered() == accepted()).then_some(())).await;
        let peak = group.peak() / 1024;
        println!(
            "{all} at once: {} answered, {} shed, at most {peak} KiB of {} KiB",
            answered(),
            shed(),
            MEMORY / 1024
        );
        assert!(shed() > 0 && accepted() > 0);
        let later = world.says("Ada", "general", "@staffai and now?");
        assert_eq!(world.words_to(later).await, "done");
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}

#[test]
fn without_free_file_descriptors_each_question_is_answered_or_apologised_for() {
    story(async {
        let world = World::without_bot(Setup::new().set("STAFFAI_TURN__DEADLINE", "20s")).await;
        world.crowd(40);
        let mut process = world.process_under("few", &format!("ulimit -n {FILES}; exec \"$0\" run")).await;
        world.becomes("ready").await;
        let before = world.says("Ada", "general", "@staffai before");
        world.answer_to(before).await;
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS {
            idle.push(TcpStream::connect(world.http).await.unwrap());
        }
        world
            .until("no descriptor is free", || process.output().contains("cannot take a connection").then_some(()))
            .await;
        let said: Vec<Said> =
            (0..40).map(|number| world.says(&format!("member-{number}"), "help", "@staffai hello")).collect();
        world.all_answered(&said, Duration::from_secs(60)).await;
        drop(idle);
        let after = world.says("Ada", "general", "@staffai after");
        assert_eq!(world.words_to(after).await, "You said: after");
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}

/// A small disk at a folder; unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn at(folder: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }

    /// Uses up all space, and returns the file that does.
    fn fill(&self) -> PathBuf {
        let file = self.0.join("filler");
        // The error is that no space is left.
        let full = std::fs::write(&file, vec![1; 32 * 1024 * 1024]);
        assert!(full.is_err());
        file
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_in_the_middle_of_turns_loses_nothing_once_there_is_space_again() {
    story(async {
        let world = World::without_bot(Setup::new()).await;
        let Some(disk) = Disk::at(&world.dir.path().join("data")) else {
            return skipped("only root may mount a small disk");
        };
        world.crowd(30);
        let asks = |number: u64| world.says(&format!("member-{number}"), "help", "@staffai hello");
        let process = world.process("first").await;
        world.becomes("ready").await;
        world.answer_to(world.says("Ada", "general", "@staffai my boat is the Heron")).await;
        world.model.does(|ask| Act::SaysAfter(Duration::from_millis(300), format!("You said: {}", ask.question())));
        let mut said: Vec<Said> = (0..10).map(asks).collect();
        world.until("they are asked", || (world.model.calls() == 11).then_some(())).await;
        let filler = disk.fill();
        said.extend((10..20).map(asks));
        world.all_answered(&said, SOON).await;
        let told = world.until_told("/readyz", |told| {
            let parts = told["parts"].as_array()?;
            parts.iter().find(|part| part["kind"] == "store" && part["status"] == "down").cloned()
        });
        println!("the store without space: {}", told.await);
        std::fs::remove_file(filler).unwrap();
        world.becomes("ready").await;
        said.extend((20..30).map(asks));
        world.until("they are asked too", || (world.model.calls() >= 31).then_some(())).await;
        process.kill();
        let mut process = world.process("second").await;
        world.all_answered(&said, SOON).await;
        the_boat_is_known(&world).await;
        process.terminate();
        assert_eq!(process.exit(SOON).await, 0);
    });
}

#[test]
fn a_process_that_is_stopped_beyond_every_timeout_answers_each_question_once() {
    story(async {
        let mut setup = Setup::new();
        setup.service.heartbeat = Duration::from_millis(500);
        let world = World::without_bot(setup).await;
        world.crowd(30);
        world.model.does(|_| Act::SaysAfter(Duration::from_secs(1), "done".into()));
        let asks = |number: u64| world.says(&format!("member-{number}"), "help", "@staffai hello");
        let process: Process = world.process("bot").await;
        let mut said: Vec<Said> = (0..10).map(asks).collect();
        world.until("they are asked", || (world.model.calls() == 10).then_some(())).await;
        process.signal("-STOP");
        said.extend((10..20).map(asks));
        sleep(STOPPED).await;
        process.signal("-CONT");
        said.extend((20..30).map(asks));
        world.all_answered(&said, SOON).await;
    });
}
