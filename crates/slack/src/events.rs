//! Reads one untrusted envelope of Socket Mode: any content yields a value, never a panic.
//!
//! Sources: `docs.slack.dev/apis/events-api/using-socket-mode`, `docs.slack.dev/reference/events`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::bounded::{at_most, object};
use super::incoming_text::plain;
use super::unreadable::Unreadable;
use super::{Account, commands, ids, interactions, shortcuts, views};
use domain::experiment::Vote;
use domain::ids::MessageId;
use domain::incoming::{Attachment, MAX_ATTACHMENTS, Reaction};

/// The longest text of a message that is read, in bytes. Slack accepts messages of 40,000 characters.
const TEXT_BYTES: usize = 256 * 1024;

/// The most files of a message that are read.
const FILES_MAX: usize = 100;

/// A frame.
#[derive(Debug)]
pub(super) enum Frame {
    /// The connection serves; the time in seconds after which Slack closes it, if named.
    Hello(Option<u64>),
    /// Slack closes the connection, for this reason.
    Disconnect(String),
    /// An envelope that must be acknowledged.
    Envelope {
        id: String,
        /// The number of earlier attempts to deliver it.
        retry: u32,
        content: Result<Content, Unreadable>,
    },
    /// A frame without an envelope.
    Other,
}

/// The content of an envelope.
#[derive(Debug)]
pub(super) enum Content {
    /// A message.
    Posted(Box<Wire>),
    /// A message was deleted.
    Deleted(MessageId),
    /// A reaction was added to one of the bot's messages.
    Reacted(Reaction),
    /// A command was run.
    Ran(Box<commands::Run>),
    /// A member opened the direct conversation with the bot, which is this channel.
    Opened(String),
    /// A shortcut was used on a message.
    Shortcut(Box<shortcuts::Shortcut>),
    /// A question about a message was submitted.
    Asked(Box<shortcuts::Asked>),
    /// A button was pressed, or a shortcut used.
    Pressed(Box<interactions::Press>),
    /// A modal was sent.
    Sent(Box<views::Submission>),
    /// A member opened the bot's page in the app home.
    Home(String),
    /// Slack holds events back, because there are too many.
    RateLimited,
    /// It does not concern the bot.
    Other,
}

/// A message as Slack sends it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Wire {
    pub(super) subtype: Option<String>,
    pub(super) user: Option<String>,
    pub(super) bot_id: Option<String>,
    pub(super) text: String,
    pub(super) ts: String,
    pub(super) thread_ts: Option<String>,
    /// The newest reply, if it began a thread; only in histories.
    pub(super) latest_reply: Option<String>,
    pub(super) channel: String,
    pub(super) channel_type: Option<String>,
    #[serde(deserialize_with = "at_most::<_, _, FILES_MAX>")]
    pub(super) files: Vec<WireFile>,
    pub(super) metadata: Option<Metadata>,
    /// True if the event says by itself that the bot is mentioned.
    #[serde(skip)]
    pub(super) mention: bool,
}

/// A file of a message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct WireFile {
    name: Option<String>,
    mimetype: Option<String>,
    size: u64,
    url_private_download: Option<String>,
    url_private: Option<String>,
    original_w: Option<u32>,
    original_h: Option<u32>,
}

/// The metadata of a message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) event_type: String,
    #[serde(deserialize_with = "object")]
    pub(super) event_payload: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(rename = "envelope_id", default)]
    id: Option<String>,
    #[serde(default)]
    retry_attempt: Option<u32>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    debug_info: Option<DebugInfo>,
}

#[derive(Deserialize)]
struct DebugInfo {
    #[serde(default)]
    approximate_connection_time: Option<u64>,
}

/// Reads a frame.
pub(super) fn read(text: &str, us: &Account) -> Frame {
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else {
        return broken(text);
    };
    match (envelope.kind.as_str(), envelope.id) {
        ("hello", _) => Frame::Hello(envelope.debug_info.and_then(|info| info.approximate_connection_time)),
        ("disconnect", _) => Frame::Disconnect(envelope.reason.unwrap_or_else(|| "no reason given".to_owned())),
        (kind, Some(id)) => {
            let payload = envelope.payload.map_or("null", RawValue::get);
            let content = match kind {
                "events_api" => event(payload, us),
                "interactive" => interactive(payload),
                "slash_commands" => commands::read(payload).map(|run| Content::Ran(Box::new(run))),
                _ => Ok(Content::Other),
            };
            Frame::Envelope { id, retry: envelope.retry_attempt.unwrap_or_default(), content }
        }
        (_, None) => Frame::Other,
    }
}

