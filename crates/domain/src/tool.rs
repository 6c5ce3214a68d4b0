//! Tools: what a source offers, what is asked of it, and what comes back. Names here are those of the source itself; the catalogue
//! gives them the names that a model sees.

mod error;
mod result;

pub mod name;

pub mod pictures;

pub mod rights;

pub mod schema;

pub mod server;

pub mod access;

pub mod outline;

pub mod bounds;

pub mod catalogue;

pub mod validators;

pub mod round;

pub mod selection;

pub mod spoken;

pub mod limits;

pub mod called;

pub mod turn_tools;

pub mod view;

pub mod usable;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::error::{CallError, CallErrorKind};
pub use self::result::{Cut, Image, Link, Part, RESULT_BYTES, ResultLimits, ToolResult};
use super::ids::{Person, Place, Timestamp, TurnId};
use super::lineage::Lineage;
use super::policy::{HistoryScope, Policy};
use super::turn::Turn;
use crate::caller::Operators;
use crate::completion::WrittenJson;
pub use crate::server_name::ServerName;

/// One tool as its source describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Where it runs.
    pub source: Source,
    /// Its own name there.
    pub name: Arc<str>,
    /// Its title for people; none when the source gave none.
    pub title: Option<String>,
    /// What it does, in the source's words; untrusted text, at most [`DESCRIPTION_BYTES`].
    pub description: String,
    /// The JSON schema of its arguments as the source wrote it, always an object. Kept as text with sorted keys: as values it takes up
    /// to a hundred times its length in memory.
    pub input_schema: WrittenJson,
    /// What the source says of its behaviour; hints that bind nobody.
    pub annotations: Annotations,
    /// What kind of work it does.
    pub kind: ToolKind,
}

impl Tool {
    /// The bytes of its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let title = self.title.as_ref().map_or(0, String::len);
        self.name.len() + title + self.description.len() + self.input_schema.as_str().len()
    }
}

/// The longest description that is kept, in bytes.
pub const DESCRIPTION_BYTES: usize = 16 * 1024;

/// Where a tool runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In this process.
    BuiltIn,
    /// On a tool server.
    Server(ServerName),
}

/// Hints of a source about a tool; none where it says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// What it changes may be lost.
    pub destructive: Option<bool>,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// It reaches beyond its own server.
    pub open_world: Option<bool>,
}

/// What a call may do to the world. Of two the greater is the more dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing: it may run beside others and be repeated.
    Reads,
    /// It changes something once, however often it is repeated.
    Idempotent,
    /// It changes something each time.
    Changes,
}

impl Effect {
    /// The effect of a tool: what the operator says of the server's side effects, else what a trusted server says, else the worst.
    #[must_use]
    pub fn of(annotations: Annotations, side_effects: Option<bool>, trusted: bool) -> Self {
        match side_effects {
            Some(false) => Self::Reads,
            None if trusted && annotations.read_only == Some(true) => Self::Reads,
            None if trusted && annotations.idempotent == Some(true) => Self::Idempotent,
            Some(true) | None => Self::Changes,
        }
    }

    /// A call whose answer was lost may be sent again.
    #[must_use]
    pub const fn repeatable(self) -> bool {
        match self {
            Self::Reads | Self::Idempotent => true,
            Self::Changes => false,
        }
    }

    /// The label in logs and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Idempotent => "idempotent",
            Self::Changes => "changes",
        }
    }
}

/// What kind of work a tool does, its category: limits are kept by kind, and tools are listed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ToolKind {
    /// Searches.
    Search,
    /// Reads pages or documents.
    Extract,
    /// Asks a database.
    Db,
    /// Reads or writes files.
    Drive,
    /// Asks a model.
    Llm,
    /// Anything else.
    #[default]
    Other,
    /// A word of the operator.
    Named(Word),
}

/// A word of lower-case letters, digits, `-` and `_`, of 1 to [`Word::MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word([u8; Word::MAX]);

impl Word {
    /// The longest word, in bytes.
    pub const MAX: usize = 24;

    /// This word; none when it is no such word.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty() && text.bytes().all(fits)).then_some(Self(bytes))
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::MAX);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl ToolKind {
    /// The kinds that limits of the usual configuration name.
    pub const USUAL: [Self; 6] = [Self::Search, Self::Extract, Self::Db, Self::Drive, Self::Llm, Self::Other];

    /// The label in logs, metrics and configuration.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Search => "search",
            Self::Extract => "extract",
            Self::Db => "db",
            Self::Drive => "drive",
            Self::Llm => "llm",
            Self::Other => "other",
            Self::Named(word) => word.as_str(),
        }
    }
}

impl FromStr for ToolKind {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let usual = Self::USUAL.into_iter().find(|kind| kind.as_str() == word);
        let named = || Word::new(word).map(Self::Named);
        usual
            .or_else(named)
            .ok_or("search, extract, db, drive, llm, other or a word of at most 24 lower-case letters, digits, - and _")
    }
}

