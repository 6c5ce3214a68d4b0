//! Checks each part of a statement against an allow list: everything not known to be harmless is refused.

use std::ops::ControlFlow;

use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, CeilFloorKind, CharacterLength, DataType, DateTimeField, Distinct,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    GroupByExpr, GroupByWithModifier, Ident, Interval, Join, JoinOperator, LimitClause, NamedWindowDefinition,
    ObjectName, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, OrderBySort, Query, Select, SelectFlavor,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetQuantifier, Statement, TableAlias, TableFactor,
    TableWithJoins, UnaryOperator, Value, ValueWithSpan, Visit, Visitor, WildcardAdditionalOptions,
};

use super::allowed::{STRUCTURE, TYPES, is_known};
use super::engine::{Engine, is_plain_name};
use super::names::called;

/// Maximum length of a search or trim pattern, in characters. Such a call costs the product of the lengths of its
/// arguments: with two long ones it runs for hours, and no database checks its timeout meanwhile.
const SOUGHT_CHARS: usize = 200;
/// The error for any other pattern.
const LONG_SOUGHT: &str =
    "the pattern of LIKE, position, instr, strpos and the trim functions must be a literal of at most 200 characters";
/// The error for arrays of arrays.
const NESTED_ARRAYS: &str = "use ARRAY and values in brackets with commas, as in (a, b), in one query only: not in a \
                             subquery as well, and not with WITH RECURSIVE";
/// Maximum length of the fixed text type of a cast: shorter values are padded to it.
const PADDED_CHARS: u64 = 1_000;
/// Functions whose second argument is a pattern to search for or to trim.
const SEEKING: [&str; 5] = ["instr", "ltrim", "rtrim", "strpos", "trim"];

/// Checks each part of a statement, and returns the number of its queries that have a `WITH`.
///
/// # Errors
/// The first part that is refused.
pub(super) fn check(engine: Engine, statement: &Statement) -> Result<usize, String> {
    let mut walk =
        Walk { engine, statements: 0, withs: 0, queries: Vec::new(), entered: 0, recursive: false, arrays: None };
    match statement.visit(&mut walk) {
        ControlFlow::Continue(()) => Ok(walk.withs),
        ControlFlow::Break(refused) => Err(refused),
    }
}

struct Walk {
    engine: Engine,
    statements: usize,
    withs: usize,
    /// The numbers of the queries around the present part.
    queries: Vec<usize>,
    /// The number of queries so far.
    entered: usize,
    /// True if a `WITH` of the statement is recursive.
    recursive: bool,
    /// The query that has arrays or tuples, if one does.
    arrays: Option<usize>,
}

impl Walk {
    /// Checks an array or a tuple: in nested queries, their sizes multiply, and `PostgreSQL` bounds only single values,
    /// at 1 GiB. Joined texts are shortened instead.
    fn array(&mut self) -> Checked {
        // Outside of all queries, the number is 0.
        let query = self.queries.last().copied().unwrap_or(0);
        let alone = !self.recursive && *self.arrays.get_or_insert(query) == query;
        unless(alone || self.engine != Engine::Postgres, NESTED_ARRAYS)
    }
}

type Checked = ControlFlow<String>;

fn refuse(what: impl Into<String>) -> Checked {
    ControlFlow::Break(what.into())
}

fn unless(harmless: bool, what: impl Into<String>) -> Checked {
    if harmless { ControlFlow::Continue(()) } else { refuse(what) }
}

impl Visitor for Walk {
    type Break = String;

    fn pre_visit_statement(&mut self, _: &Statement) -> Checked {
        self.statements += 1;
        unless(self.statements == 1, "a nested statement is not supported")
    }

