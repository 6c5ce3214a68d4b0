//! Bounds what a statement grows to after the database has merged its subqueries.
//!
//! Databases replace the name of a column of a subquery, or of a query in `WITH`, by the expression of that column, and
//! `MariaDB` a name of `WITH` by a copy of its query. A short statement can so grow exponentially in its depth, and
//! neither `PostgreSQL` nor `MariaDB` checks its timeout while it merges. The numbers of `PostgreSQL` grow in the same
//! way: a product is as long as its factors together, and no timeout is checked within one row.
//!
//! [`check`] computes upper bounds: each name of a column counts as the largest column of the tables around it.
//!
//! Source: `PostgreSQL`, `pull_up_subqueries`, "Arbitrary Precision Numbers"; `MariaDB`, "Derived Table Merge
//! Optimization".

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Value, ValueWithSpan, Visit, Visitor,
};

use super::engine::Engine;
use super::harmless::concatenates;
use super::names::{JOINED_CHARS, called};

/// Maximum size of a merged statement, in expressions and tables. The largest statement without a subquery is far
/// smaller.
const MERGED_MAX: u64 = 10_000;
/// The error for a larger statement.
const TOO_LARGE: &str = "the statement becomes too large when the database merges its subqueries: name their columns \
                         less often, or nest less";
/// Maximum length of a number, in digits. An operation on two such numbers takes about a millisecond.
const DIGITS_MAX: u64 = 3_000;
/// The error for longer numbers.
const TOO_LONG: &str = "numbers of the statement become too long: multiply and divide fewer of them, or cast to double";
/// The assumed length of a number in a table.
const STORED_DIGITS: u64 = 20;
/// The length that `round` and `trunc` can give to a number.
const ROUNDED_DIGITS: u64 = 2_000;
/// Maximum number of products in a statement with `WITH RECURSIVE`, which can repeat one: its numbers then have up to
/// 131,072 digits, and an operation takes about a second.
const REPEATED_PRODUCTS_MAX: u64 = 8;

/// Checks what a statement grows to.
///
/// # Errors
/// The statement, or one of its numbers, becomes too large.
pub(super) fn check(engine: Engine, statement: &Statement) -> Result<(), String> {
    let mut queries = Queries { engine, defined: Vec::new(), products: 0, recursive: false, longest: 0 };
    let whole = match statement {
        Statement::Query(query) => queries.of_query(query, Column::STORED).whole,
        Statement::Insert(insert) => {
            insert.source.as_ref().map_or(0, |source| queries.of_query(source, Column::STORED).whole)
        }
        other => queries.of_part(other, Column::STORED).size,
    };
    let repeated = queries.recursive && queries.products > REPEATED_PRODUCTS_MAX;
    if whole > MERGED_MAX {
        return Err(TOO_LARGE.to_owned());
    }
    let is_long = queries.longest > DIGITS_MAX || repeated;
    if engine == Engine::Postgres && is_long { Err(TOO_LONG.to_owned()) } else { Ok(()) }
}

/// The upper bounds of a column.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// The number of its expressions.
    size: u64,
    /// The number of digits of a number in it.
    digits: u64,
    /// The length of a joined text in it, which can become a number.
    text: u64,
}

impl Column {
    const STORED: Self = Self { size: 1, digits: STORED_DIGITS, text: 0 };

    fn max(self, other: Self) -> Self {
        Self { size: self.size.max(other.size), digits: self.digits.max(other.digits), text: self.text.max(other.text) }
    }
}

/// The upper bounds of a merged query.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Those of its columns.
    column: Column,
    /// The number of its expressions and tables.
    whole: u64,
}

impl Size {
    const TABLE: Self = Self { column: Column::STORED, whole: 1 };
}

/// The queries of a statement.
struct Queries {
    engine: Engine,
    /// The names of `WITH` in scope.
    defined: Vec<(String, Size)>,
    /// The number of products so far.
    products: u64,
    /// True if a `WITH` is recursive.
    recursive: bool,
    /// The longest number so far, in digits.
    longest: u64,
}