impl TryFrom<String> for ToolKind {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        word.parse()
    }
}

impl From<ToolKind> for String {
    fn from(kind: ToolKind) -> Self {
        kind.as_str().to_owned()
    }
}

/// One call, authorised and with its arguments checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The tool's own name at its source.
    pub name: Arc<str>,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// What a call of this tool may do: a lost call is sent again only when that cannot do harm.
    pub effect: Effect,
    /// Time until the answer must be there; the call is cancelled at its source then.
    pub deadline: Duration,
    /// What the result is cut to.
    pub limits: ResultLimits,
    /// The span that the source may go on with; none when nothing is traced.
    pub trace: Option<TraceParent>,
    /// For whom it is made, and where; none for a call by hand. Never sent to a server.
    pub on_behalf: Option<OnBehalf>,
}

impl ToolRequest {
    /// A call that nobody asked for and nothing follows, with a result of the usual size.
    #[must_use]
    pub fn new(name: &str, arguments: Map<String, Value>, effect: Effect, deadline: Duration) -> Self {
        let limits = ResultLimits::default();
        Self { name: name.into(), arguments, effect, deadline, limits, trace: None, on_behalf: None }
    }
}

/// Whose words led to a call, and where its result will be read: what tools go by that keep or find something of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnBehalf {
    /// Who asked.
    pub person: Person,
    /// Where it was asked and will be answered.
    pub place: Place,
    /// The place above it.
    pub parent: Option<Place>,
    /// The community, when there is one; none in a direct message.
    pub guild: Option<String>,
    /// The turn that the call belongs to.
    pub turn: TurnId,
    /// When it was asked.
    pub at: Timestamp,
    /// Something of it may be remembered.
    pub keeps: bool,
    /// Who asked operates the bot.
    pub operator: bool,
    /// The chain of servers that the turn stands in; none where no other server asks.
    pub lineage: Option<Box<Lineage>>,
    /// Tokens that the turn used so far.
    pub tokens: u64,
    /// The number of the call in its turn.
    pub call: usize,
}

impl OnBehalf {
    /// A call of this turn, by what its door says of operators. What has no author is asked by none of them.
    #[must_use]
    pub fn of(turn: &Turn, operators: Option<Operators<'_>>) -> Self {
        let operator = turn.is_of_operator(operators);
        let Turn { person, place, parent, guild, id, at, policy, .. } = turn.clone();
        let Policy { history, lineage, .. } = policy;
        Self {
            person,
            place,
            parent,
            guild,
            turn: id,
            at,
            keeps: history == HistoryScope::PersonInPlace,
            operator,
            lineage,
            tokens: 0,
            call: 0,
        }
    }
}

/// A span in the form of W3C Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent(pub String);

/// For tests: tools of which only what matters there is said.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::{Annotations, ServerName, Source, Tool, ToolKind, WrittenJson};

    /// A tool of a server that takes any object.
    pub fn tool(server: &str, name: &str, description: &str) -> Tool {
        Tool {
            source: Source::Server(ServerName::new(server)),
            name: name.into(),
            title: None,
            description: description.to_owned(),
            input_schema: WrittenJson::new(&serde_json::json!({"type": "object"})),
            annotations: Annotations::default(),
            kind: ToolKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_of_the_usual_or_a_word_of_the_operator() {
        assert_eq!("search".parse(), Ok(ToolKind::Search));
        let longest = "x".repeat(Word::MAX);
        for word in ["books", "a", "tides-2_b", &longest] {
            let kind: ToolKind = word.parse().unwrap();
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!((kind.as_str(), json == format!("{word:?}")), (word, true));
            assert_eq!(serde_json::from_str::<ToolKind>(&json).unwrap(), kind);
        }
        for odd in ["", "Books", "two words", "b*", "b\u{fc}cher", &format!("{longest}x")] {
            assert!(
                odd.parse::<ToolKind>().is_err() && serde_json::from_value::<ToolKind>(odd.into()).is_err(),
                "{odd}"
            );
        }
    }

    #[test]
    fn only_the_operator_or_a_trusted_server_lowers_an_effect() {
        let reads = Annotations { read_only: Some(true), ..Annotations::default() };
        let idempotent = Annotations { idempotent: Some(true), ..Annotations::default() };
        assert_eq!(Effect::of(reads, None, false), Effect::Changes);
        assert_eq!(Effect::of(reads, None, true), Effect::Reads);
        assert_eq!(Effect::of(idempotent, None, true), Effect::Idempotent);
        assert_eq!(Effect::of(Annotations::default(), None, true), Effect::Changes);
        assert_eq!(Effect::of(Annotations::default(), Some(false), false), Effect::Reads);
        assert_eq!(Effect::of(reads, Some(true), true), Effect::Changes);
    }
}
