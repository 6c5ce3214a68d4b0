//! Tools: the descriptions that sources offer, the calls sent to them, and the results. Names here are those of the
//! source; the catalogue maps them to the names that models use.

mod error;
mod result;
pub mod reuse;

pub mod name;

pub mod named_resource;

pub mod pictures;

pub mod rights;

pub mod schema;

pub mod server;

pub mod begun;

pub mod access;

pub mod outline;
pub mod pattern;

pub mod bounds;

pub mod catalogue;
pub mod choice;

pub mod validators;

pub mod round;

pub mod selection;

pub mod spoken;

pub mod limits;

pub mod called;

pub mod outage;

pub mod failure;

pub mod turn_tools;

pub mod view;

pub mod usable;

pub mod utility;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::begun::Step;
pub use self::error::{CallError, CallErrorKind};
pub use self::result::{Blob, Cut, Image, Link, Part, RESULT_BYTES, ResultLimits, ToolResult};
use self::utility::Utility;
use super::ids::{Person, Place, Timestamp, TurnId};
use super::ledger;
use super::lineage::Lineage;
use super::people::Linked;
use super::policy::{HistoryScope, Policy};
use super::turn::Turn;
use crate::caller::Operators;
use crate::completion::{Picture, WrittenJson};
pub use crate::server_name::ServerName;

/// One tool as described by its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The source that runs it.
    pub source: Source,
    /// Its name at the source.
    pub name: Arc<str>,
    /// Its display title; `None` if the source gave none.
    pub title: Option<String>,
    /// The source's description; untrusted text, at most [`DESCRIPTION_BYTES`].
    pub description: String,
    /// The JSON schema of its arguments as the source wrote it, always an object. It is kept as text with sorted keys:
    /// parsed values take up to a hundred times as much memory.
    pub input_schema: WrittenJson,
    /// The source's hints on its behaviour; not binding.
    pub annotations: Annotations,
    /// The category of its work.
    pub kind: ToolKind,
    /// The method of its server that it stands for; `None` for a tool of the source itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utility: Option<Utility>,
}

impl Tool {
    /// Returns the size of its texts in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let title = self.title.as_ref().map_or(0, String::len);
        self.name.len() + title + self.description.len() + self.input_schema.as_str().len()
    }
}

/// The maximum length of a description that is kept, in bytes.
pub const DESCRIPTION_BYTES: usize = 16 * 1024;

/// The place where a tool runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In this process.
    BuiltIn,
    /// On a tool server.
    Server(ServerName),
}

/// The source's hints about a tool; `None` if a hint is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// True if it changes nothing.
    pub read_only: Option<bool>,
    /// True if it may destroy data that it changes.
    pub destructive: Option<bool>,
    /// True if a repeated call with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// True if it interacts with systems beyond its own server.
    pub open_world: Option<bool>,
}

/// The side effects of a call, in ascending order of danger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing: it may run in parallel and be repeated.
    Reads,
    /// It is idempotent: repeated calls change something only once.
    Idempotent,
    /// Each call changes something.
    Changes,
}

impl Effect {
    /// Returns the effect of a tool: the operator's setting for the server's side effects, else a trusted server's
    /// annotations, else the most dangerous effect. The protocol defines a utility as a read, so that it may be repeated
    /// at any server; for rules it is a write at a server that is not trusted.
    #[must_use]
    pub fn of(tool: &Tool, side_effects: Option<bool>, trusted: bool) -> Self {
        let Annotations { read_only, idempotent, .. } = tool.annotations;
        match side_effects {
            Some(false) => Self::Reads,
            None if trusted && read_only == Some(true) => Self::Reads,
            None if tool.utility.is_some() || (trusted && idempotent == Some(true)) => Self::Idempotent,
            Some(true) | None => Self::Changes,
        }
    }

    /// True if a call whose answer was lost may be sent again.
    #[must_use]
    pub const fn repeatable(self) -> bool {
        match self {
            Self::Reads | Self::Idempotent => true,
            Self::Changes => false,
        }
    }

