//! Many processes on the real scripts of a real server, in simulated time: partitions, slow and lost answers, clocks of
//! different speeds, pauses longer than a term, kills, orderly ends, a server clock that is set back, and a lost record.
//!
//! A process does as `app::standby` does: it asks every [`ASK_EVERY`], renews every [`RENEW_EVERY`], and stops at
//! [`stops_at`]. All of it depends on the seed alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ::redis::{Arg, Connection, FromRedisValue, pipe};

use super::super::super::owning;
use super::super::super::tests::server::Server;
use super::super::{ACTIVE, ANSWER_TIMEOUT, ASK_EVERY, RENEW_EVERY, stops_at};
use super::*;
use domain::ownership::{FencingToken, Term};

/// The bound on the time of a range without an owner for each fault in that time, in milliseconds.
const UNOWNED_MAX: u64 = 3_000;
/// The time by which all processes have started, in milliseconds. From then on, each range must have an owner.
const STARTED: u64 = 2_000;
/// The time of the server at the start, in milliseconds.
const EPOCH: u64 = 1_800_000_000_000;
/// The interval at which a process asks if it must give a range away, and the longest time of a move.
const BALANCE_EVERY: Duration = Duration::from_secs(1);
const MOVE_MAX: Duration = Duration::from_secs(10);
/// The interval of writes of an owner, in milliseconds.
const WRITE_EVERY: u64 = 500;
const DOOR: Door = Door::new("discord");

/// A generator of numbers (splitmix64), so that a seed is a history.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length as u64).unwrap()
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask,
    /// The server receives a request that was sent at this time.
    AtServer(u64),
    Answer(u64, Taken),
    /// The ranges that it took and its tokens: it acts on them from now on.
    Acts(u32),
    Write(u32),
    /// Time to ask if it must give a range away.
    Balance,
    /// It finished its work on a range that it gives away.
    Given(u32),
    Stop,
    Start,
    Fault,
}

/// The time of an event, its number, its process and the life of that process.
type Due = (u64, u64, usize, u32, Event);

struct Process {
    division: Division,
    name: String,
    life: u32,
    up: bool,
    /// Speed of its clock, in parts per 1,000.
    speed: u64,
    paused_until: u64,
    cut_until: u64,
    slow_until: u64,
    /// The token of each of its ranges, and true if it acts on it.
    terms: BTreeMap<u32, (u64, bool)>,
    stops: u64,
    /// The time until which its last request may be answered; each change of its ranges waits for that.
    awaits_until: u64,
}

impl Process {
    fn ranges(&self) -> Vec<u32> {
        self.division.held.lock().iter().map(|portion| portion.number).collect()
    }

