//! What a statement does: which tables it reads, and which one it changes. Everything that is not known to be harmless is refused.
//!
//! What is sent to a database is written anew from what was understood here, never the text that came: comments, quoting and white
//! space cannot mean one thing here and another there.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, DataType, Delete, Distinct, Expr, FromTable, Function, FunctionArguments, Ident, Insert,
    LimitClause, ObjectName, ObjectNamePart, Query, Select, SetExpr, Statement, TableFactor, TableObject,
    TableWithJoins, Update, Value, ValueWithSpan, Visit, Visitor, visit_relations,
};
use sqlparser::dialect::Dialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::allowed::{FUNCTIONS, TYPES};

/// The longest statement, in bytes.
pub(super) const STATEMENT_BYTES: usize = 4_096;
/// The most words and signs of a statement: it is read by recursion.
const TOKENS_MAX: usize = 600;
/// The deepest nesting.
const DEPTH_MAX: usize = 24;

/// A statement that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Understood {
    /// The statement as it is sent.
    pub sql: String,
    /// Names of the tables that it reads.
    pub reads: BTreeSet<String>,
    /// Name of the table that it changes; none when it only reads.
    pub changes: Option<String>,
}

/// Understands one statement. A query that names no bound of its own gives at most `rows` rows.
///
/// # Errors
/// In words: what is not understood, or not done here.
pub(super) fn understand(dialect: &dyn Dialect, sql: &str, rows: usize) -> Result<Understood, String> {
    let mut statement = parse(dialect, sql)?;
    let mut walk = Walk { statements: 0, queries: 0, refused: None };
    let _ = statement.visit(&mut walk);
    if let Some(refused) = walk.refused {
        return Err(refused);
    }
    let (reads, changes) = match &statement {
        Statement::Query(query) => (of_query(query)?, None),
        Statement::Insert(insert) => of_insert(insert)?,
        Statement::Update(update) => of_update(update)?,
        Statement::Delete(delete) => of_delete(delete)?,
        _ => return Err("only SELECT, INSERT, UPDATE and DELETE are done here".to_owned()),
    };
    if let Statement::Query(query) = &mut statement
        && query.fetch.is_none()
    {
        query.limit_clause.get_or_insert_with(|| LimitClause::LimitOffset {
            limit: Some(Expr::value(Value::Number(rows.to_string(), false))),
            offset: None,
            limit_by: Vec::new(),
        });
    }
    let sql = statement.to_string();
    // What is written anew must mean the same when it is read again.
    let again = parse(dialect, &sql)?.to_string();
    if again != sql {
        return Err("the statement cannot be written in one way only: write it more simply".to_owned());
    }
    Ok(Understood { sql, reads, changes })
}

fn parse(dialect: &dyn Dialect, sql: &str) -> Result<Statement, String> {
    if sql.len() > STATEMENT_BYTES {
        return Err(format!("the statement is longer than {STATEMENT_BYTES} bytes"));
    }
    // What it means differs from server to server, and from one of their settings to the next.
    if sql.contains('\\') {
        return Err("write the statement without a backslash".to_owned());
    }
    let unread = |error: &dyn std::fmt::Display| {
        let error: String = error.to_string().chars().filter(|c| !c.is_control()).take(200).collect();
        format!("the statement cannot be read: {error}")
    };
    let tokens = Tokenizer::new(dialect, sql).tokenize_with_location().map_err(|error| unread(&error))?;
    if tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).count() > TOKENS_MAX {
        return Err(format!("the statement has more than {TOKENS_MAX} words: ask for less at once"));
    }
    let parser = Parser::new(dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    let mut statements = { parser }.parse_statements().map_err(|error| unread(&error))?;
    match (statements.pop(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (None, _) => Err("the statement is empty".to_owned()),
        (Some(_), _) => Err("one statement at a time".to_owned()),
    }
}

type Touched = (BTreeSet<String>, Option<String>);

/// The tables that a query reads. Names that its `WITH` defines before they are used are no tables.
fn of_query(query: &Query) -> Result<BTreeSet<String>, String> {
    let (mut reads, mut defined) = (BTreeSet::new(), BTreeSet::<String>::new());
    if let Some(with) = &query.with {
        for cte in &with.cte_tables {
            let name = cte.alias.name.value.clone();
            let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if !plain {
                return Err("names in WITH are written in small letters".to_owned());
            }
            if cte.from.is_some() {
                return Err("this form of WITH is not done here".to_owned());
            }
            // Only a name that is defined before, or that repeats itself, is none of a table.
            if with.recursive {
                defined.insert(name.clone());
            }
            reads.extend(named(&*cte.query)?.into_iter().filter(|table| !defined.contains(table)));
            defined.insert(name);
        }
    }
    let body = Query { with: None, ..query.clone() };
    reads.extend(named(&body)?.into_iter().filter(|table| !defined.contains(table)));
    Ok(reads)
}

/// The names of tables in a part of a statement, each as often as it is there.
fn named(part: &impl Visit) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let found = visit_relations(part, |relation| match name(relation) {
        Ok(name) => {
            names.push(name);
            ControlFlow::Continue(())
        }
        Err(refused) => ControlFlow::Break(refused),
    });
    match found {
        ControlFlow::Continue(()) => Ok(names),
        ControlFlow::Break(refused) => Err(refused),
    }
}

