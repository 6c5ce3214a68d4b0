//! Parses one `models.json`. Unknown fields are ignored, because other programs share the format; one that looks like a
//! misspelled field gets a warning.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::chat::ChatCompletions;
use crate::registry::{Changes, File};
use crate::row_wire::RowWire;
use domain::clean::clean;
use domain::model::{DESCRIPTION_CHARS, MAX_TOOLS, Price, ReplyBy, Row, ToolMode};
use domain::near;

/// The longest timeout; the deadline of a turn is far shorter.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// The highest temperature of any provider.
const HIGHEST_TEMPERATURE: f64 = 2.0;

/// A parsed row that may be inactive.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The row for the rest of the program.
    pub row: Row,
    /// The provider's name of the model.
    pub model: String,
    /// The location.
    pub host: Host,
    /// The wire to it.
    pub wire: RowWire,
    /// The variable that holds its key.
    pub env_key: Option<String>,
    /// The condition for being active.
    pub presence: Presence,
}

/// The location of a row's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An address of its own.
    Own(String),
    /// Google's endpoint.
    Google,
    /// The default endpoint.
    Default,
}

/// The condition for a row to be active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Always active.
    Taken,
    /// Active if another row or the environment names it.
    WhenNamed,
    /// Disabled.
    Disabled,
}

/// Properties of a family of models, for a row created from a model's name alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// A part of the names of its models, in lower case.
    pub pattern: String,
    /// The temperature; `None` keeps the default.
    pub temperature: Option<f64>,
    /// See the row's field of the same name.
    pub schema_with_tools: bool,
    /// True if its models accept pictures.
    pub vision: bool,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub struct Contents {
    /// The rows in the file's order.
    pub drafts: Vec<Draft>,
    /// The families in the file's order; `None` if the list is missing.
    pub families: Option<Vec<Family>>,
    /// Warnings about fields without effect that look like misspellings.
    pub warnings: Vec<String>,
}

/// The known fields of a row, and fields of other programs that resemble them.
const FIELDS: [&str; 31] = [
    "model_id",
    "type",
    "host",
    "env_key",
    "enabled",
    "description",
    "tool_call_available",
    "tools",
    "schema_with_tools",
    "reply_by",
    "tool_history",
    "max_tools",
    "vision",
    "pdf",
    "native_mcp",
    "native_web_search",
    "takes_reasoning_effort",
    "embeddings",
    "embeddings_price_per_million",
    "llm_call_timeout",
    "fallback",
    "stream",
    "temperature",
    "max_tokens",
    "cache_control",
    "max_context",
    "price_per_million",
    "wire",
    "id",
    "name",
    "key",
];

/// The most warnings about one file.
const WARNINGS_MAX: usize = 20;

/// Warns about each field that looks like a misspelled known one.
fn slips(place: &str, row: &Map<String, Value>, warnings: &mut Vec<String>) {
    for name in row.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        if warnings.len() >= WARNINGS_MAX {
            return;
        }
        if let Some(near) = near::nearest(name, FIELDS.into_iter()) {
            warnings.push(format!("{place}: {name}: has no effect; did you mean {near}?"));
        }
    }
}

/// Parses a file and applies the changes of its rows. Mistakes are added to `errors` and parsing continues, so that all
/// are reported at once.
pub fn read(file: File<'_>, changes: Option<Changes<'_>>, timeout: Duration, errors: &mut Vec<String>) -> Contents {
    let shape: Shape = match serde_json::from_str(file.text.trim_start_matches('\u{feff}')) {
        Ok(shape) => shape,
        Err(why) => {
            errors.push(format!(
                "{}: is not a models file ({why}); write {{\"version\": 1, \"models\": {{...}}}}",
                file.path
            ));
            return Contents::default();
        }
    };
    if shape.version.as_ref().is_some_and(|version| *version != 1) {
        errors.push(format!("{}: version: only 1 is known; write 1", file.path));
    }
    let families = shape.families.map(|list| families(file.path, &list, errors));
    let mut drafts: Vec<Draft> = Vec::new();
    let (mut keys, mut warnings) = (HashSet::new(), Vec::new());
    let mut rows = shape.models.0;
    let (known, changed) = (rows.len(), changes.iter().flat_map(|changes| changes.rows));
    for (key, fields) in changed {
        match rows[..known].iter_mut().find(|(known, _)| known == key) {
            Some((_, row)) => change(row, fields),
            None => rows.push((key.clone(), fields.clone())),
        }
    }
    for (key, value) in rows {
        let changed = changes.filter(|changes| changes.rows.contains_key(&key));
        let place = format!("{}: row {key}", changed.map_or(file.path, |changes| changes.path));
        if key.trim().is_empty() {
            errors.push(format!("{place}: the key is empty; give the row a name"));
        } else if keys.contains(&key) {
            errors.push(format!("{place}: is defined twice; rename or remove one"));
        } else if let Value::Object(map) = &value {
            keys.insert(key.clone());
            slips(&place, map, &mut warnings);
            drafts.push(draft(key, timeout, Fields { place, map, errors, warnings: &mut warnings }));
        } else {
            errors.push(format!("{place}: must be an object; write {{\"model_id\": \"...\"}}"));
        }
    }
    Contents { drafts, families, warnings }
}

