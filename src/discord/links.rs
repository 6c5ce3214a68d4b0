//! Masked links. Discord shows only the label of `[label](address)`, so a label that reads like an address of its own could lead
//! people elsewhere: such links are spelled out.

use std::borrow::Cow;

use reqwest::Url;

/// The longest address that Discord makes a link of, in bytes; longer ones stay as they are.
const ADDRESS_MAX: usize = 2_048;
/// The longest end of a name that counts as one of a domain, in letters.
const DOMAIN_END_MAX: usize = 24;

/// The text with every masked link spelled out whose label reads like an address at another host. Code stays as it is.
pub(super) fn spelled_out(text: &str) -> Cow<'_, str> {
    if !text.contains("](") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    // Where the brackets that are still open stand.
    let mut open: Vec<usize> = Vec::new();
    while let Some(next) = text[at..].find(['[', ']', '`', '\\']) {
        at += next;
        let rest = &text[at..];
        match rest.as_bytes()[0] {
            b'\\' => at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            b'`' => at += code(rest),
            b'[' => {
                open.push(at);
                at += 1;
            }
            _ => {
                let link = open.pop().and_then(|start| Some((start, address(&rest[1..])?)));
                at += 1;
                if let Some((start, (address, length))) = link {
                    let label = &text[start + 1..at - 1];
                    if start >= kept && misleads(label, address) {
                        out.push_str(&text[kept..start]);
                        out.push_str(label);
                        out.push_str(" (");
                        out.push_str(address);
                        out.push(')');
                        kept = at + length;
                    }
                    at += length;
                }
            }
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// The length of the code that a text begins with, or of its backticks when nothing closes them.
fn code(text: &str) -> usize {
    let run = |text: &str| text.bytes().take_while(|byte| *byte == b'`').count();
    let length = run(text);
    let mut at = length;
    while let Some(next) = text[at..].find('`') {
        at += next;
        let closing = run(&text[at..]);
        at += closing;
        if closing == length {
            return at;
        }
    }
    length
}

/// The address in the parentheses that a text begins with, and their length.
fn address(text: &str) -> Option<(&str, usize)> {
    let inside = text.strip_prefix('(')?;
    let mut depth = 0_usize;
    let inside_max = &inside[..inside.floor_char_boundary(ADDRESS_MAX)];
    for (at, letter) in inside_max.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => {
                let link = inside[..at].split_whitespace().next()?;
                let address = link.strip_prefix('<').and_then(|link| link.strip_suffix('>')).unwrap_or(link);
                return Some((address, at + 2));
            }
            ')' => depth -= 1,
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// Whether the label reads like an address at another host than that of the link.
fn misleads(label: &str, address: &str) -> bool {
    let Some(target) = host_of(address) else { return false };
    let plain: String = label.chars().filter(|c| !is_markup(*c)).map(dotted).collect();
    let leads_there = |host: &String| {
        let host = host.strip_prefix("www.").unwrap_or(host);
        target == host || target.strip_suffix(host).is_some_and(|before| before.ends_with('.'))
    };
    let words = plain.split(|c: char| c.is_whitespace() || "()[]{},;\"'<>".contains(c));
    words.filter_map(named_host).any(|host| !leads_there(&host))
}

/// The host that a word reads like, in the form in which addresses are compared.
fn named_host(word: &str) -> Option<String> {
    let has_scheme = word.contains("://");
    let bare = word.split_once("://").map_or(word, |(_, bare)| bare);
    let host = bare.split(['/', '?', '#', '\\']).next()?.rsplit('@').next()?.split(':').next()?.trim_matches('.');
    let (name, end) = host.rsplit_once('.')?;
    let is_domain =
        !name.is_empty() && (2..=DOMAIN_END_MAX).contains(&end.chars().count()) && end.chars().all(char::is_alphabetic);
    if is_domain || has_scheme { host_of(&format!("https://{host}")) } else { None }
}

/// The host of an address, in small letters and plain ASCII.
fn host_of(address: &str) -> Option<String> {
    Url::parse(address).ok()?.host_str().map(str::to_owned)
}

/// What a reader does not see in a label.
const fn is_markup(letter: char) -> bool {
    matches!(letter, '*' | '_' | '~' | '`' | '|' | '\\' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Other dots that look like one.
const fn dotted(letter: char) -> char {
    match letter {
        '。' | '．' | '｡' | '․' => '.',
        letter => letter,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_that_look_like_another_address_are_spelled_out() {
        for (text, shown) in [
            ("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)"),
            ("go to [bank.example](https://evil.example/x) now", "go to bank.example (https://evil.example/x) now"),
            (
                "[**www.bank.example**/login](<https://evil.example>)",
                "**www.bank.example**/login (https://evil.example)",
            ),
            ("[bank.example](https://bank.example@evil.example)", "bank.example (https://bank.example@evil.example)"),
            ("[bank.example](https://bank.example.evil.org)", "bank.example (https://bank.example.evil.org)"),
            ("[bank。example](https://evil.example \"t\")", "bank。example (https://evil.example)"),
            ("[see https://bank.example](https://evil.example)", "see https://bank.example (https://evil.example)"),
            ("[b\u{200b}ank.example](https://evil.example)", "b\u{200b}ank.example (https://evil.example)"),
            ("[[bank.example]](https://evil.example)", "[bank.example] (https://evil.example)"),
            ("[apple.com](https://аpple.com)", "apple.com (https://аpple.com)"),
            ("`[a` [b.org](https://c.org)", "`[a` b.org (https://c.org)"),
        ] {
            assert_eq!(spelled_out(text), shown);
        }
    }

    #[test]
    fn other_links_and_code_stay_as_they_are() {
        for text in [
            "no links at all",
            "[the manual](https://example.org/manual)",
            "[example.org](https://example.org/login)",
            "[example.org](https://docs.example.org)",
            "[www.example.org](https://example.org)",
            "[bank.example] (https://evil.example)",
            "[bank.example](not an address)",
            "```md\n[bank.example](https://evil.example)\n```",
            "`[bank.example](https://evil.example)`",
            "\\[bank.example](https://evil.example)",
            "[e.g. this](https://example.org)",
            "[3.5](https://example.org)",
            "[bank.example](https://evil.example",
            "](](](",
        ] {
            assert_eq!(spelled_out(text), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_never_grows(text in r"(\[|\]|\(|\)|\]\(|`|\\|https://a\.org|b\.org|é|👩| |x){0,80}") {
            prop_assert!(spelled_out(&text).len() <= text.len());
        }
    }
}
