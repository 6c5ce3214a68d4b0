//! One frame of a stream, as far as it is used. Read in one pass: what a delta says stands where it stood, and only what is echoed
//! without being understood becomes a value of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::lenient::{Lenient, Loose, Read, Text};
use super::usage::Reported;

/// A frame.
#[derive(Default)]
pub(super) struct Chunk<'a> {
    pub choices: Choices<'a>,
    pub usage: Option<Reported>,
    /// It may be an error: what follows the name `error` says something, or the frame is a list.
    pub suspicious: bool,
}

/// The choices of a frame.
#[derive(Default)]
pub(super) struct Choices<'a> {
    /// There is a list, and nothing in it.
    pub empty: bool,
    /// The first that belongs to the one answer that was asked for.
    pub ours: Option<Choice<'a>>,
    suspicious: bool,
}

/// One choice.
#[derive(Default)]
pub(super) struct Choice<'a> {
    /// It is an object.
    pub whole: bool,
    /// Its number; zero when it has none.
    index: u64,
    pub delta: Delta<'a>,
    /// The whole message instead of a delta.
    pub message: Delta<'a>,
    /// Why the model stopped; never empty.
    pub finish: Option<Cow<'a, str>>,
    pub usage: Option<Reported>,
    suspicious: bool,
}

/// What is new of a message.
#[derive(Default)]
pub(super) enum Delta<'a> {
    /// There is none.
    #[default]
    Absent,
    /// It is nothing that can be read.
    Unreadable,
    Fields(Fields<'a>),
}

/// The fields of a delta.
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

/// True for what an `error` field may say; many servers send null with each success.
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
