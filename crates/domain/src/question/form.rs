//! A flat form with few fields, and the check of its answers.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::Unfit;
use super::secrets::names_one;
use crate::clean::clean;

/// The most fields of a form: what every platform shows at once.
pub const FIELDS_MAX: usize = 5;
/// The most options of a field.
const OPTIONS_MAX: usize = 25;
/// The longest name of a field, and the longest value of an option, in bytes.
const NAME_BYTES: usize = 100;
/// The longest label of a field, in Unicode scalar values.
const LABEL_MAX: usize = 45;
/// The longest hint and the longest title of an option, in Unicode scalar values.
const HINT_MAX: usize = 100;
/// The longest answer to a field, in Unicode scalar values.
const TEXT_MAX: usize = 1_000;

/// The fields of a question, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// The fields.
    pub fields: Vec<Field>,
}

/// One field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The name under which the server expects the value.
    pub name: String,
    /// The label for people.
    pub label: String,
    /// The explanation for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// True if a value is required.
    pub required: bool,
    /// The value that is offered, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The kind of value.
    #[serde(flatten)]
    pub kind: FieldKind,
}

/// The kind of value that a field accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FieldKind {
    /// A text with this many Unicode scalar values.
    Text {
        /// The least number.
        least: usize,
        /// The largest number.
        most: usize,
        /// The format.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<TextFormat>,
    },
    /// A number in a range.
    Number {
        /// True if it must be whole.
        whole: bool,
        /// The least value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        least: Option<Number>,
        /// The largest value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<Number>,
    },
    /// Yes or no.
    Flag,
    /// A choice among these options.
    Choice {
        /// The options, in the server's order.
        options: Vec<FieldOption>,
    },
}

/// One option of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldOption {
    /// The value for the server.
    pub value: String,
    /// The title for people.
    pub title: String,
}

/// A format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextFormat {
    /// An e-mail address.
    Email,
    /// An address with a scheme.
    Uri,
    /// A date such as `2026-07-28`.
    Date,
    /// A date with a time.
    DateTime,
}

/// The field whose value does not fit, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// The index of the field.
    pub field: usize,
    /// The reason.
    pub problem: Problem,
}

/// The reason why a value does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It is missing.
    Missing,
    /// It has the wrong length.
    Length,
    /// It is not a number, or not a whole one.
    Number,
    /// It is outside of its range.
    Range,
    /// It is neither yes nor no.
    Flag,
    /// It is none of the options.
    Option,
    /// It does not have the required format.
    Format,
}

impl Problem {
    /// Returns the reason for a program.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "a value is required",
            Self::Length => "the text is too short or too long",
            Self::Number => "a number is required",
            Self::Range => "the number is out of range",
            Self::Flag => "true or false is required",
            Self::Option => "one of the options is required",
            Self::Format => "the format is wrong",
        }
    }
}

