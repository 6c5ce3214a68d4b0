//! The recovery of readable text from an answer in no valid form: removes thoughts, tool calls and raw JSON.

use std::ops::Range;

use serde_json::Value;

use crate::split::is_blank;

/// The longest text shown of an answer without a valid form, in Unicode scalar values.
pub const MAX_PLAIN_CHARS: usize = 16_000;

/// The maximum number of objects examined in one answer.
const MAX_OBJECTS: usize = 32;

const FENCE: &str = "```";

/// The marks around thoughts, for each family of reasoning models.
pub const THOUGHTS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
];

/// The elements of tool calls and their results; `<ns:name …>` counts as `<name …>`.
const TOOL_ELEMENTS: [&str; 13] = [
    "tool_call",
    "tool_calls",
    "tool_use",
    "tool_code",
    "tool_response",
    "tool_result",
    "tool_results",
    "function_call",
    "function_calls",
    "function_result",
    "function_results",
    "function",
    "invoke",
];

/// Marks after which all text is internal to the model.
const TOOL_TAILS: [&str; 5] = ["[tool_calls]", "<|python_tag|>", "<|tool_call", "<｜tool", "functools["];

/// Returns the readable text of an answer: the last resort if no reply could be parsed. Never contains raw JSON, tool
/// syntax or thoughts. `None` if no text remains.
#[must_use]
pub fn plain_text(content: &str) -> Option<String> {
    let content: String = content.chars().take(MAX_PLAIN_CHARS).collect();
    let spoken = without_thoughts(&final_channel(&content)?);
    let spoken = spoken.trim();
    if let Some(response) = response_field(spoken) {
        let words = without_tools(&without_thoughts(&response));
        return visible(&without_objects(&words));
    }
    let inner = whole_fence(spoken).unwrap_or(spoken);
    if is_json_like(inner) {
        return None;
    }
    visible(&without_objects(&without_tools(spoken)))
}

/// Returns the readable text of an answer that was written as prose instead of the required form. `None` if it is an
/// attempt at the form, or if no text remains.
#[must_use]
pub fn prose(content: &str) -> Option<String> {
    let spoken = without_thoughts(&final_channel(content)?);
    response_field(spoken.trim()).is_none().then(|| plain_text(content)).flatten()
}

/// Returns the text of an answer that needs no form: only the thoughts are removed. `None` if no text remains.
#[must_use]
pub fn spoken(content: &str) -> Option<String> {
    let words = without_thoughts(&final_channel(content)?);
    let words = words.trim();
    (!is_blank(words)).then(|| words.to_owned())
}

/// Returns the text without thoughts. A thought without an end mark extends to the end of the text; an end mark without
/// a start mark removes everything before it.
#[must_use]
pub fn without_thoughts(text: &str) -> String {
    let mut text = text.to_owned();
    for (open, close) in THOUGHTS {
        text = without_marked(&text, open, close);
    }
    text
}

/// Returns the text without leading thoughts. Later marks may be part of the subject.
#[must_use]
pub fn without_leading_thoughts(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((open, close)) = THOUGHTS.iter().find(|(open, _)| starts_with_ignoring_case(rest, open)) {
        rest = match find_ignoring_case(rest, close, open.len()) {
            Some(end) => rest[end + close.len()..].trim_start(),
            None => "",
        };
    }
    rest
}

/// Returns the JSON object at the start of an answer, after thoughts and an opening fence, found by braces and strings.
/// `None` if thought marks are nested or quoted, because the end of the thought is then ambiguous.
#[must_use]
pub fn leading_object(text: &str) -> Option<&str> {
    let rest = past_thoughts(text)?;
    let rest = rest.strip_prefix(FENCE).map_or(rest, |inner| after_language(inner).trim_start());
    object_length(rest).map(|length| &rest[..length])
}

fn past_thoughts(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    while let Some((open, close)) = THOUGHTS.iter().find(|(open, _)| starts_with_ignoring_case(rest, open)) {
        let thought = &rest[open.len()..];
        let end = find_ignoring_case(thought, close, 0)?;
        let inside = &thought[..end];
        let opens = |(open, _): &(&str, &str)| find_ignoring_case(inside, open, 0).is_some();
        if inside.ends_with('`') || THOUGHTS.iter().any(opens) {
            return None;
        }
        rest = thought[end + close.len()..].trim_start();
    }
    Some(rest)
}

