//! How tool servers are, and what is remembered of their tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Tool;
use super::catalogue::Pin;

/// The most tools of one server whose pins are remembered.
pub const PINS_MAX: usize = 20_000;
/// The largest record of one server, in bytes; of a larger one only the pins are stored.
pub const RECORD_BYTES: usize = 8 * 1024 * 1024;

/// How a tool server is, as operators and members are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// It is connected for the first time.
    Starting,
    /// It takes calls.
    Ready,
    /// It is away for this reason, and tried again soon.
    Degraded(String),
    /// It failed several times in a row, last for this reason, and is left alone for a while.
    Open(String),
    /// It is not used, for this reason.
    Stopped(String),
}

impl ServerStatus {
    /// The label in logs and lists.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded(_) => "degraded",
            Self::Open(_) => "open",
            Self::Stopped(_) => "stopped",
        }
    }

    /// The value of its gauge: 4 is ready, 3 degraded, 2 open, 1 starting, 0 stopped.
    #[must_use]
    pub const fn gauge(&self) -> u8 {
        match self {
            Self::Ready => 4,
            Self::Degraded(_) => 3,
            Self::Open(_) => 2,
            Self::Starting => 1,
            Self::Stopped(_) => 0,
        }
    }

    /// Why it is so; none when there is nothing to explain.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Starting | Self::Ready => None,
            Self::Degraded(reason) | Self::Open(reason) | Self::Stopped(reason) => Some(reason),
        }
    }
}

/// What is stored of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// What its entry led to when this was stored; a record of something else is not used.
    pub entry: String,
    /// Its last good list.
    pub tools: Vec<Tool>,
    /// What each of its tools was when it was accepted, by its own name; also of tools that are gone.
    pub pins: BTreeMap<String, Pin>,
}

impl ServerRecord {
    /// A stored record, if it is one of this entry.
    #[must_use]
    pub fn parse(text: &str, entry: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|record| record.entry == entry)
    }

    /// The record as it is stored. A list that is too large is left out of it, the pins never: without them a tool that changed would
    /// count as new. None when even those are too large.
    #[must_use]
    pub fn to_json(&self) -> Option<String> {
        let text = serde_json::to_string(self).ok().filter(|text| text.len() <= RECORD_BYTES);
        text.or_else(|| {
            let pins = Self { entry: self.entry.clone(), tools: Vec::new(), pins: self.pins.clone() };
            serde_json::to_string(&pins).ok().filter(|text| text.len() <= RECORD_BYTES)
        })
    }
}

/// Compares tools with their pins. A tool that is new is pinned. One that is not what it was is pinned again when `accept` says
/// so. Gives the names of those that changed, in their order.
pub fn review<'a>(
    pins: &mut BTreeMap<String, Pin>,
    tools: impl IntoIterator<Item = (&'a str, Pin)>,
    accept: bool,
) -> Vec<&'a str> {
    let mut changed = Vec::new();
    for (name, pin) in tools {
        let room = pins.len() < PINS_MAX;
        match pins.get_mut(name) {
            Some(known) if *known == pin => {}
            Some(known) => {
                changed.push(name);
                if accept {
                    *known = pin;
                }
            }
            None if room => {
                pins.insert(name.to_owned(), pin);
            }
            // What cannot be pinned cannot be compared.
            None => changed.push(name),
        }
    }
    changed
}

/// Tools as far as they are connected; what the commands about tools answer from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tooling {
    /// Tool servers and how each is, by name.
    pub servers: Vec<ToolServer>,
}

/// A tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: ServerStatus,
    /// How far a start under way is, such as "14 s"; none when none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The names of its tools in calls.
    pub tools: Vec<String>,
    /// Names of tools that are not what they were, and are held back until an operator accepts them.
    pub changed: Vec<String>,
    /// What the operator says it is for.
    #[serde(default)]
    pub about: Option<String>,
}

impl Tooling {
    /// The server of this name; one that is not known begins.
    pub fn server(&mut self, name: &str) -> &mut ToolServer {
        let at = self.servers.binary_search_by(|known| known.name.as_str().cmp(name));
        let at = at.unwrap_or_else(|at| {
            let begins = ToolServer {
                name: name.to_owned(),
                state: ServerStatus::Starting,
                progress: None,
                tools: Vec::new(),
                changed: Vec::new(),
                about: None,
            };
            self.servers.insert(at, begins);
            at
        });
        &mut self.servers[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(text: &str) -> Pin {
        Pin(text.to_owned())
    }

    #[test]
    fn a_changed_tool_stays_changed_until_it_is_accepted() {
        let mut pins = BTreeMap::new();
        assert_eq!(review(&mut pins, [("a", pin("1")), ("b", pin("2"))], false), [""; 0]);
        assert_eq!(review(&mut pins, [("a", pin("1")), ("b", pin("3"))], false), ["b"]);
        assert_eq!(review(&mut pins, [("a", pin("1"))], false), [""; 0], "one that is gone is no change");
        assert_eq!(review(&mut pins, [("b", pin("3"))], false), ["b"], "and going and coming back accepts nothing");
        assert_eq!(review(&mut pins, [("b", pin("3"))], true), ["b"]);
        assert_eq!(review(&mut pins, [("b", pin("3"))], false), [""; 0]);
    }

    #[test]
    fn the_pins_of_a_list_that_is_too_large_are_kept() {
        let tool = |number: usize| Tool {
            description: "x".repeat(16 * 1024),
            ..crate::tool::testing::tool("big", &number.to_string(), "")
        };
        let tools: Vec<Tool> = (0..600).map(tool).collect();
        let pins: BTreeMap<String, Pin> = tools.iter().map(|tool| (tool.name.to_string(), Pin::of(tool))).collect();
        let record = ServerRecord { entry: "one".to_owned(), tools, pins };
        let kept = ServerRecord::parse(&record.to_json().unwrap(), "one").unwrap();
        assert_eq!((kept.tools.len(), kept.pins), (0, record.pins));
    }

    #[test]
    fn a_record_of_another_entry_is_none() {
        let record = ServerRecord { entry: "one".to_owned(), tools: Vec::new(), pins: BTreeMap::new() };
        let text = record.to_json().unwrap();
        assert_eq!(ServerRecord::parse(&text, "one"), Some(record));
        assert_eq!(ServerRecord::parse(&text, "two"), None);
        assert_eq!(ServerRecord::parse("{", "one"), None);
    }
}