    fn pre_visit_query(&mut self, query: &Query) -> Checked {
        let plain = query.locks.is_empty()
            && query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty()
            && query.fetch.as_ref().is_none_or(|fetch| !fetch.percent && self.engine != Engine::Sqlite)
            && !matches!(&query.limit_clause, Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty());
        unless(plain, "SELECT with locks or output options is not supported")?;
        self.entered += 1;
        self.queries.push(self.entered);
        if let Some(with) = &query.with {
            self.withs += 1;
            self.recursive |= with.recursive;
            for cte in &with.cte_tables {
                unless(cte.from.is_none(), "this form of WITH is not supported")?;
                alias(&cte.alias)?;
            }
        }
        unless(is_body(&query.body), "only SELECT and VALUES may return rows")
    }

    fn post_visit_query(&mut self, _: &Query) -> Checked {
        self.queries.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Checked {
        unless(select.into.is_none(), "SELECT INTO is not supported")?;
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
            && select.flavor == SelectFlavor::Standard
            && (self.engine == Engine::Postgres || !matches!(select.distinct, Some(Distinct::On(_))));
        unless(plain && !select.projection.is_empty(), "this form of SELECT is not supported")?;
        select.projection.iter().try_for_each(item)?;
        select.named_window.iter().try_for_each(|NamedWindowDefinition(name, _)| word(name))?;
        select.from.iter().try_for_each(joined)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Checked {
        let (harmless, named) = match factor {
            TableFactor::Table {
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
                alias,
                ..
            } => (with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty(), alias),
            TableFactor::Derived { sample: None, lateral, alias, .. } => {
                (!lateral || self.engine != Engine::Sqlite, alias)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                joined(table_with_joins)?;
                (true, alias)
            }
            _ => (false, &None),
        };
        unless(harmless, "FROM accepts only tables and subqueries, not functions")?;
        named.as_ref().map_or(ControlFlow::Continue(()), alias)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Checked {
        let plain = relation.0.iter().all(|part| matches!(part, ObjectNamePart::Identifier(_)));
        unless(plain && (1..=2).contains(&relation.0.len()), format!("{relation} is not a table name"))?;
        // A quoted name is looked up in the settings.
        let bare = relation.0.iter().filter_map(ObjectNamePart::as_ident).filter(|part| part.quote_style.is_none());
        bare.into_iter().try_for_each(word)
    }

    fn pre_visit_ident(&mut self, ident: &Ident) -> Checked {
        unless(is_plain_name(&ident.value), "names have at most 63 letters, digits, `_`, `-` and inner spaces")
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> Checked {
        let harmless = match &value.value {
            Value::Number(number, long) => {
                !long && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
            }
            // Two quotes in a row would be written as one.
            Value::SingleQuotedString(text) => {
                !text.contains('\\') && !text.contains("''") && !text.chars().any(char::is_control)
            }
            Value::Boolean(_) | Value::Null => true,
            _ => false,
        };
        unless(harmless, "write values as numbers, or as strings in single quotes without a backslash")
    }

    fn pre_visit_order_by(&mut self, order: &OrderBy) -> Checked {
        let plain = matches!(order.kind, OrderByKind::Expressions(_)) && order.interpolate.is_none();
        unless(plain, "this form of ORDER BY is not supported")
    }

    fn pre_visit_order_by_expr(&mut self, order: &OrderByExpr) -> Checked {
        let plain = order.with_fill.is_none() && !matches!(order.options.sort, Some(OrderBySort::Using(_)));
        unless(plain, "this form of ORDER BY is not supported")
    }

    fn pre_visit_group_by(&mut self, group: &GroupByExpr) -> Checked {
        let plain = match group {
            GroupByExpr::Expressions(_, modifiers) => {
                modifiers.is_empty() || (self.engine == Engine::Mysql && *modifiers == [GroupByWithModifier::Rollup])
            }
            GroupByExpr::All(_) => false,
        };
        unless(plain, "this form of GROUP BY is not supported")
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Checked {
        let engine = self.engine;
        if matches!(expr, Expr::Array(_) | Expr::Tuple(_)) {
            self.array()?;
        }
        let plain = match expr {
            Expr::Function(function) => {
                unless(is_harmless(engine, function), format!("the function {} is not used here", function.name))?;
                return unless(sought(function).is_none_or(is_short), LONG_SOUGHT);
            }
            Expr::BinaryOp { op, .. } => {
                return unless(is_usual(engine, op), format!("the operator {op} is not used here"));
            }
            Expr::Cast { kind, data_type, format, .. } => {
                let plain = format.is_none()
                    && is_plain(engine, data_type)
                    && (*kind == CastKind::Cast || (*kind == CastKind::DoubleColon && engine == Engine::Postgres));
                return unless(plain, format!("a cast to {data_type} is not supported"));
            }
            Expr::TypedString(typed) => {
                let plain = is_plain(engine, &typed.data_type) && !typed.uses_odbc_syntax;
                return unless(plain, format!("a value of {} is not used here", typed.data_type));
            }
            Expr::AnyOp { compare_op, is_some, .. } => {
                engine == Engine::Postgres && !is_some && is_usual(engine, compare_op)
            }
            Expr::Array(array) => engine == Engine::Postgres && array.named,
            Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Plus | UnaryOperator::Minus | UnaryOperator::Not),
            Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } => {
                unless(is_short(pattern), LONG_SOUGHT)?;
                !any
            }
            Expr::Position { expr, .. } => return unless(is_short(expr), LONG_SOUGHT),
            Expr::Trim { trim_what, trim_characters, .. } => {
                let mut cut_off = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                return unless(cut_off.all(is_short), LONG_SOUGHT);
            }
            Expr::Extract { field, .. } => is_unit(field),
            Expr::Ceil { field, .. } | Expr::Floor { field, .. } => {
                matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime))
            }
            Expr::Interval(Interval { leading_field, last_field, .. }) => {
                leading_field.as_ref().is_none_or(is_unit) && last_field.as_ref().is_none_or(is_unit)
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
            | Expr::Substring { .. }
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::Case { .. }
            | Expr::Exists { .. }
            | Expr::Subquery(_)
            | Expr::Tuple(_)
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..) => true,
            _ => false,
        };
        unless(plain, format!("{} is not supported", expr.to_string().chars().take(60).collect::<String>()))
    }
}

/// Checks an alias or a name in `WITH`: a structural word could be parsed differently by the database.
fn word(name: &Ident) -> Checked {
    let known = STRUCTURE.contains(&name.value.to_ascii_lowercase().as_str());
    unless(!known, format!("{} is a word of SQL: choose another name", name.value))
}

fn alias(alias: &TableAlias) -> Checked {
    word(&alias.name)?;
    alias.columns.iter().try_for_each(|column| word(&column.name))?;
    let plain = alias.at.is_none() && alias.columns.iter().all(|column| column.data_type.is_none());
    unless(plain, "this form of an alias is not supported")
}

fn item(item: &SelectItem) -> Checked {
    match item {
        SelectItem::UnnamedExpr(_) => ControlFlow::Continue(()),
        SelectItem::ExprWithAlias { alias, .. } => word(alias),
        SelectItem::Wildcard(options)
        | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), options) => {
            unless(is_bare(options), "`*` stands alone here")
        }
        SelectItem::ExprWithAliases { .. } | SelectItem::QualifiedWildcard(..) => {
            refuse("this form of a column is not supported")
        }
    }
}

