//! Refuses rows of tables as values in `PostgreSQL`.
//!
//! There, the name of a table in the place of a column is its row: one value with all columns. Rows in rows grow
//! exponentially in the depth of a statement, and their text has no bound below 1 GiB.
//!
//! Source: the documentation of `PostgreSQL`, "Using Composite Types in Queries".

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, ObjectNamePart, Statement, TableFactor, Visit, Visitor, visit_expressions};

use super::engine::Engine;

/// Checks the names of a statement.
///
/// # Errors
/// The first expression that is a row of a table, or that may be one.
pub(super) fn check(engine: Engine, statement: &Statement) -> Result<(), String> {
    if engine != Engine::Postgres {
        return Ok(());
    }
    let mut tables = Tables(BTreeSet::new());
    // The visitor never breaks.
    let _ = statement.visit(&mut tables);
    let refused = visit_expressions(statement, |expr| match expr {
        Expr::Identifier(name) if tables.0.contains(&Engine::Postgres.folded(name)) => ControlFlow::Break(format!(
            "{name} is the name of a table, so it can mean the whole row: write the column as {name}.{name}, or name others"
        )),
        Expr::QualifiedWildcard(..) => {
            ControlFlow::Break(format!("{expr} is allowed only as a column of SELECT: name the columns"))
        }
        _ => ControlFlow::Continue(()),
    });
    match refused {
        ControlFlow::Break(refused) => Err(refused),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The names that tables and subqueries have in the expressions of a statement.
struct Tables(BTreeSet<String>);

impl Tables {
    fn add(&mut self, name: &Ident) {
        self.0.insert(Engine::Postgres.folded(name));
    }
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => self.add(&alias.name),
            TableFactor::Table { name, alias: None, .. } => {
                if let Some(name) = name.0.last().and_then(ObjectNamePart::as_ident) {
                    self.add(name);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