impl Queries {
    /// Returns the size of a query. `outer` bounds the columns of the queries around it.
    fn of_query(&mut self, query: &Query, outer: Column) -> Size {
        let known = self.defined.len();
        self.recursive |= query.with.as_ref().is_some_and(|with| with.recursive);
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            // A recursive query reads its own rows, not its own text.
            let name = self.engine.key(&self.engine.folded(&cte.alias.name));
            self.defined.push((name, Size::TABLE));
            let size = self.of_query(&cte.query, outer);
            if let Some((_, known)) = self.defined.last_mut() {
                *known = size;
            }
        }
        let body = self.of_body(&query.body, outer);
        let around = outer.max(body.column);
        let order = self.of_part(&query.order_by, around).size;
        let limit = self.of_part(&query.limit_clause, around).size;
        self.defined.truncate(known);
        Size { whole: body.whole.saturating_add(order).saturating_add(limit), ..body }
    }

    fn of_body(&mut self, body: &SetExpr, outer: Column) -> Size {
        match body {
            SetExpr::Select(select) => self.of_select(select, outer),
            SetExpr::Query(query) => self.of_query(query, outer),
            SetExpr::SetOperation { left, right, .. } => {
                let (left, right) = (self.of_body(left, outer), self.of_body(right, outer));
                Size { column: left.column.max(right.column), whole: left.whole.saturating_add(right.whole) }
            }
            other => {
                let column = self.of_part(other, outer);
                Size { column, whole: column.size }
            }
        }
    }

    fn of_select(&mut self, select: &Select, outer: Column) -> Size {
        let from = self.part(&select.from, outer);
        let named = outer.max(from.largest);
        let from = self.bounded(&from, named);
        let (mut column, mut whole) = (Column::STORED, from.size);
        for item in &select.projection {
            let bounds = match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => named,
                item => self.of_part(item, named),
            };
            (column, whole) = (column.max(bounds), whole.saturating_add(bounds.size));
        }
        // These clauses can also name the columns of the result.
        let named = named.max(column);
        let clauses = [
            self.of_part(&select.selection, named),
            self.of_part(&select.group_by, named),
            self.of_part(&select.having, named),
            self.of_part(&select.named_window, named),
            self.of_part(&select.distinct, named),
        ];
        let clauses = clauses.iter().map(|clause| clause.size).fold(0, u64::saturating_add);
        Size { column, whole: whole.saturating_add(clauses) }
    }

    /// Returns the size of a table or of a query in `WITH`.
    fn named(&self, name: &ObjectName) -> Size {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Size::TABLE };
        let name = self.engine.key(&self.engine.folded(name));
        self.defined.iter().rev().find(|(defined, _)| *defined == name).map_or(Size::TABLE, |(_, size)| *size)
    }

    /// Returns the bounds of a part of a query, in which names stand for columns of at most `named`.
    fn of_part(&mut self, part: &impl Visit, named: Column) -> Column {
        let part = self.part(part, named);
        self.bounded(&part, named)
    }

    fn bounded(&mut self, part: &Part, named: Column) -> Column {
        let bounds = part.column(named);
        self.products = self.products.saturating_add(part.products);
        // Only a product makes a number longer.
        if part.products > 0 {
            self.longest = self.longest.max(bounds.digits);
        }
        bounds
    }

    /// Reads a part of a query. `outer` bounds the columns that its subqueries can name.
    fn part(&mut self, part: &impl Visit, outer: Column) -> Part {
        let mut contents = Contents { queries: self, depth: 0, inner: Vec::new(), part: Part::default() };
        // The visitor never breaks.
        let _ = part.visit(&mut contents);
        let Contents { inner, mut part, .. } = contents;
        for query in inner {
            // A lateral subquery can name the columns of the tables before it.
            let size = self.of_query(&query, outer.max(part.largest));
            part.add(size);
        }
        part
    }
}

/// A part of a query.
struct Part {
    /// The number of names of columns outside of its subqueries.
    names: u64,
    /// The number of its other expressions, with the sizes of its subqueries and of the queries that it names.
    rest: u64,
    /// The bounds of the columns of these queries.
    largest: Column,
    /// The length of the longest number that does not come from a column.
    digits: u64,
    /// The number of operations that multiply or divide.
    products: u64,
    /// The length of a text that can become a number: one that is joined here, or has a number with an exponent.
    text: u64,
    /// True if values become exact numbers.
    converts: bool,
}

