//! The sections of prompts and what was changed of them at run time. What is stored stands over the files, in every process on the
//! same store and from the next turn on.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::running::{Live, Running};
use crate::domain::keys;
use crate::domain::prompt::Prompts;
use crate::domain::prompt::sections::{Change, Edits, Section, Versions, includes};
use crate::domain::tool::OnBehalf;
use crate::ports::{Clock, PromptSections, Store, Write};

/// Reads and changes sections.
pub struct SectionKeeper {
    /// What this process runs with.
    pub live: Live,
    /// Where changes are kept.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// One change at a time.
    pub changing: Mutex<()>,
}

/// The prompts of a turn that begins now.
pub(super) async fn in_force(running: &Running, store: &dyn Store) -> Prompts {
    let prompts = &running.prompts;
    if prompts.sections.is_empty() {
        return prompts.clone();
    }
    prompts.edited(&edits(store).await)
}

async fn edits(store: &dyn Store) -> Edits {
    let stored = store.get(keys::PROMPT_EDITS).await;
    stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

impl SectionKeeper {
    async fn versions(&self, name: &str) -> Versions {
        let stored = self.store.get(&keys::prompt_versions(name)).await;
        stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Whether a change may come from there. The rules of tools have let it through; where no role of operators can approve it, only
    /// accounts of operators may ask.
    fn may_change(&self, asked: &OnBehalf) -> bool {
        let running = self.live.now();
        let Some(rules) = running.rules(&asked.place.door) else { return false };
        let operators = rules.operators();
        !running.knows_ids(&asked.place.door)
            || !operators.super_roles.is_empty()
            || operators.accounts.contains(&asked.person.id)
    }
}

#[async_trait]
impl PromptSections for SectionKeeper {
    async fn sections(&self) -> Vec<Section> {
        let running = self.live.now();
        let mut all = Vec::with_capacity(running.prompts.sections.len());
        for (name, file) in running.prompts.sections.iter() {
            let versions = self.versions(name).await;
            let text = versions.text(file).to_owned();
            all.push(Section { name: name.clone(), text, container: includes(file), versions });
        }
        all
    }

    async fn change(&self, asked: &OnBehalf, name: &str, change: &Change) -> Result<u32, String> {
        if !self.may_change(asked) {
            return Err("only operators may change the system prompt".to_owned());
        }
        let running = self.live.now();
        let Some(file) = running.prompts.sections.get(name) else {
            return Err(format!("there is no section {name:?}; read_system_prompt lists all of them"));
        };
        if includes(file) {
            return Err(format!("{name} includes other sections; change one of those"));
        }
        let _one_at_a_time = self.changing.lock().await;
        let (mut versions, mut edits) = (self.versions(name).await, edits(&*self.store).await);
        let number = versions.change(file, change, asked.person.clone(), self.clock.now())?;
        match versions.0.last().and_then(|version| version.text.as_deref()) {
            Some(text) => drop(edits.0.insert(name.to_owned(), text.into())),
            None => drop(edits.0.remove(name)),
        }
        // Plain data with text keys always serialises.
        let put = |key: String, value: String| Write::Put { key, value, ttl: None };
        let writes = vec![
            put(keys::prompt_versions(name), serde_json::to_string(&versions).unwrap_or_default()),
            put(keys::PROMPT_EDITS.to_owned(), serde_json::to_string(&edits).unwrap_or_default()),
        ];
        self.store.write(writes).await;
        tracing::info!(
            event = "prompt.changed", section = name, number, change = change.as_str(), by = %asked.person,
            "a section of the system prompt was changed"
        );
        Ok(number)
    }
}
