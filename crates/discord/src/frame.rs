//! Parses one untrusted text frame of the gateway: any content yields a value, never a panic.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serenity::model::id::UserId;

use super::events::voice::{self, VoiceChange};
use super::events::{self, Deleted, GuildPlaces, GuildThreads, Ready};
use super::interactions::{self, Interaction};
use super::prefilter::{self, Filter};
use super::rights::{self, Change};
use super::surrogates;
use domain::ids::Place;
use domain::incoming::{Posted, Reaction};
use domain::manners::Draw;

/// The largest parsed frame, in bytes. Only a guild's first frame comes near this size.
pub(super) const MAX_FRAME: usize = 4 * 1024 * 1024;
/// The longest logged reason, in characters.
const MAX_REASON: usize = 200;

/// The content of a frame.
#[derive(Debug)]
pub(super) enum Reading {
    /// HELLO, with the heartbeat interval.
    Hello(Duration),
    /// The session is invalid; true if it can be resumed.
    InvalidSession(bool),
    /// The peer requests a reconnect.
    Reconnect,
    /// A heartbeat, its acknowledgement, or an irrelevant operation.
    Control,
    /// An event of the session.
    Dispatch {
        /// The sequence number in the session.
        sequence: u64,
        /// The label of its kind.
        kind: &'static str,
        event: Event,
    },
}

/// The content of a session event.
#[derive(Debug)]
pub(super) enum Event {
    Ready(Box<Ready>),
    Resumed,
    Posted(Box<Posted>),
    Deleted(Deleted),
    /// The places of a guild, and the bot's permissions in them.
    Places(GuildPlaces, Option<Box<Change>>),
    /// The bot's permissions changed.
    Rights(Box<Change>),
    /// Threads, each with its channel.
    Threads(GuildThreads),
    /// A thread was deleted.
    ThreadGone(Place),
    /// The guild's data, language, owner or roles changed.
    GuildChanged(GuildPlaces, Box<Change>),
    /// A reaction to one of the bot's messages.
    Reacted(Reaction),
    /// A member ran or is typing a command.
    Interaction(Interaction),
    /// The bot's position in a voice channel changed.
    Voice(VoiceChange),
    Other,
}

/// A frame that could not be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Its sequence number in the session; `None` if unreadable.
    pub(super) sequence: Option<u64>,
    /// The label that it is counted under.
    pub(super) kind: &'static str,
    /// The reason: names the field and never contains message content.
    pub(super) reason: String,
    /// True if the frame was READY, which begins a session.
    pub(super) begins: bool,
}

/// Parses a frame. Irrelevant frames are skipped without full parsing where that is safe.
///
/// # Errors
/// The frame is too large or malformed.
pub(super) fn read(text: &str, filter: &Filter) -> Result<Reading, Dropped> {
    let head = prefilter::head(text);
    if text.len() > MAX_FRAME {
        let reason = format!("{} bytes exceed the limit", text.len());
        return Err(dropped(head.map(|head| head.sequence), "giant", reason));
    }
    // Draws once for each message, before its content is known.
    let draw = if head.is_none_or(|head| head.kind == "MESSAGE_CREATE") { filter.draw() } else { None };
    if let Some(head) = head
        && (!is_read(head.kind) || !is_for_us(head.kind, text, filter, draw))
    {
        return Ok(Reading::Dispatch { sequence: head.sequence, kind: label(head.kind), event: Event::Other });
    }
    let text = &*surrogates::mended(text);
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|error| malformed(head.map(|head| head.sequence), &error))?;
    match envelope.op {
        0 => dispatch(&envelope, text, filter, draw),
        7 => Ok(Reading::Reconnect),
        // Unless the payload is exactly `true`, the session is lost.
        9 => Ok(Reading::InvalidSession(envelope.data() == "true")),
        10 => {
            let hello: Hello = serde_json::from_str(envelope.data()).map_err(|error| malformed(None, &error))?;
            Ok(Reading::Hello(Duration::from_millis(hello.heartbeat_interval)))
        }
        _ => Ok(Reading::Control),
    }
}

/// Returns why JSON could not be read, without content written by members: the parser puts field names in backticks and
/// values in quotation marks.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let mut reason = String::with_capacity(text.len().min(MAX_REASON));
    // Only the outermost quotation marks are certain to be the parser's, so everything between the first and the last
    // is removed.
    match (text.find('"'), text.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            reason.push_str(&text[..first]);
            reason.push('…');
            reason.push_str(&text[last + 1..]);
        }
        _ => reason.push_str(&text),
    }
    reason.chars().take(MAX_REASON).collect()
}

#[derive(Deserialize)]
struct Envelope<'a> {
    op: u8,
    #[serde(default)]
    s: Option<u64>,
    #[serde(default, borrow)]
    t: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    d: Option<&'a RawValue>,
}

impl Envelope<'_> {
    fn data(&self) -> &str {
        self.d.map_or("null", RawValue::get)
    }
}

#[derive(Deserialize)]
struct Hello {
    heartbeat_interval: u64,
}

/// True if an event of this kind must be parsed.
fn is_for_us(kind: &str, text: &str, filter: &Filter, draw: Option<Draw>) -> bool {
    match kind {
        "MESSAGE_CREATE" => draw.is_some() || filter.may_be_ours(text),
        "MESSAGE_REACTION_ADD" => filter.may_be_about_ours(text),
        "VOICE_STATE_UPDATE" => filter.holds_our_id(text),
        _ => true,
    }
}

