//! Words of a text, normalized for comparison: case, accents and variant spellings are removed.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;
use unicode_segmentation::UnicodeSegmentation;

/// The lowest combining class of removed marks: accents and vowel points. Marks of lower classes distinguish letters
/// of their script.
const ACCENTS: u8 = 10;

/// Returns the normalized words by Unicode rules (UAX 29). In scripts without spaces, each sign is a word.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.unicode_words().map(folded).filter(|word| !word.is_empty())
}

/// Normalizes a word: compatibility decomposition without accents, lower case.
fn folded(word: &str) -> String {
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let plain = word.nfkd().filter(|c| canonical_combining_class(*c) < ACCENTS).flat_map(char::to_lowercase);
    let mut folded = String::with_capacity(word.len());
    for c in plain {
        match c {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'þ' => folded.push_str("th"),
            'ı' => folded.push('i'),
            '\u{2019}' | '\'' => {}
            c if canonical_combining_class(c) >= ACCENTS => {}
            c => folded.push(c),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_without_case_accents_and_ways_of_writing() {
        for (text, same) in [
            ("Crème brûlée", "creme brulee"),
            ("STRASSE Straße", "strasse strasse"),
            ("Łódź, Tromsø!", "lodz tromso"),
            ("İstanbul ISPARTA ırmak", "istanbul isparta irmak"),
            ("Ёлка Йод", "елка иод"),
            ("ﬁsh ２０２６ ①", "fish 2026 1"),
            ("don't don\u{2019}t", "dont dont"),
            ("cafe\u{301}", "cafe"),
            ("שָׁלוֹם", "שלום"),
            ("猫が好き", "猫 が 好 き"),
            ("... ?!", ""),
        ] {
            let own: Vec<String> = words(text).collect();
            // The expected words in the same decomposed form.
            let expected: Vec<String> = same.split_whitespace().map(|word| word.nfkd().collect()).collect();
            assert_eq!(own, expected, "{text}");
        }
    }
}
