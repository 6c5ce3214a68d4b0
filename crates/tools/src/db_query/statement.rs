//! Parses a statement into the tables that it reads and the one it changes. Everything not known to be harmless is
//! refused.
//!
//! The statement sent to the database is generated from the parsed form with every name quoted, never the original
//! text: comments, quoting, keywords and white space cannot have a different meaning in the database.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Delete, Expr, FromTable, Insert, LimitClause, ObjectName, Query, Statement, TableFactor, TableObject,
    TableWithJoins, Update, Value, ValueWithSpan, visit_expressions, visit_relations,
};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::engine::Engine;
use super::names::{self, Tables};
use super::steps::Bounded;
use super::{expansion, harmless, names::table, rows_as_values};

/// Maximum length of a statement, in bytes.
pub(super) const STATEMENT_BYTES: usize = 4_096;
/// Maximum number of tokens of a statement: the parser is recursive.
const TOKENS_MAX: usize = 600;
const DEPTH_MAX: usize = 24;

/// A parsed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Understood {
    /// The SQL to send.
    pub sql: String,
    /// The tables that it reads, as the database names them; in lower case for `SQLite`.
    pub reads: BTreeSet<String>,
    /// The table that it changes; `None` if it only reads.
    pub changes: Option<String>,
    /// Names behind a dot, as the database looks them up: columns of tables. If a table has no such column,
    /// `PostgreSQL` reads `row.name` as a call of the function of that name.
    pub fields: BTreeSet<String>,
    /// True if it converts a value to another type by a cast.
    pub casts: bool,
}

/// Parses one statement. A query without a limit of its own returns at most `rows` rows.
///
/// # Errors
/// The part that is invalid or not supported.
pub fn understand(engine: Engine, sql: &str, rows: usize) -> Result<Understood, String> {
    let mut statement = parse(engine, sql)?;
    let withs = harmless::check(engine, &statement)?;
    rows_as_values::check(engine, &statement)?;
    expansion::check(engine, &statement)?;
    let mut tables = Tables::new(engine);
    let changes = match &mut statement {
        Statement::Query(query) => of_query(&mut tables, query, withs)?,
        Statement::Insert(insert) => of_insert(&mut tables, insert, withs)?,
        Statement::Update(update) => of_update(&mut tables, update, withs)?,
        Statement::Delete(delete) => of_delete(&mut tables, delete, withs)?,
        _ => return Err("only SELECT, INSERT, UPDATE and DELETE are supported".to_owned()),
    };
    let Tables { named, defined, .. } = tables;
    // Every name in the position of a table was resolved.
    let mut relations = 0;
    let _ = visit_relations(&statement, |_| {
        relations += 1;
        ControlFlow::<()>::Continue(())
    });
    if relations != named.len() + defined + usize::from(changes.is_some()) {
        return Err("a table is named in an unexpected place".to_owned());
    }
    if relations == defined {
        return Err("the statement names no table, so it needs no database".to_owned());
    }
    let fields = names::quote(engine, &mut statement);
    if let Statement::Query(query) = &mut statement {
        bound(query, rows);
    }
    let casts = visit_expressions(&statement, |expr| match expr {
        Expr::Cast { .. } | Expr::TypedString(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let sql = statement.to_string();
    // The generated text must parse to itself.
    let again = parse(engine, &sql)?.to_string();
    if again != sql {
        return Err("the statement is ambiguous: write it more simply".to_owned());
    }
    Ok(Understood { sql, reads: named.into_iter().collect(), changes, fields, casts: casts.is_break() })
}

fn parse(engine: Engine, sql: &str) -> Result<Statement, String> {
    if sql.len() > STATEMENT_BYTES {
        return Err(format!("the statement is longer than {STATEMENT_BYTES} bytes"));
    }
    // The meaning of a backslash depends on the server and its settings.
    if sql.contains('\\') {
        return Err("write the statement without a backslash".to_owned());
    }
    let unread = |error: &dyn std::fmt::Display| {
        let error: String = error.to_string().chars().filter(|c| !c.is_control()).take(200).collect();
        format!("the statement cannot be parsed: {error}")
    };
    let dialect = engine.dialect();
    let tokens = Tokenizer::new(dialect, sql).tokenize_with_location().map_err(|error| unread(&error))?;
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).count();
    if words > TOKENS_MAX {
        return Err(format!("the statement has more than {TOKENS_MAX} words: simplify it"));
    }
    let bounded = Bounded::new(dialect, words.max(1));
    let parser = Parser::new(&bounded).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    let parsed = { parser }.parse_statements();
    if bounded.is_spent() {
        return Err("the statement has too many possible readings: nest it less".to_owned());
    }
    let mut statements = parsed.map_err(|error| unread(&error))?;
    match (statements.pop(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (None, _) => Err("the statement is empty".to_owned()),
        (Some(_), _) => Err("send one statement at a time".to_owned()),
    }
}

/// Adds a limit to a query that has none, and lowers a larger one: the database then stops with the last row that is
/// shown.
fn bound(query: &mut Query, rows: usize) {
    let most = || Some(Expr::value(Value::Number(rows.to_string(), false)));
    let is_larger = |limit: &Expr| match limit {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            number.parse::<usize>().is_ok_and(|number| number > rows)
        }
        _ => false,
    };
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) if query.fetch.is_none() => {
            *limit = limit.take().filter(|limit| !is_larger(limit)).or_else(most);
        }
        None if query.fetch.is_none() => {
            query.limit_clause = Some(LimitClause::LimitOffset { limit: most(), offset: None, limit_by: Vec::new() });
        }
        _ => {}
    }
}

