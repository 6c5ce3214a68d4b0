//! Tool calls in the text of a reply. Some models write them there because the tools are described in the prompt, or
//! because the provider passes the model's own notation through. A call counts only if it ends the text and its tool
//! exists.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::completion::{ToolCall, ToolSpec};

/// The maximum length of a text that is searched, in bytes; a longer text contains no calls.
const TEXT_MAX: usize = 256 * 1024;
/// The maximum number of attempts to parse a JSON object; each takes at most linear time in the length of the text.
const TRIES_MAX: usize = 16;
/// The maximum number of calls read from one text.
const CALLS_MAX: usize = 32;
/// The maximum length of introductory text before the first call, in bytes.
const PROSE_MAX: usize = 2_000;

/// Returns the instructions for a model whose tools are described in the prompt.
#[must_use]
pub fn instructions(tools: &[Arc<ToolSpec>]) -> String {
    let mut text = String::from(
        "You can use tools. To use one, answer with nothing but one JSON object of this form, and you will get its result:\n\
         {\"tool\": \"<name>\", \"arguments\": {<arguments>}}\n\
         When you need no tool, answer as you were told. The tools:\n",
    );
    for tool in tools {
        // Writing to a `String` is infallible.
        let _ = writeln!(
            text,
            "- {}: {} Arguments as JSON schema: {}",
            tool.name,
            tool.description,
            tool.parameters.as_str()
        );
    }
    text
}

/// Returns the calls at the end of a text; empty if the text ends otherwise. `known` returns true for tool names.
#[must_use]
pub fn calls(text: &str, known: impl Fn(&str) -> bool) -> Vec<ToolCall> {
    if text.len() > TEXT_MAX {
        return Vec::new();
    }
    let found = tokens(text, &known).or_else(|| marked(text, &known)).or_else(|| objects(text, &known));
    let found =
        found.or_else(|| text.contains("{{").then(|| objects(&text.replace("{{", "{").replace("}}", "}"), &known))?);
    let mut calls: Vec<ToolCall> = Vec::new();
    for (name, arguments) in found.unwrap_or_default().into_iter().take(CALLS_MAX) {
        let arguments = match arguments {
            Value::String(text) => text,
            value => value.to_string(),
        };
        if !calls.iter().any(|call| call.name == name && call.arguments == arguments) {
            calls.push(ToolCall { id: format!("call_{}_{name}", calls.len()), name, arguments });
        }
    }
    calls
}

type Found = Vec<(String, Value)>;

/// True if the text between calls consists only of fences and markup.
fn is_frame(between: &str) -> bool {
    const FRAMES: [&str; 12] = [
        "```json",
        "```tool_call",
        "```",
        "<tool_call>",
        "</tool_call>",
        "<tool_calls>",
        "</tool_calls>",
        "[TOOL_CALLS]",
        "<function_calls>",
        "</function_calls>",
        ",",
        "[",
    ];
    let mut rest = between.trim();
    while !rest.is_empty() {
        let Some(next) = FRAMES.iter().find_map(|frame| rest.strip_prefix(frame)).or_else(|| rest.strip_prefix(']'))
        else {
            return false;
        };
        rest = next.trim_start();
    }
    true
}

