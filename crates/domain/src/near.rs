//! Suggestions for misspelled names.

/// The longest word compared, in bytes; longer ones are not misspellings of known names.
const LONGEST: usize = 200;

/// Returns the most similar known name, `None` if none is similar.
#[must_use]
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > LONGEST {
        return None;
    }
    known
        .map(|name| (distance(wrong, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(wrong.len()) / 3)
        .map(|(_, name)| name)
}

/// Returns the Levenshtein distance: the number of single-letter insertions, removals and replacements.
#[must_use]
pub fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let known = ["llm.timeout", "llm.url", "log.level"];
        assert_eq!(nearest("llm.timout", known.into_iter()), Some("llm.timeout"));
        assert_eq!(nearest("weather.station", known.into_iter()), None);
        assert_eq!(nearest(&"l".repeat(100_000), known.into_iter()), None);
    }
}
