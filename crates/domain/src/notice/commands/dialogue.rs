//! The dialogue of the settings, in the language of its member.

use super::settings::setting_refused;
use crate::locale::Locale;
use crate::preferences::dialogue::{Choosable, page_name};
use crate::preferences::{DEFAULT, Refused, Setting};
use crate::question::{Field, FieldKind, Form};

use crate::outgoing::{Button, ButtonStyle};

/// All sentences in one language.
struct Words {
    title: &'static str,
    open: &'static str,
    /// The number of a page, and of all.
    page: fn(usize, usize) -> String,
    /// The default, and its value.
    default: &'static str,
    default_is: fn(&str) -> String,
    blank: &'static str,
    nothing: &'static str,
    none: &'static str,
    saved: fn(&str) -> String,
    home: &'static str,
    /// The labels of all settings, in their order.
    labels: [&'static str; 10],
    submit: &'static str,
    cancel: &'static str,
}

const ENGLISH: Words = Words {
    title: "Your settings",
    open: "Change settings",
    page: |page, all| format!("Change settings ({page} of {all})"),
    default: "default",
    default_is: |value| format!("default: {value}"),
    blank: "empty: the default",
    nothing: "Nothing changed.",
    none: "No setting can be changed here.",
    saved: |names| format!("Saved: {names}."),
    home: "Mention me in a channel, or write to me directly. Your settings apply to all answers to you.",
    labels: [
        "Model",
        "Your instructions",
        "Length of answers",
        "Reasoning effort",
        "Temperature",
        "Language",
        "Web search",
        "Tools",
        "Show answers while they are written",
        "Memory of conversations and facts",
    ],
    submit: "Save",
    cancel: "Cancel",
};

const SPANISH: Words = Words {
    title: "Tus ajustes",
    open: "Cambiar ajustes",
    page: |page, all| format!("Cambiar ajustes ({page} de {all})"),
    default: "predeterminado",
    default_is: |value| format!("predeterminado: {value}"),
    blank: "vacío: el valor predeterminado",
    nothing: "No cambió nada.",
    none: "Aquí no se puede cambiar ningún ajuste.",
    saved: |names| format!("Guardado: {names}."),
    home: "Mencióname en un canal o escríbeme directamente. Tus ajustes valen para todas las respuestas a ti.",
    labels: [
        "Modelo",
        "Tus instrucciones",
        "Longitud de las respuestas",
        "Esfuerzo de razonamiento",
        "Temperatura",
        "Idioma",
        "Búsqueda web",
        "Herramientas",
        "Mostrar respuestas mientras se escriben",
        "Memoria de conversaciones y datos",
    ],
    submit: "Guardar",
    cancel: "Cancelar",
};

const GERMAN: Words = Words {
    title: "Deine Einstellungen",
    open: "Einstellungen ändern",
    page: |page, all| format!("Einstellungen ändern ({page} von {all})"),
    default: "Standard",
    default_is: |value| format!("Standard: {value}"),
    blank: "leer: der Standard",
    nothing: "Nichts wurde geändert.",
    none: "Hier kann keine Einstellung geändert werden.",
    saved: |names| format!("Gespeichert: {names}."),
    home: "Erwähne mich in einem Kanal, oder schreib mir direkt. Deine Einstellungen gelten für alle Antworten an dich.",
    labels: [
        "Modell",
        "Deine Anweisungen",
        "Länge der Antworten",
        "Denkaufwand",
        "Temperatur",
        "Sprache",
        "Websuche",
        "Werkzeuge",
        "Antworten zeigen, während sie entstehen",
        "Gedächtnis für Gespräche und Fakten",
    ],
    submit: "Speichern",
    cancel: "Abbrechen",
};

const fn words(locale: Locale) -> &'static Words {
    match locale {
        Locale::English => &ENGLISH,
        Locale::Spanish => &SPANISH,
        Locale::German => &GERMAN,
    }
}

/// Returns the title of the dialogue.
#[must_use]
pub const fn dialogue_title(locale: Locale) -> &'static str {
    words(locale).title
}

/// Returns the words of the buttons that send and that close a form.
#[must_use]
pub const fn form_buttons(locale: Locale) -> [&'static str; 2] {
    [words(locale).submit, words(locale).cancel]
}

