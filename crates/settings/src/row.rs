//! Parses one row of a list of tables and reports every mistake with its field and remedy.

use serde::de::DeserializeOwned;
use toml::Value;

use domain::near;

/// The most reported mistakes of one list.
pub const MISTAKES_MAX: usize = 32;
/// The most mistakes searched in one row.
const IN_A_ROW_MAX: usize = 8;
/// The most fields of a row in which mistakes are distinguished; no row has as many.
const FIELDS_MAX: usize = 64;

/// Parses a row.
///
/// # Errors
/// Its mistakes.
pub fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, Vec<String>> {
    let mut mistakes = Vec::new();
    let mut removed: Vec<String> = Vec::new();
    loop {
        let message = match T::deserialize(value.clone()) {
            Ok(row) if mistakes.is_empty() => return Ok(row),
            Ok(_) => return Err(mistakes),
            Err(error) => error.message().to_owned(),
        };
        let missing = name_in(&message, "missing field");
        if missing.is_some_and(|name| removed.iter().any(|removed| removed == name)) {
            return Err(mistakes);
        }
        let wrong = wrong_field::<T>(&value, &message);
        mistakes.push(match &wrong {
            Some(field) if name_in(&message, "unknown field").is_none() => format!("{field}: {message}"),
            _ => in_words(&message),
        });
        let (Some(field), Value::Table(table), true) = (wrong, &mut value, mistakes.len() < IN_A_ROW_MAX) else {
            return Err(mistakes);
        };
        table.remove(&field);
        removed.push(field);
    }
}

/// Returns the field that causes a message: without that field, the message differs.
fn wrong_field<T: DeserializeOwned>(value: &Value, message: &str) -> Option<String> {
    let table = value.as_table().filter(|table| table.len() <= FIELDS_MAX)?;
    if let Some(name) = name_in(message, "unknown field") {
        return table.contains_key(name).then(|| name.to_owned());
    }
    if message.starts_with("missing field") {
        return None;
    }
    let differs = |field: &&String| {
        let mut without = table.clone();
        without.remove(*field);
        T::deserialize(Value::Table(without)).err().is_none_or(|error| error.message() != message)
    };
    table.keys().find(differs).cloned()
}

/// Returns the name in backticks after these words.
fn name_in<'a>(message: &'a str, words: &str) -> Option<&'a str> {
    message.strip_prefix(words)?.split('`').nth(1)
}

/// Converts the parser's message to a sentence with the remedy.
fn in_words(message: &str) -> String {
    if let Some(name) = name_in(message, "missing field") {
        return format!("{name} is missing; add it");
    }
    let Some(name) = name_in(message, "unknown field") else { return message.to_owned() };
    let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
    match near::nearest(name, known.iter().copied()) {
        Some(near) => format!("the field {name} does not exist; did you mean {near}?"),
        None => format!("the field {name} does not exist; the fields are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolRule;
    use crate::triggers::TimerRow;

    fn mistakes<T: DeserializeOwned + std::fmt::Debug>(toml: &str) -> Vec<String> {
        read::<T>(Value::Table(toml.parse().unwrap())).unwrap_err()
    }

    #[test]
    fn every_mistake_of_a_row_is_named_with_its_field() {
        let row = "tools = 'x'\nverdict = 'perhaps'\noperation = 'both'\nrole = ['1']\nweather = 'fine'";
        assert_eq!(
            mistakes::<ToolRule>(row),
            [
                "operation: must be read or write",
                "the field role does not exist; did you mean roles?",
                "verdict: must be auto, ask or deny",
                "the field weather does not exist; the fields are tools, operation, resource, roles, users, channels, doors, except, verdict, approvers",
            ]
        );
        assert_eq!(mistakes::<ToolRule>("tools = 'x'"), ["verdict is missing; add it"]);
        assert_eq!(
            mistakes::<TimerRow>("name = 'a'\nper_hour = 'often'\ngrace = 'late'"),
            [
                "grace: must be a duration such as 30s, 5m, 1h30m, or plain seconds",
                "per_hour: must be a whole number from 1 to 4294967295",
                "cron is missing; add it",
            ]
        );
    }

    #[test]
    fn a_row_of_any_length_costs_in_proportion_to_it() {
        let rows = |size: usize| {
            let fields: String = (0..size / 16).map(|field| format!("unknown_{field} = 1\n")).collect();
            let bad: String = (0..50).map(|field| format!("field_{field} = '{}'\n", "x".repeat(size / 50))).collect();
            vec![fields, bad, format!("verdict = '{}'", "x".repeat(size))]
        };
        cost::grows_linearly(1024, rows, |rows| {
            for row in rows {
                drop(read::<ToolRule>(Value::Table(row.parse().unwrap_or_default())));
            }
        });
    }
}