impl Default for Part {
    fn default() -> Self {
        let largest = Column { size: 1, digits: 0, text: 0 };
        Self { names: 0, rest: 0, largest, digits: 0, products: 0, text: 0, converts: false }
    }
}

impl Part {
    /// Returns its bounds if each name of a column stands for a column like this.
    fn column(&self, named: Column) -> Column {
        let text = named.text.max(self.text).max(self.largest.text);
        let longest = named.digits.max(self.digits).max(self.largest.digits).max(if self.converts { text } else { 0 });
        Column {
            text,
            size: self.names.saturating_mul(named.size).saturating_add(self.rest),
            digits: longest.saturating_mul(self.products.saturating_add(1)),
        }
    }

    fn add(&mut self, query: Size) {
        self.rest = self.rest.saturating_add(query.whole);
        self.largest = self.largest.max(query.column);
    }

    /// Counts the digits of a literal. Those of an exponent count: `1e60000` is long. In a text with other characters,
    /// such as JSON, they count if it becomes a number.
    fn literal(&mut self, text: &str) {
        self.digits = self.digits.max(text.len() as u64);
        let is_number = text.chars().all(|c| c.is_ascii_digit() || c.is_whitespace() || ".eE+-_".contains(c));
        let longest = if is_number { &mut self.digits } else { &mut self.text };
        *longest = exponent(text).max(*longest);
    }

    /// Counts what an expression does to the length of numbers.
    fn numbers(&mut self, expr: &Expr) {
        let (digits, products) = match expr {
            Expr::BinaryOp {
                op: BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo, ..
            } => (0, 1),
            Expr::Function(function) => of_function(function),
            _ => (0, 0),
        };
        self.converts |= matches!(expr, Expr::Cast { data_type, .. } if is_exact(data_type));
        self.digits = self.digits.max(digits);
        if concatenates(expr) {
            self.text = self.text.max(u64::from(JOINED_CHARS));
        }
        self.products = self.products.saturating_add(products);
    }
}

/// Returns the largest exponent in a text; 0 if it has none.
fn exponent(text: &str) -> u64 {
    let exponent = |(at, _): (usize, &str)| {
        let begins = text[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.');
        let digits = text[at + 1..].trim_start_matches(['+', '-']).chars();
        let digits: String = digits.take_while(|c| c.is_ascii_digit() || *c == '_').filter(|c| *c != '_').collect();
        (begins && !digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
    };
    text.match_indices(['e', 'E']).filter_map(exponent).max().unwrap_or(0)
}

/// True if a type has numbers of any length.
const fn is_exact(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_))
}

/// Returns the digits of a function's result that do not come from its arguments, and its number of products.
fn of_function(function: &Function) -> (u64, u64) {
    match called(function).as_str() {
        "round" | "trunc" => match &function.args {
            FunctionArguments::List(list) if list.args.get(1).is_some_and(|places| !is_small(places)) => {
                (ROUNDED_DIGITS, 0)
            }
            _ => (0, 0),
        },
        "mod" | "stddev" | "variance" => (0, 1),
        _ => (0, 0),
    }
}

/// True if an argument is a number of at most two digits.
fn is_small(argument: &FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) = argument else { return false };
    matches!(&value.value, Value::Number(number, _) if number.len() <= 2)
}

/// The contents of a part of a query.
struct Contents<'a> {
    queries: &'a Queries,
    /// The number of subqueries around the present place.
    depth: usize,
    /// Its subqueries. They are copied, so that the visit of one does not stand on the stack while the next is counted.
    inner: Vec<Query>,
    part: Part,
}

