//! Statements by the thousand, the same for the same seed: written by a grammar, many of them then damaged in the ways of an attacker.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tools::db_query::Engine;

/// Tables that stand in each database. All have the columns `id` and `note`; `cheap` is a view of `orders`.
pub const TABLES: [&str; 6] = ["orders", "log", "secret", "cheap", "only", "order lines"];

/// Names that `WITH` and aliases are given.
const NAMES: [&str; 17] = [
    "a",
    "b",
    "c",
    "d",
    "of_tea",
    "only",
    "lateral",
    "orders",
    "secret",
    "Secret",
    "ORDERS",
    "table",
    "values",
    "order lines",
    "x y",
    "dual",
    "recursive",
];

/// Words and signs that an attacker slips in.
const SLIPPED: [&str; 54] = [
    "only",
    "ONLY",
    "lateral",
    "table",
    "as",
    "from",
    "select",
    "with",
    "recursive",
    "values",
    "natural",
    "cross",
    "full",
    "left",
    "semi",
    "anti",
    "asof",
    "global",
    "straight_join",
    "using",
    "into",
    "for update",
    "tablesample",
    "secret",
    "log",
    ",",
    ", secret",
    "join secret",
    "(",
    ")",
    "*",
    ".",
    "'",
    "''",
    "\"",
    "`",
    "[",
    "]",
    "--",
    "-- \n",
    "/*",
    "*/",
    "/*! , secret */",
    "/*!50000 , secret */",
    "/*M! , secret */",
    "/**/",
    "#\n",
    "$$",
    "$a$",
    "U&",
    "N",
    "-",
    "@",
    ";",
];

/// Statements made for one misunderstanding each. `{t}` is a table, `{n}` a name, `{k}` a word that builds statements.
const TRICKS: [&str; 44] = [
    "WITH \"{k}\" AS (SELECT 1 AS id, 'x' AS note) SELECT * FROM {k} {t}",
    "WITH `{k}` AS (SELECT 1 AS id, 'x' AS note) SELECT * FROM {k} {t}",
    "WITH {k} AS (SELECT 1 AS id, 'x' AS note) SELECT * FROM {k} {t}",
    "WITH \"{k}\" AS (SELECT * FROM {t}) SELECT * FROM {t}, {k} {t}",
    "WITH {n} AS (SELECT * FROM {t}) SELECT * FROM {n}",
    "WITH \"{n}\" AS (SELECT * FROM {t}) SELECT * FROM {n}",
    "WITH {t} AS (SELECT * FROM {t}) SELECT * FROM {t}",
    "WITH RECURSIVE {t} AS (SELECT id, note FROM {t}) SELECT * FROM {t}",
    "WITH {n} AS (SELECT * FROM {t}), {t} AS (SELECT * FROM {n}) SELECT * FROM {t}",
    "WITH RECURSIVE {n} AS (SELECT * FROM {t}), {t} AS (SELECT 1 AS id, 'x' AS note) SELECT * FROM {n}, {t} AS u",
    "WITH a AS (SELECT * FROM {t}) SELECT * FROM orders",
    "WITH a AS (SELECT * FROM {t}), b AS (SELECT * FROM a) SELECT * FROM a",
    "WITH a AS (SELECT * FROM {t}), A AS (SELECT * FROM log) SELECT * FROM A",
    "SELECT * FROM {k} {t}",
    "SELECT * FROM \"{k}\" {t}",
    "SELECT * FROM {t} {k}",
    "SELECT * FROM {t} AS {t}, {t} AS u",
    "SELECT * FROM {t} AS \"{k}\"",
    "SELECT {t}.id FROM {t} AS {n}",
    "SELECT * FROM '{t}'",
    "SELECT * FROM [{t}]",
    "SELECT * FROM main.{t}",
    "SELECT * FROM public.{t}",
    "SELECT * FROM shop.{t}",
    "SELECT * FROM other.{t}",
    "SELECT \"{t}\" FROM orders",
    "SELECT id AS \"{k}\" FROM {t}",
    "SELECT o.row_to_json FROM {t} AS o",
    "SELECT (o).note FROM {t} AS o",
    "SELECT count(o) FROM {t} AS o",
    "SELECT count(*) FROM {t} WHERE 1 = 0 AND EXISTS (SELECT 1 FROM {t})",
    "SELECT 1 FROM {t} LEFT JOIN {t} AS u ON 1 = 0",
    "SELECT id FROM {t} WHERE EXISTS (WITH {t} AS (SELECT 1) SELECT * FROM {t})",
    "SELECT * FROM (WITH {n} AS (SELECT * FROM {t}) SELECT * FROM {n}) AS u, {t} AS v",
    "SELECT * FROM (SELECT * FROM {t}) AS {t}",
    "SELECT * FROM {t} AS a, LATERAL (SELECT id FROM {t} AS c WHERE c.id = a.id) AS b",
    "TABLE {t}",
    "SELECT id FROM {t} UNION TABLE {t}",
    "VALUES (1), ((SELECT count(*) FROM {t}))",
    "INSERT INTO log WITH {n} AS (SELECT * FROM {t}) SELECT * FROM {n}",
    "INSERT INTO log WITH log AS (SELECT * FROM {t}) SELECT * FROM log",
    "UPDATE log SET note = (SELECT max(note) FROM {t} AS u WHERE u.id = log.id)",
    "UPDATE log SET note = 'x' WHERE id IN (WITH {t} AS (SELECT 1 AS id) SELECT id FROM {t})",
    "DELETE FROM log WHERE id NOT IN (SELECT id FROM {t})",
];

