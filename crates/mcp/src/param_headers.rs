//! The headers that a tool names for its arguments (`x-mcp-header`, revision 2026-07-28). A tool with invalid header
//! names is omitted, as the protocol requires over HTTP: an intermediary would otherwise read other arguments than the
//! server.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The schema key that names a property's header.
pub(super) const KEY: &str = "x-mcp-header";

/// Returns the mistake in the headers that a schema names, if any.
pub(super) fn mistake(schema: &Value) -> Option<&'static str> {
    let Value::Object(root) = schema else { return None };
    if root.contains_key(KEY) {
        return Some("the schema itself names a header, but only a property may");
    }
    object(root, true, &mut HashSet::new()).err()
}

/// Checks a schema. `chained` is true for the root and for properties reached through `properties` alone.
fn object(schema: &Map<String, Value>, chained: bool, seen: &mut HashSet<String>) -> Result<(), &'static str> {
    for (key, value) in schema {
        match (key.as_str(), value) {
            (KEY, _) if !chained => return Err("a header is named outside of the properties of the arguments"),
            (KEY, name) => named(schema.get("type"), name, seen)?,
            // Data, not schemas.
            ("default" | "const" | "enum" | "examples", _) => {}
            ("properties", Value::Object(properties)) => all(properties.values(), chained, seen)?,
            ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", Value::Object(schemas)) => {
                all(schemas.values(), false, seen)?;
            }
            (_, Value::Array(schemas)) => all(schemas.iter(), false, seen)?,
            (_, Value::Object(schema)) => object(schema, false, seen)?,
            _ => {}
        }
    }
    Ok(())
}

fn all<'a>(
    schemas: impl Iterator<Item = &'a Value>,
    chained: bool,
    seen: &mut HashSet<String>,
) -> Result<(), &'static str> {
    for schema in schemas {
        match schema {
            Value::Object(schema) => object(schema, chained, seen)?,
            Value::Array(schemas) => all(schemas.iter(), false, seen)?,
            _ => {}
        }
    }
    Ok(())
}

fn named(kind: Option<&Value>, name: &Value, seen: &mut HashSet<String>) -> Result<(), &'static str> {
    // A token of RFC 9110, 5.6.2.
    let sign = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let name = name.as_str().filter(|name| !name.is_empty() && name.chars().all(sign));
    let name = name.ok_or("a property names an invalid header")?;
    if !seen.insert(name.to_ascii_lowercase()) {
        return Err("two properties name the same header");
    }
    match kind.and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(()),
        _ => Err("a property that names a header is neither a string, an integer nor a boolean"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_cannot_be_headers_are_found() {
        let one = |property: Value| mistake(&json!({"type": "object", "properties": {"a": property}}));
        assert_eq!(one(json!({"type": "string", KEY: "Region"})), None);
        assert_eq!(one(json!({"type": "object", "properties": {"b": {"type": "boolean", KEY: "Deep"}}})), None);
        assert_eq!(one(json!({"type": "string", "default": {KEY: ""}})), None);
        for kind in ["number", "object", "array", "null"] {
            assert!(one(json!({"type": kind, KEY: "Region"})).is_some(), "{kind}");
        }
        for name in [json!(""), json!("a b"), json!("a:b"), json!("\u{e9}"), json!("a\u{7}"), json!(7), json!(null)] {
            assert!(one(json!({"type": "string", KEY: name})).is_some(), "{name}");
        }
        assert!(one(json!({"type": "array", "items": {"type": "string", KEY: "Item"}})).is_some());
        assert!(one(json!({"anyOf": [{"type": "string", KEY: "Item"}]})).is_some());
        assert!(mistake(&json!({"type": "object", KEY: "Root"})).is_some());
        let two = json!({"a": {"type": "string", KEY: "Same"}, "b": {"type": "string", KEY: "same"}});
        assert!(mistake(&json!({"properties": two})).is_some());
    }
}
