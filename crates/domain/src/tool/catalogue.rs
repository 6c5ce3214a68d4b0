//! The catalogue of all tools of all sources, under the names that models use. It is rebuilt when a source changes,
//! never for a message.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::bounds::{OF_CATALOGUE, OF_PROVIDER, OF_PROVIDERS, OF_SOURCE, Room, Weight};
use super::name::{callable, skeleton};
use super::rights::{self, Audience, Verdict};
use super::validators::{self, SchemaKey, Validators};
use super::{Annotations, Effect, Source, Tool};
use crate::clean::clean;
use crate::completion::{ToolSpec, WrittenJson};
use crate::hex::hex;

/// The maximum number of tools in one catalogue; further tools are refused.
pub const TOOLS_MAX: usize = 20_000;
/// The maximum length of a description shown to a model, in Unicode scalar values.
pub const DESCRIPTION_CHARS: usize = 1_024;

/// The tools of one source, with the settings of its trust. By default, it has no trust.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The tools, in the order of the source.
    pub tools: Vec<Arc<Tool>>,
    /// Names of tools at the source that are accepted; empty accepts all.
    pub allowed: Vec<String>,
    /// The operator's setting for the side effects of all its tools; none leaves it to the annotations of a trusted
    /// source.
    pub side_effects: Option<bool>,
    /// True if its annotations may lower effects.
    pub trusted: bool,
    /// True if each call requires approval.
    pub asks: bool,
    /// The operator's description of the source's purpose.
    pub about: Option<Arc<str>>,
    /// Names of tools at the source that only operators of the bot may call.
    pub operators: Vec<Arc<str>>,
    /// Identifies the address of the source: a different program or address has a different value. Empty for built-in
    /// tools.
    pub origin: Arc<str>,
    /// True if the source is a process that registered itself: all of these share one bound.
    pub announced: bool,
}

/// One tool of the catalogue.
#[derive(Debug)]
pub struct CatalogueEntry {
    /// The name in calls.
    pub name: Arc<str>,
    /// The tool.
    pub tool: Arc<Tool>,
    /// The effect of a call.
    pub effect: Effect,
    /// The definition shown to models, with the JSON schema of the arguments in the form that providers accept.
    pub spec: Arc<ToolSpec>,
    /// Identifies the current description and schema.
    pub pin: Pin,
    /// The verdict if no rule matches.
    pub usual: Verdict,
    /// The callers that may use it at all.
    pub audience: Audience,
    /// The operator's description of its source's purpose.
    pub about: Option<Arc<str>>,
    /// Identifies the address of its source.
    pub origin: Arc<str>,
    /// Its share of the bounds of its source and of the catalogue.
    weight: Weight,
    /// The key of the compiled schema that checks arguments.
    schema: SchemaKey,
    validators: Arc<Validators>,
}

/// The SHA-256 hash of a tool's description and schema, in hexadecimal digits: a changed tool has a different one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Pin(pub String);

impl Pin {
    /// Computes the pin of a tool.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        let Annotations { read_only, destructive, idempotent, open_world } = tool.annotations;
        let hints = [read_only, destructive, idempotent, open_world];
        let mut hash = Sha256::new();
        for part in [&*tool.name, &tool.description, tool.input_schema.as_str(), &format!("{hints:?}")] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hex(&hash.finalize()))
    }
}

/// A tool that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTool {
    /// Its source.
    pub source: Source,
    /// Its name at the source.
    pub tool: String,
    /// The reason.
    pub reason: Reason,
}

/// The reason why a tool is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Another tool has the same name in calls.
    Taken(Arc<str>),
    /// A tool of another source has a name that is visually confusable with this one.
    LooksLike(Arc<str>),
    /// The catalogue already has [`TOOLS_MAX`] tools.
    TooMany,
    /// The tools of its source exceed [`OF_SOURCE`], or [`OF_PROVIDER`] if the source registered itself.
    SourceTooLarge,
    /// The tools of all processes that registered themselves exceed [`OF_PROVIDERS`].
    ProvidersTooLarge,
    /// All tools together exceed [`OF_CATALOGUE`].
    NoRoom,
}