impl Form {
    /// Reads a schema: a flat object of texts, numbers, flags and choices.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn read(schema: &Value) -> Result<Self, Unfit> {
        let properties = schema.get("properties").and_then(Value::as_object).ok_or(Unfit::Unsupported)?;
        if properties.is_empty() || properties.len() > FIELDS_MAX {
            return Err(Unfit::Unsupported);
        }
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
        let field = |(name, schema): (&String, &Value)| Field::read(name, schema, required.contains(&name.as_str()));
        properties.iter().map(field).collect::<Result<_, _>>().map(|fields| Self { fields })
    }

    /// Returns the approximate size of its texts in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let option = |option: &FieldOption| option.value.len() + option.title.len();
        let field = |field: &Field| {
            let options = match &field.kind {
                FieldKind::Choice { options } => options.iter().map(option).sum(),
                FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Flag => 0,
            };
            field.name.len()
                + field.label.len()
                + [&field.hint, &field.default].into_iter().flatten().map(String::len).sum::<usize>()
                + options
        };
        self.fields.iter().map(field).sum()
    }

    /// Checks answers: texts of people, or values of programs. Values of unknown names are dropped.
    ///
    /// # Errors
    /// See [`Misfit`].
    pub fn accept(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Misfit> {
        let mut accepted = Map::new();
        for (index, field) in self.fields.iter().enumerate() {
            let given = given.get(&field.name).filter(|value| !is_blank(value));
            match given.map(|value| field.kind.accept(value)) {
                Some(Ok(value)) => drop(accepted.insert(field.name.clone(), value)),
                Some(Err(problem)) => return Err(Misfit { field: index, problem }),
                None if field.required => return Err(Misfit { field: index, problem: Problem::Missing }),
                None => {}
            }
        }
        Ok(accepted)
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

impl Field {
    fn read(name: &str, schema: &Value, required: bool) -> Result<Self, Unfit> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let described = [Some(name), text("title"), text("description"), text("format"), text("default")];
        if described.into_iter().flatten().any(names_one) {
            return Err(Unfit::Secret);
        }
        if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
            return Err(Unfit::Unsupported);
        }
        let one_line = |text: &str, most| clean(text, most).replace('\n', " ").trim().to_owned();
        let label = one_line(text("title").unwrap_or(name), LABEL_MAX);
        let default = schema.get("default").and_then(|value| match value {
            Value::String(text) => Some(one_line(text, TEXT_MAX)),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        });
        let kind = FieldKind::read(schema)?;
        let label = if label.is_empty() { one_line(name, LABEL_MAX) } else { label };
        if label.is_empty() {
            return Err(Unfit::Unsupported);
        }
        Ok(Self {
            name: name.to_owned(),
            label,
            hint: text("description").map(|hint| one_line(hint, HINT_MAX)).filter(|hint| !hint.is_empty()),
            required,
            // A form with a default that does not fit could not be shown.
            default: default.filter(|default| kind.accept(&Value::from(default.as_str())).is_ok()),
            kind,
        })
    }
}

impl FieldKind {
    fn read(schema: &Value) -> Result<Self, Unfit> {
        if let Some(options) = options(schema)? {
            return Ok(Self::Choice { options });
        }
        let number = |key: &str| schema.get(key).and_then(Value::as_number).cloned();
        let count = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => {
                let format = match schema.get("format").and_then(Value::as_str) {
                    Some("email") => Some(TextFormat::Email),
                    Some("uri") => Some(TextFormat::Uri),
                    Some("date") => Some(TextFormat::Date),
                    Some("date-time") => Some(TextFormat::DateTime),
                    Some(_) | None => None,
                };
                let most = count("maxLength").unwrap_or(TEXT_MAX).min(TEXT_MAX);
                let least = count("minLength").unwrap_or(0);
                if least > most || most == 0 { Err(Unfit::Unsupported) } else { Ok(Self::Text { least, most, format }) }
            }
            Some(kind @ ("number" | "integer")) => {
                let whole = kind == "integer";
                Ok(Self::Number { whole, least: number("minimum"), most: number("maximum") })
            }
            Some("boolean") => Ok(Self::Flag),
            _ => Err(Unfit::Unsupported),
        }
    }

    /// Returns the value for the server.
    fn accept(&self, given: &Value) -> Result<Value, Problem> {
        let text = match given {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(_) | Value::Bool(_) => given.to_string(),
            _ => return Err(Problem::Format),
        };
        match self {
            Self::Text { least, most, format } => {
                let length = text.chars().count();
                if length < *least || length > *most {
                    return Err(Problem::Length);
                }
                let fits = format.is_none_or(|format| format.fits(&text));
                fits.then_some(Value::String(text)).ok_or(Problem::Format)
            }
            Self::Number { whole, least, most } => {
                let number = if *whole { text.parse::<i64>().map(Value::from).ok() } else { None };
                let number = number.or_else(|| (!*whole).then(|| text.parse::<f64>().ok().map(Value::from)).flatten());
                // A number that JSON cannot represent becomes null.
                let number = number.filter(Value::is_number).ok_or(Problem::Number)?;
                let size = number.as_f64().ok_or(Problem::Number)?;
                let bound = |bound: &Option<Number>| bound.as_ref().and_then(Number::as_f64);
                let fits =
                    bound(least).is_none_or(|least| size >= least) && bound(most).is_none_or(|most| size <= most);
                fits.then_some(number).ok_or(Problem::Range)
            }
            Self::Flag => match text.to_lowercase().as_str() {
                "true" | "yes" | "y" | "1" | "ja" | "sí" | "si" => Ok(Value::Bool(true)),
                "false" | "no" | "n" | "0" | "nein" => Ok(Value::Bool(false)),
                _ => Err(Problem::Flag),
            },
            Self::Choice { options } => {
                let lower = text.to_lowercase();
                let exact = options.iter().find(|option| option.value == text);
                let titled = || options.iter().find(|option| option.title.to_lowercase() == lower);
                let chosen = exact.or_else(titled).ok_or(Problem::Option)?;
                Ok(Value::String(chosen.value.clone()))
            }
        }
    }
}

