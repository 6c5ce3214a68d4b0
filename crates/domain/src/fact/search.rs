//! Full-text search over the facts of one member. They are few, so each search scans all of them, without an index.
//!
//! Ranked by Okapi BM25 (Robertson and Zaragoza, 2009) with its usual parameters. Prefix matches in both directions
//! count with a lower weight, so that other word endings are found.

use super::Fact;
use super::words::words;
use crate::ids::Timestamp;

/// BM25 `k1`: how quickly repetitions of a word stop adding to the score.
const SATURATION: f64 = 1.2;
/// BM25 `b`: the weight of a fact's length.
const LENGTH: f64 = 0.75;
const QUERY_WORDS: usize = 16;
/// The weight of a word that begins with the query word, and the shortest such query word, in Unicode scalar values.
const BEGINS: (f64, usize) = (0.6, 2);
/// The weight of a word that is a prefix of the query word, and the shortest such word.
const BEGUN: (f64, usize) = (0.4, 4);

/// A search that receives one fact after the other. The cost per fact is bounded by the length of a fact.
#[derive(Debug)]
pub struct Search {
    wanted: Vec<String>,
    /// For each fact: the weighted count of each query word, the number of words, and the time it was told.
    looked: Vec<(Vec<f64>, f64, Timestamp)>,
}

impl Search {
    /// Creates a search for these words. A query without words returns the newest facts.
    #[must_use]
    pub fn new(query: &str) -> Self {
        let mut wanted: Vec<String> = Vec::new();
        for word in words(query) {
            if wanted.len() == QUERY_WORDS {
                break;
            }
            if !wanted.contains(&word) {
                wanted.push(word);
            }
        }
        Self { wanted, looked: Vec::new() }
    }

    /// Examines the next fact.
    pub fn look(&mut self, fact: &Fact) {
        let mut counts = vec![0.0; self.wanted.len()];
        let mut length = 0.0;
        if !self.wanted.is_empty() {
            for word in words(&fact.text) {
                length += 1.0;
                for (count, wanted) in counts.iter_mut().zip(&self.wanted) {
                    *count += likeness(&word, wanted);
                }
            }
        }
        self.looked.push((counts, length, fact.told));
    }

    /// Returns the best matching facts, best first, at most `most`, as indices in the order of examination. Of two
    /// equal scores, the newer fact comes first.
    #[must_use]
    pub fn best(&self, most: usize) -> Vec<usize> {
        let told = |at: &usize| (self.looked[*at].2, *at);
        let mut best: Vec<(f64, usize)> =
            self.scores().into_iter().zip(0..).filter(|(score, _)| *score > 0.0).collect();
        best.sort_by(|(one, at), (other, other_at)| other.total_cmp(one).then_with(|| told(other_at).cmp(&told(at))));
        best.into_iter().take(most).map(|(_, at)| at).collect()
    }

    /// Returns the score of each fact; 0 if no word matches.
    fn scores(&self) -> Vec<f64> {
        if self.wanted.is_empty() {
            return vec![1.0; self.looked.len()];
        }
        let all = float(self.looked.len());
        let usual = self.looked.iter().map(|(_, length, _)| length).sum::<f64>() / all.max(1.0);
        let rarity = |word: usize| {
            let having = float(self.looked.iter().filter(|(counts, ..)| counts[word] > 0.0).count());
            (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
        };
        let rarities: Vec<f64> = (0..self.wanted.len()).map(rarity).collect();
        let score = |(counts, length, _): &(Vec<f64>, f64, Timestamp)| {
            let damping = SATURATION * (1.0 - LENGTH + LENGTH * length / usual.max(1.0));
            let of = |(count, rarity): (&f64, &f64)| rarity * count * (SATURATION + 1.0) / (count + damping);
            counts.iter().zip(&rarities).map(of).sum()
        };
        self.looked.iter().map(score).collect()
    }
}

/// Returns the similarity of a word to the query word, from 0 to 1.
fn likeness(word: &str, wanted: &str) -> f64 {
    // Fast path: most words differ in their first byte.
    if word.as_bytes().first() != wanted.as_bytes().first() {
        return 0.0;
    }
    let long = |text: &str, least: usize| text.chars().nth(least - 1).is_some();
    if word == wanted {
        1.0
    } else if word.starts_with(wanted) && long(wanted, BEGINS.1) {
        BEGINS.0
    } else if wanted.starts_with(word) && long(word, BEGUN.1) {
        BEGUN.0
    } else {
        0.0
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
const fn float(count: usize) -> f64 {
    count as f64
}
