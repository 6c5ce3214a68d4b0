//! Questions recorded for `staffai replay`, without the names and ids in them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::clean::clean;
use crate::ids::{MessageId, Person, Timestamp};
use crate::turn::Turn;

/// Maximum number of recorded questions.
pub const RECORDED_MAX: usize = 1_000;
/// Maximum number of Unicode scalar values of a recorded question; the rest is cut.
pub const QUESTION_CHARS: usize = 2_000;
/// The number of digits in a word that can be an id or a telephone number.
const DIGITS: usize = 6;

/// A recorded question as stored. Its person and message are kept for deletion only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedQuestion {
    /// The text, as [`cleaned`] returns it.
    pub question: String,
    /// The person who asked.
    pub person: Person,
    /// The message.
    pub message: MessageId,
    /// The time of the question.
    pub at: Timestamp,
}

impl RecordedQuestion {
    /// Returns the record of a turn's question; `None` if no text is left, or if no message triggered it.
    #[must_use]
    pub fn of(turn: &Turn) -> Option<Self> {
        let question = cleaned(&turn.text, &turn.name);
        let fits = turn.trigger.has_message() && turn.given.is_none() && !question.is_empty();
        let Turn { person, at, .. } = turn;
        fits.then(|| Self { question, person: person.clone(), message: turn.id.trigger(), at: *at })
    }
}

/// Returns the slot of a message among this many. A later message with the same slot replaces the question there, so
/// the number of stored questions is bounded.
#[must_use]
pub fn slot(message: &MessageId, slots: usize) -> usize {
    let digest = Sha256::digest(message.to_string().as_bytes());
    let number = digest.iter().take(4).fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
    number % slots.clamp(1, RECORDED_MAX)
}

/// Returns a text without mentions, addresses, links, long numbers and the name of its author. Other names of people
/// cannot be told from words and stay.
#[must_use]
pub fn cleaned(text: &str, author: &str) -> String {
    let names = names(author);
    let text = clean(text, QUESTION_CHARS);
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A number may be written in groups.
        let groups = words.chunk_by(|left, right| is_number(left) && is_number(right));
        let shown = groups.flat_map(|group| match group {
            [word] => vec![shown(word, &names)],
            group if group.iter().map(|word| digits(word)).sum::<usize>() >= DIGITS => vec!["[number]"],
            group => group.to_vec(),
        });
        shown.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the forms of a name: each word of it, the parts of its words, such as `Jean` of `Jean-Paul`, and neighbouring
/// parts or all of them written together.
fn names(author: &str) -> Vec<String> {
    let parts: Vec<String> = runs(author).map(plain).collect();
    let joined = parts.windows(2).map(<[String]>::concat).chain([parts.concat()]);
    let words = author.split_whitespace().map(plain);
    let long = parts.iter().filter(|part| part.chars().nth(1).is_some()).cloned();
    words.chain(long).chain(joined).filter(|name| !name.is_empty()).collect()
}

fn shown<'a>(word: &'a str, names: &[String]) -> &'a str {
    let is_name = |run: &str| names.contains(&plain(run));
    if is_link(word) {
        "[link]"
    } else if word.contains('@') {
        "[name]"
    } else if digits(word) >= DIGITS {
        "[number]"
    } else if is_name(word) || runs(word).any(is_name) {
        "[name]"
    } else {
        word
    }
}

/// True for an address, also without a scheme: a domain before a path, a query or a fragment.
fn is_link(word: &str) -> bool {
    // A number such as 3.5 is no host, and four of them are.
    let is_host = |host: &str| {
        let dots = host.trim_matches('.').matches('.').count();
        dots == 3 || (dots > 0 && host.chars().any(char::is_alphabetic))
    };
    word.contains("://")
        || word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www."))
        || word
            .find(['/', '?', '#'])
            .is_some_and(|at| is_host(&word[..at]) && (word[at..].len() > 1 || word.ends_with('/')))
}

/// Returns the runs of letters and digits of a word. A letter and its accent may be two characters.
fn runs(word: &str) -> impl Iterator<Item = &str> {
    word.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c)).filter(|run| !run.is_empty())
}

