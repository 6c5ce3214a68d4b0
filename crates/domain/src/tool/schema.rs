//! Conversion of a tool's argument schema to the form that providers accept. Sources use any JSON Schema; each provider
//! supports a different small subset. Models see the common subset, and arguments are checked against it; the source
//! checks the rest.

mod keywords;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use self::keywords::{Keyword, kept_as_is};
use super::Tool;
use crate::clean::clean;

/// The maximum number of nested schemas; further ones accept any value.
pub const NODES_MAX: usize = 2_000;
/// The maximum nesting depth of schemas; deeper ones accept any value.
pub const DEPTH_MAX: usize = 16;
/// The approximate maximum size of a converted schema in bytes: names, descriptions, values and patterns; the rest is
/// omitted.
pub const BYTES_MAX: usize = 64 * 1024;
/// The maximum number of patterns of one schema; each is compiled when the tool is called.
pub const PATTERNS_MAX: usize = 32;
/// The maximum number of keywords, arguments and required names that are read, with references expanded.
const STEPS_MAX: usize = 20_000;
/// The maximum length of a chain of references, and the maximum number of parts combined into one schema.
const PARTS_MAX: usize = 32;
/// The maximum number of values in an enumeration.
const VALUES_MAX: usize = 500;
/// The maximum length of an argument's description, in Unicode scalar values.
const DESCRIPTION_CHARS: usize = 512;
/// The maximum length of an argument's name, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// All types of JSON Schema.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// The maximum number of losses that are reported.
const LOST_MAX: usize = 20;

/// The type of the arguments.
static OBJECT: LazyLock<Value> = LazyLock::new(|| Value::from("object"));

/// A schema that models may see.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The schema, always of an object.
    pub schema: Value,
    /// The parts of the source's schema that were lost, each with its location; at most 20.
    pub lost: Vec<String>,
}

/// Converts the schema of a tool's arguments. Takes time linear in its length and in the bounded expansion of its
/// references. The result has no characters that are invisible to people but readable for models.
#[must_use]
pub fn convert(schema: &Value) -> Converted {
    let mut converter = Converter {
        root: schema,
        nodes: 0,
        steps: 0,
        bytes: 0,
        patterns: 0,
        open: Vec::new(),
        place: Vec::new(),
        lost: Vec::new(),
    };
    let schema = converter.top(schema);
    Converted { schema, lost: converter.lost }
}

/// Returns the schema of a tool's arguments as shown to models.
#[must_use]
pub fn of(tool: &Tool) -> Value {
    convert(&tool.input_schema.to_value()).schema
}

/// One schema, combined with its references and its parts.
#[derive(Default)]
struct Flat<'a> {
    words: BTreeMap<&'a str, &'a Value>,
    properties: BTreeMap<&'a str, &'a Value>,
    required: BTreeSet<&'a str>,
}

struct Converter<'a> {
    root: &'a Value,
    nodes: usize,
    steps: usize,
    bytes: usize,
    patterns: usize,
    /// References that are being expanded.
    open: Vec<&'a str>,
    place: Vec<&'a str>,
    lost: Vec<String>,
}

impl<'a> Converter<'a> {
    fn lose(&mut self, what: &str) {
        if self.lost.len() < LOST_MAX {
            let place =
                if self.place.is_empty() { "the arguments".to_owned() } else { clean(&self.place.join("."), 400) };
            let what = clean(first(what, 320), 80);
            let line = format!("{place}: {what}");
            if !self.lost.contains(&line) {
                self.lost.push(line);
            }
        }
    }

    /// Converts the top level: an object without alternatives.
    fn top(&mut self, schema: &'a Value) -> Value {
        let mut flat = self.flat(schema);
        let alternatives = Self::alternatives(&flat);
        if !alternatives.is_empty() {
            self.lose("anyOf");
            let flats: Vec<Flat<'a>> =
                alternatives.iter().take(PARTS_MAX).map(|alternative| self.flat(alternative)).collect();
            let every = |name: &&str| flats.iter().all(|flat| flat.required.contains(name));
            let required: BTreeSet<&str> =
                flats.first().map(|flat| flat.required.iter().copied().filter(every).collect()).unwrap_or_default();
            flat.required.extend(required);
            for alternative in &flats {
                for (name, property) in &alternative.properties {
                    flat.properties.entry(name).or_insert(property);
                }
            }
            flat.words.retain(|word, _| !matches!(*word, "anyOf" | "oneOf"));
        }
        if flat.words.get("type").is_some_and(|kind| **kind != "object") {
            self.lose("type");
        }
        flat.words.insert("type", &OBJECT);
        let converted = self.build(&flat, 0);
        self.open.clear();
        match converted {
            Value::Object(mut map) => {
                map.entry("properties").or_insert_with(|| json!({}));
                Value::Object(map)
            }
            other => other,
        }
    }

