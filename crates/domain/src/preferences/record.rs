//! The stored settings of one person: their own values, and those for single places.

use serde::{Deserialize, Serialize};

use super::{Change, Invalid, Preferences, ToolUse};
use crate::ids::{Place, Timestamp};

/// Maximum number of places with own values; the oldest is evicted first.
const PLACES_MAX: usize = 20;

/// One person's settings, as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The time of the last change; zero in records of earlier versions.
    #[serde(default)]
    pub at: Timestamp,
    /// The values for all places.
    #[serde(flatten)]
    pub own: Preferences,
    /// Places and their values, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    here: Vec<(String, Preferences)>,
}

impl Record {
    /// Parses the stored form; `None` if it is unreadable, such as a record of a later version.
    #[must_use]
    pub fn parse(stored: &str) -> Option<Self> {
        serde_json::from_str(stored).ok()
    }

    /// Returns the settings of a person whose record cannot be read: nothing is stored or passed on that they may have
    /// forbidden.
    #[must_use]
    pub fn unread() -> Self {
        let (memory, web_search, tools) = (Some(false), Some(false), Some(ToolUse::Off));
        Self { own: Preferences { web_search, tools, memory, ..Preferences::default() }, ..Self::default() }
    }

    /// Returns the stored form; `None` if there is nothing to store.
    #[must_use]
    pub fn to_json(&self) -> Option<String> {
        let is_empty = self.own.is_empty() && self.here.is_empty();
        if is_empty { None } else { serde_json::to_string(self).ok() }
    }

    /// Returns the values for this place alone.
    #[must_use]
    pub fn here(&self, place: &Place) -> Preferences {
        let place = place.to_string();
        let found = self.here.iter().find(|(known, _)| *known == place);
        found.map(|(_, values)| values.clone()).unwrap_or_default()
    }

    /// Returns the values in this place, above these defaults. A thread inherits the values of its parent.
    #[must_use]
    pub fn in_force(&self, place: &Place, parent: Option<&Place>, defaults: Preferences) -> Preferences {
        let above = parent.map(|parent| self.here(parent)).unwrap_or_default();
        self.here(place).over(above).over(self.own.clone()).over(defaults)
    }

    /// Applies a change in this place.
    ///
    /// # Errors
    /// The setting does not accept the value.
    pub fn apply(&mut self, change: &Change, place: &Place) -> Result<(), Invalid> {
        let mut values = if change.here { self.here(place) } else { self.own.clone() };
        match &change.value {
            Some(value) => values.set(change.setting, value)?,
            None => values.clear(change.setting),
        }
        if !change.here {
            self.own = values;
            return Ok(());
        }
        let place = place.to_string();
        self.here.retain(|(known, _)| *known != place);
        if !values.is_empty() {
            if self.here.len() >= PLACES_MAX {
                self.here.remove(0);
            }
            self.here.push((place, values));
        }
        Ok(())
    }
}
