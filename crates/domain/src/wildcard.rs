//! Name patterns with `*` as a wildcard.

/// True if a text matches a pattern in which `*` stands for any text. Takes at most time proportional to the product of
/// both lengths.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // The position of the last star, and the position in the text from which a retry continues.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if pattern.get(at) == Some(&text[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((wild, from)) = star {
            star = Some((wild, from + 1));
            (at, read) = (wild + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}
