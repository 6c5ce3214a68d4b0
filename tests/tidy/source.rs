//! A Rust file as the rules see it: code without comments, strings and tests, split into tokens.

use std::fmt;

pub struct File {
    /// The path from the root of the repository, with slashes.
    pub path: String,
    /// The content.
    pub text: String,
    /// The same length, with comments and the insides of literals blank.
    pub code: String,
    /// Like `code`, with test code blank too.
    pub shipped: String,
    /// The same length, with everything except comments blank.
    pub comments: String,
}

/// A broken rule.
#[derive(Debug)]
pub struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.what)
    }
}

/// A word, `::`, or any other single character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub at: usize,
    pub text: &'a str,
}

impl File {
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let only_for_tests = room(path).is_none() || path.ends_with("/tests.rs") || path.contains("/tests/");
        let shipped = if only_for_tests { blank(&code) } else { without_tests(&code) };
        Self { path: path.to_owned(), text: text.to_owned(), code, shipped, comments }
    }

    /// Returns the possible paths of modules that this file declares for tests only.
    pub fn test_modules(&self) -> Vec<String> {
        let tokens = tokens(&self.code);
        let mut found = Vec::new();
        for index in (0..tokens.len()).filter(|index| begins_test_item(&tokens[*index..])) {
            let item = &tokens[index..behind_item(&tokens, index)];
            if let [.., Token { text: "mod", .. }, name, Token { text: ";", .. }] = item {
                let folder = self.path.trim_end_matches(".rs");
                let folder = folder.strip_suffix("/lib").or_else(|| folder.strip_suffix("/main")).unwrap_or(folder);
                found.push(format!("{folder}/{}.rs", name.text));
            }
        }
        found
    }

    /// Treats the whole file as test code.
    pub fn only_for_tests(&mut self) {
        self.shipped = blank(&self.code);
    }

    /// Returns the crate of this file, or its top module in the root package; `None` for test files.
    pub fn room(&self) -> Option<&str> {
        room(&self.path)
    }

    pub fn finding(&self, at: usize, rule: &'static str, what: impl Into<String>) -> Finding {
        let line = self.text[..at].matches('\n').count() + 1;
        Finding { path: self.path.clone(), line, rule, what: what.into() }
    }

    /// Returns the literal that begins with the quote at this position.
    pub fn literal(&self, at: usize) -> Option<&str> {
        self.text[at..].strip_prefix('"')?.split('"').next()
    }
}

/// The crate that counts instructions in tests; it is part of no program.
const FOR_TESTS: &str = "cost";

fn room(path: &str) -> Option<&str> {
    if let Some((name, _)) = path.strip_prefix("crates/").and_then(|inside| inside.split_once("/src/")) {
        return Some(name).filter(|name| *name != FOR_TESTS);
    }
    let inside = path.strip_prefix("src/")?;
    Some(inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs"))
}

/// Splits code into tokens.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = if is_word(bytes[at]) {
            bytes[at..].iter().take_while(|byte| is_word(**byte)).count()
        } else if bytes[at..].starts_with(b"::") {
            2
        } else {
            1
        };
        if !bytes[at].is_ascii_whitespace() {
            found.push(Token { at, text: &code[at..at + length] });
        }
        at += length;
    }
    found
}

/// Returns the index after the bracket that closes the one at `open`.
pub fn behind_group(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn blank(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// Splits a text into code and comments, each in place and with the other blank.
fn split(text: &str) -> (String, String) {
    let (mut code, mut comments) = (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word_before = code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let (length, is_comment, inside) = match first {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true, None),
            '/' if rest.starts_with("/*") => (block_comment(rest), true, None),
            '"' => literal(rest, 0, true),
            '\'' => character(rest),
            'r' | 'b' | 'c' if !word_before => prefixed(rest),
            _ => (first.len_utf8(), false, None),
        };
        let (piece, behind) = rest.split_at(length);
        if is_comment {
            code.push_str(&blank(piece));
            comments.push_str(piece);
        } else {
            comments.push_str(&blank(piece));
            match inside {
                Some((from, to)) => {
                    code.push_str(&piece[..from]);
                    code.push_str(&blank(&piece[from..to]));
                    code.push_str(&piece[to..]);
                }
                None => code.push_str(piece),
            }
        }
        rest = behind;
    }
    (code, comments)
}

/// A piece: its length, true for a comment, and the part to blank.
type Piece = (usize, bool, Option<(usize, usize)>);

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let two = rest.as_bytes().get(at..at + 2);
        match two {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Scans a literal whose quote is at `open`.
fn literal(rest: &str, open: usize, escapes: bool) -> Piece {
    let bytes = rest.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 1,
            byte if byte == bytes[open] => return (at + 1, false, Some((open + 1, at))),
            _ => {}
        }
        at += 1;
    }
    (rest.len(), false, Some((open + 1, rest.len())))
}

