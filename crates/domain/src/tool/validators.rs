//! Compiled schemas, which validate the arguments of calls. A schema is compiled at its first use, because most tools
//! are never called. Tools with equal schemas share one. The cache is bounded and evicts the least recently used,
//! because a compiled pattern takes a thousand times the memory of its text.
//!
//! Validation runs on the task of its turn and takes up to the product of schema and arguments, so that product is
//! bounded. Beyond the bound the source performs the checks alone, as it does for what models are not shown.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::bounds::Weight;
use crate::completion::WrittenJson;

/// The maximum estimated memory of all compiled schemas, in bytes.
pub const COMPILED_BYTES: usize = 32 * 1024 * 1024;
/// The maximum size of one compiled pattern, in bytes.
const PATTERN_BYTES: usize = 64 * 1024;
/// The sizes at one of which a pattern is weighed, in bytes: the smallest in which its compiled form fits.
const PATTERN_SIZES: [usize; 3] = [2 * 1024, 8 * 1024, PATTERN_BYTES];
/// The maximum product of the JSON values of a schema and those of the arguments that it checks.
const STEPS_MAX: usize = 250_000;
/// The maximum product of the bytes of all compiled patterns of a schema and the bytes of the texts that they are
/// matched against.
const MATCH_STEPS_MAX: usize = 24_000_000;
/// The maximum memory of a pattern with its caches, in bytes.
const PATTERN_COST: usize = 4 * PATTERN_BYTES;
/// The approximate memory of each other value of a compiled schema, in bytes.
const VALUE_COST: usize = 256;

/// The identity of a schema: equal schemas have equal keys.
pub type SchemaKey = [u8; 32];

/// Returns the key of a schema.
#[must_use]
pub fn key(schema: &WrittenJson) -> SchemaKey {
    Sha256::digest(schema.as_str()).into()
}

/// A bounded cache of compiled schemas, by last use.
#[derive(Default)]
pub struct Validators(Mutex<Cache>);

#[derive(Default)]
struct Cache {
    kept: HashMap<SchemaKey, Kept>,
    cost: usize,
    /// The number of uses so far.
    uses: u64,
}

struct Kept {
    validator: Compiled,
    cost: usize,
    used: u64,
}

/// A compiled schema; none if it cannot be compiled.
type Compiled = Option<Arc<CompiledSchema>>;

/// A compiled schema and the bounds of its use.
#[derive(Debug)]
pub struct CompiledSchema {
    whole: Validator,
    /// The same schema without its patterns, if it has any.
    plain: Option<Validator>,
    /// The number of its JSON values.
    values: usize,
    /// The bytes of its compiled patterns.
    patterns: usize,
}

impl CompiledSchema {
    /// Returns the validator for these arguments: without patterns if their texts are too long to match, none if they
    /// have too many values.
    #[must_use]
    pub fn validator(&self, arguments: &Value) -> Option<&Validator> {
        let Size { values, text } = Size::of(arguments);
        if self.values.saturating_mul(values) > STEPS_MAX {
            return None;
        }
        let is_short = self.patterns.saturating_mul(text) <= MATCH_STEPS_MAX;
        if is_short { Some(&self.whole) } else { self.plain.as_ref() }
    }
}

#[derive(Default)]
struct Size {
    values: usize,
    /// Bytes of all strings.
    text: usize,
}

impl Size {
    fn of(arguments: &Value) -> Self {
        let mut size = Self::default();
        size.count(arguments);
        size
    }

