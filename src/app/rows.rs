//! Changes of model rows made at run time: a file in the data directory that overrides the file of model rows.
//! Processes on one Redis share the changes: the store holds them too, and each process copies them to its own file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::configured::Lookup;
use crate::app::files;
use domain::keys::MODEL_ROWS;
use llm::registry::file::Draft;
use llm::registry::{self, Changes, DefaultRow, Registry};
use ports::{Replaced, Store, replace};
use settings::Settings;
use telemetry::events::CONFIG_WARNING;

/// The file of changes in the data directory.
pub(crate) const FILE: &str = "model_rows.json";
/// Locked while the file is changed.
const LOCK: &str = "model_rows.lock";
/// The maximum number of changed rows.
const ROWS_MAX: usize = 200;
/// The maximum size of all changes, in bytes.
const BYTES_MAX: usize = 256 * 1024;

/// The changed fields of rows, by the keys of the rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedRows {
    version: u32,
    /// The changed fields of each row, or all fields of a row that the file of model rows does not have.
    pub rows: Map<String, Value>,
}

/// Returns the path of the file for these settings.
pub(crate) fn file(settings: &Settings) -> PathBuf {
    settings.store.dir.join(FILE)
}

/// Reads the changes; none if the file does not exist.
///
/// # Errors
/// A sentence that names the file and the problem.
pub(crate) fn read(settings: &Settings) -> Result<ChangedRows, String> {
    let path = file(settings);
    files::read(&path)?.map_or_else(|| Ok(ChangedRows::default()), |text| parse(&text, &path))
}

fn parse(text: &str, path: &Path) -> Result<ChangedRows, String> {
    let shown = path.display();
    let changed: ChangedRows = serde_json::from_str(text).map_err(|error| {
        format!("{shown}: {error}; mend the file, or move it away and change rows with staffai model")
    })?;
    if changed.version != 1 {
        return Err(format!("{shown}: is of version {}, and this program reads version 1", changed.version));
    }
    if changed.rows.len() > ROWS_MAX {
        return Err(format!("{shown}: has more than the {ROWS_MAX} rows that are read"));
    }
    if let Some((key, _)) = changed.rows.iter().find(|(_, row)| !row.is_object()) {
        return Err(format!("{shown}: row {key}: must be an object; mend it or remove it"));
    }
    Ok(changed)
}

impl ChangedRows {
    /// Returns the changes in the form that the reader of rows takes.
    pub fn over<'a>(&'a self, path: &'a str) -> Changes<'a> {
        Changes { path, rows: &self.rows }
    }

    /// Reverts the change of one field of a row.
    pub fn unset(&mut self, row: &str, field: &str) {
        if let Some(Value::Object(fields)) = self.rows.get_mut(row) {
            fields.remove(field);
            if fields.is_empty() {
                self.rows.remove(row);
            }
        }
    }

    /// Changes one field of a row.
    pub fn set(&mut self, row: &str, field: &str, value: Value) {
        let fields = self.rows.entry(row).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = fields {
            fields.insert(field.to_owned(), value);
        }
    }
}

/// Changes the rows: in the file and, if processes share a store, in the store. While another program changes the file,
/// the change is refused. If another machine changes the store first, `change` is called again with its result. `check`
/// receives the new rows and may refuse them.
///
/// # Errors
/// A sentence that says why nothing changed.
pub(crate) async fn change(
    settings: &Settings,
    store: Option<&Arc<dyn Store>>,
    mut change: impl FnMut(&mut ChangedRows) -> Result<(), String> + Send,
    check: impl Fn(&ChangedRows) -> Result<(), String> + Send + Sync,
) -> Result<(), String> {
    let path = file(settings);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let lock = files::lock_file(&settings.store.dir, LOCK).map_err(failed)?;
    // The holder may wait for the shared store, so a second change is refused instead of blocking its thread.
    lock.try_lock().map_err(|_| "the rows are being changed by another program; try again".to_owned())?;
    let mut changed = |stored: Option<&str>| {
        let mut changed = match stored {
            Some(text) => parse(text, Path::new(MODEL_ROWS))?,
            None => read(settings)?,
        };
        changed.version = 1;
        change(&mut changed)?;
        if changed.rows.len() > ROWS_MAX {
            return Err(format!("{ROWS_MAX} rows are changed already; remove one first"));
        }
        check(&changed)?;
        let text = serde_json::to_string_pretty(&changed).map_err(|error| error.to_string())?;
        if text.len() > BYTES_MAX {
            return Err(format!("the changed rows take more than {BYTES_MAX} bytes; remove some first"));
        }
        Ok(text)
    };
    let text = match store {
        Some(store) => shared(&**store, changed).await?,
        None => changed(None)?,
    };
    files::replace(&path, &format!("{text}\n")).map_err(failed)
}