impl Visitor for Contents<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.inner.push(query.clone());
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let (0, TableFactor::Table { name, .. }) = (self.depth, factor) {
            self.part.add(self.queries.named(name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        if let (0, Value::Number(text, _) | Value::SingleQuotedString(text)) = (self.depth, &value.value) {
            self.part.literal(text);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let counter = match expr {
            _ if self.depth > 0 => return ControlFlow::Continue(()),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => &mut self.part.names,
            _ => &mut self.part.rest,
        };
        *counter = counter.saturating_add(1);
        self.part.numbers(expr);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::parser::Parser;

    use super::*;

    fn checked(engine: Engine, sql: &str) -> Result<(), String> {
        check(engine, &Parser::parse_sql(engine.dialect(), sql).unwrap()[0])
    }

    /// Levels of subqueries, each of which has the column of the one below this many times.
    fn levels(levels: usize, times: usize, with: bool) -> String {
        let sum = vec!["x"; times].join("+");
        if with {
            let each: Vec<String> =
                (1..=levels).map(|level| format!("a{level} AS (SELECT {sum} AS x FROM a{})", level - 1)).collect();
            return format!("WITH a0 AS (SELECT id AS x FROM o), {} SELECT x FROM a{levels}", each.join(", "));
        }
        (0..levels)
            .fold("SELECT id AS x FROM o".to_owned(), |inner, _| format!("SELECT {sum} AS x FROM ({inner}) AS t"))
    }

    #[test]
    fn statements_that_grow_when_they_are_merged_are_refused() {
        for engine in [Engine::Postgres, Engine::Mysql, Engine::Sqlite] {
            for with in [true, false] {
                assert_eq!(checked(engine, &levels(3, 10, with)), Ok(()));
                assert_eq!(checked(engine, &levels(4, 10, with)), Err(TOO_LARGE.to_owned()));
            }
            assert_eq!(checked(engine, &levels(18, 2, true)), Err(TOO_LARGE.to_owned()));
            assert_eq!(checked(engine, &levels(20, 1, true)), Ok(()));
        }
        let copies = |levels: usize| {
            let each = |level: usize| format!("a{level} AS (SELECT u.x FROM a{0} AS u, a{0} AS v)", level - 1);
            let each: Vec<String> = (1..=levels).map(each).collect();
            format!("WITH a0 AS (SELECT id AS x FROM o), {} SELECT count(*) FROM a{levels}", each.join(", "))
        };
        assert_eq!(checked(Engine::Mysql, &copies(5)), Ok(()));
        assert_eq!(checked(Engine::Mysql, &copies(16)), Err(TOO_LARGE.to_owned()));
    }

    #[test]
    fn columns_grow_through_each_place_that_can_name_them() {
        let large = format!("({}) AS t", levels(3, 10, false));
        let thousand = ["x"; 10].join(" + ");
        for sql in [
            format!("SELECT count(*) FROM {large} WHERE 0 < {thousand}"),
            format!("SELECT count(*) FROM {large} GROUP BY {thousand}"),
            format!("SELECT count(*) FROM {large} GROUP BY id HAVING 0 < {thousand}"),
            format!("SELECT x FROM {large} ORDER BY {thousand}"),
            format!("SELECT count(*) FROM o JOIN {large} ON 0 < {thousand}"),
            format!("SELECT count(*) FROM {large} WHERE EXISTS (SELECT 1 FROM o WHERE 0 < {thousand})"),
            format!("SELECT count(*) FROM {large}, LATERAL (SELECT {thousand} AS y FROM o) AS u"),
            format!("SELECT {thousand} FROM (SELECT * FROM {large}) AS u"),
            format!("SELECT {thousand} FROM (SELECT id AS x FROM o UNION ALL SELECT x FROM {large}) AS u"),
            format!("SELECT sum(y) OVER w FROM {large} WINDOW w AS (PARTITION BY {thousand})"),
            format!("UPDATE o SET id = 1 WHERE id IN (SELECT {thousand} FROM {large})"),
            format!("DELETE FROM o WHERE id IN (SELECT {thousand} FROM {large})"),
            format!("INSERT INTO o (id) SELECT {thousand} FROM {large}"),
        ] {
            assert_eq!(checked(Engine::Postgres, &sql), Err(TOO_LARGE.to_owned()), "{sql}");
        }
    }

    #[test]
    fn usual_statements_are_small() {
        for sql in [
            "WITH RECURSIVE r AS (SELECT id, parent FROM o UNION ALL SELECT o.id, o.parent FROM o JOIN r ON o.parent = r.id) SELECT count(*) FROM r",
            "WITH a AS (SELECT day, sum(price) AS s FROM o GROUP BY day), b AS (SELECT day, s, lag(s) OVER (ORDER BY day) AS p FROM a) \
             SELECT day, s, p, CASE WHEN p IS NULL THEN 0 WHEN s > p THEN (s - p) / p ELSE (p - s) / s END AS change FROM b WHERE s <> p ORDER BY change",
            "SELECT * FROM (SELECT * FROM (SELECT * FROM (SELECT * FROM o) AS a) AS b) AS c WHERE id = 1 OR id = 2 OR id = 3",
        ] {
            assert_eq!(checked(Engine::Postgres, sql), Ok(()), "{sql}");
        }
    }

    #[test]
    fn numbers_of_postgresql_stay_short() {
        let long = "9".repeat(1_000);
        for sql in [
            format!("SELECT {long} * {long} * {long} * id * id FROM o"),
            format!(
                "SELECT y * y FROM (SELECT x * x AS y FROM (SELECT CAST('{long}' AS numeric) AS x FROM o) AS s) AS t"
            ),
            format!("SELECT id FROM o WHERE {} > 1", ["id"; 250].join(" * ")),
            format!("UPDATE o SET id = {}", ["id"; 250].join(" * ")),
            format!("DELETE FROM o WHERE {} > 1", ["id"; 250].join(" * ")),
            format!("INSERT INTO o (id) VALUES ({})", ["1"; 250].join(" * ")),
            "SELECT CAST(concat(a, b) AS numeric) * 2 FROM o".to_owned(),
            "SELECT 1e60000 * id FROM o".to_owned(),
            "SELECT CAST('1e60000' AS numeric) / id FROM o".to_owned(),
            "SELECT numeric '1.5E+60000' * id FROM o".to_owned(),
            "SELECT id % 1e-60000 FROM o".to_owned(),
            "SELECT mod(1e60000, id) FROM o".to_owned(),
            "SELECT s + s FROM (SELECT x * x AS s FROM (SELECT 1e60000 - id AS x FROM o) AS t) AS u".to_owned(),
            "SELECT CAST(CAST('{\"a\": 1e60000}' AS json) ->> 'a' AS numeric) * 2 FROM o".to_owned(),
            format!("SELECT id * 1e{} FROM o", "9".repeat(40)),
            "SELECT round(a, 2000) * round(a, 2000) FROM o".to_owned(),
            "SELECT round(a, n) / 3 FROM (SELECT round(a, n) * 2 AS a, n FROM o) AS t".to_owned(),
            format!(
                "WITH RECURSIVE r AS (SELECT 3 AS x FROM o UNION ALL SELECT {} FROM r) SELECT x FROM r",
                ["x"; 10].join(" * ")
            ),
        ] {
            assert_eq!(checked(Engine::Postgres, &sql), Err(TOO_LONG.to_owned()), "{sql}");
            assert_eq!(checked(Engine::Mysql, &sql), Ok(()), "{sql}");
        }
        for sql in [
            "SELECT price * amount * 1.19, round(price / 3, 2), concat(a, b, c), sum(price * amount) FROM o".to_owned(),
            format!("SELECT id FROM o WHERE a = '{long}' AND price * 2 > 3"),
            "SELECT price * 1.5e3, 2e-9 * price, price % 7, mod(price, 7) FROM o WHERE note = 'e5e' AND code = '7e'".to_owned(),
            "SELECT id FROM o WHERE code = '3f1e99999-8a' AND price * 2 > 3".to_owned(),
            "WITH RECURSIVE r AS (SELECT id, amount FROM o UNION ALL SELECT o.id, o.amount * r.amount FROM o JOIN r ON o.parent = r.id) \
             SELECT id, sum(amount) FROM r GROUP BY id".to_owned(),
        ] {
            assert_eq!(checked(Engine::Postgres, &sql), Ok(()), "{sql}");
        }
    }
}