/// Parses calls written as JSON objects.
fn objects(text: &str, known: &impl Fn(&str) -> bool) -> Option<Found> {
    let mut found = Found::new();
    let (mut at, mut tries) = (0, 0);
    // The end of the last call.
    let mut end = 0;
    while let Some(brace) = text[at..].find('{').map(|brace| at + brace) {
        tries += 1;
        if tries > TRIES_MAX {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(&text[brace..]).into_iter::<Value>();
        let read = match values.next() {
            Some(Ok(value)) => Some((of_object(&value, known), brace + values.byte_offset())),
            _ => None,
        };
        match read {
            Some((calls, behind)) if !calls.is_empty() => {
                let before = &text[end..brace];
                let announced = found.is_empty() && before.len() <= PROSE_MAX;
                if !announced && !is_frame(before) {
                    return None;
                }
                found.extend(calls);
                (at, end) = (behind, behind);
            }
            Some((_, behind)) => at = behind,
            None => at = brace + 1,
        }
    }
    (!found.is_empty() && is_frame(&text[end..])).then_some(found)
}

/// Returns the calls in an object: one, or those of a list.
fn of_object(value: &Value, known: &impl Fn(&str) -> bool) -> Found {
    if let Some(list) = value.get("tool_calls").and_then(Value::as_array) {
        return list.iter().flat_map(|call| of_object(call, known)).collect();
    }
    let value = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
    let name = ["name", "tool", "tool_name", "function"].iter().find_map(|key| value.get(key)?.as_str());
    let arguments = ["arguments", "parameters", "input", "args"].iter().find_map(|key| value.get(key));
    let arguments = arguments.filter(|arguments| arguments.is_object() || arguments.is_string());
    let server = value.get("mcp_server").and_then(Value::as_str);
    let qualified = server.zip(name).map(|(server, name)| format!("{server}__{name}"));
    let name = qualified.filter(|name| known(name)).or_else(|| name.filter(|name| known(name)).map(str::to_owned));
    match (name, arguments) {
        (Some(name), Some(arguments)) => vec![(name, arguments.clone())],
        (Some(name), None) if value.as_object().is_some_and(|object| object.len() == 1) => {
            vec![(name, Value::Object(Map::new()))]
        }
        _ => Found::new(),
    }
}

/// Parses calls between the tokens of `DeepSeek`: a name and its arguments, or the word `function`, a name, and its
/// arguments in a fence.
fn tokens(text: &str, known: &impl Fn(&str) -> bool) -> Option<Found> {
    const OPEN: &str = "<｜tool▁call▁begin｜>";
    const SEPARATOR: &str = "<｜tool▁sep｜>";
    const CLOSE: &str = "<｜tool▁call▁end｜>";
    const AROUND: [&str; 3] = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜end▁of▁sentence｜>"];
    let is_frame = |between: &str| {
        let left = AROUND.iter().fold(between.to_owned(), |text, token| text.replace(token, ""));
        left.trim().is_empty()
    };
    let mut found = Found::new();
    let mut rest = text;
    while let Some((before, call)) = rest.split_once(OPEN) {
        let announced = found.is_empty() && before.len() <= PROSE_MAX;
        if (!announced && !is_frame(before)) || found.len() == CALLS_MAX {
            return None;
        }
        let (call, behind) = call.split_once(CLOSE)?;
        let (kind, body) = call.split_once(SEPARATOR)?;
        let (name, arguments) = match kind.trim() {
            "function" => body.trim().split_once('\n')?,
            name => (name, body),
        };
        let arguments = arguments.trim().trim_start_matches("```json").trim_matches('`').trim();
        let arguments: Map<String, Value> = serde_json::from_str(arguments).ok()?;
        if !known(name.trim()) {
            return None;
        }
        found.push((name.trim().to_owned(), Value::Object(arguments)));
        rest = behind;
    }
    (!found.is_empty() && is_frame(rest)).then_some(found)
}

/// Parses calls in markup: `<function=name><parameter=key>value</parameter></function>` and `<invoke
/// name="name"><parameter name="key">value</parameter></invoke>`; or with the arguments as one JSON object:
/// `<function=name>{}</function>`.
fn marked(text: &str, known: &impl Fn(&str) -> bool) -> Option<Found> {
    const FORMS: [(&str, &str, &str, &str); 2] = [
        ("<function=", ">", "</function>", "<parameter="),
        ("<invoke name=\"", "\">", "</invoke>", "<parameter name=\""),
    ];
    let (open, named, close, parameter) = FORMS.into_iter().find(|(open, ..)| text.contains(open))?;
    let mut found = Found::new();
    let mut rest = text;
    while let Some((before, call)) = rest.split_once(open) {
        let announced = found.is_empty() && before.len() <= PROSE_MAX;
        if (!announced && !is_frame(before)) || found.len() == CALLS_MAX {
            return None;
        }
        let (name, body) = call.split_once(named)?;
        let (mut body, behind) = match body.split_once(close) {
            Some(parts) => parts,
            // Some models omit the closing mark after an object.
            None if body.trim_start().starts_with('{') => (body, ""),
            None => return None,
        };
        if !known(name.trim()) {
            return None;
        }
        let whole = body.trim().starts_with('{').then(|| serde_json::from_str(body.trim()).ok());
        let mut arguments: Map<String, Value> = match whole {
            Some(whole) => whole?,
            None => Map::new(),
        };
        while let Some((_, part)) = body.split_once(parameter) {
            let (key, part) = part.split_once(named)?;
            let (value, left) = part.split_once("</parameter>")?;
            // Numbers, lists and objects are JSON; text is written verbatim.
            let value = serde_json::from_str(value.trim()).unwrap_or_else(|_| Value::String(value.trim().to_owned()));
            arguments.insert(key.trim().to_owned(), value);
            body = left;
        }
        found.push((name.trim().to_owned(), Value::Object(arguments)));
        rest = behind;
    }
    (!found.is_empty() && is_frame(rest)).then_some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::completion::WrittenJson;

    fn known(name: &str) -> bool {
        ["roll_dice", "time__now"].contains(&name)
    }

    /// Returns the calls of a text as `name arguments`.
    fn read(text: &str) -> Vec<String> {
        calls(text, known).into_iter().map(|call| format!("{} {}", call.name, call.arguments)).collect()
    }

    #[test]
    fn calls_are_read_in_the_notations_of_models() {
        let dice = r#"roll_dice {"notation":"2d6"}"#;
        for text in [
            r#"{"tool": "roll_dice", "arguments": {"notation": "2d6"}}"#,
            r#"{"name": "roll_dice", "parameters": {"notation": "2d6"}}"#,
            r#"{"name": "roll_dice", "input": "{\"notation\":\"2d6\"}"}"#,
            r#"{"type": "function", "function": {"name": "roll_dice", "arguments": {"notation": "2d6"}}}"#,
            r#"{"tool_calls": [{"name": "roll_dice", "arguments": {"notation": "2d6"}}]}"#,
            r#"{{"tool": "roll_dice", "arguments": {{"notation": "2d6"}}}}"#,
            "Let me roll.\n```json\n{\"tool\": \"roll_dice\", \"arguments\": {\"notation\": \"2d6\"}}\n```",
            r#"<tool_call>{"name": "roll_dice", "arguments": {"notation": "2d6"}}</tool_call>"#,
            r#"[TOOL_CALLS][{"name": "roll_dice", "arguments": {"notation": "2d6"}}]"#,
            "<tool_call>\n<function=roll_dice>\n<parameter=notation>\n2d6\n</parameter>\n</function>\n</tool_call>",
            "<function=roll_dice>{\"notation\": \"2d6\"}</function>",
            "I roll. <function=roll_dice>{\"notation\": \"2d6\"}",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>roll_dice\n```json\n{\"notation\": \"2d6\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "I roll.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>roll_dice<｜tool▁sep｜>{\"notation\": \"2d6\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
            "<function_calls><invoke name=\"roll_dice\"><parameter name=\"notation\">2d6</parameter></invoke></function_calls>",
        ] {
            assert_eq!(read(text), [dice], "{text}");
        }
        assert_eq!(read(r#"{"tool": "time__now"}"#), ["time__now {}"]);
        assert_eq!(read(r#"{"mcp_server": "time", "tool": "now", "arguments": {}}"#), ["time__now {}"]);
    }

    #[test]
    fn several_calls_keep_their_order_and_repeats_count_once() {
        let one = r#"<tool_call>{"name": "time__now", "arguments": {}}</tool_call>"#;
        let other = r#"<tool_call>{"name": "roll_dice", "arguments": {"notation": "d6"}}</tool_call>"#;
        assert_eq!(read(&format!("{one}\n{other}\n{one}")), ["time__now {}", r#"roll_dice {"notation":"d6"}"#]);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "",
            "No tool is needed.",
            r#"{"tool": "rm", "arguments": {}}"#,
            r#"{"response": "hello", "type": "text"}"#,
            r#"{"tool": "roll_dice", "arguments": {"notation": "2d6"}} is how you would call it."#,
            r#"First {"tool": "roll_dice", "arguments": {}}, then we talk, {"tool": "time__now", "arguments": {}}"#,
            "<function=roll_dice><parameter=notation>2d6",
            "<invoke name=\"rm\"></invoke>",
            "<function=roll_dice> is how it is written",
            "<function=roll_dice>{\"notation\": \"2d6\"} is how it is written",
            "<｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
            "<｜tool▁call▁begin｜>roll_dice<｜tool▁sep｜>{}",
        ] {
            assert!(read(text).is_empty(), "{text}: {:?}", read(text));
        }
    }

    #[test]
    fn a_prompt_tells_each_tool_with_its_schema() {
        let parameters = WrittenJson::new(&json!({"type": "object"}));
        let tool = ToolSpec { name: "roll_dice".to_owned(), description: "Roll dice.".to_owned(), parameters };
        let text = instructions(&[Arc::new(tool)]);
        assert!(text.ends_with("- roll_dice: Roll dice. Arguments as JSON schema: {\"type\":\"object\"}\n"), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_is_searched_without_harm(text in "[{}\\[\\]\"a-z:,<>=/ `]{0,300}") {
            let _ = calls(&text, |_| true);
        }

        #[test]
        fn calls_name_known_tools_only(name in "[a-z_]{1,12}") {
            let text = json!({"tool": name, "arguments": {}}).to_string();
            prop_assert_eq!(calls(&text, known).len(), usize::from(known(&name)));
        }
    }
}