    fn node(&mut self, schema: &'a Value, depth: usize) -> Value {
        self.nodes += 1;
        if self.nodes > NODES_MAX || !self.spend(NODE_BYTES) {
            self.lose("the schema is too large");
            return json!({});
        }
        if depth > DEPTH_MAX {
            self.lose("the schema is too deep");
            return json!({});
        }
        let opened = self.open.len();
        let flat = self.flat(schema);
        let converted = self.build(&flat, depth);
        self.open.truncate(opened);
        converted
    }

    /// Combines a schema with its parts; a single alternative beside null replaces the schema itself.
    fn flat(&mut self, schema: &'a Value) -> Flat<'a> {
        let mut flat = Flat::default();
        let mut parts = 0;
        self.collect(schema, &mut flat, &mut parts);
        while let [only] = Self::alternatives(&flat)[..] {
            if parts > PARTS_MAX {
                break;
            }
            flat.words.retain(|word, _| !matches!(*word, "anyOf" | "oneOf"));
            self.collect(only, &mut flat, &mut parts);
        }
        flat
    }

    fn collect(&mut self, schema: &'a Value, flat: &mut Flat<'a>, parts: &mut usize) {
        *parts += 1;
        let Value::Object(map) = schema else {
            if *schema == Value::Bool(false) {
                self.lose("false");
            }
            return;
        };
        if *parts > PARTS_MAX {
            return self.lose("too many parts");
        }
        let length = |word| map.get(word).map_or(0, |value| value.as_object().map_or(0, Map::len) + list(value).len());
        let lists = ["properties", "required", "allOf", "anyOf", "oneOf", "enum"];
        self.steps += 1 + map.len() + lists.into_iter().map(length).sum::<usize>();
        if self.steps > STEPS_MAX {
            return self.lose("the schema is too large");
        }
        for (word, value) in map {
            match word.as_str() {
                "properties" => {
                    for (name, property) in value.as_object().into_iter().flatten() {
                        flat.properties.entry(name).or_insert(property);
                    }
                }
                "required" => {
                    flat.required.extend(list(value).iter().filter_map(Value::as_str));
                }
                "$ref" | "allOf" => {}
                _ => {
                    flat.words.entry(word).or_insert(value);
                }
            }
        }
        for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.collect(part, flat, parts);
        }
        let Some(reference) = map.get("$ref") else { return };
        let target = reference.as_str().and_then(|text| Some((text, self.root.pointer(text.strip_prefix('#')?)?)));
        match target {
            Some((text, _)) if self.open.contains(&text) => self.lose("the schema holds itself"),
            Some((text, target)) => {
                self.open.push(text);
                self.collect(target, flat, parts);
            }
            None => self.lose("a reference leads nowhere"),
        }
    }

