//! Choices that a member made.

use serde::{Deserialize, Serialize};

use crate::model::Row;

/// The word that resets a choice.
pub const DEFAULT: &str = "default";

/// One member's choices, as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preferences {
    /// The model row that answers them. `None`: the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Preferences {
    /// Parses the stored form. Unreadable text counts as no choice.
    #[must_use]
    pub fn parse(stored: &str) -> Self {
        serde_json::from_str(stored).unwrap_or_default()
    }

    /// Returns the stored form.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data with string keys always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the chosen row, if it is among these.
    #[must_use]
    pub fn row<'a>(&self, allowed: &[&'a Row]) -> Option<&'a Row> {
        let model = self.model.as_ref()?;
        allowed.iter().copied().find(|row| row.key == *model)
    }
}

/// Returns the rows that members may choose: the named ones, or all if none is named. The first is the default.
#[must_use]
pub fn allowed<'a>(rows: &'a [Row], named: &[String]) -> Vec<&'a Row> {
    rows.iter().filter(|row| named.is_empty() || named.contains(&row.key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rows(keys: &[&str]) -> Vec<Row> {
        keys.iter().map(|key| Row::new(*key, Duration::from_secs(1))).collect()
    }

    #[test]
    fn a_choice_holds_while_its_row_is_allowed() {
        let rows = rows(&["fast", "deep", "local"]);
        let chosen = Preferences { model: Some("deep".to_owned()) };
        assert_eq!(chosen.row(&allowed(&rows, &[])).map(|row| &*row.key), Some("deep"));
        assert_eq!(chosen.row(&allowed(&rows, &["fast".to_owned()])), None);
        assert_eq!(Preferences::default().row(&allowed(&rows, &[])), None);
    }

    #[test]
    fn the_stored_form_reads_back_and_nonsense_is_no_choice() {
        let chosen = Preferences { model: Some("deep".to_owned()) };
        assert_eq!(chosen.to_json(), r#"{"model":"deep"}"#);
        assert_eq!(Preferences::parse(&chosen.to_json()), chosen);
        for stored in ["", "{}", "[1]", r#"{"model":null,"later":1}"#] {
            assert_eq!(Preferences::parse(stored), Preferences::default(), "{stored}");
        }
    }
}