/// Scans a character literal or a lifetime.
fn character(rest: &str) -> Piece {
    let mut next = rest.chars().skip(1);
    match (next.next(), next.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => literal(rest, 0, true),
        _ => (1, false, None),
    }
}

/// Scans a word that begins with `r`, `b` or `c`: possibly a literal.
fn prefixed(rest: &str) -> Piece {
    let letters = rest.bytes().take_while(|byte| b"rbc".contains(byte)).count();
    let marks = rest.bytes().skip(letters).take_while(|byte| *byte == b'#').count();
    let open = letters + marks;
    let raw = rest[..letters].ends_with('r');
    match rest.as_bytes().get(open) {
        Some(b'"') if letters <= 2 && raw => {
            let end = format!("\"{}", "#".repeat(marks));
            let to = rest[open + 1..].find(&end).map_or(rest.len(), |at| open + 1 + at);
            ((to + end.len()).min(rest.len()), false, Some((open + 1, to)))
        }
        Some(b'"') if letters == 1 && marks == 0 => literal(rest, open, true),
        Some(b'\'') if rest.starts_with("b'") => literal(rest, 1, true),
        _ => (1, false, None),
    }
}

/// Blanks each item that is compiled for tests only.
fn without_tests(code: &str) -> String {
    let tokens = tokens(code);
    let mut out = code.to_owned();
    let mut index = 0;
    while index < tokens.len() {
        if !begins_test_item(&tokens[index..]) {
            index += 1;
            continue;
        }
        let from = tokens[index].at;
        index = behind_item(&tokens, index);
        let to = tokens.get(index).map_or(code.len(), |next| next.at);
        out.replace_range(from..to, &blank(&code[from..to]));
    }
    out
}

fn begins_test_item(tokens: &[Token<'_>]) -> bool {
    let words: Vec<&str> = tokens.iter().take(7).map(|token| token.text).collect();
    matches!(words.as_slice(), ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "all" | "any", "(", "test"])
}

/// Returns the index after an item with its attributes.
fn behind_item(tokens: &[Token<'_>], mut index: usize) -> usize {
    while index < tokens.len() {
        match tokens[index].text {
            ";" => return index + 1,
            "{" => return behind_group(tokens, index),
            "[" | "(" => index = behind_group(tokens, index),
            _ => index += 1,
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let (code, comments) = split(text);
        assert_eq!((code.len(), comments.len()), (text.len(), text.len()));
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_texts_are_blank() {
        for (text, wanted) in [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"f("b \" // c") // d"#, r#"f(" ")"#),
            (r##"f(r#"b " c"#) d"##, r##"f(r#" "#) d"##),
            (r#"f(b"x", c"y", br"z")"#, r#"f(b" ", c" ", br" ")"#),
            (r"'\'' 'x' '\u{1f}' &'a str b'\\' '🦀'", "' ' ' ' ' ' &'a str b' ' ' '"),
            ("r#type number\"//\" crab", "r#type number\" \" crab"),
            ("\"ü\" // ü", "\" \""),
        ] {
            assert_eq!(code(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_only_tests_see_is_not_shipped() {
        let text = "fn a() {}\n#[cfg(test)]\n#[x(y)]\nmod tests { fn b() { { } } }\n#[cfg(test)] mod tests;\n\
                    #[cfg(test)] fn c(d: [u8; 3]) { e }\n#[cfg(not(test))] fn f() {}";
        let shipped = File::new("src/a.rs", text).shipped;
        let kept: Vec<&str> = tokens(&shipped).iter().map(|token| token.text).filter(|text| text.len() == 1).collect();
        assert_eq!(kept.concat(), "a(){}#[(())]f(){}");
        assert!(File::new("src/a/tests.rs", "fn a() {}").shipped.trim().is_empty());
    }

    #[test]
    fn modules_for_tests_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)] mod c { }\n#[cfg(test)] #[path = \"x\"] pub mod d;";
        assert_eq!(File::new("src/a.rs", text).test_modules(), ["src/a/b.rs", "src/a/d.rs"]);
        assert_eq!(File::new("src/lib.rs", text).test_modules(), ["src/b.rs", "src/d.rs"]);
    }

    #[test]
    fn findings_name_the_place() {
        let file = File::new("src/a.rs", "one\ntwo\nthree");
        assert_eq!(file.finding(8, "rule", "what").to_string(), "src/a.rs:3: rule: what");
        assert_eq!(file.room(), Some("a"));
        assert_eq!(File::new("src/a/b.rs", "").room(), Some("a"));
        assert_eq!(File::new("crates/a/src/b/c.rs", "").room(), Some("a"));
        assert_eq!(File::new("crates/cost/src/lib.rs", "").room(), None);
        assert_eq!(File::new("tests/a.rs", "").room(), None);
    }
}
