//! The algorithm, compared with an oracle that keeps every entry, and invariants under arbitrary steps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::window_log::WindowLog;
use super::*;
use crate::ids::Door;

const WINDOW: u64 = 1_000;
const LEASE: Duration = Duration::from_millis(300);

#[test]
fn parts_never_collide() {
    let door = Door::new("api");
    assert_eq!(Member::of(&Person::new(door.clone(), "a:b"), None).as_str(), "api:direct:api:a%3Ab");
    assert_eq!(turn_part(&TurnId::new(door, "a:b")), "api%3Aa%3Ab");
}

fn turn(number: u32) -> TurnId {
    TurnId::new(Door::new("d"), number.to_string())
}

fn request(step: LimitStep) -> Request {
    Request::of_member(Member::new("5:7"), Duration::from_millis(WINDOW), step)
}

fn reserve(number: u32, tokens: u64, limits: Limits) -> Request {
    let reservation = Reservation { turn: turn(number), tokens, lease: LEASE, limits, exempt: false };
    request(LimitStep::Reserve(reservation))
}

/// One message as kept by the oracle.
#[derive(Clone, Copy)]
struct Held {
    at: u64,
    tokens: u64,
    open: bool,
    /// True if its actual use is reported: only such entries may cause a breach.
    settled: bool,
}

/// Keeps every message for ever, and scans all of them each time.
#[derive(Default)]
struct Oracle(BTreeMap<u32, Held>);

impl Oracle {
    fn live(&self, now: u64) -> impl Iterator<Item = &Held> {
        self.0.values().filter(move |held| held.at + WINDOW > now)
    }

    /// Returns two flags: messages have room, and tokens have room, counting all turns or only settled ones.
    fn fits(&self, now: u64, tokens: u64, limits: Limits, settled_only: bool) -> (bool, bool) {
        let used: u64 = self.live(now).filter(|held| held.settled || !settled_only).map(|held| held.tokens).sum();
        let held = self.live(now).count();
        (held < limits.messages as usize, limits.tokens > 0 && used + tokens <= limits.tokens)
    }

    fn reserve(&mut self, now: u64, number: u32, tokens: u64, limits: Limits) -> Decision {
        if self.0.get(&number).is_some_and(|held| held.at + WINDOW > now) {
            return Decision::Admitted;
        }
        // Two capped estimates together always exceed the limit.
        let tokens = if 2 * tokens > limits.tokens + 2 { limits.tokens / 2 + 1 } else { tokens }.min(limits.tokens);
        let (few, little) = self.fits(now, tokens, limits, false);
        if few && little {
            self.0.insert(number, Held { at: now, tokens, open: true, settled: false });
            return Decision::Admitted;
        }
        // The first time at which anything changes and the message fits.
        let mut ends: Vec<u64> = self.live(now).map(|held| held.at + WINDOW).collect();
        ends.sort_unstable();
        let fits = |at: &u64| self.fits(*at, tokens, limits, false) == (true, true);
        let retry_after = ends.into_iter().find(fits).map(|at| Duration::from_millis(at - now));
        let any_left = self.fits(now, 1, limits, true).1;
        let basis = match self.fits(now, tokens, limits, true).1 {
            _ if !few || !any_left => Basis::Use,
            false => Basis::Remainder,
            true => Basis::OpenTurns,
        };
        let cost = if little || (!few && any_left) { Cost::Messages } else { Cost::Tokens };
        Decision::Refused(LimitRefusal { cost, retry_after, basis, account: None })
    }

    fn settle(&mut self, now: u64, number: u32, tokens: Option<u64>) {
        let Some(held) = self.0.get_mut(&number) else { return };
        if held.at + WINDOW > now && held.open {
            held.tokens = tokens.unwrap_or(held.tokens);
            held.settled = tokens.is_some();
            held.open = false;
        }
    }

    fn cancel(&mut self, now: u64, number: u32) {
        if self.0.get(&number).is_some_and(|held| held.at + WINDOW > now && held.open) {
            self.0.remove(&number);
        }
    }

    fn set_back(&mut self, now: u64) {
        self.0.values_mut().for_each(|held| held.at = held.at.min(now));
    }
}

/// A cheap random generator: the test makes a million steps.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A writer whose own clock is wrong and jumps. This has no effect, because the algorithm receives the server's time.
struct Writer {
    clock: u64,
    open: Vec<u32>,
}