const fn is_bare(options: &WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}

fn joined(tables: &TableWithJoins) -> Checked {
    let plain = |join: &Join| {
        let known = matches!(
            join.join_operator,
            JoinOperator::Join(_)
                | JoinOperator::Inner(_)
                | JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::Right(_)
                | JoinOperator::RightOuter(_)
                | JoinOperator::FullOuter(_)
                | JoinOperator::CrossJoin(_)
        );
        known && !join.global
    };
    unless(tables.joins.iter().all(plain), "this form of JOIN is not supported")
}

/// True if the rows come only from reading.
fn is_body(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => true,
        SetExpr::SetOperation { left, right, set_quantifier, .. } => {
            let plain = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None);
            plain && is_body(left) && is_body(right)
        }
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) | SetExpr::Table(_) => false,
    }
}

fn is_plain(engine: Engine, data_type: &DataType) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    let name = name.split([' ', '(']).next().unwrap_or_default();
    let element = if engine == Engine::Postgres { name.trim_end_matches("[]") } else { name };
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = data_type
        && !is_plain(engine, element)
    {
        return false;
    }
    let foreign = match data_type {
        DataType::Datetime(_) | DataType::Signed | DataType::Unsigned | DataType::Double(_) => {
            engine == Engine::Postgres
        }
        _ => false,
    };
    let padded = match data_type {
        DataType::Character(Some(length)) | DataType::Char(Some(length)) => match length {
            CharacterLength::IntegerLength { length, .. } => *length,
            CharacterLength::Max => u64::MAX,
        },
        _ => 0,
    };
    // A type of another name would be looked up.
    !matches!(data_type, DataType::Custom(..)) && !foreign && TYPES.contains(&element) && padded <= PADDED_CHARS
}

