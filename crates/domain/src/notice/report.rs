//! Usage reports for operators.

use std::fmt::Write as _;

use jiff::civil::Date;

use crate::ids::{Door, Person};
use crate::ledger::{Overview, Tally};
use crate::outgoing::Card;

/// The colour of the card's edge: gold.
const COLOUR: u32 = 0x00F1_C40F;

/// Maximum number of members listed, regardless of the settings; more do not fit into one card.
const NAMED_MOST: usize = 50;

/// Returns the usage on these days (last first), with the `top` members by tokens. Members of the door that shows it
/// are mentioned, without a ping.
#[must_use]
pub fn card(days: &[Date], overview: &Overview, top: usize, door: &Door) -> Card {
    let title = match days {
        [] => "Usage".to_owned(),
        [day] => format!("Usage on {day} (UTC)"),
        [last, .., first] => format!("Usage from {first} to {last} (UTC)"),
    };
    let mut lines = vec![summary(overview)];
    let top = top.min(NAMED_MOST);
    if top > 0 && !overview.members.is_empty() {
        lines.push(String::new());
        lines.push("Most tokens:".to_owned());
        for (rank, (person, tally)) in overview.members.iter().take(top).enumerate() {
            lines.push(format!("{}. {}: {}", rank + 1, name(person, door), used(tally)));
        }
        let more = overview.members.len().saturating_sub(top);
        if more > 0 {
            lines.push(format!("and {} more", counted(more as u64, "member", "members")));
        }
    }
    if !overview.own.is_empty() {
        lines.push(String::new());
        lines.push("Used by the bot itself:".to_owned());
        lines.extend(overview.own.iter().map(|(purpose, tally)| format!("{purpose}: {}", used(tally))));
    }
    if overview.total.unpriced > 0 {
        lines.push(String::new());
        let unpriced = counted(overview.total.unpriced, "token", "tokens");
        lines.push(format!("No cost is known for {unpriced}: their models have no prices."));
    }
    Card { title: Some(title), text: lines.join("\n"), colour: Some(COLOUR), ..Card::default() }
}

fn summary(overview: &Overview) -> String {
    let Tally { tokens, tokens_in, tokens_out, cached, messages, micros, .. } = overview.total;
    let members = counted(overview.members.len() as u64, "member", "members");
    let mut text = format!(
        "{} of {members}. {}: {} input ({} cached), {} output.",
        counted(messages, "message", "messages"),
        counted(tokens, "token", "tokens"),
        grouped(tokens_in),
        grouped(cached),
        grouped(tokens_out)
    );
    if micros > 0 {
        let _ = write!(text, " Cost: {}.", dollars(micros));
    }
    text
}

fn used(tally: &Tally) -> String {
    let tokens = counted(tally.tokens, "token", "tokens");
    if tally.micros > 0 { format!("{tokens}, {}", dollars(tally.micros)) } else { tokens }
}

fn name(person: &Person, door: &Door) -> String {
    if person.door == *door { format!("<@{}>", person.id) } else { format!("`{person}`") }
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Formats millionths of a dollar, below one dollar to a hundredth of a cent.
#[must_use]
pub fn dollars(micros: u64) -> String {
    if micros < 1_000_000 {
        let hundredths = (micros + 50) / 100;
        return format!("${}.{:04}", hundredths / 10_000, hundredths % 10_000);
    }
    let cents = (micros + 5_000) / 10_000;
    format!("${}.{:02}", grouped(cents / 100), cents % 100)
}

/// Formats a number with thousands separators.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCORD: Door = Door::new("discord");

    fn tally(tokens: u64, micros: u64) -> Tally {
        Tally { tokens, tokens_in: tokens - 1, tokens_out: 1, messages: 2, micros, ..Tally::default() }
    }

    #[test]
    fn a_report_says_who_used_what() {
        let day: Date = "2026-11-20".parse().unwrap();
        let ada = Person::new(DISCORD, "7");
        let ben = Person::new(Door::new("terminal"), "ben");
        let total = Tally { cached: 1_200, unpriced: 30, ..tally(4_630, 1_500) };
        let members = vec![(ada, tally(4_000, 1_500)), (ben, tally(600, 0)), (Person::new(DISCORD, "9"), tally(9, 0))];
        let overview = Overview { total, members, own: vec![("presence".to_owned(), tally(30, 0))] };
        let card = card(&[day], &overview, 2, &DISCORD);
        assert_eq!(card.title.as_deref(), Some("Usage on 2026-11-20 (UTC)"));
        insta::assert_snapshot!(card.text, @r"
        2 messages of 3 members. 4,630 tokens: 4,629 input (1,200 cached), 1 output. Cost: $0.0015.

        Most tokens:
        1. <@7>: 4,000 tokens, $0.0015
        2. `terminal:ben`: 600 tokens
        and 1 member more

        Used by the bot itself:
        presence: 30 tokens

        No cost is known for 30 tokens: their models have no prices.
        ");
    }

    #[test]
    fn a_long_report_fits_one_card() {
        let days: Vec<Date> = ["2026-11-20", "2026-11-19", "2026-11-18"].map(|day| day.parse().unwrap()).into();
        let person = |number: u64| Person::new(DISCORD, format!("{}", 1_000_000_000_000_000_000 + number));
        let members = (0..500).map(|number| (person(number), tally(u64::MAX / 1_000, u64::MAX / 1_000))).collect();
        let overview = Overview { members, ..Overview::default() };
        let card = card(&days, &overview, 500, &DISCORD);
        assert_eq!(card.title.as_deref(), Some("Usage from 2026-11-18 to 2026-11-20 (UTC)"));
        assert!(card.text.chars().count() < 4_096 && card.text.contains("450 members more"));
    }

    #[test]
    fn money_and_numbers_are_readable() {
        let cases =
            [(0, "$0.0000"), (49, "$0.0000"), (12_345, "$0.0123"), (999_999, "$1.0000"), (1_234_567_890, "$1,234.57")];
        for (micros, text) in cases {
            assert_eq!(dollars(micros), text);
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
