//! Masked links. Discord shows only the label of `[label](address)`, so a label that reads like an address of its own could lead
//! people elsewhere: such links are spelled out.

use std::borrow::Cow;
use std::collections::HashMap;

use reqwest::Url;

/// The longest address that Discord makes a link of, in bytes; longer ones stay as they are.
const ADDRESS_MAX: usize = 2_048;
/// The longest end of a name that counts as one of a domain, in letters.
const DOMAIN_END_MAX: usize = 24;
/// How many open brackets, from the innermost on, can begin a link. Discord takes one pair within a label.
const NESTED_MAX: usize = 8;

/// The text with every masked link spelled out whose label reads like an address at another host. Code stays as it is.
pub(super) fn spelled_out(text: &str) -> Cow<'_, str> {
    if !text.contains("](") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    let (marks, closings, hosts) = (CodeMarks::of(text), closings(text), named_hosts(text));
    // Where the innermost brackets that are still open stand, so that no letter is in more labels than these.
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

/// Where the runs of backticks of a text begin, in order, by their lengths.
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

    /// The length of the code that begins with the backticks at `at`, or of those when nothing closes them.
    fn code(&self, text: &str, at: usize) -> usize {
        let length = run(&text[at..]);
        let alike = self.0.get(&length).map(Vec::as_slice).unwrap_or_default();
        let closing = alike.get(alike.partition_point(|begin| *begin < at + length));
        closing.map_or(length, |begin| begin + length - at)
    }
}

/// How many backticks a text begins with.
fn run(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'`').count()
}

/// Where each parenthesis of a text is closed in its own line, by where it opens.
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

/// The address in the parentheses that stand at `at`, and their length.
fn address<'a>(text: &'a str, at: usize, closings: &HashMap<usize, usize>) -> Option<(&'a str, usize)> {
    let end = *closings.get(&at)?;
    let link = (end - at <= ADDRESS_MAX).then(|| text[at + 1..end].split_whitespace().next())??;
    let address = link.strip_prefix('<').and_then(|link| link.strip_suffix('>')).unwrap_or(link);
    Some((address, end + 1 - at))
}

/// Whether a label with these hosts in it reads like an address at another host than that of the link.
fn misleads<'a>(mut named: impl Iterator<Item = &'a String>, address: &str) -> bool {
    let Some(target) = host_of(address) else { return false };
    let leads_there = |host: &String| {
        let host = host.strip_prefix("www.").unwrap_or(host);
        target == host || target.strip_suffix(host).is_some_and(|before| before.ends_with('.'))
    };
    named.any(|host| !leads_there(host))
}

/// The hosts that the words of a text read like, with the places of the words, in order. No word goes over the end of a label.
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

    #[test]
    fn looking_for_links_costs_in_proportion_to_the_text() {
        let texts = |size: usize| {
            // Runs of backticks, each of another length, so that none closes another.
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
