//! Edits a `.env` file without changing other lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::parse;

/// Returns the text with each name set to its value. The last line that sets a name is replaced, else a commented line
/// such as `#NAME=` of the example file, else a line is added at the end.
///
/// Returns `None` if the changed text would not be read as meant: every other variable as before, and each of these with
/// its value. That happens if a value spans several lines, or if a value contains `${`, which the reader expands.
#[must_use]
pub fn with_values(text: &str, values: &[(&str, &str)]) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, value) in values {
        let line = format!("{name}={}", quoted(value));
        let sets = |line: &String| name_of(line).is_some_and(|set| set == *name);
        let commented = |line: &String| line.strip_prefix('#').and_then(name_of).is_some_and(|set| set == *name);
        match lines.iter().rposition(sets).or_else(|| lines.iter().position(commented)) {
            Some(index) => lines[index] = line,
            None => lines.push(line),
        }
    }
    let mut changed = String::new();
    for line in lines {
        let _ = writeln!(changed, "{line}");
    }
    let read = |text: &str| -> BTreeMap<String, String> {
        parse(text, &BTreeMap::new()).values.into_iter().map(|(name, (value, _))| (name, value)).collect()
    };
    let mut meant = read(text);
    meant.extend(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    (read(&changed) == meant).then_some(changed)
}

fn name_of(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim_start();
    Some(name.strip_prefix("export ").unwrap_or(name).trim())
}

/// Returns the value in a form that is parsed unchanged: bare if it has no special character, else in single quotes,
/// where only the quote and the backslash are escaped.
fn quoted(value: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:@+,=".contains(c);
    if value.chars().all(bare) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, name: &str) -> Option<String> {
        parse(text, &BTreeMap::new()).values.get(name).map(|(value, _)| value.clone())
    }

    #[test]
    fn every_other_line_stays_and_the_values_are_read_back() {
        let text = "# mine\nexport A=1\n#B=2\nC='x # y'\n";
        let changed = with_values(text, &[("A", "new"), ("B", "a b#c"), ("D", "it's \\ fine")]).unwrap();
        assert_eq!(changed, "# mine\nA=new\nB='a b#c'\nC='x # y'\nD='it\\'s \\\\ fine'\n");
        for (name, value) in [("A", "new"), ("B", "a b#c"), ("C", "x # y"), ("D", "it's \\ fine")] {
            assert_eq!(read(&changed, name).as_deref(), Some(value), "{changed}");
        }
    }

    #[test]
    fn of_two_lines_the_one_that_counts_is_replaced_and_nothing_is_added_twice() {
        let changed = with_values("A=1\nA=2\n", &[("A", "3")]).unwrap();
        assert_eq!((changed.as_str(), read(&changed, "A").as_deref()), ("A=1\nA=3\n", Some("3")));
        assert_eq!(with_values(&changed, &[("A", "3")]).as_deref(), Some(changed.as_str()));
        assert_eq!(with_values("", &[("A", "")]).as_deref(), Some("A=\n"));
    }

    #[test]
    fn a_file_that_would_be_read_otherwise_is_not_changed() {
        let within = "NOTICE=\"hello\nA=inner\n\"\n";
        assert_eq!(with_values(within, &[("A", "1")]), None, "the line is part of another value");
        let spans = "A=\"one\nB=two\n\"\n";
        assert_eq!(with_values(spans, &[("A", "1")]), None, "the rest of the value would become a setting");
        assert_eq!(with_values("B=2\n", &[("A", "${B}")]), None);
        assert_eq!(with_values("", &[("A", "one\rB=2")]), None);
    }
}
