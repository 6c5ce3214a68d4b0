//! The used fields of one stream frame, read in one pass. Texts are borrowed; only fields that are echoed without being
//! interpreted become values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use crate::lenient::{Lenient, Loose, Read, Text};
use crate::usage::Reported;

#[derive(Default)]
pub(super) struct Chunk<'a> {
    pub choices: Choices<'a>,
    pub usage: Option<Reported>,
    /// True if the frame may be an error: its `error` field has a value, or the frame is a list.
    pub suspicious: bool,
}

#[derive(Default)]
pub(super) struct Choices<'a> {
    pub empty: bool,
    /// The first choice that belongs to the requested answer.
    pub ours: Option<Choice<'a>>,
    suspicious: bool,
}

#[derive(Default)]
pub(super) struct Choice<'a> {
    /// True if it is an object.
    pub whole: bool,
    /// Its index; zero if absent.
    index: u64,
    pub delta: Delta<'a>,
    /// A whole message instead of a delta.
    pub message: Delta<'a>,
    /// The finish reason; never empty.
    pub finish: Option<Cow<'a, str>>,
    pub usage: Option<Reported>,
    suspicious: bool,
}

#[derive(Default)]
pub(super) enum Delta<'a> {
    #[default]
    Absent,
    /// The value has an unexpected type.
    Unreadable,
    Fields(Fields<'a>),
}

#[derive(Default)]
pub(super) struct Fields<'a> {
    pub content: Loose<'a>,
    pub role: Loose<'a>,
    pub others: BTreeMap<Cow<'a, str>, Loose<'a>>,
}

impl<'de> Lenient<'de> for Chunk<'de> {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self { suspicious: true, ..Self::default() })
    }

    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut chunk = Self::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            match &*name {
                "choices" => chunk.choices = fields.next_value::<Read<_>>()?.0,
                "usage" => chunk.usage = fields.next_value::<Read<_>>()?.0,
                "error" => chunk.suspicious |= fields.next_value::<Read<Something>>()?.0.0,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        chunk.suspicious |= chunk.choices.suspicious;
        Ok(chunk)
    }
}

impl<'de> Lenient<'de> for Choices<'de> {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut choices = Self { empty: true, ..Self::default() };
        while let Some(Read(choice)) = list.next_element::<Read<Choice<'de>>>()? {
            choices.empty = false;
            choices.suspicious |= choice.suspicious;
            if choices.ours.is_none() && choice.index == 0 {
                choices.ours = Some(choice);
            }
        }
        Ok(choices)
    }
}

impl<'de> Lenient<'de> for Choice<'de> {
    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut choice = Self { whole: true, ..Self::default() };
        while let Some(Read(Text(name))) = fields.next_key()? {
            match &*name {
                "index" => choice.index = fields.next_value::<Read<Option<u64>>>()?.0.unwrap_or(0),
                "delta" => choice.delta = fields.next_value::<Read<_>>()?.0,
                "message" => choice.message = fields.next_value::<Read<_>>()?.0,
                "finish_reason" => {
                    let Read(Text(reason)) = fields.next_value()?;
                    choice.finish = Some(reason).filter(|reason| !reason.is_empty());
                }
                "usage" => choice.usage = fields.next_value::<Read<_>>()?.0,
                "error" => choice.suspicious |= fields.next_value::<Read<Something>>()?.0.0,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(choice)
    }
}

impl<'de> Lenient<'de> for Delta<'de> {
    fn truth(_value: bool) -> Self {
        Self::Unreadable
    }

    fn text(_text: Cow<'de, str>) -> Self {
        Self::Unreadable
    }

    fn count(_number: u64) -> Self {
        Self::Unreadable
    }

    fn negative(_number: i64) -> Self {
        Self::Unreadable
    }

    fn number(_number: f64) -> Self {
        Self::Unreadable
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::Unreadable)
    }

    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut delta = Fields::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            let Read(value) = fields.next_value::<Read<Loose<'de>>>()?;
            match &*name {
                "content" => delta.content = value,
                "role" => delta.role = value,
                _ => drop(delta.others.insert(name, value)),
            }
        }
        Ok(Self::Fields(delta))
    }
}

/// True if an `error` field has a meaningful value; many servers send null with each success.
#[derive(Default)]
struct Something(bool);

impl<'de> Lenient<'de> for Something {
    fn truth(value: bool) -> Self {
        Self(value)
    }

    fn text(text: Cow<'de, str>) -> Self {
        Self(!text.is_empty())
    }

    fn count(_number: u64) -> Self {
        Self(true)
    }

    fn negative(_number: i64) -> Self {
        Self(true)
    }

    fn number(_number: f64) -> Self {
        Self(true)
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self(true))
    }

    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut any = false;
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(Self(any))
    }
}
