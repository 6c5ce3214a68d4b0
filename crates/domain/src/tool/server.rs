//! The status of tool servers, and the stored record of their tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Tool;
use super::catalogue::Pin;
use crate::ids::Timestamp;

/// The maximum number of tools of one server whose pins are stored.
pub const PINS_MAX: usize = 20_000;
/// The maximum size of the record of one server, in bytes; of a larger record, only the pins are stored.
pub const RECORD_BYTES: usize = 8 * 1024 * 1024;

/// The status of a tool server, for operators and members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// The first connection is in progress.
    Starting,
    /// It accepts calls.
    Ready,
    /// It is unavailable for this reason; a reconnection follows soon.
    Degraded(String),
    /// It failed several times in a row, last for this reason, and is paused for a while.
    Open(String),
    /// It is not used, for this reason.
    Stopped(String),
}

impl ServerStatus {
    /// Returns the label in logs and lists.
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

    /// Returns the value of its gauge: 4 is ready, 3 degraded, 2 open, 1 starting, 0 stopped.
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

    /// Returns the reason for the status; none if no reason is needed.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Starting | Self::Ready => None,
            Self::Degraded(reason) | Self::Open(reason) | Self::Stopped(reason) => Some(reason),
        }
    }
}

/// The stored record of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// The target of its configuration entry when this was stored; a record of a different target is not used.
    pub entry: String,
    /// Its last valid list.
    pub tools: Vec<Tool>,
    /// The pin of each accepted tool by the tool's own name, removed tools included.
    pub pins: BTreeMap<String, Pin>,
    /// The time at which each of these tools was first listed.
    #[serde(default)]
    pub first_seen: BTreeMap<String, Timestamp>,
    /// The time at which the list was last read, in whole hours, so that reading the same list again changes no record.
    #[serde(default)]
    pub verified: Option<Timestamp>,
}

impl ServerRecord {
    /// Parses a stored record; `None` if it belongs to a different entry.
    ///
    /// # Errors
    /// The text is not a record, so the tools of the server cannot be compared with it.
    pub fn parse(text: &str, entry: &str) -> Result<Option<Self>, serde_json::Error> {
        Ok(Some(serde_json::from_str::<Self>(text)?).filter(|record| record.entry == entry))
    }

    /// Serializes the record. A list that is too large is omitted with its times, but the pins never are: without them,
    /// a changed tool would count as new. Returns none if even the pins are too large.
    #[must_use]
    pub fn to_json(&self) -> Option<String> {
        let text = serde_json::to_string(self).ok().filter(|text| text.len() <= RECORD_BYTES);
        text.or_else(|| {
            let pins = Self {
                entry: self.entry.clone(),
                tools: Vec::new(),
                pins: self.pins.clone(),
                first_seen: BTreeMap::new(),
                verified: None,
            };
            serde_json::to_string(&pins).ok().filter(|text| text.len() <= RECORD_BYTES)
        })
    }
}

/// Compares tools with their pins; `None` if these cannot be read. A new tool is pinned. A changed tool is pinned again
/// if `accept` is true. Without readable pins every tool counts as changed, and only `accept` pins any. Returns the
/// names of the changed tools, in order.
pub fn review<'a>(
    pins: &mut Option<BTreeMap<String, Pin>>,
    tools: impl IntoIterator<Item = (&'a str, Pin)>,
    accept: bool,
) -> Vec<&'a str> {
    let mut changed = Vec::new();
    let pins = match pins {
        Some(pins) => pins,
        None if accept => pins.get_or_insert_default(),
        None => return tools.into_iter().map(|(name, _)| name).collect(),
    };
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
            // A tool beyond the maximum number of pins counts as changed, because it cannot be compared.
            None => changed.push(name),
        }
    }
    changed
}

/// Returns the times at which tools were first listed, with those of new tools; `None` if there is none. Only pinned
/// tools have a time, which bounds their number.
#[must_use]
pub fn with_new<'a>(
    first_seen: &BTreeMap<String, Timestamp>,
    pins: &BTreeMap<String, Pin>,
    tools: impl IntoIterator<Item = &'a str>,
    now: Timestamp,
) -> Option<BTreeMap<String, Timestamp>> {
    let is_new = |name: &&str| !first_seen.contains_key(*name) && pins.contains_key(*name);
    let new: Vec<&str> = tools.into_iter().filter(is_new).collect();
    (!new.is_empty()).then(|| {
        let mut all = first_seen.clone();
        all.extend(new.into_iter().map(|name| (name.to_owned(), now)));
        all
    })
}

/// The tool servers and tools, as reported by the commands about tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tooling {
    /// The tool servers with their status, by name.
    pub servers: Vec<ToolServer>,
}