/// Compares many steps of two writers with the oracle.
fn steps(seed: u64, many: u32) {
    let mut chance = Chance(seed | 1);
    let limits = Limits { messages: u32::try_from(chance.below(8)).unwrap(), tokens: chance.below(5) * 60 };
    let (mut log, mut oracle, mut now) = (WindowLog::default(), Oracle::default(), 1_700_000_000_000);
    let mut writers = [0, 3_600_000].map(|wrong| Writer { clock: now + wrong, open: Vec::new() });
    for number in 0..many {
        now += chance.below(90);
        let writer = &mut writers[usize::from(chance.below(2) == 0)];
        match chance.below(100) {
            0 => writer.clock = now + chance.below(7_200_000),
            1 => {
                // Entries that have aged out stay so.
                oracle.0.retain(|_, held| held.at + WINDOW > now);
                log.step(Timestamp(now), &request(LimitStep::Read(limits)));
                now -= chance.below(3_600_000);
                oracle.set_back(now);
                log.step(Timestamp(now), &request(LimitStep::Read(limits)));
            }
            2 => now += chance.below(3 * WINDOW),
            3..=12 => {
                let Some(known) = writer.open.last().copied() else { continue };
                let again = reserve(known, 5, limits);
                assert_eq!(log.step(Timestamp(now), &again).0, oracle.reserve(now, known, 5, limits));
            }
            13..=45 if !writer.open.is_empty() => {
                let known = writer.open.swap_remove(usize::try_from(chance.below(writer.open.len() as u64)).unwrap());
                let (cancels, tokens) = (chance.below(4) == 0, Some(chance.below(90)).filter(|tokens| *tokens > 9));
                for _ in 0..=chance.below(2) {
                    let step =
                        if cancels { LimitStep::Cancel(turn(known)) } else { LimitStep::Settle(turn(known), tokens) };
                    assert_eq!(log.step(Timestamp(now), &request(step)).0, Decision::Done);
                }
                if cancels { oracle.cancel(now, known) } else { oracle.settle(now, known, tokens) }
            }
            _ => ask(&mut log, &mut oracle, now, &reserve(number, chance.below(100), limits), writer),
        }
        if number % 64 == 0 {
            oracle.0.retain(|_, held| held.at + WINDOW > now);
        }
    }
}

fn ask(log: &mut WindowLog, oracle: &mut Oracle, now: u64, asked: &Request, writer: &mut Writer) {
    let LimitStep::Reserve(ask) = &asked.step else { return };
    let number: u32 = ask.turn.id.parse().unwrap();
    let before = log.entries().len();
    let (answer, changed) = log.step(Timestamp(now), asked);
    assert_eq!(answer, oracle.reserve(now, number, ask.tokens, ask.limits));
    let live = oracle.live(now).count();
    assert_eq!(log.entries().len(), live, "nothing leaks and nothing is lost");
    match answer {
        Decision::Admitted => {
            writer.open.push(number);
            if writer.open.len() > 20 {
                // A crashed writer settles nothing.
                writer.open.remove(0);
            }
            let used: u64 = oracle.live(now).map(|held| held.tokens).sum();
            assert!(changed && live <= ask.limits.messages as usize && used <= ask.limits.tokens);
        }
        Decision::Refused(refusal) => {
            assert!(!changed && log.entries().len() <= before, "a refusal adds nothing");
            let Some(wait) = refusal.retry_after else {
                assert!(ask.limits.messages == 0 || ask.limits.tokens == 0);
                return;
            };
            let at = now + ids_millis(wait);
            assert!(at > now && at <= now + WINDOW);
            let early = log.clone().step(Timestamp(at - 1), asked).0;
            assert!(matches!(early, Decision::Refused(_)), "a millisecond too early");
            assert_eq!(log.clone().step(Timestamp(at), asked).0, Decision::Admitted, "exactly then");
        }
        Decision::Done | Decision::Used(_) => panic!("{answer:?}"),
    }
}

fn ids_millis(duration: Duration) -> u64 {
    crate::ids::millis(duration)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 64, ..ProptestConfig::default() })]

    /// A million steps.
    #[test]
    fn the_law_answers_like_an_oracle_that_remembers_everything(seed in any::<u64>()) {
        steps(seed, 1_000);
    }

    #[test]
    fn settling_in_any_order_gives_the_same(order in Just((0..6).collect::<Vec<u32>>()).prop_shuffle()) {
        let limits = Limits { messages: 10, tokens: 1_000 };
        let fill = |order: &[u32]| {
            let mut log = WindowLog::default();
            for number in 0..6 {
                log.step(Timestamp(5), &reserve(number, 50, limits));
            }
            for number in order {
                log.step(Timestamp(9), &request(LimitStep::Settle(turn(*number), Some(u64::from(*number) * 7))));
            }
            log
        };
        prop_assert_eq!(fill(&order), fill(&[0, 1, 2, 3, 4, 5]));
    }
}

#[test]
fn five_at_once_let_at_most_one_run_over() {
    // The case of a proxy that let 663 tokens through a limit of 100.
    let limits = Limits { messages: 100, tokens: 100 };
    let mut log = WindowLog::default();
    let admitted: Vec<u32> = [58_u64, 175, 150, 140, 140]
        .into_iter()
        .zip(0..)
        .filter(|(tokens, number)| log.step(Timestamp(7), &reserve(*number, *tokens, limits)).0 == Decision::Admitted)
        .map(|(_, number)| number)
        .collect();
    assert_eq!(admitted, [0]);
    log.step(Timestamp(8), &request(LimitStep::Settle(turn(0), Some(175))));
    let Decision::Refused(refusal) = log.step(Timestamp(9), &reserve(9, 1, limits)).0 else { panic!() };
    assert_eq!((refusal.cost, refusal.basis), (Cost::Tokens, Basis::Use));
    assert_eq!(refusal.retry_after, Some(Duration::from_millis(998)), "the debt goes when it ages out");
}