/// Overwrites fields of a row with the changed ones.
fn change(row: &mut Value, fields: &Value) {
    if let (Value::Object(row), Value::Object(fields)) = (row, fields) {
        row.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

fn families(path: &str, list: &[Value], errors: &mut Vec<String>) -> Vec<Family> {
    let mut families = Vec::new();
    for (number, value) in list.iter().enumerate() {
        let place = format!("{path}: family {}", number + 1);
        let Value::Object(map) = value else {
            errors.push(format!("{place}: must be an object; write {{\"pattern\": \"...\"}}"));
            continue;
        };
        let mut fields = Fields { place, map, errors, warnings: &mut Vec::new() };
        let Some(pattern) = fields.read("pattern", "a part of the models' names", text) else {
            if !map.contains_key("pattern") {
                fields.errors.push(format!("{}: pattern: is missing; write a part of the models' names", fields.place));
            }
            continue;
        };
        families.push(Family {
            pattern: pattern.to_lowercase(),
            temperature: fields.read("temperature", "a number from 0 to 2, or null", temperature),
            schema_with_tools: fields.flag("schema_with_tools").unwrap_or(false),
            vision: fields.flag("vision").unwrap_or(false),
        });
    }
    families
}

fn draft(key: String, timeout: Duration, mut fields: Fields<'_>) -> Draft {
    let host = host(&mut fields);
    let wire = wire(&mut fields, &host);
    let presence = match fields.flag("enabled") {
        Some(false) => Presence::Disabled,
        None if host == Host::Default => Presence::WhenNamed,
        Some(true) | None => Presence::Taken,
    };
    Draft {
        model: fields.read("model_id", "a text that is not empty", text).unwrap_or_else(|| key.clone()),
        host,
        wire,
        env_key: fields.read("env_key", "the name of a variable, or null", text),
        presence,
        row: Row {
            description: fields.read("description", "a text, or null", description).filter(|text| !text.is_empty()),
            tools: tools(&mut fields),
            schema_with_tools: fields.flag("schema_with_tools").unwrap_or(false),
            reply_by: reply_by(&mut fields),
            tool_history: fields.read("tool_history", "a whole number of messages", count).unwrap_or(0),
            max_tools: fields.read("max_tools", "a whole number of tools", count).unwrap_or(MAX_TOOLS),
            vision: fields.flag("vision").unwrap_or(false),
            pdf: fields.flag("pdf").unwrap_or(false),
            native_mcp: native(&mut fields, "native_mcp", wire),
            native_web_search: native(&mut fields, "native_web_search", wire),
            embeddings: fields.read("embeddings", "the name of a model, or null", text),
            embeddings_price: fields.read("embeddings_price_per_million", "dollars, 0 or more", dollars),
            timeout: fields
                .read("llm_call_timeout", "seconds or a duration such as \"60s\", at most an hour", duration)
                .unwrap_or(timeout),
            fallback: fields.read("fallback", "a list of row keys", texts).unwrap_or_default(),
            stream: fields.flag("stream").unwrap_or(true),
            temperature: fields.read("temperature", "a number from 0 to 2, or null", temperature),
            reasoning_effort: fields.flag("takes_reasoning_effort").unwrap_or(false),
            fixed_temperature: fields.map.get("temperature").is_some_and(Value::is_null),
            max_tokens: fields.read("max_tokens", "a whole number of tokens above 0", tokens),
            max_context: fields.read("max_context", "a whole number of messages", count),
            price: fields.read("price_per_million", "an object with \"input\" and \"output\" in dollars", price),
            key,
        },
    }
}

/// Returns the tool mode. In the older field `tool_call_available`, false disables tools.
fn tools(fields: &mut Fields<'_>) -> ToolMode {
    let available = fields.flag("tool_call_available").unwrap_or(true);
    let asked = fields.read("tools", "\"native\", \"prompt\" or \"off\"", |value| {
        let modes = [ToolMode::Native, ToolMode::Prompt, ToolMode::Off];
        modes.into_iter().find(|mode| value.as_str().is_some_and(|word| word.trim() == mode.as_str()))
    });
    asked.unwrap_or(if available { ToolMode::Native } else { ToolMode::Off })
}

/// Returns the way in which typed answers are given.
fn reply_by(fields: &mut Fields<'_>) -> ReplyBy {
    let asked = fields.read("reply_by", "\"auto\", \"schema\" or \"tool\"", |value| {
        ReplyBy::ALL.into_iter().find(|way| value.as_str().is_some_and(|word| word.trim() == way.as_str()))
    });
    asked.unwrap_or_default()
}

/// Returns the wire that the row names, with its settings. A name that this version does not support gets a warning
/// and the default.
fn wire(fields: &mut Fields<'_>, host: &Host) -> RowWire {
    let name = fields.read("wire", "\"chat\" or \"responses\"", text);
    let cache_marks = fields.flag("cache_control").unwrap_or(false);
    match name.as_deref() {
        Some("responses") if *host == Host::Google => fields.errors.push(format!(
            "{}: wire: Google's endpoint has chat completions only; write \"chat\", or set a host",
            fields.place
        )),
        Some("responses") => {
            if cache_marks {
                fields.warn("cache_control: has no effect with \"wire\": \"responses\"; remove it");
            }
            return RowWire::Responses;
        }
        None | Some("chat") => {}
        Some(name) => fields.warn(&format!("wire: {name:?} is not supported; chat completions are used")),
    }
    RowWire::ChatCompletions(ChatCompletions { cache_marks })
}

/// True if a row has this tool of the provider, which requires the wire.
fn native(fields: &mut Fields<'_>, name: &str, wire: RowWire) -> bool {
    let wanted = fields.flag(name).unwrap_or(false);
    if wanted && wire != RowWire::Responses {
        fields.warn(&format!("{name}: has no effect without \"wire\": \"responses\""));
    }
    wanted && wire == RowWire::Responses
}

fn host(fields: &mut Fields<'_>) -> Host {
    let kind = fields.read("type", "\"OPENAI\" or \"GEMINI\"", |value| {
        let kind = value.as_str()?.to_ascii_uppercase();
        ["OPENAI", "GEMINI"].contains(&kind.as_str()).then_some(kind)
    });
    match fields.read("host", "an address, or null", text) {
        Some(address_text) => match address(&address_text) {
            Ok(base) => Host::Own(base),
            Err(why) => {
                fields.errors.push(format!("{}: host: {why}", fields.place));
                Host::Own(String::new())
            }
        },
        None if kind.as_deref() == Some("GEMINI") => Host::Google,
        None => Host::Default,
    }
}

/// Returns the base address before `/chat/completions`. `/v1` is appended unless the address has a version.
///
/// # Errors
/// Why the address is invalid; never the address itself, which may contain a secret.
pub fn address(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text.trim())
        .map_err(|why| format!("is not a valid address ({why}); write http://host:port/v1"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        return Err("is not a web address; write it with http:// or https:// in front".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a secret; put the key into a variable instead".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has something after a ? or #; write only the address up to /v1".to_owned());
    }
    let base = url.as_str().trim_end_matches('/').to_owned();
    let versioned = url
        .path()
        .split('/')
        .any(|part| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    Ok(if versioned { base } else { format!("{base}/v1") })
}

/// The fields of one row, with the place for messages, the list of mistakes and that of warnings.
struct Fields<'a> {
    place: String,
    map: &'a Map<String, Value>,
    errors: &'a mut Vec<String>,
    warnings: &'a mut Vec<String>,
}

impl Fields<'_> {
    /// Returns the field's value. Returns `None` if it is absent, null or invalid; an invalid value is reported.
    fn read<T>(&mut self, name: &str, expected: &str, parse: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.map.get(name).filter(|value| !value.is_null())?;
        let parsed = parse(value);
        if parsed.is_none() {
            self.errors.push(format!("{}: {name}: is not usable; write {expected}", self.place));
        }
        parsed
    }

    /// Adds a warning about a field.
    fn warn(&mut self, what: &str) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(format!("{}: {what}", self.place));
        }
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        self.read(name, "true or false", Value::as_bool)
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns a description on one line.
fn description(value: &Value) -> Option<String> {
    let line = clean(value.as_str()?, DESCRIPTION_CHARS).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn tokens(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok().filter(|tokens| *tokens > 0)
}

fn temperature(value: &Value) -> Option<f64> {
    value.as_f64().filter(|degrees| (0.0..=HIGHEST_TEMPERATURE).contains(degrees))
}

fn duration(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let duration = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        None => humantime::parse_duration(value.as_str()?.trim()).ok()?,
    };
    (!duration.is_zero() && duration <= LONGEST_TIMEOUT).then_some(duration)
}

fn dollars(value: &Value) -> Option<f64> {
    value.as_f64().filter(|dollars| *dollars >= 0.0)
}

/// Reads a price. Cached tokens cost the full price unless the row sets a lower one.
fn price(value: &Value) -> Option<Price> {
    let input = dollars(value.get("input")?)?;
    let output = dollars(value.get("output")?)?;
    let cached = match value.get("cached").filter(|value| !value.is_null()) {
        Some(cached) => dollars(cached)?,
        None => input,
    };
    Some(Price { input, output, cached })
}

#[derive(Deserialize)]
struct Shape {
    version: Option<Value>,
    families: Option<Vec<Value>>,
    models: Pairs,
}

/// An object's entries in the order of the file, duplicates included.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of rows")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