/// The name of a table, with that of its schema if that is written.
fn name(relation: &ObjectName) -> Result<String, String> {
    let parts: Option<Vec<&str>> =
        relation.0.iter().map(|part| part.as_ident().map(|ident| ident.value.as_str())).collect();
    match parts.as_deref() {
        Some([table]) => Ok((*table).to_owned()),
        Some([schema, table]) => Ok(format!("{schema}.{table}")),
        _ => Err(format!("{relation} is no name of a table")),
    }
}

/// The tables of a statement that changes one: that one is not read when it is named there alone.
fn changing(statement: &impl Visit, target: String) -> Result<Touched, String> {
    let mut names = named(statement)?;
    match names.iter().position(|name| *name == target) {
        Some(at) => drop(names.remove(at)),
        None => return Err("the table that is changed cannot be told".to_owned()),
    }
    Ok((names.into_iter().collect(), Some(target)))
}

fn of_insert(insert: &Insert) -> Result<Touched, String> {
    let plain = insert.or.is_none()
        && !insert.ignore
        && !insert.overwrite
        && !insert.replace_into
        && insert.partitioned.is_none()
        && insert.on.is_none()
        && insert.returning.is_none()
        && insert.output.is_none()
        && insert.optimizer_hints.is_empty()
        && insert.assignments.is_empty()
        && insert.settings.is_none()
        && insert.multi_table_insert_type.is_none();
    let (TableObject::TableName(table), true) = (&insert.table, plain) else {
        return Err("INSERT is done in its plain form only: INSERT INTO table (columns) VALUES (...)".to_owned());
    };
    changing(insert, name(table)?)
}

fn of_update(update: &Update) -> Result<Touched, String> {
    let plain = update.from.is_none()
        && update.returning.is_none()
        && update.output.is_none()
        && update.or.is_none()
        && update.optimizer_hints.is_empty();
    match (only(&update.table), plain) {
        (Some(table), true) => changing(update, name(table)?),
        _ => Err("UPDATE is done in its plain form only: UPDATE table SET column = value WHERE ...".to_owned()),
    }
}

fn of_delete(delete: &Delete) -> Result<Touched, String> {
    let plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.returning.is_none()
        && delete.output.is_none()
        && delete.optimizer_hints.is_empty();
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    match (from.as_slice(), plain) {
        ([one], true) if only(one).is_some() => changing(delete, only(one).map(name).transpose()?.unwrap_or_default()),
        _ => Err("DELETE is done in its plain form only: DELETE FROM table WHERE ...".to_owned()),
    }
}

/// The one table that is named, when nothing is joined to it.
fn only(from: &TableWithJoins) -> Option<&ObjectName> {
    match &from.relation {
        TableFactor::Table { name, .. } if from.joins.is_empty() => Some(name),
        _ => None,
    }
}

/// Looks at each part of a statement.
struct Walk {
    statements: usize,
    queries: usize,
    refused: Option<String>,
}

impl Walk {
    fn refuse(&mut self, what: impl Into<String>) -> ControlFlow<()> {
        self.refused.get_or_insert(what.into());
        ControlFlow::Break(())
    }

    fn unless(&mut self, harmless: bool, what: impl Into<String>) -> ControlFlow<()> {
        if harmless { ControlFlow::Continue(()) } else { self.refuse(what) }
    }
}

