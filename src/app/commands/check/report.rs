//! The table of `staffai check`.

use std::fmt::Write as _;

use secrecy::SecretString;

use super::masked;
use domain::clean::escaped;

/// The maximum length of an explanation, in characters.
const LONGEST: usize = 400;

/// The status of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// It works.
    Ok,
    /// It works, with a note.
    Note,
    /// It was not tried.
    Skipped,
    /// It does not work.
    Wrong,
}

impl CheckStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Skipped => "skipped",
            Self::Wrong => "wrong",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    part: String,
    verdict: CheckStatus,
    why: String,
}

/// The findings, in the order of the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Adds a row. Text from outside becomes one line without control characters; hidden characters are escaped.
    pub fn push(&mut self, part: &str, verdict: CheckStatus, why: impl Into<String>) {
        let plain = |text: &str| -> String {
            escaped(&text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect::<String>())
        };
        self.rows.push(Row { part: plain(part), verdict, why: plain(&why.into()) });
    }

    /// Adds a part that works.
    pub fn ok(&mut self, part: &str, why: impl Into<String>) {
        self.push(part, CheckStatus::Ok, why);
    }

    /// Adds a part that does not work. The same reason for the same part is added once.
    pub fn wrong_with(&mut self, part: &str, why: impl Into<String>) {
        self.push(part, CheckStatus::Wrong, why);
        if let Some((last, before)) = self.rows.split_last()
            && before.contains(last)
        {
            self.rows.pop();
        }
    }

    /// Adds a part that was not tried.
    pub fn skipped(&mut self, part: &str, why: impl Into<String>) {
        self.push(part, CheckStatus::Skipped, why);
    }

    /// Adds the rows of another report.
    pub fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
    }

    /// Returns the number of parts that do not work.
    pub fn wrong(&self) -> usize {
        self.rows.iter().filter(|row| row.verdict == CheckStatus::Wrong).count()
    }

    /// Returns the part, the status and the explanation of each row, without these secrets.
    #[cfg(feature = "playground")]
    pub fn rows(&self, secrets: &[SecretString]) -> Vec<(String, &'static str, String)> {
        let shown = |row: &Row| (row.part.clone(), row.verdict.as_str(), masked(&row.why, secrets));
        self.rows.iter().map(shown).collect()
    }

    /// Returns the table as text, without these secrets.
    pub fn table(&self, secrets: &[SecretString]) -> String {
        let width = self.rows.iter().map(|row| row.part.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for Row { part, verdict, why } in &self.rows {
            let (verdict, why) = (verdict.as_str(), masked(why, secrets));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{verdict:<8}{part:<width$}  {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_holds_neither_secrets_nor_line_breaks() {
        let mut report = Report::default();
        report.ok("prompts", "built in");
        report.wrong_with("model fast", "the key sk-hunter2 was\nrefused\u{1b}[31m\u{202e}");
        let table = report.table(&[SecretString::from("sk-hunter2"), SecretString::from("in")]);
        assert_eq!(
            table,
            "ok      prompts     built in\nwrong   model fast  the key ******** was refused [31m\\u{202e}\n"
        );
        assert_eq!(report.wrong(), 1);
    }
}
