//! The text of the file of servers, for a command that adds an entry: everything else in the file is preserved.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::File;
use super::comments::without_comments;

const SERVERS: &str = "mcpServers";

/// A file of servers. Keys keep their order and text.
#[derive(Debug)]
pub struct Document {
    keys: Ordered,
    servers: Ordered,
    /// The position of the servers.
    at: Option<usize>,
}

/// Keys in order, each with its text.
#[derive(Debug, Default)]
struct Ordered(Vec<(String, Box<RawValue>)>);

impl Document {
    /// Parses a file; an empty one has no servers.
    ///
    /// # Errors
    /// It is not a file of tool servers.
    pub fn parse(file: File<'_>) -> Result<Self, String> {
        let text = file.text.trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(Self { keys: Ordered::default(), servers: Ordered::default(), at: None });
        }
        let wrong =
            |why: serde_json::Error| format!("{}: is not a file of tool servers: {why}; correct it first", file.path);
        if serde_json::from_str::<Ordered>(text).is_err()
            && serde_json::from_str::<Ordered>(&without_comments(text)).is_ok()
        {
            return Err(format!("{}: has comments, which would be lost; write the entry by hand", file.path));
        }
        let keys: Ordered = serde_json::from_str(text).map_err(wrong)?;
        let at = keys.0.iter().position(|(key, _)| super::holds_servers(key));
        let servers = at.map(|at| serde_json::from_str(keys.0[at].1.get()).map_err(wrong)).transpose()?;
        Ok(Self { keys, servers: servers.unwrap_or_default(), at })
    }

    /// True if there is an entry of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.servers.0.iter().any(|(known, _)| known == name)
    }

    /// Returns the file's text with this entry added or replaced.
    #[must_use]
    pub fn with(&self, name: &str, entry: &Value) -> String {
        let mut entries: Vec<(&str, String)> =
            self.servers.0.iter().map(|(known, text)| (known.as_str(), text.get().to_owned())).collect();
        let text = indented(entry);
        match entries.iter_mut().find(|(known, _)| *known == name) {
            Some((_, before)) => *before = text,
            None => entries.push((name, text)),
        }
        let servers = object(&entries, "    ", "  ");
        let mut keys: Vec<(&str, String)> =
            self.keys.0.iter().map(|(key, text)| (key.as_str(), text.get().to_owned())).collect();
        match self.at {
            Some(at) => keys[at].1 = servers,
            None => keys.push((SERVERS, servers)),
        }
        object(&keys, "  ", "") + "\n"
    }
}

fn indented(entry: &Value) -> String {
    // Serialising a value whose keys are strings never fails.
    let text = serde_json::to_string_pretty(entry).unwrap_or_default();
    text.replace('\n', "\n    ")
}

fn object(entries: &[(&str, String)], indent: &str, end: &str) -> String {
    let lines: Vec<String> =
        entries.iter().map(|(key, text)| format!("{indent}{}: {text}", Value::from(*key))).collect();
    if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n{end}}}", lines.join(",\n")) }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut keys = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    keys.push(entry);
                }
                Ok(Ordered(keys))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(File { path: "mcp.json", text }).unwrap()
    }

    #[test]
    fn what_stands_there_stays_as_it_is() {
        let text =
            "{\n  \"inputs\": [ 1,2 ],\n  \"mcpServers\": {\n    \"b\": {\"url\":  \"https://b.example\"}\n  }\n}\n";
        let document = parse(text);
        let new = document.with("a", &json!({"command": "x"}));
        assert_eq!(
            new,
            "{\n  \"inputs\": [ 1,2 ],\n  \"mcpServers\": {\n    \"b\": {\"url\":  \"https://b.example\"},\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n"
        );
        assert!(document.has("b") && !document.has("a"));
        let replaced = parse(&new).with("b", &json!({}));
        assert!(replaced.contains("\"b\": {},\n    \"a\"") && !replaced.contains("b.example"), "{replaced}");
    }

    #[test]
    fn an_empty_file_becomes_one() {
        let text = parse(" ").with("a", &json!({}));
        assert_eq!(text, "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n");
        assert!(Document::parse(File { path: "mcp.json", text: "[]" }).is_err());
    }
}