/// Returns the content of a code fence that encloses the whole text.
#[must_use]
pub fn whole_fence(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix(FENCE)?.strip_suffix(FENCE)?;
    Some(after_language(inner).trim())
}

/// Returns the content of the first code fence, also if the fence is not closed.
#[must_use]
pub fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    // The reply's own text may contain fences, so the last fence is the end.
    let inner = rest.rfind(FENCE).map_or(rest, |end| &rest[..end]);
    Some(after_language(inner).trim())
}

fn after_language(inner: &str) -> &str {
    let word = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    &inner[word..]
}

/// Returns the outermost balanced JSON objects in a text, found by braces and strings.
pub fn objects(text: &str) -> impl Iterator<Item = &str> {
    object_ranges(text).into_iter().map(|range| &text[range])
}

fn object_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut from = 0;
    while ranges.len() < MAX_OBJECTS
        && let Some(start) = text[from..].find('{').map(|at| from + at)
    {
        if let Some(length) = object_length(&text[start..]) {
            ranges.push(start..start + length);
            from = start + length;
        } else {
            // It has no end, so later objects are not outermost.
            break;
        }
    }
    ranges
}

/// Returns the length of the object at the start of the text.
fn object_length(text: &str) -> Option<usize> {
    if !text.starts_with('{') {
        return None;
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the final message of a model that writes in channels; `None` if it wrote only thoughts. Returns other
/// models' text without control tokens.
fn final_channel(text: &str) -> Option<String> {
    const CHANNEL: &str = "<|channel|>";
    const MESSAGE: &str = "<|message|>";
    if !text.contains(CHANNEL) {
        return Some(without_control_tokens(text));
    }
    let (_, last) = text.rsplit_once("<|channel|>final")?;
    let (_, words) = last.split_once(MESSAGE)?;
    Some(without_control_tokens(words))
}

/// Removes tokens such as `<|end|>` that leaked out of a chat template.
fn without_control_tokens(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("<|") {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // The search is bounded by the longest name.
        let window = &rest.as_bytes()[start + 2..rest.len().min(start + 2 + LONGEST + 2)];
        let end = window.windows(2).position(|pair| pair == b"|>");
        let name = end.map(|end| &rest[start + 2..start + 2 + end]);
        let tool = name.is_some_and(|name| name == "python_tag" || name.starts_with("tool_call"));
        match end {
            Some(end) if name.is_some_and(|name| !name.is_empty() && name.chars().all(word)) && !tool => {
                kept.push_str(&rest[..start]);
                rest = &rest[start + 2 + end + 2..];
            }
            _ => {
                kept.push_str(&rest[..start + 2]);
                rest = &rest[start + 2..];
            }
        }
    }
    kept.push_str(rest);
    kept
}

fn without_marked(text: &str, open: &str, close: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some((start, length, opens)) = next_mark(text, open, close, at) {
        if depth == 0 {
            kept.push_str(&text[at..start]);
        }
        at = start + length;
        match (opens, depth) {
            (true, _) => depth += 1,
            // No start mark: the chat template opened the thought before the answer began.
            (false, 0) => kept.clear(),
            (false, _) => depth -= 1,
        }
    }
    if depth == 0 {
        kept.push_str(&text[at..]);
    }
    kept
}

/// Returns the next opening or closing mark at or after `from`: its position, its length, and true if it opens.
fn next_mark(text: &str, open: &str, close: &str, mut from: usize) -> Option<(usize, usize, bool)> {
    while let Some(found) = text[from..].find(['<', '[', '◁']) {
        let start = from + found;
        let rest = &text[start..];
        let quoted = |mark: &str| text[..start].ends_with('`') && rest[mark.len()..].starts_with('`');
        for (mark, opens) in [(open, true), (close, false)] {
            // A mark quoted as code, as in `<think>`, is part of the subject.
            if starts_with_ignoring_case(rest, mark) && !quoted(mark) {
                return Some((start, mark.len(), opens));
            }
        }
        from = start + rest.chars().next().map_or(1, char::len_utf8);
    }
    None
}

/// Removes tool calls: elements, and all text after a mark that begins a call.
fn without_tools(text: &str) -> String {
    let mut kept = text.to_owned();
    for mark in TOOL_TAILS {
        if let Some(at) = find_ignoring_case(&kept, mark, 0) {
            kept.truncate(at);
        }
    }
    let (mut spoken, mut at) = (String::with_capacity(kept.len()), 0);
    while let Some((start, name_end, name)) = next_tool_element(&kept, at) {
        spoken.push_str(&kept[at..start]);
        let tag_end = kept[name_end..].find('>').map_or(kept.len(), |at| name_end + at + 1);
        at = if kept[..tag_end].ends_with("/>") {
            tag_end
        } else {
            find_closing(&kept, name, tag_end).unwrap_or(kept.len())
        };
    }
    spoken.push_str(&kept[at..]);
    spoken
}

/// Returns the next opening or stray closing tag of a tool element: its start, the end of its name, and the name.
fn next_tool_element(text: &str, mut from: usize) -> Option<(usize, usize, &'static str)> {
    loop {
        let start = from + text.get(from..)?.find('<')?;
        let tag = text[start + 1..].trim_start_matches('/');
        let begin = text.len() - tag.len();
        let end = tag.find(|c: char| !(c.is_ascii_alphanumeric() || "_-:".contains(c))).unwrap_or(tag.len());
        let full = &tag[..end];
        let local = full.rsplit_once(':').map_or(full, |(_, local)| local);
        let known = TOOL_ELEMENTS.iter().find(|name| name.eq_ignore_ascii_case(local));
        if let Some(name) = known {
            return Some((start, begin + end, name));
        }
        from = start + 1;
    }
}

/// Returns the end of this element's closing tag, in any namespace.
fn find_closing(text: &str, name: &str, from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(start) = text[at..].find("</").map(|start| at + start) {
        let tag = &text[start + 2..];
        let length = tag.find(|c: char| !(c.is_ascii_alphanumeric() || "_-:".contains(c))).unwrap_or(tag.len());
        let local = tag[..length].rsplit_once(':').map_or(&tag[..length], |(_, local)| local);
        if local.eq_ignore_ascii_case(name) && tag[length..].starts_with('>') {
            return Some(start + 2 + length + 1);
        }
        at = start + 2;
    }
    None
}

/// Returns the text of the `response` field, also from broken or truncated JSON.
fn response_field(text: &str) -> Option<String> {
    let whole = whole_fence(text).unwrap_or(text);
    if let Ok(value) = serde_json::from_str::<Value>(whole) {
        return match value {
            Value::Object(fields) => fields.get("response").and_then(Value::as_str).map(str::to_owned),
            Value::String(inner) if inner.trim_start().starts_with('{') => response_field(inner.trim()),
            _ => None,
        };
    }
    // The search starts inside an object, because prose may mention the word.
    let mut from = text.find('{')?;
    while let Some(key) = find_ignoring_case(text, "\"response\"", from) {
        from = key + "\"response\"".len();
        if let Some(rest) = text[from..].trim_start().strip_prefix(':')
            && let Some(string) = rest.trim_start().strip_prefix('"')
        {
            return Some(cut_string(string));
        }
    }
    None
}

/// Decodes the content of a JSON string up to its end or up to the truncation.
fn cut_string(text: &str) -> String {
    let mut end = text.len();
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    // Raw line breaks are invalid in JSON, but models write them.
    let raw = text[..end].replace('\n', "\\n").replace('\r', "").replace('\t', "\\t");
    // A truncation may split an escape, which has at most six characters, or twelve as a pair.
    let cuts = raw.char_indices().rev().map(|(at, _)| at).take(12);
    std::iter::once(raw.len())
        .chain(cuts)
        .find_map(|end| serde_json::from_str::<String>(&format!("\"{}\"", &raw[..end])).ok())
        .unwrap_or_default()
}

/// True if a text is JSON or looks like JSON.
fn is_json_like(text: &str) -> bool {
    let text = text.trim();
    let opens = |bracket: char| text.strip_prefix(bracket).map(str::trim_start);
    let object = opens('{').is_some_and(|rest| rest.is_empty() || rest.starts_with(['"', '\'', '}']));
    let array = opens('[').is_some_and(|rest| rest.is_empty() || rest.starts_with(['{', '"']));
    let value = matches!(serde_json::from_str::<Value>(text), Ok(Value::Object(_) | Value::Array(_) | Value::Null));
    // Words may follow an object that ends early; they are examined separately.
    let ends = || object_length(text).is_none_or(|length| text[length..].trim().is_empty());
    value || array || (object && ends())
}

/// Removes JSON objects from prose. Objects in a code fence stay, because the person may have requested an example.
fn without_objects(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (index, piece) in text.split(FENCE).enumerate() {
        let in_fence = index % 2 == 1;
        if in_fence {
            if !is_tool_block(piece) && !is_call(after_language(piece)) {
                kept.extend([FENCE, piece, FENCE]);
            }
            continue;
        }
        let mut at = 0;
        for range in object_ranges(piece) {
            if serde_json::from_str::<Value>(&piece[range.clone()]).is_ok() {
                kept.push_str(piece[at..range.start].trim_end_matches(' '));
                at = range.end;
            }
        }
        let rest = &piece[at..];
        // A truncated object extends to the end of the text.
        let cut = cut_off_object(rest).unwrap_or(rest.len());
        kept.push_str(&rest[..cut]);
    }
    kept
}

/// Returns the start of the first truncated object: it looks like JSON, and its closing brace is missing or at the end
/// of the text.
fn cut_off_object(text: &str) -> Option<usize> {
    let end = text.trim_end().len();
    // The starts of the objects that end before the end of the text, found in one pass.
    let mut open: Vec<usize> = Vec::new();
    let mut ended: Vec<usize> = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' if !open.is_empty() => in_string = !in_string,
            b'{' if !in_string => open.push(at),
            b'}' if !in_string => {
                let Some(start) = open.pop() else { continue };
                if at + 1 < end {
                    ended.push(start);
                }
            }
            _ => {}
        }
    }
    ended.sort_unstable();
    let looks_like_json = |at: usize| {
        let rest = text[at + 1..].trim_start();
        rest.is_empty() || rest.starts_with(['"', '\'', '}'])
    };
    let mut begins = text.match_indices('{').map(|(at, _)| at);
    begins.find(|at| ended.binary_search(at).is_err() && looks_like_json(*at))
}

