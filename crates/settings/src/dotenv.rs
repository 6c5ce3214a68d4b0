//! The `.env` file in the syntax of the Python bot's library: comments (also after a value), quotes, `export`, quoted
//! values over several lines, and `${NAME}` or `${NAME:-default}` in a value.
//!
//! An unreadable line is skipped with a warning and never stops the bot.

pub mod editing;

use std::collections::BTreeMap;

/// The most bytes by which expansion may grow all values together, so that nested variables cannot exhaust memory.
const EXPANDED_MAX: usize = 1024 * 1024;

/// The contents of a `.env` file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DotEnv {
    /// The value and line of each name; the later of two lines for one name counts.
    pub values: BTreeMap<String, (String, usize)>,
    /// Skipped lines with the reason, which never contains the value.
    pub skipped: Vec<(usize, &'static str)>,
}

/// Parses a file. `environment` takes precedence for names in `${NAME}`.
#[must_use]
pub fn parse(text: &str, environment: &BTreeMap<String, String>) -> DotEnv {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let mut reader = Reader { rest: &text, line: 1 };
    let mut file = DotEnv::default();
    let mut room = EXPANDED_MAX;
    while !reader.rest.is_empty() {
        let line = reader.line;
        match reader.statement() {
            Ok(None) => {}
            Ok(Some((name, raw))) => {
                let value = expand(&raw, &mut room, |name| {
                    let own = || file.values.get(name).map(|(value, _)| value.as_str());
                    environment.get(name).map(String::as_str).or_else(own)
                });
                match value {
                    Some(value) => drop(file.values.insert(name, (value, line))),
                    None => file.skipped.push((line, "the expanded variables exceed 1 MiB")),
                }
            }
            Err(reason) => file.skipped.push((line, reason)),
        }
    }
    file
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    /// Reads one statement, which may span several lines in quotes.
    fn statement(&mut self) -> Result<Option<(String, String)>, &'static str> {
        let line = self.rest.split('\n').next().unwrap_or_default();
        let statement = line.trim_start();
        if statement.is_empty() || statement.starts_with('#') {
            self.skip(line.len() + 1);
            return Ok(None);
        }
        let bare = match statement.strip_prefix("export") {
            Some(after) if after.starts_with([' ', '\t']) => after.trim_start(),
            _ => statement,
        };
        let Some((name, after)) = bare.split_once('=') else {
            self.skip(line.len() + 1);
            return Err("it contains no =");
        };
        let name = name.trim().trim_matches(['\'', '"']).to_owned();
        if name.is_empty() || name.contains(char::is_whitespace) {
            self.skip(line.len() + 1);
            return Err("the name before = is not one word");
        }
        let blank = after.len() - after.trim_start().len();
        let value_at = line.len() - after.len() + blank;
        let Some(quote @ ('"' | '\'')) = after.trim_start().chars().next() else {
            let value = uncommented(after).trim().to_owned();
            self.skip(line.len() + 1);
            return Ok(Some((name, value)));
        };
        let (value, length) = self.quoted(value_at, quote).inspect_err(|_| self.skip(line.len() + 1))?;
        let tail = self.rest[value_at + length..].split('\n').next().unwrap_or_default();
        let clean = tail.trim_start().is_empty() || tail.trim_start().starts_with('#');
        self.skip(value_at + length + tail.len() + 1);
        if clean { Ok(Some((name, value))) } else { Err("there is text after the closing quote") }
    }

    /// Returns the value whose opening quote is at `start`, and its length with both quotes.
    fn quoted(&self, start: usize, quote: char) -> Result<(String, usize), &'static str> {
        let mut value = String::new();
        let mut chars = self.rest[start..].char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => return Ok((value, at + 1)),
                '\\' => match chars.next() {
                    Some((_, escaped)) => unescape(escaped, quote, &mut value),
                    None => break,
                },
                c => value.push(c),
            }
        }
        Err("the closing quote is missing")
    }

    fn skip(&mut self, bytes: usize) {
        let (done, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += done.matches('\n').count();
        self.rest = rest;
    }
}

/// Double quotes support the usual escapes; single quotes only those of the quote and the backslash.
fn unescape(escaped: char, quote: char, value: &mut String) {
    let plain = match (quote, escaped) {
        (_, '\\' | '\'') | ('"', '"') => escaped,
        ('"', 'n') => '\n',
        ('"', 'r') => '\r',
        ('"', 't') => '\t',
        _ => {
            value.push('\\');
            escaped
        }
    };
    value.push(plain);
}

/// Returns the part before a comment, which begins with `#` at the start or after a blank.
fn uncommented(value: &str) -> &str {
    let comment = value
        .char_indices()
        .find(|(at, c)| *c == '#' && value[..*at].chars().next_back().is_none_or(char::is_whitespace) && (*at > 0));
    comment.map_or(value, |(at, _)| &value[..at])
}

