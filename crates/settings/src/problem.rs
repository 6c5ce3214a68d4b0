//! The origins of values, and their problems.

use std::fmt;
use std::path::PathBuf;

/// The layers, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// `config/default.toml`, compiled in.
    Default,
    /// `staffai.toml` or a file given with `--config`.
    File,
    /// The `.env` file.
    DotEnv,
    /// The process environment.
    Environment,
    /// `/run/secrets/<name>` or the file named by `<NAME>_FILE`.
    SecretFile,
    /// A command line option.
    CommandLine,
}

/// The origin of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// The name of the variable, if any.
    pub variable: Option<String>,
    /// The file, if any.
    pub file: Option<PathBuf>,
    /// The line in the file, from 1.
    pub line: Option<usize>,
}

impl Origin {
    /// Creates an origin with only a layer.
    #[must_use]
    pub fn new(layer: Layer) -> Self {
        Self { layer, variable: None, file: None, line: None }
    }

    /// Sets the variable.
    #[must_use]
    pub fn variable(self, name: impl Into<String>) -> Self {
        Self { variable: Some(name.into()), ..self }
    }

    /// Sets the file, and the line if known.
    #[must_use]
    pub fn file(self, file: impl Into<PathBuf>, line: Option<usize>) -> Self {
        Self { file: Some(file.into()), line, ..self }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some(variable) = &self.variable {
            f.write_str(variable)?;
        }
        match (&self.file, self.layer) {
            (Some(file), _) => {
                let space = if self.variable.is_some() { " in " } else { "" };
                write!(f, "{space}{}", file.display())?;
                self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            (None, Layer::Default) => f.write_str("default"),
            (None, Layer::CommandLine) => f.write_str("command line"),
            (None, Layer::Environment) => f.write_str(" in the environment"),
            (None, Layer::File | Layer::DotEnv | Layer::SecretFile) => Ok(()),
        }
    }
}

/// One problem of the configuration, displayed as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, `section.key`, or the name of an invalid file.
    pub key: String,
    /// The value, unless it is secret or missing.
    pub value: Option<String>,
    /// The place where it was found or can be set.
    pub place: String,
    /// The mistake and the remedy.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value:?}")?;
        }
        if self.place != self.key {
            write!(f, " ({})", self.place)?;
        }
        write!(f, ": {}", self.fix)
    }
}

impl std::error::Error for Problem {}

/// Returns a value for display: one bounded line, without the credentials in an address.
#[must_use]
pub fn shown(value: &str) -> String {
    let words: Vec<String> = value.split(',').map(without_login).collect();
    let line = words.join(",").replace('\n', "\\n");
    if line.chars().count() <= LONGEST_SHOWN {
        return line;
    }
    line.chars().take(LONGEST_SHOWN).chain("...".chars()).collect()
}

/// The most displayed characters of a value.
const LONGEST_SHOWN: usize = 160;

fn without_login(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://***@{}", &rest[at + 1..]),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_its_place() {
        let env = Origin::new(Layer::Environment).variable("A");
        let dotenv = Origin::new(Layer::DotEnv).variable("A").file(".env", Some(3));
        let file = Origin::new(Layer::File).file("staffai.toml", Some(7));
        let shown = [Origin::new(Layer::Default), env, dotenv, file].map(|origin| origin.to_string());
        assert_eq!(shown, ["default", "A in the environment", "A in .env:3", "staffai.toml:7"]);
    }

    #[test]
    fn logins_and_long_values_are_cut() {
        assert_eq!(shown("http://me:pw@host/a,https://x/b@c"), "http://***@host/a,https://x/b@c");
        assert_eq!(shown(&"x".repeat(500)).len(), LONGEST_SHOWN + 3);
    }
}
