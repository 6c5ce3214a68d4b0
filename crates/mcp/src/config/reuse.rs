//! The times for which results of a server's tools may be reused.

use std::time::Duration;

use serde_json::Value;

use domain::tool::reuse::Reuse;

pub(super) const KEY: &str = "reuse_results";

/// Reads one time for all tools, or one for each named tool.
///
/// # Errors
/// The mistake, with its fix.
pub(super) fn read(value: Option<&Value>) -> Result<Reuse, String> {
    match value {
        None | Some(Value::Null) => Ok(Reuse::default()),
        Some(Value::Object(tools)) => {
            let tools = tools.iter().map(|(tool, value)| Ok((tool.clone(), time(value)?)));
            Ok(Reuse { usual: None, tools: tools.collect::<Result<_, String>>()? })
        }
        Some(value) => Ok(Reuse { usual: Some(time(value)?), ..Reuse::default() }),
    }
}

/// Reads one time; a number is in seconds.
fn time(value: &Value) -> Result<Duration, String> {
    let read = match value {
        Value::Number(number) => number.as_u64().map(Duration::from_secs),
        Value::String(text) => humantime::parse_duration(text.trim()).ok(),
        _ => None,
    };
    let mistake =
        || format!(r#"{KEY} must be a duration up to one day, such as "10m", or an object with one for each tool"#);
    read.filter(|time| *time <= Reuse::LONGEST).ok_or_else(mistake)
}