const WORDS: [&str; 12] = [
    "only",
    "ONLY",
    "lateral",
    "table",
    "values",
    "select",
    "natural",
    "rows",
    "dual",
    "unnest",
    "partition",
    "recursive",
];

/// That many statements for a kind of database.
pub fn statements(engine: Engine, seed: u64, many: usize) -> Vec<String> {
    let mut writer =
        Writer { dice: StdRng::seed_from_u64(seed), engine, sources: Vec::new(), defined: Vec::new(), left: 0 };
    (0..many).map(|_| writer.statement()).collect()
}

struct Writer {
    dice: StdRng,
    engine: Engine,
    /// Aliases whose columns may be named.
    sources: Vec<String>,
    /// Names that `WITH` defined.
    defined: Vec<String>,
    /// Subqueries that the statement may still have.
    left: usize,
}

impl Writer {
    fn chance(&mut self, percent: u32) -> bool {
        self.dice.random_range(0..100) < percent
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(&mut self.dice).unwrap()
    }

    fn statement(&mut self) -> String {
        (self.sources, self.defined, self.left) = (Vec::new(), Vec::new(), 4);
        let mut sql = match self.dice.random_range(0..100) {
            0..20 => self.trick(),
            20..26 => {
                let source = self.query();
                format!("INSERT INTO log (id, note) {source}")
            }
            26..32 => {
                self.sources.push("log".to_owned());
                let (value, condition) = (self.text(), self.condition());
                format!("UPDATE log SET note = {value} WHERE {condition}")
            }
            32..38 => {
                self.sources.push("log".to_owned());
                format!("DELETE FROM log WHERE {}", self.condition())
            }
            _ => self.query(),
        };
        if self.chance(40) {
            for _ in 0..self.dice.random_range(1..3) {
                sql = self.damaged(&sql);
            }
        }
        sql
    }

    fn trick(&mut self) -> String {
        let mut sql = self.one(&TRICKS).to_owned();
        for (hole, of) in [("{t}", &TABLES[..]), ("{n}", &NAMES[..]), ("{k}", &WORDS[..])] {
            while sql.contains(hole) {
                let word = self.one(of);
                // A part of a name that stands in quotes there is left as it is.
                let quoted = sql.find(hole).is_some_and(|at| at > 0 && "\"'`[".contains(&sql[at - 1..at]));
                let word = if quoted { word.to_owned() } else { self.spelled(word) };
                sql = sql.replacen(hole, &word, 1);
            }
        }
        sql
    }

