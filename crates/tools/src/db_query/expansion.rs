//! Bounds the size of a statement after the database has merged its subqueries.
//!
//! Databases replace the name of a column of a subquery, or of a query in `WITH`, by the expression of that column, and
//! `MariaDB` a name of `WITH` by a copy of its query. A short statement can so grow exponentially in its depth, and
//! neither `PostgreSQL` nor `MariaDB` checks its timeout while it merges. [`check`] computes an upper bound of the size:
//! each name of a column counts as the largest column of the tables around it.
//!
//! Source: `PostgreSQL`, `pull_up_subqueries`; `MariaDB`, "Derived Table Merge Optimization".

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Visit, Visitor,
};

use super::engine::Engine;

/// Maximum size of a merged statement, in expressions and tables. The largest statement without a subquery is far
/// smaller.
const MERGED_MAX: u64 = 10_000;
/// The error for a larger statement.
const TOO_LARGE: &str = "the statement becomes too large when the database merges its subqueries: name their columns \
                         less often, or nest less";

/// Checks the size of a statement.
///
/// # Errors
/// The statement becomes too large.
pub(super) fn check(engine: Engine, statement: &Statement) -> Result<(), String> {
    let mut queries = Queries { engine, defined: Vec::new() };
    let size = match statement {
        Statement::Query(query) => queries.of_query(query, 1).whole,
        Statement::Insert(insert) => insert.source.as_ref().map_or(0, |source| queries.of_query(source, 1).whole),
        other => queries.part(other, 1).size(1),
    };
    if size <= MERGED_MAX { Ok(()) } else { Err(TOO_LARGE.to_owned()) }
}

/// The sizes of a merged query.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// That of its largest column.
    column: u64,
    /// That of the query.
    whole: u64,
}

impl Size {
    const TABLE: Self = Self { column: 1, whole: 1 };
}

/// The queries of a statement.
struct Queries {
    engine: Engine,
    /// The names of `WITH` in scope.
    defined: Vec<(String, Size)>,
}

impl Queries {
    /// Returns the size of a query. `outer` is that of the largest column of the queries around it.
    fn of_query(&mut self, query: &Query, outer: u64) -> Size {
        let known = self.defined.len();
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
        let order = self.part(&query.order_by, around).size(around);
        let limit = self.part(&query.limit_clause, around).size(around);
        self.defined.truncate(known);
        Size { whole: body.whole.saturating_add(order).saturating_add(limit), ..body }
    }

    fn of_body(&mut self, body: &SetExpr, outer: u64) -> Size {
        match body {
            SetExpr::Select(select) => self.of_select(select, outer),
            SetExpr::Query(query) => self.of_query(query, outer),
            SetExpr::SetOperation { left, right, .. } => {
                let (left, right) = (self.of_body(left, outer), self.of_body(right, outer));
                Size { column: left.column.max(right.column), whole: left.whole.saturating_add(right.whole) }
            }
            other => {
                let size = self.part(other, outer).size(outer);
                Size { column: size, whole: size }
            }
        }
    }

    /// Returns the size of a table or of a query in `WITH`.
    fn named(&self, name: &ObjectName) -> Size {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Size::TABLE };
        let name = self.engine.key(&self.engine.folded(name));
        self.defined.iter().rev().find(|(defined, _)| *defined == name).map_or(Size::TABLE, |(_, size)| *size)
    }

    fn of_select(&mut self, select: &Select, outer: u64) -> Size {
        let from = self.part(&select.from, outer);
        let named = outer.max(from.column);
        let (mut column, mut whole) = (1, from.size(named));
        for item in &select.projection {
            let size = match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => named,
                item => self.part(item, named).size(named),
            };
            (column, whole) = (size.max(column), whole.saturating_add(size));
        }
        // These clauses can also name the columns of the result.
        let named = named.max(column);
        let clauses = [
            self.part(&select.selection, named),
            self.part(&select.group_by, named),
            self.part(&select.having, named),
            self.part(&select.named_window, named),
            self.part(&select.distinct, named),
        ];
        let clauses = clauses.iter().map(|clause| clause.size(named)).fold(0, u64::saturating_add);
        Size { column, whole: whole.saturating_add(clauses) }
    }

    /// Counts a part of a query. `outer` is the size of the largest column that its subqueries can name.
    fn part(&mut self, part: &impl Visit, outer: u64) -> Part {
        let mut contents = Contents { queries: self, depth: 0, inner: Vec::new(), part: Part::default() };
        // The visitor never breaks.
        let _ = part.visit(&mut contents);
        let Contents { inner, mut part, .. } = contents;
        for query in inner {
            // A lateral subquery can name the columns of the tables before it.
            let size = self.of_query(&query, outer.max(part.column));
            part.add(size);
        }
        part
    }
}

/// The size of a part of a query.
#[derive(Default)]
struct Part {
    /// The number of names of columns outside of its subqueries.
    names: u64,
    /// The number of its other expressions, with the sizes of its subqueries and of the queries that it names.
    rest: u64,
    /// The largest column of these queries.
    column: u64,
}

impl Part {
    /// Returns its size if each name of a column stands for this many expressions.
    const fn size(&self, named: u64) -> u64 {
        self.names.saturating_mul(named).saturating_add(self.rest)
    }

    fn add(&mut self, query: Size) {
        self.rest = self.rest.saturating_add(query.whole);
        self.column = self.column.max(query.column);
    }
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

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let counter = match expr {
            _ if self.depth > 0 => return ControlFlow::Continue(()),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => &mut self.part.names,
            _ => &mut self.part.rest,
        };
        *counter = counter.saturating_add(1);
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
        let thousand = vec!["x"; 10].join(" + ");
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
}
