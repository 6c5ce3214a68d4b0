//! Reads answers to `tools/list`. An unreadable tool is skipped with a warning.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::lenient::bounded;
use domain::completion::WrittenJson;
use domain::tool::{Annotations, DESCRIPTION_BYTES, ServerName, Source, Tool, ToolKind};

/// The most tools of one server.
pub(super) const TOOLS_MAX: usize = 10_000;
/// The most bytes of all tools of one server.
pub(super) const LIST_BYTES: usize = domain::tool::bounds::OF_SOURCE.bytes;
/// The longest description of one tool with its schema, in bytes.
const TOOL_BYTES: usize = 256 * 1024;
const NAME_BYTES: usize = 256;
/// The longest cursor, in bytes. The cursors of all pages are kept until the list is read.
const CURSOR_BYTES: usize = 4096;
/// The most warnings reported individually.
const WARNINGS_MAX: usize = 20;
/// The longest warning, in bytes: errors of the JSON parser contain the value.
const WARNING_BYTES: usize = 300;

/// The most JSON values in all tools of one server; a parsed value takes many times the memory of its text.
pub(super) const NODES_MAX: usize = 250_000;

#[derive(Debug, Default)]
pub(super) struct Page {
    pub tools: Vec<Tool>,
    /// The cursor of the next page; `None` on the last one.
    pub next: Option<String>,
    /// Unreadable tools, one line each.
    pub warnings: Vec<String>,
    pub bytes: usize,
    /// The JSON values in its tools, as far as read.
    pub nodes: usize,
}

/// Reads one page; `Format B` is a bare list.
///
/// # Errors
/// A sentence about the actual content.
pub(super) fn page(server: &ServerName, result: &RawValue) -> Result<Page, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Paged<'a> {
        #[serde(borrow)]
        tools: &'a RawValue,
        #[serde(borrow, default)]
        next_cursor: Option<Cow<'a, str>>,
    }
    let text = result.get();
    let (tools, next) = if text.starts_with('[') {
        (result, None)
    } else {
        let paged: Paged<'_> =
            serde_json::from_str(text).map_err(|error| format!("the list of tools is unreadable: {error}"))?;
        (paged.tools, paged.next_cursor.filter(|next| !next.is_empty()).map(Cow::into_owned))
    };
    let mut page = Page { bytes: text.len(), ..Page::default() };
    match next {
        Some(next) if next.len() > CURSOR_BYTES => warn(&mut page.warnings, || {
            format!("{server} has a cursor of more than {CURSOR_BYTES} bytes; further pages are omitted")
        }),
        next => page.next = next,
    }
    if !tools.get().starts_with('[') {
        return Err("the answer is not a list of tools".to_owned());
    }
    // One more than the limit, so that an excess is reported.
    for (index, raw) in bounded::<{ TOOLS_MAX + 1 }>(tools.get().as_bytes()).into_iter().enumerate() {
        page.nodes += nodes_in(raw);
        if page.nodes > NODES_MAX {
            warn(&mut page.warnings, || {
                format!("the tools of {server} contain more than {NODES_MAX} values; the rest is omitted")
            });
            break;
        }
        match tool(server, raw) {
            Ok(tool) => page.tools.push(tool),
            Err(why) => warn(&mut page.warnings, || format!("tool {} of {server} is omitted: {why}", index + 1)),
        }
    }
    Ok(page)
}

/// True if the list of this name is empty and the answer has no further page.
pub(super) fn is_empty(result: &RawValue, name: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Lists<'a> {
        #[serde(borrow, default)]
        resources: Option<&'a RawValue>,
        #[serde(borrow, default)]
        resource_templates: Option<&'a RawValue>,
        #[serde(borrow, default)]
        prompts: Option<&'a RawValue>,
        #[serde(borrow, default)]
        next_cursor: Option<&'a RawValue>,
    }
    let text = result.get();
    let Some(lists) = serde_json::from_str::<Lists<'_>>(text).ok().filter(|_| text.starts_with('{')) else {
        return false;
    };
    let list = match name {
        "resources" => lists.resources,
        "resourceTemplates" => lists.resource_templates,
        _ => lists.prompts,
    };
    let nothing = |value: Option<&RawValue>| {
        value.is_none_or(|value| value.get().trim_matches(['[', ']', '"']).trim().is_empty())
    };
    nothing(list) && nothing(lists.next_cursor)
}

/// Returns an upper bound of the number of values in a JSON text: each but the first follows one of these characters.
fn nodes_in(raw: &RawValue) -> usize {
    let text = raw.get().as_bytes();
    memchr::memchr3_iter(b',', b'[', b'{', text).count() + memchr::memchr_iter(b':', text).count()
}

