//! A latency histogram of fixed size, with two buckets per power of two.

use std::time::Duration;

/// Two per power of two in microseconds; the last begins at two minutes.
const BUCKETS: usize = 56;

/// Counted durations. A quantile is within 20 % of the true value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    counts: [u32; BUCKETS],
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Latencies {
    /// Records one duration.
    pub fn record(&mut self, took: Duration) {
        self.add_to(Self::bucket(took), 1);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// Returns the bucket that counts this duration.
    #[must_use]
    pub fn bucket(took: Duration) -> usize {
        bucket(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1))
    }

    /// Adds a number of durations to a bucket. A bucket that does not exist is ignored.
    pub fn add_to(&mut self, bucket: usize, many: u64) {
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(u32::try_from(many).unwrap_or(u32::MAX));
        }
    }

    /// Returns the duration in microseconds that `part` percent (0 to 100) of all do not exceed. `None` if nothing
    /// was counted.
    #[must_use]
    pub fn percentile(&self, part: u64) -> Option<u64> {
        let all: u64 = self.counts.iter().copied().map(u64::from).sum();
        let wanted = (all * part.min(100)).div_ceil(100).max(1);
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += u64::from(*count);
            below >= wanted
        });
        found.filter(|_| all > 0).map(middle)
    }
}

/// Returns the bucket of a duration of at least one microsecond.
fn bucket(micros: u64) -> usize {
    let octave = micros.ilog2();
    // The square root of two, in thousandths.
    let upper = u128::from(micros) * 1000 >= (1_u128 << octave) * 1414;
    (octave as usize * 2 + usize::from(upper)).min(BUCKETS - 1)
}

/// Returns the representative value of a bucket, in microseconds.
fn middle(bucket: usize) -> u64 {
    let low = 1_u64 << (bucket / 2);
    let thousandths = if bucket.is_multiple_of(2) { 1189 } else { 1682 };
    (low * thousandths / 1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_fifth_of_the_true_ones() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50), None);
        for millis in 1..=1000 {
            latencies.record(Duration::from_millis(millis));
        }
        for part in [1, 10, 50, 90, 99, 100] {
            let (found, truth) = (latencies.percentile(part).unwrap(), part * 10_000);
            assert!(found.abs_diff(truth) * 5 <= truth, "{part}: {found} for {truth}");
        }
    }

    #[test]
    fn the_shortest_and_the_longest_are_counted_and_added() {
        let (mut all, mut other) = (Latencies::default(), Latencies::default());
        all.record(Duration::ZERO);
        other.record(Duration::MAX);
        all.add(&other);
        assert_eq!(all.percentile(50), Some(1));
        assert!(all.percentile(99).unwrap() > 60_000_000);
    }
}
