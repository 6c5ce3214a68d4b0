//! Text for Slack: common markup becomes Slack's own (`mrkdwn`), and nothing in it can notify: `&`, `<` and `>` are
//! escaped, so no mention of a user, a group or a channel is left, and `@channel` and its like are broken by an
//! invisible character.
//!
//! Source: `docs.slack.dev/messaging/formatting-message-text`.

use std::borrow::Cow;

use crate::commands;
use domain::split::split;

/// The longest text of one message before it is converted, in Unicode scalar values. An escape takes at most five
/// characters for one, so a converted message stays below the 13,200 characters that Slack accepts.
pub(super) const TEXT_LIMIT: usize = 2_600;
/// The longest text outside of blocks, in characters: `chat.update` refuses longer ones.
pub(super) const PLAIN_MAX: usize = 4_000;
/// The longest text of a section block, in characters.
const SECTION_MAX: usize = 3_000;
/// The lengths at which a text is cut until each piece fits a section; the last fits in any case.
const CUTS: [usize; 3] = [2_400, 1_200, 590];
/// The names that notify many members.
const CALLS: [&str; 3] = ["channel", "here", "everyone"];
/// An invisible character that separates a sign from its name.
const JOINER: char = '\u{2060}';
const FENCE: &str = "```";

/// Converts a text of at most [`TEXT_LIMIT`] characters, which bounds the cost of marks without an end.
pub(super) fn convert(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut fenced = false;
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if let Some(info) = line.trim_start().strip_prefix(FENCE) {
            out.push_str(FENCE);
            // Slack would show the name of the language as the first line.
            if fenced || info.contains(FENCE) {
                escape(info, &mut out);
            }
            fenced = !fenced && !info.contains(FENCE);
        } else if fenced {
            escape(line, &mut out);
        } else {
            convert_line(line, &mut out);
        }
    }
    out
}

/// Converts a text that is too long for one plain message into texts of section blocks.
pub(super) fn sections(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for cut in CUTS {
        pieces = split(text, cut).iter().map(|piece| convert(piece)).collect();
        if pieces.iter().all(|piece: &String| piece.chars().count() <= SECTION_MAX) {
            break;
        }
    }
    for piece in &mut pieces {
        if let Some((end, _)) = piece.char_indices().nth(SECTION_MAX) {
            piece.truncate(end);
        }
    }
    pieces
}

fn convert_line(line: &str, out: &mut String) {
    let indent = line.len() - line.trim_start().len();
    let (blank, rest) = line.split_at(indent);
    out.push_str(blank);
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&hashes) && rest[hashes..].starts_with(' ') {
        let title = rest[hashes..].trim().replace("**", "");
        out.push('*');
        inline(&title, out);
        out.push('*');
    } else if let Some(item) = rest.strip_prefix("- ").or_else(|| rest.strip_prefix("* ")) {
        out.push_str("• ");
        inline(item, out);
    } else {
        inline(rest, out);
    }
}

/// Converts markup within a line.
fn inline(line: &str, out: &mut String) {
    let mut rest = line;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '`' => code(rest, out),
            '*' | '_' | '~' => emphasis(rest, before, out),
            '[' => link(rest, out),
            '!' if rest.starts_with("![") => link(&rest[1..], out).map(|taken| taken + 1),
            '<' => address(rest, out),
            _ => None,
        };
        let taken = taken.unwrap_or_else(|| {
            one(c, rest, out);
            c.len_utf8()
        });
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
}

/// Copies one character so that it has no meaning.
fn one(c: char, rest: &str, out: &mut String) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '@' if CALLS.iter().any(|name| begins_with(&rest[1..], name)) => {
            out.push('@');
            out.push(JOINER);
        }
        c => out.push(c),
    }
}

fn begins_with(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}

fn escape(text: &str, out: &mut String) {
    for (index, c) in text.char_indices() {
        one(c, &text[index..], out);
    }
}

/// Copies code within a line; returns the bytes read.
fn code(rest: &str, out: &mut String) -> Option<usize> {
    let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
    let body = &rest[ticks..];
    let end = body.find(&rest[..ticks]).filter(|end| *end > 0)?;
    let marks = if ticks >= FENCE.len() { FENCE } else { "`" };
    out.push_str(marks);
    escape(&commands::shown(body[..end].trim_matches(if ticks > 1 { ' ' } else { '\0' })), out);
    out.push_str(marks);
    Some(ticks + end + ticks)
}

