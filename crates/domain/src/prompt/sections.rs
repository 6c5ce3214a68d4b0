//! The prompt tree: prompts composed of sections, each in its own file, and the changes that operators make at run
//! time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Prompts;
use crate::clean::clean;
use crate::ids::{Person, Timestamp};

/// The texts of sections by name.
pub type Sections = BTreeMap<String, Arc<str>>;

/// The maximum size of a section that was changed at run time, in bytes.
pub const SECTION_MAX: usize = 8 * 1024;
/// The maximum number of stored versions of a section; the oldest is dropped first.
pub const VERSIONS_MAX: usize = 20;
/// The longest prompt with all of its sections, in bytes.
pub const WHOLE_MAX: usize = 256 * 1024;
/// The start mark of an include directive.
const OPEN: &str = "{{include ";
/// The end mark of an include directive.
const CLOSE: &str = "}}";

/// Parses the include directives of a text: for each, the text before it and the name of the section; then the
/// remaining text.
fn places(mut text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut found = Vec::new();
    while let Some((before, behind)) = text.split_once(OPEN) {
        let Some((name, rest)) = behind.split_once(CLOSE) else { break };
        found.push((before, name.trim()));
        text = rest;
    }
    (found, text)
}

/// True if a text includes sections. Such a section cannot be changed at run time, but the sections that it includes
/// can.
#[must_use]
pub fn includes(text: &str) -> bool {
    !places(text).0.is_empty()
}

/// Returns the text with its sections inserted. The text must have passed [`check`].
#[must_use]
pub fn expand<'a>(text: &'a str, sections: &Sections) -> Cow<'a, str> {
    if sections.is_empty() || !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let (mut whole, mut seen) = (String::with_capacity(text.len() * 2), BTreeSet::new());
    put(text, sections, &mut seen, &mut whole);
    Cow::Owned(whole)
}

fn put<'a>(text: &'a str, sections: &'a Sections, seen: &mut BTreeSet<&'a str>, whole: &mut String) {
    let (found, rest) = places(text);
    for (before, name) in found {
        whole.push_str(before);
        // Each section occurs once in a prompt, so the recursion ends.
        if let Some(section) = sections.get(name).filter(|_| seen.insert(name)) {
            put(section.trim(), sections, seen, whole);
        }
    }
    whole.push_str(rest);
}

/// Checks that all sections of a text exist, that each occurs once and that none includes itself.
///
/// # Errors
/// Returns the mistake and its correction.
pub fn check(text: &str, sections: &Sections) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    walk(text, sections, &mut Vec::new(), &mut seen)?;
    let length = expand(text, sections).len();
    if length > WHOLE_MAX {
        return Err(format!("with its sections it has {length} bytes, more than the {WHOLE_MAX} that are read"));
    }
    Ok(())
}

fn walk<'a>(
    text: &'a str,
    sections: &'a Sections,
    above: &mut Vec<&'a str>,
    seen: &mut BTreeSet<&'a str>,
) -> Result<(), String> {
    for (_, name) in places(text).0 {
        if let Some(at) = above.iter().position(|other| *other == name) {
            let path = [&above[at..], &[name]].concat().join(" includes ");
            return Err(format!("sections/{name}.txt: {path}, which is a loop; take one of them out"));
        }
        let place = above.last().map_or(String::new(), |name| format!("sections/{name}.txt: "));
        let Some(section) = sections.get(name) else {
            return Err(format!(
                "{place}{OPEN}{name}{CLOSE}: there is no sections/{name}.txt; write it or take this out"
            ));
        };
        if !seen.insert(name) {
            return Err(format!("{place}{OPEN}{name}{CLOSE}: {name} is included twice; take one of them out"));
        }
        above.push(name);
        walk(section, sections, above, seen)?;
        above.pop();
    }
    Ok(())
}

impl Prompts {
    /// Checks that the sections of all prompts exist and occur once each, and that no prompt exceeds [`WHOLE_MAX`] with
    /// them.
    ///
    /// # Errors
    /// Returns the mistake and its correction.
    pub fn check(&self) -> Result<(), String> {
        let own = self.channels.values().chain(self.doors.values()).chain(self.profiles.values());
        let own = own.flat_map(|own| [&own.personality, &own.interjection]).flatten();
        [&self.personality, &self.interjection].into_iter().chain(own).try_for_each(|text| check(text, &self.sections))
    }

