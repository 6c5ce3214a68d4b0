//! Edits a `.env` file without changing other lines.

use std::fmt::Write as _;

/// Returns the text with each name set to its value. Replaces the last line that sets a name, else a commented line
/// such as `#NAME=` of the example file; otherwise appends a line.
///
/// A value must not contain a line break or `${`, which the parser always expands.
#[must_use]
pub fn with_values(text: &str, values: &[(&str, &str)]) -> String {
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
    changed
}

/// Returns the name that a line sets.
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
    use std::collections::BTreeMap;

    use super::super::parse;
    use super::*;

    fn read(text: &str, name: &str) -> Option<String> {
        parse(text, &BTreeMap::new()).values.get(name).map(|(value, _)| value.clone())
    }

    #[test]
    fn every_other_line_stays_and_the_values_are_read_back() {
        let text = "# mine\nexport A=1\n#B=2\nC='x # y'\n";
        let changed = with_values(text, &[("A", "new"), ("B", "a b#c"), ("D", "it's \\ fine")]);
        assert_eq!(changed, "# mine\nA=new\nB='a b#c'\nC='x # y'\nD='it\\'s \\\\ fine'\n");
        for (name, value) in [("A", "new"), ("B", "a b#c"), ("C", "x # y"), ("D", "it's \\ fine")] {
            assert_eq!(read(&changed, name).as_deref(), Some(value), "{changed}");
        }
    }

    #[test]
    fn of_two_lines_the_one_that_counts_is_replaced_and_nothing_is_added_twice() {
        let changed = with_values("A=1\nA=2\n", &[("A", "3")]);
        assert_eq!((changed.as_str(), read(&changed, "A").as_deref()), ("A=1\nA=3\n", Some("3")));
        assert_eq!(with_values(&changed, &[("A", "3")]), changed);
        assert_eq!(with_values("", &[("A", "")]), "A=\n");
    }
}