    fn acts_on(&self, range: u32, now: u64) -> bool {
        let acts = self.terms.get(&range).is_some_and(|(_, acts)| *acts);
        self.up && acts && self.paused_until <= now && now < self.stops
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    requests: u64,
    taken: u64,
    moved: u64,
    written: u64,
    refused: u64,
    kills: u64,
    pauses: u64,
    partitions: u64,
    two_owners: u64,
    unowned_too_long: u64,
    /// The longest time without an owner in which there was one fault, and in which there were any number of them.
    longest_of_one_fault_ms: u64,
    longest_ms: u64,
    most_faults: u64,
    strangers: u64,
}

/// A time of a range without an owner.
struct Gap {
    since: u64,
    /// The number of faults of its owners, of the processes that took it, and of the server.
    faults: u64,
}

struct World {
    now: u64,
    /// The number of milliseconds by which the server's clock was set back.
    back: u64,
    numbers: Numbers,
    seq: u64,
    events: BinaryHeap<Reverse<Due>>,
    processes: Vec<Process>,
    connection: Connection,
    ranges: u32,
    guilds: Vec<Vec<u64>>,
    /// The newest token of each range, and the time in which it has no owner.
    newest: Vec<u64>,
    unowned: Vec<Option<Gap>>,
    sum: Sum,
}

impl World {
    fn new(server: &Server, seed: u64, processes: usize, ranges: u32, guilds: u64) -> Self {
        let mut numbers = Numbers(seed);
        let mut of_ranges = vec![Vec::new(); ranges as usize];
        for number in 0..guilds {
            let guild = (number << 22) | (numbers.next() & 0x3f_ffff);
            of_ranges[Portion::of_guild(Some(&guild.to_string()), ranges) as usize].push(guild);
        }
        let mut world = Self {
            now: 0,
            back: 0,
            numbers,
            seq: 0,
            events: BinaryHeap::new(),
            processes: Vec::new(),
            connection: server.connection(),
            ranges,
            guilds: of_ranges,
            newest: vec![0; ranges as usize],
            unowned: (0..ranges).map(|_| Some(Gap { since: STARTED, faults: 1 })).collect(),
            sum: Sum::default(),
        };
        for at in 0..processes {
            let speed = world.numbers.within(990, 1_011);
            // One of a hundred processes has another division.
            let division = Division::into(if at % 100 == 99 { ranges + 1 } else { ranges });
            world.processes.push(Process {
                division,
                name: String::new(),
                life: 0,
                up: false,
                speed,
                paused_until: 0,
                cut_until: 0,
                slow_until: 0,
                terms: BTreeMap::new(),
                stops: 0,
                awaits_until: 0,
            });
            let start = world.numbers.within(0, STARTED);
            world.push(start, at, Event::Start);
        }
        world.push(0, 0, Event::Fault);
        world
    }

    fn push(&mut self, at: u64, process: usize, event: Event) {
        self.seq += 1;
        self.events.push(Reverse((at, self.seq, process, self.processes[process].life, event)));
    }

    /// Sends a request to the real server, whose scripts read the simulated time.
    fn serve<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        let clock = EPOCH + self.now - self.back;
        let mut request = Cmd::new();
        for arg in command.args_iter() {
            let Arg::Simple(arg) = arg else { panic!("no cursor") };
            let text = std::str::from_utf8(arg).unwrap();
            request.arg(text.replace("redis.call('TIME')", "redis.call('HMGET', 'clock', 's', 'us')"));
        }
        let (seconds, micros) = (clock / 1_000, clock % 1_000 * 1_000);
        let mut both = pipe();
        both.cmd("HSET").arg("clock").arg("s").arg(seconds).arg("us").arg(micros).ignore().add_command(request);
        self.sum.requests += 1;
        let (answer,): (T,) = both.query(&mut self.connection).unwrap();
        answer
    }

    /// Returns the delay of a message; `None` if it is lost.
    fn delay(&mut self, at: usize) -> Option<u64> {
        let (cut, slow) = (self.processes[at].cut_until > self.now, self.processes[at].slow_until > self.now);
        if cut {
            return None;
        }
        Some(if slow { self.numbers.within(20, 400) } else { self.numbers.within(0, 4) })
    }

    /// Converts a duration of the clock of a process.
    fn local(&self, at: usize, duration: Duration) -> u64 {
        millis(duration) * 1_000 / self.processes[at].speed
    }

    fn run(mut self, until: u64) -> Sum {
        while let Some(Reverse((time, _, at, life, event))) = self.events.pop() {
            if time >= until {
                break;
            }
            self.now = time;
            if event == Event::Fault {
                self.fault();
                let next = self.now + self.numbers.within(20, 120);
                self.push(next, 0, Event::Fault);
                continue;
            }
            let process = &self.processes[at];
            if life != process.life {
                continue;
            }
            let is_local = !matches!(event, Event::AtServer(_));
            if is_local && process.paused_until > time {
                let resumes = process.paused_until;
                self.push(resumes, at, event);
                continue;
            }
            self.happens(at, event);
        }
        for range in 0..self.ranges as usize {
            self.owned_again(range);
        }
        self.sum
    }

