//! Full stops that end no sentence: one row for each language. A text may mix languages, so all rows apply.

/// Words before such a full stop, in lower case and without it.
const ROWS: [(&str, &[&str]); 3] = [
    (
        "en",
        &[
            "approx", "ave", "capt", "cf", "co", "col", "corp", "dept", "dr", "est", "fig", "gen", "gov", "hon", "inc",
            "jr", "lt", "ltd", "messrs", "mr", "mrs", "ms", "mt", "prof", "rd", "rep", "rev", "sen", "sgt", "sr", "st",
            "vol", "vs",
        ],
    ),
    (
        "de",
        &[
            "abb", "abs", "bzw", "ca", "dipl", "evtl", "fr", "geb", "ggf", "hr", "hrsg", "inkl", "mio", "mrd", "nr",
            "sog", "std", "str", "tel", "usw", "vgl", "zzgl",
        ],
    ),
    (
        "es",
        &[
            "art", "avda", "cap", "dra", "dña", "ee", "ej", "lic", "núm", "pág", "págs", "sra", "srta", "ud", "uds",
            "uu",
        ],
    ),
];

/// German words before the number of a day: "am 3. Mai".
const BEFORE_DAY: [&str; 11] = ["ab", "am", "bis", "das", "dem", "den", "der", "die", "seit", "vom", "zum"];

/// True if a full stop behind these words usually ends no sentence. `before` is the word before `word`, which has no
/// full stop of its own at its end; `begins` is true if `word` is the first of its line.
pub(crate) fn continues(before: &str, word: &str, begins: bool) -> bool {
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    if word.chars().all(|c| c.is_ascii_digit()) {
        let is_day = word.len() <= 2 && BEFORE_DAY.contains(&before.to_lowercase().as_str());
        return !word.is_empty() && (begins || is_day);
    }
    let mut letters = word.chars();
    // An initial, or one letter of an abbreviation with spaces ("z. B.").
    if letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none() {
        return true;
    }
    // Abbreviations with full stops inside: "e.g.", "U.S.", "p.ej.".
    let is_short = |part: &str| (1..=2).contains(&part.chars().count()) && part.chars().all(char::is_alphabetic);
    if word.contains('.') && word.split('.').all(is_short) {
        return true;
    }
    let word = word.to_lowercase();
    ROWS.iter().any(|(_, words)| words.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_stop_behind_an_abbreviation_ends_no_sentence() {
        for (before, word, begins) in [
            ("", "Dr", true),
            ("with", "e.g", false),
            ("", "z", false),
            ("(", "(approx", false),
            ("am", "3", false),
            ("", "12", true),
            ("", "Sra", false),
        ] {
            assert!(continues(before, word, begins), "{word}");
        }
        for (before, word, begins) in [("in", "2024", false), ("the", "end", false), ("", "example.org", false)] {
            assert!(!continues(before, word, begins), "{word}");
        }
    }
}
