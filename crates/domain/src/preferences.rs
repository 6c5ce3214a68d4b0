//! The settings that a person may change for themselves.
//!
//! A setting has up to four values, and the narrowest wins: the operator's default, the default of the community, the
//! person's own value, and the person's value in one place ("here"). A setting only restricts or styles answers to its
//! own person; it grants nothing: the chosen model must be one that the operator offers, and tools can only be left out.

mod change;
pub mod dialogue;
mod offer;
pub mod prompt;
mod record;

use serde::{Deserialize, Serialize};
use serde_json::Number;

pub use self::change::{Change, Invalid, VALUE_CHARS};
pub use self::offer::{Abilities, Holder, Level, Refused, Shown, allowed, is_served};
pub use self::record::Record;
use crate::clean::clean;
use crate::completion::{ReasoningEffort, Sampling};

/// The word that resets a setting.
pub const DEFAULT: &str = "default";

/// Maximum number of characters of a person's instructions.
pub const INSTRUCTIONS_CHARS: usize = 1_000;
/// Maximum number of characters of the name of a language.
const LANGUAGE_CHARS: usize = 40;
/// Maximum number of tool servers that a person leaves out.
const SERVERS_MAX: usize = 16;
/// Maximum number of characters of the name of a tool server.
const SERVER_CHARS: usize = 64;
const TEMPERATURE_MAX: f64 = 2.0;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setting {
    /// The model row that answers.
    Model,
    /// Instructions of the person for every answer.
    Instructions,
    /// The length of answers.
    Verbosity,
    /// The effort that a reasoning model spends.
    ReasoningEffort,
    /// The sampling temperature.
    Temperature,
    /// The language of answers and notices.
    Language,
    /// Permits searches of the web.
    WebSearch,
    /// The tools that may be used: all, none, or all but those of some servers.
    Tools,
    /// Shows an answer while it grows.
    Streaming,
    /// Permits to store and use the conversation and facts.
    Memory,
}

impl Setting {
    /// All settings, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::Model,
        Self::Instructions,
        Self::Verbosity,
        Self::ReasoningEffort,
        Self::Temperature,
        Self::Language,
        Self::WebSearch,
        Self::Tools,
        Self::Streaming,
        Self::Memory,
    ];

    /// Returns the name, which is also its name in stored data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Instructions => "instructions",
            Self::Verbosity => "verbosity",
            Self::ReasoningEffort => "reasoning_effort",
            Self::Temperature => "temperature",
            Self::Language => "language",
            Self::WebSearch => "web_search",
            Self::Tools => "tools",
            Self::Streaming => "streaming",
            Self::Memory => "memory",
        }
    }

    /// Returns the setting with this name. A hyphen counts as an underscore.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.replace('-', "_").to_ascii_lowercase();
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Returns values to offer while a person types.
    #[must_use]
    pub const fn suggested(self) -> &'static [&'static str] {
        match self {
            Self::Model | Self::Instructions | Self::Temperature => &[],
            Self::Verbosity => &["short", "normal", "detailed"],
            Self::ReasoningEffort => &["minimal", "low", "medium", "high"],
            Self::Language => &["de", "en", "es"],
            Self::Tools => &["on", "off", BUILT_IN],
            Self::WebSearch | Self::Streaming | Self::Memory => &["on", "off"],
        }
    }

    /// Describes the accepted values, apart from [`DEFAULT`].
    #[must_use]
    pub const fn values(self) -> &'static str {
        match self {
            Self::Model => "a name from /model",
            Self::Instructions => "up to 1,000 characters",
            Self::Verbosity => "short | normal | detailed",
            Self::ReasoningEffort => "minimal | low | medium | high",
            Self::Temperature => "0 to 2",
            Self::Language => "de, en, es, or a name such as French",
            Self::Tools => "on | off | built_in | without SERVER, SERVER",
            Self::WebSearch | Self::Streaming | Self::Memory => "on | off",
        }
    }
}

