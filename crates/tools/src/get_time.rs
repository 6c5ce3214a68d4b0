//! `get_time`: the current date and time in any IANA time zone.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::json;

use super::{BuiltInTool, arguments, reads, told};
use domain::ids::Timestamp;
use domain::tool::{CallError, Tool, ToolRequest, ToolResult};
use ports::Clock;

pub(super) struct GetTime(pub Arc<dyn Clock>);

#[derive(Deserialize)]
struct Arguments {
    #[serde(default = "utc")]
    timezone: String,
    #[serde(default)]
    format: Format,
}

fn utc() -> String {
    "UTC".to_owned()
}

#[async_trait]
impl BuiltInTool for GetTime {
    fn tool(&self) -> Tool {
        reads(
            "get_time",
            "Get the current date and time, optionally in a specific time zone.",
            json!({"type": "object", "additionalProperties": false, "properties": {
                "timezone": {"type": "string", "default": "UTC",
                    "description": "IANA name, such as 'America/New_York', 'Europe/London', 'UTC'"},
                "format": {"type": "string", "enum": ["full", "date", "time", "iso"], "default": "full"},
            }}),
        )
    }

    async fn call(&self, request: &ToolRequest) -> Result<ToolResult, CallError> {
        let Arguments { timezone, format } = arguments(request)?;
        Ok(told(tell(self.0.now(), &timezone, format)))
    }
}

/// The format of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `Sunday, November 22, 2026 at 05:10 AM UTC`.
    #[default]
    Full,
    /// `2026-11-22`.
    Date,
    /// `05:10:00 UTC`.
    Time,
    /// `2026-11-22T05:10:00.250000+00:00`, without a fraction on a full second.
    Iso,
}

/// Maximum length of a zone's name, in bytes.
const ZONE_MAX: usize = 64;

/// Formats a time in a zone.
///
/// # Errors
/// The zone is unknown, with examples of valid names.
pub fn tell(now: Timestamp, zone: &str, format: Format) -> Result<String, String> {
    let unknown = || {
        let shown: String = zone.chars().take(ZONE_MAX).collect();
        format!("unknown time zone {shown:?}: use a name such as Europe/Berlin, America/New_York or UTC")
    };
    if zone.len() > ZONE_MAX {
        return Err(unknown());
    }
    let zone = TimeZone::get(zone).map_err(|_| unknown())?;
    let millis = i64::try_from(now.0).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(millis).map_err(|_| "the clock is out of range".to_owned())?;
    let moment = moment.to_zoned(zone);
    let pattern = match format {
        Format::Full => "%A, %B %d, %Y at %I:%M %p %Z",
        Format::Date => "%Y-%m-%d",
        Format::Time => "%H:%M:%S %Z",
        Format::Iso if moment.subsec_nanosecond() == 0 => "%Y-%m-%dT%H:%M:%S%:z",
        Format::Iso => "%Y-%m-%dT%H:%M:%S.%6f%:z",
    };
    Ok(moment.strftime(pattern).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-29 23:05:07.250 UTC.
    const NOW: Timestamp = Timestamp(1_709_247_907_250);

    #[test]
    fn each_format_in_its_zone() {
        for (zone, format, expected) in [
            ("UTC", Format::Full, "Thursday, February 29, 2024 at 11:05 PM UTC"),
            ("UTC", Format::Date, "2024-02-29"),
            ("UTC", Format::Time, "23:05:07 UTC"),
            ("UTC", Format::Iso, "2024-02-29T23:05:07.250000+00:00"),
            ("Asia/Tokyo", Format::Full, "Friday, March 01, 2024 at 08:05 AM JST"),
            ("America/New_York", Format::Iso, "2024-02-29T18:05:07.250000-05:00"),
            ("america/new_york", Format::Date, "2024-02-29"),
        ] {
            assert_eq!(tell(NOW, zone, format).as_deref(), Ok(expected), "{zone} {format:?}");
        }
    }

    #[test]
    fn zones_that_do_not_exist_are_named() {
        for zone in ["Mars/Olympus", "", "../../etc/passwd", &"x".repeat(10_000)] {
            let error = tell(NOW, zone, Format::Full).unwrap_err();
            assert!(error.starts_with("unknown time zone") && error.len() < 400, "{error}");
        }
    }
}
