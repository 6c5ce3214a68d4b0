//! Resolves names in statements: which are tables, and how each is written so that the database reads it as this
//! program did.

use std::collections::BTreeSet;
use std::iter;
use std::ops::ControlFlow;

use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, Statement, TableAlias, TableFactor, Value, VisitMut,
    VisitorMut,
};

use super::allowed::{UNITS, is_looked_up};
use super::engine::Engine;
use super::harmless::joins_text;

/// The prefix of names in `WITH` as they are sent. No allowed table begins with it.
pub(super) const DEFINED_PREFIX: &str = "staffai_with_";

/// The tables that parts of a statement read, one entry per mention.
pub(super) struct Tables {
    pub engine: Engine,
    /// Each as in [`Engine::key`], `table` or `schema.table`.
    pub named: Vec<String>,
    /// The number of mentions that refer to a name from `WITH`.
    pub defined: usize,
}

impl Tables {
    pub(super) const fn new(engine: Engine) -> Self {
        Self { engine, named: Vec::new(), defined: 0 }
    }

    /// Adds the tables of a part that has no `WITH`.
    pub(super) fn of_part(&mut self, part: &mut impl VisitMut) -> Result<(), String> {
        self.read(part, &mut [])
    }

    /// Adds the tables of a query. Names that its `WITH` defines are replaced by new ones, with the old ones as
    /// aliases, so that the database cannot confuse them with tables.
    pub(super) fn of_query(&mut self, query: &mut Query) -> Result<(), String> {
        let Some(mut with) = query.with.take() else { return self.of_part(query) };
        let mut scope: Vec<Defined> = Vec::new();
        for (index, cte) in with.cte_tables.iter_mut().enumerate() {
            let key = self.engine.key(&self.engine.folded(&cte.alias.name));
            if scope.iter().any(|known| known.key == key) {
                return Err(format!("WITH defines {} twice", cte.alias.name));
            }
            let defined = Defined { key, name: format!("{DEFINED_PREFIX}{}", index + 1), uses: 0 };
            cte.alias.name = Ident::new(defined.name.clone());
            // Only an earlier definition, or a recursive one itself, is in scope; all other names are tables.
            if with.recursive {
                scope.push(defined);
                self.read(&mut *cte.query, &mut scope)?;
                if let Some(itself) = scope.last_mut() {
                    itself.uses = 0;
                }
            } else {
                self.read(&mut *cte.query, &mut scope)?;
                scope.push(defined);
            }
        }
        self.read(query, &mut scope)?;
        query.with = Some(with);
        match scope.iter().find(|defined| defined.uses == 0) {
            Some(unused) => Err(format!("{} in WITH is never used: leave it out", unused.key)),
            None => Ok(()),
        }
    }

    fn read(&mut self, part: &mut impl VisitMut, scope: &mut [Defined]) -> Result<(), String> {
        match part.visit(&mut Read { tables: self, scope }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(refused) => Err(refused),
        }
    }
}

/// Returns the key of a table ([`Engine::key`]), with the schema if one is written.
///
/// # Errors
/// The name has another form.
pub(super) fn table(engine: Engine, relation: &ObjectName) -> Result<String, String> {
    let idents: Option<Vec<&Ident>> = relation.0.iter().map(ObjectNamePart::as_ident).collect();
    let parts = idents.unwrap_or_default();
    let parts: Vec<String> = parts.into_iter().map(|part| engine.key(&engine.folded(part))).collect();
    if parts.is_empty() || parts.len() > 2 || parts.iter().any(|part| part.starts_with(DEFINED_PREFIX)) {
        return Err(format!("{relation} is not a table name"));
    }
    Ok(parts.join("."))
}

/// Returns the name of a function without its schema, in lower case.
pub(super) fn called(function: &Function) -> String {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
    name.map(|name| name.value.to_ascii_lowercase()).unwrap_or_default()
}

/// A name that `WITH` defines.
struct Defined {
    key: String,
    name: String,
    uses: usize,
}

struct Read<'a> {
    tables: &'a mut Tables,
    scope: &'a mut [Defined],
}

impl VisitorMut for Read<'_> {
    type Break = String;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<String> {
        let TableFactor::Table { name, alias, .. } = factor else { return ControlFlow::Continue(()) };
        let key = match table(self.tables.engine, name) {
            Ok(key) => key,
            Err(refused) => return ControlFlow::Break(refused),
        };
        let defined = self.scope.iter_mut().find(|defined| defined.key == key);
        if let ([ObjectNamePart::Identifier(ident)], Some(defined)) = (name.0.as_mut_slice(), defined) {
            let spelled = std::mem::replace(ident, Ident::new(defined.name.clone()));
            alias.get_or_insert_with(|| TableAlias { explicit: true, name: spelled, columns: Vec::new(), at: None });
            defined.uses += 1;
            self.tables.defined += 1;
        } else {
            self.tables.named.push(key);
        }
        ControlFlow::Continue(())
    }
}

