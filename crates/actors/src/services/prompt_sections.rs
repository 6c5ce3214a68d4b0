//! The sections of prompts and their changes at run time. Stored changes take precedence over the files, in every
//! process on the same store, from the next turn on.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use crate::services::running::{Live, Running};
use domain::keys;
use domain::prompt::sections::{Edits, Section, SectionChange, Versions, includes};
use domain::prompt::{self, Prompts, Scene};
use domain::tool::OnBehalf;
use domain::turn::ReplyContract;
use ports::{Clock, PromptSections, Store, StoreStatus, Stored, Unreadable, Write};
use telemetry::events::{PROMPT_CHANGED, PROMPT_STALE};

/// Reads and changes sections.
pub struct SectionKeeper {
    /// The running configuration.
    pub live: Live,
    /// The store of the changes.
    pub store: Arc<dyn Store>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Serializes changes.
    pub changing: Mutex<()>,
}

/// Returns the prompts of a turn that starts now.
pub(crate) async fn in_force(running: &Running, live: &Live, store: &dyn Store) -> Prompts {
    let prompts = &running.prompts;
    if prompts.sections.is_empty() {
        return prompts.clone();
    }
    let edits = edits(live, store).await;
    prompts.edited(&edits)
}

/// The changes that were read last.
#[derive(Debug, Default)]
pub(crate) struct LastEdits {
    edits: Arc<Edits>,
    /// True if a later read failed.
    stale: bool,
}

