//! The used fields of one event of a stream, read in one pass. Texts are borrowed; only items and parts, which are
//! echoed, become values. Unknown events and fields are skipped.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess, SeqAccess};
use serde_json::Value;

use crate::lenient::{Lenient, Loose, Read, Text};
use crate::usage::Reported;

/// The meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    ItemAdded,
    ItemDone,
    /// A part of a message begins or is complete.
    Part,
    /// More text of a part, or all of it.
    Text(PartKind),
    TextDone(PartKind),
    /// More arguments of a call, or all of them. True if the call is ours to run.
    Arguments(bool),
    ArgumentsDone(bool),
    /// More of something that is not kept before its item is complete.
    Hidden,
    /// A tool of the provider makes progress.
    Working,
    /// The answer is complete, or was cut off.
    End,
    /// The answer failed.
    Failed,
    /// The state of the answer, or an event of another version.
    Other,
}

/// The place of a text in its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    OutputText,
    Refusal,
    Reasoning,
    Summary,
}

impl PartKind {
    /// Returns the type of the part, the field of its text, and the list that contains it.
    pub const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::OutputText => ("output_text", "text", "content"),
            Self::Refusal => ("refusal", "refusal", "content"),
            Self::Reasoning => ("reasoning_text", "text", "content"),
            Self::Summary => ("summary_text", "text", "summary"),
        }
    }
}

impl Kind {
    /// Returns the kind with this name.
    pub fn of(name: &str) -> Self {
        let Some(name) = name.strip_prefix("response.") else {
            return if name == "error" { Self::Failed } else { Self::Other };
        };
        match name {
            "output_item.added" => Self::ItemAdded,
            "output_item.done" => Self::ItemDone,
            "content_part.added" | "content_part.done" => Self::Part,
            "output_text.delta" => Self::Text(PartKind::OutputText),
            "output_text.done" => Self::TextDone(PartKind::OutputText),
            "refusal.delta" => Self::Text(PartKind::Refusal),
            "refusal.done" => Self::TextDone(PartKind::Refusal),
            "reasoning_text.delta" => Self::Text(PartKind::Reasoning),
            "reasoning_text.done" => Self::TextDone(PartKind::Reasoning),
            "reasoning_summary_text.delta" => Self::Text(PartKind::Summary),
            "reasoning_summary_text.done" => Self::TextDone(PartKind::Summary),
            "function_call_arguments.delta" => Self::Arguments(true),
            "function_call_arguments.done" => Self::ArgumentsDone(true),
            "mcp_call_arguments.delta" => Self::Arguments(false),
            "mcp_call_arguments.done" => Self::ArgumentsDone(false),
            "completed" | "incomplete" => Self::End,
            "failed" | "error" => Self::Failed,
            _ if name.rsplit('.').next() == Some("delta") => Self::Hidden,
            // Such as `web_search_call.searching` and `mcp_list_tools.failed`.
            _ if name.contains("_call.") || name.starts_with("mcp_list_tools.") => Self::Working,
            _ => Self::Other,
        }
    }
}

#[derive(Default)]
pub(super) struct Event<'a> {
    pub kind: Cow<'a, str>,
    pub output_index: Option<u64>,
    pub item_id: Cow<'a, str>,
    /// The index of the part in its list.
    pub index: u64,
    pub delta: Loose<'a>,
    /// The whole text of a part, or all arguments of a call.
    pub whole: Option<Cow<'a, str>>,
    pub item: Loose<'a>,
    pub part: Loose<'a>,
    pub response: Response,
    /// True if the event may be an error of a proxy: its `error` field has a value, or the frame is a list.
    pub suspicious: bool,
}

/// The answer as the last event reports it.
#[derive(Default)]
pub(super) struct Response {
    pub status: Option<String>,
    /// The reason why it is incomplete.
    pub reason: Option<String>,
    pub usage: Option<Reported>,
    pub output: Vec<Value>,
}

impl<'de> Lenient<'de> for Event<'de> {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self { suspicious: true, ..Self::default() })
    }

    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut event = Self::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            match &*name {
                "type" => event.kind = fields.next_value::<Read<Text<'de>>>()?.0.0,
                "output_index" => event.output_index = fields.next_value::<Read<_>>()?.0,
                "item_id" => event.item_id = fields.next_value::<Read<Text<'de>>>()?.0.0,
                "content_index" | "summary_index" => {
                    event.index = fields.next_value::<Read<Option<u64>>>()?.0.unwrap_or(0);
                }
                "delta" => event.delta = fields.next_value::<Read<_>>()?.0,
                "text" | "refusal" | "arguments" => {
                    event.whole = Some(fields.next_value::<Read<Text<'de>>>()?.0.0);
                }
                "item" => event.item = fields.next_value::<Read<_>>()?.0,
                "part" => event.part = fields.next_value::<Read<_>>()?.0,
                "response" => event.response = fields.next_value::<Read<_>>()?.0,
                "error" => event.suspicious |= !matches!(fields.next_value::<Read<_>>()?.0, Loose::Other(Value::Null)),
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(event)
    }
}

impl<'de> Lenient<'de> for Response {
    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut response = Self::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            match &*name {
                "status" => response.status = fields.next_value::<Read<Label>>()?.0.0,
                "incomplete_details" => response.reason = fields.next_value::<Read<Details>>()?.0.0,
                "usage" => response.usage = fields.next_value::<Read<_>>()?.0,
                "output" => response.output = fields.next_value::<Read<Items>>()?.0.0,
                // Above all the repeated request, which may be long.
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(response)
    }
}

/// A text that is not empty.
#[derive(Default)]
struct Label(Option<String>);

impl<'de> Lenient<'de> for Label {
    fn text(text: Cow<'de, str>) -> Self {
        Self(Some(text.into_owned()).filter(|text| !text.is_empty()))
    }
}

#[derive(Default)]
struct Details(Option<String>);

impl<'de> Lenient<'de> for Details {
    fn fields<A: MapAccess<'de>>(mut fields: A) -> Result<Self, A::Error> {
        let mut details = Self::default();
        while let Some(Read(Text(name))) = fields.next_key()? {
            if name == "reason" {
                details.0 = fields.next_value::<Read<Label>>()?.0.0;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(details)
    }
}

#[derive(Default)]
struct Items(Vec<Value>);

impl<'de> Lenient<'de> for Items {
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Self(items))
    }
}
