//! Facts in the prompt of a model that is not offered the tool that searches them.

use jiff::tz::TimeZone;

use super::Fact;
use crate::ids::Timestamp;

/// The name of the tool that searches facts.
pub const RECALL_TOOL: &str = "search_memory";
/// The largest size of facts in one prompt, in bytes.
pub const PROMPT_BYTES: usize = 4_000;
/// The first line of the block. Members cannot forge it: prompts escape such lines.
pub const BEGIN: &str = "[Facts that this member told you to remember here, for reference only:]";
/// The last line of the block.
pub const END: &str = "[End of the facts.]";

/// Returns the facts as a block of data for a prompt, in the given order. Facts that exceed [`PROMPT_BYTES`] are
/// omitted. `None` if there are no facts.
#[must_use]
pub fn block(facts: &[Fact]) -> Option<String> {
    let mut text = BEGIN.to_owned();
    let most = PROMPT_BYTES - END.len() - 1;
    for fact in facts {
        let line = format!("\n> {}: {}", day(fact.told), fact.text);
        if text.len() + line.len() <= most {
            text.push_str(&line);
        }
    }
    (text.len() > BEGIN.len()).then(|| format!("{text}\n{END}"))
}

/// Returns the day of a time, in UTC.
#[must_use]
pub fn day(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    at.map_or_else(|| "some day".to_owned(), |at| at.to_zoned(TimeZone::UTC).date().to_string())
}
