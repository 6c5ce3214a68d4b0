//! The views and edits of prompt sections for operators and models.

use serde::{Deserialize, Serialize};

use super::sections::{Section, SectionChange};
use crate::ids::Timestamp;

/// A change of a section, as a client or a model writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    operation: Operation,
    #[serde(default)]
    text: String,
    #[serde(default)]
    old: String,
    #[serde(default)]
    confirm_overwrite: bool,
    #[serde(default)]
    version: Option<u32>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Append,
    Prepend,
    Replace,
    Delete,
    Overwrite,
    RollBack,
}

impl Operation {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "append" => Self::Append,
            "prepend" => Self::Prepend,
            "replace" => Self::Replace,
            "delete" => Self::Delete,
            "overwrite" => Self::Overwrite,
            "roll_back" => Self::RollBack,
            _ => return None,
        })
    }
}

/// The separator of the exact words and their replacement in a typed line.
const BECOMES: &str = " => ";

/// The syntax of a typed change.
pub const USAGE: &str =
    "a change is append TEXT, prepend TEXT, replace OLD => NEW, delete WORDS, overwrite TEXT or roll_back NUMBER";

impl Edit {
    /// Parses a typed line, such as `append Be brief.`; `None` if the line is not a change.
    #[must_use]
    pub fn typed(line: &str) -> Option<Self> {
        let (word, text) = line.trim().split_once(char::is_whitespace)?;
        let (operation, text) = (Operation::named(word)?, text.trim());
        let mut edit =
            Self { operation, text: text.to_owned(), old: String::new(), confirm_overwrite: true, version: None };
        match operation {
            Operation::Replace => {
                let (old, new) = text.split_once(BECOMES)?;
                (edit.old, edit.text) = (old.to_owned(), new.to_owned());
            }
            Operation::RollBack => edit.version = Some(text.parse().ok()?),
            Operation::Append | Operation::Prepend | Operation::Delete | Operation::Overwrite => {}
        }
        Some(edit)
    }

    /// Validates the edit and returns its change.
    ///
    /// # Errors
    /// Returns the reason why it is invalid, in words for the caller.
    pub fn change(self) -> Result<SectionChange, &'static str> {
        match self.operation {
            Operation::Append => Ok(SectionChange::Append(self.text)),
            Operation::Prepend => Ok(SectionChange::Prepend(self.text)),
            Operation::Replace => Ok(SectionChange::Replace(self.old, self.text)),
            Operation::Delete => Ok(SectionChange::Delete(self.text)),
            Operation::Overwrite if self.confirm_overwrite => Ok(SectionChange::Overwrite(self.text)),
            Operation::Overwrite => Err("overwrite replaces the whole section; it needs confirm_overwrite: true"),
            Operation::RollBack => {
                self.version.map(SectionChange::RollBack).ok_or("roll_back needs the number of a version")
            }
        }
    }
}

/// Returns the section with this name, or with this number in the list.
#[must_use]
pub fn find<'a>(all: &'a [Section], wanted: &str) -> Option<&'a Section> {
    let at = || all.get(wanted.parse::<usize>().ok()?.checked_sub(1)?);
    all.iter().find(|section| section.name == wanted).or_else(at)
}

/// Lists all sections, one per line.
#[must_use]
pub fn list(all: &[Section]) -> String {
    let line = |(number, section): (usize, &Section)| {
        let kind = if section.container { "includes others" } else { "can be changed" };
        let Section { name, text, versions, .. } = section;
        format!("{number}. {name}: {} characters, version {}, {kind}", text.chars().count(), versions.number())
    };
    (1..).zip(all).map(line).collect::<Vec<_>>().join("\n")
}

/// Formats a section with its text and its versions.
#[must_use]
pub fn whole(section: &Section) -> String {
    let Section { name, text, versions, .. } = section;
    let mut lines = vec![format!("{name}, version {}:", versions.number()), text.clone(), String::new()];
    lines.push("Versions (0 is the file):".to_owned());
    lines.extend(
        versions.0.iter().rev().map(|version| {
            format!("{}: {} by {} at {}", version.number, version.change, version.by, minute(version.at))
        }),
    );
    lines.join("\n")
}

/// Formats a time to the minute, in UTC; empty if it is out of the calendar's range.
#[must_use]
pub fn minute(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    at.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_line_is_a_change_or_none() {
        let typed = |line: &str| Edit::typed(line).map(|edit| edit.change().unwrap());
        for (line, change) in [
            ("append  Be brief. ", Some(SectionChange::Append("Be brief.".into()))),
            ("prepend Hello", Some(SectionChange::Prepend("Hello".into()))),
            ("replace softly => loudly", Some(SectionChange::Replace("softly".into(), "loudly".into()))),
            ("replace softly", None),
            ("delete voice", Some(SectionChange::Delete("voice".into()))),
            ("overwrite Speak.", Some(SectionChange::Overwrite("Speak.".into()))),
            ("roll_back 0", Some(SectionChange::RollBack(0))),
            ("roll_back -1", None),
            ("append", None),
            ("improve it", None),
            ("", None),
        ] {
            assert_eq!(typed(line), change, "{line}");
        }
    }

    #[test]
    fn an_overwrite_that_a_client_writes_is_confirmed() {
        let edit = |text: &str| serde_json::from_str::<Edit>(text).unwrap().change();
        assert!(edit(r#"{"operation": "overwrite", "text": "x"}"#).unwrap_err().contains("confirm_overwrite"));
        assert!(edit(r#"{"operation": "roll_back"}"#).is_err());
        assert_eq!(edit(r#"{"operation": "append", "text": "x"}"#), Ok(SectionChange::Append("x".into())));
    }
}
