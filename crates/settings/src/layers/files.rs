//! TOML files: syntax, unknown keys, and the line of each key.

use std::path::{Path, PathBuf};

use config::Value;
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::super::problem::{Layer, Origin, Problem};
use super::super::sources::CONFIG_FILE;
use super::{Gathering, is_missing};
use domain::near;

/// The number of mistakes after which no similar name is searched: a file of another program is wrong for another
/// reason.
const HINTS_MAX: usize = 50;

impl Gathering<'_> {
    /// Reads the files given with `--config`, or `staffai.toml` if it exists.
    pub fn config_files(&mut self) {
        let named = &self.sources.config_files;
        let usual = [PathBuf::from(CONFIG_FILE)];
        for path in if named.is_empty() { &usual } else { named.as_slice() } {
            match self.sources.files.read(path) {
                Ok(text) => self.config_file(path, &text),
                Err(error) if named.is_empty() && is_missing(&error) => {}
                Err(error) => self.problems.push(Problem {
                    key: path.display().to_string(),
                    value: None,
                    place: if named.is_empty() { "working directory" } else { "--config" }.into(),
                    fix: format!("cannot be read ({error}); name a readable TOML file"),
                }),
            }
        }
    }

    fn config_file(&mut self, path: &Path, text: &str) {
        let text = text.trim_start_matches('\u{feff}');
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
        let line_at = |offset: usize| ends.partition_point(|end| *end < offset) + 1;
        let at = |span: std::ops::Range<usize>| Origin::new(Layer::File).file(path, Some(line_at(span.start)));
        // Parsed twice: once with error recovery for all mistakes and the place of each key, once for the values.
        let (spanned, mut errors) = DeTable::parse_recoverable(text);
        let values = text.parse::<toml::Table>();
        if let (Err(error), true) = (&values, errors.is_empty()) {
            errors.push(error.clone());
        }
        for error in &errors {
            let origin = error.span().map_or_else(|| Origin::new(Layer::File).file(path, None), at);
            // Only the message: the long form of the error quotes the line, which may contain a secret.
            let said = error.message().replace('\n', ", ");
            let fix = format!(
                "is not valid TOML: {said}; write `key = value` lines below a [section], texts in quotes, each key once"
            );
            self.problem(&path.display().to_string(), &origin, fix);
        }
        let Ok(values) = values else { return };
        for (section, table) in spanned.get_ref() {
            let name = section.get_ref().as_ref();
            let origin = at(section.span());
            match table.get_ref() {
                _ if !self.is_section(name) => self.unknown(name, &origin),
                DeValue::Table(table) => {
                    for key in table.keys() {
                        let value = values.get(name).and_then(|section| section.get(key.get_ref().as_ref()));
                        self.toml_value(&format!("{name}.{}", key.get_ref()), value, at(key.span()));
                    }
                }
                _ => {
                    let fix = format!("is a section; write [{name}] and its keys below");
                    self.problem(name, &origin, fix);
                }
            }
        }
    }

    fn toml_value(&mut self, key: &str, value: Option<&toml::Value>, origin: Origin) {
        if !self.known.iter().any(|known| known == key) {
            return self.unknown(key, &origin);
        }
        match value.cloned().map(Value::deserialize) {
            Some(Ok(value)) => self.assign(key, value, origin),
            _ => self.problem(
                key,
                &origin,
                "has a type that no setting has; write a number, true or false, text in quotes, or a list",
            ),
        }
    }

    fn is_section(&self, name: &str) -> bool {
        self.sections().any(|section| section == name)
    }

    fn sections(&self) -> impl Iterator<Item = &str> {
        self.known.iter().filter_map(|key| key.split('.').next())
    }

    fn unknown(&mut self, key: &str, origin: &Origin) {
        let near = if self.problems.len() >= HINTS_MAX {
            None
        } else if key.contains('.') {
            near::nearest(key, self.known.iter().map(String::as_str))
        } else {
            near::nearest(key, self.sections())
        };
        let hint =
            near.map_or_else(|| "`staffai config` lists all keys".to_owned(), |near| format!("did you mean {near}?"));
        self.problem(key, origin, format!("the key does not exist; {hint}"));
    }
}
