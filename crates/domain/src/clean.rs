//! Text from outside, made safe to show to models and to people: nothing hidden in it, nothing that passes for a note of ours.

/// Stands where a text was cut.
pub(crate) const CUT: &str = " […]";

/// Text from outside as a model may see it: without characters that people cannot see but models read, and cut after `most`
/// scalar values.
#[must_use]
pub fn clean(text: &str, most: usize) -> String {
    // Most text is plain, and a prompt holds much of it.
    if text.len() <= most && text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return text.to_owned();
    }
    let mut kept = String::with_capacity(text.len().min(most.saturating_mul(4)));
    let mut before = '\0';
    for (count, c) in text.chars().filter(|c| !is_hidden(*c)).enumerate() {
        if count == most {
            kept.push_str(CUT);
            break;
        }
        // Every character that ends a line ends one here as well, so that the beginning of each line is seen.
        let c = if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c };
        if is_shown_after(before, c) {
            kept.push(c);
        }
        before = c;
    }
    kept
}

/// The end of a text, at most this many characters, on one line. Costs the same however long the text is.
#[must_use]
pub fn tail(text: &str, most: usize) -> String {
    let begin = text.char_indices().rev().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    clean(&text[begin..], most).replace('\n', " ")
}

/// How our own notes begin that stand among what members wrote.
const NOTES: [&str; 7] = [
    "[facts that ",
    "[quoted message by ",
    "[end of the ",
    "[the member replies to ",
    "[attached ",
    "[attached: ",
    // In memory, before the question of another person.
    "[asked by member ",
];

/// What a member wrote, cleaned, with another bracket where a line begins like one of our own notes: no text passes for a quote of
/// ours, or for another speaker.
#[must_use]
pub fn own_words(text: &str) -> String {
    let forged = |line: &str| {
        let start = line.trim_start().as_bytes();
        NOTES
            .iter()
            .any(|note| start.get(..note.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(note.as_bytes())))
    };
    let text = clean(text, usize::MAX);
    let line = |line: &str| if forged(line) { line.replacen('[', "(", 1) } else { line.to_owned() };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Tag characters, bidirectional controls, fillers, invisible operators and other controls but line break and tab.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{3164}' | '\u{ffa0}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A text for operators: what [`clean`] takes out of it is written as an escape such as `\u{e0041}`, so that it is seen.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = '\0';
    for c in text.chars() {
        let hidden = is_hidden(c);
        if hidden || !is_shown_after(before, c) || matches!(c, '\u{2028}' | '\u{2029}') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        before = if hidden { before } else { c };
    }
    shown
}

/// True unless a character only hides data behind the one before it: joiners and variation selectors shape scripts and emoji; a run of
/// them, or one after a Latin letter, shapes nothing.
const fn is_shown_after(before: char, c: char) -> bool {
    let shapes = is_joiner(c) || is_selector(c);
    let after_shape = is_joiner(before) || is_selector(before);
    let emoji_join = is_joiner(c) && is_selector(before);
    !shapes || emoji_join || (!after_shape && !before.is_ascii()) || (is_selector(c) && is_keycap_base(before))
}

const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

const fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180d}' | '\u{180f}')
}

/// The characters that a keycap emoji is made of.
const fn is_keycap_base(c: char) -> bool {
    matches!(c, '0'..='9' | '#' | '*')
}