/// Reads the id of an envelope whose other fields cannot be read: it must be acknowledged, otherwise Slack redelivers it.
fn broken(text: &str) -> Frame {
    #[derive(Deserialize)]
    struct Id {
        envelope_id: String,
    }
    match serde_json::from_str::<Id>(text) {
        Ok(Id { envelope_id: id }) => {
            Frame::Envelope { id, retry: 0, content: Err(Unreadable("an odd envelope".to_owned())) }
        }
        Err(_) => Frame::Other,
    }
}

/// Reads the payload of an interaction: a pressed button, a shortcut, or the question of a dialogue.
fn interactive(payload: &str) -> Result<Content, Unreadable> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    let Kind { kind } = serde_json::from_str(payload)?;
    let content = match kind.as_str() {
        "message_action" => match shortcuts::read(payload)? {
            Some(shortcut) => Some(Content::Shortcut(Box::new(shortcut))),
            None => interactions::read(payload)?.map(|press| Content::Pressed(Box::new(press))),
        },
        "view_submission" => match shortcuts::submitted(payload)? {
            Some(asked) => Some(Content::Asked(Box::new(asked))),
            None => views::submitted(payload)?.map(|sent| Content::Sent(Box::new(sent))),
        },
        _ => interactions::read(payload)?.map(|press| Content::Pressed(Box::new(press))),
    };
    Ok(content.unwrap_or(Content::Other))
}

/// Reads the payload of the Events API.
fn event(payload: &str, us: &Account) -> Result<Content, Unreadable> {
    #[derive(Deserialize)]
    struct Payload<'a> {
        #[serde(rename = "type", default)]
        kind: &'a str,
        #[serde(default, borrow)]
        event: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(default)]
        subtype: Option<&'a str>,
    }
    let payload: Payload<'_> = serde_json::from_str(payload)?;
    let Some(event) = payload.event.map(RawValue::get) else {
        let limited = payload.kind == "app_rate_limited";
        return Ok(if limited { Content::RateLimited } else { Content::Other });
    };
    let Kind { kind, subtype } = serde_json::from_str(event)?;
    match (kind, subtype) {
        ("app_mention", _) => posted(event).map(|wire| Content::Posted(Box::new(Wire { mention: true, ..wire }))),
        ("message", Some("message_deleted")) => deleted(event),
        ("message", Some("message_changed")) => changed(event),
        ("message", _) => posted(event).map(|wire| Content::Posted(Box::new(wire))),
        ("reaction_added", _) => reacted(event, us),
        ("app_home_opened", _) => home(event),
        _ => Ok(Content::Other),
    }
}

fn posted(event: &str) -> Result<Wire, Unreadable> {
    let wire: Wire = serde_json::from_str(event)?;
    wire.checked()
}

fn deleted(event: &str) -> Result<Content, Unreadable> {
    #[derive(Deserialize)]
    struct Deleted {
        channel: String,
        deleted_ts: String,
    }
    let Deleted { channel, deleted_ts } = serde_json::from_str(event)?;
    gone(&channel, &deleted_ts)
}

/// An edit of a message. A first message of a thread that is deleted while the thread goes on becomes a tombstone.
fn changed(event: &str) -> Result<Content, Unreadable> {
    #[derive(Deserialize)]
    struct Changed {
        channel: String,
        message: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        subtype: Option<String>,
        ts: String,
    }
    let Changed { channel, message } = serde_json::from_str(event)?;
    if message.subtype.as_deref() == Some("tombstone") {
        return gone(&channel, &message.ts);
    }
    Ok(Content::Other)
}

fn gone(channel: &str, ts: &str) -> Result<Content, Unreadable> {
    if ids::is_id(channel) && ids::moment(ts).is_some() {
        Ok(Content::Deleted(ids::message(channel, ts)))
    } else {
        Err(Unreadable::id())
    }
}