/// Adds a warning, up to the limit.
pub(super) fn warn(warnings: &mut Vec<String>, warning: impl FnOnce() -> String) {
    if warnings.len() < WARNINGS_MAX {
        let mut text = warning();
        text.truncate(text.floor_char_boundary(WARNING_BYTES));
        warnings.push(text);
    } else if warnings.len() == WARNINGS_MAX {
        warnings.push("more warnings are not shown".to_owned());
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    title: Value,
    #[serde(default)]
    description: Value,
    #[serde(default, alias = "input_schema", alias = "parameters")]
    input_schema: Value,
    #[serde(default)]
    annotations: Value,
}

fn tool(server: &ServerName, raw: &RawValue) -> Result<Tool, String> {
    if raw.get().len() > TOOL_BYTES {
        return Err(format!("its {} bytes exceed {TOOL_BYTES}", raw.get().len()));
    }
    let WireTool { name, title, description, input_schema, annotations } =
        serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!("its name is empty, longer than {NAME_BYTES} bytes, or has control characters"));
    }
    let input_schema = match input_schema {
        Value::Null => json!({"type": "object", "properties": {}}),
        Value::Object(_) => input_schema,
        _ => return Err(format!("the schema of {name} is not an object")),
    };
    let hint = |key: &str| annotations.get(key).and_then(Value::as_bool);
    let text = |value: Value| match value {
        Value::String(mut text) => {
            text.truncate(text.floor_char_boundary(DESCRIPTION_BYTES));
            Some(text)
        }
        _ => None,
    };
    Ok(Tool {
        source: Source::Server(server.clone()),
        name: name.into(),
        title: text(title).or_else(|| annotations.get("title").cloned().and_then(text)),
        description: text(description).unwrap_or_default(),
        input_schema: WrittenJson::new(&input_schema),
        annotations: Annotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        kind: ToolKind::Other,
        utility: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Page, String> {
        page(&ServerName::new("s"), serde_json::from_str(text).unwrap())
    }

    fn names(page: &Page) -> Vec<&str> {
        page.tools.iter().map(|tool| &*tool.name).collect()
    }

    #[test]
    fn a_page_is_read_with_its_cursor() {
        let page = read(
            r#"{"tools":[{"name":"a","description":"d","inputSchema":{"type":"object"},
            "annotations":{"readOnlyHint":true,"idempotentHint":"yes"}}],"nextCursor":"c","ttlMs":5}"#,
        );
        let page = page.unwrap();
        assert_eq!((names(&page), page.next.as_deref()), (vec!["a"], Some("c")));
        let expected = Annotations { read_only: Some(true), ..Annotations::default() };
        assert_eq!(page.tools[0].annotations, expected);
        assert_eq!(page.tools[0].description, "d");
    }

    #[test]
    fn a_mark_of_a_further_page_that_is_too_long_ends_the_list() {
        let page_with =
            |bytes: usize| read(&format!(r#"{{"tools":[],"nextCursor":"{}"}}"#, "c".repeat(bytes))).unwrap();
        assert_eq!(page_with(CURSOR_BYTES).next.map(|next| next.len()), Some(CURSOR_BYTES));
        let ended = page_with(CURSOR_BYTES + 1);
        assert_eq!((ended.next, ended.warnings.len()), (None, 1));
    }

    #[test]
    fn a_bare_list_is_read() {
        let page =
            read(r#"[{"name":"a","input_schema":{"type":"object","properties":{"x":{}}}},{"name":"b"}]"#).unwrap();
        assert_eq!(names(&page), ["a", "b"]);
        assert!(page.tools[0].input_schema.to_value()["properties"]["x"].is_object());
        assert_eq!(page.tools[1].input_schema.to_value(), json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn a_tool_that_cannot_be_read_is_left_out_alone() {
        let page =
            read(r#"{"tools":[{"name":"a"},{"nome":"b"},7,{"name":""},{"name":"c","inputSchema":[]},{"name":"d"}]}"#);
        let page = page.unwrap();
        assert_eq!(names(&page), ["a", "d"]);
        assert_eq!(page.warnings.len(), 4, "{:?}", page.warnings);
        assert!(page.warnings[0].starts_with("tool 2 of s is omitted: missing field `name`"), "{:?}", page.warnings);
    }

    #[test]
    fn warnings_are_bounded() {
        let many = format!("[{}]", vec!["0"; 1_000].join(","));
        let page = read(&many).unwrap();
        assert_eq!(page.warnings.len(), WARNINGS_MAX + 1);
        let long = read(&format!(r#"["{}"]"#, "é".repeat(100_000))).unwrap();
        assert!(long.warnings[0].len() <= WARNING_BYTES, "{}", long.warnings[0].len());
    }

    #[test]
    fn a_list_of_countless_values_is_read_in_part() {
        let schema = format!(r#"{{"type":"object","x":[{}0]}}"#, "[],".repeat(60_000));
        let tools = vec![format!(r#"{{"name":"a","inputSchema":{schema}}}"#); 20].join(",");
        let page = read(&format!("[{tools}]")).unwrap();
        assert_eq!(page.tools.len(), 2, "up to 250,000 values are read");
        assert!(page.warnings[0].contains("more than 250000 values"), "{:?}", page.warnings);
    }

    #[test]
    fn a_list_is_empty_when_nothing_stands_in_it_and_no_page_follows() {
        let empty = |text: &str| is_empty(serde_json::from_str(text).unwrap(), "prompts");
        for text in [r#"{"prompts":[ ]}"#, "{}", r#"{"prompts":[],"nextCursor":null}"#, r#"{"prompts":null,"ttlMs":5}"#]
        {
            assert!(empty(text), "{text}");
        }
        for text in [r#"{"prompts":[{"name":"a"}]}"#, r#"{"prompts":[],"nextCursor":"b"}"#, "[]", "7"] {
            assert!(!empty(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert!(read(r#"{"content":[]}"#).is_err());
        assert!(read("7").is_err());
    }

    #[test]
    fn a_page_costs_no_more_than_its_length() {
        cost::grows_linearly(
            16 * 1024,
            |size| format!("[{}0]", r#"{"name":"a","inputSchema":{"type":"object"}},7,"#.repeat(size / 48)),
            |text| drop(page(&ServerName::new("s"), serde_json::from_str(&text).unwrap())),
        );
    }
}