/// Returns the stored changes. While they cannot be read, those that were read last stay in force.
async fn edits(live: &Live, store: &dyn Store) -> Arc<Edits> {
    let read = match store.read(keys::PROMPT_EDITS).await {
        Stored::Value(text) | Stored::Part(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        Stored::Absent => Ok(Edits::default()),
        Stored::Unreadable(why) => Err(why.to_string()),
    };
    let mut last = live.last_edits().lock();
    match read {
        Ok(edits) => *last = LastEdits { edits: Arc::new(edits), stale: false },
        Err(reason) if !std::mem::replace(&mut last.stale, true) => {
            tracing::warn!(
                event = PROMPT_STALE,
                reason,
                "the stored changes of the system prompt cannot be read; the last known ones stay in force"
            );
        }
        Err(_) => {}
    }
    Arc::clone(&last.edits)
}

/// The error if the stored state cannot be determined; nothing is read or changed then.
const AWAY: &str = "the store does not answer now; nothing was changed";
/// The error if sections are changed only in their files.
const FIXED: &str =
    "prompts.editable is off, so sections are changed in their files alone; an operator can switch it on";
/// The error if a caller who is not an operator reads or changes a restricted section.
const NOT_THEIRS: &str = "the system prompt is for operators alone";

impl SectionKeeper {
    /// Returns the versions of a section. A failed read does not count as no versions.
    async fn versions(&self, name: &str) -> Result<Versions, String> {
        match self.store.read(&keys::prompt_versions(name)).await {
            Stored::Absent => Ok(Versions::default()),
            Stored::Value(text) | Stored::Part(text) => {
                serde_json::from_str(&text).map_err(|_| format!("the versions of {name} cannot be read"))
            }
            Stored::Unreadable(Unreadable::NoAnswer) => Err(AWAY.to_owned()),
            Stored::Unreadable(Unreadable::NotText) => Err(format!("the versions of {name} cannot be read")),
        }
    }

    async fn all(&self) -> Result<Vec<Section>, String> {
        if self.store.status() != StoreStatus::Ready {
            return Err(AWAY.to_owned());
        }
        let running = self.live.now();
        let mut all = Vec::with_capacity(running.prompts.sections.len());
        for (name, file) in running.prompts.sections.iter() {
            let versions = self.versions(name).await?;
            let text = versions.text(file).to_owned();
            all.push(Section { name: name.clone(), text, container: includes(file), versions });
        }
        Ok(all)
    }
}

#[async_trait]
impl PromptSections for SectionKeeper {
    async fn sections(&self, asked: &OnBehalf) -> Result<Vec<Section>, String> {
        if asked.operator { self.all().await } else { Err(NOT_THEIRS.to_owned()) }
    }

    async fn assembled(&self, asked: &OnBehalf, name: &str) -> Result<String, String> {
        if !asked.operator {
            return Err(NOT_THEIRS.to_owned());
        }
        let running = self.live.now();
        let prompts = in_force(&running, &self.live, &*self.store).await;
        let scene = Scene {
            place: &asked.place,
            parent: asked.parent.as_ref(),
            guild: asked.guild.as_deref(),
            person: &asked.person.id,
            name,
            now: self.clock.now(),
            profile: None,
        };
        let contract = running.rules(&asked.place.door).map_or(ReplyContract::Typed, |rules| rules.policy.reply);
        Ok(prompt::system(&prompts, contract, &scene))
    }

    async fn change(&self, asked: &OnBehalf, name: &str, change: &SectionChange) -> Result<u32, String> {
        if !asked.operator {
            return Err(NOT_THEIRS.to_owned());
        }
        let running = self.live.now();
        if !running.settings.prompts.editable {
            return Err(FIXED.to_owned());
        }
        let Some(file) = running.prompts.sections.get(name) else {
            return Err(format!("there is no section {name:?}; read_system_prompt lists all of them"));
        };
        if includes(file) {
            return Err(format!("{name} includes other sections; change one of those"));
        }
        let _one_at_a_time = self.changing.lock().await;
        let mut all = self.all().await?;
        let Some(section) = all.iter_mut().find(|section| section.name == name) else { return Err(AWAY.to_owned()) };
        let number = section.versions.change(file, change, asked.person.clone(), self.clock.now())?;
        let versions = section.versions.clone();
        // The sections in force are derived from all versions, so the record heals by itself.
        let text = |section: &Section| Some((section.name.clone(), section.versions.0.last()?.text.as_deref()?.into()));
        let edits = Edits(all.iter().filter_map(text).collect());
        running.prompts.edited(&edits).check()?;
        // Plain data with text keys always serializes.
        let put = |key: String, value: String| Write::Put { key, value, ttl: None };
        let writes = vec![
            put(keys::prompt_versions(name), serde_json::to_string(&versions).unwrap_or_default()),
            put(keys::PROMPT_EDITS.to_owned(), serde_json::to_string(&edits).unwrap_or_default()),
        ];
        if !self.store.write(writes).await {
            return Err(
                "the store holds the change in memory and may lose it; look at the section again later".to_owned()
            );
        }
        if self.versions(name).await? != versions {
            return Err("another process changed the section at the same moment; read it and try again".to_owned());
        }
        tracing::info!(
            event = PROMPT_CHANGED, section = name, number, change = change.as_str(), by = %asked.person,
            "a section of the system prompt was changed"
        );
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::testing::log::Log;
    use crate::testing::usual;
    use ports::testing::MemoryStore;

    #[tokio::test]
    async fn changes_of_prompts_stay_in_force_while_they_cannot_be_read() {
        let (log, live, store) = (Log::capture(), usual(), MemoryStore::new());
        assert_eq!(*edits(&live, &store).await, Edits::default());
        let changed = r#"{"rules": "Be brief."}"#;
        store.put(keys::PROMPT_EDITS.to_owned(), changed);
        let changed: Edits = serde_json::from_str(changed).unwrap();
        assert_eq!(*edits(&live, &store).await, changed);
        store.degraded.store(true, Ordering::SeqCst);
        for _ in 0..2 {
            assert_eq!(*edits(&live, &store).await, changed);
        }
        store.degraded.store(false, Ordering::SeqCst);
        store.put(keys::PROMPT_EDITS.to_owned(), "{");
        assert_eq!(*edits(&live, &store).await, changed);
        assert_eq!(log.column("prompt.stale", "reason").len(), 1, "it is logged once");
        store.entries.lock().clear();
        assert_eq!(*edits(&live, &store).await, Edits::default(), "changes that are gone are not in force");
    }
}
