//! Blocks that are displayed and never spoken: code, thoughts and calls of tools.

/// The names of tags that open and close such blocks, in lower case.
const TAGS: [(&str, &str); 16] = [
    ("think", "/think"),
    ("thinking", "/thinking"),
    ("thought", "/thought"),
    ("reasoning", "/reasoning"),
    ("tool_call", "/tool_call"),
    ("tool_calls", "/tool_calls"),
    ("function", "/function"),
    ("function_call", "/function_call"),
    ("function_calls", "/function_calls"),
    ("invoke", "/invoke"),
    ("|python_tag|", "|eom_id|"),
    ("|tool_call_begin|", "|tool_call_end|"),
    ("|tool_calls_begin|", "|tool_calls_end|"),
    ("|tool_outputs_begin|", "|tool_outputs_end|"),
    ("|tool_output_begin|", "|tool_output_end|"),
    ("|tool_calls_section_begin|", "|tool_calls_section_end|"),
];

/// The mark of calls that follow in JSON, up to the end of their line.
pub(super) const CALLS: &str = "[TOOL_CALLS]";

/// Maximum length of a name of a tag that is looked at, in bytes.
const NAME_MAX: usize = 64;

/// A silent block.
#[derive(Debug)]
pub(super) enum Block {
    /// A block of code. `rest` is true on a line that cannot close it.
    Fence { ticks: usize, rest: bool },
    /// A JSON object.
    Json(Json),
    /// Calls behind [`CALLS`].
    Calls(Json),
    /// A tag, which may be nested. `name` is the tag being read.
    Tag { row: (&'static str, &'static str), depth: usize, name: Option<String> },
}

/// The position in JSON.
#[derive(Debug, Default)]
pub(super) struct Json {
    /// The brackets that are open.
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Json {
    fn read(&mut self, c: char) {
        if self.in_string {
            self.in_string = self.escaped || c != '"';
            self.escaped = c == '\\' && !self.escaped;
            return;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
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

/// Returns the name of a tag without attributes and prefix, in lower case. The wide marks of some models are those of ASCII.
fn name(inside: &str) -> String {
    let name = inside.split([' ', '=', '\t']).next().unwrap_or_default();
    let name = name.to_lowercase().replace('｜', "|").replace('▁', "_");
    match name.split_once(':') {
        Some((before, own)) => format!("{}{own}", if before.starts_with('/') { "/" } else { "" }),
        None => name,
    }
}

impl Block {
    /// Returns a block of code; `c` is the first character behind its backticks.
    pub(super) const fn fence(c: char) -> Self {
        Self::Fence { ticks: 0, rest: c != '\n' }
    }

    /// Returns a JSON object of which the first quotation mark was read.
    pub(super) const fn json() -> Self {
        Self::Json(Json { depth: 1, in_string: true, escaped: false })
    }

    /// True if the character that ended the block is behind it.
    pub(super) const fn ends_before_its_last(&self) -> bool {
        matches!(self, Self::Fence { .. } | Self::Calls(_))
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
            Self::Json(json) => {
                json.read(c);
                json.depth == 0
            }
            Self::Calls(json) => {
                json.read(c);
                c == '\n' && json.depth == 0 && !json.in_string
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
