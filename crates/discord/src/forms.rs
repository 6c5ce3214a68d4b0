//! Forms that a press of a button opens (modals), and what members fill in.
//!
//! Source: `discord.com/developers/docs/components/reference`, labels, text inputs and string selects.

use serde_json::{Map, Value, json};

use domain::locale::Locale;
use domain::notice::gate::yes_and_no;
use domain::question::{Field, FieldKind, FieldOption, Form};

/// The longest title and label, in characters.
const LABEL_MAX: usize = 45;
/// The longest explanation of a field, and the longest label of an option, in characters.
const DESCRIPTION_MAX: usize = 100;
/// The most answers read of one form, and the longest one in bytes.
const ANSWERS_MAX: usize = 10;
const ANSWER_BYTES: usize = 16 * 1024;
/// The types of components: a row, a select menu, a text input, a label.
const ROW: u64 = 1;
const SELECT: u64 = 3;
const TEXT: u64 = 4;
const LABEL: u64 = 18;

fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Returns the data of a form.
pub(crate) fn modal(name: &str, title: &str, form: &Form, locale: Locale) -> Value {
    let fields: Vec<Value> = form.fields.iter().map(|field| label(field, locale)).collect();
    json!({"custom_id": name, "title": short(title, LABEL_MAX), "components": fields})
}

fn label(field: &Field, locale: Locale) -> Value {
    let mut label = json!({"type": LABEL, "label": short(&field.label, LABEL_MAX), "component": input(field, locale)});
    if let Some(hint) = &field.hint {
        label["description"] = short(hint, DESCRIPTION_MAX).into();
    }
    label
}

fn input(field: &Field, locale: Locale) -> Value {
    let base = json!({"custom_id": field.name, "required": field.required});
    let with = |mut base: Value, more: Value| {
        if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
            base.extend(more);
        }
        base
    };
    let filled = |base: Value, default: Option<String>| match default {
        Some(default) => with(base, json!({"value": default})),
        None => base,
    };
    let default = field.default.as_deref();
    match &field.kind {
        FieldKind::Text { least, most, .. } => {
            let style = if *most > DESCRIPTION_MAX { 2 } else { 1 };
            let base = with(base, json!({"type": TEXT, "style": style, "min_length": least, "max_length": most}));
            filled(base, default.map(|default| short(default, *most)))
        }
        FieldKind::Number { .. } => {
            let base = with(base, json!({"type": TEXT, "style": 1, "max_length": 30}));
            filled(base, default.map(str::to_owned))
        }
        FieldKind::Flag => {
            let options = ["true", "false"]
                .into_iter()
                .zip(yes_and_no(locale))
                .map(|(value, title)| FieldOption { value: value.to_owned(), title: title.to_owned() });
            with(base, select(&options.collect::<Vec<_>>(), default))
        }
        FieldKind::Choice { options } => with(base, select(options, default)),
    }
}

fn select(options: &[FieldOption], default: Option<&str>) -> Value {
    let option = |option: &FieldOption| {
        let chosen = default == Some(option.value.as_str());
        json!({"label": short(&option.title, DESCRIPTION_MAX), "value": option.value, "default": chosen})
    };
    json!({"type": SELECT, "options": options.iter().map(option).collect::<Vec<_>>()})
}

/// Reads the answers of a form by the names of its fields.
pub(crate) fn answers(components: &Value) -> Map<String, Value> {
    let listed = components.as_array().map(Vec::as_slice).unwrap_or_default();
    let inner = |part: &Value| match part["type"].as_u64() {
        Some(ROW) => part["components"].as_array().and_then(|row| row.first()).cloned(),
        Some(LABEL) => part.get("component").cloned(),
        _ => None,
    };
    let answer = |input: Value| {
        let name = input["custom_id"].as_str().filter(|name| name.len() <= ANSWER_BYTES)?.to_owned();
        let value = input["value"].as_str().or_else(|| input["values"].get(0).and_then(Value::as_str))?;
        (value.len() <= ANSWER_BYTES).then(|| (name, Value::from(value)))
    };
    listed.iter().take(ANSWERS_MAX).filter_map(inner).filter_map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        let schema = json!({"properties": {
            "age": {"type": "integer", "description": "in years", "default": 30},
            "news": {"type": "boolean"},
            "size": {"type": "string", "enum": ["s", "l"], "default": "l"},
            "why": {"type": "string", "maxLength": 500},
        }, "required": ["age"]});
        Form::read(&schema).unwrap()
    }

    #[test]
    fn a_form_has_an_input_for_each_field() {
        let modal = modal("gate:1:once", &"t".repeat(80), &form(), Locale::English);
        assert_eq!(modal["title"].as_str().unwrap().len(), LABEL_MAX);
        let parts = modal["components"].as_array().unwrap();
        let kinds: Vec<u64> = parts.iter().map(|part| part["component"]["type"].as_u64().unwrap()).collect();
        assert_eq!(kinds, [TEXT, SELECT, SELECT, TEXT]);
        assert!(parts.iter().all(|part| part["type"] == LABEL));
        assert_eq!((&parts[0]["description"], &parts[0]["component"]["value"]), (&json!("in years"), &json!("30")));
        assert_eq!(parts[0]["component"]["required"], true);
        assert_eq!(parts[1]["component"]["options"][0]["value"], "true");
        assert_eq!(parts[2]["component"]["options"][1]["default"], true);
    }

    #[test]
    fn answers_are_read_in_both_forms_of_discord_and_fit_the_form() {
        let sent = json!([
            {"type": 18, "component": {"type": 4, "custom_id": "age", "value": "36"}},
            {"type": 18, "component": {"type": 3, "custom_id": "news", "values": ["true"]}},
            {"type": 1, "components": [{"type": 4, "custom_id": "why", "value": "so"}]},
            {"type": 18, "component": {"type": 4, "custom_id": "big", "value": "x".repeat(ANSWER_BYTES + 1)}},
            {"type": 99}, 7,
        ]);
        let accepted = form().accept(&answers(&sent)).unwrap();
        assert_eq!(Value::Object(accepted), json!({"age": 36, "news": true, "why": "so"}));
        assert_eq!(answers(&json!("x")), Map::new());
    }
}
