//! The dialogue of the settings: a form with one field for each setting that its person may change and the row in force
//! can serve. Every door with forms shows this one.

use serde_json::{Map, Number, Value};

use super::{Change, DEFAULT, INSTRUCTIONS_CHARS, LANGUAGE_CHARS, Preferences, Refused, SERVER_CHARS, Setting};
use crate::caller::{Callback, Caller};
use crate::ids::Place;
use crate::question::{FieldKind, FieldOption};

/// The prefix of the names of its pages.
const PREFIX: &str = "settings:";
/// The most options of a field: the fewest that a platform shows.
const OPTIONS_MAX: usize = 25;
/// The longest value of an option, in Unicode scalar values: Discord's bound, which Slack's exceeds.
const OPTION_CHARS: usize = 100;

/// A step of a dialogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialogue {
    /// The means to answer; its id is the deduplication key.
    pub callback: Callback,
    /// The member.
    pub caller: Caller,
    /// The place of the dialogue.
    pub place: Place,
    /// The parent of that place.
    pub parent: Option<Place>,
    /// The community; `None` in a direct conversation.
    pub guild: Option<String>,
    /// The step.
    pub step: DialogueStep,
}

/// An action of the member.
#[derive(Debug, Clone, PartialEq)]
pub enum DialogueStep {
    /// They opened this page.
    Opened(usize),
    /// They sent these values, by the names of the fields.
    Sent(Map<String, Value>),
}

/// Returns the name of a page, and of the button that opens it.
#[must_use]
pub fn page_name(page: usize) -> String {
    format!("{PREFIX}{page}")
}

/// Reads the name of a page; `None` for other names.
#[must_use]
pub fn page_of(name: &str) -> Option<usize> {
    let page = name.strip_prefix(PREFIX)?.parse().ok()?;
    (page < Setting::ALL.len() && page_name(page) == name).then_some(page)
}

/// A setting that its person may change, and that has an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choosable {
    /// The setting.
    pub setting: Setting,
    /// The person's own value for all places.
    pub own: Option<String>,
    /// The value without an own one; `None` leaves it to the model and its row.
    pub default: Option<String>,
    /// The names among which it chooses: rows, or tool servers.
    pub names: Vec<String>,
}

impl Choosable {
    /// Returns the kind of its field. `default_title` is the title of the option that resets a choice.
    #[must_use]
    pub fn kind(&self, default_title: String) -> FieldKind {
        let text = |most| FieldKind::Text { least: 0, most, format: None };
        let values: Vec<String> = match self.setting {
            Setting::Instructions => return text(INSTRUCTIONS_CHARS),
            Setting::Language => return text(LANGUAGE_CHARS),
            Setting::Temperature => {
                let most = Number::from_f64(super::TEMPERATURE_MAX);
                return FieldKind::Number { whole: false, least: Some(0.into()), most };
            }
            Setting::Model => self.names.clone(),
            Setting::Tools => {
                let without = self.names.iter().map(|server| format!("{} {server}", super::WITHOUT));
                self.suggested().chain(without).collect()
            }
            Setting::Verbosity
            | Setting::ReasoningEffort
            | Setting::WebSearch
            | Setting::Streaming
            | Setting::Memory => self.suggested().collect(),
        };
        let other = self.own.iter().filter(|own| !values.contains(own)).cloned();
        let values: Vec<String> = values.iter().cloned().chain(other).collect();
        let is_unfit = |value: &String| value == DEFAULT || value.chars().count() > OPTION_CHARS;
        if values.len() >= OPTIONS_MAX || values.iter().any(is_unfit) {
            return text(super::SERVERS_MAX * SERVER_CHARS);
        }
        let reset = FieldOption { value: DEFAULT.to_owned(), title: default_title };
        let option = |value: String| FieldOption { title: value.clone(), value };
        FieldKind::Choice { options: [reset].into_iter().chain(values.into_iter().map(option)).collect() }
    }

    fn suggested(&self) -> impl Iterator<Item = String> {
        self.setting.suggested().iter().map(|value| (*value).to_owned())
    }

