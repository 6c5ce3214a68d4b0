//! The spoken form of a displayed text: no markup, code, tags, addresses or emoji.

/// Maximum length of a tag with its brackets, in bytes. A longer one is text.
pub(crate) const TAG_MAX: usize = 128;
/// Maximum length of inline code that is spoken, in bytes.
const CODE_MAX: usize = 40;

/// Words in square brackets that name an emotion.
const EMOTIONS: [&str; 16] = [
    "anger", "angry", "calm", "disgust", "excited", "fear", "happy", "joy", "laugh", "neutral", "sad", "sadness",
    "shy", "smile", "smirk", "surprise",
];

/// A part of an answer. The displays of all parts, joined, are the answer byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The text to display, with its markup.
    pub display: String,
    /// The text to speak; empty for a silent part.
    pub speech: String,
    /// The emotions that the answer names in square brackets, in order.
    pub emotions: Vec<&'static str>,
    /// True if the text is inside `<speak>`.
    pub speaks: bool,
}

/// Returns the part of a displayed text. `in_code` is true if the text begins inside inline code.
pub(crate) fn part(display: String, speaks: bool, in_code: bool) -> Part {
    let mut voice = Voice { said: String::with_capacity(display.len()), emotions: Vec::new(), line_begun: false };
    voice.read(&display, in_code);
    let Voice { said, emotions, .. } = voice;
    let speech = if said.contains(char::is_alphanumeric) { said.trim().to_owned() } else { String::new() };
    Part { display, speech, emotions, speaks }
}

struct Voice {
    said: String,
    emotions: Vec<&'static str>,
    /// True behind the first character of a line, and behind the marks at its beginning.
    line_begun: bool,
}

impl Voice {
    fn read(&mut self, text: &str, mut in_code: bool) {
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            if c == '`' {
                in_code = !in_code;
                let inside = rest.trim_start_matches('`');
                at += rest.len() - inside.len();
                self.space();
                if in_code && let Some((code, _)) = inside.split_once('`').filter(|(code, _)| is_wordlike(code)) {
                    self.said.push_str(&code.replace('_', " "));
                    at += code.len();
                }
                continue;
            }
            if in_code {
                in_code = c != '\n';
                at += c.len_utf8();
                continue;
            }
            at += self.next(c, rest);
        }
    }

    /// Reads the element that begins with this character, and returns its length in bytes.
    fn next(&mut self, c: char, rest: &str) -> usize {
        if c == '\n' {
            self.line_begun = false;
            self.space();
            return 1;
        }
        if c.is_whitespace() {
            self.space();
            return c.len_utf8();
        }
        let begins = !std::mem::replace(&mut self.line_begun, true);
        if begins && let Some(length) = mark_of_line(rest) {
            // Behind the mark of a quotation or a list, another one may begin.
            self.line_begun = false;
            return length;
        }
        let link = match c {
            '<' => tag(rest),
            '!' if rest.starts_with("![") => link(&rest[1..]).map(|(_, length)| length + 1),
            '[' => self.bracket(rest),
            _ if at_word_start(&self.said) => self.address(rest),
            _ => None,
        };
        if let Some(length) = link {
            return length;
        }
        let joins = |said: &str| said.chars().next_back().is_some_and(char::is_alphanumeric);
        match c {
            '<' | '>' if self.said.ends_with(' ') && rest[1..].starts_with(' ') => self.said.push(c),
            '_' if joins(&self.said) && rest[1..].starts_with(char::is_alphanumeric) => self.space(),
            '*' | '~' | '\\' | '^' | '[' | ']' | '<' | '>' | '_' => {}
            '|' | '{' | '}' => self.space(),
            _ if is_drawn(c) => self.space(),
            _ if c.is_control() => {}
            _ => {
                if matches!(c, '.' | ',' | ';' | ':' | '!' | '?') && self.said.ends_with(' ') {
                    self.said.pop();
                }
                self.said.push(c);
            }
        }
        c.len_utf8()
    }

    fn space(&mut self) {
        if !self.said.is_empty() && !self.said.ends_with(' ') {
            self.said.push(' ');
        }
    }

    /// Reads an emotion, or a link of which the text is spoken.
    fn bracket(&mut self, rest: &str) -> Option<usize> {
        let inside = rest[1..].split_once(']')?.0;
        if let Some(emotion) = EMOTIONS.iter().find(|name| name.eq_ignore_ascii_case(inside)) {
            self.emotions.push(emotion);
            self.space();
            return Some(inside.len() + 2);
        }
        let (text, length) = link(rest)?;
        self.said.extend(text.chars().filter(|c| !matches!(c, '*' | '_' | '`' | '[' | '<' | '>') && !is_drawn(*c)));
        Some(length)
    }

    /// Reads a web address, of which the host is spoken.
    fn address(&mut self, rest: &str) -> Option<usize> {
        let scheme = ["https://", "http://", "www."].into_iter().find(|scheme| rest.starts_with(scheme))?;
        let ends = |c: char| c.is_whitespace() || matches!(c, ')' | '>' | ']' | '"' | '<');
        let whole = rest.split(ends).next()?.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
        let host = whole.get(scheme.len()..)?.split(['/', '?', '#']).next()?;
        self.said.push_str(host.strip_prefix("www.").unwrap_or(host));
        Some(whole.len())
    }
}