impl Reason {
    /// True if the tool was refused because of its size.
    #[must_use]
    pub const fn is_of_size(&self) -> bool {
        match self {
            Self::SourceTooLarge | Self::ProvidersTooLarge | Self::NoRoom => true,
            Self::Taken(_) | Self::LooksLike(_) | Self::TooMany => false,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taken(name) => write!(f, "the name {name} is taken: rename one of the servers"),
            Self::LooksLike(name) => write!(f, "the name looks like {name} of another server: rename one of them"),
            Self::TooMany => write!(f, "there are {TOOLS_MAX} tools already: name the ones you need in allowed_tools"),
            Self::SourceTooLarge => f.write_str(
                "the descriptions and schemas of its server are too large together: name the tools you need in allowed_tools",
            ),
            Self::ProvidersTooLarge => f.write_str(
                "the descriptions and schemas of all processes that announce tools are too large together: let them offer fewer",
            ),
            Self::NoRoom => f.write_str(
                "the descriptions and schemas of all tools are too large together: name the tools you need in allowed_tools",
            ),
        }
    }
}

/// All tools, ordered by name.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: Vec<Arc<CatalogueEntry>>,
    by_name: HashMap<Arc<str>, usize>,
    refused: Vec<RefusedTool>,
    validators: Arc<Validators>,
}

impl Catalogue {
    /// Builds the catalogue of these offers. Of two tools with the same name, the one offered first stays. `convert`
    /// returns the schema that models may see. Entries that are unchanged since `before` are reused.
    #[must_use]
    pub fn new(offers: &[Offer], before: &Self, convert: impl Fn(&Tool) -> Value) -> Self {
        let mut names: BTreeMap<Arc<str>, Arc<CatalogueEntry>> = BTreeMap::new();
        let mut skeletons: HashMap<String, Arc<str>> = HashMap::new();
        let mut refused = Vec::new();
        let (mut all, validators) = (Room::of(OF_CATALOGUE), Arc::clone(&before.validators));
        let mut providers = Room::of(OF_PROVIDERS);
        for offer in offers {
            let mut own = Room::of(if offer.announced { OF_PROVIDER } else { OF_SOURCE });
            for tool in offer.tools.iter().filter(|tool| offer.takes(tool)) {
                let name: Arc<str> = callable(&tool.source, &tool.name).into();
                let like = skeletons.get(&skeleton(&name)).filter(|like| names[*like].tool.source != tool.source);
                let reason = if names.contains_key(&name) {
                    Reason::Taken(Arc::clone(&name))
                } else if let Some(like) = like {
                    Reason::LooksLike(Arc::clone(like))
                } else if names.len() == TOOLS_MAX {
                    Reason::TooMany
                } else if own.is_overfull() {
                    Reason::SourceTooLarge
                } else if offer.announced && providers.is_overfull() {
                    Reason::ProvidersTooLarge
                } else if all.is_overfull() {
                    Reason::NoRoom
                } else {
                    let made = || CatalogueEntry::new(&name, tool, offer, &validators, &convert);
                    let entry = before.same(&name, tool, offer).unwrap_or_else(made);
                    if !own.take(entry.weight) {
                        Reason::SourceTooLarge
                    } else if offer.announced && !providers.take(entry.weight) {
                        Reason::ProvidersTooLarge
                    } else if !all.take(entry.weight) {
                        Reason::NoRoom
                    } else {
                        skeletons.insert(skeleton(&name), Arc::clone(&name));
                        names.insert(name, entry);
                        continue;
                    }
                };
                refused.push(RefusedTool { source: tool.source.clone(), tool: tool.name.to_string(), reason });
            }
        }
        let by_name = names.keys().enumerate().map(|(index, name)| (Arc::clone(name), index)).collect();
        Self { entries: names.into_values().collect(), by_name, refused, validators }
    }

    /// Builds a catalogue of these tools of another catalogue.
    #[must_use]
    pub fn of(entries: impl Iterator<Item = Arc<CatalogueEntry>>) -> Self {
        let names: BTreeMap<Arc<str>, Arc<CatalogueEntry>> =
            entries.map(|entry| (Arc::clone(&entry.name), entry)).collect();
        let by_name = names.keys().enumerate().map(|(index, name)| (Arc::clone(name), index)).collect();
        Self { entries: names.into_values().collect(), by_name, ..Self::default() }
    }

    /// Returns all tools, ordered by name.
    #[must_use]
    pub fn entries(&self) -> &[Arc<CatalogueEntry>] {
        &self.entries
    }

