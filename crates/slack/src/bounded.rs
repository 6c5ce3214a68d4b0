//! Reads parts of Slack's JSON with a bound: many small values take hundreds of times the memory of their text.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::unreadable::Unreadable;
use domain::json_values;

/// The longest text that is parsed in place, in bytes. A longer one would hold up other work of the thread.
pub(super) const IN_PLACE_MAX: usize = 64 * 1024;
/// The most values that are parsed without a known form.
const VALUES_MAX: usize = 2_000;

/// Reads the first `MOST` values of a list, and skips the others.
///
/// # Errors
/// It is no list of such values.
pub(super) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct First<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for First<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut first = Vec::new();
            while first.len() < MOST {
                match list.next_element()? {
                    Some(value) => first.push(value),
                    None => return Ok(first),
                }
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }

    deserializer.deserialize_seq(First::<T, MOST>(PhantomData))
}

/// Reads an object. One with too many values is empty, and so is another value.
///
/// # Errors
/// It is no JSON.
pub(super) fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(match parsed(Some(&raw)) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::new(),
    })
}

/// Parses a value of unknown form.
///
/// # Errors
/// It has too many values, or is too deep.
pub(super) fn parsed(raw: Option<&RawValue>) -> Result<Value, Unreadable> {
    let Some(raw) = raw.map(RawValue::get) else { return Ok(Value::Null) };
    if json_values::count(raw.as_bytes()) > VALUES_MAX {
        return Err(Unreadable::length());
    }
    Ok(serde_json::from_str(raw)?)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Bounded {
        #[serde(deserialize_with = "at_most::<_, _, 2>")]
        list: Vec<u32>,
        #[serde(default, deserialize_with = "object")]
        object: Map<String, Value>,
    }

    #[test]
    fn values_beyond_a_bound_are_skipped() {
        let many = format!(r#"{{"list": [1, 2, 3, "x"], "object": {{"a": [{}0]}}}}"#, "0,".repeat(VALUES_MAX));
        let read: Bounded = serde_json::from_str(&many).unwrap();
        assert_eq!((read.list, read.object), (vec![1, 2], Map::new()));
        let read: Bounded = serde_json::from_str(r#"{"list": [], "object": {"a": [1]}}"#).unwrap();
        assert_eq!((read.list.len(), read.object["a"][0].as_u64()), (0, Some(1)));
        assert!(serde_json::from_str::<Bounded>(r#"{"list": ["x"]}"#).is_err());
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        for text in [deep.as_str(), "null", "7"] {
            let read: Bounded = serde_json::from_str(&format!(r#"{{"list": [], "object": {text}}}"#)).unwrap();
            assert!(read.object.is_empty());
        }
    }
}
