//! What can be saved of an answer that kept to no form: thoughts, tool calls and raw JSON taken out, and only words left.

use std::ops::Range;

use serde_json::Value;

use crate::split::is_blank;

/// The longest text that is shown of an answer without form, in Unicode scalar values.
pub const MAX_PLAIN_CHARS: usize = 16_000;

/// The most objects that are looked at in one answer.
const MAX_OBJECTS: usize = 32;

const FENCE: &str = "```";

/// Marks around a model's thoughts, as the families that think aloud write them.
pub const THOUGHTS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
];

/// Elements in which models write tool calls and their results; `<ns:name …>` counts as `<name …>`.
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

/// Marks after which nothing is meant for people.
const TOOL_TAILS: [&str; 5] = ["[tool_calls]", "<|python_tag|>", "<|tool_call", "<｜tool", "functools["];

/// The readable words of an answer: the last resort when no reply could be read. Never raw JSON, tool syntax or thoughts;
/// none when nothing is left.
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

/// The words of an answer that needs no form: only the thoughts are taken out; none when nothing is left.
#[must_use]
pub fn spoken(content: &str) -> Option<String> {
    let words = without_thoughts(&final_channel(content)?);
    let words = words.trim();
    (!is_blank(words)).then(|| words.to_owned())
}

/// The text without its thoughts. A thought that is never closed takes the rest; one that was never opened takes the beginning.
#[must_use]
pub fn without_thoughts(text: &str) -> String {
    let mut text = text.to_owned();
    for (open, close) in THOUGHTS {
        text = without_marked(&text, open, close);
    }
    text
}

/// The text without thoughts that it begins with; marks further in may be what the text is about.
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

/// The object that an answer begins with, behind thoughts and an opening fence, as far as braces and strings tell. None where
/// marks of thoughts are nested or quoted: nobody knows then where a thought ends.
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

/// What stands inside a code fence that is the whole text.
#[must_use]
pub fn whole_fence(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix(FENCE)?.strip_suffix(FENCE)?;
    Some(after_language(inner).trim())
}

/// What stands inside the first code fence; one that is never closed counts.
#[must_use]
pub fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    // The reply's own text may hold fences: the last one is the end.
    let inner = rest.rfind(FENCE).map_or(rest, |end| &rest[..end]);
    Some(after_language(inner).trim())
}

fn after_language(inner: &str) -> &str {
    let word = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    &inner[word..]
}

/// The outermost balanced JSON objects in a text, as far as braces and strings tell.
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
            // It never ends: whatever begins inside it is not one of the outermost objects.
            break;
        }
    }
    ranges
}

/// The length of the object that the text begins with.
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

/// The last word of a model that speaks in channels; none when it only thought. Other models' text is returned as it is.
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
        // Looked for no further than a name can be long.
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
            // Never opened: the template had opened it before the answer began.
            (false, 0) => kept.clear(),
            (false, _) => depth -= 1,
        }
    }
    if depth == 0 {
        kept.push_str(&text[at..]);
    }
    kept
}

/// The next opening or closing mark at or after `from`: its place, its length, and whether it opens.
fn next_mark(text: &str, open: &str, close: &str, mut from: usize) -> Option<(usize, usize, bool)> {
    while let Some(found) = text[from..].find(['<', '[', '◁']) {
        let start = from + found;
        let rest = &text[start..];
        let quoted = |mark: &str| text[..start].ends_with('`') && rest[mark.len()..].starts_with('`');
        for (mark, opens) in [(open, true), (close, false)] {
            // Quoted as code, as in `<think>`, it is what the text is about.
            if starts_with_ignoring_case(rest, mark) && !quoted(mark) {
                return Some((start, mark.len(), opens));
            }
        }
        from = start + rest.chars().next().map_or(1, char::len_utf8);
    }
    None
}

/// Removes tool calls: elements, and everything after a mark that begins a call.
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

/// The next opening or stray closing tag of a tool element: where it begins, where its name ends, the name.
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

/// Where the closing tag of this element ends, whatever its namespace.
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

/// The text of the `response` field, also when the JSON around it is broken or cut off.
fn response_field(text: &str) -> Option<String> {
    let whole = whole_fence(text).unwrap_or(text);
    if let Ok(value) = serde_json::from_str::<Value>(whole) {
        return match value {
            Value::Object(fields) => fields.get("response").and_then(Value::as_str).map(str::to_owned),
            Value::String(inner) if inner.trim_start().starts_with('{') => response_field(inner.trim()),
            _ => None,
        };
    }
    // Only inside an object: prose may speak of the word.
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

/// Decodes a JSON string's inside up to its end, or up to where the text was cut off.
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
    // Bare line breaks are not allowed in JSON, but models write them.
    let raw = text[..end].replace('\n', "\\n").replace('\r', "").replace('\t', "\\t");
    // A cut may fall into an escape, which is six characters long at most, twelve as a pair.
    let cuts = raw.char_indices().rev().map(|(at, _)| at).take(12);
    std::iter::once(raw.len())
        .chain(cuts)
        .find_map(|end| serde_json::from_str::<String>(&format!("\"{}\"", &raw[..end])).ok())
        .unwrap_or_default()
}

/// Whether a text is JSON, or tries to be.
fn is_json_like(text: &str) -> bool {
    let text = text.trim();
    let opens = |bracket: char| text.strip_prefix(bracket).map(str::trim_start);
    let object = opens('{').is_some_and(|rest| rest.is_empty() || rest.starts_with(['"', '\'', '}']));
    let array = opens('[').is_some_and(|rest| rest.is_empty() || rest.starts_with(['{', '"']));
    let value = matches!(serde_json::from_str::<Value>(text), Ok(Value::Object(_) | Value::Array(_) | Value::Null));
    // An object that ends in the middle is followed by words; those are looked at separately.
    let ends = || object_length(text).is_none_or(|length| text[length..].trim().is_empty());
    value || array || (object && ends())
}

/// Removes JSON objects from prose. Those in a code fence stay: the person may have asked for an example.
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
        // An object that was cut off takes the rest.
        let cut = cut_off_object(rest).unwrap_or(rest.len());
        kept.push_str(&rest[..cut]);
    }
    kept
}

/// Where the first object begins that the text is cut off in: it looks like JSON, and its last bracket is the end of the text or
/// missing.
fn cut_off_object(text: &str) -> Option<usize> {
    let end = text.trim_end().len();
    // Where each object that ends before the end of the text does so; one pass for all of them.
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

/// Whether a text is a tool call and nothing else: its JSON, or a code block that says so.
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

/// Whether the language of a code block, which its inside begins with, is that of tool calls.
fn is_tool_block(inner: &str) -> bool {
    let language = &inner[..inner.len() - after_language(inner).len()];
    TOOL_ELEMENTS.iter().any(|name| name.eq_ignore_ascii_case(language))
}

/// The words that are left, unless they are only the punctuation around what was taken out.
fn visible(text: &str) -> Option<String> {
    let words = text.trim();
    let speaks = |c: char| c.is_alphanumeric() || "!?".contains(c) || !c.is_ascii();
    (!is_blank(words) && words.chars().any(speaks)).then(|| words.to_owned())
}

/// Where `needle` (lower case) stands in `text` at or after `from`, ASCII letters in any case.
fn find_ignoring_case(text: &str, needle: &str, from: usize) -> Option<usize> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    let window = text.get(from..)?.windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle))?;
    Some(from + window)
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}