    /// Returns the label in logs and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Idempotent => "idempotent",
            Self::Changes => "changes",
        }
    }
}

/// The category of a tool. Limits apply per category, and tools are listed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ToolKind {
    /// Searches.
    Search,
    /// Reads pages or documents.
    Extract,
    /// Queries a database.
    Db,
    /// Reads or writes files.
    Drive,
    /// Calls a model.
    Llm,
    /// Makes pictures.
    Image,
    /// Anything else.
    #[default]
    Other,
    /// A category named by the operator.
    Named(Word),
}

/// A word of lower-case letters, digits, `-` and `_`, of 1 to [`Word::MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word([u8; Word::MAX]);

impl Word {
    /// The maximum length of a word, in bytes.
    pub const MAX: usize = 24;

    /// Builds a word; `None` if the text is not valid.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        let mut bytes = [0; Self::MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty() && text.bytes().all(fits)).then_some(Self(bytes))
    }

    /// Returns the text of the word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::MAX);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl ToolKind {
    /// The categories used by the limits of the default configuration.
    pub const USUAL: [Self; 7] =
        [Self::Search, Self::Extract, Self::Db, Self::Drive, Self::Llm, Self::Image, Self::Other];

    /// Returns the label in logs, metrics and configuration.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Search => "search",
            Self::Extract => "extract",
            Self::Db => "db",
            Self::Drive => "drive",
            Self::Llm => "llm",
            Self::Image => "image",
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
        usual.or_else(named).ok_or(
            "search, extract, db, drive, llm, image, other or a word of at most 24 lower-case letters, digits, - and _",
        )
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

/// One authorised call with validated arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The tool's name at its source.
    pub name: Arc<str>,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The step: a call takes several if its server asks questions or works on it as a task.
    pub step: Step,
    /// The effect of the call: a lost call is sent again only if this is harmless.
    pub effect: Effect,
    /// The time until the deadline, at which the call is cancelled at its source.
    pub deadline: Duration,
    /// The bounds to which the result is truncated.
    pub limits: ResultLimits,
    /// The parent span for the source; `None` if tracing is disabled.
    pub trace: Option<TraceParent>,
    /// The member and the place of the call; `None` for a manual call. Never sent to a server.
    pub on_behalf: Option<OnBehalf>,
    /// The pictures of the question, as far as the model sees them; for built-in tools only.
    pub pictures: Arc<[Picture]>,
    /// Receives the cost that the tool pays.
    pub paid: PaidCost,
}

/// The cost that a tool paid for one call, also if the call is cancelled. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PaidCost(Arc<AtomicU64>);