    /// Returns the change that a sent value makes; `None` if it makes none.
    fn change(&self, sent: &Value) -> Option<Change> {
        let text = match sent {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(_) => sent.to_string(),
            Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        // A row may have the name of the word that resets.
        let resets = text.is_empty() || (text == DEFAULT && !self.names.contains(&text));
        let value = (!resets).then_some(text);
        (value != self.own).then_some(Change { here: false, setting: self.setting, value })
    }
}

/// Returns the changes that sent values make, and a refusal for each value that its setting does not accept.
#[must_use]
pub fn changes(all: &[Choosable], sent: &Map<String, Value>) -> (Vec<Change>, Vec<(Setting, Refused)>) {
    let changed = all.iter().filter_map(|known| known.change(sent.get(known.setting.name())?));
    let (mut changes, mut refused) = (Vec::new(), Vec::new());
    for change in changed {
        let checked = change.value.as_ref().map_or(Ok(()), |value| Preferences::default().set(change.setting, value));
        match checked {
            Ok(()) => changes.push(change),
            Err(invalid) => refused.push((change.setting, invalid.into())),
        }
    }
    (changes, refused)
}

impl Refused {
    /// Returns the setting that is meant, if it is one.
    #[must_use]
    pub const fn setting(&self) -> Option<Setting> {
        match self {
            Self::Value(setting) | Self::Closed(setting) | Self::NotServed(setting, _) => Some(*setting),
            Self::NoSuchModel(..) => Some(Setting::Model),
            Self::Name | Self::Away => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(setting: Setting, own: Option<&str>, names: &[&str]) -> Choosable {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Choosable { setting, own: own.map(str::to_owned), default: None, names }
    }

    fn values(known: &Choosable) -> Vec<String> {
        match known.kind("default".to_owned()) {
            FieldKind::Choice { options } => options.into_iter().map(|option| option.value).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_choice_offers_its_values_the_own_one_and_the_default() {
        assert_eq!(values(&of(Setting::Verbosity, None, &[])), ["default", "short", "normal", "detailed"]);
        assert_eq!(values(&of(Setting::Model, Some("gone"), &["a", "b"])), ["default", "a", "b", "gone"]);
        assert_eq!(
            values(&of(Setting::Tools, Some("without x, y"), &["x"])),
            ["default", "on", "off", "built_in", "without x", "without x, y"]
        );
    }

    #[test]
    fn a_choice_among_too_many_names_or_with_the_resetting_word_is_a_text() {
        let many: Vec<String> = (0..30).map(|number| format!("row-{number}")).collect();
        let many = Choosable { names: many, ..of(Setting::Model, None, &[]) };
        assert!(matches!(many.kind(String::new()), FieldKind::Text { .. }));
        let named = of(Setting::Model, None, &["default", "b"]);
        assert!(matches!(named.kind(String::new()), FieldKind::Text { .. }));
        assert_eq!(named.change(&json!("default")).and_then(|change| change.value).as_deref(), Some("default"));
    }

    #[test]
    fn only_what_differs_changes_and_each_value_that_does_not_fit_is_named() {
        let all = [
            of(Setting::Model, Some("a"), &["a", "b"]),
            of(Setting::Instructions, Some("be brief"), &[]),
            of(Setting::Temperature, None, &[]),
            of(Setting::Language, None, &[]),
            of(Setting::Memory, Some("off"), &[]),
        ];
        let sent = json!({"model": "a", "instructions": " ", "temperature": "3", "language": "!!", "memory": "on",
            "streaming": "off"});
        let (changed, refused) = changes(&all, sent.as_object().unwrap());
        let change = |setting, value: Option<&str>| Change { here: false, setting, value: value.map(str::to_owned) };
        assert_eq!(changed, [change(Setting::Instructions, None), change(Setting::Memory, Some("on"))]);
        let names: Vec<Option<Setting>> = refused.iter().map(|(_, refused)| refused.setting()).collect();
        assert_eq!(names, [Some(Setting::Temperature), Some(Setting::Language)]);
        // Fields of another page are not sent.
        assert_eq!(changes(&all, &Map::new()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_page_has_a_name() {
        assert_eq!(page_of(&page_name(1)), Some(1));
        for odd in ["settings:", "settings:01", "settings:99", "gate:1:open", "settings:-1"] {
            assert_eq!(page_of(odd), None, "{odd}");
        }
    }
}