impl Visitor for Walk {
    type Break = ();

    fn pre_visit_statement(&mut self, _: &Statement) -> ControlFlow<()> {
        self.statements += 1;
        self.unless(self.statements == 1, "a statement inside of another is not done here")
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.queries += 1;
        let plain = query.locks.is_empty()
            && query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty();
        self.unless(plain, "a SELECT that locks, or says how it is sent, is not done here")?;
        // The first one that is visited is the outermost.
        self.unless(query.with.is_none() || self.queries == 1, "WITH stands at the beginning only")?;
        self.unless(is_body(&query.body), "only SELECT and VALUES give rows here")
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.unless(select.into.is_none(), "SELECT INTO is not done here")?;
        let plain = select.optimizer_hints.is_empty()
            && select.select_modifiers.is_none()
            && select.top.is_none()
            && select.exclude.is_none()
            && select.lateral_views.is_empty()
            && select.prewhere.is_none()
            && select.connect_by.is_empty()
            && select.cluster_by.is_empty()
            && select.distribute_by.is_empty()
            && select.sort_by.is_empty()
            && select.qualify.is_none()
            && select.value_table_mode.is_none()
            && !matches!(select.distinct, Some(Distinct::On(_)));
        self.unless(plain, "this form of SELECT is not done here")
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let harmless = match factor {
            TableFactor::Table {
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
                ..
            } => with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty(),
            TableFactor::Derived { sample: None, .. } | TableFactor::NestedJoin { .. } => true,
            _ => false,
        };
        self.unless(harmless, "only tables and subqueries stand behind FROM here, no functions")
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let plain = relation.0.iter().all(|part| matches!(part, ObjectNamePart::Identifier(_)));
        self.unless(plain && relation.0.len() <= 2, format!("{relation} is no name of a table"))
    }

    fn pre_visit_ident(&mut self, ident: &Ident) -> ControlFlow<()> {
        let plain = ident.value.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | ' ' | '-'));
        self.unless(plain && !ident.value.is_empty(), "names here have letters, digits, `_`, `-` and blanks")
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        let harmless = match &value.value {
            Value::Number(number, _) => {
                number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
            }
            Value::SingleQuotedString(text) => !text.contains('\\') && !text.chars().any(char::is_control),
            Value::Boolean(_) | Value::Null => true,
            _ => false,
        };
        self.unless(harmless, "write values as numbers, or as texts in single quotes without a backslash")
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                let known = is_known(function);
                self.unless(known, format!("the function {} is not used here", function.name))
            }
            Expr::BinaryOp { op, .. } => self.unless(is_usual(op), format!("the operator {op} is not used here")),
            Expr::Cast { data_type, format, .. } => {
                self.unless(format.is_none() && is_plain(data_type), format!("a cast to {data_type} is not done here"))
            }
            Expr::TypedString(typed) => {
                self.unless(is_plain(&typed.data_type), format!("a value of {} is not used here", typed.data_type))
            }
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::InList { .. }
            | Expr::InSubquery { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::UnaryOp { .. }
            | Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::Case { .. }
            | Expr::Exists { .. }
            | Expr::Subquery(_)
            | Expr::Tuple(_)
            | Expr::Interval(_)
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..) => ControlFlow::Continue(()),
            _ => self.refuse(format!("{} is not done here", expr.to_string().chars().take(60).collect::<String>())),
        }
    }
}

/// Whether rows come from reading alone.
fn is_body(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => true,
        SetExpr::SetOperation { left, right, .. } => is_body(left) && is_body(right),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) | SetExpr::Table(_) => false,
    }
}

fn is_plain(data_type: &DataType) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    TYPES.contains(&name.split([' ', '(']).next().unwrap_or_default()) && !name.contains('[')
}

fn is_known(function: &Function) -> bool {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    let plain = !function.uses_odbc_syntax && matches!(function.parameters, FunctionArguments::None);
    let arguments = !matches!(function.args, FunctionArguments::Subquery(_));
    plain && arguments && FUNCTIONS.contains(&name.value.to_ascii_lowercase().as_str())
}

const fn is_usual(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::StringConcat
            | BinaryOperator::Gt
            | BinaryOperator::Lt
            | BinaryOperator::GtEq
            | BinaryOperator::LtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::And
            | BinaryOperator::Or
    )
}