    /// Returns the alternatives of a schema, without null.
    fn alternatives(flat: &Flat<'a>) -> Vec<&'a Value> {
        let listed = ["anyOf", "oneOf"].into_iter().filter_map(|word| flat.words.get(word)?.as_array()).flatten();
        listed.filter(|schema| schema.get("type").is_none_or(|kind| *kind != "null")).collect()
    }

    fn build(&mut self, flat: &Flat<'a>, depth: usize) -> Value {
        let mut out = Map::new();
        let types = self.types(flat);
        for (word, value) in &flat.words {
            match keywords::of(word) {
                Keyword::Kept => match kept_as_is(word, value, &types).filter(|_| self.may_keep(word, value)) {
                    Some(kept) => {
                        out.insert((*word).to_owned(), kept);
                    }
                    None => self.lose(word),
                },
                Keyword::Description => {
                    let text = first(value.as_str().unwrap_or_default(), 16 * DESCRIPTION_CHARS);
                    let text = clean(text, DESCRIPTION_CHARS);
                    if self.spend(text.len()) {
                        out.insert("description".to_owned(), text.into());
                    } else {
                        self.lose("the schema is too large");
                    }
                }
                Keyword::Values => self.values(word, value, &mut out),
                Keyword::Items => {
                    self.place.push("items");
                    let items = if value.is_array() { json!({}) } else { self.node(value, depth + 1) };
                    self.place.pop();
                    out.insert("items".to_owned(), items);
                }
                Keyword::Additional => {
                    let kept = if value.is_boolean() { (*value).clone() } else { self.node(value, depth + 1) };
                    out.insert("additionalProperties".to_owned(), kept);
                }
                // The first two are converted below.
                Keyword::Type | Keyword::Alternatives | Keyword::Remark => {}
                Keyword::Unknown => self.lose(word),
            }
        }
        self.properties(flat, depth, &mut out);
        self.alternatives_of(flat, &types, depth, &mut out);
        if types.contains(&"array") {
            out.entry("items").or_insert_with(|| json!({}));
        }
        Value::Object(out)
    }

    /// Returns the declared types, without null.
    fn types(&mut self, flat: &Flat<'a>) -> Vec<&'a str> {
        match flat.words.get("type") {
            Some(Value::String(kind)) if TYPES.contains(&kind.as_str()) => vec![kind],
            Some(Value::Array(kinds)) => {
                let known = kinds.iter().filter_map(Value::as_str).filter(|kind| TYPES.contains(kind));
                known.filter(|kind| *kind != "null").take(PARTS_MAX).collect()
            }
            Some(_) => {
                self.lose("type");
                Vec::new()
            }
            None if !flat.properties.is_empty() => vec!["object"],
            None => Vec::new(),
        }
    }

    fn values(&mut self, word: &str, value: &Value, out: &mut Map<String, Value>) {
        let values: &[Value] = if word == "enum" { list(value) } else { std::slice::from_ref(value) };
        // Providers accept only strings and numbers here. Omitting some values would forbid valid ones, and the source
        // would reject a value that differs from its own.
        let plain: Vec<&Value> = values.iter().filter(|value| !value.is_null()).take(VALUES_MAX + 1).collect();
        let bytes = plain.iter().map(|value| value.as_str().map_or(NODE_BYTES, str::len) + PUNCTUATION).sum();
        if plain.is_empty()
            || plain.len() > VALUES_MAX
            || plain.iter().any(|value| value.is_array() || value.is_object() || !is_visible(value))
            || !self.spend(bytes)
        {
            return self.lose(word);
        }
        out.insert("enum".to_owned(), plain.into_iter().cloned().collect());
    }

    fn properties(&mut self, flat: &Flat<'a>, depth: usize, out: &mut Map<String, Value>) {
        let mut properties = Map::new();
        for (name, property) in &flat.properties {
            if property.is_boolean() {
                if **property == Value::Bool(true) {
                    properties.insert((*name).to_owned(), json!({}));
                }
                continue;
            }
            if self.nodes >= NODES_MAX || !self.spend(2 * name.len()) {
                self.lose("the schema is too large");
                break;
            }
            if name.len() > NAME_BYTES_MAX {
                self.lose("the name of an argument is too long");
                continue;
            }
            self.place.push(name);
            // The source would reject the name without these characters.
            if clean(name, usize::MAX) != **name {
                self.lose("its name has characters that cannot be seen");
                self.place.pop();
                continue;
            }
            let converted = self.node(property, depth + 1);
            self.place.pop();
            properties.insert((*name).to_owned(), converted);
        }
        let required: Vec<&str> = flat.required.iter().copied().filter(|name| properties.contains_key(*name)).collect();
        if !properties.is_empty() {
            out.insert("properties".to_owned(), properties.into());
        }
        if !required.is_empty() {
            out.insert("required".to_owned(), json!(required));
        }
    }

    /// Returns true if this number of bytes fits, and counts them.
    const fn spend(&mut self, bytes: usize) -> bool {
        let spent = self.bytes.saturating_add(bytes);
        if spent > BYTES_MAX {
            return false;
        }
        self.bytes = spent;
        true
    }

    /// True if the value of a kept keyword is visible and fits.
    fn may_keep(&mut self, word: &str, value: &Value) -> bool {
        self.patterns += usize::from(word == "pattern");
        (word != "pattern" || self.patterns <= PATTERNS_MAX)
            && is_visible(value)
            && self.spend(NODE_BYTES + value.as_str().map_or(0, str::len))
    }

    /// Writes one type as such; several types, and alternatives, become a list of schemas.
    fn alternatives_of(&mut self, flat: &Flat<'a>, types: &[&'a str], depth: usize, out: &mut Map<String, Value>) {
        let alternatives = Self::alternatives(flat);
        if !alternatives.is_empty() {
            if alternatives.len() > PARTS_MAX {
                return self.lose("anyOf");
            }
            // Alternatives that only state combinations add nothing that a provider accepts.
            let telling = |schema: &&&Value| {
                ["type", "properties", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "items"]
                    .iter()
                    .any(|word| schema.get(word).is_some())
            };
            if alternatives.iter().all(|schema| telling(&schema)) {
                let list: Vec<Value> =
                    alternatives.into_iter().map(|alternative| self.node(alternative, depth + 1)).collect();
                out.insert("anyOf".to_owned(), list.into());
            } else {
                self.lose("anyOf");
            }
        }
        match types {
            [] => {}
            [only] => {
                out.insert("type".to_owned(), (*only).into());
            }
            several if !out.contains_key("anyOf") => {
                let list: Vec<Value> = several.iter().map(|kind| bare(kind)).collect();
                out.insert("anyOf".to_owned(), list.into());
            }
            _ => self.lose("type"),
        }
    }
}

/// The approximate size of a schema, a number or a keyword when written, in bytes.
const NODE_BYTES: usize = 24;
/// The punctuation around a value in a list, in bytes.
const PUNCTUATION: usize = 3;

/// Returns the beginning of a text, at most this number of bytes, split at a character boundary.
fn first(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Returns the elements of a list; empty if the value is not a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// True unless the value is a text with characters that are invisible to people but readable for models.
fn is_visible(value: &Value) -> bool {
    value.as_str().is_none_or(|text| clean(text, usize::MAX) == text)
}

/// Builds a schema with only a type.
fn bare(kind: &str) -> Value {
    if kind == "array" { json!({"type": kind, "items": {}}) } else { json!({ "type": kind }) }
}

#[cfg(test)]
mod tests;
