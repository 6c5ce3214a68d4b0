//! An index of tools by words, for searches and for the tools that a question names.

use std::collections::HashMap;

use super::catalogue::Catalogue;

/// The name of the tool that searches for other tools.
pub const FIND_TOOLS: &str = "find_tools";
/// The maximum number of tools returned for one search or question.
pub const MATCHES_MAX: usize = 10;
/// The maximum number of words of a question that are looked up.
const WORDS_MAX: usize = 200;
const WORD_BYTES: usize = 3;
/// The first character of the scripts without spaces between words, and of related symbols.
const FIRST_WITHOUT_SPACES: char = '\u{2e80}';
/// The number of characters in the stem of a word.
const STEM: usize = 5;
/// The maximum number of distinct words indexed per tool.
const TOOL_WORDS_MAX: usize = 200;
/// The maximum number of distinct words in the index; later tools are indexed only by these words.
const INDEX_WORDS_MAX: usize = 100_000;
/// The number of tools from which a word is too common to be useful.
const COMMON: usize = 500;
/// A word of a question counts if at most one of this many tools has it.
const RARITY: usize = 4;
/// Words that are frequent in questions of any subject, in lower case.
const FREQUENT: [&str; 92] = [
    "about", "after", "again", "all", "also", "and", "any", "are", "ask", "because", "been", "before", "but", "can",
    "could", "did", "does", "don", "every", "few", "for", "from", "get", "give", "good", "had", "has", "have", "her",
    "here", "him", "his", "how", "into", "its", "just", "know", "let", "like", "long", "made", "make", "many", "may",
    "more", "most", "much", "must", "need", "not", "now", "one", "only", "other", "our", "out", "over", "please",
    "said", "say", "see", "she", "should", "show", "some", "tell", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "too", "use", "very", "want", "was", "what", "when", "where", "which", "who",
    "why", "will", "with", "would", "you", "your",
];

/// An inverted index from words to tools. Built once per catalogue.
#[derive(Debug, Default)]
pub struct Index {
    places: HashMap<String, Vec<u32>>,
    /// The number of tools.
    tools: usize,
}

impl Index {
    /// Builds the index of a catalogue: words of names, descriptions and the operator's descriptions of servers.
    #[must_use]
    pub fn new(catalogue: &Catalogue) -> Self {
        let mut places: HashMap<String, Vec<u32>> = HashMap::new();
        for (place, entry) in (0_u32..).zip(catalogue.entries()) {
            let about = entry.about.as_deref().unwrap_or_default();
            let kind = words(entry.tool.kind.as_str());
            let said = words(&entry.name).chain(words(about)).chain(kind).chain(words(&entry.spec.description));
            for word in said.take(TOOL_WORDS_MAX) {
                if places.len() >= INDEX_WORDS_MAX && !places.contains_key(&word) {
                    continue;
                }
                let at = places.entry(word).or_default();
                // One entry beyond the limit is enough to mark the word as common.
                if at.last() != Some(&place) && at.len() <= COMMON {
                    at.push(place);
                }
            }
        }
        places.retain(|_, at| at.len() <= COMMON);
        Self { places, tools: catalogue.entries().len() }
    }

    /// Returns the indices of the tools that match a text best, best first: at most `most` of those for which `visible`
    /// returns true.
    #[must_use]
    pub fn find(&self, text: &str, most: usize, visible: impl Fn(u32) -> bool) -> Vec<usize> {
        self.best(words(text), COMMON, most, visible)
    }

    /// Returns the indices of the tools that a question names, best first: at most `most` of those for which `visible`
    /// returns true. Frequent words, and words that many tools share, do not count.
    #[must_use]
    pub fn named(&self, question: &str, most: usize, visible: impl Fn(u32) -> bool) -> Vec<usize> {
        let telling = parts(question).filter(|word| FREQUENT.binary_search(&&*word.to_ascii_lowercase()).is_err());
        self.best(telling.flat_map(words), self.tools.div_ceil(RARITY), most, visible)
    }

