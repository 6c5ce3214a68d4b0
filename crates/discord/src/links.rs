//! Masked links. Discord shows only the label of `[label](address)`. A label that looks like a different address could
//! mislead readers, so such links are expanded to show their address.

use std::borrow::Cow;
use std::collections::HashMap;

use reqwest::Url;

/// The longest address that Discord turns into a link, in bytes; longer ones are not changed.
const ADDRESS_MAX: usize = 2_048;
/// The longest top-level domain, in letters.
const DOMAIN_END_MAX: usize = 24;
/// The number of open brackets, from the innermost outwards, that can begin a link. Discord allows one nested pair in a
/// label.
const NESTED_MAX: usize = 8;

/// Returns the text with each masked link expanded whose label looks like an address at another host. Code is not
/// changed.
pub(super) fn spelled_out(text: &str) -> Cow<'_, str> {
    if !text.contains("](") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    let (marks, closings, hosts) = (CodeMarks::of(text), closings(text), named_hosts(text));
    // Positions of the innermost open brackets; the bound also bounds the number of labels that contain a letter.
    let mut open: Vec<usize> = Vec::with_capacity(NESTED_MAX);
    while let Some(next) = text[at..].find(['[', ']', '`', '\\']) {
        at += next;
        let rest = &text[at..];
        match rest.as_bytes()[0] {
            b'\\' => at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            b'`' => at += marks.code(text, at),
            b'[' => {
                if open.len() == NESTED_MAX {
                    open.remove(0);
                }
                open.push(at);
                at += 1;
            }
            _ => {
                let link = open.pop().and_then(|start| Some((start, address(text, at + 1, &closings)?)));
                at += 1;
                if let Some((start, (address, length))) = link {
                    let first = hosts.partition_point(|(place, _)| *place < start);
                    let named = hosts[first..].iter().take_while(|(place, _)| *place < at - 1).map(|(_, host)| host);
                    if start >= kept && misleads(named, address) {
                        out.push_str(&text[kept..start]);
                        out.push_str(&text[start + 1..at - 1]);
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

/// The positions of runs of backticks in a text, in order, keyed by their length.
struct CodeMarks(HashMap<usize, Vec<usize>>);

impl CodeMarks {
    fn of(text: &str) -> Self {
        let mut runs: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut at = 0;
        while let Some(next) = text[at..].find('`') {
            at += next;
            let length = run(&text[at..]);
            runs.entry(length).or_default().push(at);
            at += length;
        }
        Self(runs)
    }

    /// Returns the length of the code span that begins with the backticks at `at`, or of the backticks alone if none
    /// close them.
    fn code(&self, text: &str, at: usize) -> usize {
        let length = run(&text[at..]);
        let alike = self.0.get(&length).map(Vec::as_slice).unwrap_or_default();
        let closing = alike.get(alike.partition_point(|begin| *begin < at + length));
        closing.map_or(length, |begin| begin + length - at)
    }
}

/// Returns the number of backticks at the start of a text.
fn run(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'`').count()
}

/// Maps each opening parenthesis to its closing one in the same line.
fn closings(text: &str) -> HashMap<usize, usize> {
    let (mut open, mut closings) = (Vec::new(), HashMap::new());
    for at in memchr::memchr3_iter(b'(', b')', b'\n', text.as_bytes()) {
        match text.as_bytes()[at] {
            b'(' => open.push(at),
            b')' => closings.extend(open.pop().map(|opening| (opening, at))),
            _ => open.clear(),
        }
    }
    closings
}

/// Returns the address in the parentheses at `at`, and its length with them.
fn address<'a>(text: &'a str, at: usize, closings: &HashMap<usize, usize>) -> Option<(&'a str, usize)> {
    let end = *closings.get(&at)?;
    let link = (end - at <= ADDRESS_MAX).then(|| text[at + 1..end].split_whitespace().next())??;
    let address = link.strip_prefix('<').and_then(|link| link.strip_suffix('>')).unwrap_or(link);
    Some((address, end + 1 - at))
}

/// True if a label with these hosts looks like an address at a host other than the link's.
fn misleads<'a>(mut named: impl Iterator<Item = &'a String>, address: &str) -> bool {
    let Some(target) = host_of(address) else { return false };
    let leads_there = |host: &String| {
        let host = host.strip_prefix("www.").unwrap_or(host);
        target == host || target.strip_suffix(host).is_some_and(|before| before.ends_with('.'))
    };
    named.any(|host| !leads_there(host))
}

/// Returns the hosts that words of a text look like, with the positions of the words, in order. A word ends at the end
/// of a label.
fn named_hosts(text: &str) -> Vec<(usize, String)> {
    let ends = |c: char| c.is_whitespace() || "()[]{},;\"'<>".contains(c);
    let mut hosts = Vec::new();
    let mut at = 0;
    for word in text.split(ends) {
        let plain: String = word.chars().filter(|c| !is_markup(*c)).map(dotted).collect();
        hosts.extend(named_host(&plain).map(|host| (at, host)));
        at += word.len() + text[at + word.len()..].chars().next().map_or(0, char::len_utf8);
    }
    hosts
}

/// Returns the host that a word looks like, normalised for comparison.
fn named_host(word: &str) -> Option<String> {
    let has_scheme = word.contains("://");
    let bare = word.split_once("://").map_or(word, |(_, bare)| bare);
    let host = bare.split(['/', '?', '#', '\\']).next()?.rsplit('@').next()?.split(':').next()?.trim_matches('.');
    let (name, end) = host.rsplit_once('.')?;
    let is_domain =
        !name.is_empty() && (2..=DOMAIN_END_MAX).contains(&end.chars().count()) && end.chars().all(char::is_alphabetic);
    if is_domain || has_scheme { host_of(&format!("https://{host}")) } else { None }
}

/// Returns the host of an address, in lower-case ASCII.
fn host_of(address: &str) -> Option<String> {
    Url::parse(address).ok()?.host_str().map(str::to_owned)
}

/// True for markup characters, which are invisible in a label.
const fn is_markup(letter: char) -> bool {
    matches!(letter, '*' | '_' | '~' | '`' | '|' | '\\' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Maps other Unicode dots that look like a full stop to one.
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

    #[test]
    fn looking_for_links_costs_in_proportion_to_the_text() {
        let texts = |size: usize| {
            // Runs of backticks of distinct lengths, so that none closes another.
            let runs: Vec<String> =
                (1..size).map(|length| "`".repeat(length)).take_while(|run| run.len() * run.len() < 2 * size).collect();
            let links = "](https://b.org)";
            vec![
                format!("{} ](", runs.join(" ")),
                "[".repeat(size),
                format!("{}{}", "[".repeat(size / 32), links.repeat(size / 32)),
                format!("{}{}", "[b.org ".repeat(size / 16), links.repeat(size / 32)),
                "[](".repeat(size / 3),
                format!("{}{}", "[".repeat(size / 2), "](".repeat(size / 4)),
                "\\`".repeat(size / 2),
            ]
        };
        cost::grows_linearly(4 * 1024, texts, |texts| {
            for text in &texts {
                drop(spelled_out(text));
            }
        });
    }

    #[test]
    fn a_link_in_a_label_does_not_hide_the_label() {
        for text in [
            "[bank.example [x](https://c.org)](https://evil.example)",
            &format!("{}[bank.example](https://evil.example)", "[".repeat(50)),
        ] {
            assert_ne!(spelled_out(text), text);
        }
    }
}
