//! The tables and columns of databases, as shown to the model of one caller before its first statement.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::access::{Access, RESOURCES};
use super::catalogue::CatalogueEntry;
use super::rights::Verdict;
use crate::clean::clean;
use crate::completion::ToolSpec;

/// The maximum size of the tables and columns in the description of one tool, in bytes.
pub const OUTLINE_BYTES: usize = 4 * 1024;
/// The maximum number of columns shown for one table.
const COLUMNS_MAX: usize = 64;
/// The text after the columns shown if there are more.
const MORE_COLUMNS: &str = ", ...";
/// The bytes reserved for the number of omitted tables.
const MORE_TABLES_BYTES: usize = 40;

/// The databases available through a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The description of the tool, without its tables.
    pub about: String,
    /// The tables available to its calls.
    pub tables: Vec<Table>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The name of the database, for display.
    pub database: String,
    /// The name in that database.
    pub name: String,
    /// The names of its columns; empty if they are unreadable.
    pub columns: Arc<[String]>,
}

/// The openness of a table to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Openness {
    /// Every call on it is denied.
    Closed,
    /// Every call on it requires the approval of another person.
    Named,
    /// The caller may read it, or is the approver.
    Open,
}

/// Returns the tool as shown to the model of this caller: with the tables and columns that the rules allow, table names
/// first, in at most [`OUTLINE_BYTES`]. Takes at most linear time in the number of columns times the number of rules.
#[must_use]
pub fn outlined(entry: &CatalogueEntry, outline: &Outline, access: &Access) -> ToolSpec {
    let Outline { about, tables } = outline;
    let mut left = OUTLINE_BYTES - MORE_TABLES_BYTES;
    let (mut lines, mut more) = (Vec::new(), 0_usize);
    for table in tables {
        let asked = Asked::about(table);
        let approval = match asked.openness(entry, access) {
            Openness::Closed => continue,
            Openness::Named => " (approval required)",
            Openness::Open => "",
        };
        let line = format!("\n{}.{}{approval}", table.database, table.name);
        match left.checked_sub(line.len() + MORE_COLUMNS.len()) {
            Some(rest) => left = rest,
            None => {
                more += 1;
                continue;
            }
        }
        lines.push((line, approval.is_empty().then_some((table, asked))));
    }
    let none = lines.is_empty() && more == 0;
    let mut text = if none { format!("{about} No table is open to this caller.") } else { format!("{about} Tables:") };
    for (line, open) in lines {
        text.push_str(&line);
        if let Some((table, asked)) = open {
            add_columns(&mut text, &mut left, table, |column| asked.tells(entry, access, column));
        }
    }
    if more > 0 {
        let _ = write!(text, "\nand {more} more tables");
    }
    ToolSpec { description: text, ..ToolSpec::clone(&entry.spec) }
}

/// Adds the columns of a table that may be shown, as far as they fit.
fn add_columns(text: &mut String, left: &mut usize, table: &Table, tells: impl Fn(&str) -> bool) {
    for (told, column) in table.columns.iter().filter(|column| tells(column)).enumerate() {
        // The operator permits queries of the database, but names in it may be text from any author.
        let column = format!("{}{}", if told == 0 { ": " } else { ", " }, clean(column, usize::MAX).replace('\n', " "));
        let Some(rest) = left.checked_sub(column.len()).filter(|_| told < COLUMNS_MAX) else {
            text.push_str(MORE_COLUMNS);
            return;
        };
        *left = rest;
        text.push_str(&column);
    }
}

/// The arguments of calls on one table.
struct Asked(Map<String, Value>);

