//! Compiled schemas, which validate the arguments of calls. A schema is compiled at its first use, because most tools
//! are never called. Tools with equal schemas share one. The cache is bounded and evicts the least recently used,
//! because a compiled pattern takes a thousand times the memory of its text.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::bounds::Weight;
use crate::completion::WrittenJson;

/// The maximum estimated memory of all compiled schemas, in bytes.
pub const COMPILED_BYTES: usize = 32 * 1024 * 1024;
/// The maximum size of one compiled pattern, in bytes.
const PATTERN_BYTES: usize = 64 * 1024;
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
    /// The sum of their costs.
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
type Compiled = Option<Arc<Validator>>;

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

/// Returns the approximate memory of a compiled schema, in bytes.
const fn cost(weight: Weight) -> usize {
    weight.values * VALUE_COST + weight.patterns * PATTERN_COST
}

/// Compiles a schema as shown to models: its values, patterns and depth are bounded, and it has no references. The
/// regex engine takes time linear in the text. If the engine does not support a pattern, or a pattern is too large, no
/// patterns of the schema are checked here; the source performs its own checks.
fn compile(schema: &Value) -> Option<Validator> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    let compiled = jsonschema::options().with_pattern_options(patterns).build(schema);
    compiled.ok().or_else(|| {
        let mut plain = schema.clone();
        without_patterns(&mut plain);
        jsonschema::options().build(&plain).ok()
    })
}

fn without_patterns(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("pattern").is_some_and(Value::is_string) {
                map.remove("pattern");
            }
            map.values_mut().for_each(without_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(without_patterns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            let validator = used(&Validators::default(), &schema).unwrap();
            assert!(
                validator.is_valid(&json!({"n": 1, "s": "x"})) && !validator.is_valid(&json!({"n": "one"})),
                "{pattern}"
            );
        }
    }
}