/// A tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    /// The status.
    pub state: ServerStatus,
    /// The progress of a start, such as "14 s"; none if no start is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The names of its tools in calls.
    pub tools: Vec<String>,
    /// Names of changed tools, which are withheld until an operator accepts them.
    pub changed: Vec<String>,
    /// The operator's description of its purpose.
    #[serde(default)]
    pub about: Option<String>,
    /// The time at which its list was last read; `None` if it was not read since the start and no time is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// The discovery of each of its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovered: Vec<DiscoveredTool>,
}

/// The discovery of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredTool {
    /// Its name at the server.
    pub name: String,
    /// The time at which it was first listed; `None` if it is not pinned.
    pub first_seen_at: Option<Timestamp>,
    /// The hash of its present definition.
    pub pin: Pin,
}

impl Tooling {
    /// Returns the server of this name, if there is one.
    pub fn known(&mut self, name: &str) -> Option<&mut ToolServer> {
        self.servers.iter_mut().find(|known| known.name == name)
    }

    /// Sets the time at which the list of a server was last read.
    pub fn verified(&mut self, name: &str, at: Option<Timestamp>) {
        if let Some(server) = self.known(name) {
            server.verified_at = at;
        }
    }

    /// Returns the server of this name; adds it as starting if it is missing.
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
                verified_at: None,
                discovered: Vec::new(),
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
        let mut pins = Some(BTreeMap::new());
        assert_eq!(review(&mut pins, [("a", pin("1")), ("b", pin("2"))], false), [""; 0]);
        assert_eq!(review(&mut pins, [("a", pin("1")), ("b", pin("3"))], false), ["b"]);
        assert_eq!(review(&mut pins, [("a", pin("1"))], false), [""; 0], "one that is gone is no change");
        assert_eq!(review(&mut pins, [("b", pin("3"))], false), ["b"], "and going and coming back accepts nothing");
        assert_eq!(review(&mut pins, [("b", pin("3"))], true), ["b"]);
        assert_eq!(review(&mut pins, [("b", pin("3"))], false), [""; 0]);
    }

    #[test]
    fn tools_whose_pins_cannot_be_read_count_as_changed_until_they_are_accepted() {
        let mut pins = None;
        assert_eq!(review(&mut pins, [("a", pin("1")), ("b", pin("2"))], false), ["a", "b"]);
        assert_eq!(pins, None, "none of them is pinned");
        assert_eq!(review(&mut pins, [("a", pin("1"))], true), [""; 0]);
        assert_eq!(review(&mut pins, [("a", pin("2"))], false), ["a"]);
    }

    #[test]
    fn the_pins_of_a_list_that_is_too_large_are_kept() {
        let tool = |number: usize| Tool {
            description: "x".repeat(16 * 1024),
            ..crate::tool::testing::tool("big", &number.to_string(), "")
        };
        let tools: Vec<Tool> = (0..600).map(tool).collect();
        let pins: BTreeMap<String, Pin> = tools.iter().map(|tool| (tool.name.to_string(), Pin::of(tool))).collect();
        let first_seen = pins.keys().map(|name| (name.clone(), Timestamp(1))).collect();
        let record = ServerRecord { entry: "one".to_owned(), tools, pins, first_seen, verified: Some(Timestamp(2)) };
        let kept = ServerRecord::parse(&record.to_json().unwrap(), "one").unwrap().unwrap();
        assert_eq!((kept.tools.len(), kept.pins), (0, record.pins));
    }

    #[test]
    fn a_record_of_another_entry_is_none() {
        let (pins, first_seen) = (BTreeMap::new(), BTreeMap::new());
        let record = ServerRecord { entry: "one".to_owned(), tools: Vec::new(), pins, first_seen, verified: None };
        let text = record.to_json().unwrap();
        let old = text.replace(r#","first_seen":{},"verified":null"#, "");
        assert!(old.len() < text.len());
        assert_eq!(ServerRecord::parse(&old, "one").unwrap().as_ref(), Some(&record), "of an earlier version");
        assert_eq!(ServerRecord::parse(&text, "one").unwrap(), Some(record));
        assert_eq!(ServerRecord::parse(&text, "two").unwrap(), None);
        assert!(ServerRecord::parse("{", "one").is_err());
    }

    #[test]
    fn a_tool_keeps_the_time_at_which_it_was_first_listed_and_tools_without_a_pin_have_none() {
        let pins = BTreeMap::from([("a".to_owned(), pin("1")), ("b".to_owned(), pin("2"))]);
        let first = with_new(&BTreeMap::new(), &pins, ["a", "z"], Timestamp(1)).unwrap();
        assert_eq!(first, BTreeMap::from([("a".to_owned(), Timestamp(1))]));
        assert_eq!(with_new(&first, &pins, ["a", "z"], Timestamp(2)), None);
        let both = with_new(&first, &pins, ["b", "a"], Timestamp(3)).unwrap();
        assert_eq!((both["a"], both["b"]), (Timestamp(1), Timestamp(3)));
    }
}
