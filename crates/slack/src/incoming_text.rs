//! Text from Slack as plain text: control sequences are written out, escapes are removed. Mentions of users keep their
//! form `<@U...>`, by which the bot recognises its own.
//!
//! Source: `docs.slack.dev/messaging/formatting-message-text`.

/// Returns the plain text. Linear in the length of the text.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['<', '&']) {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(after) = rest.strip_prefix('<') {
            // Members' own angle brackets are escaped, so this one begins a control sequence.
            match after.find(['<', '>']) {
                Some(end) if after[end..].starts_with('>') => {
                    sequence(&after[..end], &mut plain);
                    rest = &after[end + 1..];
                }
                _ => {
                    plain.push('<');
                    rest = after;
                }
            }
        } else {
            let (c, length) = escape(rest);
            plain.push(c);
            rest = &rest[length..];
        }
    }
    plain.push_str(rest);
    plain
}

/// Returns the character of an escape and the bytes that it takes.
fn escape(text: &str) -> (char, usize) {
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')]
        .into_iter()
        .find_map(|(escaped, c)| text.starts_with(escaped).then_some((c, escaped.len())))
        .unwrap_or(('&', 1))
}

fn unescaped(text: &str, into: &mut String) {
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        into.push_str(&rest[..start]);
        let (c, length) = escape(&rest[start..]);
        into.push(c);
        rest = &rest[start + length..];
    }
    into.push_str(rest);
}

/// Writes a control sequence out.
fn sequence(content: &str, into: &mut String) {
    let (target, label) = content.split_once('|').map_or((content, None), |(target, label)| (target, Some(label)));
    let label = label.filter(|label| !label.is_empty());
    match target.as_bytes().first() {
        Some(b'@') => {
            into.push('<');
            into.push_str(target);
            into.push('>');
        }
        Some(b'#') => {
            into.push('#');
            unescaped(label.unwrap_or(&target[1..]), into);
        }
        Some(b'!') => match label {
            Some(label) => unescaped(label, into),
            None => {
                into.push('@');
                unescaped(target[1..].split('^').next_back().unwrap_or_default(), into);
            }
        },
        _ => {
            let address = target.strip_prefix("mailto:").unwrap_or(target);
            if let Some(label) = label.filter(|label| *label != address && !address.ends_with(&format!("//{label}"))) {
                unescaped(label, into);
                into.push_str(" (");
                unescaped(address, into);
                into.push(')');
            } else {
                unescaped(address, into);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_written_out() {
        for (text, expected) in [
            ("<@U1> hello", "<@U1> hello"),
            ("<@U1|ann> hello", "<@U1> hello"),
            ("in <#C1|general> or <#C2>", "in #general or #C2"),
            ("<!here> and <!subteam^S1|@ops> and <!subteam^S2>", "@here and @ops and @S2"),
            ("<https://a.example/?x=1&amp;y=2>", "https://a.example/?x=1&y=2"),
            ("<https://a.example|the page>", "the page (https://a.example)"),
            ("<http://a.example|a.example>", "http://a.example"),
            ("<mailto:a@b.example|a@b.example>", "a@b.example"),
            ("a &lt;b&gt; &amp;amp; c & d", "a <b> &amp; c & d"),
            ("open < and <b", "open < and <b"),
            ("<>", ""),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[<>&@#!|^a-z;é ]{0,60}") {
            let _ = plain(&text);
        }
    }
}
