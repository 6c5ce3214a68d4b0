use super::super::statement::STATEMENT_BYTES;
use super::super::{Engine, STACK_BYTES, understand};

const ALL: [Engine; 3] = [Engine::Sqlite, Engine::Postgres, Engine::Mysql];
/// The size of the largest statement, in bytes.
const LARGEST: usize = STATEMENT_BYTES / 4;
/// The nesting of the largest statement, within the limit of the parser's recursion for most constructs.
const DEEP: usize = 10;

/// Constructs as text before and after the nested one, in a list of expressions.
const EXPRESSIONS: [(&str, &str); 34] = [
    ("(", ")"),
    ("-", ""),
    ("NOT ", ""),
    ("BINARY (", ")"),
    ("coalesce(", ", 1)"),
    ("POSITION(", ")"),
    ("POSITION(", " IN 'a')"),
    ("POSITION('a' IN ", ")"),
    ("CASE ", " WHEN 1 THEN 2 END"),
    ("CASE WHEN 1 THEN ", " ELSE 0 END"),
    ("CASE(", ")"),
    ("CAST(", " AS INT)"),
    ("CAST(CASE(", "))"),
    ("CONVERT(", ", CHAR)"),
    ("EXTRACT(YEAR FROM ", ")"),
    ("SUBSTRING(", " FROM 1 FOR 2)"),
    ("OVERLAY(", " PLACING 'a' FROM 1)"),
    ("TRIM(BOTH 'a' FROM ", ")"),
    ("TRIM(", ")"),
    ("CEIL(", " TO DAY)"),
    ("INTERVAL ", " DAY"),
    ("INTERVAL (", ")"),
    ("DATE (", ")"),
    ("ARRAY[", "]"),
    ("ARRAY(SELECT ", ")"),
    ("a.b(", ")"),
    ("{fn a(", ")}"),
    ("(x -> ", ")"),
    ("a IN (", ")"),
    ("a IN ((SELECT ", " FROM t) + 1)"),
    ("(SELECT ", " FROM t)"),
    ("EXISTS(SELECT ", " FROM t)"),
    ("count(*) FILTER (WHERE ", ")"),
    ("sum(a) OVER (PARTITION BY ", ")"),
];

/// Constructs in the place of a table.
const TABLES: [(&str, &str); 6] = [
    ("(", ")"),
    ("(", " JOIN u)"),
    ("((SELECT 1) AS b JOIN ", ")"),
    ("(SELECT * FROM ", ") AS a"),
    ("((SELECT * FROM ", ") AS a JOIN u)"),
    ("LATERAL (SELECT * FROM ", ") AS a"),
];

/// Returns statements of at most this size, each full of one construct, as deeply nested as its size is part of the
/// largest.
fn statements(size: usize) -> Vec<String> {
    let nested = |(before, after): (&str, &str), inner: &str, start: &str, end: &str| {
        let depth = (size * DEEP / LARGEST).max(1);
        let one = [&*before.repeat(depth), inner, &*after.repeat(depth)].concat();
        let many = (size.saturating_sub(start.len() + end.len()) / (one.len() + 2)).max(1);
        [start, &vec![one; many].join(", "), end].concat()
    };
    let expressions = EXPRESSIONS.iter().map(|construct| nested(*construct, "x", "SELECT ", " FROM t"));
    let tables = TABLES.iter().map(|construct| nested(*construct, "t", "SELECT * FROM ", ""));
    let withs = nested(("WITH a AS (", ") SELECT 1 FROM a"), "SELECT 1 FROM t", "", "");
    let unfinished = EXPRESSIONS.iter().map(|(before, _)| nested((before, ""), "x", "SELECT ", ""));
    expressions.chain(tables).chain([withs]).chain(unfinished).collect()
}

#[test]
fn nested_constructs_cost_in_proportion_to_the_statement() {
    cost::grows_linearly(LARGEST / 8, statements, |statements| {
        for statement in statements {
            for engine in ALL {
                drop(understand(engine, &statement, 10));
            }
        }
    });
}

/// Returns the error for a statement, read on a stack like that of the tools.
fn error(engine: Engine, sql: String) -> Option<String> {
    let reading = move || understand(engine, &sql, 10).err();
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(reading).unwrap().join().unwrap()
}

#[test]
fn a_statement_with_too_many_readings_is_refused_and_usual_nesting_is_not() {
    let nested = |before: &str, after: &str, depth| {
        format!("SELECT {}a{} FROM t", str::repeat(before, depth), str::repeat(after, depth))
    };
    for engine in ALL {
        let refusal = error(engine, nested("POSITION(", ")", 15));
        assert_eq!(
            refusal.as_deref(),
            Some("the statement has too many possible readings: nest it less"),
            "{engine:?}"
        );
        assert_eq!(error(engine, nested("coalesce(", ", 1)", 15)), None, "{engine:?}");
    }
    for sql in ["SELECT INTERVAL(a, 2) FROM t", "SELECT b + INTERVAL (a + 1) DAY FROM t", &nested("BINARY ", "", 3)] {
        let refusal = error(Engine::Mysql, sql.to_owned());
        assert!(!refusal.is_some_and(|refusal| refusal.contains("readings")), "{sql}");
    }
}