    fn count(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::String(text) => self.text += text.len(),
            Value::Array(items) => items.iter().for_each(|item| self.count(item)),
            Value::Object(map) => map.values().for_each(|value| self.count(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl Validators {
    /// Returns the compiled schema; none if it cannot be compiled, in which case only objects are accepted.
    #[must_use]
    pub fn get(&self, key: SchemaKey, schema: &WrittenJson) -> Compiled {
        if let Some(known) = self.0.lock().get(key) {
            return known;
        }
        let value = schema.to_value();
        let (validator, cost) = (compile(&value).map(Arc::new), cost(Weight::of_schema(&value)));
        self.0.lock().insert(key, validator.clone(), cost);
        validator
    }

    /// Returns the number of compiled schemas and their estimated memory in bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let cache = self.0.lock();
        (cache.kept.len(), cache.cost)
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Validators").field(&self.size()).finish()
    }
}

impl Cache {
    fn get(&mut self, key: SchemaKey) -> Option<Compiled> {
        self.uses += 1;
        let kept = self.kept.get_mut(&key)?;
        kept.used = self.uses;
        Some(kept.validator.clone())
    }

    fn insert(&mut self, key: SchemaKey, validator: Compiled, cost: usize) {
        while self.cost + cost > COMPILED_BYTES {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            let Some(gone) = oldest.and_then(|oldest| self.kept.remove(&oldest)) else { break };
            self.cost -= gone.cost;
        }
        if let Some(before) = self.kept.insert(key, Kept { validator, cost, used: self.uses }) {
            self.cost -= before.cost;
        }
        self.cost += cost;
    }
}

/// Returns the approximate memory of a compiled schema, in bytes. One with patterns is compiled without them, too.
const fn cost(weight: Weight) -> usize {
    let validators = if weight.patterns == 0 { 1 } else { 2 };
    validators * weight.values * VALUE_COST + weight.patterns * PATTERN_COST
}

/// Compiles a schema as shown to models: its values, patterns and depth are bounded, and it has no references. The
/// regex engine takes time linear in the text. If the engine does not support a pattern, or a pattern is too large, no
/// patterns of the schema are checked here; the source performs its own checks.
fn compile(schema: &Value) -> Option<CompiledSchema> {
    let values = Weight::of_schema(schema).values;
    let mut plain = schema.clone();
    let mut patterns = Vec::new();
    without_patterns(&mut plain, &mut patterns);
    let plain = jsonschema::options().build(&plain).ok()?;
    if let Some(patterns) = weigh(&patterns).filter(|patterns| *patterns > 0)
        && let Some(whole) = compile_with(schema, PATTERN_BYTES)
    {
        return Some(CompiledSchema { whole, plain: Some(plain), values, patterns });
    }
    Some(CompiledSchema { whole: plain, plain: None, values, patterns: 0 })
}

/// Compiles a schema whose compiled patterns take at most `size` bytes each.
fn compile_with(schema: &Value, size: usize) -> Option<Validator> {
    let patterns = PatternOptions::regex().size_limit(size).dfa_size_limit(PATTERN_BYTES);
    jsonschema::options().with_pattern_options(patterns).build(schema).ok()
}

/// Returns the sum of the sizes of these patterns; none if one is too large or not supported.
fn weigh(patterns: &[Value]) -> Option<usize> {
    let weight = |pattern: &Value| {
        let schema = json!({ "pattern": pattern });
        PATTERN_SIZES.into_iter().find(|size| compile_with(&schema, *size).is_some())
    };
    patterns.iter().map(weight).sum()
}

/// Moves the patterns of a schema into a list.
fn without_patterns(schema: &mut Value, patterns: &mut Vec<Value>) {
    match schema {
        Value::Object(map) => {
            if map.get("pattern").is_some_and(Value::is_string) {
                patterns.extend(map.remove("pattern"));
            }
            map.values_mut().for_each(|value| without_patterns(value, patterns));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without_patterns(item, patterns)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(validators: &Validators, schema: &Value) -> Compiled {
        let schema = WrittenJson::new(schema);
        validators.get(key(&schema), &schema)
    }

    #[test]
    fn equal_schemas_share_one_and_those_used_last_are_kept_within_a_bound() {
        let validators = Validators::default();
        let pattern = |number: usize| json!({"type": "string", "pattern": format!("^a{{1,{number}}}$")});
        let first = used(&validators, &pattern(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &used(&validators, &pattern(1)).unwrap()));
        for number in 2..400 {
            assert!(used(&validators, &pattern(number)).is_some());
            used(&validators, &pattern(1));
        }
        let (kept, cost) = validators.size();
        assert!(cost <= COMPILED_BYTES && (50..200).contains(&kept), "{kept} {cost}");
        assert!(Arc::ptr_eq(&first, &used(&validators, &pattern(1)).unwrap()), "it was used all the time");
    }

    #[test]
    fn a_pattern_that_cannot_be_run_takes_no_other_check_away() {
        for pattern in ["(?=a)b", r"^\w{1,5000}$", "("] {
            let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"pattern": pattern}}});
            let compiled = used(&Validators::default(), &schema).unwrap();
            assert_eq!(is_valid(&compiled, &json!({"n": 1, "s": "x"})), Some(true), "{pattern}");
            assert_eq!(is_valid(&compiled, &json!({"n": "one"})), Some(false), "{pattern}");
        }
    }

    fn is_valid(compiled: &CompiledSchema, arguments: &Value) -> Option<bool> {
        Some(compiled.validator(arguments)?.is_valid(arguments))
    }

    #[test]
    fn long_texts_are_not_matched_and_many_values_are_not_checked() {
        let schema = json!({"type": "object", "properties": {
            "day": {"pattern": r"^\d{4}-\d{2}-\d{2}$"}, "n": {"type": "integer"}, "text": {"type": "string"}}});
        let compiled = used(&Validators::default(), &schema).unwrap();
        let call = |day: &str, n: Value, text: usize| json!({"day": day, "n": n, "text": "x".repeat(text)});
        assert_eq!(is_valid(&compiled, &call("2026-01-02", json!(1), 5_000)), Some(true));
        assert_eq!(is_valid(&compiled, &call("today", json!(1), 5_000)), Some(false));
        assert_eq!(is_valid(&compiled, &call("today", json!(1), 50_000)), Some(true), "the source matches it");
        assert_eq!(is_valid(&compiled, &call("today", json!("one"), 50_000)), Some(false));
        assert_eq!(is_valid(&compiled, &call("today", json!(vec![1; 50_000]), 0)), None);
    }

    /// Choices of choices, none of which fits.
    fn choices() -> Value {
        let inner = json!({"anyOf": vec![json!({"type": "string"}); 25]});
        json!({"properties": {"a": {"items": {"anyOf": vec![inner; 25]}}}})
    }

    #[test]
    fn arguments_of_any_number_of_values_are_checked_in_a_slice() {
        cost::fits_a_slice(
            60_000,
            |size| {
                let compiled = used(&Validators::default(), &choices()).unwrap();
                // The largest that is checked, and one that may be larger.
                let checked = STEPS_MAX / compiled.values - 2;
                let arguments = [checked.min(size), size].map(|many| json!({"a": vec![1; many]}));
                assert!(compiled.validator(&arguments[0]).is_some());
                (compiled, arguments)
            },
            |(compiled, arguments)| {
                for arguments in &arguments {
                    assert_ne!(checked(&compiled, arguments), Ok(true));
                }
            },
        );
    }

    #[test]
    fn texts_of_any_length_are_matched_in_a_slice() {
        cost::fits_a_slice(
            100_000,
            |size| {
                let pattern = json!({"pattern": "^[ab]*a[ab]{500}c?$"});
                let compiled = used(&Validators::default(), &json!({"properties": {"s": pattern}})).unwrap();
                let matched = MATCH_STEPS_MAX / compiled.patterns;
                let arguments = [matched.min(size), size].map(|long| json!({"s": "ab".repeat(long / 2)}));
                assert!(
                    compiled.validator(&arguments[0]).is_some_and(|it| std::ptr::eq(it, &raw const compiled.whole))
                );
                (compiled, arguments)
            },
            |(compiled, arguments)| {
                for arguments in &arguments {
                    drop(checked(&compiled, arguments));
                }
            },
        );
    }

    /// Checks as calls are checked; true if the arguments were validated and fit.
    fn checked(compiled: &CompiledSchema, arguments: &Value) -> Result<bool, String> {
        let Some(validator) = compiled.validator(arguments) else { return Ok(false) };
        validator.validate(arguments).map(|()| true).map_err(|error| error.to_string())
    }
}