/// The length of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verbosity {
    /// As short as the question allows.
    Short,
    /// As the operator's prompts ask.
    Normal,
    /// With background and details.
    Detailed,
}

impl Verbosity {
    const ALL: [Self; 3] = [Self::Short, Self::Normal, Self::Detailed];

    /// Returns the word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Normal => "normal",
            Self::Detailed => "detailed",
        }
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verbosity| verbosity.as_str() == word)
    }
}

/// The tools that may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUse {
    /// All that the operator permits.
    On,
    /// None.
    Off,
    /// Those of the bot itself, web search included, and none of any server.
    BuiltIn,
    /// All but those of these servers.
    Without(Vec<String>),
}

/// Values of settings on one level, or the values in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Preferences {
    /// See [`Setting::Model`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// See [`Setting::Instructions`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// See [`Setting::Verbosity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<Verbosity>,
    /// See [`Setting::ReasoningEffort`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// See [`Setting::Temperature`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// See [`Setting::Language`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// See [`Setting::WebSearch`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<bool>,
    /// See [`Setting::Tools`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolUse>,
    /// See [`Setting::Streaming`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// See [`Setting::Memory`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

impl Preferences {
    /// True if no setting has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these values, and those of a wider level where there are none.
    #[must_use]
    pub fn over(self, wider: Self) -> Self {
        Self {
            model: self.model.or(wider.model),
            instructions: self.instructions.or(wider.instructions),
            verbosity: self.verbosity.or(wider.verbosity),
            reasoning_effort: self.reasoning_effort.or(wider.reasoning_effort),
            temperature: self.temperature.or(wider.temperature),
            language: self.language.or(wider.language),
            web_search: self.web_search.or(wider.web_search),
            tools: self.tools.or(wider.tools),
            streaming: self.streaming.or(wider.streaming),
            memory: self.memory.or(wider.memory),
        }
    }

    /// Returns only the values of settings for which `keeps` is true.
    #[must_use]
    pub fn only(mut self, keeps: impl Fn(Setting) -> bool) -> Self {
        for setting in Setting::ALL.into_iter().filter(|setting| !keeps(*setting)) {
            self.clear(setting);
        }
        self
    }

    /// Removes the value of a setting.
    pub fn clear(&mut self, setting: Setting) {
        match setting {
            Setting::Model => self.model = None,
            Setting::Instructions => self.instructions = None,
            Setting::Verbosity => self.verbosity = None,
            Setting::ReasoningEffort => self.reasoning_effort = None,
            Setting::Temperature => self.temperature = None,
            Setting::Language => self.language = None,
            Setting::WebSearch => self.web_search = None,
            Setting::Tools => self.tools = None,
            Setting::Streaming => self.streaming = None,
            Setting::Memory => self.memory = None,
        }
    }

    /// Sets a value in the form in which people write it. The existence of a model or a server is not checked.
    ///
    /// # Errors
    /// The setting does not accept the value.
    pub fn set(&mut self, setting: Setting, value: &str) -> Result<(), Invalid> {
        let value = clean(value, VALUE_CHARS).split_whitespace().collect::<Vec<_>>().join(" ");
        let value = value.as_str();
        let wrong = || Invalid::Value(setting);
        let word = value.to_lowercase();
        match setting {
            Setting::Model => self.model = Some(value.to_owned()).filter(|row| !row.is_empty()),
            Setting::Instructions => self.instructions = Some(within(value, INSTRUCTIONS_CHARS).ok_or_else(wrong)?),
            Setting::Verbosity => self.verbosity = Some(Verbosity::of(&word).ok_or_else(wrong)?),
            Setting::ReasoningEffort => self.reasoning_effort = Some(ReasoningEffort::of(&word).ok_or_else(wrong)?),
            Setting::Temperature => {
                let given = value.parse().ok().filter(|given| (0.0..=TEMPERATURE_MAX).contains(given));
                self.temperature = Some(given.and_then(Number::from_f64).ok_or_else(wrong)?);
            }
            Setting::Language => {
                let is_name = value.chars().all(|c| c.is_alphabetic() || c == '-' || c == ' ');
                self.language = Some(within(value, LANGUAGE_CHARS).filter(|_| is_name).ok_or_else(wrong)?);
            }
            Setting::WebSearch => self.web_search = Some(on_or_off(&word).ok_or_else(wrong)?),
            Setting::Tools => self.tools = Some(tool_use(value, &word).ok_or_else(wrong)?),
            Setting::Streaming => self.streaming = Some(on_or_off(&word).ok_or_else(wrong)?),
            Setting::Memory => self.memory = Some(on_or_off(&word).ok_or_else(wrong)?),
        }
        Ok(())
    }

