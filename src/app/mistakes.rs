//! The single list of mistakes in the files and rows that settings name. `run`, a reload and `check` refuse them all.

use std::sync::Arc;

use crate::app::configured::Lookup;
use crate::app::{built_ins, doors, experiments, keys, rows, setting_files, triggers, voices};
use actors::services::running::Triggers;
use domain::api_key::KeyRing;
use domain::prompt::Prompts;
use domain::reply::Schema;
use llm::registry::Registry;
use settings::Settings;
use store::redis;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The part of the program with the mistake, as `check` names it.
    pub part: &'static str,
    /// A sentence with the place and the fix.
    pub text: String,
}

/// The parts that were read. A wrong part is absent, and its mistakes are in the list.
pub(crate) struct Parts {
    pub prompts: Option<Prompts>,
    pub schema: Option<Arc<Schema>>,
    /// The model rows and the text of their file.
    pub rows: Option<(Registry, String)>,
    /// The tool servers and the text of their file.
    pub servers: Option<(mcp::config::Configured, String)>,
    pub keys: Option<KeyRing>,
    pub triggers: Option<Triggers>,
    /// All mistakes.
    pub mistakes: Vec<Mistake>,
}

/// Reads everything that these settings name, and continues after each mistake.
pub(crate) fn examine(settings: &Settings, lookup: &Lookup) -> Parts {
    let mut list = List::default();
    let prompts = list.take("prompts", setting_files::prompts(settings));
    let schema = list.take("schema", one(setting_files::schema(settings)));
    // Without a model, the required rows are unknown; the missing model has a line of its own.
    let asked = settings.llm.model.is_some();
    let rows = if asked { list.take("model rows", rows::configured(settings, lookup)) } else { None };
    let servers = list.take("tool servers", one(setting_files::servers(settings, lookup)));
    let keys = list.take("keys", one(keys::ring(settings)));
    let triggers = list.take("triggers", triggers::read(settings, lookup));
    if let Some((registry, _)) = &rows {
        // A valid trigger may still name a missing row, even if other triggers are wrong.
        list.add("triggers", triggers::unknown_rows(settings, registry.rows(), registry.off()));
    }
    let known = (prompts.as_ref(), rows.as_ref().map(|(registry, _)| registry));
    list.add("experiments", experiments::unknown_arms(settings, known));
    for (part, mistakes) in built_ins::mistakes(settings, lookup) {
        list.add(part, mistakes);
    }
    list.add("voice channels", voices::channel_mistake(settings));
    list.add("tool rules", doors::unknown(settings));
    let address = settings.chosen_store().address().map(|address| redis::opener::Opener::new(&address).err());
    list.add("store", address.flatten().map(|mistake| format!("the address of redis {mistake}")));
    Parts { prompts, schema, rows, servers, keys, triggers, mistakes: list.0 }
}

/// Returns every mistake in the files and rows that these settings name, as sentences.
pub(crate) fn sentences(settings: &Settings, lookup: &Lookup) -> Vec<String> {
    examine(settings, lookup).mistakes.into_iter().map(|mistake| mistake.text).collect()
}

fn one<T>(read: Result<T, String>) -> Result<T, Vec<String>> {
    read.map_err(|mistake| vec![mistake])
}

#[derive(Default)]
struct List(Vec<Mistake>);

impl List {
    fn take<T>(&mut self, part: &'static str, read: Result<T, Vec<String>>) -> Option<T> {
        read.map_err(|mistakes| self.add(part, mistakes)).ok()
    }

    fn add(&mut self, part: &'static str, mistakes: impl IntoIterator<Item = String>) {
        self.0.extend(mistakes.into_iter().map(|text| Mistake { part, text }));
    }
}