    /// Returns the tool with this name in calls.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<CatalogueEntry>> {
        self.by_name.get(name).map(|index| &self.entries[*index])
    }

    /// Returns the index of a tool in [`Catalogue::entries`].
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the refused tools with their reasons.
    #[must_use]
    pub fn refused(&self) -> &[RefusedTool] {
        &self.refused
    }

    /// Returns the compiled schemas that check arguments.
    #[must_use]
    pub fn validators(&self) -> &Validators {
        &self.validators
    }

    /// Returns the entry of this name if it is unchanged.
    fn same(&self, name: &str, tool: &Arc<Tool>, offer: &Offer) -> Option<Arc<CatalogueEntry>> {
        let entry = self.get(name)?;
        let same = *entry.tool == **tool
            && entry.effect == offer.effect(tool)
            && entry.usual == offer.usual(tool)
            && entry.audience == offer.audience(tool)
            && entry.about == offer.about
            && entry.origin == offer.origin;
        same.then(|| Arc::clone(entry))
    }
}

impl Offer {
    /// Builds the offer of the built-in tools.
    #[must_use]
    pub fn built_in(tools: Vec<Tool>) -> Self {
        let tools = tools.into_iter().map(Arc::new).collect();
        Self { tools, trusted: true, ..Self::default() }
    }

    fn takes(&self, tool: &Tool) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|name| **name == *tool.name)
    }

    fn effect(&self, tool: &Tool) -> Effect {
        Effect::of(tool, self.side_effects, self.trusted)
    }

    fn audience(&self, tool: &Tool) -> Audience {
        if self.operators.contains(&tool.name) { Audience::Operators } else { Audience::Everyone }
    }

    fn usual(&self, tool: &Tool) -> Verdict {
        if self.asks { Verdict::Ask } else { rights::usual(tool) }
    }
}

impl PartialEq for CatalogueEntry {
    /// True if both are the same tool with the same content and name.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.tool.source, &self.origin, &self.pin, self.effect, self.usual)
            == (&other.name, &other.tool.source, &other.origin, &other.pin, other.effect, other.usual)
    }
}

impl CatalogueEntry {
    fn new(
        name: &Arc<str>,
        tool: &Arc<Tool>,
        offer: &Offer,
        validators: &Arc<Validators>,
        convert: impl Fn(&Tool) -> Value,
    ) -> Arc<Self> {
        let value = convert(tool);
        let (parameters, weight) = (WrittenJson::new(&value), Weight::of_schema(&value));
        let description = clean(&tool.description, DESCRIPTION_CHARS);
        let texts = [&*tool.name, &tool.description, tool.input_schema.as_str(), &description, parameters.as_str()];
        let bytes = texts.iter().map(|text| text.len()).sum();
        Arc::new(Self {
            name: Arc::clone(name),
            tool: Arc::clone(tool),
            effect: offer.effect(tool),
            weight: Weight { bytes, ..weight },
            schema: validators::key(&parameters),
            validators: Arc::clone(validators),
            spec: Arc::new(ToolSpec { name: name.to_string(), description, parameters }),
            pin: Pin::of(tool),
            usual: offer.usual(tool),
            audience: offer.audience(tool),
            about: offer.about.clone(),
            origin: Arc::clone(&offer.origin),
        })
    }

    /// True if a call may change something, so that a turn which made it is not repeated after an interruption.
    #[must_use]
    pub fn acts(&self) -> bool {
        match self.effect {
            Effect::Reads => false,
            Effect::Idempotent => self.tool.utility.is_none(),
            Effect::Changes => true,
        }
    }

    /// Checks the arguments of a call against the schema shown to models, as far as that takes bounded time: see
    /// [`validators`].
    ///
    /// # Errors
    /// The problem for the model to fix, with its location.
    pub fn check(&self, arguments: &Value) -> Result<(), String> {
        if !arguments.is_object() {
            return Err("the arguments must be one JSON object".to_owned());
        }
        let compiled = self.validators.get(self.schema, &self.spec.parameters);
        let Some(validator) = compiled.as_ref().and_then(|compiled| compiled.validator(arguments)) else {
            return Ok(());
        };
        validator.validate(arguments).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the arguments".to_owned() } else { place };
            let text: String = error.to_string().chars().take(300).collect();
            format!("{place}: {text}")
        })
    }
}

#[cfg(test)]
mod tests;
