//! Parsers of the settings that members may change, and of their defaults.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserializer;
use serde::de::Error;

use super::read;
use domain::preferences::{Change, Invalid, Preferences, Setting};

/// Parses a list of names of settings.
pub fn open<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<Setting>, D::Error> {
    let named = |name: &String| Setting::named(name).ok_or_else(|| D::Error::custom(format!("must list {}", names())));
    read::texts(deserializer)?.iter().map(named).collect()
}

/// Parses a list of `ROLE SETTING`.
pub fn by_role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, BTreeSet<Setting>>, D::Error> {
    let mut all: BTreeMap<String, BTreeSet<Setting>> = BTreeMap::new();
    for text in read::texts(deserializer)? {
        let row = text.split_once(char::is_whitespace);
        let row = row.and_then(|(role, name)| Some((role.to_owned(), Setting::named(name.trim())?)));
        let wrong =
            || D::Error::custom(format!("must list the id of a role and a setting, which is one of {}", names()));
        let (role, setting) = row.ok_or_else(wrong)?;
        all.entry(role).or_default().insert(setting);
    }
    Ok(all)
}

/// Parses a list of `SETTING VALUE`.
pub fn defaults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Preferences, D::Error> {
    let mut values = Preferences::default();
    for text in read::texts(deserializer)? {
        set(&mut values, &text).map_err(D::Error::custom)?;
    }
    Ok(values)
}

/// Parses a list of `COMMUNITY SETTING VALUE`.
pub fn by_community<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Preferences>, D::Error> {
    let mut all: BTreeMap<String, Preferences> = BTreeMap::new();
    for text in read::texts(deserializer)? {
        let (community, text) = text
            .split_once(char::is_whitespace)
            .ok_or_else(|| D::Error::custom("must list the id of a community, a setting and its value"))?;
        set(all.entry(community.to_owned()).or_default(), text).map_err(D::Error::custom)?;
    }
    Ok(all)
}

fn set(values: &mut Preferences, text: &str) -> Result<(), String> {
    let result = Change::parse(text).and_then(|change| match change.value {
        Some(value) if !change.here => values.set(change.setting, &value),
        Some(_) | None => Err(Invalid::Value(change.setting)),
    });
    result.map_err(|invalid| match invalid {
        Invalid::Name => format!("must list settings and their values, without brackets and quotes in a variable, such as verbosity short,language de; the settings are {}", names()),
        Invalid::Value(setting) => format!("must give {} one of these values: {}", setting.name(), setting.values()),
    })
}

fn names() -> String {
    Setting::ALL.map(Setting::name).join(", ")
}
