//! Notices to operators about tool servers and built-in tools that fail for long.

use super::template::moment;
use crate::outgoing::Card;
use crate::tool::outage::{Outage, OutageNews, ToolPart};

/// The colour of the card's edge while a part fails: red.
const FAILING: u32 = 0x00E7_4C3C;
/// The colour of the card's edge if all named parts work again: green.
const WORKING: u32 = 0x002E_CC71;

/// The maximum number of parts named in each list of a notice, so that it fits into one card.
const NAMED_MOST: usize = 8;

/// Returns the notice.
#[must_use]
pub fn card(news: &OutageNews) -> Card {
    let failed = news.failed.iter().map(|outage| {
        let reason = match code(&outage.reason) {
            reason if reason.is_empty() => String::new(),
            reason => format!(": `{reason}`"),
        };
        format!("{} has failed since {}{reason}", name(outage), moment(outage.since))
    });
    let recovered = news
        .recovered
        .iter()
        .map(|outage| format!("{} works again. It had failed since {}.", name(outage), moment(outage.since)));
    let mut lines = first(failed, "fail");
    lines.extend(first(recovered, "work again"));
    let colour = if news.failed.is_empty() { WORKING } else { FAILING };
    Card { title: Some("Tools".to_owned()), text: lines.join("\n"), colour: Some(colour), ..Card::default() }
}

/// Returns the first lines, and the number of further ones.
fn first(lines: impl ExactSizeIterator<Item = String>, verb: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(NAMED_MOST);
    let rest = (more > 0).then(|| format!("{more} more {verb}."));
    lines.take(NAMED_MOST).chain(rest).collect()
}

fn name(outage: &Outage) -> String {
    match &outage.part {
        ToolPart::Server(name) => format!("The tool server `{}`", code(name)),
        ToolPart::BuiltIn(name) => format!("The built-in tool `{}`", code(name)),
    }
}

/// Returns text from outside on one line, without characters that end inline code.
fn code(text: &str) -> String {
    text.replace(['`', '\n', '\r'], " ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::ids::Timestamp;
    use crate::tool::outage::{Outages, PartHealth};

    const SINCE: Timestamp = Timestamp(1_800_000_000_000);

    fn news(parts: impl IntoIterator<Item = (ToolPart, &'static str)>) -> (OutageNews, OutageNews) {
        let fails = |reason: &str| PartHealth::Fails { since: SINCE, seen: SINCE, reason: reason.to_owned() };
        let state: BTreeMap<_, _> = parts.into_iter().map(|(part, reason)| (part, fails(reason))).collect();
        let mut outages = Outages::new(SINCE);
        let failed = outages.compare(&state, Duration::ZERO);
        outages.attempted(&failed, true, SINCE);
        let works = state.into_keys().map(|part| (part, PartHealth::Works)).collect();
        (failed, outages.compare(&works, Duration::ZERO))
    }

    #[test]
    fn operators_read_the_failing_part_its_reason_and_its_recovery() {
        let parts = [
            (ToolPart::Server("fm".to_owned()), "nothing answers: `refused`\n@everyone"),
            (ToolPart::BuiltIn("web_search".to_owned()), ""),
        ];
        let (failed, recovered) = news(parts);
        insta::assert_snapshot!(card(&failed).text, @r"
        The tool server `fm` has failed since 2027-01-15 08:00 UTC: `nothing answers:  refused  @everyone`
        The built-in tool `web_search` has failed since 2027-01-15 08:00 UTC
        ");
        insta::assert_snapshot!(card(&recovered).text, @r"
        The tool server `fm` works again. It had failed since 2027-01-15 08:00 UTC.
        The built-in tool `web_search` works again. It had failed since 2027-01-15 08:00 UTC.
        ");
    }

    #[test]
    fn a_long_notice_fits_one_card() {
        let reason = "x".repeat(500).leak();
        let parts = (0..90).map(|number| (ToolPart::Server(format!("{number}{}", "n".repeat(60))), &*reason));
        let (failed, recovered) = news(parts);
        let both = OutageNews { failed: failed.failed, recovered: recovered.recovered };
        let text = card(&both).text;
        assert!(text.chars().count() < 4_096 && text.contains("82 more fail.\n"), "{text}");
        assert!(text.ends_with("82 more work again."), "{text}");
    }
}