/// True if a text is only a tool call: its JSON, or a code block in a tool call language.
#[must_use]
pub fn is_call(text: &str) -> bool {
    let text = text.trim();
    let block = text.strip_prefix(FENCE).and_then(|inner| inner.strip_suffix(FENCE));
    if block.is_some_and(is_tool_block) {
        return true;
    }
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    let has = |name: &str| fields.contains_key(name);
    has("tool_calls")
        || has("function_call")
        || ((has("name") || has("tool") || has("function"))
            && (has("arguments") || has("parameters") || has("args") || has("input")))
}

/// True if the content of a code block begins with a tool call language.
fn is_tool_block(inner: &str) -> bool {
    let language = &inner[..inner.len() - after_language(inner).len()];
    TOOL_ELEMENTS.iter().any(|name| name.eq_ignore_ascii_case(language))
}

/// Returns the remaining text, or `None` if only punctuation remains.
fn visible(text: &str) -> Option<String> {
    let words = text.trim();
    let speaks = |c: char| c.is_alphanumeric() || "!?".contains(c) || !c.is_ascii();
    (!is_blank(words) && words.chars().any(speaks)).then(|| words.to_owned())
}

/// Returns the position of `needle` (lower case) in `text` at or after `from`, ignoring ASCII case.
fn find_ignoring_case(text: &str, needle: &str, from: usize) -> Option<usize> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    let window = text.get(from..)?.windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle))?;
    Some(from + window)
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}
