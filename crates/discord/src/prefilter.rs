//! Filters frames by their bytes before parsing. A busy guild posts hundreds of messages for each one addressed to the
//! bot, and parsing dominates the cost. False positives are possible, false negatives are not.

use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serenity::model::id::UserId;

use domain::manners::Draw;
use ports::Lottery;

/// The kind and sequence number of an event, read from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The event's name, such as `MESSAGE_CREATE`.
    pub kind: &'a str,
    /// The sequence number in the session.
    pub sequence: u64,
}

/// Reads the head of an event whose keys are in Discord's order: `t`, `s`, `op`, `d`. Returns `None` otherwise; the
/// frame must then be parsed.
#[must_use]
pub fn head(text: &str) -> Option<Head<'_>> {
    let rest = text.strip_prefix(r#"{"t":""#)?;
    let (kind, rest) = rest.split_once('"')?;
    if kind.contains('\\') {
        return None;
    }
    let rest = rest.strip_prefix(r#","s":"#)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let sequence = rest[..digits].parse().ok()?;
    rest[digits..].strip_prefix(r#","op":0,"d":{"#)?;
    Some(Head { kind, sequence })
}

/// Decides if a message can be addressed to the bot.
#[derive(Debug)]
pub struct Filter {
    me: UserId,
    /// The bot's id in quotation marks, as Discord writes ids. It occurs in every mention of the bot and as the author
    /// of a quoted message of the bot.
    id: Finder<'static>,
    names: Names,
    /// True if direct messages count as addressed to the bot.
    direct: bool,
    lottery: Option<Lottery>,
}

impl Filter {
    /// Creates a filter for this account, these names (compared case-insensitively; empty ones are ignored) and, if
    /// `direct`, direct messages.
    #[must_use]
    pub fn new(me: UserId, names: &[String], direct: bool) -> Self {
        let id = format!("\"{me}\"");
        Self { me, id: Finder::new(id.as_bytes()).into_owned(), names: Names::new(names), direct, lottery: None }
    }

    /// Adds draws for messages not addressed to the bot.
    #[must_use]
    pub fn with_lottery(self, lottery: Option<Lottery>) -> Self {
        Self { lottery, ..self }
    }

    /// Returns the won draws for one message; almost always `None`.
    #[must_use]
    pub fn draw(&self) -> Option<Draw> {
        self.lottery.as_ref().and_then(Lottery::draw)
    }

    /// False only if this `MESSAGE_REACTION_ADD` frame is not about a message of the bot.
    #[must_use]
    pub fn may_be_about_ours(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        self.id.find(bytes).is_some() || memmem::find(bytes, br"\u00").is_some()
    }

    /// Returns the bot's id.
    #[must_use]
    pub fn me(&self) -> UserId {
        self.me
    }

    /// False only if an event does not contain the bot's id.
    #[must_use]
    pub fn holds_our_id(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        self.id.find(bytes).is_some() || memmem::find(bytes, br"\u00").is_some()
    }

    /// False only if this `MESSAGE_CREATE` frame does not mention the bot, is not and cannot be a reply to it, contains
    /// none of its names, and is not a direct message (if those are enabled).
    #[must_use]
    pub fn may_be_ours(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        // Digits and keys can be written as escapes. That is rare, so such frames are always parsed.
        self.holds_our_id(text)
            || replies_to_unseen(bytes)
            || self.names.may_occur(text)
            || (self.direct && is_direct(text))
    }
}

/// True for a reply without its quoted message, which may be a reply to the bot.
fn replies_to_unseen(bytes: &[u8]) -> bool {
    memmem::find(bytes, br#""message_reference""#).is_some()
        && memmem::find(bytes, br#""referenced_message""#).is_none()
}

/// Other parts of a message also name guilds, so only the outermost fields are decisive.
fn is_direct(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Frame {
        d: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(default)]
        guild_id: Option<IgnoredAny>,
    }
    serde_json::from_str::<Frame>(text).map_or(true, |frame| frame.d.guild_id.is_none())
}

#[derive(Debug)]
struct Names {
    lower: Vec<String>,
    /// True if a name has a character that JSON may write as a two-character escape.
    escapable: bool,
}

impl Names {
    fn new(names: &[String]) -> Self {
        let lower: Vec<String> =
            names.iter().map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
        Self {
            escapable: lower
                .iter()
                .any(|name| name.contains(|c: char| matches!(c, '"' | '\\' | '/') || c.is_control())),
            lower,
        }
    }

    fn may_occur(&self, text: &str) -> bool {
        if self.lower.is_empty() {
            return false;
        }
        let bytes = text.as_bytes();
        if memmem::find(bytes, br"\u").is_some() || (self.escapable && memchr::memchr(b'\\', bytes).is_some()) {
            return true;
        }
        if text.is_ascii() {
            return self.lower.iter().any(|name| contains_ascii(bytes, name.as_bytes()));
        }
        // Some non-ASCII letters become ASCII in lower case, so the whole text must be converted.
        let text = text.to_lowercase();
        self.lower.iter().any(|name| text.contains(name.as_str()))
    }
}

/// True if the bytes contain `name`, which is in lower case, ignoring ASCII case.
fn contains_ascii(bytes: &[u8], name: &[u8]) -> bool {
    let Some(first) = name.first() else {
        return false;
    };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), bytes)
        .any(|at| bytes.get(at..at + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests;