    /// Returns the prompts with the operators' changes of existing sections applied.
    #[must_use]
    pub fn edited(&self, edits: &Edits) -> Self {
        let mut sections = (*self.sections).clone();
        for (name, text) in &edits.0 {
            if let Some(section) = sections.get_mut(name).filter(|section| !includes(section)) {
                *section = Arc::clone(text);
            }
        }
        Self { sections: Arc::new(sections), ..self.clone() }
    }
}

/// The changed sections, which override their files, as the store has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Edits(pub Sections);

/// A change of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionChange {
    /// Appends these lines.
    Append(String),
    /// Prepends these lines.
    Prepend(String),
    /// Replaces the first occurrence of these exact words.
    Replace(String, String),
    /// Deletes all lines that contain these words.
    Delete(String),
    /// Replaces the whole text.
    Overwrite(String),
    /// Restores this version; 0 is the file.
    RollBack(u32),
}

impl SectionChange {
    /// Returns its word in the list of versions.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Append(_) => "append",
            Self::Prepend(_) => "prepend",
            Self::Replace(..) => "replace",
            Self::Delete(_) => "delete",
            Self::Overwrite(_) => "overwrite",
            Self::RollBack(_) => "roll_back",
        }
    }
}

/// One version of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The number; the file is 0.
    pub number: u32,
    /// The text; `None` for the text of the file.
    pub text: Option<String>,
    /// The kind of the change.
    pub change: String,
    /// The person who requested it.
    pub by: Person,
    /// The time of the change.
    pub at: Timestamp,
}

/// The stored versions of a section, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions(pub Vec<Version>);

impl Versions {
    /// Returns the number of the version in force.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.last().map_or(0, |version| version.number)
    }

    /// Returns the text of the section. `file` is the text of its file.
    #[must_use]
    pub fn text<'a>(&'a self, file: &'a str) -> &'a str {
        self.0.last().and_then(|version| version.text.as_deref()).unwrap_or(file)
    }

    /// Adds a version and returns its number.
    ///
    /// # Errors
    /// Returns the reason why nothing changed, in words for the person who requested it.
    pub fn change(&mut self, file: &str, change: &SectionChange, by: Person, at: Timestamp) -> Result<u32, String> {
        let text = match change {
            SectionChange::RollBack(0) => None,
            SectionChange::RollBack(number) => {
                let version = self.0.iter().find(|version| version.number == *number);
                version.ok_or_else(|| format!("there is no version {number} any more"))?.text.clone()
            }
            change => Some(changed(self.text(file), change)?),
        };
        let number = self.number() + 1;
        self.0.push(Version { number, text, change: change.as_str().to_owned(), by, at });
        let gone = self.0.len().saturating_sub(VERSIONS_MAX);
        self.0.drain(..gone);
        Ok(number)
    }
}

fn changed(text: &str, change: &SectionChange) -> Result<String, String> {
    let changed = match change {
        SectionChange::Append(more) => format!("{}\n{}", text.trim_end(), more.trim_end()),
        SectionChange::Prepend(more) => format!("{}\n{}", more.trim_end(), text.trim_start()),
        SectionChange::Replace(old, _) | SectionChange::Delete(old) if old.is_empty() => {
            return Err("say which words are meant".to_owned());
        }
        SectionChange::Replace(old, new) if text.contains(old.as_str()) => text.replacen(old.as_str(), new, 1),
        SectionChange::Delete(words) if text.contains(words.as_str()) => {
            text.lines().filter(|line| !line.contains(words.as_str())).collect::<Vec<_>>().join("\n")
        }
        SectionChange::Replace(..) | SectionChange::Delete(_) => {
            return Err("these exact words do not stand there".to_owned());
        }
        SectionChange::Overwrite(text) => text.clone(),
        SectionChange::RollBack(_) => text.to_owned(),
    };
    let changed = clean(&changed, usize::MAX);
    if changed.trim().is_empty() {
        return Err("nothing would be left of it; take its place out of the file that includes it".to_owned());
    }
    if changed.contains(OPEN) {
        return Err(format!("what it says may not hold {OPEN:?}: sections are included by files alone"));
    }
    if changed.len() > SECTION_MAX {
        return Err(format!(
            "it would have {} bytes, more than the {SECTION_MAX} that a section may have",
            changed.len()
        ));
    }
    Ok(changed)
}