/// Changes the rows in the shared store. Returns its new content.
async fn shared(
    store: &dyn Store,
    mut changed: impl FnMut(Option<&str>) -> Result<String, String> + Send,
) -> Result<String, String> {
    let mut last = Ok(String::new());
    let end = replace(store, MODEL_ROWS, |stored| {
        last = changed(stored);
        last.clone().ok()
    });
    match end.await {
        Replaced::Done => last,
        Replaced::Other => Err("the rows are being changed by another machine; try again".to_owned()),
        Replaced::Away => Err("the store that processes share cannot be reached; try again when it is back".to_owned()),
    }
}

/// Writes the content of the shared store to the file if it differs. True if it was written.
pub(crate) fn mirror(path: &Path, shared: &str) -> bool {
    let whole = format!("{shared}\n");
    if files::read(path).is_ok_and(|text| text.as_deref() == Some(&whole)) {
        return false;
    }
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| files::replace(path, &whole));
    if let Err(error) = &written {
        let path = path.display();
        tracing::warn!(event = CONFIG_WARNING, key = "model rows", %error, "{path} cannot be written; rows that were changed elsewhere are not in force here");
    }
    written.is_ok()
}

/// Returns the configured model rows and the text of their file.
///
/// # Errors
/// Each mistake in them.
pub(crate) fn configured(settings: &Settings, lookup: &Lookup) -> Result<(Registry, String), Vec<String>> {
    configured_with(settings, &read(settings).map_err(|mistake| vec![mistake])?, lookup)
}

/// Returns every row of the file of rows, with these changes applied.
///
/// # Errors
/// Each mistake in them, one per line.
pub(crate) fn drafts(settings: &Settings, changed: &ChangedRows) -> Result<Vec<Draft>, String> {
    let text = files::read(&settings.llm.models)?;
    let (path, over) = (settings.llm.models.display().to_string(), file(settings).display().to_string());
    let file = text.as_deref().map(|text| registry::File { path: &path, text });
    let drafts = registry::drafts(file, Some(changed.over(&over)), settings.llm.timeout);
    drafts.map_err(|mistakes| mistakes.join("\n"))
}

