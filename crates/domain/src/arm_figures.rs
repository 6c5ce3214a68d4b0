//! The counters of arms, and the table read from them. All counters are of an arm; none has the id of a member.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::counter::Counter;
use crate::effort::{Effort, Outcome};
use crate::experiment::{Trial, Vote};
use crate::keys::experiments as keys;
use crate::latencies::Latencies;
use crate::ledger::Increment;

const USE: &str = "use";
const QUALITY: &str = "quality";
/// The start of the names of the counters of durations; the number of the bucket follows.
const TOOK: &str = "took";

/// The figures of one arm since the first answer of its experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArmFigures {
    /// Answers.
    pub answers: u64,
    /// Apologies instead of an answer.
    pub apologies: u64,
    /// Input tokens.
    pub tokens_in: u64,
    /// Input tokens served from the provider's cache; included in `tokens_in`.
    pub cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Cost in millionths of a dollar, for tokens with known prices.
    pub micros: u64,
    /// Tokens without known prices.
    pub unpriced: u64,
    /// Answers whose reply had to be repaired.
    pub repaired: u64,
    /// Thumbs up on answers; one vote per member and message.
    pub up: u64,
    /// Thumbs down.
    pub down: u64,
    /// The durations of answers: the time spent waiting for models and tools.
    pub took: Latencies,
}

/// Returns the increments of a closed turn; empty outside of experiments, and for turns that reached no model.
#[must_use]
pub fn counted(effort: &Effort, outcome: &Outcome) -> Vec<Increment> {
    let Some(trial) = &effort.trial else { return Vec::new() };
    let answered = match outcome {
        Outcome::Replied => true,
        Outcome::Apologised(_) => false,
        Outcome::Hinted | Outcome::Refused(_) => return Vec::new(),
    };
    let usage = effort.usage;
    let flag = i64::from;
    let used = [
        flag(answered),
        flag(!answered),
        whole(usage.prompt),
        whole(usage.completion),
        whole(effort.all_micros()),
        whole(effort.unpriced),
    ];
    let repaired = flag(answered && effort.repairs > 0);
    let mut writes =
        vec![add(trial, USE, Counter(used)), add(trial, QUALITY, Counter([repaired, 0, 0, whole(usage.cached), 0, 0]))];
    if answered {
        let bucket = Latencies::bucket(Duration::from_millis(effort.waited_ms));
        writes.push(add(trial, &format!("{TOOK}{bucket}"), Counter::from(1)));
    }
    writes
}

/// Returns the increment of one vote for an answer of this arm.
#[must_use]
pub fn voted(trial: &Trial, vote: Vote) -> Increment {
    let (up, down) = (i64::from(vote == Vote::Up), i64::from(vote == Vote::Down));
    add(trial, QUALITY, Counter([0, up, down, 0, 0, 0]))
}

fn add(trial: &Trial, what: &str, by: Counter) -> Increment {
    Increment { key: keys::counter(trial, what), by, ttl: Some(keys::COUNTER_TTL) }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the figures of each arm from the rows under [`keys::PREFIX`], in the order of their names. Unreadable rows
/// count as zero.
#[must_use]
pub fn figures(rows: &[(String, String)]) -> Vec<(Trial, ArmFigures)> {
    let mut arms: BTreeMap<Trial, ArmFigures> = BTreeMap::new();
    for (key, text) in rows {
        let Some((trial, what)) = keys::parse(key) else { continue };
        let Some(Counter(numbers)) = Counter::read(text) else { continue };
        let numbers = numbers.map(|number| u64::try_from(number).unwrap_or(0));
        let arm = arms.entry(trial).or_default();
        match (what, what.strip_prefix(TOOK)) {
            (USE, _) => {
                [arm.answers, arm.apologies, arm.tokens_in, arm.tokens_out, arm.micros, arm.unpriced] = numbers;
            }
            (QUALITY, _) => [arm.repaired, arm.up, arm.down, arm.cached, ..] = numbers,
            (_, Some(bucket)) => {
                if let Ok(bucket) = bucket.parse() {
                    arm.took.add_to(bucket, numbers[0]);
                }
            }
            _ => {}
        }
    }
    arms.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::completion::Usage;
    use crate::ending::Ending;

    /// Applies increments as the store does, and returns the rows.
    fn stored(writes: impl IntoIterator<Item = Increment>) -> Vec<(String, String)> {
        let mut counters = BTreeMap::<String, Counter>::new();
        for write in writes {
            let counter = counters.entry(write.key).or_default();
            *counter = counter.plus(write.by);
        }
        counters.into_iter().map(|(key, counter)| (key, counter.to_string())).collect()
    }

    #[test]
    fn the_figures_of_an_arm_are_the_sums_of_its_turns() {
        let trial = |arm: &str| Some(Trial { experiment: "cheaper".to_owned(), arm: arm.to_owned() });
        let effort = |arm: &str, waited_ms| Effort {
            usage: Usage { prompt: 100, completion: 10, cached: 40, estimated: false },
            micros: 7,
            waited_ms,
            trial: trial(arm),
            ..Effort::default()
        };
        let mut writes = Vec::new();
        for number in 1..=100 {
            writes.extend(counted(
                &Effort { repairs: u32::from(number <= 5), ..effort("a:b", number * 10) },
                &Outcome::Replied,
            ));
        }
        writes.extend(counted(&effort("a:b", 9_000), &Outcome::Apologised(Ending::NoModel)));
        writes.extend(counted(&effort("other", 50), &Outcome::Replied));
        writes.extend(counted(&Effort { trial: None, ..effort("x", 1) }, &Outcome::Replied));
        writes.extend(counted(&effort("x", 1), &Outcome::Hinted));
        let voting = trial("a:b").unwrap();
        writes.extend([voted(&voting, Vote::Up), voted(&voting, Vote::Up), voted(&voting, Vote::Down)]);
        let mut rows = stored(writes);
        rows.push(("staffai:experiment:odd".to_owned(), "1".to_owned()));
        rows.push(("staffai:experiment:odd:arm:took999".to_owned(), "nonsense".to_owned()));
        let table = figures(&rows);
        assert_eq!(table.len(), 2, "{table:?}");
        let (named, arm) = &table[0];
        assert_eq!(Some(named), trial("a:b").as_ref());
        assert_eq!((arm.answers, arm.apologies, arm.repaired, arm.up, arm.down), (100, 1, 5, 2, 1));
        assert_eq!(
            (arm.tokens_in, arm.cached, arm.tokens_out, arm.micros, arm.unpriced),
            (10_100, 4_040, 1_010, 707, 0)
        );
        let [half, most] = [50, 95].map(|part| Duration::from_micros(arm.took.percentile(part).unwrap()));
        assert!(half.as_millis().abs_diff(500) < 100 && most.as_millis().abs_diff(950) < 190, "{half:?} {most:?}");
    }

    proptest! {
        #[test]
        fn no_stored_row_panics(key in "(staffai:experiment:)?[a-z%0-9:]{0,30}", text in "[ 0-9a-z-]{0,20}") {
            drop(figures(&[(key, text)]));
        }
    }
}