/// Quotes every name in the form that the database looks up. Functions are not quoted; they get the schema of built-in
/// functions if the database has one. Returns the names behind a dot that may be columns.
pub(super) fn quote(engine: Engine, statement: &mut Statement) -> BTreeSet<String> {
    let mut quote = Quote { engine, fields: BTreeSet::new() };
    // The visitor never breaks.
    let _ = statement.visit(&mut quote);
    quote.fields
}

struct Quote {
    engine: Engine,
    fields: BTreeSet<String>,
}

impl VisitorMut for Quote {
    type Break = ();

    fn pre_visit_ident(&mut self, ident: &mut Ident) -> ControlFlow<()> {
        ident.value = self.engine.folded(ident);
        ident.quote_style = Some(self.engine.quote());
        ControlFlow::Continue(())
    }

    /// A column keeps its name.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in select.projection.iter_mut().filter(|_| self.engine == Engine::Postgres) {
            if let SelectItem::UnnamedExpr(expr) = item
                && joins_text(expr)
                && let Some(alias) = column(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            self.fields.extend(parts.last().map(|part| part.value.clone()));
        }
        let grows = self.engine == Engine::Postgres && joins_text(expr);
        if let Expr::Function(function) = expr {
            self.function(function);
        } else if self.engine == Engine::Postgres {
            by_name(expr);
        }
        if grows {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = shortened(whole);
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name that `PostgreSQL` gives to the column of an expression.
fn column(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Function(function) => Some(Ident::new(called(function))),
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(parts) => parts.last().cloned(),
        Expr::Nested(inner) => column(inner),
        Expr::Cast { expr, data_type, .. } => {
            // The name of an inner type does not count.
            let mut inner = &**expr;
            while let Expr::Cast { expr, .. } | Expr::Nested(expr) = inner {
                inner = expr;
            }
            let name = if *data_type == DataType::Text { "text" } else { "varchar" };
            column(inner).or_else(|| Some(Ident::new(name)))
        }
        _ => None,
    }
}

impl Quote {
    fn function(&self, function: &mut Function) {
        let name = called(function);
        if let ("timestampdiff", FunctionArguments::List(list)) = (name.as_str(), &mut function.args)
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(unit)))) = list.args.first_mut()
            && UNITS.contains(&unit.value.to_ascii_lowercase().as_str())
        {
            unit.quote_style = None;
        }
        if let ("pow" | "power", Engine::Postgres, FunctionArguments::List(list)) =
            (name.as_str(), self.engine, &mut function.args)
        {
            list.args.iter_mut().for_each(to_double);
        }
        let schema = is_looked_up(self.engine, &name).then(|| Ident::new("pg_catalog"));
        function.name = ObjectName::from(schema.into_iter().chain([Ident::new(name)]).collect::<Vec<_>>());
    }
}

/// Casts a position in a text: a text in its place would be a regular expression.
fn to_integer(position: Expr) -> Expr {
    cast(position, DataType::Integer(None))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, format: None }
}

/// Casts an argument to a double: a power of exact numbers can take `PostgreSQL` minutes, in which it checks no timeout.
fn to_double(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
        let exact = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = cast(exact, DataType::DoublePrecision);
    }
}

/// Maximum length of a joined text, in characters. The cost of a search grows with it, and `PostgreSQL` checks no timeout
/// during a search.
pub(super) const JOINED_CHARS: u32 = 65_536;

/// Returns an expression of `PostgreSQL` for the beginning of a text.
fn shortened(text: Expr) -> Expr {
    built_in("left", vec![text, Expr::value(Value::Number(JOINED_CHARS.to_string(), false))])
}

/// Writes functions that the parser knows by their grammar, and that `PostgreSQL` looks up by their name, as calls of
/// its own ones.
fn by_name(expr: &mut Expr) {
    let whole = std::mem::replace(expr, Expr::value(Value::Null));
    *expr = match whole {
        Expr::Ceil { expr, .. } => built_in("ceil", vec![*expr]),
        Expr::Floor { expr, .. } => built_in("floor", vec![*expr]),
        Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
            let name = if shorthand { "substr" } else { "substring" };
            let positions = [substring_from, substring_for].into_iter().flatten().map(|position| to_integer(*position));
            built_in(name, iter::once(*expr).chain(positions).collect())
        }
        other => other,
    };
}

/// Returns a call of a function of `PostgreSQL`.
fn built_in(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("pg_catalog"), Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
