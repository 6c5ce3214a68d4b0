//! The JSON format of questions and answers.

use serde::{Deserialize, Serialize};

use domain::outgoing::AnswerCost;

/// The longest name of a channel or a user, in bytes.
const NAME_MAX: usize = 64;
const TEXT_MAX: usize = 32 * 1024;

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Ask {
    /// The channel, whose earlier messages are the question's history.
    pub channel: String,
    pub user: String,
    pub message: String,
    /// True if the answer may use tools.
    #[serde(default = "yes")]
    pub enable_tools: bool,
}

const fn yes() -> bool {
    true
}

impl Ask {
    /// The longest question, in bytes of JSON.
    pub(super) const BYTES_MAX: usize = TEXT_MAX * 2;

    /// Returns the reason for refusing a longer one.
    pub(super) fn too_long() -> String {
        format!("the request is longer than {} bytes", Self::BYTES_MAX)
    }

    /// Reads a question.
    ///
    /// # Errors
    /// The mistake and the remedy.
    pub(super) fn read(payload: &[u8]) -> Result<Self, String> {
        if payload.len() > Self::BYTES_MAX {
            return Err(Self::too_long());
        }
        let ask: Self = serde_json::from_slice(payload).map_err(|error| {
            format!("{error}; write {{\"channel\": \"name\", \"user\": \"name\", \"message\": \"text\"}}")
        })?;
        for (key, name) in [("channel", &ask.channel), ("user", &ask.user)] {
            let usable = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@' | '#');
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(usable) {
                return Err(format!("{key} must be 1 to {NAME_MAX} bytes of letters, digits, - _ @ #"));
            }
        }
        if ask.message.trim().is_empty() || ask.message.len() > TEXT_MAX {
            return Err(format!("message must have 1 to {TEXT_MAX} bytes"));
        }
        Ok(ask)
    }
}

/// The longest reply subject, in bytes.
const INBOX_MAX: usize = 256;

/// True if a reply may be sent to this subject: an inbox of the NATS clients (`_INBOX.`), also with the prefix of a
/// private inbox (`_INBOX_ada.`), or the subject by which a server returns replies to another account (`_R_.`). Any
/// other subject, such as one of this bot's protocols or of an administration, would let an asker send messages there
/// in the bot's name.
pub(super) fn is_inbox(subject: &str) -> bool {
    let mut tokens = subject.split('.');
    let first = tokens.next().unwrap_or_default();
    let prefix =
        first == "_R_" || first.strip_prefix("_INBOX").is_some_and(|own| own.is_empty() || own.starts_with('_'));
    let usable = |token: &str| !token.is_empty() && !token.contains(['*', '>']) && !token.contains(char::is_whitespace);
    let mut rest = tokens.peekable();
    prefix && rest.peek().is_some() && usable(first) && rest.all(usable) && subject.len() <= INBOX_MAX
}

#[derive(Debug, Serialize)]
pub(super) struct Reply<'a> {
    success: bool,
    content: &'a str,
    error: Option<&'a str>,
    /// Input and output tokens of all models used.
    tokens_used: u64,
    /// The model row that answered; null if no model was used.
    provider: Option<&'a str>,
}

impl<'a> Reply<'a> {
    pub(super) const fn answer(content: &'a str) -> Self {
        Self { success: true, content, error: None, tokens_used: 0, provider: None }
    }

    pub(super) const fn refused(why: &'a str) -> Self {
        Self { success: false, content: "", error: Some(why), tokens_used: 0, provider: None }
    }

    pub(super) fn with(self, spent: &'a AnswerCost) -> Self {
        Self { tokens_used: spent.tokens, provider: spent.model.as_deref(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_to_inboxes_alone() {
        for inbox in ["_INBOX.k2v", "_INBOX.k2v.17", "_INBOX_ada.k2v", "_R_.b3.x"] {
            assert!(is_inbox(inbox), "{inbox}");
        }
        let long = format!("_INBOX.{}", "x".repeat(INBOX_MAX));
        for other in [
            "staffai.chat",
            "rosey.llm.chat",
            "staffai.tools.announce",
            "staffai.tools.call.desk",
            "$JS.API.STREAM.DELETE.orders",
            "orders.new",
            "_INBOX",
            "_INBOX.",
            "_INBOX.>",
            "_INBOX.*.x",
            "_INBOXES.x",
            "_INBOX.a b",
            "",
            &long,
        ] {
            assert!(!is_inbox(other), "{other}");
        }
    }

    #[test]
    fn a_question_needs_its_names_and_its_text() {
        let read = |text: &str| Ask::read(text.as_bytes());
        let ask = read(r#"{"channel":"lobby","user":"Ada","message":"hello"}"#).unwrap();
        assert!(ask.enable_tools, "tools are enabled by default");
        assert!(!read(r#"{"channel":"lobby","user":"Ada","message":"hi","enable_tools":false}"#).unwrap().enable_tools);
        for (text, expected) in [
            (r#"{"channel":"lobby","user":"Ada"}"#, "missing field `message`"),
            (r#"{"channel":"a:b","user":"Ada","message":"x"}"#, "channel must be"),
            (r#"{"channel":"lobby","user":"","message":"x"}"#, "user must be"),
            (r#"{"channel":"lobby","user":"Ada","message":" "}"#, "message must have"),
            ("7", "invalid type"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Ask::read(&vec![b'['; TEXT_MAX * 2 + 1]).is_err());
    }
}
