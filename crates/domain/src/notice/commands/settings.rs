//! The settings of a member and their model, and the answers to changes.

use super::{Words, list, words};
use crate::locale::Locale;
use crate::preferences::{Change, Level, Refused, Setting, Shown};

/// Returns the description of the option of `/settings`, at most 100 characters.
#[must_use]
pub const fn change(locale: Locale) -> &'static str {
    words(locale).change
}

/// Lists the settings with their values.
#[must_use]
pub fn settings(all: &[Shown], locale: Locale) -> String {
    let words = words(locale);
    let [headline, how] = words.settings;
    let lines: Vec<String> = all.iter().map(|shown| line(shown, words)).collect();
    format!("{}\n\n{how}", list(headline, &lines).trim_start())
}

fn line(shown: &Shown, words: &Words) -> String {
    let [unset, default, here, fixed] = words.marks;
    let value = shown.value.as_ref().map_or_else(|| unset.to_owned(), |value| format!("`{}`", quotable(value)));
    let mark = match shown.level {
        _ if !shown.open => format!(" ({fixed})"),
        Level::Default if shown.value.is_some() => format!(" ({default})"),
        Level::Here => format!(" ({here})"),
        Level::Default | Level::Own => String::new(),
    };
    format!("`{}`: {value}{mark}", shown.setting.name())
}

/// Says that a setting was changed or reset.
#[must_use]
pub fn setting_changed(change: &Change, sound: bool, locale: Locale) -> String {
    let (words, name) = (words(locale), change.setting.name());
    let text = match &change.value {
        Some(value) => (words.setting_changed)(name, &quotable(value), change.here),
        None => (words.setting_reset)(name, change.here),
    };
    if sound { text } else { format!("{text} {}", words.may_be_lost) }
}

/// Says why a setting was not changed or not shown.
#[must_use]
pub fn setting_refused(refused: &Refused, locale: Locale) -> String {
    let words = words(locale);
    match refused {
        Refused::Name => {
            let names: Vec<String> = Setting::ALL.map(|setting| format!("`{}`", setting.name())).into();
            (words.setting_unknown)(&names.join(", "))
        }
        Refused::Value(setting) => (words.setting_wrong)(setting.name(), setting.values()),
        Refused::Closed(setting) => (words.setting_closed)(setting.name()),
        Refused::NotServed(setting, row) => (words.setting_not_served)(setting.name(), row),
        Refused::NoSuchModel(asked, rows) => {
            no_such_model(asked, &rows.iter().map(String::as_str).collect::<Vec<_>>(), locale)
        }
        Refused::Away => words.memory_away.to_owned(),
    }
}

/// Shows the current model and the alternatives. `chosen` is `None` for the default.
#[must_use]
pub fn models(rows: &[(&str, Option<&str>)], default: &str, chosen: Option<&str>, locale: Locale) -> String {
    let words = words(locale);
    let mut text = match chosen {
        None => (words.default_answers)(default),
        Some(chosen) if rows.iter().any(|(row, _)| *row == chosen) => (words.chose)(chosen),
        Some(chosen) => format!("{} {}", (words.choice_gone)(chosen), (words.default_answers)(default)),
    };
    text.push(' ');
    if rows.iter().all(|(row, _)| *row == default) {
        text.push_str(words.no_other);
        return text;
    }
    let mark = |(row, about): &(&str, Option<&str>)| {
        let mark = if *row == default { format!(" ({})", words.default_mark) } else { String::new() };
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        format!("`{row}`{mark}{about}")
    };
    let rows: Vec<String> = rows.iter().map(mark).collect();
    text + &list(words.can_choose, &rows)
}

/// Says that a choice was stored.
#[must_use]
pub fn model_chosen(row: &str, sound: bool, locale: Locale) -> String {
    let words = words(locale);
    let text = (words.model_chosen)(row);
    if sound { text } else { format!("{text} {}", words.may_be_lost) }
}

/// Says that a choice was reset.
#[must_use]
pub fn model_default(row: &str, locale: Locale) -> String {
    (words(locale).model_default)(row)
}

/// Says that the model does not exist, and lists the alternatives.
#[must_use]
pub fn no_such_model(asked: &str, rows: &[&str], locale: Locale) -> String {
    let asked: String = asked.chars().filter(|c| *c != '`').take(40).collect();
    let rows: Vec<String> = rows.iter().map(|row| format!("`{row}`")).collect();
    (words(locale).no_such_model)(&asked, &rows.join(", "))
}

/// Returns a text without the mark that ends its quotation.
fn quotable(text: &str) -> String {
    text.replace('`', "'")
}