    /// A name in one of its spellings.
    fn spelled(&mut self, name: &str) -> String {
        let own = if self.engine == Engine::Postgres { '"' } else { '`' };
        match self.dice.random_range(0..20) {
            _ if name.contains(' ') => format!("{own}{name}{own}"),
            0 => name.to_uppercase(),
            1..=4 => format!("{own}{name}{own}"),
            // Bare it is refused each time.
            _ if name == "only" => format!("{own}{name}{own}"),
            5 => format!("\"{name}\""),
            6 => format!("[{name}]"),
            _ => name.to_owned(),
        }
    }

    fn query(&mut self) -> String {
        if !self.chance(35) || !self.defined.is_empty() {
            return self.body();
        }
        let recursive = self.chance(30);
        let mut parts = Vec::new();
        for _ in 0..self.dice.random_range(1..4) {
            let name = self.one(&NAMES);
            let name = self.spelled(name);
            let mut body = self.body();
            if recursive && self.chance(50) {
                let table = self.table();
                body = format!(
                    "{body} UNION ALL SELECT r.id, q.note FROM {name} AS r JOIN {table} AS q ON r.id = q.id + 1"
                );
            }
            parts.push(format!("{name} AS ({body})"));
            self.defined.push(name);
        }
        let body = self.body();
        format!("WITH {}{} {body}", if recursive { "RECURSIVE " } else { "" }, parts.join(", "))
    }

    /// A query without `WITH`, of the columns `id` and `note`.
    fn body(&mut self) -> String {
        let mut sql = self.select();
        if self.chance(15) {
            let with = self.one(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            sql = format!("{sql} {with} {}", self.select());
        }
        if self.chance(20) {
            sql += " ORDER BY 1";
        }
        if self.chance(15) {
            sql += " LIMIT 3";
        }
        sql
    }

    fn select(&mut self) -> String {
        let outer = self.sources.len();
        let mut from = self.source();
        for _ in 0..self.dice.random_range(0..3) {
            let next = self.source();
            let (left, right) = (self.sources[outer].clone(), self.sources.last().unwrap().clone());
            let on = format!("{left}.id = {right}.id");
            from = match self.dice.random_range(0..7) {
                0 => format!("{from}, {next}"),
                1 => format!("{from} CROSS JOIN {next}"),
                2 => format!("{from} LEFT JOIN {next} ON {on}"),
                3 => format!("{from} RIGHT OUTER JOIN {next} ON {on}"),
                4 => format!("{from} JOIN {next} ON {on} AND 1 = 0"),
                _ => format!("{from} JOIN {next} ON {on}"),
            };
        }
        let alone = self.sources.len() == outer + 1;
        let columns = match self.dice.random_range(0..4) {
            0 if alone => "*".to_owned(),
            1 => format!("{}.id, {}.note", self.sources[outer], self.sources[outer]),
            _ => format!("{} AS id, {} AS note", self.number(), self.text()),
        };
        let mut sql = format!("SELECT {columns} FROM {from}");
        if self.chance(50) {
            sql = format!("{sql} WHERE {}", self.condition());
        }
        self.sources.truncate(outer);
        sql
    }

    /// Something behind FROM, with an alias.
    fn source(&mut self) -> String {
        let alias = if self.chance(6) {
            let name = self.one(&NAMES);
            self.spelled(name)
        } else {
            format!("t{}", self.dice.random_range(0..1000))
        };
        let sql = if self.left > 0 && self.chance(12) {
            self.left -= 1;
            // A subquery behind FROM sees none of its neighbours.
            let seen = std::mem::take(&mut self.sources);
            let body = self.body();
            self.sources = seen;
            format!("({body})")
        } else {
            self.table()
        };
        let sql = format!("{sql} {}{alias}", if self.chance(70) { "AS " } else { "" });
        self.sources.push(alias);
        sql
    }

    fn table(&mut self) -> String {
        match self.defined.last().cloned() {
            Some(last) if self.chance(60) => {
                if self.chance(70) {
                    last
                } else {
                    self.defined.choose(&mut self.dice).unwrap().clone()
                }
            }
            _ => {
                let name = self.one(&TABLES);
                self.spelled(name)
            }
        }
    }

    fn column(&mut self, name: &str) -> String {
        match self.sources.choose(&mut self.dice) {
            Some(source) => format!("{source}.{name}"),
            None => if name == "id" { "1" } else { "'x'" }.to_owned(),
        }
    }

    fn scalar(&mut self, column: &str) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let (table, outer) = (self.table(), self.column("id"));
        let alias = format!("s{}", self.dice.random_range(0..1000));
        let condition = if self.chance(20) { "1 = 0".to_owned() } else { format!("{alias}.id = {outer}") };
        Some(format!("(SELECT max({alias}.{column}) FROM {table} AS {alias} WHERE {condition})"))
    }

