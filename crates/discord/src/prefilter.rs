//! Looks at the bytes of a frame before anything is parsed. A busy community posts hundreds of messages for each one
//! that is meant for us, and parsing is what costs. The filter may let too much through, never too little.

use std::fmt;
use std::sync::Arc;

use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serenity::model::id::UserId;

use domain::manners::Draw;
use ports::Dice;

/// The kind and the place in the order of an event, read from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The event's name, such as `MESSAGE_CREATE`.
    pub kind: &'a str,
    /// Its place in the session's order.
    pub sequence: u64,
}

/// The head of an event whose keys stand in the order in which Discord writes them: `t`, `s`, `op`, `d`. None for
/// everything else, which then has to be parsed.
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

/// Decides whether a message can be meant for us.
#[derive(Debug)]
pub struct Filter {
    me: UserId,
    /// Our id as Discord writes all ids, in quotation marks: it stands wherever we are mentioned, and as the author of
    /// a quoted message of ours.
    id: Finder<'static>,
    names: Names,
    /// Direct messages are for us too.
    direct: bool,
    lottery: Option<Lottery>,
}

/// Draws for messages that are not for us. A message that loses is passed over without being parsed.
#[derive(Clone)]
pub struct Lottery {
    /// Chance.
    pub dice: Arc<dyn Dice>,
    /// The chances of both draws as they are now, each 0 to 1.
    pub chances: Arc<dyn Fn() -> (f64, f64) + Send + Sync>,
}

impl fmt::Debug for Lottery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lottery").field("chances", &(self.chances)()).finish_non_exhaustive()
    }
}

impl Lottery {
    fn draw(&self) -> Option<Draw> {
        let (consider, deliver) = (self.chances)();
        if consider <= 0.0 || deliver <= 0.0 {
            return None;
        }
        let draw = Draw { consider: self.dice.roll(), deliver: self.dice.roll() };
        draw.wins(consider, deliver).then_some(draw)
    }
}

impl Filter {
    /// A filter for this account, these names (compared without regard to case; empty ones count for nothing) and, when
    /// wanted, direct messages.
    #[must_use]
    pub fn new(me: UserId, names: &[String], direct: bool) -> Self {
        let id = format!("\"{me}\"");
        Self { me, id: Finder::new(id.as_bytes()).into_owned(), names: Names::new(names), direct, lottery: None }
    }

    /// The same, with draws for messages that are not for us.
    #[must_use]
    pub fn with_lottery(self, lottery: Option<Lottery>) -> Self {
        Self { lottery, ..self }
    }

    /// The draws for one message when they won; almost always none.
    #[must_use]
    pub fn draw(&self) -> Option<Draw> {
        self.lottery.as_ref().and_then(Lottery::draw)
    }

    /// False only when this `MESSAGE_REACTION_ADD` frame is not about a message of ours.
    #[must_use]
    pub fn may_be_about_ours(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        self.id.find(bytes).is_some() || memmem::find(bytes, br"\u00").is_some()
    }

    /// Our own id.
    #[must_use]
    pub fn me(&self) -> UserId {
        self.me
    }

    /// False only when an event says nothing about us.
    #[must_use]
    pub fn holds_our_id(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        self.id.find(bytes).is_some() || memmem::find(bytes, br"\u00").is_some()
    }

    /// False only when this `MESSAGE_CREATE` frame neither mentions us, nor replies to us, nor may reply to us, nor holds
    /// one of our names, nor is a direct message while those are answered.
    #[must_use]
    pub fn may_be_ours(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        // Digits and keys can be written as escapes. That is rare, so looking closer costs next to nothing.
        self.holds_our_id(text)
            || replies_to_unseen(bytes)
            || self.names.may_occur(text)
            || (self.direct && is_direct(text))
    }
}

/// A reply whose quoted message was not sent along may be a reply to us.
fn replies_to_unseen(bytes: &[u8]) -> bool {
    memmem::find(bytes, br#""message_reference""#).is_some()
        && memmem::find(bytes, br#""referenced_message""#).is_none()
}

/// Other parts of a message name guilds as well, so only a look at the outermost fields is sure.
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

/// The names that we listen to.
#[derive(Debug)]
struct Names {
    /// In lower case.
    lower: Vec<String>,
    /// Some name has a character that JSON may write as an escape of two characters.
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
        // Some letters beyond ASCII become ASCII in lower case, so the whole text has to be turned.
        let text = text.to_lowercase();
        self.lower.iter().any(|name| text.contains(name.as_str()))
    }
}

/// Looks for `name`, which is in lower case, without regard to the case of ASCII letters.
fn contains_ascii(bytes: &[u8], name: &[u8]) -> bool {
    let Some(first) = name.first() else {
        return false;
    };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), bytes)
        .any(|at| bytes.get(at..at + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests;
