//! Blocks that are displayed and never spoken: code, thoughts and calls of tools.

/// The names of tags that open and close such blocks, in lower case.
const TAGS: [(&str, &str); 10] = [
    ("think", "/think"),
    ("thinking", "/thinking"),
    ("thought", "/thought"),
    ("reasoning", "/reasoning"),
    ("tool_call", "/tool_call"),
    ("tool_calls", "/tool_calls"),
    ("function", "/function"),
    ("function_call", "/function_call"),
    ("|tool_call_begin|", "|tool_call_end|"),
    ("|tool_calls_section_begin|", "|tool_calls_section_end|"),
];

/// Maximum length of a name of a tag that is looked at, in bytes.
const NAME_MAX: usize = 64;

/// A silent block.
#[derive(Debug)]
pub(super) enum Block {
    /// A block of code. `rest` is true on a line that cannot close it.
    Fence { ticks: usize, rest: bool },
    /// A JSON object.
    Json { depth: usize, in_string: bool, escaped: bool },
    /// A tag, which may be nested. `name` is the tag being read.
    Tag { row: (&'static str, &'static str), depth: usize, name: Option<String> },
}

/// The meaning of a tag.
pub(super) enum Tags {
    /// It opens a silent block.
    Opens(Block),
    /// It opens `<speak>`.
    Speak,
    /// It closes `<speak>`.
    Spoken,
    /// Markup.
    Other,
}

impl Tags {
    /// Returns the meaning of a tag with its brackets.
    pub(super) fn of(tag: &str) -> Self {
        let inside = tag.trim_start_matches('<').trim_end_matches('>');
        let name = name(inside);
        if inside.ends_with('/') {
            return Self::Other;
        }
        match TAGS.iter().find(|(opens, _)| *opens == name) {
            Some(row) => Self::Opens(Block::Tag { row: *row, depth: 1, name: None }),
            None if name == "speak" => Self::Speak,
            None if name == "/speak" => Self::Spoken,
            None => Self::Other,
        }
    }
}

/// Returns the name of a tag without attributes, in lower case.
fn name(inside: &str) -> String {
    inside.split([' ', '=', '\t']).next().unwrap_or_default().to_lowercase()
}

impl Block {
    /// Returns a block of code; `c` is the first character behind its backticks.
    pub(super) const fn fence(c: char) -> Self {
        Self::Fence { ticks: 0, rest: c != '\n' }
    }

    /// Returns a JSON object of which the first quotation mark was read.
    pub(super) const fn json() -> Self {
        Self::Json { depth: 1, in_string: true, escaped: false }
    }

    /// True if the character that ended the block is behind it.
    pub(super) const fn ends_before_its_last(&self) -> bool {
        matches!(self, Self::Fence { .. })
    }

    /// Reads the next character. Returns true at the end of the block.
    pub(super) fn read(&mut self, c: char) -> bool {
        match self {
            Self::Fence { ticks, rest } => {
                if c == '\n' {
                    let closes = *ticks >= 3 && !*rest;
                    (*ticks, *rest) = (0, false);
                    return closes;
                }
                *ticks += usize::from(c == '`' && !*rest);
                *rest |= c != '`' && !c.is_whitespace();
                false
            }
            Self::Json { depth, in_string, escaped } => {
                if *in_string {
                    *in_string = *escaped || c != '"';
                    *escaped = c == '\\' && !*escaped;
                    return false;
                }
                match c {
                    '"' => *in_string = true,
                    '{' => *depth += 1,
                    '}' => *depth -= 1,
                    _ => {}
                }
                *depth == 0
            }
            Self::Tag { row: (opens, closes), depth, name: read } => {
                match (c, read.take()) {
                    ('<', _) => *read = Some(String::new()),
                    ('>', Some(inside)) if !inside.ends_with('/') => {
                        let name = name(&inside);
                        *depth += usize::from(name == *opens);
                        *depth -= usize::from(name == *closes);
                    }
                    (_, Some(mut inside)) if inside.len() < NAME_MAX && c != '>' => {
                        inside.push(c);
                        *read = Some(inside);
                    }
                    _ => {}
                }
                *depth == 0
            }
        }
    }
}