/// A section, as reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// The text.
    pub text: String,
    /// True if it includes others and so cannot be changed at run time.
    pub container: bool,
    /// Its stored versions.
    pub versions: Versions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Door;

    fn sections(all: &[(&str, &str)]) -> Sections {
        all.iter().map(|(name, text)| ((*name).to_owned(), Arc::from(*text))).collect()
    }

    #[test]
    fn sections_stand_where_they_are_included() {
        let tree = sections(&[("tools", "Tools:\n{{include db}}"), ("db", "ask db {user_name}\n"), ("other", "x")]);
        let text = "You help.\n{{include tools}}\nBe {{kind}}. {{ include other }}{{include other";
        assert_eq!(check(text, &tree), Ok(()));
        assert_eq!(
            expand(text, &tree),
            "You help.\nTools:\nask db {user_name}\nBe {{kind}}. {{ include other }}{{include other"
        );
    }

    #[test]
    fn loops_duplicates_and_absent_sections_are_named_with_their_place() {
        let tree = sections(&[("a", "{{include b}}"), ("b", "{{include a}}"), ("c", "x"), ("d", "{{include no}}")]);
        for (text, mistake) in [
            ("{{include a}}", "sections/a.txt: a includes b includes a, which is a loop"),
            ("{{include c}} {{include c}}", "{{include c}}: c is included twice"),
            ("{{include d}}", "sections/d.txt: {{include no}}: there is no sections/no.txt"),
        ] {
            let found = check(text, &tree).unwrap_err();
            assert!(found.starts_with(mistake), "{found}");
            assert!(expand(text, &tree).len() < 20, "it ends all the same");
        }
        let long = sections(&[("long", &"x".repeat(WHOLE_MAX))]);
        assert!(check("more {{include long}}", &long).unwrap_err().contains("more than the"));
    }

    fn by() -> Person {
        Person::new(Door::new("discord"), "7")
    }

    #[test]
    fn the_five_operations_and_the_way_back() {
        let file = "one\ntwo words\nthree\n";
        let mut versions = Versions::default();
        for (change, text) in [
            (SectionChange::Append("four\n".into()), "one\ntwo words\nthree\nfour"),
            (SectionChange::Prepend("zero".into()), "zero\none\ntwo words\nthree\nfour"),
            (SectionChange::Replace("o".into(), "0".into()), "zer0\none\ntwo words\nthree\nfour"),
            (SectionChange::Delete("two".into()), "zer0\none\nthree\nfour"),
            (SectionChange::Overwrite("All new.".into()), "All new."),
            (SectionChange::RollBack(1), "one\ntwo words\nthree\nfour"),
            (SectionChange::RollBack(0), file),
        ] {
            let number = versions.change(file, &change, by(), Timestamp(5)).unwrap();
            assert_eq!((versions.text(file), versions.number()), (text, number), "{change:?}");
        }
        for (change, why) in [
            (SectionChange::Replace("absent".into(), "x".into()), "do not stand there"),
            (SectionChange::Delete(String::new()), "which words"),
            (SectionChange::Overwrite("  ".into()), "nothing would be left"),
            (SectionChange::Append("{{include a}}".into()), "by files alone"),
            (SectionChange::Append("x".repeat(SECTION_MAX)), "more than the"),
            (SectionChange::RollBack(99), "no version 99"),
        ] {
            let found = versions.change(file, &change, by(), Timestamp(6)).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
        assert_eq!(versions.number(), 7, "what is refused leaves no version");
    }

    #[test]
    fn versions_are_bounded_and_keep_their_numbers() {
        let mut versions = Versions::default();
        for _ in 0..VERSIONS_MAX + 5 {
            versions.change("x", &SectionChange::Overwrite("y".into()), by(), Timestamp(5)).unwrap();
        }
        assert_eq!((versions.0.len(), versions.number(), versions.0[0].number), (VERSIONS_MAX, 25, 6));
        assert!(
            versions.change("x", &SectionChange::RollBack(1), by(), Timestamp(5)).unwrap_err().contains("any more")
        );
    }
}