/// Converts emphasised text; returns the bytes read.
fn emphasis(rest: &str, before: Option<char>, out: &mut String) -> Option<usize> {
    // `snake_case` is no emphasis.
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let (mark, open, close) =
        [("***", "*_", "_*"), ("**", "*", "*"), ("__", "*", "*"), ("~~", "~", "~"), ("*", "_", "_"), ("_", "_", "_")]
            .into_iter()
            .find(|(mark, ..)| rest.starts_with(mark))?;
    let body = &rest[mark.len()..];
    if body.starts_with(|c: char| c.is_whitespace() || mark.starts_with(c)) {
        return None;
    }
    let end = body.find(mark).filter(|end| *end > 0)?;
    let inner = &body[..end];
    let follows = body[end + mark.len()..].chars().next();
    if inner.ends_with(char::is_whitespace) || follows.is_some_and(char::is_alphanumeric) {
        return None;
    }
    out.push_str(open);
    // Emphasis within emphasis of another kind has no form in Slack that is worth a parser.
    let plain: Cow<'_, str> = if inner.contains("**") { inner.replace("**", "").into() } else { inner.into() };
    escape(&plain, out);
    out.push_str(close);
    Some(mark.len() + end + mark.len())
}

/// Converts `[label](address)`; returns the bytes read.
fn link(rest: &str, out: &mut String) -> Option<usize> {
    let end = rest.find(']')?;
    let (label, after) = (&rest[1..end], &rest[end + 1..]);
    let inner = after.strip_prefix('(')?;
    let close = inner.find(')')?;
    let target = inner[..close].split_whitespace().next()?.trim_matches(['<', '>']);
    if !is_address(target) {
        return None;
    }
    out.push('<');
    write_address(target, out);
    let label = label.trim();
    if !label.is_empty() {
        out.push('|');
        for (index, c) in label.char_indices() {
            // A bar would end the label's address.
            if c == '|' { out.push('/') } else { one(c, &label[index..], out) }
        }
    }
    out.push('>');
    Some(end + 1 + 1 + close + 1)
}

/// Converts `<https://...>`; returns the bytes read.
fn address(rest: &str, out: &mut String) -> Option<usize> {
    let end = rest.find('>')?;
    let target = &rest[1..end];
    if !is_address(target) {
        return None;
    }
    out.push('<');
    write_address(target, out);
    out.push('>');
    Some(end + 1)
}

/// True if Slack may show a link to this address. All others, also Slack's own control sequences, stay text.
fn is_address(target: &str) -> bool {
    let known = ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
    known && !target.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn write_address(target: &str, out: &mut String) {
    for c in target.chars() {
        match c {
            '|' => out.push_str("%7C"),
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_that_of_slack() {
        for (text, expected) in [
            ("**bold** and *italic* and ~~gone~~", "*bold* and _italic_ and ~gone~"),
            ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
            ("# Title\n- one\n- two", "*Title*\n• one\n• two"),
            (
                "- one\n  - two\n    * **three**\n1. four\n   - five",
                "• one\n  • two\n    • *three*\n1. four\n   • five",
            ),
            ("| a | b |\n|---|---|\n| 1 < 2 | c |", "| a | b |\n|---|---|\n| 1 &lt; 2 | c |"),
            ("[a page](https://a.example/?x=1&y=2)", "<https://a.example/?x=1&amp;y=2|a page>"),
            ("<https://a.example>", "<https://a.example>"),
            ("[odd](javascript:alert)", "[odd](javascript:alert)"),
            ("`a < b` and ``x ` y``", "`a &lt; b` and `x ` y`"),
            ("```rust\nlet a = b && c;\n```", "```\nlet a = b &amp;&amp; c;\n```"),
            ("> quoted", "&gt; quoted"),
            ("***both***", "*_both_*"),
            ("`/help`, `/remember fact:` and `/helpful`", "`/staffai help`, `/staffai remember …` and `/helpful`"),
        ] {
            assert_eq!(convert(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_in_a_text_notifies() {
        for text in [
            "<!channel>",
            "<@U1>",
            "<!subteam^S1>",
            "<#C1>",
            "@channel @here @Everyone",
            "[x](<!here>)",
            "[<!here>](https://a.example)",
            "**<@U1>**",
            "`<@U1>`",
            "# <!everyone>",
            "```\n<!channel>\n```",
            "<https://a.example|<!here>>",
        ] {
            let converted = convert(text);
            for call in ["<!", "<@", "<#", "@channel", "@here", "@Everyone"] {
                assert!(!converted.contains(call), "{text} became {converted}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_stays_within_bounds_and_mentions_nothing(text in "[<>&@!|`*_~#\\[\\]() a-zé\n]{0,400}") {
            let converted = convert(&text);
            proptest::prop_assert!(!converted.contains("<!") && !converted.contains("<@"));
            proptest::prop_assert!(converted.chars().count() <= text.chars().count() * 5 + 8);
        }
    }

    #[test]
    fn the_worst_text_fits_blocks() {
        let worst = "&".repeat(TEXT_LIMIT);
        let sections = sections(&worst);
        assert!(sections.iter().all(|section| section.chars().count() <= SECTION_MAX));
        assert_eq!(sections.concat().replace("&amp;", "&").chars().filter(|c| *c == '&').count(), TEXT_LIMIT);
        assert!(sections.iter().map(|section| section.chars().count()).sum::<usize>() <= 13_200);
    }
}
