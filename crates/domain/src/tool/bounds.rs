//! Bounds on the total size of tools: of one source, and of a whole catalogue. The conversion of the schema bounds a
//! single tool; without these sums, a list of many large tools would still exhaust memory.

use serde_json::Value;

/// The size of tools, or a bound on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// JSON values of the schemas shown to models, with references expanded.
    pub values: usize,
    /// Patterns in these schemas.
    pub patterns: usize,
    /// Bytes of descriptions and schemas, both as received and as shown to models.
    pub bytes: usize,
}

/// The maximum for the tools of one source.
pub const OF_SOURCE: Weight = Weight { values: 250_000, patterns: 5_000, bytes: 8 * 1024 * 1024 };
/// The maximum for the tools of one process that registers itself; lower, because it is less trusted.
pub const OF_PROVIDER: Weight = Weight { values: 100_000, patterns: 2_000, bytes: 3 * 1024 * 1024 };
/// The maximum for the tools of all such processes together.
pub const OF_PROVIDERS: Weight = OF_SOURCE;
/// The maximum for all tools of a catalogue.
pub const OF_CATALOGUE: Weight = Weight { values: 1_000_000, patterns: 20_000, bytes: 32 * 1024 * 1024 };

impl Weight {
    /// Counts the values and patterns of a schema; its depth is bounded.
    #[must_use]
    pub fn of_schema(schema: &Value) -> Self {
        let mut weight = Self::default();
        weight.count(schema);
        weight
    }

    fn count(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::Object(map) => {
                self.patterns += usize::from(map.get("pattern").is_some_and(Value::is_string));
                map.values().for_each(|value| self.count(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.count(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The remaining room of a bound.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    left: Weight,
    overfull: bool,
}

impl Room {
    /// Returns the full room of this bound.
    #[must_use]
    pub const fn of(bound: Weight) -> Self {
        Self { left: bound, overfull: false }
    }

    /// True once a weight was refused. Later weights are refused too, so that their tools need not be converted to be
    /// weighed.
    #[must_use]
    pub const fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// Subtracts the weight if it fits. Returns true if it fits.
    pub fn take(&mut self, weight: Weight) -> bool {
        let left = (!self.overfull).then_some(()).and_then(|()| {
            Some(Weight {
                values: self.left.values.checked_sub(weight.values)?,
                patterns: self.left.patterns.checked_sub(weight.patterns)?,
                bytes: self.left.bytes.checked_sub(weight.bytes)?,
            })
        });
        match left {
            Some(left) => self.left = left,
            None => self.overfull = true,
        }
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sum_is_bounded_in_each_of_its_parts() {
        let schema = json!({"type": "object", "properties": {"a": {"pattern": "^a$"}, "pattern": {"enum": [1, 2]}}});
        let weight = Weight::of_schema(&schema);
        assert_eq!((weight.values, weight.patterns), (9, 1), "an argument of the name pattern is none");
        let bound = Weight { values: 20, patterns: 2, bytes: 100 };
        for heavy in
            [Weight { values: 21, ..weight }, Weight { patterns: 3, ..weight }, Weight { bytes: 101, ..weight }]
        {
            let mut room = Room::of(bound);
            assert!(room.take(weight) && !room.take(heavy));
            assert!(room.is_overfull() && !room.take(Weight::default()), "what follows is refused");
        }
    }
}
