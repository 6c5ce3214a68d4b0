//! All tools of all sources under the names that models call them by. Made anew when a source changes, never for a message.

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

/// The most tools of one catalogue; what comes after them is refused.
pub const TOOLS_MAX: usize = 20_000;
/// The longest description that a model is told, in Unicode scalar values.
pub const DESCRIPTION_CHARS: usize = 1_024;

/// What one source offers, and how far it is trusted. Without more it is trusted in nothing.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Its tools, in its own order.
    pub tools: Vec<Arc<Tool>>,
    /// Names of tools at the source that are taken over; empty takes all.
    pub allowed: Vec<String>,
    /// What the operator says of side effects of all its tools; none leaves it to the annotations of a trusted source.
    pub side_effects: Option<bool>,
    /// Its annotations may lower effects.
    pub trusted: bool,
    /// A person is asked before each call.
    pub asks: bool,
    /// What the operator says the source is for.
    pub about: Option<Arc<str>>,
    /// Names of tools at the source that only operators of the bot may call.
    pub operators: Vec<Arc<str>>,
    /// Names where the source is reached: another program or address has another one. Empty for what this program offers itself.
    pub origin: Arc<str>,
    /// The source is a process that announced itself: all of these share one bound.
    pub announced: bool,
}

/// One tool of the catalogue.
#[derive(Debug)]
pub struct Entry {
    /// The name in calls.
    pub name: Arc<str>,
    /// The tool.
    pub tool: Arc<Tool>,
    /// What a call may do.
    pub effect: Effect,
    /// What models are told of it, with the JSON schema of its arguments as they take it.
    pub spec: Arc<ToolSpec>,
    /// Names its description and schema as they are now.
    pub pin: Pin,
    /// What holds when no rule says otherwise.
    pub usual: Verdict,
    /// Who may call it at all.
    pub audience: Audience,
    /// What the operator says its source is for.
    pub about: Option<Arc<str>>,
    /// Names where its source is reached.
    pub origin: Arc<str>,
    /// What it takes of the room of its source and of the catalogue.
    weight: Weight,
    /// Names the compiled schema that checks arguments.
    schema: SchemaKey,
    validators: Arc<Validators>,
}

/// The SHA-256 of what a tool says of itself, in hexadecimal digits: a changed tool has another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Pin(pub String);

impl Pin {
    /// The pin of a tool.
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

/// A tool that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Where it runs.
    pub source: Source,
    /// Its own name there.
    pub tool: String,
    /// Why.
    pub reason: Reason,
}

/// Why a tool is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Another tool has the same name in calls.
    Taken(Arc<str>),
    /// A tool of another source has a name that people cannot tell from this one.
    LooksLike(Arc<str>),
    /// There are [`TOOLS_MAX`] tools already.
    TooMany,
    /// The tools of its source take more than [`OF_SOURCE`], or [`OF_PROVIDER`] where that announced itself.
    SourceTooLarge,
    /// The tools of all processes that announced themselves take more than [`OF_PROVIDERS`].
    ProvidersTooLarge,
    /// All tools take more than [`OF_CATALOGUE`].
    NoRoom,
}

impl Reason {
    /// True if the tool had no room, for which only a bound of sizes is the reason.
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

/// All tools, in the order of their names.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: Vec<Arc<Entry>>,
    by_name: HashMap<Arc<str>, usize>,
    refused: Vec<Refused>,
    validators: Arc<Validators>,
}

impl Catalogue {
    /// The catalogue of these offers; of two tools with one name, the one that was offered first stays. Schemas are converted
    /// by `convert`, which says what models can be told of them. What is as it was in `before` is taken over from there.
    #[must_use]
    pub fn new(offers: &[Offer], before: &Self, convert: impl Fn(&Tool) -> Value) -> Self {
        let mut names: BTreeMap<Arc<str>, Arc<Entry>> = BTreeMap::new();
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
                    let made = || Entry::new(&name, (tool, offer), &validators, &convert);
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
                refused.push(Refused { source: tool.source.clone(), tool: tool.name.to_string(), reason });
            }
        }
        let by_name = names.keys().enumerate().map(|(index, name)| (Arc::clone(name), index)).collect();
        Self { entries: names.into_values().collect(), by_name, refused, validators }
    }

    /// These tools of another catalogue.
    #[must_use]
    pub fn of(entries: impl Iterator<Item = Arc<Entry>>) -> Self {
        let names: BTreeMap<Arc<str>, Arc<Entry>> = entries.map(|entry| (Arc::clone(&entry.name), entry)).collect();
        let by_name = names.keys().enumerate().map(|(index, name)| (Arc::clone(name), index)).collect();
        Self { entries: names.into_values().collect(), by_name, ..Self::default() }
    }

    /// All tools, by name.
    #[must_use]
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The tool of this name in calls.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name).map(|index| &self.entries[*index])
    }

    /// The place of a tool in [`Catalogue::entries`].
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// What is not offered, and why.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The schemas that were compiled to check arguments.
    #[must_use]
    pub fn validators(&self) -> &Validators {
        &self.validators
    }

    /// The entry of this name if nothing about it changed.
    fn same(&self, name: &str, tool: &Arc<Tool>, offer: &Offer) -> Option<Arc<Entry>> {
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
    /// What this program offers itself.
    #[must_use]
    pub fn built_in(tools: Vec<Tool>) -> Self {
        let tools = tools.into_iter().map(Arc::new).collect();
        Self { tools, trusted: true, ..Self::default() }
    }

    fn takes(&self, tool: &Tool) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|name| **name == *tool.name)
    }

    fn effect(&self, tool: &Tool) -> Effect {
        Effect::of(tool.annotations, self.side_effects, self.trusted)
    }

    fn audience(&self, tool: &Tool) -> Audience {
        if self.operators.contains(&tool.name) { Audience::Operators } else { Audience::Everyone }
    }

    fn usual(&self, tool: &Tool) -> Verdict {
        if self.asks { Verdict::Ask } else { rights::usual(tool) }
    }
}

impl PartialEq for Entry {
    /// The same tool as it is now, under the same name.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.tool.source, &self.origin, &self.pin, self.effect, self.usual)
            == (&other.name, &other.tool.source, &other.origin, &other.pin, other.effect, other.usual)
    }
}

impl Entry {
    fn new(
        name: &Arc<str>,
        (tool, offer): (&Arc<Tool>, &Offer),
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

    /// Checks the arguments of a call against the schema that models are told.
    ///
    /// # Errors
    /// What the model has to mend, with its place.
    pub fn check(&self, arguments: &Value) -> Result<(), String> {
        if !arguments.is_object() {
            return Err("the arguments must be one JSON object".to_owned());
        }
        let Some(validator) = self.validators.get(self.schema, &self.spec.parameters) else { return Ok(()) };
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
