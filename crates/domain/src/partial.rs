//! A streaming parser of a typed reply: the text of its `response` field, as far as it has arrived.
//!
//! Text that was shown is never retracted, so only certain text is shown. The parser stops at an answer that begins
//! with prose, at a response that begins like JSON or markup, and at anything that makes the reply invalid. Only
//! [`super::reply`] parses the final reply; this parser runs ahead of it.

use super::reply::{MAX_CONTENT_BYTES, salvage};

mod plain;

pub use plain::Plain;

/// The field with the text for members.
const FIELD: &str = "response";

/// The first characters of a response whose final form may differ: JSON goes into a code block; thoughts and tool calls
/// are removed.
const UNSURE: [char; 4] = ['{', '[', '<', '◁'];

const FENCE: &str = "```";

/// The longest thought mark, in Unicode scalar values.
const MARK_CHARS: usize = 12;

/// A parser of one growing answer.
#[derive(Debug)]
pub struct Partial {
    stage: Stage,
    /// The decoded response, without leading white space.
    response: String,
    /// The length of the response without trailing white space, in bytes.
    shown: usize,
    /// The number of bytes of the answer read so far.
    read: usize,
}

#[derive(Debug)]
enum Stage {
    /// Before the object: the text read since the last mark.
    Lead(String),
    /// After an opening fence: in its language, or before the object.
    Fence,
    /// Inside a thought: its closing mark, and the last characters read.
    Thought(&'static str, String),
    /// Inside the object, before a key.
    Entry,
    /// Inside a key.
    Key(Text),
    /// After a key; true if it is `response`.
    Colon(bool),
    /// Before a value; true if it belongs to `response`.
    Value(bool),
    /// Inside a value of another field.
    Other(Depth),
    /// Inside the response.
    Response(Escape),
    /// The end: the rest is ignored.
    Over,
}

/// A key in progress.
#[derive(Debug, Default)]
struct Text {
    plain: String,
    escaped: bool,
}

/// The nesting inside a value of another field.
#[derive(Debug, Default)]
struct Depth {
    brackets: usize,
    in_string: bool,
    escaped: bool,
}

/// The position inside an escape sequence.
#[derive(Debug, Clone, Copy, Default)]
enum Escape {
    #[default]
    None,
    /// After the backslash.
    Begun,
    /// After `\u`: the number of digits read, their value, and the first half of a surrogate pair.
    Code { digits: u8, value: u32, high: Option<u32> },
    /// After the first half of a surrogate pair; `backslash` is true if the backslash of the second half was read.
    Half { high: u32, backslash: bool },
}

impl Default for Partial {
    fn default() -> Self {
        Self { stage: Stage::Lead(String::new()), response: String::new(), shown: 0, read: 0 }
    }
}

impl Partial {
    /// Appends the next text from the model, cut anywhere between characters.
    pub fn push(&mut self, more: &str) {
        self.read += more.len();
        if self.read > MAX_CONTENT_BYTES {
            // The final answer is refused for its length.
            self.stage = Stage::Over;
        }
        for letter in more.chars() {
            if matches!(self.stage, Stage::Over) {
                return;
            }
            let stage = std::mem::replace(&mut self.stage, Stage::Over);
            self.stage = self.step(stage, letter);
        }
    }

    /// Returns the certain beginning of the final response, without leading and trailing white space.
    #[must_use]
    pub fn visible(&self) -> &str {
        let shown = &self.response[..self.shown];
        if shown.starts_with(UNSURE) { "" } else { shown }
    }

    fn step(&mut self, stage: Stage, letter: char) -> Stage {
        match stage {
            Stage::Lead(read) => lead(read, letter),
            Stage::Fence => match letter {
                '{' => Stage::Entry,
                letter if letter.is_ascii_alphanumeric() => Stage::Fence,
                letter if letter.is_whitespace() => Stage::Lead("\n".to_owned()),
                _ => Stage::Over,
            },
            Stage::Thought(close, read) => thought(close, read, letter),
            Stage::Entry => match letter {
                '"' => Stage::Key(Text::default()),
                ',' => Stage::Entry,
                letter if letter.is_whitespace() => Stage::Entry,
                _ => Stage::Over,
            },
            Stage::Key(text) => key(text, letter),
            Stage::Colon(ours) => match letter {
                ':' => Stage::Value(ours),
                letter if letter.is_whitespace() => Stage::Colon(ours),
                _ => Stage::Over,
            },
            Stage::Value(ours) => match letter {
                letter if letter.is_whitespace() => Stage::Value(ours),
                '"' if ours => Stage::Response(Escape::None),
                // A response that is not a string makes the reply invalid.
                _ if ours => Stage::Over,
                letter => other(Depth::default(), letter),
            },
            Stage::Other(depth) => other(depth, letter),
            Stage::Response(escape) => self.response(escape, letter),
            Stage::Over => Stage::Over,
        }
    }

