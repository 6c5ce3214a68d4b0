//! A pure table of what the caller may do after a gateway connection closes.

use ports::{AfterClose, Closed};

/// The longest kept close text, in characters; a close frame holds at most 123 bytes.
const MAX_TEXT: usize = 123;

/// Returns the meaning of a close by the peer. `None` means that the connection broke or the peer sent no code. `text`
/// is the text of the close frame.
#[must_use]
pub fn by_code(code: Option<u16>, text: &str) -> Closed {
    let (next, why) = match code {
        None => (AfterClose::Resume, "the connection ended without a code"),
        Some(1000 | 1001) => (AfterClose::Resume, "discord closed the connection"),
        Some(1006) => (AfterClose::Resume, "the connection broke or its heartbeats went unanswered"),
        Some(4000) => (AfterClose::Resume, "discord met an unknown error"),
        Some(4001) => (AfterClose::Resume, "discord received an unknown opcode"),
        Some(4002) => (AfterClose::Resume, "discord could not decode a payload"),
        Some(4003) => (AfterClose::Resume, "a payload was sent before identifying"),
        Some(4004) => (
            AfterClose::Fatal,
            "discord rejected the bot token; set DISCORD_BOT_TOKEN to the token shown at discord developer portal > Bot > Reset Token",
        ),
        Some(4005) => (AfterClose::Resume, "the session was identified twice"),
        Some(4007) => (AfterClose::Identify, "discord rejected the sequence of the resume"),
        Some(4008) => (AfterClose::Resume, "too many payloads were sent"),
        Some(4009) => (AfterClose::Identify, "the session timed out"),
        Some(4010) => (AfterClose::Fatal, "discord rejected the shard as invalid; set DISCORD_SHARDS to auto"),
        Some(4011) => {
            (AfterClose::Fatal, "the bot is in too many guilds for this number of shards; set DISCORD_SHARDS to auto")
        }
        Some(4012) => (AfterClose::Fatal, "discord no longer supports this gateway version; update the program"),
        Some(4013) => (AfterClose::Fatal, "discord rejected the requested intents; update the program"),
        Some(4014) => (
            AfterClose::Fatal,
            "the message content intent is off; switch it on at discord developer portal > Bot > Privileged Gateway Intents",
        ),
        Some(_) => (AfterClose::Resume, "the connection was closed"),
    };
    let text: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect();
    let reason = match (code, text.is_empty()) {
        (None, _) => why.to_owned(),
        (Some(code), true) => format!("{why} (code {code})"),
        (Some(code), false) => format!("{why} (code {code}: {text})"),
    };
    Closed { reason, next }
}

/// Returns the meaning of `INVALID_SESSION`: the session can be resumed or is lost.
#[must_use]
pub fn invalid_session(resumable: bool) -> Closed {
    if resumable {
        closed(AfterClose::Resume, "discord asked to resume the session")
    } else {
        closed(AfterClose::Identify, "discord invalidated the session")
    }
}

/// Returns the meaning of Discord's request to reconnect.
#[must_use]
pub fn reconnect() -> Closed {
    closed(AfterClose::Resume, "discord asked to reconnect")
}

/// Creates an end with a reason of this program.
pub fn closed(next: AfterClose, reason: impl Into<String>) -> Closed {
    Closed { reason: reason.into(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_leads_where_it_must() {
        for code in 0..=u16::MAX {
            let next = by_code(Some(code), "").next;
            let expected = match code {
                4004 | 4010..=4014 => AfterClose::Fatal,
                4007 | 4009 => AfterClose::Identify,
                _ => AfterClose::Resume,
            };
            assert_eq!(next, expected, "{code}");
        }
        assert_eq!(by_code(None, "").next, AfterClose::Resume);
    }

    #[test]
    fn final_codes_say_where_to_mend_it() {
        let reason = |code| by_code(Some(code), "").reason;
        assert!(reason(4004).contains("token"));
        assert!(reason(4014).contains("Privileged Gateway Intents"));
        assert!(reason(4011).contains("DISCORD_SHARDS"));
        assert!(reason(4013).ends_with("(code 4013)"));
        let told = by_code(Some(4000), " Shard is\nrebooting. ").reason;
        assert_eq!(told, "discord met an unknown error (code 4000: Shard isrebooting.)");
    }

    #[test]
    fn an_invalid_session_is_resumed_only_when_discord_says_so() {
        assert_eq!(invalid_session(true).next, AfterClose::Resume);
        assert_eq!(invalid_session(false).next, AfterClose::Identify);
        assert_eq!(reconnect().next, AfterClose::Resume);
    }
}