    fn number(&mut self) -> String {
        match self.dice.random_range(0..12) {
            0 => "7".to_owned(),
            1 => "- - 1".to_owned(),
            2 => format!("{} + {}", self.column("id"), self.column("id")),
            3 => format!("coalesce({}, 0)", self.column("id")),
            4 => format!("abs({})", self.column("id")),
            5 => format!("length({})", self.column("note")),
            6 => format!("CASE WHEN {} > 1 THEN 1 ELSE 2 END", self.column("id")),
            7 => format!("CAST({} AS DECIMAL)", self.column("id")),
            8 => self.scalar("id").unwrap_or_else(|| "3".to_owned()),
            _ => self.column("id"),
        }
    }

    fn text(&mut self) -> String {
        match self.dice.random_range(0..10) {
            0 => "'o''clock'".to_owned(),
            1 => "'-- /* $$ \" ` secret'".to_owned(),
            2 => format!("upper({})", self.column("note")),
            3 => format!("trim({})", self.column("note")),
            4 => format!("concat({}, 'x')", self.column("note")),
            5 => self.scalar("note").unwrap_or_else(|| "'y'".to_owned()),
            _ => self.column("note"),
        }
    }

    fn condition(&mut self) -> String {
        let sql = match self.dice.random_range(0..10) {
            0 => format!("{} LIKE 'S%'", self.text()),
            1 => format!("{} BETWEEN 1 AND {}", self.number(), self.number()),
            2 => format!("{} IS NOT NULL", self.column("note")),
            3 if self.left > 0 => {
                self.left -= 1;
                format!("EXISTS (SELECT 1 FROM {} AS e WHERE e.id > {})", self.table(), self.column("id"))
            }
            4 if self.left > 0 => {
                self.left -= 1;
                format!("{} IN (SELECT i.id FROM {} AS i)", self.column("id"), self.table())
            }
            5 => "1 = 0".to_owned(),
            _ => format!("{} = {}", self.number(), self.number()),
        };
        if self.chance(15) { format!("{sql} AND {}", self.condition()) } else { sql }
    }

    /// A statement with one change: a word slipped in, left out, doubled, quoted, or in other letters.
    fn damaged(&mut self, sql: &str) -> String {
        let mut words: Vec<String> = sql.split(' ').map(str::to_owned).collect();
        let at = self.dice.random_range(0..words.len());
        match self.dice.random_range(0..9) {
            0..3 => words.insert(at, self.one(&SLIPPED).to_owned()),
            3 => self.one(&SLIPPED).clone_into(&mut words[at]),
            4 => drop(words.remove(at)),
            5 => words.insert(at, words[at].clone()),
            6 => words[at] = words[at].to_uppercase(),
            7 => {
                let quote = self.one(&["\"", "`", "'"]);
                words[at] = format!("{quote}{}{quote}", words[at]);
            }
            _ => {
                let table = self.one(&TABLES);
                words[at] = self.spelled(table);
            }
        }
        words.join(" ")
    }
}