fn with_first(withs: usize, known: usize) -> Result<(), String> {
    if withs == known { Ok(()) } else { Err("WITH is allowed only at the beginning of a query".to_owned()) }
}

fn of_query(tables: &mut Tables, query: &mut Query, withs: usize) -> Result<Option<String>, String> {
    with_first(withs, usize::from(query.with.is_some()))?;
    tables.of_query(query)?;
    Ok(None)
}

fn of_insert(tables: &mut Tables, insert: &mut Insert, withs: usize) -> Result<Option<String>, String> {
    let plain = insert.or.is_none()
        && !insert.ignore
        && !insert.overwrite
        && !insert.replace_into
        && !insert.has_table_keyword
        && insert.table_alias.is_none()
        && insert.partitioned.is_none()
        && insert.after_columns.is_empty()
        && insert.on.is_none()
        && insert.returning.is_none()
        && insert.output.is_none()
        && insert.optimizer_hints.is_empty()
        && insert.assignments.is_empty()
        && insert.priority.is_none()
        && insert.insert_alias.is_none()
        && insert.settings.is_none()
        && insert.format_clause.is_none()
        && insert.multi_table_insert_type.is_none();
    let (TableObject::TableName(target), true) = (&insert.table, plain) else {
        return Err("only this form of INSERT is supported: INSERT INTO table (columns) VALUES (...)".to_owned());
    };
    let target = table(tables.engine, target)?;
    let Some(source) = &mut insert.source else {
        return Err("INSERT needs VALUES or a SELECT".to_owned());
    };
    with_first(withs, usize::from(source.with.is_some()))?;
    tables.of_query(source)?;
    Ok(Some(target))
}

fn of_update(tables: &mut Tables, update: &mut Update, withs: usize) -> Result<Option<String>, String> {
    let plain = update.from.is_none()
        && update.returning.is_none()
        && update.output.is_none()
        && update.or.is_none()
        && update.optimizer_hints.is_empty();
    let (Some(target), true) = (only(&update.table), plain) else {
        return Err("only this form of UPDATE is supported: UPDATE table SET column = value WHERE ...".to_owned());
    };
    let target = table(tables.engine, target)?;
    with_first(withs, 0)?;
    tables.of_part(update)?;
    changed(tables, target)
}

fn of_delete(tables: &mut Tables, delete: &mut Delete, withs: usize) -> Result<Option<String>, String> {
    let plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.returning.is_none()
        && delete.output.is_none()
        && delete.optimizer_hints.is_empty();
    let target = match &delete.from {
        FromTable::WithFromKeyword(from) => from.as_slice(),
        FromTable::WithoutKeyword(_) => &[],
    };
    let ([one], true) = (target, plain) else {
        return Err("only this form of DELETE is supported: DELETE FROM table WHERE ...".to_owned());
    };
    let target = only(one).map(|target| table(tables.engine, target)).transpose()?;
    with_first(withs, 0)?;
    tables.of_part(delete)?;
    changed(tables, target.unwrap_or_default())
}

/// The target table is not read if it is named only as the target.
fn changed(tables: &mut Tables, target: String) -> Result<Option<String>, String> {
    match tables.named.iter().position(|name| *name == target) {
        Some(at) => drop(tables.named.remove(at)),
        None => return Err("the changed table cannot be determined".to_owned()),
    }
    Ok(Some(target))
}

/// Returns the only table, if nothing is joined to it.
fn only(from: &TableWithJoins) -> Option<&ObjectName> {
    match &from.relation {
        TableFactor::Table { name, .. } if from.joins.is_empty() => Some(name),
        _ => None,
    }
}