/// Returns the configured model rows with these changes, and the text of both.
///
/// # Errors
/// Each mistake in them.
pub(crate) fn configured_with(
    settings: &Settings,
    changed: &ChangedRows,
    lookup: &Lookup,
) -> Result<(Registry, String), Vec<String>> {
    let llm = &settings.llm;
    let text = files::read(&llm.models).map_err(|mistake| vec![mistake])?;
    let (path, over) = (llm.models.display().to_string(), file(settings).display().to_string());
    let file = text.as_deref().map(|text| registry::File { path: &path, text });
    let default = DefaultRow {
        model: llm.model.clone().unwrap_or_default(),
        base_url: llm.base_url(),
        key: llm.key.clone(),
        timeout: llm.timeout,
    };
    let mut changed = changed.clone();
    changed.rows.extend(llm.brought.clone());
    let rows = registry::build_with(file, Some(changed.over(&over)), &default, lookup.as_ref())?;
    let changes = if changed.rows.is_empty() { String::new() } else { format!("{:?}", changed.rows) };
    Ok((rows, text.unwrap_or_default() + &changes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;

    use super::*;
    use domain::ids::Person;
    use ports::testing::MemoryStore;
    use ports::{Row, Scanned, StoreStatus, Stored, Write};
    use settings::sources::Sources;

    #[test]
    fn a_file_that_is_wrong_names_the_place_and_the_fix() {
        let path = Path::new("data/model_rows.json");
        for (text, expected) in [
            ("{", "mend the file"),
            (r#"{"version": 2, "rows": {}}"#, "is of version 2"),
            (r#"{"version": 1, "rows": {"a": 7}}"#, "row a: must be an object"),
        ] {
            let mistake = parse(text, path).unwrap_err();
            assert!(mistake.contains(expected) && mistake.contains(FILE), "{mistake}");
        }
        let mut changed = parse(r#"{"version": 1, "rows": {"a": {"enabled": true}}}"#, path).unwrap();
        changed.set("a", "enabled", Value::Bool(false));
        changed.set("b", "llm_call_timeout", 5.into());
        assert_eq!(
            serde_json::to_string(&changed.rows).unwrap(),
            r#"{"a":{"enabled":false},"b":{"llm_call_timeout":5}}"#
        );
    }

    /// A store in which another machine changes the value first, once.
    struct Overtaken {
        inner: MemoryStore,
        other: Mutex<Option<String>>,
    }

    impl Store for Overtaken {
        fn read<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Stored> {
            let read = self.inner.read(key);
            Box::pin(async move {
                let value = read.await;
                if let Some(other) = self.other.lock().take() {
                    self.inner.put(key.to_owned(), other);
                }
                value
            })
        }

        fn scan_many<'a>(
            &'a self,
            prefixes: &'a [&'a str],
            limit: usize,
            person: Option<&'a Person>,
        ) -> BoxFuture<'a, Scanned<Vec<Vec<Row>>>> {
            self.inner.scan_many(prefixes, limit, person)
        }

        fn write(&self, writes: Vec<Write>) -> BoxFuture<'static, bool> {
            self.inner.write(writes)
        }

        fn replace<'a>(&'a self, key: &'a str, seen: Option<&'a str>, value: &'a str) -> BoxFuture<'a, Replaced> {
            self.inner.replace(key, seen, value)
        }

        fn status(&self) -> StoreStatus {
            self.inner.status()
        }

        fn close(&self, within: Duration) -> BoxFuture<'_, bool> {
            self.inner.close(within)
        }
    }

    #[tokio::test]
    async fn a_machine_that_was_faster_loses_nothing() {
        let other = r#"{"version": 1, "rows": {"theirs": {"enabled": true}}}"#;
        let store = Overtaken { inner: MemoryStore::new(), other: Mutex::new(Some(other.to_owned())) };
        let dir = tempfile::tempdir().unwrap();
        let environment = [("LITELLM_MODEL".to_owned(), "m".to_owned())].into();
        let mut settings = settings::load(&Sources::from_maps(environment, BTreeMap::new())).unwrap().settings;
        settings.store.dir = dir.path().to_owned();
        let store: Arc<dyn Store> = Arc::new(store);
        let ours = |changed: &mut ChangedRows| {
            changed.set("ours", "enabled", Value::Bool(true));
            Ok(())
        };
        change(&settings, Some(&store), ours, |_| Ok(())).await.unwrap();
        let rows = parse(&store.get(MODEL_ROWS).await.unwrap(), Path::new(FILE)).unwrap().rows;
        assert_eq!(rows.keys().map(String::as_str).collect::<Vec<_>>(), ["ours", "theirs"]);
        assert_eq!(read(&settings).unwrap().rows, rows, "and it is written down here");
        let refused = change(&settings, Some(&store), |_| Err("no".to_owned()), |_| Ok(())).await;
        assert_eq!(refused, Err("no".to_owned()));
    }

    #[test]
    fn what_a_shared_store_says_is_written_down_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data").join(FILE);
        assert!(mirror(&path, "{}") && !mirror(&path, "{}") && mirror(&path, "{ }"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{ }\n");
    }
}