/// Returns the text of a page about the bot, above the button of the settings.
#[must_use]
pub const fn home(locale: Locale) -> &'static str {
    words(locale).home
}

/// Returns the buttons that open the pages of the dialogue.
#[must_use]
pub fn dialogue_buttons(pages: usize, locale: Locale) -> Vec<Button> {
    let words = words(locale);
    let label = |page: usize| if pages == 1 { words.open.to_owned() } else { (words.page)(page + 1, pages) };
    let button = |page: usize| Button { name: page_name(page), label: label(page), style: ButtonStyle::Plain };
    (0..pages).map(button).collect()
}

/// Returns the form of these settings.
#[must_use]
pub fn dialogue_form(settings: &[Choosable], locale: Locale) -> Form {
    Form { fields: settings.iter().map(|known| field(known, locale)).collect() }
}

fn field(known: &Choosable, locale: Locale) -> Field {
    let words = words(locale);
    let default = known.default.as_ref();
    let reset = default.map_or_else(|| words.default.to_owned(), |value| (words.default_is)(value));
    let kind = known.kind(reset.clone());
    let (chosen, hint) = match &kind {
        FieldKind::Choice { .. } => (known.own.clone().or_else(|| Some(DEFAULT.to_owned())), None),
        FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Flag => {
            let blank = if default.is_some() { format!("{} ({reset})", words.blank) } else { words.blank.to_owned() };
            (known.own.clone(), Some(format!("{}; {blank}", known.setting.values())))
        }
    };
    let label = label(known.setting, words).to_owned();
    Field { name: known.setting.name().to_owned(), label, hint, required: false, default: chosen, kind }
}

fn label(setting: Setting, words: &Words) -> &'static str {
    let mut all = Setting::ALL.iter().zip(words.labels);
    all.find(|(known, _)| **known == setting).map_or("", |(_, label)| label)
}

/// Says that no setting can be changed.
#[must_use]
pub const fn dialogue_is_empty(locale: Locale) -> &'static str {
    words(locale).none
}

/// Says which settings were changed. `sound` is false if the values may be lost with this process.
#[must_use]
pub fn dialogue_saved(settings: &[Setting], sound: bool, locale: Locale) -> String {
    let words = words(locale);
    if settings.is_empty() {
        return words.nothing.to_owned();
    }
    let names: Vec<&str> = settings.iter().map(|setting| label(*setting, words)).collect();
    let saved = (words.saved)(&names.join(", "));
    if sound { saved } else { format!("{saved} {}", super::words(locale).may_be_lost) }
}

/// Returns the reason for each field to correct, by the name of the field.
#[must_use]
pub fn dialogue_problems(refused: &[(Setting, Refused)], locale: Locale) -> Vec<(String, String)> {
    refused.iter().map(|(setting, why)| (setting.name().to_owned(), setting_refused(why, locale))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_a_field_that_fits_the_smallest_platform() {
        for locale in Locale::ALL {
            for setting in Setting::ALL {
                let known = Choosable { setting, own: None, default: Some("x".repeat(200)), names: Vec::new() };
                let field = field(&known, locale);
                assert_eq!(field.name, setting.name());
                assert!(!field.label.is_empty() && field.label.chars().count() <= 45, "{}", field.label);
            }
            assert!(dialogue_title(locale).chars().count() <= 24);
            assert!(form_buttons(locale).iter().all(|words| words.chars().count() <= 24));
        }
    }

    #[test]
    fn a_choice_shows_its_default_and_a_text_its_bound() {
        let known = |setting, own: Option<&str>| Choosable {
            setting,
            own: own.map(str::to_owned),
            default: Some("low".to_owned()),
            names: Vec::new(),
        };
        let choice = field(&known(Setting::ReasoningEffort, None), Locale::English);
        let FieldKind::Choice { options } = &choice.kind else { panic!("{choice:?}") };
        assert_eq!((options[0].title.as_str(), choice.default.as_deref()), ("default: low", Some("default")));
        let text = field(&known(Setting::Instructions, Some("be brief")), Locale::English);
        assert_eq!(text.default.as_deref(), Some("be brief"));
        assert!(text.hint.is_some_and(|hint| hint.starts_with("up to 1,000 characters")));
    }
}