/// A member opened a tab of the app: the bot's page, or the direct conversation.
fn home(event: &str) -> Result<Content, Unreadable> {
    #[derive(Deserialize)]
    struct Opened {
        user: String,
        #[serde(default)]
        tab: String,
        #[serde(default)]
        channel: String,
    }
    let Opened { user, tab, channel } = serde_json::from_str(event)?;
    match tab.as_str() {
        "home" if ids::is_id(&user) => Ok(Content::Home(user)),
        "messages" if ids::is_id(&channel) => Ok(Content::Opened(channel)),
        "home" | "messages" => Err(Unreadable::id()),
        _ => Ok(Content::Other),
    }
}

fn reacted(event: &str, us: &Account) -> Result<Content, Unreadable> {
    #[derive(Deserialize)]
    struct WireReaction {
        #[serde(default)]
        item_user: Option<String>,
        #[serde(default)]
        user: String,
        #[serde(default)]
        reaction: String,
        #[serde(default)]
        item: Item,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Item {
        channel: String,
        ts: String,
    }
    let WireReaction { item_user, user, reaction, item } = serde_json::from_str(event)?;
    let known = ids::is_id(&item.channel) && ids::is_id(&user) && ids::moment(&item.ts).is_some();
    let ours = item_user.as_deref() == Some(us.user.as_str()) && user != us.user;
    if !ours || !known {
        return Ok(Content::Other);
    }
    Ok(Content::Reacted(Reaction {
        place: ids::channel(&item.channel),
        message: ids::message(&item.channel, &item.ts),
        by: ids::person(&user),
        vote: Vote::of(&reaction),
    }))
}

impl Wire {
    /// Returns the message if its ids can be used.
    pub(super) fn checked(self) -> Result<Self, Unreadable> {
        let threaded = self.thread_ts.as_deref().is_none_or(|ts| ids::moment(ts).is_some());
        if !ids::is_id(&self.channel) || ids::moment(&self.ts).is_none() || !threaded {
            return Err(Unreadable::id());
        }
        if self.text.len() > TEXT_BYTES {
            return Err(Unreadable::length());
        }
        if self.user.as_deref().is_some_and(|user| !ids::is_id(user)) {
            return Err(Unreadable::id());
        }
        Ok(self)
    }

    /// Returns the timestamp of the first message of its thread; each message may begin one.
    pub(super) fn root(&self) -> &str {
        self.thread_ts.as_deref().unwrap_or(&self.ts)
    }

    /// True if it is in a direct conversation with one member.
    pub(super) fn is_direct(&self) -> bool {
        match self.channel_type.as_deref() {
            Some(kind) => kind == "im",
            None => ids::is_direct(&self.channel),
        }
    }

    /// True if it is in a public or private channel, not in a direct conversation with one member or several.
    pub(super) fn is_in_channel(&self) -> bool {
        match self.channel_type.as_deref() {
            Some(kind) => matches!(kind, "channel" | "group"),
            None => self.channel.starts_with('C'),
        }
    }

    /// True if it is a member's or a bot's own message, not a notice of the platform.
    pub(super) fn is_talk(&self) -> bool {
        matches!(self.subtype.as_deref(), None | Some("file_share" | "thread_broadcast" | "me_message" | "bot_message"))
    }

    /// Returns its text without control sequences.
    pub(super) fn plain(&self) -> String {
        plain(&self.text)
    }

    /// Returns its files.
    pub(super) fn attachments(&self) -> Vec<Attachment> {
        self.files.iter().filter_map(WireFile::attachment).take(MAX_ATTACHMENTS).collect()
    }
}

impl WireFile {
    fn attachment(&self) -> Option<Attachment> {
        Some(Attachment {
            name: self.name.clone().unwrap_or_default(),
            mime: self.mimetype.clone(),
            size: self.size,
            url: self.url_private_download.clone().or_else(|| self.url_private.clone())?,
            width: self.original_w,
            height: self.original_h,
        })
    }
}

impl Content {
    /// Returns the label that it is counted under.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Posted(_) => "slack_message",
            Self::Deleted(_) => "slack_message_deleted",
            Self::Reacted(_) => "slack_reaction",
            Self::Ran(_) => "slack_command",
            Self::Opened(_) => "slack_opened",
            Self::Shortcut(_) => "slack_shortcut",
            Self::Asked(_) => "slack_asked",
            Self::Pressed(_) => "slack_button",
            Self::Sent(_) => "slack_form",
            Self::Home(_) => "slack_home",
            Self::RateLimited => "slack_rate_limited",
            Self::Other => "slack_other",
        }
    }
}

#[cfg(test)]
mod tests;