/// Expands names in braces; `None` if the result exceeds `room`.
fn expand<'v>(raw: &'v str, room: &mut usize, lookup: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
    let mut value = String::new();
    let mut rest = raw;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        let inner = &rest[start + 2..start + length];
        let (name, otherwise) = inner.split_once(":-").unwrap_or((inner, ""));
        let meant = lookup(name).unwrap_or(otherwise);
        *room = room.checked_sub(meant.len())?;
        value.push_str(&rest[..start]);
        value.push_str(meant);
        rest = &rest[start + length + 1..];
    }
    Some(value + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        let file = parse(text, &BTreeMap::new());
        assert_eq!(file.skipped, [], "every line should be readable");
        file.values.into_iter().map(|(name, (value, _))| (name, value)).collect()
    }

    fn value(text: &str) -> String {
        values(text).pop().expect("one value").1
    }

    #[test]
    fn plain_values_end_at_a_comment() {
        assert_eq!(value("A=15              # messages"), "15");
        assert_eq!(value("A=a#b"), "a#b");
        assert_eq!(value("A= # nothing"), "");
        assert_eq!(value("A="), "");
        assert_eq!(value("A = two words "), "two words");
        assert_eq!(value("  export A=1"), "1");
        assert_eq!(value("export\tA=1"), "1");
    }

    #[test]
    fn quotes_keep_what_is_inside() {
        assert_eq!(value(r#"A="a # b" # comment"#), "a # b");
        assert_eq!(value("A=' a ' "), " a ");
        assert_eq!(value(r#"A="line\nnext \"quoted\" \\ \d""#), "line\nnext \"quoted\" \\ \\d");
        assert_eq!(value(r"A='raw\n it\'s'"), r"raw\n it's");
        assert_eq!(value("A=\"one\ntwo\""), "one\ntwo");
        assert_eq!(value("A=<#{channel_id}> é"), "<#{channel_id}> é");
    }

    #[test]
    fn a_byte_order_mark_and_foreign_line_ends_do_no_harm() {
        let file = parse("\u{feff}A=1\r\n\r\n# note\r\nB=\"2\"\r\nC=3", &BTreeMap::new());
        let expected = [("A", "1", 1), ("B", "2", 4), ("C", "3", 5)];
        let expected = expected.map(|(name, value, line)| (name.to_owned(), (value.to_owned(), line)));
        assert_eq!(file, DotEnv { values: expected.into(), skipped: vec![] });
    }

    #[test]
    fn names_in_braces_are_replaced_and_the_environment_is_asked_first() {
        let environment = BTreeMap::from([("HOST".to_owned(), "real".to_owned())]);
        let text = "HOST=file\nPORT=1\nURL=http://${HOST}:${PORT}/${PATH_:-x}${NONE}$PORT ${open";
        let file = parse(text, &environment);
        assert_eq!(file.values["URL"].0, "http://real:1/x$PORT ${open");
    }

    #[test]
    fn unreadable_lines_are_named_and_the_rest_is_read() {
        let file = parse("what is this\nA='open\nB=2\n=3\nC=\"3\" 4\nD=5", &BTreeMap::new());
        let names: Vec<&str> = file.values.keys().map(String::as_str).collect();
        assert_eq!(names, ["B", "D"]);
        let lines: Vec<usize> = file.skipped.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 4, 5]);
    }

    #[test]
    fn names_that_hold_each_other_fill_no_memory() {
        let doubled = |number: usize| format!("A{number}=${{A{0}}}${{A{0}}}", number - 1);
        let text: Vec<String> = std::iter::once("A0=xxxxxxxx".to_owned()).chain((1..40).map(doubled)).collect();
        let file = parse(&text.join("\n"), &BTreeMap::new());
        assert!(file.values.values().map(|(value, _)| value.len()).sum::<usize>() <= 2 * EXPANDED_MAX);
        assert!(file.skipped.iter().all(|(_, reason)| reason.contains("1 MiB")) && !file.skipped.is_empty());
    }

    #[test]
    fn any_file_costs_in_proportion_to_its_length() {
        let files = |size: usize| {
            vec![
                "A=1\n".repeat(size / 4),
                "A=\"\n".repeat(size / 4),
                "A='x\nB=\"\n".repeat(size / 9),
                format!("A={}", "${".repeat(size / 2)),
                format!("A={}", "#".repeat(size)),
                (0..size / 16).map(|line| format!("A{line}=${{A0}}x\n")).collect::<Vec<_>>().concat(),
            ]
        };
        cost::grows_linearly(2 * 1024, files, |files| {
            for file in &files {
                drop(parse(file, &BTreeMap::new()));
            }
        });
    }
}