const fn is_unit(field: &DateTimeField) -> bool {
    !matches!(field, DateTimeField::Custom(_))
}

fn is_harmless(engine: Engine, function: &Function) -> bool {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    let arguments = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => are_plain(list),
        FunctionArguments::Subquery(_) => false,
    };
    arguments
        && !function.uses_odbc_syntax
        && function.null_treatment.is_none()
        && matches!(function.parameters, FunctionArguments::None)
        && is_known(engine, &name.value.to_ascii_lowercase())
}

/// True if the value of an expression may be a text as large as all its parts, or rows, together.
pub(super) fn joins_text(expr: &Expr) -> bool {
    match expr {
        // An array or a tuple becomes one text.
        Expr::Cast { data_type, .. } => matches!(
            data_type,
            DataType::Text | DataType::Varchar(_) | DataType::CharVarying(_) | DataType::CharacterVarying(_)
        ),
        _ => concatenates(expr),
    }
}

/// True if an expression puts texts behind each other.
pub(super) fn concatenates(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => ["concat", "string_agg"].contains(&called(function).as_str()),
        Expr::BinaryOp { op, .. } => *op == BinaryOperator::StringConcat,
        _ => false,
    }
}

/// Returns the pattern that a function searches for in its first argument.
fn sought(function: &Function) -> Option<&Expr> {
    match &function.args {
        FunctionArguments::List(list) if SEEKING.contains(&called(function).as_str()) => match list.args.get(1)? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(sought)) => Some(sought),
            _ => None,
        },
        _ => None,
    }
}

/// True if an expression is a short literal.
fn is_short(sought: &Expr) -> bool {
    match sought {
        Expr::Nested(inner) => is_short(inner),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            text.chars().count() <= SOUGHT_CHARS
        }
        Expr::Value(_) => true,
        _ => false,
    }
}

fn are_plain(list: &FunctionArgumentList) -> bool {
    let argument = |argument: &FunctionArg| {
        let FunctionArg::Unnamed(argument) = argument else { return false };
        // The columns of a table as one argument are its row.
        matches!(argument, FunctionArgExpr::Expr(_) | FunctionArgExpr::Wildcard)
    };
    let clause = |clause: &FunctionArgumentClause| {
        matches!(clause, FunctionArgumentClause::OrderBy(_) | FunctionArgumentClause::Separator(_))
    };
    list.args.iter().all(argument) && list.clauses.iter().all(clause)
}

fn is_usual(engine: Engine, operator: &BinaryOperator) -> bool {
    match operator {
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
        | BinaryOperator::Or => true,
        // Fields of JSON. MariaDB rejects these operators itself.
        BinaryOperator::Arrow | BinaryOperator::LongArrow => engine != Engine::Mysql,
        _ => false,
    }
}
