//! Reads JSON into types and skips values of unexpected kinds. Texts without escapes are borrowed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A type that can be read from any value. Null and unexpected kinds give the default.
pub trait Lenient<'de>: Sized + Default {
    fn null() -> Self {
        Self::default()
    }

    fn truth(_value: bool) -> Self {
        Self::default()
    }

    fn text(_text: Cow<'de, str>) -> Self {
        Self::default()
    }

    /// A non-negative integer.
    fn count(_number: u64) -> Self {
        Self::default()
    }

    /// A negative integer.
    fn negative(_number: i64) -> Self {
        Self::default()
    }

    /// Any other number.
    fn number(_number: f64) -> Self {
        Self::default()
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

pub struct Read<T>(pub T);

impl<'de, T: Lenient<'de>> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Lenient<'de>> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::null())
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::truth(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::count(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(u64::try_from(number).map_or_else(|_| T::negative(number), T::count))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok(T::number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<T, E> {
        Ok(T::text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::fields(fields)
    }
}

/// The name of a field, or a required text.
#[derive(Default)]
pub struct Text<'de>(pub Cow<'de, str>);

impl<'de> Lenient<'de> for Text<'de> {
    fn text(text: Cow<'de, str>) -> Self {
        Self(text)
    }
}

/// Reads non-negative integers.
impl Lenient<'_> for Option<u64> {
    fn count(number: u64) -> Self {
        Some(number)
    }
}

/// A value kept as it is; texts are borrowed.
#[derive(Debug, Default)]
pub enum Loose<'de> {
    #[default]
    Absent,
    Text(Cow<'de, str>),
    Other(Value),
}

impl<'de> Lenient<'de> for Loose<'de> {
    fn null() -> Self {
        Self::Other(Value::Null)
    }

    fn truth(value: bool) -> Self {
        Self::Other(value.into())
    }

    fn text(text: Cow<'de, str>) -> Self {
        Self::Text(text)
    }

    fn count(number: u64) -> Self {
        Self::Other(number.into())
    }

    fn negative(number: i64) -> Self {
        Self::Other(number.into())
    }

    fn number(number: f64) -> Self {
        Self::Other(number.into())
    }

    fn list<A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(list)).map(Self::Other)
    }

    fn fields<A: MapAccess<'de>>(fields: A) -> Result<Self, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(fields)).map(Self::Other)
    }
}