#[test]
fn a_small_limit_lets_a_single_message_through() {
    let mut log = WindowLog::default();
    let limits = Limits { messages: 3, tokens: 10 };
    assert_eq!(log.step(Timestamp(0), &reserve(1, 5_000, limits)).0, Decision::Admitted);
    let Decision::Refused(refusal) = log.step(Timestamp(0), &reserve(2, 5_000, limits)).0 else { panic!() };
    assert_eq!(refusal.basis, Basis::OpenTurns, "an estimate alone is no breach");
    let none = Limits { messages: 3, tokens: 0 };
    let Decision::Refused(refusal) = WindowLog::default().step(Timestamp(0), &reserve(3, 0, none)).0 else { panic!() };
    assert_eq!((refusal.retry_after, refusal.basis), (None, Basis::Use));
}

#[test]
fn an_estimate_takes_just_over_half_of_a_limit_at_most() {
    for limit in 0..200 {
        let most = estimate_max(limit);
        assert!(most <= limit && most <= limit / 2 + 1 && (limit == 0 || 2 * most > limit), "{limit}: {most}");
    }
    // Other members' answers were very long. A member who has used less than half is admitted all the same.
    let limits = Limits { messages: 15, tokens: 20_000 };
    let mut log = WindowLog::default();
    for (number, tokens) in [(1, 900), (2, 980), (3, 1_000)] {
        assert_eq!(log.step(Timestamp(0), &reserve(number, u64::MAX, limits)).0, Decision::Admitted, "{number}");
        log.step(Timestamp(0), &request(LimitStep::Settle(turn(number), Some(tokens))));
    }
    assert_eq!(log.used(None), Used { messages: 3, tokens: 2_880, ..Used::default() });
}

#[test]
fn a_breach_rests_on_settled_use_alone() {
    let limits = Limits { messages: 15, tokens: 1_000 };
    let mut log = WindowLog::default();
    let refused = |log: &mut WindowLog, number, tokens| match log.step(Timestamp(9), &reserve(number, tokens, limits)).0
    {
        Decision::Refused(refusal) => (refusal.cost, refusal.basis),
        other => panic!("{other:?}"),
    };
    // The unmeasured use of a turn stays an estimate.
    for number in 0..2 {
        log.step(Timestamp(5), &reserve(number, 450, limits));
        log.step(Timestamp(6), &request(LimitStep::Settle(turn(number), None)));
    }
    assert_eq!(refused(&mut log, 10, 200), (Cost::Tokens, Basis::OpenTurns));
    log.step(Timestamp(7), &request(LimitStep::Cancel(turn(0))));
    log.step(Timestamp(7), &request(LimitStep::Settle(turn(0), Some(5_000))));
    assert_eq!(log.used(None).tokens, 900, "it has ended, and is neither settled again nor taken back");

    let mut log = WindowLog::default();
    log.step(Timestamp(5), &reserve(1, 400, limits));
    log.step(Timestamp(6), &request(LimitStep::Settle(turn(1), Some(999))));
    assert_eq!(refused(&mut log, 2, 2), (Cost::Tokens, Basis::Remainder), "one token is left");
    assert_eq!(log.step(Timestamp(9), &reserve(2, 1, limits)).0, Decision::Admitted);
    log.step(Timestamp(9), &request(LimitStep::Settle(turn(2), Some(1))));
    assert_eq!(refused(&mut log, 3, 1), (Cost::Tokens, Basis::Use));
}

#[test]
fn the_exempt_are_counted_and_bounded() {
    let mut log = WindowLog::default();
    for number in 0..1_500 {
        let mut asked = reserve(number, 7, Limits { messages: 2, tokens: 3 });
        if let LimitStep::Reserve(ask) = &mut asked.step {
            ask.exempt = true;
        }
        assert_eq!(log.step(Timestamp(u64::from(number) / 10), &asked).0, Decision::Admitted);
    }
    let Decision::Used(used) = log.step(Timestamp(150), &request(LimitStep::Read(Limits { messages: 2, tokens: 3 }))).0
    else {
        panic!()
    };
    assert_eq!((used.messages, used.tokens), (1_000, 7_000));
    assert!(used.wait.is_some());
}

#[test]
fn absurd_figures_are_clamped() {
    let mut log = WindowLog::default();
    let limits = Limits { messages: u32::MAX, tokens: u64::MAX };
    for number in 0..1_000 {
        assert_eq!(log.step(Timestamp(0), &reserve(number, u64::MAX, limits)).0, Decision::Admitted);
        log.step(Timestamp(0), &request(LimitStep::Settle(turn(number), Some(u64::MAX))));
    }
    let Decision::Refused(refusal) = log.step(Timestamp(0), &reserve(1_000, 1, limits)).0 else { panic!() };
    assert_eq!(refusal.cost, Cost::Messages, "a boundless limit counts as a thousand");
}
