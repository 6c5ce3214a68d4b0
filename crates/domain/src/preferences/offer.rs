//! The settings that a model row can serve, the models that members may choose, and how settings are shown.

use super::{Invalid, Setting};
use crate::ids::{Person, Place};
use crate::model::{Row, ToolMode};

/// A person in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The person whose settings are meant.
    pub person: Person,
    /// The place in which they apply.
    pub place: Place,
    /// The parent of that place.
    pub parent: Option<Place>,
    /// The community; `None` in a direct conversation.
    pub guild: Option<String>,
    /// Ids of the person's roles in the community.
    pub roles: Vec<String>,
}

/// The level that a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The operator's default, or none.
    Default,
    /// The person's value for all places.
    Own,
    /// The person's value for this place.
    Here,
}

impl Level {
    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Own => "own",
            Self::Here => "here",
        }
    }
}

/// A setting as its person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The setting.
    pub setting: Setting,
    /// The value in force; `None` leaves it to the model and its row.
    pub value: Option<String>,
    /// The level that the value comes from.
    pub level: Level,
    /// True if the person may change it.
    pub open: bool,
}

/// The reason why a setting is not changed or not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// No setting has this name.
    Name,
    /// The setting does not accept the value.
    Value(Setting),
    /// The operator does not let members change it.
    Closed(Setting),
    /// The row that answers cannot serve it.
    NotServed(Setting, String),
    /// There is no such model, but these.
    NoSuchModel(String, Vec<String>),
    /// The store does not answer.
    Away,
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Name => Self::Name,
            Invalid::Value(setting) => Self::Value(setting),
        }
    }
}

/// The abilities that settings depend on.
#[derive(Debug, Clone, Copy)]
pub struct Abilities<'a> {
    /// The row that answers.
    pub row: Option<&'a Row>,
    /// True if members may choose among several rows.
    pub choices: bool,
    /// True if there are tools.
    pub tools: bool,
    /// True if a tool searches the web.
    pub web_search: bool,
}

/// True if a setting has an effect with these abilities.
#[must_use]
pub fn is_served(setting: Setting, with: &Abilities<'_>) -> bool {
    let row = |holds: fn(&Row) -> bool| with.row.is_some_and(holds);
    match setting {
        Setting::Instructions | Setting::Verbosity | Setting::Language | Setting::Memory => true,
        Setting::Model => with.choices,
        Setting::ReasoningEffort => row(|row| row.reasoning_effort),
        Setting::Temperature => row(|row| !row.fixed_temperature),
        Setting::WebSearch => row(|row| row.native_web_search) || (with.web_search && row(takes_tools)),
        Setting::Tools => with.tools && row(takes_tools),
        Setting::Streaming => row(|row| row.stream),
    }
}

fn takes_tools(row: &Row) -> bool {
    row.tools != ToolMode::Off
}

/// Returns the rows that members may choose: the named ones, or all if none is named. The first is the default.
#[must_use]
pub fn allowed<'a>(rows: &'a [Row], named: &[String]) -> Vec<&'a Row> {
    rows.iter().filter(|row| named.is_empty() || named.contains(&row.key)).collect()
}