    fn response(&mut self, escape: Escape, letter: char) -> Stage {
        let next = match (escape, letter) {
            (Escape::None, '"') => return Stage::Over,
            (Escape::None, '\\') => Escape::Begun,
            (Escape::None, letter) => self.take(letter),
            (Escape::Begun, 'u') => Escape::Code { digits: 0, value: 0, high: None },
            (Escape::Begun, letter) => match unescaped(letter) {
                Some(letter) => self.take(letter),
                None => return Stage::Over,
            },
            (Escape::Code { digits, value, high }, letter) => {
                let Some(digit) = letter.to_digit(16) else { return Stage::Over };
                let value = value * 16 + digit;
                if digits < 3 {
                    Escape::Code { digits: digits + 1, value, high }
                } else {
                    match self.code(value, high) {
                        Some(next) => next,
                        None => return Stage::Over,
                    }
                }
            }
            (Escape::Half { high, backslash: false }, '\\') => Escape::Half { high, backslash: true },
            (Escape::Half { high, backslash: true }, 'u') => Escape::Code { digits: 0, value: 0, high: Some(high) },
            // Half a surrogate pair is invalid.
            (Escape::Half { .. }, _) => return Stage::Over,
        };
        Stage::Response(next)
    }

    fn take(&mut self, letter: char) -> Escape {
        let blank = letter.is_whitespace();
        if !(blank && self.response.is_empty()) {
            self.response.push(letter);
        }
        if !blank {
            self.shown = self.response.len();
        }
        Escape::None
    }

    /// Appends the character of a complete `\uXXXX`; `None` if there is no such character.
    fn code(&mut self, value: u32, high: Option<u32>) -> Option<Escape> {
        let value = match (high, value) {
            (None, 0xD800..=0xDBFF) => return Some(Escape::Half { high: value, backslash: false }),
            (None, value) => value,
            (Some(high), 0xDC00..=0xDFFF) => 0x1_0000 + ((high - 0xD800) << 10) + (value - 0xDC00),
            (Some(_), _) => return None,
        };
        char::from_u32(value).map(|letter| self.take(letter))
    }
}

/// Searches for the object after leading fences and thoughts.
fn lead(mut read: String, letter: char) -> Stage {
    if letter.is_whitespace() && read.trim().is_empty() {
        return Stage::Lead(read);
    }
    let fenced = read.starts_with('\n');
    if letter == '{' && read.trim().is_empty() {
        return Stage::Entry;
    }
    // After the opening fence, only the object is valid.
    if fenced {
        return Stage::Over;
    }
    read.push(letter.to_ascii_lowercase());
    if read == FENCE {
        return Stage::Fence;
    }
    if let Some((_, close)) = salvage::THOUGHTS.iter().find(|(open, _)| *open == read) {
        return Stage::Thought(close, String::new());
    }
    let begins = |mark: &str| mark.starts_with(read.as_str());
    let possible = begins(FENCE) || salvage::THOUGHTS.iter().any(|(open, _)| begins(open));
    if possible { Stage::Lead(read) } else { Stage::Over }
}

/// Searches for the end of a thought. Nested or quoted marks make the end ambiguous, so they stop the parser.
fn thought(close: &'static str, mut read: String, letter: char) -> Stage {
    read.push(letter.to_ascii_lowercase());
    let doubtful = salvage::THOUGHTS.iter().any(|(open, _)| read.ends_with(open));
    if doubtful || (read.ends_with(close) && read[..read.len() - close.len()].ends_with('`')) {
        return Stage::Over;
    }
    if read.ends_with(close) {
        return Stage::Lead(String::new());
    }
    while read.chars().count() > MARK_CHARS {
        read.remove(0);
    }
    Stage::Thought(close, read)
}

fn key(mut text: Text, letter: char) -> Stage {
    match letter {
        _ if text.escaped => text.escaped = false,
        '\\' => text.escaped = true,
        '"' => return Stage::Colon(text.plain == FIELD),
        _ => {}
    }
    // A longer key, or one with escapes, is another key.
    if text.plain.len() <= FIELD.len() {
        text.plain.push(letter);
    }
    Stage::Key(text)
}

/// Skips a value of another field.
fn other(mut depth: Depth, letter: char) -> Stage {
    match letter {
        _ if depth.escaped => depth.escaped = false,
        '\\' if depth.in_string => depth.escaped = true,
        '"' => depth.in_string = !depth.in_string,
        _ if depth.in_string => {}
        '{' | '[' => depth.brackets += 1,
        // The object ended without a response.
        '}' if depth.brackets == 0 => return Stage::Over,
        '}' | ']' => depth.brackets = depth.brackets.saturating_sub(1),
        ',' if depth.brackets == 0 => return Stage::Entry,
        _ => {}
    }
    Stage::Other(depth)
}

fn unescaped(letter: char) -> Option<char> {
    Some(match letter {
        '"' | '\\' | '/' => letter,
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