    fn happens(&mut self, at: usize, event: Event) {
        match event {
            Event::Start => {
                let process = &mut self.processes[at];
                process.up = true;
                process.name = format!("process {at}, life {}", process.life);
                self.push(self.now, at, Event::Ask);
            }
            Event::Ask => {
                let sent = self.now;
                let awaits_until = self.processes[at].awaits_until;
                if sent < awaits_until {
                    return self.push(awaits_until, at, Event::Ask);
                }
                self.processes[at].awaits_until = sent + millis(ANSWER_TIMEOUT);
                if let Some(delay) = self.delay(at) {
                    self.push(sent + delay, at, Event::AtServer(sent));
                }
                let every = if self.processes[at].ranges().is_empty() { ASK_EVERY } else { RENEW_EVERY };
                let next = sent + self.local(at, every);
                self.push(next, at, Event::Ask);
            }
            Event::AtServer(sent) => {
                let process = &self.processes[at];
                let had = process.ranges();
                let take = process.division.taking(ACTIVE, &process.name, had.is_empty());
                let taken: Taken = self.serve(&take);
                if let Some(delay) = self.delay(at).filter(|delay| self.now + delay < sent + millis(ANSWER_TIMEOUT)) {
                    self.push(self.now + delay, at, Event::Answer(sent, taken));
                } else {
                    for range in taken.2.split(',').filter_map(|range| range.parse::<u32>().ok()) {
                        if !had.contains(&range) {
                            self.failed(range as usize);
                        }
                    }
                }
            }
            Event::Answer(sent, taken) => self.answered(at, sent, taken),
            Event::Acts(range) => {
                let Some(term) = self.processes[at].terms.get_mut(&range) else { return };
                term.1 = true;
                if self.owned_by(at).contains(&(range as usize)) {
                    self.owned_again(range as usize);
                }
                self.push(self.now, at, Event::Write(range));
            }
            Event::Write(range) => self.writes(at, range),
            Event::Balance => self.balances(at),
            Event::Given(range) => self.given(at, range),
            Event::Stop if self.now >= self.processes[at].stops => self.ends(at),
            Event::Stop => {}
            Event::Fault => unreachable!("it is no event of a process"),
        }
    }

    fn answered(&mut self, at: usize, sent: u64, answer: Taken) {
        self.processes[at].awaits_until = 0;
        let base = Instant::now();
        let term = stops_at(base) - base;
        let had = !self.processes[at].ranges().is_empty();
        let LeaseAnswer::Held { .. } = self.processes[at].division.taken(answer) else {
            if had {
                self.ends(at);
            }
            return;
        };
        if self.processes[at].division.ranges != self.ranges {
            self.sum.strangers += 1;
            return;
        }
        let stops = sent + self.local(at, term);
        if stops <= self.now && !had {
            return self.fails(at);
        }
        if !had {
            let next = self.now + self.local(at, BALANCE_EVERY);
            self.push(next, at, Event::Balance);
        }
        self.processes[at].stops = self.processes[at].stops.max(stops);
        self.push(self.processes[at].stops, at, Event::Stop);
        for range in self.processes[at].ranges() {
            if !self.processes[at].terms.contains_key(&range) {
                self.takes(at, range);
            }
        }
    }

    /// A process was granted a range, on which no other process acts now.
    fn takes(&mut self, at: usize, range: u32) {
        let others = self.processes.iter().enumerate();
        let others = others.filter(|(other, process)| *other != at && process.acts_on(range, self.now));
        self.sum.two_owners += others.count() as u64;
        self.sum.taken += 1;
        let token: u64 = self.serve(&owning::taking(&Portion { number: range, of: self.ranges }.range(DOOR)));
        assert!(token > self.newest[range as usize], "tokens rise");
        self.newest[range as usize] = token;
        self.processes[at].terms.insert(range, (token, false));
        let start = self.now + self.numbers.within(5, 60);
        self.push(start, at, Event::Acts(range));
    }