impl TextFormat {
    fn fits(self, text: &str) -> bool {
        let is_date = |text: &str| {
            let parts: Vec<&str> = text.split('-').collect();
            parts.len() == 3
                && parts
                    .iter()
                    .zip([4, 2, 2])
                    .all(|(part, digits)| part.len() == digits && part.bytes().all(|c| c.is_ascii_digit()))
        };
        match self {
            Self::Email => {
                let halves = text.split_once('@');
                halves.is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !host.contains('@'))
                    && !text.contains(char::is_whitespace)
            }
            Self::Uri => {
                let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
                !scheme.is_empty() && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c))
            }
            Self::Date => is_date(text),
            Self::DateTime => {
                text.split_once(['T', 't', ' ']).is_some_and(|(date, time)| is_date(date) && time.contains(':'))
            }
        }
    }
}

/// Reads the options of a field; `None` if it has none.
fn options(schema: &Value) -> Result<Option<Vec<FieldOption>>, Unfit> {
    let texts = |key: &str| schema.get(key).and_then(Value::as_array);
    let option = |value: &str, title: &str| {
        let title = clean(title, HINT_MAX).replace('\n', " ");
        let fits = !value.is_empty() && value.len() <= NAME_BYTES && !title.trim().is_empty();
        fits.then(|| FieldOption { value: value.to_owned(), title }).ok_or(Unfit::Unsupported)
    };
    let listed = texts("enum").map(|values| {
        let titles = texts("enumNames");
        let title = |index: usize| titles.and_then(|titles| titles.get(index)).and_then(Value::as_str);
        let one = |(index, value): (usize, &Value)| {
            let value = value.as_str().ok_or(Unfit::Unsupported)?;
            option(value, title(index).unwrap_or(value))
        };
        values.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()
    });
    let titled = || {
        texts("oneOf").or_else(|| texts("anyOf")).map(|options| {
            let one = |entry: &Value| {
                let value = entry.get("const").and_then(Value::as_str).ok_or(Unfit::Unsupported)?;
                option(value, entry.get("title").and_then(Value::as_str).unwrap_or(value))
            };
            options.iter().map(one).collect::<Result<Vec<_>, _>>()
        })
    };
    let options = listed.or_else(titled).transpose()?;
    match &options {
        Some(options) if options.is_empty() || options.len() > OPTIONS_MAX => Err(Unfit::Unsupported),
        // Platforms show a list of distinct values only.
        Some(options) if options.iter().map(|option| &option.value).collect::<HashSet<_>>().len() < options.len() => {
            Err(Unfit::Unsupported)
        }
        _ => Ok(options),
    }
}