impl PaidCost {
    /// Adds a cost, in millionths of a dollar.
    pub fn add(&self, micros: u64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the cost so far, in millionths of a dollar.
    #[must_use]
    pub fn micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl PartialEq for PaidCost {
    fn eq(&self, other: &Self) -> bool {
        self.micros() == other.micros()
    }
}

impl ToolRequest {
    /// Builds a call without a member and a trace, with the default result limits.
    #[must_use]
    pub fn new(name: &str, arguments: Map<String, Value>, effect: Effect, deadline: Duration) -> Self {
        let limits = ResultLimits::default();
        let step = Step::First;
        let (pictures, paid) = (Arc::default(), PaidCost::default());
        let (name, trace, on_behalf) = (name.into(), None, None);
        Self { name, arguments, step, effect, deadline, limits, trace, on_behalf, pictures, paid }
    }
}

/// The member whose request led to a call, and the place where the result will be read. Tools that store or find a
/// member's data use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnBehalf {
    /// The person who made the request.
    pub person: Person,
    /// All accounts of the person.
    pub linked: Linked,
    /// True if only the person reads the place.
    pub alone: bool,
    /// The place of the request and of its answer.
    pub place: Place,
    /// The parent place.
    pub parent: Option<Place>,
    /// The community; `None` in a direct message.
    pub guild: Option<String>,
    /// Ids of the person's roles.
    pub roles: Vec<String>,
    /// The bot's own account in the ledger, for a turn that no member requested.
    pub own: Option<&'static str>,
    /// The turn of the call.
    pub turn: TurnId,
    /// The time of the request.
    pub at: Timestamp,
    /// True if the content may be stored in memory.
    pub keeps: bool,
    /// True if the person is an operator of the bot.
    pub operator: bool,
    /// The chain of servers that leads to the turn; `None` if no other server made the request.
    pub lineage: Option<Box<Lineage>>,
    /// The tokens that the turn has used so far.
    pub tokens: u64,
    /// The number of the call in its turn.
    pub call: usize,
}

impl OnBehalf {
    /// Builds the context for a call of this turn, with the operators of its door. A turn without an author is never an
    /// operator's.
    #[must_use]
    pub fn of(turn: &Turn, operators: Option<Operators<'_>>) -> Self {
        let operator = turn.is_of_operator(operators);
        let Turn { person, linked, place, parent, guild, roles, id, at, policy, .. } = turn.clone();
        let Policy { history, lineage, alone, .. } = policy;
        Self {
            person,
            linked,
            alone,
            place,
            parent,
            guild,
            roles,
            own: ledger::own_purpose(turn.trigger),
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

/// A trace parent in the W3C Trace Context format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent(pub String);

/// Test helpers: tools and requests with only the fields that a test needs.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use super::{
        Annotations, Linked, OnBehalf, Person, Place, ServerName, Source, Timestamp, Tool, ToolKind, TurnId,
        WrittenJson,
    };

    /// Builds the request of a member for whom data is kept, outside of communities.
    #[must_use]
    pub fn on_behalf(person: Person, place: Place) -> OnBehalf {
        let turn = TurnId::new(place.door.clone(), "1");
        OnBehalf {
            person,
            linked: Linked::default(),
            alone: false,
            place,
            parent: None,
            guild: None,
            roles: Vec::new(),
            own: None,
            turn,
            at: Timestamp(0),
            keeps: true,
            operator: false,
            lineage: None,
            tokens: 0,
            call: 0,
        }
    }

    /// Builds a tool of a server that accepts any object.
    pub fn tool(server: &str, name: &str, description: &str) -> Tool {
        Tool {
            source: Source::Server(ServerName::new(server)),
            name: name.into(),
            title: None,
            description: description.to_owned(),
            input_schema: WrittenJson::new(&serde_json::json!({"type": "object"})),
            annotations: Annotations::default(),
            kind: ToolKind::Other,
            utility: None,
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
        let of = |annotations: Annotations| Tool { annotations, ..testing::tool("s", "t", "") };
        let reads = of(Annotations { read_only: Some(true), ..Annotations::default() });
        let idempotent = of(Annotations { idempotent: Some(true), ..Annotations::default() });
        let silent = of(Annotations::default());
        assert_eq!(Effect::of(&reads, None, false), Effect::Changes);
        assert_eq!(Effect::of(&reads, None, true), Effect::Reads);
        assert_eq!(Effect::of(&idempotent, None, true), Effect::Idempotent);
        assert_eq!(Effect::of(&silent, None, true), Effect::Changes);
        assert_eq!(Effect::of(&silent, Some(false), false), Effect::Reads);
        assert_eq!(Effect::of(&reads, Some(true), true), Effect::Changes);
    }

    #[test]
    fn a_read_of_a_resource_may_be_repeated_unless_the_operator_says_that_it_changes_something() {
        let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
        let read = Tool { utility: Some(Utility::ReadResource), annotations, ..testing::tool("s", "t", "") };
        assert_eq!(Effect::of(&read, None, false), Effect::Idempotent);
        assert_eq!(Effect::of(&read, None, true), Effect::Reads);
        assert_eq!(Effect::of(&read, Some(false), false), Effect::Reads);
        assert_eq!(Effect::of(&read, Some(true), true), Effect::Changes);
    }
}
