//! Finds facts by words: those of one member are few, so each search looks at all of them and keeps no index of words.
//!
//! Ranked by Okapi BM25 (Robertson and Zaragoza, 2009) with its usual parameters. A word also counts, for less, that begins with a
//! word of the query, or that a word of the query begins with, so that other endings of a word are found.

use super::Fact;
use super::words::words;
use crate::ids::Timestamp;

/// How soon more of the same word adds little.
const SATURATION: f64 = 1.2;
/// How much the length of a fact counts.
const LENGTH: f64 = 0.75;
/// The most words of a query that are looked for.
const QUERY_WORDS: usize = 16;
/// What a word is worth that begins with the word that is looked for, and the shortest such word, in scalar values.
const BEGINS: (f64, usize) = (0.6, 2);
/// What a word is worth that the word that is looked for begins with, and the shortest such word.
const BEGUN: (f64, usize) = (0.4, 4);

/// A search, which is shown one fact after the other: what it costs to look at a fact is bounded by the length of one.
#[derive(Debug)]
pub struct Search {
    wanted: Vec<String>,
    /// Of each fact: how often it has each of the words, how many words it has, and when it was told.
    looked: Vec<(Vec<f64>, f64, Timestamp)>,
}

impl Search {
    /// A search for these words; without a word it finds what was told last.
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

    /// Looks at the next fact.
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

    /// The facts that fit best, the best one first, at most `most`, as their places in the order in which they were looked at. Of two
    /// that fit alike the one that was told later comes first.
    #[must_use]
    pub fn best(&self, most: usize) -> Vec<usize> {
        let told = |at: &usize| (self.looked[*at].2, *at);
        let mut best: Vec<(f64, usize)> =
            self.scores().into_iter().zip(0..).filter(|(score, _)| *score > 0.0).collect();
        best.sort_by(|(one, at), (other, other_at)| other.total_cmp(one).then_with(|| told(other_at).cmp(&told(at))));
        best.into_iter().take(most).map(|(_, at)| at).collect()
    }

    /// How well each fact fits; 0 when no word of it does.
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

/// How much a word is the one that is looked for, from 0 to 1.
fn likeness(word: &str, wanted: &str) -> f64 {
    // Most words differ in how they begin.
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