/// True for inline code that can be read aloud: a few words, such as the name of a file or a command.
fn is_wordlike(code: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '/' | '+' | '#');
    // A full stop before a space ends a sentence, which no name has.
    let ends = code.contains(". ") || code.ends_with('.');
    code.len() <= CODE_MAX && !ends && code.contains(char::is_alphabetic) && code.chars().all(is_plain)
}

fn at_word_start(said: &str) -> bool {
    !said.ends_with(char::is_alphanumeric)
}

/// Returns the length of a tag such as `<b>`, `</b>` or `<|end|>`.
fn tag(rest: &str) -> Option<usize> {
    let bound = rest.floor_char_boundary(TAG_MAX);
    let end = rest[..bound].find('>')?;
    let named = rest[1..].starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '|' | '!' | '@' | '#' | ':'));
    (named && !rest.starts_with("<http")).then_some(end + 1)
}

/// Returns the text of a link, and the length of the link.
fn link(rest: &str) -> Option<(&str, usize)> {
    let (text, target) = rest[1..].split_once("](")?;
    let end = target.find(')')?;
    (!text.contains('\n')).then_some((text, 1 + text.len() + 2 + end + 1))
}

/// Returns the length of a mark at the beginning of a line: of a heading, a quotation, a list, or small text in Discord.
fn mark_of_line(line: &str) -> Option<usize> {
    let hashes = line.len() - line.trim_start_matches('#').len();
    match line.as_bytes() {
        [b'-', b'#', b' ', ..] => Some(2),
        [b'#', ..] if hashes <= 6 && line[hashes..].starts_with(' ') => Some(hashes),
        [b'>', ..] | [b'-' | b'*' | b'+', b' ', ..] => Some(1),
        _ => None,
    }
}

/// True for emoji, arrows and other pictures, and for the invisible characters that join them.
const fn is_drawn(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{20e3}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{2500}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{1f000}'..='\u{1faff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(display: &str) -> String {
        part(display.to_owned(), false, false).speech
    }

    #[test]
    fn markup_code_and_pictures_are_not_spoken() {
        for (display, speech) in [
            ("**Done** :) 🎉", "Done:)"),
            ("# Heading", "Heading"),
            ("-# small text\n-# and more", "small text and more"),
            ("> - quoted *item*", "quoted item"),
            ("see [the *docs*](https://a.example/b).", "see the docs."),
            ("![a cat](x.png) Look!", "Look!"),
            ("at https://www.example.org/a?b=1, then", "at example.org, then"),
            ("run `cargo test` now", "run cargo test now"),
            ("`src/main.rs` has `my_name`, ``C++`` and `/help`.", "src/main.rs has my name, C++ and /help."),
            ("`roll_dice` did not run", "roll dice did not run"),
            ("call `f(x)` or `a. B` or `{\"tool\": 1}` here", "call or or here"),
            ("`a very long piece of code that has more words than a name` is long", "is long"),
            ("an open `tick", "an open"),
            ("snake_case and _this_", "snake case and this"),
            ("a <b>bold</b> one <|end|>", "a bold one"),
            ("2 < 3 and 4 > 1", "2 < 3 and 4 > 1"),
            ("👩\u{200d}💻🇩🇪 hi", "hi"),
            ("| a | b |", "a b"),
            ("...!?", ""),
            ("— 🎉 —", ""),
            ("it costs $5.", "it costs $5."),
        ] {
            assert_eq!(said(display), speech, "{display}");
        }
    }

    #[test]
    fn emotions_are_data() {
        let part = part("[joy] Hello [Sad] you [sic].".to_owned(), false, false);
        assert_eq!((part.speech.as_str(), part.emotions), ("Hello you sic.", vec!["joy", "sad"]));
    }
}
