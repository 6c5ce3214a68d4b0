//! The operator's console of sessions: reads and changes the running program.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::runtime::Handle;

use crate::app::rows::{self, ChangedRows};
use actors::services::running::Live;
use domain::model::ToolMode;
use ports::{Console, RowChange, Store};
use settings::Settings;

/// Reads what runs, and changes stored data.
pub(crate) struct LiveConsole {
    /// The running configuration and its parts.
    pub live: Live,
    /// The store in which processes share the changes made at run time.
    pub store: Arc<dyn Store>,
}

/// The field of a row that selects how tools are offered to its model.
const TOOLS: &str = "tools";

/// Enables tools for a row: in the mode of its file, or natively if its file disables tools.
fn offered(settings: &Settings, changed: &mut ChangedRows, row: &str) -> Result<(), String> {
    changed.unset(row, TOOLS);
    let drafts = rows::drafts(settings, changed)?;
    if drafts.iter().any(|draft| draft.row.key == row && draft.row.tools == ToolMode::Off) {
        changed.set(row, TOOLS, ToolMode::Native.as_str().into());
    }
    Ok(())
}

#[async_trait]
impl Console for LiveConsole {
    fn profiles(&self) -> Vec<String> {
        self.live.now().prompts.profiles.keys().cloned().collect()
    }

    async fn change_row(&self, row: &str, change: RowChange) -> Result<(), String> {
        let (settings, row) = (self.live.now().settings.clone(), row.to_owned());
        // One process alone uses the embedded store, and it reads the file.
        let store = settings.chosen_store().is_shared().then(|| Arc::clone(&self.store));
        // Writing files may block.
        let written = tokio::task::spawn_blocking(move || {
            let set = |changed: &mut ChangedRows| {
                let known = rows::drafts(&settings, changed)?;
                if !known.iter().any(|draft| draft.row.key == row) {
                    return Err(format!(
                        "{row} is made from LITELLM_MODEL alone; staffai model add {row} describes it first"
                    ));
                }
                match change {
                    RowChange::Tools(true) => offered(&settings, changed, &row)?,
                    RowChange::Tools(false) => changed.set(&row, TOOLS, "off".into()),
                    RowChange::Timeout(timeout) => changed.set(&row, "llm_call_timeout", timeout.as_secs().into()),
                }
                Ok(())
            };
            Handle::current().block_on(rows::change(&settings, store.as_ref(), set, |_| Ok(())))
        });
        written.await.unwrap_or_else(|_| Err("the change was not written down; try again".to_owned()))
    }
}