    /// A process asks if it must give a range away. It finishes its work on that range, and releases it.
    fn balances(&mut self, at: usize) {
        let next = self.now + self.local(at, BALANCE_EVERY);
        self.push(next, at, Event::Balance);
        if self.delay(at).is_none() || self.processes[at].ranges().len() < 2 {
            return;
        }
        let process = &self.processes[at];
        let give = process.division.giving(ACTIVE, &process.name, MOVE_MAX);
        let range: i64 = self.serve(&give);
        let Ok(range) = u32::try_from(range) else { return };
        if let Some(term) = self.processes[at].terms.get_mut(&range) {
            term.1 = false;
        }
        let given = self.now + self.numbers.within(5, 300);
        self.push(given, at, Event::Given(range));
    }

    fn given(&mut self, at: usize, range: u32) {
        let awaits_until = self.processes[at].awaits_until;
        if self.now < awaits_until {
            return self.push(self.now + 1, at, Event::Given(range));
        }
        let process = &mut self.processes[at];
        {
            let mut held = process.division.held.lock();
            if !held.has(range) {
                return;
            }
            *held = held.without(range);
        }
        process.terms.remove(&range);
        self.unowned_from(range as usize);
        if self.delay(at).is_some() {
            let process = &self.processes[at];
            let release = process.division.releasing(ACTIVE, &process.name, Some(range));
            let _: u8 = self.serve(&release);
            self.sum.moved += 1;
        } else {
            self.failed(range as usize);
        }
    }

    /// A mention in one of the guilds of a range is recorded.
    fn writes(&mut self, at: usize, range: u32) {
        let Some((token, true)) = self.processes[at].terms.get(&range).copied() else { return };
        let guilds = &self.guilds[range as usize];
        let guild = guilds[self.numbers.index(guilds.len())].to_string();
        let range_of_guild = Portion::of_guild(Some(&guild), self.ranges);
        let term =
            Term { range: Portion { number: range_of_guild, of: self.ranges }.range(DOOR), token: FencingToken(token) };
        if self.delay(at).is_some() {
            let accepted: bool = self.serve(&owning::checking(&term));
            self.sum.written += u64::from(accepted);
            self.sum.refused += u64::from(!accepted);
            self.sum.two_owners += u64::from(accepted && token != self.newest[range as usize]);
            if accepted && self.now < self.processes[at].stops {
                self.owned_again(range as usize);
            }
        }
        self.push(self.now + WRITE_EVERY, at, Event::Write(range));
    }

    /// A process ends because of a fault.
    fn fails(&mut self, at: usize) {
        for range in self.owned_by(at) {
            self.failed(range);
        }
        self.ends(at);
    }

    /// A process ends, and starts again with another name.
    fn ends(&mut self, at: usize) {
        for range in self.owned_by(at) {
            self.unowned_from(range);
        }
        let process = &mut self.processes[at];
        process.life += 1;
        (process.up, process.stops, process.awaits_until) = (false, 0, 0);
        process.terms.clear();
        process.division = Division::into(process.division.ranges);
        let start = self.now + self.numbers.within(200, 3_000);
        self.push(start, at, Event::Start);
    }

    /// Returns the ranges of which this process is the newest owner.
    fn owned_by(&self, at: usize) -> Vec<usize> {
        let terms = &self.processes[at].terms;
        let newest = |range: &u32| terms.get(range).is_none_or(|(token, _)| *token == self.newest[*range as usize]);
        let own = self.processes[at].division.ranges == self.ranges;
        let ranges = self.processes[at].ranges().into_iter().filter(|range| own && newest(range));
        ranges.map(|range| range as usize).collect()
    }

    /// The range has no owner from now on, unless it had none before.
    fn unowned_from(&mut self, range: usize) {
        let since = self.now;
        self.unowned[range].get_or_insert(Gap { since, faults: 1 });
    }

    /// The owner of the range, or the process that took it, has a fault.
    fn failed(&mut self, range: usize) {
        let since = self.now;
        self.unowned[range].get_or_insert(Gap { since, faults: 0 }).faults += 1;
    }

    fn server_failed(&mut self) {
        for gap in self.unowned.iter_mut().flatten() {
            gap.faults += 1;
        }
    }