fn digits(word: &str) -> usize {
    word.chars().filter(|c| c.is_numeric()).count()
}

fn is_number(word: &str) -> bool {
    digits(word) > 0 && word.chars().all(|c| c.is_numeric() || c.is_ascii_punctuation())
}

/// Returns the letters and digits of a word in lower case, without accents, in one form of their several.
fn plain(word: &str) -> String {
    word.nfkd().filter(|c| c.is_alphanumeric() && !is_combining_mark(*c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Door;

    #[test]
    fn names_addresses_links_and_ids_are_removed() {
        let text = "I am Ada (ada!), ask @Ben or <@123456> at ben@example.org,\nsee https://x.example/a and order 1234567 of 2026";
        assert_eq!(
            cleaned(text, "Ada Lovelace"),
            "I am [name] [name] ask [name] or [name] at [name]\nsee [link] and order [number] of 2026"
        );
        assert_eq!(
            cleaned("Ada's or Ada/Ben: www.example.org/a, +49 170 123 45 67 or 12 34", "Ada"),
            "[name] or [name] [link] [number] or 12 34"
        );
        assert_eq!(cleaned("see example.org/u?token=abc, and/or 1.", "Ada"), "see [link] and/or 1.");
        assert_eq!(
            cleaned("example.org?token=abc example.org#a 10.0.0.1/x a 3.5/10 from example.org?", "Ada"),
            "[link] [link] [link] a 3.5/10 from example.org?"
        );
        for name in ["ada.l_x", "j_doe", "Jean-Paul", "D’Arcy", "Ann-Marie [name]"] {
            let told = cleaned(&format!("hello, I am {name} today"), name);
            let words = told.strip_prefix("hello, I am ").and_then(|rest| rest.strip_suffix(" today"));
            assert!(words.is_some_and(|words| words.split(' ').all(|word| word == "[name]")), "{told}");
        }
        let told = |name: &str, text: &str| assert_eq!(cleaned(text, name), "[name]", "{name}: {text}");
        for (composed, decomposed) in [("Ümit", "U\u{308}mit"), ("Iñigo", "In\u{303}igo"), ("Zoë", "Zoe\u{308}")] {
            told(composed, decomposed);
            told(decomposed, composed);
        }
        for (name, text) in
            [("DJ K", "DJK"), ("ÅSA Öst", "ÅSAÖst"), ("ÅSA Öst", "asaost"), ("Anna Maria X", "AnnaMaria")]
        {
            told(name, text);
        }
        assert_eq!(cleaned("A\u{30a}SA O\u{308}st is here", "ÅSA Öst"), "[name] [name] is here");
        assert_eq!(cleaned("Jean and Paul are Jean-Paul", "Jean-Paul"), "[name] and [name] are [name]");
        assert_eq!(cleaned("  \u{200b} ", "x"), "");
        assert!(cleaned(&"word ".repeat(5_000), "").chars().count() <= QUESTION_CHARS + 4);
    }

    #[test]
    fn a_message_has_one_slot_and_there_are_no_more_slots_than_questions() {
        let door = Door::new("discord");
        let slots: Vec<usize> = (0..2_000).map(|id| slot(&MessageId::new(door.clone(), id.to_string()), 50)).collect();
        let used: std::collections::BTreeSet<usize> = slots.iter().copied().collect();
        assert_eq!((used.len(), used.last()), (50, Some(&49)));
        assert_eq!(slots[7], slot(&MessageId::new(door.clone(), "7"), 50));
        assert_eq!(slot(&MessageId::new(door, "7"), 0), 0);
    }

    proptest! {
        #[test]
        fn no_mention_and_no_long_number_is_left(text in "\\PC{0,200}", author in "\\PC{0,20}") {
            let cleaned = cleaned(&text, &author);
            prop_assert!(!cleaned.contains('@') && !cleaned.contains("://"));
            let digits = |word: &str| word.chars().filter(|c| c.is_numeric()).count();
            prop_assert!(cleaned.split_whitespace().all(|word| digits(word) < DIGITS));
        }
    }
}