    /// Returns the indices of the tools with the rarest of these words, of those that at most `shared` tools have.
    fn best(
        &self,
        words: impl Iterator<Item = String>,
        shared: usize,
        most: usize,
        visible: impl Fn(u32) -> bool,
    ) -> Vec<usize> {
        let mut scores: HashMap<u32, u64> = HashMap::new();
        for word in words.take(WORDS_MAX) {
            let Some(at) = self.places.get(&word).filter(|at| at.len() <= shared) else { continue };
            // Inverse document frequency: a rare word weighs more than a common one.
            let weight = 1_000_000 / at.len() as u64;
            for place in at {
                *scores.entry(*place).or_default() += weight;
            }
        }
        let mut best: Vec<(u64, u32)> =
            scores.into_iter().filter(|(place, _)| visible(*place)).map(|(place, score)| (score, place)).collect();
        best.sort_unstable_by_key(|(score, place)| (std::cmp::Reverse(*score), *place));
        best.into_iter().take(most).map(|(_, place)| place as usize).collect()
    }
}

/// Returns the words of a text in lower case, without endings that differ between singular and plural. Words of
/// non-Latin scripts also count by their parts: character pairs if the script has no spaces, else their stem, which the
/// grammatical cases share.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    parts(text).flat_map(|word| {
        let mut parts = Vec::new();
        if word.is_ascii() {
            parts.push(word.to_ascii_lowercase().trim_end_matches('s').to_owned());
            return parts;
        }
        let whole = word.to_lowercase();
        let chars: Vec<char> = whole.chars().collect();
        if chars.iter().any(|c| *c >= FIRST_WITHOUT_SPACES) {
            parts.extend(chars.windows(2).take(WORDS_MAX).map(|pair| pair.iter().collect()));
        } else if chars.len() > STEM {
            parts.push(chars.iter().take(STEM).collect());
        }
        parts.push(whole.trim_end_matches('s').to_owned());
        parts
    })
}

/// Returns the words of a text as they are written.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::catalogue::Offer;
    use super::super::testing::tool;
    use super::*;

    fn catalogue(tools: &[(&str, &str)]) -> Arc<Catalogue> {
        let tools = tools.iter().map(|(name, about)| Arc::new(tool("s", name, about))).collect();
        let offer = Offer { tools, ..Offer::default() };
        Arc::new(Catalogue::new(&[offer], &Catalogue::default(), |_| json!({})))
    }

    fn names(catalogue: &Catalogue, places: &[usize]) -> Vec<String> {
        places.iter().map(|place| catalogue.entries()[*place].name.to_string()).collect()
    }

    #[test]
    fn the_question_names_its_tools_and_the_rare_word_counts_most() {
        let many: Vec<(String, String)> =
            (0..400).map(|n| (format!("list_{n}"), "lists things of a project".to_owned())).collect();
        let mut tools: Vec<(&str, &str)> = many.iter().map(|(name, about)| (&**name, &**about)).collect();
        tools.push(("weather", "the forecast of a city"));
        let all = catalogue(&tools);
        let index = Index::new(&all);
        let found = index.find("Lists forecasts of my PROJECT please", 3, |_| true);
        assert_eq!(found.len(), 3);
        assert_eq!(names(&all, &found)[0], "s__weather");
        assert_eq!(index.find("nothing fits", 3, |_| true), [0; 0]);
    }

    #[test]
    fn a_question_names_tools_by_rare_words_and_hidden_ones_never() {
        let mut tools = vec![("weather", "what you should know about the sky"), ("tides", "the sea")];
        let others: Vec<String> = (0..8).map(|number| format!("list_{number}")).collect();
        tools.extend(others.iter().map(|name| (&**name, "things of the harbour")));
        let all = catalogue(&tools);
        let index = Index::new(&all);
        let named = |question: &str| names(&all, &index.named(question, 3, |_| true));
        assert_eq!(named("What should you know about the harbour?"), [""; 0], "frequent words and shared ones");
        assert_eq!(named("Tell me about tides, and the sky"), ["s__tides", "s__weather"]);
        let tides = u32::try_from(all.position("s__tides").unwrap()).unwrap();
        assert_eq!(index.named("tides", 3, |at| at != tides), [0; 0]);
        assert!(FREQUENT.is_sorted());
    }
}