    fn owned_again(&mut self, range: usize) {
        let Some(Gap { since, faults }) = self.unowned[range].take() else { return };
        let unowned = self.now.saturating_sub(since);
        let sum = &mut self.sum;
        if faults == 1 {
            sum.longest_of_one_fault_ms = sum.longest_of_one_fault_ms.max(unowned);
        }
        sum.longest_ms = sum.longest_ms.max(unowned);
        sum.most_faults = sum.most_faults.max(faults);
        if unowned > UNOWNED_MAX * faults {
            sum.unowned_too_long += 1;
            println!("range {range} has no owner from {since} to {}, with {faults} faults", self.now);
        }
    }

    fn fault(&mut self) {
        let at = self.numbers.index(self.processes.len());
        // Most faults hit a process that holds a range.
        let at = (at..self.processes.len()).find(|at| !self.processes[*at].ranges().is_empty()).unwrap_or(at);
        if !self.processes[at].up
            || self.processes[at].paused_until > self.now
            || self.processes[at].cut_until > self.now
        {
            return;
        }
        let (kind, lasts) = (self.numbers.next() % 100, self.numbers.within(100, 6_000));
        let until = self.now + lasts;
        match kind {
            0..30 => {
                self.sum.kills += 1;
                self.fails(at);
            }
            30..55 => {
                self.sum.pauses += 1;
                for range in self.owned_by(at) {
                    self.failed(range);
                }
                self.processes[at].paused_until = until;
                // It writes before it learns that its term has ended.
                for range in self.processes[at].ranges() {
                    self.push(until, at, Event::Write(range));
                }
            }
            55..80 => {
                self.sum.partitions += 1;
                self.processes[at].cut_until = until;
            }
            80..90 => self.processes[at].slow_until = until,
            90..98 => {
                let process = &self.processes[at];
                let release = process.division.releasing(ACTIVE, &process.name, None);
                let _: u8 = self.serve(&release);
                self.fails(at);
            }
            // The rest are faults of the server, after which terms can last for one more term.
            98 => {
                self.back += self.numbers.within(1, 5_000);
                self.server_failed();
            }
            _ => {
                let lost: u8 = self.serve(cmd("DEL").arg(keys::LEASE));
                assert!(lost <= 1);
                self.server_failed();
            }
        }
    }
}

/// Starts a server that stores nothing.
fn server() -> Server {
    Server::start_with(&["--appendonly", "no"])
}

/// Returns the number of processes, and the simulated time in milliseconds.
#[expect(clippy::disallowed_methods, reason = "a longer run names them")]
fn chosen() -> (usize, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let processes = number("LEASE_PROCESSES").and_then(|many| usize::try_from(many).ok());
    (processes.unwrap_or(200), number("LEASE_SECONDS").unwrap_or(30) * 1_000)
}

#[test]
fn of_many_processes_no_two_own_a_range_and_no_range_is_long_without_an_owner() {
    let (processes, until) = chosen();
    // Fewer ranges than processes, so that some stand by; and more, so that each holds several.
    for (processes, ranges) in [(processes, processes * 3 / 4), (processes / 4, processes)] {
        let ranges = u32::try_from(ranges).unwrap().min(RANGES_MAX);
        let sum = World::new(&server(), 1, processes, ranges, 100_000).run(until);
        println!("{processes} processes, {ranges} ranges, 100,000 guilds, {} s: {sum:?}", until / 1_000);
        assert!(sum.taken > u64::from(ranges) && sum.refused > 0 && sum.kills > 0 && sum.pauses > 0, "{sum:?}");
        assert_eq!((sum.two_owners, sum.unowned_too_long, sum.strangers), (0, 0, 0), "{sum:?}");
    }
}

#[test]
fn a_simulated_history_depends_on_its_seed_alone() {
    let [one, two] = [7, 7].map(|seed| World::new(&server(), seed, 20, 32, 1_000).run(20_000));
    assert_eq!(one, two);
    assert!(one.moved > 0, "{one:?}");
}