fn dispatch(envelope: &Envelope<'_>, text: &str, filter: &Filter, draw: Option<Draw>) -> Result<Reading, Dropped> {
    let Some(sequence) = envelope.s else {
        return Err(dropped(None, "malformed", "missing field `s`".to_owned()));
    };
    let Some(kind) = envelope.t.as_deref() else {
        return Err(dropped(Some(sequence), "malformed", "missing field `t`".to_owned()));
    };
    let data = envelope.data();
    let event = match kind {
        "READY" => serde_json::from_str(data).map(|ready| Event::Ready(Box::new(ready))),
        "RESUMED" => Ok(Event::Resumed),
        _ if !is_for_us(kind, text, filter, draw) => Ok(Event::Other),
        "MESSAGE_CREATE" => posted(data, filter.me(), draw),
        "MESSAGE_REACTION_ADD" => {
            events::reacted(data, filter.me()).map(|reaction| reaction.map_or(Event::Other, Event::Reacted))
        }
        "MESSAGE_DELETE" => events::deleted(data).map(Event::Deleted),
        "MESSAGE_DELETE_BULK" => events::deleted_bulk(data).map(Event::Deleted),
        "GUILD_CREATE" => events::places(data).map(|places| {
            let rights = || rights::wire::guild(data, filter.me()).ok().map(Box::new);
            places.map_or(Event::Other, |places| Event::Places(places, rights()))
        }),
        "INTERACTION_CREATE" => interactions::read(data).map(|known| known.map_or(Event::Other, Event::Interaction)),
        "THREAD_CREATE" | "THREAD_UPDATE" => {
            events::thread(data).map(|thread| thread.map_or(Event::Other, Event::Threads))
        }
        "THREAD_DELETE" => events::thread_gone(data).map(Event::ThreadGone),
        "THREAD_LIST_SYNC" => events::threads(data).map(Event::Threads),
        "GUILD_UPDATE" => events::places(data).and_then(|places| {
            let change = rights::wire::guild_update(data, filter.me())?;
            Ok(places.map_or(Event::Other, |places| Event::GuildChanged(places, Box::new(change))))
        }),
        "VOICE_STATE_UPDATE" => voice::state(data, filter.me()).map(|change| change.map_or(Event::Other, Event::Voice)),
        "VOICE_SERVER_UPDATE" => voice::server(data).map(Event::Voice),
        _ => rights::wire::change(kind, data, filter.me())
            .map(|change| change.map_or(Event::Other, |change| Event::Rights(Box::new(change)))),
    };
    match event {
        Ok(event) => Ok(Reading::Dispatch { sequence, kind: label(kind), event }),
        Err(error) => Err(Dropped { begins: kind == "READY", ..malformed(Some(sequence), &error) }),
    }
}

fn posted(data: &str, me: UserId, draw: Option<Draw>) -> Result<Event, serde_json::Error> {
    events::posted(data, me, None).map(|posted| Event::Posted(Box::new(Posted { draw, ..posted })))
}

fn malformed(sequence: Option<u64>, error: &serde_json::Error) -> Dropped {
    dropped(sequence, "malformed", reason(error))
}

fn dropped(sequence: Option<u64>, kind: &'static str, reason: String) -> Dropped {
    Dropped { sequence, kind, reason, begins: false }
}

/// The known kinds of events: name, label, and true if the event is parsed.
const KINDS: [(&str, &str, bool); 24] = [
    ("READY", "ready", true),
    ("RESUMED", "resumed", true),
    ("MESSAGE_CREATE", "message_create", true),
    ("MESSAGE_UPDATE", "message_update", false),
    ("MESSAGE_DELETE", "message_delete", true),
    ("MESSAGE_DELETE_BULK", "message_delete_bulk", true),
    ("MESSAGE_REACTION_ADD", "message_reaction_add", true),
    ("GUILD_CREATE", "guild_create", true),
    ("GUILD_UPDATE", "guild_update", true),
    ("GUILD_DELETE", "guild_delete", true),
    ("CHANNEL_CREATE", "channel_create", true),
    ("CHANNEL_UPDATE", "channel_update", true),
    ("CHANNEL_DELETE", "channel_delete", true),
    ("GUILD_ROLE_CREATE", OTHER, true),
    ("GUILD_ROLE_UPDATE", OTHER, true),
    ("GUILD_ROLE_DELETE", OTHER, true),
    ("GUILD_MEMBER_UPDATE", OTHER, true),
    ("THREAD_CREATE", "thread_create", true),
    ("THREAD_UPDATE", "thread_update", true),
    ("THREAD_DELETE", "thread_delete", true),
    ("THREAD_LIST_SYNC", "thread_list_sync", true),
    ("INTERACTION_CREATE", "interaction_create", true),
    ("VOICE_STATE_UPDATE", OTHER, true),
    ("VOICE_SERVER_UPDATE", OTHER, true),
];

/// The label of all other kinds.
const OTHER: &str = "other";

/// True if events of this kind are parsed.
fn is_read(kind: &str) -> bool {
    KINDS.iter().any(|(known, _, read)| *read && *known == kind)
}

/// Returns the label of a kind of event. The set is closed, so a peer cannot create arbitrary metric labels.
fn label(kind: &str) -> &'static str {
    KINDS.iter().find(|(known, ..)| *known == kind).map_or(OTHER, |(_, label, _)| label)
}

#[cfg(test)]
mod tests;
