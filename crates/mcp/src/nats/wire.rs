//! The NATS subjects and payloads. Payloads are JSON; tools and results have their MCP format.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::listing::{self, Page};
use domain::tool::ServerName;

/// The subjects of all messages from providers.
pub(super) const HEARD: &str = "staffai.tools.*";
/// The request to all providers to announce themselves.
pub(super) const DISCOVER: &str = "staffai.tools.discover";
pub(super) const ANNOUNCE: &str = "staffai.tools.announce";
pub(super) const HEARTBEAT: &str = "staffai.tools.heartbeat";
pub(super) const WITHDRAW: &str = "staffai.tools.withdraw";

/// The longest name of a provider or an instance, in bytes.
const NAME_MAX: usize = 48;

/// The longest announcement, in bytes.
pub(super) const ANNOUNCEMENT_MAX: usize = 1024 * 1024;
/// The most tools of one provider.
const TOOLS_MAX: usize = 500;

pub(super) fn calls(provider: &ServerName) -> String {
    format!("staffai.tools.call.{provider}")
}

pub(super) fn cancels(provider: &ServerName) -> String {
    format!("staffai.tools.cancel.{provider}")
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) struct Call<'a> {
    /// The call id, used in a cancellation.
    #[serde(rename = "call")]
    pub id: &'a str,
    /// The tool's own name.
    pub tool: &'a str,
    pub arguments: &'a Map<String, Value>,
    /// Milliseconds until the caller's deadline.
    pub deadline_ms: u64,
    /// The parent span, in W3C Trace Context format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Cancel<'a> {
    #[serde(rename = "call")]
    pub id: &'a str,
}

/// One process that provides tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub provider: ServerName,
    pub instance: String,
}

#[derive(Debug)]
pub(super) struct Announcement {
    pub by: Instance,
    pub tools: Page,
}

#[derive(Debug)]
pub(super) enum Heard {
    Announced(Box<Announcement>),
    Alive(Instance),
    Withdrawn(Instance),
    /// Not from a provider: this program's own discovery request.
    Other,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    provider: Cow<'a, str>,
    #[serde(borrow)]
    instance: Cow<'a, str>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
}

/// True if messages of this subject have a meaning here.
pub(super) fn is_heard(subject: &str) -> bool {
    matches!(subject, ANNOUNCE | HEARTBEAT | WITHDRAW)
}

/// Returns the mistake of a message beyond [`ANNOUNCEMENT_MAX`].
pub(super) fn too_long(subject: &str) -> String {
    format!("{subject}: it is longer than {ANNOUNCEMENT_MAX} bytes; offer fewer tools")
}

/// Parses a message.
///
/// # Errors
/// A sentence with the mistake and its remedy.
pub(super) fn heard(subject: &str, payload: &[u8]) -> Result<Heard, String> {
    if !is_heard(subject) {
        return Ok(Heard::Other);
    }
    if payload.len() > ANNOUNCEMENT_MAX {
        return Err(too_long(subject));
    }
    let wire: Wire<'_> = serde_json::from_slice(payload)
        .map_err(|error| format!("{subject}: {error}; write {{\"provider\": \"name\", \"instance\": \"id\"}}"))?;
    let Wire { provider, instance, tools } = wire;
    for (key, name) in [("provider", &provider), ("instance", &instance)] {
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(usable) {
            return Err(format!("{subject}: {key} must be 1 to {NAME_MAX} letters, digits, - or _"));
        }
        // A double underscore separates a server and its tool.
        if name.contains("__") {
            return Err(format!("{subject}: {key} may not have two _ in a row"));
        }
    }
    let provider = ServerName::new(provider.into_owned());
    let by = Instance { provider, instance: instance.into_owned() };
    match subject {
        HEARTBEAT => Ok(Heard::Alive(by)),
        WITHDRAW => Ok(Heard::Withdrawn(by)),
        _ => {
            let tools = tools.ok_or_else(|| format!("{subject}: tools is missing; write a list of tools"))?;
            let tools = listing::page(&by.provider, tools).map_err(|error| format!("{subject}: {error}"))?;
            if tools.tools.len() > TOOLS_MAX {
                return Err(format!("{subject}: it has more than {TOOLS_MAX} tools; offer fewer"));
            }
            Ok(Heard::Announced(Box::new(Announcement { by, tools })))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(subject: &str, text: &str) -> Result<Heard, String> {
        heard(subject, text.as_bytes())
    }

    #[test]
    fn an_announcement_has_tools_as_mcp_writes_them() {
        let text = r#"{"provider":"desk","instance":"7","tools":[{"name":"count","inputSchema":{"type":"object"}},{"nome":"x"}]}"#;
        let Ok(Heard::Announced(announced)) = read(ANNOUNCE, text) else { panic!("an announcement") };
        assert_eq!(announced.by, Instance { provider: ServerName::new("desk"), instance: "7".to_owned() });
        assert_eq!(announced.tools.tools.len(), 1);
        assert_eq!(announced.tools.warnings.len(), 1, "the unreadable one is named");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (subject, text, expected) in [
            (ANNOUNCE, r#"{"provider":"desk","instance":"7"}"#, "staffai.tools.announce: tools is missing"),
            (HEARTBEAT, r#"{"provider":"a.b","instance":"7"}"#, "provider must be 1 to 48 letters"),
            (WITHDRAW, r#"{"provider":"a","instance":""}"#, "instance must be 1 to 48 letters"),
            (HEARTBEAT, r#"{"provider":"files__x","instance":"7"}"#, "may not have two _ in a row"),
            (HEARTBEAT, "7", "staffai.tools.heartbeat: invalid type"),
        ] {
            let error = read(subject, text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(matches!(read(DISCOVER, "no JSON"), Ok(Heard::Other)));
        let many = vec![r#"{"name":"a"}"#; TOOLS_MAX + 1].join(",");
        let many = read(ANNOUNCE, &format!(r#"{{"provider":"p","instance":"i","tools":[{many}]}}"#)).unwrap_err();
        assert!(many.contains("more than 500 tools"), "{many}");
        assert!(heard(ANNOUNCE, &vec![b' '; ANNOUNCEMENT_MAX + 1]).unwrap_err().contains("longer than"));
    }

    #[test]
    fn an_announcement_costs_no_more_than_its_length() {
        cost::grows_linearly(
            16 * 1024,
            |size| {
                let tools = r#"{"name":"a","inputSchema":{"type":"object"}},7,"#.repeat(size / 48);
                format!(r#"{{"provider":"p","instance":"i","tools":[{tools}0]}}"#)
            },
            |text| drop(read(ANNOUNCE, &text)),
        );
    }
}