    /// Returns the value of a setting in the form that [`Preferences::set`] reads.
    #[must_use]
    pub fn value(&self, setting: Setting) -> Option<String> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        match setting {
            Setting::Model => self.model.clone(),
            Setting::Instructions => self.instructions.clone(),
            Setting::Verbosity => self.verbosity.map(|length| length.as_str().to_owned()),
            Setting::ReasoningEffort => self.reasoning_effort.map(|effort| effort.as_str().to_owned()),
            Setting::Temperature => self.temperature.as_ref().map(Number::to_string),
            Setting::Language => self.language.clone(),
            Setting::WebSearch => self.web_search.map(switch),
            Setting::Tools => self.tools.as_ref().map(|tools| match tools {
                ToolUse::On => switch(true),
                ToolUse::Off => switch(false),
                ToolUse::BuiltIn => BUILT_IN.to_owned(),
                ToolUse::Without(servers) => format!("{WITHOUT} {}", servers.join(", ")),
            }),
            Setting::Streaming => self.streaming.map(switch),
            Setting::Memory => self.memory.map(switch),
        }
    }

    /// True if the conversation and facts may be used and stored.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.memory != Some(false)
    }

    /// Returns the sampling parameters of these settings.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let (temperature, reasoning_effort) = (self.temperature.clone(), self.reasoning_effort);
        Sampling { temperature, reasoning_effort, ..Sampling::default() }
    }

    /// Returns the patterns of the tools that the person leaves out while others may be used.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let servers = match &self.tools {
            Some(ToolUse::Without(servers)) => servers.iter().map(|server| format!("{server}__*")).collect(),
            Some(ToolUse::BuiltIn) => vec![ANY_SERVER.to_owned()],
            Some(ToolUse::On | ToolUse::Off) | None => Vec::new(),
        };
        let search = (self.web_search == Some(false)).then(|| crate::hosted::WEB_SEARCH.to_owned());
        servers.into_iter().chain(search).collect()
    }
}

/// The value that leaves out the tools of all servers.
pub const BUILT_IN: &str = "built_in";
/// The pattern of the tools of all servers: `server__tool`.
const ANY_SERVER: &str = "*__*";
/// The word before the servers to leave out.
const WITHOUT: &str = "without";

fn within(value: &str, most: usize) -> Option<String> {
    (!value.is_empty() && value.chars().count() <= most).then(|| value.to_owned())
}

fn on_or_off(word: &str) -> Option<bool> {
    match word {
        "on" | "true" | "yes" => Some(true),
        "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn tool_use(value: &str, word: &str) -> Option<ToolUse> {
    if let Some(on) = on_or_off(word) {
        return Some(if on { ToolUse::On } else { ToolUse::Off });
    }
    if word.replace(['-', ' '], "_") == BUILT_IN {
        return Some(ToolUse::BuiltIn);
    }
    let (first, rest) = value.split_once(char::is_whitespace)?;
    let is_name = |name: &str| {
        name.chars().count() <= SERVER_CHARS
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let servers: Vec<String> =
        rest.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let fits = first.eq_ignore_ascii_case(WITHOUT) && !servers.is_empty() && servers.len() <= SERVERS_MAX;
    (fits && servers.iter().all(|name| is_name(name))).then_some(ToolUse::Without(servers))
}

#[cfg(test)]
mod tests;
