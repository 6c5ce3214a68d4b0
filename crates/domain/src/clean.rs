//! Sanitizes text from outside for models and people: no hidden characters, and no forged notes of this program.

/// Marks the place where a text was cut.
pub(crate) const CUT: &str = " […]";

/// Returns outside text as a model may see it: without characters that people cannot see but models read, and cut
/// after `most` Unicode scalar values.
#[must_use]
pub fn clean(text: &str, most: usize) -> String {
    // Fast path: most text is plain ASCII, and prompts hold a lot of it.
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
        // All line separators become line breaks, so that the beginning of each line is checked.
        let c = if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c };
        if is_shown_after(before, c) {
            kept.push(c);
        }
        before = c;
    }
    kept
}

/// Returns the last `most` characters of a text, cleaned, on one line. The cost does not depend on the text's length.
#[must_use]
pub fn tail(text: &str, most: usize) -> String {
    let begin = text.char_indices().rev().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    clean(&text[begin..], most).replace('\n', " ")
}

/// Beginnings of the program's own notes among members' messages.
const NOTES: [&str; 10] = [
    "[facts that ",
    "[settings of the member ",
    "[summary of ",
    "[no longer visible",
    "[quoted message by ",
    "[end of the ",
    "[the member replies to ",
    "[attached ",
    "[attached: ",
    // In histories: before the question of another person.
    "[asked by member ",
];

/// Cleans a member's text, and replaces the bracket of each line that begins like one of [`NOTES`]. Members cannot
/// forge quotes or other speakers.
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

/// True for tag characters, bidirectional controls, fillers, invisible operators, and controls other than line break
/// and tab.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{3164}' | '\u{ffa0}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text for operators: characters that [`clean`] would remove are escaped, such as `\u{e0041}`, so that
/// they are visible.
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

/// False if a character only hides data behind the one before it. Joiners and variation selectors shape scripts and
/// emoji; a run of them, or one after an ASCII character, shapes nothing.
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

/// True for the base characters of keycap emoji.
const fn is_keycap_base(c: char) -> bool {
    matches!(c, '0'..='9' | '#' | '*')
}