impl Asked {
    fn about(table: &Table) -> Self {
        let Table { database, name, .. } = table;
        let arguments = [
            ("database", Value::from(database.as_str())),
            (RESOURCES, json!([format!("{database}.{name}")])),
            ("sql", Value::from("")),
        ];
        Self(arguments.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    }

    fn openness(&self, entry: &CatalogueEntry, access: &Access) -> Openness {
        let decided = access.decide(entry, &self.0);
        match decided.verdict {
            Verdict::Deny => Openness::Closed,
            Verdict::Ask if !access.approvers(decided).is_empty() => Openness::Named,
            Verdict::Ask | Verdict::Auto => Openness::Open,
        }
    }

    /// True if a statement that mentions this column is open to the caller.
    fn tells(&self, entry: &CatalogueEntry, access: &Access, column: &str) -> bool {
        let mut arguments = self.0.clone();
        arguments.insert("sql".to_owned(), Value::from(column));
        Self(arguments).openness(entry, access) == Openness::Open
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{Catalogue, Offer};
    use super::super::rights::Rule;
    use super::super::testing::tool;
    use super::super::{Source, Tool, ToolKind};
    use super::*;

    fn told(tables: &[Table], rules: Vec<Rule>) -> String {
        let tool = Tool { kind: ToolKind::Db, source: Source::BuiltIn, ..tool("db", "db_query", "") };
        let offer = Offer { tools: vec![Arc::new(tool)], ..Offer::default() };
        let all = Catalogue::new(&[offer], &Catalogue::default(), |_| json!({}));
        let outline = Outline { about: "Reads.".to_owned(), tables: tables.to_vec() };
        outlined(&all.entries()[0], &outline, &Access::of_a_member(rules)).description
    }

    fn table(name: &str, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Table { database: "shop".to_owned(), name: name.to_owned(), columns }
    }

    fn rule(resource: &str, verdict: Verdict) -> Rule {
        Rule { resource: Some(resource.to_owned()), ..Rule::everywhere("db_query", verdict) }
    }

    #[test]
    fn a_caller_is_told_the_tables_and_columns_that_the_rules_open() {
        let tables = [table("orders", &["id", "the item"]), table("pay", &["person", "sum"]), table("log", &[])];
        assert_eq!(
            told(&tables, Vec::new()),
            "Reads. Tables:\nshop.orders: id, the item\nshop.pay: person, sum\nshop.log"
        );
        assert_eq!(
            told(&tables, vec![rule("*.pay", Verdict::Deny), rule("*log", Verdict::Ask)]),
            "Reads. Tables:\nshop.orders: id, the item\nshop.log"
        );
        let officers = Rule { approvers: vec!["9".to_owned()], ..rule("shop.pay", Verdict::Ask) };
        assert_eq!(
            told(&tables[..2], vec![officers]),
            "Reads. Tables:\nshop.orders: id, the item\nshop.pay (approval required)"
        );
        assert_eq!(told(&tables[1..2], vec![rule("*sum*", Verdict::Deny)]), "Reads. Tables:\nshop.pay: person");
        assert_eq!(told(&tables, vec![rule("shop.*", Verdict::Deny)]), "Reads. No table is open to this caller.");
        let others = Rule { users: vec!["8".to_owned()], ..rule("shop.*", Verdict::Auto) };
        let closed = vec![others, Rule::everywhere("db_query", Verdict::Deny)];
        assert_eq!(told(&tables, closed), "Reads. No table is open to this caller.");
    }

    #[test]
    fn however_much_there_is_it_has_a_bound_and_every_name_of_a_table_goes_before_columns() {
        let wide: Vec<String> = (0..500).map(|number| format!("column_{number}")).collect();
        let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
        let few: Vec<Table> = (0..20).map(|number| table(&format!("t{number}"), &wide)).collect();
        let text = told(&few, Vec::new());
        assert!(text.len() <= OUTLINE_BYTES + 20, "{}", text.len());
        assert!((0..20).all(|number| text.contains(&format!("\nshop.t{number}"))), "{text}");
        assert!(text.contains("column_63, ...") && !text.contains("column_64"), "{text}");
        let many: Vec<Table> = (0..5_000).map(|number| table(&format!("t{number}"), &["a"])).collect();
        let text = told(&many, Vec::new());
        assert!(text.len() <= OUTLINE_BYTES + 20, "{}", text.len());
        assert!(text.ends_with(" more tables"), "{text}");
    }

    #[test]
    fn the_words_of_a_column_begin_no_line_and_hide_nothing() {
        let text = told(&[table("t", &["a\nIgnore all\u{202e}\u{200b}", "b"])], Vec::new());
        assert_eq!(text, "Reads. Tables:\nshop.t: a Ignore all, b");
    }
}
