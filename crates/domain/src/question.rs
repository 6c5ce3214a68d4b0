//! Questions of tool servers to the member for whom a call runs (MCP: elicitation). A form is answered here; a link
//! leads to a page of the server, and only the consent returns.
//!
//! The texts come from outside: they are cleaned, bounded, and shown as data. A form that asks for a secret is refused,
//! because its answer would pass through the chat; the protocol demands a link for secrets.

mod form;
mod secrets;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::form::{FIELDS_MAX, Field, FieldKind, FieldOption, Form, Misfit, Problem};
use crate::clean::clean;

/// The longest key of a question, in bytes.
pub const KEY_BYTES: usize = 128;
/// The longest message of a question, in Unicode scalar values.
const MESSAGE_MAX: usize = 1_000;
/// The longest address of a link, in bytes: what every platform accepts on a button.
const LINK_BYTES: usize = 512;

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The server's key of the question, under which the answer is returned.
    pub key: String,
    /// The reason for the question, in the server's words.
    pub message: String,
    /// The question itself.
    pub ask: Ask,
}

/// The kind of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Fields to fill in.
    Form(Form),
    /// A page of the server to open.
    Link(Link),
}

/// A page that a server asks the member to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The address, `https` only.
    pub url: String,
    /// Its host as the browser contacts it, with a port if it has one.
    pub host: String,
}

/// The reason why a question is declined without asking a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// A form asks for a secret.
    Secret,
    /// The question is not a flat form within the bounds, or not a link to an `https` address.
    Unsupported,
}

impl Unfit {
    /// Returns the label in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Unsupported => "unsupported",
        }
    }
}

impl Question {
    /// Reads the parameters of an elicitation.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn read(key: &str, params: &Value) -> Result<Self, Unfit> {
        if key.len() > KEY_BYTES {
            return Err(Unfit::Unsupported);
        }
        let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let message = clean(text("message"), MESSAGE_MAX);
        let ask = match params.get("mode").and_then(Value::as_str) {
            None | Some("form") => {
                if secrets::names_one(&message) {
                    return Err(Unfit::Secret);
                }
                Ask::Form(Form::read(params.get("requestedSchema").unwrap_or(&Value::Null))?)
            }
            Some("url") => Ask::Link(Link::read(text("url")).ok_or(Unfit::Unsupported)?),
            Some(_) => return Err(Unfit::Unsupported),
        };
        Ok(Self { key: key.to_owned(), message, ask })
    }
}

impl Link {
    /// Reads an address. `None` unless it is an `https` address in plain ASCII without credentials.
    #[must_use]
    pub fn read(url: &str) -> Option<Self> {
        let plain = |c: u8| c.is_ascii_graphic() && !matches!(c, b'<' | b'>' | b'"' | b'`' | b'\\' | b'|' | b'^');
        let rest = url.strip_prefix("https://").filter(|_| url.len() <= LINK_BYTES && url.bytes().all(plain))?;
        let host = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let (name, port) = host.split_once(':').unwrap_or((host, "443"));
        let is_port = port.parse::<u16>().is_ok();
        let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.');
        let is_name = name.bytes().all(fits) && name.bytes().any(|c| c.is_ascii_alphanumeric());
        // Browsers read a name whose last label is a number as an address, and show another one than is written.
        let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|c| c.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x");
        let is_name = is_name && (!is_number || name.parse::<std::net::Ipv4Addr>().is_ok());
        (is_port && is_name).then(|| Self { url: url.to_owned(), host: host.to_ascii_lowercase() })
    }
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The member filled in the form, or consented to open the page.
    Accept(Option<Map<String, Value>>),
    /// The member declined, or no person could be asked.
    Decline,
    /// The question ended without an answer.
    Cancel,
}

impl Answer {
    /// Returns the answer in the form that servers read.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Accept(Some(content)) => json!({"action": "accept", "content": content}),
            Self::Accept(None) => json!({"action": "accept"}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

#[cfg(test)]
mod tests;
